//! Policies of the platform: what is refused, beside what is taken, and what the taken ones warn of.

use super::*;
use crate::check::tests::plugin;

fn catalogue() -> Catalogue<&'static str> {
    Catalogue::new(LimitsPatch::new(), vec![plugin("crm", &["delete", "search"])])
}

#[track_caller]
fn refused(text: &str, place: &str, words: &str) {
    let error = PlatformDocument::parse(text).expect_err(text);
    assert_eq!(error.place, place, "{error}");
    assert!(format!("{error}; {}", error.hint).contains(words), "{error}; {}", error.hint);
}

#[test]
fn a_whole_policy_is_read() {
    let document = PlatformDocument::parse(
        r#"{"allowed":"*","blocked":[],"universal":["crm/search"],"profiles":{"support":["crm/*"]},
            "subtypes":{"customer_support":"support"},"channels":{"sms":{"blocked":["crm/delete"]},"webchat":{}},
            "integrations":{"crm/delete":"stripe"},"intents":{"contacts":{"patterns":["who is"],"tools":["crm/*"]}},
            "limits":{"fuel":1000000000},"server_binding":"optional"}"#,
    )
    .unwrap();
    assert_eq!(document.warnings(&catalogue()), []);
    assert!(!document.server_required);
    assert_eq!(document.channels.len(), 2);
    let Intent { patterns, tools } = &document.intents["contacts"];
    assert_eq!((patterns.as_slice(), tools.patterns().len()), (["who is".to_owned()].as_slice(), 1));
    assert_eq!(PlatformDocument::parse("{}").unwrap(), PlatformDocument::default());
    assert_eq!(
        PlatformDocument::parse(r#"{"allowed":null,"channels":null}"#).unwrap(),
        PlatformDocument::default()
    );
}

#[test]
fn what_is_no_policy_is_refused_with_the_place_and_the_nearest_name() {
    refused(r#"{"blocekd":[]}"#, "/blocekd", "did you mean `blocked`?");
    refused(r#"{"server_binding":"requierd"}"#, "/server_binding", "did you mean `required`?");
    refused(r#"{"subtypes":{"helper":"desk"}}"#, "/subtypes/helper", "no profile is defined");
    refused(
        r#"{"profiles":{"desk":[]},"subtypes":{"helper":"dask"}}"#,
        "/subtypes/helper",
        "did you mean `desk`?",
    );
    refused(r#"{"profiles":{"No Name":[]}}"#, "/profiles/No Name", "not a name");
    refused(r#"{"profiles":{"a":["crm"]}}"#, "/profiles/a/0", "namespace/tool");
    refused(r#"{"integrations":{"crm/delete":["stripe"]}}"#, "/integrations/crm~1delete", "not a string");
    refused(r#"{"channels":{"sms":["crm/*"]}}"#, "/channels/sms", "not an object");
    refused(r#"{"intents":{"pay":{"patterns":[],"tool":[]}}}"#, "/intents/pay/tool", "did you mean `tools`?");
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let codes = |text: &str| -> Vec<_> {
        let warnings = PlatformDocument::parse(text).unwrap().warnings(&catalogue());
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
