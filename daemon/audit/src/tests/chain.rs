//! Recording, group commit, the chain, and what `verify` sees.

use super::*;

#[tokio::test]
async fn concurrent_callers_share_syncs() {
    let log = TestLog::new();
    let audit = log.start().await;
    let mut shared = 0;
    for round in 0..80 {
        // Append every intent before the first wait, as concurrent callers do, however busy the machine is.
        let entries: Vec<_> = (0..16)
            .map(|caller| audit.open(intent(&format!("{caller}-{round}"))).expect("it is taken"))
            .collect();
        let before = audit.counts().syncs;
        let waiting: Vec<_> = entries.iter().map(Entry::sync).collect();
        for durable in waiting {
            durable.await.expect("it is on disk");
        }
        shared += audit.counts().syncs - before;
        // A caller that is alone may commit itself, so outcomes share syncs only by chance.
        let waiting: Vec<_> = entries.into_iter().map(|entry| audit.close(entry, success())).collect();
        for durable in waiting {
            durable.await.expect("it is on disk");
        }
    }
    let counts = audit.counts();
    assert_eq!(counts.records, 2 * 16 * 80);
    // The number of calls per sync depends on the disk and the load.
    assert!(shared < 16 * 80, "{shared} syncs for {} intents", 16 * 80);
    let report = audit.verify().await.expect("it can be read");
    assert!(report.ok, "{report:?}");
    assert_eq!((report.records, report.anchor), (counts.records, AnchorSource::Daemon));
}

#[tokio::test]
async fn a_call_alone_waits_for_one_sync() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    assert_eq!(audit.counts().syncs, 1);
}

#[tokio::test]
async fn an_intent_without_a_waiter_reaches_the_file_without_a_sync() {
    let log = TestLog::new();
    let audit = log.start().await;
    let entry = audit.open(intent("c1")).expect("it is taken");
    until("the intent to be written", || records(&log.folder(), 1).len() == 1).await;
    assert_eq!(audit.counts().syncs, 0);
    entry.sync().await.expect("it is on disk");
    entry.intent_sync().sync().await.expect("it still is");
    assert_eq!(audit.counts().syncs, 1);
}

#[tokio::test]
async fn an_entry_that_is_dropped_is_cancelled() {
    let log = TestLog::new();
    let audit = log.start().await;
    drop(audit.open(intent("dropped")).expect("it is taken"));
    // `close` records the outcome even if its future is never polled.
    drop(audit.close(audit.open(intent("closed")).expect("it is taken"), success()));
    let dropped = row(&audit, "dropped").await;
    assert_eq!(dropped.status, Some(Status::Cancelled));
    assert_eq!(dropped.outcome.and_then(|outcome| outcome.error_type).as_deref(), Some("CANCELLED"));
    assert_eq!(row(&audit, "closed").await.status, Some(Status::Ok));
}

#[tokio::test]
async fn an_entry_that_is_dropped_by_a_panic_has_crashed() {
    let log = TestLog::new();
    let audit = log.start().await;
    let own = audit.clone();
    let crashed = tokio::spawn(async move {
        let _entry = own.open(intent("c1")).expect("it is taken");
        panic!("as a bug would");
    });
    assert!(crashed.await.expect_err("it panics").is_panic());
    assert_eq!(row(&audit, "c1").await.status, Some(Status::Crashed));
}

#[tokio::test]
async fn a_record_that_is_too_large_is_refused_and_the_log_continues() {
    let log = TestLog::new();
    let audit = log.start().await;
    let huge = CallIntent { arguments: Some(raw(&format!("\"{}\"", "x".repeat(20_000)))), ..intent("huge") };
    assert!(matches!(audit.open(huge), Err(AuditError::TooLarge { limit_bytes: 16_384, .. })));
    call(&audit, "c1").await;
}

#[tokio::test]
async fn the_folder_has_one_writer() {
    let log = TestLog::new();
    let audit = log.start().await;
    assert!(matches!(log.start_error().await, StartError::Held { .. }));
    drop(audit);
    call(&log.start().await, "c1").await;
}

#[tokio::test]
async fn a_log_that_is_opened_again_continues_its_chain() {
    let log = TestLog::new();
    call(&log.start().await, "c1").await;
    let before = log.verify();
    let (audit, recovery) = log.start_after_crash().await;
    assert!(!recovery.is_needed(), "{recovery:?}");
    assert_eq!(audit.anchor().hash, before.head.hash);
    call(&audit, "c2").await;
    drop(audit);
    let report = log.verify();
    assert!(report.ok, "{report:?}");
    assert_eq!((report.records, report.segments, report.anchor), (4, 1, AnchorSource::HeadFile));
}

#[tokio::test]
async fn verifications_wait_for_the_one_that_runs() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    let running = audit.log.verifying.clone().lock_owned().await;
    let mut second = Box::pin(audit.verify());
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut second).await.is_err());
    drop(running);
    assert!(second.await.expect("it can be read").ok);
}

/// Fills more than four segments while one call stays open.
async fn fill_four_segments(log: &TestLog) -> (Audit, Entry) {
    let audit = log.start().await;
    let open = audit.open(intent("open")).expect("it is taken");
    for number in 0..30 {
        let entry = audit.open(large_intent(&number.to_string())).expect("it is taken");
        audit.close(entry, success()).await.expect("it is on disk");
    }
    (audit, open)
}

#[tokio::test]
async fn the_chain_continues_across_segments() {
    let log = TestLog::new();
    let (audit, open) = fill_four_segments(&log).await;
    let report = audit.verify().await.expect("it can be read");
    assert!(report.ok && report.segments > 4, "{report:?}");
    audit.close(open, success()).await.expect("it is on disk");
    drop(audit);
    let report = log.verify();
    assert!(report.ok, "{report:?}");
    assert_eq!(report.records, 62);
}

#[tokio::test]
async fn a_call_that_outlives_its_segment_is_unknown_after_a_crash() {
    let log = TestLog::new();
    let (audit, open) = fill_four_segments(&log).await;
    // The entry outlives the log, as in a killed daemon: it gets no outcome.
    drop(audit);
    drop(open);
    let (audit, recovery) = log.start_after_crash().await;
    assert_eq!(recovery, Recovery { unknown: 1, ..Recovery::default() });
    assert_eq!(row(&audit, "open").await.status, Some(Status::Unknown));
    assert_eq!(row(&audit, "7").await.status, Some(Status::Ok));
}

#[tokio::test]
async fn every_flipped_bit_is_detected() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    audit.admin(act("plugin.load")).await.expect("it is on disk");
    drop(audit);
    let path = log.folder().segment(1);
    let good = std::fs::read(&path).expect("a segment");
    let used = log.segment(1).len();
    for at in 0..used + 16 {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&path, bad).expect("it can be written");
        let report = log.verify();
        let found =
            report.first_bad.unwrap_or_else(|| panic!("byte {at} was changed without being detected"));
        assert!(!report.ok && found.file == path && found.offset <= at as u64, "{found:?} for byte {at}");
    }
    std::fs::write(&path, good).expect("it can be written");
    assert!(log.verify().ok);
}

#[tokio::test]
async fn removed_or_moved_records_are_detected() {
    let log = TestLog::new();
    let audit = log.start().await;
    for id in ["c1", "c2", "c3"] {
        call(&audit, id).await;
    }
    drop(audit);
    let path = log.folder().segment(1);
    let good = std::fs::read(&path).expect("a segment");
    let found = records(&log.folder(), 1);
    let (second, third) = (found[2].offset, found[4].offset);
    let first = found[0].offset;
    assert_eq!(second - first, third - second, "equal calls are equally long");
    let out = [&good[..first], &good[second..]].concat();
    let moved = [&good[..first], &good[second..third], &good[first..second], &good[third..]].concat();
    let twice = [&good[..second], &good[first..]].concat();
    for bad in [out, moved, twice] {
        std::fs::write(&path, bad).expect("it can be written");
        assert!(!log.verify().ok);
    }
}

#[tokio::test]
async fn removed_or_swapped_segments_are_detected() {
    let log = TestLog::new();
    drop(fill_four_segments(&log).await);
    let folder = log.folder();
    let last = *folder.segments().expect("a list").last().expect("segments");
    for number in [1, 2, last] {
        let (path, aside) = (folder.segment(number), log.dir.path().join("aside"));
        std::fs::rename(&path, &aside).expect("it can be moved");
        let report = log.verify();
        assert_eq!(report.first_bad.map(|bad| bad.file), Some(path.clone()));
        std::fs::rename(&aside, &path).expect("it can be moved");
    }
    std::fs::copy(folder.segment(2), folder.segment(3)).expect("it can be copied");
    assert_eq!(log.verify().first_bad.map(|bad| bad.file), Some(folder.segment(3)));
}

/// Two logs of the same calls have different chains, since the times of their segments differ; here one replaces the other.
#[tokio::test]
async fn a_rewritten_chain_is_detected_by_the_anchor() {
    let key = Some([7; 32]);
    let (log, other) = (TestLog::new(), TestLog::new());
    for (log, key, ids) in [(&log, key, ["c1", "c2"]), (&other, None, ["c1", "x2"])] {
        let (audit, _) =
            Audit::start(&AuditSettings { key, ..log.settings() }).await.expect("the log starts");
        for id in ids {
            call(&audit, id).await;
        }
    }
    let verify = || verify_folder(&log.audit_dir(), key.as_ref()).expect("it can be read");
    assert!(verify().ok);
    std::fs::copy(other.folder().segment(1), log.folder().segment(1)).expect("it can be copied");
    let report = verify();
    assert!(report.first_bad.is_some_and(|bad| bad.what.contains("acknowledged")));
    let refused = Audit::start(&AuditSettings { key, ..log.settings() }).await.err();
    assert!(matches!(refused, Some(StartError::Corrupt { what, .. }) if what.contains("rewritten")));
    // If the anchor is replaced too, only the key reveals it.
    std::fs::copy(other.folder().anchor(), log.folder().anchor()).expect("it can be copied");
    assert!(log.verify().ok);
    assert_eq!(verify().first_bad.map(|bad| bad.file), Some(log.folder().anchor()));
    let refused = Audit::start(&AuditSettings { key, ..log.settings() }).await.err();
    assert!(matches!(refused, Some(StartError::Corrupt { file, .. }) if file == log.folder().anchor()));
}

#[tokio::test]
async fn a_running_daemon_sees_that_its_log_was_changed() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "c1").await;
    let path = log.folder().segment(1);
    let good = std::fs::read(&path).expect("a segment");
    let mut cut = good.clone();
    cut[records(&log.folder(), 1)[1].offset..].fill(0);
    std::fs::write(&path, cut).expect("it can be written");
    let report = audit.verify().await.expect("it can be read");
    assert!(report.first_bad.is_some_and(|bad| bad.what.contains("record 2 was acknowledged")));
    std::fs::write(&path, good).expect("it can be written");
    assert!(audit.verify().await.expect("it can be read").ok);
}

#[tokio::test]
async fn settings_out_of_range_are_refused() {
    let log = TestLog::new();
    let settings = log.settings();
    let wrong = [
        AuditSettings { segment_bytes: 1000, ..settings.clone() },
        AuditSettings { segment_bytes: u64::MAX, ..settings.clone() },
        AuditSettings { reserve_bytes: SEGMENT_BYTES, ..settings.clone() },
    ];
    for wrong in wrong {
        assert!(matches!(Audit::start(&wrong).await.err(), Some(StartError::Setting { .. })));
    }
    assert!(Audit::start(&settings).await.is_ok());
}
