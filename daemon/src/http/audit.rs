//! The audit log over HTTP: search it, verify its chain.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolgate_admission::{ErrorType, Layer, Name};
use utoipa::{IntoParams, ToSchema};

use super::extract::Query;
use super::problem::{ErrorTypeForm, Problem};
use super::refusal::{NoOrganization, Unreadable};
use super::{App, Authenticated};
use crate::admin::audit_failure;
use crate::audit::{self, Kind, Order, Row, Status, VerifyReport};

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
    /// Calls, and their effects, of sessions that act for this user.
    user: Option<String>,
    /// What the token of this id asked for or did: calls, their effects, and administrative acts. `toolgate` is the daemon
    /// itself.
    principal: Option<String>,
    /// Administrative acts of this name, like `agent.put`.
    action: Option<String>,
    /// How calls ended.
    #[param(inline)]
    status: Option<Status>,
    /// The code of calls that ended in an error.
    #[param(value_type = Option<ErrorTypeForm>, inline)]
    error_type: Option<String>,
    /// Records of one kind.
    #[param(inline)]
    kind: Option<Kind>,
    /// Not before this time, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    since_ms: Option<u64>,
    /// Before this time, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    until_ms: Option<u64>,
    /// Which records come first: the newest, unless it is said.
    #[serde(default)]
    #[param(inline, required = false)]
    order: Order,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Records on a page.
    #[serde(default, deserialize_with = "super::extract::page_limit::<500, _>")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// A page of the log.
#[derive(Serialize, ToSchema)]
pub struct AuditPage {
    /// The records.
    items: Vec<Row>,
    /// What to send as `cursor` for the next page; null on the last one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Search the audit log.
///
/// A search sees everything that was acknowledged before it began. Owners, and auditors of one organization,
/// see that organization alone. With `order=oldest_first` there is always a `next_cursor`, to follow the log.
/// Records that can no longer be read, or are not the ones that were written, are marked as `damaged` and their content
/// is not shown. Where nobody can tell what a place had, it is a record of the kind `damaged` in every search of its time
/// that asks for no other kind: what is looked for may have been there.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "search_audit", params(AuditQuery),
    responses(
        (status = 200, description = "A page of records.", body = AuditPage),
        NoOrganization, Unreadable,
    ),
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
        user: query.user,
        principal: query.principal,
        action: query.action,
        status: query.status,
        error_type: query.error_type.as_deref().map(error_type).transpose()?,
        kind: query.kind,
        since_ms: query.since_ms,
        until_ms: query.until_ms,
        cursor: query.cursor,
        limit: query.limit,
        order: query.order,
    };
    let mut page = app.audit().search(&query).await.map_err(|error| audit_failure(&error))?;
    if caller.organization.is_some() {
        page.rows.iter_mut().for_each(hide_platforms);
    }
    Ok(axum::Json(AuditPage { items: page.rows, next_cursor: page.next }))
}

/// Tenants see of the platform's layer that it decided, and not by which rule (G16); of a damaged place that there is
/// one, and not where in everybody's log.
fn hide_platforms(row: &mut Row) {
    if let Some(damaged) = &mut row.damaged {
        (damaged.segment, damaged.offset) = (None, None);
    }
    if let Some(call) = &mut row.call
        && call.reason.layer == Layer::Platform.as_str()
    {
        call.reason.rule = "".into();
    }
}

/// A code of the closed list; a misspelt one would find nothing and say nothing.
fn error_type(text: &str) -> Result<String, Problem> {
    let known: Result<ErrorType, _> = text.parse();
    known.map(|known| known.as_str().to_owned()).map_err(|_| {
        let shown: String = text.chars().filter(|character| !character.is_control()).take(40).collect();
        let message = format!("`{shown}` is not an error type");
        Problem::new(ErrorType::InvalidRequest, message, "use one of those that `/openapi.json` lists")
    })
}

/// Verify the chain of the whole audit log.
///
/// Reads every record again, so it takes as long as the log is large. Acknowledged records that a start found gone make it
/// not `ok` for as long as the log is kept, also where the chain of what is left is whole.
#[utoipa::path(
    get, path = "/v1/audit/verify", tag = "audit", operation_id = "verify_audit",
    responses((status = 200, description = "What was found: `ok`, or the first bad place and what recoveries noted.", body = VerifyReport), Unreadable),
)]
pub async fn verify(State(app): State<App>, _: Authenticated) -> Result<Response, Problem> {
    let report = app.audit().verify().await.map_err(|error| audit_failure(&error))?;
    Ok(axum::Json(report).into_response())
}
