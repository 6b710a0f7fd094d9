//! Handlers of the plugins that an organization has enabled: its settings and its consent.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_api::catalogue::{EnabledDocument, EnabledView};
use toolgate_state::documents::DocumentKey;

use super::body::expect_json;
use super::custom::own_tool;
use super::documents::{self, DryRun, body_text, precondition, with_etag, written_response};
use super::error_responses::{
    AuditUnavailable, InvalidDocument, NoEnabledDocument, NotInCatalogue, OtherVersion, PreconditionFailed,
    PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::path_params::{DeleteHeaders, EnabledPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;

/// Get a plugin as an organization has it.
///
/// The response says what the plugin may reach, who publishes it and its risk, which is what a consent accepts; the consent
/// that was given; and the settings. It has an `ETag` once the organization has set something for the plugin.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/enabled/{namespace}", tag = "catalogue", operation_id = "get_enabled_plugin",
    params(EnabledPath),
    responses(
        (status = 200, description = "The plugin.", body = EnabledView, headers(("ETag" = String, description = "The tag to replace or delete it by, if the organization has set something."))),
        NotInCatalogue, StoreUnreadable,
    ),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
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
    responses(
        (status = 200, description = "The consent is replaced.", body = EnabledView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "The consent is made.", body = EnabledView, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NotInCatalogue, OtherVersion, PreconditionFailed, InvalidDocument, PreconditionRequired, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    Query(DryRun { dry_run }): Query<DryRun>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    expect_json(&headers)?;
    let text = body_text(&app, &caller, body).await?;
    let precondition = precondition(&headers)?;
    let (written, view) =
        app.admin().put_enabled(app.actor(&caller), &key, &text, &precondition, dry_run).await?;
    Ok(written_response(written, axum::Json(view)))
}

/// Remove the settings and the consent of an organization for a plugin.
///
/// A plugin that needs a consent is left out of the organization at once.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/enabled/{namespace}", tag = "catalogue", operation_id = "delete_enabled_plugin",
    params(EnabledPath, DeleteHeaders),
    responses((status = 204, description = "The consent is gone."), NoEnabledDocument, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = own_tool(&caller, &organization, &namespace)?;
    documents::delete(&app, &caller, &DocumentKey::Enabled(key), &headers).await
}
