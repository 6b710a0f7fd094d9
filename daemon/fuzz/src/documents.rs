//! Agent documents and the policies above them, compared with a direct reading of their lists.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use toolgate_admission::{
    Catalogue, Decision, Descriptor, Rules, SessionFacts, StepVerdict, Warning, agent_warnings, decide,
    explain, organization_warnings, parse_platform, platform_warnings,
};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::policy::{AgentDocument, Autonomy, OrgDocument, PlatformDocument};
use toolgate_api::read::ReadError;

use crate::error_format::{assert_error_text, assert_pointer, assert_pointer_into};
use crate::{plugin, strict};

const TOOLS: &[(&str, &[&str])] =
    &[("crm", &["delete", "search"]), ("files", &["read", "write"]), ("web-search", &["by_image"])];

static CATALOGUE: LazyLock<Arc<Catalogue<()>>> =
    LazyLock::new(|| plugin::catalogue(TOOLS.iter().map(|(namespace, tools)| descriptor(namespace, tools))));

/// Input: a document of any layer.
///
/// An accepted document is strict JSON with known fields only, and gives an agent exactly the tools that a direct reading of
/// its lists gives: denial wins, and an empty or absent list gives nothing. An error has a pointer into the document.
pub fn documents(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = strict::read(text, 64);
    let above = rules(AgentDocument::default());
    let agent = AgentDocument::parse(text);
    check_document(&agent, value.as_ref(), &AGENT_FIELDS, |document| agent_warnings(document, &above));
    if let (Ok(document), Some(value)) = (agent, &value) {
        check_decisions(&document, value);
    }
    let organization = OrgDocument::parse(text);
    check_document(&organization, value.as_ref(), &ORGANIZATION_FIELDS, |document| {
        organization_warnings(document, &CATALOGUE)
    });
    let platform = parse_platform(text);
    check_document(&platform, value.as_ref(), &PLATFORM_FIELDS, |document| {
        platform_warnings(document, &CATALOGUE)
    });
    for holder in [AssertionHolder::Platform, AssertionHolder::Organization] {
        let assertions = AssertionsDocument::parse(text, holder);
        check_document(&assertions, value.as_ref(), &["assertions"], |_| Vec::new());
    }
}

/// An accepted document has known fields only; errors and warnings point into it.
fn check_document<T>(
    parsed: &Result<T, ReadError>,
    value: Option<&Value>,
    fields: &[&str],
    warnings: impl Fn(&T) -> Vec<Warning>,
) {
    match (parsed, value) {
        (Ok(document), Some(value)) => {
            let object = value.as_object().expect("a document is an object");
            let is_known = object.keys().all(|field| fields.contains(&field.as_str()));
            assert!(is_known, "an unknown field is accepted");
            warnings(document).iter().for_each(|warning| assert_pointer_into(value, &warning.path));
        }
        (Ok(_), None) => panic!("accepted, but not strict JSON"),
        (Err(error), value) => {
            assert_error_text(&error.message, &error.hint);
            match value {
                Some(value) => assert_pointer_into(value, &error.place),
                None => assert_pointer(&error.place),
            }
        }
    }
}

/// The published fields; `quotas` and `network` must be empty as long as nothing enforces them.
const AGENT_FIELDS: [&str; 11] = [
    "name",
    "enabled",
    "disabled",
    "server",
    "profile",
    "subtype",
    "autonomy",
    "require_approval_for",
    "limits",
    "quotas",
    "network",
];
const ORGANIZATION_FIELDS: [&str; 8] =
    ["enabled", "disabled", "profiles", "channels", "integrations", "broker", "limits", "quotas"];
const PLATFORM_FIELDS: [&str; 10] = [
    "allowed",
    "blocked",
    "universal",
    "profiles",
    "subtypes",
    "channels",
    "integrations",
    "intents",
    "limits",
    "server_binding",
];

fn check_decisions(document: &AgentDocument, value: &Value) {
    // Other documents define the tools of profiles and subtypes.
    if document.profile.is_some() || document.subtype.is_some() {
        return;
    }
    let rules = rules(document.clone());
    let facts = SessionFacts::default();
    for (namespace, tools) in TOOLS {
        for tool in *tools {
            let id = format!("{namespace}/{tool}");
            let bound = value["server"].as_str().is_none_or(|server| server == *namespace);
            let allowed = bound
                && lists(&value["enabled"], namespace, tool)
                && !lists(&value["disabled"], namespace, tool);
            // No tool here is read-only.
            let allowed = allowed && document.autonomy != Autonomy::DraftOnly;
            let supervised = document.autonomy == Autonomy::Supervised;
            let approved = lists(&value["require_approval_for"], namespace, tool)
                || value["require_approval_for"].is_null() && supervised;
            let decision = decide(&rules, &facts, &id);
            match decision {
                Decision::Allowed(_) => assert!(allowed && !approved, "`{id}` is allowed"),
                Decision::NeedsApproval(..) => assert!(allowed && approved, "`{id}` needs an approval"),
                Decision::Refused(_) => assert!(!allowed, "`{id}` is refused"),
            }
            let stops = explain(&rules, &facts, &id).iter().any(|step| step.verdict != StepVerdict::Passes);
            assert_eq!(stops, !allowed || approved, "the explanation of `{id}` differs from the decision");
        }
    }
}

fn rules(document: AgentDocument) -> Rules<()> {
    let (platform, everything) = (PlatformDocument::default(), OrgDocument::allow_all());
    Rules::compile(Arc::clone(&CATALOGUE), platform, everything, BTreeSet::new(), document)
}

fn lists(list: &Value, namespace: &str, tool: &str) -> bool {
    let names = |entry: &Value| {
        entry.as_str().is_some_and(|entry| {
            entry == "*" || entry == format!("{namespace}/*") || entry == format!("{namespace}/{tool}")
        })
    };
    match list {
        Value::Array(entries) => entries.iter().any(names),
        entry => entry == "*",
    }
}

fn descriptor(namespace: &str, tools: &[&str]) -> Descriptor {
    let tool = |name: &&str| json!({"name": name, "description": "Does it.", "usage": "Use it.", "input_schema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let description = json!({"name": namespace, "version": "1.0.0", "tools": tools}).to_string();
    Descriptor::parse(&description).expect("a description")
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("agent", r#"{"name":"TVL Analyzer","enabled":["crm/*"],"disabled":["crm/delete"],"require_approval_for":["files/write"],"limits":{"deadline_ms":5000}}"#),
    ("approval-for-all", r#"{"enabled":"*","require_approval_for":"*"}"#),
    ("blank-name", r#"{"name":"  "}"#),
    ("bound", r#"{"enabled":["web-search/by_image"],"server":"web-search"}"#),
    ("bound-and-everything", r#"{"enabled":"*","server":"files"}"#),
    ("bound-and-foreign", r#"{"enabled":["crm/search"],"server":"files"}"#),
    ("broken", r#"{"enabled":"*""#),
    ("capitals-in-a-list", r#"{"enabled":["CRM/search"]}"#),
    ("denial-wins", r#"{"enabled":["crm/delete"],"disabled":"*"}"#),
    ("duplicate-field", r#"{"enabled":[],"enabled":"*"}"#),
    ("everything", r#"{"enabled":"*"}"#),
    ("everything-in-a-list", r#"{"enabled":["*"]}"#),
    ("field-of-the-full-gate", r#"{"autonomy":"supervised"}"#),
    ("field-with-a-slash", r#"{"a/b~c":1}"#),
    ("hidden-in-name", "{\"name\":\"a\u{200b}b\"}"),
    ("limit-of-a-float", r#"{"limits":{"fuel":1.5}}"#),
    ("limit-twice", r#"{"limits":{"fuel":1,"fuel":2}}"#),
    ("limit-unknown", r#"{"limits":{"patience":1}}"#),
    ("limits", r#"{"limits":{"fuel":1000000000,"deadline_ms":99999999999}}"#),
    ("not-an-object", r#""*""#),
    ("not-loaded", r#"{"enabled":["crm/serch","fils/*"]}"#),
    ("nothing", "{}"),
    ("nothing-in-a-list", r#"{"enabled":[]}"#),
    ("null-is-absent", r#"{"enabled":null,"server":null}"#),
    ("number-in-a-list", r#"{"enabled":[1]}"#),
    ("policy-with-lists", r#"{"enabled":["crm/*"],"profiles":{},"limits":{}}"#),
    ("server-no-name", r#"{"server":"../x"}"#),
    ("unknown-field", r#"{"enbled":"*"}"#),
    ("wire-name-in-a-list", r#"{"enabled":["call_crm_search"]}"#),
    ("word-in-place-of-a-list", r#"{"enabled":"all"}"#),
];
