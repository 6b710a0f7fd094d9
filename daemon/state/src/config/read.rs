//! Parses a settings file to [`Config`], or to an error with position, message and hint.
//!
//! The text is first parsed to a tree with spans (`toml::de`), which is validated against the table of keys. Only a valid
//! tree is deserialized with serde, whose own errors name Rust types and suggest no key.

use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toolgate_api::limits::LIMITS;
use toolgate_api::name::Name;
use toolgate_api::nearest;
use toolgate_api::text::escape_for_display;

use super::keys::{Config, LIMITS_SECTION, SECTIONS, Section};
use super::listen::Listen;
use super::values::ValueKind;

/// Longest message and hint, in characters. The names of all keys of a section fit.
const MESSAGE_CHARS: usize = 1_500;

/// Invalid settings: position, message and hint.
#[derive(Debug, thiserror::Error)]
#[error("{position}{message}")]
pub struct ConfigError {
    /// `FILE:LINE:COLUMN: `, or empty for an error outside of the file.
    position: String,
    message: String,
    hint: String,
}

impl ConfigError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { position: String::new(), message: message.into(), hint: hint.into() }
    }

    /// How to fix it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Reads `file`.
pub(super) fn read_text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| {
        ConfigError::new(
            format!("cannot read settings from `{}`: {error}", file.display()),
            "give a TOML file that this user may read, or leave `--config` out for the defaults",
        )
    })
}

/// Parses `text` and validates each key by itself; `file` is its name in errors. Returns every error, at least one.
pub(super) fn read(text: &str, file: &Path) -> Result<Config, Vec<ConfigError>> {
    let source = Source { text, file };
    let one = |error: &toml::de::Error| vec![source.toml_error(error)];
    let tree = DeTable::parse(text).map_err(|error| one(&error))?;
    let errors = source.check_file(tree.get_ref());
    if !errors.is_empty() {
        return Err(errors);
    }
    let values = toml::Deserializer::parse(text).map_err(|error| one(&error))?;
    Config::deserialize(values).map_err(|error| one(&error))
}

/// The first of several errors, of which there is at least one.
pub(super) fn first(errors: Vec<ConfigError>) -> ConfigError {
    errors.into_iter().next().unwrap_or_else(|| ConfigError::new("the settings are invalid", ""))
}

/// The file that is being read, to turn spans into positions.
struct Source<'text> {
    text: &'text str,
    file: &'text Path,
}

impl Source<'_> {
    fn check_file(&self, tree: &DeTable<'_>) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        for (key, value) in tree.iter() {
            let name = key.get_ref().as_ref();
            if let Some(known) = SECTIONS[0].keys.iter().find(|known| known.name == name) {
                errors.extend(self.check_value(name, known.values, value));
            } else if is_section(name) {
                errors.extend(self.check_section(name, value));
            } else {
                errors.push(self.unknown_at_the_top(key, value));
            }
        }
        errors
    }

    fn check_section(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Vec<ConfigError> {
        let Some(table) = value.get_ref().as_table() else {
            let hint = format!("write it as a section: `[{name}]`");
            return vec![self.error(value.span(), format!("`{name}` is a section"), hint)];
        };
        let mut errors = Vec::new();
        for (key, value) in table.iter() {
            match known_keys(name).find(|(known, _)| known == key.get_ref()) {
                Some((known, values)) => {
                    errors.extend(self.check_value(&format!("{name}.{known}"), values, value));
                }
                None => errors.push(self.unknown_in_section(name, key)),
            }
        }
        errors
    }

    fn check_value(&self, name: &str, wanted: ValueKind, value: &Spanned<DeValue<'_>>) -> Vec<ConfigError> {
        if !accepts(value.get_ref(), wanted) {
            let number_for_number =
                value.get_ref().is_integer() && matches!(wanted, ValueKind::Number { .. });
            let wrong = if number_for_number { "is out of range" } else { "has a value of the wrong kind" };
            return vec![self.error(value.span(), format!("`{name}` {wrong}"), describe(wanted))];
        }
        match wanted {
            ValueKind::Tables(section) => {
                let tables = value.get_ref().as_array().into_iter().flat_map(|tables| tables.iter());
                tables.flat_map(|table| self.check_section(section.name, table)).collect()
            }
            ValueKind::Table(section) => self.check_section(section.name, value),
            _ => Vec::new(),
        }
    }

    fn unknown_at_the_top(&self, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> ConfigError {
        let name = key.get_ref().as_ref();
        if value.get_ref().is_table() {
            let hint = match nearest(name, section_names()) {
                Some(near) => format!("did you mean `[{near}]`?"),
                None => format!("known sections: {}", quote_list(section_names())),
            };
            return self.error(key.span(), format!("unknown section `[{name}]`"), hint);
        }
        self.error(key.span(), format!("unknown key `{name}`"), hint_for_key("", name))
    }

    fn unknown_in_section(&self, section: &str, key: &Spanned<DeString<'_>>) -> ConfigError {
        let name = key.get_ref().as_ref();
        let message = format!("unknown key `{name}` in `[{section}]`");
        self.error(key.span(), message, hint_for_key(section, name))
    }

    fn toml_error(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        self.error(error.span().unwrap_or(0..0), message, "the file is TOML: https://toml.io")
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> ConfigError {
        let (line, column) = self.line_and_column(span.start);
        ConfigError {
            position: format!("{}:{line}:{column}: ", self.file.display()),
            // Both may quote the file.
            message: escape_for_display(&message.into(), MESSAGE_CHARS),
            hint: escape_for_display(&hint.into(), MESSAGE_CHARS),
        }
    }

    /// Counted from one, as in editors. Columns are characters.
    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

fn is_section(name: &str) -> bool {
    section_names().any(|section| section == name)
}

fn section_names() -> impl Iterator<Item = &'static str> {
    let listed = SECTIONS.iter().map(|section| section.name);
    listed.filter(|name| !name.is_empty() && !name.contains('.')).chain([LIMITS_SECTION])
}

/// The keys of a section; the top-level keys if `section` is empty.
fn known_keys(section: &str) -> impl Iterator<Item = (&'static str, ValueKind)> {
    let listed = SECTIONS.iter().filter(move |known| known.name == section);
    let keys = listed.flat_map(|known: &'static Section| known.keys).map(|key| (key.name, key.values));
    let limits = LIMITS.iter().filter(move |_| section == LIMITS_SECTION);
    keys.chain(limits.map(|row| (row.name, ValueKind::Number { least: 0, most: row.ceiling })))
}

/// Suggests the section that has this key, else the nearest key of the same section, else lists all keys.
fn hint_for_key(section: &str, name: &str) -> String {
    let here = || known_keys(section).map(|(known, _)| known);
    let has_it = |section: &&str| known_keys(section).any(|(known, _)| known == name);
    if let Some(elsewhere) = section_names().find(has_it) {
        return format!("`{name}` belongs in `[{elsewhere}]`");
    }
    if known_keys("").any(|(known, _)| known == name) {
        return format!("`{name}` belongs at the top of the file, before the first section");
    }
    match nearest(name, here()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", quote_list(here())),
    }
}

fn accepts(value: &DeValue<'_>, wanted: ValueKind) -> bool {
    match wanted {
        ValueKind::Number { least, most } => {
            whole_number(value).is_some_and(|number| (least..=most).contains(&number))
        }
        ValueKind::OneOf(choices) => value.as_str().is_some_and(|text| choices.contains(&text)),
        ValueKind::Switch => value.as_bool().is_some(),
        ValueKind::Text => value.is_str(),
        ValueKind::Address => value.as_str().is_some_and(|text| Listen::parse(text).is_some()),
        ValueKind::Addresses => is_list_of(value, 0, is_socket_address),
        ValueKind::SocketAddress => value.as_str().is_some_and(is_socket_address),
        ValueKind::Organizations => {
            value.as_array().is_some_and(|names| names.len() <= ORGANIZATIONS_MAX)
                && is_list_of(value, 0, |name| Name::parse(name).is_ok())
        }
        ValueKind::Hosts => is_list_of(value, 1, is_host),
        ValueKind::HostsWithPorts => is_list_of(value, 1, is_host_with_port),
        ValueKind::TokenIds => {
            value.as_table().is_some_and(|table| table.values().all(|value| value.get_ref().is_str()))
        }
        ValueKind::Share => number(value).is_some_and(|share| (0.0..=1.0).contains(&share)),
        ValueKind::Words => is_list_of(value, 1, is_word),
        ValueKind::Table(_) => value.is_table(),
        ValueKind::Tables(_) => value.as_array().is_some_and(|tables| {
            (1..=TABLES_MAX).contains(&tables.len()) && tables.iter().all(|table| table.get_ref().is_table())
        }),
        ValueKind::TextFormat(format) => value.as_str().is_some_and(format.accepts),
    }
}

/// Organizations whose calls are counted by name. Each call compares its organization with them.
const ORGANIZATIONS_MAX: usize = 16;

/// Tables of one key.
const TABLES_MAX: usize = 64;

/// A scope (RFC 6749, section 3.3).
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

fn is_list_of(value: &DeValue<'_>, least: usize, accepts: impl Fn(&str) -> bool) -> bool {
    value.as_array().is_some_and(|items| {
        items.len() >= least && items.iter().all(|item| item.get_ref().as_str().is_some_and(&accepts))
    })
}

fn is_socket_address(text: &str) -> bool {
    text.parse::<SocketAddr>().is_ok()
}

/// A host with an optional port.
fn is_host_with_port(text: &str) -> bool {
    let with_port = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_host(text) || with_port.is_some_and(|(host, _)| is_host(host))
}

/// A name or address in the form of the `Host` header, without a port.
fn is_host(text: &str) -> bool {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.bytes().all(plain),
    }
}

fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let text = value.as_float().map(|float| float.as_str()).or_else(|| Some(value.as_integer()?.as_str()))?;
    text.parse().ok()
}

fn describe(wanted: ValueKind) -> String {
    match wanted {
        ValueKind::Number { least, most } => format!("write a whole number from {least} to {most}"),
        ValueKind::OneOf(choices) => format!("write one of {}", quote_list(choices.iter().copied())),
        ValueKind::Switch => "write `true` or `false`".into(),
        ValueKind::Text => "write a text in quotes".into(),
        ValueKind::Address => {
            "write an IP address with a port, like `127.0.0.1:7300` or `[::1]:7300`, or `unix:` and an absolute path".into()
        }
        ValueKind::SocketAddress => "write an IP address with a port, like `127.0.0.1:9464`".into(),
        ValueKind::Organizations => {
            format!("write a list of at most {ORGANIZATIONS_MAX} organizations, like `[\"acme\"]`")
        }
        ValueKind::Addresses => "write a list of addresses with ports, like `[\"10.0.0.2:53\"]`".into(),
        ValueKind::Hosts => {
            "write a list of host names without ports, at least one, like `[\"tools.example.org\"]`".into()
        }
        ValueKind::HostsWithPorts => {
            "write a list of hosts, at least one, like `[\"printer.local:631\"]`".into()
        }
        ValueKind::TokenIds => "write names and ids of tokens, like `{ \"worker.example.org\" = \"tok_…\" }`".into(),
        ValueKind::Share => "write a number from 0 to 1, like `0.1`".into(),
        ValueKind::Words => "write a list of texts without spaces, at least one, like `[\"tools\"]`".into(),
        ValueKind::Table(section) => format!("write a table, after a line `[{}]`", section.name),
        ValueKind::Tables(section) => {
            format!("write 1 to {TABLES_MAX} tables, each after a line `[[{}]]`", section.name)
        }
        ValueKind::TextFormat(format) => format!("write it as {}, like `{}`", format.name, format.example),
    }
}

fn quote_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
