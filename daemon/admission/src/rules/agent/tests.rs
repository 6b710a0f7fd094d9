//! Tests of agents' documents: errors beside valid documents, and warnings.

use toolgate_api::limits::LimitName;
use toolgate_api::name::Name;
use toolgate_api::policy::{OrgDocument, PlatformDocument};

use super::*;
use crate::check::tests::plugin;

/// The rules of the layers above: `crm` and `files` are loaded, and the organization has every tool.
fn above() -> Rules<&'static str> {
    let plugins = vec![plugin("crm", &["delete", "search"]), plugin("files", &["read"])];
    Rules::allow_all(Arc::new(Catalogue::new(LimitsPatch::new(), plugins)))
}

fn document(text: &str) -> AgentDocument {
    AgentDocument::parse(text).expect(text)
}

#[track_caller]
fn assert_error(text: &str, place: &str, words: &str) {
    let error = AgentDocument::parse(text).expect_err(text);
    assert_eq!(error.place, place, "{error}");
    assert!(format!("{error}; {}", error.hint).contains(words), "{error}; {}", error.hint);
}

#[test]
fn a_document_with_every_field_is_parsed() {
    let read = document(
        r#"{"name":"TVL Analyzer","enabled":["crm/*"],"disabled":["crm/delete"],"server":"crm","profile":"desk",
            "subtype":"helper","autonomy":"draft_only","require_approval_for":["crm/search"],
            "limits":{"deadline_ms":5000},"quotas":[],"network":[]}"#,
    );
    assert_eq!(read.limits.get(LimitName::DeadlineMs), Some(5_000));
    assert_eq!(read.autonomy, Autonomy::DraftOnly);
    assert_eq!(read.profile.as_ref().map(Name::as_str), Some("desk"));
}

#[test]
fn absent_and_null_are_the_same() {
    let nulls = r#"{"enabled":null,"limits":null,"server":null,"autonomy":null,"profile":null}"#;
    assert_eq!(document(nulls), document("{}"));
    assert_eq!(document("{}").autonomy, Autonomy::Supervised);
}

#[test]
fn an_unknown_field_is_refused_with_the_nearest() {
    assert_error(r#"{"enabeld":[]}"#, "/enabeld", "did you mean `enabled`?");
    assert_error(r#"{"zzz":1}"#, "/zzz", "known fields are `name`, `enabled`");
    document(r#"{"enabled":[]}"#);
}

#[test]
fn an_unknown_word_is_refused_with_the_nearest() {
    assert_error(r#"{"autonomy":"superviced"}"#, "/autonomy", "did you mean `supervised`?");
    assert_error(r#"{"autonomy":1}"#, "/autonomy", "write a string");
    document(r#"{"autonomy":"autonomous"}"#);
}

/// G9: an undefined profile or subtype.
#[test]
fn an_undefined_profile_or_subtype_is_refused() {
    let platform = PlatformDocument::parse(
        r#"{"profiles":{"support":["crm/*"]},"subtypes":{"customer_support":"support"}}"#,
    )
    .unwrap();
    let organization = OrgDocument::parse(r#"{"profiles":{"desk":["crm/*"]}}"#).unwrap();
    for (text, place, words) in [
        (r#"{"profile":"suport"}"#, "/profile", "did you mean `support`?"),
        (r#"{"profile":"dask"}"#, "/profile", "did you mean `desk`?"),
        (r#"{"subtype":"customer-support"}"#, "/subtype", "did you mean `customer_support`?"),
        (r#"{"subtype":"support"}"#, "/subtype", "defined are `customer_support`"),
    ] {
        let error = document(text).check(&platform, &organization).expect_err(text);
        assert_eq!(error.place, place);
        assert!(error.hint.contains(words), "{error}; {}", error.hint);
    }
    for text in
        [r#"{"profile":"support"}"#, r#"{"profile":"desk"}"#, r#"{"subtype":"customer_support"}"#, "{}"]
    {
        document(text).check(&platform, &organization).expect(text);
    }
}

/// G5: the platform can demand a binding.
#[test]
fn an_agent_without_a_server_is_refused_where_the_platform_demands_one() {
    let platform = PlatformDocument::parse(r#"{"server_binding":"required"}"#).unwrap();
    let check = |text| document(text).check(&platform, &OrgDocument::default());
    assert_eq!(check("{}").unwrap_err().place, "/server");
    check(r#"{"server":"crm"}"#).unwrap();
}

#[test]
fn an_invalid_document_is_refused() {
    assert_error("[]", "", "write an object");
    assert_error("{", "", "malformed");
    assert_error(r#"{"enabled":[],"enabled":"*"}"#, "/enabled", "duplicate");
    assert_error(r#"{"enabled":"crm"}"#, "/enabled", "namespace/tool");
    assert_error(r#"{"enabled":["call_crm_search"]}"#, "/enabled/0", "write `crm/search`");
    assert_error(r#"{"enabled":["crm/*",7]}"#, "/enabled/1", "write a string");
    assert_error(r#"{"limits":{"feul":1}}"#, "/limits/feul", "did you mean `fuel`?");
    assert_error(r#"{"limits":{"fuel":"1"}}"#, "/limits/fuel", "whole number");
    assert_error(r#"{"limits":{"fuel":-1}}"#, "/limits/fuel", "whole number");
    assert_error(r#"{"limits":[]}"#, "/limits", "write an object of limits");
    assert_eq!(document(r#"{"limits":{"fuel":null}}"#), document("{}"));
    assert_error(r#"{"name":""}"#, "/name", "empty");
    assert_error("{\"name\":\"a\u{202e}\"}", "/name", "hidden");
    assert_error(r#"{"server":"CRM"}"#, "/server", "not a namespace");
}

/// G5: a list that names another server is refused when it is written.
#[test]
fn a_list_of_a_bound_agent_names_only_its_server() {
    assert_error(
        r#"{"server":"crm","enabled":["crm/*","files/read"]}"#,
        "/enabled/1",
        "bound to the server `crm`",
    );
    assert_error(
        r#"{"server":"crm","require_approval_for":["files/*"]}"#,
        "/require_approval_for/0",
        "bound",
    );
    document(r#"{"server":"crm","enabled":["crm/*"],"disabled":["files/read"]}"#);
    document(r#"{"server":"crm","enabled":"*"}"#);
}

#[test]
fn a_tool_that_is_not_loaded_is_warned_of_with_the_nearest() {
    let warnings = agent_warnings(
        &document(r#"{"enabled":["crm/serach","crm/search"],"disabled":["fils/*"]}"#),
        &above(),
    );
    let found: Vec<_> = warnings
        .iter()
        .map(|warning| (warning.code, warning.path.as_str(), warning.nearest.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("UNRESOLVED_TOOL", "/enabled/0", Some("crm/search")),
            ("UNRESOLVED_TOOL", "/disabled/0", Some("files/*"))
        ]
    );
}

#[test]
fn a_correct_document_has_no_warnings() {
    assert_eq!(
        agent_warnings(&document(r#"{"enabled":"*","server":"crm","limits":{"fuel":1}}"#), &above()),
        []
    );
}

#[test]
fn a_server_that_is_not_loaded_and_a_limit_above_its_ceiling_are_warned_of() {
    let text = format!(r#"{{"enabled":"*","server":"crn","limits":{{"fuel":{}}}}}"#, u64::MAX);
    let warnings = agent_warnings(&document(&text), &above());
    let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["UNRESOLVED_SERVER", "LIMIT_WITHOUT_EFFECT"]);
    let of_limits = |limits: &str| {
        let agent = document(&format!(r#"{{"enabled":"*","limits":{limits}}}"#));
        agent_warnings(&agent, &above())
            .iter()
            .map(|warning| (warning.code, warning.path.clone()))
            .collect::<Vec<_>>()
    };
    let fuel = above().catalogue.platform_limits().fuel;
    assert_eq!(of_limits(&format!(r#"{{"fuel":{fuel},"requests":0}}"#)), []);
    let more = of_limits(&format!(r#"{{"fuel":{}}}"#, fuel + 1));
    assert_eq!(more, [("LIMIT_WITHOUT_EFFECT", "/limits/fuel".to_owned())], "below the ceiling");
    assert_eq!(of_limits(r#"{"deadline_ms":0}"#), [("NOTHING_RUNS", "/limits/deadline_ms".to_owned())]);
    assert_eq!(warnings[0].nearest.as_deref(), Some("crm"));
}
