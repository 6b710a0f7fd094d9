//! A document on its way from one format to another.
//!
//! Unlike `serde_json::Value` it keeps the order of keys, for a reader who compares both sides, and it reads what JSON
//! has no word for: dates become text, and so do keys that are numbers.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// How `toml` gives a date to who does not know its types.
const TOML_DATE: &str = "$__toml_private_datetime";

/// A value of any format.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    /// What is too large for the one above.
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Box<IndexMap<String, Tree>>),
}

impl Tree {
    /// Makes texts of integers beyond signed 64 bits, for a format that has none.
    pub fn unsigned_to_text(&mut self) {
        match self {
            Self::Unsigned(value) => *self = Self::Text(value.to_string()),
            Self::List(entries) => entries.iter_mut().for_each(Self::unsigned_to_text),
            Self::Map(entries) => entries.values_mut().for_each(Self::unsigned_to_text),
            _ => {}
        }
    }

    /// The place of the first null, as in `a.b[2]`.
    pub fn find_null(&self) -> Option<String> {
        match self {
            Self::Null => Some(String::new()),
            Self::List(entries) => entries
                .iter()
                .enumerate()
                .find_map(|(index, entry)| entry.find_null().map(|rest| format!("[{index}]{rest}"))),
            Self::Map(entries) => {
                entries.iter().find_map(|(key, entry)| entry.find_null().map(|rest| format!(".{key}{rest}")))
            }
            _ => None,
        }
    }
}

impl JsonSchema for Tree {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Tree".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(entries) => serializer.collect_seq(entries),
            Self::Map(entries) => serializer.collect_map(entries.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(i64::try_from(value).map_or(Tree::Unsigned(value), Tree::Integer))
    }

    // Wider integers than JSON readers represent exactly are kept as text, for half a number is none.
    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(i64::try_from(value).map_or_else(|_| Tree::Text(value.to_string()), Tree::Integer))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Tree, E> {
        Ok(u64::try_from(value).map_or_else(|_| Tree::Text(value.to_string()), Tree::Unsigned))
    }

    // JSON has no words for these two either.
    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(if value.is_finite() { Tree::Float(value) } else { Tree::Text(value.to_string()) })
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Tree, E> {
        Ok(Tree::Text(String::from_utf8_lossy(value).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = sequence.next_element()? {
            entries.push(entry);
        }
        Ok(Tree::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = IndexMap::new();
        while let Some(Key(key)) = map.next_key()? {
            let value = map.next_value()?;
            if key == TOML_DATE && entries.is_empty() {
                return Ok(value);
            }
            // Of two equal keys the last one counts, as in JSON.
            entries.insert(key, value);
        }
        Ok(Tree::Map(Box::new(entries)))
    }
}

/// A key of any type that can be written as text.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key that is a text, a number or a boolean")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_string<E: de::Error>(self, key: String) -> Result<String, E> {
        Ok(key)
    }

    fn visit_bool<E: de::Error>(self, key: bool) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i64<E: de::Error>(self, key: i64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u64<E: de::Error>(self, key: u64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i128<E: de::Error>(self, key: i128) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u128<E: de::Error>(self, key: u128) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_f64<E: de::Error>(self, key: f64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_unit<E: de::Error>(self) -> Result<String, E> {
        Ok("null".to_owned())
    }
}
