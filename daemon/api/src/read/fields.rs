//! Fields of documents, for `deserialize_with`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{invalid, invalid_at, pointer};
use crate::text::{escape_for_display, hidden_character};

/// `null` equals an absent member.
pub fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Text for readers, not empty, at most `MAX` characters, without hidden characters.
pub fn text<'de, D: Deserializer<'de>, T: From<String>, const MAX: usize>(from: D) -> Result<T, D::Error> {
    parse_string(from, |text| check_text(text, MAX).map(|()| text.to_owned().into()))
}

/// One word of at most `MAX` visible ASCII characters.
pub fn word<'de, D: Deserializer<'de>, T: From<String>, const MAX: usize>(from: D) -> Result<T, D::Error> {
    parse_string(from, |text| check_word(text, MAX).map(|()| text.to_owned().into()))
}

/// At most `ITEMS` texts of at most `MAX` characters each.
pub fn texts<'de, D: Deserializer<'de>, const ITEMS: usize, const MAX: usize>(
    from: D,
) -> Result<Vec<String>, D::Error> {
    parsed_list(from, ITEMS, |text| check_text(text, MAX).map(|()| text.to_owned()))
}

/// At most `ITEMS` words of at most `MAX` characters each.
pub fn words<'de, D: Deserializer<'de>, const ITEMS: usize, const MAX: usize>(
    from: D,
) -> Result<Vec<String>, D::Error> {
    parsed_list(from, ITEMS, |text| check_word(text, MAX).map(|()| text.to_owned()))
}

/// A whole number from `MIN` to `MAX`.
pub fn whole_number<'de, D, T, const MIN: u64, const MAX: u64>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let number = u64::deserialize(from)?;
    let whole = Some(number).filter(|number| (MIN..=MAX).contains(number));
    whole.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        invalid(
            format_args!("{number} is not from {MIN} to {MAX}"),
            format_args!("write a whole number from {MIN} to {MAX}"),
        )
    })
}

/// JSON without hidden characters in keys and strings.
pub fn visible_json<'de, D: Deserializer<'de>, T: From<Value>>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    match first_hidden(&value, String::new()) {
        None => Ok(value.into()),
        Some((place, letter)) => {
            let (message, hint) = hidden_refusal(letter);
            Err(invalid_at(place, message, hint))
        }
    }
}

fn first_hidden(value: &Value, place: String) -> Option<(String, char)> {
    match value {
        Value::String(text) => hidden_character(text).map(|letter| (place, letter)),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| first_hidden(item, pointer(&place, &index.to_string())))
        }
        Value::Object(members) => members.iter().find_map(|(name, member)| match hidden_character(name) {
            Some(letter) => Some((place.clone(), letter)),
            None => first_hidden(member, pointer(&place, name)),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A table of at most `MAX` entries.
pub fn table<'de, D, K, V, const MAX: usize>(from: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    let table = BTreeMap::deserialize(from)?;
    if table.len() > MAX { Err(too_many(table.len(), MAX)) } else { Ok(table) }
}

/// A list of at most `MAX` entries.
pub fn list_of<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::deserialize(from)?;
    if items.len() > MAX { Err(too_many(items.len(), MAX)) } else { Ok(items) }
}

/// Message and hint of a value that does not parse.
pub type Refusal = (String, &'static str);

/// Reads a string and parses it.
pub fn parse_string<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, Refusal>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(|(message, hint)| invalid(message, hint))
}

/// Reads a list of at most `max` strings and parses each.
pub fn parsed_list<'de, D: Deserializer<'de>, T>(
    from: D,
    max: usize,
    parse: impl Fn(&str) -> Result<T, Refusal>,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    if texts.len() > max {
        return Err(too_many(texts.len(), max));
    }
    let item = |(index, text): (usize, &String)| {
        parse(text).map_err(|(message, hint)| invalid_at(format_args!("/{index}"), message, hint))
    };
    texts.iter().enumerate().map(item).collect()
}

fn too_many<E: de::Error>(entries: usize, max: usize) -> E {
    invalid(format_args!("{entries} entries are more than the {max} allowed"), "list fewer")
}

pub(crate) fn check_text(text: &str, max_chars: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(("the text is empty".to_owned(), "write what a reader needs to know, or leave it out"));
    }
    if text.chars().count() > max_chars {
        return Err((format!("the text has more than {max_chars} characters"), "shorten it"));
    }
    hidden_character(text).map_or(Ok(()), |letter| Err(hidden_refusal(letter)))
}

fn check_word(text: &str, max_chars: usize) -> Result<(), Refusal> {
    check_text(text, max_chars)?;
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => {
            let message = format!("`{}` is not one word", escape_for_display(text, 40));
            Err((message, "write ASCII characters without spaces"))
        }
    }
}

fn hidden_refusal(letter: char) -> Refusal {
    let message = format!("the text holds the hidden character {}", letter.escape_unicode());
    (message, "leave out control, bidirectional and invisible characters")
}
