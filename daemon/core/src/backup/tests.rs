//! Backups of a small data folder without a daemon: what is restored, and what is refused.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tempfile::TempDir;
use toolgate_audit::{AdminRecord, Audit, AuditSettings, Recovery};
use toolgate_state::store::Store;

use super::*;

const KEY: [u8; 32] = [7; 32];

/// A data folder with a log, a store, a plugin file and a workspace; no daemon.
struct Fixture {
    parent: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let fixture = Self { parent: tempfile::tempdir().unwrap() };
        let data = fixture.data();
        for folder in ["keys", "components", "workspaces/s_1/empty", "answers"] {
            fs::create_dir_all(data.join(folder)).unwrap();
        }
        for (file, content) in [
            ("keys/audit.key", KEY.as_slice()),
            ("keys/cache.key", &[1; 32]),
            ("keys/data.key", &[2; 32]),
            ("keys/.key-a1b2c3", b"part"),
            ("operator.token", b"tg_secret"),
            ("components/ab.wasm", b"\0asm"),
            ("components/.tmpabc", b"half"),
            ("workspaces/s_1/a.txt", b"text"),
            ("reserve", &[0; 4096]),
        ] {
            fs::write(data.join(file), content).unwrap();
        }
        std::os::unix::fs::symlink("/etc", data.join("workspaces/s_1/link")).unwrap();
        Store::open(&data.join("state.db")).await.unwrap().close().await;
        let (audit, _) = start(&data).await;
        act(&audit, "one").await;
        fixture
    }

    fn data(&self) -> PathBuf {
        self.parent.path().join("data")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    async fn backup(&self, name: &str, with_keys: bool) -> PathBuf {
        let source = BackupSource {
            data: self.data(),
            store: self.data().join("state.db"),
            with_keys,
            with_cache: false,
        };
        let backup = Backup::take(source).await.unwrap();
        let file = self.path(name);
        fs::write(&file, backup.write(Vec::new()).unwrap().0).unwrap();
        file
    }

    /// Asserts that a file is refused, and that nothing is there afterwards.
    #[track_caller]
    fn refuse(&self, file: &Path) -> BackupError {
        let data = self.path("refused");
        let error = restore(file, &data, None).unwrap_err();
        assert!(!data.exists(), "{error}");
        assert!(!error.hint().is_empty(), "{error}");
        error
    }

    /// The archive with a change of its tar file.
    fn change_archive(&self, file: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let mut tar = Vec::new();
        GzDecoder::new(fs::File::open(file).unwrap()).read_to_end(&mut tar).unwrap();
        change(&mut tar);
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(&tar).unwrap();
        let changed = self.path("changed.tar.gz");
        fs::write(&changed, out.finish().unwrap()).unwrap();
        changed
    }
}

async fn start(data: &Path) -> (Audit, Recovery) {
    let mut settings = AuditSettings::new(data.join("audit"));
    settings.key = Some(KEY);
    settings.segment_bytes = 64 * 1024;
    settings.reserve_bytes = 8 * 1024;
    Audit::start(&settings).await.unwrap()
}

async fn act(audit: &Audit, target: &str) {
    let record = AdminRecord {
        organization: None,
        principal: "p".into(),
        action: "test".into(),
        target: target.to_owned().into(),
        outcome: "ok".into(),
        revision: None,
        details: None,
        source: "test".into(),
    };
    audit.admin(record).await.unwrap();
}

/// The archive with another first entry.
fn with_header(tar: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let at = tar.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    tar[at..at + from.len()].copy_from_slice(to.as_bytes());
}

#[tokio::test]
async fn a_restored_log_continues_with_a_record_of_the_restore_and_verifies() {
    let fixture = Fixture::new().await;
    let (audit, _) = start(&fixture.data()).await;
    let file = fixture.backup("b.tar.gz", true).await;
    // Recorded after the backup, by a daemon that runs on.
    act(&audit, "two").await;
    let inspected = inspect(&file).unwrap();
    let restored = fixture.path("restored");
    assert_eq!(restore(&file, &restored, None).unwrap().records, inspected.records);
    let (copy, recovery) = start(&restored).await;
    assert_eq!(recovery, Recovery::default());
    act(&copy, "three").await;
    let report = copy.verify().await.unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!(report.restores.len(), 1, "{report:?}");
    assert_eq!(report.restores[0].from.backup, inspected.header.backup);
    assert_eq!(report.restores[0].from.head.sequence, inspected.records);
    assert_eq!(report.restores[0].sequence, inspected.records + 1);
    drop(copy);
    let (copy, _) = start(&restored).await;
    assert_eq!(copy.verify().await.unwrap().restores.len(), 1, "a restore is recorded once");
    assert!(audit.verify().await.unwrap().restores.is_empty());
}

#[tokio::test]
async fn every_file_comes_back_private_and_what_a_start_makes_again_is_left_out() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", true).await;
    let restored = fixture.path("restored");
    // As an administrator makes it.
    fs::create_dir(&restored).unwrap();
    fs::set_permissions(&restored, fs::Permissions::from_mode(0o755)).unwrap();
    restore(&file, &restored, None).unwrap();
    for name in
        ["keys/audit.key", "keys/data.key", "operator.token", "components/ab.wasm", "workspaces/s_1/a.txt"]
    {
        assert_eq!(
            fs::read(restored.join(name)).unwrap(),
            fs::read(fixture.data().join(name)).unwrap(),
            "{name}"
        );
        let mode = restored.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(restored.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(restored.join("workspaces/s_1/empty").is_dir());
    Store::open(&restored.join("state.db")).await.unwrap().close().await;
    for name in [
        "keys/cache.key",
        "keys/.key-a1b2c3",
        "components/.tmpabc",
        "reserve",
        "restoring",
        "workspaces/s_1/link",
        "backup",
    ] {
        assert!(restored.join(name).symlink_metadata().is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_backup_without_keys_needs_those_of_its_daemon() {
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", false).await;
    assert!(matches!(fixture.refuse(&file), BackupError::NoKeys));
    let (other, restored) = (fixture.path("other"), fixture.path("restored"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("audit.key"), [9; 32]).unwrap();
    for keys in [&other, &fixture.path("restored-keys")] {
        restore(&file, &restored, Some(keys)).unwrap_err();
        assert!(!restored.exists());
    }
    restore(&file, &restored, Some(&fixture.data().join("keys"))).unwrap();
    assert_eq!(fs::read(restored.join("keys/data.key")).unwrap(), [2; 32]);
    assert!(!restored.join("operator.token").exists());
}

#[tokio::test]
async fn keys_in_a_backup_do_not_count_for_an_operator_who_gives_those_of_his_daemon() {
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", true).await;
    let (other, restored) = (fixture.path("other"), fixture.path("restored"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("audit.key"), [9; 32]).unwrap();
    let error = restore(&file, &restored, Some(&other)).unwrap_err();
    assert!(matches!(error, BackupError::OtherKeys(_)), "{error}");
    assert!(!restored.exists());
    restore(&file, &restored, Some(&fixture.data().join("keys"))).unwrap();
    assert_eq!(fs::read(restored.join("keys/audit.key")).unwrap(), KEY);
}

#[tokio::test]
async fn a_truncated_changed_or_foreign_file_is_refused_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", true).await;
    let whole = fs::read(&file).unwrap();
    let part = fixture.path("part");
    let mut unchanged = Vec::new();
    GzDecoder::new(&whole[..]).read_to_end(&mut unchanged).unwrap();
    let step = whole.len() / 40;
    for length in (0..whole.len()).step_by(step).chain([whole.len() - 1, whole.len() - 9]) {
        fs::write(&part, &whole[..length]).unwrap();
        let error = fixture.refuse(&part);
        assert!(
            matches!(error, BackupError::Truncated { .. } | BackupError::Foreign { .. }),
            "{length}: {error}"
        );
    }
    for at in (20..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        // Another way to compress the same bytes is no change.
        let mut tar = Vec::new();
        if GzDecoder::new(&bytes[..]).read_to_end(&mut tar).is_ok() && tar == unchanged {
            continue;
        }
        fs::write(&part, bytes).unwrap();
        fixture.refuse(&part);
    }
    for foreign in [&b"no archive"[..], &[0; 4096]] {
        fs::write(&part, foreign).unwrap();
        let error = fixture.refuse(&part);
        assert!(matches!(error, BackupError::Truncated { .. } | BackupError::Foreign { .. }), "{error}");
    }
    let foreign = fixture.change_archive(&file, |tar| with_header(tar, HEADER, "something-other.json"));
    assert!(matches!(fixture.refuse(&foreign), BackupError::Foreign { .. }));
    // A byte that the checksum of the archive covers again: the manifest tells.
    let changed = fixture.change_archive(&file, |tar| with_header(tar, "tg_secret", "tg_sEcret"));
    let error = fixture.refuse(&changed);
    assert!(error.to_string().contains("`operator.token` is not what was saved"), "{error}");
    restore(&file, &fixture.path("restored"), None).unwrap();
}

#[tokio::test]
async fn a_backup_of_a_newer_version_is_refused() {
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", true).await;
    let newer = fixture.change_archive(&file, |tar| with_header(tar, "\"format\":1", "\"format\":3"));
    let error = fixture.refuse(&newer);
    assert!(matches!(error, BackupError::Newer { .. }), "{error}");
    let schema = |number: i64| format!("\"schema\":{number:02}");
    let (now, later) = (schema(toolgate_state::store::newest_migration()), schema(99));
    let newer = fixture.change_archive(&file, |tar| with_header(tar, &now, &later));
    assert!(matches!(fixture.refuse(&newer), BackupError::Newer { .. }));
}

#[tokio::test]
async fn a_folder_in_use_is_never_overwritten_and_a_killed_restore_is_begun_again() {
    let fixture = Fixture::new().await;
    let file = fixture.backup("b.tar.gz", true).await;
    let error = restore(&file, &fixture.data(), None).unwrap_err();
    assert!(matches!(error, BackupError::NotEmpty(_)), "{error}");
    assert_eq!(fs::read(fixture.data().join("workspaces/s_1/a.txt")).unwrap(), b"text");
    // As a restore that was killed leaves it.
    let restored = fixture.path("restored");
    fs::create_dir_all(restored.join("restoring/keys")).unwrap();
    fs::write(restored.join("restoring/keys/audit.key"), "half").unwrap();
    restore(&file, &restored, None).unwrap();
    assert_eq!(fs::read(restored.join("keys/audit.key")).unwrap(), KEY);
}

#[tokio::test]
async fn one_backup_is_taken_at_a_time_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let source = || BackupSource {
        data: fixture.data(),
        store: fixture.data().join("state.db"),
        with_keys: false,
        with_cache: false,
    };
    let first = Backup::take(source()).await.unwrap();
    let second = Backup::take(source()).await.err();
    assert!(matches!(second, Some(BackupError::Busy)));
    drop(first);
    Backup::take(source()).await.unwrap();
    let left: Vec<_> =
        fs::read_dir(fixture.data().join("backup")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
    // As a killed backup leaves it, until the next start.
    fs::write(fixture.data().join("backup/state.db"), "old").unwrap();
    remove_leftovers(&fixture.data());
    assert!(!fixture.data().join("backup/state.db").exists());
    let elsewhere = BackupSource { data: fixture.path("nowhere"), ..source() };
    assert!(matches!(Backup::take(elsewhere).await.err(), Some(BackupError::NotData(_))));
}

#[tokio::test]
async fn root_leaves_nothing_of_its_own_in_a_data_folder_and_follows_no_link_of_another_user() {
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
    if !rustix::process::geteuid().is_root() {
        return eprintln!("only root makes files of others: not tested");
    }
    let (uid, gid) = (54_321, 54_322);
    let fixture = Fixture::new().await;
    chown(fixture.data(), Some(uid), Some(gid)).unwrap();
    fixture.backup("b.tar.gz", false).await;
    let staging = fixture.data().join("backup");
    for path in [&staging, &staging.join("lock")] {
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (uid, gid), "{}", path.display());
    }
    // A file that root did not make is not given away.
    let lock = staging.join("lock");
    chown(&lock, Some(0), Some(0)).unwrap();
    fixture.backup("c.tar.gz", false).await;
    assert_eq!(lock.metadata().unwrap().uid(), 0);
    let other = fixture.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    fs::remove_dir_all(&staging).unwrap();
    symlink(&other, &staging).unwrap();
    lchown(&staging, Some(uid), Some(gid)).unwrap();
    let source = BackupSource {
        data: fixture.data(),
        store: fixture.data().join("state.db"),
        with_keys: false,
        with_cache: false,
    };
    assert!(matches!(Backup::take(source).await.err(), Some(BackupError::Io { .. })));
    remove_leftovers(&fixture.data());
    assert_eq!(fs::read_to_string(other.join("letter.txt")).unwrap(), "dear");
}
