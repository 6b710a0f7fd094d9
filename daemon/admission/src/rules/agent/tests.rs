//! Documents that are refused, each beside one that is taken, and what the taken ones warn of.

use super::*;
use crate::check::tests::plugin;
use crate::error::{CallError, ErrorType};
use crate::limits::LimitName;

fn catalogue() -> Catalogue<&'static str> {
    Catalogue::new(LimitsPatch::new(), vec![plugin("crm", &["delete", "search"]), plugin("files", &["read"])])
}

fn document(text: &str) -> AgentDocument {
    AgentDocument::parse(text).expect(text)
}

#[track_caller]
fn refused(text: &str, place: &str, words: &str) {
    let error = AgentDocument::parse(text).expect_err(text);
    assert_eq!(error.place, place, "{error}");
    assert!(format!("{error}; {}", error.hint).contains(words), "{error}; {}", error.hint);
    assert_eq!(CallError::from(error).error_type, ErrorType::InvalidPolicy);
}

#[test]
fn a_whole_document_is_read_and_written_as_it_was() {
    let text = r#"{"name":"TVL Analyzer","enabled":["crm/*"],"disabled":["crm/delete"],"server":"crm","require_approval_for":["crm/search"],"limits":{"deadline_ms":5000}}"#;
    let read = document(text);
    assert_eq!(read.limits.get(LimitName::DeadlineMs), Some(5_000));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(serde_json::from_str::<AgentDocument>(text).unwrap(), read);
}

#[test]
fn absent_and_null_are_the_same() {
    assert_eq!(document(r#"{"enabled":null,"limits":null,"server":null}"#), document("{}"));
}

#[test]
fn an_unknown_field_is_refused_with_the_nearest() {
    refused(r#"{"enabeld":[]}"#, "/enabeld", "did you mean `enabled`?");
    refused(r#"{"zzz":1}"#, "/zzz", "has `name`, `enabled`");
    assert!(serde_json::from_str::<AgentDocument>(r#"{"enabeld":[]}"#).is_err());
    document(r#"{"enabled":[]}"#);
}

/// Requirements 9.9.
#[test]
fn a_rule_that_nothing_enforces_yet_is_refused() {
    for field in FIELDS.to_come {
        refused(&format!("{{\"{field}\":\"supervised\"}}"), &format!("/{field}"), "nothing enforces");
        assert!(serde_json::from_str::<AgentDocument>(&format!("{{\"{field}\":\"x\"}}")).is_err());
    }
}

#[test]
fn what_is_no_document_is_refused() {
    refused("[]", "", "not an object");
    refused("{", "", "malformed");
    refused(r#"{"enabled":[],"enabled":"*"}"#, "/enabled", "duplicate");
    refused(r#"{"enabled":"crm"}"#, "/enabled", "namespace/tool");
    refused(r#"{"enabled":["call_crm_search"]}"#, "/enabled", "write `crm/search`");
    refused(r#"{"limits":{"feul":1}}"#, "/limits", "did you mean `fuel`?");
    refused(r#"{"name":""}"#, "/name", "empty");
    refused("{\"name\":\"a\u{202e}\"}", "/name", "hidden");
    refused(r#"{"server":"CRM"}"#, "/server", "not a namespace");
}

/// G5: a list that names another server is refused when it is written.
#[test]
fn a_list_of_a_bound_agent_names_only_its_server() {
    refused(
        r#"{"server":"crm","enabled":["crm/*","files/read"]}"#,
        "/enabled/1",
        "bound to the server `crm`",
    );
    refused(r#"{"server":"crm","require_approval_for":["files/*"]}"#, "/require_approval_for/0", "bound");
    document(r#"{"server":"crm","enabled":["crm/*"],"disabled":["files/read"]}"#);
    document(r#"{"server":"crm","enabled":"*"}"#);
}

#[test]
fn a_tool_that_is_not_loaded_is_warned_of_with_the_nearest() {
    let warnings =
        document(r#"{"enabled":["crm/serach","crm/search"],"disabled":["fils/*"]}"#).warnings(&catalogue());
    let told: Vec<_> = warnings
        .iter()
        .map(|warning| (warning.code, warning.path.as_str(), warning.nearest.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("UNRESOLVED_TOOL", "/enabled/0", Some("crm/search")),
            ("UNRESOLVED_TOOL", "/disabled/0", Some("files/*"))
        ]
    );
}

#[test]
fn a_document_without_oddities_has_no_warnings() {
    assert_eq!(document(r#"{"enabled":"*","server":"crm","limits":{"fuel":1}}"#).warnings(&catalogue()), []);
}

#[test]
fn an_agent_left_with_nothing_is_warned_of() {
    for text in ["{}", r#"{"enabled":[]}"#, r#"{"enabled":["crm/search"],"disabled":["crm/*"]}"#] {
        let codes: Vec<_> =
            document(text).warnings(&catalogue()).iter().map(|warning| warning.code).collect();
        assert_eq!(codes, ["NO_TOOLS"], "{text}");
    }
}

#[test]
fn a_server_that_is_not_loaded_and_a_limit_above_its_ceiling_are_warned_of() {
    let text = format!(r#"{{"enabled":"*","server":"crn","limits":{{"fuel":{}}}}}"#, u64::MAX);
    let warnings = document(&text).warnings(&catalogue());
    let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["UNRESOLVED_SERVER", "LIMIT_WITHOUT_EFFECT", "NO_TOOLS"]);
    assert_eq!(warnings[0].nearest.as_deref(), Some("crm"));
}
