//! From the text of a settings file to [`Config`], or to an error that says
//! where, what and how to mend it.
//!
//! The text is parsed into a tree that knows its places and walked beside the
//! table of keys. Only what passes that walk is handed to serde: serde's own
//! complaints speak of Rust types and know no nearest key.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toolgate_admission::{LIMITS, nearest, show};

use super::keys::{Config, LIMITS_SECTION, SECTIONS, Section, Values};

/// Longest message and hint, in characters: the names of all keys of a section fit.
const MESSAGE_CHARS: usize = 1_500;

/// Settings that cannot be used: where, why, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{place}{message}")]
pub struct ConfigError {
    place: Place,
    message: String,
    hint: String,
}

impl ConfigError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: Place(None), message: message.into(), hint: hint.into() }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// `FILE:LINE:COLUMN: `, or nothing where no file is to blame.
#[derive(Debug)]
struct Place(Option<(String, usize, usize)>);

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((file, line, column)) => write!(out, "{file}:{line}:{column}: "),
            None => Ok(()),
        }
    }
}

/// The text of `file`.
pub fn text_of(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| {
        ConfigError::new(
            format!("cannot read settings from `{}`: {error}", file.display()),
            "give a TOML file that this user may read, or leave `--config` out for the defaults",
        )
    })
}

/// Settings from `text`, each key checked by itself; `file` is its name in errors.
pub fn read(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let source = Source { text, file };
    let tree = DeTable::parse(text).map_err(|error| source.no_toml(&error))?;
    source.check_file(tree.get_ref())?;
    let values = toml::Deserializer::parse(text).map_err(|error| source.no_toml(&error))?;
    Config::deserialize(values).map_err(|error| source.no_toml(&error))
}

/// The file that is being read, so that a span can become a place in it.
struct Source<'text> {
    text: &'text str,
    file: &'text Path,
}

impl Source<'_> {
    fn check_file(&self, tree: &DeTable<'_>) -> Result<(), ConfigError> {
        for (key, value) in tree.iter() {
            let name = key.get_ref().as_ref();
            if let Some(known) = SECTIONS[0].keys.iter().find(|known| known.name == name) {
                self.check_value(name, known.values, value)?;
            } else if is_section(name) {
                self.check_section(name, value)?;
            } else {
                return Err(self.unknown_at_the_top(key, value));
            }
        }
        Ok(())
    }

    fn check_section(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<(), ConfigError> {
        let Some(table) = value.get_ref().as_table() else {
            let hint = format!("write it as a section: `[{name}]`");
            return Err(self.error(value.span(), format!("`{name}` is a section"), hint));
        };
        for (key, value) in table.iter() {
            let found = known_keys(name).find(|(known, _)| known == key.get_ref());
            let Some((known, values)) = found else {
                return Err(self.unknown_in_section(name, key));
            };
            self.check_value(&format!("{name}.{known}"), values, value)?;
        }
        Ok(())
    }

    fn check_value(
        &self,
        name: &str,
        wanted: Values,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        if fits(value.get_ref(), wanted) {
            return Ok(());
        }
        let number_for_number = value.get_ref().is_integer() && matches!(wanted, Values::Number { .. });
        let wrong = if number_for_number { "is out of range" } else { "has a value of the wrong kind" };
        Err(self.error(value.span(), format!("`{name}` {wrong}"), describe(wanted)))
    }

    fn unknown_at_the_top(&self, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> ConfigError {
        let name = key.get_ref().as_ref();
        if value.get_ref().is_table() {
            let hint = match nearest(name, section_names()) {
                Some(near) => format!("did you mean `[{near}]`?"),
                None => format!("known sections: {}", quoted(section_names())),
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

    fn no_toml(&self, error: &toml::de::Error) -> ConfigError {
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        self.error(error.span().unwrap_or(0..0), message, "the file is TOML: https://toml.io")
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> ConfigError {
        let (line, column) = self.line_and_column(span.start);
        ConfigError {
            place: Place(Some((self.file.display().to_string(), line, column))),
            // Both may quote the file.
            message: show(&message.into(), MESSAGE_CHARS),
            hint: show(&hint.into(), MESSAGE_CHARS),
        }
    }

    /// Both counted from one, as editors do; a column is a character.
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
    listed.filter(|name| !name.is_empty()).chain([LIMITS_SECTION])
}

/// The keys of a section; of the top where `section` is empty.
fn known_keys(section: &str) -> impl Iterator<Item = (&'static str, Values)> {
    let listed = SECTIONS.iter().filter(move |known| known.name == section);
    let keys = listed.flat_map(|known: &'static Section| known.keys).map(|key| (key.name, key.values));
    let limits = LIMITS.iter().filter(move |_| section == LIMITS_SECTION);
    keys.chain(limits.map(|row| (row.name, Values::Number { least: 0, most: row.ceiling })))
}

/// The nearest key of the same section, else the section that has this very key,
/// else all there is.
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
        None => format!("known here: {}", quoted(here())),
    }
}

fn fits(value: &DeValue<'_>, wanted: Values) -> bool {
    match wanted {
        Values::Number { least, most } => {
            whole_number(value).is_some_and(|number| (least..=most).contains(&number))
        }
        Values::OneOf(choices) => value.as_str().is_some_and(|text| choices.contains(&text)),
        Values::Text => value.is_str(),
        Values::Address => value.as_str().is_some_and(|text| text.parse::<SocketAddr>().is_ok()),
        Values::Addresses => value.as_array().is_some_and(|addresses| {
            addresses.iter().all(|address| {
                address.get_ref().as_str().is_some_and(|text| text.parse::<SocketAddr>().is_ok())
            })
        }),
        Values::Hosts => value.as_array().is_some_and(|hosts| {
            !hosts.is_empty() && hosts.iter().all(|host| host.get_ref().as_str().is_some_and(is_host))
        }),
        Values::Places => value.as_array().is_some_and(|places| {
            !places.is_empty() && places.iter().all(|place| place.get_ref().as_str().is_some_and(is_place))
        }),
        Values::Form(form) => value.as_str().is_some_and(form.fits),
    }
}

/// A host, with a port or without.
fn is_place(text: &str) -> bool {
    let with_port = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_host(text) || with_port.is_some_and(|(host, _)| is_host(host))
}

/// A name or an address as the `Host` header writes it, without a port: an entry
/// with one would never match.
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

fn describe(wanted: Values) -> String {
    match wanted {
        Values::Number { least, most } => format!("write a whole number from {least} to {most}"),
        Values::OneOf(choices) => format!("write one of {}", quoted(choices.iter().copied())),
        Values::Text => "write a text in quotes".into(),
        Values::Address => "write an IP address with a port, like `127.0.0.1:7300` or `[::1]:7300`".into(),
        Values::Addresses => "write a list of addresses with ports, like `[\"10.0.0.2:53\"]`".into(),
        Values::Hosts => {
            "write a list of host names without ports, at least one, like `[\"tools.example.org\"]`".into()
        }
        Values::Places => "write a list of hosts, at least one, like `[\"printer.local:631\"]`".into(),
        Values::Form(form) => format!("write it as {}, like `{}`", form.name, form.example),
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
