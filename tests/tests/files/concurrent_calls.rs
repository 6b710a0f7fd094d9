//! Concurrent calls on the files of one session: every change takes effect (T4).

use super::*;

/// Posts calls in one request, and returns their replies.
fn post_together(session: &Session, tool: &str, arguments: impl Iterator<Item = Value>) -> Vec<CallReply> {
    let calls: Vec<_> = arguments.map(|arguments| json!({"tool": tool, "arguments": arguments})).collect();
    let answer = session.post(&json!({"calls": calls})).expect(200).json();
    answer["results"].as_array().expect("results").iter().cloned().map(CallReply).collect()
}

#[test]
fn t4_all_edits_of_one_file_in_one_request_take_effect() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let numbers = || 0..12;
        session
            .put_file("list.txt", numbers().map(|n| format!("<{n}>\n")).collect::<String>().as_bytes())
            .expect(204);
        let edits = numbers()
            .map(|n| json!({"path": "list.txt", "old": format!("<{n}>"), "new": format!("done {n}")}));
        for reply in post_together(&session, "files/edit", edits) {
            reply.output();
        }
        let done: String = numbers().map(|n| format!("done {n}\n")).collect();
        assert_eq!(session.get_file("list.txt").expect(200).text(), done);

        let lines = numbers().map(|n| json!({"path": "log.txt", "content": format!("line {n}\n")}));
        for reply in post_together(&session, "files/append", lines) {
            reply.output();
        }
        let log = session.get_file("log.txt").expect(200).text();
        let mut log: Vec<_> = log.lines().collect();
        let mut wanted: Vec<_> = numbers().map(|n| format!("line {n}")).collect();
        log.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(log, wanted);

        for number in numbers() {
            session.put_file(&format!("from/{number}"), b"x").expect(204);
        }
        let moves = numbers().map(|n| json!({"from": format!("from/{n}"), "to": "taken"}));
        let moved = post_together(&session, "files/move", moves);
        assert_eq!(moved.iter().filter(|reply| reply.status() == "ok").count(), 1);
    });
}

#[test]
fn t4_a_call_that_may_change_files_waits_for_another_and_a_read_does_not() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let first = json!({"path": "/workspace/begun", "until": "/workspace/go"});
        let first = session.start("staying", "fs-attacker/stay", first);
        wait::until_true("the call to have begun", || session.get_file("begun").status == 200);
        let write = |id, path| session.start(id, "files/write", json!({"path": path, "content": "x"}));
        let (cancelled, waiting) = (write("cancelled", "no"), write("waiting", "yes"));
        session.wait_until_running("cancelled");
        session.wait_until_running("waiting");
        assert!(session.call("files/read", json!({"path": "begun"})).status() == "ok");
        session.cancel("cancelled").expect(204);
        let reply = CallReply(cancelled.reply().expect(200).json()["results"][0].clone());
        assert_eq!(reply.expect_error("CANCELLED").0["executed"], "no");
        for (id, file) in [("staying", "go"), ("waiting", "no"), ("waiting", "yes")] {
            assert_eq!(session.get_call(id).status(), "running");
            session.get_file(file).expect_refusal(404, "NOT_FOUND");
        }
        // Another session has other files.
        fixture.session().call("files/write", json!({"path": "mine", "content": "x"})).output();
        session.put_file("go", b"").expect(204);
        for pending in [first, waiting] {
            let answer = pending.reply().expect(200).json();
            assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
        }
        session.get_file("yes").expect(200);
        session.get_file("no").expect_refusal(404, "NOT_FOUND");
    });
}

/// A call that waited for files is decided again afterwards, and holds no slot while it waits.
#[test]
fn t4_a_call_that_waits_for_files_is_decided_afterwards_and_holds_no_slot() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 2\n");
    let operator = daemon.operator();
    operator.load("fs-attacker", guests::FS_ATTACKER);
    let session = daemon.session_within("acme/bot", &json!({}));
    let other = Session { client: operator.clone(), id: operator.open_session("acme/bot").id };
    let first = json!({"path": "/workspace/begun", "until": "/workspace/go"});
    let first = session.start("staying", "fs-attacker/stay", first);
    wait::until_true("the call to have begun", || session.get_file("begun").status == 200);
    let write = |id, path| session.start(id, "files/write", json!({"path": path, "content": "x"}));
    let waiting = [("w1", write("w1", "yes")), ("w2", write("w2", "yes"))];
    let disabled = session.start("off", "files/append", json!({"path": "no", "content": "x"}));
    for id in ["w1", "w2", "off"] {
        session.wait_until_running(id);
    }
    // One of two slots is free while calls wait for files.
    other.call("files/write", json!({"path": "mine", "content": "x"})).output();
    // A refused call does not wait.
    session.call("files/write", json!({"path": 7})).expect_error("INVALID_ARGUMENTS");
    session.set_disabled("call_files_append", true).expect(204);
    session.put_file("go", b"").expect(204);
    let result = |pending: toolgate_tests::client::Pending| {
        CallReply(pending.reply().expect(200).json()["results"][0].clone())
    };
    assert_eq!(result(first).status(), "ok");
    for (id, pending) in waiting {
        assert_eq!(result(pending).status(), "ok", "{id}");
    }
    result(disabled).expect_error("TOOL_DISABLED");
    session.get_file("no").expect_refusal(404, "NOT_FOUND");
}
