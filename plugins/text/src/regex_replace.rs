//! `regex_replace`: what a pattern matches, by a text that may hold parts of it.
//!
//! The replacement is read here and not by `regex`, which takes a group that there is none of for an empty one.

use std::borrow::Cow;

use formats::pattern;
use regex::{Captures, Regex};
use toolgate_sdk::{Error, tool};

use crate::replace::{Replaced, Replacing};

/// Replaces each match of a regular expression.
///
/// - In `replacement`, `$1` or `${1}` is what the first group matched, `${name}` what the named one did, `$0` the whole match, `$$` a dollar sign, and `\\` a backslash where a digit follows; elsewhere backslashes are as they are.
/// - The syntax of `pattern` is that of Rust's `regex`: no look-around, no back-references. `(?m)` at the start lets `^` and `$` match at each line, `(?s)` lets `.` match line breaks.
/// - `count` is 0 if nothing was found.
#[tool(
    read_only,
    tags("text", "regexp", "substitute", "edit", "sed"),
    examples(
        {"text": "17.05.2024", "pattern": r"(\d+)\.(\d+)\.(\d+)", "replacement": "$3-$2-$1"} => {"text": "2024-05-17", "count": 1},
        {"text": "a  b   c", "pattern": r"\s+", "replacement": " "} => {"text": "a b c", "count": 2},
        "a backslash and a digit": {"text": "C:/24", "pattern": "/(.)", "replacement": r"\\2-$1"} => {"text": r"C:\2-24", "count": 1},
    )
)]
pub fn regex_replace(
    /// The text to change
    text: String,
    /// The regular expression
    pattern: String,
    /// Text in place of a match; empty to remove it
    replacement: String,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
    /// How many matches to replace at most, from the start; left out, all
    #[schemars(range(min = 1))]
    limit: Option<u32>,
) -> Result<Replaced, Error> {
    let pattern = pattern::compile(&pattern, ignore_case)?;
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    let replacement = read_backslashes(&replacement)?;
    let pieces = read_replacement(&replacement, &pattern)?;
    let mut replaced = Replacing::new(&text);
    if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
        let literal: String = pieces.iter().map(|piece| piece.text(None)).collect();
        for hit in pattern.find_iter(&text).take(limit) {
            replaced.put(hit.start(), hit.end(), &literal)?;
        }
        return replaced.finish();
    }
    for captures in pattern.captures_iter(&text).take(limit) {
        let Some(hit) = captures.get(0) else { continue };
        replaced.keep_to(hit.start());
        for piece in &pieces {
            replaced.add(piece.text(Some(&captures)))?;
        }
        replaced.pass_to(hit.end());
    }
    replaced.finish()
}

/// A part of a replacement.
enum Piece<'r> {
    Text(&'r str),
    Group(usize),
}

impl Piece<'_> {
    fn text<'t>(&'t self, captures: Option<&'t Captures<'_>>) -> &'t str {
        match self {
            Self::Text(text) => text,
            // A group that had no part in the match stands for nothing.
            Self::Group(number) => {
                captures.and_then(|captures| captures.get(*number)).map_or("", |group| group.as_str())
            }
        }
    }
}

fn read_replacement<'r>(replacement: &'r str, pattern: &Regex) -> Result<Vec<Piece<'r>>, Error> {
    let mut pieces = Vec::new();
    let mut rest = replacement;
    while let Some(dollar) = rest.find('$') {
        pieces.push(Piece::Text(&rest[..dollar]));
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            pieces.push(Piece::Text("$"));
            rest = after;
            continue;
        }
        let (name, after) = read_name(rest)?;
        pieces.push(Piece::Group(number_of(name, pattern)?));
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Splits off the name behind a dollar sign. Without braces it is digits, or letters and digits: `$1st` is `${1}st`.
fn read_name(rest: &str) -> Result<(&str, &str), Error> {
    if let Some(braced) = rest.strip_prefix('{') {
        return braced.split_once('}').ok_or_else(|| {
            Error::invalid("`replacement` has `${` without `}`: write `${1}`, or `$${` for the signs")
        });
    }
    let is_number = rest.starts_with(|first: char| first.is_ascii_digit());
    let belongs =
        |sign: char| sign.is_ascii_digit() || (!is_number && (sign.is_alphanumeric() || sign == '_'));
    let end = rest.find(|sign| !belongs(sign)).unwrap_or(rest.len());
    if end == 0 {
        return Err(Error::invalid(
            "`replacement` has a `$` that names no group: write `$$` for a dollar sign",
        ));
    }
    Ok(rest.split_at(end))
}

fn number_of(name: &str, pattern: &Regex) -> Result<usize, Error> {
    let number = match name.parse::<usize>() {
        Ok(number) => Some(number).filter(|number| *number < pattern.captures_len()),
        Err(_) => pattern.capture_names().position(|known| known == Some(name)),
    };
    number.ok_or_else(|| {
        let known: Vec<String> = pattern
            .capture_names()
            .enumerate()
            .map(|(number, name)| name.map_or_else(|| format!("${number}"), |name| format!("${{{name}}}")))
            .collect();
        Error::invalid(format!(
            "`pattern` has no group `{name}`, but {}: write `$$` for a dollar sign",
            known.join(", ")
        ))
    })
}

/// `\1` is how other languages name a group, and would be put into the text as it is. So it is refused, and of backslashes
/// before a digit two stand for one. Elsewhere each stands for itself.
fn read_backslashes(replacement: &str) -> Result<Cow<'_, str>, Error> {
    let mut read = String::new();
    let mut rest = replacement;
    while let Some(start) = rest.find('\\') {
        let run = rest[start..].bytes().take_while(|byte| *byte == b'\\').count();
        let (before, after) = rest.split_at(start + run);
        let digit = after.chars().next().filter(char::is_ascii_digit);
        match digit {
            Some(digit) if run % 2 == 1 => {
                return Err(Error::invalid(format!(
                    "`replacement` has `\\{digit}`: write `${{{digit}}}` for what the group matched, or `\\\\{digit}` for a \
                     backslash and a `{digit}`"
                )));
            }
            Some(_) => read.push_str(&before[..start + run / 2]),
            None => read.push_str(before),
        }
        rest = after;
    }
    if read.is_empty() {
        return Ok(Cow::Borrowed(replacement));
    }
    read.push_str(rest);
    Ok(Cow::Owned(read))
}
