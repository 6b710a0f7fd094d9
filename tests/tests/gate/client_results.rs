//! Calls that the client finishes (T3), with the built-in tool `user/ask`.

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

fn supervised_document() -> Value {
    json!({"enabled": ["user/ask", "pay/*"], "autonomy": "supervised"})
}

#[test]
fn t3_a_client_calls_result_is_validated_and_recorded() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let answer = agent.ask("c1");
        assert_eq!(answer["next"], "client", "{answer}");
        let prepared = &answer["results"][0];
        assert_eq!((&prepared["status"], &prepared["executed"]), (&json!("client_required"), &json!("yes")));
        assert_eq!(prepared["payload"], json!({"question": "Which day?", "choices": ["Monday"]}));
        assert!(prepared["expires_at"].is_u64());
        // Repeating the call returns the same payload without preparing it again.
        assert_eq!(agent.ask("c1")["results"][0], *prepared);
        assert_eq!(agent.session.get_result("c1").0, *prepared);
        // A result that breaks the schema is refused, and the call stays open.
        let unfit = agent
            .post_result("c1", json!({"status": "ok", "output": {"anser": "x"}}))
            .expect_refusal(422, "INVALID_OUTPUT");
        assert!(unfit.text().contains("answer"), "{}", unfit.text());
        let result = json!({"status": "ok", "output": {"answer": "Monday"}});
        let ended = agent.post_result("c1", result.clone()).expect(200).json();
        assert_eq!((&ended["status"], &ended["output"]), (&json!("ok"), &json!({"answer": "Monday"})));
        assert_eq!(ended["usage"], prepared["usage"], "the usage of the preparation");
        assert_ne!(ended["usage"]["fuel"], 0);
        assert!(ended["text"].as_str().is_some_and(|text| text.contains("Monday")), "{ended}");
        // Repeating the result returns the same reply, another result conflicts, and a read shows the end.
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
fn t3_an_error_from_the_client_fails_the_call() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
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

/// The result is recorded or not: a disconnect leaves no state in between.
#[test]
fn t3_a_disconnect_while_posting_a_result_leaves_the_call_ended_or_open() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
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
fn t3_an_invalid_result_is_refused_and_one_for_another_call_conflicts() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        agent.ask("c1");
        for invalid in [
            json!({"status": "ok"}),
            json!({"status": "error"}),
            json!({"status": "ok", "output": {}, "message": "both"}),
            json!({"status": "fine", "output": {}}),
            json!({"status": "ok", "outptu": {}}),
        ] {
            agent.post_result("c1", invalid).expect_refusal(400, "INVALID_REQUEST");
        }
        let ok = json!({"status": "ok", "output": {"answer": "x"}});
        agent.post_result("nothing", ok.clone()).expect_refusal(404, "NOT_FOUND");
        agent.session.call_as("done", "pay/quote", json!({"to": "bob", "amount": 1}));
        agent.post_result("done", ok.clone()).expect_refusal(409, "CONFLICT");
        let other_agent = fixture.agent(&supervised_document());
        let path = agent.session.path("/calls/c1/result");
        other_agent.session.client.post(&path, &ok).expect_refusal(404, "NOT_FOUND");
        agent.post_result("c1", ok).expect(200);
    });
}

/// T4: approvals come before clients, and clients before the model.
#[test]
fn t4_a_mixed_request_names_the_next_step() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
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
fn t3_a_late_result_is_refused_and_the_call_has_ended() {
    let daemon = Daemon::start(crate::PROGRAM, "[calls]\nclient_result_seconds = 1");
    let session = daemon.session_within("acme/bot", &json!({}));
    let prepared = session.call_as("c1", "user/ask", json!({"question": "Which?"}));
    assert_eq!(prepared.status(), "client_required");
    toolgate_tests::wait::until_true("the call to expire", || {
        session.get_call("c1").error_type() == Some("EXPIRED")
    });
    let path = session.path("/calls/c1/result");
    let late = json!({"status": "ok", "output": {"answer": "x"}});
    session.client.post(&path, &late).expect_refusal(410, "EXPIRED");
    // The same if the post is the first to notice the expiry.
    session.call_as("c2", "user/ask", json!({"question": "Which?"}));
    let path = session.path("/calls/c2/result");
    toolgate_tests::wait::until("the result to be too late", || {
        let unfit = session.client.post(&path, &json!({"status": "ok", "output": 1}));
        (unfit.status != 422).then(|| unfit.expect_refusal(410, "EXPIRED"))
    });
    session.client.post(&path, &late).expect_refusal(410, "EXPIRED");
    assert_eq!(session.get_call("c2").error_type(), Some("EXPIRED"));
}

/// Pending client calls are held in memory, so their number is limited.
#[test]
fn t3_the_number_of_pending_client_calls_is_limited() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let ask = |count: usize| -> Vec<String> {
            let calls: Vec<Value> = (0..count)
                .map(|_| json!({"tool": "user/ask", "arguments": {"question": "Which?"}}))
                .collect();
            let replies = agent.session.calls(&calls);
            replies.iter().map(|reply| reply.error_type().unwrap_or(reply.status()).to_owned()).collect()
        };
        assert!(ask(32).iter().all(|status| status == "client_required"));
        assert_eq!(ask(1), ["QUOTA_EXCEEDED"]);
        let query = format!("kind=call&session={}&status=client_required&limit=1", agent.session.id);
        let id = agent.owner.audit(&query)[0]["call"]["call"].as_str().expect("a call").to_owned();
        agent.post_result(&id, json!({"status": "error", "message": "no"})).expect(200);
        assert_eq!(ask(1), ["client_required"]);
    });
}

/// G18: the note that an approver changed the arguments stays to the end of the call.
#[test]
fn g18_a_clients_result_keeps_the_note_of_changed_arguments() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["user/ask"], "require_approval_for": ["user/ask"]}));
        let waiting = agent.ask("c1");
        let approval = waiting["results"][0]["approval"]["id"].as_str().expect("an approval").to_owned();
        let instead = json!({"question": "Which week?"});
        agent.decide(&approval, json!({"decision": "approve", "arguments_instead": instead})).expect(200);
        assert_eq!(agent.ask("c1")["results"][0]["payload"]["question"], instead["question"]);
        let ended = agent.post_result("c1", json!({"status": "ok", "output": {"answer": "23"}})).expect(200);
        let ended = ended.json();
        let note = ended["content"][0]["text"].as_str().unwrap_or_default();
        assert!(
            note.contains("The approver changed the arguments") && note.contains("Which week?"),
            "{ended}"
        );
        assert_eq!(ended["output"], json!({"answer": "23"}));
    });
}
