//! `yaml_to_json` and `json_to_yaml`.
//!
//! Anchors and aliases let a few lines of YAML stand for gigabytes, so what a document may unfold to is bounded here. Of
//! what a plain scalar may mean, YAML 1.2 decides: `no` is a text, as who wrote it meant it to be.

mod scalar;
mod unfold;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, serde_json, tool};

use crate::document::{self, AnyValue};
use crate::size;
use crate::tree::Tree;

/// Converts YAML to JSON.
///
/// Gives every document of the text, of which `---` separates many; empty ones are left out. Aliases and merge keys
/// (`<<`) are unfolded. Comments are lost, keys keep their order and become text, dates stay text. Types are those of
/// YAML 1.2: `yes`, `no` and `1_000` are texts, and `017` is 17. Numbers beyond 64 bits, `.inf` and `.nan` become text as
/// they are written, and `!!binary` stays base64. A call converts 300 KB of any YAML, and 500 KB of most.
#[tool(
    read_only,
    tags("yaml", "json", "convert", "parse"),
    examples(
        {"text": "name: demo\nports: [80, 443]\nenabled: true\n"} => {"documents": [{"name": "demo", "ports": [80, 443], "enabled": true}]},
        "many documents": {"text": "a: 1\n---\nb: no\n"} => {"documents": [{"a": 1}, {"b": "no"}]},
        "a number too wide for JSON": {"text": "id: 123456789012345678901234567890\n"} => {
            "documents": [{"id": "123456789012345678901234567890"}],
            "notes": ["numbers beyond 64 bits are given as text, so that no digit is lost"]
        },
    )
)]
pub fn yaml_to_json(
    /// The YAML
    text: String,
) -> Result<Documents, Error> {
    let unfolded = unfold::read(text.trim_start_matches('\u{feff}'))?;
    let notes = if unfolded.has_wide { vec![document::WIDE_NUMBERS] } else { Vec::new() };
    let documents = Documents { documents: unfolded.documents, notes };
    size::check(serde_json::to_string(&documents)?.len())?;
    Ok(documents)
}

/// What a YAML text holds.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Documents {
    /// Each document as JSON
    pub documents: Vec<Tree>,
    /// What is not as it was written
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<&'static str>,
}

/// Converts JSON to YAML.
///
/// Keys keep their order. Texts that YAML would take for something else, as `no` or `1.0`, get quotes, and so do integers
/// beyond 64 bits, which most readers of YAML would round.
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
    let json = document::quote_wide_integers(document::choose(&value, text.as_deref())?);
    let tree: Tree = serde_json::from_str(&json).map_err(|error| document::explain(&error))?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(&tree, options)
        .map_err(|error| Error::new(format!("the document cannot be written as YAML: {error}")))?;
    size::whole(yaml)
}
