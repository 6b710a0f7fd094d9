//! The steps of an import: read the document, name and select its operations, then build one action after the other until a
//! limit of the definition is reached. The operations after that are left out whole, in their order.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use toolgate_api::limits::{DEFINITION_BYTES, PLUGIN_SUBSCHEMAS, PLUGIN_TOOLS};
use toolgate_api::name::{Namespace, name_collisions};
use toolgate_api::text::escape_for_display;

use crate::action::{Action, ActionBuilder};
use crate::document::Document;
use crate::operations::{self, Operation};
use crate::options::ImportOptions;
use crate::report::{ImportError, Imported, Note, Report};
use crate::schema::Patterns;
use crate::security::{self, Security};
use crate::select;
use crate::servers::{self, Server};
use crate::text::{clean, clean_line};

/// Longest definition as JSON text; the rest is for what the daemon writes around it.
const BYTES: usize = DEFINITION_BYTES - 4 * 1024;
/// Bytes of the definition around its actions.
const HEAD_BYTES: usize = 8 * 1024;
/// Longest description of the resulting plugin's tools. The rest of `PLUGIN_BYTES` is for what surrounds the tools.
const DESCRIBED_BYTES: usize = 3_900_000;

/// A list of tools that is large for a model: some 16,000 tokens.
const LARGE_LIST_BYTES: usize = 64_000;
/// Bytes of a listed tool around its name, description and schema.
const LISTED_TOOL_BYTES: usize = 60;

/// Reads an OpenAPI document, 3.0 or 3.1, or Swagger 2.0, in JSON or YAML, into a definition of kind `http`.
///
/// The daemon's compiler accepts every schema of the definition. An error means that there is no definition at all; what was
/// merely skipped is in [`Imported::left_out`].
pub fn import(text: &str, options: &ImportOptions<'_>) -> Result<Imported, ImportError> {
    Namespace::parse(options.namespace).map_err(|error| ImportError::new("", error.message, error.hint))?;
    let document = Document::read(text, options.max_bytes)?;
    let mut report = Report::default();
    let all = operations::all(&document, options.namespace, &mut report);
    let selected: Vec<&Operation<'_>> =
        all.iter().filter(|operation| select::matches(options.select, operation)).collect();
    if !options.select.is_empty() {
        // Operations that could not be read cannot be selected either, so they are not missing.
        report = Report::default();
    }
    if document.object("webhooks").is_some_and(|webhooks| !webhooks.is_empty()) {
        report.note("/webhooks", "these are requests that the API sends, and no actions");
    }
    let server = servers::choose(&document, options.base_url, &mut report)?;
    let security = security::choose(&document, &selected, options, &server, &mut report)?;
    let actions = build_actions(&document, options, &selected, &server, &security, &mut report);
    if actions.is_empty() {
        return Err(empty_import_error(selected.len(), all.len(), report));
    }
    let list_bytes = list_bytes(&actions);
    let definition = definition_json(&document, options, &server, &security, actions);
    let (left_out, mut notes) = report.finish();
    if list_bytes > LARGE_LIST_BYTES {
        let text = format!(
            "their list has about {} KB, which a model reads with each request: select fewer operations, or let its client \
             list them with `/mcp?tools=search`",
            list_bytes / 1_000
        );
        notes.push(Note { about: "tools".to_owned(), text });
    }
    Ok(Imported { definition, operations: all.len(), selected: selected.len(), left_out, notes })
}

/// Estimated size of a list of the tools.
fn list_bytes(actions: &[Value]) -> usize {
    let fields = |action: &Value| {
        let listed =
            ["name", "description", "input_schema"].into_iter().filter_map(|field| action.get(field));
        listed.map(|value| value.to_string().len()).sum::<usize>()
    };
    actions.iter().map(|action| fields(action) + LISTED_TOOL_BYTES).sum()
}

fn empty_import_error(selected: usize, all: usize, report: Report) -> ImportError {
    let (left_out, _) = report.finish();
    let first =
        left_out.first().map(|first| format!(", the first because {}", first.why)).unwrap_or_default();
    let error = match selected {
        0 => {
            let hint = "leave the selection out to take all, or read the document for its tags and paths";
            ImportError::new("/paths", format!("none of the {all} operations is selected"), hint)
        }
        selected => {
            let message = format!("none of the {selected} selected operations can be taken{first}");
            ImportError::new("/paths", message, "read the reason of each, and select others")
        }
    };
    ImportError { left_out, ..error }
}

/// Sums over the actions built so far, each with a limit.
#[derive(Default)]
struct Totals {
    actions: usize,
    bytes: usize,
    described_bytes: usize,
    nodes: u64,
}

impl Totals {
    /// The limit that leaves no room for another action.
    fn reached_limit(&self, actions: usize, document: &Document) -> Option<String> {
        if self.actions == actions {
            return Some(format!("{actions} actions are taken already"));
        }
        let is_exhausted = document.is_exhausted();
        is_exhausted.then(|| "the operations before it used up the work limit of one import".to_owned())
    }

    /// Adds an action; the error names the limit that it would exceed.
    fn add(&mut self, action: &Action) -> Result<(), String> {
        let bytes = self.bytes + action.bytes;
        let described_bytes = self.described_bytes + action.described_bytes;
        let nodes = self.nodes + action.nodes;
        if bytes > BYTES || described_bytes > DESCRIBED_BYTES {
            return Err(format!("a definition has at most {BYTES} bytes"));
        }
        if nodes > PLUGIN_SUBSCHEMAS {
            return Err(format!("the schemas of a plugin have at most {PLUGIN_SUBSCHEMAS} subschemas"));
        }
        *self = Self { actions: self.actions + 1, bytes, described_bytes, nodes };
        Ok(())
    }
}

/// Why an operation is left out whatever it contains.
fn refusal_by_head(
    operation: &Operation<'_>,
    options: &ImportOptions<'_>,
    collisions: &BTreeMap<&str, String>,
) -> Option<String> {
    if operation.is_deprecated() && !options.deprecated {
        return Some("it is deprecated; ask for deprecated ones to take it".to_owned());
    }
    let name = collisions.get(&*operation.original)?;
    Some(format!("it and another operation would both be the tool `{name}`: select one of them"))
}

fn build_actions(
    document: &Document,
    options: &ImportOptions<'_>,
    selected: &[&Operation<'_>],
    server: &Server,
    security: &Security,
    report: &mut Report,
) -> Vec<Value> {
    let limit = options.limit.min(PLUGIN_TOOLS);
    let mut builder = ActionBuilder { document, options, server, security, patterns: Patterns::default() };
    let mut totals = Totals { bytes: HEAD_BYTES, ..Totals::default() };
    let mut actions = Vec::new();
    let mut built: Vec<&Operation<'_>> = Vec::new();
    let mut full: Option<String> = None;
    let allowed = selected.iter().filter(|operation| options.deprecated || !operation.is_deprecated());
    let collisions = name_collisions(allowed.map(|operation| &*operation.original));
    for operation in selected {
        if let Some(why) = refusal_by_head(operation, options, &collisions) {
            report.leave_out(operation.label(), why);
            continue;
        }
        full = full.or_else(|| totals.reached_limit(limit, document));
        if let Some(why) = &full {
            report.leave_out(operation.label(), format!("{why}: select fewer operations"));
            continue;
        }
        match builder.build(operation) {
            Err(why) => report.leave_out(operation.label(), why),
            Ok(action) => match totals.add(&action) {
                Err(why) => {
                    report.leave_out(operation.label(), format!("{why}: select fewer operations"));
                    full = Some(why);
                }
                Ok(()) => {
                    action.notes.iter().for_each(|note| report.note(operation.label(), note));
                    actions.push(action.value);
                    built.push(operation);
                }
            },
        }
    }
    security.note_unauthenticated(document, &built, report);
    actions
}

fn definition_json(
    document: &Document,
    options: &ImportOptions<'_>,
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
    definition.extend(options.safe_methods.then(|| ("safe_methods".to_owned(), json!(true))));
    definition.insert("actions".to_owned(), Value::Array(actions));
    Value::Object(definition)
}

/// The version without spaces, as `describe` requires it.
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
    Some(escape_for_display(&word, 64)).filter(|word| !word.is_empty())
}
