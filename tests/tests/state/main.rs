//! Durable state after kill -9, on a full disk, with a second daemon and with invalid settings.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod answers;
mod audit;
mod backup;
mod upgrade;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use toolgate_tests::daemon::{Options, run_to_end};
use toolgate_tests::disk::SmallDisk;
use toolgate_tests::events::Stream;
use toolgate_tests::{
    Client, Daemon, PluginFile, Reply, Session, compiled_code, guests, json, sync_faults, wait,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

fn start() -> (Daemon, Session) {
    let daemon = Daemon::start(PROGRAM, "");
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    (daemon, session)
}

#[test]
fn a_call_that_was_running_at_a_crash_is_unknown_and_not_run_again() {
    let (daemon, session) = start();
    let done = session.call_as("done", "hostile/echo", json!({"text": "x"}));
    assert_eq!(done.status(), "ok");
    let running = session.start("running", "hostile/doze", json!({}));
    // A search waits until the log is synced, so the intent is on disk before the crash. The id is known slightly
    // earlier.
    wait::until("the intent", || {
        let query = format!("kind=call&status=running&session={}", session.id);
        (!daemon.operator().audit(&query).is_empty()).then_some(())
    });
    let daemon = daemon.crash_and_restart();
    drop(running);
    let operator = daemon.operator();
    let session = Session { client: operator.clone(), id: session.id };
    let reply = session.get_call("running");
    assert_eq!(reply.status(), "unknown", "{}", reply.0);
    assert_eq!(reply.error_type(), Some("UNKNOWN"));
    assert_eq!(reply.0["executed"], "unknown");
    let row = session.audit_row(&operator, "running");
    assert_eq!(row["status"], "unknown", "{row}");
    assert_eq!(row["outcome"]["error_type"], "UNKNOWN", "{row}");
    assert_eq!(session.audit_row(&operator, "done")["status"], "ok");
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true);
    daemon.wait_for_log("the recovery", |line| line.contains("recovered after an unclean stop"));
    let again = session.call_as("running", "hostile/doze", json!({}));
    assert_eq!(
        (again.status(), again.error_type()),
        ("unknown", Some("UNKNOWN")),
        "the call ran again: {}",
        again.0
    );
}

#[test]
fn r7_an_id_that_ran_before_a_crash_never_runs_again() {
    let (mut daemon, session) = start();
    let write = json!({"path": "a.txt", "content": "once"});
    assert_eq!(session.call_as("c1", "files/write", write.clone()).output()["created"], true);
    daemon.crash();
    // As if the answer had not been written yet.
    let _ = fs::remove_file(daemon.data().join("answers").join(&session.id));
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    session.client.delete(&session.path("/files/a.txt")).expect(204);
    let ran = session.call_as("c1", "files/write", write.clone()).expect_error("EXPIRED");
    assert!(ran.message().contains("has run"), "{}", ran.0);
    session.call_as("c1", "files/read", json!({"path": "a.txt"})).expect_error("CONFLICT");
    session.get_file("a.txt").expect_refusal(404, "NOT_FOUND");
    session.call_as("c2", "files/write", write).output();
    assert_eq!(session.call_as("c2", "files/read", json!({"path": "a.txt"})).error_type(), Some("CONFLICT"));
}

/// Flips one byte in an old segment of the audit log. The daemon restarts first with an index that covers it, then
/// without.
#[test]
fn r7_an_id_with_a_damaged_record_does_not_run_again() {
    let mut daemon = Daemon::start(PROGRAM, "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144");
    let session = daemon.session_within("acme/bot", &json!({}));
    let write = json!({"path": "a.txt", "content": "x".repeat(100_000)});
    for number in 0..25 {
        session.call_as(&format!("c{number}"), "files/write", write.clone()).output();
    }
    // The index follows the log asynchronously; a search waits for it.
    session.audit_row(&daemon.operator(), "c24");
    let folder = daemon.data().join("audit");
    let first = folder.join("00000001.segment");
    assert!(folder.join("00000003.segment").exists(), "the first segment must be complete");
    let mut bytes = fs::read(&first).expect("a segment");
    let id = br#""call":"c1""#;
    let at = bytes.windows(id.len()).position(|window| window == id).expect("its intent");
    bytes[at] = b'X';
    fs::write(&first, bytes).expect("written");
    for without_index in [false, true] {
        daemon.terminate();
        assert!(daemon.wait_for_exit().success());
        if without_index {
            for file in
                fs::read_dir(daemon.data()).expect("a folder").map(|file| file.expect("a file").path())
            {
                if file.to_string_lossy().contains("audit-index.db") {
                    fs::remove_file(file).expect("removed");
                }
            }
        }
        daemon = daemon.crash_and_restart();
        let operator = daemon.operator();
        let session = Session { client: operator.clone(), id: session.id.clone() };
        let error = if without_index { "UNKNOWN" } else { "EXPIRED" };
        assert_eq!(session.get_call("c1").error_type(), Some(error));
        assert_eq!(session.call_as("c1", "files/write", write.clone()).error_type(), Some(error));
        assert_eq!(session.call_as("c2", "files/write", write.clone()).0["replayed"], true);
        let rows = operator.audit("limit=500");
        let damaged: Vec<_> = rows.iter().filter(|row| row["damaged"].is_object()).collect();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!((&damaged[0]["damaged"]["segment"], &damaged[0]["call"]), (&json!(1), &json!(null)));
        // An owner learns that records are missing, but not their position in the shared log.
        let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
        let rows = owner.audit("limit=500");
        let damaged: Vec<_> = rows.iter().filter_map(|row| row.get("damaged")).collect();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(damaged[0]["records"], 1);
        assert!(damaged[0].get("segment").or(damaged[0].get("offset")).is_none(), "{damaged:?}");
        assert_eq!(session.audit_row(&operator, "c2")["status"], "ok");
        assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], false);
        let later = operator.open_session("acme/bot");
        later.call_as("c1", "files/write", write.clone()).output();
    }
    daemon.wait_for_log("the damage", |line| line.contains("the audit log is damaged"));
    // O3: without a daemon, the same is found.
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let verify = |data: &str| run_to_end(PROGRAM, &["audit", "verify", "--data", data], daemon.folder.path());
    let found = verify("data");
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(found.stderr.contains("the log is not what was written"), "{found:?}");
    assert!(verify("nowhere").stderr.contains("`nowhere/audit` is missing"));
    // What is intact can be exported, with the damage named.
    let audit = |words: &[&str]| run_to_end(PROGRAM, &[&["audit"], words].concat(), daemon.folder.path());
    let exported = audit(&["export", "--data", "data", "--out", "exported"]);
    assert_eq!(exported.status.code(), Some(1), "{exported:?}");
    assert!(exported.stdout.contains("records were exported to `exported`"), "{exported:?}");
    assert!(exported.stderr.contains("00000001.segment` at byte"), "{exported:?}");
    let checked = audit(&["verify", "--file", "exported"]);
    assert!(checked.status.success() && checked.stderr.contains("are not in the export"), "{checked:?}");
    let text: String = fs::read_dir(daemon.folder.path().join("exported"))
        .expect("a folder")
        .map(|file| fs::read_to_string(file.expect("a file").path()).expect("a file"))
        .collect();
    assert!(
        text.contains("\"call\":\"c0\"") && text.contains("\"call\":\"c24\""),
        "both sides of the damage"
    );
    assert!(!text.contains("\"call\":\"X") && text.contains("\"path\":\"a.txt\""), "decrypted arguments");
}

#[test]
fn r7_a_cancelled_call_stays_cancelled_after_a_crash() {
    let (daemon, session) = start();
    let running = session.start("c1", "hostile/doze", json!({}));
    session.wait_until_running("c1");
    session.cancel("c1").expect(204);
    running.reply().expect(200);
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    session.get_call("c1").expect_error("CANCELLED");
    session.call_as("c1", "hostile/doze", json!({})).expect_error("CANCELLED");
}

#[test]
fn r7_a_call_that_waits_for_approval_survives_a_crash() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    operator.make_agent("acme/careful", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let owner = json!({"role": "owner", "organization": "acme", "label": "owner"});
    let owner = operator.with_new_token(&owner);
    let session = Session { id: operator.open_session("acme/careful").id, ..session };
    let write = json!({"path": "a.txt", "content": "once"});
    let approval = session.call_as("cancelled", "files/write", write.clone()).approval();
    owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
    session.cancel("cancelled").expect(204);
    let waits = json!({"path": "b.txt", "content": "later"});
    assert_eq!(session.call_as("waits", "files/write", waits.clone()).status(), "approval_required");
    let unwanted = json!({"path": "c.txt", "content": "never"});
    let withdrawn = session.call_as("unwanted", "files/write", unwanted.clone()).approval();
    let daemon = daemon.crash_and_restart();
    let owner = Client { address: daemon.address, ..owner };
    let session = Session { client: daemon.operator(), id: session.id };
    // R6: it can be cancelled without being posted again.
    session.cancel("unwanted").expect(204);
    session.call_as("unwanted", "files/write", unwanted).expect_error("CANCELLED");
    let decision = json!({"decision": "approve"});
    owner.post(&format!("/v1/approvals/{withdrawn}"), &decision).expect_refusal(410, "APPROVAL_EXPIRED");
    session.cancel("cancelled").expect(204);
    session.cancel("never").expect_refusal(404, "NOT_FOUND");
    session.call_as("cancelled", "files/write", write.clone()).expect_error("CANCELLED");
    // The id belongs to this call and cannot be used for another one.
    session.call_as("waits", "files/write", write).expect_error("CONFLICT");
    assert_eq!(session.call_as("waits", "files/write", waits).status(), "approval_required");
}

#[test]
fn acknowledged_changes_survive_a_crash() {
    let (daemon, session) = start();
    let operator = daemon.operator();
    let version = |answer: &str| {
        PluginFile::new("kept").with_member("version", json!(answer)).with_result(answer).build()
    };
    operator.load("kept", &version("1"));
    operator.load("kept", &version("2"));
    operator.post("/v1/plugins/kept/rollback", &json!({})).expect(200);
    operator.load("off", &PluginFile::new("off").build());
    operator.post("/v1/plugins/off/disable", &json!({})).expect(200);
    operator.load("gone", &PluginFile::new("gone").build());
    operator.delete("/v1/plugins/gone").expect(204);
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let ended = operator.open_session("acme/bot");
    operator.delete(&ended.path("")).expect(204);
    let tag = operator.get("/v1/orgs/acme/agents/bot").header("etag").expect("a tag").to_owned();
    let token = daemon.operator_token();

    let daemon = daemon.crash_and_restart();
    assert_eq!(daemon.operator_token(), token, "the restart created another token");
    let operator = daemon.operator();
    let session = Session { client: operator.clone(), id: session.id };
    assert_eq!(session.call("kept/answer", json!({})).output(), 1);
    session.call("off/answer", json!({})).expect_error("TOOL_DISABLED");
    session.call("gone/answer", json!({})).expect_error("TOOL_NOT_FOUND");
    assert_eq!(session.call("hostile/echo", json!({"text": "x"})).output(), "x");
    let owner = toolgate_tests::Client { address: daemon.address, ..owner };
    assert_eq!(owner.get("/v1/orgs/acme/agents/bot").expect(200).header("etag"), Some(tag.as_str()));
    operator.get(&ended.path("")).expect_refusal(410, "EXPIRED");
    operator.post("/v1/plugins/kept/rollback", &json!({})).expect_refusal(409, "CONFLICT");
}

#[test]
fn the_audit_log_stays_valid_after_repeated_kills() {
    let (mut daemon, session) = start();
    for round in 0..4 {
        let session = Session { client: daemon.operator(), id: session.id.clone() };
        let mut running = Vec::new();
        for at in 0..8 {
            running.push(session.start(&format!("r{round}-{at}"), "hostile/rest", json!({"ms": at * 10})));
        }
        // The kill meets the calls in different states, running or finished.
        let last = session.path(&format!("/calls/r{round}-7"));
        wait::until_true("the last call to be known", || session.client.get(&last).status == 200);
        daemon = daemon.crash_and_restart();
    }
    let operator = daemon.operator();
    let verified = operator.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verified["ok"], true, "{verified}");
    let rows = operator.audit(&format!("kind=call&session={}&limit=100", session.id));
    for row in &rows {
        assert!(row["outcome"].is_object(), "an intent without an outcome: {row}");
        let status = row["status"].as_str().unwrap_or_default();
        assert!(matches!(status, "ok" | "unknown" | "cancelled"), "{row}");
    }
}

#[test]
fn an_act_whose_intent_cannot_be_recorded_has_no_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    let under = sync_faults::fail_audit_while(folder.path(), &broken);
    let daemon = Daemon::start_with(PROGRAM, Options { under, ..Options::default() });
    let operator = daemon.operator();
    operator.make("/v1/orgs/recorded", &json!({})).expect(201);
    operator.get("/v1/orgs/recorded").expect(200);
    fs::write(&broken, "").expect("the marker is written");
    operator.make("/v1/orgs/lost", &json!({})).expect_refusal(503, "UNAVAILABLE");
    operator.get("/v1/orgs/lost").expect_refusal(404, "NOT_FOUND");
    fs::remove_file(&broken).expect("the marker is removed");
    let daemon = daemon.crash_and_restart();
    daemon.operator().get("/v1/orgs/recorded").expect(200);
    daemon.operator().get("/v1/orgs/lost").expect_refusal(404, "NOT_FOUND");
}

#[test]
fn a_data_folder_is_locked_by_one_daemon() {
    let (daemon, session) = start();
    let data = daemon.data().display().to_string();
    let second =
        run_to_end(PROGRAM, &["serve", "--data", &data, "--listen", "127.0.0.1:0"], daemon.folder.path());
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(second.stderr.contains("is held by another daemon"), "{}", second.stderr);
    assert!(second.stderr.contains(&daemon.pid().to_string()), "{}", second.stderr);
    assert!(second.stderr.contains("--data"), "a hint: {}", second.stderr);
    // A separate data folder does not help with the same store.
    let store = format!("sqlite:{data}/state.db");
    let own = daemon.folder.path().join("own").display().to_string();
    let third = ["serve", "--data", &own, "--store", &store, "--listen", "127.0.0.1:0"];
    let third = run_to_end(PROGRAM, &third, daemon.folder.path());
    assert_eq!(third.status.code(), Some(1), "{third:?}");
    let held = format!("state.db` is held by another daemon (process {})", daemon.pid());
    assert!(third.stderr.contains(&held) && third.stderr.contains("--store"), "{}", third.stderr);
    assert_eq!(session.call("hostile/echo", json!({"text": "x"})).output(), "x");
    // A crash leaves nothing to clean up.
    let daemon = daemon.crash_and_restart();
    daemon.anonymous().get("/readyz").expect(200);
}

#[test]
fn a_port_in_use_is_reported() {
    let daemon = Daemon::start(PROGRAM, "");
    let folder = tempfile::tempdir().expect("a folder");
    let address = daemon.address.to_string();
    let second = run_to_end(PROGRAM, &["serve", "--data", "data", "--listen", &address], folder.path());
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(second.stderr.contains(&address) && second.stderr.contains("--listen"), "{}", second.stderr);
    daemon.anonymous().get("/readyz").expect(200);
}

#[test]
fn a_wrong_setting_names_its_line_and_the_right_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("# mine\n[http]\nheader_byte = 9000\n", "toolgate.toml:3:", "`header_bytes`"),
        ("[limits]\nfual = 1\n", "toolgate.toml:2:", "`fuel`"),
        ("lissten = \"127.0.0.1:0\"\n", "toolgate.toml:1:", "`listen`"),
        ("[calls]\nper_request = 0\n", "toolgate.toml:2:", "from 1 to"),
        ("[http\n", "toolgate.toml:1:", ""),
    ];
    for (settings, place, fix) in cases {
        fs::write(folder.path().join("toolgate.toml"), settings).expect("written");
        let ended = run_to_end(PROGRAM, &["serve", "--config", "toolgate.toml"], folder.path());
        assert_eq!(ended.status.code(), Some(1), "{settings}: {ended:?}");
        assert!(ended.stderr.contains(place) && ended.stderr.contains(fix), "{settings}: {}", ended.stderr);
    }
    assert!(!folder.path().join("toolgate-data").exists(), "a data folder was created with invalid settings");
    let ended = run_to_end(PROGRAM, &["serve", "--no-such-option"], folder.path());
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn secrets_are_private_on_disk() {
    let (daemon, _) = start();
    let mode =
        |path: std::path::PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(daemon.data()), 0o700);
    assert_eq!(mode(daemon.data().join("operator.token")), 0o600);
    assert_eq!(mode(daemon.data().join("keys").join("cache.key")) & 0o077, 0);
    // The store has only the hash of a token.
    let token = daemon.operator_token();
    let secret = &token[token.len() - 20..];
    for file in ["state.db", "state.db-wal"] {
        let Ok(bytes) = fs::read(daemon.data().join(file)) else { continue };
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{file}");
    }
    assert!(!daemon.log_text().contains(secret));
}

#[test]
fn stopping_drains_running_calls_and_accepts_no_new_ones() {
    let (mut daemon, session) = start();
    let of_session = session.path("/events");
    let operator = daemon.operator();
    let streams =
        ["/v1/events", "/v1/orgs/acme/events", &of_session].map(|path| Stream::open(&operator, path));
    let running = session.start("c1", "hostile/rest", json!({"ms": 1500}));
    session.wait_until_running("c1");
    daemon.terminate();
    daemon.wait_for_log("the stop", |line| line.contains("stopping"));
    let answer = running.reply().expect(200).json();
    for mut stream in streams {
        let told: Vec<_> = std::iter::from_fn(|| stream.next()).map(|(name, _)| name).collect();
        assert_eq!(told, ["tool_call", "tool_result"]);
    }
    assert_eq!(answer["results"][0]["output"], 1500, "{answer}");
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    assert!(!daemon.log_text().contains("recovered"), "a clean stop leaves nothing to recover");
    let session = Session { client: daemon.operator(), id: session.id };
    assert_eq!(session.audit_row(&daemon.operator(), "c1")["status"], "ok");
}

#[test]
fn stopping_waits_no_longer_than_drain_seconds() {
    assert_stop_cancels_call("drain_seconds = 1", |daemon| daemon.terminate());
}

/// A second signal skips the drain.
#[test]
fn a_second_signal_ends_the_drain() {
    assert_stop_cancels_call("drain_seconds = 600", |daemon| {
        daemon.terminate();
        wait::until_true("the daemon to stop", || daemon.log_text().contains("stopping"));
        daemon.terminate();
    });
}

/// Asserts that a stop cancels an endless call: the caller gets `CANCELLED`, and the audit log has its usage.
fn assert_stop_cancels_call(settings: &str, stop: impl FnOnce(&Daemon)) {
    let mut daemon = Daemon::start(PROGRAM, settings);
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let running = session.start_dozing("c1");
    stop(&daemon);
    let answer = running.reply().expect(200).json();
    assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    let row = session.audit_row(&daemon.operator(), "c1");
    assert_eq!((&row["status"], &row["outcome"]["executed"]), (&json!("cancelled"), &json!("yes")), "{row}");
}

/// On a full disk a call that cannot be recorded does not run, and no partial file remains.
#[test]
#[cfg_attr(not(has = "mount"), ignore = "needs permission to mount a file system")]
fn a_full_disk_refuses_and_leaves_nothing_partial() {
    // Large enough for the compiled_code code of all plugins, before and after a change. `free` must give back a whole
    // segment.
    let disk = SmallDisk::mount("512m");
    let settings = "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144".to_owned();
    let data = disk.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let options = Options { settings, data: Some(data), ..Options::default() };
    let mut daemon = Daemon::start_with(PROGRAM, options);
    let operator = daemon.operator();
    let session = daemon.session_within("acme/bot", &json!({}));
    let call = || session.call("arithmetic/evaluate", json!({"expression": "1+1"}));
    assert_eq!(call().status(), "ok");
    daemon.anonymous().get("/readyz").expect(200);
    disk.fill();
    let names_the_disk = |reply: Reply| {
        let problem = reply.expect_refusal(503, "UNAVAILABLE").json();
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("full")), "{problem}");
        assert!(problem["hint"].as_str().is_some_and(|hint| hint.starts_with("free space")), "{problem}");
    };
    // Open calls continue while the log has reserved space, but nothing new is stored.
    names_the_disk(daemon.anonymous().get("/readyz"));
    names_the_disk(operator.upload("late", &PluginFile::new("late").build()));
    operator.get("/v1/plugins/late").expect_refusal(404, "NOT_FOUND");
    let kept = fs::read_dir(daemon.data().join("components")).expect("a folder").count();
    assert_eq!(kept, 0, "a partial file remains");
    let file = || session.put_file("folder/late.txt", b"here");
    names_the_disk(file());
    let write =
        || session.call("files/write", json!({"path": "by_a_tool.txt", "content": "x".repeat(9_000)}));
    let refused = write().expect_error("UNAVAILABLE");
    assert!(refused.message().contains("the disk of the workspaces is full"), "{}", refused.0);
    names_the_disk(operator.make("/v1/orgs/late", &json!({})));
    for _ in 0..4 {
        assert_eq!(call().status(), "ok");
        names_the_disk(operator.get("/v1/audit"));
    }
    let refused = wait::until("the log to be full", || {
        let reply =
            session.call("arithmetic/evaluate", json!({"expression": format!("1+{}", "1".repeat(9_000))}));
        reply.error_type().is_some_and(|code| code != "INVALID_ARGUMENTS").then_some(reply)
    });
    refused.expect_error("UNAVAILABLE");
    daemon.wait_for_log("that answers are lost", |line| line.contains("answers cannot be stored"));
    assert!(daemon.is_running());
    let anonymous = daemon.anonymous();
    anonymous.get("/healthz").expect(200);
    let unready = anonymous.get("/readyz").expect_refusal(503, "UNAVAILABLE");
    assert!(unready.text().contains("the audit log has no room for another call"), "{}", unready.text());
    disk.free();
    // Readiness returns without a call: a load balancer sends no call to an unready daemon.
    wait::until_true("readiness", || anonymous.get("/readyz").status == 200);
    wait::until_true("calls to run again", || call().status() == "ok");
    operator.load("late", &PluginFile::new("late").build());
    assert_eq!(session.call("late/answer", json!({})).output(), 1);
    file().expect(204);
    write().output();
    operator.make("/v1/orgs/late", &json!({})).expect(201);
    let newest = operator.get("/v1/audit?limit=1").expect(200).json();
    assert_eq!(
        newest["items"][0]["admin"]["action"], "organization.put",
        "the index has caught up: {newest}"
    );
    assert_eq!(operator.get("/v1/audit/verify").expect(200).json()["ok"], true);
}

/// A daemon that was stopped starts on a full disk: it answers, refuses changes, and says why.
#[test]
#[cfg_attr(not(has = "mount"), ignore = "needs permission to mount a file system")]
fn a_stopped_daemon_starts_on_a_full_disk() {
    let disk = SmallDisk::mount("512m");
    let settings = "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144".to_owned();
    let data = disk.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let options = Options { settings, data: Some(data), ..Options::default() };
    let mut daemon = Daemon::start_with(PROGRAM, options.clone());
    let session = daemon.session_within("acme/bot", &json!({}));
    let path = session.path("/calls");
    assert_eq!(session.call("arithmetic/evaluate", json!({"expression": "1+1"})).status(), "ok");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    disk.fill();
    for round in 0..2 {
        daemon = Daemon::start_with(PROGRAM, options.clone());
        daemon.wait_for_log("that it is read-only", |line| {
            line.contains("the disk of the data folder is full")
        });
        let operator = daemon.operator();
        operator.get("/v1/orgs/acme").expect(200);
        // What little room the files of the store still have is used up first.
        let mut made =
            (0..10_000).map(|number| operator.make(&format!("/v1/orgs/late-{round}-{number}"), &json!({})));
        let refused = made.find(|reply| reply.status != 201).expect("a refusal");
        let refused = refused.expect_refusal(503, "UNAVAILABLE");
        assert!(refused.text().contains("free space"), "{}", refused.text());
        operator.get("/v1/orgs/acme").expect(200);
        daemon.terminate();
        assert!(daemon.wait_for_exit().success());
    }
    disk.free();
    daemon = Daemon::start_with(PROGRAM, options);
    let operator = daemon.operator();
    operator.make("/v1/orgs/late", &json!({})).expect(201);
    let call =
        json!({"calls": [{"id": "c9", "tool": "arithmetic/evaluate", "arguments": {"expression": "6*7"}}]});
    let answer = operator.post(&path, &call).expect(200).json();
    assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
}
