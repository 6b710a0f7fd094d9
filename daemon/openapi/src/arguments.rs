//! The arguments of an action: what each is called, what it may be, and where it goes.
//!
//! Names become what every model provider takes (letters, digits, `_`, `-`, `.`, at most 64). Parameters keep their names
//! before members of the body do; a body whose members would clash with them is one argument instead.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_admission::show;

use crate::body::{Body, Writing};
use crate::document::Document;
use crate::forms::{self, Field};
use crate::parameters::{Meaning, Parameter, Place};
use crate::schema::{Direction, Members};

/// Longest name of an argument, in bytes: the least of what model providers allow.
const NAME_BYTES: usize = 64;
/// Most arguments of one action, as the component behind definitions has it.
const ARGUMENTS: usize = 200;

/// An argument.
pub(crate) struct Argument<'a> {
    pub(crate) name: String,
    pub(crate) is_required: bool,
    pub(crate) meaning: Meaning<'a>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_deprecated: bool,
    /// Where it goes, where that does not follow from its name.
    pub(crate) place: Option<Value>,
    /// Whether it goes into the body.
    pub(crate) is_content: bool,
    /// For one in the path, its name there.
    pub(crate) variable: Option<&'a str>,
}

/// The arguments that parameters and body make.
pub(crate) fn arrange<'a>(
    document: &'a Document,
    method: &str,
    parameters: Vec<Parameter<'a>>,
    body: Option<&Body<'a>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Argument<'a>>, String> {
    let mut names = Names::default();
    let mut arguments = Vec::new();
    let mut parameters = parameters;
    // Names in the path count first, since the path itself shows them.
    parameters.sort_by_key(|parameter| parameter.place);
    for parameter in parameters {
        let name = names.give(parameter.name, parameter.place);
        let default = if has_no_body(method) { Place::Query } else { Place::Body };
        let place = place(&parameter, &name, default);
        arguments.push(Argument {
            is_required: parameter.is_required,
            meaning: parameter.meaning,
            description: parameter.description,
            is_deprecated: parameter.is_deprecated,
            place,
            is_content: false,
            variable: (parameter.place == Place::Path).then_some(parameter.name),
            name,
        });
    }
    if let Some(body) = body {
        of_body(document, method, body, &mut names, &mut arguments, notes)?;
    }
    match arguments.len() > ARGUMENTS {
        true => Err(format!("it has more than {ARGUMENTS} arguments")),
        false => without_rivals(arguments, method, notes),
    }
}

/// Each place once: of arguments that would go to the same one the first stays.
fn without_rivals<'a>(
    arguments: Vec<Argument<'a>>,
    method: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Argument<'a>>, String> {
    let mut kept: Vec<Argument<'a>> = Vec::new();
    let mut taken: Vec<Target> = Vec::new();
    for argument in arguments {
        let target = Target::of(&argument, method);
        if !taken.iter().any(|other| other.overlaps(&target)) {
            taken.push(target);
            kept.push(argument);
            continue;
        }
        let shown = show(&target.name, 80);
        if argument.is_required {
            return Err(format!("two of its arguments go to `{shown}`"));
        }
        notes.push(format!("`{shown}` is left out: another argument goes there"));
    }
    Ok(kept)
}

/// Where an argument stands in the request.
struct Target {
    place: String,
    name: String,
    is_deep: bool,
}

impl Target {
    fn of(argument: &Argument<'_>, method: &str) -> Self {
        let usual = match argument.variable {
            Some(_) => "path",
            None if has_no_body(method) => "query",
            None => "body",
        };
        let text = |name: &str| argument.place.as_ref().and_then(|place| place.get(name)?.as_str());
        let word = argument.place.as_ref().and_then(Value::as_str);
        let place = word.or_else(|| text("in")).unwrap_or(usual);
        let name = text("name").unwrap_or(&argument.name);
        // Names of header fields are the same in either case of letters.
        let name = if place == "header" { name.to_ascii_lowercase() } else { name.to_owned() };
        Self { place: place.to_owned(), name, is_deep: text("style") == Some("deep_object") }
    }

    /// Whether both would write the same name. An object has all names that begin with its own and a bracket.
    fn overlaps(&self, other: &Self) -> bool {
        let holds = |whole: &Self, part: &Self| {
            whole.is_deep && part.name.strip_prefix(&whole.name).is_some_and(|rest| rest.starts_with('['))
        };
        let is_same = self.name == other.name || holds(self, other) || holds(other, self);
        self.place == other.place && is_same
    }
}

/// Whether arguments go to the query where nothing is said.
fn has_no_body(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS")
}

fn place(parameter: &Parameter<'_>, name: &str, default: Place) -> Option<Value> {
    let Parameter { place, style, .. } = parameter;
    let is_called_so = name == parameter.sent_as;
    if *place == Place::Path || *place == default && style.is_none() && is_called_so {
        return None;
    }
    if style.is_none() && is_called_so {
        return Some(json!(place.as_str()));
    }
    let mut written = Map::new();
    written.insert("in".to_owned(), json!(place.as_str()));
    if !is_called_so {
        written.insert("name".to_owned(), json!(parameter.sent_as));
    }
    written.extend(style.map(|style| ("style".to_owned(), json!(style))));
    Some(Value::Object(written))
}

fn of_body<'a>(
    document: &'a Document,
    method: &str,
    body: &Body<'a>,
    names: &mut Names,
    arguments: &mut Vec<Argument<'a>>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    let members = match &body.members {
        Some(members) => members,
        None => return whole(body, names, arguments),
    };
    let fields = match body.form {
        Writing::Form => forms::fields(document, members, body.encoding, notes)?,
        Writing::Json | Writing::Text => plain_fields(document, members),
    };
    if body.form == Writing::Json && !names.are_free(fields.iter().map(|field| field.name.as_str())) {
        return whole(body, names, arguments);
    }
    for field in fields {
        let name = names.give(&field.name, Place::Body);
        let place = match (name == field.sent_as, has_no_body(method)) {
            _ if field.is_open => Some(json!({"in": "body", "name": field.sent_as, "style": "deep_object"})),
            (true, false) => None,
            (true, true) => Some(json!("body")),
            (false, _) => Some(json!({"in": "body", "name": field.sent_as})),
        };
        arguments.push(Argument {
            name,
            is_required: body.is_required && field.is_required,
            meaning: Meaning::Schema(field.schema),
            description: None,
            is_deprecated: false,
            place,
            is_content: true,
            variable: None,
        });
    }
    Ok(())
}

/// Members of a JSON body, which holds anything.
fn plain_fields<'a>(document: &'a Document, members: &Members<'a>) -> Vec<Field<'a>> {
    let sent = members.properties.iter();
    let sent = sent.filter(|(_, schema)| !Direction::Request.is_hidden(document, schema));
    sent.map(|(name, schema)| Field {
        name: (*name).to_owned(),
        sent_as: (*name).to_owned(),
        schema,
        is_required: members.required.contains(name),
        is_open: false,
    })
    .collect()
}

fn whole<'a>(body: &Body<'a>, names: &mut Names, arguments: &mut Vec<Argument<'a>>) -> Result<(), String> {
    let meaning = match (body.form, body.schema) {
        (Writing::Text, _) => Meaning::Text,
        (_, Some(schema)) => Meaning::Schema(schema),
        (_, None) => Meaning::Schema(&Value::Null),
    };
    arguments.push(Argument {
        name: names.give("body", Place::Body),
        is_required: body.is_required,
        meaning,
        description: body.description,
        is_deprecated: false,
        place: Some(json!({"in": "body", "whole": true})),
        is_content: true,
        variable: None,
    });
    Ok(())
}

/// Names that are given.
#[derive(Default)]
struct Names {
    given: BTreeSet<String>,
}

impl Names {
    /// A name like the original that nobody has: with its place before it, or else with a number behind.
    fn give(&mut self, original: &str, place: Place) -> String {
        let plain = sendable(original);
        let placed = sendable(&format!("{}_{plain}", place.as_str()));
        let numbered = (2..).map(|number| {
            let end = format!("_{number}");
            let start = plain.get(..plain.len().min(NAME_BYTES - end.len())).unwrap_or_default();
            format!("{start}{end}")
        });
        let mut names = [plain.clone(), placed].into_iter().chain(numbered);
        let name = names.find(|name| !self.given.contains(name)).unwrap_or_default();
        self.given.insert(name.clone());
        name
    }

    /// Whether all of these could be given as they are.
    fn are_free<'a>(&self, originals: impl Iterator<Item = &'a str>) -> bool {
        let mut own = BTreeSet::new();
        let mut originals = originals.map(sendable);
        originals.all(|name| !self.given.contains(&name) && own.insert(name))
    }
}

/// A name of letters that every model provider takes.
fn sendable(original: &str) -> String {
    let mut name = String::new();
    for letter in original.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') => {
                name.push(letter)
            }
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let is_other = name != original;
    let name = if is_other { name.trim_end_matches('_') } else { name.as_str() };
    let name = name.get(..name.len().min(NAME_BYTES)).unwrap_or_default();
    if name.is_empty() { "argument".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_what_every_provider_takes() {
        for (original, name) in [
            ("per_page", "per_page"),
            ("filter[status]", "filter_status"),
            ("$top", "top"),
            ("X-Trace", "X-Trace"),
            ("a.b", "a.b"),
            ("日本", "argument"),
            ("_x_", "_x_"),
        ] {
            assert_eq!(sendable(original), name, "{original}");
        }
        assert_eq!(sendable(&"a".repeat(90)).len(), 64);
    }

    #[test]
    fn who_comes_second_is_called_after_its_place_and_then_by_number() {
        let mut names = Names::default();
        let given = [Place::Path, Place::Query, Place::Query].map(|place| names.give("id", place));
        assert_eq!(given, ["id", "query_id", "id_2"]);
    }
}
