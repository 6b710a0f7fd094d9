//! Backups of a running daemon, their restore, and copies of a data folder (O6).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::daemon::{Options, ProgramOutput, run_to_end};
use toolgate_tests::{Daemon, Session, json, wait};

use crate::{PROGRAM, start};

fn toolgate(daemon: &Daemon, arguments: &[&str]) -> ProgramOutput {
    let (server, token) =
        (format!("http://{}", daemon.address), daemon.data().join("operator.token").display().to_string());
    let remote = ["--server", &server, "--token-file", &token];
    run_to_end(PROGRAM, &[arguments, &remote].concat(), daemon.folder.path())
}

fn offline(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    run_to_end(PROGRAM, arguments, folder)
}

/// Copies the compiled code, which no backup has, so that the start of a restored folder is fast.
fn copy_compiled_code(from: &Path, to: &Path) {
    for part in ["cache", "keys/cache.key"] {
        copy(&from.join(part), &to.join(part));
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("`cp` runs");
    assert!(copied.success(), "{}", from.display());
}

fn serve(data: PathBuf) -> Daemon {
    Daemon::start_with(PROGRAM, Options { data: Some(data), ..Options::default() })
}

#[test]
fn o6_a_backup_taken_while_calls_run_has_what_was_acknowledged_and_its_restore_verifies() {
    let (mut daemon, session) = start();
    let write = json!({"path": "a.txt", "content": "kept"});
    session.call_as("c1", "files/write", write.clone()).output();
    let running = session.start("running", "hostile/doze", json!({}));
    session.wait_until_running("running");
    wait::until("the intent", || {
        let query = format!("kind=call&status=running&session={}", session.id);
        (!daemon.operator().audit(&query).is_empty()).then_some(())
    });
    let backup = toolgate(&daemon, &["backup", "b.tar.gz"]);
    assert!(backup.status.success(), "{}", backup.stderr);
    assert!(backup.stderr.contains("the keys are not in it"), "{}", backup.stderr);
    let file = daemon.folder.path().join("b.tar.gz");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let again = toolgate(&daemon, &["backup", "b.tar.gz"]);
    assert!(again.stderr.contains("`b.tar.gz` exists"), "{}", again.stderr);
    // On the host, beside the running daemon, with the keys.
    let data = daemon.data().display().to_string();
    let with_keys = offline(daemon.folder.path(), &["backup", "k.tar.gz", "--data", &data, "--with-keys"]);
    assert!(with_keys.status.success(), "{}", with_keys.stderr);
    session.call_as("c2", "files/write", json!({"path": "b.txt", "content": "later"})).output();
    daemon.crash();
    drop(running);

    // Without its keys, a backup is of no use, and nothing is left of the attempt.
    let folder = daemon.folder.path();
    let refused = offline(folder, &["restore", "b.tar.gz", "--data", "restored"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--keys DIR") && !folder.join("restored").exists(), "{refused:?}");
    let keys = daemon.data().join("keys").display().to_string();
    let restored = offline(folder, &["restore", "b.tar.gz", "--data", "restored", "--keys", &keys]);
    assert!(restored.status.success(), "{}", restored.stderr);
    assert!(restored.stderr.contains("tokens that were revoked since"), "{}", restored.stderr);
    let occupied = offline(folder, &["restore", "k.tar.gz", "--data", "restored"]);
    assert!(occupied.stderr.contains("is not empty"), "{}", occupied.stderr);
    let whole = offline(folder, &["restore", "k.tar.gz", "--data", "with-keys"]);
    assert!(whole.status.success(), "{}", whole.stderr);
    assert_eq!(
        fs::read(folder.join("with-keys/operator.token")).ok(),
        fs::read(daemon.data().join("operator.token")).ok()
    );

    // A restore that was killed leaves its folder, and nothing serves what is there.
    fs::create_dir_all(folder.join("killed/restoring/audit")).expect("a folder");
    fs::set_permissions(folder.join("killed"), fs::Permissions::from_mode(0o700)).expect("private");
    let killed = offline(folder, &["serve", "--data", "killed", "--listen", "127.0.0.1:0"]);
    assert!(killed.stderr.contains("did not end") && killed.status.code() == Some(1), "{killed:?}");
    let again = offline(folder, &["restore", "k.tar.gz", "--data", "killed"]);
    assert!(again.status.success(), "{}", again.stderr);

    let data = folder.join("restored");
    copy_compiled_code(&daemon.data(), &data);
    // The operator's token is not in a backup without keys; its holder has it.
    copy(&daemon.data().join("operator.token"), &data.join("operator.token"));
    let second = serve(data);
    let operator = second.operator();
    let report = operator.get("/v1/audit/verify").expect(200).json();
    assert_eq!((&report["ok"], &report["suspicious"]), (&json!(true), &json!([])), "{report}");
    assert_eq!(report["restores"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(operator.audit("action=audit.restored").len(), 1);
    let verified = toolgate(&second, &["audit", "verify"]);
    assert!(verified.status.success() && verified.stderr.contains("was restored"), "{verified:?}");
    let session = Session { client: operator.clone(), id: session.id };
    assert_eq!(session.call_as("c1", "files/write", write).0["replayed"], true);
    assert_eq!(session.get_file("a.txt").expect(200).text(), "kept");
    assert_eq!(session.get_call("running").status(), "unknown");
    session.client.get(&session.path("/calls/c2")).expect_refusal(404, "NOT_FOUND");
    assert_eq!(session.call_as("c3", "hostile/echo", json!({"text": "x"})).status(), "ok");
    let log = second.log_text();
    assert!(log.contains("this data folder was restored from a backup"), "{log}");
    assert!(!log.contains("ERROR") && !log.contains("are lost"), "{log}");
}

#[test]
fn o6_a_copy_of_a_running_daemons_folder_is_told_as_what_it_is() {
    let (mut daemon, session) = start();
    session.call_as("c1", "hostile/echo", json!({"text": "x"})).output();
    // As `cp -a` does, one part after the other while calls are made.
    let copied = daemon.folder.path().join("copied");
    fs::create_dir(&copied).expect("a folder");
    fs::set_permissions(&copied, fs::Permissions::from_mode(0o700)).expect("private");
    copy(&daemon.data().join("audit"), &copied.join("audit"));
    session.call_as("c2", "hostile/echo", json!({"text": "x"})).output();
    session.audit_row(&daemon.operator(), "c2");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    for part in fs::read_dir(daemon.data()).expect("a folder") {
        let part = part.expect("an entry");
        if part.file_name() != "audit" {
            copy(&part.path(), &copied.join(part.file_name()));
        }
    }
    let second = serve(copied);
    let line = second.wait_for_log("the copy", |line| line.contains("the audit folder is a copy"));
    assert!(line.contains("WARN") && line.contains("toolgate backup"), "{line}");
    let report = second.operator().get("/v1/audit/verify").expect(200).json();
    let noted = &report["suspicious"][0]["recovery"];
    assert_eq!((&report["ok"], &noted["copied"]), (&json!(false), &json!(true)), "{report}");
    let verified = toolgate(&second, &["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    assert!(verified.stderr.contains("is a copy that lacks records"), "{}", verified.stderr);
    // The original lacks nothing.
    let first = daemon.crash_and_restart();
    assert_eq!(first.operator().get("/v1/audit/verify").expect(200).json()["ok"], true);
    assert!(!first.log_text().contains("is a copy"));
}
