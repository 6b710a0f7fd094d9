//! Organizations with their agents, plugins and credentials, and one agent with its document.

use axum::extract::State;
use axum::http::Uri;
use maud::{Markup, html};
use serde_json::value::RawValue;
use toolgate_api::credential::CredentialView;
use toolgate_api::name::Name;
use toolgate_api::page::List;
use toolgate_api::plugin::PluginView;
use toolgate_core::identity::Access;
use toolgate_core::registry::RuleKey;
use toolgate_http::documents::stored_warnings;
use toolgate_http::extract::{Path, Query};
use toolgate_http::paging;
use toolgate_http::path_params::{OrgPath, OwnerPath};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_http::{credentials, plugins};
use toolgate_state::documents::DocumentKey;

use super::credentials::{credentials_table, list_address as credentials_address};
use super::documents::keys_address;
use super::elements::{
    Filters, PAGE_BYTES, ROWS, digest, empty, json, next_page, short, table, warnings_list,
};
use super::form::FormFields;
use super::page::Page;
use super::plugin_uploads::Holder;
use super::plugins::state_badge;
use super::viewer::Viewer;
use super::{organization_forms, policies};

/// A page of the names of the organizations that the viewer may see.
pub(super) fn names(app: &App, viewer: &Viewer, cursor: Option<&str>) -> Result<List<Name>, Problem> {
    viewer.caller.may(Access::Own)?;
    let snapshot = app.services().registry.snapshot();
    let mut names = snapshot.organizations(viewer.caller.organization.as_ref());
    names.retain(|name| name.as_str() > cursor.unwrap_or(""));
    Ok(List::new(names, ROWS, ToString::to_string))
}

/// Links to a page of each organization.
pub(super) fn links(names: &[Name], prefix: &str) -> Markup {
    if names.is_empty() {
        return no_organization();
    }
    html! { ul { @for name in names { li { a href=(format!("{prefix}{name}")) { (name) } } } } }
}

/// The note of pages that are about organizations, where there is none.
pub(super) fn no_organization() -> Markup {
    html! {
        div.empty {
            p { "There is no organization yet. " a href="/console/organizations#new" { "Create one first" } ": its agents call tools." }
        }
    }
}

/// The first thing to do in an installation without an organization, or in an organization without an agent.
pub(super) fn first_step(app: &App, viewer: &Viewer) -> Option<Markup> {
    let snapshot = app.services().registry.snapshot();
    match &viewer.caller.organization {
        None if viewer.may(Access::Operate) && snapshot.organizations(None).is_empty() => {
            Some(no_organization())
        }
        Some(own) if viewer.may(Access::Own) && snapshot.agents(own).is_empty() => Some(html! {
            div.empty {
                p { "The organization has no agent yet. " a href=(format!("/console/organizations/{own}#agents")) { "Create one first" } ": programs call tools for it." }
            }
        }),
        _ => None,
    }
}

/// The organizations.
pub(super) async fn index(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(page): Filters<paging::Page>,
) -> Result<Page, Problem> {
    let found = names(&app, &viewer, page.cursor.as_deref())?;
    let snapshot = app.services().registry.snapshot();
    let rows = html! {
        @for name in &found.items {
            tr {
                th scope="row" { a href=(format!("/console/organizations/{name}")) { (name) } }
                td.number { (snapshot.agents(name).len()) }
                td { a href=(format!("/console/explain/{name}")) { "explain" } }
                td { a href=(format!("/console/catalogue?org={name}")) { "catalogue" } }
                td { a href=(format!("/console/calls?organization={name}")) { "calls" } }
            }
        }
    };
    let main = html! {
        @if found.items.is_empty() { (no_organization()) }
        @else { (table("Organizations", &["Organization", "#Agents", "Tools of agents", "Plugins", "Calls"], &rows)) }
        (next_page(&uri, found.next_cursor.as_deref()))
        @if viewer.may(Access::Operate) {
            p {
                a.button href="/console/policies/platform" { "Policy of the platform" }
                a.button href=(policies::assertions_address(None)) { "Assertions of the platform" }
            }
            section aria-labelledby="new" {
                h2 id="new" { "New organization" }
                (organization_forms::new_organization(&viewer, &FormFields::default()))
            }
        }
    };
    Ok(Page::new("Organizations", main))
}

/// One organization.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(organization): Path<Name>,
    Filters(page): Filters<paging::Page>,
) -> Result<Page, Problem> {
    app.admin().expect_own(&viewer.caller, &organization)?;
    let agents = agents(&app, &organization, page.cursor.as_deref());
    let about = document(&app, &DocumentKey::Organization(organization.clone())).await?;
    let policy = document(&app, &DocumentKey::Policy(organization.clone())).await?;
    let (credentials, plugins) = own_things(&app, &viewer, &organization).await?;
    let main = html! {
        (links_of(&organization))
        section aria-labelledby="agents" {
            h2 id="agents" { "Agents" }
            (agents_table(&organization, &agents.items))
            (next_page(&uri, agents.next_cursor.as_deref()))
            details { summary { "New agent" } (organization_forms::new_agent(&viewer, &organization, &FormFields::default())) }
        }
        section aria-labelledby="policy" {
            h2 id="policy" { "Policy" }
            @if policy.is_some() { (document_block(policy.as_deref())) }
            @else { div.empty { p { "There is no policy yet, so that its agents can call nothing. Edit it, and enable tools: " code { r#"{"enabled": ["arithmetic/*"]}"# } } } }
            p {
                a.button href=(format!("/console/policies/organizations/{organization}")) { "Edit the policy" }
                a.button href=(policies::assertions_address(Some(&organization))) { "Assertions" }
            }
        }
        section aria-labelledby="plugins" { h2 id="plugins" { "Own plugins" } (plugins_table(&organization, &plugins)) }
        section aria-labelledby="credentials" {
            h2 id="credentials" { "Credentials" }
            (credentials_table(&organization, &credentials))
            p { a.button href=(credentials_address(&organization)) { "Store or change credentials" } }
        }
        section aria-labelledby="document" {
            h2 id="document" { "Document" }
            (document_block(about.as_deref()))
            @if viewer.may(Access::Operate) { p { a.button href=(format!("/console/organizations/{organization}/edit")) { "Edit or delete" } } }
        }
    };
    Ok(Page::new(organization.to_string(), main))
}

/// The first credentials and own plugins of an organization.
async fn own_things(
    app: &App,
    viewer: &Viewer,
    organization: &Name,
) -> Result<(List<CredentialView>, List<PluginView>), Problem> {
    let first = || Query(paging::Page { cursor: None, limit: Some(ROWS) });
    let path = Path(OrgPath { organization: organization.clone() });
    let credentials = credentials::list(viewer.client(app), path, first()).await?.0;
    let path = Path(OwnerPath { organization: Some(organization.clone()) });
    let plugins = plugins::list(viewer.client(app), path, first()).await?.0;
    Ok((credentials, plugins))
}

fn agents(app: &App, organization: &Name, cursor: Option<&str>) -> List<Name> {
    let mut names = app.services().registry.snapshot().agents(organization);
    names.retain(|name| name.as_str() > cursor.unwrap_or(""));
    List::new(names, ROWS, ToString::to_string)
}

/// The text of a stored document; none where there is no such document.
async fn document(app: &App, key: &DocumentKey) -> Result<Option<String>, Problem> {
    let stored = app.services().store.find_document(key).await?;
    Ok(stored.map(|document| document.body))
}

fn document_block(text: Option<&str>) -> Markup {
    match text.map(|text| (text, serde_json::from_str::<&RawValue>(text))) {
        Some((_, Ok(value))) => json(value, PAGE_BYTES),
        Some((text, Err(_))) => super::elements::block(text, PAGE_BYTES),
        None => html! { p { "There is none." } },
    }
}

fn links_of(organization: &Name) -> Markup {
    html! {
        ul.links {
            li { a href=(format!("/console/explain/{organization}")) { "Explain its agents" } }
            li { a href=(format!("/console/catalogue?org={organization}")) { "Catalogue" } }
            li { a href=(format!("/console/calls?organization={organization}")) { "Calls" } }
            li { a href=(format!("/console/sessions?organization={organization}")) { "Sessions" } }
            li { a href=(format!("/console/audit?organization={organization}&kind=admin")) { "Administrative acts" } }
            li { a href=(format!("/console/tools/{organization}")) { "Tools made here" } }
            li { a href=(format!("/console/webhooks/{organization}")) { "Webhooks" } }
            li { a href=(keys_address(Some(organization))) { "Publishers' keys" } }
            li { a href="/console/tokens" { "Tokens" } }
        }
    }
}

fn agents_table(organization: &Name, agents: &[Name]) -> Markup {
    let rows = html! {
        @for agent in agents {
            tr {
                th scope="row" { a href=(format!("/console/organizations/{organization}/agents/{agent}")) { (agent) } }
                td { a href=(format!("/console/explain/{organization}/{agent}")) { "explain" } }
                td { a href=(format!("/console/calls?organization={organization}&agent={agent}")) { "calls" } }
            }
        }
    };
    match agents {
        [] => {
            html! { div.empty { p { "There are no agents here. Create one below: programs open sessions for it, and call tools." } } }
        }
        _ => table("Agents", &["Agent", "Its tools", "Its calls"], &rows),
    }
}

fn plugins_table(organization: &Name, plugins: &List<PluginView>) -> Markup {
    let rows = html! {
        @for plugin in &plugins.items {
            tr {
                th scope="row" { a href=(Holder::Organization(organization.clone()).page_of(&plugin.namespace)) { (short(&plugin.namespace)) } }
                td { (short(&plugin.version)) }
                td { (digest(&plugin.digest)) }
                td { (state_badge(plugin.state)) @if let Some(reason) = &plugin.reason { " " (short(reason)) } }
                td.number { (plugin.tools.len()) }
            }
        }
    };
    html! {
        @if plugins.items.is_empty() {
            (empty("The organization has loaded no plugins of its own.", "The platform's policy says whether it may.", None))
        } @else {
            (table("Own plugins", &["Plugin", "Version", "Digest", "State", "#Tools"], &rows))
            (cut(plugins.next_cursor.is_some(), &format!("toolgate plugin list --organization {organization}")))
        }
        p { a.button href=(format!("/console/upload/plugin/{organization}")) { "Load a plugin" } }
    }
}

fn cut(has_more: bool, command: &str) -> Markup {
    html! { @if has_more { p.quiet { "These are the first. See all with " code { (command) } "." } } }
}

/// One agent.
pub(super) async fn agent(
    State(app): State<App>,
    viewer: Viewer,
    Path((organization, agent)): Path<(Name, Name)>,
) -> Result<Page, Problem> {
    viewer.caller.may_own(&organization)?;
    let stored = app.services().store.document(&DocumentKey::agent(&organization, &agent)).await;
    let text = stored?.body;
    let warnings =
        stored_warnings(&app, RuleKey::Agent(organization.clone(), agent.clone())).await?.0.warnings;
    let query = format!("organization={organization}&agent={agent}");
    let main = html! {
        ul.links {
            li { a href=(format!("/console/explain/{organization}/{agent}")) { "Its tools, to be switched" } }
            li { a href=(format!("/console/calls?{query}")) { "Its calls" } }
            li { a href=(format!("/console/sessions?{query}")) { "Its sessions" } }
            li { a href=(format!("/console/audit?organization={organization}&kind=admin&action=agent.put")) { "Changes of agents" } }
            li { a href=(format!("/console/organizations/{organization}")) { "Its organization" } }
        }
        @if !warnings.is_empty() { h2 { "Warnings" } (warnings_list(&warnings)) }
        h2 { "Document" }
        (document_block(Some(&text)))
        p {
            a.button href=(format!("/console/policies/agents/{organization}/{agent}")) { "Edit the document" }
            a.button href=(format!("/console/organizations/{organization}/agents/{agent}/delete")) { "Delete the agent" }
        }
    };
    Ok(Page::new(format!("{organization}/{agent}"), main))
}
