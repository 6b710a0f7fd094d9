//! Policy diffs over HTTP (G16).
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_core::identity::Caller;
use toolgate_core::registry::RuleKey;

use super::body::expect_json;
use super::documents::{body_text, name};
use super::error_responses::{InvalidDocument, NoOrganization};
use super::extract::{Authenticated, Path};
use super::path_params::{AgentPath, OrgPath};
use super::problem::Problem;
use super::state::App;
use axum::body::Body;
use axum::extract::State;
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
pub async fn platform(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    preview(&app, &caller, RuleKey::Platform, &headers, body).await
}

/// Preview the changes of a policy of an organization.
///
/// For its agents. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/policy/diff", tag = "policies", operation_id = "preview_organization_policy",
    params(OrgPath),
    request_body(content = OrgDocument, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "The changes that the document would make.", body = Preview), NoOrganization, InvalidDocument),
)]
pub async fn organization(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let organization = name(&organization)?;
    preview(&app, &caller, RuleKey::Policy(organization), &headers, body).await
}

/// Preview the changes of the document of an agent.
///
/// For an agent that does not exist yet, the response has the tools that it would have. Nothing is put in force.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agents/{agent}/policy/diff", tag = "agents", operation_id = "preview_agent",
    params(AgentPath),
    request_body(content = AgentDocument, example = json!({"enabled": ["arithmetic/*"]})),
    responses((status = 200, description = "The changes that the document would make.", body = Preview), NoOrganization, InvalidDocument),
)]
pub async fn agent(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    let key = RuleKey::Agent(name(&organization)?, name(&agent)?);
    preview(&app, &caller, key, &headers, body).await
}

async fn preview(
    app: &App,
    caller: &Caller,
    key: RuleKey,
    headers: &HeaderMap,
    body: Body,
) -> Result<axum::Json<Preview>, Problem> {
    expect_json(headers)?;
    let text = body_text(app, caller, body).await?;
    Ok(axum::Json(app.admin().preview(caller, key, &text).await?))
}
