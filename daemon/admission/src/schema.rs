//! JSON Schemas of arguments and results: compiled at load, checked at each call (R2, R3).
//!
//! A schema comes from a plugin and the value from a model, and neither may make the other expensive. What
//! a schema can cost is bounded when it is loaded (`cost.rs`): no fetching, no backtracking patterns, no
//! recursion that multiplies. What is left is a weight, the most keywords that one place of a value can
//! meet; weight times size of the value bounds the work of a check before it begins.
//!
//! The words in which a misfit is told are in `violation.rs`: they are read by a model, which has to
//! find the way out from them alone.

mod cost;
mod effort;
mod graph;
mod hint;
mod pattern;
mod violation;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

pub use graph::percent_decode;
pub use violation::Violation;

use cost::Cost;
use effort::{Search, Size};
use toolgate_api::text::escape_for_display;

/// Longest schema as JSON text. The largest that are seen in the wild have some tens of KiB, and a
/// thousand loaded plugins must fit a small machine.
const SCHEMA_BYTES: usize = 256 * 1024;
/// Size of one compiled pattern, and of the cache it fills when it matches.
const PATTERN_BYTES: usize = 256 * 1024;
/// Keywords that one check may meet. At some 20 ns each this is less than half a second, in the worst case
/// that someone can construct; an ordinary call meets a few dozen.
const CHECK_WORK: u64 = 20_000_000;
/// Bytes of text times states of the patterns that may look at them, formats included: about a second in the worst
/// case, when a pattern was made to be slow; others are a thousand times faster. A megabyte may meet 400 states.
const TEXT_WORK: u64 = 400 << 20;
/// Levels of a value times in-place steps at each: a step takes about 600 bytes of stack, so this takes one
/// half of the 2 MiB that a thread of the runtime has.
const STACK_STEPS: u64 = 1_500;
/// Misfits that are told. A model mends these and sends again.
const VIOLATIONS: usize = 8;

/// What a schema describes, which decides how misfits are worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaRole {
    /// The arguments of a tool: the root must say `type: object`.
    Input,
    /// The result of a tool, or settings: any JSON.
    Output,
}

/// Why a schema is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON pointer into the schema; empty for its root.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl SchemaError {
    fn new(pointer: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), hint: hint.into() }
    }
}

/// A compiled schema.
pub struct Schema {
    source: Value,
    role: SchemaRole,
    validator: Validator,
    cost: Cost,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Schema")
            .field("role", &self.role)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a schema, or says why it is not accepted. Drafts 6 and 7, 2019-09 and 2020-12 (the
    /// default) are known.
    pub fn compile(source: &Value, role: SchemaRole) -> Result<Self, SchemaError> {
        check_size(source)?;
        if role == SchemaRole::Input {
            check_root(source)?;
        }
        let cost = cost::measure(source)?;
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(
                PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES),
            )
            .build(source)
            .map_err(|error| invalid(&error))?;
        Ok(Self { source: source.clone(), role, validator, cost })
    }

    /// Whether a value fits; if not, where it does not, at most eight places.
    pub fn check(&self, instance: &Value) -> Result<(), Vec<Violation>> {
        self.check_hiding(instance, &[])
    }

    /// Like [`Schema::check`], but never shows what stands at or around the given JSON pointers.
    pub fn check_hiding(&self, instance: &Value, hidden: &[String]) -> Result<(), Vec<Violation>> {
        let size = Size::of(instance);
        let weight = &self.cost.weight;
        if size.places.saturating_mul(weight.keywords) > CHECK_WORK
            || size.text_bytes.saturating_mul(weight.text_states) > TEXT_WORK
        {
            return Err(vec![Violation::beyond_checking(self.role, "too large")]);
        }
        if size.steps(self.cost.chain) > STACK_STEPS {
            return Err(vec![Violation::beyond_checking(self.role, "too deeply nested")]);
        }
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        let teller = violation::Teller { schema: &self.source, role: self.role, hidden };
        let mut violations = match Search::affordable(&size, &self.cost) {
            Search::All => self
                .validator
                .iter_errors(instance)
                .flat_map(|error| teller.tell(&error))
                .take(VIOLATIONS)
                .collect(),
            Search::First => {
                self.validator.validate(instance).err().map_or_else(Vec::new, |error| teller.tell(&error))
            }
            Search::Nothing => vec![teller.untold(instance)],
        };
        violations.truncate(VIOLATIONS);
        Err(violations.into_iter().map(Violation::within_bounds).collect())
    }

    /// The schema as the plugin wrote it.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// What it describes.
    pub fn role(&self) -> SchemaRole {
        self.role
    }

    /// Subschemas that are held in memory for it.
    pub fn nodes(&self) -> u64 {
        self.cost.nodes
    }

    /// What to send, in words: the properties of the root with their types.
    pub fn hint(&self) -> String {
        hint::properties(&self.source)
    }
}

fn check_size(source: &Value) -> Result<(), SchemaError> {
    let bytes = serde_json::to_string(source).map_or(usize::MAX, |text| text.len());
    if bytes <= SCHEMA_BYTES {
        return Ok(());
    }
    let message = format!("the schema has {bytes} bytes, more than the {SCHEMA_BYTES} allowed");
    Err(SchemaError::new("", message, "describe less in it, or take the large lists into the tool"))
}

fn check_root(source: &Value) -> Result<(), SchemaError> {
    if source.get("type").and_then(Value::as_str) == Some("object") {
        return Ok(());
    }
    let hint = "arguments are named: write `{\"type\":\"object\",\"properties\":{…}}`";
    Err(SchemaError::new("", "the root of an input schema does not say `\"type\":\"object\"`", hint))
}

fn invalid(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    let hint = match error.kind() {
        jsonschema::error::ValidationErrorKind::Format { format } if format == "regex" => {
            "patterns are regular expressions without look-around and back-references"
        }
        jsonschema::error::ValidationErrorKind::Referencing(_) => {
            "a `$ref` names a place in the same schema, like `#/$defs/item`"
        }
        _ => "see https://json-schema.org/draft/2020-12",
    };
    let message = format!("the schema is not valid: {}", escape_for_display(&error.to_string(), 200));
    SchemaError::new(error.instance_path().as_str(), message, hint)
}

#[cfg(test)]
mod tests;
