//! JSON Schemas of arguments and results: compiled when a plugin is loaded, validated at each call (R2, R3).
//!
//! A schema comes from a plugin and the value from a model, and neither may make validation expensive. The cost of a
//! schema is limited when it is loaded (`cost.rs`): no remote references, no backtracking patterns, no recursion that
//! multiplies. Its weight is the most keywords that can apply at one place of a value; weight times size of the value
//! limits the work before a validation starts (`validation_cost.rs`).
//!
//! `violation.rs` writes the errors for a model, which has to correct its arguments from them alone.

mod graph;
mod pattern;
mod cost;
mod validation_cost;
mod nulls;
mod violation;
mod hint;

use std::borrow::Cow;
use std::collections::BTreeSet;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};
use toolgate_api::dialect::{DRAFT_2019_09, DRAFT_2020_12, canonical_dialect};

pub use violation::Violation;

use crate::advertise::{Advertised, AdvertisedForms, PropertyNames, SchemaForm};
use cost::Cost;
use toolgate_api::text::escape_for_display;
use validation_cost::{ErrorSearch, Size};

/// Longest schema as JSON text. The largest published ones have some tens of KiB, and a thousand loaded plugins must fit
/// a small machine.
const SCHEMA_BYTES: usize = 256 * 1024;
/// Size of one compiled pattern, and of its DFA cache.
const PATTERN_BYTES: usize = 256 * 1024;
/// Keywords that one validation may evaluate. At some 20 ns each this is less than half a second in the worst case; an
/// ordinary call evaluates a few dozen.
const CHECK_WORK: u64 = 20_000_000;
/// Bytes of text times states of the patterns that may match them, formats included: about a second for a pattern that is
/// made to be slow; others are a thousand times faster. A megabyte may meet 400 states.
const TEXT_WORK: u64 = 400 << 20;
/// Levels of a value times in-place steps at each: a step takes about 600 bytes of stack, so this is half of the 2 MiB that
/// a thread of the runtime has.
const STACK_STEPS: u64 = 1_500;
/// Violations that are returned. A model corrects these and calls again.
const VIOLATIONS: usize = 8;

/// Keyword at the root of a schema, `true` or `false`: whether `format` is checked. A schema that is no meta-schema has no
/// standard keyword for that (2020-12 Validation, 7.2).
pub const ASSERT_FORMAT: &str = "x-assert-format";

/// The kind of value that a schema describes, which determines the wording of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaRole {
    /// The arguments of a tool: the root must have `type: object`.
    Input,
    /// The result of a tool, or its settings: any JSON.
    Output,
}

/// Why a schema does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON pointer into the schema; empty for its root.
    pub pointer: String,
    /// The error message.
    pub message: String,
    /// How to fix it.
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
    names: PropertyNames,
    forms: AdvertisedForms,
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
    /// Compiles a schema of draft 6, 7, 2019-09 or 2020-12, which is the default.
    pub fn compile(source: &Value, role: SchemaRole) -> Result<Self, SchemaError> {
        let source = &*with_canonical_dialect(source);
        check_size(source)?;
        if role == SchemaRole::Input {
            check_root(source)?;
        }
        let asserts_format = asserts_format(source, role);
        let cost = cost::measure(source, asserts_format)?;
        let validator = jsonschema::options()
            .offline()
            .should_validate_formats(asserts_format)
            .with_pattern_options(
                PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES),
            )
            .build(source)
            .map_err(|error| compile_error(&error))?;
        let names = match role {
            SchemaRole::Input => PropertyNames::of(source),
            SchemaRole::Output => PropertyNames::default(),
        };
        Ok(Self { source: source.clone(), role, validator, cost, names, forms: AdvertisedForms::default() })
    }

    /// Validates a value, and returns at most eight violations.
    pub fn validate(&self, instance: &Value) -> Result<(), Vec<Violation>> {
        self.validate_redacting(instance, &[])
    }

    /// Like [`Schema::validate`], but violations show no value that contains one of the given JSON pointers or is inside it.
    pub fn validate_redacting(&self, instance: &Value, redacted: &[String]) -> Result<(), Vec<Violation>> {
        let size = Size::of(instance);
        if let Some(excess) = self.exceeds_limits(&size) {
            return Err(vec![Violation::not_validated(self.role, excess)]);
        }
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        let formatter = violation::ViolationFormatter { schema: &self.source, role: self.role, redacted };
        let mut violations = match ErrorSearch::affordable(&size, &self.cost) {
            ErrorSearch::All => self
                .validator
                .iter_errors(instance)
                .flat_map(|error| formatter.violations(&error))
                .take(VIOLATIONS)
                .collect(),
            ErrorSearch::First => self
                .validator
                .validate(instance)
                .err()
                .map_or_else(Vec::new, |error| formatter.violations(&error)),
            ErrorSearch::None => vec![formatter.without_place(instance)],
        };
        violations.truncate(VIOLATIONS);
        Err(violations.into_iter().map(Violation::within_bounds).collect())
    }

    /// Says in what a value exceeds the limits of validation.
    fn exceeds_limits(&self, size: &Size) -> Option<&'static str> {
        let weight = &self.cost.weight;
        if size.places.saturating_mul(weight.keywords) > CHECK_WORK
            || size.text_bytes.saturating_mul(weight.text_states) > TEXT_WORK
        {
            return Some("too large");
        }
        (size.steps(self.cost.chain) > STACK_STEPS).then_some("too deeply nested")
    }

    /// Returns the value without the `null`s of optional properties that the schema refuses (M5, `nulls.rs`), with their JSON
    /// pointers, or `None` if it has no such `null`.
    pub fn without_refused_nulls(&self, instance: &Value) -> Option<(Value, BTreeSet<String>)> {
        let size = Size::of(instance);
        if self.exceeds_limits(&size).is_some()
            || self.validator.is_valid(instance)
            || ErrorSearch::affordable(&size, &self.cost) != ErrorSearch::All
        {
            return None;
        }
        let mut refused: BTreeSet<String> =
            self.validator.iter_errors(instance).flat_map(|error| nulls::refused_nulls(&error)).collect();
        let without = |pointers: &BTreeSet<String>| {
            let mut value = instance.clone();
            nulls::remove(&mut value, pointers);
            value
        };
        if refused.is_empty() {
            return None;
        }
        let reduced = without(&refused);
        let missing =
            self.validator.iter_errors(&reduced).filter_map(|error| nulls::missing_property(&error));
        let required: BTreeSet<String> = missing.filter(|pointer| refused.contains(pointer)).collect();
        if required.is_empty() {
            return Some((reduced, refused));
        }
        refused.retain(|pointer| !required.contains(pointer));
        (!refused.is_empty()).then(|| (without(&refused), refused))
    }

    /// The source of the schema.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The kind of value that it describes.
    pub fn role(&self) -> SchemaRole {
        self.role
    }

    /// The properties whose names some model provider refuses.
    pub fn names(&self) -> &PropertyNames {
        &self.names
    }

    /// The schema in the form of a provider, written once (M5). The error says why it cannot be advertised.
    pub fn advertised_form(&self, form: SchemaForm) -> Result<&Advertised, &str> {
        self.forms.get(&self.source, form)
    }

    /// Writes all forms, so that no list waits for them. They take some 70 µs and 7 KiB for a schema of 1 KiB.
    pub fn write_forms(&self) {
        let forms: &[SchemaForm] = match self.role {
            SchemaRole::Input => &[
                SchemaForm::Enforced,
                SchemaForm::OpenAi,
                SchemaForm::OpenAiStrict,
                SchemaForm::Anthropic,
                SchemaForm::AnthropicStrict,
                SchemaForm::Gemini,
                SchemaForm::McpInput,
            ],
            SchemaRole::Output => &[SchemaForm::Enforced, SchemaForm::McpOutput],
        };
        // A list says why a form cannot be written.
        for form in forms {
            let _ = self.advertised_form(*form);
        }
    }

    /// The number of subschemas that it holds in memory.
    pub fn nodes(&self) -> u64 {
        self.cost.nodes
    }

    /// Describes the properties of the object around the first violation with their types, for an error hint.
    pub fn hint_for(&self, violations: &[Violation]) -> String {
        let first = violations.first().map_or("", |violation| &violation.pointer);
        hint::properties_around(&self.source, first).unwrap_or_else(|| self.hint())
    }

    /// Describes the properties of the root with their types.
    pub fn hint(&self) -> String {
        hint::properties(&self.source, self.validator.is_valid(&json!({})))
    }
}

/// Returns the schema with the `$schema` that the validator knows, if its dialect is supported.
fn with_canonical_dialect(source: &Value) -> Cow<'_, Value> {
    let written = source.get("$schema").and_then(Value::as_str);
    match written.and_then(|written| Some((written, canonical_dialect(written)?))) {
        Some((written, dialect)) if written.trim_end_matches('#') != dialect => {
            let mut source = source.clone();
            source["$schema"] = dialect.into();
            Cow::Owned(source)
        }
        _ => Cow::Borrowed(source),
    }
}

/// Whether a value in another `format` is invalid. Since 2019-09 `format` is an annotation unless the author asks; before, it
/// was an assertion, which holds for arguments only: a call that ran must not lose its result for a format.
fn asserts_format(source: &Value, role: SchemaRole) -> bool {
    let dialect = source.get("$schema").and_then(Value::as_str).unwrap_or(DRAFT_2020_12);
    let is_annotation = [DRAFT_2019_09, DRAFT_2020_12].contains(&dialect.trim_end_matches('#'));
    let asked = source.get(ASSERT_FORMAT).and_then(Value::as_bool);
    asked.unwrap_or(role == SchemaRole::Input && !is_annotation)
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

fn compile_error(error: &jsonschema::ValidationError<'_>) -> SchemaError {
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
