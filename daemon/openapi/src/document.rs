//! The document as a tree: read within limits, checked for its version, with `$ref` resolution.
//!
//! JSON and YAML give the same tree. The YAML parser's budget limits what aliases expand to; for JSON, the brackets are
//! counted before parsing, since each container takes far more memory than its text.

use std::cell::Cell;

use serde_json::{Map, Value};
use toolgate_admission::percent_decode;
use toolgate_api::json::PlainValue;
use toolgate_api::text::escape_for_display;

use crate::report::ImportError;
use crate::swagger;

/// Longest document that a daemon imports. GitHub's has 12 MB.
pub(crate) const DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
/// Longest document that a command imports, in ten times as much memory of its own. The one of Microsoft Graph has 38 MB.
pub const COMMAND_DOCUMENT_BYTES: usize = 2 * DOCUMENT_BYTES;
/// Most objects and arrays of a document that a daemon imports, which take some hundred bytes of memory each. GitHub's document
/// has 0.3 million.
const CONTAINERS: usize = 400_000;
/// The same for a command.
const COMMAND_CONTAINERS: usize = 2_000_000;
/// Values of one YAML document for each of its objects and arrays, with aliases expanded.
const CONTAINER_NODES: usize = 4;
/// Nodes that YAML aliases may add, which take the memory of as many nodes of JSON. Documents that write one error schema
/// for all responses have 0.3 million.
const REPEATED_NODES: usize = 1_000_000;
/// Nesting depth; `serde_json` has the same limit.
const DEPTH: usize = 127;
/// Work steps of one import, some ten nanoseconds each. The largest published documents take a twentieth, so only documents
/// made to be slow reach the limit.
const WORK_STEPS: u64 = 400_000_000;
/// Work steps of looking at a value, and of following a reference.
const RESOLVE_STEPS: usize = 1;
const FOLLOW_STEPS: usize = 20;
/// Longest chain of references that lead from one to the next.
const CHAIN: usize = 16;

const RESEND_HINT: &str = "send the document as it was published, in JSON or YAML";

const CUT_HINT: &str = "keep the paths that you need, as by \
     `jq '.paths |= with_entries(select(.key | startswith(\"/users\")))' FILE`, and import the result";

pub(crate) struct Document {
    root: Value,
    /// Work steps taken so far. Everything that follows references counts here, since references multiply work.
    work_steps: Cell<u64>,
}

/// Why a `$ref` cannot be resolved; each variant holds the reference as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("`{0}` is in another document")]
    External(String),
    #[error("`{0}` has no target")]
    NotFound(String),
    #[error("`{0}` refers to itself")]
    Cycle(String),
}

impl Document {
    /// Parses JSON, or YAML if the text does not begin like JSON.
    pub(crate) fn read(text: &str, max_bytes: usize) -> Result<Self, ImportError> {
        if text.len() > max_bytes {
            let message = format!("the document has {} bytes, more than the {max_bytes} allowed", text.len());
            return Err(ImportError::new("", message, CUT_HINT));
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root =
            if text.starts_with('{') { read_json(text, max_bytes)? } else { read_yaml(text, max_bytes)? };
        let root = match check_version(&root)? {
            Version::OpenApi3 => root,
            Version::Swagger2 => swagger::convert(root),
        };
        Ok(Self { root, work_steps: Cell::new(0) })
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Counts work, in steps of some ten nanoseconds.
    pub(crate) fn spend(&self, steps: usize) {
        self.work_steps.set(self.work_steps.get().saturating_add(steps as u64));
    }

    /// Whether the work limit of one import is reached.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.work_steps.get() > WORK_STEPS
    }

    /// The top-level object of that name, if there is one.
    pub(crate) fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.root.get(name)?.as_object()
    }

    /// Follows `$ref` until a value without one.
    pub(crate) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, ReferenceError> {
        let mut at = value;
        self.spend(RESOLVE_STEPS);
        for _ in 0..CHAIN {
            let Some(reference) = reference(at) else { return Ok(at) };
            at = self.target(reference)?;
        }
        Err(ReferenceError::Cycle(escape_for_display(reference(value).unwrap_or_default(), 100)))
    }

    /// The value at a reference, which may be a reference again.
    pub(crate) fn target(&self, reference: &str) -> Result<&Value, ReferenceError> {
        self.spend(FOLLOW_STEPS);
        let shown = || escape_for_display(reference, 100);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(ReferenceError::External(shown()));
        };
        // Only JSON pointers are resolved; `$anchor` names are not supported.
        let pointer = percent_decode(fragment).filter(|pointer| pointer.starts_with('/'));
        let target = pointer.and_then(|pointer| self.root.pointer(&pointer));
        target.ok_or_else(|| ReferenceError::NotFound(shown()))
    }
}

/// The entries of an object and of its direct children: the work steps of iterating over them.
pub(crate) fn breadth(map: &Map<String, Value>) -> usize {
    let size = |value: &Value| match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    map.values().map(size).sum::<usize>() + map.len()
}

/// The target of a `$ref` object.
pub(crate) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

fn read_json(text: &str, max_bytes: usize) -> Result<Value, ImportError> {
    let (containers, allowed) = (containers(text), max_containers(max_bytes));
    if containers > allowed {
        let message =
            format!("the document has {containers} objects and arrays, more than the {allowed} allowed");
        return Err(ImportError::new("", message, CUT_HINT));
    }
    let parsed = serde_json::from_str(text).map_err(|error| {
        let message = format!("the document is not JSON: {}", escape_for_display(&error.to_string(), 200));
        ImportError::new("", message, RESEND_HINT)
    });
    parsed.map(|PlainValue(document)| document)
}

/// The number of objects and arrays that a JSON text opens.
fn containers(text: &str) -> usize {
    let (mut count, mut in_string, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

fn max_containers(max_bytes: usize) -> usize {
    if max_bytes > DOCUMENT_BYTES { COMMAND_CONTAINERS } else { CONTAINERS }
}

fn read_yaml(text: &str, max_bytes: usize) -> Result<Value, ImportError> {
    let nodes = max_containers(max_bytes) * CONTAINER_NODES;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: nodes,
            max_events: 3 * nodes,
            max_total_scalar_bytes: max_bytes,
            max_recorded_anchor_bytes: max_bytes,
            max_recorded_anchor_events: nodes,
            max_aliases: REPEATED_NODES,
            // The size of what they expand to is bounded, so one anchor may have any number of aliases.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_NODES,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map(|PlainValue(document)| document)
        .map_err(|error| yaml_error(&error))
}

fn yaml_error(error: &serde_saphyr::Error) -> ImportError {
    match error {
        serde_saphyr::Error::AliasError { error, .. } => yaml_error(error),
        serde_saphyr::Error::AliasReplayLimitExceeded { .. } => {
            let message = format!("the aliases of the document repeat more than {REPEATED_NODES} nodes");
            ImportError::new("", message, "convert it to JSON, which writes them out, or keep fewer paths")
        }
        error => {
            let error = escape_for_display(&error.to_string(), 200);
            let message = format!("the document is not YAML that can be read: {error}");
            ImportError::new("", message, RESEND_HINT)
        }
    }
}

/// Versions that are read.
enum Version {
    OpenApi3,
    Swagger2,
}

fn check_version(root: &Value) -> Result<Version, ImportError> {
    let version = |name| {
        root.get(name).map(|version| match version {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let refuse = |name: &str, version: &str| {
        let message = format!("{name} {} is not supported", escape_for_display(version, 20));
        let hint = "OpenAPI 3.0 and 3.1 and Swagger 2.0 are supported";
        Err(ImportError::new(format!("/{}", name.to_ascii_lowercase()), message, hint))
    };
    match (version("openapi"), version("swagger")) {
        (Some(version), _) if is_of(&version, "3.0") || is_of(&version, "3.1") => Ok(Version::OpenApi3),
        (Some(version), _) => refuse("OpenAPI", &version),
        (None, Some(version)) if is_of(&version, "2.0") || version == "2" => Ok(Version::Swagger2),
        (None, Some(version)) => refuse("Swagger", &version),
        (None, None) => {
            let hint = "an OpenAPI document has a field like `\"openapi\": \"3.1.0\"` at its top";
            Err(ImportError::new("", "the text is no OpenAPI document", hint))
        }
    }
}

fn is_of(version: &str, line: &str) -> bool {
    version.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `serde_json` would parse the text under such a key again, with a depth limit of its own.
    #[test]
    fn keys_of_serde_json_have_no_meaning() {
        let key = "$serde_json::private::RawValue";
        let json = format!(r#"{{"a": {{"{key}": "[1]"}}}}"#);
        let yaml = format!("a:\n  {key}: '[1]'\n");
        for document in [read_json(&json, DOCUMENT_BYTES), read_yaml(&yaml, DOCUMENT_BYTES)] {
            assert_eq!(document.expect("a document")["a"][key], "[1]");
        }
    }
}
