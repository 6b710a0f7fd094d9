//! The policies of the platform and of organizations over HTTP.

use axum::extract::Request;
use axum::response::Response;
use toolgate_api::document::{DocumentAccepted, DocumentWarnings};
use toolgate_api::policy::{OrgDocument, PlatformDocument};
use toolgate_core::registry::RuleKey;
use toolgate_state::documents::DocumentKey;

use super::documents::{self, Document, WriteOptions, Written, document_response, stored_warnings};
use super::error_responses::{
    AssertionBroken, InvalidDocument, NoOrganization, NoPlatformPolicy, NoPolicy, StoreUnreadable, TagErrors,
};
use super::extract::{Client, Path};
use super::path_params::{OrgPath, WriteHeaders};
use super::problem::Problem;

/// Get the policy of the platform.
///
/// The `ETag` is the value that `PUT` requires in `If-Match`. Without a policy, every loaded tool is allowed.
#[utoipa::path(
    get, path = "/v1/platform/policy", tag = "policies", operation_id = "get_platform_policy",
    responses(Document<PlatformDocument>, NoPlatformPolicy, StoreUnreadable),
)]
pub(crate) async fn get_platform(client: Client) -> Result<Response, Problem> {
    document_response(&client.app, &DocumentKey::Platform).await
}

/// Create or replace the policy of the platform.
///
/// The policy applies at once, to every organization and to open sessions. It sets the tools that are allowed,
/// blocked or universal, and the profiles, subtypes, channels and integrations that the policies of organizations and
/// agents name.
#[utoipa::path(
    put, path = "/v1/platform/policy", tag = "policies", operation_id = "put_platform_policy", params(WriteHeaders, WriteOptions),
    request_body(content = PlatformDocument, example = json!({"blocked": ["files/delete"], "profiles": {"reader": ["files/read"]}})),
    responses(Written<DocumentAccepted>, InvalidDocument, AssertionBroken, TagErrors),
)]
pub(crate) async fn put_platform(client: Client, request: Request) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::Platform, request).await
}

/// Get the current warnings of the policy of the platform.
///
/// Reports names that match no loaded tool, and fields without effect: the warnings of the `PUT` response, for the
/// plugins that are loaded now.
#[utoipa::path(
    get, path = "/v1/platform/policy/warnings", tag = "policies", operation_id = "get_platform_policy_warnings",
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoPlatformPolicy, StoreUnreadable),
)]
pub(crate) async fn platform_warnings(client: Client) -> Result<axum::Json<DocumentWarnings>, Problem> {
    stored_warnings(&client.app, RuleKey::Platform).await
}

/// Get the policy of an organization.
///
/// The `ETag` is the value that `PUT` requires in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy", tag = "policies", operation_id = "get_organization_policy", params(OrgPath),
    responses(Document<OrgDocument>, NoPolicy, StoreUnreadable),
)]
pub(crate) async fn get(client: Client, Path(path): Path<OrgPath>) -> Result<Response, Problem> {
    client.caller.may_own(&path.organization)?;
    document_response(&client.app, &DocumentKey::Policy(path.organization)).await
}

/// Create or replace the policy of an organization.
///
/// The policy applies at once, also to open sessions. It sets the tools of the platform that the organization has
/// (`enabled`; none without it), the tools that its agents cannot call, and additions to the platform's tables. A
/// field without enforcement is refused; a tool that is not loaded causes a warning, since a policy can precede its
/// plugins.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/policy", tag = "policies", operation_id = "put_organization_policy", params(OrgPath, WriteHeaders, WriteOptions),
    request_body(content = OrgDocument, example = json!({"enabled": ["arithmetic/*", "files/*"], "disabled": ["files/delete"], "limits": {"deadline_ms": 5000}})),
    responses(Written<DocumentAccepted>, NoOrganization, InvalidDocument, AssertionBroken, TagErrors),
)]
pub(crate) async fn put(
    client: Client,
    Path(path): Path<OrgPath>,
    request: Request,
) -> Result<Response, Problem> {
    documents::put(&client, DocumentKey::Policy(path.organization), request).await
}

/// Get the current warnings of the policy of an organization.
///
/// Reports names that match no loaded tool, and fields without effect.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy/warnings", tag = "policies", operation_id = "get_organization_policy_warnings", params(OrgPath),
    responses((status = 200, description = "The warnings.", body = DocumentWarnings), NoPolicy, StoreUnreadable),
)]
pub(crate) async fn warnings(
    client: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
) -> Result<axum::Json<DocumentWarnings>, Problem> {
    client.caller.may_own(&organization)?;
    stored_warnings(&client.app, RuleKey::Policy(organization)).await
}
