//! Reads one field of the owner's document, and knows where it stands.
//!
//! The document is read strictly: what is not known, or fits nowhere, is refused with its JSON pointer and the way out, so
//! that nothing an owner wrote is silently without effect.

use std::collections::BTreeSet;

use toolgate_api::nearest;
use toolgate_api::text::hidden_character;
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{Map, Value, json};

use crate::text::shown;

/// A value somewhere in the document.
#[derive(Clone)]
pub struct Place<'a> {
    pub value: &'a Value,
    pointer: String,
}

type Read<T> = Result<T, Error>;

impl<'a> Place<'a> {
    pub fn root(value: &'a Value) -> Self {
        Self { value, pointer: String::new() }
    }

    pub fn refuse(&self, message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::invalid(message).with_details(json!({"pointer": self.pointer, "hint": hint.into()}))
    }

    /// An object with no other fields than these.
    pub fn fields(&self, known: &[&str]) -> Read<()> {
        let Some(unknown) = self.map()?.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = match nearest(unknown, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the fields here are {}", list(known)),
        };
        Err(self.inside(unknown, self.value).refuse(format!("unknown field `{}`", shown(unknown, 60)), hint))
    }

    pub fn required(&self, name: &str) -> Read<Place<'a>> {
        let missing = || self.refuse(format!("the field `{name}` is missing"), format!("add `{name}`"));
        self.optional(name).ok_or_else(missing)
    }

    /// The field of that name; absent and `null` are the same.
    pub fn optional(&self, name: &str) -> Option<Place<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(self.inside(name, value))
    }

    pub fn items(&self, most: usize) -> Read<Vec<Place<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.expected("an array"))?;
        if items.is_empty() || items.len() > most {
            return Err(
                self.refuse(format!("the list has {} entries", items.len()), format!("list 1 to {most}"))
            );
        }
        let numbered = items.iter().enumerate();
        Ok(numbered.map(|(index, value)| self.inside(&index.to_string(), value)).collect())
    }

    /// The fields of an object whose names are the owner's own.
    pub fn entries(&self, most: usize) -> Read<Vec<(&'a str, Place<'a>)>> {
        let map = self.map()?;
        if map.len() > most {
            return Err(
                self.refuse(format!("there are {} fields", map.len()), format!("write at most {most}"))
            );
        }
        Ok(map.iter().map(|(name, value)| (name.as_str(), self.inside(name, value))).collect())
    }

    pub fn str(&self) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    /// Text for a reader: not empty, not too long, nothing in it that a person would not see.
    pub fn text(&self, most_chars: usize) -> Read<&'a str> {
        let text = self.str()?;
        if text.trim().is_empty() {
            return Err(self.refuse("the text is empty", "write what a reader needs to know"));
        }
        if text.chars().count() > most_chars {
            return Err(self.refuse(format!("the text has more than {most_chars} characters"), "shorten it"));
        }
        match hidden_character(text) {
            None => Ok(text),
            Some(letter) => Err(self.refuse(
                format!("the text holds the hidden character {}", letter.escape_unicode()),
                "leave out control, bidirectional and invisible characters",
            )),
        }
    }

    /// Visible ASCII characters without spaces.
    pub fn word(&self, most_chars: usize) -> Read<&'a str> {
        let text = self.text(most_chars)?;
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(text);
        }
        Err(self.refuse(
            format!("`{}` is not one word", shown(text, 40)),
            "write ASCII characters without spaces",
        ))
    }

    pub fn number(&self, least: u64, most: u64) -> Read<u64> {
        let number = self.value.as_u64().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.expected(&format!("a whole number from {least} to {most}")))
    }

    /// One of a few words.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Read<T> {
        let text = self.str()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(
                format!("`{}` is not known here", shown(text, 40)),
                format!("write one of {}", list(&words)),
            )
        })
    }

    /// Words that each stand once.
    pub fn distinct(&self, most: usize, most_chars: usize) -> Read<Vec<String>> {
        let mut seen = BTreeSet::new();
        for item in self.items(most)? {
            if !seen.insert(item.text(most_chars)?.to_owned()) {
                return Err(item.refuse("this stands in the list twice", "name it once"));
            }
        }
        Ok(seen.into_iter().collect())
    }

    fn map(&self) -> Read<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    fn expected(&self, kind: &str) -> Error {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.refuse(format!("{found} stands where {kind} belongs"), format!("write {kind}"))
    }

    fn inside(&self, name: &str, value: &'a Value) -> Self {
        Self { value, pointer: format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1")) }
    }
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
