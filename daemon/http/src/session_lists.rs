//! Lists of sessions and of the calls of a session.
//!
//! Sessions are listed from the store, with the use of open ones from memory. Calls are listed from the audit log, so the
//! list has those of earlier runs of the daemon, and those of sessions that have ended.

use serde::Deserialize;
use toolgate_api::error::ErrorType;
use toolgate_api::page::List;
use toolgate_api::session::{CallSummary, SessionState, SessionSummary};
use toolgate_audit as audit;
use toolgate_audit::{Kind, Order, Row, Status};
use toolgate_core::sessions::{CallState, Session};
use toolgate_state::clock::now_ms;
use toolgate_state::store::{SessionFilter, SessionRow, TokenLabels};
use utoipa::IntoParams;

use super::documents::name;
use super::error_responses::{NoOrganization, NoSession, StoreUnreadable};
use super::extract::{Client, Path, Query};
use super::path_params::SessionPath;
use super::problem::Problem;
use super::sessions::{agent_named, label};
use super::state::App;

/// Filters of the list; a session must match all of them.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Sessions of this organization. Default: all that the token may use.
    #[param(pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$", max_length = 64)]
    organization: Option<String>,
    /// Sessions of this agent, as `ORGANIZATION/AGENT`.
    #[param(
        pattern = "^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?/[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$",
        max_length = 129
    )]
    agent: Option<String>,
    /// Open sessions, or ended ones, which are listed for a week. Default: both.
    #[param(inline)]
    state: Option<SessionState>,
    /// Sessions of this conversation.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    conversation: Option<String>,
    /// Sessions that act for this user.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    user: Option<String>,
    /// Inclusive start of the time of opening, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    since_ms: Option<u64>,
    /// Exclusive end of the time of opening, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    until_ms: Option<u64>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "super::paging::page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// List sessions.
///
/// The list starts with the newest session, and has those that the token may use. A session that was not used for too
/// long is listed as open until the daemon ends it, within a minute.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions", params(SessionQuery),
    responses((status = 200, description = "A page of sessions.", body = List<SessionSummary>), NoOrganization, StoreUnreadable),
)]
pub(crate) async fn list(
    Client { app, caller }: Client,
    Query(query): Query<SessionQuery>,
) -> Result<axum::Json<List<SessionSummary>>, Problem> {
    let asked = query.organization.as_deref().map(name).transpose()?;
    let mut organization = caller.may_list_sessions(asked.as_ref())?;
    let mut agents = caller.agents.as_deref().map(<[_]>::to_vec);
    if let Some(text) = &query.agent {
        let (of, agent) = agent_named(text)?;
        caller.may_orchestrate(&of, &agent)?;
        if asked.is_some_and(|asked| asked != of) {
            return Err(Problem::new(
                ErrorType::InvalidRequest,
                "`agent` is of another organization than `organization`",
                "leave `organization` out: `agent` names it",
            ));
        }
        (organization, agents) = (Some(of), Some(vec![agent]));
    }
    let limit = query.limit.unwrap_or(100);
    let filter = SessionFilter {
        organization,
        agents,
        conversation: label("conversation", query.conversation)?,
        user: label("user", query.user)?,
        since_ms: query.since_ms,
        until_ms: query.until_ms,
        is_open: query.state.map(|state| state == SessionState::Open),
        after: query.cursor.as_deref().map(parse_cursor).transpose()?,
    };
    let rows = app.services().store.sessions(&filter, limit + 1).await?;
    let openers = rows.iter().map(|row| &*row.opened_by).collect();
    let labels = app.services().store.token_labels(&openers).await?;
    let items = rows.into_iter().map(|row| summary(&app, &labels, row)).collect();
    Ok(axum::Json(List::new(items, limit, |session: &SessionSummary| {
        format!("{}.{}", session.created_at, session.session)
    })))
}

fn parse_cursor(text: &str) -> Result<(u64, String), Problem> {
    let parsed = text.split_once('.').and_then(|(time, id)| Some((time.parse().ok()?, id.to_owned())));
    parsed.ok_or_else(|| {
        Problem::new(
            ErrorType::InvalidRequest,
            "`cursor` is not one of a list of sessions",
            "use the `next_cursor` of the previous page, or leave it out",
        )
    })
}

fn summary(app: &App, labels: &TokenLabels, row: SessionRow) -> SessionSummary {
    // The use of an open session is stored once in a while.
    let live = app.services().sessions.find(&row.id);
    let rounds = live.as_ref().map_or(row.rounds, |session| session.state.rounds());
    let last_used_at = live.as_ref().map_or(row.last_used_ms, |session| session.last_used_ms());
    SessionSummary {
        session: row.id,
        state: if row.ended_ms.is_none() { SessionState::Open } else { SessionState::Ended },
        agent: format!("{}/{}", row.organization, row.agent),
        user: row.user,
        conversation: row.conversation,
        channel: row.channel,
        opened_by_label: labels.get(&row.opened_by),
        opened_by: row.opened_by,
        rounds,
        created_at: row.created_ms,
        last_used_at,
        ended_at: row.ended_ms,
    }
}

/// Pagination parameters of the calls of a session.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallsPage {
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "super::paging::page_limit::<500, _>")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// List the calls of a session.
///
/// The list starts with the newest call, and has every call that was acknowledged before the request, as the audit log
/// records it: without arguments and results. It works for ended sessions too, for a week.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/calls", tag = "calls", operation_id = "list_calls", params(SessionPath, CallsPage),
    responses((status = 200, description = "A page of calls.", body = List<CallSummary>), NoSession, StoreUnreadable),
)]
pub(crate) async fn calls(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
    Query(page): Query<CallsPage>,
) -> Result<axum::Json<List<CallSummary>>, Problem> {
    let row = app.services().store.session(&id).await;
    caller.may_use_session(&id, row.as_ref().ok().map(|row| (&row.organization, &row.agent)))?;
    let row = row?;
    let query = audit::Query {
        organization: Some(row.organization.to_string()),
        session: Some(id),
        kind: Some(Kind::Call),
        cursor: page.cursor,
        limit: page.limit,
        order: Order::NewestFirst,
        ..audit::Query::default()
    };
    let found = app.audit().search(&query).await?;
    let live = app.services().sessions.find(&row.id);
    let items = found.rows.iter().filter_map(|row| call_summary(row, live.as_deref())).collect();
    Ok(axum::Json(List { items, next_cursor: found.next }))
}

/// A damaged record is left out: its call is not known.
fn call_summary(row: &Row, live: Option<&Session>) -> Option<CallSummary> {
    let call = row.call.as_ref()?;
    let outcome = row.outcome.as_ref();
    let status = match (row.status, live) {
        // The log does not say what a call waits for.
        (Some(Status::Running), Some(session)) => waiting_status(session, &call.call),
        (status, _) => status.unwrap_or(Status::Unknown),
    };
    Some(CallSummary {
        id: call.call.to_string(),
        tool: call.tool.to_string(),
        name: call.wire_name.to_string(),
        parent: call.parent.as_ref().map(ToString::to_string),
        status,
        error_type: outcome.and_then(|outcome| outcome.error_type.as_ref()).map(ToString::to_string),
        executed: outcome.map(|outcome| outcome.executed),
        created_at: row.at_ms,
        ended_at: row.closed_at_ms,
    })
}

fn waiting_status(session: &Session, call: &str) -> Status {
    match session.calls.find(call, now_ms()) {
        Some(CallState::Pending(pending)) if pending.is_at_client() => Status::ClientRequired,
        Some(CallState::Pending(_)) => Status::ApprovalRequired,
        _ => Status::Running,
    }
}
