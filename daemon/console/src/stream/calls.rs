//! The channel of a list of calls.

use std::convert::Infallible;

use axum::body::Bytes;
use maud::Markup;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};
use toolgate_audit::{AuditError, CallWatch, Kind, NewCalls, Order, Query, Row};
use toolgate_http::audit::hide_platforms;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;

use super::{LiveState, PERIOD, QUIET, RETRY, ROWS_A_SECOND, RowsChange, StateSink, WholeList, event};
use crate::calls::{call_list, row};

/// Rows of the whole list.
const LISTED: u32 = 50;

/// The query of a channel: calls alone, the newest first.
pub(super) fn channel_query(query: Query) -> Query {
    Query { kind: Some(Kind::Call), limit: Some(LISTED), cursor: None, order: Order::NewestFirst, ..query }
}

/// Counts the calls since an event of an earlier stream, of which the list shows the newest.
pub(super) async fn count_since(app: &App, query: &Query, since: u64) -> Result<Option<Bytes>, Problem> {
    let new = app.audit().count_calls_after(query, since).await?;
    let left_out = new.saturating_sub(LISTED.into());
    Ok((left_out > 0).then(|| event("left_out", None, &json!({ "left_out": left_out }))))
}

/// Follows the calls that match a query.
pub(super) struct Follower {
    app: App,
    query: Query,
    /// Whether rules of the platform are hidden.
    is_tenant: bool,
    state: LiveState,
}

impl Follower {
    pub(super) fn new(app: App, query: Query, is_tenant: bool) -> Self {
        Self { app, query, is_tenant, state: LiveState::default() }
    }

    pub(super) async fn run(mut self, sink: StateSink) {
        loop {
            let Err(error) = self.follow(&sink).await;
            tracing::debug!(%error, "new calls cannot be read; the console tries again");
            sleep_until(Instant::now() + RETRY).await;
        }
    }

    /// Begins with the list as it is, and looks until the index fails.
    async fn follow(&mut self, sink: &StateSink) -> Result<Infallible, AuditError> {
        // Begun first, so that no call is missed between the two.
        let watch = self.app.audit().watch_calls(&self.query, ROWS_A_SECOND);
        let id = watch.last_noted().max(self.state.id + 1);
        // No page has the state before, so that all get the whole list.
        self.state = LiveState { id, previous: id, change: Bytes::new(), whole: self.whole(id).await? };
        sink.send(&self.state);
        loop {
            tokio::select! {
                // The state as it is: newer calls come as a change.
                () = sink.wait_for_page() => {
                    self.state.whole = self.whole(self.state.id).await?;
                    sink.send(&self.state);
                }
                waited = self.wait_for_calls(&watch) => {
                    waited?;
                    let new = self.app.audit().new_calls(&watch).await?;
                    if !new.rows.is_empty() {
                        self.advance(new);
                        sink.send(&self.state);
                    }
                }
            }
            // After a look, so that no second has the rows of two.
            sleep_until(Instant::now() + PERIOD).await;
        }
    }

    async fn wait_for_calls(&self, watch: &CallWatch) -> Result<(), AuditError> {
        let audit = self.app.audit();
        let reached = watch.last_noted();
        if timeout(QUIET, watch.wait()).await.is_err() {
            let has_failed = watch.last_noted() == reached && audit.anchor().sequence > reached;
            if has_failed {
                // The indexer rests after a failure until a search asks for it.
                audit.search(&Query { limit: Some(1), ..Query::default() }).await?;
            }
        }
        Ok(())
    }

    /// Makes the state that has these calls.
    fn advance(&mut self, new: NewCalls) {
        let previous = self.state.id;
        let id = new.sequence.max(previous + 1);
        let left_out = new.matching.saturating_sub(new.rows.len() as u64);
        let rows: String = new.rows.into_iter().map(|row| self.render(row).0).collect();
        let change = event("rows", Some(id), &RowsChange { rows: &rows, removed: &[], left_out });
        self.state = LiveState { id, previous, change, whole: Bytes::new() };
    }

    /// The newest calls as they are.
    async fn whole(&self, id: u64) -> Result<Bytes, AuditError> {
        let page = self.app.audit().search_indexed(&self.query).await?;
        let rows: Vec<Markup> = page.rows.into_iter().map(|row| self.render(row)).collect();
        Ok(event("whole", Some(id), &WholeList { html: &call_list(rows.iter()).0 }))
    }

    fn render(&self, mut call: Row) -> Markup {
        if self.is_tenant {
            hide_platforms(&mut call);
        }
        row(&call)
    }
}
