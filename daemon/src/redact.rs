//! Arguments as logs may show them: what a tool declared secret is replaced before anything is written.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

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

#[cfg(test)]
mod tests {
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
    fn what_is_not_json_is_not_recorded() {
        assert!(redacted("{broken", &[]).is_none());
        assert!(redacted("{broken", &["/a".to_owned()]).is_none());
    }
}
