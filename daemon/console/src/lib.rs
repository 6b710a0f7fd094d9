//! The console: pages for people, rendered on the server with `maud` (O6).
//!
//! Pages read and change through the same functions as the HTTP API and decide nothing about rights: a refusal of
//! `Admin` or `identity` is shown as the problem that it is. A handler returns `Result<Page, Problem>`, or
//! `Result<SeeOther, Problem>` for a form; `page::finish` lays pages and problems out, and adds the headers.
//!
//! INVARIANT: every route is behind `guard::require_viewer`, except sign-in, one-time links and assets. The guard checks
//! the session, and the CSRF token of every request that is not safe.

#![deny(unreachable_pub)]

// Sessions of people, and the guard of every page.
mod provider;
mod sign_in;
mod guard;
mod once;

// Pages of operators and organizations.
mod search;
mod usage;
mod audit;
mod open_sessions;
mod session_files;
mod tokens;
mod installation;
mod webhooks;
mod owned_plugins;
mod catalogue;
mod own_tools;
mod try_definition;
mod try_out;
mod agent_tools;
mod explain;
mod organizations;
mod organization_forms;
mod documents;
mod plugins;
mod hints;
mod plugin_uploads;
mod credentials;
mod credential_form;
mod assertions;
mod history;
mod policies;
mod document_form;
mod schema_form;

// Pages of calls and numbers.
mod overview;
mod verification;
mod phase_history;
mod stream;
mod calls;
mod live;

// Approvals.
mod approvals;
mod decisions;
mod approval_aids;
mod changes;
mod wishes;
mod watchers;

// What pages share.
mod upload;
mod permits;
mod fields;
mod elements;
mod page;
mod viewer;
mod session;
mod origin;
mod form;
mod assets;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use toolgate_api::error::ErrorType;

use form::SeeOther;
use live::RenderedParts;
use permits::ChangePermits;
use phase_history::PhaseHistory;
use session::ConsoleSessions;
use stream::LiveHub;
use toolgate_http::Pages;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use verification::Verifier;
use watchers::Watchers;

/// Source of the console's actions in the audit log.
const AUDIT_SOURCE: &str = "console";

/// The console, for the HTTP interface.
pub const PAGES: Pages =
    Pages { routes, audit_source: AUDIT_SOURCE, connection_page: credentials::connection_page };

/// State of the console; cheap to clone.
#[derive(Clone)]
struct Console {
    app: App,
    sessions: Arc<ConsoleSessions>,
    rendered: Arc<RenderedParts>,
    hub: Arc<LiveHub>,
    phases: Arc<PhaseHistory>,
    verifier: Arc<Verifier>,
    changes: Arc<ChangePermits>,
    watchers: Arc<Watchers>,
}

/// Returns the routes under `/console`; none if the console is off.
fn routes(app: &App) -> Router<App> {
    let settings = &app.settings().console;
    if !settings.enabled {
        return Router::new();
    }
    let sessions = Arc::new(ConsoleSessions::new(app.settings()));
    let console = Console {
        app: app.clone(),
        sessions,
        rendered: Arc::default(),
        hub: Arc::default(),
        phases: Arc::new(PhaseHistory::follow(app)),
        verifier: Arc::default(),
        changes: Arc::new(ChangePermits::new()),
        watchers: Arc::default(),
    };
    let pages = add_plugin_pages(add_reports(add_core_pages(Router::new())));
    let guarded = add_session_pages(add_organization_pages(pages))
        .route("/console/{*rest}", any(no_page))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(console.clone(), guard::require_viewer));
    let open = Router::new()
        .route("/console/sign-in", get(sign_in::page).post(sign_in::sign_in))
        .route("/console/sign-in/provider", get(provider::begin))
        .route("/console/sign-in/callback", get(provider::callback))
        .route("/console/sign-in/finish", get(provider::finish))
        .route("/console/once/decided", get(once::decision_page))
        .route("/console/once/{id}", post(once::show))
        .route("/console/once/{id}/decision", post(once::decide))
        .route("/console/assets/{hash}/{file}", get(assets::get))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(console.clone(), guard::provide_console));
    guarded.merge(open).layer(from_fn_with_state(console, page::finish))
}

fn add_core_pages(router: Router<App>) -> Router<App> {
    router
        .route("/console/", get(|| async { SeeOther::to("/console") }))
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/approvals", get(approvals::inbox))
        .route("/console/approvals/fragment", get(approvals::fragment))
        .route("/console/approvals/count/fragment", get(approvals::count))
        .route("/console/live/fragment", get(stream::badge))
        .route("/console/calls/live/fragment", get(stream::of_calls))
        .route("/console/approvals/live/fragment", get(stream::of_inbox))
        .route("/console/approvals/{id}/others/fragment", get(approvals::others))
        .route("/console/approvals/{id}", get(approvals::page).post(approvals::decide))
}

/// The routes that show events and their reasons: overview, calls, explanations, the audit log.
fn add_reports(router: Router<App>) -> Router<App> {
    router
        .route("/console", get(overview::page))
        .route("/console/search", get(search::page))
        .route("/console/usage", get(usage::page))
        .route("/console/usage/export", get(usage::export))
        .route("/console/calls", get(calls::list))
        .route("/console/calls/fragment", get(calls::fragment))
        .route("/console/calls/{session}/{call}", get(calls::page))
        .route("/console/explain", get(explain::index))
        .route("/console/explain/{org}", get(explain::organization))
        .route("/console/explain/{org}/{agent}", get(agent_tools::page))
        .route("/console/explain/{org}/{agent}/tools", post(agent_tools::change))
        .route("/console/audit", get(audit::list))
        .route("/console/audit/verification", get(verification::page).post(verification::verify))
        .route("/console/audit/export", get(audit::export))
}

fn add_plugin_pages(router: Router<App>) -> Router<App> {
    router
        .route("/console/catalogue", get(catalogue::list))
        .route("/console/catalogue/{org}/{namespace}", get(catalogue::page).post(catalogue::put))
        .route("/console/try/{org}", get(try_definition::page).post(try_definition::run))
        .route("/console/try/{org}/{namespace}/{tool}", get(try_out::page).post(try_out::run))
        .route("/console/tools/{org}", get(own_tools::list))
        .route("/console/define/{org}", get(own_tools::edit).post(own_tools::save))
        .route("/console/import/{org}", get(own_tools::import).post(own_tools::import_chosen))
        .route("/console/tools/{org}/{namespace}", get(own_tools::page).post(own_tools::act))
        .route("/console/tools/{org}/{namespace}/history", get(own_tools::history))
        .route(
            "/console/tools/{org}/{namespace}/grant",
            get(documents::tool_grant).post(documents::put_tool_grant),
        )
        .route("/console/plugins", get(plugins::list))
        .route("/console/plugins/{namespace}/grant", get(documents::grant).post(documents::put_grant))
        .route("/console/plugins/{namespace}/grant/history", get(documents::grant_history))
        .route("/console/plugins/{namespace}", get(plugins::page))
        .route("/console/plugins/{namespace}/hints", post(hints::confirm))
        .route("/console/plugins/{namespace}/{act}", post(plugins::act))
        .route("/console/compiling/fragment", get(plugins::compiling_fragment))
        .route("/console/upload/plugin", get(plugin_uploads::platform).post(plugin_uploads::load))
        .route(
            "/console/upload/plugin/{org}",
            get(plugin_uploads::organization).post(plugin_uploads::load_owned),
        )
        .route("/console/organizations/{org}/plugins/{namespace}", get(owned_plugins::page))
        .route("/console/organizations/{org}/plugins/{namespace}/{act}", post(owned_plugins::act))
}

fn add_organization_pages(router: Router<App>) -> Router<App> {
    router
        .route(
            "/console/organizations",
            get(organizations::index).post(organization_forms::create_organization),
        )
        .route(
            "/console/organizations/{org}/edit",
            get(organization_forms::organization).post(organization_forms::change_organization),
        )
        .route("/console/organizations/{org}/agents", post(organization_forms::create_agent))
        .route(
            "/console/organizations/{org}/agents/{agent}/delete",
            get(organization_forms::agent).post(organization_forms::delete_agent),
        )
        .route("/console/organizations/{org}", get(organizations::page))
        .route("/console/organizations/{org}/agents/{agent}", get(organizations::agent))
        .route("/console/credentials/{org}", get(credentials::list).post(credentials::create))
        .route("/console/credentials/{org}/new/{kind}", get(credentials::creation))
        .route("/console/credentials/{org}/{name}", get(credentials::page).post(credentials::act))
        .route("/console/policies/platform", get(policies::edit).post(policies::act))
        .route("/console/policies/organizations/{org}", get(policies::edit).post(policies::act))
        .route("/console/policies/agents/{org}/{agent}", get(policies::edit).post(policies::act))
        .route("/console/policies/platform/history", get(history::page))
        .route("/console/policies/organizations/{org}/history", get(history::page))
        .route("/console/policies/agents/{org}/{agent}/history", get(history::page))
        .route("/console/policies/platform/assertions", get(assertions::page).post(assertions::change))
        .route("/console/policies/platform/assertions/history", get(assertions::history))
        .route("/console/policies/organizations/{org}/assertions/history", get(assertions::history))
        .route(
            "/console/policies/organizations/{org}/assertions",
            get(assertions::page).post(assertions::change),
        )
        .route("/console/publisher-keys", get(documents::keys))
        .route("/console/publisher-keys/edit", get(documents::key).post(documents::put_key))
        .route("/console/organizations/{org}/publisher-keys", get(documents::keys))
        .route(
            "/console/organizations/{org}/publisher-keys/edit",
            get(documents::key).post(documents::put_key),
        )
        .route("/console/webhooks/{org}", get(webhooks::list).post(webhooks::create))
        .route("/console/webhooks/{org}/{name}", get(webhooks::page).post(webhooks::act))
        .route("/console/installation", get(installation::page))
        .route("/console/installation/backup", post(installation::back_up))
        .route("/console/tokens", get(tokens::list).post(tokens::create))
        .route("/console/tokens/{id}/revoke", post(tokens::revoke))
}

fn add_session_pages(router: Router<App>) -> Router<App> {
    router
        .route("/console/sessions", get(open_sessions::list))
        .route("/console/sessions/{id}", get(open_sessions::page))
        .route("/console/sessions/{id}/files/{*path}", get(open_sessions::file))
        .route("/console/sessions/{id}/view/{*path}", get(session_files::page).post(session_files::change))
        .route("/console/sessions/{id}/write", post(session_files::write))
        .route("/console/upload/file/{id}", get(session_files::upload_page).post(session_files::upload))
        .route("/console/sessions/{id}/end", post(open_sessions::end))
}

async fn no_page() -> Problem {
    Problem::new(ErrorType::NotFound, "there is no such page", "choose a page of the navigation")
}

async fn wrong_method() -> axum::response::Response {
    Problem::new(ErrorType::InvalidRequest, "this page does not take that method", "open the page again")
        .with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
}
