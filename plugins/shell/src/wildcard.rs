//! Patterns of the shell, such as `*.txt`, as regular expressions.

use regex::{Regex, RegexBuilder};

use crate::regular;

/// A compiled pattern larger than this is a mistake, or an attack.
pub const MAX_REGEX_BYTES: usize = 1024 * 1024;

/// Whether a text has signs of a pattern.
pub fn is_pattern(text: &str) -> bool {
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            '*' | '?' => return true,
            '[' if signs.as_str().contains(']') => return true,
            '@' | '+' | '!' if signs.as_str().starts_with('(') => return true,
            _ => {}
        }
    }
    false
}

/// The parts of a pattern with `!(…)`: before it, inside and after it. Regular expressions have no such thing.
pub fn negation(pattern: &str) -> Option<(&str, &str, &str)> {
    let mut depth = 0_u32;
    let mut start = None;
    let mut signs = pattern.char_indices().peekable();
    while let Some((index, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            '[' => drop(signs.next_if(|(_, next)| *next == '!')),
            '!' if start.is_none() && signs.next_if(|(_, next)| *next == '(').is_some() => {
                start = Some(index)
            }
            '(' if start.is_some() => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' => {
                if let Some(start) = start {
                    return Some((&pattern[..start], &pattern[start + 2..index], &pattern[index + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

/// A text as a pattern that matches the text alone.
pub fn escape(text: &str) -> String {
    regular::escape(text, "*?[]\\()|@+!")
}

/// A pattern without its escapes.
pub fn unescape(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => text.extend(signs.next()),
            _ => text.push(sign),
        }
    }
    text
}

/// Translates a pattern. With `lazy`, stars match as little as they can; with `in_path`, no slash.
pub fn translate(pattern: &str, lazy: bool, in_path: bool) -> String {
    let signs: Vec<char> = pattern.chars().collect();
    let mut regex = String::new();
    let mut groups: Vec<&str> = Vec::new();
    let any = if in_path { "[^/]" } else { "(?s:.)" };
    let many = format!("{any}*{}", if lazy { "?" } else { "" });
    let mut index = 0;
    while let Some(sign) = signs.get(index).copied() {
        index += 1;
        match sign {
            '@' | '+' | '?' | '*' | '!' if signs.get(index) == Some(&'(') => {
                index += 1;
                regex.push_str("(?:");
                groups.push(match sign {
                    '+' => ")+",
                    '?' => ")?",
                    '*' => ")*",
                    _ => ")",
                });
            }
            ')' if !groups.is_empty() => regex.push_str(groups.pop().unwrap_or_default()),
            '|' if !groups.is_empty() => regex.push('|'),
            '*' => regex.push_str(&many),
            '?' => regex.push_str(any),
            '[' => match regular::class(&signs[index..], "!^", escaped) {
                Some((class, length)) => {
                    regex.push_str(&class);
                    index += length;
                }
                None => regex.push_str("\\["),
            },
            '\\' => {
                regex.push_str(&regex::escape(&signs.get(index).copied().unwrap_or('\\').to_string()));
                index += 1;
            }
            _ => regex.push_str(&regex::escape(sign.encode_utf8(&mut [0; 4]))),
        }
    }
    groups.iter().rev().for_each(|end| regex.push_str(end));
    regex
}

/// A backslash takes the meaning of signs that have one in a pattern.
fn escaped(sign: char) -> Option<String> {
    "\\]*?[-()|@+!".contains(sign).then(|| format!("\\{sign}"))
}

pub fn compile(regex: &str) -> Result<Regex, String> {
    RegexBuilder::new(regex).size_limit(MAX_REGEX_BYTES).build().map_err(|error| {
        let message = error.to_string();
        message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}
