//! How the document of a layer is read: strictly, and with words that say what to write instead.
//!
//! A field that nothing enforces is an error (requirements 9.9): each document has its fields, and those that are to
//! come are refused by name until then. Every refusal names the place as a JSON pointer and, for a misspelt name,
//! the nearest right one.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};
use toolgate_api::nearest;
use toolgate_api::text::{escape_for_display, list};

use super::catalogue::Catalogue;
use super::tools::{ToolList, ToolPattern};
use crate::arguments::parse_strict;
use crate::error::{CallError, ErrorType};
use crate::limits::{LimitName, Limits, LimitsPatch};
use crate::name::{Name, Namespace};

/// Deepest nesting of a document.
const DOCUMENT_DEPTH: u64 = 8;
/// Most entries of a table: profiles, channels, integrations.
const ENTRIES: usize = 10_000;

/// Why a document is not accepted; [`ErrorType::InvalidPolicy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// JSON pointer into the document; empty for the whole.
    pub place: String,
    /// The error, in one line.
    pub message: String,
    /// The fix.
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
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }

    /// A name that nothing answers to, with the nearest of those that would do.
    pub(super) fn undefined_name<'a>(
        place: impl Into<String>,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let hint = match nearest(name, known.clone()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.clone().next().is_none() => format!("no {what} is defined yet"),
            None => format!("defined are {}", list(known, 20)),
        };
        Self::new(place, format!("there is no {what} `{}`", escape_for_display(name, 64)), hint)
    }
}

impl From<DocumentError> for CallError {
    fn from(error: DocumentError) -> Self {
        CallError::new(ErrorType::InvalidPolicy, error.to_string(), error.hint).with_pointer(error.place)
    }
}

/// A warning about a valid part of a document that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable code: `UNRESOLVED_TOOL`, `UNRESOLVED_SERVER`, `NO_TOOLS`, `LIMIT_WITHOUT_EFFECT`, `NOTHING_RUNS`, `NO_EFFECT`,
    /// `UNDEFINED`.
    pub code: &'static str,
    /// JSON pointer into the document.
    pub path: String,
    /// The finding, in one line.
    pub message: String,
    /// The nearest known name.
    pub nearest: Option<String>,
    /// The pattern that matches no tool here; the receiver may know further tools.
    pub unresolved: Option<ToolPattern>,
}

impl Warning {
    /// A warning without a guess.
    pub fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into(), nearest: None, unresolved: None }
    }
}

/// The fields of one kind of object.
pub(crate) struct Fields {
    /// The kind of document, for messages: "an agent's document".
    pub whose: &'static str,
    pub known: &'static [&'static str],
    /// Published fields that are not enforced yet: accepting a value would promise a protection that does not exist.
    pub to_come: &'static [&'static str],
}

/// A part of a document, and where it stands.
pub(crate) struct Part<'a> {
    value: &'a Value,
    place: String,
}

/// Reads the text of a document.
pub(crate) fn read(json: &str) -> Result<Value, DocumentError> {
    parse_strict(json, DOCUMENT_DEPTH).map_err(|error| {
        let message = format!("{} at line {} column {}", error.kind, error.line, error.column);
        DocumentError::new(error.pointer, message, "mend it there; a document is one JSON object")
    })
}

impl<'a> Part<'a> {
    /// The whole document, which has no other fields than these.
    pub fn whole(value: &'a Value, fields: &Fields) -> Result<Self, DocumentError> {
        let whole = Self { value, place: String::new() };
        whole.check_fields(fields)?;
        Ok(whole)
    }

    /// A member; absent and `null` are the same.
    pub fn member(&self, name: &str) -> Option<Part<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Part { value, place: self.below(name) })
    }

    /// That it is an object without other fields than these.
    pub fn check_fields(&self, fields: &Fields) -> Result<(), DocumentError> {
        for (field, value) in self.object()? {
            if fields.known.contains(&field.as_str())
                || is_empty(value) && fields.to_come.contains(&field.as_str())
            {
                continue;
            }
            return Err(self.unknown(field, fields));
        }
        Ok(())
    }

    fn unknown(&self, field: &str, fields: &Fields) -> DocumentError {
        let place = self.below(field);
        if fields.to_come.contains(&field) {
            let hint = "leave it out: a rule that nobody holds is refused, not noted";
            return DocumentError::new(place, format!("nothing enforces `{field}` yet"), hint);
        }
        let hint = match nearest(field, fields.known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => {
                format!("{} has {}", fields.whose, list(fields.known.iter().copied(), fields.known.len()))
            }
        };
        DocumentError::new(place, format!("unknown field `{}`", escape_for_display(field, 64)), hint)
    }

    /// A table: names, and what each stands for.
    pub fn table<T>(
        &self,
        what: &str,
        read: impl Fn(&Part<'a>) -> Result<T, DocumentError>,
    ) -> Result<BTreeMap<Name, T>, DocumentError> {
        let object = self.object()?;
        if object.len() > ENTRIES {
            return Err(self.error(format!("there are more than {ENTRIES} entries"), "leave some out"));
        }
        let entry = |(key, value): (&String, &'a Value)| {
            let place = self.below(key);
            let name = Name::parse(key).map_err(|error| {
                DocumentError::new(&place, format!("{} of {what}", error.message), error.hint)
            })?;
            Ok((name, read(&Part { value, place })?))
        };
        object.iter().map(entry).collect()
    }

    /// A table of tools, and what each is given.
    pub fn tool_table<T>(
        &self,
        read: impl Fn(&Part<'a>) -> Result<T, DocumentError>,
    ) -> Result<Vec<(ToolPattern, T)>, DocumentError> {
        let entry = |(key, value): (&String, &'a Value)| {
            let place = self.below(key);
            Ok((pattern(key, &place)?, read(&Part { value, place })?))
        };
        self.object()?.iter().map(entry).collect()
    }

    /// A list of tools, or `"*"`.
    pub fn tools(&self) -> Result<ToolList, DocumentError> {
        let hint = "write \"*\", or a list of `namespace/tool` and `namespace/*`";
        match self.value {
            Value::String(all) if all == "*" => Ok(ToolList::All),
            Value::Array(items) if items.len() <= ToolList::LONGEST => {
                let entry = |(index, item): (usize, &Value)| match item.as_str() {
                    Some(text) => pattern(text, &self.below(&index.to_string())),
                    None => Err(DocumentError::new(
                        self.below(&index.to_string()),
                        "the entry is not a string",
                        hint,
                    )),
                };
                let patterns: Vec<_> = items.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
                Ok(ToolList::of(patterns))
            }
            Value::Array(_) => {
                Err(self.error(format!("the list has more than {} entries", ToolList::LONGEST), hint))
            }
            _ => Err(self.error("this is no list of tools", hint)),
        }
    }

    /// The name of a profile, a channel and the like.
    pub fn name(&self) -> Result<Name, DocumentError> {
        Name::parse(self.text()?).map_err(|error| DocumentError::new(&self.place, error.message, error.hint))
    }

    /// A string.
    pub fn text(&self) -> Result<&'a str, DocumentError> {
        self.value.as_str().ok_or_else(|| self.error("this is not a string", "write a string"))
    }

    /// A list of strings.
    pub fn texts(&self) -> Result<Vec<String>, DocumentError> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.error("this is not a list", "write a list of strings"))?;
        let text = |(index, value): (usize, &'a Value)| {
            let part = Part { value, place: self.below(&index.to_string()) };
            part.text().map(str::to_owned)
        };
        items.iter().enumerate().map(text).collect()
    }

    /// The entries of a list.
    pub fn items(&self, most: usize) -> Result<Vec<Part<'a>>, DocumentError> {
        let items = self.value.as_array().ok_or_else(|| self.error("this is not a list", "write a list"))?;
        if items.len() > most {
            return Err(self.error(format!("the list has more than {most} entries"), "leave some out"));
        }
        let item = |(index, value)| Part { value, place: self.below(&format!("{index}")) };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A member that is a list, each entry read by `read`; absent is empty.
    pub fn list<T>(
        &self,
        name: &str,
        most: usize,
        read: impl Fn(&Part<'a>) -> Result<T, DocumentError>,
    ) -> Result<Vec<T>, DocumentError> {
        self.member(name).map_or(Ok(Vec::new()), |part| part.items(most)?.iter().map(read).collect())
    }

    /// A whole number, where it is one.
    pub fn number(&self) -> Option<u64> {
        self.value.as_u64()
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Result<bool, DocumentError> {
        self.value
            .as_bool()
            .ok_or_else(|| self.error("this is neither true nor false", "write `true` or `false`"))
    }

    /// Limits.
    pub fn limits(&self) -> Result<LimitsPatch, DocumentError> {
        let hint = "write an object of limits and whole numbers, like `{\"deadline_ms\":5000}`";
        let object = self.value.as_object().ok_or_else(|| self.error("this is no object of limits", hint))?;
        let limit = |(key, value): (&String, &'a Value)| {
            let part = Part { value, place: self.below(key) };
            let name = LimitName::parse(key).map_err(|error| part.error(error.to_string(), hint))?;
            let number = part.number().ok_or_else(|| part.error("a limit is a whole number from 0 on", hint));
            Ok((name, number?))
        };
        object.iter().filter(|(_, value)| !value.is_null()).map(limit).collect()
    }

    /// One of some words.
    pub fn one_of<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, DocumentError> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let known = words.iter().map(|(word, _)| *word);
        found.ok_or_else(|| {
            let hint = match nearest(text, known.clone()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("write one of {}", list(known, words.len())),
            };
            self.error(
                format!("`{}` is not one of the words that can stand here", escape_for_display(text, 64)),
                hint,
            )
        })
    }

    pub fn error(&self, message: impl Into<String>, hint: impl Into<String>) -> DocumentError {
        DocumentError::new(&self.place, message, hint)
    }

    fn object(&self) -> Result<&'a Map<String, Value>, DocumentError> {
        let what = if self.place.is_empty() { "the document" } else { "this" };
        self.value
            .as_object()
            .ok_or_else(|| self.error(format!("{what} is not an object"), "send one JSON object"))
    }

    fn below(&self, name: &str) -> String {
        pointer(&self.place, name)
    }
}

/// The JSON pointer of a member.
pub(super) fn pointer(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn pattern(text: &str, place: &str) -> Result<ToolPattern, DocumentError> {
    ToolPattern::parse(text).map_err(|error| {
        let hint = match crate::name::read_called_name(text) {
            Some(id) => format!("write `{id}`"),
            None => error.hint.to_owned(),
        };
        DocumentError::new(place, error.message, hint)
    })
}

/// An empty value promises nothing, so it is accepted.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Limits that are above what the layers above leave, and those under which nothing runs.
pub(crate) fn limits_without_effect<'a>(
    limits: &'a LimitsPatch,
    above: &'a Limits,
) -> impl Iterator<Item = Warning> + 'a {
    limits.iter().filter_map(|(name, value)| {
        let warning = |code, message| Some(Warning::new(code, format!("/limits/{name}"), message));
        if value > above.get(name) {
            let message = format!(
                "`{name}` of {value} is above {}, which is all that there is to give",
                above.get(name)
            );
            return warning("LIMIT_WITHOUT_EFFECT", message);
        }
        let is_needed = [LimitName::Fuel, LimitName::MemoryBytes, LimitName::DeadlineMs].contains(&name);
        match value == 0 && is_needed {
            true => warning("NOTHING_RUNS", format!("with a `{name}` of 0 no call can run")),
            false => None,
        }
    })
}

/// Entries of a list that no loaded tool answers to, with the nearest that one does.
pub(super) fn unresolved<P>(place: &str, list: &ToolList, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let patterns = list.patterns().iter().enumerate();
    patterns
        .filter_map(|(index, pattern)| unresolved_pattern(&format!("{place}/{index}"), pattern, catalogue))
        .collect()
}

/// The same for one entry.
pub(super) fn unresolved_pattern<P>(
    place: &str,
    pattern: &ToolPattern,
    catalogue: &Catalogue<P>,
) -> Option<Warning> {
    let is_loaded = match pattern {
        ToolPattern::All => true,
        ToolPattern::Plugin(namespace) => catalogue.plugin(namespace).is_some(),
        ToolPattern::Tool(id) => catalogue.number_of(id).is_some(),
    };
    (!is_loaded).then(|| Warning {
        nearest: nearest_pattern(pattern, catalogue),
        unresolved: Some(pattern.clone()),
        ..Warning::new("UNRESOLVED_TOOL", place, format!("no loaded tool answers to `{pattern}`"))
    })
}

fn nearest_pattern<P>(pattern: &ToolPattern, catalogue: &Catalogue<P>) -> Option<String> {
    let namespaces = || catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str());
    let ToolPattern::Tool(id) = pattern else {
        return nearest(pattern.namespace()?.as_str(), namespaces())
            .map(|namespace| format!("{namespace}/*"));
    };
    // The plugin first: a right plugin with a wrong tool is the common slip.
    let namespace = Namespace::parse(nearest(id.namespace.as_str(), namespaces())?).ok()?;
    let tools = &catalogue.plugin(&namespace)?.descriptor.tools;
    let tool = nearest(id.tool.as_str(), tools.iter().map(|tool| tool.name.as_str()))?;
    Some(format!("{namespace}/{tool}"))
}
