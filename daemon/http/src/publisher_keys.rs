//! Publishers' keys over HTTP: of the platform, and of an organization for its own loads (O2).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentEntry};
use toolgate_api::page::List;
use toolgate_api::publisher::PublisherKeyDocument;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::documents::{self, WriteOptions, document_response, documents, name, own_organization};
use super::error_responses::{
    AuditUnavailable, InvalidPublisherKey, NoOrganization, NoPublisherKey, PreconditionFailed,
    PreconditionRequired, StoreUnreadable, StrictWarnings,
};
use super::extract::{Authenticated, Path, Query};
use super::paging::Page;
use super::path_params::{DeleteHeaders, OrgPath, OrgPublisherKeyPath, PublisherKeyPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;

/// List the publishers' keys of the platform.
///
/// They verify plugins that operators load, and those that organizations load for themselves.
#[utoipa::path(
    get, path = "/v1/platform/publisher-keys", tag = "publishers", operation_id = "list_publisher_keys", params(Page),
    responses((status = 200, description = "A page of the keys, by name.", body = List<DocumentEntry<PublisherKeyDocument>>), StoreUnreadable),
)]
pub async fn list(
    State(app): State<App>,
    _: Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    documents(&app, DocumentKind::PublisherKey, "", &page).await
}

/// Get a publisher's key of the platform.
///
/// The `ETag` is the value that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/platform/publisher-keys/{name}", tag = "publishers", operation_id = "get_publisher_key",
    params(PublisherKeyPath),
    responses((status = 200, description = "The document.", body = PublisherKeyDocument, headers(("ETag" = String, description = "The tag to replace it by."))), NoPublisherKey, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    _: Authenticated,
    Path(key): Path<String>,
) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::PublisherKey(None, name(&key)?)).await
}

/// Create or replace a publisher's key of the platform.
///
/// The key verifies signatures of plugin files from the next load on, under the namespaces that it names. A publisher
/// rotates its key by a second one that is valid at the same time. A revoked key verifies nothing any more; versions that
/// it signed go on serving, and are shown with the reason.
#[utoipa::path(
    put, path = "/v1/platform/publisher-keys/{name}", tag = "publishers", operation_id = "put_publisher_key",
    params(PublisherKeyPath, WriteHeaders, WriteOptions),
    request_body(content = PublisherKeyDocument, example = json!({"publisher": "acme", "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "namespaces": ["crm", "billing-*"]})),
    responses(
        (status = 200, description = "The key is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "The key is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        PreconditionFailed, InvalidPublisherKey, StrictWarnings, PreconditionRequired, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(key): Path<String>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::PublisherKey(None, name(&key)?);
    documents::put(&app, &caller, key, &options, &headers, body).await
}

/// Delete a publisher's key of the platform.
///
/// It verifies no further load. Versions that it signed go on serving, and are shown with the reason.
#[utoipa::path(
    delete, path = "/v1/platform/publisher-keys/{name}", tag = "publishers", operation_id = "delete_publisher_key",
    params(PublisherKeyPath, DeleteHeaders),
    responses((status = 204, description = "The key is gone."), NoPublisherKey, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    documents::delete(&app, &caller, &DocumentKey::PublisherKey(None, name(&key)?), &headers).await
}

/// List the publishers' keys of an organization.
///
/// They verify plugins that the organization loads for itself, beside the keys of the platform.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/publisher-keys", tag = "publishers", operation_id = "list_org_publisher_keys",
    params(OrgPath, Page),
    responses((status = 200, description = "A page of the keys, by name.", body = List<DocumentEntry<PublisherKeyDocument>>), NoOrganization, StoreUnreadable),
)]
pub async fn list_own(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    let organization = own_organization(&app, &caller, &organization)?;
    documents(&app, DocumentKind::PublisherKey, organization.as_str(), &page).await
}

/// Get a publisher's key of an organization.
///
/// The `ETag` is the value that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/publisher-keys/{name}", tag = "publishers", operation_id = "get_org_publisher_key",
    params(OrgPublisherKeyPath),
    responses((status = 200, description = "The document.", body = PublisherKeyDocument, headers(("ETag" = String, description = "The tag to replace it by."))), NoPublisherKey, StoreUnreadable),
)]
pub async fn get_own(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, key)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let organization = own_organization(&app, &caller, &organization)?;
    document_response(&app, &DocumentKey::PublisherKey(Some(organization), name(&key)?)).await
}

/// Create or replace a publisher's key of an organization.
///
/// The key verifies signatures of the plugin files that the organization loads for itself, beside the keys of the platform.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/publisher-keys/{name}", tag = "publishers", operation_id = "put_org_publisher_key",
    params(OrgPublisherKeyPath, WriteHeaders, WriteOptions),
    request_body(content = PublisherKeyDocument, example = json!({"publisher": "acme", "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "namespaces": ["crm", "billing-*"]})),
    responses(
        (status = 200, description = "The key is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "The key is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoOrganization, PreconditionFailed, InvalidPublisherKey, StrictWarnings, PreconditionRequired, AuditUnavailable,
    ),
)]
pub async fn put_own(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, key)): Path<(String, String)>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let organization = own_organization(&app, &caller, &organization)?;
    let key = DocumentKey::PublisherKey(Some(organization), name(&key)?);
    documents::put(&app, &caller, key, &options, &headers, body).await
}

/// Delete a publisher's key of an organization.
///
/// It verifies no further load. Versions that it signed go on serving, and are shown with the reason.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/publisher-keys/{name}", tag = "publishers", operation_id = "delete_org_publisher_key",
    params(OrgPublisherKeyPath, DeleteHeaders),
    responses((status = 204, description = "The key is gone."), NoPublisherKey, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete_own(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, key)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let organization = own_organization(&app, &caller, &organization)?;
    let key = DocumentKey::PublisherKey(Some(organization), name(&key)?);
    documents::delete(&app, &caller, &key, &headers).await
}
