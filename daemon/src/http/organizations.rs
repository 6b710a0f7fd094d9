//! Organizations and their agents over HTTP: documents, replaced whole, with entity tags.

use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_admission::{AgentDocument, CallError, ErrorType, LimitsPatch, Name, OrgRules};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, Json};
use super::extract::{Path, Query};
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated, List, Page, header};
use crate::dispatch::now_ms;
use crate::documents::{DocumentKey, DocumentKind, OrganizationDocument, Precondition, Revision};
use crate::store::Removed;

/// A document in a list.
#[derive(Serialize, ToSchema)]
pub struct DocumentView {
    /// The organization's or the agent's name.
    name: String,
    /// The tag to replace it by.
    etag: String,
    /// The document.
    #[schema(value_type = Object)]
    document: serde_json::Value,
}

/// What came of putting an agent in force.
#[derive(Serialize, ToSchema)]
pub struct AgentAccepted {
    /// What the document names and nothing answers to, and the like. It is in force all the same.
    warnings: Vec<AgentWarning>,
}

/// Something about a document that its author may not have meant.
#[derive(Serialize, ToSchema)]
pub struct AgentWarning {
    /// Where in the document: a JSON pointer.
    path: String,
    /// What about it.
    message: String,
}

/// How strictly a document is read.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Strictness {
    /// Refuse what would only be warned of.
    #[serde(default)]
    strict: bool,
}

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
        app.0.registry.put_organization(organization.clone(), OrgRules::pass_all(LimitsPatch::default()));
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
pub async fn list_agents(
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
pub async fn get_agent(
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
        (status = 200, description = "Replaced", body = AgentAccepted), (status = 201, description = "Made", body = AgentAccepted),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
        (status = 412, description = "It was changed in between", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The document is not sound", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it replaces", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn put_agent(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: axum::body::Body,
) -> Result<Response, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    let settings = &app.settings().http;
    let timeout = std::time::Duration::from_millis(settings.body_timeout_ms);
    let body = body::read(body, settings.body_bytes, timeout).await?;
    let precondition = precondition(&headers)?;
    let key = DocumentKey::agent(&organization, &agent);
    let target = format!("{organization}/{agent}");
    let writing = async {
        let text = std::str::from_utf8(&body).map_err(|_| not_text())?;
        let document = AgentDocument::parse(text)?;
        let warnings = warnings(&app, &document, strictness.strict)?;
        let _in_order = app.0.documents.lock().await;
        let written = app.0.store.put_document(&key, text, &precondition, now_ms()).await?;
        app.0.registry.put_agent(&organization, agent.clone(), document);
        Ok((written, warnings))
    };
    let (written, warnings) = app.act(&caller, Some(&organization), "agent.put", &target, writing).await?;
    let accepted = axum::Json(AgentAccepted { warnings }).into_response();
    Ok(tagged(status(written.created), written.revision, accepted))
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
pub async fn delete_agent(
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

/// What cannot be without a deleted document ends in memory too.
async fn end_with(app: &App, removed: Removed) {
    app.0.identity.drop_revoked(&removed.tokens).await;
    for session in &removed.sessions {
        app.0.sessions.end(session).await;
    }
}

fn warnings(app: &App, document: &AgentDocument, strict: bool) -> Result<Vec<AgentWarning>, CallError> {
    let warnings = document.warnings(&app.0.registry.snapshot().catalogue);
    if let Some(first) = warnings.first().filter(|_| strict) {
        let hint = "correct the document, or send it without `strict=true`";
        let error = CallError::new(ErrorType::InvalidPolicy, first.message.clone(), hint);
        return Err(error.with_details(serde_json::json!({"path": first.path})));
    }
    Ok(warnings
        .into_iter()
        .map(|warning| AgentWarning { path: warning.path, message: warning.message })
        .collect())
}

async fn documents(
    app: &App,
    kind: DocumentKind,
    scope: &str,
    page: &Page,
) -> Result<axum::Json<List<DocumentView>>, Problem> {
    let limit = page.limit();
    let found = app.0.store.documents(kind, scope, page.cursor.as_deref(), limit + 1).await;
    let mut found = found.map_err(CallError::from)?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let items: Vec<DocumentView> = found
        .into_iter()
        .map(|document| DocumentView {
            name: document.key.name().to_owned(),
            etag: document.revision.etag(),
            document: serde_json::from_str(&document.body).unwrap_or_default(),
        })
        .collect();
    let next_cursor = items.last().filter(|_| more).map(|item| item.name.clone());
    Ok(axum::Json(List { items, next_cursor }))
}

async fn stored(app: &App, key: &DocumentKey) -> Result<Response, Problem> {
    let document = app.0.store.document(key).await.map_err(CallError::from)?;
    let body = ([(axum::http::header::CONTENT_TYPE, "application/json")], document.body).into_response();
    Ok(tagged(StatusCode::OK, document.revision, body))
}

fn precondition(headers: &HeaderMap) -> Result<Precondition, Problem> {
    Ok(Precondition::from_headers(header(headers, &IF_MATCH)?, header(headers, &IF_NONE_MATCH)?)?)
}

fn tagged(status: StatusCode, revision: Revision, mut response: Response) -> Response {
    *response.status_mut() = status;
    if let Ok(tag) = HeaderValue::from_str(&revision.etag()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn status(created: bool) -> StatusCode {
    if created { StatusCode::CREATED } else { StatusCode::OK }
}

fn name(text: &str) -> Result<Name, Problem> {
    Name::parse(text).map_err(|error| Problem::new(ErrorType::InvalidRequest, error.message, error.hint))
}

fn text(document: &OrganizationDocument) -> Result<String, CallError> {
    serde_json::to_string(document)
        .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
}

fn not_text() -> CallError {
    CallError::new(ErrorType::InvalidRequest, "the document is not UTF-8", "send JSON in UTF-8")
}
