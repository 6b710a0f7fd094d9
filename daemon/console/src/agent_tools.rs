//! An agent's tools as a checklist, by plugin: each with its verdict, the layer that decides and why, and a switch where the agent's own
//! document decides. What the switches would change is shown as for a text, before it is put in force.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value};
use toolgate_admission::{Rules, SessionFacts};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::explain::{ExplainedTool, ToolVerdict};
use toolgate_api::name::{Name, ToolId};
use toolgate_api::tools::{ToolList, ToolPattern};
use toolgate_core::registry::RuleKey;
use toolgate_http::extract::Path;
use toolgate_http::path_params::AgentPath;
use toolgate_http::problem::Problem;
use toolgate_http::sessions::check_channel;
use toolgate_http::state::App;
use toolgate_sandbox::Component;
use toolgate_state::documents::DocumentKey;

use super::document_form::Draft;
use super::elements::{
    Filters, choice, compiling_note, empty, filter, next_page, parameter, percent_encode, short, verdict,
    wait_for_compiling, with_code,
};
use super::explain::{self, Matrix, explain_one, tools_from};
use super::form::FormFields;
use super::page::Page;
use super::policies;
use super::viewer::Viewer;

/// Tools of a page. Each has up to two fields of the form, which are limited.
const TOOLS: usize = 100;
/// The verdicts by which the list is filtered.
const VERDICTS: [(&str, ToolVerdict); 3] = [
    ("allowed", ToolVerdict::Allowed),
    ("asks", ToolVerdict::NeedsApproval),
    ("refused", ToolVerdict::Refused),
];

/// The checklist of an agent, or one of its tools with each rule of the gate.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path((organization, agent)): Path<(Name, Name)>,
    Filters(query): Filters<Matrix>,
) -> Result<Page, Problem> {
    match parameter(&uri, "tool") {
        Some(_) => explain::tool(&app, &viewer, AgentPath { organization, agent }, &uri, query).await,
        None => list(&app, &viewer, (&organization, &agent), &uri, &query).await,
    }
}

async fn list(
    app: &App,
    viewer: &Viewer,
    (organization, agent): (&Name, &Name),
    uri: &Uri,
    query: &Matrix,
) -> Result<Page, Problem> {
    viewer.caller.may_own(organization)?;
    let compiling = wait_for_compiling(app).await;
    let snapshot = app.services().registry.snapshot();
    let rules = snapshot.rules(organization, agent).ok_or_else(|| Problem::no_agent(organization, agent))?;
    check_channel(&rules.organization, query.channel.as_deref())?;
    let wanted = VERDICTS
        .iter()
        .find(|(word, _)| query.verdict.as_deref() == Some(*word))
        .map(|(_, verdict)| *verdict);
    let facts = SessionFacts { channel: query.channel.clone(), ..SessionFacts::default() };
    let sees_platform = viewer.caller.organization.is_none();
    let explained = tools_from(&rules, query).into_iter();
    let explained = explained.filter_map(|tool| explain_one(&rules, &facts, &tool, sees_platform));
    let mut shown: Vec<ExplainedTool> =
        explained.filter(|tool| wanted.is_none_or(|wanted| tool.verdict == wanted)).take(TOOLS + 1).collect();
    let has_more = shown.len() > TOOLS;
    shown.truncate(TOOLS);
    let next = shown.last().filter(|_| has_more).map(|tool| tool.tool.clone());
    let key = DocumentKey::agent(organization, agent);
    let draft = Draft::load(app, &key, "{}").await?;
    let disabled = list_of(&parse(&draft.text).unwrap_or_default(), "disabled");
    let address = format!("/console/explain/{organization}/{agent}/tools");
    let main = html! {
        (filters(uri))
        (compiling_note(compiling.as_deref()))
        @if shown.is_empty() { (empty("No tool matches.", "Change the filters, or load a plugin:", Some("toolgate plugin load FILE.wasm"))) }
        @else {
            (viewer.form(address, &[("revision", &draft.revision)], html! {
                (groups(&rules, &shown, &disabled, uri))
                button { "Show what would change" }
            }))
        }
        (next_page(uri, next.as_deref()))
    };
    Ok(Page::new(format!("Tools of {organization}/{agent}"), main))
}

/// Shows what the switches would change in the agent's document.
pub(super) async fn change(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, agent)): Path<(Name, Name)>,
    form: FormFields,
) -> Result<Response, Problem> {
    viewer.caller.may_own(&organization)?;
    let stored = Draft::load(&app, &DocumentKey::agent(&organization, &agent), "{}").await?;
    if stored.revision != form.text("revision") {
        let message = "the agent's document was changed since the page was opened";
        return Err(Problem::new(
            ErrorType::Conflict,
            message,
            "open the page again, and switch the tools there",
        ));
    }
    let on: Vec<&str> = form.all("on").collect();
    let switched = form.all("shown").filter_map(|shown| {
        let (was_on, tool) = (shown.starts_with('+'), shown.get(1..)?);
        let is_on = on.contains(&tool);
        (was_on != is_on).then(|| Some((ToolId::parse(tool).ok()?, is_on)))?
    });
    let text = with_switches(&stored.text, switched).map_err(Problem)?;
    policies::show_changes(&app, &viewer, &RuleKey::Agent(organization, agent), Draft { text, ..stored })
        .await
}

fn filters(uri: &Uri) -> Markup {
    let value = |name: &str| parameter(uri, name);
    html! {
        form.filters method="get" action=(uri.path()) role="search" aria-label="Filter tools" {
            div {
                label for="words" { "Tool contains" }
                input id="words" name="words" value=(short(value("words").as_deref().unwrap_or_default())) autocomplete="off";
            }
            (choice("verdict", "Verdict", value("verdict").as_deref(), &VERDICTS.map(|(word, _)| word)))
            (filter("channel", "Channel", value("channel").as_deref()))
            button { "Filter" }
            a.button href=(uri.path()) { "Reset" }
        }
    }
}

fn groups(rules: &Rules<Component>, shown: &[ExplainedTool], disabled: &ToolList, uri: &Uri) -> Markup {
    let mut groups: BTreeMap<&str, Vec<&ExplainedTool>> = BTreeMap::new();
    for tool in shown {
        groups.entry(tool.tool.split('/').next().unwrap_or_default()).or_default().push(tool);
    }
    html! {
        @for (namespace, tools) in &groups {
            section aria-labelledby=(namespace) {
                h2 id=(namespace) { (short(namespace)) }
                ul.checklist { @for tool in tools { (entry(rules, tool, disabled, uri)) } }
            }
        }
    }
}

fn entry(rules: &Rules<Component>, tool: &ExplainedTool, disabled: &ToolList, uri: &Uri) -> Markup {
    let is_on = tool.verdict != ToolVerdict::Refused;
    let has_switch = has_switch(tool, disabled);
    let description = rules.catalogue.find(&tool.tool).map(|tool| short(&tool.descriptor().description));
    html! {
        li {
            @if has_switch { input type="hidden" name="shown" value={ (if is_on { "+" } else { "-" }) (tool.tool) }; }
            label.choice {
                input type="checkbox" name="on" value=(tool.tool) checked[is_on] disabled[!has_switch];
                span { code { (short(&tool.tool)) } " " (verdict(tool.verdict)) }
            }
            @if let Some(description) = description { p { (description) } }
            p.quiet {
                a href=(format!("{}?tool={}", uri.path(), percent_encode(&tool.tool))) { (tool.layer) @if let Some(rule) = &tool.rule { " · " (rule) } }
                @if let Some(why) = &tool.why { ": " (with_code(why)) }
                @if !has_switch { ", so it is not decided here" }
            }
        }
    }
}

/// Whether the agent's own list decides: the tool passes, or that list alone leaves it out or names it.
fn has_switch(tool: &ExplainedTool, disabled: &ToolList) -> bool {
    let rule = tool.rule.as_deref().unwrap_or_default();
    let is_named = || {
        ToolId::parse(&tool.tool)
            .is_ok_and(|id| disabled.entry_for(&id) == Some(&ToolPattern::Tool(id.clone())))
    };
    tool.verdict != ToolVerdict::Refused
        || tool.layer == "agent" && (rule == "enabled" || rule == "disabled" && is_named())
}

/// The document with tools switched on or off, each by its own name; entries for many tools stay.
fn with_switches(text: &str, switches: impl Iterator<Item = (ToolId, bool)>) -> Result<String, CallError> {
    let mut members = parse(text).ok_or_else(|| {
        CallError::new(ErrorType::Internal, "the stored document is no JSON object", "edit it as text")
    })?;
    for (id, is_on) in switches {
        let (from, to) = if is_on { ("disabled", "enabled") } else { ("enabled", "disabled") };
        let name = Value::String(id.to_string());
        if let Some(Value::Array(entries)) = members.get_mut(from) {
            entries.retain(|entry| *entry != name);
        }
        let is_enabled = list_of(&members, "enabled").entry_for(&id).is_some();
        if is_enabled != is_on {
            let list = members.entry(to).or_insert_with(|| Value::Array(Vec::new()));
            // A text has all tools in it.
            if let Value::Array(entries) = list {
                entries.push(name);
            }
        }
    }
    Ok(serde_json::to_string_pretty(&members).unwrap_or_default())
}

fn parse(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn list_of(members: &Map<String, Value>, name: &str) -> ToolList {
    members.get(name).and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch_tools(text: &str, switches: &[(&str, bool)]) -> Value {
        let switches = switches.iter().map(|(tool, is_on)| (ToolId::parse(tool).expect("a tool"), *is_on));
        serde_json::from_str(&with_switches(text, switches).expect("a document")).expect("JSON")
    }

    #[test]
    fn o6_a_switch_changes_one_tool_and_keeps_the_rest_of_the_document() {
        let text =
            r#"{"enabled": ["files/*", "time/now"], "disabled": ["files/delete"], "autonomy": "autonomous"}"#;
        for (switches, enabled, disabled) in [
            (vec![("files/delete", true)], r#"["files/*", "time/now"]"#, "[]"),
            (vec![("files/read", false)], r#"["files/*", "time/now"]"#, r#"["files/delete", "files/read"]"#),
            (vec![("time/now", false)], r#"["files/*"]"#, r#"["files/delete"]"#),
            (vec![("text/diff", true)], r#"["files/*", "time/now", "text/diff"]"#, r#"["files/delete"]"#),
            (vec![], r#"["files/*", "time/now"]"#, r#"["files/delete"]"#),
        ] {
            let changed = switch_tools(text, &switches);
            let list = |text: &str| serde_json::from_str::<Value>(text).expect("a list");
            assert_eq!(
                (&changed["enabled"], &changed["disabled"]),
                (&list(enabled), &list(disabled)),
                "{switches:?}"
            );
            assert_eq!(changed["autonomy"], "autonomous");
        }
        assert_eq!(switch_tools("{}", &[("a/b", true)]), serde_json::json!({"enabled": ["a/b"]}));
        let all = switch_tools(r#"{"enabled": "*"}"#, &[("a/b", false)]);
        assert_eq!(all, serde_json::json!({"enabled": "*", "disabled": ["a/b"]}));
    }
}
