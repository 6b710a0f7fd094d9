//! Calls that end before they are done: cancelled by id, by hanging up, with their token or their session (R6).

use super::*;

#[test]
fn r6_a_call_is_cancelled_by_its_id() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.call("hostile/echo", json!({"text": "warm"}));
        let leak_check = LeakCheck::start(&fixture.daemon);
        let running = session.start_dozing("c1");
        session.cancel("c1").expect(204);
        let answer = running.reply().expect(200).json();
        assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
        assert_cancelled(fixture, &session, "c1");
        session.cancel("c1").expect(204);
        session.cancel("never").expect_refusal(404, "NOT_FOUND");
        // A cancelled call is not run again.
        session.call_as("c1", "hostile/doze", json!({})).expect_error("CANCELLED");
        leak_check.assert_none(&mut fixture.daemon);
    });
}

#[test]
fn r6_a_call_is_cancelled_by_hanging_up_where_the_request_asks_for_it() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let mut disconnect = |id: &str, running: Pending| {
            let leak_check = LeakCheck::start(&fixture.daemon);
            running.hang_up();
            wait::until_true("the call to end", || session.get_call(id).status() != "running");
            leak_check.assert_none(&mut fixture.daemon);
        };
        disconnect("c1", session.start_dozing("c1"));
        for (id, tool) in [("c2", "hostile/spin_in_host"), ("c3", "hostile/spin")] {
            let running = session.start_cancellable(id, tool, json!({}));
            session.wait_until_running(id);
            disconnect(id, running);
        }
        assert_cancelled(fixture, &session, "c1");
    });
}

#[test]
fn r6_a_call_with_an_id_goes_on_when_its_caller_hangs_up() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let rest = |ms: u64| json!({"ms": ms});
        let running = session.start("c1", "hostile/rest", rest(300));
        session.wait_until_running("c1");
        running.hang_up();
        let message = json!({"openai": {"tool_calls": [
            {"id": "p1", "type": "function", "function": {"name": "call_hostile_rest", "arguments": rest(301).to_string()}},
        ]}});
        let running = session.start_post(&message);
        session.wait_until_running("p1");
        running.hang_up();
        for (id, tool, ms) in [("c1", "hostile/rest", 300), ("p1", "call_hostile_rest", 301)] {
            wait::until_true("the call to end", || session.get_call(id).status() != "running");
            let again = session.call_as(id, tool, rest(ms));
            assert_eq!(
                (again.0["output"].as_u64(), &again.0["replayed"]),
                (Some(ms), &json!(true)),
                "{}",
                again.0
            );
        }
    });
}

/// A caller that gave no id cannot ask for the outcome.
#[test]
fn r6_a_call_without_an_id_ends_when_its_caller_hangs_up() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let mut events = Stream::open(&session.client, &session.path("/events"));
        let running = session.start_post(&json!({"calls": [{"tool": "hostile/doze"}]}));
        let (_, began) = events.find(|(name, _)| name == "progress").expect("an event");
        running.hang_up();
        let id = began["call"].as_str().expect("an id");
        wait::until_true("the call to end", || session.get_call(id).status() != "running");
        assert_eq!(session.get_call(id).error_type(), Some("CANCELLED"));
    });
}

/// Revoking a token cancels the calls that it started. Other calls of the session continue.
#[test]
fn r6_the_calls_of_a_revoked_token_are_cancelled() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let operator = fixture.daemon.operator();
        let made = operator
            .post("/v1/tokens", &json!({"role": "orchestrator", "organization": "acme"}))
            .expect(201)
            .json();
        let theirs = Session {
            client: Client::new(fixture.daemon.address, made["token"].as_str()),
            ..session.clone()
        };
        let (running, other) = (theirs.start_dozing("c1"), session.start_dozing("c2"));
        operator.delete(&format!("/v1/tokens/{}", made["id"].as_str().expect("an id"))).expect(204);
        let answer = running.reply().expect(200).json();
        assert_eq!(answer["results"][0]["error"]["error_type"], "CANCELLED", "{answer}");
        assert_cancelled(fixture, &session, "c1");
        assert_eq!(session.get_call("c2").status(), "running");
        session.cancel("c2").expect(204);
        other.reply().expect(200);
    });
}

/// Asserts that the audit log and the call's result say `cancelled`, with the same usage.
fn assert_cancelled(fixture: &Fixture, session: &Session, id: &str) {
    let row = wait::until("the outcome", || {
        let row = session.audit_row(&fixture.daemon.operator(), id);
        row["outcome"].is_object().then_some(row)
    });
    assert_eq!(row["status"], "cancelled", "{row}");
    let outcome = &row["outcome"];
    assert_eq!((&outcome["error_type"], &outcome["executed"]), (&json!("CANCELLED"), &json!("yes")), "{row}");
    assert!(outcome["usage"]["fuel"].as_u64() > Some(0), "{row}");
    let is_open = session.client.get(&session.path("")).status == 200;
    if is_open {
        let known = session.get_call(id).0;
        assert_eq!((&known["executed"], &known["usage"]["fuel"]), (&json!("yes"), &outcome["usage"]["fuel"]));
        assert_eq!(known["tool"], row["call"]["tool"], "{known}");
    }
}

#[test]
fn ending_a_session_cancels_its_calls_and_deletes_its_files() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("a.txt", b"x").expect(204);
        let folder = fixture.daemon.data().join("workspaces").join(&session.id);
        assert!(folder.is_dir());
        let running = session.start_dozing("c1");
        session.client.delete(&session.path("")).expect(204);
        running.reply().expect(200);
        session.client.get(&session.path("")).expect_refusal(410, "EXPIRED");
        session.post(&json!({"calls": [{"tool": "hostile/count"}]})).expect_refusal(410, "EXPIRED");
        assert!(!folder.exists());
        assert_cancelled(fixture, &session, "c1");
    });
}
