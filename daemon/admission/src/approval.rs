//! The scope of a person's approval (G11).
//!
//! An approval is bound to the digest of the plugin, the rules that required it, and the arguments. By default it covers
//! exactly the arguments that the approver was shown. The approver can let some places of them vary: a JSON pointer and a
//! constraint for each; all other places must be equal. The daemon stores the session, the expiry time and the number of
//! uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::ToolId;
use toolgate_api::read::pointer;
use toolgate_api::text::escape_for_display;

use crate::rules::Digest;
use crate::schema::{ASSERT_FORMAT, Schema, SchemaRole};

mod vocabulary;

/// Most places of the arguments that one approval may constrain.
const CONSTRAINTS: usize = 100;

/// The key that an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalBinding {
    /// The tool.
    pub tool: ToolId,
    /// The digest of its plugin.
    pub plugin: Digest,
    /// The rules that required approval, and the access of the call, as canonical JSON.
    pub rules: String,
    /// The raw text of the arguments.
    pub arguments: Arc<str>,
}

/// An approval that a person gave.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The call that the approver was shown.
    pub binding: ApprovalBinding,
    /// Constraints for other arguments that are covered too.
    pub constraints: Option<ApprovalConstraints>,
}

impl Approval {
    /// Whether a call is covered. `arguments` are its parsed arguments.
    pub(crate) fn covers(&self, call: &ApprovalBinding, arguments: &Value) -> bool {
        let same_tool = self.binding.tool == call.tool
            && self.binding.plugin == call.plugin
            && self.binding.rules == call.rules;
        same_tool
            && match &self.constraints {
                None => self.binding.arguments == call.arguments,
                Some(constraints) => constraints.matches(arguments),
            }
    }
}

/// Constraints on arguments: a schema for some places; all others must equal the arguments that were shown.
#[derive(Clone, Debug)]
pub struct ApprovalConstraints {
    shown: Value,
    places: BTreeMap<String, Arc<Schema>>,
}

impl ApprovalConstraints {
    /// Parses `{POINTER: CONSTRAINT}` for the arguments that an approver was shown.
    ///
    /// A constraint is a JSON Schema with known keywords alone, or a value that is not an object, which must be equal.
    pub fn parse(constraints: &Value, shown: &Value) -> Result<Self, CallError> {
        let table = constraints.as_object().ok_or_else(|| {
            constraint_error("", "`arguments` is not an object", "send `{\"/POINTER\": {\"maximum\": 100}}`")
        })?;
        // An empty table must not mean "any arguments".
        if table.is_empty() {
            let hint = "name the places that may vary, or leave `arguments` out to approve exactly this call";
            return Err(constraint_error("", "`arguments` constrains nothing", hint));
        }
        if table.len() > CONSTRAINTS {
            let message = format!("`arguments` has more than {CONSTRAINTS} places");
            return Err(constraint_error("", message, "constrain fewer places, or one that holds them all"));
        }
        let place = |(pointer, constraint): (&String, &Value)| {
            if shown.pointer(pointer).is_none() {
                let message =
                    format!("the call has no `{}` in its arguments", escape_for_display(pointer, 100));
                return Err(constraint_error(
                    pointer,
                    message,
                    "name a place of the arguments by its JSON pointer, like `/to`",
                ));
            }
            let schema = match constraint {
                Value::Object(_) => {
                    vocabulary::check(constraint, "").map_err(|unknown| unknown.into_error(pointer))?;
                    let mut constraint = constraint.clone();
                    constraint[ASSERT_FORMAT] = json!(true);
                    constraint
                }
                value => json!({"const": value}),
            };
            let schema = Schema::compile(&schema, SchemaRole::Output)
                .map_err(|error| constraint_error(pointer, error.message, error.hint))?;
            Ok((pointer.clone(), Arc::new(schema)))
        };
        Ok(Self { shown: shown.clone(), places: table.iter().map(place).collect::<Result<_, _>>()? })
    }

    /// Whether arguments satisfy the constraints.
    pub fn matches(&self, arguments: &Value) -> bool {
        self.matches_at("", &self.shown, arguments)
    }

    fn matches_at(&self, place: &str, shown: &Value, found: &Value) -> bool {
        if let Some(schema) = self.places.get(place) {
            return schema.validate(found).is_ok();
        }
        match (shown, found) {
            (Value::Object(shown), Value::Object(found)) => {
                let matches = |(key, shown): (&String, &Value)| {
                    found.get(key).is_some_and(|found| self.matches_at(&pointer(place, key), shown, found))
                };
                shown.len() == found.len() && shown.iter().all(matches)
            }
            (Value::Array(shown), Value::Array(found)) => {
                let matches = |(index, (shown, found)): (usize, (&Value, &Value))| {
                    self.matches_at(&format!("{place}/{index}"), shown, found)
                };
                shown.len() == found.len() && shown.iter().zip(found).enumerate().all(matches)
            }
            (shown, found) => shown == found,
        }
    }
}

fn constraint_error(pointer: &str, message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(constraints: Value, shown: Value) -> ApprovalConstraints {
        ApprovalConstraints::parse(&constraints, &shown).expect("constraints")
    }

    #[test]
    fn g11_only_a_constrained_place_may_vary() {
        let payment = json!({"to": "bob", "amount": 5, "notes": ["a", {"b": 1}]});
        let shape =
            shape(json!({"/amount": {"type": "integer", "maximum": 100}, "/notes/1/b": {}}), payment.clone());
        let with = |pointer: &str, value: Value| {
            let mut changed = payment.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed
        };
        assert!(shape.matches(&payment));
        assert!(shape.matches(&with("/amount", json!(100))));
        assert!(shape.matches(&with("/notes/1/b", json!("anything"))));
        assert!(!shape.matches(&with("/amount", json!(101))));
        assert!(!shape.matches(&with("/amount", json!("5"))));
        assert!(!shape.matches(&with("/to", json!("eve"))));
        assert!(!shape.matches(&with("/notes/0", json!("b"))));
        assert!(!shape.matches(&with("/notes", json!(["a", {"b": 1}, "c"]))));
        assert!(!shape.matches(&json!({"to": "bob", "amount": 5, "notes": ["a", {"b": 1}], "more": 1})));
        assert!(!shape.matches(&json!({"to": "bob", "amount": 5})));
    }

    #[test]
    fn a_constraint_that_is_not_an_object_is_a_constant() {
        let shape = shape(json!({"/to": "eve", "/all": false}), json!({"to": "bob", "all": true}));
        assert!(shape.matches(&json!({"to": "eve", "all": false})));
        assert!(!shape.matches(&json!({"to": "bob", "all": false})));
    }

    #[test]
    fn an_empty_table_never_means_anything_goes() {
        for (constraints, words) in [
            (json!({}), "constrains nothing"),
            (json!([]), "not an object"),
            (json!({"/ammount": 5}), "has no `/ammount`"),
            (json!({"amount": 5}), "has no `amount`"),
            (json!({"/amount": {"type": "nothing"}}), ""),
            (json!({"/amount": {"maxmum": 5}}), "`maxmum`"),
            (json!({"/amount": {"type": "integer", "maxlength": 3}}), "`maxlength`"),
            (json!({"/amount": {"anyOf": [{"const": 1}, {"mininum": 5}]}}), "`mininum` (`/anyOf/1`)"),
            (json!({"/amount": {"properties": {"a": {"enmu": [1]}}}}), "`enmu` (`/properties/a`)"),
            (json!({"/amount": {"not": {"not": {"constant": 1}}}}), "`constant` (`/not/not`)"),
            (json!({"/amount": {"format": "emial"}}), "`emial`"),
            (json!({"/amount": {"currency": "EUR", "value": 5}}), "`currency`"),
        ] {
            let error = ApprovalConstraints::parse(&constraints, &json!({"amount": 5})).unwrap_err();
            assert_eq!(error.error_type, ErrorType::InvalidRequest);
            assert!(error.message.contains(words) && !error.hint.is_empty(), "{error}");
        }
        assert!(shape(json!({"": {}}), json!({"amount": 5})).matches(&json!({"whatever": 1})));
    }

    #[test]
    fn a_key_with_slashes_is_named_as_pointers_write_it() {
        let shape = shape(json!({"/a~1b": {}}), json!({"a/b": 1, "c": 2}));
        assert!(shape.matches(&json!({"a/b": 9, "c": 2})));
        assert!(!shape.matches(&json!({"a/b": 9, "c": 3})));
    }
}
