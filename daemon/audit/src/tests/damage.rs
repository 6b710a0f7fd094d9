//! Damaged segments: search results, and an index that is rebuilt past the damage.

use std::slice;

use toolgate_api::audit::PAGE_ROWS_MAX;

use super::super::search::UNREADABLE;
use super::record::DamagedRange;
use super::*;

/// Several segments of calls of two organizations with equally long records, and one administrative act.
async fn several_segments(log: &TestLog) -> Audit {
    let audit = log.start().await;
    fill_segments(&audit).await;
    audit
}

async fn fill_segments(audit: &Audit) {
    for number in 10..50 {
        let organization = if number % 2 == 0 { "acme" } else { "corp" };
        let id = number.to_string();
        let intent = CallIntent { organization: organization.into(), ..large_intent(&id) };
        let entry = audit.open(intent).expect("it is taken");
        audit.close(entry, success()).await.expect("it is on disk");
    }
    audit.admin(act("plugin.load")).await.expect("it is on disk");
    assert!(audit.anchor().segment > 4);
}

/// Reads every row, page by page, oldest first.
async fn rows(audit: &Audit, organization: Option<&str>) -> Vec<Row> {
    let organization = organization.map(str::to_owned);
    let mut query = Query { organization, order: Order::OldestFirst, limit: Some(7), ..Query::default() };
    let mut rows = Vec::new();
    loop {
        let page = audit.search(&query).await.expect("it answers");
        if page.rows.is_empty() {
            return rows;
        }
        rows.extend(page.rows);
        query.cursor = page.next;
    }
}

fn json(row: &Row) -> String {
    serde_json::to_string(row).expect("JSON")
}

/// Returns the sequences of the changed rows, each of which must be marked as damaged.
fn damaged_rows(before: &[Row], after: &[Row]) -> Vec<u64> {
    let changed = after.iter().filter(|row| !before.iter().any(|good| json(good) == json(row)));
    changed
        .map(|row| {
            assert!(row.damaged.is_some(), "{}", json(row));
            assert!(row.call.is_none() || row.outcome.is_none(), "{}", json(row));
            row.sequence
        })
        .collect()
}

fn remove_index(log: &TestLog) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", log.settings().index.display()));
    }
}

fn flip(log: &TestLog, segment: u64, at: usize) {
    let path = log.folder().segment(segment);
    let mut bytes = std::fs::read(&path).expect("a segment");
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).expect("it can be written");
}

#[tokio::test]
async fn a_changed_byte_hides_its_record_and_no_other() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let before = rows(&audit, None).await;
    let (second, at) = (records(&log.folder(), 2), |found: &StoredRecord| found.end - 1);
    let (opened, closed) = (&second[0], &second[3]);
    assert_eq!((opened.header.kind, closed.header.kind), (RecordKind::CallOpen, RecordKind::Close));
    for (record, row_of) in [(opened, opened.header.sequence), (closed, closed.header.of)] {
        flip(&log, 2, at(record));
        let after = rows(&audit, None).await;
        assert_eq!((after.len(), damaged_rows(&before, &after)), (before.len(), vec![row_of]));
        let row = after.iter().find(|row| row.sequence == row_of).expect("it is marked");
        let damaged = row.damaged.as_ref().expect("it is marked");
        assert_eq!((damaged.segment, damaged.offset), (Some(2), Some(record.offset as u64)));
        assert_eq!(row.status, Some(Status::Ok), "the index knows how it ended");
        flip(&log, 2, at(record));
        assert_eq!(damaged_rows(&before, &rows(&audit, None).await), Vec::<u64>::new());
    }
}

/// Tries every part of a record's header, and its payload.
#[tokio::test]
async fn an_index_is_rebuilt_past_any_changed_byte() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let before = rows(&audit, None).await;
    drop(audit);
    let record = &records(&log.folder(), 2)[2];
    assert_eq!(record.header.kind, RecordKind::CallOpen);
    for at in [0, 3, 4, 5, 8, 16, 22, 24, 32, 40, 48, 80].map(|at| record.offset + at) {
        flip(&log, 2, at);
        remove_index(&log);
        let audit = log.start().await;
        let after = rows(&audit, None).await;
        assert_eq!(
            (after.len(), damaged_rows(&before, &after)),
            (before.len(), vec![record.header.sequence]),
            "byte {at}"
        );
        let row = after.iter().find(|row| row.kind == Kind::Damaged).expect("it is marked");
        let damaged = row.damaged.as_ref().expect("it is marked");
        assert_eq!((damaged.segment, damaged.offset), (Some(2), Some(record.offset as u64)), "byte {at}");
        assert!(!audit.verify().await.expect("it can be read").ok, "byte {at}");
        flip(&log, 2, at);
    }
    remove_index(&log);
    assert_eq!(damaged_rows(&before, &rows(&log.start().await, None).await), Vec::<u64>::new());
}

#[tokio::test]
async fn an_index_is_rebuilt_past_a_damaged_header() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let before = rows(&audit, None).await;
    drop(audit);
    // The first record is chained to the digest in the header; without it, it cannot be validated.
    let first = records(&log.folder(), 2)[0].header.sequence;
    for (at, lost) in [(0, vec![]), (16, vec![]), (24, vec![]), (50, vec![]), (80, vec![first])] {
        flip(&log, 2, at);
        remove_index(&log);
        assert_eq!(damaged_rows(&before, &rows(&log.start().await, None).await), lost, "byte {at}");
        flip(&log, 2, at);
    }
}

#[tokio::test]
async fn an_index_is_rebuilt_past_zeros_and_a_missing_file() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let before = rows(&audit, None).await;
    drop(audit);
    let (second, third) = (records(&log.folder(), 2), records(&log.folder(), 3));
    let (path, good) = (log.folder().segment(2), log.segment(2));
    let mut bytes = good.clone();
    bytes[second[2].offset..second[4].offset].fill(0);
    std::fs::write(&path, bytes).expect("it can be written");
    remove_index(&log);
    let audit = log.start().await;
    assert_eq!(damaged_rows(&before, &rows(&audit, None).await), [second[2].header.sequence]);
    drop(audit);

    // A start refuses a log with a missing segment, so the file is removed while the daemon runs, before indexing.
    std::fs::write(&path, good).expect("it can be written");
    remove_index(&log);
    let audit = log.start().await;
    std::fs::remove_file(&path).expect("it can be removed");
    let after = rows(&audit, None).await;
    let gone = second[0].header.sequence..third[0].header.sequence;
    assert!(damaged_rows(&before, &after).iter().all(|sequence| gone.contains(sequence)));
    assert!(
        before
            .iter()
            .filter(|row| !gone.contains(&row.sequence))
            .all(|row| { after.iter().any(|shown| json(shown) == json(row)) })
    );
}

#[tokio::test]
async fn swapped_segments_show_no_record_as_another() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let before = rows(&audit, None).await;
    let of =
        |number| records(&log.folder(), number).iter().map(|found| found.header.sequence).collect::<Vec<_>>();
    let swapped = [of(2), of(3)].concat();
    let (second, third) = (log.folder().segment(2), log.folder().segment(3));
    let swap = || {
        let aside = log.dir.path().join("aside");
        std::fs::rename(&second, &aside).expect("it can be moved");
        std::fs::rename(&third, &second).expect("it can be moved");
        std::fs::rename(&aside, &third).expect("it can be moved");
    };
    swap();
    for organization in ["acme", "corp"] {
        let shown = rows(&audit, Some(organization)).await;
        let known = before
            .iter()
            .filter_map(|row| row.call.as_ref())
            .filter(|call| call.organization == organization);
        assert_eq!(shown.len(), known.count());
        assert!(
            shown.iter().filter_map(|row| row.call.as_ref()).all(|call| call.organization == organization)
        );
        assert!(damaged_rows(&before, &shown).iter().any(|sequence| swapped.contains(sequence)));
    }
    for call in before.iter().filter_map(|row| row.call.as_ref()) {
        let row = row(&audit, &call.call).await;
        assert!(row.call.is_none_or(|shown| shown.call == call.call));
    }
    drop(audit);

    remove_index(&log);
    let audit = log.start().await;
    let after = rows(&audit, None).await;
    assert!(damaged_rows(&before, &after).iter().all(|sequence| swapped.contains(sequence)));
    assert!(
        before.iter().filter(|row| !swapped.contains(&row.sequence)).all(|row| {
            row.sequence + 1 == swapped[0] || after.iter().any(|shown| json(shown) == json(row))
        })
    );
    // The index past the damage is accepted by the next start.
    call(&audit, "later").await;
    assert_eq!(rows(&audit, None).await.len(), after.len() + 1);
    drop(audit);
    let audit = log.start().await;
    assert_eq!(rows(&audit, None).await.len(), after.len() + 1);
    drop(audit);

    swap();
    remove_index(&log);
    assert_eq!(rows(&log.start().await, None).await.len(), before.len() + 1);
}

#[tokio::test]
async fn a_damaged_range_is_shown_to_every_organization_that_it_may_concern() {
    let log = TestLog::new();
    drop(several_segments(&log).await);
    let second = records(&log.folder(), 2);
    let mut bytes = log.segment(2);
    bytes[second[2].offset..second[4].offset].fill(0);
    std::fs::write(log.folder().segment(2), bytes).expect("it can be written");
    remove_index(&log);
    let audit = log.start().await;
    let shown = async |query: Query| {
        let rows = audit.search(&query).await.expect("it answers").rows;
        rows.into_iter().filter(|row| row.kind == Kind::Damaged).collect::<Vec<Row>>()
    };
    let all = Query { limit: Some(PAGE_ROWS_MAX), ..Query::default() };
    // The record after the zeros cannot be validated either.
    let damaged = DamagedRange {
        records: 3,
        segment: Some(2),
        offset: Some(second[2].offset as u64),
        what: UNREADABLE.into(),
    };
    let of = |organization: &str| Query { organization: Some(organization.into()), ..all.clone() };
    let of_session = Query { session: Some("s1".into()), ..of("acme") };
    for query in [all.clone(), of("acme"), of("corp"), of_session] {
        let places: Vec<_> = shown(query).await.into_iter().filter_map(|row| row.damaged).collect();
        assert_eq!(places, slice::from_ref(&damaged));
    }
    assert!(shown(Query { kind: Some(Kind::Call), ..all.clone() }).await.is_empty());
    let alone = audit.search(&Query { kind: Some(Kind::Damaged), ..of("acme") }).await.expect("it answers");
    assert_eq!(alone.rows.len(), 1);

    // Paging returns it once, ordered by sequence.
    let rows = rows(&audit, Some("acme")).await;
    assert!(rows.is_sorted_by_key(|row| row.sequence));
    assert_eq!(rows.iter().filter(|row| row.kind == Kind::Damaged).count(), 1);

    let all_rows = self::rows(&audit, None).await;
    let at = all_rows.iter().position(|row| row.kind == Kind::Damaged).expect("it is marked");
    let (after_ms, before_ms) = (all_rows[at - 1].at_ms, all_rows[at].at_ms);
    for (since_ms, until_ms, is_shown) in [
        (None, Some(after_ms), false),
        (None, Some(after_ms + 1), true),
        (Some(before_ms), None, true),
        (Some(before_ms + 1), None, false),
    ] {
        let within = Query { since_ms, until_ms, ..of("acme") };
        assert_eq!(!shown(within).await.is_empty(), is_shown, "{since_ms:?} to {until_ms:?}");
    }
}

/// One intent is in the same batch of the index as the damage, one in an earlier batch.
#[tokio::test]
async fn a_call_whose_outcome_is_damaged_is_unknown() {
    let log = TestLog::new();
    let audit = log.start().await;
    let far = audit.open(intent("far")).expect("it is taken");
    for number in 0..index_batch::BATCH_ROWS + 10 {
        drop(audit.open(intent(&number.to_string())).expect("it is taken"));
        // The unwritten records must fit into the small segments of the test.
        if number % 20 == 0 {
            audit.sync().await.expect("it is on disk");
        }
    }
    let near = audit.open(intent("near")).expect("it is taken");
    assert!(audit.anchor().segment > 4);
    assert_eq!(row(&audit, "far").await.status, Some(Status::Running), "it is open in every segment");
    audit.close(near, success()).await.expect("it is on disk");
    audit.close(far, success()).await.expect("it is on disk");
    let ended = audit.anchor().sequence;
    fill_segments(&audit).await;
    let (folder, newest) = (log.folder(), audit.anchor().segment);
    drop(audit);

    for segment in 1..=newest {
        for record in records(&folder, segment) {
            if [ended - 1, ended].contains(&record.header.sequence) {
                assert_eq!(record.header.kind, RecordKind::Close);
                flip(&log, segment, record.end - 1);
            }
        }
    }
    remove_index(&log);
    let audit = log.start().await;
    for id in ["far", "near"] {
        let row = row(&audit, id).await;
        assert_eq!((row.status, row.outcome.is_none()), (Some(Status::Unknown), true), "{id}");
        assert!(row.damaged.is_some(), "{id}");
    }
    let kind = Some(Kind::Call);
    let count = async |query: Query| audit.search(&query).await.expect("it answers").rows.len();
    assert_eq!(count(Query { kind, error_type: Some("UNKNOWN".into()), ..Query::default() }).await, 2);
    assert_eq!(count(Query { kind, status: Some(Status::Running), ..Query::default() }).await, 0);
}

/// A damaged range may contain the call, unless its session began later.
#[tokio::test]
async fn an_id_that_may_be_in_a_damaged_range_is_not_new() {
    let log = TestLog::new();
    let audit = several_segments(&log).await;
    let known = row(&audit, "14").await;
    drop(audit);
    let found = records(&log.folder(), 2);
    let record = found.iter().find(|found| found.header.kind == RecordKind::CallOpen).expect("an intent");
    let id = serde_json::from_slice::<CallIntent<'_>>(&record.payload).expect("an intent").call.into_owned();
    flip(&log, 2, record.end - 1);
    remove_index(&log);
    let audit = log.start().await;
    let lookup = async |begun_ms, id: &str| audit.lookup("s1", begun_ms, id).await.expect("it answers");
    let kind = |row: Option<Row>| row.map(|row| row.kind);
    assert_eq!(kind(lookup(known.at_ms, &id).await), Some(Kind::Damaged));
    assert_eq!(kind(lookup(u64::MAX, &id).await), None);
    assert_eq!(kind(lookup(0, "49").await), Some(Kind::Call));
}
