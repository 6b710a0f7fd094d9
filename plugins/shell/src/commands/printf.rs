//! `printf`, whose formats awk uses too.

use std::iter::Peekable;

use crate::call::Call;
use crate::escape::{self, Kind};
use crate::shell::{Outcome, Stop, fail};

/// The largest width and precision.
const MAX_WIDTH: usize = 65_535;

pub fn printf(call: &mut Call<'_>) -> Outcome {
    let mut arguments = call.arguments;
    let mut variable = None;
    if let [flag, name, rest @ ..] = arguments
        && flag == "-v"
    {
        (variable, arguments) = (Some(name), rest);
    }
    if arguments.first().is_some_and(|argument| argument == "--") {
        arguments = &arguments[1..];
    }
    let Some((format, values)) = arguments.split_first() else {
        return Err(Stop::Fail(2, "usage: printf [-v var] format [arguments]".to_owned()));
    };
    let mut text = String::new();
    let mut values = values.iter();
    let mut status = 0;
    loop {
        let before = values.len();
        let is_ended = format_once(call, format, &mut values, &mut text, &mut status)?;
        if is_ended || values.len() == 0 || values.len() == before {
            break;
        }
    }
    match variable {
        Some(name) => match name.split_once('[') {
            Some((name, key)) => call.shell.set_entry(name, key.trim_end_matches(']'), text, false)?,
            None => call.shell.set(name, text)?,
        },
        None => call.out(text)?,
    }
    Ok(status)
}

fn format_once(
    call: &mut Call<'_>,
    format: &str,
    values: &mut std::slice::Iter<'_, String>,
    text: &mut String,
    status: &mut i32,
) -> Outcome<bool> {
    let (mut rest, ends) = escape::decode(format, Kind::Format);
    while let Some(start) = rest.find('%') {
        text.push_str(&rest[..start]);
        rest = rest.split_off(start);
        let Some((spec, length)) =
            Spec::parse(&rest, || values.next().and_then(|value| value.parse().ok()).unwrap_or(0))
        else {
            return fail(format!("`{rest}`: invalid format"));
        };
        rest = rest.split_off(length);
        let value = if spec.kind == '%' { None } else { values.next() };
        let word = value.map_or("", String::as_str);
        match spec.kind {
            '%' => text.push('%'),
            'b' => {
                let (decoded, is_ended) = escape::decode(word, Kind::Echo);
                text.push_str(&spec.text(&decoded));
                if is_ended {
                    return Ok(true);
                }
            }
            _ => {
                let (converted, is_valid) = convert(&spec, word)?;
                text.push_str(&converted);
                if !is_valid {
                    call.io.errors.write(format!("printf: {word}: invalid number\n").as_bytes())?;
                    *status = 1;
                }
            }
        }
    }
    text.push_str(&rest);
    Ok(ends)
}

/// A word in a conversion, and false if the conversion needs a number and the word is none.
fn convert(spec: &Spec, word: &str) -> Outcome<(String, bool)> {
    let text = match spec.kind {
        's' => spec.text(word),
        'q' => spec.text(&quote(word)),
        'c' => spec.text(&word.chars().take(1).collect::<String>()),
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let (number, is_valid) = integer(word);
            return Ok((spec.integer(number), is_valid));
        }
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let number = word.trim().parse();
            return Ok((spec.float(*number.as_ref().unwrap_or(&0.0)), number.is_ok() || word.is_empty()));
        }
        '(' => super::date::format_seconds(&spec.time, word)?,
        kind => {
            return fail(format!(
                "`%{kind}` is not supported by this shell: %s %b %q %c %d %i %u %x %X %o %f %e %g are"
            ));
        }
    };
    Ok((text, true))
}

fn quote(word: &str) -> String {
    if word.is_empty() {
        return "''".to_owned();
    }
    if word.chars().any(char::is_control) {
        return format!(
            "$'{}'",
            word.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\t', "\\t")
        );
    }
    let mut quoted = String::new();
    for sign in word.chars() {
        if !sign.is_alphanumeric() && !"_-./:=@%+".contains(sign) {
            quoted.push('\\');
        }
        quoted.push(sign);
    }
    quoted
}

/// A number as C writes it, or a quote and a sign for the sign's code.
fn integer(word: &str) -> (i64, bool) {
    let word = word.trim();
    if word.is_empty() {
        return (0, true);
    }
    if let Some(sign) = word.strip_prefix(['\'', '"']) {
        return (sign.chars().next().map_or(0, |sign| i64::from(u32::from(sign))), true);
    }
    let (is_negative, digits) =
        word.strip_prefix('-').map_or((false, word.trim_start_matches('+')), |digits| (true, digits));
    let (radix, digits) =
        if let Some(digits) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            (16, digits)
        } else if digits.len() > 1 && digits.starts_with('0') {
            (8, &digits[1..])
        } else {
            (10, digits)
        };
    let length = digits.find(|sign: char| !sign.is_digit(radix)).unwrap_or(digits.len());
    let number = i64::from_str_radix(&digits[..length], radix);
    let is_valid = length == digits.len() && number.is_ok();
    let number = number.unwrap_or_default();
    (if is_negative { -number } else { number }, is_valid)
}

/// A conversion, such as `%-10.3f`.
#[derive(Debug, Default)]
pub struct Spec {
    pub kind: char,
    is_left: bool,
    has_zeros: bool,
    has_plus: bool,
    has_space: bool,
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// The format of `%(…)T`
    time: String,
}

impl Spec {
    /// Parses a conversion at the start of a text. `star` returns the argument for a `*`.
    pub fn parse(text: &str, mut star: impl FnMut() -> i64) -> Option<(Self, usize)> {
        let mut spec = Self::default();
        let mut signs = text.char_indices().skip(1).peekable();
        while let Some((_, sign)) = signs.next_if(|(_, sign)| "-+ 0#'".contains(*sign)) {
            match sign {
                '-' => spec.is_left = true,
                '+' => spec.has_plus = true,
                ' ' => spec.has_space = true,
                '0' => spec.has_zeros = true,
                '#' => spec.is_alternate = true,
                _ => {}
            }
        }
        if signs.next_if(|(_, sign)| *sign == '*').is_some() {
            let width = star();
            spec.is_left |= width < 0;
            spec.width = usize::try_from(width.unsigned_abs()).unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
        }
        spec.width = limited_number(&mut signs, spec.width);
        if signs.next_if(|(_, sign)| *sign == '.').is_some() {
            let mut precision = 0;
            if signs.next_if(|(_, sign)| *sign == '*').is_some() {
                precision = usize::try_from(star()).unwrap_or(0);
            }
            spec.precision = Some(limited_number(&mut signs, precision).min(MAX_WIDTH));
        }
        while signs.next_if(|(_, sign)| "lhjzL".contains(*sign)).is_some() {}
        let (index, kind) = signs.next()?;
        spec.kind = kind;
        if kind == '(' {
            let inside = &text[index + 1..];
            let end = inside.find(")T")?;
            spec.time = inside[..end].to_owned();
            return Some((spec, index + 1 + end + 2));
        }
        Some((spec, index + kind.len_utf8()))
    }

    fn pad(&self, text: String, prefix: usize) -> String {
        let length = text.chars().count();
        if length >= self.width {
            return text;
        }
        let missing = self.width - length;
        if self.is_left {
            return text + &" ".repeat(missing);
        }
        if prefix < usize::MAX && self.has_zeros {
            return format!("{}{}{}", &text[..prefix], "0".repeat(missing), &text[prefix..]);
        }
        " ".repeat(missing) + &text
    }

    pub fn text(&self, text: &str) -> String {
        let text = match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        };
        self.pad(text, usize::MAX)
    }

    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.has_plus, self.has_space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    pub fn integer(&self, number: i64) -> String {
        let (sign, mut digits) = match self.kind {
            'x' => (if self.is_alternate { "0x" } else { "" }, format!("{number:x}")),
            'X' => (if self.is_alternate { "0X" } else { "" }, format!("{number:X}")),
            'o' => (if self.is_alternate { "0" } else { "" }, format!("{number:o}")),
            'u' => ("", number.cast_unsigned().to_string()),
            _ => (self.sign(number < 0), number.unsigned_abs().to_string()),
        };
        if let Some(least) = self.precision {
            digits = format!("{digits:0>least$}");
        }
        let prefix = if self.precision.is_some() { usize::MAX } else { sign.len() };
        self.pad(format!("{sign}{digits}"), prefix)
    }

    pub fn float(&self, number: f64) -> String {
        let sign = self.sign(number.is_sign_negative() && !number.is_nan());
        let value = number.abs();
        if !value.is_finite() {
            return self.pad(format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" }), usize::MAX);
        }
        let precision = self.precision.unwrap_or(6);
        let digits = match self.kind {
            'e' | 'E' => exponential(value, precision),
            'g' | 'G' => general(value, precision, self.is_alternate),
            _ => format!("{value:.precision$}"),
        };
        let digits = if self.kind.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        self.pad(format!("{sign}{digits}"), sign.len())
    }
}

/// Reads digits behind a number, up to the largest width.
fn limited_number(signs: &mut Peekable<impl Iterator<Item = (usize, char)>>, mut number: usize) -> usize {
    while let Some((_, digit)) = signs.next_if(|(_, sign)| sign.is_ascii_digit()) {
        number = (number * 10 + digit.to_digit(10).unwrap_or(0) as usize).min(MAX_WIDTH);
    }
    number
}

fn exponential(value: f64, precision: usize) -> String {
    let written = format!("{value:.precision$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// `%g`: so many significant digits, without zeros at the end.
pub fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let precision = precision.max(1);
    let written = exponential(value, precision - 1);
    let exponent: i32 = written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let limit = i32::try_from(precision).unwrap_or(i32::MAX);
    let trim = |text: &str| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= limit {
        let (digits, exponent) = written.split_once('e').unwrap_or((&written, "+00"));
        return format!("{}e{exponent}", trim(digits));
    }
    let decimals = usize::try_from(limit - 1 - exponent).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}
