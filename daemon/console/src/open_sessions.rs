//! The open sessions of agents, and one of them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use toolgate_api::file::FileList;
use toolgate_api::page::List;
use toolgate_core::identity::Access;
use toolgate_core::sessions::Session;
use toolgate_http::documents::name;
use toolgate_http::extract::Path;
use toolgate_http::files;
use toolgate_http::path_params::{FilePath, SessionPath};
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::elements::{
    Filters, ROWS, empty, facts, filter, next_page, notice, number, parameter, percent_encode, short, table,
    time, token,
};
use super::form::SeeOther;
use super::organizations;
use super::page::Page;
use super::session_files::{self, FilesPage};
use super::viewer::Viewer;

/// Filters of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionFilters {
    organization: Option<String>,
    agent: Option<String>,
    user: Option<String>,
    /// The last session of the page before, by time and id.
    cursor: Option<String>,
}

/// The open sessions that match, the last opened first.
pub(super) async fn list(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Filters(filters): Filters<SessionFilters>,
) -> Result<Page, Problem> {
    viewer.caller.may(Access::Orchestrate)?;
    let organization = filters.organization.as_deref().map(name).transpose()?;
    let mut found = app.services().sessions.filter(|session| {
        let setup = &session.setup;
        viewer.caller.may_use_session(&setup.id, Some((&setup.organization, &setup.agent))).is_ok()
            && organization.as_ref().is_none_or(|wanted| *wanted == setup.organization)
            && filters.agent.as_ref().is_none_or(|wanted| wanted == setup.agent.as_str())
            && filters.user.as_ref().is_none_or(|wanted| Some(wanted) == setup.user.as_ref())
            && filters.cursor.as_ref().is_none_or(|cursor| place(session) < *cursor)
    });
    found.sort_by_cached_key(|session| std::cmp::Reverse(place(session)));
    let page = List::new(found, ROWS, |session| place(session));
    let main = html! {
        (filter_form(&viewer, &uri))
        @if let Some(step) = organizations::first_step(&app, &viewer) {
            (step)
        } @else if page.items.is_empty() {
            (empty("No session is open.", "Orchestrators open them. To try one:", Some("toolgate call acme/helper arithmetic/evaluate '{\"expression\": \"6 * 7\"}' --keep")))
        } @else {
            (rows(&page.items))
        }
        (next_page(&uri, page.next_cursor.as_deref()))
    };
    Ok(Page::new("Sessions", main))
}

/// Orders sessions by the time of their beginning, and by id where that is the same.
fn place(session: &Session) -> String {
    format!("{:016}-{}", session.setup.created_ms, session.setup.id)
}

fn filter_form(viewer: &Viewer, uri: &Uri) -> Markup {
    let value = |name: &str| parameter(uri, name);
    html! {
        form.filters method="get" action="/console/sessions" role="search" aria-label="Filter sessions" {
            @if viewer.caller.organization.is_none() {
                (filter("organization", "Organization", value("organization").as_deref()))
            }
            (filter("agent", "Agent", value("agent").as_deref()))
            (filter("user", "User", value("user").as_deref()))
            button { "Filter" }
            a.button href="/console/sessions" { "Reset" }
        }
    }
}

fn rows(sessions: &[Arc<Session>]) -> Markup {
    let rows = html! {
        @for session in sessions {
            @let setup = &session.setup;
            tr {
                th scope="row" { a href=(session_files::address(&setup.id)) { (time(setup.created_ms)) } }
                td { (setup.organization) "/" (setup.agent) }
                td { @if let Some(user) = &setup.user { (short(user)) } }
                td { @if let Some(channel) = &setup.channel { (short(channel)) } }
                td.number { (number(session.state.rounds())) }
                td { (time(session.last_used_ms())) }
            }
        }
    };
    table("Sessions", &["Opened", "Agent", "User", "Channel", "#Rounds", "Last used"], &rows)
}

/// One session.
pub(super) async fn page(
    State(app): State<App>,
    viewer: Viewer,
    uri: Uri,
    Path(id): Path<String>,
    Filters(page): Filters<FilesPage>,
) -> Result<Page, Problem> {
    let session = app.session_of(&viewer.caller, &id).await?;
    let setup = &session.setup;
    let (disabled, broken) = session.state.unavailable_tools();
    let labels = app.services().store.token_labels(&[&*setup.principal].into()).await?;
    let opener = token(&setup.principal, labels.get(&setup.principal).as_deref());
    let mut pairs = vec![
        ("Session", html! { code { (short(&setup.id)) } }),
        ("Agent", html! { (setup.organization) "/" (setup.agent) }),
        ("Opened", html! { (time(setup.created_ms)) " by " (opener) }),
        ("Last used", time(session.last_used_ms())),
        ("Rounds", html! { (number(session.state.rounds())) }),
    ];
    let texts = [("User", &setup.user), ("Conversation", &setup.conversation), ("Channel", &setup.channel)];
    let known = texts.into_iter().filter_map(|(term, text)| Some((term, text.as_deref()?)));
    pairs.extend(known.map(|(term, text)| (term, html! { (short(text)) })));
    let files = files::list(viewer.client(&app), Path(SessionPath { id: id.clone() })).await;
    let main = html! {
        (facts(&pairs))
        @if viewer.may(Access::Audit) { p { a href=(format!("/console/calls?session={}", percent_encode(&id))) { "See its calls" } } }
        @if !disabled.is_empty() || !broken.is_empty() {
            h2 { "Tools that it has no more" }
            ul {
                @for tool in disabled.iter().take(ROWS as usize) { li { code { (short(tool)) } " was disabled." } }
                @for (tool, reason) in broken.iter().take(ROWS as usize) { li { code { (short(tool)) } " failed too often: " (short(reason)) } }
            }
        }
        h2 { "Files" }
        @match &files {
            Ok(axum::Json(FileList { items, truncated })) => {
                (session_files::section(&viewer, &id, (items, *truncated), &page, &uri))
            },
            Err(Problem(error)) => (notice(error)),
        }
        h2 { "End" }
        (viewer.form(format!("{}/end", session_files::address(&id)), &[], html! {
            button.danger data-confirm="End the session, and remove its files?" { "End the session" }
        }))
        p.quiet { "Its running calls are cancelled, and its files removed." }
    };
    Ok(Page::new("Session", main))
}

/// A file of a session, to save.
pub(super) async fn file(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<FilePath>,
) -> Result<Response, Problem> {
    files::get(viewer.client(&app), Path(path)).await
}

/// Ends a session.
pub(super) async fn end(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<String>,
) -> Result<SeeOther, Problem> {
    let session = app.session_of(&viewer.caller, &id).await?;
    app.admin().end_session(viewer.actor(), &session).await?;
    Ok(SeeOther::to("/console/sessions"))
}
