//! Handlers of agents.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentEntry, DocumentWarnings};
use toolgate_api::page::List;
use toolgate_api::policy::AgentDocument;
use toolgate_core::registry::RuleKey;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::documents::{
    self, Document, WriteOptions, Written, document_response, documents, stored_warnings,
};
use super::error_responses::{
    AssertionBroken, InvalidDocument, NoAgent, NoOrganization, StoreUnreadable, TagErrors,
};
use super::extract::{Client, Path, Query, Tags};
use super::paging::Page;
use super::path_params::{AgentPath, DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;

/// List the agents of an organization.
///
/// The list is sorted by name.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents", tag = "agents", operation_id = "list_agents", params(OrgPath, Page),
    responses((status = 200, description = "A page of the agents.", body = List<DocumentEntry<AgentDocument>>), NoOrganization, StoreUnreadable),
)]
pub(crate) async fn list(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<DocumentEntry<serde_json::Value>>>, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    documents(&app, DocumentKind::Agent, organization.as_str(), &page).await
}

/// Get an agent.
///
/// The response has the `ETag` that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "get_agent", params(AgentPath),
    responses(Document<AgentDocument>, NoAgent, StoreUnreadable),
)]
pub(crate) async fn get(client: Client, Path(path): Path<AgentPath>) -> Result<Response, Problem> {
    client.caller.may_own(&path.organization)?;
    document_response(&client.app, &DocumentKey::agent(&path.organization, &path.agent)).await
}

/// Create or replace an agent.
///
/// The document takes effect at once, in open sessions too. `If-None-Match: *` creates an agent; `If-Match` with the
/// current `ETag` replaces one. An unknown field is an error. A tool that matches no loaded plugin causes a warning
/// only, because policies can be written before plugins are loaded.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "put_agent", params(AgentPath, WriteHeaders, WriteOptions),
    request_body(content = AgentDocument, example = json!({"name": "Helper", "enabled": ["arithmetic/*", "files/read"], "limits": {"deadline_ms": 5000}})),
    responses(Written<DocumentAccepted>, NoOrganization, InvalidDocument, AssertionBroken, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<AgentPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::agent(&path.organization, &path.agent), request).await
}

/// Get the current warnings of an agent.
///
/// Reports names that match no loaded tool, a profile that is not defined any more, and an agent that is left without
/// tools.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}/warnings", tag = "agents", operation_id = "get_agent_warnings", params(AgentPath),
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoAgent, StoreUnreadable),
)]
pub(crate) async fn warnings(
    client: Client,
    Path(AgentPath { organization, agent }): Path<AgentPath>,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    client.caller.may_own(&organization)?;
    stored_warnings(&client.app, RuleKey::Agent(organization, agent)).await
}

/// Delete an agent.
///
/// Its sessions end and their running calls are cancelled.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/agents/{agent}", tag = "agents", operation_id = "delete_agent", params(AgentPath, DeleteHeaders),
    responses((status = 204, description = "The agent is deleted."), NoAgent, TagErrors),
)]
pub(crate) async fn delete(
    client: Client,
    Path(path): Path<AgentPath>,
    tags: Tags,
) -> Result<StatusCode, Problem> {
    documents::delete(&client, &DocumentKey::agent(&path.organization, &path.agent), tags).await
}
