//! Values of awk: numbers, texts, and texts from an input, which are numbers where they look like one.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use indexmap::IndexMap;

use super::lex::numeric_length;
use crate::commands::general;

#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Unset,
    Number(f64),
    Text(Rc<str>),
    /// From an input
    Input(Rc<str>),
}

pub type Array = Rc<RefCell<IndexMap<Rc<str>, Value>>>;

/// A variable.
#[derive(Clone, Debug)]
pub enum Cell {
    Value(Value),
    Array(Array),
}

impl Default for Cell {
    fn default() -> Self {
        Self::Value(Value::Unset)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(holds: bool) -> Self {
        Self::Number(f64::from(u8::from(holds)))
    }
}

pub fn count(count: usize) -> Value {
    Value::Number(f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// The number at the start of a text.
pub fn number(text: &str) -> f64 {
    let text = text.trim_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    sign * digits[..numeric_length(digits)].parse().unwrap_or(0.0)
}

fn looks_numeric(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && numeric_length(digits) == digits.len()
}

/// A number as text: an integer as such, others by a format such as `%.6g`.
pub fn write_number(number: f64, format: &str) -> String {
    if number.fract() == 0.0 && number.abs() < 1e16 {
        #[expect(clippy::cast_possible_truncation, reason = "an integer in the range")]
        return (number as i64).to_string();
    }
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < 1e18 {
        return format!("{number:.0}");
    }
    if format == "%.6g" {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{}", general(number.abs(), 6, false));
    }
    match crate::commands::Spec::parse(format, || 0) {
        Some((spec, _)) => spec.float(number),
        None => number.to_string(),
    }
}

impl Value {
    pub fn number(&self) -> f64 {
        match self {
            Self::Unset => 0.0,
            Self::Number(number) => *number,
            Self::Text(text) | Self::Input(text) => number(text),
        }
    }

    pub fn text(&self, format: &str) -> Rc<str> {
        match self {
            Self::Unset => "".into(),
            Self::Number(number) => write_number(*number, format).into(),
            Self::Text(text) | Self::Input(text) => Rc::clone(text),
        }
    }

    pub fn show(&self, format: &str) -> Cow<'_, str> {
        match self {
            Self::Unset => "".into(),
            Self::Number(number) => write_number(*number, format).into(),
            Self::Text(text) | Self::Input(text) => Cow::Borrowed(text),
        }
    }

    pub fn holds(&self) -> bool {
        match self {
            Self::Unset => false,
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Input(text) if looks_numeric(text) => number(text) != 0.0,
            Self::Input(text) => !text.is_empty(),
        }
    }

    fn is_numeric(&self) -> bool {
        match self {
            Self::Unset | Self::Number(_) => true,
            Self::Text(_) => false,
            Self::Input(text) => looks_numeric(text),
        }
    }

    /// Compares as numbers where both are, else as texts.
    pub fn compare(&self, other: &Self, format: &str) -> std::cmp::Ordering {
        if self.is_numeric() && other.is_numeric() {
            return self.number().partial_cmp(&other.number()).unwrap_or(std::cmp::Ordering::Equal);
        }
        self.show(format).as_bytes().cmp(other.show(format).as_bytes())
    }
}
