//! Where each argument of an action goes: one place for each, and no place for two.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolgate_api::definition::{BodyFormat, Location, Method, Placement, Style};
use toolgate_api::read::{ReadError, pointer};
use toolgate_api::text::escape_for_display;

use super::headers::check_name;
use super::template::Template;
use crate::plan::{Place, Target};

/// Most arguments of an action. A model that is shown more of them uses few.
pub const ARGUMENTS: usize = 200;

/// Longest name in a query or in the content.
const NAME_CHARS: usize = 200;

/// The parts of a call that decide about places beside the written ones.
pub struct Call<'a> {
    pub method: Method,
    pub template: &'a Template,
    pub schema: &'a Map<String, Value>,
    pub form: BodyFormat,
    /// The argument that names the file to save the response to.
    pub save_path: Option<&'a str>,
}

/// Decides where the arguments of an action go. `place` is that of `arguments`.
pub fn compile(
    place: &str,
    written: &BTreeMap<String, Option<Placement>>,
    call: &Call<'_>,
) -> Result<BTreeMap<String, Place>, ReadError> {
    let empty = Map::new();
    let properties = call.schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    if let Some(unknown) = written.keys().find(|name| !properties.contains_key(*name)) {
        let known = properties.keys().map(String::as_str);
        return Err(ReadError::undefined_name(pointer(place, unknown), "property", unknown, known));
    }
    let mut places = Places { call, taken: Vec::new() };
    let mut arguments = BTreeMap::new();
    for (name, schema) in properties {
        let place = pointer(place, name);
        let target = match written.get(name) {
            _ if call.save_path == Some(name) => save_path(&place, name, written, call)?,
            Some(Some(placement)) => read_target(&place, placement, name, call)?,
            _ => usual_target(name, call),
        };
        check_target(&place, &target, schema, call)?;
        places.take(&place, name, &target)?;
        arguments.insert(name.clone(), Place { target, whole_numbers: has_whole_numbers(schema) });
    }
    Ok(arguments)
}

/// The path of the file that the response is saved to is an argument that is not sent.
fn save_path(
    place: &str,
    name: &str,
    written: &BTreeMap<String, Option<Placement>>,
    call: &Call<'_>,
) -> Result<Target, ReadError> {
    match written.contains_key(name) || call.template.names(name) {
        true => Err(ReadError::new(
            place,
            format!("`{name}` names the file that the response is saved to, and is not sent"),
            "leave its place out, or name another argument in `result`",
        )),
        false => Ok(Target::SavePath),
    }
}

fn usual_target(name: &str, call: &Call<'_>) -> Target {
    if call.template.names(name) {
        Target::Path
    } else if call.method.prefers_body() && !call.form.is_whole() {
        Target::Member(name.to_owned())
    } else if call.method.prefers_body() {
        Target::Content
    } else {
        Target::Query { name: name.to_owned(), style: Style::Form }
    }
}

fn read_target(
    place: &str,
    placement: &Placement,
    argument: &str,
    call: &Call<'_>,
) -> Result<Target, ReadError> {
    let location = placement.location;
    let fields = [
        ("name", placement.name.is_some() && location == Location::Path),
        ("style", placement.style.is_some() && !matches!(location, Location::Query | Location::Body)),
        ("whole", placement.whole.is_some() && location != Location::Body),
        ("file", placement.file.is_some() && location != Location::Body),
    ];
    if let Some((name, _)) = fields.iter().find(|(_, is_unknown)| *is_unknown) {
        let hint = "leave it out: only the query and the body have styles, and only the body is one argument or has files";
        return Err(ReadError::new(pointer(place, name), format!("unknown field `{name}`"), hint));
    }
    let is_in_path = call.template.names(argument);
    let name = || placement.name.clone().unwrap_or_else(|| argument.to_owned());
    match location {
        Location::Path if is_in_path => Ok(Target::Path),
        Location::Path => Err(ReadError::new(
            place,
            format!("the path does not name `{argument}`"),
            format!("write `{{{argument}}}` where it belongs in `path`"),
        )),
        _ if is_in_path => Err(ReadError::new(
            place,
            format!("`{argument}` stands in the path"),
            "leave this out, or take it out of `path`",
        )),
        Location::Query => Ok(Target::Query { name: name(), style: placement.style.unwrap_or_default() }),
        Location::Header => Ok(Target::Header(name())),
        Location::Body => body_target(place, placement, name(), call.form),
        Location::Cookie => Err(ReadError::new(
            place,
            "arguments do not go into cookies",
            "an API for programs takes it in another place",
        )),
    }
}

fn body_target(
    place: &str,
    placement: &Placement,
    name: String,
    form: BodyFormat,
) -> Result<Target, ReadError> {
    let is_whole = placement.whole.unwrap_or_default();
    let is_file = placement.file.unwrap_or_default();
    if is_file
        && (is_whole, form) != (true, BodyFormat::Binary)
        && (is_whole, form) != (false, BodyFormat::Multipart)
    {
        return Err(ReadError::new(
            pointer(place, "file"),
            "a body of this form has no files",
            "use `\"body\":\"multipart\"`, or `\"body\":\"binary\"` with `\"whole\":true`",
        ));
    }
    match placement.style {
        // The one style that a body has: all others are a question of its form.
        Some(style) if style != Style::DeepObject => {
            let message = "the only style in a body is `deep_object`";
            Err(ReadError::new(pointer(place, "style"), message, "leave `style` out"))
        }
        style if is_whole && (style.is_some() || placement.name.is_some()) => {
            let other = if placement.name.is_some() { "name" } else { "style" };
            let message = "the whole body has no name and no style";
            Err(ReadError::new(pointer(place, other), message, "keep this or `whole`"))
        }
        _ if is_whole => Ok(Target::Content),
        Some(_) => Ok(Target::Members(name)),
        None if is_file => Ok(Target::File(name)),
        None => Ok(Target::Member(name)),
    }
}

/// Checks that the place can take what the argument's schema says.
fn check_target(place: &str, target: &Target, schema: &Value, call: &Call<'_>) -> Result<(), ReadError> {
    match target {
        Target::Path | Target::Header(_) if declares(schema, "object") => Err(ReadError::new(
            place,
            "an object has no place in a path or a header field",
            "send it in the query or the body",
        )),
        Target::Path => Ok(()),
        Target::Header(name) => check_name(place, name),
        Target::Query { name, style } => {
            check_member_name(place, name)?;
            check_style(place, *style, schema)
        }
        inside if inside.is_in_the_content() && !call.method.takes_body() => Err(ReadError::new(
            place,
            format!("a {} request has no body", call.method.as_str()),
            "send it in the query, or use another method",
        )),
        Target::SavePath if declares(schema, "string") => Ok(()),
        Target::SavePath => Err(ReadError::new(
            place,
            "the path of the file that the response is saved to is no string",
            "give it `\"type\":\"string\"`",
        )),
        _ => check_body_target(place, target, schema, call.form),
    }
}

fn check_body_target(
    place: &str,
    target: &Target,
    schema: &Value,
    form: BodyFormat,
) -> Result<(), ReadError> {
    let refuse = |message: &str, hint: &str| Err(ReadError::new(place, message, hint));
    let is_text = declares(schema, "string");
    match target {
        Target::Content if form == BodyFormat::Multipart => {
            refuse("a body of many parts is not one argument", "leave `whole` out: each argument is a part")
        }
        Target::Content if form.is_whole() && !is_text => refuse(
            "the body is text or a file, and this argument is neither a text nor a path",
            "give it `\"type\":\"string\"`",
        ),
        Target::File(_) if !is_text && !declares_paths(schema) => refuse(
            "a file is named by its path, and this argument is none",
            "give it `\"type\":\"string\"`, or an array of strings",
        ),
        Target::Member(_) | Target::Members(_) if form.is_whole() => refuse(
            "a body of text, or of one file, has no members",
            "write `{\"in\":\"body\",\"whole\":true}`",
        ),
        Target::Member(_) if form == BodyFormat::Form && declares(schema, "object") => refuse(
            "an object has no place in a form of its own",
            "use `\"body\":\"json\"`, or write `{\"in\":\"body\",\"style\":\"deep_object\"}`",
        ),
        Target::Members(_) if form != BodyFormat::Form => {
            refuse("only a form has a style; JSON holds an object as it is", "leave `style` out")
        }
        Target::Members(name) => {
            check_member_name(place, name)?;
            check_style(place, Style::DeepObject, schema)
        }
        Target::Member(name) | Target::File(name) => check_member_name(place, name),
        _ => Ok(()),
    }
}

fn check_member_name(place: &str, name: &str) -> Result<(), ReadError> {
    let is_good = !name.is_empty() && name.chars().count() <= NAME_CHARS && !name.contains(char::is_control);
    match is_good {
        true => Ok(()),
        false => Err(ReadError::new(
            place,
            format!("`{}` is no name in a query or a body", escape_for_display(name, 80)),
            format!("write 1 to {NAME_CHARS} characters"),
        )),
    }
}

fn check_style(place: &str, style: Style, schema: &Value) -> Result<(), ReadError> {
    let is_object = declares(schema, "object");
    match style {
        Style::Json => Ok(()),
        Style::DeepObject if schema.get("type").is_some() && !is_object => Err(ReadError::new(
            place,
            "`deep_object` is a style of objects, and this is none",
            "use another style",
        )),
        Style::Form | Style::Comma | Style::Space | Style::Pipe if is_object => Err(ReadError::new(
            place,
            "this style does not take objects",
            "use the style `deep_object` or `json`",
        )),
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

fn declares_paths(schema: &Value) -> bool {
    declares(schema, "array") && schema.get("items").is_some_and(|items| declares(items, "string"))
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
    fn take(&mut self, place: &str, argument: &str, target: &Target) -> Result<(), ReadError> {
        if let Target::Query { name, style } = target
            && let Some(constant) =
                self.call.template.query_names().find(|other| overlaps(name, *style, other, Style::Form))
        {
            let message = format!(
                "`{}` of the query is always sent as the path has it",
                escape_for_display(constant, 80)
            );
            return Err(ReadError::new(
                place,
                message,
                "take it out of the path, or give the argument another name",
            ));
        }
        if let Some((other, _)) = self.taken.iter().find(|(_, taken)| is_same_place(taken, target)) {
            let message = format!("`{argument}` and `{other}` would go to the same place");
            return Err(ReadError::new(place, message, "give one of them another `name` or another place"));
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
        // An argument that is sent as the whole content leaves no place for another.
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
        Target::Member(name) | Target::File(name) => Some((name, Style::Form)),
        Target::Members(name) => Some((name, Style::DeepObject)),
        Target::Path | Target::Query { .. } | Target::Header(_) | Target::Content | Target::SavePath => None,
    }
}

/// An object takes all names that begin with its own and a bracket.
fn overlaps(left: &str, left_style: Style, right: &str, right_style: Style) -> bool {
    let is_member = |whole: &str, style: Style, name: &str| {
        style == Style::DeepObject && name.strip_prefix(whole).is_some_and(|rest| rest.starts_with('['))
    };
    left == right || is_member(left, left_style, right) || is_member(right, right_style, left)
}
