//! Tests of approvals: one pending approval per binding, atomic uses, expiry.

use toolgate_api::error::{CallError, ErrorType};

use super::super::testing::{empty_store, pending_approval};
use super::*;

fn yes(uses: u64, expires_ms: u64) -> Decision {
    Decision {
        state: ApprovalState::Approved,
        uses,
        constraints: None,
        arguments_instead: None,
        reason: Some("fine".into()),
        decided_by: "t2".into(),
        decided_ms: 20,
        expires_ms,
    }
}

fn in_state(state: ApprovalState) -> ApprovalFilter<'static> {
    ApprovalFilter { state: Some(state), ..ApprovalFilter::default() }
}

async fn state(store: &Store, id: &str) -> ApprovalState {
    store.approval(id, None).await.expect("the approval").state
}

#[tokio::test]
async fn an_approval_comes_back_as_it_was_asked_for() {
    let (_folder, store) = empty_store().await;
    assert_eq!(
        store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored"),
        (pending_approval("a1", "c1"), None)
    );
    assert_eq!(store.approval("a1", None).await.expect("the approval"), pending_approval("a1", "c1"));
    let stranger = Name::parse("other").expect("a name");
    assert!(matches!(store.approval("a1", Some(&stranger)).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn calls_of_one_binding_wait_for_one_approval() {
    let (_folder, store) = empty_store().await;
    for (id, call) in [("a1", "c1"), ("a2", "c2")] {
        let (waiting, _) = store.ask_for_approval(&pending_approval(id, call)).await.expect("stored");
        assert_eq!(waiting.id, "a1");
    }
    let other = ApprovalRow { binding: "other".into(), ..pending_approval("a3", "c3") };
    assert_eq!(store.ask_for_approval(&other).await.expect("stored").0.id, "a3");
}

#[tokio::test]
async fn g11_an_approval_that_was_not_decided_in_time_keeps_no_call_from_asking_again() {
    let (_folder, store) = empty_store().await;
    let (first, _) = store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored");
    let later = |id: &str, created_ms| ApprovalRow {
        created_ms,
        expires_ms: created_ms + 100,
        ..pending_approval(id, "c2")
    };
    let (waiting, expired) =
        store.ask_for_approval(&later("a2", first.expires_ms - 1)).await.expect("stored");
    assert_eq!((waiting.id.as_str(), expired), ("a1", None), "there is still time");
    let (waiting, expired) = store.ask_for_approval(&later("a3", first.expires_ms)).await.expect("stored");
    assert_eq!((waiting.id.as_str(), expired.as_deref()), ("a3", Some("a1")));
    assert_eq!(state(&store, "a1").await, ApprovalState::Expired);
    assert_eq!(state(&store, "a3").await, ApprovalState::Pending);
}

#[tokio::test]
async fn g11_as_many_uses_are_taken_as_there_are_and_in_time() {
    let (_folder, store) = empty_store().await;
    store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored");
    assert_eq!(store.use_approval("a1", 20).await.expect("asked"), None, "not decided yet");
    assert!(store.decide_approval("a1", &yes(2, 90)).await.expect("decided"));
    assert!(!store.decide_approval("a1", &yes(9, 90)).await.expect("asked"), "it is decided already");
    assert_eq!(store.use_approval("a1", 90).await.expect("asked"), None, "its time is over");
    assert_eq!(store.use_approval("a1", 89).await.expect("used"), Some(1));
    assert_eq!(state(&store, "a1").await, ApprovalState::Approved);
    assert_eq!(store.use_approval("a1", 89).await.expect("used"), Some(0));
    assert_eq!(state(&store, "a1").await, ApprovalState::Used);
    assert_eq!(store.use_approval("a1", 89).await.expect("asked"), None);
    store.release_approval_use("a1").await.expect("given back");
    assert_eq!(store.use_approval("a1", 89).await.expect("used"), Some(0));
}

/// A client that posts in a loop may look before the decision and ask after it.
#[tokio::test]
async fn g11_a_call_that_is_decided_is_not_asked_about_again() {
    let (_folder, store) = empty_store().await;
    for (call, decision) in [("c1", ApprovalState::Denied), ("c2", ApprovalState::Approved)] {
        let [first, second] = ["first", "second"].map(|id| format!("{call}-{id}"));
        store.ask_for_approval(&pending_approval(&first, call)).await.expect("stored");
        let decided = Decision { state: decision, ..yes(1, 90) };
        assert!(store.decide_approval(&first, &decided).await.expect("decided"));
        let (found, _) = store.ask_for_approval(&pending_approval(&second, call)).await.expect("asked");
        assert_eq!((found.id, found.state), (first, decision));
    }
    // One that another call used up is asked for again, and another call asks for itself.
    assert_eq!(store.use_approval("c2-first", 20).await.expect("used"), Some(0));
    for call in ["c2", "c3"] {
        let (asked, _) = store.ask_for_approval(&pending_approval("again", call)).await.expect("stored");
        assert_eq!((asked.id.as_str(), asked.state), ("again", ApprovalState::Pending), "{call}");
    }
}

#[tokio::test]
async fn a_late_decision_has_no_effect() {
    let (_folder, store) = empty_store().await;
    store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored");
    let late = Decision { decided_ms: 100, ..yes(1, 200) };
    assert!(!store.decide_approval("a1", &late).await.expect("asked"));
    let ended = store.expire_approvals(100, 0).await.expect("expired");
    assert_eq!(ended.len(), 1);
    assert_eq!(state(&store, "a1").await, ApprovalState::Expired);
    store.expire_approvals(100, 101).await.expect("forgotten");
    assert!(store.approval("a1", None).await.is_err());
}

#[tokio::test]
async fn given_approvals_are_found_for_any_call_and_others_for_their_call() {
    let (_folder, store) = empty_store().await;
    store.ask_for_approval(&pending_approval("a1", "c1")).await.expect("stored");
    store.end_approval("a1", ApprovalState::Void).await.expect("ended");
    store.ask_for_approval(&pending_approval("a2", "c2")).await.expect("stored");
    let ids = async |call: &str| -> Vec<String> {
        let found = store.approvals_for("s", "pay/send", call).await.expect("approvals");
        found.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids("c1").await, ["a1"], "what others wait for may be much");
    assert_eq!(ids("c2").await, ["a2"]);
    assert!(ids("c3").await.is_empty());
    let listed = store.approvals(in_state(ApprovalState::Pending), 10).await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert!(store.decide_approval("a2", &yes(1, 90)).await.expect("decided"));
    assert_eq!(ids("c1").await, ["a1", "a2"]);
    assert_eq!(ids("c3").await, ["a2"]);
}

#[tokio::test]
async fn an_inbox_reads_the_start_of_the_arguments() {
    let (_folder, store) = empty_store().await;
    let arguments = format!("{{\"to\": \"{}\"}}", "é".repeat(10_000));
    store.ask_for_approval(&ApprovalRow { arguments, ..pending_approval("a1", "c1") }).await.expect("stored");
    let listed = store.inbox_approvals(in_state(ApprovalState::Pending), 10, 10).await.expect("a list");
    let [row] = &*listed else { panic!("{listed:?}") };
    assert_eq!((&*row.id, &*row.arguments), ("a1", "{\"to\": \"éé"));
    assert_eq!((row.state, row.created_ms, row.expires_ms), (ApprovalState::Pending, 10, 100));
    let denied = store.inbox_approvals(in_state(ApprovalState::Denied), 10, 10).await.expect("a list");
    assert!(denied.is_empty(), "{denied:?}");
}

#[tokio::test]
async fn o6_every_list_of_approvals_reads_the_rows_that_it_shows() {
    let (_folder, store) = empty_store().await;
    for (id, organization) in [("a1", "acme"), ("a2", "rival"), ("a3", "acme")] {
        let organization = Name::parse(organization).expect("a name");
        let asked = ApprovalRow { organization, binding: id.into(), ..pending_approval(id, id) };
        store.ask_for_approval(&asked).await.expect("stored");
    }
    store.end_approval("a3", ApprovalState::Void).await.expect("ended");
    let acme = Name::parse("acme").expect("a name");
    for (organization, state, listed) in [
        (None, None, "a2 a3"),
        (None, Some(ApprovalState::Pending), "a2"),
        (Some(&acme), None, "a3"),
        (Some(&acme), Some(ApprovalState::Void), "a3"),
    ] {
        let filter = ApprovalFilter { organization, state, after: Some("a1") };
        let rows = store.approvals(filter, 10).await.expect("a list");
        let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.join(" "), listed, "{filter:?}");
        let mut plan = list("EXPLAIN QUERY PLAN SELECT *", filter, 10);
        let plan = plan.build().fetch_all(&store.readers).await.expect("a plan");
        let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
        // Neither a scan nor a sort.
        assert!(steps.len() == 1 && steps[0].starts_with("SEARCH"), "{filter:?}: {steps:?}");
    }
    let open = async |organization: Option<&Name>| {
        store.count_open_approvals(organization, 50, 10).await.expect("a number")
    };
    assert_eq!((open(None).await, open(Some(&acme)).await), (2, 1));
}

async fn ask_for(store: &Store, id: &str, bytes: usize) {
    let arguments = format!("\"{}\"", "x".repeat(bytes.saturating_sub(2)));
    let asked = ApprovalRow { binding: id.into(), arguments, ..pending_approval(id, id) };
    store.ask_for_approval(&asked).await.expect("stored");
}

#[tokio::test]
async fn a_page_of_long_arguments_is_cut_and_has_one_at_least() {
    let (_folder, store) = empty_store().await;
    for (id, bytes) in [("a1", 100), ("a2", 100), ("a3", 300), ("a4", 100)] {
        ask_for(&store, id, bytes).await;
    }
    for (after, limit, most_bytes, ids, has_more) in [
        (None, 10, 1_000, "a1 a2 a3 a4", false),
        (None, 4, 600, "a1 a2 a3 a4", false),
        (None, 3, 1_000, "a1 a2 a3", true),
        (None, 10, 499, "a1 a2", true),
        (Some("a2"), 10, 299, "a3", true),
        (Some("a3"), 10, 10, "a4", false),
        (Some("a4"), 10, 10, "", false),
    ] {
        let filter = ApprovalFilter { after, ..ApprovalFilter::default() };
        let (rows, more) = store.approvals_within(filter, limit, most_bytes).await.expect("a page");
        let found: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!((found.join(" ").as_str(), more), (ids, has_more), "{after:?} {limit} {most_bytes}");
    }
}

#[tokio::test]
async fn more_approvals_than_one_transaction_takes_expire_at_once() {
    let (_folder, store) = empty_store().await;
    sqlx::query(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n <= $1) \
         INSERT INTO approvals (id, organization, agent, session, call_id, asked_by, opened_by, tool, called, \
         plugin_version, plugin_digest, rules, arguments, binding, state, uses_left, created_ms, expires_ms) \
         SELECT 'n' || n, 'acme', 'bot', 's', 'c' || n, 't', 't', 'pay/send', 'call_pay_send', '1', 'd', '{}', '{}', \
         'b' || n, 'pending', 0, 10, 100 FROM numbers",
    )
    .bind(i64::try_from(EXPIRED_AT_ONCE).expect("a number"))
    .execute(&store.writer)
    .await
    .expect("stored");
    let expired = store.expire_approvals(100, 0).await.expect("expired");
    assert_eq!(expired.len(), EXPIRED_AT_ONCE + 1);
    assert!(expired.iter().all(|row| row.session == "s" && row.decided_ms.is_none()));
    assert_eq!(store.pending_approvals().await.expect("a number"), 0);
}

#[tokio::test]
async fn g11_arguments_of_approvals_are_bounded_and_ended_ones_give_way() {
    let (_folder, store) = empty_store().await;
    let room = async |id: &str, most_bytes: i64| {
        let mut change = store.begin().await.expect("a transaction");
        let asked = ApprovalRow {
            binding: id.to_owned(),
            arguments: format!("\"{}\"", "x".repeat(96)),
            ..pending_approval(id, id)
        };
        insert_pending(&mut change, &asked).await.expect("stored");
        let made = make_room(&mut change, "acme", most_bytes).await;
        if made.is_ok() {
            change.commit().await.expect("committed");
        }
        made
    };
    // Each has 98 bytes of arguments and 2 of rules.
    room("a1", 200).await.expect("room");
    room("a2", 200).await.expect("room");
    let full = CallError::from(room("a3", 200).await.expect_err("full"));
    assert_eq!((full.error_type, full.retryable), (ErrorType::QuotaExceeded, false));
    assert!(full.message.contains("bytes") && full.hint.contains("decide"), "{full:?}");
    assert!(store.approval("a3", None).await.is_err(), "nothing is stored");
    store.decide_approval("a2", &yes(1, 90)).await.expect("decided");
    room("a3", 200).await.expect_err("a given one can be used");
    store.end_approval("a1", ApprovalState::Void).await.expect("ended");
    room("a3", 200).await.expect("an ended one gives way");
    assert!(store.approval("a1", None).await.is_err());
    assert_eq!(state(&store, "a2").await, ApprovalState::Approved);
    // Another organization has its own room.
    let other = ApprovalRow {
        organization: Name::parse("globex").expect("a name"),
        session: "s2".into(),
        ..pending_approval("b1", "b1")
    };
    store.ask_for_approval(&other).await.expect("stored");
}
