//! The keywords that a constraint may have.
//!
//! To JSON Schema a keyword that it does not know says nothing. To a person who approves, `{"enmu": ["a.txt"]}` says which
//! file, and taking it for nothing would approve every one.

use serde_json::Value;
use toolgate_api::nearest;
use toolgate_api::text::{escape_for_display, list};

use crate::error::CallError;

/// What follows a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Value,
    Format,
    Schema,
    Schemas,
    Table,
}

const KEYWORDS: [(&str, Holds); 42] = [
    ("type", Holds::Value),
    ("const", Holds::Value),
    ("enum", Holds::Value),
    ("minimum", Holds::Value),
    ("maximum", Holds::Value),
    ("exclusiveMinimum", Holds::Value),
    ("exclusiveMaximum", Holds::Value),
    ("multipleOf", Holds::Value),
    ("minLength", Holds::Value),
    ("maxLength", Holds::Value),
    ("pattern", Holds::Value),
    ("format", Holds::Format),
    ("minItems", Holds::Value),
    ("maxItems", Holds::Value),
    ("uniqueItems", Holds::Value),
    ("minContains", Holds::Value),
    ("maxContains", Holds::Value),
    ("minProperties", Holds::Value),
    ("maxProperties", Holds::Value),
    ("required", Holds::Value),
    ("dependentRequired", Holds::Value),
    ("title", Holds::Value),
    ("description", Holds::Value),
    ("$comment", Holds::Value),
    ("items", Holds::Schema),
    ("contains", Holds::Schema),
    ("additionalProperties", Holds::Schema),
    ("propertyNames", Holds::Schema),
    ("unevaluatedItems", Holds::Schema),
    ("unevaluatedProperties", Holds::Schema),
    ("not", Holds::Schema),
    ("if", Holds::Schema),
    ("then", Holds::Schema),
    ("else", Holds::Schema),
    ("allOf", Holds::Schemas),
    ("anyOf", Holds::Schemas),
    ("oneOf", Holds::Schemas),
    ("prefixItems", Holds::Schemas),
    ("properties", Holds::Table),
    ("patternProperties", Holds::Table),
    ("dependentSchemas", Holds::Table),
    ("default", Holds::Value),
];

/// Formats that the compiler of schemas looks at.
const FORMATS: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// A word that constrains nothing, and where it stands in the constraint.
pub(super) struct Unknown {
    word: String,
    pointer: String,
    known: Vec<&'static str>,
}

impl Unknown {
    pub(super) fn refusal(&self, place: &str) -> CallError {
        let word = escape_for_display(&self.word, 80);
        let inside = if self.pointer.is_empty() { String::new() } else { format!(" (`{}`)", self.pointer) };
        let known = self.known.iter().copied();
        let hint = match nearest(&self.word, known.clone()) {
            Some(near) => {
                format!("did you mean `{near}`? Where the object itself is meant, write `{{\"const\": …}}`")
            }
            None => format!(
                "write one of {}, or `{{\"const\": …}}` where the object itself is meant",
                list(known, self.known.len())
            ),
        };
        super::refused(place, format!("a constraint does not know `{word}`{inside}"), hint)
    }
}

/// That a constraint and all schemas inside of it have known keywords alone. Its depth is bounded by whoever parsed it.
pub(super) fn check(schema: &Value, path: &mut Vec<String>) -> Result<(), Unknown> {
    // What is neither an object nor a boolean is refused where schemas are compiled.
    let Value::Object(schema) = schema else { return Ok(()) };
    for (word, value) in schema {
        let unknown = |word: &str, path: &[String], known| Unknown {
            word: word.to_owned(),
            pointer: path.iter().map(|step| format!("/{step}")).collect(),
            known,
        };
        let Some((_, holds)) = KEYWORDS.iter().find(|(known, _)| known == word) else {
            return Err(unknown(word, path, KEYWORDS.iter().map(|(known, _)| *known).collect()));
        };
        path.push(word.clone());
        match (holds, value) {
            (Holds::Format, Value::String(format)) if !FORMATS.contains(&format.as_str()) => {
                return Err(unknown(format, path, FORMATS.to_vec()));
            }
            (Holds::Schema, schema) => check(schema, path)?,
            (Holds::Schemas, Value::Array(schemas)) => {
                for (at, schema) in schemas.iter().enumerate() {
                    check_below(schema, at.to_string(), path)?;
                }
            }
            (Holds::Table, Value::Object(table)) => {
                for (name, schema) in table {
                    check_below(schema, name.replace('~', "~0").replace('/', "~1"), path)?;
                }
            }
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

fn check_below(schema: &Value, step: String, path: &mut Vec<String>) -> Result<(), Unknown> {
    path.push(step);
    check(schema, path)?;
    path.pop();
    Ok(())
}
