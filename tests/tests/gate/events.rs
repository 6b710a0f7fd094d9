//! Lifecycle events (G6): one start and one end for each call, isolated by organization.

use std::collections::BTreeSet;

use toolgate_tests::events::Stream;
use toolgate_tests::wait::until;
use toolgate_tests::{Client, Daemon, Reply, Session, Value, guests, json};

use crate::{Agent, PROGRAM, with_fixture};

fn pay(agent: &Agent, id: &str, tool: &str) -> toolgate_tests::CallReply {
    agent.session.call_as(id, tool, json!({"to": "bob", "amount": 1}))
}

#[test]
fn g6_each_call_has_one_start_and_one_end() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*", "user/ask"], "autonomy": "supervised"}));
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        // Another session of the same agent is not part of this stream.
        agent.session.client.open_session(&agent.path).call_as(
            "elsewhere",
            "pay/quote",
            json!({"to": "bob", "amount": 1}),
        );
        assert_eq!(pay(&agent, "ran", "pay/quote").status(), "ok");
        let (name, called) = stream.next().expect("an event");
        assert_eq!(
            (name.as_str(), &called["call"], &called["tool"]),
            ("tool_call", &json!("ran"), &json!("pay/quote"))
        );
        assert!(called["arguments"].is_null(), "{called}");
        let (name, ended) = stream.next().expect("an event");
        assert_eq!((name.as_str(), &ended["status"]), ("tool_result", &json!("ok")));

        pay(&agent, "refused", "pay/nothing").expect_error("TOOL_NOT_FOUND");
        assert_eq!(stream.names(2), ["tool_call", "tool_error"]);

        let waiting = pay(&agent, "waits", "pay/send");
        assert_eq!(stream.names(2), ["tool_call", "approval"]);
        agent.approve(&waiting.approval());
        let (name, decided) = stream.next().expect("an event");
        assert_eq!((name.as_str(), &decided["approval"]["state"]), ("approval", &json!("approved")));
        assert_eq!(pay(&agent, "waits", "pay/send").status(), "ok");
        assert_eq!(stream.names(1), ["tool_result"], "a second attempt");

        let denied = pay(&agent, "denied", "pay/send");
        agent.decide(&denied.approval(), json!({"decision": "deny"})).expect(200);
        assert_eq!(stream.names(4), ["tool_call", "approval", "approval", "tool_error"]);

        // The events of an id are those of the call that has it.
        let again = json!({"to": "eve", "amount": 2});
        agent.session.call_as("ran", "pay/quote", again).expect_error("CONFLICT");
        agent.session.call_as("asked", "user/ask", json!({"question": "Which?"}));
        assert_eq!(stream.names(2), ["tool_call", "client"]);
        let result = json!({"status": "ok", "output": {"answer": "this"}});
        agent.session.client.post(&agent.session.path("/calls/asked/result"), &result).expect(200);
        assert_eq!(stream.names(1), ["tool_result"]);
    });
}

/// Progress counts against the limit of the tool's log, so listeners cannot be flooded.
#[test]
fn g6_progress_events_count_against_the_log_limit() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["hostile/*"], "limits": {"log_bytes": 10_000}}));
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        let reply =
            agent.session.call_as("c1", "hostile/report_progress", json!({"times": 1_000, "bytes": 1_000}));
        assert_eq!(reply.output(), 1_000);
        let names = std::iter::from_fn(|| stream.next()).map(|(name, _)| name);
        let progress =
            names.take_while(|name| name != "tool_result").filter(|name| name == "progress").count();
        assert!((1..10).contains(&progress), "{progress}");
    });
}

/// S1: a call that the gate refuses, and a session without tools, are told; the opening of a session is recorded (9.18).
#[test]
fn g6_what_the_gate_refuses_is_told_and_recorded() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        agent.session.call("hostile/count", json!({})).expect_error("ACCESS_DENIED");
        assert_eq!(stream.names(1), ["tool_call"]);
        let (name, refused) = stream.next().expect("an event");
        assert_eq!(
            (name.as_str(), &refused["error_type"]),
            ("tool_error", &json!("ACCESS_DENIED")),
            "{refused}"
        );
        let (organization, _) = agent.path.split_once('/').expect("an agent's path");
        let mut stream = Stream::open(&fixture.operator, &format!("/v1/orgs/{organization}/events"));
        let without = format!("{organization}/idle{}", agent.session.id);
        let without = without.replace("s_", "");
        fixture.operator.make_agent(&without, &json!({"enabled": []}));
        fixture.operator.post("/v1/sessions", &json!({"agent": without})).expect_refusal(409, "NO_TOOLS");
        let (_, told) = stream.find(|(name, _)| name == "error").expect("an event");
        assert_eq!((&told["error_type"], &told["call"]), (&json!("NO_TOOLS"), &json!("")), "{told}");
        let opened =
            fixture.operator.audit(&format!("kind=admin&organization={organization}&action=session.open"));
        let outcome = |target: &str| {
            opened.iter().find(|row| row["admin"]["target"] == target).map(|row| &row["admin"]["outcome"])
        };
        assert_eq!(outcome(&without), Some(&json!("NO_TOOLS")), "{opened:?}");
        assert_eq!(outcome(&agent.path), Some(&json!("ok")), "{opened:?}");
    });
}

/// Hanging up cancels the call, and its end is emitted.
#[test]
fn g6_a_disconnected_call_has_an_end_event() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["hostile/*"]}));
        let mut stream = Stream::open(&agent.session.client, &agent.session.path("/events"));
        let pending = agent.session.start_cancellable("c1", "hostile/doze", json!({}));
        assert_eq!(stream.names(2), ["tool_call", "progress"]);
        pending.hang_up();
        let (name, ended) = stream.next().expect("an event");
        assert_eq!((name.as_str(), &ended["error_type"]), ("tool_result", &json!("CANCELLED")));
    });
}

/// A session's stream has the end of every call before it closes.
#[test]
fn g6_a_sessions_stream_has_every_end_before_it_closes() {
    with_fixture(|fixture| {
        let agent =
            fixture.agent(&json!({"enabled": ["pay/*", "user/ask", "hostile/*"], "autonomy": "supervised"}));
        let (client, session) = (&agent.session.client, &agent.session);
        let mut stream = Stream::open(client, &session.path("/events"));
        assert_eq!(
            session.call_as("asks", "user/ask", json!({"question": "Which?"})).status(),
            "client_required"
        );
        assert_eq!(pay(&agent, "waits", "pay/send").status(), "approval_required");
        assert_eq!(stream.names(4), ["tool_call", "client", "tool_call", "approval"]);
        client.delete(&session.path("")).expect(204);
        let mut ends: Vec<_> =
            std::iter::from_fn(|| stream.next()).map(|(name, event)| (event["call"].clone(), name)).collect();
        ends.sort_by_key(|(call, _)| call.to_string());
        assert_eq!(
            ends,
            [(json!("asks"), "tool_result".to_owned()), (json!("waits"), "tool_error".to_owned())]
        );
    });
}

#[test]
fn g6_an_organization_sees_only_its_own_events() {
    with_fixture(|fixture| {
        let (one, other) =
            (fixture.agent(&json!({"enabled": ["pay/*"]})), fixture.agent(&json!({"enabled": ["pay/*"]})));
        let path = format!("/v1/orgs/{}/events", one.organization);
        let mut own = Stream::open(&one.owner, &path);
        let mut all = Stream::open(&fixture.operator, "/v1/events");
        pay(&other, "theirs", "pay/quote");
        pay(&one, "ours", "pay/quote");
        assert_eq!(own.next().expect("an event").1["call"], "ours");
        // A call of an earlier test may end only now.
        assert!(all.any(|(_, event)| event["call"] == "theirs"));
        other.owner.get(&path).expect_refusal(404, "NOT_FOUND");
        other.session.client.get(&one.session.path("/events")).expect_refusal(404, "NOT_FOUND");
        one.owner.get("/v1/events").expect_refusal(403, "FORBIDDEN");
    });
}

#[test]
fn g6_a_stream_is_resumed_after_its_last_event_and_a_gap_is_told() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let (client, of_session) = (&agent.session.client, agent.session.path("/events"));
        let of_organization = format!("/v1/orgs/{}/events", agent.organization);
        let last_id = |client: &Client, path: &str, call: &str| {
            let mut stream = Stream::open(client, path);
            pay(&agent, call, "pay/quote");
            assert_eq!(stream.names(2), ["tool_call", "tool_result"]);
            stream.last_id.expect("an id")
        };
        let (first, second) =
            (last_id(client, &of_session, "first"), last_id(&agent.owner, &of_organization, "second"));
        // Without a listener. Events of another session are not part of the stream of this one.
        client.open_session(&agent.path).call_as("elsewhere", "pay/quote", json!({"to": "bob", "amount": 1}));
        pay(&agent, "missed", "pay/quote");
        for (client, path, id, missed) in [
            (client, &of_session, &first, ["second", "missed"]),
            (&agent.owner, &of_organization, &second, ["elsewhere", "missed"]),
        ] {
            let mut stream = Stream::resume(client, path, Some(id));
            let calls: Vec<Value> = stream.by_ref().take(4).map(|(_, event)| event["call"].clone()).collect();
            assert_eq!(calls, [missed[0], missed[0], missed[1], missed[1]]);
        }
        let mut stream = Stream::resume(client, &of_session, Some(&first));
        assert_eq!(stream.names(4), ["tool_call", "tool_result", "tool_call", "tool_result"]);
        pay(&agent, "live", "pay/quote");
        assert_eq!(stream.next().expect("an event").1["call"], "live");
        for unknown in ["e_1-5", "x", &first.replace('-', "-9")] {
            let mut stream = Stream::resume(client, &of_session, Some(unknown));
            let (name, gap) = stream.next().expect("a gap");
            assert_eq!((name.as_str(), gap), ("dropped", json!({"dropped": 0, "unknown": true})));
        }
    });
}

#[test]
fn g6_a_stream_ends_with_its_token_and_with_its_session() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let made = fixture
            .operator
            .post(
                "/v1/tokens",
                &json!({"role": "owner", "organization": agent.organization, "label": "short"}),
            )
            .expect(201)
            .json();
        let short = Client::new(fixture.operator.address, made["token"].as_str());
        let mut of_token = Stream::open(&short, &format!("/v1/orgs/{}/events", agent.organization));
        fixture.operator.delete(&format!("/v1/tokens/{}", made["id"].as_str().expect("an id"))).expect(204);
        assert!(of_token.next().is_none());
        let mut of_session = Stream::open(&agent.session.client, &agent.session.path("/events"));
        agent.session.client.delete(&agent.session.path("")).expect(204);
        assert!(of_session.next().is_none());
    });
}

#[test]
fn g6_calls_posted_for_events_get_events_and_result_in_one_stream() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"]}));
        let call = json!({"id": "c1", "tool": "pay/quote", "arguments": {"to": "bob", "amount": 1}});
        let mut stream = post_for_events(&agent.session, &[call]);
        assert_eq!(stream.names(2), ["tool_call", "tool_result"]);
        let (name, answer) = stream.next().expect("the answer");
        assert_eq!(name, "answer");
        assert_eq!(answer["results"][0]["output"], json!({"done": true}));
        assert_eq!(answer["next"], "model");
        assert!(stream.next().is_none(), "events after the result");
    });
}

fn post_for_events(session: &Session, calls: &[Value]) -> Stream {
    let body = json!({"calls": calls}).to_string();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        session.path("/calls"),
        session.client.address,
        session.client.token.as_deref().unwrap_or_default(),
        body.len()
    );
    Stream::send(&session.client, &request)
}

/// The call emits more than all socket buffers hold, and the client reads nothing before it ends.
#[test]
fn g6_a_call_posted_for_events_ends_without_a_reader() {
    let daemon = Daemon::start(PROGRAM, "[limits]\nlog_bytes = 4194304\ndeadline_ms = 300_000\n");
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    // Each event contains the id.
    let id = "c".repeat(128);
    let arguments = json!({"times": 30_000, "bytes": 50});
    let call = json!({"id": id, "tool": "hostile/report_progress", "arguments": arguments});
    let stream = post_for_events(&session, &[call]);
    let path = session.path(&format!("/calls/{id}"));
    let has_ended = |look: &Reply| look.status == 200 && look.json()["status"] != "running";
    until("the call to end", || Some(session.client.get(&path)).filter(has_ended));
    assert_eq!(session.get_call(&id).output(), 30_000);
    let names: Vec<String> = stream.map(|(name, _)| name).collect();
    assert!(names.iter().any(|name| name == "dropped"), "no event was dropped");
    assert_eq!(names.last().map(String::as_str), Some("answer"));
}

#[test]
fn g6_an_existing_call_is_followed_to_its_result() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["user/ask"]}));
        agent.session.call_as("c1", "user/ask", json!({"question": "Which?"}));
        let mut stream = follow_call(&agent.session, "c1");
        let result = json!({"status": "ok", "output": {"answer": "this"}});
        agent.session.client.post(&agent.session.path("/calls/c1/result"), &result).expect(200);
        assert_eq!(stream.names(1), ["tool_result"]);
        let (name, answer) = stream.next().expect("the answer");
        assert_eq!((name.as_str(), &answer["output"]["answer"]), ("answer", &json!("this")));
        assert!(stream.next().is_none());
        // The stream of a finished call has only the result.
        assert_eq!(follow_call(&agent.session, "c1").names(1), ["answer"]);
    });
}

/// Follows an existing call until it ends.
fn follow_call(session: &Session, id: &str) -> Stream {
    try_follow_call(session, id).expect("the call is known")
}

/// Follows a call until it ends, if it is known.
fn try_follow_call(session: &Session, id: &str) -> Option<Stream> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n",
        session.path(&format!("/calls/{id}")),
        session.client.address,
        session.client.token.as_deref().unwrap_or_default(),
    );
    let mut stream = Stream::send(&session.client, &request);
    let is_known = stream.line().expect("a status").starts_with("HTTP/1.1 200");
    while !stream.line().expect("a head").is_empty() {}
    is_known.then_some(stream)
}

/// A call that missed its deadline in the queue may be made again, so it has no result to wait for.
#[test]
fn g6_following_a_withdrawn_call_ends() {
    let daemon = Daemon::start(PROGRAM, "[sandbox]\ninstances = 1\n");
    daemon.operator().load("hostile", guests::HOSTILE);
    let dozing = daemon.session_within("acme/bot", &json!({}));
    let hurried = daemon.session_within("acme/hurried", &json!({"deadline_ms": 2_000}));
    let held = dozing.start_dozing("c1");
    let mut begun = Stream::open(&hurried.client, &hurried.path("/events"));
    let mut number = 0;
    // On a busy machine a call may be withdrawn before it is followed.
    let (waiting, mut stream) = until("a call that is followed while it waits", || {
        number += 1;
        let id = format!("c{number}");
        let waiting = hurried.start(&id, "hostile/rest", json!({"ms": 1}));
        assert!(begun.any(|(name, event)| name == "tool_call" && event["call"] == id));
        try_follow_call(&hurried, &id).map(|stream| (waiting, stream))
    });
    assert_eq!(stream.names(1), ["tool_error"]);
    assert!(stream.next().is_none());
    let answer = waiting.reply().expect(200).json();
    assert_eq!(answer["results"][0]["error"]["error_type"], "DEADLINE_EXCEEDED", "{answer}");
    dozing.cancel("c1").expect(204);
    held.reply().expect(200);
}

/// Waits for an event of the daemon's JSON log, and checks S3's shape: event name, level, message, fields.
fn wait_for_event(daemon: &Daemon, event: &str, field: (&str, &str)) -> Value {
    let line = daemon.wait_for_log(event, |line| {
        serde_json::from_str(line)
            .is_ok_and(|line: Value| line["event"] == event && line["fields"][field.0] == field.1)
    });
    let line: Value = serde_json::from_str(&line).expect("json");
    assert_eq!(line["target"], "toolgate::events");
    assert!(line["message"].is_string(), "{line}");
    line
}

/// Checks the names of the fields.
#[track_caller]
fn expect_fields(line: &Value, names: &[&str]) {
    let fields: BTreeSet<&str> =
        line["fields"].as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(fields, names.iter().copied().collect(), "{line}");
}

fn start_with_json_log() -> Daemon {
    Daemon::start(PROGRAM, "[log]\nformat = \"json\"")
}

/// S1's events at the default level.
#[test]
fn o5_the_log_has_a_sessions_tools_and_every_execution() {
    let daemon = start_with_json_log();
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let request = json!({"agent": "acme/bot", "conversation": "talk-7"});
    let opened = operator.post("/v1/sessions", &request).expect(201).json();
    let id = opened["session"].as_str().expect("an id").to_owned();
    let session = Session { client: operator.clone(), id: id.clone() };
    let of_session = ("session", id.as_str());
    let opened = wait_for_event(&daemon, "agent_loaded", of_session);
    assert_eq!(opened["level"], "INFO");
    let context = ["organization", "agent", "session", "conversation"];
    expect_fields(&opened, &[&context[..], &["tools", "callable"]].concat());
    assert_eq!(opened["fields"]["organization"], "acme");
    assert_eq!(opened["fields"]["conversation"], "talk-7");
    assert!(opened["fields"]["callable"].as_str().expect("names").contains("call_time_now"), "{opened}");

    session.call_as("wrong", "time/now", json!({"zone": 7})).expect_error("INVALID_ARGUMENTS");
    assert_eq!(session.call_as("works", "time/now", json!({"time_zone": "Asia/Tokyo"})).status(), "ok");
    let executed = wait_for_event(&daemon, "tool_executed", of_session);
    assert_eq!(executed["level"], "INFO");
    expect_fields(&executed, &[&context[..], &["call", "tool", "fuel", "duration_us"]].concat());
    assert_eq!(executed["fields"]["call"], "works", "a refused call is not executed");
    assert_eq!(executed["fields"]["tool"], "time/now");
    assert!(!daemon.log_text().contains("Tokyo"), "arguments are not logged");
}

#[test]
fn o5_the_log_has_a_session_without_tools_and_an_unauthorized_access() {
    let daemon = start_with_json_log();
    let operator = daemon.operator();
    operator.make_agent("acme/idle", &json!({"enabled": ["time/nothing"]}));
    let request = json!({"agent": "acme/idle", "conversation": "talk-8"});
    operator.post("/v1/sessions", &request).expect_refusal(409, "NO_TOOLS");
    let refused = wait_for_event(&daemon, "no_tools", ("conversation", "talk-8"));
    assert_eq!(refused["level"], "WARN");
    expect_fields(&refused, &["organization", "agent", "session", "conversation"]);

    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let session = operator.open_session("acme/bot");
    session.call_as("c1", "files/list", json!({"path": "private"})).expect_error("ACCESS_DENIED");
    let attempted = wait_for_event(&daemon, "unauthorized_access", ("session", &session.id));
    assert_eq!(attempted["level"], "WARN");
    let names = ["organization", "agent", "session", "conversation", "call", "tool", "layer", "rule"];
    expect_fields(&attempted, &names);
    assert_eq!(attempted["fields"]["call"], "c1");
    assert_eq!(attempted["fields"]["tool"], "files/list");
    assert!(!daemon.log_text().contains("private"), "arguments are not logged");
}

/// A flood costs lines of one second only, and the next second has their number.
#[test]
fn o5_a_flood_of_events_is_sampled() {
    let daemon = start_with_json_log();
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["time/*"]}));
    let session = operator.open_session("acme/bot");
    let flood = vec![json!({"tool": "files/list", "arguments": {}}); 30];
    let suppressed = until("a line that counts those left out", || {
        session.client.post(&session.path("/calls"), &json!({"calls": flood})).expect(200);
        let lines = daemon.log_text();
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["event"] == "unauthorized_access")
            .find_map(|line| line["fields"]["suppressed"].as_u64())
    });
    assert!(suppressed > 0);
}

/// A stream holds a connection, so one organization must not hold all of them.
#[test]
fn g6_the_number_of_streams_of_an_organization_is_limited() {
    let daemon = Daemon::start(PROGRAM, "[http]\nstreams_per_organization = 2");
    let operator = daemon.operator();
    for organization in ["acme", "other"] {
        operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["time/*"]}));
    }
    let (session, other) = (operator.open_session("acme/bot"), operator.open_session("other/bot"));
    let calls = [json!({"id": "c1", "tool": "time/now", "arguments": {}})];
    let first = Stream::open(&operator, &session.path("/events"));
    let second = Stream::open(&operator, "/v1/orgs/acme/events");
    operator.get(&session.path("/events")).expect_refusal(429, "QUOTA_EXCEEDED");
    operator.get("/v1/orgs/acme/events").expect_refusal(429, "QUOTA_EXCEEDED");
    let refused = post_for_events(&session, &calls).line();
    assert!(refused.is_some_and(|line| line.starts_with("HTTP/1.1 429")));
    session.client.get(&session.path("/calls/c1")).expect_refusal(404, "NOT_FOUND");
    let _theirs = Stream::open(&operator, &other.path("/events"));
    let _all = Stream::open(&operator, "/v1/events");
    drop((first, second));
    until("a stream to be free", || {
        let mut stream = post_for_events(&session, &calls);
        stream.line().filter(|line| line.starts_with("HTTP/1.1 200"))
    });
}
