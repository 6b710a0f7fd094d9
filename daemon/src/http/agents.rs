//! Agents over HTTP.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::address::{AgentAddress, DeleteHeaders, OrganizationAddress, WriteHeaders};
use super::documents::{
    DocumentAccepted, DocumentEntry, DocumentView, DocumentWarnings, Strictness, documents, name,
    precondition, stored, stored_warnings,
};
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{
    Changed, NoAgent, NoOrganization, NothingSaid, Unreadable, Unrecordable, UnsoundDocument,
};
use super::schema::AgentForm;
use super::{App, Authenticated, List, Page};
use crate::documents::{DocumentKey, DocumentKind, RuleKey};

/// List the agents of an organization.
///
/// By name.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents", tag = "agents", operation_id = "list_agents",
    params(OrganizationAddress, Page),
    responses(
        (status = 200, description = "A page of the agents.", body = List<DocumentEntry<AgentForm>>),
        NoOrganization, Unreadable,
    ),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentView>>, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    if !app.parts().registry.snapshot().knows(&organization) {
        return Err(Problem::not_found("organization"));
    }
    documents(&app, DocumentKind::Agent, organization.as_str(), &page).await
}

/// Get one agent.
///
/// Its `ETag` is what `PUT` and `DELETE` ask for in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "get_agent",
    params(AgentAddress),
    responses((status = 200, description = "The document.", body = AgentForm, headers(("ETag" = String, description = "The tag to replace or delete it by."))), NoAgent, Unreadable),
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

/// Make or replace an agent.
///
/// It holds at once, for open sessions too. `If-None-Match: *` makes a new one, `If-Match` with the `ETag`
/// that was read replaces one. A field that nothing enforces is refused; a tool that nothing loaded answers to
/// is warned of, since policies come before plugins.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "put_agent",
    params(AgentAddress, WriteHeaders, Strictness),
    request_body(content = AgentForm, example = json!({"name": "Helper", "enabled": ["arithmetic/*", "files/read"], "limits": {"deadline_ms": 5000}})),
    responses(
        (status = 200, description = "It is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "It is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, Changed, UnsoundDocument, NothingSaid, Unrecordable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::agent(&name(&organization)?, &name(&agent)?);
    super::documents::put(&app, &caller, key, &strictness, &headers, body).await
}

/// What is odd about an agent now.
///
/// Names that no loaded tool answers to, a profile that is not defined any more, and whether any tool is left for it.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}/warnings", tag = "agents", operation_id = "get_agent_warnings",
    params(AgentAddress),
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoAgent, Unreadable),
)]
pub async fn warnings(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    stored_warnings(&app, RuleKey::Agent(organization, agent)).await
}

/// Delete an agent.
///
/// Its sessions end and their running calls are cancelled.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "delete_agent",
    params(AgentAddress, DeleteHeaders),
    responses((status = 204, description = "It is gone."), NoAgent, Changed, NothingSaid, Unrecordable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    let precondition = precondition(&headers)?;
    app.admin().delete_agent(app.actor(&caller), &organization, &agent, &precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}
