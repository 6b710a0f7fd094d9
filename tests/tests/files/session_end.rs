//! Workspaces of sessions that end, expire or resume.

use super::*;
use toolgate_tests::events::Stream;
use toolgate_tests::wait;

#[test]
fn ending_a_session_closes_its_files() {
    with_fixture(|fixture| {
        let leak_check = LeakCheck::start(&fixture.daemon);
        for _ in 0..5 {
            let session = fixture.session();
            session.call("fs-attacker/open_many", json!({"path": "/workspace/a", "count": 20})).output();
            session.client.delete(&session.path("")).expect(204);
        }
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn a_workspace_survives_a_restart() {
    let daemon = Daemon::start(PROGRAM, "");
    let session = daemon.session_within("acme/bot", &json!({}));
    session.put_file("a.txt", b"still here").expect(204);
    let daemon = daemon.crash_and_restart();
    let session = Session { client: daemon.operator(), id: session.id };
    assert_eq!(session.get_file("a.txt").expect(200).text(), "still here");
    assert_eq!(session.call("files/read", json!({"path": "a.txt"})).status(), "ok");
}

/// O3: a disconnected call is recorded like one whose client waited.
#[test]
fn o3_file_changes_of_a_cancelled_call_are_recorded() {
    with_fixture(|fixture| {
        let (session, operator) = (fixture.session(), fixture.daemon.operator());
        let mut events = Stream::open(&session.client, &session.path("/events"));
        for (id, disconnects) in [("c1", false), ("c2", true)] {
            let file = format!("{id}.txt");
            let running = session.start_cancellable(
                id,
                "fs-attacker/keep_workspace_handles",
                json!({"count": 1, "path": file}),
            );
            // The file is visible before the host operation has returned.
            let event = events.find(|(name, event)| name == "progress" && event["call"] == id);
            assert!(event.is_some() && session.get_file(&file).status == 200);
            if disconnects {
                running.hang_up();
            } else {
                session.cancel(id).expect(204);
                running.reply().expect(200);
            }
            let row = wait::until("the outcome", || {
                let row = session.audit_row(&operator, id);
                row["outcome"].is_object().then_some(row)
            });
            assert_eq!(
                (&row["status"], &row["outcome"]["executed"]),
                (&json!("cancelled"), &json!("yes")),
                "{row}"
            );
            let effects = operator.audit(&format!("kind=effect&session={}", session.id));
            let done = effects.iter().filter(|effect| effect["of"] == row["sequence"]);
            let done: Vec<_> = done.map(|effect| effect["effect"].to_string()).collect();
            assert!(done.len() == 1 && done[0].contains(&file), "{effects:?}");
        }
    });
}

/// Files created during the removal would keep the folder.
#[test]
fn a_session_that_ends_during_writes_leaves_no_files() {
    with_fixture(|fixture| {
        for round in 0..10 {
            let session = fixture.session();
            let leak_check = LeakCheck::start(&fixture.daemon);
            let id = format!("c{round}");
            let making =
                session.start(&id, "fs-attacker/churn", json!({"path": "/workspace/a", "rounds": 100_000}));
            wait::until_true("a file", || {
                fs::read_dir(fixture.folder(&session)).is_ok_and(|mut entries| entries.next().is_some())
            });
            session.client.delete(&session.path("")).expect(204);
            assert!(!fixture.folder(&session).exists(), "round {round}");
            let reply = CallReply(making.reply().expect(200).json()["results"][0].clone());
            reply.expect_error("CANCELLED");
            let row = session.audit_row(&fixture.daemon.operator(), &id);
            assert_eq!(row["status"], "cancelled", "{row}");
            leak_check.assert_none(&mut fixture.daemon);
        }
        fixture.assert_canaries_intact();
    });
}

#[test]
fn an_expired_session_runs_no_call_and_shows_no_file() {
    let mut daemon = Daemon::start(PROGRAM, "[sessions]\nidle_seconds = 2");
    let operator = daemon.operator();
    operator.load("fs-attacker", guests::FS_ATTACKER);
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    let read = |id: &str| {
        let arguments = json!({"path": "/workspace/a.txt"});
        json!({"calls": [{"id": id, "tool": "fs-attacker/read", "arguments": arguments}]})
    };
    // A new session, which shows no file, with a text that it wrote and read. On a busy machine the session may expire
    // before that, and another one is opened.
    let session_with = |text: &str| {
        wait::until("a session that reads its file before it expires", || {
            let session = operator.open_session("acme/bot");
            let before = session.get_file("a.txt");
            let written = session.put_file("a.txt", text.as_bytes());
            let answer = session.post(&read("c1"));
            if [&before, &written, &answer].into_iter().any(|reply| reply.status == 410) {
                return None;
            }
            before.expect_refusal(404, "NOT_FOUND");
            written.expect(204);
            assert_eq!(answer.expect(200).json()["results"][0]["output"], text);
            Some(session)
        })
    };
    let session = session_with("mine");
    wait::until_true("the session to expire", || session.client.get(&session.path("")).status == 410);
    let call = read("c2");
    let leak_check = LeakCheck::start(&daemon);
    session.post(&call).expect_refusal(410, "EXPIRED");
    for reply in [
        session.get_file("a.txt"),
        session.put_file("a.txt", b"other"),
        session.client.delete(&session.path("/files/a.txt")),
        session.client.get(&session.path("/files")),
        session.client.get(&session.path("/tools")),
        session.client.get(&session.path("/calls/c1")),
    ] {
        reply.expect_refusal(410, "EXPIRED");
    }
    // Requests do not revive the session, and the refused call has no record.
    session.post(&call).expect_refusal(410, "EXPIRED");
    assert!(operator.audit(&format!("kind=call&session={}&call=c2", session.id)).is_empty());
    leak_check.assert_none(&mut daemon);
    session_with("next");
}
