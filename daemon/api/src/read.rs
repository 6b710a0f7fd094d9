//! Reads JSON into typed documents with serde. An error names the place as a JSON pointer and the nearest known name.
//!
//! [`read`] deserializes from a parsed [`Value`], so the text has passed [`crate::json::parse_strict`] before.
//! In objects with known fields an absent member and `null` are the same.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde_json::Value;

use crate::error::{CallError, ErrorType};
use crate::json::parse_strict;
use crate::nearest;
use crate::text::{escape_for_display, hidden_character, list};

/// Longest excerpt of a value in a message, in characters.
const EXCERPT_CHARS: usize = 64;
/// Known names that a hint lists.
const NAMES_LISTED: usize = 40;

/// A document does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// JSON pointer (RFC 6901) into the document; empty for the whole.
    pub place: String,
    /// The error, with an excerpt of the value.
    pub message: String,
    /// The fix.
    pub hint: String,
}

impl ReadError {
    /// An error at a JSON pointer.
    pub fn new(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), hint: hint.into() }
    }

    /// A name that is not defined, with the nearest of the defined ones.
    pub fn undefined_name<'a>(
        place: impl Into<String>,
        kind: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let hint = match nearest(name, known.clone()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.clone().next().is_none() => format!("no {kind} is defined yet"),
            None => format!("defined are {}", list(known, 20)),
        };
        Self::new(place, format!("there is no {kind} `{}`", escape_for_display(name, EXCERPT_CHARS)), hint)
    }

    /// The error that a caller gets, with the place in `details.pointer`.
    pub fn into_call_error(self, error_type: ErrorType) -> CallError {
        CallError::new(error_type, self.to_string(), self.hint).with_pointer(self.place)
    }

    /// The same error, seen from the value that contains the place as `member`.
    fn inside(mut self, member: &str) -> Self {
        self.place.insert_str(0, &pointer("", member));
        self
    }
}

impl Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => formatter.write_str(&self.message),
            place => write!(formatter, "{} (`{}`)", self.message, escape_for_display(place, 1_000)),
        }
    }
}

impl std::error::Error for ReadError {}

/// An error of a `Deserialize` implementation with a hint. serde passes one text, so the hint is its second line.
pub fn invalid<E: de::Error>(message: impl Display, hint: impl Display) -> E {
    E::custom(format_args!("{message}\n{hint}"))
}

/// The JSON pointer of a member of `place`.
pub fn pointer(place: &str, member: &str) -> String {
    format!("{place}/{}", member.replace('~', "~0").replace('/', "~1"))
}

/// Parses and reads a document of at most `max_depth` levels.
pub fn read_text<T: de::DeserializeOwned>(json: &str, max_depth: u64) -> Result<T, ReadError> {
    read(&parse(json, max_depth)?)
}

/// Parses a document of at most `max_depth` levels.
pub fn parse(json: &str, max_depth: u64) -> Result<Value, ReadError> {
    parse_strict(json, max_depth).map_err(|error| {
        let message = format!("{} at line {} column {}", error.kind, error.line, error.column);
        ReadError::new(error.pointer, message, "fix it there; a document is one JSON object")
    })
}

/// Reads a value. Unknown fields are errors where the type has `deny_unknown_fields`.
pub fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ReadError> {
    T::deserialize(Reader { value })
}

#[derive(Clone, Copy)]
struct Reader<'de> {
    value: &'de Value,
}

impl<'de> Reader<'de> {
    fn as_unexpected(&self) -> Unexpected<'de> {
        match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => Unexpected::Unsigned(number),
                (None, Some(number), _) => Unexpected::Signed(number),
                (None, None, number) => Unexpected::Float(number.unwrap_or_default()),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }

    /// Reads a number; `1e6` is an integer, as in JSON Schema.
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value.as_f64() {
            Some(float) if !self.value.is_u64() && !self.value.is_i64() => {
                let text = format!("{float:.0}");
                match text.parse::<u64>().ok().filter(|_| float.fract() == 0.0) {
                    Some(number) => visitor.visit_u64(number),
                    None => visitor.visit_f64(float),
                }
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn object<V: Visitor<'de>>(self, visitor: V, skips_null: bool) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Object(members) => {
                visitor.visit_map(Members { members: members.iter(), skips_null, member: None })
            }
            _ => Err(de::Error::invalid_type(self.as_unexpected(), &"an object")),
        }
    }
}

struct Members<'de> {
    members: serde_json::map::Iter<'de>,
    skips_null: bool,
    member: Option<(&'de String, &'de Value)>,
}

impl<'de> de::MapAccess<'de> for Members<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let skips_null = self.skips_null;
        self.member = self.members.find(|(_, value)| !(skips_null && value.is_null()));
        let Some((name, _)) = self.member else { return Ok(None) };
        let key: StrDeserializer<'_, ReadError> = name.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.inside(name))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let Some((name, value)) = self.member else { return Err(de::Error::custom("no member is next")) };
        seed.deserialize(Reader { value }).map_err(|error| error.inside(name))
    }
}

struct Items<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        seed.deserialize(Reader { value }).map(Some).map_err(|error| error.inside(&index.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint().1
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.number(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Value::Object(_) => self.object(visitor, false),
        }
    }

    numbers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i8 deserialize_i16
    deserialize_i32 deserialize_i64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.object(visitor, true)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            Value::String(word) => visitor.visit_enum(word.as_str().into_deserializer()),
            _ => Err(de::Error::invalid_type(self.as_unexpected(), &"a string")),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier
        ignored_any
    }
}

impl de::Error for ReadError {
    fn custom<T: Display>(text: T) -> Self {
        let text = text.to_string();
        let (message, hint) = text.split_once('\n').unwrap_or((&text, "compare it with the documentation"));
        Self::new("", message, hint)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Unit | Unexpected::Option => "null",
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
            Unexpected::Float(_) => "a number that is not whole",
            Unexpected::Str(_) => "a string",
            Unexpected::Seq => "a list",
            _ => "an object",
        };
        // serde names Rust types; documents have these instead.
        let expected = match expected.to_string().as_str() {
            "a boolean" => "`true` or `false`".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            number if number.starts_with(['u', 'i']) => "a whole number from 0 on".to_owned(),
            expected => expected.to_owned(),
        };
        Self::new("", format!("{found} stands where {expected} belongs"), format!("write {expected}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match found {
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => {
                Self::new("", "the number is out of range", "write a smaller whole number, from 0 on")
            }
            _ => Self::invalid_type(found, expected),
        }
    }

    fn unknown_variant(word: &str, expected: &'static [&'static str]) -> Self {
        let message =
            format!("`{}` is not one of the words allowed here", escape_for_display(word, EXCERPT_CHARS));
        Self::new("", message, did_you_mean(word, expected, "write one of"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = format!("unknown field `{}`", escape_for_display(field, EXCERPT_CHARS));
        Self::new("", message, did_you_mean(field, expected, "known fields are"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new("", format!("the field `{field}` is missing"), format!("add `{field}`"))
    }
}

fn did_you_mean(word: &str, known: &[&str], otherwise: &str) -> String {
    match nearest(word, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("{otherwise} {}", list(known.iter().copied(), NAMES_LISTED)),
    }
}

/// A JSON object. Without this type, serde would also deserialize an array as the struct's fields in order.
pub struct Object<T>(
    /// The object.
    pub T,
);

/// For `deserialize_with`: a list of objects.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|Object(item)| item).collect())
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// For `deserialize_with`: `null` equals an absent member.
pub fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// For `deserialize_with`: text for readers, not empty, at most `MAX` characters, without hidden characters.
pub fn text<'de, D: Deserializer<'de>, T: From<String>, const MAX: usize>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    check_text(&text, MAX)?;
    Ok(text.into())
}

/// For `deserialize_with`: one word of at most `MAX` visible ASCII characters.
pub fn word<'de, D: Deserializer<'de>, T: From<String>, const MAX: usize>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    check_text(&text, MAX)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("`{}` is not one word", escape_for_display(&text, 40));
        return Err(invalid(message, "write ASCII characters without spaces"));
    }
    Ok(text.into())
}

/// For `deserialize_with`: a list of at most `MAX` entries.
pub fn list_of<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::deserialize(from)?;
    if items.len() > MAX {
        let message = format!("the list has {} entries, more than the {MAX} allowed", items.len());
        return Err(invalid(message, "list fewer"));
    }
    Ok(items)
}

fn check_text<E: de::Error>(text: &str, max_chars: usize) -> Result<(), E> {
    if text.trim().is_empty() {
        return Err(invalid("the text is empty", "write what a reader needs to know, or leave it out"));
    }
    if text.chars().count() > max_chars {
        return Err(invalid(format_args!("the text has more than {max_chars} characters"), "shorten it"));
    }
    match hidden_character(text) {
        None => Ok(()),
        Some(letter) => Err(invalid(
            format_args!("the text has the hidden character {}", letter.escape_unicode()),
            "leave out control, bidirectional and invisible characters",
        )),
    }
}
