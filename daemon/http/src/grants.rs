//! Grants of operators to plugins, over HTTP.
//!
//! A grant applies to calls that start after it was written; running calls end under the previous one. It is removed
//! with its plugin.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use toolgate_api::document::DocumentAccepted;
use toolgate_api::grant::Grant;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, Document, WriteOptions, Written, grant_response};
use super::error_responses::{
    AssertionBroken, InvalidDocument, NoGrant, NoPlugin, StoreUnreadable, TagErrors,
};
use super::extract::{Client, Path};
use super::path_params::{PluginPath, WriteHeaders};
use super::problem::Problem;

/// Get the grant of a plugin.
///
/// `PUT` takes the `ETag` of the response in `If-Match`. For a plugin without a stored grant the response is what holds by
/// default, without `ETag`: nothing, but the workspace for a built-in plugin that asks for it.
#[utoipa::path(
    get, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "get_plugin_grant", params(PluginPath),
    responses(Document<Grant>, NoGrant, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, .. }: Client,
    Path(PluginPath { namespace }): Path<PluginPath>,
) -> Result<Response, Problem> {
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
    put, path = "/v1/plugins/{namespace}/grant", tag = "plugins", operation_id = "put_plugin_grant", params(PluginPath, WriteHeaders, WriteOptions),
    request_body(content = Grant, example = json!({"filesystem": "workspace", "network": [{"host": "api.example.com", "methods": ["GET"], "path": "/points/"}]})),
    responses(Written<DocumentAccepted>, NoPlugin, InvalidDocument, AssertionBroken, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<PluginPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::Grant(path.namespace), request).await
}
