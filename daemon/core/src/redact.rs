//! Redaction: replaces secrets before anything is recorded: the arguments that a tool declares secret, by pointers or in its
//! schema (`toolgate_admission`), and what looks like a secret by its name or form (`secrets.rs`).

mod secrets;

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_api::json::PlainValue;
use toolgate_sandbox::Effect;

pub use secrets::{find_secret, is_empty};
use secrets::{may_have_secret, redact_text, redact_value};

/// Replaces a secret.
const REDACTED: &str = "[redacted]";

/// The secret parts of the arguments of a tool.
#[derive(Clone, Copy, Default)]
pub struct Secrets<'a> {
    /// JSON pointers (RFC 6901) to the arguments that the tool declares secret.
    pub pointers: &'a [String],
    /// E-mail addresses are secret, as a policy says.
    pub emails: bool,
}

/// Replaces the secrets. Without any, the bytes stay the same. Returns `None` for invalid JSON.
pub fn redact<'a>(arguments: &'a str, secrets: Secrets<'_>) -> Option<Cow<'a, RawValue>> {
    if secrets.pointers.is_empty() && !may_have_secret(arguments, secrets.emails) {
        return serde_json::from_str::<&RawValue>(arguments).ok().map(Cow::Borrowed);
    }
    let PlainValue(mut value) = serde_json::from_str(arguments).ok()?;
    let mut is_redacted = false;
    for pointer in secrets.pointers {
        if let Some(secret) = value.pointer_mut(pointer) {
            *secret = Value::String(REDACTED.to_owned());
            is_redacted = true;
        }
    }
    is_redacted |= redact_value(&mut value, secrets.emails);
    if !is_redacted {
        return serde_json::from_str::<&RawValue>(arguments).ok().map(Cow::Borrowed);
    }
    serde_json::value::to_raw_value(&value).ok().map(Cow::Owned)
}

/// Redacts the arguments of a refused call, which are not validated: a secret may be where no pointer leads, such as under
/// a misspelt name, one level up, or as the whole arguments. Keeps only the members that the root of `schema` names and
/// no pointer starts with.
pub fn redact_unvalidated<'a>(
    arguments: &'a str,
    secrets: Secrets<'_>,
    schema: &Value,
) -> Option<Cow<'a, RawValue>> {
    if secrets.pointers.is_empty() {
        return redact(arguments, secrets);
    }
    let PlainValue(Value::Object(mut members)) = serde_json::from_str(arguments).ok()? else { return None };
    let named = schema.get("properties").and_then(Value::as_object);
    members.retain(|name, _| named.is_some_and(|named| named.contains_key(name)));
    for pointer in secrets.pointers {
        // An empty pointer makes the root secret.
        let first = pointer.strip_prefix('/')?.split('/').next()?;
        if let Some(secret) = members.get_mut(&first.replace("~1", "/").replace("~0", "~")) {
            *secret = Value::String(REDACTED.to_owned());
        }
    }
    let mut value = Value::Object(members);
    redact_value(&mut value, secrets.emails);
    serde_json::value::to_raw_value(&value).ok().map(Cow::Owned)
}

/// The texts and numbers at `pointers`, and the segments of texts with slashes, as they can occur in a URL or file path.
pub fn secret_words(arguments: &str, pointers: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    if pointers.is_empty() {
        return found;
    }
    if let Ok(PlainValue(value)) = serde_json::from_str(arguments) {
        let secrets = pointers.iter().filter_map(|pointer| value.pointer(pointer));
        secrets.for_each(|secret| collect_words(secret, &mut found));
    }
    found
}

fn collect_words(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.push(text.clone());
            found.extend(text.split('/').filter(|part| part.len() < text.len()).map(str::to_owned));
        }
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, found)),
        Value::Object(members) => members.values().for_each(|member| collect_words(member, found)),
        Value::Null | Value::Bool(_) => {}
    }
    found.retain(|word| !word.is_empty());
}

/// Shortest secret that is searched inside a path segment. A shorter one must be the whole segment, since it occurs in
/// many words.
const INSIDE_BYTES: usize = 4;

/// Returns the detail of an effect for the audit log, with the path segments that contain a secret replaced, and what looks
/// like one.
pub fn redact_effect<'a>(effect: &'a Effect, secret_words: &[String], emails: bool) -> Cow<'a, str> {
    match redact_words(effect, secret_words) {
        Cow::Borrowed(detail) => redact_text(detail, emails),
        Cow::Owned(detail) => Cow::Owned(redact_text(&detail, emails).into_owned()),
    }
}

fn redact_words<'a>(effect: &'a Effect, secret_words: &[String]) -> Cow<'a, str> {
    if secret_words.is_empty() {
        return Cow::Borrowed(&effect.detail);
    }
    let (path, how) = effect.parts();
    let mask = |part: &'a str| {
        let meant = percent_decode_str(part).decode_utf8_lossy();
        let holds = |secret: &String| match secret.len() < INSIDE_BYTES {
            true => meant == *secret,
            false => meant.contains(secret.as_str()),
        };
        if secret_words.iter().any(holds) { REDACTED } else { part }
    };
    let path: Vec<&str> = path.split('/').map(mask).collect();
    Cow::Owned(path.join("/") + how)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted_text(arguments: &str, pointers: &[&str]) -> String {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        redact(arguments, Secrets { pointers: &pointers, emails: false }).unwrap().get().to_owned()
    }

    #[test]
    fn o3_named_arguments_are_replaced_and_the_others_stay() {
        let arguments = r#"{"user":{"pin":1234,"name":"Ada"},"note":"x"}"#;
        assert_eq!(
            redacted_text(arguments, &["/user/pin", "/missing"]),
            r#"{"note":"x","user":{"name":"Ada","pin":"[redacted]"}}"#
        );
    }

    #[test]
    fn arguments_without_secrets_are_recorded_byte_for_byte() {
        assert_eq!(redacted_text("{\"n\": 1.50 }", &[]), "{\"n\": 1.50 }");
    }

    #[test]
    fn o3_of_refused_arguments_only_what_the_schema_names_and_no_pointer_starts_with_stays() {
        let schema = json!({"properties": {"Open": {}, "password": {}, "user": {}, "a/b": {}}});
        let pointers = ["/password", "/user/pin", "/a~1b"].map(str::to_owned);
        let redacted = |arguments: &str, schema: &Value, pointers: &[String]| {
            let secrets = Secrets { pointers, emails: false };
            redact_unvalidated(arguments, secrets, schema).map(|kept| kept.get().to_owned())
        };
        for (arguments, expected) in [
            (r#"{"Open":[1],"password":"S3CR3T"}"#, Some(r#"{"Open":[1],"password":"[redacted]"}"#)),
            (r#"{"Password":"S3CR3T","Open":[1]}"#, Some(r#"{"Open":[1]}"#)),
            (r#"{"user":"S3CR3T"}"#, Some(r#"{"user":"[redacted]"}"#)),
            (r#"{"user":{"Pin":"S3CR3T"}}"#, Some(r#"{"user":"[redacted]"}"#)),
            (r#"{"a/b":"S3CR3T"}"#, Some(r#"{"a/b":"[redacted]"}"#)),
            (r#"{"S3CR3T":1}"#, Some("{}")),
            (r#""S3CR3T""#, None),
            (r#"["S3CR3T"]"#, None),
            ("{S3CR3T", None),
        ] {
            assert_eq!(redacted(arguments, &schema, &pointers).as_deref(), expected, "{arguments}");
        }
        let spelt_otherwise = r#"{"Pin": "x"}"#;
        assert_eq!(
            redacted(spelt_otherwise, &schema, &[]).as_deref(),
            Some(spelt_otherwise),
            "nothing is secret"
        );
        assert_eq!(redacted(r#"{"Open":1}"#, &schema, &[String::new()]), None, "all of it is secret");
        assert_eq!(
            redacted(r#"{"Open":1}"#, &json!({}), &pointers).as_deref(),
            Some("{}"),
            "nothing is named"
        );
    }

    #[test]
    fn o3_a_secret_that_stands_in_a_path_is_not_in_what_is_recorded_of_it() {
        let pointers = ["/ssn".to_owned(), "/more".to_owned()];
        let secret_words = secret_words(r#"{"ssn":"Pat/4711 é","more":{"pin":12},"open":"v1"}"#, &pointers);
        let redact_effect = |kind, detail: &str, secret_words: &[String]| {
            redact_effect(&Effect { kind, detail: detail.to_owned() }, secret_words, false).into_owned()
        };
        for (kind, detail, expected) in [
            (
                "network_request",
                "GET https://a.example:12/v1/Pat%2F4711%20%C3%A9/12/x: 404, 12 bytes out",
                "GET https://a.example:12/v1/[redacted]/[redacted]/x: 404, 12 bytes out",
            ),
            ("workspace_write", "notes/4711 é.txt", "notes/[redacted]"),
            ("workspace_write", "notes: of 4711 é", "[redacted]"),
            ("file_denied", "a: 4711 é/12: outside", "[redacted]/[redacted]: outside"),
            ("network_denied", "https://a.example/v1/x12: 200", "https://a.example/v1/x12: 200"),
        ] {
            assert_eq!(redact_effect(kind, detail, &secret_words), expected);
        }
        assert_eq!(
            redact_effect("workspace_write", "a/4711", &super::secret_words("{", &pointers)),
            "a/4711"
        );
    }

    #[test]
    fn o3_what_looks_like_a_secret_is_replaced_without_a_pointer() {
        assert_eq!(
            redacted_text(r#"{"headers":{"Authorization":"x"},"note":"AKIAIOSFODNN7EXAMPLE"}"#, &[]),
            r#"{"headers":{"Authorization":"[redacted]"},"note":"[redacted]"}"#
        );
        assert_eq!(redacted_text(r#"{"p\u0061ssword":"x"}"#, &[]), r#"{"password":"[redacted]"}"#);
        let effect = Effect {
            kind: "network_request",
            detail: "GET https://a.example/sk-abcdefghijklmnop1234".to_owned(),
        };
        assert_eq!(redact_effect(&effect, &[], false), "GET https://a.example/[redacted]");
    }

    #[test]
    fn what_is_not_json_is_not_recorded() {
        assert!(redact("{broken", Secrets::default()).is_none());
        let pointers = ["/a".to_owned()];
        assert!(redact("{broken", Secrets { pointers: &pointers, emails: false }).is_none());
    }

    /// Refused arguments are parsed here first. `serde_json` would parse the text under such a key again.
    #[test]
    fn keys_of_serde_json_have_no_meaning_in_refused_arguments() {
        let arguments = r#"{"a": {"$serde_json::private::RawValue": "[\"secret\"]"}, "key": "k"}"#;
        let schema = json!({"properties": {"a": {}, "key": {}}});
        let pointers = ["/key".to_owned()];
        let redacted =
            redact_unvalidated(arguments, Secrets { pointers: &pointers, emails: false }, &schema).unwrap();
        let shown = r#"{"a":{"$serde_json::private::RawValue":"[\"secret\"]"},"key":"[redacted]"}"#;
        assert_eq!(redacted.get(), shown);
    }
}
