//! Recorded answers and waiting client calls outlive a restart (R7, T3).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, Reply, Session, Value, guests, json};

use crate::{PROGRAM, start};

fn stop_and_restart(mut daemon: Daemon) -> Daemon {
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    daemon.crash_and_restart()
}

fn move_to(session: &Session, daemon: &Daemon) -> Session {
    Session { client: Client { address: daemon.address, ..session.client.clone() }, id: session.id.clone() }
}

fn answers_file(daemon: &Daemon, session: &Session) -> PathBuf {
    daemon.data().join("answers").join(&session.id)
}

/// Requests in several dialects, whose results are of every kind.
fn requests() -> Vec<Value> {
    let show = json!({"mime_type": "image/png"});
    let function = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    vec![
        json!({"calls": [
            {"id": "ok", "tool": "hostile/echo", "arguments": {"text": "<é> & 1e2"}},
            {"id": "failed", "tool": "hostile/fail", "arguments": {"message": "no such day"}},
            {"id": "refused", "tool": "hostile/echo", "arguments": {"text": 1}},
            {"id": "unknown", "tool": "hostile/nothing", "arguments": {}},
            {"id": "content", "tool": "hostile/show", "arguments": show},
        ]}),
        json!({"anthropic": [{"type": "tool_use", "id": "a1", "name": "call_hostile_show", "input": show}]}),
        json!({"openai": {"tool_calls": [function("spilled", "call_hostile_shout", json!({"bytes": 1 << 20}))]}}),
    ]
}

#[test]
fn r7_an_answer_outlives_a_restart_and_is_rendered_as_before() {
    let (daemon, session) = start();
    let post = |session: &Session| -> Vec<Value> {
        requests().iter().map(|request| session.post(request).expect(200).json()).collect()
    };
    post(&session);
    let replayed = post(&session);
    assert_eq!(replayed[0]["results"][0]["replayed"], true, "{}", replayed[0]);
    assert!(replayed[2].to_string().contains("/workspace/.results/"), "{}", replayed[2]);
    let read = session.get_call("content").0;
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    assert_eq!(post(&session), replayed);
    assert_eq!(session.get_call("content").0, read);
    // Another call with the id is still one.
    session.call_as("ok", "hostile/echo", json!({"text": "other"})).expect_error("CONFLICT");
    // The answers of this run are added to those of the earlier one.
    session.call_as("later", "hostile/echo", json!({"text": "later"})).output();
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    assert_eq!(session.post(&requests()[0]).expect(200).json(), replayed[0]);
    let later = session.call_as("later", "hostile/echo", json!({"text": "later"}));
    assert_eq!((later.output(), &later.0["replayed"]), (&json!("later"), &json!(true)));
}

#[test]
fn r7_after_a_kill_the_answer_is_there_or_has_expired_and_the_call_never_runs_again() {
    let (mut daemon, session) = start();
    let write = json!({"path": "a.txt", "content": "once"});
    let mut session = session;
    for round in 0..5 {
        let id = format!("c{round}");
        let first = session.call_as(&id, "files/write", write.clone());
        first.output();
        daemon = daemon.crash_and_restart();
        session = move_to(&session, &daemon);
        session.client.delete(&session.path("/files/a.txt")).expect(204);
        let again = session.call_as(&id, "files/write", write.clone());
        match again.error_type() {
            None => assert_eq!((again.output(), &again.0["replayed"]), (first.output(), &json!(true))),
            code => assert_eq!(code, Some("EXPIRED"), "{}", again.0),
        }
        session.get_file("a.txt").expect_refusal(404, "NOT_FOUND");
    }
}

/// The last answer of the file is damaged, torn, or replaced by that of another session.
#[test]
fn r7_a_damaged_or_foreign_answer_has_expired_and_others_are_there() {
    let (mut daemon, session) = start();
    let other = daemon.operator().open_session("acme/bot");
    let echo = |session: &Session, id: &str| session.call_as(id, "hostile/echo", json!({"text": id}));
    let damage: [fn(&mut Vec<u8>); 3] = [
        |bytes| *bytes.last_mut().expect("bytes") ^= 1,
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| {
            let end = bytes.len() - 8;
            bytes[end..].fill(0);
        },
    ];
    let (mut session, mut other) = (session, other);
    for (round, damage) in damage.into_iter().enumerate() {
        let [kept, lost] = ["kept", "lost"].map(|name| format!("{name}{round}"));
        echo(&session, &kept).output();
        echo(&session, &lost).output();
        echo(&other, &kept).output();
        daemon.terminate();
        assert!(daemon.wait_for_exit().success());
        let mut bytes = fs::read(answers_file(&daemon, &session)).expect("the stored answers");
        damage(&mut bytes);
        fs::write(answers_file(&daemon, &session), bytes).expect("written");
        daemon = daemon.crash_and_restart();
        (session, other) = (move_to(&session, &daemon), move_to(&other, &daemon));
        assert_eq!(echo(&session, &kept).output(), &json!(kept));
        let expired = echo(&session, &lost).expect_error("EXPIRED");
        assert!(expired.message().contains("has run"), "{}", expired.0);
        assert_eq!(echo(&other, &kept).output(), &json!(kept));
    }
    // A file that belongs to another session.
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    fs::copy(answers_file(&daemon, &session), answers_file(&daemon, &other)).expect("copied");
    daemon = daemon.crash_and_restart();
    let other = move_to(&other, &daemon);
    echo(&other, "kept0").expect_error("EXPIRED");
    echo(&other, "new").output();
    assert_eq!(echo(&move_to(&session, &daemon), "kept0").output(), "kept0");
    let daemon = stop_and_restart(daemon);
    let other = move_to(&other, &daemon);
    assert_eq!(echo(&other, "new").output(), "new");
}

#[test]
fn r7_a_session_takes_its_stored_answers_with_it() {
    let (daemon, session) = start();
    let kept = daemon.operator().open_session("acme/bot");
    for session in [&session, &kept] {
        session.call_as("c1", "hostile/echo", json!({"text": "x"})).output();
    }
    // A call that ends with its session makes no file.
    let running = session.start_dozing("c2");
    session.client.delete(&session.path("")).expect(204);
    running.reply();
    assert!(!answers_file(&daemon, &session).exists());
    // A kill between the end of a session and the removal leaves a file, which the next start removes.
    let orphan = daemon.data().join("answers").join(&session.id);
    fs::write(&orphan, "left").expect("written");
    let daemon = stop_and_restart(daemon);
    assert!(!orphan.exists());
    assert!(answers_file(&daemon, &kept).exists());
    assert_eq!(move_to(&kept, &daemon).call_as("c1", "hostile/echo", json!({"text": "x"})).output(), "x");
}

#[test]
fn r7_stored_answers_are_sealed() {
    let (daemon, session) = start();
    let hash = json!({"data": "nothing on disk has the hash of this"});
    let answer = session.call_as("c1", "codec/hash", hash.clone());
    let answer = answer.output().clone();
    let digest = answer["hash"].as_str().expect("a hash").to_owned();
    let daemon = stop_and_restart(daemon);
    assert!(answers_file(&daemon, &session).exists());
    let finds = |text: &str| find_in_folder(&daemon.data(), text);
    assert!(!finds(&digest), "the answer is readable on disk");
    assert!(finds("call_codec_hash") || finds("codec/hash"), "the audit log has the call");
    assert!(!finds("nothing on disk has the hash of this"), "the arguments are readable on disk");
    assert_eq!(move_to(&session, &daemon).call_as("c1", "codec/hash", hash).output(), &answer);
}

fn find_in_folder(folder: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rqaF", text]).arg(folder).status().expect("grep runs");
    match found.code() {
        Some(code @ (0 | 1)) => code == 0,
        code => panic!("grep ended with {code:?}"),
    }
}

/// The second run has the clock and the random numbers of the first, so its calls are the same.
#[test]
fn t13_a_script_that_waits_for_an_approval_goes_on_after_a_restart() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.load("scripted", guests::SCRIPTED);
    operator.make("/v1/plugins/scripted/grant", &json!({"calls": true})).expect(201);
    let enabled = ["scripted/run", "hostile/echo", "hostile/shout"];
    operator.make_agent("acme/bot", &json!({"enabled": enabled, "require_approval_for": ["hostile/shout"]}));
    let session = operator.open_session("acme/bot");
    let calls = json!({"calls": [
        ["hostile/echo", {"text": "at $now"}], ["hostile/shout", {"bytes": 3}], ["hostile/echo", {"text": "done"}],
    ]});
    let approval = session.call_as("c1", "scripted/run", calls.clone()).approval();
    let first = session.get_call("c1%20%231");
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    let owner =
        daemon.operator().with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
    owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
    let done = session.call_as("c1", "scripted/run", calls);
    let results = &done.output()["results"];
    assert_eq!((&results[0]["output"], &results[2]["output"]), (first.output(), &json!("done")), "{results}");
}

/// Answers of the oldest session give way, and never those of another organization.
#[test]
fn r7_stored_answers_are_bounded_by_organization() {
    let daemon = Daemon::start(PROGRAM, "[calls]\nrecorded_bytes_per_organization = 1_048_576");
    daemon.operator().load("hostile", guests::HOSTILE);
    let oldest = daemon.session_within("acme/bot", &json!({}));
    let newer = daemon.operator().open_session("acme/bot");
    let rival = daemon.session_within("rival/bot", &json!({}));
    let shout = |session: &Session, id: &str| session.call_as(id, "hostile/shout", json!({"bytes": 400_000}));
    for (session, id) in [(&rival, "c1"), (&oldest, "c1"), (&newer, "c1"), (&newer, "c2")] {
        shout(session, id).output();
    }
    let daemon = stop_and_restart(daemon);
    let [oldest, newer, rival] = [&oldest, &newer, &rival].map(|session| move_to(session, &daemon));
    shout(&oldest, "c1").expect_error("EXPIRED");
    for (session, id) in [(&newer, "c1"), (&newer, "c2"), (&rival, "c1")] {
        assert_eq!(shout(session, id).0["replayed"], true);
    }
}

/// The answers of one session fill more memory than it has for them, and are read from disk.
#[test]
fn r7_an_answer_that_memory_has_dropped_is_on_disk() {
    let (_daemon, session) = start();
    let shout = |id: &str| session.call_as(id, "hostile/shout", json!({"bytes": 1_000_000}));
    for number in 0..20 {
        shout(&format!("c{number}")).output();
    }
    for id in ["c0", "c19"] {
        let again = shout(id);
        assert_eq!(again.0["replayed"], true, "{}", again.message());
        assert_eq!(again.output().as_str().map(str::len), Some(1_000_000));
        assert_eq!(session.get_call(id).output(), again.output());
    }
}

fn ask(session: &Session, id: &str) -> Value {
    session.call_as(id, "user/ask", json!({"question": "Which?"})).0
}

fn post_result(session: &Session, id: &str, result: &Value) -> Reply {
    session.client.post(&session.path(&format!("/calls/{id}/result")), result)
}

#[test]
fn t3_a_waiting_client_call_survives_a_restart_and_ends_once() {
    let (daemon, session) = start();
    let asked = ask(&session, "c1");
    let result = json!({"status": "ok", "output": {"answer": "this one"}});
    ask(&session, "before");
    let before = post_result(&session, "before", &result).expect(200).json();
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    let mut events = Stream::open(&daemon.operator(), "/v1/events");
    assert_eq!((ask(&session, "c1"), session.get_result("c1").0), (asked.clone(), asked.clone()));
    post_result(&session, "c1", &json!({"status": "ok", "output": {"anser": 1}}))
        .expect_refusal(422, "INVALID_OUTPUT");
    let ended = post_result(&session, "c1", &result).expect(200).json();
    assert_eq!((&ended["status"], &ended["output"]["answer"]), (&json!("ok"), &json!("this one")), "{ended}");
    assert_eq!((&ended["usage"], &ended["plugin"]), (&asked["usage"], &asked["plugin"]));
    let (name, event) = events.next().expect("an event");
    assert_eq!((name.as_str(), &event["call"]), ("tool_result", &json!("c1")), "the call began before");
    let rows = daemon.operator().audit(&format!("kind=call&session={}&call=c1", session.id));
    let statuses: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
    assert_eq!(statuses, ["ok", "client_required"]);
    assert_eq!(rows[0]["call"]["plugin"], rows[1]["call"]["plugin"], "{rows:?}");
    // A result that ended its call before the restart or since is answered as before, and another one conflicts.
    for (id, ended) in [("c1", &ended), ("before", &before)] {
        assert_eq!(post_result(&session, id, &result).expect(200).json(), *ended);
        post_result(&session, id, &json!({"status": "error", "message": "no"}))
            .expect_refusal(409, "CONFLICT");
    }
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    assert_eq!(session.get_call("c1").0, ended);
    assert_eq!(post_result(&session, "c1", &result).expect(200).json(), ended);
    post_result(&session, "c3", &result).expect_refusal(404, "NOT_FOUND");
}

#[test]
fn t3_a_waiting_client_call_is_cancelled_or_ends_with_its_session_after_a_restart() {
    let (daemon, session) = start();
    let other = daemon.operator().open_session("acme/bot");
    ask(&session, "c1");
    ask(&other, "c2");
    let daemon = stop_and_restart(daemon);
    let [session, other] = [&session, &other].map(|session| move_to(session, &daemon));
    let mut events = Stream::open(&daemon.operator(), "/v1/events");
    session.cancel("c1").expect(204);
    session.get_call("c1").expect_error("CANCELLED");
    other.client.delete(&other.path("")).expect(204);
    for id in ["c1", "c2"] {
        let (_, event) = events.next().expect("an event");
        assert_eq!((&event["call"], &event["error_type"]), (&json!(id), &json!("CANCELLED")), "{event}");
    }
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    let cancelled = session.get_call("c1").expect_error("CANCELLED");
    assert_eq!(cancelled.0["executed"], "yes");
    let result = json!({"status": "ok", "output": {"answer": "late"}});
    let refused = post_result(&session, "c1", &result);
    assert!(matches!(refused.status, 409 | 410), "{}", refused.text());
}

#[test]
fn t3_a_client_call_that_expired_while_the_daemon_was_stopped_is_too_late() {
    let daemon = Daemon::start(PROGRAM, "[calls]\nclient_result_seconds = 1");
    let session = daemon.session_within("acme/bot", &json!({}));
    let expires_ms = ask(&session, "c1")["expires_at"].as_u64().expect("a time");
    let daemon = stop_and_restart(daemon);
    let session = move_to(&session, &daemon);
    toolgate_tests::wait::until_true("the call to expire", || {
        session.get_call("c1").error_type() == Some("EXPIRED")
    });
    assert!(expires_ms > 0);
    let result = json!({"status": "ok", "output": {"answer": "late"}});
    post_result(&session, "c1", &result).expect_refusal(410, "EXPIRED");
    ask(&session, "c1");
    session.get_call("c1").expect_error("EXPIRED");
}
