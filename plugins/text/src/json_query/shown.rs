//! An output of a filter, as JSON.
//!
//! The values of `jaq` are more than JSON has: what JSON cannot say is written as `jq` writes it. They share their parts,
//! so a small value may be a huge text, and it is measured before it is written.

use std::borrow::Cow;

use jaq_json::{Num, Val};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, Serializer};
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::value::RawValue;

use crate::document;
use crate::size::in_json;

/// The host takes results of 128 levels, ours included.
pub(super) const MAX_DEPTH: usize = 120;

/// No result may be larger.
const MAX_BYTES: usize = 900 * 1024;

/// Integers that a float represents exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A value that fits into a result.
#[derive(Debug)]
pub struct Shown {
    value: Val,
    /// How many bytes it takes as JSON, about.
    pub bytes: usize,
    /// Whether numbers in it are given as text, for they are too wide.
    pub has_wide: bool,
}

impl Shown {
    pub fn read(value: Val) -> Result<Self, Error> {
        let mut measured = Measured { left: MAX_BYTES, has_wide: false };
        match measure(&value, &mut measured, 0) {
            Ok(()) => Ok(Self { value, bytes: MAX_BYTES - measured.left, has_wide: measured.has_wide }),
            Err(Excess::Size) => Err(Error::new(format!(
                "a result of the filter is larger than {} KiB: ask for less, as with `.[0:100]`, `keys`, `length` or \
                 `map(.name)`",
                MAX_BYTES / 1024
            ))),
            Err(Excess::Depth) => {
                // To free it would exhaust the stack just as to write it. Its memory ends with the call.
                std::mem::forget(value);
                Err(Error::new(format!(
                    "a result of the filter is nested more than {MAX_DEPTH} deep: ask for a part of it"
                )))
            }
        }
    }
}

struct Measured {
    left: usize,
    has_wide: bool,
}

enum Excess {
    Size,
    Depth,
}

fn measure(value: &Val, measured: &mut Measured, depth: usize) -> Result<(), Excess> {
    if depth > MAX_DEPTH {
        return Err(Excess::Depth);
    }
    let own = match value {
        Val::Null | Val::Bool(_) => 5,
        Val::Num(Num::BigInt(number)) => usize::try_from(number.bits()).unwrap_or(usize::MAX) / 3 + 4,
        Val::Num(Num::Dec(number)) => number.len() + 2,
        Val::Num(_) => 12,
        Val::TStr(bytes) | Val::BStr(bytes) => size_of_text(bytes),
        Val::Arr(entries) => entries.len() + 2,
        Val::Obj(entries) => 2 * entries.len() + 2,
    };
    measured.left = measured.left.checked_sub(own).ok_or(Excess::Size)?;
    measured.has_wide |= matches!(value, Val::Num(number) if is_wide(number));
    match value {
        Val::Arr(entries) => entries.iter().try_for_each(|entry| measure(entry, measured, depth + 1)),
        Val::Obj(entries) => entries.iter().try_for_each(|(key, entry)| {
            measure(key, measured, depth + 1)?;
            measure(entry, measured, depth + 1)
        }),
        _ => Ok(()),
    }
}

fn size_of_text(bytes: &[u8]) -> usize {
    std::str::from_utf8(bytes).map_or_else(|_| in_json(&String::from_utf8_lossy(bytes)), in_json)
}

impl JsonSchema for Shown {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Shown".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json(&self.value).serialize(serializer)
    }
}

struct Json<'v>(&'v Val);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Val::Null => serializer.serialize_unit(),
            Val::Bool(value) => serializer.serialize_bool(*value),
            Val::Num(Num::Int(number)) => serializer.serialize_i64(*number as i64),
            Val::Num(Num::Float(number)) => serialize_float(*number, serializer),
            // No digit is lost in a text, and no reader of JSON takes more for a number.
            Val::Num(number) if is_wide(number) => serializer.collect_str(number),
            Val::Num(number) => serialize_digits(number.to_string(), serializer),
            Val::TStr(bytes) | Val::BStr(bytes) => serializer.serialize_str(&String::from_utf8_lossy(bytes)),
            Val::Arr(entries) => serializer.collect_seq(entries.iter().map(Json)),
            Val::Obj(entries) => {
                serializer.collect_map(entries.iter().map(|(key, entry)| (key_text(key), Json(entry))))
            }
        }
    }
}

/// As `jq` does: not a number is null, infinity the largest number, and `3.0` is `3`.
#[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
fn serialize_float<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.is_nan() {
        return serializer.serialize_unit();
    }
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return serializer.serialize_i64(number as i64);
    }
    serializer.serialize_f64(number.clamp(f64::MIN, f64::MAX))
}

/// Whether it is an integer beyond 64 bits, or a number that is written beyond what a double reaches. What a filter
/// computes to infinity is none: that is a number, as in `jq`.
fn is_wide(number: &Num) -> bool {
    match number {
        Num::Int(_) | Num::Float(_) => false,
        Num::BigInt(number) => number.bits() > 64 || document::is_wide_integer(&number.to_string()),
        Num::Dec(digits) => !digits.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

/// Numbers keep the digits that they are written with.
fn serialize_digits<S: Serializer>(digits: String, serializer: S) -> Result<S::Ok, S::Error> {
    let float = digits.parse().unwrap_or(f64::NAN);
    match RawValue::from_string(digits) {
        Ok(number) => number.serialize(serializer),
        Err(_) => serialize_float(float, serializer),
    }
}

/// `jaq` lets any value be a key.
pub(super) fn key_text(key: &Val) -> Cow<'_, str> {
    match key {
        Val::TStr(bytes) | Val::BStr(bytes) => String::from_utf8_lossy(bytes),
        other => other.to_string().into(),
    }
}
