//! A search over organizations, agents, tools, tokens, sessions, calls and approvals, by one field.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::name::Name;
use toolgate_core::identity::Access;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::elements::{Filters, percent_encode, short, token};
use super::page::Page;
use super::viewer::Viewer;

/// Results of one kind that are shown.
const SHOWN: usize = 10;
/// Longest text that is searched for, in characters.
const CHARS: usize = 200;

#[derive(Deserialize)]
pub(super) struct SearchQuery {
    q: Option<String>,
}

/// What was found of one kind.
struct Found {
    kind: &'static str,
    links: Vec<Markup>,
}

pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    Filters(SearchQuery { q }): Filters<SearchQuery>,
) -> Result<Page, Problem> {
    let text: String = q.unwrap_or_default().trim().to_lowercase().chars().take(CHARS).collect();
    if text.is_empty() {
        return Ok(Page::new(
            "Search",
            html! { p { "Write a part of a name, or an id, into the field above." } },
        ));
    }
    let found = [
        ids(&viewer, &text),
        names(&app, &viewer, &text),
        tools(&app, &viewer, &text),
        tokens(&app, &viewer, &text),
    ];
    let found: Vec<Found> = found.into_iter().flatten().filter(|found| !found.links.is_empty()).collect();
    Ok(Page::new(
        format!("Search for {}", short(&text)),
        html! {
            @if found.is_empty() { p { "Nothing has that in its name." } }
            @for Found { kind, links } in &found {
                section {
                    h2 { (kind) }
                    ul { @for link in links.iter().take(SHOWN) { li { (link) } } }
                    @if links.len() > SHOWN { p.quiet { "More match: write more of the name." } }
                }
            }
        },
    ))
}

/// Ids lead to their pages, which say whether there is such a thing for the viewer.
fn ids(viewer: &Viewer, text: &str) -> Vec<Found> {
    let of = |kind, access, prefix: &str, address: &str| Found {
        kind,
        links: (viewer.may(access) && text.starts_with(prefix))
            .then(|| html! { a href={ (address) (percent_encode(text)) } { (short(text)) } })
            .into_iter()
            .collect(),
    };
    vec![
        of("Session", Access::Orchestrate, "s_", "/console/sessions/"),
        of("Approval", Access::Decide, "a_", "/console/approvals/"),
        of("Calls with this id", Access::Audit, "c_", "/console/calls?call="),
        of("Calls of this session", Access::Audit, "s_", "/console/calls?session="),
    ]
}

fn names(app: &App, viewer: &Viewer, text: &str) -> Vec<Found> {
    if !viewer.may(Access::Own) {
        return Vec::new();
    }
    let snapshot = app.services().registry.snapshot();
    let matches = |name: &Name| name.as_str().contains(text);
    let organizations = snapshot.organizations(viewer.caller.organization.as_ref());
    let mut agents = Vec::new();
    for organization in &organizations {
        agents.extend(snapshot.agents(organization).into_iter().filter(matches).map(|agent| {
            html! { a href=(format!("/console/organizations/{organization}/agents/{agent}")) { (organization) "/" (agent) } }
        }));
        if agents.len() > SHOWN {
            break;
        }
    }
    let organizations = organizations.iter().filter(|name| matches(name)).take(SHOWN + 1);
    let link = |name: &Name| html! { a href=(format!("/console/organizations/{name}")) { (name) } };
    vec![
        Found { kind: "Organizations", links: organizations.map(link).collect() },
        Found { kind: "Agents", links: agents },
    ]
}

/// Tools of the viewer's organization, with the agents that have them; of the platform, with their plugin.
fn tools(app: &App, viewer: &Viewer, text: &str) -> Vec<Found> {
    if !viewer.may(Access::Own) {
        return Vec::new();
    }
    let snapshot = app.services().registry.snapshot();
    let catalogue = match &viewer.caller.organization {
        Some(own) => snapshot.catalogue_of(own),
        None => snapshot.catalogue().clone(),
    };
    let address = |name: &str| match &viewer.caller.organization {
        Some(own) => format!("/console/explain/{own}?tool={}", percent_encode(name)),
        None => format!("/console/plugins/{}", percent_encode(name.split('/').next().unwrap_or_default())),
    };
    // A tool that the platform keeps from the organization does not exist for it.
    let rules = viewer.caller.organization.as_ref().and_then(|own| snapshot.organization(own));
    let seen = catalogue
        .tools()
        .iter()
        .filter(|tool| rules.as_ref().is_none_or(|rules| rules.is_available(tool.index())));
    let named = seen.map(|tool| tool.id().to_string()).filter(|name| name.contains(text));
    let links =
        named.take(SHOWN + 1).map(|name| html! { a href=(address(&name)) { code { (short(&name)) } } });
    vec![Found { kind: "Tools", links: links.collect() }]
}

fn tokens(app: &App, viewer: &Viewer, text: &str) -> Vec<Found> {
    let listed = app.services().identity.list(&viewer.caller, None, usize::MAX).unwrap_or_default();
    let matching = listed
        .into_iter()
        .filter(|known| known.id.starts_with(text) || known.label.to_lowercase().contains(text));
    let link = |known: toolgate_core::identity::TokenSummary| {
        html! { a href="/console/tokens" { (token(&known.id, Some(&known.label))) } " " (known.role.as_str()) }
    };
    vec![Found { kind: "Tokens", links: matching.take(SHOWN + 1).map(link).collect() }]
}
