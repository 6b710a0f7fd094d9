//! JSON schemas of WIT types.
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string`, `char` | boolean, string, string of one character |
//! | integers of up to 32 bits | integer in the range of the type |
//! | `u64`, `s64` | integer, or above 2^53 a string of digits, since a double cannot carry such an integer |
//! | `f32`, `f64` | number; in results also `"NaN"`, `"Infinity"` and `"-Infinity"` |
//! | `list<T>`, `tuple<A, B>` | array |
//! | `record` | object; a field of type `option` may be missing |
//! | `variant`, `result` inside another type | `{"tag": "case", "val": payload}`, without `val` if the case has no payload |
//! | `enum`, `flags` | string, array of strings |
//! | `option<T>` | the value or null; if `T` is an option too, `{"some": value}` or null |

use serde_json::{Map, Value, json};

use super::shape::{Integer, Shape};

/// The greatest integer up to which a double carries every integer.
pub(super) const EXACT_INTEGER: u64 = 1 << 53;

/// The use of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Argument,
    Result,
}

/// The schema of a call's arguments: an object with a property for each parameter.
pub(super) fn arguments_schema(parameters: &[(Box<str>, Shape)]) -> Value {
    object(parameters.iter().map(|(name, shape)| (&**name, shape)), Direction::Argument)
}

/// The schema of a value.
pub(super) fn schema(shape: &Shape, direction: Direction) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(integer) => integer_schema(*integer),
        Shape::Float32 | Shape::Float64 => float_schema(*shape == Shape::Float32, direction),
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::List(item) => json!({"type": "array", "items": schema(item, direction)}),
        Shape::Record(fields) => object(fields.iter().map(|(name, shape)| (&**name, shape)), direction),
        Shape::Tuple(items) => {
            let schemas: Vec<_> = items.iter().map(|item| schema(item, direction)).collect();
            let length = schemas.len();
            json!({"type": "array", "prefixItems": schemas, "items": false, "minItems": length, "maxItems": length})
        }
        Shape::Variant(cases) => {
            let cases = cases.iter().map(|(name, payload)| case_schema(name, payload.as_ref(), direction));
            json!({"anyOf": cases.collect::<Vec<_>>()})
        }
        Shape::Result(ok, err) => {
            json!({"anyOf": [case_schema("ok", ok.as_deref(), direction), case_schema("err", err.as_deref(), direction)]})
        }
        Shape::Enum(names) => json!({"type": "string", "enum": names}),
        Shape::Flags(names) => {
            json!({"type": "array", "items": {"type": "string", "enum": names}, "uniqueItems": true})
        }
        Shape::Option(some) => option_schema(some, direction),
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a Shape)>, direction: Direction) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        properties.insert(name.to_owned(), schema(shape, direction));
        if !matches!(shape, Shape::Option(_)) {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn integer_schema(integer: Integer) -> Value {
    match (integer, integer.range()) {
        (Integer::S64, _) => {
            let most = i64::try_from(EXACT_INTEGER).unwrap_or(i64::MAX);
            json!({"type": ["integer", "string"], "minimum": -most, "maximum": most, "pattern": "^-?[0-9]{1,19}$"})
        }
        (Integer::U64, _) => {
            json!({"type": ["integer", "string"], "minimum": 0, "maximum": EXACT_INTEGER, "pattern": "^[0-9]{1,20}$"})
        }
        (_, (least, most)) => json!({"type": "integer", "minimum": least, "maximum": most}),
    }
}

fn float_schema(is_single: bool, direction: Direction) -> Value {
    let number = match is_single {
        true => json!({"type": "number", "minimum": f32::MIN, "maximum": f32::MAX}),
        false => json!({"type": "number"}),
    };
    match direction {
        Direction::Argument => number,
        Direction::Result => json!({"anyOf": [number, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
    }
}

fn case_schema(name: &str, payload: Option<&Shape>, direction: Direction) -> Value {
    let mut properties = Map::from_iter([("tag".to_owned(), json!({"type": "string", "const": name}))]);
    let mut required = vec!["tag"];
    if let Some(payload) = payload {
        properties.insert("val".to_owned(), schema(payload, direction));
        required.push("val");
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn option_schema(some: &Shape, direction: Direction) -> Value {
    let mut inner = schema(some, direction);
    if matches!(some, Shape::Option(_)) {
        let properties = json!({"some": inner});
        inner = json!({"type": "object", "properties": properties, "required": ["some"], "additionalProperties": false});
        return json!({"anyOf": [inner, {"type": "null"}]});
    }
    let is_listed = inner.get("enum").is_some();
    match inner.get_mut("type") {
        Some(kind @ Value::String(_)) if !is_listed => *kind = json!([kind, "null"]),
        Some(Value::Array(kinds)) if !is_listed => kinds.push(json!("null")),
        _ => return json!({"anyOf": [inner, {"type": "null"}]}),
    }
    inner
}
