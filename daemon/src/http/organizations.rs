//! Organizations over HTTP.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_admission::{CallError, ErrorType};

use super::body::Json;
use super::documents::{DocumentView, documents, end_with, name, precondition, status, stored, tagged};
use super::extract::{Path, Query};
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated, List, Page};
use crate::dispatch::now_ms;
use crate::documents::{DocumentKey, DocumentKind, OrganizationDocument};

/// All organizations.
#[utoipa::path(
    get, path = "/v1/orgs", tag = "organizations", params(Page),
    responses((status = 200, description = "By name", body = List<DocumentView>)),
    security(("token" = [])),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentView>>, Problem> {
    caller.may_operate()?;
    documents(&app, DocumentKind::Organization, "", &page).await
}

/// One organization.
#[utoipa::path(
    get, path = "/v1/orgs/{org}", tag = "organizations",
    params(("org" = String, Path, description = "The organization")),
    responses(
        (status = 200, description = "The document, with its `ETag`", body = OrganizationDocument),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    caller.may_operate()?;
    stored(&app, &DocumentKey::Organization(name(&organization)?)).await
}

/// Make or replace an organization.
#[utoipa::path(
    put, path = "/v1/orgs/{org}", tag = "organizations",
    params(("org" = String, Path, description = "The organization"),
        ("If-Match" = Option<String>, Header, description = "The tag of what is replaced"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new one")),
    request_body = OrganizationDocument,
    responses(
        (status = 200, description = "Replaced"), (status = 201, description = "Made"),
        (status = 412, description = "It was changed in between", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it replaces", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
    Json(document): Json<OrganizationDocument>,
) -> Result<Response, Problem> {
    caller.may_operate()?;
    let organization = name(&organization)?;
    let key = DocumentKey::Organization(organization.clone());
    let precondition = precondition(&headers)?;
    let writing = async {
        let body = text(&document)?;
        let _in_order = app.0.documents.lock().await;
        let written = app.0.store.put_document(&key, &body, &precondition, now_ms()).await?;
        app.0.registry.put_organization(organization.clone());
        Ok(written)
    };
    let written =
        app.act(&caller, Some(&organization), "organization.put", organization.as_str(), writing).await?;
    Ok(tagged(status(written.created), written.revision, ().into_response()))
}

/// Delete an organization with its agents, sessions and tokens.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}", tag = "organizations",
    params(("org" = String, Path, description = "The organization"),
        ("If-Match" = Option<String>, Header, description = "The tag of what is deleted")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it deletes", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    caller.may_operate()?;
    let organization = name(&organization)?;
    let key = DocumentKey::Organization(organization.clone());
    let precondition = precondition(&headers)?;
    let deleting = async {
        let _in_order = app.0.documents.lock().await;
        let removed = app.0.store.delete_document(&key, &precondition, now_ms()).await?;
        app.0.registry.remove_organization(&organization);
        end_with(&app, removed).await;
        Ok(())
    };
    app.act(&caller, Some(&organization), "organization.delete", organization.as_str(), deleting).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn text(document: &OrganizationDocument) -> Result<String, CallError> {
    serde_json::to_string(document)
        .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
}
