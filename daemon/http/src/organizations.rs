//! Organizations over HTTP.

use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::body::Json;
use super::documents::{DryRun, document_response, documents, name, precondition, written_response};
use super::error_responses::{
    AuditUnavailable, NoOrganization, PreconditionFailed, PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::paging::Page;
use super::path_params::{DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use toolgate_api::document::{DocumentEntry, OrganizationDocument};
use toolgate_api::page::List;

/// List the organizations.
///
/// The list is sorted by name.
#[utoipa::path(
    get, path = "/v1/orgs", tag = "organizations", operation_id = "list_organizations", params(Page),
    responses((status = 200, description = "A page of the organizations.", body = List<DocumentEntry<OrganizationDocument>>), StoreUnreadable),
)]
pub async fn list(
    State(app): State<App>,
    _: Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    documents(&app, DocumentKind::Organization, "", &page).await
}

/// Get one organization.
///
/// `PUT` and `DELETE` take the `ETag` of the response in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "get_organization",
    params(OrgPath),
    responses(
        (status = 200, description = "The document.", body = OrganizationDocument, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, StoreUnreadable,
    ),
)]
pub async fn get(
    State(app): State<App>,
    _: Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::Organization(name(&organization)?)).await
}

/// Make or replace an organization.
///
/// The document is replaced as a whole. `If-None-Match: *` creates an organization; `If-Match` with the `ETag` that
/// was read replaces one.
#[utoipa::path(
    put, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "put_organization",
    params(OrgPath, WriteHeaders, DryRun),
    request_body = OrganizationDocument,
    responses(
        (status = 200, description = "The organization is replaced.", headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "The organization is made.", headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        PreconditionFailed, PreconditionRequired, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(DryRun { dry_run }): Query<DryRun>,
    headers: HeaderMap,
    Json(document): Json<OrganizationDocument>,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    let precondition = precondition(&headers)?;
    let (admin, actor) = (app.admin(), app.actor(&caller));
    let written = admin.put_organization(actor, &organization, &document, &precondition, dry_run).await?;
    Ok(written_response(written, ()))
}

/// Delete an organization with its agents, sessions, credentials and tokens.
///
/// Running calls are cancelled, and none of its resources can be used any more. Its data is deleted as by `DELETE
/// /v1/orgs/{org}/data`; its records in the audit log are kept, without arguments.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}", tag = "organizations", operation_id = "delete_organization",
    params(OrgPath, DeleteHeaders),
    responses((status = 204, description = "The organization is gone."), NoOrganization, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let organization = name(&organization)?;
    let precondition = precondition(&headers)?;
    app.admin().delete_organization(app.actor(&caller), &organization, &precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete an organization's data.
///
/// Its sessions end with their workspaces and recorded answers, its approvals and messages are deleted, and the key that
/// encrypts the arguments of its calls in the audit log is thrown away: records stay, and so does the hash chain, with
/// `arguments_deleted`. Documents, credentials and tokens stay. A new key encrypts what follows.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/data", tag = "organizations", operation_id = "delete_organization_data",
    params(OrgPath),
    responses((status = 204, description = "The organization is gone."), NoOrganization, AuditUnavailable),
)]
pub async fn delete_data(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<StatusCode, Problem> {
    let organization = name(&organization)?;
    app.admin().delete_organization_data(app.actor(&caller), &organization).await?;
    Ok(StatusCode::NO_CONTENT)
}
