//! Reads JSON into typed documents with serde. An error names the place as a JSON pointer and the nearest known name.
//!
//! [`read`] deserializes from a parsed [`Value`], so the text has passed [`crate::json::parse_strict`] before.
//! In objects with known fields an absent member and `null` are the same. `fields` has functions for `deserialize_with`.

mod fields;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde_json::Value;

pub(crate) use fields::check_text;
pub use fields::{
    Refusal, list_of, null_is_default, parse_string, parsed_list, table, text, texts, visible_json,
    whole_number, word, words,
};

use crate::error::{CallError, ErrorType};
use crate::json::parse_strict;
use crate::nearest;
use crate::text::{escape_for_display, list};

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

/// An error of a `Deserialize` implementation with a hint.
pub fn invalid<E: de::Error>(message: impl Display, hint: impl Display) -> E {
    E::custom(format_args!("{}\n{}", one_line(message), one_line(hint)))
}

/// The same for a place below the value: a JSON pointer relative to it.
pub fn invalid_at<E: de::Error>(place: impl Display, message: impl Display, hint: impl Display) -> E {
    E::custom(format_args!("{}\n{}\n{place}", one_line(message), one_line(hint)))
}

/// serde passes an error as one text, whose lines are the message, the hint and the rest, a place. So message and hint are
/// one line each.
fn one_line(text: impl Display) -> String {
    text.to_string().replace('\n', " ")
}

/// Implements `Deserialize` for a type that is parsed from one string, with the message and hint of its parse error.
macro_rules! deserialize_parsed {
    ($type:ty, $parse:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                $parse(&text).map_err(|error| $crate::read::invalid(error.message, error.hint))
            }
        }
    };
}
pub(crate) use deserialize_parsed;

/// The JSON pointer of a member of `place`.
pub fn pointer(place: &str, member: &str) -> String {
    format!("{place}/{}", member.replace('~', "~0").replace('/', "~1"))
}

/// Deepest nesting of policies and grants.
const DOCUMENT_DEPTH: u64 = 8;

/// Parses and reads a policy or a grant.
pub fn read_document<T: de::DeserializeOwned>(json: &str) -> Result<T, ReadError> {
    read_text(json, DOCUMENT_DEPTH)
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

/// Reads a value. Unknown fields are errors, also where the type lacks `deny_unknown_fields`.
pub fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ReadError> {
    T::deserialize(Reader { value, place: &Place::ROOT, unknown: None })
}

/// Reads a value and ignores unknown fields. Returns their JSON pointers too.
pub fn read_lenient<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<(T, Vec<String>), ReadError> {
    let unknown = RefCell::default();
    let read = T::deserialize(Reader { value, place: &Place::ROOT, unknown: Some(&unknown) })?;
    Ok((read, unknown.into_inner()))
}

/// The place of a value in the document, as a list on the stack: it is written out only for an unknown field.
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    member: Cow<'p, str>,
}

impl Place<'_> {
    const ROOT: Place<'static> = Place { parent: None, member: Cow::Borrowed("") };

    fn pointer_to(&self, member: &str) -> String {
        let parent = self.parent.map(|parent| parent.pointer_to(&self.member));
        pointer(&parent.unwrap_or_default(), member)
    }
}

#[derive(Clone, Copy)]
struct Reader<'de, 'p> {
    value: &'de Value,
    place: &'p Place<'p>,
    /// Pointers of unknown fields, where they are not errors.
    unknown: Option<&'p RefCell<Vec<String>>>,
}

impl<'de> Reader<'de, '_> {
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
        let is_whole = |float: &f64| float.fract() == 0.0 && *float >= 0.0;
        let whole = self.value.as_f64().filter(|float| self.value.is_f64() && is_whole(float));
        match whole.and_then(|float| format!("{:.0}", float.abs()).parse().ok()) {
            Some(number) => visitor.visit_u64(number),
            None => self.deserialize_any(visitor),
        }
    }

    /// Reads an object. `fields` are the known ones of a type with fixed fields.
    fn object<V: Visitor<'de>>(
        self,
        visitor: V,
        fields: Option<&'static [&'static str]>,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Object(members) => {
                if let Some(fields @ [_, ..]) = fields {
                    let mut names = members.keys().filter(|name| !fields.contains(&name.as_str()));
                    match (self.unknown, names.next()) {
                        (Some(unknown), Some(first)) => {
                            let names = std::iter::once(first).chain(names);
                            unknown.borrow_mut().extend(names.map(|name| self.place.pointer_to(name)));
                        }
                        (None, Some(name)) => {
                            let error: ReadError = de::Error::unknown_field(name, fields);
                            return Err(error.inside(name));
                        }
                        (_, None) => {}
                    }
                }
                visitor.visit_map(Members { members: members.iter(), next: None, fields, object: self })
            }
            // Some objects can be written as a word.
            Value::String(text) => visitor.visit_borrowed_str(text),
            _ => Err(de::Error::invalid_type(self.as_unexpected(), &visitor)),
        }
    }
}

struct Members<'de, 'p> {
    members: serde_json::map::Iter<'de>,
    next: Option<(&'de String, &'de Value)>,
    fields: Option<&'static [&'static str]>,
    object: Reader<'de, 'p>,
}

impl Members<'_, '_> {
    /// Skips `null` where the names are fixed, and unknown fields where they are not errors. A type without listed fields
    /// refuses unknown names itself, and in a lenient document `null` too.
    fn is_skipped(&self, name: &str, value: &Value) -> bool {
        let is_lenient = self.object.unknown.is_some();
        match self.fields {
            None => false,
            Some([]) => value.is_null() && !is_lenient,
            Some(fields) if fields.contains(&name) => value.is_null(),
            Some(_) => is_lenient,
        }
    }
}

impl<'de> de::MapAccess<'de> for Members<'de, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        self.next = loop {
            match self.members.next() {
                Some((name, value)) if self.is_skipped(name, value) => {}
                next => break next,
            }
        };
        let Some((name, _)) = self.next else { return Ok(None) };
        let key: StrDeserializer<'_, ReadError> = name.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.inside(name))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let Some((name, value)) = self.next else { return Err(de::Error::custom("no member is next")) };
        let place = Place { parent: Some(self.object.place), member: name.as_str().into() };
        let reader = Reader { value, place: &place, unknown: self.object.unknown };
        seed.deserialize(reader).map_err(|error| error.inside(name))
    }
}

struct Items<'de, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    list: Reader<'de, 'p>,
}

impl<'de> de::SeqAccess<'de> for Items<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        let place = Place { parent: Some(self.list.place), member: index.to_string().into() };
        let reader = Reader { value, place: &place, unknown: self.list.unknown };
        seed.deserialize(reader).map(Some).map_err(|error| error.inside(&place.member))
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

impl<'de> Deserializer<'de> for Reader<'de, '_> {
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
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate(), list: self }),
            Value::Object(_) => self.object(visitor, None),
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
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.object(visitor, Some(fields))
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
        let mut lines = text.splitn(3, '\n');
        let mut line = || lines.next();
        let message = line().unwrap_or_default();
        let hint = line().unwrap_or("compare it with the documentation");
        Self::new(line().unwrap_or_default(), message, hint)
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
            object if object == "a map" || object.starts_with("struct ") => "an object".to_owned(),
            number if number.starts_with(['u', 'i']) => "a whole number from 0 on".to_owned(),
            expected => expected.to_owned(),
        };
        Self::new("", format!("{found} stands where {expected} belongs"), format!("write {expected}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match found {
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => {
                let hint = "write a whole number in the allowed range";
                Self::new("", "a number stands where a whole number from 0 on belongs", hint)
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Refused;

    impl<'de> Deserialize<'de> for Refused {
        fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Err(invalid_at("/a\nb", "first line\nsecond line", "a hint\nof two lines"))
        }
    }

    #[test]
    fn a_message_of_two_lines_keeps_its_hint_and_place() {
        let error = read::<Vec<Refused>>(&serde_json::json!([null])).map(drop).unwrap_err();
        assert_eq!(error, ReadError::new("/0/a\nb", "first line second line", "a hint of two lines"));
    }
}
