//! The channel of a list of calls.

use std::sync::Arc;

use axum::body::Bytes;
use maud::Markup;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{LiveState, PERIOD, QUIET, RETRY, ROWS_A_SECOND, RowsChange, WholeList, event};
use crate::admin::audit_failure;
use crate::audit::{AuditError, Kind, Order, Query, Row, WatchPosition};
use crate::http::audit::hide_platforms;
use crate::http::console::calls::{call_list, row};
use crate::http::problem::Problem;
use crate::http::state::App;

/// Rows of the whole list.
const LISTED: u32 = 50;

/// The query of a channel: calls alone, the newest first.
pub(super) fn channel_query(query: Query) -> Query {
    Query { kind: Some(Kind::Call), limit: Some(LISTED), cursor: None, order: Order::NewestFirst, ..query }
}

/// Counts the calls since an event of an earlier stream, of which the list shows the newest.
pub(super) async fn count_since(app: &App, query: &Query, since: u64) -> Result<Option<Bytes>, Problem> {
    let position = WatchPosition::after(since);
    let new = app.audit().new_calls(query, &position, 1).await.map_err(|error| audit_failure(&error))?;
    let left_out = new.matching.saturating_sub(LISTED.into());
    Ok((left_out > 0).then(|| event("left_out", None, &json!({ "left_out": left_out }))))
}

/// Follows the calls that match a query, and keeps the newest of them rendered.
pub(super) struct Follower {
    app: App,
    query: Query,
    /// Whether rules of the platform are hidden.
    is_tenant: bool,
    position: WatchPosition,
    /// Rows by the sequence of their call, the newest first.
    rows: Vec<(u64, Markup)>,
}

impl Follower {
    pub(super) fn new(app: App, query: Query, is_tenant: bool) -> Self {
        Self { app, query, is_tenant, position: WatchPosition::default(), rows: Vec::new() }
    }

    pub(super) async fn run(mut self, states: watch::Sender<Arc<LiveState>>) {
        while let Err(error) = self.begin().await {
            tracing::debug!(%error, "the newest calls cannot be read; the console tries again");
            sleep_until(Instant::now() + RETRY).await;
        }
        let mut id = self.position.sequence.max(1);
        states.send_replace(Arc::new(LiveState {
            id,
            previous: id,
            change: Bytes::new(),
            whole: self.whole(id),
        }));
        loop {
            match self.look().await {
                Ok(None) => {}
                Ok(Some(change)) => {
                    let previous = id;
                    id = self.position.sequence.max(previous + 1);
                    let change = event("rows", Some(id), &change.as_json());
                    let whole = self.whole(id);
                    states.send_replace(Arc::new(LiveState { id, previous, change, whole }));
                }
                Err(error) => {
                    tracing::debug!(%error, "new calls cannot be read; the console tries again");
                    sleep_until(Instant::now() + RETRY).await;
                }
            }
            // After a look, so that no second has the rows of two.
            sleep_until(Instant::now() + PERIOD).await;
        }
    }

    /// Reads the list as it is. The position is read first, so that no call is missed between the two.
    async fn begin(&mut self) -> Result<(), AuditError> {
        self.position = self.app.audit().watch_position(&self.query).await?;
        let page = self.app.audit().search_indexed(&self.query).await?;
        self.rows = page.rows.into_iter().map(|row| self.render(row)).collect();
        Ok(())
    }

    /// Waits for records, and returns what they change.
    async fn look(&mut self) -> Result<Option<Change>, AuditError> {
        let audit = self.app.audit();
        match timeout(QUIET, audit.wait_for_records(self.position.sequence)).await {
            Ok(waited) => waited?,
            Err(_) if audit.anchor().sequence <= self.position.sequence => return Ok(None),
            // The indexer rests after a failure until a search asks for it.
            Err(_) => drop(audit.search(&Query { limit: Some(1), ..Query::default() }).await?),
        }
        let new = audit.new_calls(&self.query, &self.position, LISTED).await?;
        self.position = new.position;
        if new.rows.is_empty() {
            return Ok(None);
        }
        let rows: Vec<_> = new.rows.into_iter().map(|row| self.render(row)).collect();
        let sent = rows.get(..ROWS_A_SECOND).unwrap_or(&rows);
        let left_out = new.matching.saturating_sub(sent.len() as u64);
        let text = sent.iter().map(|(_, row)| row.0.as_str()).collect();
        // The whole list, which later pages begin with, has the rows that are not sent, too.
        self.keep(rows);
        Ok(Some(Change { rows: text, left_out }))
    }

    fn render(&self, mut call: Row) -> (u64, Markup) {
        if self.is_tenant {
            hide_platforms(&mut call);
        }
        (call.sequence, row(&call))
    }

    /// Puts new rows in place of older ones of the same calls, and forgets the oldest.
    fn keep(&mut self, new: Vec<(u64, Markup)>) {
        self.rows.retain(|(sequence, _)| !new.iter().any(|(known, _)| known == sequence));
        self.rows.extend(new);
        self.rows.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        self.rows.truncate(LISTED as usize);
    }

    fn whole(&self, id: u64) -> Bytes {
        let html = call_list(self.rows.iter().map(|(_, row)| row));
        event("whole", Some(id), &WholeList { html: &html.0 })
    }
}

/// The rows of a look as one text.
struct Change {
    rows: String,
    left_out: u64,
}

impl Change {
    fn as_json(&self) -> RowsChange<'_> {
        RowsChange { rows: &self.rows, removed: &[], left_out: self.left_out }
    }
}
