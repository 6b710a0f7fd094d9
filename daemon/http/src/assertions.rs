//! Policy assertions of the platform and of organizations over HTTP (G17).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use toolgate_api::assertion::AssertionsDocument;
use toolgate_api::document::DocumentAccepted;
use toolgate_api::name::Name;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, WriteOptions, name, with_etag};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoAssertions, NoOrganization, PreconditionFailed,
    PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::path_params::{DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;

/// Get the assertions of the platform.
///
/// Returns the document, with the assertions that do not hold in `broken`.
#[utoipa::path(
    get, path = "/v1/platform/policy/assertions", tag = "policies", operation_id = "get_platform_assertions",
    responses((status = 200, description = "The document.", body = AssertionsDocument, headers(("ETag" = String, description = "The tag to replace or delete it by."))), NoAssertions, StoreUnreadable),
)]
pub async fn get_platform(State(app): State<App>, _: Authenticated) -> Result<Response, Problem> {
    response(&app, None).await
}

/// The stored document with the assertions that do not hold now.
async fn response(app: &App, organization: Option<Name>) -> Result<Response, Problem> {
    let broken = app.admin().broken_assertions(organization.as_ref()).await?;
    let stored = app.services().store.document(&DocumentKey::Assertions(organization)).await;
    let stored = stored?;
    let mut shown: Value = serde_json::from_str(&stored.body).unwrap_or_default();
    if let Some(members) = shown.as_object_mut() {
        members.remove("broken");
        members.extend((!broken.is_empty()).then(|| ("broken".to_owned(), json!(broken))));
    }
    Ok(with_etag(StatusCode::OK, stored.revision, axum::Json(shown).into_response()))
}

/// Create or replace the assertions of the platform.
///
/// An assertion states which agents cannot call a tool (`never`), which calls need a person (`always_approval`), or
/// which agents alone can call a tool (`only`). From now on, each change of a policy, agent, plugin, grant or custom
/// tool that would break one is refused. A document with an assertion that does not hold now is refused too.
#[utoipa::path(
    put, path = "/v1/platform/policy/assertions", tag = "policies", operation_id = "put_platform_assertions",
    params(WriteHeaders, WriteOptions),
    request_body(content = AssertionsDocument, example = json!({"assertions": [{"name": "no-deletes", "never": {"agents": "acme/*", "tools": ["files/delete"]}}]})),
    responses(
        (status = 200, description = "The assertions are replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "The assertions are made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put_platform(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    documents::put(&app, &caller, DocumentKey::Assertions(None), &options, &headers, body).await
}

/// Delete the assertions of the platform.
///
/// Later changes are not checked against them. The assertions of organizations stay.
#[utoipa::path(
    delete, path = "/v1/platform/policy/assertions", tag = "policies", operation_id = "delete_platform_assertions",
    params(DeleteHeaders),
    responses((status = 204, description = "The assertions are deleted."), NoAssertions, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete_platform(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    documents::delete(&app, &caller, &DocumentKey::Assertions(None), &headers).await
}

/// Get the assertions of an organization.
///
/// Returns the document, with the assertions that do not hold in `broken`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy/assertions", tag = "policies", operation_id = "get_organization_assertions",
    params(OrgPath),
    responses((status = 200, description = "The document.", body = AssertionsDocument, headers(("ETag" = String, description = "The tag to replace or delete it by."))), NoAssertions, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    response(&app, Some(organization)).await
}

/// Create or replace the assertions of an organization.
///
/// They are about the agents of the organization, which they name without it. Operators' changes of its documents that
/// would break one are refused too; changes of the platform are not, and `broken` shows what they broke.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/policy/assertions", tag = "policies", operation_id = "put_organization_assertions",
    params(OrgPath, WriteHeaders, WriteOptions),
    request_body(content = AssertionsDocument, example = json!({"assertions": [{"name": "payments-ask", "always_approval": {"tools": ["payments/*"]}}]})),
    responses(
        (status = 200, description = "The assertions are replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "The assertions are made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::Assertions(Some(name(&organization)?));
    documents::put(&app, &caller, key, &options, &headers, body).await
}

/// Delete the assertions of an organization.
///
/// Later changes are not checked against them. The assertions of the platform stay.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/policy/assertions", tag = "policies", operation_id = "delete_organization_assertions",
    params(OrgPath, DeleteHeaders),
    responses((status = 204, description = "The assertions are deleted."), NoAssertions, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = DocumentKey::Assertions(Some(name(&organization)?));
    documents::delete(&app, &caller, &key, &headers).await
}
