//! The place of an argument in a request.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The place of an argument: the word of `in`, or an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct Placement {
    /// Part of the request.
    #[serde(rename = "in")]
    pub location: Location,
    /// Name in the query, header or body. Default: the argument's.
    pub name: Option<String>,
    /// Whether it is the whole body.
    pub whole: Option<bool>,
    /// Style of lists and objects.
    pub style: Option<Style>,
    /// Whether it is the path of a workspace file, or a list of paths, whose content is sent.
    pub file: Option<bool>,
}

/// Parts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Location {
    Path,
    Query,
    Header,
    Body,
    Cookie,
}

/// Encoding of a list or an object in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// A list as one pair for each item: `id=1&id=2`.
    #[default]
    Form,
    /// A list as `id=1,2`.
    Comma,
    /// A list as `id=1%202`.
    Space,
    /// A list as `id=1%7C2`.
    Pipe,
    /// An object as one pair for each member: `filter[a]=1&filter[b]=2`.
    DeepObject,
    /// Any value as JSON.
    Json,
}

impl<'de> Deserialize<'de> for Placement {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_struct("Placement", &["in", "name", "whole", "style", "file"], PlacementVisitor)
    }
}

struct PlacementVisitor;

impl<'de> Visitor<'de> for PlacementVisitor {
    type Value = Placement;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a word like `query`, or an object like `{\"in\":\"query\",\"name\":\"q\"}`,")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Placement, E> {
        let word: StrDeserializer<'_, E> = word.into_deserializer();
        Ok(Placement {
            location: Location::deserialize(word)?,
            name: None,
            whole: None,
            style: None,
            file: None,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Placement, A::Error> {
        Placement::deserialize(MapAccessDeserializer::new(map))
    }
}
