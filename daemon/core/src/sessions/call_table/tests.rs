//! Each id runs once, and answers are bounded.

use serde_json::value::RawValue;

use super::*;
use crate::call::OutcomeState;
use toolgate_api::call::Executed;

const HOUR_MS: u64 = 3_600_000;

fn outcome(id: &str, output: &str) -> CallOutcome {
    let output = serde_json::value::to_raw_value(output).unwrap();
    CallOutcome::new(id, &"t".into(), Executed::Yes, OutcomeState::Ok(output))
}

fn table() -> CallTable {
    CallTable::new(HOUR_MS, OrganizationUse::alone(), None)
}

fn open(table: &CallTable, id: &str, arguments: u8, now_ms: u64) -> Lookup {
    table.open(id, &"t".into(), [arguments; 32], now_ms, &CancellationToken::new())
}

fn run(table: &CallTable, id: &str, answer: &str, now_ms: u64) {
    match open(table, id, 1, now_ms) {
        Lookup::New(call) => {
            drop(call.end(outcome(id, answer), now_ms));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn r7_the_same_id_is_answered_the_same_and_runs_once() {
    let table = table();
    run(&table, "c1", "answer", 0);
    match open(&table, "c1", 1, 5) {
        Lookup::Known(CallState::Ended(recorded)) => {
            assert_eq!(recorded.output().map(RawValue::get), Some("\"answer\""))
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(open(&table, "c2", 1, 5), Lookup::New(_)));
}

#[test]
fn r7_the_same_id_with_another_tool_or_other_arguments_is_a_conflict() {
    let table = table();
    run(&table, "c1", "answer", 0);
    assert!(matches!(open(&table, "c1", 2, 5), Lookup::Conflict));
    let another = table.open("c1", &"u".into(), [1; 32], 5, &CancellationToken::new());
    assert!(matches!(another, Lookup::Conflict));
}

#[test]
fn a_running_call_is_known_and_can_be_stopped() {
    let table = table();
    let Lookup::New(call) = open(&table, "c1", 1, 0) else { panic!() };
    let Some(CallState::Running { stop, .. }) = table.find("c1", 0) else { panic!() };
    stop.cancel();
    assert!(call.cancelled.is_cancelled());
}

#[test]
fn the_end_of_the_session_stops_its_calls() {
    let table = table();
    let session = CancellationToken::new();
    let Lookup::New(call) = table.open("c1", &"t".into(), [1; 32], 0, &session) else { panic!() };
    session.cancel();
    assert!(call.cancelled.is_cancelled());
}

#[test]
fn r7_an_expired_answer_is_forgotten_and_its_id_never_runs_again() {
    let table = table();
    run(&table, "c1", "answer", 0);
    assert!(matches!(table.find("c1", HOUR_MS), Some(CallState::Ended(_))));
    assert!(matches!(open(&table, "c1", 1, HOUR_MS + 1), Lookup::Known(CallState::Forgotten)));
}

#[test]
fn answers_are_bounded_by_their_bytes_together() {
    let table = table();
    let large = "x".repeat(ANSWER_BYTES / 2 + 1);
    run(&table, "c1", &large, 0);
    run(&table, "c2", &large, 0);
    assert!(matches!(table.find("c1", 0), Some(CallState::Forgotten)));
    assert!(matches!(table.find("c2", 0), Some(CallState::Ended(_))));
}

/// The answers of an organization are dropped oldest first, also those of other sessions, and never another one's.
#[test]
fn r7_answers_are_bounded_by_organization() {
    let (acme, rival) = (OrganizationUse::alone(), OrganizationUse::alone());
    let tables: Vec<CallTable> = (0..6).map(|_| CallTable::new(HOUR_MS, Arc::clone(&acme), None)).collect();
    let other = CallTable::new(HOUR_MS, Arc::clone(&rival), None);
    run(&other, "c1", "answer", 0);
    run(&tables[0], "first", "answer", 0);
    let large = "x".repeat(ANSWER_BYTES - 10_000);
    for table in &tables {
        run(table, "c1", &large, 0);
    }
    let is_held = |table: &CallTable, id| matches!(table.find(id, 0), Some(CallState::Ended(_)));
    let held: Vec<bool> = tables.iter().map(|table| is_held(table, "c1")).collect();
    assert_eq!(held, [false, false, true, true, true, true]);
    assert!(!is_held(&tables[0], "first") && is_held(&other, "c1"));
    run(&tables[0], "c2", "answer", 0);
    assert!(is_held(&tables[0], "c2"), "a new answer is kept");
    drop(tables);
    assert_eq!(acme.answers.bytes(), 0);
}

#[test]
fn r7_a_dropped_call_stays_cancelled_and_a_withdrawn_one_may_be_tried_again() {
    let table = table();
    drop(open(&table, "dropped", 1, 0));
    assert!(matches!(open(&table, "dropped", 1, 0), Lookup::Known(CallState::Cancelled)));
    let Lookup::New(call) = open(&table, "withdrawn", 1, 0) else { panic!() };
    call.withdraw();
    assert!(matches!(open(&table, "withdrawn", 1, 0), Lookup::New(_)));
}
