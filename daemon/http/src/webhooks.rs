//! Webhooks of organizations over HTTP, and the callbacks of their endpoints (G18).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use toolgate_api::approval::ApprovalView;
use toolgate_api::error::ErrorType;
use toolgate_api::json::parse_strict;
use toolgate_api::webhook::{CallbackRequest, WebhookList, WebhookRequest, WebhookTested, WebhookView};
use toolgate_core::approvals;
use toolgate_core::webhooks::{SIGNATURE_HEADER, SignedBody, TIMESTAMP_HEADER};
use toolgate_state::clock::now_ms;

use super::body::{self, SecretJson, expect_json};
use super::documents::{DryRun, status};
use super::error_responses::{
    AlreadyDecided, ApprovalStale, AuditUnavailable, HostNotGranted, NoOrganization, NoWebhook, Sealed,
    StoreUnreadable, TooManyWebhooks, UnsignedCallback,
};
use super::extract::{Client, Path, Query};
use super::header::header;
use super::path_params::{ApprovalPath, CallbackHeaders, OrgPath, WebhookPath};
use super::problem::Problem;
use super::state::{AUDIT_SOURCE, App};

/// Largest body of a callback: a decision with its reason.
const CALLBACK_BYTES: u64 = 16 * 1024;
/// Deepest nesting of a callback.
const CALLBACK_DEPTH: u64 = 4;

/// List the webhooks of an organization.
///
/// Each has its address and events; secrets are never returned.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/webhooks", tag = "webhooks", operation_id = "list_webhooks", params(OrgPath),
    responses((status = 200, description = "All of them, by name.", body = WebhookList), NoOrganization, StoreUnreadable),
)]
pub(crate) async fn list(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
) -> Result<axum::Json<WebhookList>, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    Ok(axum::Json(WebhookList { items: app.services().webhooks.list(&organization).await? }))
}

/// Get a webhook.
///
/// The response includes its last deliveries. The secret is never returned.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/webhooks/{name}", tag = "webhooks", operation_id = "get_webhook", params(WebhookPath),
    responses((status = 200, description = "The webhook.", body = WebhookView), NoWebhook, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Path(WebhookPath { organization, name }): Path<WebhookPath>,
) -> Result<axum::Json<WebhookView>, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    Ok(axum::Json(app.services().webhooks.find(&organization, &name).await?))
}

/// Create or replace a webhook.
///
/// From now on, each approval of the organization that waits for a decision, is decided, or expires is announced to the
/// endpoint with a signed `POST`. The host must be one that the operator granted. A new webhook without a `secret` gets
/// a random one, which the response shows once. A replaced webhook is active again.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/webhooks/{name}", tag = "webhooks", operation_id = "put_webhook", params(WebhookPath, DryRun),
    request_body(content = WebhookRequest, example = json!({"url": "https://hooks.example.org/approvals"})),
    responses(
        (status = 200, description = "The webhook is replaced.", body = WebhookView),
        (status = 201, description = "The webhook is made.", body = WebhookView),
        NoOrganization, HostNotGranted, TooManyWebhooks, Sealed, AuditUnavailable,
    ),
)]
pub(crate) async fn put(
    Client { app, caller }: Client,
    Path(WebhookPath { organization, name }): Path<WebhookPath>,
    Query(DryRun { dry_run }): Query<DryRun>,
    SecretJson(request): SecretJson<WebhookRequest>,
) -> Result<Response, Problem> {
    let put = app.admin().put_webhook(app.actor(&caller), &organization, &name, request, dry_run).await;
    let (view, is_new) = put?;
    Ok((status(is_new), axum::Json(view)).into_response())
}

/// Delete a webhook.
///
/// Deliveries that wait are not sent any more, and its links and callbacks are no longer valid.
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/webhooks/{name}", tag = "webhooks", operation_id = "delete_webhook", params(WebhookPath),
    responses((status = 204, description = "The webhook is gone."), NoWebhook, AuditUnavailable),
)]
pub(crate) async fn delete(
    Client { app, caller }: Client,
    Path(WebhookPath { organization, name }): Path<WebhookPath>,
) -> Result<StatusCode, Problem> {
    app.admin().delete_webhook(app.actor(&caller), &organization, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a test event to a webhook.
///
/// Waits for the answer of the endpoint, for at most ten seconds.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/webhooks/{name}/test", tag = "webhooks", operation_id = "test_webhook", params(WebhookPath),
    responses((status = 200, description = "Whether it was delivered.", body = WebhookTested), NoWebhook, HostNotGranted, Sealed, AuditUnavailable),
)]
pub(crate) async fn test(
    Client { app, caller }: Client,
    Path(WebhookPath { organization, name }): Path<WebhookPath>,
) -> Result<axum::Json<WebhookTested>, Problem> {
    Ok(axum::Json(app.admin().test_webhook(app.actor(&caller), &organization, &name).await?))
}

/// Decide an approval as a webhook.
///
/// For the endpoint of a webhook, without a token of the daemon: the request has the token of the delivery in its body,
/// and is signed as the delivery was, with the present time. Each delivery decides once.
#[utoipa::path(
    post, path = "/v1/approvals/{id}/callback", tag = "webhooks", operation_id = "decide_by_webhook", params(ApprovalPath, CallbackHeaders),
    request_body(content = CallbackRequest, example = json!({"token": "pDXzTpXv…", "decision": "approve", "approver": "ann@example.org"})),
    responses((status = 200, description = "The approval is decided.", body = ApprovalView), UnsignedCallback, AlreadyDecided, ApprovalStale, Sealed, AuditUnavailable),
)]
pub(crate) async fn callback(
    State(app): State<App>,
    Path(ApprovalPath { id }): Path<ApprovalPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<axum::Json<ApprovalView>, Problem> {
    expect_json(&headers)?;
    let sent = |name: &'static str| -> Result<String, Problem> {
        Ok(header(&headers, &HeaderName::from_static(name))?.unwrap_or_default().to_owned())
    };
    let (timestamp, signature) = (sent(TIMESTAMP_HEADER)?, sent(SIGNATURE_HEADER)?);
    let body = body::read(&app, None, body, CALLBACK_BYTES).await?;
    let request = read_callback(&body)?;
    let admin = app.admin().clone();
    // The decision and its audit record complete even if the endpoint disconnects.
    let deciding = async move {
        let signed = SignedBody { timestamp: &timestamp, signature: &signature, body: &body };
        admin.decide_by_callback(AUDIT_SOURCE, &id, request, signed).await
    };
    let row = app.run_to_completion(deciding).await??;
    Ok(axum::Json(approvals::view(&app.services().store, row, now_ms()).await?))
}

fn read_callback(body: &[u8]) -> Result<CallbackRequest, Problem> {
    let invalid = |message: String| {
        let hint = "send `token`, `decision`, and if you like `reason` and `approver`";
        Problem::new(ErrorType::InvalidRequest, message, hint)
    };
    let text = std::str::from_utf8(body).map_err(|_| invalid("the body is not UTF-8".to_owned()))?;
    let value = parse_strict(text, CALLBACK_DEPTH).map_err(|error| invalid(error.to_string()))?;
    serde_json::from_value(value).map_err(|error| invalid(format!("the body is not a callback: {error}")))
}
