//! One value of a document, and where it stands: every refusal names the place and what to write instead.

use serde_json::{Map, Value, json};
use toolgate_api::nearest;
use toolgate_api::text::escape_for_display;
use toolgate_sdk::Error;

/// How much of what was written is shown in a message.
const SHOWN_CHARS: usize = 80;

/// A part of a document.
pub struct Part<'a> {
    value: &'a Value,
    pointer: String,
}

impl<'a> Part<'a> {
    pub fn whole(value: &'a Value) -> Self {
        Self { value, pointer: String::new() }
    }

    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// A member; absent and null are the same.
    pub fn member(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { value, pointer: self.inside(name) })
    }

    /// A member that must be there.
    pub fn required(&self, name: &str, hint: &str) -> Result<Self, Error> {
        self.member(name).ok_or_else(|| self.error(format!("`{name}` is missing"), hint))
    }

    /// The place of a member, whether or not it is there: for refusals.
    pub fn below(&self, name: &str) -> Self {
        Self { value: self.value.get(name).unwrap_or(&Value::Null), pointer: self.inside(name) }
    }

    /// That it is an object with these members alone.
    pub fn check_fields(&self, known: &[&str]) -> Result<(), Error> {
        match self.object()?.keys().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => {
                let message = format!("unknown field `{}`", shown(field));
                Err(self.below(field).error(message, meant(field, known.iter().copied())))
            }
        }
    }

    pub fn object(&self) -> Result<&'a Map<String, Value>, Error> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    /// The members of an object, at most so many.
    pub fn members(&self, most: usize) -> Result<Vec<(&'a str, Self)>, Error> {
        let object = self.object()?;
        if object.len() > most {
            return Err(self.error(format!("there are more than {most} of them"), "leave some out"));
        }
        let member = |(name, value): (&'a String, &'a Value)| {
            (name.as_str(), Self { value, pointer: self.inside(name) })
        };
        Ok(object.iter().map(member).collect())
    }

    /// The items of a list, at most so many.
    pub fn items(&self, most: usize) -> Result<Vec<Self>, Error> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        if items.len() > most {
            return Err(self.error(format!("the list has more than {most} items"), "leave some out"));
        }
        let item =
            |(index, value): (usize, &'a Value)| Self { value, pointer: self.inside(&index.to_string()) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub fn string(&self) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    /// Text for a reader.
    pub fn text(&self, most_chars: usize) -> Result<String, Error> {
        let text = self.string()?;
        if text.trim().is_empty() {
            return Err(self.error("the text is empty", "write something, or leave it out where it can be"));
        }
        if text.chars().count() > most_chars {
            return Err(self.error(format!("the text has more than {most_chars} characters"), "shorten it"));
        }
        if text.contains(|sign: char| sign.is_control() && !matches!(sign, '\n' | '\t')) {
            return Err(self.error("the text has a control character", "leave out what cannot be seen"));
        }
        Ok(text.to_owned())
    }

    /// Visible ASCII without spaces.
    pub fn word(&self, most_chars: usize) -> Result<String, Error> {
        let text = self.text(most_chars)?;
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(text),
            false => {
                Err(self.error(format!("`{}` is not one word", shown(&text)), "write ASCII without spaces"))
            }
        }
    }

    pub fn number(&self, least: u64, most: u64) -> Result<u64, Error> {
        let number = self.value.as_u64().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.expected(&format!("a whole number from {least} to {most}")))
    }

    pub fn flag(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.expected("`true` or `false`"))
    }

    /// One of some words.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Error> {
        let text = self.string()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let message = format!("`{}` cannot stand here", shown(text));
            self.error(message, meant(text, words.iter().map(|(word, _)| *word)))
        })
    }

    pub fn error(&self, message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::invalid(message).with_details(json!({"pointer": self.pointer, "hint": hint.into()}))
    }

    fn expected(&self, what: &str) -> Error {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.error(format!("{found} stands where {what} belongs"), format!("write {what}"))
    }

    fn inside(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"))
    }
}

/// The beginning of what was written, on one line.
pub fn shown(text: &str) -> String {
    escape_for_display(text, SHOWN_CHARS)
}

/// What was probably meant, or what there is.
pub fn meant<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let known: Vec<String> = known.map(|word| format!("`{}`", shown(word))).collect();
            format!("what can stand here is {}", known.join(", "))
        }
    }
}
