//! What an operator reads of a start: where the first token is, and of one that fails the cause and the way out.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use toolgate_tests::daemon::{ProgramOutput, run_to_end, run_to_end_in};
use toolgate_tests::disk::SmallDisk;
use toolgate_tests::{Daemon, compiled};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A start that fails, on a free port and `data` in `folder`.
#[track_caller]
fn fails(folder: &Path, options: &[&str]) -> ProgramOutput {
    let ended = run_to_end(PROGRAM, &[&["serve", "--listen", "127.0.0.1:0"], options].concat(), folder);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended
}

/// The message and the hint of a failure, behind what was logged before.
#[track_caller]
fn told(ended: &ProgramOutput) -> (&str, &str) {
    let told = ended.stderr.split_once("error: ").and_then(|(_, told)| told.split_once("\n hint: "));
    let (message, hint) = told.unwrap_or_else(|| panic!("no message with a hint: {}", ended.stderr));
    (message, hint.trim_end())
}

#[test]
fn options_that_make_no_sense_are_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, hint) in [
        (&["serve", "--listen", "nonsense"][..], "127.0.0.1:7300"),
        (&["serve", "--listen", "127.0.0.1:80000"], "ports end at 65535"),
        (&["serve", "--listen", "localhost:7813"], "names are not looked up"),
        (&["serve", "--store", "postgres://x"], "only SQLite"),
        (&["plugin", "list", "--server", "nonsense"], "http://127.0.0.1:7300"),
    ] {
        let ended = run_to_end(PROGRAM, words, folder.path());
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", ended.stderr);
        assert!(told(&ended).1.contains(hint), "{words:?}: {}", ended.stderr);
    }
    let ended = run_to_end(PROGRAM, &["token", "create", "--role", "owner"], folder.path());
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--organization <ORG>"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is made");
    // What is in a file is no usage.
    fs::write(folder.path().join("t.toml"), "store = \"postgres://x\"").expect("settings");
    fails(folder.path(), &["--config", "t.toml"]);
}

/// Whatever the umask says: a copy of the folder, or one that was made before and is open, shows nothing to others.
#[test]
fn nothing_in_the_data_folder_is_open_to_other_users() {
    let daemon = Daemon::start(PROGRAM, "");
    let (mut folders, mut seen) = (vec![daemon.data().to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            // What the daemon writes anew is gone under its old name.
            let Ok(about) = entry.metadata() else { continue };
            assert_eq!(about.permissions().mode() & 0o077, 0, "{}", entry.path().display());
            if about.is_dir() {
                folders.push(entry.path());
            }
            seen.push(entry.file_name());
        }
    }
    for file in ["state.db", "audit-index.db", "operator.token"] {
        assert!(seen.iter().any(|name| name == file), "{file}: {seen:?}");
    }
}

#[test]
fn the_first_start_says_where_the_token_is_and_no_other_does() {
    let daemon = Daemon::start(PROGRAM, "");
    let file = daemon.data().join("operator.token").display().to_string();
    let token = daemon.operator_token();
    let log = daemon.log_text();
    assert_eq!(log.matches(&file).count(), 1, "{log}");
    assert!(!log.contains(&token), "a log is read by others: {log}");
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains(&file), "{}", daemon.log_text());
}

#[test]
fn the_log_has_colours_where_commands_have_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = |environment: &[(&str, &str)]| {
        let words = ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:missing/state.db"];
        let ended = run_to_end_in(PROGRAM, &words, folder.path(), environment);
        let line = ended.stderr.lines().find(|line| line.contains("sandbox ready")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{ended:?}"))
    };
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(log(&[forced]).contains('\x1b'));
    assert!(!log(&[forced, ("NO_COLOR", "1")]).contains('\x1b'));
    assert!(!log(&[]).contains('\x1b'));
}

#[test]
fn a_store_in_a_folder_that_is_not_there_is_told_to_be_given_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = fails(folder.path(), &["--store", "sqlite:nowhere/state.db"]);
    let (message, hint) = told(&ended);
    assert!(message.starts_with("the folder of the store is not there: `nowhere/state.db`"), "{message}");
    assert!(hint.contains("make it"), "{hint}");
}

#[test]
fn a_cause_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = fails(folder.path(), &["--data", "/proc/toolgate"]);
    let (message, hint) = told(&ended);
    assert_eq!(message.matches("os error").count(), 1, "{message}");
    assert!(hint.contains("`--data`"), "{hint}");
}

#[test]
fn a_full_disk_is_told_to_be_made_room_on() {
    let Some(disk) = SmallDisk::mount("16m") else { return };
    let data = disk.path().join("data").display().to_string();
    // Whichever file the start writes first finds it full: the lock, or the index of the store's log.
    disk.fill();
    let ended = fails(disk.path(), &["--data", &data]);
    assert!(told(&ended).1.starts_with("free space on the disk"), "{}", ended.stderr);
}

#[test]
fn a_start_at_a_port_in_use_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_to_end(PROGRAM, &["serve", "--data", "data", "--listen", &address], folder.path());
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(told(&ended).0.contains(&address), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is made");
}

/// What has the name of something that the daemon keeps there, whoever put it there.
#[test]
fn what_stands_in_the_way_in_the_data_folder_is_named_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("text");
    let in_the_way = |name: &str, put: fn(&Path)| {
        let path = Path::new(data).join(name);
        let parent = path.parent().expect("a folder");
        DirBuilder::new().recursive(true).mode(0o700).create(parent).expect("a folder");
        put(&path);
        let ended = fails(folder.path(), &["--data", data]);
        let (message, hint) = told(&ended);
        assert!(message.contains(&format!("`{}`", path.display())), "{name}: {message}");
        assert_eq!(message.matches("os error").count(), 1, "{name}: {message}");
        assert!(hint.starts_with("move"), "{name}: {hint}");
        fs::remove_dir_all(data).expect("removed");
    };
    let file = |path: &Path| fs::write(path, "in the way").expect("written");
    for name in ["components", "workspaces", "keys", "audit", "cache"] {
        in_the_way(name, file);
    }
    let directory = |path: &Path| fs::create_dir(path).expect("made");
    for name in ["lock", "state.db", "operator.token", "keys/cache.key", "keys/audit.key"] {
        in_the_way(name, directory);
    }
}

#[test]
fn a_setting_that_names_no_certificates_is_told_the_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("compiled code is laid in");
    fs::write(folder.path().join("t.toml"), "[credentials]\nca_file = \"missing.pem\"").expect("settings");
    let ended = fails(folder.path(), &["--config", "t.toml", "--data", "data"]);
    let (message, hint) = told(&ended);
    assert!(message.contains("`missing.pem`"), "{message}");
    assert!(hint.contains("`credentials.ca_file`"), "{hint}");
}
