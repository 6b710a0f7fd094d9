//! Names of properties that providers take: listed under another name where theirs is refused, and mapped back in a call.
//!
//! A name is a function of the schema alone, so a call needs no memory of the list. Each name that some provider refuses has
//! one safe name for all of them. A provider that takes the original is given the original.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::root;

/// Longest name that providers take.
const NAME_BYTES: usize = 64;

/// The names of properties at the root that a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRule {
    Any,
    /// `^[a-zA-Z0-9_.-]{1,64}$`
    Anthropic,
    /// A letter or an underscore, then letters, digits and underscores, 64 in all.
    Gemini,
}

impl NameRule {
    pub(super) fn accepts(self, name: &str) -> bool {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        match self {
            Self::Any => true,
            _ if name.is_empty() || name.len() > NAME_BYTES => false,
            Self::Anthropic => name.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-')),
            Self::Gemini => {
                name.bytes().all(is_word) && !name.starts_with(|first: char| first.is_ascii_digit())
            }
        }
    }
}

/// The properties at the root of a schema whose names some provider refuses, by their safe names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyNames {
    originals: BTreeMap<String, String>,
}

impl PropertyNames {
    /// Names the properties that the root of a schema, or an alternative of it, declares.
    pub fn of(schema: &Value) -> Self {
        let is_fine = |name: &String| NameRule::Gemini.accepts(name);
        if root::is_plain(schema)
            && schema["properties"].as_object().is_none_or(|properties| properties.keys().all(is_fine))
        {
            return Self::default();
        }
        let declared = root::property_names(schema);
        let mut originals = BTreeMap::new();
        for original in declared.iter().filter(|name| !is_fine(name)) {
            let is_free = |name: &String| !declared.contains(name) && !originals.contains_key(name);
            // There are more numbers than names.
            if let Some(safe) = safe_names(original).find(is_free) {
                originals.insert(safe, original.clone());
            }
        }
        Self { originals }
    }

    /// Returns the safe name and the original of each property that the provider refuses.
    pub(super) fn refused_by(&self, rule: NameRule) -> impl Iterator<Item = (&str, &str)> {
        let names = self.originals.iter().map(|(safe, original)| (safe.as_str(), original.as_str()));
        names.filter(move |(_, original)| !rule.accepts(original))
    }

    /// Returns the arguments with the original names of properties that were called by their safe names, if there are any.
    /// A call that has both names keeps both.
    pub fn restore(&self, arguments: &Value) -> Option<Value> {
        let members = arguments.as_object().filter(|_| !self.originals.is_empty())?;
        let original = |name: &String| self.originals.get(name).filter(|name| !members.contains_key(*name));
        members.keys().find_map(original)?;
        let restored: Map<String, Value> = members
            .iter()
            .map(|(name, value)| (original(name).unwrap_or(name).clone(), value.clone()))
            .collect();
        Some(restored.into())
    }
}

/// The original with each run of other characters replaced by `_`, then the same with numbers.
fn safe_names(original: &str) -> impl Iterator<Item = String> {
    let mut plain = String::new();
    for letter in original.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' => plain.push(letter),
            _ if plain.is_empty() || plain.ends_with('_') => {}
            _ => plain.push('_'),
        }
    }
    plain.truncate(plain.trim_end_matches('_').len());
    if plain.is_empty() {
        plain.push_str("argument");
    } else if plain.starts_with(|first: char| first.is_ascii_digit()) {
        plain.insert(0, '_');
    }
    plain.truncate(NAME_BYTES);
    let first = plain.clone();
    let numbered = (2..u32::MAX).map(move |number| {
        let end = format!("_{number}");
        let start = plain.get(..plain.len().min(NAME_BYTES - end.len())).unwrap_or_default();
        format!("{start}{end}")
    });
    std::iter::once(first).chain(numbered)
}

/// Renames properties at a root, and takes away the keywords that name properties and are not rewritten.
pub(super) fn rename(root: &mut Map<String, Value>, renamed: &BTreeMap<&str, &str>) {
    for keyword in ["dependentRequired", "dependentSchemas", "propertyNames", "patternProperties"] {
        root.remove(keyword);
    }
    let new_name = |name: String| renamed.get(name.as_str()).map_or(name, |safe| (*safe).to_owned());
    if let Some(Value::Object(properties)) = root.get_mut("properties") {
        *properties =
            std::mem::take(properties).into_iter().map(|(name, schema)| (new_name(name), schema)).collect();
    }
    for name in root.get_mut("required").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::String(text) = name {
            *text = new_name(std::mem::take(text));
        }
    }
}
