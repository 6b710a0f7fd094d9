//! The channels of the inbox and of the number of approvals that wait.

use std::collections::HashSet;

use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};
use toolgate_api::name::Name;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::{LiveState, PERIOD, QUIET, ROWS_A_SECOND, RowsChange, StateSink, WholeList, event};
use crate::approvals::{ScopedInbox, load, open_count, render_list, render_rows};

/// Follows the number of approvals that wait, of one organization or of all.
pub(super) async fn follow_count(app: App, organization: Option<Name>, sink: StateSink) {
    let mut looks = Looks::new(&app);
    let (mut shown, mut id) = (None, 0);
    loop {
        // A failure is shown by the pages that it concerns; the number stays as it was.
        if let Ok(html) = open_count(&app, organization.as_ref()).await
            && shown.as_ref() != Some(&html.0)
        {
            let previous = id;
            id += 1;
            let change = event("badge", None, &json!({ "html": html.0 }));
            sink.send(&LiveState { id, previous, whole: change.clone(), change });
            shown = Some(html.0);
        }
        looks.wait(&app, false).await;
    }
}

/// Follows a list of approvals.
pub(super) async fn follow_list(app: App, inbox: ScopedInbox, sink: StateSink) {
    let mut looks = Looks::new(&app);
    let mut sent: Option<Vec<(String, String)>> = None;
    // Ids of a restarted daemon are other ones.
    let mut id = now_ms();
    loop {
        let mut has_more = false;
        if let Ok(list) = load(&app, &inbox).await {
            let wanted = render_rows(&list);
            let change = sent.as_mut().map(|sent| advance(sent, &wanted));
            has_more = change.as_ref().is_some_and(|change| change.left_out > 0);
            if change.as_ref().is_none_or(|change| !change.is_empty()) {
                let previous = id;
                id = now_ms().max(previous + 1);
                let whole = event("whole", Some(id), &WholeList { html: &render_list(&list).0 });
                let change = change.unwrap_or_default();
                let text: String = change.rows.iter().map(|(_, row)| row.as_str()).collect();
                let (removed, left_out) = (&change.removed[..], change.left_out);
                let change = event("rows", Some(id), &RowsChange { rows: &text, removed, left_out });
                sink.send(&LiveState { id, previous, change, whole });
            }
            sent.get_or_insert(wanted);
        }
        looks.wait(&app, has_more).await;
    }
}

/// The difference between two lists.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    /// Rows that are new or other ones, by their keys.
    rows: Vec<(String, String)>,
    removed: Vec<String>,
    /// Rows that come with the next changes.
    left_out: u64,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.removed.is_empty()
    }
}

/// Brings a list that was sent nearer to the wanted one, by as many rows as may be sent at once.
fn advance(sent: &mut Vec<(String, String)>, wanted: &[(String, String)]) -> Change {
    let keys: HashSet<&str> = wanted.iter().map(|(key, _)| key.as_str()).collect();
    let is_removed = |(key, _): &(String, String)| !keys.contains(key.as_str());
    let removed = sent.iter().filter(|row| is_removed(row)).map(|(key, _)| key.clone()).collect();
    sent.retain(|row| !is_removed(row));
    let known: HashSet<&(String, String)> = sent.iter().collect();
    let mut rows: Vec<_> = wanted.iter().filter(|row| !known.contains(row)).cloned().collect();
    let left_out = rows.len().saturating_sub(ROWS_A_SECOND) as u64;
    rows.truncate(ROWS_A_SECOND);
    for row in &rows {
        match sent.iter_mut().find(|(key, _)| *key == row.0) {
            Some(older) => older.1.clone_from(&row.1),
            None => sent.push(row.clone()),
        }
    }
    Change { rows, removed, left_out }
}

/// The rhythm of looks: after each new record, at most once a second, and at times without one.
struct Looks {
    sequence: u64,
    next: Instant,
}

impl Looks {
    fn new(app: &App) -> Self {
        Self { sequence: app.audit().anchor().sequence, next: Instant::now() + PERIOD }
    }

    async fn wait(&mut self, app: &App, has_more: bool) {
        sleep_until(self.next).await;
        if !has_more {
            // Decisions and calls are records; that an approval expires is none.
            let waited = timeout(QUIET, app.audit().wait_for_records(self.sequence)).await;
            self.sequence = waited.unwrap_or(Ok(self.sequence)).unwrap_or(self.sequence);
        }
        self.next = Instant::now() + PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(keys: std::ops::Range<usize>, text: &str) -> Vec<(String, String)> {
        keys.map(|key| (key.to_string(), text.to_owned())).collect()
    }

    #[test]
    fn o6_a_list_changes_by_few_rows_at_once_until_it_is_the_wanted_one() {
        let mut sent = list(0..30, "waits");
        let change = advance(&mut sent, &list(0..30, "waits"));
        assert!(change.is_empty());
        let wanted = list(5..60, "waits");
        let change = advance(&mut sent, &wanted);
        assert_eq!((change.rows.len(), change.removed.len(), change.left_out), (20, 5, 10));
        let change = advance(&mut sent, &wanted);
        assert_eq!((change.rows.len(), change.removed.len(), change.left_out), (10, 0, 0));
        assert_eq!(sent, wanted);
        let change = advance(&mut sent, &list(5..6, "denied"));
        assert_eq!(change.rows, list(5..6, "denied"));
        assert_eq!(sent, list(5..6, "denied"));
    }
}
