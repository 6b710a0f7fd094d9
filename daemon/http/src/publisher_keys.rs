//! Publishers' keys over HTTP: of the platform, and of an organization for its own loads (O2).

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentEntry};
use toolgate_api::page::List;
use toolgate_api::publisher::PublisherKeyDocument;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::documents::{self, Document, WriteOptions, Written, document_response, documents};
use super::error_responses::{
    InvalidPublisherKey, NoPublisherKey, StoreUnreadable, StrictWarnings, TagErrors,
};
use super::extract::{Client, Path, Query, Tags};
use super::paging::Page;
use super::path_params::{DeleteHeaders, OwnerPath, PublisherKeyPath, WriteHeaders};
use super::problem::Problem;

/// List the publishers' keys of [the platform|an organization].
///
/// They verify [plugins that operators load, and those that organizations load for themselves|plugins that the organization
/// loads for itself, beside the keys of the platform].
#[utoipa::path(
    get, path = "/v1/[platform|orgs/{org}]/publisher-keys", tag = "publishers", operation_id = "list_[|org_]publisher_keys", params(OwnerPath, Page),
    responses((status = 200, description = "A page of the keys, by name.", body = List<DocumentEntry<PublisherKeyDocument>>), StoreUnreadable),
)]
pub async fn list(
    client: Client,
    Path(OwnerPath { organization }): Path<OwnerPath>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    client.expect_own(organization.as_ref())?;
    let within = organization.as_ref().map_or("", |organization| organization.as_str());
    documents(&client.app, DocumentKind::PublisherKey, within, &page).await
}

/// Get a publisher's key of [the platform|an organization].
///
/// The `ETag` is the value that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/[platform|orgs/{org}]/publisher-keys/{name}", tag = "publishers", operation_id = "get_[|org_]publisher_key",
    params(PublisherKeyPath),
    responses(Document<PublisherKeyDocument>, NoPublisherKey, StoreUnreadable),
)]
pub(crate) async fn get(client: Client, Path(path): Path<PublisherKeyPath>) -> Result<Response, Problem> {
    document_response(&client.app, &own_key(&client, path)?).await
}

/// Create or replace a publisher's key of [the platform|an organization].
///
/// The key verifies signatures of plugin files [from the next load on, under the namespaces that it names|that the organization
/// loads for itself, beside the keys of the platform]. A publisher rotates its key by a second one that is valid at the same
/// time. A revoked key verifies nothing any more; versions that it signed go on serving, and are shown with the reason.
#[utoipa::path(
    put, path = "/v1/[platform|orgs/{org}]/publisher-keys/{name}", tag = "publishers", operation_id = "put_[|org_]publisher_key",
    params(PublisherKeyPath, WriteHeaders, WriteOptions),
    request_body(content = PublisherKeyDocument, example = json!({"publisher": "acme", "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "namespaces": ["crm", "billing-*"]})),
    responses(Written<DocumentAccepted>, InvalidPublisherKey, StrictWarnings, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<PublisherKeyPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, own_key(&client, path)?, request).await
}

/// Delete a publisher's key of [the platform|an organization].
///
/// The key verifies no further load. Versions that it signed go on serving, and are shown with the reason.
#[utoipa::path(
    delete, path = "/v1/[platform|orgs/{org}]/publisher-keys/{name}", tag = "publishers", operation_id = "delete_[|org_]publisher_key",
    params(PublisherKeyPath, DeleteHeaders),
    responses((status = 204, description = "The key is deleted."), NoPublisherKey, TagErrors),
)]
pub(crate) async fn delete(
    client: Client,
    Path(path): Path<PublisherKeyPath>,
    tags: Tags,
) -> Result<StatusCode, Problem> {
    documents::delete(&client, &own_key(&client, path)?, tags).await
}

/// Returns the key of the document, if its organization exists and is the client's.
fn own_key(
    client: &Client,
    PublisherKeyPath { organization, name }: PublisherKeyPath,
) -> Result<DocumentKey, Problem> {
    client.expect_own(organization.as_ref())?;
    Ok(DocumentKey::PublisherKey(organization, name))
}
