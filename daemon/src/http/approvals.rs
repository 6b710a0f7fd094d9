//! Approvals over HTTP: listed, shown and decided by whoever owns the organization.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{CallError, ErrorType, parse_strict};
use utoipa::{IntoParams, ToSchema};

use super::address::ApprovalAddress;
use super::body::Json;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::refusal::{
    ApprovalOver, Decided, NoApproval, NoOrganization, OwnSession, Unreadable, Unrecordable,
};
use super::{App, Authenticated, List};
use crate::approvals::{self, constraints, is_current, refusal};
use crate::clock::now_ms;
use crate::identity::Caller;
use crate::store::{ApprovalRow, ApprovalState, Decision};

/// Most calls that one approval allows.
const USES: u64 = 1_000;
/// Longest reason, in characters.
const REASON_CHARS: usize = 1_000;
/// Deepest nesting of arguments.
const ARGUMENTS_DEPTH: u64 = 128;

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

/// What somebody decides.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// `approve` or `deny`.
    decision: Choice,
    /// Why, in words. A denial's reason is told to the model.
    #[schema(value_type = String, required = false, max_length = 1000)]
    reason: Option<String>,
    /// Places of the arguments that may vary: JSON pointers, each with a JSON Schema, or with the value that it must
    /// have. What is not named stays as it is shown. Without it exactly this call is approved.
    #[schema(value_type = Object, required = false, example = json!({"/amount": {"type": "integer", "maximum": 100}}))]
    arguments: Option<Box<RawValue>>,
    /// Calls that are approved. Left out: 1.
    #[schema(value_type = u64, required = false, minimum = 1, maximum = 1000)]
    uses: Option<u64>,
    /// Until when it holds, in milliseconds since 1970. Left out: as long as the operator has set.
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Approve,
    Deny,
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
            if !app.0.registry.snapshot().knows(organization) {
                return Err(Problem::not_found("organization"));
            }
            Some(organization)
        }
        None => caller.organization.as_ref(),
    };
    let limit = query.limit.unwrap_or(100);
    let found = app.0.store.approvals(scope, query.state, query.cursor.as_deref(), limit + 1).await;
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
    let row = app.0.store.approval(&id, caller.organization.as_ref()).await.map_err(CallError::from)?;
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
    let row = app.0.store.approval(&id, caller.organization.as_ref()).await.map_err(CallError::from)?;
    let action = match request.decision {
        Choice::Approve => "approval.approve",
        Choice::Deny => "approval.deny",
    };
    let organization = row.organization.clone();
    let details = details(&row, &request);
    let deciding = decide(&app, &caller, row, request);
    let act = app.act_with(&caller, Some(&organization), action, &id, details.as_deref(), deciding);
    let row = act.await?;
    Ok(axum::Json(view(row)?))
}

/// What the log has of a decision: about which call, of which shape. The arguments are in the record of the call.
fn details(row: &ApprovalRow, request: &DecisionRequest) -> Option<Box<RawValue>> {
    let details = serde_json::json!({
        "session": row.session, "call": row.call, "tool": row.tool, "plugin_digest": row.plugin_digest,
        "uses": request.uses, "expires_at": request.expires_at, "reason": request.reason,
        "constrained": request.arguments.is_some(),
    });
    RawValue::from_string(details.to_string()).ok()
}

async fn decide(
    app: &App,
    caller: &Caller,
    row: ApprovalRow,
    request: DecisionRequest,
) -> Result<ApprovalRow, CallError> {
    let now_ms = now_ms();
    let not_own = |principal: &str| principal != &*caller.token_id;
    if !not_own(&row.opened_by) || !not_own(&row.asked_by) {
        return Err(CallError::new(
            ErrorType::Forbidden,
            "whoever opened the session, or made the call, does not decide about it",
            "let somebody with another token decide; `toolgate token create` makes one",
        ));
    }
    let decision = read(app, caller, &row, request, now_ms)?;
    let session = app.0.sessions.find(&row.session);
    if decision.state == ApprovalState::Approved {
        let verdict =
            session.as_ref().map(|session| app.dispatcher().verdict(session, &row.called, &row.arguments));
        if !verdict.is_some_and(|verdict| is_current(&row, &verdict)) {
            app.0.store.end_approval(&row.id, ApprovalState::Void).await?;
            if let Some(session) = &session {
                let why = approvals::void();
                app.dispatcher().apply_decision(session, &row.id, ApprovalState::Void, Some(&why));
            }
            return Err(not_as_shown());
        }
    }
    if !app.0.store.decide_approval(&row.id, &decision).await? {
        let row = app.0.store.approval(&row.id, None).await?;
        return Err(refusal(&row, now_ms)
            .filter(|_| row.decided_ms.is_none())
            .unwrap_or_else(|| decided_already(&row)));
    }
    let row = app.0.store.approval(&row.id, None).await?;
    if let Some(session) = &session {
        app.dispatcher().apply_decision(session, &row.id, row.state, refusal(&row, now_ms).as_ref());
    }
    Ok(row)
}

fn read(
    app: &App,
    caller: &Caller,
    row: &ApprovalRow,
    request: DecisionRequest,
    now_ms: u64,
) -> Result<Decision, CallError> {
    let unsound = |message: String, hint: &str| CallError::new(ErrorType::InvalidRequest, message, hint);
    if request.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(unsound(
            format!("`reason` has more than {REASON_CHARS} characters"),
            "say it in fewer words",
        ));
    }
    let is_denied = request.decision == Choice::Deny;
    if is_denied && (request.arguments.is_some() || request.uses.is_some() || request.expires_at.is_some()) {
        let hint = "a denial holds for the call that asked; leave `arguments`, `uses` and `expires_at` out";
        return Err(unsound("a denial has no shape".to_owned(), hint));
    }
    let uses = request.uses.unwrap_or(1);
    if uses == 0 || uses > USES {
        return Err(unsound(format!("`uses` is {uses}"), "allow 1 to 1000 calls"));
    }
    let longest_ms = now_ms.saturating_add(app.dispatcher().parts().approvals.lifetime_ms);
    let expires_ms = request.expires_at.unwrap_or(longest_ms);
    if expires_ms <= now_ms || expires_ms > longest_ms {
        let message = format!(
            "`expires_at` is not within the next {} seconds, as long as an approval can last here",
            app.dispatcher().parts().approvals.lifetime_ms / 1_000
        );
        let hint = "name an earlier time in milliseconds since 1970, or leave it out; an operator can raise `calls.approval_seconds`";
        return Err(unsound(message, hint));
    }
    let arguments = request.arguments.map(|table| table.get().to_owned());
    if let Some(table) = &arguments {
        let shown = parse_strict(&row.arguments, ARGUMENTS_DEPTH)
            .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))?;
        if !constraints(table, &shown)?.fit(&shown) {
            return Err(unsound(
                "the call that waits is not among those that `arguments` allows".to_owned(),
                "let the constraints hold for it as well; a call of another shape asks for itself",
            ));
        }
    }
    Ok(Decision {
        state: if is_denied { ApprovalState::Denied } else { ApprovalState::Approved },
        uses: if is_denied { 0 } else { uses },
        constraints: arguments,
        reason: request.reason,
        decided_by: caller.token_id.to_string(),
        decided_ms: now_ms,
        expires_ms: if is_denied { row.expires_ms } else { expires_ms },
    })
}

/// For whoever decides, not for the model.
fn not_as_shown() -> CallError {
    CallError::new(
        ErrorType::ApprovalExpired,
        "what was shown would not run any more: the tool, the rules or the session have changed since it was asked for",
        "nothing is to be decided; if the call still matters, it asks again under another approval",
    )
}

fn decided_already(row: &ApprovalRow) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("it is decided already: `{}`", row.state.as_str()),
        "look at it to see who decided; another call asks for another approval",
    )
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
