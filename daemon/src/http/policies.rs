//! The policies of organizations over HTTP.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use toolgate_admission::{OrgDocument, OrgRules};

use super::address::{OrganizationAddress, WriteHeaders};
use super::documents::{
    DocumentAccepted, Strictness, accepted, body_text, name, precondition, stored, warned,
};
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{
    Changed, NoOrganization, NoPolicy, NothingSaid, Unreadable, Unrecordable, UnsoundDocument,
};
use super::schema::PolicyForm;
use super::{App, Authenticated};
use crate::dispatch::now_ms;
use crate::documents::DocumentKey;

/// Get the policy of an organization.
///
/// Its `ETag` is what `PUT` asks for in `If-Match`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy", tag = "organizations", operation_id = "get_organization_policy",
    params(OrganizationAddress),
    responses((status = 200, description = "The document.", body = PolicyForm, headers(("ETag" = String, description = "The tag to replace or delete it by."))), NoPolicy, Unreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    stored(&app, &DocumentKey::Policy(organization)).await
}

/// Make or replace the policy of an organization.
///
/// It holds at once, for open sessions too. It has `limits`, which narrow those of every call for the
/// organization. A field that nothing enforces is refused.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/policy", tag = "organizations", operation_id = "put_organization_policy",
    params(OrganizationAddress, WriteHeaders, Strictness),
    request_body(content = PolicyForm, example = json!({"limits": {"deadline_ms": 5000}})),
    responses(
        (status = 200, description = "It is replaced.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        (status = 201, description = "It is made.", body = DocumentAccepted, headers(("ETag" = String, description = "The tag to replace or delete it by."))),
        NoOrganization, Changed, UnsoundDocument, NothingSaid, Unrecordable,
    ),
)]
pub async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
    Query(strictness): Query<Strictness>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    let text = body_text(&app, body).await?;
    let precondition = precondition(&headers)?;
    let key = DocumentKey::Policy(organization.clone());
    let writing = async {
        let policy = OrgDocument::parse(&text)?;
        let warnings = warned(policy.warnings(), strictness.strict)?;
        let _in_order = app.0.documents.lock().await;
        let written = app.0.store.put_document(&key, &text, &precondition, now_ms()).await?;
        app.0.registry.put_policy(&organization, OrgRules::compile(&policy));
        Ok((written, warnings))
    };
    let (written, warnings) =
        app.act(&caller, Some(&organization), "policy.put", organization.as_str(), writing).await?;
    Ok(accepted(&written, warnings))
}
