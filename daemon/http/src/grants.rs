//! Grants of operators to plugins, over HTTP.
//!
//! A grant applies to calls that start after it was written; running calls end under the previous one. It is removed
//! with its plugin.
use toolgate_api::grant::Grant;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, WriteOptions, grant_response};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoGrant, NoPlugin, PreconditionFailed,
    PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::path_params::{PluginPath, WriteHeaders};
use super::plugins::parse_namespace;
use super::problem::Problem;
use super::state::App;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use toolgate_api::document::DocumentAccepted;

/// Get the grant of a plugin.
///
/// `PUT` takes the `ETag` of the response in `If-Match`. For a plugin without a stored grant the response is what holds by
/// default, without `ETag`: nothing, but the workspace for a built-in plugin that asks for it.
#[utoipa::path(
    get, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "get_plugin_grant",
    params(PluginPath),
    responses((status = 200, description = "The document.", body = Grant, headers(("ETag" = String, description = "The tag to replace it by."))), NoGrant, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    _: Authenticated,
    Path(namespace): Path<String>,
) -> Result<Response, Problem> {
    let namespace = parse_namespace(&namespace)?;
    let snapshot = app.services().registry.snapshot();
    let served = || Some(Arc::clone(&snapshot.catalogue().plugin(&namespace)?.granted));
    grant_response(&app, &DocumentKey::Grant(namespace.clone()), served).await
}

/// Grant a plugin what its calls may reach.
///
/// The grant is replaced as a whole and applies at once. A call may reach what the plugin requests, the grant allows,
/// and `network` of the organization's policy and of the agent's document permit. A permission that the plugin does
/// not request causes a warning. The grant is removed with the plugin.
#[utoipa::path(
    put, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "put_plugin_grant",
    params(PluginPath, WriteHeaders, WriteOptions),
    request_body(content = Grant, example = json!({"filesystem": "workspace", "network": [{"host": "api.example.com", "methods": ["GET"], "path": "/points/"}]})),
    responses(
        (status = 200, description = "The grant is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "The grant is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoPlugin, PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(namespace): Path<String>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::Grant(parse_namespace(&namespace)?);
    documents::put(&app, &caller, key, &options, &headers, body).await
}
