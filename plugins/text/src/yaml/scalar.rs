//! What a plain scalar of YAML means: the core schema of YAML 1.2.2, chapter 10.3.2, and nothing beside it.
//!
//! So `017` is seventeen, and `1_000`, `0b11` and `yes` are texts. What JSON has no number for stays a text as it is
//! written: `.inf`, and what is beyond 64 bits, for half a number is none.

use crate::tree::Tree;

/// What a scalar was read as.
pub struct Read {
    pub tree: Tree,
    /// Whether it is a number that is too wide for JSON, and stays a text.
    pub is_wide: bool,
}

/// Reads a scalar that has no quotes.
pub fn plain(text: &str) -> Read {
    let narrow = |tree| Read { tree, is_wide: false };
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return narrow(Tree::Null),
        "true" | "True" | "TRUE" => return narrow(Tree::Bool(true)),
        "false" | "False" | "FALSE" => return narrow(Tree::Bool(false)),
        _ => {}
    }
    // Most scalars are words, and their first sign says so.
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return narrow(Tree::Text(text.to_owned()));
    }
    let number = integer(text).or_else(|| float(text));
    match number {
        Some(Some(tree)) => narrow(tree),
        Some(None) => Read { tree: Tree::Text(text.to_owned()), is_wide: true },
        None => narrow(Tree::Text(text.to_owned())),
    }
}

/// An integer, or `Some(None)` if it does not fit 64 bits.
fn integer(text: &str) -> Option<Option<Tree>> {
    let based = text
        .strip_prefix("0o")
        .map(|digits| (digits, 8))
        .or(text.strip_prefix("0x").map(|digits| (digits, 16)));
    if let Some((digits, radix)) = based {
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        return is_number.then(|| u64::from_str_radix(digits, radix).ok().map(unsigned));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().map(Tree::Integer).ok().or_else(|| text.parse().map(unsigned).ok()))
}

fn unsigned(number: u64) -> Tree {
    i64::try_from(number).map_or(Tree::Unsigned(number), Tree::Integer)
}

/// A number with a point or an exponent, or `Some(None)` if it is beyond what a double reaches.
fn float(text: &str) -> Option<Option<Tree>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let has_digit =
        unsigned.strip_prefix('.').unwrap_or(unsigned).starts_with(|digit: char| digit.is_ascii_digit());
    // The words that Rust knows for infinity are no numbers of YAML.
    let is_number = unsigned.bytes().all(|sign| sign.is_ascii_digit() || b".eE+-".contains(&sign));
    if !has_digit || !is_number {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    Some(number.is_finite().then_some(Tree::Float(number)))
}
