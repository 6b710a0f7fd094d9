//! The keywords that a constraint may have.
//!
//! JSON Schema ignores unknown keywords. To a person who approves, `{"enmu": ["a.txt"]}` names a file, and ignoring the
//! keyword would approve every file.

use serde_json::Value;
use toolgate_api::nearest;
use toolgate_api::read::pointer;
use toolgate_api::text::{escape_for_display, list};

use toolgate_api::error::CallError;

/// The kind of a keyword's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Value,
    Format,
    Schema,
    Schemas,
    Table,
}

/// The known keywords by the kind of their value.
const KEYWORDS: [(ValueKind, &str); 5] = [
    (
        ValueKind::Value,
        "type const enum minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern \
         minItems maxItems uniqueItems minContains maxContains minProperties maxProperties required \
         dependentRequired title description $comment default",
    ),
    (ValueKind::Format, "format"),
    (
        ValueKind::Schema,
        "items contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties not if then else",
    ),
    (ValueKind::Schemas, "allOf anyOf oneOf prefixItems"),
    (ValueKind::Table, "properties patternProperties dependentSchemas"),
];

/// Formats that schemas validate.
const FORMATS: &str = "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri \
                       iri-reference uri-template uuid json-pointer relative-json-pointer regex";

fn keywords() -> impl Iterator<Item = (&'static str, ValueKind)> {
    KEYWORDS.iter().flat_map(|(kind, words)| words.split(' ').map(|word| (word, *kind)))
}

/// An unknown keyword or format, and its place in the constraint.
pub(super) struct UnknownKeyword {
    word: String,
    pointer: String,
    known: Vec<&'static str>,
}

impl UnknownKeyword {
    pub(super) fn into_error(self, place: &str) -> CallError {
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
        super::constraint_error(place, format!("a constraint does not know `{word}`{inside}"), hint)
    }
}

/// Returns an error if a constraint or a subschema of it has an unknown keyword. The parser limits its depth.
pub(super) fn check(schema: &Value, place: &str) -> Result<(), UnknownKeyword> {
    // Compiling the schema refuses other types.
    let Value::Object(schema) = schema else { return Ok(()) };
    for (word, value) in schema {
        let unknown = |word: &str, place: &str, known| UnknownKeyword {
            word: word.to_owned(),
            pointer: place.to_owned(),
            known,
        };
        let Some((_, kind)) = keywords().find(|(known, _)| known == word) else {
            return Err(unknown(word, place, keywords().map(|(known, _)| known).collect()));
        };
        let place = pointer(place, word);
        match (kind, value) {
            (ValueKind::Format, Value::String(format))
                if !FORMATS.split(' ').any(|known| known == format) =>
            {
                return Err(unknown(format, &place, FORMATS.split(' ').collect()));
            }
            (ValueKind::Schema, schema) => check(schema, &place)?,
            (ValueKind::Schemas, Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    check(schema, &format!("{place}/{index}"))?;
                }
            }
            (ValueKind::Table, Value::Object(table)) => {
                for (name, schema) in table {
                    check(schema, &pointer(&place, name))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
