//! A disk that is full, or fails.

use super::super::record::sha256;
use proptest::prelude::*;

use super::super::anchor::Sealer;
use super::super::recover::recover;
use super::super::space::{CLOSE_BYTES_MAX, SpaceBudget, SpaceClass};
use super::*;

proptest! {
    /// After any sequence of intents, effects and acts, the outcomes of all open intents fit without another segment.
    #[test]
    fn outcomes_always_fit(
        left_bytes in 0..200_000u64,
        spare_bytes in proptest::option::of(65_536..200_000u64),
        reserve_bytes in 0..16_000u64,
        requests in proptest::collection::vec((0..4u8, 1..400u64), 0..200),
    ) {
        let mut space = SpaceBudget { left_bytes, spare_bytes, reserve_bytes };
        let mut open_intents = 0;
        for (class, eighths) in requests {
            let classes = [SpaceClass::Intent, SpaceClass::Effect, SpaceClass::AdminIntent, SpaceClass::Admin];
            let class = classes[usize::from(class)];
            let taken = space.reserve(class, eighths * 40, open_intents).is_some();
            if taken && matches!(class, SpaceClass::Intent | SpaceClass::AdminIntent) {
                open_intents += 1;
            }
        }
        for open_intents in (1..=open_intents).rev() {
            prop_assert!(space.reserve(SpaceClass::Outcome, CLOSE_BYTES_MAX, open_intents).is_some(), "{} open", open_intents);
        }
    }
}

#[test]
fn the_longest_outcome_fits_its_reserved_space() {
    let most = u64::MAX;
    let usage = Usage {
        fuel: most,
        memory_bytes: most,
        duration_us: most,
        cpu_us: most,
        host_calls: most,
        egress_bytes: most,
        cost: most,
        log_bytes: most,
    };
    let longest = "\u{1}".repeat(200);
    let log = TestLog::new();
    block_on(async {
        let audit = log.start().await;
        let entry = audit.open(intent("c1")).expect("it is taken");
        let outcome = CallOutcome {
            status: Status::ApprovalRequired,
            error_type: Some(longest.into()),
            usage,
            duration_us: most,
            output: Some(OutputStamp { sha256: sha256(b""), bytes: most }),
            executed: Executed::Unknown,
        };
        audit.close(entry, outcome).await.expect("it is on disk");
    });
    let found = records(&log.folder(), 1);
    assert!(found[1].header.bytes() < CLOSE_BYTES_MAX, "{}", found[1].header.bytes());
}

#[test]
fn a_full_disk_refuses_calls_and_still_takes_their_outcomes() {
    on_a_small_disk("space::fills_its_disk", "audit");
}

#[test]
fn a_search_says_that_the_disk_is_full_until_the_index_has_caught_up() {
    on_a_small_disk("space::fills_the_disk_of_the_index", "index");
}

/// Runs a test in a child process whose mount namespace has a small tmpfs on that folder.
fn on_a_small_disk(test: &str, folder: &str) {
    let log = TestLog::new();
    let (shell, environment) = super::child(test, log.dir.path());
    let folder = log.dir.path().join(folder).display().to_string();
    let mount = format!("mkdir -p '{folder}' && mount -t tmpfs -o size=400k none '{folder}' && exec {shell}");
    let unshared = format!("unshare --mount --map-root-user sh -c \"{mount}\"");
    if !Command::new("sh")
        .args(["-c", "unshare --mount --map-root-user true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("this machine does not allow a mount namespace");
        return;
    }
    run_to_end(&unshared, environment);
}

#[test]
#[ignore = "run by a_full_disk_refuses_calls_and_still_takes_their_outcomes"]
fn fills_its_disk() {
    let settings = AuditSettings {
        segment_bytes: SEGMENT_BYTES,
        reserve_bytes: 16 * 1024,
        ..AuditSettings::new(child_dir().join("audit"))
    };
    let filler = settings.dir.join("filler");
    block_on(async {
        let (audit, _) = Audit::start(&settings).await.expect("the log starts");
        // Fill the rest of the disk.
        while std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&filler)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[1; 4096]))
            .is_ok()
        {}
        let mut entries = Vec::new();
        let refused = loop {
            match audit.open(large_intent(&entries.len().to_string())) {
                Ok(entry) => entries.push(entry),
                Err(error) => break error,
            }
            audit.sync().await.expect("it is on disk");
        };
        assert!(matches!(&refused, AuditError::Full { .. }), "{refused}");
        assert!(entries.len() > 5, "{} calls were taken", entries.len());
        until("the reason to be known", || {
            matches!(audit.open(large_intent("x")), Err(AuditError::Full { reason }) if reason.contains("space"))
        })
        .await;
        let effect = EffectRecord { effect: "workspace_write".into(), detail: "x".repeat(1000).into() };
        while audit.effect(&entries[0], effect.clone()).is_ok() {}
        for entry in entries {
            audit.close(entry, success()).await.expect("it is on disk");
        }
        assert_eq!(
            (row(&audit, "0").await.effects_lost, row(&audit, "1").await.effects_lost),
            (Some(1), None)
        );
        perform(&audit, "organization.delete", None).await;
        std::fs::remove_file(&filler).expect("there is room again");
        let mut taken = None;
        until("calls to be taken again", || {
            taken = audit.open(large_intent("again")).ok();
            taken.is_some()
        })
        .await;
        audit.close(taken.expect("it was taken"), success()).await.expect("it is on disk");
        let report = audit.verify().await.expect("it can be read");
        assert!(report.ok, "{report:?}");
    });
}

/// More than two searches, since each failed transaction changes the state of the driver's connection.
#[test]
#[ignore = "run by a_search_says_that_the_disk_is_full_until_the_index_has_caught_up"]
fn fills_the_disk_of_the_index() {
    let folder = child_dir().join("index");
    let settings = AuditSettings {
        segment_bytes: 16 * SEGMENT_BYTES,
        reserve_bytes: 0,
        index: folder.join("audit-index.db"),
        ..AuditSettings::new(child_dir().join("audit"))
    };
    let filler = folder.join("filler");
    block_on(async {
        let (audit, _) = Audit::start(&settings).await.expect("the log starts");
        call(&audit, "before").await;
        assert_eq!(row(&audit, "before").await.status, Some(Status::Ok));
        while std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&filler)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[1; 512]))
            .is_ok()
        {}
        for attempt in 0..6 {
            call(&audit, &format!("meanwhile {attempt}")).await;
            let refused = audit.search(&Query::default()).await.expect_err("the index has no room");
            assert!(matches!(refused, AuditError::IndexFull), "attempt {attempt}: {refused}");
        }
        std::fs::remove_file(&filler).expect("there is room again");
        for id in ["before", "meanwhile 0", "meanwhile 5"] {
            assert_eq!(row(&audit, id).await.status, Some(Status::Ok), "{id}");
        }
        assert_eq!(audit.search(&Query::default()).await.expect("it answers").rows.len(), 7);
    });
}

/// The kernel refuses writes beyond a file size limit, so that the write of a group fails.
#[test]
fn a_write_that_fails_stops_the_log() {
    let log = TestLog::new();
    let (shell, environment) = super::child("space::meets_a_failing_write", log.dir.path());
    // An ignored signal stays ignored across exec; without this, `SIGXFSZ` would kill the child.
    run_to_end(&format!("trap '' XFSZ; exec {shell}"), environment);
    block_on(async {
        let (audit, recovery) = Audit::start(&settings_of(log.dir.path())).await.expect("the log starts");
        assert!(!recovery.is_suspicious(), "{recovery:?}");
        let acknowledged = std::fs::read_to_string(log.dir.path().join("acknowledged")).expect("a list");
        assert!(acknowledged.lines().count() > 20);
        for id in acknowledged.lines() {
            assert_eq!(row(&audit, id).await.status, Some(Status::Ok), "{id}");
        }
        assert!(audit.verify().await.expect("it can be read").ok);
    });
}

fn settings_of(dir: &Path) -> AuditSettings {
    AuditSettings {
        segment_bytes: 16 * SEGMENT_BYTES,
        reserve_bytes: 0,
        ..AuditSettings::new(dir.join("audit"))
    }
}

#[test]
#[ignore = "run by a_write_that_fails_stops_the_log"]
fn meets_a_failing_write() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    block_on(async {
        let (audit, _) = Audit::start(&settings_of(&child_dir())).await.expect("the log starts");
        let before = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: Some(700 * 1024), ..before }).expect("a limit");
        let mut acknowledged = String::new();
        let failed = loop {
            let id = format!("c{}", acknowledged.lines().count());
            let entry = audit.open(large_intent(&id)).expect("it is taken");
            match audit.close(entry, success()).await {
                Ok(()) => acknowledged += &format!("{id}\n"),
                Err(error) => break error,
            }
        };
        setrlimit(Resource::Fsize, before).expect("the limit is gone");
        assert!(matches!(failed, AuditError::Failed { .. }), "{failed}");
        assert!(matches!(audit.open(intent("late")), Err(AuditError::Failed { .. })));
        assert!(matches!(audit.admin(act("late")).await, Err(AuditError::Failed { .. })));
        assert!(matches!(audit.open_act(act("late")), Err(AuditError::Failed { .. })));
        assert!(matches!(audit.sync().await, Err(AuditError::Failed { .. })));
        // Records on disk can still be searched.
        assert_eq!(row(&audit, "c0").await.status, Some(Status::Ok));
        std::fs::write(child_dir().join("acknowledged"), acknowledged).expect("a list");
    });
}

/// Opens a log whose segment is a device, for real errors of system calls.
fn on_device(log: &TestLog, device: &str) -> OpenLog {
    let (folder, settings) = (log.folder(), log.settings());
    folder.create().expect("a folder");
    let lock = folder.lock().expect("a lock");
    let mut recovered = recover(&folder, Sealer::new(None), SEGMENT_BYTES).expect("it recovers");
    recovered.current.file = std::fs::OpenOptions::new().write(true).open(device).expect("a device");
    OpenLog::spawn(&settings, folder, lock, recovered).expect("it runs")
}

#[tokio::test]
async fn every_waiter_gets_the_error_of_a_failed_sync() {
    // `/dev/null` accepts writes and fails to sync.
    let log = TestLog::new();
    let (audit, _) = on_device(&log, "/dev/null").start(&log.settings()).await.expect("it starts");
    let entries = ["c1", "c2", "c3"].map(|id| audit.open(intent(id)).expect("it is taken"));
    for wait in entries.map(|entry| audit.close(entry, success())) {
        assert!(matches!(wait.await, Err(AuditError::Failed { .. })));
    }
    assert!(matches!(audit.open(intent("c4")), Err(AuditError::Failed { .. })));
    assert_eq!(audit.anchor().sequence, 0, "nothing is acknowledged");
}

#[tokio::test]
async fn a_device_without_space_stops_the_log() {
    let log = TestLog::new();
    let (audit, _) = on_device(&log, "/dev/full").start(&log.settings()).await.expect("it starts");
    let entry = audit.open(intent("c1")).expect("it is taken");
    let failed = audit.close(entry, success()).await.expect_err("it is not on disk");
    assert!(failed.to_string().contains("No space left on device"), "{failed}");
    assert!(matches!(audit.open(intent("c2")), Err(AuditError::Failed { .. })));
}
