//! `$(( ))`: integers of 64 bits that wrap, evaluated while they are read.

use crate::shell::{Outcome, Shell, Value, fail};

/// Variables whose values are expressions, and parentheses, one in another.
const MAX_DEPTH: u32 = 60;

/// Binary operators and how tightly they bind; longer ones first.
const BINARY: [(&str, u8); 19] = [
    ("**", 12),
    ("<<", 9),
    (">>", 9),
    ("<=", 8),
    (">=", 8),
    ("==", 7),
    ("!=", 7),
    ("&&", 3),
    ("||", 2),
    ("*", 11),
    ("/", 11),
    ("%", 11),
    ("+", 10),
    ("-", 10),
    ("<", 8),
    (">", 8),
    ("&", 6),
    ("^", 5),
    ("|", 4),
];

/// Evaluates a text that expansions may have made. In a declared tool it assigns nothing, since an argument may be in it.
pub fn evaluate(shell: &mut Shell, text: &str) -> Outcome<i64> {
    let may_assign = !shell.is_declared;
    evaluate_at(shell, text, may_assign, 0)
}

/// Evaluates a text that stands in the script as it is.
pub fn evaluate_literal(shell: &mut Shell, text: &str) -> Outcome<i64> {
    evaluate_at(shell, text, true, 0)
}

fn evaluate_at(shell: &mut Shell, text: &str, may_assign: bool, depth: u32) -> Outcome<i64> {
    let signs = text.chars().filter(|sign| *sign != '"').collect();
    let mut evaluation = Evaluation { shell, signs, position: 0, depth, skips: 0, may_assign };
    evaluation.blanks();
    if evaluation.signs.len() == evaluation.position {
        return Ok(0);
    }
    let value = evaluation.comma()?;
    evaluation.blanks();
    if evaluation.position < evaluation.signs.len() {
        return evaluation.error();
    }
    Ok(value)
}

struct Evaluation<'s> {
    shell: &'s mut Shell,
    signs: Vec<char>,
    position: usize,
    depth: u32,
    /// Greater than zero in an operand that is read but not evaluated.
    skips: u32,
    /// Whether assignments count.
    may_assign: bool,
}

/// A variable, or an entry of an array.
struct Place {
    name: String,
    subscript: Option<String>,
}

impl Evaluation<'_> {
    fn error<T>(&self) -> Outcome<T> {
        let rest: String = self.signs[self.position.min(self.signs.len())..].iter().collect();
        let whole: String = self.signs.iter().collect();
        fail(format!("{}: arithmetic syntax error (error token is \"{rest}\")", whole.trim()))
    }

    fn blanks(&mut self) {
        while self.signs.get(self.position).is_some_and(|sign| sign.is_whitespace()) {
            self.position += 1;
        }
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, sign)| self.signs.get(self.position + offset) == Some(&sign))
    }

    fn take(&mut self, text: &str) -> bool {
        self.blanks();
        let found = self.looking_at(text);
        self.position += if found { text.len() } else { 0 };
        found
    }

    fn comma(&mut self) -> Outcome<i64> {
        let mut value = self.assignment()?;
        while self.take(",") {
            value = self.assignment()?;
        }
        Ok(value)
    }

    fn assignment(&mut self) -> Outcome<i64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail("expression recursion level exceeded");
        }
        let start = self.position;
        if let Some(place) = self.place()? {
            self.blanks();
            for operator in ["<<=", ">>=", "*=", "/=", "%=", "+=", "-=", "&=", "^=", "|=", "="] {
                if self.looking_at(operator) && !(operator == "=" && self.looking_at("==")) {
                    self.position += operator.len();
                    let right = self.assignment()?;
                    let value = match operator {
                        "=" => right,
                        _ if self.skips > 0 => 0,
                        _ => apply(&operator[..operator.len() - 1], self.value(&place)?, right)?,
                    };
                    self.store(&place, value)?;
                    self.depth -= 1;
                    return Ok(value);
                }
            }
        }
        self.position = start;
        let value = self.conditional()?;
        self.depth -= 1;
        Ok(value)
    }

    fn conditional(&mut self) -> Outcome<i64> {
        let condition = self.binary(0)?;
        if !self.take("?") {
            return Ok(condition);
        }
        let left = self.maybe(condition != 0, Self::assignment)?;
        if !self.take(":") {
            return self.error();
        }
        let right = self.maybe(condition == 0, Self::assignment)?;
        Ok(if condition != 0 { left } else { right })
    }

    /// Reads an operand, and evaluates it where it counts.
    fn maybe(&mut self, counts: bool, read: impl FnOnce(&mut Self) -> Outcome<i64>) -> Outcome<i64> {
        self.skips += u32::from(!counts);
        let value = read(self);
        self.skips -= u32::from(!counts);
        value
    }

    fn binary(&mut self, least: u8) -> Outcome<i64> {
        let mut left = self.unary()?;
        loop {
            self.blanks();
            let found = BINARY.into_iter().find(|(operator, _)| self.looking_at(operator));
            let Some((operator, strength)) = found.filter(|(_, strength)| *strength >= least) else {
                return Ok(left);
            };
            let next = self.signs.get(self.position + operator.len());
            if next == Some(&'=') && !matches!(operator, "<=" | ">=" | "==" | "!=" | "<" | ">" | "&&" | "||")
            {
                return Ok(left);
            }
            self.position += operator.len();
            left = match operator {
                "&&" => i64::from(self.maybe(left != 0, |this| this.binary(strength + 1))? != 0 && left != 0),
                "||" => i64::from(self.maybe(left == 0, |this| this.binary(strength + 1))? != 0 || left != 0),
                "**" => apply(operator, left, self.binary(strength)?)?,
                _ => {
                    let right = self.binary(strength + 1)?;
                    if self.skips > 0 { 0 } else { apply(operator, left, right)? }
                }
            };
        }
    }

    fn unary(&mut self) -> Outcome<i64> {
        self.blanks();
        for (sign, change) in [("++", 1_i64), ("--", -1)] {
            if self.looking_at(sign) {
                let start = self.position;
                self.position += 2;
                if let Some(place) = self.place()? {
                    let value = self.value(&place)?.wrapping_add(change);
                    self.store(&place, value)?;
                    return Ok(value);
                }
                self.position = start;
            }
        }
        let sign = self.signs.get(self.position).copied();
        if !matches!(sign, Some('-' | '+' | '!' | '~')) {
            return self.primary();
        }
        self.position += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fail("expression recursion level exceeded");
        }
        let value = self.unary()?;
        self.depth -= 1;
        Ok(match sign {
            Some('-') => value.wrapping_neg(),
            Some('!') => i64::from(value == 0),
            Some('~') => !value,
            _ => value,
        })
    }

    fn primary(&mut self) -> Outcome<i64> {
        if self.take("(") {
            let value = self.comma()?;
            return if self.take(")") { Ok(value) } else { self.error() };
        }
        if self.signs.get(self.position).is_some_and(char::is_ascii_digit) {
            return self.number();
        }
        let Some(place) = self.place()? else { return self.error() };
        let value = self.value(&place)?;
        for (sign, change) in [("++", 1_i64), ("--", -1)] {
            if self.looking_at(sign) {
                self.position += 2;
                self.store(&place, value.wrapping_add(change))?;
            }
        }
        Ok(value)
    }

    fn number(&mut self) -> Outcome<i64> {
        let rest = &self.signs[self.position..];
        let length = rest
            .iter()
            .position(|sign| !sign.is_ascii_alphanumeric() && !"#@_".contains(*sign))
            .unwrap_or(rest.len());
        let text: String = rest[..length].iter().collect();
        let parsed = if let Some((base, digits)) = text.split_once('#') {
            base.parse()
                .ok()
                .filter(|base| (2..=36).contains(base))
                .and_then(|base| i64::from_str_radix(digits, base).ok())
        } else if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
        } else if text.len() > 1 && text.starts_with('0') {
            i64::from_str_radix(&text, 8).ok()
        } else {
            text.parse().ok()
        };
        match parsed {
            Some(value) => {
                self.position += length;
                Ok(value)
            }
            None => fail(format!("{text}: value too great for base, or no number")),
        }
    }

    fn place(&mut self) -> Outcome<Option<Place>> {
        self.blanks();
        let rest = &self.signs[self.position..];
        if !rest.first().is_some_and(|sign| *sign == '_' || sign.is_ascii_alphabetic()) {
            return Ok(None);
        }
        let length =
            rest.iter().position(|sign| *sign != '_' && !sign.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = rest[..length].iter().collect();
        self.position += length;
        if !self.looking_at("[") {
            return Ok(Some(Place { name, subscript: None }));
        }
        let rest = &self.signs[self.position + 1..];
        let mut depth = 1;
        let end = rest.iter().position(|sign| {
            depth += i32::from(*sign == '[') - i32::from(*sign == ']');
            depth == 0
        });
        let Some(end) = end else { return self.error() };
        let subscript = Some(rest[..end].iter().collect());
        self.position += end + 2;
        Ok(Some(Place { name, subscript }))
    }

    fn value(&mut self, place: &Place) -> Outcome<i64> {
        if self.skips > 0 {
            return Ok(0);
        }
        let text = match &place.subscript {
            Some(subscript) => self.shell.entry(&place.name, subscript)?,
            None => crate::expand::special(self.shell, &place.name)
                .or_else(|| self.shell.get(&place.name).map(str::to_owned)),
        };
        match text {
            None if self.shell.state.options.refuses_unset => {
                fail(format!("{}: unbound variable", place.name))
            }
            None => Ok(0),
            Some(text) => match text.trim().parse() {
                Ok(number) if !text.trim().starts_with('0') || text.trim() == "0" => Ok(number),
                // The value may be an argument, which is never parsed.
                _ if self.shell.is_declared => fail(format!("{}: no whole number", place.name)),
                _ if self.depth > MAX_DEPTH / 2 => fail("expression recursion level exceeded"),
                _ => evaluate_at(self.shell, &text, self.may_assign, self.depth + 1),
            },
        }
    }

    fn store(&mut self, place: &Place, value: i64) -> Outcome<()> {
        if self.skips > 0 {
            return Ok(());
        }
        if !self.may_assign {
            return fail(format!(
                "{}: no assignment beside an expansion: write the name without `$`",
                place.name
            ));
        }
        match &place.subscript {
            Some(subscript) => self.shell.set_entry(&place.name, subscript, value.to_string(), false),
            None => self.shell.set(&place.name, value.to_string()),
        }
    }
}

fn apply(operator: &str, left: i64, right: i64) -> Outcome<i64> {
    let shift = u32::try_from(right & 63).unwrap_or_default();
    Ok(match operator {
        "*" => left.wrapping_mul(right),
        "/" | "%" if right == 0 => return fail("division by 0 (error token is \"0\")"),
        "/" => left.wrapping_div(right),
        "%" => left.wrapping_rem(right),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "<<" => left.wrapping_shl(shift),
        ">>" => left.wrapping_shr(shift),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "&" => left & right,
        "^" => left ^ right,
        "|" => left | right,
        _ if right < 0 => return fail("exponent less than 0 (error token is \"0\")"),
        _ => left.wrapping_pow(u32::try_from(right).unwrap_or(u32::MAX)),
    })
}

impl Shell {
    /// An entry of an array.
    pub fn entry(&mut self, name: &str, subscript: &str) -> Outcome<Option<String>> {
        match self.variable(name).and_then(|variable| variable.value.as_ref()) {
            Some(Value::Map(map)) => Ok(map.get(subscript).cloned()),
            None => Ok(None),
            Some(_) => {
                let index = self.index(name, subscript)?;
                Ok(match self.variable(name).and_then(|variable| variable.value.as_ref()) {
                    Some(Value::List(list)) => list.get(&index).cloned(),
                    Some(Value::Text(text)) if index == 0 => Some(text.clone()),
                    _ => None,
                })
            }
        }
    }

    /// The index that a subscript means; a negative one counts from the end.
    pub fn index(&mut self, name: &str, subscript: &str) -> Outcome<usize> {
        let index = evaluate(self, subscript)?;
        let end = match self.variable(name).and_then(|variable| variable.value.as_ref()) {
            Some(Value::List(list)) => list.last_key_value().map_or(0, |(last, _)| last + 1),
            Some(_) => 1,
            None => 0,
        };
        let index = if index < 0 { i64::try_from(end).unwrap_or(i64::MAX) + index } else { index };
        usize::try_from(index).or_else(|_| fail(format!("{name}[{subscript}]: bad array subscript")))
    }

    pub fn set_entry(&mut self, name: &str, subscript: &str, value: String, appends: bool) -> Outcome<()> {
        self.writable(name)?;
        let is_map =
            matches!(self.variable(name).and_then(|variable| variable.value.as_ref()), Some(Value::Map(_)));
        let index = if is_map { 0 } else { self.index(name, subscript)? };
        let variable = self.variable_mut(name);
        if let Some(Value::Text(text)) = &variable.value {
            variable.value = Some(Value::List([(0, text.clone())].into()));
        }
        let entry = match variable.value.get_or_insert_with(|| Value::List([].into())) {
            Value::Map(map) => map.entry(subscript.to_owned()).or_default(),
            Value::List(list) => list.entry(index).or_default(),
            Value::Text(text) => text,
        };
        if appends {
            entry.push_str(&value);
        } else {
            *entry = value;
        }
        Ok(())
    }
}
