//! The sequence: read, name, select, then one action after the other until something is full.
//!
//! What is wanted is a value of its own ([`Wanted`]), and all that could not be taken is told beside the result, never in a
//! log. The totals of a plugin are kept here: when one is reached, the rest of the operations are left out whole, in their
//! order, since half an action helps nobody.

use std::fmt;

use serde_json::{Map, Value, json};
use toolgate_admission::{Namespace, show};

use crate::action::{self, Action, Workshop};
use crate::document::Document;
use crate::operations::{self, Operation};
use crate::security::{self, Security};
use crate::select::{self, Selector};
use crate::servers::{self, Server};
use crate::text::{clean, clean_line};

/// Most actions of one definition: a plugin has no more tools.
const ACTIONS: usize = 1_000;
/// Longest definition as JSON text. The component behind it takes 2 MiB with what the daemon writes around it.
const DEFINITION_BYTES: usize = 2 * 1024 * 1024 - 4 * 1024;
/// Longest description that a plugin made of it may give, with room for what is around the tools: the daemon takes 4 MiB.
const DESCRIBED_BYTES: usize = 3_900_000;
/// Subschemas of all actions, references replaced: the daemon takes 100,000 of one plugin.
const SCHEMA_NODES: u64 = 100_000;
/// Notes that are kept; the last one says how many more there were.
const NOTES: usize = 2_000;

/// What to take from a document, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The plugin's namespace: names of tools fit it, and the credential is asked for under its name.
    pub namespace: &'a str,
    /// Where the API is, instead of what the document says. Needed where the document says nothing or a mere path.
    pub base_url: Option<&'a str>,
    /// Which operations; none means all.
    pub select: &'a [Selector],
    /// Most actions to take, at most a thousand.
    pub limit: usize,
    /// Take operations that the document advises against, too.
    pub deprecated: bool,
    /// The security scheme to use, by its name in the document, where there are several.
    pub scheme: Option<&'a str>,
    /// Say in the definition that the API keeps to HTTP: `GET`, `HEAD` and `OPTIONS` change nothing.
    pub safe_methods: bool,
    /// Describe answers as well. Documents are often wrong about them, and an answer that does not fit is refused.
    pub output_schemas: bool,
}

impl<'a> Wanted<'a> {
    /// All operations that are not deprecated, at the server that the document names.
    pub fn all(namespace: &'a str) -> Self {
        Self {
            namespace,
            base_url: None,
            select: &[],
            limit: ACTIONS,
            deprecated: false,
            scheme: None,
            safe_methods: false,
            output_schemas: false,
        }
    }
}

/// A document as a definition.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The definition, of kind `http`.
    pub definition: Value,
    /// Operations of the document, selected or not.
    pub operations: usize,
    /// Operations that were selected.
    pub selected: usize,
    /// What was selected and is not in the definition.
    pub left_out: Vec<LeftOut>,
    /// What is in the definition and differs from the document.
    pub notes: Vec<Note>,
}

/// Something of the document that did not become part of the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// An operation like `GET /users`, or a path.
    pub what: String,
    /// The reason, and where there is one the way out.
    pub why: String,
}

/// Something that was taken otherwise than the document says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// An operation like `GET /users`, or the part of the document.
    pub about: String,
    /// What is otherwise.
    pub text: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.what, self.why)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.about, self.text)
    }
}

/// Why no definition was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    /// JSON pointer into the document; empty for the whole.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub hint: String,
    /// Where no operation could be taken: why, for each.
    pub left_out: Vec<LeftOut>,
}

impl ImportError {
    pub(crate) fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { pointer: pointer.into(), message: message.into(), hint: hint.into(), left_out: Vec::new() }
    }
}

/// What is told beside the definition.
#[derive(Default)]
pub(crate) struct Report {
    left_out: Vec<LeftOut>,
    notes: Vec<Note>,
    untold: usize,
}

impl Report {
    pub(crate) fn leave_out(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }

    pub(crate) fn note(&mut self, about: impl Into<String>, text: impl Into<String>) {
        if self.notes.len() == NOTES {
            self.untold += 1;
            return;
        }
        self.notes.push(Note { about: about.into(), text: text.into() });
    }

    fn finish(mut self) -> (Vec<LeftOut>, Vec<Note>) {
        if self.untold > 0 {
            let text = format!("{} more notes are not shown: select fewer operations", self.untold);
            self.notes.push(Note { about: "notes".to_owned(), text });
        }
        (self.left_out, self.notes)
    }
}

/// Reads an OpenAPI document, 3.0 or 3.1, in JSON or YAML, into a definition of kind `http`.
///
/// What the definition's schemas say, the daemon's compiler accepts. An error means that there is no definition at all; what
/// is merely not taken is in [`Imported::left_out`].
pub fn import(text: &str, wanted: &Wanted<'_>) -> Result<Imported, ImportError> {
    Namespace::parse(wanted.namespace).map_err(|error| ImportError::new("", error.message, error.hint))?;
    let document = Document::read(text)?;
    let mut report = Report::default();
    let all = operations::all(&document, wanted.namespace, &mut report);
    let selected: Vec<&Operation<'_>> =
        all.iter().filter(|operation| select::wants(wanted.select, operation)).collect();
    if !wanted.select.is_empty() {
        // What no selector can have meant is not missing.
        report = Report::default();
    }
    tell_of_webhooks(&document, &mut report);
    let server = servers::choose(&document, wanted.base_url, &mut report)?;
    let security = security::choose(&document, &selected, wanted, &server, &mut report)?;
    let actions = take_all(&document, wanted, &selected, &server, &security, &mut report);
    if actions.is_empty() {
        return Err(nothing(selected.len(), all.len(), report));
    }
    let definition = assemble(&document, wanted, &server, &security, actions);
    let (left_out, notes) = report.finish();
    Ok(Imported { definition, operations: all.len(), selected: selected.len(), left_out, notes })
}

fn tell_of_webhooks(document: &Document, report: &mut Report) {
    if document.object("webhooks").is_some_and(|webhooks| !webhooks.is_empty()) {
        report.note("/webhooks", "these are requests that the API sends, and no actions");
    }
}

fn nothing(selected: usize, all: usize, report: Report) -> ImportError {
    let (left_out, _) = report.finish();
    let first =
        left_out.first().map(|first| format!(", the first because {}", first.why)).unwrap_or_default();
    let error = match selected {
        0 => {
            let hint = "leave the selection out to take all, or see the document for its tags and paths";
            ImportError::new("/paths", format!("none of the {all} operations is selected"), hint)
        }
        selected => {
            let message = format!("none of the {selected} operations selected can be taken{first}");
            ImportError::new("/paths", message, "see the reasons of each, and select others")
        }
    };
    ImportError { left_out, ..error }
}

/// What all actions take together.
#[derive(Default)]
struct Totals {
    actions: usize,
    bytes: usize,
    described_bytes: usize,
    nodes: u64,
}

impl Totals {
    /// Counts an action in, or says what it would be too much for.
    fn add(&mut self, action: &Action) -> Result<(), String> {
        let bytes = self.bytes + action.bytes;
        let described_bytes = self.described_bytes + action.described_bytes;
        let nodes = self.nodes + action.nodes;
        if bytes > DEFINITION_BYTES || described_bytes > DESCRIBED_BYTES {
            return Err(format!("a definition has at most {DEFINITION_BYTES} bytes"));
        }
        if nodes > SCHEMA_NODES {
            return Err(format!("the schemas of a plugin have at most {SCHEMA_NODES} subschemas"));
        }
        *self = Self { actions: self.actions + 1, bytes, described_bytes, nodes };
        Ok(())
    }
}

fn take_all(
    document: &Document,
    wanted: &Wanted<'_>,
    selected: &[&Operation<'_>],
    server: &Server,
    security: &Security,
    report: &mut Report,
) -> Vec<Value> {
    let limit = wanted.limit.min(ACTIONS);
    let mut workshop = Workshop::new(document, wanted, server, security);
    let mut totals = Totals { bytes: 8 * 1024, ..Totals::default() };
    let mut actions = Vec::new();
    let mut taken: Vec<&Operation<'_>> = Vec::new();
    let mut full: Option<String> = None;
    let is_wanted = |operation: &Operation<'_>| wanted.deprecated || !operation.is_deprecated();
    let names =
        selected.iter().filter(|operation| is_wanted(operation)).map(|operation| &*operation.original);
    let colliding = toolgate_naming::collisions(names);
    for operation in selected {
        if !is_wanted(operation) {
            report.leave_out(operation.label(), "it is deprecated; ask for deprecated ones to take it");
            continue;
        }
        if let Some(name) = colliding.get(&*operation.original) {
            let why = format!("it and another operation would both be the tool `{name}`: select one of them");
            report.leave_out(operation.label(), why);
            continue;
        }
        if full.is_none() && totals.actions == limit {
            full = Some(format!("{limit} actions are taken already"));
        }
        if full.is_none() && document.is_exhausted() {
            full = Some("the operations before took all the work that an import may be".to_owned());
        }
        if let Some(why) = &full {
            report.leave_out(operation.label(), format!("{why}: select fewer operations"));
            continue;
        }
        match action::build(&mut workshop, operation) {
            Err(why) => report.leave_out(operation.label(), why),
            Ok(action) => match totals.add(&action) {
                Err(why) => {
                    report.leave_out(operation.label(), format!("{why}: select fewer operations"));
                    full = Some(why);
                }
                Ok(()) => {
                    action.notes.iter().for_each(|note| report.note(operation.label(), note));
                    actions.push(action.value);
                    taken.push(operation);
                }
            },
        }
    }
    security.tell_of_open(document, &taken, report);
    actions
}

fn assemble(
    document: &Document,
    wanted: &Wanted<'_>,
    server: &Server,
    security: &Security,
    actions: Vec<Value>,
) -> Value {
    let none = Map::new();
    let info = document.object("info").unwrap_or(&none);
    let text = |name: &str| info.get(name).and_then(Value::as_str);
    let title = text("title").map(|title| clean_line(title, 100)).filter(|title| !title.is_empty());
    let purpose = [text("summary"), text("description"), title.as_deref()];
    let purpose = purpose.into_iter().flatten().map(|text| clean(text, 2_000)).find(|text| !text.is_empty());
    let mut definition = Map::new();
    definition.insert("kind".to_owned(), json!("http"));
    definition.extend(title.map(|title| ("display_name".to_owned(), json!(title))));
    let purpose = purpose.unwrap_or_else(|| format!("The API at {}", server.host()));
    definition.insert("description".to_owned(), json!(purpose));
    definition.extend(version(info).map(|version| ("version".to_owned(), json!(version))));
    definition.insert("base_url".to_owned(), json!(server.base_url()));
    definition.insert("authentication".to_owned(), security.authentication());
    definition.extend(wanted.safe_methods.then(|| ("safe_methods".to_owned(), json!(true))));
    definition.insert("actions".to_owned(), Value::Array(actions));
    Value::Object(definition)
}

/// The version as one word.
fn version(info: &Map<String, Value>) -> Option<String> {
    let version = match info.get("version")? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let word: String = version
        .trim()
        .chars()
        .map(|letter| if letter.is_ascii_graphic() { letter } else { '-' })
        .take(64)
        .collect();
    Some(show(&word, 64)).filter(|word| !word.is_empty())
}
