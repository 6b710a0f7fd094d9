//! A start on the data of an earlier version, and the way back (O6).
//!
//! `tests/upgrade/make` made the data with the program of the commit in its name, which was 0.1.0.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::daemon::{Options, run_to_end};
use toolgate_tests::{Client, Daemon, compiled_code, json};

use crate::PROGRAM;

/// Written by 0.1.0, before lists of sessions, histories of documents and backups.
const OLD_DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/upgrade/data-87d4f56.tar.gz");

/// Unpacks the old data beside compiled code of this version, which is no part of it.
fn old_data(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    fs::create_dir_all(&data).expect("a folder");
    let unpacked = Command::new("tar").arg("-xzf").arg(OLD_DATA).arg("-C").arg(&data).status();
    assert!(unpacked.expect("`tar` runs").success());
    data
}

#[test]
fn o6_data_of_an_earlier_version_is_migrated_and_its_backup_leads_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = old_data(folder.path());
    // Before the first start of this version: the way back.
    let path = data.display().to_string();
    let backup = ["backup", "before.tar.gz", "--data", &path, "--with-keys", "--json"];
    let backup = run_to_end(PROGRAM, &backup, folder.path());
    assert!(backup.status.success(), "{}", backup.stderr);
    let schema = schema_of(&data.join("state.db"));

    let daemon = Daemon::start_with(PROGRAM, Options { data: Some(data.clone()), ..Options::default() });
    let operator = daemon.operator();
    // A session of then is too old to be used, and is still known.
    let sessions = fs::read_to_string(data.join("sessions")).expect("the sessions");
    let old = sessions.lines().next().expect("a session");
    let calls = operator.get(&format!("/v1/sessions/{old}/calls")).expect(200).json();
    let told: Vec<_> = calls["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| (call["id"].as_str().expect("an id"), call["status"].as_str().expect("a status")))
        .collect();
    assert_eq!(told, [("c2", "error"), ("c1", "ok")], "{calls}");
    let session = operator.open_session("acme/bot");
    assert_eq!(session.call("files/write", json!({"path": "a.txt", "content": "new"})).status(), "ok");
    let waits =
        operator.open_session("acme/careful").call("files/write", json!({"path": "b", "content": "b"}));
    assert_eq!(waits.status(), "approval_required", "the old document is in force");
    let credential = operator.get("/v1/orgs/acme/credentials/stripe").expect(200).json();
    assert_eq!(credential["provider"], "stripe", "{credential}");
    assert_eq!(
        operator.get("/readyz").expect(200).json()["status"],
        "ok",
        "the root key opens the old secrets"
    );
    let owner = fs::read_to_string(data.join("owner.token")).expect("a token");
    let owner = Client::new(daemon.address, Some(owner.trim()));
    assert_eq!(owner.get("/v1/orgs/acme/agents/bot").expect(200).json()["name"], "Helper");
    let listed = owner.get("/v1/sessions?agent=acme%2Fbot").expect(200).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(listed["items"][1]["conversation"], "t1", "the oldest is the last: {listed}");
    let report = operator.get("/v1/audit/verify").expect(200).json();
    assert_eq!((&report["ok"], &report["suspicious"]), (&json!(true), &json!([])), "{report}");
    assert!(schema_of(&data.join("state.db")) > schema, "nothing was migrated");

    let restore = ["restore", "before.tar.gz", "--data", "back"];
    let restore = run_to_end(PROGRAM, &restore, folder.path());
    assert!(restore.status.success(), "{}", restore.stderr);
    assert_eq!(schema_of(&folder.path().join("back/state.db")), schema, "the old version can start on it");
}

/// The last migration of a store.
fn schema_of(store: &Path) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let schema = runtime.block_on(toolgate_state::store::copy_store(store, &copy)).expect("a copy");
    usize::try_from(schema).expect("a number")
}
