//! Values of `jaq` as JSON.

use jaq_json::{Num, Val};

use super::quote;
use crate::shell::{Outcome, Stop};

/// Deeper values would exhaust the stack.
const MAX_DEPTH: usize = 200;

/// The largest output.
const MAX_BYTES: usize = 8 * 1024 * 1024;

pub struct Style {
    /// Spaces of a level, or none for one line.
    pub indent: Option<usize>,
    pub uses_tabs: bool,
    pub sorts: bool,
    pub is_ascii: bool,
}

impl Style {
    pub fn write(&self, value: &Val) -> Outcome<String> {
        let mut text = String::new();
        self.put(value, 0, &mut text)?;
        if self.is_ascii && !text.is_ascii() {
            let escape = |unit: u16| match u8::try_from(unit) {
                Ok(unit) if unit.is_ascii() => char::from(unit).to_string(),
                _ => format!("\\u{unit:04x}"),
            };
            text = text.encode_utf16().map(escape).collect();
        }
        Ok(text)
    }

    fn line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = self.indent {
            text.push('\n');
            text.push_str(&if self.uses_tabs { "\t".repeat(depth) } else { " ".repeat(depth * indent) });
        }
    }

    fn put(&self, value: &Val, depth: usize, text: &mut String) -> Outcome<()> {
        if depth > MAX_DEPTH || text.len() > MAX_BYTES {
            return Err(Stop::Fail(5, "a result is nested too deep or too large".to_owned()));
        }
        match value {
            Val::Null => text.push_str("null"),
            Val::Bool(holds) => text.push_str(if *holds { "true" } else { "false" }),
            Val::Num(number) => text.push_str(&write_number(number)),
            Val::TStr(bytes) | Val::BStr(bytes) => text.push_str(&quote(bytes)),
            Val::Arr(entries) if entries.is_empty() => text.push_str("[]"),
            Val::Arr(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    text.push(if index == 0 { '[' } else { ',' });
                    self.line(depth + 1, text);
                    self.put(entry, depth + 1, text)?;
                }
                self.line(depth, text);
                text.push(']');
            }
            Val::Obj(entries) if entries.is_empty() => text.push_str("{}"),
            Val::Obj(entries) => {
                let mut entries: Vec<(&Val, &Val)> = entries.iter().collect();
                if self.sorts {
                    entries.sort_by(|left, right| left.0.cmp(right.0));
                }
                for (index, (key, entry)) in entries.into_iter().enumerate() {
                    text.push(if index == 0 { '{' } else { ',' });
                    self.line(depth + 1, text);
                    self.put(key, depth + 1, text)?;
                    text.push_str(if self.indent.is_some() { ": " } else { ":" });
                    self.put(entry, depth + 1, text)?;
                }
                self.line(depth, text);
                text.push('}');
            }
        }
        Ok(())
    }
}

/// A number as jq writes it: one that is calculated and has no fraction, as an integer.
fn write_number(number: &Num) -> String {
    let text = number.to_string();
    let is_written = !text.contains(['e', 'E']) && matches!(number, Num::Dec(_));
    match text.parse::<f64>() {
        Ok(value)
            if !is_written
                && text.contains(['.', 'e', 'E'])
                && value.fract() == 0.0
                && value.abs() < 1e17 =>
        {
            format!("{value:.0}")
        }
        Ok(value) if value.is_nan() => "null".to_owned(),
        Ok(value) if value.is_infinite() && text.chars().any(char::is_alphabetic) => {
            format!("{}1.7976931348623157e+308", if value < 0.0 { "-" } else { "" })
        }
        _ => text,
    }
}

/// Refuses values that are too large or too deep to be written.
pub fn check(value: &Val) -> Result<(), String> {
    let style = Style { indent: None, uses_tabs: false, sorts: false, is_ascii: false };
    style.write(value).map(drop).map_err(|_| "a value is too large".to_owned())
}
