//! HTTP API: converts requests into calls and administrative actions, and their outcomes into responses.
//!
//! This layer makes no policy decisions. The guard of a route asks `identity` whether the caller's role has the
//! access; the handler checks whether the resource is the caller's, delegates to the module that does the work, and
//! serializes the result. The OpenAPI document is generated from the same guards and handlers. Every request's host
//! is validated, because a web page can make a browser send requests to loopback (DNS rebinding).

#![deny(unreachable_pub)]

// Connections.
pub mod listener;
mod service;

// Other protocols.
mod mcp;
pub mod metrics;

// Operations: calls and sessions.
mod calls;
mod session_lists;
mod test_call;
pub mod explain;
pub mod sessions;
mod events;
mod file_blocks;
pub mod files;
mod find_tool;
mod tools;
mod approvals;
pub mod usage;
pub mod audit;

// Operations: administration.
pub mod custom_import;
pub mod owned_plugins;
mod enabled;
pub mod custom;
mod grants;
pub mod plugins;
pub mod publisher_keys;
pub mod catalogue;
mod agents;
mod assertions;
mod policies;
mod organizations;
mod history;
mod preview;
mod oauth;
pub mod credentials;
mod root_key;
mod webhooks;
mod sign_in;
pub mod tokens;
pub mod backups;
pub mod health;

// What operations share.
pub mod documents;
mod dialects;
pub mod frame;
mod prompt;
mod openapi;
mod guard;
mod owners;
mod protected_resource;
mod parameters;
pub mod path_params;
pub mod extract;
pub mod schema;
pub mod paging;
mod error_responses;
pub mod body;
pub mod state;
pub mod body_memory;
mod host_check;
pub mod header;
pub mod problem;
pub mod connections;

use axum::Router;
use axum::response::Response;
use guard::Routes;
use problem::Problem;
use toolgate_api::error::ErrorType;
use toolgate_core::identity::Access;
use utoipa_axum::routes;

pub use body_memory::BodyMemory;
pub use host_check::ServedHosts;
pub use service::RootService;
pub use state::{App, AppParts, Pages};

/// Builds the service of every route.
pub fn root_service(app: App) -> RootService {
    let service = RootService::starting(ServedHosts::new(app.settings().hosts()));
    service.serve(app);
    service
}

/// Builds the router of every route, with the OpenAPI document.
fn router(app: App) -> Router {
    let (router, document) = routes(&app).into_parts();
    app.0.openapi.get_or_init(|| openapi::to_json(document));
    let router = router.merge((app.0.pages.routes)(&app));
    router.fallback(no_route).method_not_allowed_fallback(wrong_method).with_state(app)
}

/// INVARIANT: every route has a guard, except the health routes, the OAuth2 callback and metadata, the sign-in, and the
/// callback of webhooks, which verifies signatures. The guard stores the caller
/// in the request's extensions. The console has a guard of its own.
fn routes(app: &App) -> Routes {
    let routes = add_open_routes(Routes::new(app.clone(), openapi::outline()));
    add_call_routes(app, add_administration(add_plugin_routes(routes)))
}

fn add_open_routes(routes: Routes) -> Routes {
    routes
        .add_open(routes!(health::healthz))
        .add_open(routes!(health::readyz))
        .add_open(routes!(health::openapi))
        .add_open(routes!(oauth::client_metadata))
        .add_open(routes!(protected_resource::of_host))
        .add_open(routes!(protected_resource::of_mcp))
        .add_open_to_providers(routes!(oauth::callback))
        .add_open(routes!(sign_in::begin))
        .add_open(routes!(sign_in::finish))
        .add_open(routes!(webhooks::callback))
}

/// The routes of plugins, their grants and the keys of their publishers.
fn add_plugin_routes(routes: Routes) -> Routes {
    use Access::{Operate, Own};
    routes
        .add_guarded(Operate, routes!(metrics::get))
        .add_for_both_owners(|| routes!(plugins::list))
        .add_for_both_owners(|| routes!(plugins::get, plugins::delete))
        .add_for_both_owners(|| routes!(plugins::rollback))
        .add_for_both_owners(|| routes!(plugins::approve))
        .add_for_both_owners(|| routes!(plugins::disable))
        .add_for_both_owners(|| routes!(plugins::enable))
        .add_guarded(Operate, routes!(plugins::put))
        .add_guarded(Own, routes!(owned_plugins::put))
        .add_guarded(Operate, routes!(grants::get, grants::put))
        .add_for_both_owners(|| routes!(publisher_keys::list))
        .add_for_both_owners(|| routes!(publisher_keys::get, publisher_keys::put, publisher_keys::delete))
}

/// The other routes of operators and of owners.
fn add_administration(routes: Routes) -> Routes {
    use Access::{Operate, Own};
    routes
        .add_guarded(Operate, routes!(organizations::list))
        .add_guarded(Operate, routes!(organizations::get, organizations::put, organizations::delete))
        .add_guarded(Own, routes!(organizations::delete_data))
        .add_guarded(Operate, routes!(policies::get_platform, policies::put_platform))
        .add_guarded(Operate, routes!(policies::platform_warnings))
        .add_guarded(Own, routes!(policies::get, policies::put))
        .add_guarded(Own, routes!(policies::warnings))
        .add_for_both_owners(|| routes!(assertions::get, assertions::put, assertions::delete))
        .add_guarded(Own, routes!(history::get))
        .add_guarded(Own, routes!(agents::list))
        .add_guarded(Own, routes!(agents::get, agents::put, agents::delete))
        .add_guarded(Own, routes!(agents::warnings))
        .add_guarded(Own, routes!(explain::get))
        .add_guarded(Operate, routes!(preview::platform))
        .add_guarded(Own, routes!(preview::organization))
        .add_guarded(Own, routes!(preview::agent))
        .add_guarded(Own, routes!(catalogue::list))
        .add_guarded(Own, routes!(enabled::get, enabled::put, enabled::delete))
        .add_guarded(Own, routes!(custom::list))
        .add_guarded(Own, routes!(custom_import::post))
        .add_guarded(Own, routes!(custom::get, custom::put, custom::delete))
        .add_guarded(Own, routes!(custom::refresh))
        .add_guarded(Own, routes!(custom::approve))
        .add_guarded(Operate, routes!(custom::get_grant, custom::put_grant))
        .add_guarded_calls(Own, routes!(test_call::post))
        .add_guarded(Own, routes!(credentials::list))
        .add_guarded(Own, routes!(credentials::get, credentials::put, credentials::delete))
        .add_guarded(Own, routes!(credentials::rotate))
        .add_guarded(Own, routes!(oauth::connect))
        .add_guarded(Own, routes!(oauth::discover))
        .add_guarded(Own, routes!(webhooks::list))
        .add_guarded(Own, routes!(webhooks::get, webhooks::put, webhooks::delete))
        .add_guarded(Own, routes!(webhooks::test))
        .add_guarded(Operate, routes!(backups::post))
        .add_guarded(Operate, routes!(root_key::rotate))
        .add_guarded(Operate, routes!(root_key::unseal))
        .add_guarded(Own, routes!(tokens::list, tokens::post))
        .add_guarded(Own, routes!(tokens::delete))
}

/// The routes of sessions and their calls, and of those who watch them.
fn add_call_routes(app: &App, routes: Routes) -> Routes {
    use Access::{Audit as ReadAudit, Decide, Operate, Orchestrate, Own, UseTools, Verify};
    routes
        .add_guarded(Orchestrate, routes!(sessions::post, session_lists::list))
        .add_guarded(Orchestrate, routes!(sessions::get, sessions::delete))
        .add_guarded(Orchestrate, routes!(tools::list))
        .add_guarded(Orchestrate, routes!(tools::select))
        .add_guarded(Orchestrate, routes!(tools::switch))
        .add_guarded_calls(calls::ACCESS, routes!(calls::post, session_lists::calls))
        .add_guarded(Orchestrate, routes!(calls::get, calls::delete))
        .add_guarded(Orchestrate, routes!(calls::result))
        .add_guarded(Orchestrate, routes!(events::of_session))
        .add_guarded(Own, routes!(events::of_organization))
        .add_guarded(Operate, routes!(events::all))
        .add_guarded(Decide, routes!(approvals::list))
        .add_guarded(Decide, routes!(approvals::get, approvals::post))
        .add_guarded(Orchestrate, routes!(files::list))
        .add_guarded(Orchestrate, routes!(files::get, files::put, files::delete))
        .add_guarded_protocol(UseTools, "/mcp", mcp::routes(app))
        .add_guarded(ReadAudit, routes!(audit::search))
        .add_guarded(ReadAudit, routes!(audit::export))
        .add_guarded(ReadAudit, routes!(usage::report))
        .add_guarded(Verify, routes!(audit::verify))
}

async fn no_route() -> Problem {
    Problem::new(
        ErrorType::NotFound,
        "there is no such route",
        "see `/openapi.json` for the routes; a path has one spelling",
    )
}

async fn wrong_method() -> Response {
    Problem::new(
        ErrorType::InvalidRequest,
        "this route does not take that method",
        "see `/openapi.json` for the methods",
    )
    .with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
}
