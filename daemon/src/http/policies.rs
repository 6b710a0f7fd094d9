//! The policies of organizations over HTTP.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use toolgate_admission::{OrgDocument, OrgRules};

use super::documents::{
    DocumentAccepted, Strictness, accepted, body_text, name, precondition, stored, warned,
};
use super::extract::{Path, Query};
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated};
use crate::dispatch::now_ms;
use crate::documents::DocumentKey;

/// The policy of an organization.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/policy", tag = "organizations",
    params(("org" = String, Path, description = "The organization")),
    responses(
        (status = 200, description = "The document, with its `ETag`", body = Object),
        (status = 404, description = "No such organization, or it has no policy", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
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

/// Make or replace the policy of an organization. It holds at once, for open sessions too.
///
/// It has `limits`, which narrow those of every call for the organization.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/policy", tag = "organizations",
    params(("org" = String, Path, description = "The organization"),
        ("If-Match" = Option<String>, Header, description = "The tag of what is replaced"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new one"), Strictness),
    request_body = Object,
    responses(
        (status = 200, description = "Replaced", body = DocumentAccepted), (status = 201, description = "Made", body = DocumentAccepted),
        (status = 404, description = "No such organization", body = ProblemBody, content_type = "application/problem+json"),
        (status = 412, description = "It was changed in between", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The document is not sound", body = ProblemBody, content_type = "application/problem+json"),
        (status = 428, description = "The request does not say what it replaces", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
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
