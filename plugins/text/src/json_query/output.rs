//! An output of a filter as JSON. Values of `jaq` share their parts, so a small value may be a huge text.

use jaq_json::{Num, Val};
use toolgate_sdk::serde_json::Number;

use crate::document;
use crate::tree::Tree;

/// The host takes results of 128 levels, including those of the answer itself.
const MAX_DEPTH: usize = 120;

/// The maximum size of one output.
const MAX_BYTES: usize = 900 * 1024;

/// Converts values up to a limit on their size.
#[derive(Default)]
pub struct Converter {
    /// Approximate size of what is converted.
    bytes: usize,
    /// Whether there are numbers that are given as text.
    pub has_wide: bool,
}

impl Converter {
    pub fn convert(&mut self, value: &Val, depth: usize) -> Result<Tree, String> {
        self.bytes += match value {
            Val::TStr(text) | Val::BStr(text) => text.len() + 2,
            _ => 6,
        };
        if self.bytes > MAX_BYTES {
            return Err(format!(
                "a result of the filter is larger than {} KiB: ask for less, as with `.[0:100]`, `keys`, `length` or `map(.name)`",
                MAX_BYTES / 1024
            ));
        }
        if depth > MAX_DEPTH {
            // To drop a deep value would exhaust the stack. Its memory ends with the call.
            std::mem::forget(value.clone());
            return Err(format!(
                "a result of the filter is nested more than {MAX_DEPTH} deep: ask for a part of it"
            ));
        }
        Ok(match value {
            Val::Null => Tree::Null,
            Val::Bool(value) => Tree::Bool(*value),
            Val::Num(number) => self.number(number),
            Val::TStr(text) | Val::BStr(text) => Tree::Text(String::from_utf8_lossy(text).into_owned()),
            Val::Arr(entries) => Tree::List(
                entries.iter().map(|entry| self.convert(entry, depth + 1)).collect::<Result<_, _>>()?,
            ),
            Val::Obj(entries) => {
                let entries = entries.iter().map(|(key, entry)| {
                    // `jaq` lets any value be a key.
                    let key = match self.convert(key, depth + 1)? {
                        Tree::Text(text) => text,
                        _ => key.to_string(),
                    };
                    Ok::<_, String>((key, self.convert(entry, depth + 1)?))
                });
                Tree::Map(Box::new(entries.collect::<Result<_, _>>()?))
            }
        })
    }

    fn number(&mut self, number: &Num) -> Tree {
        let written = number.to_string();
        self.bytes += written.len();
        match written.parse::<Number>() {
            Ok(number) if !document::is_wide_integer(&written) => Tree::Number(number),
            _ if written == "NaN" => Tree::Null,
            _ => {
                self.has_wide = true;
                Tree::Text(written)
            }
        }
    }
}
