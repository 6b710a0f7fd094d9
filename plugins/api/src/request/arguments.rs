//! The arguments of a call, as the text that the model wrote: a number keeps its digits, and content that is sent on stays
//! byte for byte as it passed the schema.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::definition::BodyFormat;
use toolgate_sdk::Error;

use crate::plan::{Place, Plan, Target};

/// Whole numbers up to this stand in a float without loss.
const WHOLE_IN_FLOAT: f64 = 9_007_199_254_740_992.0;

/// The members of a JSON object, in their order.
pub struct Arguments<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// A value as it was written.
#[derive(Clone, Copy)]
pub struct Value<'a>(&'a RawValue);

/// An argument that has a place.
pub struct Given<'a> {
    pub name: &'a str,
    pub value: Value<'a>,
}

impl<'a> Arguments<'a> {
    /// Reads a JSON object.
    pub fn read(text: &'a str) -> Result<Self, Error> {
        serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("the arguments cannot be read: {error}")))
    }

    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let given = self.0.iter().find(|(known, value)| known == name && !value.is_null());
        given.map(|(_, value)| *value)
    }

    /// Each argument with its place, in the order in which they were written. A null is a value in JSON, where the schema
    /// allows it, and absent elsewhere.
    pub fn in_places<'b>(&'b self, plan: &'b Plan) -> Result<Vec<(&'b Place, Given<'b>)>, Error> {
        let place = |(name, value): &'b (Cow<'a, str>, Value<'a>)| {
            let place = plan.arguments.get(name.as_ref());
            let place = place.ok_or_else(|| refuse(name, "is no argument of this tool"))?;
            Ok((place, Given { name, value: *value }))
        };
        let is_json = plan.content.as_ref().is_some_and(|content| content.form == BodyFormat::Json);
        let is_sent = |(place, given): &(&Place, Given<'_>)| {
            !given.value.is_null() || is_json && matches!(place.target, Target::Member(_))
        };
        self.0.iter().map(place).filter(|given| given.as_ref().map_or(true, is_sent)).collect()
    }
}

/// An argument that makes no sense where it goes.
pub fn refuse(name: &str, why: &str) -> Error {
    let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    Error::invalid(format!("`{name}` {why}")).with_details(json!({"pointer": pointer}))
}

impl<'a> Value<'a> {
    /// As JSON.
    pub fn json(self) -> &'a str {
        self.0.get()
    }

    fn is_null(self) -> bool {
        self.json() == "null"
    }

    /// A string, a number or a boolean as text; none for what has parts.
    pub fn word(self, is_whole: bool) -> Option<Cow<'a, str>> {
        match self.json().as_bytes().first()? {
            b'"' => serde_json::from_str::<Word<'_>>(self.json()).ok().map(|word| word.0),
            b'{' | b'[' => None,
            b'-' | b'0'..=b'9' if is_whole => Some(whole(self.json())),
            _ => Some(self.json().into()),
        }
    }

    /// The items of a list as text, or the one word that it is; none where there is an object in it, or a list in a list.
    pub fn words(self, is_whole: bool) -> Option<Vec<Cow<'a, str>>> {
        match self.items() {
            Some(items) => items.into_iter().map(|item| item.word(is_whole)).collect(),
            None => self.word(is_whole).map(|word| vec![word]),
        }
    }

    /// The items of a list, without nulls.
    pub fn items(self) -> Option<Vec<Self>> {
        let items: Vec<&'a RawValue> = serde_json::from_str(self.json()).ok()?;
        Some(items.into_iter().map(Self).filter(|item| !item.is_null()).collect())
    }

    /// The members of an object, without nulls.
    pub fn members(self) -> Option<Arguments<'a>> {
        let mut members: Arguments<'a> = serde_json::from_str(self.json()).ok()?;
        members.0.retain(|(_, value)| !value.is_null());
        Some(members)
    }
}

impl<'a> IntoIterator for Arguments<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// `1.0` and `1e3` are integers for JSON Schema, and for few servers.
fn whole(number: &str) -> Cow<'_, str> {
    let is_written_otherwise = number.contains(['.', 'e', 'E']);
    let value = number.parse::<f64>().ok().filter(|_| is_written_otherwise);
    match value.filter(|value| value.fract() == 0.0 && value.abs() <= WHOLE_IN_FLOAT) {
        // The sum is no negative zero.
        Some(value) => format!("{:.0}", value + 0.0).into(),
        None => number.into(),
    }
}

/// A string that is borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Word<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Arguments<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Word(name), value)) = map.next_entry::<Word<'de>, &'de RawValue>()? {
            members.push((name, Value(value)));
        }
        Ok(Arguments(members))
    }
}
