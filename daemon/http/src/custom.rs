//! Handlers of custom tools: an organization defines them without code, for an HTTP API or an MCP server.

use super::body::Json;
use super::documents::{
    self, Document, DryRun, WriteOptions, Written, body_text, document_response, grant_response,
    written_response,
};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoConsentPending, NoCustomTool, NoCustomToolGrant,
    NoOrganization, PlatformNamespace, ServerDenied, ServerProtocolError, ServerUnavailable, StoreUnreadable,
    TagErrors, TooManyTools,
};
use super::extract::{Client, Path, Query, Tags};
use super::paging::Page;
use super::path_params::{CustomToolPath, DeleteHeaders, OrgPath, WriteHeaders};
use super::problem::Problem;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use toolgate_api::custom_tool::{ConsentRequest, CustomToolAccepted, CustomToolView};
use toolgate_api::definition::CustomToolDefinition;
use toolgate_api::document::DocumentAccepted;
use toolgate_api::grant::Grant;
use toolgate_api::page::List;
use toolgate_core::identity::Caller;
use toolgate_state::documents::{DocumentKey, ToolKey, warning_view};

/// List the custom tools of an organization.
///
/// The list is sorted by namespace. An entry has the tool's kind, its actions and the changes that wait for consent.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools", tag = "custom tools", operation_id = "list_custom_tools", params(OrgPath, Page),
    responses((status = 200, description = "A page of the tools.", body = List<CustomToolView>), NoOrganization, StoreUnreadable),
)]
pub async fn list(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    Query(page): Query<Page>,
) -> Result<axum::Json<List<CustomToolView>>, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    let limit = page.limit();
    let items = app.admin().custom().list(&organization, page.cursor.as_deref(), limit + 1).await?;
    Ok(axum::Json(List::new(items, limit, |tool| tool.namespace.clone())))
}

/// Get the definition of a custom tool.
///
/// The response is the definition as it was put. Its `ETag` is the tag that `PUT` and `DELETE` require in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/{namespace}", tag = "custom tools", operation_id = "get_custom_tool", params(CustomToolPath),
    responses(Document<CustomToolDefinition>, NoCustomTool, StoreUnreadable),
)]
pub async fn get(
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::Tool(own_tool(&caller, path)?)).await
}

/// Create or replace a custom tool.
///
/// Agents of this organization only can call its actions, under this namespace, once a policy enables them. The tool
/// sends requests to the host in its definition, with credentials of the provider in its definition. For the kind
/// `mcp`, the daemon first requests the server's tool list and thereby consents to it; replacing the definition of
/// the same server keeps the consented list.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/tools/{namespace}", tag = "custom tools", operation_id = "put_custom_tool",
    params(CustomToolPath, WriteHeaders, DryRun),
    request_body(content = CustomToolDefinition, example = json!({
        "description": "Weather by place.", "base_url": "https://api.example.com/v1",
        "actions": [{"name": "current", "description": "The weather now.", "method": "GET", "path": "/points/{city}",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}],
    })),
    responses(Written<CustomToolAccepted>, NoOrganization, PlatformNamespace, TooManyTools, ServerUnavailable, ServerDenied, ServerProtocolError, InvalidDocument, AssertionBroken, TagErrors),
)]
pub async fn put(
    client: Client,
    Path(path): Path<CustomToolPath>,
    Query(DryRun { dry_run }): Query<DryRun>,
    Tags(tags): Tags,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = own_tool(&client.caller, path)?;
    let text = body_text(&client, &headers, body).await?;
    let put = client.app.admin().put_custom_tool(client.actor(), &key, &text, &tags, dry_run).await?;
    let warnings = put.warnings.into_iter().map(warning_view).collect();
    Ok(written_response(put.written, axum::Json(CustomToolAccepted { tool: put.view, warnings })))
}

/// Delete a custom tool.
///
/// Its actions are removed at once; running calls finish with the old definition.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/tools/{namespace}", tag = "custom tools", operation_id = "delete_custom_tool",
    params(CustomToolPath, DeleteHeaders),
    responses((status = 204, description = "The tool is deleted."), NoCustomTool, AssertionBroken, TagErrors),
)]
pub async fn delete(
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
    Tags(tags): Tags,
) -> Result<StatusCode, Problem> {
    let key = own_tool(&caller, path)?;
    app.admin().delete_custom_tool(app.actor(&caller), &key, &tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refresh the tool list of a mounted MCP server.
///
/// Changes since the last consent are returned as `waiting` and have no effect on calls until they are approved.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/tools/{namespace}/refresh", tag = "custom tools", operation_id = "refresh_custom_tool", params(CustomToolPath),
    responses((status = 200, description = "The tool, with what waits.", body = CustomToolView), NoCustomTool, NoConsentPending, ServerUnavailable, ServerDenied, ServerProtocolError, InvalidDocument, AuditUnavailable),
)]
pub async fn refresh(
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
) -> Result<axum::Json<CustomToolView>, Problem> {
    let key = own_tool(&caller, path)?;
    Ok(axum::Json(app.admin().refresh_custom_tool(app.actor(&caller), &key).await?))
}

/// Consent to the changed tools of a mounted MCP server.
///
/// The request has the digest that `refresh` returned, so that no other tool list takes effect.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/tools/{namespace}/approve", tag = "custom tools", operation_id = "approve_custom_tool", params(CustomToolPath),
    request_body(content = ConsentRequest),
    responses((status = 200, description = "The tool is in force.", body = CustomToolView), NoCustomTool, NoConsentPending, InvalidDocument, AssertionBroken, AuditUnavailable),
)]
pub async fn approve(
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
    Json(consent): Json<ConsentRequest>,
) -> Result<axum::Json<CustomToolView>, Problem> {
    let key = own_tool(&caller, path)?;
    Ok(axum::Json(app.admin().approve_custom_tool(app.actor(&caller), &key, &consent.digest).await?))
}

/// Get the grant of a custom tool.
///
/// A tool without a grant can send requests to the host in its definition, over HTTPS, at public addresses.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "get_custom_tool_grant", params(CustomToolPath),
    responses(Document<Grant>, NoCustomToolGrant, StoreUnreadable),
)]
pub async fn get_grant(
    Client { app, caller }: Client,
    Path(path): Path<CustomToolPath>,
) -> Result<Response, Problem> {
    let key = own_tool(&caller, path)?;
    let snapshot = app.services().registry.snapshot();
    let served = || snapshot.own_plugin(&key).map(|plugin| Arc::clone(&plugin.granted));
    grant_response(&app, &DocumentKey::ToolGrant(key.clone()), served).await
}

/// Grant network access to a custom tool.
///
/// The grant replaces the access from the tool's definition: it can add a private network or plain HTTP, or allow
/// less. It may be created before the tool, and is deleted with it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "put_custom_tool_grant",
    params(CustomToolPath, WriteHeaders, WriteOptions),
    request_body(content = Grant, example = json!({"network": [{"host": "api.example.com"}], "private_networks": ["10.1.0.0/16"]})),
    responses(Written<DocumentAccepted>, NoOrganization, InvalidDocument, TagErrors),
)]
pub async fn put_grant(
    client: Client,
    Path(path): Path<CustomToolPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::ToolGrant(own_tool(&client.caller, path)?), request).await
}

/// Returns the tool's key if the caller may access its organization.
pub fn own_tool(caller: &Caller, key: impl Into<ToolKey>) -> Result<ToolKey, Problem> {
    let key = key.into();
    caller.may_own(&key.organization)?;
    Ok(key)
}
