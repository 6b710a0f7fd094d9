//! Explanations (G16): which agents may call which tools, with the layer and the rule that decides.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_admission::{Rules, SessionFacts};
use toolgate_api::explain::{ExplainedStep, ExplainedTool, StepAnswer};
use toolgate_api::name::Name;
use toolgate_api::plugin::{HintsState, ToolDetails};
use toolgate_core::admin::explain;
use toolgate_http::explain::{self as api, ExplainQuery};
use toolgate_http::extract::{Path, Query};
use toolgate_http::path_params::AgentPath;
use toolgate_http::problem::Problem;
use toolgate_http::sessions::check_channel;
use toolgate_http::state::App;
use toolgate_sandbox::Component;

use super::approval_aids::without_grant;
use super::elements::{
    Filters, ROWS, badge, empty, facts, filter, next_page, parameter, percent_encode, short, table, verdict,
    whole, with_code,
};
use super::hints;
use super::organizations;
use super::page::Page;
use super::viewer::Viewer;

/// Agents side by side. More would not fit on a screen.
const COLUMNS: usize = 6;

/// The place in a table of tools and agents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    /// The last tool of the page before.
    cursor: Option<String>,
    /// The last agent of the columns before.
    after: Option<String>,
    pub(crate) channel: Option<String>,
    tool: Option<String>,
    /// A part of the names of tools.
    words: Option<String>,
    /// A verdict of the checklist.
    pub(crate) verdict: Option<String>,
}

/// The organizations whose agents can be explained; of an owner, the table at once.
pub(super) async fn index(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(query): Filters<Matrix>,
) -> Result<Page, Problem> {
    if let Some(own) = &viewer.caller.organization {
        return matrix(&app, &viewer, own, &uri, &query).await;
    }
    let names = organizations::names(&app, &viewer, query.cursor.as_deref())?;
    let links = html! {
        p { "Choose an organization, to see which of its agents may call which tools, and why." }
        (organizations::links(&names.items, "/console/explain/"))
        (next_page(&uri, names.next_cursor.as_deref()))
    };
    Ok(Page::new("Explain", links))
}

/// The tools and agents of an organization.
pub(super) async fn organization(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(organization): Path<Name>,
    Filters(query): Filters<Matrix>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    matrix(&app, &viewer, &organization, &uri, &query).await
}

async fn matrix(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
    uri: &Uri,
    query: &Matrix,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, organization)?;
    app.services().registry.wait_for_all_tools().await;
    let snapshot = app.services().registry.snapshot();
    let all: Vec<Name> = snapshot.agents(organization);
    let after = query.after.as_deref().unwrap_or("");
    let mut agents: Vec<Name> =
        all.into_iter().filter(|name| name.as_str() > after).take(COLUMNS + 1).collect();
    let has_more = agents.len() > COLUMNS;
    agents.truncate(COLUMNS);
    let mut columns = Vec::new();
    for agent in &agents {
        let Some(rules) = snapshot.rules(organization, agent) else { continue };
        check_channel(&rules.organization, query.channel.as_deref())?;
        columns.push((agent, rules));
    }
    let title = format!("Explain {organization}");
    let Some((_, first)) = columns.first() else {
        let command = format!("toolgate agent put {organization}/helper --enabled 'arithmetic/*'");
        let note = empty("The organization has no agents here.", "Create one:", Some(&command));
        return Ok(Page::new(&title, note));
    };
    let facts = SessionFacts { channel: query.channel.clone(), ..SessionFacts::default() };
    let (tools, next) = tools(first, query);
    let sees_platform = viewer.caller.organization.is_none();
    let rows = html! {
        @for tool in &tools {
            tr {
                th scope="row" { code { (short(tool)) } }
                @for (agent, rules) in &columns {
                    td { (cell(organization, agent, query, &explain_one(rules, &facts, tool, sees_platform))) }
                }
            }
        }
    };
    let names = columns.iter().map(|(agent, _)| agent.as_str());
    let headings: Vec<&str> = std::iter::once("Tool").chain(names).collect();
    let last_agent = agents.last().filter(|_| has_more);
    Ok(Page::new(
        &title,
        html! {
            (filters(uri))
            @if tools.is_empty() { (empty("No tool matches.", "Change the filters.", None)) }
            @else { (table("Tools and agents", &headings, &rows)) }
            @if let Some(agent) = last_agent {
                p { a.button href=(format!("/console/explain/{organization}?after={agent}")) { "Next agents" } }
            }
            (next_page(uri, next.as_deref()))
        },
    ))
}

fn filters(uri: &Uri) -> Markup {
    let value = |name: &str| parameter(uri, name);
    html! {
        form.filters method="get" action=(uri.path()) role="search" aria-label="Filter tools" {
            (filter("tool", "Tool contains", value("tool").as_deref()))
            (filter("channel", "Channel", value("channel").as_deref()))
            button { "Filter" }
            a.button href=(uri.path()) { "Reset" }
        }
    }
}

/// The tools that match, from the cursor on.
pub(crate) fn tools_from(rules: &Rules<Component>, query: &Matrix) -> Vec<String> {
    let words = query.words.as_deref().or(query.tool.as_deref()).unwrap_or("");
    let ids = rules.catalogue.tools().iter().map(|tool| tool.id().to_string());
    let mut ids: Vec<String> = ids.filter(|id| id.contains(words)).collect();
    ids.sort_unstable();
    if let Some(cursor) = &query.cursor {
        ids.retain(|id| id > cursor);
    }
    ids
}

/// A page of the tools that match, and the cursor of the next one.
fn tools(rules: &Rules<Component>, query: &Matrix) -> (Vec<String>, Option<String>) {
    let mut ids = tools_from(rules, query);
    let has_more = ids.len() > ROWS as usize;
    ids.truncate(ROWS as usize);
    let next = ids.last().filter(|_| has_more).cloned();
    (ids, next)
}

pub(crate) fn explain_one(
    rules: &Rules<Component>,
    facts: &SessionFacts,
    tool: &str,
    sees_platform: bool,
) -> Option<ExplainedTool> {
    explain(rules, facts, Some(tool), sees_platform).tools.pop()
}

fn cell(organization: &Name, agent: &Name, query: &Matrix, tool: &Option<ExplainedTool>) -> Markup {
    let Some(tool) = tool else { return html! {} };
    let mut address = format!("/console/explain/{organization}/{agent}?tool={}", percent_encode(&tool.tool));
    if let Some(channel) = &query.channel {
        address = format!("{address}&channel={}", percent_encode(channel));
    }
    html! {
        (verdict(tool.verdict)) " "
        a href=(address) { (tool.layer) @if let Some(rule) = &tool.rule { " · " (rule) } }
    }
}

/// One tool of an agent, with each rule of the gate.
pub(super) async fn tool(
    app: &App,
    viewer: &Viewer,
    path: AgentPath,
    uri: &Uri,
    query: Matrix,
) -> Result<Page, Problem> {
    let title = format!("Explain {}/{}", short(path.organization.as_str()), short(path.agent.as_str()));
    let asked = ExplainQuery { tool: query.tool, channel: query.channel, session: None };
    let explanation = api::get(viewer.client(app), Path(path), Query(asked)).await?.0;
    let tool = explanation.tools.first().ok_or_else(|| Problem::not_found("tool"))?;
    Ok(Page::new(&title, one_tool(tool, explanation.channel.as_deref(), uri)))
}

fn one_tool(tool: &ExplainedTool, channel: Option<&str>, uri: &Uri) -> Markup {
    let mut pairs = vec![
        ("Tool", html! { code { (short(&tool.tool)) } }),
        (
            "Verdict",
            html! { (verdict(tool.verdict)) @if let Some(code) = tool.error_type { " " code { (code) } } },
        ),
        ("Decided by", html! { (tool.layer) @if let Some(rule) = &tool.rule { " · " (rule) } }),
    ];
    if let Some(channel) = channel {
        pairs.push(("Channel", html! { (short(channel)) }));
    }
    if let Some(left_out) = &tool.left_out {
        pairs.push(("Left out of lists", html! { (whole(left_out)) }));
    }
    let details = tool.details.as_ref();
    pairs.extend(details.into_iter().flat_map(tool_facts));
    let steps = tool.steps.as_deref().unwrap_or_default();
    html! {
        @if let Some(missing) = &tool.not_granted { (without_grant(missing)) }
        (facts(&pairs))
        @if let Some(why) = &tool.why { p { (with_code(why)) } }
        h2 { "Each rule of the gate, in its order" }
        (table("Rules", &["Layer", "Rule", "Verdict", "Why"], &html! { @for step in steps { (step_row(step)) } }))
        p { a href=(uri.path()) { "All tools of the agent" } }
    }
}

/// The facts of a tool for a person: its effects, prerequisites, tags and examples (T1).
fn tool_facts(details: &ToolDetails) -> Vec<(&'static str, Markup)> {
    let effects = hints::words(details.hints);
    let is_open = details.hints_state == HintsState::Unconfirmed;
    let mut pairs = vec![(
        "Effects",
        html! { (effects) @if is_open { " " (badge("warn", "not confirmed, do not count")) } },
    )];
    let lists = [("Before the first call", &details.prerequisites), ("Tags", &details.tags)];
    let given = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
    pairs.extend(given.map(|(label, texts)| (label, html! { (short(&texts.join("; "))) })));
    let examples = details.examples.iter().map(|example| short(&example.input.to_string()));
    let examples: Vec<String> = examples.collect();
    if !examples.is_empty() {
        pairs.push(("Examples", html! { @for example in &examples { p { code { (example) } } } }));
    }
    pairs
}

fn step_row(step: &ExplainedStep) -> Markup {
    let answer = match step.verdict {
        StepAnswer::Passes => badge("good", "passes"),
        StepAnswer::NeedsApproval => badge("warn", "asks a person"),
        StepAnswer::Refuses => badge("bad", "refuses"),
    };
    html! {
        tr {
            th scope="row" { (step.layer) }
            td { @match &step.rule { Some(rule) => (rule), None => "hidden" } }
            td { (answer) }
            td { @if let Some(why) = &step.why { (with_code(why)) } }
        }
    }
}
