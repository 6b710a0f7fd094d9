//! Agents over HTTP.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use toolgate_admission::AgentDocument;

use super::documents::{
    DocumentAccepted, DocumentView, Strictness, accepted, body_text, documents, end_with, name, precondition,
    stored, warned,
};
use super::extract::{Path, Query};
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated, List, Page};
use crate::dispatch::now_ms;
use crate::documents::{DocumentKey, DocumentKind};

/// The agents of an organization.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents", tag = "agents",
    params(("org" = String, Path, description = "The organization"), Page),
    responses(
        (status = 200, description = "By name", body = List<DocumentView>),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentView>>, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    if !app.0.registry.snapshot().knows(&organization) {
        return Err(Problem::not_found("organization"));
    }
    documents(&app, DocumentKind::Agent, organization.as_str(), &page).await
}

/// One agent.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents",
    params(("org" = String, Path, description = "The organization"), ("agent" = String, Path, description = "The agent")),
    responses(
        (status = 200, description = "The document, with its `ETag`", body = Object),
        (status = 404, description = "No such agent", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    stored(&app, &DocumentKey::agent(&organization, &agent)).await
}

/// Make or replace an agent. It holds at once, for open sessions too.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents",
    params(("org" = String, Path, description = "The organization"), ("agent" = String, Path, description = "The agent"),
        ("If-Match" = Option<String>, Header, description = "The tag of what is replaced"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new one"), Strictness),
    request_body = Object,
    responses(
        (status = 200, description = "Replaced", body = DocumentAccepted), (status = 201, description = "Made", body = DocumentAccepted),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
        (status = 412, description = "It was changed in between", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The document is not sound", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it replaces", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    let text = body_text(&app, body).await?;
    let precondition = precondition(&headers)?;
    let key = DocumentKey::agent(&organization, &agent);
    let target = format!("{organization}/{agent}");
    let writing = async {
        let document = AgentDocument::parse(&text)?;
        let warnings = warned(document.warnings(&app.0.registry.snapshot().catalogue), strictness.strict)?;
        let _in_order = app.0.documents.lock().await;
        let written = app.0.store.put_document(&key, &text, &precondition, now_ms()).await?;
        app.0.registry.put_agent(&organization, agent.clone(), document);
        Ok((written, warnings))
    };
    let (written, warnings) = app.act(&caller, Some(&organization), "agent.put", &target, writing).await?;
    Ok(accepted(&written, warnings))
}

/// Delete an agent; its sessions end.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents",
    params(("org" = String, Path, description = "The organization"), ("agent" = String, Path, description = "The agent"),
        ("If-Match" = Option<String>, Header, description = "The tag of what is deleted")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "No such agent", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it deletes", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    let precondition = precondition(&headers)?;
    let key = DocumentKey::agent(&organization, &agent);
    let target = format!("{organization}/{agent}");
    let deleting = async {
        let _in_order = app.0.documents.lock().await;
        let removed = app.0.store.delete_document(&key, &precondition, now_ms()).await?;
        app.0.registry.remove_agent(&organization, &agent);
        end_with(&app, removed).await;
        Ok(())
    };
    app.act(&caller, Some(&organization), "agent.delete", &target, deleting).await?;
    Ok(StatusCode::NO_CONTENT)
}
