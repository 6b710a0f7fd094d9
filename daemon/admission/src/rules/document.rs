//! How the document of a layer is read: strictly, and with words that say what to write instead.
//!
//! A field that nothing enforces is an error (requirements 9.9): each document has its fields, and those that come
//! with the full gate are refused by name until then.

use std::fmt;

use serde_json::{Value, json};

use crate::arguments::parse_strict;
use crate::error::{CallError, ErrorType};
use crate::limits::{Limits, LimitsPatch};
use crate::nearest::nearest;
use crate::text::{list, show};

/// Deepest nesting of a document.
const DOCUMENT_DEPTH: u64 = 8;

/// Why a document is not accepted; [`ErrorType::InvalidPolicy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// JSON pointer into the document; empty for the whole.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => formatter.write_str(&self.message),
            place => write!(formatter, "{} (`{place}`)", self.message),
        }
    }
}

impl DocumentError {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }
}

impl From<DocumentError> for CallError {
    fn from(error: DocumentError) -> Self {
        CallError::new(ErrorType::InvalidPolicy, error.to_string(), error.hint)
            .with_details(json!({"pointer": error.place}))
    }
}

/// What a document says that is accepted and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable code: `UNRESOLVED_TOOL`, `UNRESOLVED_SERVER`, `NO_TOOLS`, `LIMIT_WITHOUT_EFFECT`.
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    /// What is odd.
    pub message: String,
    /// What was probably meant.
    pub nearest: Option<String>,
}

/// The fields of one kind of document.
pub(super) struct Fields {
    /// Whose document it is, for messages: "an agent's".
    pub whose: &'static str,
    pub known: &'static [&'static str],
    /// Fields of the full gate. Accepting them now would promise what nobody holds.
    pub to_come: &'static [&'static str],
}

impl Fields {
    /// Reads a document that has no other fields than these.
    pub fn read(&self, json: &str) -> Result<Value, DocumentError> {
        let value = parse_strict(json, DOCUMENT_DEPTH).map_err(|error| {
            DocumentError::new(error.pointer.clone(), error.to_string(), "send one JSON object")
        })?;
        self.check(&value)?;
        Ok(value)
    }

    fn check(&self, value: &Value) -> Result<(), DocumentError> {
        let Some(fields) = value.as_object() else {
            return Err(DocumentError::new("", "the document is not an object", "send one JSON object"));
        };
        let Some(field) = fields.keys().find(|field| !self.known.contains(&field.as_str())) else {
            return Ok(());
        };
        let place = format!("/{}", field.replace('~', "~0").replace('/', "~1"));
        if self.to_come.contains(&field.as_str()) {
            let hint = "leave it out: a rule that nobody holds is refused, not noted";
            return Err(DocumentError::new(place, format!("nothing enforces `{field}` yet"), hint));
        }
        let hint = match nearest(field, self.known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => {
                format!("{} document has {}", self.whose, list(self.known.iter().copied(), self.known.len()))
            }
        };
        Err(DocumentError::new(place, format!("unknown field `{}`", show(field, 64)), hint))
    }
}

/// One field; absent and `null` are the same.
pub(super) fn field<T: serde::de::DeserializeOwned>(
    value: &Value,
    field: &str,
) -> Result<Option<T>, DocumentError> {
    let Some(value) = value.get(field).filter(|value| !value.is_null()) else { return Ok(None) };
    T::deserialize(value).map(Some).map_err(|error| {
        let hint = match field {
            "limits" => "write an object of limits and whole numbers, like `{\"deadline_ms\":5000}`",
            "name" | "server" => "write a string",
            _ => "write \"*\", or a list of `namespace/tool` and `namespace/*`",
        };
        DocumentError::new(format!("/{field}"), show(&error.to_string(), 300), hint)
    })
}

/// Limits that are above what anybody can have.
pub(super) fn limits_without_effect(limits: &LimitsPatch) -> impl Iterator<Item = Warning> + '_ {
    let without_effect = limits.iter().filter(|(name, value)| *value > Limits::CEILING.get(*name));
    without_effect.map(|(name, _)| Warning {
        code: "LIMIT_WITHOUT_EFFECT",
        path: format!("/limits/{name}"),
        message: format!("`{name}` is above the ceiling of {}, which holds", Limits::CEILING.get(name)),
        nearest: None,
    })
}
