//! `yaml_to_json` and `json_to_yaml`.
//!
//! Anchors and aliases let a few lines of YAML stand for gigabytes, so what a document may unfold to is bounded here. Of
//! what a plain scalar may mean, YAML 1.2 decides: `no` is a text, as who wrote it meant it to be.

use schemars::JsonSchema;
use serde::Serialize;
use serde_saphyr::options::NonFiniteFloatPolicy;
use toolgate_sdk::{Error, serde_json, tool};

use crate::document::{self, AnyValue};
use crate::size;
use crate::tree::Tree;

/// Deeper nesting is a mistake, or an attack.
const MAX_DEPTH: usize = 64;

/// Nodes of all documents, unfolded. More than 1 MiB of text has without aliases.
const MAX_NODES: usize = 600_000;

/// Nodes that aliases may add. Ten times what large configurations have.
const MAX_REPEATED_NODES: usize = 100_000;

/// All text of all documents, unfolded.
const MAX_SCALAR_BYTES: usize = 4 * 1024 * 1024;

/// Converts YAML to JSON.
///
/// Gives every document of the text, of which `---` separates many; empty ones are left out. Aliases and merge keys
/// (`<<`) are unfolded. Comments are lost, keys keep their order and become text, dates stay text. Types are those of
/// YAML 1.2: `yes` and `no` are texts. A call converts some 400 KB.
#[tool(
    read_only,
    tags("yaml", "json", "convert", "parse"),
    examples(
        {"text": "name: demo\nports: [80, 443]\nenabled: true\n"} => {"documents": [{"name": "demo", "ports": [80, 443], "enabled": true}]},
        "many documents": {"text": "a: 1\n---\nb: no\n"} => {"documents": [{"a": 1}, {"b": "no"}]},
    )
)]
pub fn yaml_to_json(
    /// The YAML
    text: String,
) -> Result<Documents, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 3 * MAX_NODES,
            max_total_scalar_bytes: MAX_SCALAR_BYTES,
            max_recorded_anchor_bytes: MAX_SCALAR_BYTES,
            max_recorded_anchor_events: MAX_NODES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPEATED_NODES,
        },
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    let documents = serde_saphyr::from_multiple_with_options(&text, options).map_err(|error| {
        Error::invalid(format!(
            "the text is not YAML that can be converted: {error}; check the indentation there"
        ))
    })?;
    let documents = Documents { documents };
    size::check(serde_json::to_string(&documents)?.len())?;
    Ok(documents)
}

/// What a YAML text holds.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Documents {
    /// Each document as JSON
    pub documents: Vec<Tree>,
}

/// Converts JSON to YAML.
///
/// Keys keep their order. Texts that YAML would take for something else, as `no` or `1.0`, get quotes.
#[tool(
    read_only,
    tags("yaml", "json", "convert", "format"),
    examples(
        {"value": {"answer": "no", "name": "demo", "ports": [80, 443]}} => "answer: \"no\"\nname: demo\nports:\n- 80\n- 443\n",
        "from text": {"text": "{\"b\": null}"} => "b: null\n",
    )
)]
pub fn json_to_yaml(
    /// The document
    #[default]
    value: AnyValue,
    /// The document as JSON text, instead of `value`
    text: Option<String>,
) -> Result<String, Error> {
    let json = document::choose(&value, text.as_deref())?;
    let tree: Tree = serde_json::from_str(json).map_err(|error| document::explain(&error))?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(&tree, options)
        .map_err(|error| Error::new(format!("the document cannot be written as YAML: {error}")))?;
    size::whole(yaml)
}
