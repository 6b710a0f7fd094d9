//! The document as a tree: read within bounds, of a version that is known, and its references followed.
//!
//! JSON and YAML give the same tree. Of what a few bytes of YAML may unfold to the reader's budget decides; of what a few
//! bytes of JSON may take in memory, a count of its brackets before it is read.

use std::cell::Cell;

use serde_json::{Map, Value};
use toolgate_admission::{percent_decode, show};

use crate::import::ImportError;

/// Longest document. The largest that is published for one API has 20 MB.
const DOCUMENT_BYTES: usize = 32 * 1024 * 1024;
/// Objects and arrays of one document, which take some hundred bytes each. GitHub's has 0.3 million.
const CONTAINERS: usize = 1_000_000;
/// All values of one document, aliases of YAML unfolded.
const NODES: usize = 4_000_000;
/// Nodes that aliases of YAML may add: ten times what is seen.
const REPEATED_NODES: usize = 200_000;
/// Nesting; `serde_json` has the same bound.
const DEPTH: usize = 127;
/// Steps of one import, of some ten nanoseconds each. The largest published documents take a twentieth, so this is for those
/// that were made to be slow.
const WORK: u64 = 400_000_000;
/// Steps of looking at a value, and of following a reference.
const RESOLVED: usize = 1;
const FOLLOWED: usize = 20;
/// References that lead from one to the next.
const CHAIN: usize = 16;

/// A document that was read.
pub(crate) struct Document {
    root: Value,
    /// What reading it took so far. All that follows references counts here, since references are what multiplies.
    effort: Cell<u64>,
}

/// Why a reference has no target here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// It names a place outside of the document.
    Elsewhere(String),
    /// There is nothing at the place.
    Nowhere(String),
    /// It leads to itself, or too far.
    Circle(String),
}

impl std::fmt::Display for Unresolved {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Elsewhere(reference) => write!(formatter, "`{reference}` is in another document"),
            Self::Nowhere(reference) => write!(formatter, "`{reference}` leads nowhere"),
            Self::Circle(reference) => write!(formatter, "`{reference}` leads to itself"),
        }
    }
}

impl Document {
    /// Reads JSON, or YAML where the text does not begin like JSON.
    pub(crate) fn read(text: &str) -> Result<Self, ImportError> {
        if text.len() > DOCUMENT_BYTES {
            let message =
                format!("the document has {} bytes, more than the {DOCUMENT_BYTES} allowed", text.len());
            return Err(ImportError::new("", message, "cut it into documents of one area each"));
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let root = if text.starts_with('{') { read_json(text)? } else { read_yaml(text)? };
        check_version(&root)?;
        Ok(Self { root, effort: Cell::new(0) })
    }

    /// The whole.
    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Counts work, in steps of some ten nanoseconds.
    pub(crate) fn spend(&self, steps: usize) {
        self.effort.set(self.effort.get().saturating_add(steps as u64));
    }

    /// Whether the work is done that one document may take.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.effort.get() > WORK
    }

    /// The object of that name at the top; none where there is no such, or it is no object.
    pub(crate) fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.root.get(name)?.as_object()
    }

    /// What a value means: itself, or what its `$ref` leads to.
    pub(crate) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, Unresolved> {
        let mut at = value;
        self.spend(RESOLVED);
        for _ in 0..CHAIN {
            let Some(reference) = reference(at) else { return Ok(at) };
            at = self.target(reference)?;
        }
        Err(Unresolved::Circle(show(reference(value).unwrap_or_default(), 100)))
    }

    /// What a reference names.
    pub(crate) fn target(&self, reference: &str) -> Result<&Value, Unresolved> {
        self.spend(FOLLOWED);
        let shown = || show(reference, 100);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(Unresolved::Elsewhere(shown()));
        };
        // A target is asked for by its path; names given by `$anchor` are not looked for.
        let pointer = percent_decode(fragment).filter(|pointer| pointer.starts_with('/'));
        pointer.and_then(|pointer| self.root.pointer(&pointer)).ok_or_else(|| Unresolved::Nowhere(shown()))
    }
}

/// How much stands in an object itself: what goes through its lists takes as many steps.
pub(crate) fn breadth(map: &Map<String, Value>) -> usize {
    let size = |value: &Value| match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    map.values().map(size).sum::<usize>() + map.len()
}

/// The reference that a value is, if it is one.
pub(crate) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

fn read_json(text: &str) -> Result<Value, ImportError> {
    let refuse = |message: String| {
        let hint = "send the document as it was published, in JSON or YAML";
        ImportError::new("", message, hint)
    };
    let containers = containers(text);
    if containers > CONTAINERS {
        return Err(refuse(format!(
            "the document has {containers} objects and arrays, more than the {CONTAINERS} allowed"
        )));
    }
    serde_json::from_str(text)
        .map_err(|error| refuse(format!("the document is not JSON: {}", show(&error.to_string(), 200))))
}

/// How many objects and arrays a text of JSON opens.
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

fn read_yaml(text: &str) -> Result<Value, ImportError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: NODES,
            max_events: 3 * NODES,
            max_total_scalar_bytes: DOCUMENT_BYTES,
            max_recorded_anchor_bytes: DOCUMENT_BYTES,
            max_recorded_anchor_events: NODES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_NODES,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = format!("the document is not YAML that can be read: {}", show(&error.to_string(), 200));
        ImportError::new("", message, "send the document as it was published, in JSON or YAML")
    })
}

fn check_version(root: &Value) -> Result<(), ImportError> {
    let version = |name| {
        root.get(name).map(|version| match version {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    match (version("openapi"), version("swagger")) {
        (Some(version), _) if is_of(&version, "3.0") || is_of(&version, "3.1") => Ok(()),
        (Some(version), _) => {
            let message = format!("OpenAPI {} is not known", show(&version, 20));
            Err(ImportError::new("/openapi", message, "documents of versions 3.0 and 3.1 are read"))
        }
        (None, Some(version)) => {
            let message = format!("Swagger {} is not read", show(&version, 20));
            let hint = "convert the document to OpenAPI 3 first, for example with `npx swagger2openapi`";
            Err(ImportError::new("/swagger", message, hint))
        }
        (None, None) => {
            let hint = "an OpenAPI document says `\"openapi\": \"3.1.0\"` or the like at its top";
            Err(ImportError::new("", "the text is no OpenAPI document", hint))
        }
    }
}

fn is_of(version: &str, line: &str) -> bool {
    version.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
