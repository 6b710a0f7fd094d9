//! The channel of a list of calls.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use maud::Markup;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{LiveState, PERIOD, QUIET, RETRY, ROWS_A_SECOND, RowsChange, WholeList, event};
use crate::admin::audit_failure;
use crate::audit::{AuditError, CallWatch, Kind, NewCalls, Order, Query, Row};
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
    let new = app.audit().count_calls_after(query, since).await.map_err(|error| audit_failure(&error))?;
    let left_out = new.saturating_sub(LISTED.into());
    Ok((left_out > 0).then(|| event("left_out", None, &json!({ "left_out": left_out }))))
}

/// Follows the calls that match a query, and keeps the newest of them rendered.
pub(super) struct Follower {
    app: App,
    query: Query,
    /// Whether rules of the platform are hidden.
    is_tenant: bool,
    /// Identifies the last state.
    id: u64,
    /// Rows by the sequence of their call, the newest first.
    rows: Vec<(u64, Markup)>,
}

impl Follower {
    pub(super) fn new(app: App, query: Query, is_tenant: bool) -> Self {
        Self { app, query, is_tenant, id: 0, rows: Vec::new() }
    }

    pub(super) async fn run(mut self, states: watch::Sender<Arc<LiveState>>) {
        loop {
            let Err(error) = self.follow(&states).await;
            tracing::debug!(%error, "new calls cannot be read; the console tries again");
            sleep_until(Instant::now() + RETRY).await;
        }
    }

    /// Begins with the list as it is, and looks until the index fails.
    async fn follow(&mut self, states: &watch::Sender<Arc<LiveState>>) -> Result<Infallible, AuditError> {
        // Begun first, so that no call is missed between the two.
        let watch = self.app.audit().watch_calls(&self.query, LISTED as usize);
        let page = self.app.audit().search_indexed(&self.query).await?;
        self.rows = page.rows.into_iter().map(|row| self.render(row)).collect();
        self.id = watch.reached().max(self.id + 1);
        // No page has the state before, so that all get the whole list.
        self.send(states, self.id, Bytes::new());
        loop {
            if let Some(NewCalls { rows, matching, sequence }) = self.look(&watch).await? {
                let rows: Vec<_> = rows.into_iter().map(|row| self.render(row)).collect();
                let sent = rows.get(..ROWS_A_SECOND).unwrap_or(&rows);
                let left_out = matching.saturating_sub(sent.len() as u64);
                let text: String = sent.iter().map(|(_, row)| row.0.as_str()).collect();
                // The whole list, which later pages begin with, has the rows that are not sent, too.
                self.keep(rows);
                let previous = self.id;
                self.id = sequence.max(previous + 1);
                let change =
                    event("rows", Some(self.id), &RowsChange { rows: &text, removed: &[], left_out });
                self.send(states, previous, change);
            }
            // After a look, so that no second has the rows of two.
            sleep_until(Instant::now() + PERIOD).await;
        }
    }

    fn send(&self, states: &watch::Sender<Arc<LiveState>>, previous: u64, change: Bytes) {
        let (id, whole) = (self.id, self.whole());
        states.send_replace(Arc::new(LiveState { id, previous, change, whole }));
    }

    /// Waits for calls, and returns them if there are some.
    async fn look(&self, watch: &CallWatch) -> Result<Option<NewCalls>, AuditError> {
        let audit = self.app.audit();
        let reached = watch.reached();
        if timeout(QUIET, watch.wait()).await.is_err() {
            let has_failed = watch.reached() == reached && audit.anchor().sequence > reached;
            if has_failed {
                // The indexer rests after a failure until a search asks for it.
                audit.search(&Query { limit: Some(1), ..Query::default() }).await?;
            }
        }
        let new = audit.new_calls(watch).await?;
        Ok(Some(new).filter(|new| !new.rows.is_empty()))
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

    fn whole(&self) -> Bytes {
        let html = call_list(self.rows.iter().map(|(_, row)| row));
        event("whole", Some(self.id), &WholeList { html: &html.0 })
    }
}
