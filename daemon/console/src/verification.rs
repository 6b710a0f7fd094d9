//! Verification of the audit log: the whole chain is read when a person asks, and the finding is kept until the next one.

use axum::extract::State;
use maud::{Markup, html};
use parking_lot::Mutex;
use toolgate_api::error::ErrorType;
use toolgate_audit::VerifyReport;
use toolgate_core::identity::Access;
use toolgate_http::problem::Problem;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

use super::Console;
use super::elements::{badge, facts, number, short, time};
use super::form::SeeOther;
use super::page::Page;
use super::viewer::Viewer;

/// The address of the page.
const PATH: &str = "/console/audit/verification";

/// Runs one verification at a time, since each reads the whole log.
#[derive(Default)]
pub(super) struct Verifier {
    running: tokio::sync::Mutex<()>,
    last: Mutex<Option<LastVerification>>,
}

/// The finding of a verification.
#[derive(Clone)]
pub(super) struct LastVerification {
    at_ms: u64,
    report: VerifyReport,
}

impl Verifier {
    /// The last finding since the start of the daemon.
    pub(super) fn last(&self) -> Option<LastVerification> {
        self.last.lock().clone()
    }

    async fn verify(&self, app: &App) -> Result<(), Problem> {
        let Ok(_running) = self.running.try_lock() else {
            let message = "the log is being verified already";
            return Err(Problem::new(ErrorType::Conflict, message, "open the page again in a moment"));
        };
        let report = app.audit().verify().await?;
        let found = LastVerification { at_ms: now_ms(), report };
        *self.last.lock() = Some(found);
        Ok(())
    }
}

impl LastVerification {
    /// The finding in a word, with its time.
    pub(super) fn summary(&self) -> Markup {
        let word = if self.report.ok { badge("good", "intact") } else { badge("bad", "not intact") };
        html! { (word) ", " (number(self.report.records)) " records, " (time(self.at_ms)) }
    }
}

/// The last finding, with a button that verifies again.
pub(super) async fn page(viewer: Viewer, console: Console) -> Result<Page, Problem> {
    viewer.caller.may(Access::Verify)?;
    let main = html! {
        @match console.verifier.last() {
            Some(last) => (finding(&last)),
            None => p { "The log was not verified since the start of the daemon." },
        }
        (viewer.form(PATH, &[], html! {
            p { "The daemon reads every record again, which takes the longer the larger the log is." }
            button type="submit" { "Verify the log" }
        }))
        p { a href="/console/audit" { "Search the records" } }
    };
    Ok(Page::new("Verification of the audit log", main))
}

/// Verifies the log.
pub(super) async fn verify(
    State(app): State<App>,
    viewer: Viewer,
    console: Console,
) -> Result<SeeOther, Problem> {
    viewer.caller.may(Access::Verify)?;
    console.verifier.verify(&app).await?;
    Ok(SeeOther::to(PATH))
}

fn finding(last: &LastVerification) -> Markup {
    let LastVerification { report, .. } = last;
    let mut pairs = vec![
        ("Finding", last.summary()),
        ("Segments", html! { (number(report.segments)) }),
        ("Last record", html! { (number(report.head.sequence)) ", hash " code { (report.head.hash) } }),
    ];
    if let Some(cut) = &report.cut {
        pairs.push(("Begins after", html! { "record " (number(cut.sequence)) ", which retention removed" }));
    }
    if let Some(bad) = &report.first_bad {
        let what = serde_json::to_string(bad).unwrap_or_default();
        pairs.push(("First damaged record", html! { (short(&what)) }));
    }
    if !report.suspicious.is_empty() {
        pairs.push((
            "Losses",
            html! { (number(report.suspicious.len() as u64)) " starts found lost records" },
        ));
    }
    html! {
        (facts(&pairs))
        p.quiet { "Keep the hash of the last record elsewhere, to compare the log with it later." }
    }
}
