//! `yaml_to_json` and `json_to_yaml`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_saphyr::{NonFiniteFloatPolicy, UserMessageFormatter};
use toolgate_sdk::{Error, tool};

use crate::document::{self, AnyValue};
use crate::size;
use crate::tree::Tree;

/// Events that aliases may add: ten times those of large configurations.
const MAX_REPEATED_EVENTS: usize = 100_000;

/// Messages quote keys and values.
const MAX_MESSAGE_CHARACTERS: usize = 300;

const ROUNDED: &str = "numbers beyond 64 bits are rounded: quote them in the YAML to keep their digits";

/// Converts YAML to JSON.
///
/// Gives every document of the text, of which `---` separates many; empty ones are left out. Aliases and merge keys
/// (`<<`) are unfolded. Comments are lost, keys keep their order and become text, dates stay text. Types are those of
/// YAML 1.2, and `0b11` is 3: `yes`, `no`, `1_000` and `017` are texts. Numbers beyond 64 bits are rounded, and
/// `notes` says so; in quotes they are texts. `.inf` and `.nan` become text, and `!!binary` stays base64. A call
/// converts about 400 KB of usual YAML.
#[tool(
    read_only,
    tags("yaml", "json", "convert", "parse"),
    examples(
        {"text": "name: demo\nports: [80, 443]\nenabled: true\n"} => {"documents": [{"name": "demo", "ports": [80, 443], "enabled": true}]},
        "many documents": {"text": "a: 1\n---\nb: no\n"} => {"documents": [{"a": 1}, {"b": "no"}]},
        "a number too wide for JSON": {"text": "id: 123456789012345678901234567890\n"} => {
            "documents": [{"id": 1.2345678901234568e29}],
            "notes": ["numbers beyond 64 bits are rounded: quote them in the YAML to keep their digits"]
        },
    )
)]
pub fn yaml_to_json(
    /// The YAML
    text: String,
) -> Result<Documents, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_recorded_anchor_bytes: 4 * size::MAX_TEXT_BYTES,
            max_total_scalar_bytes: 4 * size::MAX_TEXT_BYTES,
            // One anchor may have any number of aliases.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED_EVENTS },
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        leading_zero_numbers_as_strings: true,
        ignore_binary_tag_for_string: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    let text = text.trim_start_matches('\u{feff}');
    let trees: Vec<Tree> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| problem(&error))?;
    let notes =
        if trees.iter().any(|tree| tree.find(is_rounded).is_some()) { vec![ROUNDED] } else { Vec::new() };
    Ok(Documents { documents: AnyValue::write(&trees)?, notes })
}

fn problem(error: &serde_saphyr::Error) -> Error {
    match error {
        serde_saphyr::Error::AliasError { error, .. } => problem(error),
        serde_saphyr::Error::AliasReplayLimitExceeded { .. } => Error::invalid(format!(
            "the aliases of the text repeat more than {MAX_REPEATED_EVENTS} nodes: write them out, or convert one part at a time"
        )),
        error => {
            let problem = error.render_with_formatter(&UserMessageFormatter);
            let problem = problem.chars().take(MAX_MESSAGE_CHARACTERS).collect::<String>();
            Error::invalid(format!(
                "the text is not YAML that can be converted: {problem}; check the indentation, the quotes and the aliases there"
            ))
        }
    }
}

/// Numbers of 64 bits are integers of a tree.
fn is_rounded(tree: &Tree) -> bool {
    let Tree::Number(number) = tree else { return false };
    number.is_f64() && number.as_f64().is_some_and(|value| value.abs() >= i64::MAX as f64)
}

/// The documents of a YAML text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Documents {
    /// Each document as JSON
    #[schemars(with = "Vec<AnyValue>")]
    pub documents: AnyValue,
    /// Values that are not as they were written
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
    let json = document::choose(&value, text.as_deref())?;
    let tree = document::read_tree(json, |integer| !document::is_wide_integer(integer))?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true, folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(&tree, options)
        .map_err(|error| Error::new(format!("the document cannot be written as YAML: {error}")))?;
    size::whole(yaml)
}
