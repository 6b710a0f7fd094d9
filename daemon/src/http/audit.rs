//! The audit log over HTTP: search it, verify its chain.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_admission::{CallError, ErrorType, Name};
use utoipa::{IntoParams, ToSchema};

use super::extract::Query;
use super::problem::{Problem, ProblemBody};
use super::{App, Authenticated};
use crate::audit::{self, AuditError, Kind, Order, Row, Status};
use crate::dispatch::{Answer, RequestedCall};

/// What to look for; everything that is given must hold.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// One organization. Owners see their own whatever is asked.
    organization: Option<String>,
    /// One agent.
    agent: Option<String>,
    /// One session.
    session: Option<String>,
    /// One call.
    call: Option<String>,
    /// `namespace/tool`.
    tool: Option<String>,
    /// `ok`, `error`, `cancelled`, `unknown`, …
    #[param(value_type = Option<String>)]
    status: Option<Status>,
    /// One of the closed list.
    error_type: Option<String>,
    /// `call`, `effect`, `admin`, `recovery`.
    #[param(value_type = Option<String>)]
    kind: Option<Kind>,
    /// Not before this time, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// Before this time.
    until_ms: Option<u64>,
    /// `newest_first` or `oldest_first`.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    order: Order,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Records on a page, at most 500.
    limit: Option<u32>,
}

/// A page of the log.
#[derive(Serialize, ToSchema)]
pub struct AuditPage {
    /// The records.
    #[schema(value_type = Vec<Object>)]
    items: Vec<Row>,
    /// Where the next page begins.
    next_cursor: Option<String>,
}

/// Search the audit log.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", params(AuditQuery),
    responses(
        (status = 200, description = "The records", body = AuditPage),
        (status = 403, description = "The token may not read it", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn search(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Query(query): Query<AuditQuery>,
) -> Result<axum::Json<AuditPage>, Problem> {
    let asked = match &query.organization {
        None => None,
        Some(text) => Some(Name::parse(text).map_err(|_| Problem::not_found("organization"))?),
    };
    let organization = caller.may_audit(asked.as_ref())?;
    let query = audit::Query {
        organization: organization.map(|name| name.to_string()),
        agent: query.agent,
        session: query.session,
        call: query.call,
        tool: query.tool,
        status: query.status,
        error_type: query.error_type,
        kind: query.kind,
        since_ms: query.since_ms,
        until_ms: query.until_ms,
        cursor: query.cursor,
        limit: query.limit,
        order: query.order,
    };
    let page = app.audit().search(&query).await.map_err(unavailable)?;
    Ok(axum::Json(AuditPage { items: page.rows, next_cursor: page.next }))
}

/// Verify the chain of the whole log.
#[utoipa::path(
    get, path = "/v1/audit/verify", tag = "audit",
    responses(
        (status = 200, description = "What was found: `ok`, or the first bad place", body = Object),
        (status = 403, description = "The token may not verify it", body = ProblemBody, content_type = "application/problem+json"),
    ),
    security(("token" = [])),
)]
pub async fn verify(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Response, Problem> {
    caller.may_verify()?;
    let report = app.audit().verify().await.map_err(unavailable)?;
    Ok(axum::Json(report).into_response())
}

/// Why the log did not answer, or did not take a record.
pub(super) fn unavailable(error: AuditError) -> Problem {
    let error_type = match &error {
        AuditError::BadCursor { .. } => ErrorType::InvalidRequest,
        _ => ErrorType::Unavailable,
    };
    CallError::new(error_type, error.to_string(), error.hint()).into()
}

/// What the log knows of a call that an earlier run of the daemon carried out.
pub(super) fn as_answer(call: &str, row: &Row) -> Response {
    let tool = row.call.as_ref().map_or("", |intent| &intent.wire_name).to_owned();
    let call = RequestedCall { tool: tool.into(), ..RequestedCall::unnamed(call.to_owned()) };
    super::calls::json(Answer::of_an_earlier_run(row).json(&call).into())
}
