//! The sequence of a call, with a dispatcher in this process: what is recorded, what runs, and in which order.
//!
//! The end-to-end tests hold the same promises over HTTP. These take milliseconds each, and change what a client cannot.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

#[path = "../src/local.rs"]
mod local;

use std::sync::Arc;

use toolgate_admission::Rates;
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Namespace;
use toolgate_audit::{Row, Status, Verdict};
use toolgate_core::call::CallOutcome;
use toolgate_tests::{PluginFile, wait};

use local::{LocalDispatcher, LocalSettings};

const AUTONOMOUS: &str = r#"{"enabled":["p/answer"],"autonomy":"autonomous"}"#;
const TOOL: &str = "p/answer";
const PLENTY: Rates = Rates { calls_per_second: Some(1_000_000), burst: 1_000_000 };

async fn dispatcher(agent: &str, rates: Rates) -> LocalDispatcher {
    let component = PluginFile::new("p").build();
    LocalDispatcher::new(LocalSettings {
        component: &component,
        agent,
        rates,
        instances: 2,
        segment_bytes: 64 * 1024,
    })
    .await
}

async fn row(local: &LocalDispatcher, session: &str, id: &str) -> Option<Row> {
    local.services().audit.search(&Default::default()).await.expect("the index answers");
    local.services().audit.lookup(session, 0, id).await.expect("the index answers")
}

fn error(outcome: &CallOutcome) -> ErrorType {
    outcome.error().map(|error| error.error_type).expect("an error")
}

#[tokio::test]
async fn an_admitted_call_is_recorded_with_its_verdict_and_its_outcome() {
    let local = dispatcher(AUTONOMOUS, PLENTY).await;
    let session = local.open_session();
    let outcome = local.call(&session, "c1", TOOL, "{}").await;
    assert_eq!((outcome.status(), outcome.executed), (CallStatus::Ok, Executed::Yes), "{outcome:?}");
    let row = row(&local, &session.setup.id, "c1").await.expect("a record");
    assert_eq!(row.status, Some(Status::Ok));
    assert_eq!(row.call.as_ref().map(|intent| intent.verdict), Some(Verdict::Run));
}

#[tokio::test]
async fn a_refused_call_is_recorded_and_does_not_run() {
    let local = dispatcher(r#"{"enabled":[]}"#, PLENTY).await;
    let session = local.open_session();
    let outcome = local.call(&session, "c1", TOOL, "{}").await;
    assert_eq!((error(&outcome), outcome.executed), (ErrorType::AccessDenied, Executed::No));
    let row = row(&local, &session.setup.id, "c1").await.expect("a record");
    assert_eq!(row.call.as_ref().map(|intent| intent.verdict), Some(Verdict::Refused));
}

#[tokio::test]
async fn a_call_over_the_rate_is_recorded_and_does_not_run() {
    let local = dispatcher(AUTONOMOUS, Rates { calls_per_second: Some(1), burst: 1 }).await;
    let session = local.open_session();
    assert_eq!(local.call(&session, "c1", TOOL, "{}").await.status(), CallStatus::Ok);
    // On a busy machine a second may pass between two calls.
    let mut number = 1;
    let (id, outcome) = loop {
        number += 1;
        let id = format!("c{number}");
        let outcome = local.call(&session, &id, TOOL, "{}").await;
        if outcome.status() != CallStatus::Ok {
            break (id, outcome);
        }
        assert!(number < 1_000, "no call is over the rate");
    };
    assert_eq!((error(&outcome), outcome.executed), (ErrorType::RateLimited, Executed::No));
    let row = row(&local, &session.setup.id, &id).await.expect("a record");
    assert_eq!(row.call.as_ref().map(|intent| intent.verdict), Some(Verdict::Refused));
}

#[tokio::test]
async fn a_call_of_a_revoked_token_is_recorded_and_does_not_run() {
    let local = dispatcher(AUTONOMOUS, PLENTY).await;
    let session = local.open_session();
    local.origin.revoked.cancel();
    let outcome = local.call(&session, "c1", TOOL, "{}").await;
    assert_eq!((error(&outcome), outcome.executed), (ErrorType::Cancelled, Executed::No));
    let row = row(&local, &session.setup.id, "c1").await.expect("a record");
    assert_eq!(row.status, Some(Status::Cancelled));
}

#[tokio::test]
async fn a_used_id_returns_the_same_outcome_and_no_other_call() {
    let local = dispatcher(AUTONOMOUS, PLENTY).await;
    let session = local.open_session();
    let first = local.call(&session, "c1", TOOL, "{}").await;
    let again = local.call(&session, "c1", TOOL, "{}").await;
    assert!(Arc::ptr_eq(&first, &again), "{again:?}");
    let other = local.call(&session, "c1", TOOL, r#"{"x":1}"#).await;
    assert_eq!((error(&other), other.executed), (ErrorType::Conflict, Executed::No));
    // Beside an intent and an outcome, the refused attempt is an act of its own, which is recorded behind the answer.
    let audit = local.services().audit.clone();
    let wait = move || wait::until_true("the three records", || audit.counts().records == 3);
    tokio::task::spawn_blocking(wait).await.expect("recorded");
}

#[tokio::test]
async fn a_call_that_needs_approval_waits_for_a_person() {
    let local = dispatcher(r#"{"enabled":["p/answer"],"autonomy":"supervised"}"#, PLENTY).await;
    let session = local.open_session();
    let outcome = local.call(&session, "c1", TOOL, "{}").await;
    assert_eq!((outcome.status(), outcome.executed), (CallStatus::ApprovalRequired, Executed::No));
    assert!(outcome.approval().is_some());
    let row = row(&local, &session.setup.id, "c1").await.expect("a record");
    assert_eq!(row.call.as_ref().map(|intent| intent.verdict), Some(Verdict::NeedsApproval));
}

#[tokio::test]
async fn a_call_whose_intent_cannot_be_recorded_does_not_run_and_its_id_stays_free() {
    let local = dispatcher(AUTONOMOUS, PLENTY).await;
    let session = local.open_session();
    assert_eq!(local.call(&session, "c1", TOOL, "{}").await.status(), CallStatus::Ok);
    // No further segment can be created, so the log is full when its two are.
    std::fs::remove_dir_all(local.folder.path().join("audit")).expect("the folder is removed");
    for number in 2..10_000 {
        let id = format!("c{number}");
        let outcome = local.call(&session, &id, TOOL, "{}").await;
        if outcome.executed == Executed::No {
            assert_eq!(error(&outcome), ErrorType::Unavailable, "{outcome:?}");
            assert!(!session.calls.has(&id));
            return;
        }
    }
    panic!("the log was never full");
}

#[tokio::test]
async fn a_call_waits_until_its_plugin_is_compiled() {
    let local = dispatcher(AUTONOMOUS, PLENTY).await;
    let session = local.open_session();
    let namespace = Namespace::parse("p").expect("a namespace");
    local.services().registry.set_compiling([namespace].into());
    let mut call = Box::pin(local.call(&session, "c1", TOOL, "{}"));
    assert!(futures_util::poll!(&mut call).is_pending());
    local.services().registry.set_compiling([].into());
    assert_eq!(call.await.status(), CallStatus::Ok);
}
