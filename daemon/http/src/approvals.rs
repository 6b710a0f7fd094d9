//! Handlers of approvals: owners and approvers of an organization list, read and decide them.

use serde::Deserialize;
use toolgate_api::approval::{ApprovalState, ApprovalView, DecisionRequest};
use toolgate_api::page::List;
use toolgate_core::approvals;
use toolgate_state::clock::now_ms;
use toolgate_state::store::ApprovalFilter;
use utoipa::IntoParams;

use super::body::Json;
use super::documents::name;
use super::error_responses::{
    AlreadyDecided, ApprovalStale, AuditUnavailable, NoApproval, NoOrganization, OtherArgumentsInvalid,
    OwnSession, StoreUnreadable,
};
use super::extract::{Client, Path, Query};
use super::path_params::ApprovalPath;
use super::problem::Problem;

/// Most bytes of arguments on a page. The arguments of one call can have megabytes.
const PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// Query parameters of the list of approvals.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalQuery {
    /// Lists the approvals of this organization only. Default: all organizations that the token decides for.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    organization: Option<String>,
    /// Lists approvals in this state only.
    state: Option<ApprovalState>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "super::paging::page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// List approvals.
///
/// The list starts with the oldest approval. Owners and approvers see the approvals of their organization. A page has fewer
/// entries than `limit` where their arguments are long.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", operation_id = "list_approvals", params(ApprovalQuery),
    responses((status = 200, description = "A page of approvals.", body = List<ApprovalView>), NoOrganization, StoreUnreadable),
)]
pub(crate) async fn list(
    Client { app, caller }: Client,
    Query(query): Query<ApprovalQuery>,
) -> Result<axum::Json<List<ApprovalView>>, Problem> {
    let asked = query.organization.as_deref().map(name).transpose()?;
    if let Some(organization) = &asked {
        app.admin().expect_decides(&caller, organization)?;
    }
    let organization = asked.as_ref().or(caller.organization.as_ref());
    let limit = query.limit.unwrap_or(100);
    let filter = ApprovalFilter { organization, state: query.state, after: query.cursor.as_deref() };
    let found = app.services().store.approvals_within(filter, limit, PAGE_BYTES).await;
    let (rows, has_more) = found?;
    let next_cursor = rows.last().filter(|_| has_more).map(|row| row.id.clone());
    let items = approvals::views(&app.services().store, rows, now_ms()).await?;
    Ok(axum::Json(List { items, next_cursor }))
}

/// Get an approval.
///
/// The response includes the arguments, byte for byte, as the call would run with them.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "approvals", operation_id = "get_approval", params(ApprovalPath),
    responses((status = 200, description = "The approval.", body = ApprovalView), NoApproval, StoreUnreadable),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Path(ApprovalPath { id }): Path<ApprovalPath>,
) -> Result<axum::Json<ApprovalView>, Problem> {
    let row = app.services().store.approval(&id, caller.organization.as_ref()).await?;
    Ok(axum::Json(approvals::view(&app.services().store, row, now_ms()).await?))
}

/// Approve or deny a call.
///
/// A token cannot decide about calls of a session that it opened. An approval is bound to the arguments, the plugin
/// and the rules in the request for approval; a change of any of them makes it void. The call runs when the client
/// posts it again: once, or as often and with such other arguments as the decision allows.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", tag = "approvals", operation_id = "decide_approval", params(ApprovalPath),
    request_body(content = DecisionRequest, example = json!({"decision": "approve", "reason": "agreed by phone"})),
    responses((status = 200, description = "The approval is decided.", body = ApprovalView), NoApproval, OwnSession, AlreadyDecided, ApprovalStale, OtherArgumentsInvalid, AuditUnavailable),
)]
pub(crate) async fn post(
    Client { app, caller }: Client,
    Path(ApprovalPath { id }): Path<ApprovalPath>,
    Json(request): Json<DecisionRequest>,
) -> Result<axum::Json<ApprovalView>, Problem> {
    let row = app.admin().decide_approval(app.actor(&caller), &id, request).await?;
    Ok(axum::Json(approvals::view(&app.services().store, row, now_ms()).await?))
}
