//! Approvals over HTTP: listed, shown and decided by whoever owns the organization.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{CallError, ErrorType};
use utoipa::{IntoParams, ToSchema};

use super::address::ApprovalAddress;
use super::body::Json;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{
    ApprovalOver, Decided, NoApproval, NoOrganization, OwnSession, Unreadable, Unrecordable,
};
use super::{App, Authenticated, List};
use crate::admin::DecisionRequest;
use crate::approvals::refusal;
use crate::clock::now_ms;
use crate::store::{ApprovalRow, ApprovalState};

/// An approval.
#[derive(Serialize, ToSchema)]
pub struct ApprovalView {
    /// Its id.
    id: String,
    /// How it stands.
    state: ApprovalState,
    /// The organization.
    organization: String,
    /// The agent that wants to make the call.
    agent: String,
    /// The session.
    session: String,
    /// The call that asked.
    call: String,
    /// Whom the orchestrator acts for.
    #[schema(required)]
    user: Option<String>,
    /// The orchestrator's conversation.
    #[schema(required)]
    conversation: Option<String>,
    /// Where the conversation takes place.
    #[schema(required)]
    channel: Option<String>,
    /// `namespace/tool`.
    tool: String,
    /// The plugin's version, as it says.
    plugin_version: String,
    /// The plugin, byte for byte: the approval holds for no other.
    plugin_digest: String,
    /// The arguments, byte for byte: what runs if this is approved, and nothing else does.
    #[schema(value_type = Object)]
    arguments: Box<RawValue>,
    /// Which rule asked, and what the call may reach: a change of them makes the approval void.
    #[schema(value_type = Object)]
    rules: Box<RawValue>,
    /// The id of the token that made the call.
    asked_by: String,
    /// Since when it waits.
    created_at: u64,
    /// Until when it can be decided, or used.
    expires_at: u64,
    /// Calls that it still allows.
    uses_left: u64,
    /// The places of the arguments that may vary, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    constraints: Option<Box<RawValue>>,
    /// The decider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    reason: Option<String>,
    /// The id of the token that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    decided_by: Option<String>,
    /// When it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    decided_at: Option<u64>,
}

/// Which approvals to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// Those of this organization; without it, of all that the token owns.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    organization: Option<String>,
    /// Those in this state.
    state: Option<ApprovalState>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries on a page.
    #[serde(default, deserialize_with = "super::extract::page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// List approvals.
///
/// The oldest first. Owners see those of their organization.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", operation_id = "list_approvals", params(ApprovalQuery),
    responses((status = 200, description = "A page of approvals.", body = List<ApprovalView>), NoOrganization, Unreadable),
)]
pub async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(query): Query<ApprovalQuery>,
) -> Result<axum::Json<List<ApprovalView>>, Problem> {
    let asked = query.organization.as_deref().map(super::documents::name).transpose()?;
    let scope = match &asked {
        Some(organization) => {
            caller.may_own(organization)?;
            if !app.parts().registry.snapshot().knows(organization) {
                return Err(Problem::not_found("organization"));
            }
            Some(organization)
        }
        None => caller.organization.as_ref(),
    };
    let limit = query.limit.unwrap_or(100);
    let found = app.parts().store.approvals(scope, query.state, query.cursor.as_deref(), limit + 1).await;
    let mut found = found.map_err(CallError::from)?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|row| row.id.clone());
    let items = found.into_iter().map(view).collect::<Result<_, _>>()?;
    Ok(axum::Json(List { items, next_cursor }))
}

/// Look at an approval.
///
/// With the arguments byte for byte, as they would run.
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "approvals", operation_id = "get_approval", params(ApprovalAddress),
    responses((status = 200, description = "The approval.", body = ApprovalView), NoApproval, Unreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<axum::Json<ApprovalView>, Problem> {
    let row = app.parts().store.approval(&id, caller.organization.as_ref()).await.map_err(CallError::from)?;
    Ok(axum::Json(view(row)?))
}

/// Approve or deny a call.
///
/// Nobody decides about calls of a session that the same token opened. An approval is bound to what was shown: to these
/// arguments, this plugin and the rules that asked; a change makes it void. It lets the call run when it is posted
/// again, once, or as often and for such other arguments as the decision says.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", tag = "approvals", operation_id = "decide_approval", params(ApprovalAddress),
    request_body(content = DecisionRequest, example = json!({"decision": "approve", "reason": "agreed by phone"})),
    responses((status = 200, description = "It is decided.", body = ApprovalView), NoApproval, OwnSession, Decided, ApprovalOver, Unrecordable),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Json(request): Json<DecisionRequest>,
) -> Result<axum::Json<ApprovalView>, Problem> {
    let row = app.admin().decide_approval(app.actor(&caller), &id, request).await?;
    Ok(axum::Json(view(row)?))
}

fn view(row: ApprovalRow) -> Result<ApprovalView, Problem> {
    let raw = |text: String| {
        RawValue::from_string(text)
            .map_err(|error| Problem::new(ErrorType::Internal, error.to_string(), "tell the operator"))
    };
    Ok(ApprovalView {
        state: match refusal(&row, now_ms()) {
            Some(_) if matches!(row.state, ApprovalState::Pending | ApprovalState::Approved) => {
                ApprovalState::Expired
            }
            _ => row.state,
        },
        id: row.id,
        organization: row.organization.to_string(),
        agent: row.agent.to_string(),
        session: row.session,
        call: row.call,
        user: row.user,
        conversation: row.conversation,
        channel: row.channel,
        tool: row.tool,
        plugin_version: row.plugin_version,
        plugin_digest: row.plugin_digest,
        arguments: raw(row.arguments)?,
        rules: raw(row.rules)?,
        asked_by: row.asked_by,
        created_at: row.created_ms,
        expires_at: row.expires_ms,
        uses_left: row.uses_left,
        constraints: row.constraints.map(raw).transpose()?,
        reason: row.reason,
        decided_by: row.decided_by,
        decided_at: row.decided_ms,
    })
}
