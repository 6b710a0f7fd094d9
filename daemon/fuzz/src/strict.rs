//! Strict JSON by means of `serde_json`, as a second parser beside `parse_strict`.
//!
//! The text is taken apart level by level with `RawValue`: `serde_json` checks the syntax, and the duplicate keys and large
//! integers that it accepts are refused here.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// The value, if the text is strict JSON of at most `levels` levels.
pub fn read(text: &str, levels: u64) -> Option<Value> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    value(whole.get(), levels)
}

fn value(text: &str, levels: u64) -> Option<Value> {
    match text.as_bytes().first()? {
        b'{' => {
            let levels = levels.checked_sub(1)?;
            let mut object = Map::new();
            for (key, member) in members(text)? {
                if object.insert(key, value(member.get(), levels)?).is_some() {
                    return None;
                }
            }
            Some(Value::Object(object))
        }
        b'[' => {
            let levels = levels.checked_sub(1)?;
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            items.into_iter().map(|item| value(item.get(), levels)).collect()
        }
        b'-' | b'0'..=b'9' => number(text).map(Value::Number),
        _ => serde_json::from_str(text).ok(),
    }
}

fn number(text: &str) -> Option<Number> {
    if text.contains(['.', 'e', 'E']) || text == "-0" {
        let double: f64 = text.parse().ok()?;
        return Number::from_f64(double).filter(|_| keeps_value(text, double));
    }
    let whole: i128 = text.parse().ok()?;
    u64::try_from(whole).map(Number::from).or_else(|_| i64::try_from(whole).map(Number::from)).ok()
}

/// Whether a double keeps the written number: it is not rounded to zero, and a whole number keeps its digits, in full or as
/// programs print them.
#[expect(clippy::cast_possible_truncation, reason = "it is whole, and a number beyond 128 bits is unequal")]
fn keeps_value(text: &str, double: f64) -> bool {
    let digits = text.trim_start_matches('-').split(['e', 'E']).next().unwrap_or_default();
    if digits.trim_matches(['0', '.']).is_empty() == (double != 0.0) {
        return false;
    }
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.trim_matches('0').is_empty() => match whole.parse::<i128>() {
            Ok(number) => {
                number == double as i128 || format!("{double:?}") == text || double.to_string() == whole
            }
            Err(_) => true,
        },
        _ => true,
    }
}

fn members(text: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }

    serde_json::Deserializer::from_str(text).deserialize_map(Members).ok()
}
