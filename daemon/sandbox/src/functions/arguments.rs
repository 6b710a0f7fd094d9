//! Converts arguments from JSON to values of WIT types.
//!
//! The gate has validated the arguments by the schema of the types. An error here is of a value that no schema describes: an
//! integer in a string that is out of its range.

use serde_json::{Map, Value};
use toolgate_api::read::pointer;
use toolgate_api::text::json_start;
use wasmtime::component::Val;

use super::shape::{Integer, Shape};

/// Longest excerpt of a wrong value in a message, in characters.
const EXCERPT_CHARS: usize = 80;

/// A value that does not have its type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// JSON pointer of the value.
    pub pointer: String,
    /// The reason.
    pub message: String,
}

impl Mismatch {
    fn new(expected: &str, found: &Value) -> Self {
        let message = format!("expected {expected}, found {}", json_start(found, EXCERPT_CHARS));
        Self { pointer: String::new(), message }
    }

    fn within(self, part: &str) -> Self {
        Self { pointer: format!("{}{}", pointer("", part), self.pointer), ..self }
    }
}

type Result<T> = std::result::Result<T, Mismatch>;

/// Converts the arguments of a call.
pub(super) fn to_parameters(parameters: &[(Box<str>, Shape)], arguments: &Value) -> Result<Vec<Val>> {
    let arguments = as_object(arguments)?;
    parameters.iter().map(|(name, shape)| field(name, shape, arguments)).collect()
}

fn to_value(shape: &Shape, value: &Value) -> Result<Val> {
    Ok(match shape {
        Shape::Bool => Val::Bool(value.as_bool().ok_or_else(|| Mismatch::new("a boolean", value))?),
        Shape::Integer(kind) => integer(*kind, value)?,
        Shape::Float32 => Val::Float32(single(value)?),
        Shape::Float64 => Val::Float64(value.as_f64().ok_or_else(|| Mismatch::new("a number", value))?),
        Shape::Char => Val::Char(character(value)?),
        Shape::String => Val::String(as_text(value)?.to_owned()),
        Shape::List(item) => Val::List(items(as_array(value)?, std::iter::repeat(&**item))?),
        Shape::Tuple(shapes) if as_array(value)?.len() == shapes.len() => {
            Val::Tuple(items(as_array(value)?, shapes.iter())?)
        }
        Shape::Tuple(shapes) => return Err(Mismatch::new(&format!("{} items", shapes.len()), value)),
        Shape::Record(fields) => Val::Record(record(fields, as_object(value)?)?),
        Shape::Variant(cases) => {
            let (tag, payload) = read_tag(value)?;
            let case = cases.iter().find(|(name, _)| **name == *tag);
            let (name, shape) = case.ok_or_else(|| Mismatch::new("a known `tag`", value))?;
            Val::Variant(String::from(&**name), payload_of(shape.as_ref(), payload)?)
        }
        Shape::Result(ok, err) => Val::Result(match read_tag(value)? {
            ("ok", payload) => Ok(payload_of(ok.as_deref(), payload)?),
            ("err", payload) => Err(payload_of(err.as_deref(), payload)?),
            _ => return Err(Mismatch::new("the `tag` `ok` or `err`", value)),
        }),
        Shape::Enum(names) => Val::Enum(name_in(names, value)?),
        Shape::Flags(names) => {
            Val::Flags(as_array(value)?.iter().map(|name| name_in(names, name)).collect::<Result<_>>()?)
        }
        Shape::Option(some) => Val::Option(match value {
            Value::Null => None,
            value => Some(Box::new(match **some {
                Shape::Option(_) => field("some", some, as_object(value)?)?,
                _ => to_value(some, value)?,
            })),
        }),
    })
}

fn record(fields: &[(Box<str>, Shape)], object: &Map<String, Value>) -> Result<Vec<(String, Val)>> {
    fields.iter().map(|(name, shape)| Ok((String::from(&**name), field(name, shape, object)?))).collect()
}

fn field(name: &str, shape: &Shape, object: &Map<String, Value>) -> Result<Val> {
    to_value(shape, object.get(name).unwrap_or(&Value::Null)).map_err(|mismatch| mismatch.within(name))
}

fn items<'a>(values: &[Value], shapes: impl Iterator<Item = &'a Shape>) -> Result<Vec<Val>> {
    let pairs = values.iter().zip(shapes).enumerate();
    pairs
        .map(|(at, (value, shape))| {
            to_value(shape, value).map_err(|mismatch| mismatch.within(&at.to_string()))
        })
        .collect()
}

fn read_tag(value: &Value) -> Result<(&str, &Value)> {
    let object = as_object(value)?;
    let tag = object.get("tag").and_then(Value::as_str).ok_or_else(|| Mismatch::new("a `tag`", value))?;
    Ok((tag, object.get("val").unwrap_or(&Value::Null)))
}

fn payload_of(shape: Option<&Shape>, payload: &Value) -> Result<Option<Box<Val>>> {
    let value = shape.map(|shape| to_value(shape, payload).map_err(|mismatch| mismatch.within("val")));
    Ok(value.transpose()?.map(Box::new))
}

fn name_in(names: &[Box<str>], value: &Value) -> Result<String> {
    let text = as_text(value)?;
    match names.iter().any(|name| **name == *text) {
        true => Ok(text.to_owned()),
        false => Err(Mismatch::new("a known name", value)),
    }
}

/// A whole number, which may be written as `1.0`; or text, which 64-bit types need for what a double cannot carry.
fn integer(kind: Integer, value: &Value) -> Result<Val> {
    let (least, most) = kind.range();
    let wrong = || Mismatch::new(&format!("an integer from {least} to {most}"), value);
    let number: i128 = match value {
        Value::String(digits) => digits.parse().map_err(|_| wrong())?,
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => number.into(),
            (_, Some(number), _) => number.into(),
            // In this range the conversion is exact.
            #[allow(clippy::cast_possible_truncation)]
            (_, _, Some(number)) if number.fract() == 0.0 && number.abs() < 1e20 => number as i128,
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let value = match kind {
        Integer::S8 => number.try_into().map(Val::S8),
        Integer::U8 => number.try_into().map(Val::U8),
        Integer::S16 => number.try_into().map(Val::S16),
        Integer::U16 => number.try_into().map(Val::U16),
        Integer::S32 => number.try_into().map(Val::S32),
        Integer::U32 => number.try_into().map(Val::U32),
        Integer::S64 => number.try_into().map(Val::S64),
        Integer::U64 => number.try_into().map(Val::U64),
    };
    value.map_err(|_| wrong())
}

fn character(value: &Value) -> Result<char> {
    let mut letters = as_text(value)?.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(letter),
        _ => Err(Mismatch::new("one character", value)),
    }
}

fn single(value: &Value) -> Result<f32> {
    let wrong = || Mismatch::new("a number in the range of `f32`", value);
    let number = value.as_f64().ok_or_else(wrong)?;
    #[allow(clippy::cast_possible_truncation, reason = "a double is rounded to the nearest single")]
    let single = number as f32;
    if single.is_finite() { Ok(single) } else { Err(wrong()) }
}

fn as_text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| Mismatch::new("a string", value))
}

fn as_array(value: &Value) -> Result<&[Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| Mismatch::new("an array", value))
}

fn as_object(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().ok_or_else(|| Mismatch::new("an object", value))
}
