//! Sessions: prompt, channels, disabled tools, circuit breaker and rounds.

use toolgate_tests::{Client, Daemon, Value, json};

use crate::with_fixture;

#[test]
fn g2_a_sessions_prompt_follows_the_policy() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let prompt = || {
            agent.session.client.get(&agent.session.path("")).expect(200).json()["system_prompt"]
                .as_str()
                .expect("a prompt")
                .to_owned()
        };
        for words in [
            "I was unable to retrieve data from [tool_name]. Please try again.",
            "I have no tools configured to help with this request.",
            "call_pay_send, call_pay_quote",
            "2 specific tools",
        ] {
            assert!(prompt().contains(words), "{words}: {}", prompt());
        }
        agent.owner.replace(&agent.document(), &json!({"enabled": ["pay/quote"]})).expect(200);
        assert!(prompt().contains("1 specific tool ") && !prompt().contains("call_pay_send"), "{}", prompt());
    });
}

#[test]
fn g12_an_unknown_channel_is_refused_and_a_known_one_blocks_its_tools() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    operator
        .make("/v1/platform/policy", &json!({"channels": {"sms": {"blocked": ["files/*"]}, "webchat": {}}}))
        .expect(201);
    operator.make_agent("acme/bot", &json!({"enabled": "*"}));
    let open =
        |channel: &str| operator.post("/v1/sessions", &json!({"agent": "acme/bot", "channel": channel}));
    let refused = open("webcaht").expect_refusal(400, "INVALID_REQUEST").json();
    assert_eq!(refused["hint"], "did you mean `webchat`?");
    let session = |channel: Option<&str>| {
        let opened = match channel {
            Some(channel) => open(channel),
            None => operator.post("/v1/sessions", &json!({"agent": "acme/bot"})),
        };
        let id = opened.expect(201).json()["session"].as_str().expect("a session").to_owned();
        toolgate_tests::Session { client: operator.clone(), id }
    };
    let list = |session: &toolgate_tests::Session| session.call("files/list", json!({}));
    list(&session(Some("sms"))).expect_error("CHANNEL_RESTRICTED");
    for open in [None, Some("webchat")] {
        assert_eq!(list(&session(open)).status(), "ok");
    }
    let policy = "/v1/platform/policy";
    operator.replace(policy, &json!({"channels": {"webchat": {}}, "channel_required": true})).expect(200);
    let refused = operator.post("/v1/sessions", &json!({"agent": "acme/bot"}));
    assert_eq!(refused.expect_refusal(400, "INVALID_REQUEST").json()["details"]["pointer"], "/channel");
    assert_eq!(list(&session(Some("webchat"))).status(), "ok");
}

#[test]
fn g7_a_tool_can_be_disabled_and_enabled_in_a_session() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let other = agent.session.client.open_session(&agent.path);
        let quote =
            |session: &toolgate_tests::Session| session.call("pay/quote", json!({"to": "bob", "amount": 1}));
        agent.session.set_disabled("call_pay_quote", true).expect(204);
        quote(&agent.session).expect_error("TOOL_DISABLED");
        assert_eq!(quote(&other).status(), "ok");
        agent.session.set_disabled("pay%2Fquote", false).expect(204);
        assert_eq!(quote(&agent.session).status(), "ok");
        agent.session.set_disabled("call_pay_nothing", true).expect_refusal(404, "NOT_FOUND");
    });
}

#[test]
fn an_ended_session_is_reported_only_to_its_organization() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let other_agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let place = agent.session.path("");
        agent.session.client.get(&place).expect(200);
        agent.session.client.delete(&place).expect(204);
        agent.session.client.get(&place).expect_refusal(410, "EXPIRED");
        agent.session.client.delete(&place).expect_refusal(410, "EXPIRED");
        other_agent.session.client.get(&place).expect_refusal(404, "NOT_FOUND");
    });
}

/// G13: only crashes and similar failures count, in a row. Refusals, invalid arguments and tool errors do not.
#[test]
fn g13_a_failing_tool_is_disabled_with_the_reason_and_can_be_enabled() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["hostile/*", "pay/quote"]}));
        let session = &agent.session;
        let crash = || session.call("hostile/panic", json!({"message": "x"}));
        for _ in 0..2 {
            crash().expect_error("TOOL_CRASHED");
            session.call("hostile/panic", json!({"nonsense": 1})).expect_error("INVALID_ARGUMENTS");
        }
        assert_eq!(session.call("pay/quote", json!({"to": "bob", "amount": 1})).status(), "ok");
        crash().expect_error("TOOL_CRASHED");
        let stopped = crash().expect_error("TOOL_DISABLED");
        assert!(stopped.message().contains("TOOL_CRASHED"), "{}", stopped.0);
        assert_eq!(stopped.0["error"]["details"]["rule"], "breaker");
        session.set_disabled("hostile%2Fpanic", false).expect(204);
        crash().expect_error("TOOL_CRASHED");
    });
}

#[test]
fn t4_rounds_are_limited_per_turn_and_repeated_calls_are_free() {
    let mut daemon = Daemon::start(crate::PROGRAM, "[calls]\nrounds_per_turn = 2\nrounds_per_session = 5");
    let mut session = daemon.session_within("acme/bot", &json!({}));
    let round_of = |session: &toolgate_tests::Session, turn: &str, id: &str| {
        let call = json!({"id": id, "tool": "arithmetic/evaluate", "arguments": {"expression": "1"}});
        let answer = session.post(&json!({"turn": turn, "calls": [call]})).expect(200).json();
        assert_eq!((&answer["turn"], &answer["next"]), (&json!(turn), &json!("model")), "{answer}");
        toolgate_tests::CallReply(answer["results"][0].clone())
    };
    let round = |turn: &str, id: &str| round_of(&session, turn, id);
    assert_eq!(round("a", "c1").status(), "ok");
    assert_eq!(round("a", "c2").status(), "ok");
    assert_eq!(round("a", "c1").status(), "ok", "a repeated call uses no round");
    let spent = round("a", "c3").expect_error("ROUNDS_EXCEEDED");
    assert!(spent.message().contains("turn"), "{}", spent.0);
    assert_eq!(round("b", "c4").status(), "ok");
    assert_eq!(round("b", "c5").status(), "ok");
    daemon.terminate();
    assert!(daemon.wait_for_exit().success());
    daemon = daemon.crash_and_restart();
    session.client.address = daemon.address;
    let round = |turn: &str, id: &str| round_of(&session, turn, id);
    for _ in 0..3 {
        assert_eq!(round("d", "c1").0["replayed"], true, "also one of an earlier run of the daemon");
    }
    assert_eq!(round("d", "c7").status(), "ok");
    let spent = round("c", "c6").expect_error("ROUNDS_EXCEEDED");
    assert!(spent.message().contains("session"), "{}", spent.0);
    assert_eq!(session.audit_row(&daemon.operator(), "c6")["call"]["reason"]["rule"], "rounds");
}

/// A refused request is recorded in the caller's organization, not in the requested one (O3).
#[test]
fn o3_a_refused_token_is_recorded_in_the_owners_organization() {
    with_fixture(|fixture| {
        let (one, other) =
            (fixture.agent(&json!({"enabled": ["pay/*"]})), fixture.agent(&json!({"enabled": ["pay/*"]})));
        let ask_approval = json!({"role": "orchestrator", "organization": other.organization});
        one.owner.post("/v1/tokens", &ask_approval).expect_refusal(404, "NOT_FOUND");
        let outcomes = |agent: &crate::Agent| -> Vec<String> {
            let rows = agent.owner.audit("kind=admin&action=token.create");
            rows.iter().filter_map(|row| row["admin"]["outcome"].as_str().map(str::to_owned)).collect()
        };
        // The operator created two tokens for each of them.
        assert_eq!(outcomes(&one), ["NOT_FOUND", "ok", "ok"]);
        assert_eq!(outcomes(&other), ["ok", "ok"]);
    });
}

#[test]
fn o6_sessions_and_their_calls_are_listed_to_those_who_may_use_them() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "user/ask"], "autonomy": "autonomous"}));
        let (client, owner) = (&agent.session.client, &agent.owner);
        let request = json!({"agent": agent.path, "conversation": "t 1", "user": "u-1"});
        let second = client.post("/v1/sessions", &request).expect(201).json();
        let second = second["session"].as_str().expect("an id").to_owned();
        let list = |client: &Client, query: &str| {
            let page = client.get(&format!("/v1/sessions{query}")).expect(200).json();
            let ids: Vec<_> = page["items"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|item| item["session"].clone())
                .collect();
            (ids, page)
        };
        let (ids, page) = list(client, "");
        // Both may have been opened in the same millisecond.
        let newest = page["items"].as_array().expect("a list").iter().find(|item| item["session"] == second);
        let newest = newest.unwrap_or_else(|| panic!("the second session is listed: {page}"));
        assert!(ids.len() == 2 && ids.contains(&json!(agent.session.id)), "{page}");
        assert_eq!((&newest["state"], &newest["user"]), (&json!("open"), &json!("u-1")));
        let (one, page) = list(owner, "?limit=1");
        let cursor = page["next_cursor"].as_str().expect("a cursor");
        let (other, page) = list(owner, &format!("?limit=1&cursor={cursor}"));
        assert_eq!(([one, other].concat(), &page["next_cursor"]), (ids, &json!(null)));
        let by_agent = format!("?agent={}&conversation=t%201", agent.path.replace('/', "%2F"));
        assert_eq!(list(&fixture.operator, &by_agent).0, [second.as_str()]);
        let opened = newest["created_at"].as_u64().expect("a time");
        let at = |end: &str, ms: u64| list(client, &format!("?{end}={ms}&conversation=t%201")).0.len();
        assert_eq!([at("since_ms", opened), at("since_ms", opened + 1)], [1, 0]);
        assert_eq!([at("until_ms", opened + 1), at("until_ms", opened)], [1, 0]);
        client.delete(&format!("/v1/sessions/{second}")).expect(204);
        assert_eq!(list(client, "?state=ended").0, [second.as_str()]);
        assert_eq!(list(client, "?state=open").0, [agent.session.id.as_str()]);

        agent.session.call_as("ran", "pay/quote", json!({"to": "bob", "amount": 1})).output();
        agent.session.call_as("refused", "pay/nothing", json!({})).expect_error("TOOL_NOT_FOUND");
        agent.session.call_as("asked", "user/ask", json!({"question": "Which?"}));
        let calls = |client: &Client, query: &str| client.get(&agent.session.path(&format!("/calls{query}")));
        let page = calls(client, "").expect(200).json();
        let told: Vec<_> = page["items"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|call| (call["id"].clone(), call["status"].clone()))
            .collect();
        let expected = [("asked", "client_required"), ("refused", "error"), ("ran", "ok")]
            .map(|(id, status)| (json!(id), json!(status)));
        assert_eq!(told, expected, "{page}");
        assert_eq!(page["items"][1]["error_type"], "TOOL_NOT_FOUND");
        assert!(page["items"][2]["arguments"].is_null(), "{page}");
        let page = calls(client, "?limit=2").expect(200).json();
        let cursor = page["next_cursor"].as_str().expect("a cursor");
        assert_eq!(
            calls(client, &format!("?limit=2&cursor={cursor}")).expect(200).json()["items"][0]["id"],
            "ran"
        );

        // Another organization's sessions do not exist, and a token for one agent sees those of that agent alone.
        let other = fixture.agent(&json!({"enabled": ["pay/*"]}));
        assert_eq!(list(&other.owner, "").0, [other.session.id.as_str()]);
        calls(&other.owner, "").expect_refusal(404, "NOT_FOUND");
        other
            .owner
            .get(&format!("/v1/sessions?organization={}", agent.organization))
            .expect_refusal(404, "NOT_FOUND");
        fixture
            .operator
            .make_agent(&format!("{}/second", agent.organization), &json!({"enabled": ["pay/*"]}));
        let bound = json!({"role": "orchestrator", "organization": agent.organization, "agents": ["second"]});
        let bound = fixture.operator.with_new_token(&bound);
        assert_eq!(list(&bound, "").0, Vec::<Value>::new());
        bound.get(&format!("/v1/sessions{by_agent}")).expect_refusal(403, "FORBIDDEN");
        calls(&bound, "").expect_refusal(404, "NOT_FOUND");
        for wrong in ["?limit=0", "?cursor=x", "?state=closed", "?agent=acme", "?conversation="] {
            client.get(&format!("/v1/sessions{wrong}")).expect_refusal(400, "INVALID_REQUEST");
        }
    });
}
