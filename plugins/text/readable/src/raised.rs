//! What is raised or lowered in a line, as plain text says it.
//!
//! Without a mark `10<sup>6</sup>` would be the number 106. A mark stands only where something would read otherwise: `1st`,
//! `H2O` and `x1` are how people write them.

/// What stands before text that is raised and is one value.
pub const RAISED: &str = "^";

/// How a part of a line is shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shift {
    Raised,
    Lowered,
}

impl Shift {
    /// By the name of the tag.
    pub fn of_tag(name: &str) -> Option<Self> {
        match name {
            "sup" => Some(Self::Raised),
            "sub" => Some(Self::Lowered),
            _ => None,
        }
    }

    /// What stands before and behind a text that is shifted, right behind a sign.
    pub fn marks(self, before: char, text: &str) -> (&'static str, &'static str) {
        let is_number = text.starts_with(|first: char| first.is_ascii_digit());
        match self {
            // A base: `1010` in the system of 2.
            Self::Lowered if before.is_ascii_digit() && is_number => ("_", ""),
            Self::Raised if (before.is_alphanumeric() || before == ')') && is_exponent(text) => {
                if is_one_value(text) {
                    (RAISED, "")
                } else {
                    ("^(", ")")
                }
            }
            Self::Raised | Self::Lowered => ("", ""),
        }
    }
}

/// Whether it is something to calculate with, or a single letter, and neither the end of a word nor a note in brackets.
fn is_exponent(text: &str) -> bool {
    let is_part = |sign: char| sign.is_alphanumeric() || " +-\u{2212}*/·().,".contains(sign);
    let counts = |sign: char| sign.is_ascii_digit() || is_plus_or_minus(sign);
    text.chars().all(is_part) && (text.contains(counts) || is_letter(text))
}

fn is_letter(text: &str) -> bool {
    text.chars().count() == 1 && text.starts_with(char::is_alphabetic)
}

/// Whether it needs no parentheses: a number, a name, or either with a sign, as the charge `2+`.
fn is_one_value(text: &str) -> bool {
    text.trim_matches(is_plus_or_minus).chars().all(|sign| sign.is_alphanumeric() || sign == '.')
}

fn is_plus_or_minus(sign: char) -> bool {
    matches!(sign, '+' | '-' | '\u{2212}')
}
