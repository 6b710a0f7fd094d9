//! What an operator lets a tool of an organization reach, in place of what its definition names.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::super::address::{CustomToolAddress, WriteHeaders};
use super::super::documents::{self, DocumentAccepted, Strictness, stored};
use super::super::extract::{Path, Query};
use super::super::problem::Problem;
use super::super::refusal::{
    Changed, NoCustomToolGrant, NoOrganization, NothingSaid, Unreadable, Unrecordable, UnsoundDocument,
};
use super::super::schema::GrantForm;
use super::super::{App, Authenticated};
use super::owned;
use crate::documents::DocumentKey;

/// Get what a tool of an organization is granted.
///
/// One without a grant reaches the host that its definition names, over HTTPS, at its public addresses.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "get_custom_tool_grant",
    params(CustomToolAddress),
    responses((status = 200, description = "The document.", body = GrantForm, headers(("ETag" = String, description = "The tag to replace it by."))), NoCustomToolGrant, Unreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, namespace)): Path<(String, String)>,
) -> Result<Response, Problem> {
    stored(&app, &DocumentKey::ToolGrant(owned(&caller, &organization, &namespace)?)).await
}

/// Grant a tool of an organization what its calls may reach.
///
/// In place of what its definition names: a private network or plain HTTP, or less. It may come before the tool, and goes with
/// it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/tools/{namespace}/grant", tag = "custom tools", operation_id = "put_custom_tool_grant",
    params(CustomToolAddress, WriteHeaders, Strictness),
    request_body(content = GrantForm, example = json!({"network": [{"host": "api.example.com"}], "private_networks": ["10.1.0.0/16"]})),
    responses(
        (status = 200, description = "It is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "It is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoOrganization, Changed, UnsoundDocument, NothingSaid, Unrecordable,
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
    let key = DocumentKey::ToolGrant(owned(&caller, &organization, &namespace)?);
    documents::put(&app, &caller, key, &strictness, &headers, body).await
}
