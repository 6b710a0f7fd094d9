//! The settings (C5) and the consent (C6) of an organization for a plugin, as they are stored and checked.
//!
//! The stored document holds what the consent accepted, so that a later version is compared with that and not with a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_admission::{AcceptedPlugin, Descriptor, Plugin, Schema, permissions_in_words};
use toolgate_api::catalogue::{AcceptanceView, EnabledDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::read::{ReadError, read_document};
use toolgate_sandbox::Component;

use crate::redact::{find_secret, is_empty};

/// Longest settings, as JSON text: they are held in memory and copied into each call.
const SETTINGS_BYTES: usize = 64 * 1024;

/// The stored form of an organization's settings and consent.
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
    /// The plugin as it was accepted.
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
    // Before the check of the schema, whose refusal quotes values.
    refuse_secrets(&plugin.descriptor, &enabled.config)?;
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
fn refuse_secrets(descriptor: &Descriptor, config: &Map<String, Value>) -> Result<(), CallError> {
    match secret_place(descriptor, &Value::Object(config.clone())) {
        None => Ok(()),
        Some(place) => Err(invalid(
            &place,
            "this is a secret, and settings are stored in plain text".to_owned(),
            "keep secrets as credentials: `toolgate credential put`",
        )),
    }
}

fn secret_place(descriptor: &Descriptor, config: &Value) -> Option<String> {
    let is_set = |place: &&String| config.pointer(place).is_some_and(|value| !is_empty(value));
    descriptor.config_secrets.iter().find(is_set).cloned().or_else(|| find_secret(config, ""))
}

fn invalid(place: &str, message: String, hint: &str) -> CallError {
    CallError::new(ErrorType::InvalidPolicy, message, hint).with_pointer(format!("/config{place}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret_place(schema: &Value, config: &Value) -> Option<String> {
        let tool =
            json!({"name": "t", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
        let plugin = json!({"name": "mail", "version": "1.0.0", "config_schema": schema, "tools": [tool]});
        super::secret_place(&Descriptor::parse(&plugin.to_string()).unwrap(), config)
    }

    #[test]
    fn c5_a_secret_is_found_by_its_schema_its_name_or_its_look() {
        let schema = json!({
            "properties": {
                "pin": {"type": "string", "format": "password"},
                "account": {"$ref": "#/$defs/account"},
                "codes": {"items": {"type": "string", "writeOnly": true}},
                "keys": {"patternProperties": {"^k": {"x-toolgate-redact": true}}},
                "choice": {"if": {"type": "string"}, "then": {"writeOnly": true}},
            },
            "$defs": {"account": {"properties": {"code": {"writeOnly": true}, "name": {"type": "string"}}}},
        });
        for (config, place) in [
            (json!({"pin": "1234"}), "/pin"),
            (json!({"account": {"name": "a", "code": 5}}), "/account/code"),
            (json!({"codes": ["a"]}), "/codes"),
            (json!({"keys": {"k1": "a"}}), "/keys"),
            (json!({"choice": "a"}), "/choice"),
            (json!({"client_secret": "x"}), "/client_secret"),
            (json!({"list": [{"api-key": "x"}]}), "/list/0/api-key"),
            (json!({"a/b": {"bot_token": "x"}}), "/a~1b/bot_token"),
            (json!({"headers": {"Authorization": "x"}}), "/headers/Authorization"),
            (json!({"passphrase": 1234}), "/passphrase"),
            (json!({"note": "sk-0123456789abcdef"}), "/note"),
            (json!({"note": ["Bearer 0123456789abcdef"]}), "/note/0"),
            (json!({"note": "-----BEGIN PRIVATE KEY-----\nMII"}), "/note"),
        ] {
            assert_eq!(secret_place(&schema, &config).as_deref(), Some(place), "{config}");
        }
    }

    #[test]
    fn c5_other_settings_are_no_secrets() {
        let schema = json!({"properties": {"pin": {"format": "password"}}});
        for config in [
            json!({}),
            json!({"pin": null}),
            json!({"region": "eu-central-1", "retries": 3, "nested": {"keywords": ["sk-ip", "eyJ"]}}),
            json!({"secret": "", "credentials": [], "has_token": true}),
            json!({"greeting": "sk-type words with spaces in them"}),
        ] {
            assert_eq!(secret_place(&schema, &config), None, "{config}");
        }
    }

    #[test]
    fn c5_secrets_are_found_below_a_schema_that_refers_to_itself() {
        let schema = json!({"properties": {"a": {"$ref": "#"}, "pin": {"writeOnly": true}}});
        let mut config = json!({"token": "x"});
        for _ in 0..20 {
            config = json!({"a": config});
        }
        assert_eq!(secret_place(&schema, &config), Some(format!("{}/token", "/a".repeat(20))));
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
