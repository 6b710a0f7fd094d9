//! What a check takes for one value, and what telling its misfits takes, known before either begins.
//!
//! Whether a value fits is answered without memory. Where it does not is answered by errors, and these hold a
//! lot: each its path, the names and patterns it is about, and inside alternatives a copy of the value as
//! well, since the validator keeps what no alternative of them liked. Alternatives are also gone through
//! again at each level. So the errors are asked for only as far as their bound allows: all of them, the
//! first, or none.

use serde_json::Value;

use super::cost::{Cost, Weight};
use super::{CHECK_WORK, TEXT_WORK};

/// Memory of the errors of one check, at most. Ten thousand places where ten keywords meet take all of it.
const ERRORS_BYTES: u64 = 32 << 20;
/// One error, without what it is about.
pub(super) const ERROR_BYTES: u64 = 320;
/// One place of a copied value, without its text.
const PLACE_BYTES: u64 = 64;
/// One index in a path.
const INDEX_BYTES: u64 = 8;

/// How much there is of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) places: u64,
    pub(super) text_bytes: u64,
    pub(super) levels: u64,
    /// Names of properties, which have misfits of their own.
    names: u64,
    /// The paths of all places and names, and the names themselves.
    path_bytes: u64,
    /// A copy of each place, with all inside it.
    copy_bytes: u64,
}

impl Size {
    pub(super) fn of(instance: &Value) -> Self {
        let mut size = Self::default();
        size.add(instance, 1, 0);
        size
    }

    /// Steps on the stack, where a schema has chains of that length at each level.
    pub(super) fn steps(&self, chain: u64) -> u64 {
        self.levels.saturating_mul(chain + 2)
    }

    /// Answers the bytes of a copy.
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
                    // Each letter of a name may have to be escaped.
                    copy += bytes + self.add(value, level + 1, path + 2 * bytes + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        self.copy_bytes += copy;
        copy
    }
}

/// The bytes of a copy of a value.
pub(super) fn copy_bytes(value: &Value) -> u64 {
    Size::default().add(value, 1, 0)
}

/// How far misfits are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    All,
    /// The first one, with all those of the alternatives it is about.
    First,
    Nothing,
}

impl Search {
    /// As far as time and memory allow.
    pub(super) fn affordable(size: &Size, cost: &Cost) -> Self {
        let inside = &cost.alternatives;
        let again = size.steps(cost.chain);
        let work = size.places.saturating_mul(inside.keywords).saturating_mul(again);
        let text_work = size.text_bytes.saturating_mul(inside.text_states).saturating_mul(again);
        if work > CHECK_WORK || text_work > TEXT_WORK {
            return Self::Nothing;
        }
        let copied = copied_bytes(size, cost);
        if held_bytes(size, cost, &cost.weight).saturating_add(copied) <= ERRORS_BYTES {
            return Self::All;
        }
        match held_bytes(size, cost, inside).saturating_add(copied) <= ERRORS_BYTES {
            true => Self::First,
            false => Self::Nothing,
        }
    }
}

/// The most that the errors hold by themselves.
fn held_bytes(size: &Size, cost: &Cost, weight: &Weight) -> u64 {
    let names = if cost.checks_names { size.names } else { 0 };
    let held = (size.places + names).saturating_mul(weight.error_bytes);
    held.saturating_add(size.path_bytes.saturating_mul(weight.errors))
}

/// The most that the errors inside alternatives hold besides: the value, and the way to the keyword by its references.
fn copied_bytes(size: &Size, cost: &Cost) -> u64 {
    let ways = size.places.saturating_mul(size.steps(cost.chain)).saturating_mul(cost.reference_bytes);
    size.copy_bytes
        .saturating_add(size.path_bytes)
        .saturating_add(ways)
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

    fn search(schema: &Schema, instance: &Value) -> Search {
        Search::affordable(&Size::of(instance), &schema.cost)
    }

    /// What an error holds, as far as it can be seen from outside.
    fn held(error: &ValidationError<'_>) -> u64 {
        let copy = match error.instance() {
            Cow::Owned(copy) => copy_bytes(copy),
            Cow::Borrowed(_) => 0,
        };
        let about = match error.kind() {
            Kind::AnyOf { context }
            | Kind::OneOfNotValid { context }
            | Kind::OneOfMultipleValid { context } => context.iter().flatten().map(held).sum(),
            Kind::PropertyNames { error } => held(error),
            Kind::Required { property } => copy_bytes(property),
            Kind::Not { schema } => copy_bytes(schema),
            Kind::Pattern { pattern } => pattern.len() as u64,
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                unexpected.iter().map(|name| name.len() as u64).sum()
            }
            _ => 0,
        };
        let shared = error.evaluation_path() == error.schema_path();
        let way = if shared { 0 } else { error.evaluation_path().as_str().len() as u64 };
        ERROR_BYTES + copy + about + way + error.instance_path().as_str().len() as u64
    }

    #[test]
    fn errors_hold_no_more_than_was_promised() {
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
            let errors: u64 = schema.validator.iter_errors(&instance).map(|error| held(&error)).sum();
            let first =
                schema.validator.validate(&instance).map_err(|error| held(&error)).expect_err("a misfit");
            let source = toolgate_api::text::json_start(&source, 100);
            let copied = copied_bytes(&size, &schema.cost);
            let all = held_bytes(&size, &schema.cost, &schema.cost.weight) + copied;
            assert!(errors <= all, "{errors} of {all}: {source}");
            assert!(first <= all, "{first} of {all}: {source}");
        }
    }

    #[test]
    fn errors_that_would_copy_a_long_text_a_thousand_times_are_not_asked_for() {
        let schema = any(&json!({"anyOf": vec![json!({"type": "integer"}); 1_990]}));
        let long = json!("x".repeat(1_000_000));
        assert_eq!(search(&schema, &long), Search::Nothing);
        let told = schema.check(&long).expect_err("a misfit").remove(0);
        assert_eq!(told.message, "The result is unfit, and too large to be told where,");
        assert_eq!(told.expected, "integer");
        assert!(told.found.starts_with("string \"xxx") && told.found.len() < 200, "{}", told.found);
        assert_eq!(search(&schema, &json!("x")), Search::All);
        let told = schema.check(&json!("x")).expect_err("a misfit").remove(0).message;
        assert_eq!(told, "The result must be an integer, not string \"x\",");
    }

    #[test]
    fn alternatives_within_each_other_are_not_gone_through_again_at_each_level_of_a_large_value() {
        let tree = any(&json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "null"}]}));
        let value =
            |levels: usize, width: usize| (0..levels).fold(json!(vec![0; width]), |inner, _| json!([inner]));
        assert_eq!(search(&tree, &value(100, 20_000)), Search::Nothing);
        assert_eq!(search(&tree, &value(1, 2_000)), Search::All);
        assert_eq!(search(&tree, &value(100, 1)), Search::All);
    }

    #[test]
    fn the_misfits_of_what_a_model_writes_are_all_told() {
        let optional = |schema: Value| json!({"anyOf": [schema, {"type": "null"}]});
        let row = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": optional(json!({"type": "string"}))}, "required": ["a", "b"], "additionalProperties": false});
        let source = json!({"properties": {"content": optional(json!({"type": "string"})), "rows": optional(json!({"type": "array", "items": {"$ref": "#/$defs/row"}}))}, "required": ["path"], "$defs": {"row": row}});
        let rows = vec![json!({"a": "name", "b": 1, "c": "some more"}); 1_000];
        assert_eq!(search(&any(&source), &json!({"rows": rows})), Search::All);
        assert_eq!(search(&any(&source), &json!({"content": "x".repeat(1_000_000)})), Search::All);
    }

    #[test]
    fn where_all_errors_take_too_much_the_first_is_told() {
        let schema = any(&json!({"items": {"type": "object", "required": ["a"]}}));
        assert_eq!(search(&schema, &json!(vec![0; 400_000])), Search::First);
        assert_eq!(search(&schema, &json!(vec![0; 4_000])), Search::All);
    }
}
