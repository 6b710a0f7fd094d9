//! The policies of the platform and of organizations over HTTP.
use toolgate_api::policy::{OrgDocument, PlatformDocument};
use toolgate_core::registry::RuleKey;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, WriteOptions, document_response, name, stored_warnings};
use super::error_responses::{
    AssertionBroken, AuditUnavailable, InvalidDocument, NoOrganization, NoPlatformPolicy, NoPolicy,
    PreconditionFailed, PreconditionRequired, StoreUnreadable,
};
use super::extract::{Authenticated, Path, Query};
use super::path_params::{OrgPath, WriteHeaders};
use super::problem::Problem;
use super::state::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentWarnings};

/// Get the policy of the platform.
///
/// The `ETag` is the value that `PUT` requires in `If-Match`. Without a policy, every loaded tool is allowed.
#[utoipa::path(
    get, path = "/v1/platform/policy", tag = "policies", operation_id = "get_platform_policy",
    responses((status = 200, description = "The document.", body = PlatformDocument, headers(("ETag" = String, description = "The tag to replace it by."))), NoPlatformPolicy, StoreUnreadable),
)]
pub async fn get_platform(State(app): State<App>, _: Authenticated) -> Result<Response, Problem> {
    document_response(&app, &DocumentKey::Platform).await
}

/// Create or replace the policy of the platform.
///
/// The policy applies at once, to every organization and to open sessions. It sets the tools that are allowed,
/// blocked or universal, and the profiles, subtypes, channels and integrations that the policies of organizations and
/// agents name.
#[utoipa::path(
    put, path = "/v1/platform/policy", tag = "policies", operation_id = "put_platform_policy",
    params(WriteHeaders, WriteOptions),
    request_body(content = PlatformDocument, example = json!({"blocked": ["files/delete"], "profiles": {"reader": ["files/read"]}})),
    responses(
        (status = 200, description = "The policy is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "The policy is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put_platform(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    documents::put(&app, &caller, DocumentKey::Platform, &options, &headers, body).await
}

/// Get the current warnings of the policy of the platform.
///
/// Reports names that match no loaded tool, and fields without effect: the warnings of the `PUT` response, for the
/// plugins that are loaded now.
#[utoipa::path(
    get, path = "/v1/platform/policy/warnings", tag = "policies", operation_id = "get_platform_policy_warnings",
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoPlatformPolicy, StoreUnreadable),
)]
pub async fn platform_warnings(
    State(app): State<App>,
    _: Authenticated,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    stored_warnings(&app, RuleKey::Platform).await
}

/// Get the policy of an organization.
///
/// The `ETag` is the value that `PUT` requires in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy", tag = "policies", operation_id = "get_organization_policy",
    params(OrgPath),
    responses((status = 200, description = "The document.", body = OrgDocument, headers(("ETag" = String, description = "The tag to replace it by."))), NoPolicy, StoreUnreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    document_response(&app, &DocumentKey::Policy(organization)).await
}

/// Create or replace the policy of an organization.
///
/// The policy applies at once, also to open sessions. It sets the tools of the platform that the organization has
/// (`enabled`; none without it), the tools that its agents cannot call, and additions to the platform's tables. A
/// field without enforcement is refused; a tool that is not loaded causes a warning, since a policy can precede its
/// plugins.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/policy", tag = "policies", operation_id = "put_organization_policy",
    params(OrgPath, WriteHeaders, WriteOptions),
    request_body(content = OrgDocument, example = json!({"enabled": ["arithmetic/*", "files/*"], "disabled": ["files/delete"], "limits": {"deadline_ms": 5000}})),
    responses(
        (status = 200, description = "The policy is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        (status = 201, description = "The policy is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace it by."))),
        NoOrganization, PreconditionFailed, InvalidDocument, PreconditionRequired, AssertionBroken, AuditUnavailable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(options): Query<WriteOptions>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = DocumentKey::Policy(name(&organization)?);
    documents::put(&app, &caller, key, &options, &headers, body).await
}

/// Get the current warnings of the policy of an organization.
///
/// Reports names that match no loaded tool, and fields without effect.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy/warnings", tag = "policies", operation_id = "get_organization_policy_warnings",
    params(OrgPath),
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoPolicy, StoreUnreadable),
)]
pub async fn warnings(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    stored_warnings(&app, RuleKey::Policy(organization)).await
}
