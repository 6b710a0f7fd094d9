//! Races of calls: with a change of the rules, with each other, with their callers, and with the end of their session.

pub(crate) mod daemon;

use daemon::{ADD, CallEnd, DELETE, FINISHED, NOT_RUN, READ, STOPPED, TestDaemon, WRITE};
use daemon::{call, end, end_of, hang_up, outcome_of};
use tokio::task::JoinHandle;
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::error::ErrorType;
use toolgate_audit::Status;

use super::*;
use crate::call::CallAnswer;

const REFUSED: CallEnd = (Some(ErrorType::AccessDenied), Executed::No);

/// Puts a policy in force while a call waits for a slot or for the files. Returns how that call ends.
async fn end_under_new_policy(slots: u32, tool: &str, policy: &str) -> CallEnd {
    let mut daemon = TestDaemon::start(slots).await;
    let session = daemon.open_session().await;
    let (_, first) = daemon.run(&session, call("c1", tool)).await;
    let waiting = daemon.post_waiting(&session, call("c2", tool)).await;
    daemon.put_policy(policy).await;
    daemon.finish_each();
    first.finish();
    end(waiting).await
}

#[tokio::test]
async fn a_call_that_waited_for_a_slot_is_decided_by_the_rules_in_force_then() {
    assert_eq!(end_under_new_policy(1, ADD, r#"{"enabled":["files/*"]}"#).await, REFUSED);
    assert_eq!(end_under_new_policy(1, ADD, r#"{"enabled":["notes/*"]}"#).await, FINISHED);
}

#[tokio::test]
async fn a_call_that_waited_for_files_is_decided_by_the_rules_in_force_then() {
    assert_eq!(end_under_new_policy(4, WRITE, r#"{"enabled":["notes/*"]}"#).await, REFUSED);
    assert_eq!(end_under_new_policy(4, WRITE, r#"{"enabled":["files/*"]}"#).await, FINISHED);
}

#[tokio::test]
async fn calls_that_may_change_the_files_of_a_session_run_one_after_the_other() {
    let mut daemon = TestDaemon::start(4).await;
    let session = daemon.open_session().await;
    let (_, first) = daemon.run(&session, call("c1", WRITE)).await;
    let second = daemon.post_waiting(&session, call("c2", WRITE)).await;
    assert_eq!(daemon.started_beside(), None);
    first.finish();
    daemon.finish_next(second).await;
}

#[tokio::test]
async fn a_read_only_call_runs_beside_one_that_changes_files() {
    let mut daemon = TestDaemon::start(4).await;
    let session = daemon.open_session().await;
    let (_, _changing) = daemon.run(&session, call("c1", WRITE)).await;
    let reading = daemon.post(&session, call("c2", READ));
    daemon.finish_next(reading).await;
}

#[tokio::test]
async fn calls_that_wait_for_the_files_of_a_session_hold_no_slot() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let (_, _changing) = daemon.run(&session, call("c1", WRITE)).await;
    daemon.post_waiting(&session, call("c2", WRITE)).await;
    daemon.post_waiting(&session, call("c3", WRITE)).await;
    assert_eq!(session.changing_files.depth(), (1, 2));
    assert_eq!(daemon.services().queue.depth(), (1, 0));
    let of_other = daemon.post(&daemon.open_session().await, call("c1", WRITE));
    daemon.finish_next(of_other).await;
}

/// Hangs up while a call waits for a slot or for the files, which leaves it recorded as cancelled.
async fn check_hang_up(slots: u32, tool: &str) {
    let mut daemon = TestDaemon::start(slots).await;
    let session = daemon.open_session().await;
    let (running, first) = daemon.run(&session, call("c1", tool)).await;
    hang_up(daemon.post_waiting(&session, call("c2", tool)).await).await;
    assert_eq!(end_of(&*outcome_of(&session, "c2").await), NOT_RUN);
    assert_eq!(daemon.recorded_status(&session, "c2").await, Some(Status::Cancelled));
    first.finish();
    assert_eq!(end(running).await, FINISHED);
    assert_eq!(daemon.started_beside(), None);
}

#[tokio::test]
async fn r6_a_call_whose_caller_hangs_up_in_the_queue_is_cancelled_and_does_not_run() {
    check_hang_up(1, ADD).await;
}

#[tokio::test]
async fn r6_a_call_whose_caller_hangs_up_while_it_waits_for_files_is_cancelled_and_does_not_run() {
    check_hang_up(4, WRITE).await;
}

/// A cancelled call needs no slot, so a full queue does not keep it from its record.
#[tokio::test]
async fn r7_a_call_that_is_cancelled_while_it_waits_for_files_stays_cancelled_where_the_queue_is_full() {
    let mut daemon = TestDaemon::start_with(2, |config| config.queue.waiting_total = 0).await;
    let (session, other) = (daemon.open_session().await, daemon.open_session().await);
    let (_, _changing) = daemon.run(&session, call("c1", WRITE)).await;
    let waiting = daemon.post_waiting(&session, call("c2", WRITE)).await;
    let (_, _running) = daemon.run(&other, call("c1", ADD)).await;
    daemon.admin.dispatcher().cancel(&session, "c2", &daemon.actor().origin()).await.unwrap();
    assert_eq!(end(waiting).await, NOT_RUN);
    assert_eq!(end(daemon.post(&session, call("c2", WRITE))).await, NOT_RUN);
}

#[tokio::test]
async fn r6_a_call_that_outlives_its_request_runs_and_its_id_gets_the_recorded_outcome() {
    let mut daemon = TestDaemon::start(1).await;
    let session = daemon.open_session().await;
    let (_, first) = daemon.run(&session, call("c1", ADD)).await;
    let lasting = RequestedCall { outlives_request: true, ..call("c2", ADD) };
    hang_up(daemon.post_waiting(&session, lasting.clone()).await).await;
    first.finish();
    daemon.started().await.finish();
    let outcome = outcome_of(&session, "c2").await;
    assert_eq!(end_of(&outcome), FINISHED);
    let again = daemon.post(&session, lasting).await.unwrap();
    assert!(again.replayed && Arc::ptr_eq(&again.outcome, &outcome), "{again:?}");
    assert_eq!(daemon.started_beside(), None);
}

#[tokio::test]
async fn r7_an_id_with_other_arguments_is_a_conflict_and_with_the_same_ones_the_same_call() {
    let mut daemon = TestDaemon::start(2).await;
    let session = daemon.open_session().await;
    let other = RequestedCall { arguments: r#"{"a":1}"#.into(), ..call("c1", ADD) };
    let conflict = (Some(ErrorType::Conflict), Executed::No);
    let (running, first) = daemon.run(&session, call("c1", ADD)).await;
    assert_eq!(end(daemon.post(&session, other.clone())).await, conflict);
    assert_eq!(daemon.post(&session, call("c1", ADD)).await.unwrap().status(), CallStatus::Running);
    first.finish();
    assert_eq!(end(running).await, FINISHED);
    assert_eq!(end(daemon.post(&session, other)).await, conflict);
    assert_eq!(end(daemon.post(&session, call("c1", ADD))).await, FINISHED);
    assert_eq!(daemon.started_beside(), None);
}

#[tokio::test]
async fn r7_a_call_that_the_full_queue_refuses_frees_its_id() {
    let mut daemon = TestDaemon::start_with(1, |config| config.queue.waiting_total = 0).await;
    let session = daemon.open_session().await;
    let (running, first) = daemon.run(&session, call("c1", ADD)).await;
    let refused = end(daemon.post(&session, call("c2", ADD))).await;
    assert_eq!(refused, (Some(ErrorType::Overloaded), Executed::No));
    assert!(session.calls.has("c1") && !session.calls.has("c2"));
    first.finish();
    assert_eq!(end(running).await, FINISHED);
    let again = daemon.post(&session, call("c2", ADD));
    daemon.finish_next(again).await;
}

/// Ends by `stop` a session with a call that runs and one that waits for the only slot. Returns the call of another session
/// that waits, too.
async fn check_cancelled_by(
    stop: impl AsyncFnOnce(&TestDaemon, &Session),
) -> (TestDaemon, JoinHandle<CallAnswer>) {
    let mut daemon = TestDaemon::start(1).await;
    let (session, other) = (daemon.open_session().await, daemon.open_session().await);
    let (running, _first) = daemon.run(&session, call("c1", ADD)).await;
    let waiting = daemon.post_waiting(&session, call("c2", ADD)).await;
    let of_other = daemon.post_waiting(&other, call("c1", ADD)).await;
    stop(&daemon, &session).await;
    assert_eq!(end(running).await, STOPPED);
    assert_eq!(end(waiting).await, NOT_RUN);
    assert_eq!(end(daemon.post(&session, call("c3", ADD))).await, NOT_RUN);
    for id in ["c1", "c2", "c3"] {
        assert_eq!(daemon.recorded_status(&session, id).await, Some(Status::Cancelled), "{id}");
    }
    (daemon, of_other)
}

#[tokio::test]
async fn r6_the_end_of_a_session_cancels_its_calls_and_no_others() {
    let end_session = async |daemon: &TestDaemon, session: &Session| {
        daemon.admin.end_session(daemon.actor(), session).await.unwrap();
    };
    let (mut daemon, of_other) = check_cancelled_by(end_session).await;
    daemon.finish_next(of_other).await;
}

#[tokio::test]
async fn r6_the_end_of_a_session_cancels_a_call_that_waits_for_approval() {
    let daemon = TestDaemon::start(1).await;
    let session = daemon.open_session().await;
    let waiting = daemon.post(&session, call("c1", DELETE)).await.unwrap();
    assert_eq!(waiting.status(), CallStatus::ApprovalRequired);
    daemon.admin.end_session(daemon.actor(), &session).await.unwrap();
    assert_eq!(end_of(&*outcome_of(&session, "c1").await), NOT_RUN);
}

#[tokio::test]
async fn r6_the_shutdown_of_the_daemon_cancels_all_calls() {
    let shut_down = async |daemon: &TestDaemon, _: &Session| daemon.services().detached.close().await;
    let (mut daemon, of_other) = check_cancelled_by(shut_down).await;
    assert_eq!(end(of_other).await, NOT_RUN);
    assert_eq!(daemon.started_beside(), None);
}
