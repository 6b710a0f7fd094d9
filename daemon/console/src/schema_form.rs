//! Form fields made from a JSON Schema: for the arguments of a tool, the settings of a plugin, and documents.
//!
//! A member has a field of its kind; one whose value does not fit into a field is filled in as JSON. Inputs are named by the
//! position of their member, since a member may have any name. What the form says is read as JSON text, so that members
//! keep the order of the schema.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use maud::{Markup, html};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_api::error::ErrorType;
use toolgate_api::text::hidden_character;
use toolgate_audit::sha256;
use toolgate_http::problem::Problem;

use super::elements::{editable, short};
use super::form::FormFields;
use super::text::sentence;

/// Most inputs of a form. A greater value is filled in as text.
const INPUTS: usize = 900;
/// Most members of an object, and most choices.
const MEMBERS: usize = 50;
/// Levels of a schema that have fields, references and alternatives counted. Deeper ones are filled in as JSON.
const DEPTH: usize = 12;
/// Parts of a schema that have fields. A schema can refer to itself, so that it has any number.
const PARTS: usize = 2_000;
/// Members without a value that are shown at once. The others are folded.
const SHOWN: usize = 8;
/// Most characters of a text that stays on one line.
const LINE_CHARS: u64 = 999;

/// The fields of an object.
pub(super) struct SchemaForm {
    members: Vec<Member>,
    /// The hash of the schema, since fields by position mean nothing under another one.
    schema: String,
}

/// Names that exist, by kind: suggestions for the fields that name one.
pub(super) type Suggestions = BTreeMap<&'static str, Vec<String>>;

struct Member {
    name: String,
    title: Option<String>,
    description: Option<String>,
    is_required: bool,
    shape: Shape,
}

enum Shape {
    Text {
        is_long: bool,
        names: Option<&'static str>,
    },
    Number,
    YesNo,
    Choice(Vec<String>),
    /// Texts, each on a line. `"*"` can stand in their place where it means all.
    Lines {
        has_all: bool,
        names: Option<&'static str>,
    },
    Object(Vec<Member>),
    /// An object whose members can have any name.
    Table {
        value: Box<Shape>,
        names: Option<&'static str>,
    },
    List(Box<Shape>),
    Json,
}

/// The members of an object in their order.
#[derive(Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The keywords that decide about fields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keywords {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    #[serde(rename = "$defs")]
    definitions: Members,
    #[serde(rename = "type")]
    types: Value,
    title: Option<String>,
    description: Option<String>,
    #[serde(rename = "enum")]
    choices: Option<Vec<Value>>,
    pattern: Option<String>,
    max_length: Option<u64>,
    properties: Option<Members>,
    required: Vec<String>,
    additional_properties: Option<Box<RawValue>>,
    items: Option<Box<RawValue>>,
    one_of: Vec<Box<RawValue>>,
    any_of: Vec<Box<RawValue>>,
    read_only: bool,
}

impl Keywords {
    fn parse(schema: &RawValue) -> Option<Self> {
        serde_json::from_str(schema.get()).ok()
    }

    /// The type, besides null.
    fn only_type(&self) -> Option<&str> {
        match &self.types {
            Value::String(name) => Some(name),
            Value::Array(names) => {
                let mut names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
                names.next().filter(|_| names.next().is_none())
            }
            _ => None,
        }
    }

    fn choices(&self) -> Option<Vec<String>> {
        let of_pattern = || {
            let words = self.pattern.as_deref()?.strip_prefix("^(")?.strip_suffix(")$")?;
            let is_word =
                |word: &str| word.chars().all(|letter| letter.is_alphanumeric() || "-_".contains(letter));
            let words: Vec<&str> = words.split('|').collect();
            words.iter().all(|word| is_word(word)).then(|| words.iter().map(ToString::to_string).collect())
        };
        let choices: Option<Vec<String>> = match &self.choices {
            Some(choices) => choices.iter().map(|choice| choice.as_str().map(str::to_owned)).collect(),
            None => of_pattern(),
        };
        choices.filter(|choices| choices.len() <= MEMBERS)
    }
}

/// Reads shapes from the definitions of a schema.
struct Reader {
    definitions: BTreeMap<String, Box<RawValue>>,
    /// Parts that were read.
    parts: Cell<usize>,
}

/// Which names that exist a member of a document takes.
fn names_of(member: &str, reference: Option<&str>) -> Option<&'static str> {
    match (reference, member) {
        (Some("ToolPatterns"), _) | (_, "integrations") => Some("tools"),
        (Some("AgentPatterns"), _) | (_, "messages_to") => Some("agents"),
        (Some("NamespacePatterns"), _) | (_, "server") => Some("plugins"),
        (_, "profile") => Some("profiles"),
        (_, "subtype") => Some("subtypes"),
        (_, "provider" | "credentials") => Some("providers"),
        _ => None,
    }
}

impl Reader {
    /// The shape of a schema, with the first title and description on the way to it.
    fn member(&self, name: &str, schema: &RawValue, depth: usize) -> Option<Member> {
        let keywords = Keywords::parse(schema).unwrap_or_default();
        let items = keywords.items.as_deref().and_then(Keywords::parse);
        if keywords.read_only || items.is_some_and(|items| items.read_only) {
            return None;
        }
        let (title, description) = (keywords.title.clone(), keywords.description.clone());
        let (shape, below) = self.shape(name, None, keywords, depth);
        Some(Member {
            name: name.to_owned(),
            title,
            description: description.or(below),
            is_required: false,
            shape,
        })
    }

    fn shape(
        &self,
        name: &str,
        reference: Option<&str>,
        keywords: Keywords,
        depth: usize,
    ) -> (Shape, Option<String>) {
        self.parts.set(self.parts.get() + 1);
        let Some(depth) = depth.checked_sub(1).filter(|_| self.parts.get() <= PARTS) else {
            return (Shape::Json, None);
        };
        let names = names_of(name, reference);
        if let Some(target) = &keywords.reference {
            let target = target.rsplit('/').next().unwrap_or_default();
            let found = self.definitions.get(target).and_then(|schema| Keywords::parse(schema));
            return match found {
                Some(found) => {
                    let description = keywords.description.or_else(|| found.description.clone());
                    (self.shape(name, Some(target), found, depth).0, description)
                }
                None => (Shape::Json, None),
            };
        }
        let alternatives =
            keywords.one_of.iter().chain(&keywords.any_of).filter_map(|form| Keywords::parse(form));
        let mut alternatives: Vec<Keywords> = alternatives.filter(|form| form.types != *"null").collect();
        if let [only] = &mut alternatives[..] {
            let only = std::mem::take(only);
            let description = only.description.clone();
            let (shape, below) = self.shape(name, reference, only, depth);
            return (shape, description.or(below));
        }
        if let [text, list] = &alternatives[..] {
            let is_one = text.only_type() == Some("string") && list.only_type() == Some("array");
            let has_all = text.choices.as_ref().is_some_and(|all| all[..] == [Value::from("*")]);
            return (if is_one { Shape::Lines { has_all, names } } else { Shape::Json }, None);
        }
        if let Some(choices) = keywords.choices() {
            return (Shape::Choice(choices), None);
        }
        let item = |schema: &Option<Box<RawValue>>| {
            schema.as_deref().and_then(Keywords::parse).map(|inner| self.shape(name, None, inner, depth).0)
        };
        let shape = match keywords.only_type() {
            Some("string") => {
                Shape::Text { is_long: keywords.max_length.is_some_and(|most| most > LINE_CHARS), names }
            }
            Some("integer" | "number") => Shape::Number,
            Some("boolean") => Shape::YesNo,
            Some("array") => match item(&keywords.items) {
                Some(Shape::Text { .. } | Shape::Choice(_)) => Shape::Lines { has_all: false, names },
                Some(shape @ (Shape::Object(_) | Shape::Table { .. })) => Shape::List(Box::new(shape)),
                _ => Shape::Json,
            },
            Some("object") if keywords.properties.is_some() => {
                Shape::Object(self.members(&keywords, depth).unwrap_or_default())
            }
            Some("object") => match item(&keywords.additional_properties) {
                Some(value @ (Shape::Text { .. } | Shape::Lines { .. } | Shape::Object(_))) => {
                    Shape::Table { value: Box::new(value), names }
                }
                _ => Shape::Json,
            },
            _ => Shape::Json,
        };
        (shape, None)
    }

    fn members(&self, keywords: &Keywords, depth: usize) -> Option<Vec<Member>> {
        let properties = &keywords.properties.as_ref()?.0;
        if properties.len() > MEMBERS {
            return None;
        }
        let member = |(name, schema): &(String, Box<RawValue>)| {
            let is_required = keywords.required.contains(name);
            Some(Member { is_required, ..self.member(name, schema, depth)? })
        };
        Some(properties.iter().filter_map(member).collect())
    }
}

impl SchemaForm {
    /// The form of a schema of an object; none of another.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        Self::parse(&schema.to_string())
    }

    /// The same of the text of a schema, in whose order the fields are.
    pub(super) fn parse(schema: &str) -> Option<Self> {
        let keywords: Keywords = serde_json::from_str(schema).ok()?;
        let definitions = keywords.definitions.0.iter().cloned().collect();
        let members = Reader { definitions, parts: Cell::default() }.members(&keywords, DEPTH)?;
        Some(Self { members, schema: sha256(schema.as_bytes()).to_string() })
    }

    /// The fields with the members of an object; none if it has a member without a field, or more than a form holds.
    pub(super) fn fields(&self, values: &Map<String, Value>, suggestions: &Suggestions) -> Option<Markup> {
        if !takes(&self.members, values) {
            return None;
        }
        let fields = Fields { suggestions };
        let markup = html! {
            input type="hidden" name="fields" value="1";
            input type="hidden" name="schema" value=(self.schema);
            @for (names, known) in suggestions {
                datalist id=(list_id(names)) { @for name in known { option value=(short(name)) {} } }
            }
            (fields.members("field", &self.members, values))
        };
        (markup.0.matches(" name=\"").count() <= INPUTS).then_some(markup)
    }

    /// The JSON text of a form that was shown for this schema; none of a form without its fields.
    ///
    /// # Errors
    ///
    /// `CONFLICT` where the fields are those of another schema.
    pub(super) fn read_shown(form: &FormFields, shown: Option<&Self>) -> Result<Option<String>, Problem> {
        if !form.is_checked("fields") {
            return Ok(None);
        }
        let shown = shown.filter(|shown| shown.schema == form.text("schema"));
        shown
            .map(|shown| Some(read_members(form, "field", &shown.members).unwrap_or_else(|| "{}".to_owned())))
            .ok_or_else(|| {
                let hint =
                    "fill in the fields of the present schema; the browser's way back has what you wrote";
                Problem::new(ErrorType::Conflict, "the schema changed after the form was shown", hint)
            })
    }
}

fn takes(members: &[Member], values: &Map<String, Value>) -> bool {
    values.keys().all(|name| members.iter().any(|member| member.name == *name))
}

impl Shape {
    /// Whether the value can stand in the field. A text with hidden characters cannot.
    fn fits(&self, value: &Value) -> bool {
        let is_line = |text: &str| hidden_character(text).is_none() && !text.contains('\n');
        match (self, value) {
            (_, Value::Null) | (Self::Json, _) => true,
            (Self::Text { .. }, Value::String(text)) => text.lines().all(is_line) && !text.contains('\r'),
            (Self::Number, Value::Number(_)) | (Self::YesNo, Value::Bool(_)) => true,
            (Self::Choice(choices), Value::String(choice)) => choices.contains(choice),
            (Self::Lines { .. }, Value::String(text)) => is_line(text),
            (Self::Lines { .. }, Value::Array(texts)) => {
                let is_own_line = |text: &Value| {
                    text.as_str().is_some_and(|text| is_line(text) && !text.is_empty() && text.trim() == text)
                };
                texts.iter().all(is_own_line)
            }
            (Self::Object(members), Value::Object(values)) => takes(members, values),
            (Self::Table { .. }, Value::Object(values)) => {
                values.keys().all(|name| is_line(name) && !name.is_empty() && name.trim() == name)
            }
            (Self::List(_), Value::Array(_)) => true,
            _ => false,
        }
    }
}

/// What is shown of values.
struct Fields<'a> {
    suggestions: &'a Suggestions,
}

impl Fields<'_> {
    fn members(&self, path: &str, members: &[Member], values: &Map<String, Value>) -> Markup {
        let mut empty = 0;
        let is_shown = |member: &Member| {
            let is_filled = values.get(&member.name).is_some_and(|value| !value.is_null());
            empty += usize::from(!is_filled);
            is_filled || member.is_required || empty <= SHOWN
        };
        let (shown, folded): (Vec<_>, Vec<_>) = {
            let mut is_shown = is_shown;
            members.iter().enumerate().partition(|(_, member)| is_shown(member))
        };
        let field = |(at, member): &(usize, &Member)| {
            self.field(&format!("{path}-{at}"), &Label::of(member), &member.shape, values.get(&member.name))
        };
        html! {
            @for member in &shown { (field(member)) }
            @if !folded.is_empty() {
                details.more {
                    summary { "More: " (folded.iter().map(|(_, member)| words_of(&member.name)).collect::<Vec<_>>().join(", ")) }
                    @for member in &folded { (field(member)) }
                }
            }
        }
    }

    fn field(&self, path: &str, label: &Label<'_>, shape: &Shape, value: Option<&Value>) -> Markup {
        let value = value.filter(|value| !value.is_null());
        if matches!(shape, Shape::Json) || value.is_some_and(|value| !shape.fits(value)) {
            let text = value.map_or_else(String::new, |value| format!("{value:#}"));
            let own = format!("{path}-json");
            return label.around(&own, &html! {
                textarea.short id=(own) name=(own) spellcheck="false" aria-describedby=[label.described(&own)] { "\n" (editable(&text)) }
                p.hint { "As JSON." }
            });
        }
        match (shape, value) {
            (Shape::Object(members), value) => {
                let empty = Map::new();
                let values = value.and_then(Value::as_object);
                label.group(
                    path,
                    &html! {
                        @if values.is_some() { input type="hidden" name={ (path) "-set" } value="1"; }
                        (self.members(path, members, values.unwrap_or(&empty)))
                    },
                )
            }
            (Shape::Table { value: inner, names }, value) => {
                let entries = value.and_then(Value::as_object);
                label.group(
                    path,
                    &html! {
                        @if entries.is_some() { input type="hidden" name={ (path) "-set" } value="1"; }
                        @for (at, (key, value)) in entries.into_iter().flatten().enumerate() {
                            (self.entry(&format!("{path}-{at}"), inner, *names, key, Some(value)))
                        }
                        details.more {
                            summary { "Add one" }
                            @let next = entries.map_or(0, Map::len);
                            (self.entry(&format!("{path}-{next}"), inner, *names, "", None))
                        }
                        input type="hidden" name={ (path) "-count" } value=(entries.map_or(0, Map::len) + 1);
                    },
                )
            }
            (Shape::List(inner), value) => {
                let entries = value.and_then(Value::as_array);
                label.group(path, &html! {
                    (mode(path, entries.is_some(), None, entries.map(|_| "these")))
                    @for (at, value) in entries.into_iter().flatten().enumerate() {
                        @let path = format!("{path}-{at}");
                        (self.field(&path, &Label::entry(at + 1), inner, Some(value)))
                        label.choice { input type="checkbox" name={ (path) "-remove" }; "Remove " (at + 1) }
                    }
                    details.more {
                        summary { "Add one" }
                        @let next = entries.map_or(0, Vec::len);
                        (self.field(&format!("{path}-{next}"), &Label::entry(next + 1), inner, None))
                    }
                    input type="hidden" name={ (path) "-count" } value=(entries.map_or(0, Vec::len) + 1);
                })
            }
            (Shape::Lines { has_all, names }, value) => {
                let is_all = *has_all && value.and_then(Value::as_str) == Some("*");
                let lines: Vec<&str> = match value {
                    Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
                    Some(Value::String(line)) if !is_all => vec![line],
                    _ => Vec::new(),
                };
                let chosen = value.map(|_| if is_all { "all" } else { "these" });
                label.group(path, &html! {
                    (mode(path, value.is_some(), has_all.then_some("all"), chosen))
                    label.unseen for=(path) { (label.text) ", one on a line" }
                    textarea.lines id=(path) name=(path) rows=(lines.len().clamp(2, 12)) spellcheck="false" { "\n" (editable(&lines.join("\n"))) }
                    @if let Some(list) = self.known(*names) {
                        @let own = format!("{path}-add");
                        label.unseen for=(own) { "Add to " (label.text) }
                        input id=(own) name=(own) list=(list) placeholder="add one that exists" autocomplete="off";
                    }
                })
            }
            (shape, value) => {
                let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                let text = text.unwrap_or_default();
                label.around(path, &self.plain(path, label, shape, &text))
            }
        }
    }

    /// The input of a text, a number or a choice.
    fn plain(&self, path: &str, label: &Label<'_>, shape: &Shape, text: &str) -> Markup {
        let describes = label.described(path);
        let list = match shape {
            Shape::Text { names, .. } => self.known(*names),
            _ => None,
        };
        html! {
            @match shape {
                Shape::YesNo => (choices(path, describes, text, &[("true", "yes"), ("false", "no")])),
                Shape::Choice(words) => {
                    @let pairs: Vec<(&str, &str)> = words.iter().map(|word| (word.as_str(), word.as_str())).collect();
                    (choices(path, describes, text, &pairs))
                }
                Shape::Text { is_long, .. } if *is_long || text.contains('\n') => {
                    textarea.short id=(path) name=(path) aria-describedby=[describes] spellcheck="false" { "\n" (text) }
                }
                Shape::Number => { input id=(path) name=(path) value=(text) aria-describedby=[describes] inputmode="decimal" autocomplete="off"; }
                _ => { input id=(path) name=(path) value=(text) list=[list] aria-describedby=[describes] autocomplete="off"; }
            }
        }
    }

    /// An entry of a table: its name and its value.
    fn entry(
        &self,
        path: &str,
        shape: &Shape,
        names: Option<&'static str>,
        key: &str,
        value: Option<&Value>,
    ) -> Markup {
        let own = format!("{path}-key");
        html! {
            div.entry {
                label for=(own) { "Name" }
                input id=(own) name=(own) value=(key) list=[self.known(names)] autocomplete="off" spellcheck="false";
                (self.field(path, &Label::plain("Value"), shape, value))
                @if !key.is_empty() { p.hint { "Without a name it is removed." } }
            }
        }
    }

    /// The id of the list of names, if there are any.
    fn known(&self, names: Option<&'static str>) -> Option<String> {
        names.filter(|names| self.suggestions.get(names).is_some_and(|known| !known.is_empty())).map(list_id)
    }
}

/// What stands beside a field.
struct Label<'a> {
    text: String,
    description: Option<&'a str>,
}

impl<'a> Label<'a> {
    fn of(member: &'a Member) -> Self {
        let name = member.title.as_deref().map_or_else(|| sentence(&words_of(&member.name)), short);
        let needed = if member.is_required { " (needed)" } else { "" };
        Self { text: format!("{name}{needed}"), description: member.description.as_deref() }
    }

    fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), description: None }
    }

    fn entry(at: usize) -> Self {
        Self { text: at.to_string(), description: None }
    }

    fn described(&self, id: &str) -> Option<String> {
        self.description.map(|_| format!("{id}-hint"))
    }

    fn around(&self, id: &str, input: &Markup) -> Markup {
        html! { label for=(id) { (self.text) } (input) (self.hint(id)) }
    }

    fn group(&self, id: &str, fields: &Markup) -> Markup {
        html! { fieldset { legend { (self.text) } (self.hint(id)) (fields) } }
    }

    fn hint(&self, id: &str) -> Markup {
        html! { @if let Some(description) = self.description { p.hint id={ (id) "-hint" } { (super::elements::with_code(description)) } } }
    }
}

/// Whether a list is there at all: an empty one means none, and a missing one has the meaning that its description tells.
fn mode(path: &str, is_set: bool, all: Option<&str>, chosen: Option<&str>) -> Markup {
    let own = format!("{path}-mode");
    html! {
        label.unseen for=(own) { "Which" }
        select id=(own) name=(own) {
            // To take a list back is told from a list that was never there, whose lines count.
            option value=(if is_set { "unset" } else { "" }) selected[chosen.is_none()] { "not set" }
            @if let Some(all) = all { option value=(all) selected[chosen == Some(all)] { "all" } }
            option value="these" selected[chosen == Some("these")] { "these" }
        }
    }
}

fn choices(id: &str, describes: Option<String>, chosen: &str, pairs: &[(&str, &str)]) -> Markup {
    html! {
        select id=(id) name=(id) aria-describedby=[describes] {
            option value="" { "not set" }
            @for (value, word) in pairs { option value=(value) selected[*value == chosen] { (short(word)) } }
        }
    }
}

fn list_id(names: &'static str) -> String {
    format!("known-{names}")
}

fn words_of(name: &str) -> String {
    short(&name.replace('_', " "))
}

/// The text of a value as JSON; none if nothing was filled in. Text that does not fit stays text, so that the schema refuses it
/// and the person sees it again.
fn read(form: &FormFields, path: &str, shape: &Shape) -> Option<String> {
    let text_of = |text: &str| Value::from(text).to_string();
    let json = format!("{path}-json");
    if form.is_checked(&json) {
        let text = form.text(&json).trim();
        let is_json = || serde_json::from_str::<&RawValue>(text).is_ok();
        return (!text.is_empty()).then(|| if is_json() { text.to_owned() } else { text_of(text) });
    }
    let is_set = form.is_checked(&format!("{path}-set"));
    let mode = form.text(&format!("{path}-mode"));
    match shape {
        Shape::Json => None,
        Shape::Object(members) => {
            read_members(form, path, members).or_else(|| is_set.then(|| "{}".to_owned()))
        }
        Shape::Table { value, .. } => {
            let entries = paths(form, path).filter_map(|own| {
                let key = form.filled_field(&format!("{own}-key"))?;
                let value = read(form, &own, value).unwrap_or_else(|| value.nothing().to_owned());
                Some(format!("{}:{value}", text_of(key)))
            });
            let entries: Vec<String> = entries.collect();
            (is_set || !entries.is_empty()).then(|| format!("{{{}}}", entries.join(",")))
        }
        Shape::List(inner) => {
            let kept = paths(form, path).filter(|own| !form.is_checked(&format!("{own}-remove")));
            let entries: Vec<String> = kept.filter_map(|own| read(form, &own, inner)).collect();
            let is_there = mode == "these" || mode.is_empty() && !entries.is_empty();
            is_there.then(|| format!("[{}]", entries.join(",")))
        }
        Shape::Lines { .. } => {
            let lines =
                form.text(path).lines().map(str::trim).chain(form.filled_field(&format!("{path}-add")));
            let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            match mode {
                "all" => Some(text_of("*")),
                "unset" => None,
                "" if lines.is_empty() => None,
                _ => Some(Value::from(lines).to_string()),
            }
        }
        plain => {
            let text = form.text(path);
            let value = match plain {
                _ if text.is_empty() => return None,
                Shape::YesNo => (text == "true").to_string(),
                Shape::Number => number(text).map_or_else(|| text_of(text), |number| number.to_string()),
                _ => text_of(text),
            };
            Some(value)
        }
    }
}

/// The members that were filled in; none if there is none.
fn read_members(form: &FormFields, path: &str, members: &[Member]) -> Option<String> {
    let filled = members.iter().enumerate().filter_map(|(at, member)| {
        let value = read(form, &format!("{path}-{at}"), &member.shape)?;
        Some(format!("{}:{value}", Value::from(&*member.name)))
    });
    let filled: Vec<String> = filled.collect();
    (!filled.is_empty()).then(|| format!("{{{}}}", filled.join(",")))
}

/// The paths of the entries of a table or list.
fn paths(form: &FormFields, path: &str) -> impl Iterator<Item = String> {
    let count = form.text(&format!("{path}-count")).parse().unwrap_or(0).min(INPUTS);
    (0..count).map(move |at| format!("{path}-{at}"))
}

impl Shape {
    /// The value of an entry with a name and nothing else.
    fn nothing(&self) -> &'static str {
        match self {
            Self::Text { .. } => "\"\"",
            Self::Lines { .. } | Self::List(_) => "[]",
            _ => "{}",
        }
    }
}

fn number(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok().filter(Value::is_number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a browser sends of the fields as they are shown, with changes.
    fn sent(shown: &str, changes: &[(&str, &str)]) -> FormFields {
        let attribute = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(unescape(rest.split('"').next().unwrap_or_default()))
        };
        let mut fields: Vec<(String, String)> = Vec::new();
        for tag in shown.split('<').skip(1) {
            let (head, text) = tag.split_once('>').unwrap_or((tag, ""));
            let is_unchecked = head.contains("type=\"checkbox\"") && !head.contains(" checked");
            if let Some(name) = attribute(head, "name").filter(|_| !is_unchecked) {
                let own = if head.starts_with("textarea") {
                    Some(unescape(text.trim_start_matches('\n')))
                } else {
                    None
                };
                fields.push((name, own.or_else(|| attribute(head, "value")).unwrap_or_default()));
            } else if head.starts_with("option") && head.contains(" selected") {
                let chosen = attribute(head, "value").unwrap_or_default();
                if let Some((_, value)) = fields.last_mut() {
                    *value = chosen;
                }
            }
        }
        for (name, value) in changes {
            fields.retain(|(own, _)| own != name);
            fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        FormFields::of(&fields)
    }

    fn unescape(text: &str) -> String {
        text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    }

    fn shown(form: &SchemaForm, values: &Value) -> String {
        let values = values.as_object().expect("an object");
        form.fields(values, &Suggestions::from([("tools", vec!["a/b".to_owned()])]))
            .expect("fields")
            .into_string()
    }

    fn read_back(form: &SchemaForm, values: &Value, changes: &[(&str, &str)]) -> Value {
        let sent = sent(&shown(form, values), changes);
        let text = SchemaForm::read_shown(&sent, Some(form)).ok().flatten().expect("the form");
        serde_json::from_str(&text).expect("JSON")
    }

    fn policy() -> SchemaForm {
        let schema = json!({
            "$defs": {
                "ToolPatterns": {"oneOf": [{"type": "string", "enum": ["*"]}, {"type": "array", "items": {"type": "string"}}]},
                "Quota": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "amount": {"type": "integer"}, "tools": {"oneOf": [{"$ref": "#/$defs/ToolPatterns"}, {"type": "null"}]}}},
            },
            "type": "object",
            "properties": {
                "a_enabled": {"oneOf": [{"$ref": "#/$defs/ToolPatterns", "description": "The `tools`."}, {"type": "null"}]},
                "b_profiles": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/ToolPatterns"}},
                "c_quotas": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Quota"}},
                "d_kind": {"type": ["string", "null"], "pattern": "^(http|mcp)$"},
                "e_long": {"type": "string", "maxLength": 2000},
                "f_any": {},
                "g_old": {"type": "string", "readOnly": true},
            },
        });
        SchemaForm::of(&schema).expect("a form")
    }

    #[test]
    fn o6_what_a_form_shows_is_what_it_reads() {
        let form = policy();
        for values in [
            json!({}),
            json!({"a_enabled": "*", "d_kind": "mcp", "e_long": "two\nlines", "f_any": [1, {"x": null}]}),
            json!({"a_enabled": [], "b_profiles": {}, "c_quotas": []}),
            json!({"a_enabled": ["a/b", "c/*"], "b_profiles": {"<x>": ["a/b"], "y": "*", "z": []}}),
            json!({"c_quotas": [{"name": "q", "amount": 3, "tools": ["a/*"]}, {}]}),
            // What fits into no field is shown as JSON.
            json!({"a_enabled": 7, "b_profiles": [true], "d_kind": "other", "e_long": "\u{202e}x"}),
        ] {
            assert_eq!(read_back(&form, &values, &[]), values);
        }
    }

    #[test]
    fn o6_a_list_that_is_empty_stays_a_list() {
        let form = policy();
        let values = json!({"a_enabled": ["a/b"]});
        assert_eq!(read_back(&form, &values, &[("field-0", "")]), json!({"a_enabled": []}));
        assert_eq!(read_back(&form, &values, &[("field-0-mode", "unset")]), json!({}));
        assert_eq!(read_back(&form, &values, &[("field-0-mode", "all")]), json!({"a_enabled": "*"}));
        assert_eq!(
            read_back(&form, &values, &[("field-0-add", "c/d")]),
            json!({"a_enabled": ["a/b", "c/d"]})
        );
        assert_eq!(read_back(&form, &json!({}), &[("field-0", " a/b \n\n")]), json!({"a_enabled": ["a/b"]}));
    }

    #[test]
    fn o6_entries_are_added_changed_and_removed() {
        let form = policy();
        let values = json!({"b_profiles": {"x": ["a/b"]}, "c_quotas": [{"name": "q"}, {"name": "r"}]});
        let changed = read_back(
            &form,
            &values,
            &[
                ("field-1-0-key", ""),
                ("field-1-1-key", "new"),
                ("field-1-1-mode", "all"),
                ("field-2-0-remove", "on"),
                ("field-2-2-1", "s"),
                ("field-2-2-0", "many"),
            ],
        );
        let expected =
            json!({"b_profiles": {"new": "*"}, "c_quotas": [{"name": "r"}, {"name": "s", "amount": "many"}]});
        assert_eq!(changed, expected);
    }

    #[test]
    fn o6_fields_are_in_the_order_of_the_schema_and_texts_are_data() {
        let schema = r#"{"properties": {"z": {"type": "string", "description": "<b>"}, "a": {"enum": ["x", "y"]}}, "required": ["a"]}"#;
        let form = SchemaForm::parse(schema).expect("a form");
        let shown = shown(&form, &json!({"z": "\"><script>", "a": "y"}));
        assert!(!shown.contains("<script>") && shown.contains("&lt;b&gt;"), "{shown}");
        assert!(shown.contains("<option value=\"y\" selected>") && shown.contains("A (needed)"), "{shown}");
        let fields =
            FormFields::of(&[("fields", "1"), ("schema", &form.schema), ("field-0", "1"), ("field-1", "x")]);
        let text = SchemaForm::read_shown(&fields, Some(&form)).ok().flatten();
        assert_eq!(text.as_deref(), Some(r#"{"z":"1","a":"x"}"#));
    }

    #[test]
    fn o6_fields_are_read_under_the_schema_that_was_shown() {
        let form_of =
            |name: &str| SchemaForm::of(&json!({"properties": {name: {"type": "number"}}})).expect("a form");
        let (form, other) = (form_of("from"), form_of("to"));
        let fields = FormFields::of(&[("fields", "1"), ("schema", &form.schema), ("field-0", " 2.5 ")]);
        let read = |shown: Option<&SchemaForm>, fields: &FormFields| {
            SchemaForm::read_shown(fields, shown).map_err(|Problem(error)| error.error_type)
        };
        assert_eq!(read(Some(&form), &fields), Ok(Some(r#"{"from":2.5}"#.to_owned())));
        assert_eq!(read(Some(&other), &fields), Err(ErrorType::Conflict));
        assert_eq!(read(None, &fields), Err(ErrorType::Conflict));
        assert_eq!(read(Some(&form), &FormFields::of(&[("fields", "1")])), Err(ErrorType::Conflict));
        assert_eq!(read(Some(&form), &FormFields::default()), Ok(None));
    }

    #[test]
    fn o6_schemas_that_refer_to_themselves_and_strange_ones_have_bounded_forms() {
        let members: Map<String, Value> =
            (0..40).map(|at| (format!("m{at}"), json!({"$ref": "#/$defs/Node"}))).collect();
        let schema =
            json!({"$defs": {"Node": {"type": "object", "properties": members}}, "properties": members});
        let form = SchemaForm::of(&schema).expect("a form");
        assert!(form.fields(&Map::new(), &Suggestions::new()).is_none(), "more inputs than a form holds");
        assert!(SchemaForm::of(&json!({})).is_none() && SchemaForm::of(&json!({"properties": 1})).is_none());
        let strange = json!({"properties": {"a": true, "b": {"type": 7}, "c": {"$ref": "elsewhere"}}});
        let form = SchemaForm::of(&strange).expect("a form");
        let values = json!({"a": [1], "b": "x", "c": {"d": 1}});
        assert_eq!(read_back(&form, &values, &[]), values);
        assert!(
            form.fields(json!({"unknown": 1}).as_object().expect("an object"), &Suggestions::new()).is_none()
        );
    }
}
