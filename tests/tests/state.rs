//! What the daemon remembers, whatever ends it: kill -9, a full disk, a second daemon, a wrong setting.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use toolgate_tests::daemon::{Options, run_to_end};
use toolgate_tests::disk::SmallDisk;
use toolgate_tests::events::Stream;
use toolgate_tests::{Daemon, PluginFile, Reply, Session, compiled, guests, json, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

fn started() -> (Daemon, Session) {
    let daemon = Daemon::start(PROGRAM, "");
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    (daemon, session)
}

#[test]
fn a_call_that_ran_when_the_daemon_died_is_unknown_and_not_run_again() {
    let (daemon, session) = started();
    let done = session.call_as("done", "hostile/echo", json!({"text": "x"}));
    assert_eq!(done.status(), "ok");
    let running = session.start("running", "hostile/doze", json!({}));
    // A search has the log synced, so the intent is on disk before the crash. The id is known a moment before it.
    wait::until("its intent", || {
        let query = format!("kind=call&status=running&session={}", session.id);
        (!daemon.operator().audit(&query).is_empty()).then_some(())
    });
    let daemon = daemon.crash_and_restart();
    drop(running);
    let operator = daemon.operator();
    let session = Session { client: operator.clone(), id: session.id };
    let look = session.get_call("running");
    assert_eq!(look.status(), "unknown", "{}", look.0);
    assert_eq!(look.error_type(), Some("UNKNOWN"));
    assert_eq!(look.0["executed"], "unknown");
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
        "it ran again: {}",
        again.0
    );
}

#[test]
fn r7_an_id_that_ran_before_a_crash_never_runs_again() {
    let (daemon, session) = started();
    let write = json!({"path": "a.txt", "content": "once"});
    assert_eq!(session.call_as("c1", "files/write", write.clone()).output()["created"], true);
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

/// One flipped byte in an old segment of the audit log, first under an index that knows the place, then without one.
#[test]
fn r7_an_id_whose_record_is_damaged_does_not_run_again() {
    let mut daemon = Daemon::start(PROGRAM, "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144");
    let session = daemon.session_within("acme/bot", &json!({}));
    let write = json!({"path": "a.txt", "content": "x".repeat(100_000)});
    for number in 0..25 {
        session.call_as(&format!("c{number}"), "files/write", write.clone()).output();
    }
    // The index is written behind the calls; a search waits for it. Had it not come to the place yet, it would be without.
    session.audit_row(&daemon.operator(), "c24");
    let folder = daemon.data().join("audit");
    let first = folder.join("00000001.segment");
    assert!(folder.join("00000003.segment").exists(), "the first is not the newest");
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
        session.call_as("c2", "files/write", write.clone()).expect_error("EXPIRED");
        let rows = operator.audit("limit=500");
        let damaged: Vec<_> = rows.iter().filter(|row| row["damaged"].is_object()).collect();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!((&damaged[0]["damaged"]["segment"], &damaged[0]["call"]), (&json!(1), &json!(null)));
        // Whose organization it may have been learns that something is missing, and not where in everybody's log.
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
}

#[test]
fn r7_a_cancelled_call_stays_cancelled_after_a_crash() {
    let (daemon, session) = started();
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
fn r7_a_call_that_waited_for_approval_stays_what_it_was_after_a_crash() {
    let (daemon, session) = started();
    let operator = daemon.operator();
    operator.make_agent("acme/careful", &json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let owner = json!({"role": "owner", "organization": "acme", "label": "owner"});
    let owner = operator.with_new_token(&owner);
    let session = Session { id: operator.open_session("acme/careful").id, ..session };
    let write = json!({"path": "a.txt", "content": "once"});
    let approval = session.call_as("cancelled", "files/write", write.clone()).0["approval"]["id"].clone();
    let approval = approval.as_str().expect("an approval").to_owned();
    owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
    session.cancel("cancelled").expect(204);
    let waits = json!({"path": "b.txt", "content": "later"});
    assert_eq!(session.call_as("waits", "files/write", waits.clone()).status(), "approval_required");
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    session.call_as("cancelled", "files/write", write.clone()).expect_error("CANCELLED");
    // Its id is of this call and of no other.
    session.call_as("waits", "files/write", write).expect_error("CONFLICT");
    assert_eq!(session.call_as("waits", "files/write", waits).status(), "approval_required");
}

#[test]
fn everything_that_was_acknowledged_is_there_after_a_crash() {
    let (daemon, session) = started();
    let operator = daemon.operator();
    let version =
        |answer: &str| PluginFile::new("kept").describing("version", json!(answer)).answering(answer).build();
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
    assert_eq!(daemon.operator_token(), token, "the first start's token stays the only one");
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
fn the_log_holds_against_being_killed_again_and_again() {
    let (mut daemon, session) = started();
    for round in 0..4 {
        let session = Session { client: daemon.operator(), id: session.id.clone() };
        let mut running = Vec::new();
        for at in 0..8 {
            running.push(session.start(&format!("r{round}-{at}"), "hostile/rest", json!({"ms": at * 10})));
        }
        // Known, whether it still runs or has ended: the kill meets each call at whatever it is at.
        let last = session.path(&format!("/calls/r{round}-7"));
        wait::until("the last call to be known", || (session.client.get(&last).status == 200).then_some(()));
        daemon = daemon.crash_and_restart();
    }
    let operator = daemon.operator();
    let verified = operator.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verified["ok"], true, "{verified}");
    let rows = operator.audit(&format!("kind=call&session={}&limit=100", session.id));
    for row in &rows {
        assert!(row["outcome"].is_object(), "an intent without an end: {row}");
        let status = row["status"].as_str().unwrap_or_default();
        assert!(matches!(status, "ok" | "unknown" | "cancelled"), "{row}");
    }
}

#[test]
fn a_folder_is_held_by_one_daemon() {
    let (daemon, session) = started();
    let data = daemon.data().display().to_string();
    let second =
        run_to_end(PROGRAM, &["serve", "--data", &data, "--listen", "127.0.0.1:0"], daemon.folder.path());
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(second.stderr.contains("is held by another daemon"), "{}", second.stderr);
    assert!(second.stderr.contains(&daemon.pid().to_string()), "{}", second.stderr);
    assert!(second.stderr.contains("--data"), "a hint: {}", second.stderr);
    // Nor with a folder of its own, where it is given the same store.
    let store = format!("sqlite:{data}/state.db");
    let own = daemon.folder.path().join("own").display().to_string();
    let third = ["serve", "--data", &own, "--store", &store, "--listen", "127.0.0.1:0"];
    let third = run_to_end(PROGRAM, &third, daemon.folder.path());
    assert_eq!(third.status.code(), Some(1), "{third:?}");
    let held = format!("state.db` is held by another daemon (process {})", daemon.pid());
    assert!(third.stderr.contains(&held) && third.stderr.contains("--store"), "{}", third.stderr);
    assert_eq!(session.call("hostile/echo", json!({"text": "x"})).output(), "x");
    // A crash leaves nothing to clear away.
    let daemon = daemon.crash_and_restart();
    daemon.anonymous().get("/readyz").expect(200);
}

#[test]
fn a_port_in_use_is_said() {
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
    assert!(!folder.path().join("toolgate-data").exists(), "nothing is made before the settings are sound");
    let ended = run_to_end(PROGRAM, &["serve", "--no-such-option"], folder.path());
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
}

#[test]
fn what_is_secret_is_private_on_disk() {
    let (daemon, _) = started();
    let mode =
        |path: std::path::PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(daemon.data()), 0o700);
    assert_eq!(mode(daemon.data().join("operator.token")), 0o600);
    assert_eq!(mode(daemon.data().join("keys").join("cache.key")) & 0o077, 0);
    // Only a hash of a token is stored.
    let token = daemon.operator_token();
    let secret = &token[token.len() - 20..];
    for file in ["state.db", "state.db-wal"] {
        let Ok(bytes) = fs::read(daemon.data().join(file)) else { continue };
        assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{file}");
    }
    assert!(!daemon.log_text().contains(secret));
}

#[test]
fn stopping_lets_a_running_call_end_and_takes_no_new_ones() {
    let (mut daemon, session) = started();
    let of_session = session.path("/events");
    let operator = daemon.operator();
    let streams =
        ["/v1/events", "/v1/orgs/acme/events", &of_session].map(|path| Stream::open(&operator, path));
    let running = session.start("c1", "hostile/rest", json!({"ms": 1500}));
    session.wait_until_running("c1");
    daemon.terminate();
    daemon.wait_for_log("that it stops", |line| line.contains("stopping"));
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

/// What is left to the client is lost with the daemon, and its answer is told so, whichever way one asks.
#[test]
fn t3_a_call_that_was_left_to_the_client_has_expired_after_a_restart() {
    let (mut daemon, session) = started();
    assert_eq!(session.call_as("c1", "user/ask", json!({"question": "Which?"})).status(), "client_required");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    assert_eq!(session.get_call("c1").error_type(), Some("EXPIRED"));
    let result = json!({"status": "ok", "output": {"answer": "this one"}});
    session.client.post(&session.path("/calls/c1/result"), &result).expect_refusal(410, "EXPIRED");
    session.client.post(&session.path("/calls/c2/result"), &result).expect_refusal(404, "NOT_FOUND");
}

#[test]
fn stopping_waits_no_longer_than_it_was_told() {
    ends_a_call("drain_seconds = 1", |daemon| daemon.terminate());
}

/// Whoever asks twice does not want to wait.
#[test]
fn a_second_signal_ends_the_wait() {
    ends_a_call("drain_seconds = 600", |daemon| {
        daemon.terminate();
        wait::until("it to stop", || daemon.log_text().contains("stopping").then_some(()));
        daemon.terminate();
    });
}

/// A stop ends a call that would run for ever: its caller is told, and it is recorded with what it did.
fn ends_a_call(settings: &str, stop: impl FnOnce(&Daemon)) {
    let mut daemon = Daemon::start(PROGRAM, settings);
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let running = session.start_dozing("c1");
    let began = std::time::Instant::now();
    stop(&daemon);
    let answer = running.reply().expect(200).json();
    assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
    assert!(daemon.wait_for_exit().success());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    let row = session.audit_row(&daemon.operator(), "c1");
    assert_eq!((&row["status"], &row["outcome"]["executed"]), (&json!("cancelled"), &json!("yes")), "{row}");
}

/// A disk that is full: what cannot be recorded does not run, what cannot be written is not half there.
#[test]
fn a_full_disk_refuses_and_leaves_nothing_half_done() {
    // With room for compiled code, that of plugins before they were changed included; what the filler gives back must hold a
    // segment.
    let Some(disk) = SmallDisk::mount("256m") else { return };
    let settings = "[audit]\nsegment_bytes = 1_048_576\nreserve_bytes = 262_144".to_owned();
    let data = disk.path().join("data");
    compiled_code::restore(Path::new(PROGRAM), &data).expect("compiled code is laid in");
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
    // Calls that are open go on for as long as the log has room, but nothing new can be written down.
    names_the_disk(daemon.anonymous().get("/readyz"));
    names_the_disk(operator.upload("late", &PluginFile::new("late").build()));
    operator.get("/v1/plugins/late").expect_refusal(404, "NOT_FOUND");
    let kept = fs::read_dir(daemon.data().join("components")).expect("a folder").count();
    assert_eq!(kept, 0, "nothing is half there");
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
    assert!(daemon.is_running());
    let stranger = daemon.anonymous();
    stranger.get("/healthz").expect(200);
    let unready = stranger.get("/readyz").expect_refusal(503, "UNAVAILABLE");
    assert!(unready.text().contains("the audit log has no room for another call"), "{}", unready.text());
    disk.make_room();
    // By itself: a load balancer that heeds it sends no call that could ask for the room.
    wait::until("it to take work again", || (stranger.get("/readyz").status == 200).then_some(()));
    wait::until("calls to run again", || (call().status() == "ok").then_some(()));
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
