//! Handlers of the plugins that an organization has enabled: its settings and its consent.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_api::catalogue::{EnabledDocument, EnabledView};
use toolgate_state::documents::DocumentKey;

use super::custom::own_tool;
use super::documents::{self, Document, DryRun, Written, body_text, with_etag, written_response};
use super::error_responses::{
    InvalidDocument, NoEnabledDocument, NotInCatalogue, OtherVersion, StoreUnreadable, TagErrors,
};
use super::extract::{Client, Path, Query, Tags};
use super::path_params::{DeleteHeaders, EnabledPath, WriteHeaders};
use super::problem::Problem;

/// Get a plugin as an organization has it.
///
/// The response says what the plugin may reach, who publishes it and its risk, which is what a consent accepts; the consent
/// that was given; and the settings. It has an `ETag` once the organization has set something for the plugin.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/enabled/{namespace}", tag = "catalogue", operation_id = "get_enabled_plugin", params(EnabledPath),
    responses(Document<EnabledView>, NotInCatalogue, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Path(path): Path<EnabledPath>,
) -> Result<Response, Problem> {
    let key = own_tool(&caller, path)?;
    let (view, revision) = app.admin().enabled_plugin(&caller, &key).await?;
    let response = axum::Json(view).into_response();
    Ok(match revision {
        Some(revision) => with_etag(StatusCode::OK, revision, response),
        None => response,
    })
}

/// Set a plugin for an organization, and accept it.
///
/// `config` has the settings, which the plugin's calls for this organization read. They are replaced as a whole, and must not
/// hold secrets. `consent` accepts what the plugin may reach; its `digest` is that of the version which was shown, and a
/// consent to another version is refused. The consent holds for later versions that ask for no more and have the same
/// publisher. Which tools the organization has, its policy's `enabled` decides.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/enabled/{namespace}", tag = "catalogue", operation_id = "put_enabled_plugin",
    params(EnabledPath, WriteHeaders, DryRun),
    request_body(content = EnabledDocument, example = json!({
        "config": {}, "consent": {"digest": "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9", "accept": true},
    })),
    responses(Written<EnabledView>, NotInCatalogue, OtherVersion, InvalidDocument, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<EnabledPath>,
    Query(DryRun { dry_run }): Query<DryRun>,
    Tags(tags): Tags,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = own_tool(&client.caller, path)?;
    let text = body_text(&client, &headers, body).await?;
    let (admin, actor) = (client.app.admin(), client.actor());
    let (written, view) = admin.put_enabled(actor, &key, &text, &tags, dry_run).await?;
    Ok(written_response(written, axum::Json(view)))
}

/// Remove the settings and the consent of an organization for a plugin.
///
/// A plugin that needs a consent is left out of the organization at once.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/enabled/{namespace}", tag = "catalogue", operation_id = "delete_enabled_plugin",
    params(EnabledPath, DeleteHeaders),
    responses((status = 204, description = "The settings and the consent are deleted."), NoEnabledDocument, TagErrors),
)]
pub(crate) async fn delete(
    client: Client,
    Path(path): Path<EnabledPath>,
    tags: Tags,
) -> Result<StatusCode, Problem> {
    let key = own_tool(&client.caller, path)?;
    documents::delete(&client, &DocumentKey::Enabled(key), tags).await
}
