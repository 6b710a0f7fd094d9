//! Computes the cost of validating one value, and of listing its errors, before either starts.
//!
//! Whether a value is valid is computed without allocating. Errors allocate a lot: each has its path, names and patterns, and
//! within alternatives a copy of the value, since the validator keeps the errors of each alternative. Alternatives are also
//! evaluated again at each level. So errors are listed only as far as the limits allow: all, the first, or none.

use serde_json::Value;

use super::cost::{Cost, Weight};
use super::{CHECK_WORK, TEXT_WORK};

/// Most memory of the errors of one validation: ten thousand places with ten keywords each.
const ERRORS_BYTES: u64 = 32 << 20;
/// Memory of one error, without the data it refers to.
pub(super) const ERROR_BYTES: u64 = 320;
/// Memory of one place of a copied value, without its text.
const PLACE_BYTES: u64 = 64;
/// Memory of one index in a path.
const INDEX_BYTES: u64 = 8;

/// The size of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) places: u64,
    pub(super) text_bytes: u64,
    pub(super) levels: u64,
    /// Names of properties, which can have errors of their own.
    names: u64,
    /// Bytes of the paths of all places and names, and of the names.
    path_bytes: u64,
    /// Bytes of a copy of every place with its children.
    copy_bytes: u64,
}

impl Size {
    pub(super) fn of(instance: &Value) -> Self {
        let mut size = Self::default();
        size.add(instance, 1, 0);
        size
    }

    /// Steps on the stack, for a schema with in-place chains of that length at each level.
    pub(super) fn steps(&self, chain: u64) -> u64 {
        self.levels.saturating_mul(chain + 2)
    }

    /// Returns the bytes of a copy.
    fn add(&mut self, instance: &Value, level: u64, path: u64) -> u64 {
        self.places += 1;
        self.path_bytes += path;
        self.levels = self.levels.max(level);
        let mut copy = PLACE_BYTES;
        match instance {
            Value::String(text) => {
                self.text_bytes += text.len() as u64;
                copy += text.len() as u64;
            }
            Value::Array(items) => {
                copy += items.iter().map(|item| self.add(item, level + 1, path + INDEX_BYTES)).sum::<u64>();
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let bytes = key.len() as u64;
                    self.names += 1;
                    self.text_bytes += bytes;
                    self.path_bytes += path + 2 * bytes;
                    // Each character of a name may need an escape in a JSON pointer.
                    copy += bytes + self.add(value, level + 1, path + 2 * bytes + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        self.copy_bytes += copy;
        copy
    }
}

/// Returns the bytes of a copy of a value.
pub(super) fn copy_bytes(value: &Value) -> u64 {
    Size::default().add(value, 1, 0)
}

/// How many errors of an invalid value are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorSearch {
    All,
    /// The first error, with those of its alternatives.
    First,
    None,
}

impl ErrorSearch {
    /// Returns the most that the limits of time and memory allow.
    pub(super) fn affordable(size: &Size, cost: &Cost) -> Self {
        let inside = &cost.alternatives;
        let again = size.steps(cost.chain);
        let work = size.places.saturating_mul(inside.keywords).saturating_mul(again);
        let text_work = size.text_bytes.saturating_mul(inside.text_states).saturating_mul(again);
        if work > CHECK_WORK || text_work > TEXT_WORK {
            return Self::None;
        }
        let copied = copied_bytes(size, cost);
        if error_bytes_bound(size, cost, &cost.weight).saturating_add(copied) <= ERRORS_BYTES {
            return Self::All;
        }
        match error_bytes_bound(size, cost, inside).saturating_add(copied) <= ERRORS_BYTES {
            true => Self::First,
            false => Self::None,
        }
    }
}

/// An upper bound of the memory of the errors, without copies of values.
fn error_bytes_bound(size: &Size, cost: &Cost, weight: &Weight) -> u64 {
    let names = if cost.checks_names { size.names } else { 0 };
    let bytes = (size.places + names).saturating_mul(weight.error_bytes);
    bytes.saturating_add(size.path_bytes.saturating_mul(weight.errors))
}

/// An upper bound of the additional memory of the errors within alternatives: a copy of the value, and the path of the
/// keyword through references.
fn copied_bytes(size: &Size, cost: &Cost) -> u64 {
    let paths = size.places.saturating_mul(size.steps(cost.chain)).saturating_mul(cost.reference_bytes);
    size.copy_bytes
        .saturating_add(size.path_bytes)
        .saturating_add(paths)
        .saturating_mul(cost.alternatives.errors)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use jsonschema::ValidationError;
    use jsonschema::error::ValidationErrorKind as Kind;
    use serde_json::json;

    use super::*;
    use crate::schema::{Schema, SchemaRole};

    fn any(source: &Value) -> Schema {
        Schema::compile(source, SchemaRole::Output).expect("a schema")
    }

    fn search(schema: &Schema, instance: &Value) -> ErrorSearch {
        ErrorSearch::affordable(&Size::of(instance), &schema.cost)
    }

    /// The memory of an error, as far as its public fields show it.
    fn error_memory(error: &ValidationError<'_>) -> u64 {
        let copy = match error.instance() {
            Cow::Owned(copy) => copy_bytes(copy),
            Cow::Borrowed(_) => 0,
        };
        let details = match error.kind() {
            Kind::AnyOf { context }
            | Kind::OneOfNotValid { context }
            | Kind::OneOfMultipleValid { context } => context.iter().flatten().map(error_memory).sum(),
            Kind::PropertyNames { error } => error_memory(error),
            Kind::Required { property } => copy_bytes(property),
            Kind::Not { schema } => copy_bytes(schema),
            Kind::Pattern { pattern } => pattern.len() as u64,
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                unexpected.iter().map(|name| name.len() as u64).sum()
            }
            _ => 0,
        };
        let shared = error.evaluation_path() == error.schema_path();
        let path = if shared { 0 } else { error.evaluation_path().as_str().len() as u64 };
        ERROR_BYTES + copy + details + path + error.instance_path().as_str().len() as u64
    }

    #[test]
    fn errors_take_no_more_memory_than_the_bound() {
        let (long, name) = ("x".repeat(100_000), "~".repeat(10_000));
        for (source, instance) in [
            (json!({"anyOf": vec![json!({"type": "integer"}); 50]}), json!(long)),
            (
                json!({"oneOf": [{"items": {"anyOf": [{"type": "null"}, {"minimum": 5}]}}, {"type": "null"}]}),
                json!([1, [long], {"a": long}]),
            ),
            (json!({"oneOf": [{}, {"type": "string"}, {"maxLength": 1}]}), json!(long)),
            (json!({"propertyNames": {"maxLength": 1, "pattern": "b"}}), json!({&long: 1, &name: [2]})),
            (json!({"items": {"required": [&long, &name]}}), json!(vec![json!({}); 20])),
            (json!({"items": {"not": {"const": &long}}}), json!(vec![json!(&long); 20])),
            (json!({"items": {"pattern": "a".repeat(900)}}), json!(vec!["b"; 20])),
            (json!({"additionalProperties": {"items": {"type": "null"}}}), json!({&name: vec![1; 50]})),
            (json!({"additionalProperties": false}), json!({&name: 1, &long: 2})),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}}}),
                (0..30).fold(json!(&long), |inner, _| json!([inner, 1])),
            ),
            (
                json!({"properties": {&name: {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": vec![json!({"type": "null"}); 9]}}}),
                json!({&name: 1}),
            ),
            (json!({"dependentRequired": {"a": [&long, "b"]}}), json!({"a": 1})),
        ] {
            let schema = any(&source);
            let size = Size::of(&instance);
            let errors: u64 = schema.validator.iter_errors(&instance).map(|error| error_memory(&error)).sum();
            let first = schema
                .validator
                .validate(&instance)
                .map_err(|error| error_memory(&error))
                .expect_err("an error");
            let source = toolgate_api::text::json_start(&source, 100);
            let copied = copied_bytes(&size, &schema.cost);
            let all = error_bytes_bound(&size, &schema.cost, &schema.cost.weight) + copied;
            assert!(errors <= all, "{errors} of {all}: {source}");
            assert!(first <= all, "{first} of {all}: {source}");
        }
    }

    #[test]
    fn errors_that_would_copy_a_long_text_a_thousand_times_are_not_listed() {
        let schema = any(&json!({"anyOf": vec![json!({"type": "integer"}); 1_990]}));
        let long = json!("x".repeat(1_000_000));
        assert_eq!(search(&schema, &long), ErrorSearch::None);
        let violation = schema.validate(&long).expect_err("an error").remove(0);
        assert_eq!(violation.message, "The result is invalid, and too large to say where,");
        assert_eq!(violation.expected, "integer");
        assert!(
            violation.found.starts_with("string \"xxx") && violation.found.len() < 200,
            "{}",
            violation.found
        );
        assert_eq!(search(&schema, &json!("x")), ErrorSearch::All);
        let violation = schema.validate(&json!("x")).expect_err("an error").remove(0).message;
        assert_eq!(violation, "The result must be an integer, not string \"x\",");
    }

    #[test]
    fn nested_alternatives_are_not_evaluated_again_at_each_level_of_a_large_value() {
        let tree = any(&json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "null"}]}));
        let value =
            |levels: usize, width: usize| (0..levels).fold(json!(vec![0; width]), |inner, _| json!([inner]));
        assert_eq!(search(&tree, &value(100, 20_000)), ErrorSearch::None);
        assert_eq!(search(&tree, &value(1, 2_000)), ErrorSearch::All);
        assert_eq!(search(&tree, &value(100, 1)), ErrorSearch::All);
    }

    #[test]
    fn all_errors_of_ordinary_arguments_are_listed() {
        let optional = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
        let row = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": optional(json!({"type": "string"}))}, "required": ["a", "b"], "additionalProperties": false});
        let source = json!({"properties": {"content": optional(json!({"type": "string"})), "rows": optional(json!({"type": "array", "items": {"$ref": "#/$defs/row"}}))}, "required": ["path"], "$defs": {"row": row}});
        let rows = vec![json!({"a": "name", "b": 1, "c": "some more"}); 1_000];
        assert_eq!(search(&any(&source), &json!({"rows": rows})), ErrorSearch::All);
        assert_eq!(search(&any(&source), &json!({"content": "x".repeat(1_000_000)})), ErrorSearch::All);
    }

    #[test]
    fn only_the_first_error_is_listed_if_all_take_too_much_memory() {
        let schema = any(&json!({"items": {"type": "object", "required": ["a"]}}));
        assert_eq!(search(&schema, &json!(vec![0; 400_000])), ErrorSearch::First);
        assert_eq!(search(&schema, &json!(vec![0; 4_000])), ErrorSearch::All);
    }
}
