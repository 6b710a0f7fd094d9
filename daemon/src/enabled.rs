//! What an organization has set for a plugin: its settings (C5) and its consent (C6), as they are stored and checked.
//!
//! The stored document holds what the consent accepted, so that a later version is compared with that and not with a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_admission::{AcceptedPlugin, Plugin, Schema, permissions_in_words};
use toolgate_api::catalogue::{AcceptanceView, EnabledDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::read::{ReadError, pointer, read_document};
use toolgate_sandbox::Component;

/// Longest settings, as JSON text: they are held in memory and copied into each call.
const SETTINGS_BYTES: usize = 64 * 1024;
/// Levels of a schema that are searched for secrets.
const SCHEMA_LEVELS: u32 = 16;
/// Shortest text that can be a key.
const KEY_BYTES: usize = 16;
/// Beginnings of keys and tokens of common services, and of private keys.
const KEY_PREFIXES: [&str; 14] = [
    "-----BEGIN ",
    "AIza",
    "AKIA",
    "ASIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "rk_",
    "xox",
];
/// Parts of names whose values are secrets.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "secret", "apikey", "privatekey", "accesskey", "accesstoken", "authtoken"];

/// What is stored of an organization's settings and consent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredEnabled {
    /// The settings.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The consent; none if it was never given, or withdrawn.
    #[serde(default)]
    pub accepted: Option<Acceptance>,
}

/// A consent that was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The id of the token that accepted.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The digest of the version that was accepted.
    pub digest: String,
    /// What was accepted.
    pub plugin: AcceptedPlugin,
}

impl StoredEnabled {
    /// Parses the stored text.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        read_document(text)
    }

    /// The stored text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The settings as JSON text, if the plugin takes them. None stands for `{}`.
    pub fn settings_for(&self, plugin: &Plugin<Component>) -> Option<Arc<str>> {
        let takes = !self.config.is_empty() && self.check_settings(plugin).is_ok();
        takes.then(|| Value::Object(self.config.clone()).to_string().into())
    }

    /// Checks that the plugin takes the settings.
    pub fn check_settings(&self, plugin: &Plugin<Component>) -> Result<(), CallError> {
        let schema = plugin.descriptor.config_schema.as_deref();
        match (schema, self.config.is_empty()) {
            (None, true) => Ok(()),
            (None, false) => Err(invalid(
                "",
                format!("the plugin `{}` has no settings", plugin.descriptor.namespace),
                "leave `config` out",
            )),
            (Some(schema), _) => check_schema(schema, &self.config),
        }
    }
}

impl Acceptance {
    /// Accepts a plugin as it is now.
    pub fn of(plugin: &Plugin<Component>, by: &str, at_ms: u64) -> Self {
        let digest = plugin.digest.to_string();
        Self { by: by.to_owned(), at_ms, digest, plugin: AcceptedPlugin::of(plugin) }
    }

    /// The view of it.
    pub fn view(&self) -> AcceptanceView {
        AcceptanceView {
            by: self.by.clone(),
            at_ms: self.at_ms,
            digest: self.digest.clone(),
            publisher: self.plugin.publisher.clone(),
            permissions: permissions_in_words(&self.plugin.capabilities),
        }
    }
}

/// Parses a request, and applies it to what was stored.
///
/// # Errors
///
/// `INVALID_POLICY` for settings that the plugin does not take or that hold a secret, `CONFLICT` for consent to another version.
pub fn apply(
    text: &str,
    before: Option<&StoredEnabled>,
    plugin: &Plugin<Component>,
    (by, now_ms): (&str, u64),
) -> Result<StoredEnabled, CallError> {
    let request: EnabledDocument =
        read_document(text).map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
    let accepted = match &request.consent {
        None => before.and_then(|before| before.accepted.clone()),
        Some(consent) if consent.digest != plugin.digest.as_str() => {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("the consent is to another version of the plugin `{}`", plugin.descriptor.namespace),
                "read again what the present version may reach, and accept that",
            ));
        }
        Some(consent) => consent.accept.then(|| Acceptance::of(plugin, by, now_ms)),
    };
    let enabled = StoredEnabled { config: request.config, accepted };
    let bytes = Value::Object(enabled.config.clone()).to_string().len();
    if bytes > SETTINGS_BYTES {
        let message = format!("the settings have {bytes} bytes, and may have {SETTINGS_BYTES}");
        return Err(invalid("", message, "leave some out"));
    }
    refuse_secrets(plugin, &enabled.config)?;
    enabled.check_settings(plugin)?;
    Ok(enabled)
}

fn check_schema(schema: &Schema, config: &Map<String, Value>) -> Result<(), CallError> {
    schema.validate(&Value::Object(config.clone())).map_err(|violations| {
        let first = violations.first();
        let message = first.map_or("the settings are not valid", |violation| violation.sentence());
        let place = first.map_or("", |violation| violation.pointer.as_str());
        invalid(place, format!("{message} in the settings"), "compare them with the plugin's `config_schema`")
    })
}

/// Refuses values that are secret by their schema, their name or their look: settings are stored in plain text.
fn refuse_secrets(plugin: &Plugin<Component>, config: &Map<String, Value>) -> Result<(), CallError> {
    let nothing = Value::Bool(true);
    let root = plugin.descriptor.config_schema.as_ref().map_or(&nothing, |schema| schema.source());
    match (Search { root }).first_secret(config) {
        None => Ok(()),
        Some(place) => Err(invalid(
            &place,
            "this is a secret, and settings are stored in plain text".to_owned(),
            "keep secrets as credentials: `toolgate credential put`",
        )),
    }
}

/// Searches settings for secrets, along their schema.
struct Search<'a> {
    root: &'a Value,
}

impl<'a> Search<'a> {
    /// The place of the first secret in settings.
    fn first_secret(&self, config: &Map<String, Value>) -> Option<String> {
        config.iter().find_map(|(name, value)| {
            self.secret(name, value, &self.of_member(self.root, name), pointer("", name))
        })
    }

    /// The place of the first secret in a value at `place`, to which the schemas apply. An item of a list has its name.
    fn secret(&self, name: &str, value: &Value, schemas: &[&'a Value], place: String) -> Option<String> {
        let is_marked = schemas.iter().any(|schema| is_secret_schema(schema)) && !value.is_null();
        match value {
            _ if is_marked => Some(place),
            Value::String(text) => {
                let is_secret = !text.is_empty() && has_secret_name(name) || looks_like_key(text);
                is_secret.then_some(place)
            }
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let below: Vec<_> = schemas.iter().flat_map(|schema| self.of_member(schema, name)).collect();
                self.secret(name, value, &below, pointer(&place, name))
            }),
            Value::Array(items) => {
                let below = schemas.iter().filter_map(|schema| schema.get("items"));
                let below: Vec<_> = below.flat_map(|items| self.all_of(items)).collect();
                let mut items = items.iter().enumerate();
                items.find_map(|(at, item)| self.secret(name, item, &below, pointer(&place, &at.to_string())))
            }
            _ => None,
        }
    }

    /// The schemas that apply to a member of an object.
    fn of_member(&self, schema: &'a Value, name: &str) -> Vec<&'a Value> {
        let mut found = Vec::new();
        for schema in self.all_of(schema) {
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            found.extend(named.or_else(|| schema.get("additionalProperties")));
        }
        found.into_iter().flat_map(|schema| self.all_of(schema)).collect()
    }

    /// The schema with all schemas that can apply at the same place.
    fn all_of(&self, schema: &'a Value) -> Vec<&'a Value> {
        let mut found = Vec::new();
        self.collect(schema, SCHEMA_LEVELS, &mut found);
        found
    }

    fn collect(&self, schema: &'a Value, levels: u32, found: &mut Vec<&'a Value>) {
        let Some(below) = levels.checked_sub(1) else { return };
        found.push(schema);
        let referenced = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        if let Some(place) = referenced.and_then(|place| self.root.pointer(place)) {
            self.collect(place, below, found);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let alternatives = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            alternatives.for_each(|alternative| self.collect(alternative, below, found));
        }
    }
}

fn is_secret_schema(schema: &Value) -> bool {
    schema.get("writeOnly").and_then(Value::as_bool) == Some(true)
        || schema.get("format").and_then(Value::as_str) == Some("password")
}

fn has_secret_name(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| letters.contains(secret))
}

fn looks_like_key(text: &str) -> bool {
    text.len() >= KEY_BYTES
        && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && (text.starts_with('-') || !text.contains(char::is_whitespace))
}

fn invalid(place: &str, message: String, hint: &str) -> CallError {
    CallError::new(ErrorType::InvalidPolicy, message, hint).with_pointer(format!("/config{place}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret_place(schema: &Value, config: &Value) -> Option<String> {
        (Search { root: schema }).first_secret(config.as_object().unwrap())
    }

    #[test]
    fn c5_a_secret_is_found_by_its_schema_its_name_or_its_look() {
        let schema = json!({
            "properties": {
                "pin": {"type": "string", "format": "password"},
                "account": {"$ref": "#/$defs/account"},
                "codes": {"items": {"type": "string", "writeOnly": true}},
            },
            "$defs": {"account": {"properties": {"code": {"writeOnly": true}, "name": {"type": "string"}}}},
        });
        for (config, place) in [
            (json!({"pin": "1234"}), "/pin"),
            (json!({"account": {"name": "a", "code": 5}}), "/account/code"),
            (json!({"codes": ["a"]}), "/codes/0"),
            (json!({"client_secret": "x"}), "/client_secret"),
            (json!({"list": [{"api-key": "x"}]}), "/list/0/api-key"),
            (json!({"note": "sk-0123456789abcdef"}), "/note"),
            (json!({"note": "-----BEGIN PRIVATE KEY-----\nMII"}), "/note"),
        ] {
            assert_eq!(secret_place(&schema, &config).as_deref(), Some(place), "{config}");
        }
    }

    #[test]
    fn c5_other_settings_are_no_secrets() {
        let schema = json!({"properties": {"pin": {"format": "password"}}});
        for config in [
            json!({"pin": null}),
            json!({"region": "eu-central-1", "retries": 3, "nested": {"keywords": ["sk-ip", "eyJ"]}}),
            json!({"secret": ""}),
            json!({"greeting": "sk-type words with spaces in them"}),
        ] {
            assert_eq!(secret_place(&schema, &config), None, "{config}");
        }
    }

    #[test]
    fn a_stored_document_reads_as_it_was_written() {
        let plugin = AcceptedPlugin { capabilities: Default::default(), publisher: Some("Ada".to_owned()) };
        let accepted = Acceptance { by: "t".to_owned(), at_ms: 5, digest: "sha256:0".to_owned(), plugin };
        let config = json!({"region": "eu", "ratio": 0.5}).as_object().unwrap().clone();
        let stored = StoredEnabled { config, accepted: Some(accepted) };
        assert_eq!(StoredEnabled::parse(&stored.text()).unwrap(), stored);
        assert!(StoredEnabled::parse(r#"{"other":1}"#).is_err());
    }
}
