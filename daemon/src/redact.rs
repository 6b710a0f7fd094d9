//! Arguments as logs may show them: what a tool declared secret is replaced before anything is written.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_sandbox::Effect;

/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";

/// The arguments without what `pointers` (RFC 6901) name. The bytes themselves where nothing is named; none
/// where they are not JSON.
pub fn redacted<'a>(arguments: &'a str, pointers: &[String]) -> Option<Cow<'a, RawValue>> {
    if pointers.is_empty() {
        return serde_json::from_str::<&RawValue>(arguments).ok().map(Cow::Borrowed);
    }
    let mut value: Value = serde_json::from_str(arguments).ok()?;
    for pointer in pointers {
        if let Some(secret) = value.pointer_mut(pointer) {
            *secret = Value::String(REDACTED.to_owned());
        }
    }
    serde_json::value::to_raw_value(&value).ok().map(Cow::Owned)
}

/// The arguments of a call that was refused. Nobody checked them, so of a tool with secrets a secret may stand
/// where no pointer leads: under a name in the wrong case, one level up, as the whole of the arguments. What stays
/// are the members that the root of `schema` names and no pointer starts with.
pub fn redacted_unchecked<'a>(
    arguments: &'a str,
    pointers: &[String],
    schema: &Value,
) -> Option<Cow<'a, RawValue>> {
    if pointers.is_empty() {
        return redacted(arguments, pointers);
    }
    let mut members: Map<String, Value> = serde_json::from_str(arguments).ok()?;
    let named = schema.get("properties").and_then(Value::as_object);
    members.retain(|name, _| named.is_some_and(|named| named.contains_key(name)));
    for pointer in pointers {
        // The root itself is secret where the pointer is empty.
        let first = pointer.strip_prefix('/')?.split('/').next()?;
        if let Some(secret) = members.get_mut(&first.replace("~1", "/").replace("~0", "~")) {
            *secret = Value::String(REDACTED.to_owned());
        }
    }
    serde_json::value::to_raw_value(&members).ok().map(Cow::Owned)
}

/// What `pointers` name, as it can stand in the path of a request or a file: its words and numbers, part by part.
pub fn secrets(arguments: &str, pointers: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(value) =
        (!pointers.is_empty()).then(|| serde_json::from_str::<Value>(arguments).ok()).flatten()
    {
        pointers
            .iter()
            .filter_map(|pointer| value.pointer(pointer))
            .for_each(|value| words(value, &mut found));
    }
    found
}

fn words(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            found.push(text.clone());
            found.extend(text.split('/').filter(|part| part.len() < text.len()).map(str::to_owned));
        }
        Value::Number(number) => found.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| words(item, found)),
        Value::Object(members) => members.values().for_each(|member| words(member, found)),
        Value::Null | Value::Bool(_) => {}
    }
    found.retain(|word| !word.is_empty());
}

/// Shortest secret that is looked for inside of a part of a path. A shorter one is a part of many words.
const INSIDE_BYTES: usize = 4;

/// An effect as it is recorded: without the parts of the path it was done to that hold a secret.
pub fn without<'a>(effect: &'a Effect, secrets: &[String]) -> Cow<'a, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(&effect.detail);
    }
    let (path, how) = effect.parts();
    let shown = |part: &'a str| {
        let meant = percent_decode_str(part).decode_utf8_lossy();
        let holds = |secret: &String| match secret.len() < INSIDE_BYTES {
            true => meant == *secret,
            false => meant.contains(secret.as_str()),
        };
        if secrets.iter().any(holds) { REDACTED } else { part }
    };
    let path: Vec<&str> = path.split('/').map(shown).collect();
    Cow::Owned(path.join("/") + how)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(arguments: &str, pointers: &[&str]) -> String {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        redacted(arguments, &pointers).unwrap().get().to_owned()
    }

    #[test]
    fn o3_named_arguments_are_replaced_and_the_others_stay() {
        let arguments = r#"{"user":{"pin":1234,"name":"Ada"},"note":"x"}"#;
        assert_eq!(
            shown(arguments, &["/user/pin", "/missing"]),
            r#"{"note":"x","user":{"name":"Ada","pin":"[redacted]"}}"#
        );
    }

    #[test]
    fn arguments_without_secrets_are_recorded_byte_for_byte() {
        assert_eq!(shown("{\"n\": 1.50 }", &[]), "{\"n\": 1.50 }");
    }

    #[test]
    fn o3_of_refused_arguments_only_what_the_schema_names_and_no_pointer_starts_with_stays() {
        let schema = json!({"properties": {"Open": {}, "password": {}, "user": {}, "a/b": {}}});
        let pointers = ["/password", "/user/pin", "/a~1b"].map(str::to_owned);
        let shown = |arguments: &str, schema: &Value, pointers: &[String]| {
            redacted_unchecked(arguments, pointers, schema).map(|shown| shown.get().to_owned())
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
            assert_eq!(shown(arguments, &schema, &pointers).as_deref(), expected, "{arguments}");
        }
        let spelt_otherwise = r#"{"Password": "x"}"#;
        assert_eq!(
            shown(spelt_otherwise, &schema, &[]).as_deref(),
            Some(spelt_otherwise),
            "nothing is secret"
        );
        assert_eq!(shown(r#"{"Open":1}"#, &schema, &[String::new()]), None, "all of it is secret");
        assert_eq!(shown(r#"{"Open":1}"#, &json!({}), &pointers).as_deref(), Some("{}"), "nothing is named");
    }

    #[test]
    fn o3_a_secret_that_stands_in_a_path_is_not_in_what_is_recorded_of_it() {
        let pointers = ["/ssn".to_owned(), "/more".to_owned()];
        let secrets = secrets(r#"{"ssn":"Pat/4711 é","more":{"pin":12},"open":"v1"}"#, &pointers);
        let without = |kind, detail: &str, secrets: &[String]| {
            without(&Effect { kind, detail: detail.to_owned() }, secrets).into_owned()
        };
        for (kind, detail, shown) in [
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
            assert_eq!(without(kind, detail, &secrets), shown);
        }
        assert_eq!(without("workspace_write", "a/4711", &super::secrets("{", &pointers)), "a/4711");
    }

    #[test]
    fn what_is_not_json_is_not_recorded() {
        assert!(redacted("{broken", &[]).is_none());
        assert!(redacted("{broken", &["/a".to_owned()]).is_none());
    }
}
