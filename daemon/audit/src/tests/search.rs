//! Searches, pages, and the index behind them.

use toolgate_api::audit::PAGE_ROWS_MAX;

use super::*;

/// A log with every kind of record, of two organizations.
async fn sample_rows(log: &TestLog) -> Audit {
    let audit = log.start().await;
    for number in 0..12 {
        let id = format!("c{number}");
        let organization = if number % 3 == 0 { "globex" } else { "acme" };
        let agent = if number % 2 == 0 { "even" } else { "odd" };
        let session = format!("s{}", number % 4);
        let intent = CallIntent {
            organization: organization.into(),
            agent: agent.into(),
            session: session.into(),
            user: (number % 5 > 0).then(|| if number % 5 == 4 { "u2".into() } else { "u1".into() }),
            tool: if number < 6 { "files/read".into() } else { "files/write".into() },
            ..intent(&id)
        };
        let entry = audit.open(intent).expect("it is taken");
        if number == 4 {
            let effect = EffectRecord { effect: "file_denied".into(), detail: "../secret".into() };
            audit.effect(&entry, effect).expect("it is taken");
        }
        let outcome = if number == 5 { failure("TOOL_FAILED") } else { success() };
        audit.close(entry, outcome).await.expect("it is on disk");
    }
    let act = AdminRecord { organization: Some("acme".into()), ..act("agent.put") };
    let entry = audit.open_act(act).expect("it is taken");
    let outcome = ActOutcome { status: Status::Error, error_type: Some("CONFLICT".into()), revision: None };
    audit.close_act(entry, outcome).await.expect("it is on disk");
    audit
}

async fn names_of(audit: &Audit, query: Query) -> Vec<String> {
    let page = audit.search(&query).await.expect("it answers");
    let name = |row: &Row| match (&row.call, &row.effect, &row.admin) {
        (Some(call), ..) => call.call.to_string(),
        (_, Some(effect), _) => effect.effect.to_string(),
        (.., Some(act)) => act.action.to_string(),
        _ => "recovery".to_owned(),
    };
    page.rows.iter().map(name).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn o6_a_page_of_few_rows_among_many_reads_their_index() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let acme = || Query { organization: some("acme"), ..Query::default() };
    let running = || Query { status: Some(Status::Running), ..Query::default() };
    for (query, index) in [
        (acme(), "rows_by_organization"),
        (running(), "rows_running"),
        (Query { organization: some("acme"), ..running() }, "rows_running"),
        (Query { session: some("s1"), ..running() }, "rows_by_session"),
        (Query { status: Some(Status::Error), ..Query::default() }, "rows_not_ok"),
        (Query { refused: true, ..Query::default() }, "rows_not_ok"),
        (Query { kind: Some(Kind::Recovery), ..Query::default() }, "rows_of_acts"),
        (Query { kind: Some(Kind::Admin), ..acme() }, "rows_of_acts"),
        (Query { action: some("agent.put"), ..acme() }, "rows_of_acts"),
        (Query { session: some("s1"), ..acme() }, "rows_by_session"),
    ] {
        let sql = super::super::search::select(&query, None, 50).expect("a query").into_string();
        let plan = sqlx::query(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let plan = plan.fetch_all(&audit.log.index.reading).await.expect("a plan");
        let steps: Vec<String> = plan.iter().map(|step| sqlx::Row::get(step, "detail")).collect();
        let has_index = |step: &String| step.contains(index);
        assert!(steps.iter().any(has_index), "{query:?}: {steps:?}");
        assert!(steps.iter().all(|step| step != "SCAN rows"), "{query:?}: {steps:?}");
    }
    assert_eq!(names_of(&audit, Query { kind: Some(Kind::Admin), ..acme() }).await, ["agent.put"]);
    assert_eq!(
        names_of(&audit, Query { action: some("agent.put"), ..Query::default() }).await,
        ["agent.put"]
    );
}

#[tokio::test]
async fn o6_a_search_without_an_index_looks_through_the_log_page_by_page() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    audit.search(&Query::default()).await.expect("it answers");
    let (reading, content) = (&audit.log.index.reading, audit.log.content());
    let tool = || Query { tool: some("files/read"), kind: Some(Kind::Call), ..Query::default() };
    for (query, calls) in [
        (tool(), 6),
        (Query { organization: some("acme"), ..tool() }, 4),
        (Query { organization: some("nobody"), ..tool() }, 0),
        (Query { user: some("u2"), ..Query::default() }, 3),
    ] {
        let mut query = Query { limit: Some(2), ..query };
        let (mut found, mut pages) = (0, 0);
        loop {
            let page = super::super::search::search_within(reading, &content, &query, 3).await;
            let page = page.expect("it answers");
            (found, pages) = (found + page.rows.len(), pages + 1);
            assert!(pages < 100, "{query:?} has no end");
            let Some(next) = page.next else { break };
            query.cursor = Some(next);
        }
        let whole = audit.search(&Query { limit: None, cursor: None, ..query.clone() }).await;
        let whole = whole.expect("it answers").rows;
        assert_eq!((found, whole.len()), (calls, calls), "{query:?}");
        assert!(
            query.organization.as_deref() == Some("nobody") || pages > calls / 2 + 1,
            "{query:?}: {pages}"
        );
    }
    // An indexed column finds its rows at once, however old they are.
    let query = Query { session: some("s0"), call: some("c0"), ..Query::default() };
    let page = super::super::search::search_within(reading, &content, &query, 3).await.expect("it answers");
    assert_eq!((page.rows.len(), page.next), (1, None));
}

#[tokio::test]
async fn o6_calls_are_counted_by_minute_hour_and_day() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let refusal = CallOutcome { executed: Executed::No, duration_us: 0, ..failure("ACCESS_DENIED") };
    let entry = audit.open(CallIntent { repeated: Some(5), ..intent("refused") }).expect("it is taken");
    audit.close(entry, refusal).await.expect("it is on disk");
    let unknown = CallOutcome { executed: Executed::No, duration_us: 0, ..failure("TOOL_NOT_FOUND") };
    let entry = audit.open(CallIntent { tool: "made/up".into(), ..intent("unknown") }).expect("it is taken");
    audit.close(entry, unknown).await.expect("it is on disk");
    // The index follows the log; a search waits for it.
    audit.search(&Query::default()).await.expect("it answers");
    for span in [RateSpan::Minute, RateSpan::Hour, RateSpan::Day] {
        let query = |organization, tool| RateQuery { span, since_ms: 0, organization, tool };
        let sums = async |organization, tool| {
            let mut all = RateSums::default();
            for (_, sums) in audit.rates(&query(organization, tool)).await.expect("it answers") {
                all.add(&sums);
            }
            (all.calls, all.refused, all.failed)
        };
        assert_eq!(sums(None, None).await, (18, 6, 1), "{span:?}");
        assert_eq!(sums(some("acme"), None).await, (14, 6, 1), "{span:?}");
        assert_eq!(sums(some("globex"), some("files/write")).await, (2, 0, 0), "{span:?}");
        assert_eq!(sums(None, some("files/write")).await, (6, 0, 0), "{span:?}");
        assert_eq!(sums(None, some("made/up")).await, (0, 0, 0), "a name of no tool has no row");
        assert_eq!(sums(some("other"), None).await, (0, 0, 0), "{span:?}");
        let ranked = async |organization, by| {
            let ranked = audit.ranking(&query(organization, None), by, 1).await.expect("it answers");
            ranked.into_iter().map(|(name, sums)| (name, sums.calls)).collect::<Vec<_>>()
        };
        assert_eq!(ranked(None, RateBy::Organization).await, [("acme".to_owned(), 14)]);
        assert_eq!(ranked(some("globex"), RateBy::Tool).await, [("files/read".to_owned(), 2)]);
    }
}

#[tokio::test]
async fn o6_a_deleted_organization_has_no_counts_and_the_platform_keeps_its_calls() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let of_globex = |call| audit.open(CallIntent { organization: "globex".into(), ..intent(call) });
    let late = of_globex("late").expect("it is taken");
    // A refused deletion deletes nothing.
    for (status, left) in [(Status::Error, 4), (Status::Ok, 0)] {
        let deletion = AdminRecord { organization: Some("globex".into()), ..act(ORGANIZATION_DELETE) };
        let entry = audit.open_act(deletion).expect("it is taken");
        let outcome = ActOutcome { status, error_type: None, revision: None };
        audit.close_act(entry, outcome).await.expect("it is on disk");
        audit.search(&Query::default()).await.expect("it answers");
        for span in [RateSpan::Minute, RateSpan::Hour, RateSpan::Day] {
            let calls = async |organization| {
                let query = RateQuery { span, since_ms: 0, organization, tool: None };
                let rates = audit.rates(&query).await.expect("it answers");
                rates.iter().map(|(_, sums)| sums.calls).sum::<u64>()
            };
            assert_eq!(calls(some("globex")).await, left, "{span:?}, {status:?}");
            assert_eq!((calls(some("acme")).await, calls(None).await), (8, 12), "{span:?}");
        }
    }
    // A call that began before the deletion is none of the next organization with the name.
    let next = of_globex("next").expect("it is taken");
    for entry in [late, next] {
        audit.close(entry, success()).await.expect("it is on disk");
    }
    audit.search(&Query::default()).await.expect("it answers");
    for (organization, calls) in [(some("globex"), 1), (some("acme"), 8), (None, 14)] {
        let query = RateQuery { span: RateSpan::Hour, since_ms: 0, organization, tool: None };
        let rates = audit.rates(&query).await.expect("it answers");
        assert_eq!(rates.iter().map(|(_, sums)| sums.calls).sum::<u64>(), calls, "{query:?}");
    }
}

#[tokio::test]
async fn o6_the_calls_and_records_of_a_script_are_found() {
    let log = TestLog::new();
    let audit = log.start().await;
    for id in ["outer", "outer #1", "outer #2", "outer2 #1"] {
        call(&audit, id).await;
    }
    let of = |parent: &str| Query { parent: some(parent), order: Order::OldestFirst, ..Query::default() };
    assert_eq!(names_of(&audit, of("outer")).await, ["outer #1", "outer #2"]);
    assert!(names_of(&audit, of("none")).await.is_empty());
    let records =
        audit.records(&Query { call: some("outer #2"), ..Query::default() }).await.expect("it answers");
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, ["intent", "outcome"]);
    assert!(records.iter().all(|record| record.sequence > 0 && record.hash.0 != [0; 32]), "{records:?}");
}

#[tokio::test]
async fn each_filter_finds_its_rows() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let all = Query::default();
    let cases = [
        (Query { organization: some("globex"), ..all.clone() }, vec!["c9", "c6", "c3", "c0"]),
        (
            Query { organization: some("acme"), agent: some("even"), kind: Some(Kind::Call), ..all.clone() },
            vec!["c10", "c8", "c4", "c2"],
        ),
        (Query { session: some("s1"), ..all.clone() }, vec!["c9", "c5", "c1"]),
        (Query { session: some("s1"), call: some("c5"), ..all.clone() }, vec!["c5"]),
        (
            Query { tool: some("files/read"), organization: some("acme"), ..all.clone() },
            vec!["c5", "file_denied", "c4", "c2", "c1"],
        ),
        (Query { status: Some(Status::Error), ..all.clone() }, vec!["agent.put", "c5"]),
        (Query { error_type: some("TOOL_FAILED"), ..all.clone() }, vec!["c5"]),
        (Query { refused: true, ..all.clone() }, vec![]),
        (Query { user: some("u2"), ..all.clone() }, vec!["c9", "file_denied", "c4"]),
        (Query { principal: some("token-0"), ..all.clone() }, vec!["agent.put"]),
        (
            Query { principal: some("token-1"), session: some("s0"), ..all.clone() },
            vec!["c8", "file_denied", "c4", "c0"],
        ),
        (Query { action: some("agent.put"), ..all.clone() }, vec!["agent.put"]),
        (Query { action: some("agent.delete"), ..all.clone() }, vec![]),
        (Query { kind: Some(Kind::Effect), ..all.clone() }, vec!["file_denied"]),
        (Query { kind: Some(Kind::Effect), organization: some("globex"), ..all.clone() }, vec![]),
        (Query { kind: Some(Kind::Admin), organization: some("acme"), ..all.clone() }, vec!["agent.put"]),
        (Query { organization: some("unknown"), ..all.clone() }, vec![]),
        (Query { until_ms: Some(1), ..all.clone() }, vec![]),
        (Query { since_ms: Some(u64::MAX), ..all.clone() }, vec![]),
        (Query { order: Order::OldestFirst, limit: Some(2), ..all.clone() }, vec!["c0", "c1"]),
    ];
    for (query, expected) in cases {
        assert_eq!(names_of(&audit, query.clone()).await, expected, "{query:?}");
    }
}

/// Intent and outcome of an act are one row, also where the index has the intent before the outcome is recorded. A record
/// with its outcome, as earlier versions wrote, is a row by itself.
#[tokio::test]
async fn an_act_is_one_row_with_its_outcome() {
    let log = TestLog::new();
    let audit = log.start().await;
    audit.admin(act("complete")).await.expect("it is on disk");
    perform(&audit, "done", None).await;
    perform(&audit, "refused", Some("CONFLICT")).await;
    drop(audit.open_act(act("dropped")).expect("it is taken"));
    let late = audit.open_act(act("late")).expect("it is taken");
    let rows = audit.search(&Query::default()).await.expect("it answers").rows;
    assert_eq!(
        rows.iter().map(|row| row.status).collect::<Vec<_>>(),
        [Some(Status::Running), None, None, None, None]
    );
    let outcome = ActOutcome { status: Status::Ok, error_type: None, revision: Some(3) };
    audit.close_act(late, outcome).await.expect("it is on disk");
    let copy = TestLog::with_segment(&log.segment(1));
    for audit in [audit, copy.start().await] {
        let query = Query { kind: Some(Kind::Admin), order: Order::OldestFirst, ..Query::default() };
        let rows = audit.search(&query).await.expect("it answers").rows;
        assert!(
            rows.iter().all(|row| row.damaged.is_none() && row.outcome.is_none() && row.status.is_none())
        );
        let acts: Vec<_> = rows.iter().filter_map(|row| row.admin.as_ref()).collect();
        let found: Vec<_> = acts.iter().map(|act| (&*act.action, &*act.outcome, act.revision)).collect();
        assert_eq!(
            found,
            [
                ("complete", "ok", Some(1)),
                ("done", "ok", Some(2)),
                ("refused", "CONFLICT", Some(2)),
                ("dropped", "UNKNOWN", Some(1)),
                ("late", "ok", Some(3)),
            ]
        );
    }
}

#[tokio::test]
async fn time_filters_bound_the_rows() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let rows = audit.search(&Query::default()).await.expect("it answers").rows;
    let (first, last) = (rows.last().expect("rows").at_ms, rows[0].at_ms);
    let within =
        |since_ms, until_ms| Query { since_ms: Some(since_ms), until_ms: Some(until_ms), ..Query::default() };
    assert_eq!(names_of(&audit, within(first, last + 1)).await.len(), 14);
    assert_eq!(
        names_of(&audit, within(first, last)).await.len(),
        rows.iter().filter(|row| row.at_ms < last).count()
    );
    assert_eq!(names_of(&audit, within(last + 1, u64::MAX)).await.len(), 0);
}

#[tokio::test]
async fn pages_show_every_row_once() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let whole = names_of(&audit, Query::default()).await;
    for order in [Order::NewestFirst, Order::OldestFirst] {
        let mut query = Query { limit: Some(3), order, ..Query::default() };
        let mut paged = Vec::new();
        loop {
            let page = audit.search(&query).await.expect("it answers");
            paged.extend(page.rows.iter().map(|row| row.sequence));
            let is_last = page.rows.is_empty() || page.next.is_none();
            query.cursor = page.next;
            if is_last {
                break;
            }
        }
        assert_eq!(paged.len(), whole.len());
        assert!(
            paged.is_sorted_by(|before, after| (before < after) == (order == Order::OldestFirst)),
            "{paged:?}"
        );
    }
    let wrong = Query { cursor: some("yesterday"), ..Query::default() };
    let refused = audit.search(&wrong).await.expect_err("no page gave it out");
    assert!(matches!(refused, AuditError::BadCursor { .. }));
    assert!(refused.hint().contains("`next_cursor`"), "{}", refused.hint());
}

#[tokio::test]
async fn a_follower_continues_at_its_cursor() {
    let log = TestLog::new();
    let audit = log.start().await;
    let follow = |cursor| Query { order: Order::OldestFirst, cursor, ..Query::default() };
    let nothing = audit.search(&follow(None)).await.expect("it answers");
    assert!(nothing.rows.is_empty());
    call(&audit, "c1").await;
    let page = audit.search(&follow(nothing.next)).await.expect("it answers");
    assert_eq!(page.rows.len(), 1);
    assert_eq!(audit.search(&follow(page.next.clone())).await.expect("it answers").next, page.next);
    call(&audit, "c2").await;
    assert_eq!(names_of(&audit, follow(page.next)).await, ["c2"]);
}

#[tokio::test]
async fn a_row_has_all_that_was_recorded() {
    let log = TestLog::new();
    let audit = log.start().await;
    let entry = audit.open(intent("c1")).expect("it is taken");
    let running = row(&audit, "c1").await;
    assert_eq!((running.status, running.outcome), (Some(Status::Running), None));
    audit.close(entry, failure("TOOL_CRASHED")).await.expect("it is on disk");
    let row = row(&audit, "c1").await;
    assert_eq!(row.status, Some(Status::Error));
    assert_eq!(row.outcome, Some(failure("TOOL_CRASHED")));
    let recorded = serde_json::to_string(&row.call.expect("an intent")).expect("JSON");
    assert_eq!(recorded, serde_json::to_string(&intent("c1")).expect("JSON"));
    assert!(row.closed_at_ms.is_some_and(|closed| closed >= row.at_ms));
}

#[tokio::test]
async fn the_newest_call_of_an_id_is_looked_up() {
    let log = TestLog::new();
    let audit = log.start().await;
    let waiting =
        CallOutcome { status: Status::ApprovalRequired, executed: Executed::No, output: None, ..success() };
    let entry = audit.open(intent("c1")).expect("it is taken");
    audit.close(entry, waiting).await.expect("it is on disk");
    call(&audit, "c1").await;
    assert_eq!(row(&audit, "c1").await.status, Some(Status::Ok));
    assert!(audit.lookup("s2", 0, "c1").await.expect("it answers").is_none());
    drop(audit);
    assert_eq!(row(&log.start().await, "c1").await.status, Some(Status::Ok));
}

/// A session that continues after a restart looks up each of its calls, so a lookup must not wait for a sync or the index.
#[tokio::test]
async fn the_calls_of_earlier_runs_are_known_without_waiting_for_those_of_this_one() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    drop(audit);
    let audit = log.start().await;
    let known = audit.earlier_calls("s1", 0).await.expect("it answers");
    assert!(known.may_have("c1") && !known.may_have("c2"));
    assert!(!audit.earlier_calls("s2", 0).await.expect("it answers").may_have("c1"));
    let entry = audit.open(intent("c2")).expect("it is taken");
    let before = audit.counts();
    assert!(audit.lookup("s1", 0, "c1").await.expect("it answers").is_some());
    assert!(audit.lookup("s1", 0, "c2").await.expect("it answers").is_none());
    assert_eq!(audit.counts().syncs, before.syncs);
    drop(entry);
}

/// Reads every row as text.
async fn everything(audit: &Audit) -> Vec<String> {
    let mut query = Query { order: Order::OldestFirst, limit: Some(PAGE_ROWS_MAX), ..Query::default() };
    let mut rows = Vec::new();
    loop {
        let page = audit.search(&query).await.expect("it answers");
        if page.rows.is_empty() {
            return rows;
        }
        rows.extend(page.rows.iter().map(|row| serde_json::to_string(row).expect("JSON")));
        query.cursor = page.next;
    }
}

/// More than two batches and many segments, with a call that runs from the first to the last.
#[tokio::test]
async fn an_index_that_is_deleted_or_damaged_is_rebuilt() {
    let log = TestLog::new();
    let audit = sample_rows(&log).await;
    let open = audit.open(intent("open")).expect("it is taken");
    assert_eq!(row(&audit, "open").await.status, Some(Status::Running));
    for number in 0..1200 {
        drop(audit.open(intent(&format!("many-{number}"))).expect("it is taken"));
        // The unwritten records must fit into the small segments of the test.
        if number % 20 == 0 {
            audit.sync().await.expect("it is on disk");
        }
    }
    let effect = EffectRecord { effect: "workspace_write".into(), detail: "a.txt".into() };
    audit.effect(&open, effect).expect("it is taken");
    audit.close(open, success()).await.expect("it is on disk");
    let rows = everything(&audit).await;
    assert_eq!(rows.len(), 12 + 1 + 1 + 1 + 1200 + 1);
    assert_eq!(row(&audit, "open").await.status, Some(Status::Ok));
    assert_eq!(
        names_of(&audit, Query { session: some("s1"), kind: Some(Kind::Effect), ..Query::default() }).await,
        ["workspace_write"]
    );
    drop(audit);

    let index = log.settings().index;
    let remove =
        || ["", "-wal", "-shm"].map(|end| std::fs::remove_file(format!("{}{end}", index.display())).is_ok());
    assert!(remove()[0]);
    let audit = log.start().await;
    assert_eq!(everything(&audit).await, rows);
    drop(audit);

    remove();
    std::fs::write(&index, "this is not a database, but long enough to be taken for one".repeat(100))
        .expect("it can be written");
    assert_eq!(everything(&log.start().await).await, rows);
}

#[tokio::test]
async fn an_index_of_another_log_is_rebuilt() {
    let (log, other) = (TestLog::new(), TestLog::new());
    let audit = log.start().await;
    call(&audit, "c1").await;
    assert_eq!(row(&audit, "c1").await.status, Some(Status::Ok));
    drop(audit);
    call(&other.start().await, "x1").await;
    std::fs::remove_dir_all(log.audit_dir()).expect("it can be removed");
    std::fs::rename(other.audit_dir(), log.audit_dir()).expect("it can be moved");
    let audit = log.start().await;
    assert_eq!(names_of(&audit, Query::default()).await, ["x1"]);
}

#[tokio::test]
async fn a_page_of_long_arguments_has_fewer_rows_and_goes_on_after_them() {
    let log = TestLog::new();
    let settings = AuditSettings { segment_bytes: 16 << 20, ..log.settings() };
    let (audit, _) = Audit::start(&settings).await.expect("the log starts");
    let long = raw(&format!("\"{}\"", "x".repeat(3 << 20)));
    for id in ["c1", "c2", "c3", "c4", "c5"] {
        let entry =
            audit.open(CallIntent { arguments: Some(long.clone()), ..intent(id) }).expect("it is taken");
        audit.close(entry, success()).await.expect("it is on disk");
    }
    for (order, pages) in [
        (Order::NewestFirst, [["c5", "c4", "c3"].as_slice(), &["c2", "c1"]]),
        (Order::OldestFirst, [["c1", "c2", "c3"].as_slice(), &["c4", "c5"]]),
    ] {
        let mut cursor = None;
        for ids in pages {
            let query = Query { kind: Some(Kind::Call), cursor: cursor.clone(), order, ..Query::default() };
            assert_eq!(names_of(&audit, query.clone()).await, ids);
            let page = audit.search(&query).await.expect("it answers");
            // Newest first, the last page has no cursor.
            assert_eq!(page.next.is_some(), ids.len() == 3 || order == Order::OldestFirst);
            cursor = page.next;
        }
    }
}
