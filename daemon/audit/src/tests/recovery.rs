//! Recovery after a crash at any byte, and refusal of damage that a crash does not explain.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::super::anchor::{AnchorFile, Sealer};
use super::super::format::SegmentHeader;
use super::super::recover::recover;
use super::*;
use toolgate_api::audit::LostRecords;

/// The segment of a log with calls, an effect, an act and a call without outcome.
async fn sample_log() -> (Vec<u8>, Vec<StoredRecord>) {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    let entry = audit.open(intent("c2")).expect("it is taken");
    let effect = EffectRecord { effect: "workspace_write".into(), detail: "notes.txt".into() };
    audit.effect(&entry, effect).expect("it is taken");
    audit.admin(act("plugin.load")).await.expect("it is on disk");
    perform(&audit, "agent.put", Some("CONFLICT")).await;
    audit.close(entry, failure("TOOL_FAILED")).await.expect("it is on disk");
    let open = audit.open(intent("c3")).expect("it is taken");
    open.sync().await.expect("it is on disk");
    drop(audit);
    drop(open);
    (log.segment(1), records(&log.folder(), 1))
}

/// Recovers `bytes`, as left by a crash, and checks that the complete records `whole` are kept.
fn recovers_to(bytes: &[u8], whole: &[StoredRecord], at: usize) {
    let log = TestLog::with_segment(bytes);
    let opened = OpenLog::open(&log.settings(), None).unwrap_or_else(|error| panic!("cut at {at}: {error}"));
    block_on_here(opened.record_recovery()).expect("it is recorded");
    drop(opened);
    let found = records(&log.folder(), 1);
    assert_eq!(&found[..whole.len()], whole, "cut at {at}");
    let added: Vec<_> =
        found[whole.len()..].iter().map(|record| (record.header.kind, record.header.of)).collect();
    let opened =
        whole.iter().filter(|record| record.header.kind.is_intent()).map(|record| record.header.sequence);
    let closed = |sequence: &u64| {
        whole.iter().any(|record| record.header.kind == RecordKind::Close && record.header.of == *sequence)
    };
    let mut expected: Vec<_> =
        opened.filter(|sequence| !closed(sequence)).map(|sequence| (RecordKind::Close, sequence)).collect();
    expected.push((RecordKind::Recovery, 0));
    assert_eq!(added, expected, "cut at {at}");
    assert!(log.verify().ok, "cut at {at}");
}

fn block_on_here<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Acknowledged records before the cut are kept, no others, and calls without outcome are unknown.
#[test]
fn a_segment_that_ends_at_any_byte_recovers() {
    let (bytes, written) = block_on(sample_log());
    for at in 0..=bytes.len() {
        let whole = written.iter().take_while(|record| record.end <= at).count();
        recovers_to(&bytes[..at], &written[..whole], at);
    }
}

/// The same with preallocated zeros after the cut. A payload ends with `}`, so a record that lacks a byte is incomplete.
#[test]
fn a_segment_that_is_zero_from_any_byte_on_recovers() {
    let (bytes, written) = block_on(sample_log());
    for at in 0..=bytes.len() {
        let whole = written.iter().take_while(|record| record.end <= at).count();
        let mut zeroed = bytes.clone();
        zeroed[at..].fill(0);
        zeroed.resize(usize::try_from(SEGMENT_BYTES).expect("small"), 0);
        recovers_to(&zeroed, &written[..whole], at);
    }
}

#[tokio::test]
async fn a_call_without_outcome_is_shown_as_unknown() {
    let (bytes, _) = sample_log().await;
    let log = TestLog::with_segment(&bytes);
    let (audit, recovery) = log.start_after_crash().await;
    assert_eq!(recovery, Recovery { unknown: 1, anchor_missing: true, ..Recovery::default() });
    let report = audit.verify().await.expect("it can be read");
    assert!(report.ok && report.suspicious.len() == 1, "a loss cannot be excluded: {report:?}");
    let unknown = row(&audit, "c3").await;
    assert_eq!(unknown.status, Some(Status::Unknown));
    let outcome = unknown.outcome.expect("an outcome");
    assert_eq!((outcome.error_type.as_deref(), outcome.executed), (Some("UNKNOWN"), Executed::Unknown));
    assert_eq!(row(&audit, "c1").await.status, Some(Status::Ok));
    let noted =
        audit.search(&Query { kind: Some(Kind::Recovery), ..Query::default() }).await.expect("it answers");
    assert_eq!(noted.rows.into_iter().map(|row| row.recovery).collect::<Vec<_>>(), [Some(recovery)]);
}

#[tokio::test]
async fn an_act_without_outcome_is_shown_as_unknown() {
    let log = TestLog::new();
    let audit = log.start().await;
    let entry =
        audit.open_act(AdminRecord { outcome: "UNKNOWN".into(), ..act("agent.put") }).expect("it is taken");
    entry.sync().await.expect("it is on disk");
    perform(&audit, "agent.delete", None).await;
    let acts = async |audit: &Audit, query: Query| {
        let rows = audit.search(&Query { kind: Some(Kind::Admin), ..query }).await.expect("it answers").rows;
        rows.into_iter().filter_map(|row| row.admin).map(|act| (act.action, act.outcome)).collect::<Vec<_>>()
    };
    let expected = [("agent.delete".into(), "ok".into()), ("agent.put".into(), "UNKNOWN".into())];
    assert_eq!(acts(&audit, Query::default()).await, expected);
    // The entry outlives the log, as in a killed daemon: it gets no outcome.
    drop(audit);
    drop(entry);
    let (audit, recovery) = log.start_after_crash().await;
    assert_eq!(recovery, Recovery { unknown: 1, ..Recovery::default() });
    assert_eq!(acts(&audit, Query::default()).await, expected);
    let unknown =
        Query { error_type: Some("UNKNOWN".into()), status: Some(Status::Unknown), ..Query::default() };
    assert_eq!(acts(&audit, unknown).await, expected[1..]);
}

/// Three intents that were written and not synced: a crash may leave any part of them.
async fn unsynced_log() -> (Vec<u8>, Vec<StoredRecord>) {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c0").await;
    let entries: Vec<_> = ["c1", "c2", "c3"].map(|id| audit.open(intent(id)).expect("it is taken")).into();
    until("the intents to be written", || records(&log.folder(), 1).len() == 5).await;
    let (bytes, found) = (log.segment(1), records(&log.folder(), 1));
    drop(entries);
    (bytes, found)
}

#[tokio::test]
async fn a_gap_in_unsynced_records_is_cut() {
    let (mut bytes, found) = unsynced_log().await;
    bytes[found[3].offset..found[3].end].fill(0);
    let log = TestLog::with_segment(&bytes);
    let (audit, recovery) = log.start_after_crash().await;
    assert_eq!(recovery.unknown, 1);
    assert_eq!(recovery.cut.map(|cut| (cut.segment, cut.offset)), Some((1, found[3].offset as u64)));
    assert_eq!(row(&audit, "c1").await.status, Some(Status::Unknown));
    assert!(audit.lookup("s1", 0, "c3").await.expect("it answers").is_none());
}

#[tokio::test]
async fn damage_in_synced_records_is_refused() {
    let (bytes, found) = sample_log().await;
    for record in &found[..found.len() - 2] {
        for (what, at) in [("header", record.offset), ("payload", record.end - 1)] {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            let log = TestLog::with_segment(&bad);
            match log.start_error().await {
                StartError::Corrupt { file, offset, .. } => {
                    assert_eq!((file, offset), (log.folder().segment(1), record.offset as u64), "{what}");
                }
                other => panic!("{what} of record {}: {other}", record.header.sequence),
            }
            assert_eq!(log.segment(1), bad, "nothing was touched");
        }
    }
}

#[tokio::test]
async fn damage_at_the_end_is_refused_if_the_anchor_names_it() {
    let log = TestLog::new();
    call(&log.start().await, "c1").await;
    let path = log.folder().segment(1);
    let mut bytes = log.segment(1);
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, &bytes).expect("it can be written");
    assert!(matches!(log.start_error().await, StartError::Corrupt { .. }));
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&path, &bytes).expect("it can be written");
    call(&log.start().await, "c2").await;
}

#[tokio::test]
async fn a_truncated_end_is_recorded_permanently() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    call(&audit, "c2").await;
    let head = audit.anchor();
    drop(audit);
    let found = records(&log.folder(), 1);
    std::fs::write(log.folder().segment(1), &log.segment(1)[..found[2].offset + 7])
        .expect("it can be written");
    assert!(!log.verify().ok);
    let (audit, recovery) = log.start_after_crash().await;
    let lost =
        LostRecords { after_sequence: 2, acknowledged_sequence: 4, acknowledged_hash: head.hash.to_string() };
    assert_eq!(recovery.lost, Some(lost));
    assert_loss_is_recorded(&audit, &recovery).await;
    drop(audit);
    let (audit, again) = log.start_after_crash().await;
    assert!(!again.is_needed(), "it is recorded once: {again:?}");
    assert_loss_is_recorded(&audit, &recovery).await;
    drop(audit);
    assert!(!log.verify().ok, "nor without a daemon");
}

/// Checks that `verify` reports lost records in an intact chain.
async fn assert_loss_is_recorded(audit: &Audit, recovery: &Recovery) {
    let report = audit.verify().await.expect("it can be read");
    assert_eq!((report.ok, &report.first_bad), (!recovery.has_loss(), &None), "{report:?}");
    let noted: Vec<_> = report.suspicious.iter().map(|noted| &noted.recovery).collect();
    assert_eq!(noted, [recovery]);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in from.read_dir().expect("a list") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("it can be copied");
    }
}

/// The anchor is lost with the folder, and the index beside it knows the last record. A folder without any record stops the
/// start, until an operator gives the log up.
#[tokio::test]
async fn an_emptied_or_replaced_folder_is_recorded_if_the_index_knows_more() {
    for put_back in [false, true] {
        let log = TestLog::new();
        let (dir, older) = (log.audit_dir(), log.dir.path().join("older"));
        let audit = log.start().await;
        call(&audit, "c1").await;
        drop(audit);
        copy_folder(&dir, &older);
        let (audit, recovery) = log.start_after_crash().await;
        assert!(!recovery.is_needed(), "an older index is none of this: {recovery:?}");
        call(&audit, "c2").await;
        assert_eq!(row(&audit, "c2").await.status, Some(Status::Ok));
        let acknowledged_hash = audit.anchor().hash.to_string();
        drop(audit);

        std::fs::remove_dir_all(&dir).expect("it can be removed");
        if put_back {
            copy_folder(&older, &dir);
            // A start that is killed before it records the loss leaves it to the next one.
            drop(OpenLog::open(&log.settings(), None).expect("it opens"));
        }
        if !put_back {
            let error = log.start_error().await;
            assert!(matches!(error, StartError::Gone { last_sequence: Some(4), .. }), "{error}");
        }
        let settings = AuditSettings { accept_lost_log: !put_back, ..log.settings() };
        let (audit, recovery) = Audit::start(&settings).await.expect("the log starts");
        let accepted = recovery.accepted.clone();
        assert_eq!(accepted.is_some(), !put_back, "{recovery:?}");
        let after_sequence = if put_back { 2 } else { 0 };
        let lost = LostRecords { after_sequence, acknowledged_sequence: 4, acknowledged_hash };
        // An older copy is told as what it is, and is no less a loss.
        assert_eq!(
            recovery,
            Recovery { lost: Some(lost), copied: put_back, accepted, ..Recovery::default() }
        );
        assert_loss_is_recorded(&audit, &recovery).await;
        assert!(audit.lookup("s1", 0, "c2").await.expect("it answers").is_none());
        drop(audit);
        let (_audit, again) = log.start_after_crash().await;
        assert!(!again.is_needed(), "it is reported once: {again:?}");
    }
}

#[tokio::test]
async fn segments_that_are_missing_are_refused() {
    let log = TestLog::new();
    let audit = log.start().await;
    for number in 0..30 {
        let entry = audit.open(large_intent(&number.to_string())).expect("it is taken");
        audit.close(entry, success()).await.expect("it is on disk");
    }
    drop(audit);
    let last = *log.folder().segments().expect("a list").last().expect("segments");
    for number in [1, 2, last] {
        let (path, aside) = (log.folder().segment(number), log.dir.path().join("aside"));
        std::fs::rename(&path, &aside).expect("it can be moved");
        assert!(matches!(log.start_error().await, StartError::Missing { segment, .. } if segment == number));
        std::fs::rename(&aside, &path).expect("it can be moved");
    }
    call(&log.start().await, "c1").await;
}

#[tokio::test]
async fn a_segment_of_another_version_is_refused() {
    let (mut bytes, _) = sample_log().await;
    bytes[8] = 2;
    assert!(matches!(
        TestLog::with_segment(&bytes).start_error().await,
        StartError::Version { found: 2, known: 1, .. }
    ));
}

/// A crash after a new segment got its header and before its first record loses nothing.
#[tokio::test]
async fn a_segment_without_records_is_continued() {
    let log = TestLog::new();
    let audit = log.start().await;
    let details = format!("{{\"text\":\"{}\"}}", "x".repeat(9000));
    while audit.anchor().segment == 1 {
        audit
            .admin(AdminRecord { details: Some(raw(&details)), ..act("load") })
            .await
            .expect("it is on disk");
    }
    drop(audit);
    let folder = log.folder();
    let last = records(&folder, 1).pop().expect("records");
    let second = std::fs::read(folder.segment(2)).expect("a segment");
    std::fs::write(folder.segment(2), &second[..112]).expect("its header");
    std::fs::remove_file(folder.anchor()).expect("an anchor");
    let (sequence, hash) = (last.header.sequence, Sha256(last.header.hash));
    let anchor = Anchor { sequence, segment: 1, offset: last.end.next_multiple_of(8) as u64, hash };
    drop(AnchorFile::open(&folder, Sealer::new(None), &anchor).expect("an anchor"));

    for _ in 0..2 {
        let (audit, recovery) = log.start_after_crash().await;
        assert_eq!(recovery, Recovery::default());
        assert_eq!((audit.anchor().sequence, audit.anchor().hash), (sequence, hash));
        let report = audit.verify().await.expect("it is read");
        assert!(report.ok, "{report:?}");
    }
    // The same with a missing anchor, which is created again from the log.
    std::fs::remove_file(folder.anchor()).expect("an anchor");
    drop(recover(&folder, Sealer::new(None), SEGMENT_BYTES).expect("recovered"));
    let audit = log.start().await;
    call(&audit, "next").await;
    assert!(audit.verify().await.expect("it is read").ok);
}

/// The segment had an acknowledged record, so a crash does not explain it; removing the file would hide the damage.
#[tokio::test]
async fn a_segment_that_lost_its_header_is_refused_if_the_anchor_names_it() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    drop(audit);
    let before = log.segment(1);
    for length in [0, 60] {
        std::fs::write(log.folder().segment(1), &before[..length]).expect("a segment");
        match log.start_error().await {
            StartError::Corrupt { what, .. } => assert!(what.contains("`head` says"), "{what}"),
            other => panic!("{other}"),
        }
        let after = std::fs::read(log.folder().segment(1)).expect("a segment");
        assert_eq!(after, &before[..length], "it is left as it was");
    }
}

/// Sequences that no log reaches, under valid digests.
#[tokio::test]
async fn impossible_numbers_are_refused() {
    let header = |first_sequence| {
        let open_intents = Vec::new();
        SegmentHeader { segment: 1, first_sequence, made_at_ms: 0, previous_hash: [0; 32], open_intents }
            .encode()
    };
    let log = TestLog::with_segment(&header(0).0);
    assert!(matches!(log.start_error().await, StartError::Corrupt { .. }));
    let (mut bytes, hash) = header(u64::MAX);
    let mut record = encode(RecordKind::Admin, 0, &act("load"));
    format::seal(&mut record, u64::MAX, 0, &hash);
    bytes.extend(record);
    let log = TestLog::with_segment(&bytes);
    let recovered = recover(&log.folder(), Sealer::new(None), SEGMENT_BYTES).expect("recovered");
    assert!(recovered.recovery.cut.is_some());
}

/// After a crash between the cut and the first new record, no torn bytes may reappear.
#[test]
fn recovery_that_is_interrupted_starts_over() {
    let (bytes, written) = block_on(sample_log());
    let at = written[4].end - 3;
    let log = TestLog::with_segment(&bytes[..at]);
    for _ in 0..3 {
        let recovered = recover(&log.folder(), Sealer::new(None), SEGMENT_BYTES).expect("it recovers");
        assert_eq!((recovered.last_sequence, recovered.current.end), (4, written[4].offset as u64));
    }
    assert_eq!(records(&log.folder(), 1), written[..4]);
}

#[test]
fn a_killed_daemon_loses_nothing_that_it_acknowledged() {
    let log = TestLog::new();
    let (shell, environment) = super::child("recovery::calls_until_it_is_killed", log.dir.path());
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {shell}")])
        .envs(environment)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let acknowledged: Vec<String> = lines
        .map_while(Result::ok)
        .filter_map(|line| Some(line.strip_prefix("acknowledged ")?.to_owned()))
        .take(300)
        .collect();
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    assert_eq!(acknowledged.len(), 300);
    block_on(async {
        let (audit, recovery) = log.start_after_crash().await;
        assert!(recovery.unknown >= 1 && !recovery.is_suspicious(), "{recovery:?}");
        assert_eq!(row(&audit, "open").await.status, Some(Status::Unknown));
        for id in acknowledged {
            assert_eq!(row(&audit, &id).await.status, Some(Status::Ok), "{id}");
        }
        let running = Query { status: Some(Status::Running), ..Query::default() };
        assert!(audit.search(&running).await.expect("it answers").rows.is_empty());
        assert!(audit.verify().await.expect("it can be read").ok);
    });
}

#[test]
#[ignore = "run by a_killed_daemon_loses_nothing_that_it_acknowledged"]
fn calls_until_it_is_killed() {
    block_on(async {
        let settings = AuditSettings {
            segment_bytes: SEGMENT_BYTES,
            reserve_bytes: 0,
            ..AuditSettings::new(child_dir().join("audit"))
        };
        let (audit, _) = Audit::start(&settings).await.expect("the log starts");
        let _open = audit.open(intent("open")).expect("it is taken");
        let callers = (0..8).map(|caller| {
            let audit = audit.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    let id = format!("{caller}-{number}");
                    call(&audit, &id).await;
                    println!("acknowledged {id}");
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("it runs until it is killed");
        }
    });
}
