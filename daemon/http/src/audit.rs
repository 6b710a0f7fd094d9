//! Handlers of the audit log: search, export, and verification of the hash chain.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout_at};
use tokio_util::task::TaskTracker;
use toolgate_admission::Layer;
use toolgate_api::audit::AuditPage;
use toolgate_api::audit_export::ExportLine;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_audit as audit;
use toolgate_audit::{Anchor, Audit, ExportQuery, Exporter, Kind, Order, Row, Status, VerifyReport};
use toolgate_core::identity::Caller;
use utoipa::IntoParams;

use super::error_responses::{NoOrganization, StoreUnreadable};
use super::extract::{Client, Query};
use super::problem::Problem;
use super::state::App;

/// Filters of a search; a record must match all of them.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Records of this organization. For owners, the filter is always their own organization.
    pub organization: Option<String>,
    /// Records of this agent.
    pub agent: Option<String>,
    /// Records of this session.
    pub session: Option<String>,
    /// Records of this call.
    pub call: Option<String>,
    /// Records of this tool, as `namespace/tool`.
    pub tool: Option<String>,
    /// Calls, and their effects, in sessions that act for this user.
    pub user: Option<String>,
    /// Calls, their effects and administrative actions of the token with this id. `toolgate` is the daemon itself.
    pub principal: Option<String>,
    /// Administrative actions with this name, like `agent.put`.
    pub action: Option<String>,
    /// Calls that ended with this status.
    #[param(inline)]
    pub status: Option<Status>,
    /// Calls that ended with this error code.
    #[param(value_type = Option<ErrorType>, inline)]
    pub error_type: Option<String>,
    /// Calls that the gate refused, with any of its error codes.
    #[serde(default)]
    #[param(required = false)]
    pub refused: bool,
    /// Records of this kind.
    #[param(inline)]
    pub kind: Option<Kind>,
    /// Inclusive start of the time range, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub since_ms: Option<u64>,
    /// Exclusive end of the time range, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub until_ms: Option<u64>,
    /// The order of the records. Default: newest first.
    #[serde(default)]
    #[param(inline, required = false)]
    pub order: Order,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// Maximum number of records on a page.
    #[serde(default, deserialize_with = "super::paging::page_limit::<500, _>")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<u32>,
}

/// Search the audit log.
///
/// A search covers every record that was acknowledged before the request. Owners, and auditors of one organization,
/// see that organization only. With `order=oldest_first` the response always has a `next_cursor`, so that a client
/// can follow the log. Before the last page, a page can have fewer records than its limit, or none: it ends after many bytes, or
/// after many records of which few match. A record that fails to decode, or whose hash does not match, is marked as `damaged` and its
/// content is omitted. If the fields of a damaged record are unknown, the record has the kind `damaged` and is in
/// every search of its time range that filters by no other kind, because it could have matched.
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", operation_id = "search_audit", params(AuditQuery),
    responses((status = 200, description = "A page of records.", body = AuditPage), NoOrganization, StoreUnreadable),
)]
pub async fn search(
    Client { app, caller }: Client,
    Query(query): Query<AuditQuery>,
) -> Result<axum::Json<AuditPage>, Problem> {
    let query = scope_query(&caller, query)?;
    let mut page = app.audit().search(&query).await?;
    name_principals(&app, &mut page.rows).await?;
    if caller.organization.is_some() {
        page.rows.iter_mut().for_each(hide_platforms);
    }
    Ok(axum::Json(AuditPage { items: page.rows, next_cursor: page.next }))
}

/// Adds the labels of the tokens that made the calls and acts.
pub async fn name_principals(app: &App, rows: &mut [Row]) -> Result<(), Problem> {
    let labels = app.services().store.token_labels(&rows.iter().filter_map(Row::principal).collect()).await?;
    for row in rows {
        row.principal_label = row.principal().and_then(|id| labels.get(id));
    }
    Ok(())
}

/// The organization whose records a caller reads: the one that it asks for, or its own; none for all.
pub fn readable_organization(caller: &Caller, asked: Option<&str>) -> Result<Option<Name>, Problem> {
    let asked = asked.map(|text| Name::parse(text).map_err(|_| Problem::not_found("organization")));
    Ok(caller.may_audit(asked.transpose()?.as_ref())?)
}

/// The query of a caller: of its organization alone, if it has one.
pub fn scope_query(caller: &Caller, query: AuditQuery) -> Result<audit::Query, Problem> {
    let organization = readable_organization(caller, query.organization.as_deref())?;
    Ok(audit::Query {
        organization: organization.map(|name| name.to_string()),
        agent: query.agent,
        session: query.session,
        call: query.call,
        parent: None,
        tool: query.tool,
        user: query.user,
        principal: query.principal,
        action: query.action,
        status: query.status,
        error_type: query.error_type.as_deref().map(error_type).transpose()?,
        refused: query.refused,
        kind: query.kind,
        since_ms: query.since_ms,
        until_ms: query.until_ms,
        cursor: query.cursor,
        limit: query.limit,
        order: query.order,
    })
}

/// Hides details of the platform from tenants: they see that the platform's layer decided but not by which rule
/// (G16), and that a record is damaged but not its position in the shared log.
pub fn hide_platforms(row: &mut Row) {
    if let Some(damaged) = &mut row.damaged {
        (damaged.segment, damaged.offset) = (None, None);
    }
    if let Some(call) = &mut row.call
        && call.reason.layer == Layer::Platform.as_str()
    {
        call.reason.hide();
    }
}

/// Parses an error code of the closed list. A misspelt code is an error, because the search would silently match no
/// records.
fn error_type(text: &str) -> Result<String, Problem> {
    let known: Result<ErrorType, _> = text.parse();
    known.map(|known| known.as_str().to_owned()).map_err(|_| {
        let shown: String = text.chars().filter(|character| !character.is_control()).take(40).collect();
        let message = format!("`{shown}` is not an error type");
        Problem::new(ErrorType::InvalidRequest, message, "use one of those that `/openapi.json` lists")
    })
}

/// Interval of empty lines in a quiet stream, so that a lost connection shows.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Shortest time between two reads of a followed log, whose records come in many small groups.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

/// Filters of an export.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportParameters {
    /// Records of this organization. For owners, the filter is always their own organization.
    organization: Option<String>,
    /// Inclusive start of the time range, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    since_ms: Option<u64>,
    /// Exclusive end of the time range, in milliseconds since 1970.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    until_ms: Option<u64>,
    /// Begin after this record: the `cursor` of the last line of an export, or the `sequence` of its last record.
    #[serde(default, deserialize_with = "super::extract::time_ms")]
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// Go on with new records as they become durable, until the token ends or the daemon stops. Without `after`, only
    /// new records.
    #[serde(default)]
    #[param(required = false)]
    pub follow: bool,
}

/// Export the audit log.
///
/// The response has one JSON object a line, in the order of the log: records with their hashes, which prove each record and,
/// without filters, the whole chain; headers of segments; gaps, where records are damaged or were cut. The last line has
/// the cursor to go on from; without it the export is incomplete. Arguments are decrypted, as far as the organization's
/// data was not deleted. Owners, and auditors of one organization, get the records of that organization only. A quiet stream
/// has an empty line now and then.
#[utoipa::path(
    get, path = "/v1/audit/export", tag = "audit", operation_id = "export_audit", params(ExportParameters),
    responses((status = 200, description = "Lines of JSON.", content((ExportLine = "application/jsonl"))), NoOrganization, StoreUnreadable),
)]
pub async fn export(
    Client { app, caller }: Client,
    Query(parameters): Query<ExportParameters>,
) -> Result<Response, Problem> {
    let organization = readable_organization(&caller, parameters.organization.as_deref())?;
    let audit = app.audit().clone();
    let follow = parameters.follow;
    let after = match (parameters.after, follow) {
        (None, true) => Some(audit.anchor().sequence),
        (after, _) => after,
    };
    let query = ExportQuery {
        organization: organization.map(|name| name.to_string()),
        since_ms: parameters.since_ms,
        until_ms: parameters.until_ms,
        after,
        hides_platform: caller.organization.is_some(),
    };
    // Subscribed before the export begins, so that no record is missed.
    let changes = audit.durable_changes();
    let exporter = audit.export(query).await?;
    let pending = app.services().events.pending().clone();
    let goal = audit.anchor();
    let export = ExportStream {
        exporter: Some(exporter),
        goal,
        audit,
        changes: follow.then_some(changes),
        reads: follow_interval(),
        sent: Instant::now(),
        pending,
    };
    let lines = stream::unfold(export, |mut export| async move {
        let lines = export.next().await?;
        Some((lines, export))
    });
    let lines = lines.take_until(caller.wait_for_end());
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CACHE_CONTROL, "no-store"),
        // Without it, nginx keeps lines back until its buffer is full.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

fn follow_interval() -> Interval {
    let mut reads = interval(FOLLOW_INTERVAL);
    reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
    reads
}

/// The lines of an export as they are sent.
struct ExportStream {
    /// `None` once the last line was sent.
    exporter: Option<Exporter>,
    /// The last record to send, so far.
    goal: Anchor,
    audit: Audit,
    /// New records, if they are followed.
    changes: Option<watch::Receiver<u64>>,
    reads: Interval,
    /// When the last lines were sent.
    sent: Instant,
    /// Closed when the daemon stops; empty once its calls have ended.
    pending: TaskTracker,
}

impl ExportStream {
    /// The next lines. An error ends the stream without a last line.
    async fn next(&mut self) -> Option<std::io::Result<Vec<u8>>> {
        loop {
            let mut exporter = self.exporter.take()?;
            let goal = self.goal;
            let reading =
                tokio::task::spawn_blocking(move || exporter.read(goal).map(|lines| (exporter, lines)));
            let (exporter, lines) = match reading.await.map_err(std::io::Error::other).flatten() {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, "the audit log cannot be exported");
                    return Some(Err(error));
                }
            };
            if !lines.is_empty() {
                (self.exporter, self.sent) = (Some(exporter), Instant::now());
                return Some(Ok(lines));
            }
            if !exporter.has_reached(goal) {
                self.exporter = Some(exporter);
                continue;
            }
            let Some(changes) = &mut self.changes else { return Some(Ok(exporter.end())) };
            let keep_alive = self.sent + KEEP_ALIVE;
            tokio::select! {
                _ = timeout_at(keep_alive, changes.changed()) => {}
                () = self.pending.wait() => return Some(Ok(exporter.end())),
            }
            self.reads.tick().await;
            self.goal = self.audit.anchor();
            self.exporter = Some(exporter);
            if Instant::now() >= keep_alive {
                self.sent = Instant::now();
                return Some(Ok(b"\n".to_vec()));
            }
        }
    }
}

/// Verify the hash chain of the whole audit log.
///
/// The daemon reads every record again, so the duration grows with the log's size. Acknowledged records that were
/// lost at an earlier start keep the result from being `ok` for as long as the log is kept, even if the chain of the
/// remaining records is intact.
#[utoipa::path(
    get, path = "/v1/audit/verify", tag = "audit", operation_id = "verify_audit",
    responses((status = 200, description = "The result: `ok`, or the first bad place, with what recoveries noted.", body = VerifyReport), StoreUnreadable),
)]
pub async fn verify(Client { app, .. }: Client) -> Result<Response, Problem> {
    let report = app.audit().verify().await?;
    Ok(axum::Json(report).into_response())
}
