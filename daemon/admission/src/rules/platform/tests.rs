//! Tests of the platform's policy: errors beside valid policies, and warnings.

use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::{Intent, ServerBinding};

use super::*;
use crate::check::tests::plugin;

fn catalogue() -> Catalogue<&'static str> {
    Catalogue::new(LimitsPatch::new(), vec![plugin("crm", &["delete", "search"])])
}

#[track_caller]
fn assert_error(text: &str, place: &str, words: &str) {
    let error = parse_platform(text).expect_err(text);
    assert_eq!(error.place, place, "{error}");
    assert!(format!("{error}; {}", error.hint).contains(words), "{error}; {}", error.hint);
}

#[test]
fn a_policy_with_every_field_is_parsed() {
    let document = parse_platform(
        r#"{"allowed":"*","blocked":[],"universal":["crm/search"],"profiles":{"support":["crm/*"]},
            "subtypes":{"customer_support":"support"},"channels":{"sms":{"blocked":["crm/delete"]},"webchat":{}},
            "integrations":{"crm/delete":"stripe"},"intents":{"contacts":{"patterns":["who is"],"tools":["crm/*"]}},
            "limits":{"fuel":1000000000},"server_binding":"optional"}"#,
    )
    .unwrap();
    assert_eq!(platform_warnings(&document, &catalogue()), []);
    assert_eq!(document.server_binding, ServerBinding::Optional);
    assert_eq!(document.channels.len(), 2);
    let Intent { patterns, tools } = &document.intents["contacts"];
    assert_eq!((patterns.as_slice(), tools.patterns().len()), (["who is".to_owned()].as_slice(), 1));
    assert_eq!(parse_platform("{}").unwrap(), PlatformDocument::default());
    assert_eq!(parse_platform(r#"{"allowed":null,"channels":null}"#).unwrap(), PlatformDocument::default());
}

#[test]
fn an_invalid_policy_is_refused_with_its_place_and_the_nearest_name() {
    assert_error(r#"{"blocekd":[]}"#, "/blocekd", "did you mean `blocked`?");
    assert_error(r#"{"server_binding":"requierd"}"#, "/server_binding", "did you mean `required`?");
    assert_error(r#"{"subtypes":{"helper":"desk"}}"#, "/subtypes/helper", "no profile is defined");
    assert_error(
        r#"{"profiles":{"desk":[]},"subtypes":{"helper":"dask"}}"#,
        "/subtypes/helper",
        "did you mean `desk`?",
    );
    assert_error(r#"{"profiles":{"No Name":[]}}"#, "/profiles/No Name", "not a name");
    assert_error(r#"{"profiles":{"a":["crm"]}}"#, "/profiles/a/0", "namespace/tool");
    assert_error(
        r#"{"integrations":{"crm/delete":["stripe"]}}"#,
        "/integrations/crm~1delete",
        "write a string",
    );
    assert_error(r#"{"channels":{"sms":["crm/*"]}}"#, "/channels/sms", "write an object");
    assert_error(
        r#"{"intents":{"pay":{"patterns":[],"tool":[]}}}"#,
        "/intents/pay/tool",
        "did you mean `tools`?",
    );
}

#[test]
fn an_entry_without_effect_causes_a_warning() {
    let codes = |text: &str| -> Vec<_> {
        let warnings = platform_warnings(&parse_platform(text).unwrap(), &catalogue());
        warnings.into_iter().map(|warning| (warning.code, warning.path)).collect()
    };
    assert_eq!(
        codes(r#"{"universal":["crm/search"],"allowed":["crm/delete"]}"#),
        [("NO_EFFECT", "/universal/0".to_owned())]
    );
    assert_eq!(
        codes(r#"{"blocked":["crm/x"],"profiles":{"desk":["x/*"]}}"#),
        [("UNRESOLVED_TOOL", "/blocked/0".to_owned()), ("UNRESOLVED_TOOL", "/profiles/desk/0".to_owned())]
    );
}
