//! Reads one field of a description, and knows where it stands.
//!
//! A [`Place`] is a value and its JSON pointer, so that every refusal names the place without anyone
//! having to think of it. Each method reads one kind of field and says what belongs there instead.

use serde_json::{Map, Value};
use toolgate_api::text::{escape_for_display, hidden_character, list};

use super::DescriptorError;
use crate::limits::{LimitName, LimitsPatch};
use crate::schema::{Schema, SchemaRole};

/// A value somewhere in the description.
pub(super) struct Place<'a> {
    value: &'a Value,
    pointer: String,
}

type Read<T> = Result<T, DescriptorError>;

impl<'a> Place<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, pointer: String::new() }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn refuse(&self, message: impl Into<String>, hint: impl Into<String>) -> DescriptorError {
        DescriptorError::new(self.pointer.clone(), message, hint)
    }

    /// Requires an object and notes the fields of it that are not known.
    pub(super) fn object(&self, known: &[&str], unknown: &mut Vec<String>) -> Read<()> {
        let fields = self.map()?.keys().filter(|name| !known.contains(&name.as_str()));
        unknown.extend(fields.map(|name| self.inside(name)));
        Ok(())
    }

    pub(super) fn required(&self, name: &str) -> Read<Place<'a>> {
        self.optional(name).ok_or_else(|| {
            let message = format!("the field `{name}` is missing");
            self.refuse(message, format!("add `{name}`, see `wit/describe.schema.json`"))
        })
    }

    /// The field of that name; absent and `null` are the same.
    pub(super) fn optional(&self, name: &str) -> Option<Place<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Place { value, pointer: self.inside(name) })
    }

    pub(super) fn items(&self, most: usize) -> Read<Vec<Place<'a>>> {
        let Some(items) = self.value.as_array() else { return Err(self.expected("an array")) };
        if items.len() > most {
            let message = format!("{} entries are more than the {most} allowed", items.len());
            return Err(self.refuse(message, "list fewer"));
        }
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, value)| Place { value, pointer: self.inside(&index.to_string()) })
            .collect())
    }

    /// The list of that name, each entry read by `read`; none where there is no such field.
    pub(super) fn list<T>(
        &self,
        name: &str,
        most: usize,
        mut read: impl FnMut(&Place<'a>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let Some(place) = self.optional(name) else { return Ok(Vec::new()) };
        place.items(most)?.iter().map(&mut read).collect()
    }

    pub(super) fn str(&self) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    pub(super) fn bool(&self) -> Read<bool> {
        self.value.as_bool().ok_or_else(|| self.expected("`true` or `false`"))
    }

    /// A whole number, also written as a float: to JSON Schema `1e6` is an integer.
    pub(super) fn number(&self, least: u64, most: u64) -> Read<u64> {
        let integral = |float: &f64| *float >= 0.0 && float.fract() == 0.0;
        let written = || self.value.as_f64().filter(integral).map(|float| format!("{:.0}", float.abs()));
        let number = self.value.as_u64().or_else(|| written()?.parse().ok());
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.expected(&format!("a whole number from {least} to {most}")))
    }

    /// Text for a reader: not empty, not too long, nothing in it that a person would not see.
    pub(super) fn text(&self, most_chars: usize) -> Read<String> {
        let text = self.str()?;
        if text.trim().is_empty() {
            return Err(self.refuse("the text is empty", "write what a model needs to know"));
        }
        if text.chars().count() > most_chars {
            return Err(self.refuse(format!("the text has more than {most_chars} characters"), "shorten it"));
        }
        self.visible()?;
        Ok(text.to_owned())
    }

    /// A text of visible ASCII characters without spaces.
    pub(super) fn word(&self, most_chars: usize) -> Read<String> {
        let text = self.text(most_chars)?;
        if text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(text);
        }
        Err(self.refuse(
            format!("`{}` is not one word", escape_for_display(&text, 40)),
            "write ASCII characters without spaces",
        ))
    }

    pub(super) fn schema(&self, role: SchemaRole) -> Read<Schema> {
        self.visible()?;
        Schema::compile(self.value, role).map_err(|error| {
            DescriptorError::new(format!("{}{}", self.pointer, error.pointer), error.message, error.hint)
        })
    }

    pub(super) fn limits(&self) -> Read<LimitsPatch> {
        let mut patch = LimitsPatch::new();
        for (key, value) in self.map()? {
            let place = Place { value, pointer: self.inside(key) };
            let name = LimitName::parse(key).map_err(|error| {
                place.refuse(error.to_string(), "a limit that nothing enforces is an error, not a note")
            })?;
            patch.set(name, place.number(0, u64::MAX)?);
        }
        Ok(patch)
    }

    /// Refuses hidden characters anywhere in the value, in keys and in strings.
    pub(super) fn visible(&self) -> Read<()> {
        let refuse = |text: &str| match hidden_character(text) {
            Some(letter) => {
                let message = format!("the text holds the hidden character {}", letter.escape_unicode());
                Err(self.refuse(message, "leave out control, bidirectional and invisible characters"))
            }
            None => Ok(()),
        };
        match self.value {
            Value::String(text) => refuse(text),
            Value::Array(items) => items.iter().enumerate().try_for_each(|(index, value)| {
                Place { value, pointer: self.inside(&index.to_string()) }.visible()
            }),
            Value::Object(map) => map.iter().try_for_each(|(key, value)| {
                refuse(key)?;
                Place { value, pointer: self.inside(key) }.visible()
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Read<T> {
        let text = self.str()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let message = format!("`{}` is not known here", escape_for_display(text, 40));
            self.refuse(
                message,
                format!("write one of {}", list(words.iter().map(|(word, _)| *word), words.len())),
            )
        })
    }

    fn map(&self) -> Read<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    fn expected(&self, kind: &str) -> DescriptorError {
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

    fn inside(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"))
    }
}
