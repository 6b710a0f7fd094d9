//! A document between two formats. Unlike `serde_json::Value` it keeps the order of keys.

use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toolgate_sdk::serde_json::Number;

/// The key under which `toml` gives a date to a reader without its types.
const TOML_DATE: &str = "$__toml_private_datetime";

/// A value of any format.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(Box<IndexMap<String, Tree>>),
}

impl Tree {
    /// Returns the path of the first value without parts that fulfils the condition, as in `.a.b[2]`.
    pub fn find(&self, condition: fn(&Self) -> bool) -> Option<String> {
        match self {
            Self::List(entries) => entries
                .iter()
                .enumerate()
                .find_map(|(index, entry)| entry.find(condition).map(|rest| format!("[{index}]{rest}"))),
            Self::Map(entries) => entries
                .iter()
                .find_map(|(key, entry)| entry.find(condition).map(|rest| format!(".{key}{rest}"))),
            _ => condition(self).then(String::new),
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

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    // JSON has neither `inf` nor `nan`.
    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(value).map_or_else(|| Tree::Text(value.to_string()), Tree::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
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
        while let Some((key, value)) = map.next_entry::<String, Tree>()? {
            if key == TOML_DATE && entries.is_empty() {
                return Ok(value);
            }
            // The last of two equal keys counts, as in JSON.
            entries.insert(key, value);
        }
        Ok(Tree::Map(Box::new(entries)))
    }
}
