//! Strict JSON by way of `serde_json`, as a second opinion on `parse_strict`.
//!
//! The text is taken apart level by level with `RawValue`, so that `serde_json` judges the syntax, and what
//! it lets pass unseen (a key twice, an integer beyond 64 bits) is seen here.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// The value, where the text is strict JSON of at most `levels` levels; none where it is not.
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
        return Number::from_f64(text.parse().ok()?);
    }
    let whole: i128 = text.parse().ok()?;
    u64::try_from(whole).map(Number::from).or_else(|_| i64::try_from(whole).map(Number::from)).ok()
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
