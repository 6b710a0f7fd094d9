//! A second JSON Schema validator (2020-12), for the keywords that tool schemas use.
//!
//! The validator is small enough to compare with the specification. For other keywords, and numbers that a double cannot compare
//! exactly, it returns no verdict.

use serde_json::{Map, Value};

/// From here on not every integer is a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Whether the value is valid; none if the schema has an unknown keyword.
pub fn is_valid(schema: &Value, value: &Value) -> Option<bool> {
    let keywords = match schema {
        Value::Bool(anything) => return Some(*anything),
        Value::Object(keywords) => keywords,
        _ => return None,
    };
    let mut all = true;
    for (keyword, argument) in keywords {
        all &= keyword_holds(keywords, keyword, argument, value)?;
    }
    Some(all)
}

fn keyword_holds(
    beside: &Map<String, Value>,
    keyword: &str,
    argument: &Value,
    value: &Value,
) -> Option<bool> {
    Some(match keyword {
        "title" | "description" | "default" | "examples" | "$comment" => true,
        "type" => match argument {
            Value::String(name) => has_type(name, value)?,
            Value::Array(names) => any(names.iter().map(|name| has_type(name.as_str()?, value)))?,
            _ => return None,
        },
        "enum" => any(argument.as_array()?.iter().map(|one| equal(one, value)))?,
        "const" => equal(argument, value)?,
        "properties" => match value {
            Value::Object(members) => every(members.iter().map(|(name, member)| {
                argument.as_object()?.get(name).map_or(Some(true), |schema| is_valid(schema, member))
            }))?,
            _ => true,
        },
        "additionalProperties" => match value {
            Value::Object(members) => additional_hold(beside, argument, members)?,
            _ => true,
        },
        "required" => match value {
            Value::Object(members) => argument
                .as_array()?
                .iter()
                .all(|name| name.as_str().is_some_and(|name| members.contains_key(name))),
            _ => true,
        },
        "items" if !beside.contains_key("prefixItems") && !argument.is_array() => match value {
            Value::Array(items) => every(items.iter().map(|item| is_valid(argument, item)))?,
            _ => true,
        },
        "minItems" | "maxItems" => within(keyword, argument, value.as_array().map(Vec::len))?,
        "minLength" | "maxLength" => {
            within(keyword, argument, value.as_str().map(|text| text.chars().count()))?
        }
        "minProperties" | "maxProperties" => within(keyword, argument, value.as_object().map(Map::len))?,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => match value {
            Value::Number(_) => bound_holds(keyword, exact(value)?, exact(argument)?),
            _ => true,
        },
        "allOf" => every(argument.as_array()?.iter().map(|schema| is_valid(schema, value)))?,
        "anyOf" => any(argument.as_array()?.iter().map(|schema| is_valid(schema, value)))?,
        "oneOf" => {
            let verdicts: Option<Vec<bool>> =
                argument.as_array()?.iter().map(|schema| is_valid(schema, value)).collect();
            verdicts?.into_iter().filter(|is_valid| *is_valid).count() == 1
        }
        "not" => !is_valid(argument, value)?,
        _ => return None,
    })
}

fn additional_hold(
    beside: &Map<String, Value>,
    schema: &Value,
    members: &Map<String, Value>,
) -> Option<bool> {
    if beside.contains_key("patternProperties") {
        return None;
    }
    let named = beside.get("properties");
    let others = members.iter().filter(|(name, _)| named.is_none_or(|named| named.get(name).is_none()));
    every(others.map(|(_, member)| is_valid(schema, member)))
}

fn bound_holds(keyword: &str, value: f64, bound: f64) -> bool {
    match keyword {
        "minimum" => value >= bound,
        "maximum" => value <= bound,
        "exclusiveMinimum" => value > bound,
        _ => value < bound,
    }
}

fn has_type(name: &str, value: &Value) -> Option<bool> {
    Some(match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => return None,
    })
}

/// JSON equality: numbers by value, objects without order.
fn equal(one: &Value, other: &Value) -> Option<bool> {
    Some(match (one, other) {
        (Value::Number(_), Value::Number(_)) => one == other || (exact(one)? - exact(other)?).abs() <= 0.0,
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len()
                && every(ones.iter().zip(others).map(|(one, other)| equal(one, other)))?
        }
        (Value::Object(ones), Value::Object(others)) => {
            ones.len() == others.len()
                && every(
                    ones.iter()
                        .map(|(key, one)| others.get(key).map_or(Some(false), |other| equal(one, other))),
                )?
        }
        _ => one == other,
    })
}

fn within(keyword: &str, argument: &Value, count: Option<usize>) -> Option<bool> {
    let (bound, Some(count)) = (exact(argument)?, count) else { return Some(true) };
    #[expect(clippy::cast_precision_loss, reason = "no value here has 2^53 parts")]
    let count = count as f64;
    Some(if keyword.starts_with("min") { count >= bound } else { count <= bound })
}

/// The number as a double, if a double holds it and its neighbours exactly.
fn exact(number: &Value) -> Option<f64> {
    number.as_f64().filter(|number| number.abs() < EXACT)
}

/// Whether all hold; none if one has no verdict.
fn every(mut verdicts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    verdicts.try_fold(true, |all, verdict| Some(all & verdict?))
}

fn any(mut verdicts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    verdicts.try_fold(false, |any, verdict| Some(any | verdict?))
}
