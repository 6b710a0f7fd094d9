//! What a person's approval covers (G11).
//!
//! An approval is bound to a tool of one digest, to the rules that asked for it and to the arguments. By itself it
//! covers the very bytes that the person was shown. The person can let some places of the arguments vary: each is named
//! by a JSON pointer and given a constraint, and everything that is not named stays as it was shown. So an approval
//! never covers more than somebody wrote down. Whose session it is for, until when and how often are kept and counted
//! by the daemon.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_api::text::escape_for_display;

use crate::error::{CallError, ErrorType};
use crate::name::ToolId;
use crate::rules::Digest;
use crate::schema::{Schema, SchemaRole};

mod vocabulary;

/// Places of the arguments that one approval may constrain.
const CONSTRAINTS: usize = 100;

/// What an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The tool.
    pub tool: ToolId,
    /// Its plugin, byte for byte.
    pub plugin: Digest,
    /// The rules that asked for approval, and what the call may reach: JSON that reads the same for the same rules.
    pub rules: String,
    /// The arguments as they came.
    pub arguments: Arc<str>,
}

/// An approval that a person gave.
#[derive(Clone, Debug)]
pub struct Approval {
    /// What the person was shown.
    pub binding: Binding,
    /// The shape of other calls that are covered too.
    pub constraints: Option<Constraints>,
}

impl Approval {
    /// Whether a call is covered. `arguments` is what its binding's arguments say.
    pub(crate) fn covers(&self, call: &Binding, arguments: &Value) -> bool {
        let same_tool = self.binding.tool == call.tool
            && self.binding.plugin == call.plugin
            && self.binding.rules == call.rules;
        same_tool
            && match &self.constraints {
                None => self.binding.arguments == call.arguments,
                Some(constraints) => constraints.fit(arguments),
            }
    }
}

/// The shape of arguments: what was shown, but for some places.
#[derive(Clone, Debug)]
pub struct Constraints {
    shown: Value,
    places: BTreeMap<String, Arc<Schema>>,
}

impl Constraints {
    /// Reads `{POINTER: CONSTRAINT}` about arguments that a person was shown.
    ///
    /// A constraint is a JSON Schema, or any other value than an object, which then must be there as it stands. A keyword that
    /// is not known constrains nothing, so it is refused.
    pub fn parse(constraints: &Value, shown: &Value) -> Result<Self, CallError> {
        let table = constraints.as_object().ok_or_else(|| {
            refused("", "`arguments` is not an object", "send `{\"/POINTER\": {\"maximum\": 100}}`")
        })?;
        // An empty list never means all.
        if table.is_empty() {
            let hint = "name the places that may vary, or leave `arguments` out to approve exactly this call";
            return Err(refused("", "`arguments` constrains nothing", hint));
        }
        if table.len() > CONSTRAINTS {
            let message = format!("`arguments` has more than {CONSTRAINTS} places");
            return Err(refused("", message, "constrain fewer places, or one that holds them all"));
        }
        let place = |(pointer, constraint): (&String, &Value)| {
            if shown.pointer(pointer).is_none() {
                let message =
                    format!("the call has no `{}` in its arguments", escape_for_display(pointer, 100));
                return Err(refused(
                    pointer,
                    message,
                    "name a place of the arguments by its JSON pointer, like `/to`",
                ));
            }
            let schema = match constraint {
                Value::Object(_) => {
                    vocabulary::check(constraint, &mut Vec::new())
                        .map_err(|unknown| unknown.refusal(pointer))?;
                    constraint.clone()
                }
                value => json!({"const": value}),
            };
            let schema = Schema::compile(&schema, SchemaRole::Output)
                .map_err(|error| refused(pointer, error.message, error.hint))?;
            Ok((pointer.clone(), Arc::new(schema)))
        };
        Ok(Self { shown: shown.clone(), places: table.iter().map(place).collect::<Result<_, _>>()? })
    }

    /// Whether arguments have this shape.
    pub fn fit(&self, arguments: &Value) -> bool {
        self.fits_at(&mut String::new(), &self.shown, arguments)
    }

    fn fits_at(&self, pointer: &mut String, shown: &Value, found: &Value) -> bool {
        if let Some(schema) = self.places.get(pointer.as_str()) {
            return schema.check(found).is_ok();
        }
        match (shown, found) {
            (Value::Object(shown), Value::Object(found)) => {
                shown.len() == found.len()
                    && shown.iter().all(|(key, value)| {
                        let step = key.replace('~', "~0").replace('/', "~1");
                        found.get(key).is_some_and(|found| self.fits_below(pointer, &step, value, found))
                    })
            }
            (Value::Array(shown), Value::Array(found)) => {
                shown.len() == found.len()
                    && shown.iter().zip(found).enumerate().all(|(index, (value, found))| {
                        self.fits_below(pointer, &index.to_string(), value, found)
                    })
            }
            (shown, found) => shown == found,
        }
    }

    fn fits_below(&self, pointer: &mut String, step: &str, shown: &Value, found: &Value) -> bool {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(step);
        let fits = self.fits_at(pointer, shown, found);
        pointer.truncate(length);
        fits
    }
}

fn refused(pointer: &str, message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(constraints: Value, shown: Value) -> Constraints {
        Constraints::parse(&constraints, &shown).expect("constraints")
    }

    #[test]
    fn g11_a_named_place_may_vary_as_its_constraint_says_and_nothing_else_may() {
        let payment = json!({"to": "bob", "amount": 5, "notes": ["a", {"b": 1}]});
        let shape =
            shape(json!({"/amount": {"type": "integer", "maximum": 100}, "/notes/1/b": {}}), payment.clone());
        let with = |pointer: &str, value: Value| {
            let mut changed = payment.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed
        };
        assert!(shape.fit(&payment));
        assert!(shape.fit(&with("/amount", json!(100))));
        assert!(shape.fit(&with("/notes/1/b", json!("anything"))));
        assert!(!shape.fit(&with("/amount", json!(101))));
        assert!(!shape.fit(&with("/amount", json!("5"))));
        assert!(!shape.fit(&with("/to", json!("eve"))));
        assert!(!shape.fit(&with("/notes/0", json!("b"))));
        assert!(!shape.fit(&with("/notes", json!(["a", {"b": 1}, "c"]))));
        assert!(!shape.fit(&json!({"to": "bob", "amount": 5, "notes": ["a", {"b": 1}], "more": 1})));
        assert!(!shape.fit(&json!({"to": "bob", "amount": 5})));
    }

    #[test]
    fn a_constraint_that_is_no_schema_is_the_value_itself() {
        let shape = shape(json!({"/to": "eve", "/all": false}), json!({"to": "bob", "all": true}));
        assert!(shape.fit(&json!({"to": "eve", "all": false})));
        assert!(!shape.fit(&json!({"to": "bob", "all": false})));
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
            let refused = Constraints::parse(&constraints, &json!({"amount": 5})).unwrap_err();
            assert_eq!(refused.error_type, ErrorType::InvalidRequest);
            assert!(refused.message.contains(words) && !refused.hint.is_empty(), "{refused}");
        }
        assert!(shape(json!({"": {}}), json!({"amount": 5})).fit(&json!({"whatever": 1})));
    }

    #[test]
    fn a_key_with_slashes_is_named_as_pointers_write_it() {
        let shape = shape(json!({"/a~1b": {}}), json!({"a/b": 1, "c": 2}));
        assert!(shape.fit(&json!({"a/b": 9, "c": 2})));
        assert!(!shape.fit(&json!({"a/b": 9, "c": 3})));
    }
}
