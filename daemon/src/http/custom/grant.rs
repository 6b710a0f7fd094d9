//! Handlers of the grants of custom tools: an operator's network access, in place of the host in the definition.

use super::super::documents::{self, Strictness, document_response};
use super::super::error_responses::{
    AuditUnavailable, InvalidDocument, NoCustomToolGrant, NoOrganization, PreconditionFailed,
    PreconditionRequired, StoreUnreadable,
};
use super::super::extract::{Authenticated, Path, Query};
use super::super::path_params::{CustomToolPath, WriteHeaders};
use super::super::problem::Problem;
use super::super::schema::GrantForm;
use super::super::state::App;
use super::own_tool;
use crate::documents::DocumentKey;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use toolgate_api::document::DocumentAccepted;

/// Get the grant of a custom tool.
///
/// A tool without a grant can send requests to the host in its definition, over HTTPS, at public addresses.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "get_custom_tool_grant",
    params(CustomToolPath),
    responses((status = 200, description = "The document.", body = GrantForm, headers(("ETag" = String, description = "The tag to replace it by."))), NoCustomToolGrant, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::ToolGrant(own_tool(&caller, &organization, &namespace)?)).await
}

/// Grant network access to a custom tool.
///
/// The grant replaces the access from the tool's definition: it can add a private network or plain HTTP, or allow
/// less. It may be created before the tool, and is deleted with it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "put_custom_tool_grant",
    params(CustomToolPath, WriteHeaders, Strictness),
    request_body(content = GrantForm, example = json!({"network": [{"host": "api.example.com"}], "private_networks": ["10.1.0.0/16"]})),
    responses(
        (status = 200, description = "It is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "It is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoOrganization, PreconditionFailed, InvalidDocument, PreconditionRequired, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::ToolGrant(own_tool(&caller, &organization, &namespace)?);
    documents::put(&app, &caller, key, &strictness, &headers, body).await
}
