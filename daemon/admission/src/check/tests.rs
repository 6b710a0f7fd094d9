//! Tests of the gate: every refusal beside a call that passes, and properties for arbitrary rules. `tests/layers.rs` tests
//! the layers together.

mod canary;
mod consent;
mod hints;
mod layers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{FilesystemAccess, Grant};
use toolgate_api::limits::{LimitName, LimitsPatch};
use toolgate_api::name::{Name, ToolId};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};

use super::*;
use crate::approval::{Approval, ApprovalBinding};
use crate::descriptor::Descriptor;
use crate::rules::{CanaryDraw, Catalogue, Digest, Plugin};
use crate::{ChargeTime, Consumer, Ledger, QuotaCounters, Rates};

/// A plugin with tools that accept any arguments.
pub(crate) fn plugin(namespace: &str, tools: &[&str]) -> Arc<Plugin<&'static str>> {
    let tools: Vec<_> = tools
        .iter()
        .map(|name| json!({"name": name, "description": "Does it.", "usage": "Use it.", "input_schema": {"type": "object"}}))
        .collect();
    plugin_from(&json!({"name": namespace, "version": "1.0.0", "tools": tools}))
}

/// Builds a plugin from a description.
pub(crate) fn plugin_from(description: &Value) -> Arc<Plugin<&'static str>> {
    let descriptor = Descriptor::parse(&description.to_string()).expect("a description");
    Arc::new(Plugin::with_trusted_hints(
        Digest::from_sha256([7; 32]),
        Arc::new(descriptor.capabilities.clone().into()),
        descriptor,
        "component",
    ))
}

/// Checks a call by an agent that may call every tool.
pub(crate) fn checked_call(
    plugin: Arc<Plugin<&'static str>>,
    tool: &str,
    arguments: &str,
) -> Checked<&'static str> {
    match check(
        &rules_of(vec![plugin], r#"{"enabled":"*"}"#),
        &SessionFacts::default(),
        call(tool, arguments),
    ) {
        Verdict::Run(checked) => checked,
        other => panic!("{other:?}"),
    }
}

/// Rules for an agent of an organization that has every tool. The agent is autonomous by default.
fn rules_of(plugins: Vec<Arc<Plugin<&'static str>>>, agent: &str) -> Rules<&'static str> {
    let catalogue = Arc::new(Catalogue::new(LimitsPatch::new(), plugins));
    let mut document: Value = serde_json::from_str(agent).expect(agent);
    document.as_object_mut().expect(agent).entry("autonomy").or_insert(json!("autonomous"));
    let agent = AgentDocument::parse(&document.to_string()).expect(agent);
    Rules::compile(catalogue, PlatformDocument::default(), OrgDocument::allow_all(), BTreeSet::new(), agent)
}

/// Rules with the plugins `crm` and `files`, and `old`, which is disabled.
fn rules(agent: &str) -> Rules<&'static str> {
    let mut old = Arc::into_inner(plugin("old", &["tool"])).expect("the only one");
    old.disabled = true;
    rules_of(
        vec![plugin("crm", &["delete", "search"]), plugin("files", &["read", "write"]), Arc::new(old)],
        agent,
    )
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { tool: tool.into(), arguments: arguments.into(), draw: CanaryDraw::SERVING }
}

fn refusal(rules: &Rules<&'static str>, facts: &SessionFacts, tool: &str) -> Refusal {
    match check(rules, facts, call(tool, "{}")) {
        Verdict::Refused(refusal) => refusal,
        other => panic!("{tool}: {other:?}"),
    }
}

fn runs(rules: &Rules<&'static str>, tool: &str) -> bool {
    matches!(check(rules, &SessionFacts::default(), call(tool, "{}")), Verdict::Run(_))
}

fn admitted_call(plugin: Arc<Plugin<&'static str>>, tool: &str) -> Admitted<&'static str> {
    let organization = Name::parse("acme").expect("a name");
    Ledger::new(Rates::UNLIMITED, QuotaCounters::default())
        .charge(Consumer::without_session(&organization), checked_call(plugin, tool, "{}"), ChargeTime::at(0))
        .expect("no bound")
}

/// A plugin `t` with one tool `t`, with these additional fields.
fn tool_with(more: &Value) -> Arc<Plugin<&'static str>> {
    let mut tool =
        json!({"name": "t", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}});
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    plugin_from(&json!({"name": "t", "version": "1", "tools": [tool]}))
}

/// G3, word for word, with the name that was called.
#[test]
fn a_tool_that_is_not_in_the_list_is_denied_and_one_that_is_runs() {
    let rules = rules(r#"{"enabled":["crm/search"]}"#);
    let refused = refusal(&rules, &SessionFacts::default(), "Call_CRM_delete");
    assert_eq!(refused.error.error_type, ErrorType::AccessDenied);
    assert_eq!(
        refused.error.message,
        "Access denied. This agent is not authorized to use the Call_CRM_delete tool."
    );
    assert_eq!(refused.reason, Reason { layer: Layer::Agent, rule: "enabled" });
    assert_eq!(refused.tool.map(|tool| tool.to_string()).as_deref(), Some("crm/delete"));
    assert!(refused.digest.is_some());
    assert!(runs(&rules, "call_crm_search"));
}

/// Requirements 9.1: an empty list and an absent list match no tool.
#[test]
fn an_agent_without_a_list_may_call_nothing() {
    for agent in ["{}", r#"{"enabled":[]}"#] {
        let rules = rules(agent);
        assert_eq!(callable(&rules, &SessionFacts::default()).count(), 0);
        assert_eq!(
            refusal(&rules, &SessionFacts::default(), "crm/search").error.error_type,
            ErrorType::AccessDenied
        );
    }
}

/// M5 and 9.8: models and the strict forms of schemas write `null` for what is not given.
#[test]
fn m5_a_null_for_an_optional_argument_is_absent_and_the_plugin_gets_what_was_validated() {
    let tool = tool_with(&json!({"input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "unset": {"type": ["string", "null"]}},
        "required": ["path"],
        "additionalProperties": false,
    }}));
    let removed: &[&str] = &["/limit"];
    for (sent, run, removed) in [
        (r#"{"path":"a", "limit":null}"#, r#"{"path":"a"}"#, removed),
        (r#"{"limit":null,"unset":null,"path":"null"}"#, r#"{"path":"null","unset":null}"#, removed),
        // Nothing to remove: byte for byte.
        (r#"{"path":"null", "limit":1.0}"#, r#"{"path":"null", "limit":1.0}"#, &[]),
        (r#"{"unset": null, "path":"a"}"#, r#"{"unset": null, "path":"a"}"#, &[]),
    ] {
        let checked = checked_call(Arc::clone(&tool), "t/t", sent);
        assert_eq!(checked.arguments().raw(), run);
        assert_eq!(checked.arguments().removed_nulls(), removed);
        assert_eq!(*checked.arguments().value(), serde_json::from_str::<Value>(run).unwrap());
    }
    for (sent, message) in [
        (r#"{"path":null,"limit":null}"#, "'path' must be a string, not null"),
        (r#"{"path":"a","limit":null,"more":null}"#, "Unknown argument 'more'"),
    ] {
        match check(
            &rules_of(vec![Arc::clone(&tool)], r#"{"enabled":"*"}"#),
            &SessionFacts::default(),
            call("t/t", sent),
        ) {
            Verdict::Refused(refusal) => {
                assert!(refusal.error.message.contains(message), "{}", refusal.error)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Requirements 9.2: denial wins.
#[test]
fn a_disabled_tool_stays_out_although_it_is_enabled() {
    let rules = rules(r#"{"enabled":"*","disabled":["crm/delete"]}"#);
    let refused = refusal(&rules, &SessionFacts::default(), "call_crm_delete");
    assert_eq!((refused.error.error_type, refused.reason.rule), (ErrorType::ToolDisabled, "disabled"));
    assert!(runs(&rules, "call_crm_search"));
}

/// G5.
#[test]
fn an_agent_bound_to_a_server_calls_no_other() {
    let rules = rules(r#"{"enabled":"*","server":"crm"}"#);
    let refused = refusal(&rules, &SessionFacts::default(), "files/read");
    assert_eq!((refused.error.error_type, refused.reason.rule), (ErrorType::AccessDenied, "server"));
    assert!(runs(&rules, "crm/search"));
}

#[test]
fn a_tool_of_a_plugin_that_is_switched_off_is_disabled() {
    let refused = refusal(&rules(r#"{"enabled":"*"}"#), &SessionFacts::default(), "old/tool");
    assert_eq!((refused.error.error_type, refused.reason.layer), (ErrorType::ToolDisabled, Layer::Platform));
}

#[test]
fn a_tool_that_the_session_switched_off_is_disabled_there() {
    let rules = rules(r#"{"enabled":"*"}"#);
    let id = ToolId::parse("crm/search").unwrap();
    let facts = SessionFacts { disabled: BTreeSet::from([id]), ..SessionFacts::default() };
    let refused = refusal(&rules, &facts, "crm/search");
    assert_eq!((refused.error.error_type, refused.reason.layer), (ErrorType::ToolDisabled, Layer::Session));
    assert!(runs(&rules, "crm/search"));
}

/// G11: the binding of an approval, and that only a matching approval lets the call run.
#[test]
fn a_call_that_needs_approval_runs_with_one_that_covers_it_and_no_other() {
    let rules = rules(r#"{"enabled":"*","require_approval_for":["crm/delete"]}"#);
    let unapproved = || match check(&rules, &SessionFacts::default(), call("crm/delete", r#"{"id": 1}"#)) {
        Verdict::NeedsApproval(unapproved) => unapproved,
        other => panic!("{other:?}"),
    };
    assert_eq!(unapproved().reason(), &Reason { layer: Layer::Agent, rule: "require_approval_for" });
    let binding = unapproved().binding();
    let approval = |binding: &ApprovalBinding| Approval { binding: binding.clone(), constraints: None };
    let checked = unapproved().approved_by(&approval(&binding)).expect("covered");
    assert_eq!(checked.arguments().raw(), r#"{"id": 1}"#);
    let others = [
        ApprovalBinding { arguments: r#"{"id":1}"#.into(), ..binding.clone() },
        ApprovalBinding { plugin: Digest::from_sha256([8; 32]), ..binding.clone() },
        ApprovalBinding { rules: "{}".to_owned(), ..binding.clone() },
        ApprovalBinding { tool: ToolId::parse("crm/search").unwrap(), ..binding.clone() },
    ];
    for other in others {
        assert!(unapproved().approved_by(&approval(&other)).is_err(), "{other:?}");
    }
    assert!(runs(&rules, "crm/search"));
}

/// The arguments that an approver is shown are those that would run.
#[test]
fn arguments_that_do_not_fit_are_refused_before_a_person_is_asked() {
    let plugin = tool_with(&json!({"input_schema": {"type": "object", "required": ["n"]}}));
    let rules = rules_of(vec![plugin], r#"{"enabled":"*","require_approval_for":"*"}"#);
    assert_eq!(
        refusal(&rules, &SessionFacts::default(), "t/t").error.error_type,
        ErrorType::InvalidArguments
    );
    let call = call("t/t", r#"{"n":1}"#);
    assert!(matches!(check(&rules, &SessionFacts::default(), call), Verdict::NeedsApproval(_)));
}

#[test]
fn a_tool_that_is_not_there_is_not_found_and_the_nearest_callable_one_is_named() {
    let rules = rules(r#"{"enabled":["crm/*"]}"#);
    for (called, hint) in [
        ("call_crm_serach", "did you mean `call_crm_search`?"),
        ("crm/serach", "did you mean `call_crm_search`?"),
        ("crm_search", "did you mean `call_crm_search`?"),
        ("crm.delete", "did you mean `call_crm_delete`?"),
        ("xyzzy", "the callable tools are `call_crm_delete`, `call_crm_search`"),
        ("call_files_raed", "the callable tools are `call_crm_delete`, `call_crm_search`"),
    ] {
        let refused = refusal(&rules, &SessionFacts::default(), called);
        assert_eq!((refused.error.error_type, refused.tool), (ErrorType::ToolNotFound, None), "{called}");
        assert_eq!(refused.error.hint, hint, "{called}");
    }
    assert_eq!(
        refusal(&self::rules("{}"), &SessionFacts::default(), "x").error.hint,
        "this agent has no callable tools"
    );
}

#[test]
fn a_name_full_of_odd_characters_is_shown_short_and_escaped() {
    let odd = format!("call_\u{202e}\n{}", "x".repeat(10_000));
    let message = refusal(&rules("{}"), &SessionFacts::default(), &odd).error.message;
    assert!(message.len() < 200 && !message.contains(['\n', '\u{202e}']), "{message}");
}

#[test]
fn when_several_rules_refuse_the_first_in_the_published_order_is_the_reason() {
    let rules = rules(r#"{"enabled":[],"disabled":"*","server":"crm"}"#);
    assert_eq!(refusal(&rules, &SessionFacts::default(), "old/tool").reason.rule, "plugin_disabled");
    assert_eq!(refusal(&rules, &SessionFacts::default(), "files/read").reason.rule, "server");
    assert_eq!(refusal(&rules, &SessionFacts::default(), "crm/search").reason.rule, "disabled");
}

#[test]
fn rules_compiled_against_another_catalogue_let_nothing_through() {
    let mut rules = rules(r#"{"enabled":"*"}"#);
    rules.catalogue = self::rules("{}").catalogue;
    let refused = refusal(&rules, &SessionFacts::default(), "crm/search");
    assert_eq!((refused.error.error_type, refused.reason.rule), (ErrorType::Unavailable, "revision"));
    assert_eq!(callable(&rules, &SessionFacts::default()).count(), 0);
}

/// R2, word for word, with the name that the model called.
#[test]
fn a_missing_argument_is_told_in_the_published_words() {
    let files = plugin_from(&json!({"name": "write", "version": "1", "tools": [{
        "name": "file", "description": "D.", "usage": "U.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    }]}));
    let rules = rules_of(vec![files], r#"{"enabled":"*"}"#);
    let refused = refusal(&rules, &SessionFacts::default(), "call_write_file").error;
    assert_eq!(refused.error_type, ErrorType::InvalidArguments);
    assert_eq!(
        refused.message,
        "Validation Error: Missing required argument 'path' for tool 'call_write_file'"
    );
    assert_eq!(refused.hint, "send an object with `path`: string (required)");
    assert_eq!(
        refused.details_json(),
        Some(json!({"violations": [{
            "pointer": "/path", "expected": "string", "found": "nothing",
            "message": "Validation Error: Missing required argument 'path' for tool 'call_write_file'",
        }]}))
    );
    assert!(matches!(
        check(&rules, &SessionFacts::default(), call("write/file", r#"{"path":"a"}"#)),
        Verdict::Run(_)
    ));
}

#[test]
fn every_refusal_of_arguments_begins_in_the_published_way() {
    let input =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    let rules = rules_of(
        vec![tool_with(&json!({"input_schema": input}))],
        r#"{"enabled":"*","limits":{"arguments_bytes":200}}"#,
    );
    for arguments in [
        "",
        "{",
        "[]",
        "null",
        "{} {}",
        r#"{"n":1,"n":2}"#,
        r#"{"n":18446744073709551616}"#,
        r#"{"n":1e999}"#,
        r#"{"n":"\ud800"}"#,
        r#"{"n":"1"}"#,
        r#"{"m":1}"#,
        &format!("{{\"n\":{}1{}}}", "[".repeat(70), "]".repeat(70)),
        &" ".repeat(300),
    ] {
        let Verdict::Refused(refused) = check(&rules, &SessionFacts::default(), call("call_t_t", arguments))
        else {
            panic!("{arguments}");
        };
        let details = refused.error.details_json();
        let CallError { error_type, message, hint, .. } = refused.error;
        assert_eq!(error_type, ErrorType::InvalidArguments, "{arguments}");
        assert!(
            message.starts_with("Validation Error: ") && message.contains("for tool 'call_t_t'"),
            "{message}"
        );
        assert!(!hint.is_empty(), "{message}");
        let violations = &details.expect("details")["violations"];
        for field in ["pointer", "expected", "found", "message"] {
            assert!(violations[0][field].is_string(), "{violations}");
        }
        assert_eq!(refused.reason.layer, Layer::Schema);
    }
    assert!(matches!(
        check(&rules, &SessionFacts::default(), call("call_t_t", r#"{"n":1.0}"#)),
        Verdict::Run(_)
    ));
}

#[test]
fn what_is_redacted_does_not_stand_in_the_refusal() {
    let plugin = tool_with(&json!({
        "input_schema": {"type": "object", "properties": {"key": {"maxLength": 3}}}, "redact": ["/key"],
    }));
    let rules = rules_of(vec![plugin], r#"{"enabled":"*"}"#);
    let Verdict::Refused(refused) =
        check(&rules, &SessionFacts::default(), call("t/t", r#"{"key":"hunter2"}"#))
    else {
        panic!("too long");
    };
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
}

#[test]
fn a_checked_call_carries_what_was_decided_about() {
    let raw = " {\"a\" : 1.0}";
    let checked = checked_call(plugin("crm", &["search"]), "CALL_crm_search", raw);
    assert_eq!(checked.arguments().raw(), raw);
    assert_eq!((checked.called_name(), checked.wire().as_str()), ("CALL_crm_search", "call_crm_search"));
    assert_eq!((*checked.component(), checked.id().to_string().as_str()), ("component", "crm/search"));
    assert_eq!(checked.reason(), &Reason { layer: Layer::Agent, rule: "enabled" });
    assert!(!format!("{checked:?}").contains("1.0"), "{checked:?}");
}

/// B2: platform, plugin, organization and agent each narrow the limits above.
#[test]
fn the_limits_of_a_call_are_the_narrowest_of_all_layers() {
    let plugin = plugin_from(&json!({
        "name": "t", "version": "1", "limits": {"fuel": 500, "deadline_ms": 90_000},
        "tools": [{"name": "t", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}}],
    }));
    let platform = LimitsPatch::new().with(LimitName::Fuel, 1_000).with(LimitName::DeadlineMs, 60_000);
    let catalogue = Arc::new(Catalogue::new(platform, vec![plugin]));
    let document = AgentDocument::parse(
        r#"{"enabled":"*","autonomy":"autonomous","limits":{"fuel":900,"log_bytes":7}}"#,
    )
    .unwrap();
    let policy = OrgDocument::parse(r#"{"enabled":"*","limits":{"fuel":700,"requests":3}}"#).unwrap();
    let above = PlatformDocument::parse(r#"{"limits":{"fuel":950,"open_files":99}}"#).unwrap();
    let rules = Rules::compile(catalogue, above, policy, BTreeSet::new(), document);
    let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call("t/t", "{}")) else {
        panic!("it may run")
    };
    let limits = checked.limits();
    assert_eq!((limits.fuel, limits.deadline_ms, limits.log_bytes, limits.requests), (500, 60_000, 7, 3));
    assert_eq!(limits.open_files, 99);
    assert_eq!(limits.memory_bytes, Limits::DEFAULT.memory_bytes);
    let of_session = session_limits(&rules);
    assert_eq!((of_session.fuel, of_session.deadline_ms, of_session.log_bytes), (700, 60_000, 7));
    assert_eq!((of_session.requests, of_session.open_files), (3, 99));
}

/// B5.
#[test]
fn a_call_is_granted_no_more_than_its_plugin_asked_for() {
    let mut plugin = Arc::into_inner(plugin("crm", &["search"])).expect("the only one");
    let filesystem = FilesystemAccess::Workspace;
    plugin.granted = Arc::new(Grant { filesystem, ..Grant::default() });
    let checked = checked_call(Arc::new(plugin), "crm/search", "{}");
    assert_eq!(checked.access().filesystem(), FilesystemAccess::None);
}

/// R3.
#[test]
fn a_result_that_fits_is_given_back_byte_for_byte() {
    let admitted =
        admitted_call(tool_with(&json!({"output_schema": {"type": "object", "required": ["n"]}})), "t/t");
    assert!(admitted.check_output(" {\"n\": 1.0}\n").is_ok());
    let refused = admitted.check_output("{}").unwrap_err();
    assert_eq!(refused.error_type, ErrorType::InvalidOutput);
    assert!(refused.message.contains("Missing required field 'n'"), "{}", refused.message);
    assert_eq!(refused.details_json().unwrap()["violations"][0]["pointer"], "/n");
}

#[test]
fn a_result_that_is_not_strict_json_is_refused_even_without_a_schema() {
    let admitted = admitted_call(plugin("crm", &["search"]), "crm/search");
    for output in ["", "{", "{} {}", r#"{"a":1,"a":2}"#, "NaN", "1e999", r#""\ud800""#] {
        assert_eq!(
            admitted.check_output(output).unwrap_err().error_type,
            ErrorType::InvalidOutput,
            "{output}"
        );
    }
    for output in ["null", "1", "\"x\"", "[{}]"] {
        assert!(admitted.check_output(output).is_ok(), "{output}");
    }
}

#[test]
fn a_result_beyond_its_limit_is_too_large() {
    let plugin = plugin_from(&json!({
        "name": "t", "version": "1", "limits": {"output_bytes": 4},
        "tools": [{"name": "t", "description": "D.", "usage": "U.", "input_schema": {"type": "object"}}],
    }));
    let admitted = admitted_call(plugin, "t/t");
    assert!(admitted.check_client_result("1234").is_ok());
    assert_eq!(admitted.check_client_result("12345").unwrap_err().error_type, ErrorType::OutputTooLarge);
    // The dispatcher keeps a plugin's result in the workspace.
    assert!(admitted.check_output("12345").is_ok());
}

/// T3.
#[test]
fn a_tool_that_ends_otherwise_than_it_declared_is_refused() {
    let server = admitted_call(plugin("crm", &["search"]), "crm/search");
    assert!(server.check_output("{}").is_ok());
    assert_eq!(server.check_client_payload("{}").unwrap_err().error_type, ErrorType::InvalidOutput);
    let client = admitted_call(tool_with(&json!({"mode": "client"})), "t/t");
    assert!(client.check_client_payload("{}").is_ok());
    assert!(client.check_client_payload("{").is_err());
    assert_eq!(client.check_output("{}").unwrap_err().error_type, ErrorType::InvalidOutput);
}

proptest! {
    #[test]
    fn no_call_makes_the_gate_panic(tool in any::<String>(), arguments in any::<String>()) {
        let rules = rules(r#"{"enabled":"*"}"#);
        let _ = check(&rules, &SessionFacts::default(), call(&tool, &arguments));
        let _ = check(&rules, &SessionFacts::default(), call("crm/search", &arguments));
    }
}
