//! The operations of a document, in the order of their paths and then of their methods.

use serde_json::{Map, Value};
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::report::Report;
use crate::text::is_visible;

/// Most operations of one document. The largest published documents have some fifteen thousand.
const OPERATIONS: usize = 20_000;
/// Longest `operationId` that becomes the name of an action.
const NAME_CHARS: usize = 256;
/// HTTP methods: key in the document, and name in a request.
const METHODS: [(&str, &str); 7] = [
    ("get", "GET"),
    ("head", "HEAD"),
    ("options", "OPTIONS"),
    ("post", "POST"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
];
/// Methods that actions do not support.
const OTHER_METHODS: [&str; 2] = ["trace", "query"];

/// One method of one path.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) method: &'static str,
    /// The path item object.
    pub(crate) item: &'a Map<String, Value>,
    /// The operation object in it.
    pub(crate) body: &'a Map<String, Value>,
    /// The name of the action: its `operationId`, or the tool name of method and path where that cannot be a name.
    pub(crate) original: String,
    /// The name of the tool.
    pub(crate) name: String,
}

impl<'a> Operation<'a> {
    /// Method and path, like `GET /users`, as reports name it.
    pub(crate) fn label(&self) -> String {
        label(self.method, self.path)
    }

    /// The `operationId`.
    pub(crate) fn id(&self) -> Option<&'a str> {
        self.body.get("operationId")?.as_str().filter(|id| !id.trim().is_empty())
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &'a str> {
        self.body.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn is_deprecated(&self) -> bool {
        self.body.get("deprecated") == Some(&Value::Bool(true))
    }
}

/// All operations, each with its name.
pub(crate) fn all<'a>(document: &'a Document, namespace: &str, report: &mut Report) -> Vec<Operation<'a>> {
    let paths = document.object("paths").into_iter().flatten();
    let mut paths: Vec<_> = paths.filter(|(path, _)| !path.starts_with("x-")).collect();
    // `serde_json` keeps keys in either order, depending on its features.
    paths.sort_by_key(|(path, _)| path.as_str());
    let mut operations = Vec::new();
    for (path, item) in paths {
        add_path_item(document, path, item, &mut operations, report);
    }
    for operation in &mut operations {
        let fallback = || {
            toolgate_api::name::derive_tool_name(
                namespace,
                &format!("{} {}", operation.method, operation.path),
            )
        };
        operation.original = operation.id().filter(|id| is_name(id)).map_or_else(fallback, str::to_owned);
        operation.name = toolgate_api::name::derive_tool_name(namespace, &operation.original);
    }
    operations
}

/// Whether an `operationId` can name an action, and has ASCII letters or digits for the name of the tool.
fn is_name(id: &str) -> bool {
    let is_line = id.trim() == id && !id.contains(['\n', '\t']) && is_visible(id);
    is_line && id.chars().nth(NAME_CHARS).is_none() && id.contains(|sign: char| sign.is_ascii_alphanumeric())
}

fn add_path_item<'a>(
    document: &'a Document,
    path: &'a str,
    item: &'a Value,
    operations: &mut Vec<Operation<'a>>,
    report: &mut Report,
) {
    let item = match document.resolve(item) {
        Ok(Value::Object(item)) => item,
        Ok(_) => return report.leave_out(escape_for_display(path, 200), "it is not an object"),
        Err(why) => return report.leave_out(escape_for_display(path, 200), why.to_string()),
    };
    for (key, method) in METHODS {
        match item.get(key) {
            None => {}
            Some(_) if operations.len() == OPERATIONS => {
                let why = format!("the document has more than {OPERATIONS} operations");
                report.leave_out(label(method, path), why);
            }
            Some(Value::Object(body)) => {
                let (original, name) = Default::default();
                operations.push(Operation { path, method, item, body, original, name });
            }
            Some(_) => report.leave_out(label(method, path), "it is not an object"),
        }
    }
    for key in OTHER_METHODS.into_iter().filter(|key| item.contains_key(*key)) {
        let method = key.to_uppercase();
        report.leave_out(label(&method, path), format!("actions do not support the method `{method}`"));
    }
}

fn label(method: &str, path: &str) -> String {
    format!("{method} {}", escape_for_display(path, 200))
}
