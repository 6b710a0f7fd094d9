//! Policy diffs over HTTP (G16).
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_core::registry::RuleKey;

use super::documents::body_text;
use super::error_responses::{InvalidDocument, NoOrganization};
use super::extract::{Client, Path};
use super::path_params::{AgentPath, OrgPath};
use super::problem::Problem;
use axum::body::Body;
use axum::http::HeaderMap;
use toolgate_api::policy_diff::Preview;

/// Preview the changes of a policy of the platform.
///
/// For every agent there is. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/platform/policy/diff", tag = "policies", operation_id = "preview_platform_policy",
    request_body(content = PlatformDocument, example = json!({"blocked": ["files/delete"]})),
    responses((status = 200, description = "The changes that the document would make.", body = Preview), InvalidDocument),
)]
pub(crate) async fn platform(
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    preview(&client, RuleKey::Platform, &headers, body).await
}

/// Preview the changes of a policy of an organization.
///
/// For its agents. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/policy/diff", tag = "policies", operation_id = "preview_organization_policy", params(OrgPath),
    request_body(content = OrgDocument, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "The changes that the document would make.", body = Preview), NoOrganization, InvalidDocument),
)]
pub(crate) async fn organization(
    client: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    preview(&client, RuleKey::Policy(organization), &headers, body).await
}

/// Preview the changes of the document of an agent.
///
/// For an agent that does not exist yet, the response has the tools that it would have. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agents/{agent}/policy/diff", tag = "agents", operation_id = "preview_agent", params(AgentPath),
    request_body(content = AgentDocument, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "The changes that the document would make.", body = Preview), NoOrganization, InvalidDocument),
)]
pub(crate) async fn agent(
    client: Client,
    Path(AgentPath { organization, agent }): Path<AgentPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let key = RuleKey::Agent(organization, agent);
    preview(&client, key, &headers, body).await
}

async fn preview(
    client: &Client,
    key: RuleKey,
    headers: &HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let text = body_text(client, headers, body).await?;
    Ok(axum::Json(client.app.admin().preview(&client.caller, key, &text).await?))
}
