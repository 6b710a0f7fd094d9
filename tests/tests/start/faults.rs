//! Faults of an operator's daemon: each message has the cause, the place and a way out, and following it leads to a daemon that serves.
//!
//! Other tests follow the way out of: a damaged, missing and emptied log (`state/audit.rs`, four faults), keys that were removed
//! (`start.rs`), a foreign `Host` and hosts of webhooks and registries (`start/reload.rs`), a restore that was killed (`state/backup.rs`).

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use toolgate_tests::daemon::{ProgramOutput, run_to_end};
use toolgate_tests::{Daemon, Options, json};

use crate::{NOBODY, PROGRAM, message_and_hint};

/// A fault: what it breaks, the message, and how the way out is followed.
struct Fault {
    name: &'static str,
    /// The settings of the start that fails.
    settings: &'static str,
    /// More arguments of that start.
    arguments: &'static [&'static str],
    /// Breaks the folder, which has `data`, `b.tar.gz` and `kept`.
    break_it: fn(&Path),
    /// Parts of the message: cause and place.
    message: [&'static str; 2],
    hint: &'static str,
    /// Does what the hint says.
    follow: fn(&Path),
    /// The settings of the start that serves.
    settings_after: &'static str,
}

fn nothing(_: &Path) {}

/// A fault of the settings alone, whose way out is another line.
const fn of_settings(
    name: &'static str,
    settings: &'static str,
    message: [&'static str; 2],
    hint: &'static str,
    settings_after: &'static str,
) -> Fault {
    Fault {
        name,
        settings,
        arguments: &[],
        break_it: nothing,
        message,
        hint,
        follow: nothing,
        settings_after,
    }
}

const TLS: &str = "[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"";

const FAULTS: &[Fault] = &[
    of_settings(
        "a wrong key",
        "lisen = 1",
        ["unknown key `lisen`", "t.toml:1:1"],
        "did you mean `listen`?",
        "",
    ),
    of_settings(
        "a number out of range",
        "drain_seconds = 99999999",
        ["`drain_seconds` is out of range", "t.toml:1:17"],
        "write a whole number from",
        "drain_seconds = 5",
    ),
    of_settings(
        "a wrong section",
        "[ratez]\nburst = 9",
        ["unknown section `[ratez]`", "t.toml:1:2"],
        "did you mean `[rates]`?",
        "[rates]\nburst = 9",
    ),
    of_settings("no TOML", "drain_seconds = = 1", ["t.toml:1", ""], "the file is TOML", "drain_seconds = 1"),
    Fault {
        arguments: &["--listen", "0.0.0.0:0"],
        ..of_settings(
            "other machines without TLS",
            "",
            ["there is no TLS", "`0.0.0.0:0`"],
            "listen on `127.0.0.1`",
            "",
        )
    },
    Fault {
        follow: |folder| write_certificate(folder, true),
        ..of_settings(
            "a missing certificate",
            TLS,
            ["TLS cannot be set up", "`c.pem`"],
            "give PEM files",
            TLS,
        )
    },
    Fault {
        break_it: |folder| write_certificate(folder, false),
        follow: |folder| write_certificate(folder, true),
        ..of_settings("a key of another certificate", TLS, ["do not fit", "`k.pem`"], "give PEM files", TLS)
    },
    Fault {
        break_it: |folder| fs::write(folder.join("data/keys/audit.key"), "short").expect("written"),
        follow: |folder| put_back(folder, "keys/audit.key"),
        ..of_settings(
            "half a key",
            "",
            ["is not a key", "keys/audit.key`"],
            "put the file back from a backup",
            "",
        )
    },
    Fault {
        break_it: |folder| {
            overwrite(&folder.join("data/state.db"), &[0; 100]);
            let _ = fs::remove_file(folder.join("data/state.db-wal"));
        },
        follow: restore,
        ..of_settings(
            "a damaged store",
            "",
            ["the store is damaged", ""],
            "restore a backup with `toolgate restore`",
            "",
        )
    },
    Fault {
        break_it: |folder| fs::create_dir(folder.join("data/restoring")).expect("a folder"),
        follow: restore,
        ..of_settings("half a restore", "", ["did not end", "data`"], "restore the backup again", "")
    },
    Fault {
        break_it: |folder| overwrite(&folder.join("data/audit/head"), b"xxxx"),
        follow: restore,
        ..of_settings(
            "a damaged head",
            "",
            ["the audit log is damaged", "audit/head`"],
            "restore a backup",
            "",
        )
    },
];

/// Overwrites the begin of a file.
fn overwrite(path: &Path, begin: &[u8]) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[..begin.len()].copy_from_slice(begin);
    fs::write(path, bytes).expect("written");
}

/// Puts back a file of the data folder, from the copy.
fn put_back(folder: &Path, name: &str) {
    fs::copy(folder.join("kept").join(name), folder.join("data").join(name)).expect("copied");
}

/// Restores the backup, in the place of the folder.
fn restore(folder: &Path) {
    let cache = folder.join("data/cache");
    fs::rename(&cache, folder.join("cache")).expect("moved");
    fs::remove_dir_all(folder.join("data")).expect("removed");
    let restored = run_to_end(PROGRAM, &["restore", "b.tar.gz", "--data", "data"], folder);
    assert!(restored.status.success(), "{restored:?}");
    let _ = fs::remove_dir_all(&cache);
    fs::rename(folder.join("cache"), &cache).expect("moved");
}

fn write_certificate(folder: &Path, fits: bool) {
    let make = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (first, second) = (make(), make());
    let key = if fits { &first.signing_key } else { &second.signing_key };
    fs::write(folder.join("c.pem"), first.cert.pem()).expect("written");
    fs::write(folder.join("k.pem"), key.serialize_pem()).expect("written");
}

/// A daemon with data, a backup with keys, and a copy of its keys; stopped.
fn stopped_daemon() -> (Daemon, PathBuf) {
    let mut daemon = Daemon::start(PROGRAM, "");
    daemon.operator().make_agent("acme/bot", &json!({"enabled": ["text/*"]}));
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let folder = daemon.folder.path().to_owned();
    let backup = run_to_end(PROGRAM, &["backup", "b.tar.gz", "--data", "data", "--with-keys"], &folder);
    assert!(backup.status.success(), "{backup:?}");
    fs::create_dir_all(folder.join("kept/keys")).expect("a folder");
    fs::copy(folder.join("data/keys/audit.key"), folder.join("kept/keys/audit.key")).expect("copied");
    (daemon, folder)
}

fn start_fails(folder: &Path, settings: &str, arguments: &[&str]) -> ProgramOutput {
    fs::write(folder.join("t.toml"), settings).expect("settings");
    let listen: &[&str] = if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
    let serve = ["serve", "--config", "t.toml", "--data", "data"];
    let ended = run_to_end(PROGRAM, &[&serve, listen, arguments].concat(), folder);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    ended
}

#[test]
fn faults_have_cause_place_and_a_way_out_that_leads_to_a_serving_daemon() {
    let (mut daemon, folder) = stopped_daemon();
    for Fault { name, settings, arguments, break_it, message, hint, follow, settings_after } in FAULTS {
        break_it(&folder);
        let ended = start_fails(&folder, settings, arguments);
        let (told, way_out) = message_and_hint(&ended);
        assert!(message.iter().all(|part| told.contains(part)), "{name}: {told}");
        assert!(way_out.contains(hint), "{name}: {way_out}");
        follow(&folder);
        // Returns when it serves.
        daemon = daemon.restart_with(|options| options.settings = (*settings_after).to_owned());
        daemon.terminate();
        assert!(daemon.wait_for_exit().success(), "{name}");
    }
}

/// Faults of what is around the daemon: a port, another daemon, the owner of the folder, a backup that was cut off.
#[test]
fn faults_around_the_daemon_have_a_way_out_that_leads_to_a_serving_daemon() {
    let (daemon, folder) = stopped_daemon();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let ended = start_fails(&folder, "", &["--listen", &address]);
    let (told, way_out) = message_and_hint(&ended);
    assert!(told.contains(&address) && way_out.contains("choose another port with `--listen`"), "{ended:?}");

    let mut daemon = daemon.restart_with(|_| {});
    let ended = start_fails(&folder, "", &[]);
    let (told, way_out) = message_and_hint(&ended);
    assert!(told.contains("is held by another daemon") && told.contains(&daemon.pid().to_string()), "{told}");
    assert!(way_out.contains("stop that daemon"), "{way_out}");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let mut daemon = daemon.restart_with(|_| {});
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());

    if geteuid().is_root() {
        chown(folder.join("data"), Some(NOBODY), None).expect("another owner");
        let ended = start_fails(&folder, "", &[]);
        let (told, way_out) = message_and_hint(&ended);
        assert!(
            told.contains("belongs to another user") && way_out.contains("run the daemon as that user"),
            "{told}"
        );
        chown(folder.join("data"), Some(geteuid().as_raw()), None)
            .expect("the owner is the user of the daemon");
    }

    let whole = fs::read(folder.join("b.tar.gz")).expect("a backup");
    fs::write(folder.join("cut.tar.gz"), &whole[..whole.len() / 2]).expect("written");
    let cut = run_to_end(PROGRAM, &["restore", "cut.tar.gz", "--data", "restored"], &folder);
    assert_eq!(cut.status.code(), Some(1), "{cut:?}");
    assert!(
        cut.stderr.contains("`cut.tar.gz` is not complete") && !folder.join("restored").exists(),
        "{cut:?}"
    );
    assert!(cut.stderr.contains("copy the file again from where it was made"), "{cut:?}");
    fs::write(folder.join("b.tar.gz"), whole).expect("copied again");
    restore(&folder);
    daemon.restart_with(|_| {});
}

/// Faults of who asks: a token of another role, a file that is no document, and the folder of a fresh volume.
#[test]
fn faults_of_commands_have_a_way_out_that_works() {
    let daemon = Daemon::start(PROGRAM, "");
    let folder = daemon.folder.path();
    let server = format!("--server=http://{}", daemon.address);
    let operator = format!("--token-file={}", daemon.data().join("operator.token").display());
    let run = |arguments: &[&str]| run_to_end(PROGRAM, &[arguments, &[&server]].concat(), folder);
    assert!(run(&["org", "put", "acme", &operator]).status.success());
    let made =
        ["token", "create", "--role=approver", "--organization=acme", "--out=approver.token", &operator];
    assert!(run(&made).status.success());
    let ended = run(&["token", "list", "--token-file=approver.token"]);
    let (told, way_out) = message_and_hint(&ended);
    assert!(told.contains("a token of role `approver` may not do this"), "{told}");
    assert!(way_out.contains("use a token of role `operator` or `owner`"), "{way_out}");
    assert!(run(&["token", "list", &operator]).status.success());

    let documents = folder.join("documents/orgs/acme");
    fs::create_dir_all(&documents).expect("a folder");
    fs::write(documents.join("policy.json"), r#"{"enabled": "*"}"#).expect("written");
    fs::write(documents.join("notes.txt"), "x").expect("written");
    let ended = run(&["apply", "--folder", "documents", "--yes", &operator]);
    assert!(!ended.status.success(), "{ended:?}");
    let place = "`documents/orgs/acme/notes.txt`: is not the file of a document";
    assert!(ended.stderr.contains(place) && ended.stderr.contains("move it out of the folder"), "{ended:?}");
    fs::remove_file(documents.join("notes.txt")).expect("moved out of the folder");
    let applied = run(&["apply", "--folder", "documents", "--yes", &operator]);
    assert!(applied.status.success(), "{applied:?}");

    // A volume that was just made is an empty folder.
    fs::create_dir_all(folder.join("volume/lost+found")).expect("a folder");
    let compiled = run_to_end(PROGRAM, &["doctor", "--data", "volume"], folder);
    assert!(!compiled.stdout.contains("lost+found") && compiled.stdout.contains("volume"), "{compiled:?}");
    let volume = Options { data: Some(folder.join("volume")), ..Options::default() };
    Daemon::start_with(PROGRAM, volume).operator().get("/v1/tokens").expect(200);
}
