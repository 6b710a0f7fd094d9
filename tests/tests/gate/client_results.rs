//! Tools that end at the client (T3), with the built-in example `user/ask`.

use toolgate_tests::{Daemon, Value, json};

use crate::{Agent, with_fixture};

impl Agent {
    fn ask(&self, id: &str) -> Value {
        let call = json!({"id": id, "tool": "call_user_ask", "arguments": {"question": "Which day?", "choices": ["Monday"]}});
        self.session.post(&json!({"calls": [call]})).expect(200).json()
    }

    fn post_result(&self, id: &str, result: Value) -> toolgate_tests::Reply {
        self.session.client.post(&self.session.path(&format!("/calls/{id}/result")), &result)
    }
}

fn asking() -> Value {
    json!({"enabled": ["user/ask", "pay/*"], "autonomy": "supervised"})
}

#[test]
fn t3_a_prepared_call_is_handed_to_the_client_and_its_result_is_checked_and_recorded() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        let answer = agent.ask("c1");
        assert_eq!(answer["next"], "client", "{answer}");
        let handed = &answer["results"][0];
        assert_eq!((&handed["status"], &handed["executed"]), (&json!("client_required"), &json!("yes")));
        assert_eq!(handed["payload"], json!({"question": "Which day?", "choices": ["Monday"]}));
        assert!(handed["expires_at"].is_u64());
        // Asked again, it is handed out again and prepared once.
        assert_eq!(agent.ask("c1")["results"][0], *handed);
        assert_eq!(agent.session.get_call("c1").0, *handed);
        // What breaks the schema is refused, and the call stays open.
        let unfit = agent
            .post_result("c1", json!({"status": "ok", "output": {"anser": "x"}}))
            .expect_refusal(422, "INVALID_OUTPUT");
        assert!(unfit.text().contains("answer"), "{}", unfit.text());
        let result = json!({"status": "ok", "output": {"answer": "Monday"}});
        let ended = agent.post_result("c1", result.clone()).expect(200).json();
        assert_eq!((&ended["status"], &ended["output"]), (&json!("ok"), &json!({"answer": "Monday"})));
        assert_eq!(ended["usage"], handed["usage"], "what preparing it took");
        assert_ne!(ended["usage"]["fuel"], 0);
        assert!(ended["text"].as_str().is_some_and(|text| text.contains("Monday")), "{ended}");
        // The same again is answered the same, another is a conflict, and polling shows the end.
        assert_eq!(agent.post_result("c1", result).expect(200).json(), ended);
        agent
            .post_result("c1", json!({"status": "ok", "output": {"answer": "Friday"}}))
            .expect_refusal(409, "CONFLICT");
        agent.post_result("c1", json!({"status": "error", "message": "no"})).expect_refusal(409, "CONFLICT");
        assert_eq!(agent.session.get_call("c1").0, ended);
        let rows = fixture.operator.audit(&format!("kind=call&session={}&call=c1", agent.session.id));
        let statuses: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
        assert_eq!(statuses, ["ok", "client_required"]);
        assert_eq!(rows[0]["call"]["reason"]["rule"], "client_result");
    });
}

#[test]
fn t3_a_failure_that_the_client_posts_is_the_calls_failure() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        agent.ask("c1");
        let ended = agent
            .post_result("c1", json!({"status": "error", "message": "the user walked away"}))
            .expect(200)
            .json();
        assert_eq!(ended["error"]["error_type"], "TOOL_FAILED");
        assert!(
            ended["error"]["message"].as_str().is_some_and(|text| text.contains("walked away")),
            "{ended}"
        );
    });
}

/// Whoever hangs up has posted the result or has not: the call is never left between the two.
#[test]
fn t3_a_client_that_hangs_up_while_its_result_is_recorded_leaves_the_call_ended_or_open() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        let result = json!({"status": "ok", "output": {"answer": "Monday"}});
        let body = result.to_string();
        for number in 0..20 {
            let id = format!("c{number}");
            agent.ask(&id);
            let path = agent.session.path(&format!("/calls/{id}/result"));
            let headers = [("Content-Type", "application/json")];
            agent.session.client.start("POST", &path, &headers, body.as_bytes()).hang_up();
            let ended =
                toolgate_tests::wait::until("the result to be recorded, or to be taken again", || {
                    let again = agent.post_result(&id, result.clone());
                    (again.status == 200).then(|| again.json())
                });
            assert_eq!((&ended["status"], &agent.session.get_call(&id).0), (&json!("ok"), &ended));
            let rows = fixture.operator.audit(&format!("kind=call&session={}&call={id}", agent.session.id));
            assert_eq!(rows.iter().filter(|row| row["status"] == "ok").count(), 1, "{rows:?}");
        }
    });
}

#[test]
fn t3_an_unsound_result_is_refused_and_one_for_another_call_conflicts() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        agent.ask("c1");
        for unsound in [
            json!({"status": "ok"}),
            json!({"status": "error"}),
            json!({"status": "ok", "output": {}, "message": "both"}),
            json!({"status": "fine", "output": {}}),
            json!({"status": "ok", "outptu": {}}),
        ] {
            agent.post_result("c1", unsound).expect_refusal(400, "INVALID_REQUEST");
        }
        let ok = json!({"status": "ok", "output": {"answer": "x"}});
        agent.post_result("nothing", ok.clone()).expect_refusal(404, "NOT_FOUND");
        agent.session.call_as("done", "pay/quote", json!({"to": "bob", "amount": 1}));
        agent.post_result("done", ok.clone()).expect_refusal(409, "CONFLICT");
        let stranger = fixture.agent(&asking());
        let path = agent.session.path("/calls/c1/result");
        stranger.session.client.post(&path, &ok).expect_refusal(404, "NOT_FOUND");
        agent.post_result("c1", ok).expect(200);
    });
}

/// T4: a person before a client before the model.
#[test]
fn t4_a_mixed_request_says_what_comes_first() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        let calls = |tools: &[&str]| -> Vec<Value> {
            let arguments = |tool: &str| match tool {
                "user/ask" => json!({"question": "Which?"}),
                _ => json!({"to": "bob", "amount": 1}),
            };
            tools.iter().map(|tool| json!({"tool": tool, "arguments": arguments(tool)})).collect()
        };
        for (tools, next) in [
            (&["pay/quote", "pay/nothing"][..], "model"),
            (&["pay/quote", "user/ask"], "client"),
            (&["user/ask", "pay/send", "pay/quote"], "approval"),
        ] {
            let answer = agent.session.post(&json!({"calls": calls(tools)})).expect(200).json();
            assert_eq!(answer["next"], next, "{answer}");
        }
    });
}

#[test]
fn t3_a_result_that_comes_too_late_is_refused_and_the_call_has_ended() {
    let daemon = Daemon::start(crate::PROGRAM, "[calls]\nclient_result_seconds = 1");
    let session = daemon.session_within("acme/bot", &json!({}));
    let handed = session.call_as("c1", "user/ask", json!({"question": "Which?"}));
    assert_eq!(handed.status(), "client_required");
    toolgate_tests::wait::until("nobody to wait for the client", || {
        (session.get_call("c1").error_type() == Some("EXPIRED")).then_some(())
    });
    let path = session.path("/calls/c1/result");
    let late = json!({"status": "ok", "output": {"answer": "x"}});
    session.client.post(&path, &late).expect_refusal(410, "EXPIRED");
    // The same where the post is the first to notice.
    session.call_as("c2", "user/ask", json!({"question": "Which?"}));
    let path = session.path("/calls/c2/result");
    toolgate_tests::wait::until("the result to be too late", || {
        let unfit = session.client.post(&path, &json!({"status": "ok", "output": 1}));
        (unfit.status != 422).then(|| unfit.expect_refusal(410, "EXPIRED"))
    });
    session.client.post(&path, &late).expect_refusal(410, "EXPIRED");
    assert_eq!(session.get_call("c2").error_type(), Some("EXPIRED"));
}

/// What a client does not end is held, so there is an end to it.
#[test]
fn t3_a_client_that_ends_nothing_is_handed_no_more() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&asking());
        let ask = |count: usize| -> Vec<String> {
            let calls: Vec<Value> = (0..count)
                .map(|_| json!({"tool": "user/ask", "arguments": {"question": "Which?"}}))
                .collect();
            let replies = agent.session.calls(&calls);
            replies.iter().map(|reply| reply.error_type().unwrap_or(reply.status()).to_owned()).collect()
        };
        assert!(ask(32).iter().all(|status| status == "client_required"));
        assert_eq!(ask(1), ["QUOTA_EXCEEDED"]);
        agent.ask_more_after_one_has_ended();
    });
}

impl Agent {
    #[track_caller]
    fn ask_more_after_one_has_ended(&self) {
        let rows = self
            .owner
            .audit(&format!("kind=call&session={}&status=client_required&limit=1", self.session.id));
        let id = rows[0]["call"]["call"].as_str().expect("a call").to_owned();
        self.post_result(&id, json!({"status": "error", "message": "no"})).expect(200);
        assert_eq!(self.session.call("user/ask", json!({"question": "Which?"})).status(), "client_required");
    }
}
