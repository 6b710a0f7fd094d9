//! Agents' documents and the policies above them, held to what they say when they are read by hand.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use toolgate_admission::{
    AgentDocument, Autonomy, Catalogue, Decision, Descriptor, Digest, DocumentError, LimitsPatch,
    OrgDocument, PlatformDocument, Plugin, Rules, SessionFacts, StepVerdict, decide, explain,
};

use crate::strict;
use crate::tell::{assert_place, assert_pointer, assert_told};

const TOOLS: &[(&str, &[&str])] =
    &[("crm", &["delete", "search"]), ("files", &["read", "write"]), ("web-search", &["by_image"])];

static CATALOGUE: LazyLock<Arc<Catalogue<()>>> = LazyLock::new(|| {
    let plugins = TOOLS.iter().map(|(namespace, tools)| plugin(namespace, tools)).collect();
    Arc::new(Catalogue::new(LimitsPatch::new(), plugins))
});

/// A document of a layer, as owners send it.
///
/// What is accepted is strict JSON with known fields alone, and gives an agent exactly the tools that its lists give
/// when they are read by hand: denial wins, an empty list is nothing, what is not there is nothing. What is refused
/// names its place.
pub fn documents(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = strict::read(text, 64);
    match AgentDocument::parse(text) {
        Ok(document) => {
            let value = value.as_ref().expect("accepted, and no strict JSON");
            known(value, &AGENT_FIELDS);
            let above = rules(AgentDocument::default());
            document.warnings(&above).iter().for_each(|warning| assert_place(value, &warning.path));
            gives(&document, value);
        }
        Err(error) => told(&error, value.as_ref()),
    }
    match OrgDocument::parse(text) {
        Ok(document) => {
            let value = value.as_ref().expect("accepted, and no strict JSON");
            known(value, &ORGANIZATION_FIELDS);
            document.warnings(&CATALOGUE).iter().for_each(|warning| assert_place(value, &warning.path));
        }
        Err(error) => told(&error, value.as_ref()),
    }
    match PlatformDocument::parse(text) {
        Ok(document) => {
            let value = value.as_ref().expect("accepted, and no strict JSON");
            known(value, &PLATFORM_FIELDS);
            document.warnings(&CATALOGUE).iter().for_each(|warning| assert_place(value, &warning.path));
        }
        Err(error) => told(&error, value.as_ref()),
    }
}

/// The published fields; `quotas` and `network` may say nothing as long as nothing enforces them.
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

fn told(error: &DocumentError, value: Option<&Value>) {
    assert_told(&error.message, &error.hint);
    match value {
        Some(value) => assert_place(value, &error.place),
        None => assert_pointer(&error.place),
    }
}

fn known(value: &Value, fields: &[&str]) {
    let object = value.as_object().expect("a document is an object");
    assert!(object.keys().all(|field| fields.contains(&field.as_str())), "a field that nothing enforces");
}

fn gives(document: &AgentDocument, value: &Value) {
    // What profiles and subtypes give is defined by other documents.
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
            // No tool here says that it changes nothing.
            let allowed = allowed && document.autonomy != Autonomy::DraftOnly;
            let supervised = document.autonomy == Autonomy::Supervised;
            let approved = lists(&value["require_approval_for"], namespace, tool)
                || value["require_approval_for"].is_null() && supervised;
            let decision = decide(&rules, &facts, &id);
            match decision {
                Decision::Allowed(_) => assert!(allowed && !approved, "`{id}` is let through"),
                Decision::NeedsApproval(..) => assert!(allowed && approved, "`{id}` waits for approval"),
                Decision::Refused(_) => assert!(!allowed, "`{id}` is kept out"),
            }
            let stops = explain(&rules, &facts, &id).iter().any(|step| step.verdict != StepVerdict::Passes);
            assert_eq!(stops, !allowed || approved, "the explanation of `{id}` says otherwise");
        }
    }
}

fn rules(document: AgentDocument) -> Rules<()> {
    let (platform, everything) = (PlatformDocument::default(), OrgDocument::everything());
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

fn plugin(namespace: &str, tools: &[&str]) -> Arc<Plugin<()>> {
    let tool = |name: &&str| json!({"name": name, "description": "Does it.", "usage": "Use it.", "input_schema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    let description = json!({"name": namespace, "version": "1.0.0", "tools": tools}).to_string();
    let descriptor = Descriptor::parse(&description).expect("a description");
    Arc::new(Plugin {
        granted: Arc::new(descriptor.capabilities.clone().into()),
        descriptor: Arc::new(descriptor),
        digest: Digest::from_sha256([7; 32]),
        component: (),
        disabled: false,
    })
}
