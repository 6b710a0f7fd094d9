//! Organizations over HTTP.

use axum::http::StatusCode;
use axum::response::Response;
use toolgate_api::document::{DocumentEntry, OrganizationDocument};
use toolgate_api::page::List;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::body::Json;
use super::documents::{
    Document, DryRun, WrittenWithoutBody, document_response, documents, written_response,
};
use super::error_responses::{AuditUnavailable, NoOrganization, StoreUnreadable, TagErrors};
use super::extract::{Client, Path, Query, Tags};
use super::paging::Page;
use super::path_params::{DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;

/// List the organizations.
///
/// The list is sorted by name.
#[utoipa::path(
    get, path = "/v1/orgs", tag = "organizations", operation_id = "list_organizations", params(Page),
    responses((status = 200, description = "A page of the organizations.", body = List<DocumentEntry<OrganizationDocument>>), StoreUnreadable),
)]
pub(crate) async fn list(
    Client { app, .. }: Client,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    documents(&app, DocumentKind::Organization, "", &page).await
}

/// Get one organization.
///
/// `PUT` and `DELETE` take the `ETag` of the response in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "get_organization", params(OrgPath),
    responses(Document<OrganizationDocument>, NoOrganization, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, .. }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::Organization(organization)).await
}

/// Make or replace an organization.
///
/// The document is replaced as a whole. `If-None-Match: *` creates an organization; `If-Match` with the `ETag` that
/// was read replaces one.
#[utoipa::path(
    put, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "put_organization", params(OrgPath, WriteHeaders, DryRun),
    request_body = OrganizationDocument,
    responses(WrittenWithoutBody, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    Query(DryRun { dry_run }): Query<DryRun>,
    Tags(tags): Tags,
    Json(document): Json<OrganizationDocument>,
) -> Result<Response, Problem> {
    let (admin, actor) = (client.app.admin(), client.actor());
    let written = admin.put_organization(actor, &organization, &document, &tags, dry_run).await?;
    Ok(written_response(written, ()))
}

/// Delete an organization with its agents, sessions, credentials and tokens.
///
/// Running calls are cancelled, and none of its resources can be used any more. Its data is deleted as by `DELETE
/// /v1/orgs/{org}/data`; its records in the audit log are kept, without arguments.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "delete_organization", params(OrgPath, DeleteHeaders),
    responses((status = 204, description = "The organization is deleted."), NoOrganization, TagErrors),
)]
pub(crate) async fn delete(
    client: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    Tags(tags): Tags,
) -> Result<StatusCode, Problem> {
    client.app.admin().delete_organization(client.actor(), &organization, &tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete an organization's data.
///
/// Its sessions end with their workspaces and recorded answers, its approvals and messages are deleted, and the key that
/// encrypts the arguments of its calls in the audit log is thrown away: records stay, and so does the hash chain, with
/// `arguments_deleted`. Documents, credentials and tokens stay. A new key encrypts what follows.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/data", tag = "organizations", operation_id = "delete_organization_data", params(OrgPath),
    responses((status = 204, description = "The data of the organization is deleted."), NoOrganization, AuditUnavailable),
)]
pub(crate) async fn delete_data(
    client: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
) -> Result<StatusCode, Problem> {
    client.app.admin().delete_organization_data(client.actor(), &organization).await?;
    Ok(StatusCode::NO_CONTENT)
}
