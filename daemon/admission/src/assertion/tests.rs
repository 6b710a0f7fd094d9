use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};

use super::*;
use crate::check::tests::plugin_from;
use crate::rules::Catalogue;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn assertion(kind: &str, tools: &[&str]) -> Assertion {
    let text = json!({"assertions": [{"name": "a", kind: {"agents": "acme/*", "tools": tools}}]}).to_string();
    AssertionsDocument::parse(&text, AssertionHolder::Platform).unwrap().assertions.remove(0)
}

/// Rules with the plugins `files` (`read`, `delete`) and `pay` (`charge`, which needs `stripe`).
fn rules(platform: &str, agent: &Value) -> Rules<&'static str> {
    let plugin = |namespace: &str, tools: &[&str], integrations: &[&str]| {
        let tool = |name: &&str| {
            json!({
                "name": name, "description": "D.", "usage": "U.", "input_schema": {"type": "object"},
                "hints": {"read_only": *name == "read"}, "required_integrations": integrations,
            })
        };
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        plugin_from(&json!({"name": namespace, "version": "1.0.0", "tools": tools}))
    };
    let plugins = vec![plugin("files", &["read", "delete"], &[]), plugin("pay", &["charge"], &["stripe"])];
    Rules::compile(
        Arc::new(Catalogue::new(LimitsPatch::new(), plugins)),
        PlatformDocument::parse(platform).unwrap(),
        OrgDocument::allow_all(),
        Default::default(),
        AgentDocument::parse(&agent.to_string()).unwrap(),
    )
}

fn breach(kind: &str, tools: &[&str], rules: &Rules<&'static str>) -> Option<String> {
    broken_tool(&assertion(kind, tools), None, rules)
}

fn broken_tool(
    assertion: &Assertion,
    before: Option<&Rules<&'static str>>,
    after: &Rules<&'static str>,
) -> Option<String> {
    let resolved = ResolvedAssertion::new(assertion, &after.catalogue).unwrap();
    let found = resolved.breach(before, after, &mut DecisionBudget::new(u64::MAX)).unwrap();
    found.map(|breach| breach.tool.to_string())
}

#[test]
fn g17_a_tool_that_an_agent_can_call_breaks_never() {
    let all = rules("{}", &json!({"enabled": "*", "autonomy": "autonomous"}));
    assert_eq!(breach("never", &["files/delete"], &all).as_deref(), Some("files/delete"));
    assert_eq!(breach("never", &["files/write"], &all), None);
    assert_eq!(breach("never", &[], &all), None);
    let without = rules("{}", &json!({"enabled": "*", "disabled": ["files/delete"]}));
    assert_eq!(breach("never", &["files/delete"], &without), None);
    // A call that waits for a person can be made.
    let asking = rules("{}", &json!({"enabled": "*", "autonomy": "supervised"}));
    assert_eq!(breach("never", &["files/delete"], &asking).as_deref(), Some("files/delete"));
}

#[test]
fn g17_a_call_without_a_person_breaks_always_approval() {
    let all = rules("{}", &json!({"enabled": "*", "autonomy": "autonomous"}));
    assert_eq!(breach("always_approval", &["files/delete"], &all).as_deref(), Some("files/delete"));
    let asking = rules("{}", &json!({"enabled": "*", "autonomy": "supervised"}));
    assert_eq!(breach("always_approval", &["files/delete"], &asking), None);
    assert_eq!(breach("always_approval", &["files/read"], &asking).as_deref(), Some("files/read"));
    let refused = rules("{}", &json!({"enabled": []}));
    assert_eq!(breach("always_approval", &["files/*"], &refused), None);
}

#[test]
fn g17_a_missing_integration_keeps_no_assertion() {
    let all = rules("{}", &json!({"enabled": "*", "autonomy": "autonomous"}));
    assert_eq!(breach("never", &["pay/*"], &all).as_deref(), Some("pay/charge"));
    let asking = rules("{}", &json!({"enabled": "*", "autonomy": "supervised"}));
    assert_eq!(breach("always_approval", &["pay/*"], &asking), None);
    let without = rules("{}", &json!({"enabled": ["files/*"]}));
    assert_eq!(breach("never", &["pay/*"], &without), None);
}

#[test]
fn g17_a_channel_that_blocks_a_tool_counts_where_every_session_has_one() {
    let agent = json!({"enabled": "*", "autonomy": "autonomous"});
    let channels = r#""channels":{"sms":{"blocked":["files/delete"]}}"#;
    let optional = rules(&format!("{{{channels}}}"), &agent);
    assert_eq!(breach("never", &["files/delete"], &optional).as_deref(), Some("files/delete"));
    let required = rules(&format!("{{{channels},\"channel_required\":true}}"), &agent);
    assert_eq!(breach("never", &["files/delete"], &required), None);
    assert_eq!(breach("never", &["files/read"], &required).as_deref(), Some("files/read"));
}

#[test]
fn g17_what_was_broken_before_is_not_a_new_breach() {
    let all = rules("{}", &json!({"enabled": "*", "autonomy": "autonomous"}));
    let some = rules("{}", &json!({"enabled": ["files/read"], "autonomy": "autonomous"}));
    let assertion = assertion("never", &["files/*"]);
    let found = |before: &Rules<&'static str>, after: &Rules<&'static str>| {
        broken_tool(&assertion, Some(before), after)
    };
    assert_eq!(found(&all, &all), None);
    assert_eq!(found(&all, &some), None);
    assert_eq!(found(&some, &all).as_deref(), Some("files/delete"));
}

#[test]
fn g17_an_assertion_concerns_its_agents_and_loaded_tools() {
    let rules = rules("{}", &json!({"enabled": "*"}));
    let concerns = |tools: &[&str], agent: &str| {
        let assertion = assertion("never", tools);
        let resolved = ResolvedAssertion::new(&assertion, &rules.catalogue).unwrap();
        let (organization, agent) = agent.split_once('/').unwrap();
        resolved.concerns(&name(organization), &name(agent))
    };
    assert!(concerns(&["files/delete"], "acme/bot"));
    assert!(!concerns(&["files/delete"], "rival/bot"));
    assert!(!concerns(&["files/none"], "acme/bot"));
}

#[test]
fn g17_a_search_ends_with_its_budget() {
    let rules = rules("{}", &json!({"enabled": []}));
    let assertion = assertion("never", &["files/*"]);
    let resolved = ResolvedAssertion::new(&assertion, &rules.catalogue).unwrap();
    let search = |decisions| resolved.breach(None, &rules, &mut DecisionBudget::new(decisions)).is_ok();
    assert!(search(2));
    assert!(!search(1));
}
