//! Where each argument of an action goes: one place for each, and no place for two.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolgate_sdk::Error;

use super::action::{Method, meant_property};
use super::headers::check_name;
use super::part::{Part, shown};
use super::template::Template;
use crate::plan::{ContentForm, Place, Style, Target};

/// Most arguments of an action. A model that is shown more of them uses few.
pub const ARGUMENTS: usize = 200;

/// Longest name in a query or in the content.
const NAME_CHARS: usize = 200;

/// What decides about places beside what is written.
pub struct Call<'a> {
    pub method: Method,
    pub template: &'a Template,
    pub schema: &'a Map<String, Value>,
    pub form: ContentForm,
}

/// Reads where the arguments of an action go.
pub fn read(action: &Part<'_>, call: &Call<'_>) -> Result<BTreeMap<String, Place>, Error> {
    let list = action.below("arguments");
    let empty = Map::new();
    let properties = call.schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    if let Some(written) = action.member("arguments") {
        check_names(&written, properties, call.schema)?;
    }
    let mut places = Places { call, taken: Vec::new() };
    let mut arguments = BTreeMap::new();
    for (name, schema) in properties {
        let written = list.member(name);
        let target = match &written {
            Some(part) => read_target(part, name, call)?,
            None => usual_target(name, call),
        };
        let part = written.unwrap_or_else(|| list.below(name));
        check_target(&part, &target, schema, call)?;
        places.take(&part, name, &target)?;
        arguments.insert(name.clone(), Place { target, whole_numbers: has_whole_numbers(schema) });
    }
    Ok(arguments)
}

fn check_names(
    written: &Part<'_>,
    properties: &Map<String, Value>,
    schema: &Map<String, Value>,
) -> Result<(), Error> {
    for (name, part) in written.members(ARGUMENTS)? {
        if !properties.contains_key(name) {
            let message = format!("`{}` is no property of `input_schema`", shown(name));
            return Err(part.error(message, meant_property(name, schema)));
        }
    }
    Ok(())
}

fn usual_target(name: &str, call: &Call<'_>) -> Target {
    if call.template.names(name) {
        Target::Path
    } else if call.method.prefers_content && call.form != ContentForm::Text {
        Target::Member(name.to_owned())
    } else if call.method.prefers_content {
        Target::Content
    } else {
        Target::Query { name: name.to_owned(), style: Style::Form }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Path,
    Query,
    Header,
    Body,
    Cookie,
}

const KINDS: [(&str, Kind); 5] = [
    ("path", Kind::Path),
    ("query", Kind::Query),
    ("header", Kind::Header),
    ("body", Kind::Body),
    ("cookie", Kind::Cookie),
];

const STYLES: [(&str, Style); 6] = [
    ("form", Style::Form),
    ("comma", Style::Comma),
    ("space", Style::Space),
    ("pipe", Style::Pipe),
    ("deep_object", Style::DeepObject),
    ("json", Style::Json),
];

/// Reads a place: a word, or an object with `in`.
fn read_target(part: &Part<'_>, argument: &str, call: &Call<'_>) -> Result<Target, Error> {
    if part.value().is_string() {
        return target(part, part.one_of(&KINDS)?, argument, call);
    }
    let hint =
        "write `path`, `query`, `header` or `body`, or an object like `{\"in\":\"query\",\"name\":\"q\"}`";
    if !part.value().is_object() {
        return Err(part.error("this is no place of an argument", hint));
    }
    let kind = part.required("in", hint)?.one_of(&KINDS)?;
    part.check_fields(match kind {
        Kind::Path => &["in"],
        Kind::Query => &["in", "name", "style"],
        Kind::Header => &["in", "name"],
        Kind::Body => &["in", "name", "whole", "style"],
        Kind::Cookie => &["in", "name"],
    })?;
    target(part, kind, argument, call)
}

fn target(part: &Part<'_>, kind: Kind, argument: &str, call: &Call<'_>) -> Result<Target, Error> {
    let is_in_path = call.template.names(argument);
    let name = || part.member("name").map_or(Ok(argument), |part| part.string()).map(str::to_owned);
    match kind {
        Kind::Path if is_in_path => Ok(Target::Path),
        Kind::Path => Err(part.error(
            format!("the path does not name `{argument}`"),
            format!("write `{{{argument}}}` where it belongs in `path`"),
        )),
        _ if is_in_path => Err(part
            .error(format!("`{argument}` stands in the path"), "leave this out, or take it out of `path`")),
        Kind::Query => {
            let style = part.member("style").map_or(Ok(Style::Form), |part| part.one_of(&STYLES))?;
            Ok(Target::Query { name: name()?, style })
        }
        Kind::Header => Ok(Target::Header(name()?)),
        Kind::Body => body_target(part, name()?),
        Kind::Cookie => {
            Err(part
                .error("arguments do not go into cookies", "an API for programs takes it in another place"))
        }
    }
}

fn body_target(part: &Part<'_>, name: String) -> Result<Target, Error> {
    let is_whole = part.member("whole").map_or(Ok(false), |part| part.flag())?;
    // The one style that a body has: all others are a question of its form.
    let has_brackets = part.member("style").map(|part| part.one_of(&[("deep_object", ())])).transpose()?;
    if is_whole {
        return match part.member("name").or_else(|| part.member("style")) {
            None => Ok(Target::Content),
            Some(other) => {
                Err(other.error("the whole body has no name and no style", "keep this or `whole`"))
            }
        };
    }
    Ok(if has_brackets.is_some() { Target::Members(name) } else { Target::Member(name) })
}

/// That the place can take what the argument's schema says.
fn check_target(part: &Part<'_>, target: &Target, schema: &Value, call: &Call<'_>) -> Result<(), Error> {
    let is_object = declares(schema, "object");
    match target {
        Target::Path | Target::Header(_) if is_object => Err(part
            .error("an object has no place in a path or a header field", "send it in the query or the body")),
        Target::Path => Ok(()),
        Target::Header(name) => check_name(part, name),
        Target::Query { name, style } => {
            check_member_name(part, name)?;
            check_style(part, *style, schema)
        }
        inside if inside.is_in_the_content() && !call.method.takes_content => Err(part.error(
            format!("a {} request has no body", call.method.name),
            "send it in the query, or use another method",
        )),
        Target::Content => match call.form == ContentForm::Text && !declares(schema, "string") {
            true => {
                Err(part.error("the body is text, and this argument is not", "give it `\"type\":\"string\"`"))
            }
            false => Ok(()),
        },
        Target::Member(_) | Target::Members(_) if call.form == ContentForm::Text => {
            Err(part.error("a body of text has no members", "write `{\"in\":\"body\",\"whole\":true}`"))
        }
        Target::Member(_) if call.form == ContentForm::Form && is_object => {
            let hint = "use `\"body\":\"json\"`, or write `{\"in\":\"body\",\"style\":\"deep_object\"}`";
            Err(part.error("an object has no place in a form of its own", hint))
        }
        Target::Members(_) if call.form != ContentForm::Form => {
            Err(part.error("only a form has a style; JSON holds an object as it is", "leave `style` out"))
        }
        Target::Members(name) => {
            check_member_name(part, name)?;
            check_style(part, Style::DeepObject, schema)
        }
        Target::Member(name) => check_member_name(part, name),
    }
}

fn check_member_name(part: &Part<'_>, name: &str) -> Result<(), Error> {
    let is_good = !name.is_empty() && name.chars().count() <= NAME_CHARS && !name.contains(char::is_control);
    match is_good {
        true => Ok(()),
        false => Err(part.error(
            format!("`{}` is no name in a query or a body", shown(name)),
            format!("write 1 to {NAME_CHARS} characters"),
        )),
    }
}

fn check_style(part: &Part<'_>, style: Style, schema: &Value) -> Result<(), Error> {
    let is_object = declares(schema, "object");
    match style {
        Style::Json => Ok(()),
        Style::DeepObject if schema.get("type").is_some() && !is_object => {
            Err(part.error("`deep_object` is a style of objects, and this is none", "use another style"))
        }
        Style::Form | Style::Comma | Style::Space | Style::Pipe if is_object => {
            Err(part.error("this style does not take objects", "use the style `deep_object` or `json`"))
        }
        _ => Ok(()),
    }
}

/// Whether a schema says this type, and perhaps null.
fn declares(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(text)) => text == kind,
        Some(Value::Array(kinds)) => kinds.iter().filter(|other| *other != "null").all(|other| other == kind),
        _ => false,
    }
}

fn has_whole_numbers(schema: &Value) -> bool {
    declares(schema, "integer") || schema.get("items").is_some_and(|items| declares(items, "integer"))
}

/// The places that are taken.
struct Places<'a> {
    call: &'a Call<'a>,
    taken: Vec<(String, Target)>,
}

impl Places<'_> {
    fn take(&mut self, part: &Part<'_>, argument: &str, target: &Target) -> Result<(), Error> {
        if let Target::Query { name, style } = target
            && let Some(constant) =
                self.call.template.query_names().find(|other| overlaps(name, *style, other, Style::Form))
        {
            let message = format!("`{}` of the query is always sent as the path has it", shown(constant));
            return Err(part.error(message, "take it out of the path, or give the argument another name"));
        }
        if let Some((other, _)) = self.taken.iter().find(|(_, taken)| is_same_place(taken, target)) {
            let message = format!("`{argument}` and `{other}` would go to the same place");
            return Err(part.error(message, "give one of them another `name` or another place"));
        }
        self.taken.push((argument.to_owned(), target.clone()));
        Ok(())
    }
}

fn is_same_place(left: &Target, right: &Target) -> bool {
    match (left, right) {
        (Target::Query { name, style }, Target::Query { name: other, style: other_style }) => {
            overlaps(name, *style, other, *other_style)
        }
        (Target::Header(left), Target::Header(right)) => left.eq_ignore_ascii_case(right),
        // What is sent whole leaves no place for another.
        (Target::Content, other) | (other, Target::Content) => other.is_in_the_content(),
        (left, right) => match (in_content(left), in_content(right)) {
            (Some((left, left_style)), Some((right, right_style))) => {
                overlaps(left, left_style, right, right_style)
            }
            _ => false,
        },
    }
}

/// The name in the content, and how an object stands there.
fn in_content(target: &Target) -> Option<(&str, Style)> {
    match target {
        Target::Member(name) => Some((name, Style::Form)),
        Target::Members(name) => Some((name, Style::DeepObject)),
        Target::Path | Target::Query { .. } | Target::Header(_) | Target::Content => None,
    }
}

/// An object takes all names that begin with its own and a bracket.
fn overlaps(left: &str, left_style: Style, right: &str, right_style: Style) -> bool {
    let is_member = |whole: &str, style: Style, name: &str| {
        style == Style::DeepObject && name.strip_prefix(whole).is_some_and(|rest| rest.starts_with('['))
    };
    left == right || is_member(left, left_style, right) || is_member(right, right_style, left)
}
