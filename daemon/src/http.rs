//! HTTP API: converts requests into calls and administrative actions, and their outcomes into responses.
//!
//! This layer makes no policy decisions. The guard of a route asks `identity` whether the caller's role has the
//! access; the handler checks whether the resource is the caller's, delegates to the module that does the work, and
//! serializes the result. The OpenAPI document is generated from the same guards and handlers. Every request's host
//! is validated, because a web page can make a browser send requests to loopback (DNS rebinding).

pub mod listener;
mod service;
mod guard;
mod state;

mod path_params;
mod parameters;
mod extract;
mod body;
mod paging;
mod problem;
mod error_responses;
mod schema;
mod openapi;

mod calls;
mod dialects;
mod sessions;
mod tools;
mod events;
mod files;
mod approvals;
mod test_call;

mod documents;
mod organizations;
mod policies;
mod agents;
mod preview;
mod explain;
mod plugins;
mod grants;
mod custom;
mod credentials;
mod oauth;
mod root_key;
mod tokens;
mod audit;
mod health;

use crate::identity::Access;
use axum::response::Response;
use guard::Routes;
use problem::Problem;
pub use service::RootService;
pub use state::{App, AppParts};
use toolgate_admission::ErrorType;
use utoipa_axum::routes;

/// Builds the service of every route, with the OpenAPI document.
pub fn root_service(app: App) -> RootService {
    let (router, document) = routes(&app).into_parts();
    app.0.openapi.get_or_init(|| openapi::to_json(document));
    let hosts = app.settings().hosts();
    let router = router.fallback(no_route).method_not_allowed_fallback(wrong_method).with_state(app);
    RootService::new(router, hosts)
}

/// INVARIANT: every route has a guard, except the health routes and the OAuth2 callback. The guard stores the caller
/// in the request's extensions.
fn routes(app: &App) -> Routes {
    use Access::{Audit as ReadAudit, Operate, Orchestrate, Own, Verify};
    Routes::new(app.clone(), openapi::outline())
        .open(routes!(health::healthz))
        .open(routes!(health::readyz))
        .open(routes!(health::openapi))
        .open_to_providers(routes!(oauth::callback))
        .guarded(Operate, routes!(plugins::list))
        .guarded(Operate, routes!(plugins::get, plugins::put, plugins::delete))
        .guarded(Operate, routes!(plugins::rollback))
        .guarded(Operate, routes!(plugins::disable))
        .guarded(Operate, routes!(plugins::enable))
        .guarded(Operate, routes!(grants::get, grants::put))
        .guarded(Operate, routes!(organizations::list))
        .guarded(Operate, routes!(organizations::get, organizations::put, organizations::delete))
        .guarded(Operate, routes!(policies::get_platform, policies::put_platform))
        .guarded(Operate, routes!(policies::platform_warnings))
        .guarded(Own, routes!(policies::get, policies::put))
        .guarded(Own, routes!(policies::warnings))
        .guarded(Own, routes!(agents::list))
        .guarded(Own, routes!(agents::get, agents::put, agents::delete))
        .guarded(Own, routes!(agents::warnings))
        .guarded(Own, routes!(explain::get))
        .guarded(Operate, routes!(preview::platform))
        .guarded(Own, routes!(preview::organization))
        .guarded(Own, routes!(preview::agent))
        .guarded(Own, routes!(custom::list))
        .guarded(Own, routes!(custom::import::post))
        .guarded(Own, routes!(custom::get, custom::put, custom::delete))
        .guarded(Own, routes!(custom::refresh))
        .guarded(Own, routes!(custom::approve))
        .guarded(Operate, routes!(custom::grant::get, custom::grant::put))
        .guarded_calls(Own, routes!(test_call::post))
        .guarded(Own, routes!(credentials::list))
        .guarded(Own, routes!(credentials::get, credentials::put, credentials::delete))
        .guarded(Own, routes!(credentials::rotate))
        .guarded(Own, routes!(oauth::connect))
        .guarded(Operate, routes!(root_key::rotate))
        .guarded(Operate, routes!(root_key::unseal))
        .guarded(Own, routes!(tokens::list, tokens::post))
        .guarded(Own, routes!(tokens::delete))
        .guarded(Orchestrate, routes!(sessions::post))
        .guarded(Orchestrate, routes!(sessions::get, sessions::delete))
        .guarded(Orchestrate, routes!(tools::list))
        .guarded(Orchestrate, routes!(tools::select))
        .guarded(Orchestrate, routes!(tools::switch))
        .guarded_calls(Orchestrate, routes!(calls::post))
        .guarded(Orchestrate, routes!(calls::get, calls::delete))
        .guarded(Orchestrate, routes!(calls::result))
        .guarded(Orchestrate, routes!(events::of_session))
        .guarded(Own, routes!(events::of_organization))
        .guarded(Operate, routes!(events::all))
        .guarded(Own, routes!(approvals::list))
        .guarded(Own, routes!(approvals::get, approvals::post))
        .guarded(Orchestrate, routes!(files::list))
        .guarded(Orchestrate, routes!(files::get, files::put, files::delete))
        .guarded(ReadAudit, routes!(audit::search))
        .guarded(Verify, routes!(audit::verify))
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
