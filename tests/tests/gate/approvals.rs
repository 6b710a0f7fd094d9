//! Approvals by a person (G11).

use std::sync::Barrier;

use toolgate_tests::events::Stream;
use toolgate_tests::{CallReply, Value, json};

use crate::{Agent, payments, with_fixture};

fn supervised_document() -> Value {
    json!({"enabled": ["pay/*"], "autonomy": "supervised"})
}

fn payment(amount: u64) -> Value {
    json!({"to": "bob", "amount": amount})
}

impl Agent {
    fn pay(&self, id: &str, arguments: Value) -> CallReply {
        self.session.call_as(id, "call_pay_send", arguments)
    }

    /// Makes a call that needs approval, and returns the approval's id.
    #[track_caller]
    fn ask_approval(&self, id: &str, arguments: Value) -> String {
        let reply = self.pay(id, arguments);
        assert_eq!(reply.status(), "approval_required", "{}", reply.0);
        reply.approval()
    }
}

#[test]
fn g11_a_call_waits_for_approval_and_runs_exactly_once() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let answer = agent
            .session
            .post(&json!({"calls": [
                {"id": "c1", "tool": "call_pay_send", "arguments": payment(5)},
                {"id": "c2", "tool": "call_pay_quote", "arguments": payment(5)},
            ]}))
            .expect(200)
            .json();
        assert_eq!(answer["next"], "approval", "{answer}");
        assert_eq!(answer["results"][1]["status"], "ok", "the other call runs");
        let waiting = &answer["results"][0];
        assert_eq!((&waiting["status"], &waiting["executed"]), (&json!("approval_required"), &json!("no")));
        assert!(waiting["text"].as_str().is_some_and(|text| text.contains("approve")), "{waiting}");
        let approval = waiting["approval"]["id"].as_str().expect("an approval").to_owned();

        let shown = agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json();
        assert_eq!((&shown["state"], &shown["tool"]), (&json!("pending"), &json!("pay/send")));
        assert_eq!(shown["arguments"], payment(5));
        let listed = agent.owner.get("/v1/approvals?state=pending").expect(200).json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");

        // The same call, posted again or read, waits for the same approval.
        assert_eq!(agent.ask_approval("c1", payment(5)), approval);
        assert_eq!(agent.session.get_call("c1").0["approval"]["state"], "pending");
        agent.approve(&approval);
        assert_eq!(agent.session.get_call("c1").0["approval"]["state"], "approved");
        assert_eq!(agent.pay("c1", payment(5)).output(), &json!({"done": true}));
        // The recorded result is returned without a second payment. Another id needs a new approval.
        assert_eq!(agent.pay("c1", payment(5)).status(), "ok");
        assert_ne!(agent.ask_approval("c3", payment(5)), approval);

        let rows = fixture.operator.audit(&format!("kind=call&session={}&call=c1", agent.session.id));
        let statuses: Vec<&str> = rows.iter().filter_map(|row| row["status"].as_str()).collect();
        assert_eq!(statuses, ["ok", "approval_required", "approval_required"]);
        let used = fixture.operator.audit(&format!("kind=effect&session={}&call=c1", agent.session.id));
        assert_eq!(used[0]["effect"]["detail"], approval.as_str(), "{used:?}");
    });
}

#[test]
fn g11_a_denied_call_stays_denied_with_the_reason() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(5));
        agent.decide(&approval, json!({"decision": "deny", "reason": "not this month"})).expect(200);
        let denied = agent.session.get_call("c1").expect_error("APPROVAL_DENIED");
        assert!(denied.message().contains("not this month"), "{}", denied.0);
        agent.pay("c1", payment(5)).expect_error("APPROVAL_DENIED");
        agent.decide(&approval, json!({"decision": "approve"})).expect_refusal(409, "CONFLICT");
    });
}

#[test]
fn g11_a_principal_cannot_approve_its_own_session() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(5));
        let path = format!("/v1/approvals/{approval}");
        let yes = json!({"decision": "approve"});
        // An orchestrator's role is not allowed to approve, and an owner may not approve a session that the owner
        // opened.
        agent.session.client.post(&path, &yes).expect_refusal(403, "FORBIDDEN");
        let own = toolgate_tests::Session {
            client: agent.owner.clone(),
            id: agent.owner.open_session(&agent.path).id,
        };
        let waiting = own.call_as("c1", "call_pay_send", payment(5));
        let own_approval = waiting.approval();
        agent.owner.post(&format!("/v1/approvals/{own_approval}"), &yes).expect_refusal(403, "FORBIDDEN");
        // Another organization gets the response for a missing approval.
        let other_agent = fixture.agent(&supervised_document()).owner;
        let unknown = other_agent.post("/v1/approvals/a_nothing", &yes).expect_refusal(404, "NOT_FOUND");
        let foreign = other_agent.post(&path, &yes).expect_refusal(404, "NOT_FOUND");
        assert_eq!(foreign.text().replace(&approval, "a_nothing"), unknown.text());
        agent.approve(&approval);
    });
}

/// One approval and a thousand concurrent calls with unique ids: one call runs.
#[test]
fn g11_concurrent_calls_use_an_approval_exactly_once() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c0", payment(5));
        agent.approve(&approval);
        let threads = 20;
        let barrier = Barrier::new(threads);
        let ran: usize = std::thread::scope(|scope| {
            let runner = |thread: usize| {
                let (agent, barrier) = (&agent, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    // Each thread has its own turn, since rounds are limited per turn.
                    let round = |round: usize| {
                        let call = |number: usize| json!({"id": format!("t{thread}-{round}-{number}"), "tool": "call_pay_send", "arguments": payment(5)});
                        let calls: Vec<Value> = (0..25).map(call).collect();
                        let body = json!({"turn": format!("t{thread}"), "calls": calls});
                        let answer = agent.session.post(&body).expect(200).json();
                        let results = answer["results"].as_array().cloned().unwrap_or_default();
                        results.iter().filter(|result| result["status"] == "ok").count()
                    };
                    (0..2).map(round).sum::<usize>()
                })
            };
            let runners: Vec<_> = (0..threads).map(runner).collect();
            runners.into_iter().map(|runner| runner.join().expect("a runner")).sum()
        });
        assert_eq!(ran, 1);
        // All others wait for the same new approval.
        let pending = agent.owner.get("/v1/approvals?state=pending").expect(200).json();
        assert_eq!(pending["items"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn g11_calls_that_match_the_approved_schema_run_as_often_as_approved() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(5));
        let shape = json!({"decision": "approve", "uses": 2, "arguments": {"/amount": {"type": "integer", "maximum": 10}}});
        let decided = agent.decide(&approval, shape).expect(200).json();
        assert_eq!((&decided["state"], &decided["uses_left"]), (&json!("approved"), &json!(2)));
        assert_eq!(decided["decided_by_label"], "owner");
        agent.ask_approval("large", payment(11));
        agent.ask_approval("eve", json!({"to": "eve", "amount": 5}));
        assert_eq!(agent.pay("c2", payment(10)).status(), "ok");
        assert_eq!(agent.pay("c1", payment(5)).status(), "ok");
        agent.ask_approval("c3", payment(1));
        assert_eq!(agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json()["state"], "used");
    });
}

/// The call could never run, so it must not wait for ever.
#[test]
fn g11_a_call_ends_when_another_call_used_its_approval() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(5));
        agent.decide(&approval, json!({"decision": "approve", "uses": 2})).expect(200);
        assert_eq!(agent.pay("c2", payment(5)).status(), "ok");
        assert_eq!(agent.session.get_call("c1").status(), "approval_required", "there is another use");
        assert_eq!(agent.pay("c3", payment(5)).status(), "ok");
        let ended = agent.session.get_call("c1").expect_error("APPROVAL_EXPIRED");
        assert!(ended.message().contains("another call"), "{}", ended.0);
        agent.pay("c1", payment(5)).expect_error("APPROVAL_EXPIRED");
        agent.ask_approval("c4", payment(5));
    });
}

#[test]
fn g11_an_invalid_decision_is_refused_without_effect() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(5));
        for invalid in [
            json!({"decision": "maybe"}),
            json!({"decision": "approve", "uses": 0}),
            json!({"decision": "approve", "uses": 1_001}),
            json!({"decision": "approve", "expires_at": 1}),
            json!({"decision": "approve", "arguments": {}}),
            json!({"decision": "approve", "arguments": {"/ammount": 5}}),
            json!({"decision": "approve", "arguments": {"/amount": {"type": "nonsense"}}}),
            json!({"decision": "approve", "arguments": {"/amount": 6}}),
            json!(["approve", null, null, null, null]),
            json!({"decision": "deny", "uses": 2}),
            json!({"decision": "approve", "because": "typo"}),
        ] {
            agent.decide(&approval, invalid).expect_refusal(400, "INVALID_REQUEST");
        }
        assert_eq!(
            agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json()["state"],
            "pending"
        );
        agent.approve(&approval);
    });
}

#[test]
fn g11_an_approval_is_void_only_when_its_tool_or_rules_change() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let (unrelated, rules, tool) = (
            agent.ask_approval("c1", payment(1)),
            agent.ask_approval("c2", payment(2)),
            agent.ask_approval("c3", payment(3)),
        );
        for approval in [&unrelated, &rules, &tool] {
            agent.approve(approval);
        }
        // An unrelated edit.
        agent
            .owner
            .replace(
                &agent.document(),
                &json!({"enabled": ["pay/*", "files/*"], "autonomy": "supervised", "name": "Bot"}),
            )
            .expect(200);
        assert_eq!(agent.pay("c1", payment(1)).status(), "ok");
        // Another rule now requires the approval.
        agent.owner.replace(&agent.document(), &json!({"enabled": ["pay/*"], "autonomy": "supervised", "require_approval_for": ["pay/send"]})).expect(200);
        agent.pay("c2", payment(2)).expect_error("APPROVAL_EXPIRED");
        agent
            .owner
            .replace(&agent.document(), &json!({"enabled": ["pay/*"], "autonomy": "supervised"}))
            .expect(200);
        // Another version of the plugin.
        fixture.operator.load("pay", &payments("1.0.1"));
        agent.pay("c3", payment(3)).expect_error("APPROVAL_EXPIRED");
        let waiting = agent.ask_approval("c4", payment(4));
        fixture.operator.load("pay", &payments("1.0.2"));
        // The approver would have seen another version than the one that runs.
        agent.decide(&waiting, json!({"decision": "approve"})).expect_refusal(410, "APPROVAL_EXPIRED");
        agent.session.get_call("c4").expect_error("APPROVAL_EXPIRED");
    });
}

/// The second call is not posted again, so only its end event informs a client that follows it.
#[test]
fn g11_a_void_approval_ends_every_call_that_waits_for_it() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let approval = agent.ask_approval("c1", payment(1));
        assert_eq!(agent.ask_approval("c2", payment(1)), approval);
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        agent.owner.replace(&agent.document(), &json!({"enabled": ["pay/*"], "autonomy": "supervised", "require_approval_for": ["pay/send"]})).expect(200);
        agent.pay("c1", payment(1)).expect_error("APPROVAL_EXPIRED");
        let end = stream.find(|(name, event)| name == "tool_error" && event["call"] == "c2");
        assert_eq!(end.expect("the second call's end").1["error_type"], "APPROVAL_EXPIRED");
    });
}

#[test]
fn g11_the_approver_sees_the_exact_bytes_that_run() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let odd = "{ \"to\":\"b\\u006fb\",\n \"amount\" : 5 }";
        let body = format!("{{\"calls\":[{{\"id\":\"c1\",\"tool\":\"pay/send\",\"arguments\":{odd}}}]}}");
        let answer = agent.session.client.post_text(&agent.session.path("/calls"), &body).expect(200).json();
        let approval = answer["results"][0]["approval"]["id"].as_str().expect("an approval").to_owned();
        let shown = agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).text();
        assert!(shown.contains(odd), "{shown}");
        agent.approve(&approval);
        // The same arguments in other bytes are another call.
        agent.ask_approval("c2", payment(5));
        let again = agent.session.client.post_text(&agent.session.path("/calls"), &body).expect(200).json();
        assert_eq!(again["results"][0]["status"], "ok", "{again}");
    });
}

#[test]
fn g11_a_waiting_call_follows_the_changed_policy() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&supervised_document());
        let unneeded = agent.ask_approval("c1", payment(1));
        let approved = agent.ask_approval("c2", payment(2));
        agent.approve(&approved);
        agent
            .owner
            .replace(&agent.document(), &json!({"enabled": ["pay/*"], "autonomy": "autonomous"}))
            .expect(200);
        assert_eq!(agent.pay("c1", payment(1)).status(), "ok");
        // The approval is void.
        assert_eq!(agent.owner.get(&format!("/v1/approvals/{unneeded}")).expect(200).json()["state"], "void");
        agent.owner.replace(&agent.document(), &json!({"enabled": ["pay/quote"]})).expect(200);
        agent.pay("c2", payment(2)).expect_error("ACCESS_DENIED");
    });
}

/// Pending calls and decisions survive a restart.
#[test]
fn g11_a_waiting_call_runs_after_a_restart_once_approved() {
    let daemon = toolgate_tests::Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator.load("pay", &payments("1.0.0"));
    operator.make_agent("acme/bot", &supervised_document());
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
    let session = operator.open_session("acme/bot");
    let waiting = session.call_as("c1", "call_pay_send", payment(5));
    let approval = waiting.approval();
    let daemon = daemon.crash_and_restart();
    let at = |client: &toolgate_tests::Client| toolgate_tests::Client {
        address: daemon.address,
        ..client.clone()
    };
    let session = toolgate_tests::Session { client: at(&operator), ..session };
    assert_eq!(session.get_call("c1").status(), "approval_required");
    at(&owner).post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
    assert_eq!(session.call_as("c1", "call_pay_send", payment(5)).status(), "ok");
}

/// The call did not start, so its approval is not used up.
#[test]
fn g11_an_approved_call_that_fails_to_start_keeps_its_approval() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["files/write"], "autonomy": "supervised"}));
        let write = || agent.session.call_as("c1", "files/write", json!({"path": "a", "content": "x"}));
        let approval = write().approval();
        agent.approve(&approval);
        // A file blocks the workspace folder.
        let folder = fixture.daemon.data().join("workspaces").join(&agent.session.id);
        std::fs::write(&folder, "").expect("blocked");
        assert_eq!(write().expect_error("UNAVAILABLE").0["executed"], "no");
        std::fs::remove_file(&folder).expect("unblocked");
        let shown = agent.owner.get(&format!("/v1/approvals/{approval}")).expect(200).json();
        assert_eq!(shown["state"], "approved");
    });
}

/// G18: the call runs with the approver's arguments, which are validated, recorded and told to the model.
#[test]
fn g18_an_approver_approves_with_other_arguments() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["files/*"], "autonomy": "supervised"}));
        let write =
            || agent.session.call_as("c1", "files/write", json!({"path": "a.txt", "content": "theirs"}));
        let approval = write().approval();
        let instead = json!({"path": "a.txt", "content": "ours"});
        for (invalid, status, error_type) in [
            (
                json!({"decision": "approve", "arguments_instead": {"path": "a.txt"}}),
                422,
                "INVALID_ARGUMENTS",
            ),
            (json!({"decision": "approve", "arguments_instead": instead, "uses": 2}), 400, "INVALID_REQUEST"),
            (json!({"decision": "deny", "arguments_instead": instead}), 400, "INVALID_REQUEST"),
        ] {
            agent.decide(&approval, invalid).expect_refusal(status, error_type);
        }
        // N2: neither a number beyond those of `f64` nor deep nesting ends the handler.
        for odd in ["1e999".to_owned(), "[".repeat(200) + &"]".repeat(200)] {
            let body = format!(r#"{{"decision": "approve", "arguments_instead": {{"path": {odd}}}}}"#);
            let (path, headers) =
                (format!("/v1/approvals/{approval}"), [("Content-Type", "application/json")]);
            let reply = agent.owner.send("POST", &path, &headers, body.as_bytes());
            assert!([400, 422].contains(&reply.status), "{odd}: {}", reply.text());
        }
        let decision = json!({"decision": "approve", "arguments_instead": instead});
        let decided = agent.decide(&approval, decision).expect(200).json();
        assert_eq!((&decided["arguments_instead"], &decided["state"]), (&instead, &json!("approved")));
        let ran = write();
        assert_eq!(ran.status(), "ok", "{}", ran.0);
        let told = ran.0.to_string();
        assert!(told.contains("The approver changed the arguments") && told.contains("ours"), "{told}");
        assert_eq!(agent.session.get_file("a.txt").expect(200).text(), "ours");
        let records =
            fixture.operator.audit(&format!("kind=admin&organization={}&limit=100", agent.organization));
        let record = records.iter().find(|record| record.to_string().contains("approval.approve"));
        assert!(record.expect("a record").to_string().contains("ours"), "{records:?}");
        // Another call with the approver's arguments asks for itself.
        agent.session.call_as("c2", "files/write", instead.clone()).approval();
    });
}
