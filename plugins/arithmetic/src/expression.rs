//! Parses and calculates an expression in one pass, by precedence climbing, so that each error knows its place.

use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::functions;
use crate::number::{Failure, MAX_NUMBER_DIGITS, Number, Outcome, impossible};
use crate::work::Work;

/// Deeper nesting would exhaust the stack.
const MAX_DEPTH: u32 = 100;

/// The signs, as people write them and as the grammar names them. Longer ones first.
const SIGNS: [(&str, &str); 16] = [
    ("**", "^"),
    ("//", "//"),
    ("+", "+"),
    ("-", "-"),
    ("−", "-"),
    ("*", "*"),
    ("×", "*"),
    ("·", "*"),
    ("/", "/"),
    ("÷", "/"),
    ("%", "%"),
    ("^", "^"),
    ("!", "!"),
    ("(", "("),
    (")", ")"),
    (",", ","),
];

// How tightly operators bind.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGNED: u8 = 3;
const POWER: u8 = 4;

/// Calculates the expression.
pub fn evaluate(text: &str, work: &Work) -> Outcome {
    let mut parser = Parser { text, at: 0, depth: 0, work };
    let result = parser.expression(SUM)?;
    match parser.peek() {
        Token::End => Ok(result.number),
        _ => Err(parser.unexpected_token("an operator or the end")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'t> {
    /// A number: begins with a digit or a point.
    Number(&'t str),
    Name(&'t str),
    /// As written, and as the grammar names it.
    Sign(&'t str, &'static str),
    Unknown(char),
    End,
}

struct Parser<'t, 'w> {
    text: &'t str,
    /// Counted in bytes.
    at: usize,
    depth: u32,
    work: &'w Work,
}

/// A part of the expression, and whether it is nothing but a percentage.
struct Term {
    number: Number,
    is_percentage: bool,
}

impl From<Number> for Term {
    fn from(number: Number) -> Self {
        Self { number, is_percentage: false }
    }
}

impl<'t> Parser<'t, '_> {
    /// Reads operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Outcome<Term> {
        let mut left = self.signed_term()?;
        loop {
            let Token::Sign(written, sign) = self.peek() else { return Ok(left) };
            let binding = match sign {
                "+" | "-" => SUM,
                "*" | "/" | "//" | "%" => PRODUCT,
                "^" => POWER,
                _ => return Ok(left),
            };
            if binding < least {
                return Ok(left);
            }
            let place = self.place();
            self.at += written.len();
            // Powers are taken from the right, and all else from the left.
            let right = match binding {
                POWER => self.deeper(|parser| parser.expression(SIGNED))?,
                _ => self.expression(binding + 1)?,
            };
            left = self.combine(left, sign, right, place)?;
        }
    }

    fn combine(&self, left: Term, sign: &str, right: Term, place: usize) -> Outcome<Term> {
        let (number, other, work) = (left.number, right.number, self.work);
        let is_sum = matches!(sign, "+" | "-");
        // Of 1, a percentage is what it is alone, so both readings of `1 + 5%` are 1.05.
        if is_sum
            && right.is_percentage
            && !left.is_percentage
            && !number.as_whole().is_some_and(IBig::is_one)
        {
            let message =
                "a percentage of what? Write `100 * 115%` for 15% more, or `100 + (15%)` for 100.15";
            return Err(wrong(place, message));
        }
        let result = match sign {
            "+" => number.add(&other, work),
            "-" => number.subtract(&other, work),
            "*" => number.multiply(&other, work),
            "/" => number.divide(&other, work),
            "//" => number.divide(&other, work).and_then(|quotient| quotient.round(RBig::floor, 0, work)),
            "%" => number.remainder(&other, work),
            _ => number.power(&other, work),
        };
        let is_percentage = is_sum && left.is_percentage && right.is_percentage;
        Ok(Term { number: at(place, result)?, is_percentage })
    }

    fn signed_term(&mut self) -> Outcome<Term> {
        let Token::Sign(written, sign @ ("+" | "-")) = self.peek() else { return self.postfix() };
        self.at += written.len();
        let term = self.deeper(|parser| parser.expression(SIGNED))?;
        Ok(if sign == "-" { Term { number: term.number.negate(), ..term } } else { term })
    }

    fn postfix(&mut self) -> Outcome<Term> {
        let mut term = Term::from(self.primary()?);
        loop {
            let is_apart = self.text[self.at..].starts_with(char::is_whitespace);
            let sign = self.peek();
            let place = self.place();
            match sign {
                Token::Sign(_, "!") => {
                    self.at += 1;
                    if matches!(self.peek(), Token::Sign(_, "!")) {
                        let message = "`!!` has two meanings: write `(n!)!` for a factorial of a factorial";
                        return Err(wrong(place, message));
                    }
                    term = at(place, term.number.factorial(self.work))?.into();
                }
                Token::Sign(_, "%") if self.is_percent_sign(is_apart)? => {
                    self.at += 1;
                    let number = at(place, term.number.divide(&Number::whole(100), self.work))?;
                    term = Term { number, is_percentage: true };
                }
                _ => return Ok(term),
            }
        }
    }

    fn primary(&mut self) -> Outcome {
        let token = self.peek();
        let place = self.place();
        match token {
            Token::Number(written) => {
                self.at += written.len();
                at(place, read_number(written, self.work))
            }
            Token::Name(name) => {
                self.at += name.len();
                self.function(&name.to_lowercase(), place)
            }
            Token::Sign(_, "(") => {
                self.at += 1;
                let inner = self.deeper(|parser| parser.expression(SUM))?;
                self.close(place)?;
                Ok(inner.number)
            }
            _ => Err(self.unexpected_token("a number, a function or `(`")),
        }
    }

    fn function(&mut self, name: &str, place: usize) -> Outcome {
        if !self.take("(") {
            if let Some(constant) = functions::constant(name, self.work) {
                return at(place, constant);
            }
            let known = functions::KNOWN;
            return Err(wrong(
                place,
                format!("`{name}` has no value: functions are called as in `sqrt(2)`, and there are {known}"),
            ));
        }
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.deeper(|parser| parser.expression(SUM))?.number);
                if !self.take(",") {
                    break self.close(place)?;
                }
            }
        }
        let unknown = || Err(impossible(format!("there is no function `{name}`, but {}", functions::KNOWN)));
        at(place, functions::call(name, &arguments, self.work).unwrap_or_else(unknown))
    }

    fn close(&mut self, opened_at: usize) -> Outcome<()> {
        if self.take(")") {
            return Ok(());
        }
        Err(self.unexpected_token(&format!("`)` for what began at character {opened_at}")))
    }

    /// `%` is a remainder between two operands with a space on both sides, else a percentage. Before a sign both could be
    /// meant, and the space decides as it does for a reader: `10% - 5` and `7 % -3`. A sign that a reader could take for either
    /// is refused.
    fn is_percent_sign(&mut self, is_apart: bool) -> Outcome<bool> {
        let place = self.place();
        let mut behind = Parser { text: self.text, at: self.at + 1, depth: 0, work: self.work };
        let is_next_apart = self.text[behind.at..].starts_with(char::is_whitespace);
        match behind.peek() {
            Token::Number(_) | Token::Name(_) | Token::Sign(_, "(") if is_apart && is_next_apart => Ok(false),
            Token::Number(_) | Token::Name(_) | Token::Sign(_, "(") => Err(wrong(
                place,
                "`%` has two meanings here: write `50% * 80` for 50% of 80, or `50 % 80` with spaces for the remainder",
            )),
            Token::Sign(_, minus @ ("+" | "-")) if !is_apart && !is_next_apart => Err(wrong(
                place,
                format!(
                    "`%` has two meanings here: write `5% {minus} 2` with spaces for a percentage, or `5 % {minus}2` for \
                     the remainder"
                ),
            )),
            Token::Sign(_, "+" | "-") => Ok(!is_apart),
            Token::Sign(_, "%") if !is_next_apart => Err(wrong(
                place,
                "`%%` has two meanings: write `(10%) % 3` for the remainder of a percentage, or `10 % 3` for that of the number",
            )),
            _ => Ok(true),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth == MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} deep: calculate its parts");
            return Err(wrong(self.place(), message));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// The next token, after spaces, which are passed.
    fn peek(&mut self) -> Token<'t> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let until = |is_end: fn(char) -> bool| &rest[..rest.find(is_end).unwrap_or(rest.len())];
        match rest.chars().next() {
            None => Token::End,
            Some('0'..='9' | '.') => Token::Number(&rest[..number_length(rest)]),
            Some(first) if first.is_alphabetic() || first == '_' => {
                Token::Name(until(|c| !c.is_alphanumeric() && c != '_'))
            }
            Some(first) => match SIGNS.iter().find(|(written, _)| rest.starts_with(written)) {
                Some((written, sign)) => Token::Sign(written, sign),
                None => Token::Unknown(first),
            },
        }
    }

    /// Passes the next token, if it is this sign.
    fn take(&mut self, sign: &str) -> bool {
        match self.peek() {
            Token::Sign(written, found) if found == sign => {
                self.at += written.len();
                true
            }
            _ => false,
        }
    }

    /// The place in characters, counted from 1.
    fn place(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn unexpected_token(&mut self, expected: &str) -> Failure {
        let found = match self.peek() {
            Token::End => {
                return wrong(self.place(), format!("the expression ends where {expected} is expected"));
            }
            Token::Unknown(sign) => {
                let sign = sign.escape_debug();
                let message = "means nothing here: use digits, + - * / // % ^ ! ( ) and names of functions";
                return wrong(self.place(), format!("`{sign}` {message}"));
            }
            Token::Sign(_, ",") => "`,` (numbers are written without it: `1_000` or `1000`)".to_owned(),
            Token::Number(_) => "a number".to_owned(),
            Token::Name(written) | Token::Sign(_, written) => format!("`{written}`"),
        };
        wrong(self.place(), format!("found {found} where {expected} is expected"))
    }
}

fn wrong(place: usize, message: impl std::fmt::Display) -> Failure {
    impossible(format!("at character {place}: {message}"))
}

fn at(place: usize, outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| match failure {
        Failure::Impossible(message) => wrong(place, message),
        Failure::Undecided(message) => Failure::Undecided(format!("at character {place}: {message}")),
        Failure::TooMuchWork => Failure::TooMuchWork,
    })
}

/// Digits, points, and an exponent if there is one.
fn number_length(text: &str) -> usize {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let length = text.find(|c: char| !is_digit(c) && c != '.').unwrap_or(text.len());
    let Some(exponent) = text[length..].strip_prefix(['e', 'E']) else { return length };
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let sign = exponent.len() - unsigned.len();
    if digits == 0 { length } else { length + 1 + sign + digits }
}

fn read_number(written: &str, work: &Work) -> Outcome {
    let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
    let most = MAX_NUMBER_DIGITS as usize;
    let is_short = exponent.parse::<i32>().is_ok_and(|exponent| exponent.unsigned_abs() <= MAX_NUMBER_DIGITS);
    if mantissa.len() > most || !is_short {
        return Err(impossible(format!("this number has more than the {most} digits that are kept")));
    }
    let bits = 4 * (mantissa.len() + exponent.parse::<i32>().unwrap_or_default().unsigned_abs() as usize);
    work.charge_product(bits, bits, 2)?;
    let value =
        RBig::from_str_decimal(written).map_err(|_| impossible(format!("`{written}` is no number")))?;
    Ok(Number::Exact(value))
}
