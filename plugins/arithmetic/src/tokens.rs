//! Cuts an expression into numbers, names and signs, each with its place.

use num_bigint::BigInt;
use num_rational::Ratio;

use crate::effort::Effort;
use crate::expression::Problem;
use crate::fraction::{Rational, reduced};
use crate::number::{MAX_NUMBER_DIGITS, Outcome};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Number(Rational),
    Name(String),
    /// An operator, a parenthesis or a comma, in the one way that the grammar knows it.
    Sign(&'static str),
    End,
}

/// A token where it stands.
#[derive(Clone, Debug)]
pub struct Placed {
    pub token: Token,
    /// Counted in characters from 1.
    pub place: usize,
    /// Whether there is a space before it.
    pub is_apart: bool,
}

/// The signs, in the ways that people write them. Longer ones first.
const SIGNS: &[(&str, &str)] = &[
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

/// Cuts the whole expression. The last token is `End`.
pub fn cut(text: &str, effort: &Effort) -> Result<Vec<Placed>, Problem> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut place = 1;
    loop {
        let trimmed = rest.trim_start();
        let is_apart = trimmed.len() < rest.len();
        place += rest[..rest.len() - trimmed.len()].chars().count();
        let (token, length) = next(trimmed, place, effort)?;
        let is_end = token == Token::End;
        tokens.push(Placed { token, place, is_apart });
        if is_end {
            return Ok(tokens);
        }
        place += trimmed[..length].chars().count();
        rest = &trimmed[length..];
    }
}

fn next(text: &str, place: usize, effort: &Effort) -> Result<(Token, usize), Problem> {
    let Some(first) = text.chars().next() else { return Ok((Token::End, 0)) };
    if first.is_ascii_digit() || first == '.' {
        return number(text, place, effort);
    }
    if first.is_alphabetic() || first == '_' {
        let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        return Ok((Token::Name(text[..length].to_lowercase()), length));
    }
    match SIGNS.iter().find(|(written, _)| text.starts_with(written)) {
        Some((written, sign)) => Ok((Token::Sign(sign), written.len())),
        None => Err(Problem::wrong(
            place,
            format!(
                "`{}` means nothing here: use digits, + - * / // % ^ ! ( ) and names of functions",
                first.escape_debug()
            ),
        )),
    }
}

fn number(text: &str, place: usize, effort: &Effort) -> Result<(Token, usize), Problem> {
    let whole = digits(text);
    let fraction = match text[whole.len()..].strip_prefix('.') {
        Some(rest) => digits(rest),
        None => "",
    };
    let has_point = text[whole.len()..].starts_with('.');
    let mut length = whole.len() + usize::from(has_point) + fraction.len();
    if whole.replace('_', "").is_empty() && fraction.replace('_', "").is_empty() {
        return Err(Problem::wrong(place, "there are no digits beside this point"));
    }
    let mut exponent = 0;
    if let Some((read, exponent_length)) = read_exponent(&text[length..]) {
        exponent = read.ok_or_else(|| too_long(place))?;
        length += exponent_length;
    }
    if text[length..].starts_with('.') {
        return Err(Problem::wrong(place, "this number has two points"));
    }

    let significant = format!("{whole}{fraction}").replace('_', "");
    let scale = exponent - i64::try_from(fraction.replace('_', "").len()).unwrap_or(i64::MAX);
    if significant.len() as u64 > MAX_NUMBER_DIGITS || scale.unsigned_abs() > MAX_NUMBER_DIGITS {
        return Err(too_long(place));
    }
    let value = scaled(&significant, scale, effort).map_err(|failure| Problem::of(failure, place, ""))?;
    Ok((Token::Number(value), length))
}

fn scaled(significant: &str, scale: i64, effort: &Effort) -> Outcome<Rational> {
    // Reading digits costs as much as multiplying their first half by their second.
    let limbs = significant.len() as u64 / 9;
    effort.charge(limbs * limbs / 2)?;
    let significant: BigInt = significant.parse().unwrap_or_default();
    let power = effort.power_of_ten(scale.unsigned_abs())?;
    if scale < 0 {
        reduced(significant, power, effort)
    } else {
        Ok(Ratio::from_integer(effort.product(&significant, &power)?))
    }
}

/// The digits at the beginning, with underscores between them.
fn digits(text: &str) -> &str {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    &text[..length]
}

/// The exponent at the beginning, if there is one, and how long it is. No value where it is too large.
fn read_exponent(text: &str) -> Option<(Option<i64>, usize)> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let sign = rest.starts_with(['+', '-']);
    let count = rest[usize::from(sign)..].bytes().take_while(u8::is_ascii_digit).count();
    let length = usize::from(sign) + count;
    let value = rest[..length].parse::<i64>().ok().filter(|value| value.unsigned_abs() <= MAX_NUMBER_DIGITS);
    (count > 0).then_some((value, 1 + length))
}

fn too_long(place: usize) -> Problem {
    Problem::wrong(place, format!("this number has more than the {MAX_NUMBER_DIGITS} digits that are kept"))
}
