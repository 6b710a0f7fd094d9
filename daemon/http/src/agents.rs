//! Handlers of agents.
use toolgate_api::policy::AgentDocument;
use toolgate_core::registry::RuleKey;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::documents::{self, WriteOptions, document_response, documents, name, stored_warnings};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoAgent, NoOrganization, PreconditionFailed,
    PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::paging::Page;
use super::path_params::{AgentPath, DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentEntry, DocumentWarnings};
use toolgate_api::page::List;

/// List the agents of an organization.
///
/// The list is sorted by name.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents", tag = "agents", operation_id = "list_agents",
    params(OrgPath, Page),
    responses(
        (status = 200, description = "A page of the agents.", body = List<DocumentEntry<AgentDocument>>),
        NoOrganization, StoreUnreadable,
    ),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    let organization = name(&organization)?;
    app.admin().expect_own(&caller, &organization)?;
    documents(&app, DocumentKind::Agent, organization.as_str(), &page).await
}

/// Get an agent.
///
/// The response has the `ETag` that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "get_agent",
    params(AgentPath),
    responses((status = 200, description = "The document.", body = AgentDocument, headers(("ETag" = String, description = "The tag to replace or delete it by."))), NoAgent, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    document_response(&app, &DocumentKey::agent(&organization, &agent)).await
}

/// Create or replace an agent.
///
/// The document takes effect at once, in open sessions too. `If-None-Match: *` creates an agent; `If-Match` with the
/// current `ETag` replaces one. An unknown field is an error. A tool that matches no loaded plugin causes a warning
/// only, because policies can be written before plugins are loaded.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "put_agent",
    params(AgentPath, WriteHeaders, WriteOptions),
    request_body(content = AgentDocument, example = json!({"name": "Helper", "enabled": ["arithmetic/*", "files/read"], "limits": {"deadline_ms": 5000}})),
    responses(
        (status = 200, description = "The agent is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "The agent is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::agent(&name(&organization)?, &name(&agent)?);
    documents::put(&app, &caller, key, &options, &headers, body).await
}

/// Get the current warnings of an agent.
///
/// Reports names that match no loaded tool, a profile that is not defined any more, and an agent that is left without
/// tools.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}/warnings", tag = "agents", operation_id = "get_agent_warnings",
    params(AgentPath),
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoAgent, StoreUnreadable),
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
    params(AgentPath, DeleteHeaders),
    responses((status = 204, description = "The agent is gone."), NoAgent, PreconditionFailed, PreconditionRequired, AuditUnavailable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let key = DocumentKey::agent(&name(&organization)?, &name(&agent)?);
    documents::delete(&app, &caller, &key, &headers).await
}
