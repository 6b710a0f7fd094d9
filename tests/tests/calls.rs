//! Calls over HTTP: parallel, repeated, cancelled and refused calls, and calls while plugins change.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use toolgate_tests::client::Pending;
use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, LeakCheck, PluginFile, Session, Shared, Value, guests, json, wait};

#[path = "calls/bounds.rs"]
mod bounds;
#[path = "calls/cancelled.rs"]
mod cancelled;
#[path = "calls/shell.rs"]
mod shell;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    agents: u32,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        daemon.operator().load("hostile", guests::HOSTILE);
        Self { daemon, agents: 0 }
    }

    /// Opens a session of a new agent that may call every tool.
    fn session(&mut self) -> Session {
        self.agents += 1;
        self.daemon.session_within(&format!("acme/a{}", self.agents), &json!({}))
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

#[test]
fn r4_a_call_passes_every_step_and_is_recorded() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let reply = session.call_as("c1", "call_arithmetic_evaluate", json!({"expression": "1/3 + 1/6"}));
        assert_eq!(reply.output()["decimal"], "0.5");
        assert_eq!(reply.0["tool_name"], "arithmetic");
        assert_eq!(reply.0["action"], "evaluate");
        assert_eq!(reply.0["executed"], "yes");
        assert!(reply.0["plugin"]["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")));
        assert!(reply.0["text"].as_str().is_some_and(|text| text.starts_with("<tool_result ")));
        let row = session.audit_row(&fixture.daemon.operator(), "c1");
        assert_eq!(row["status"], "ok");
        assert_eq!(row["call"]["arguments"], json!({"expression": "1/3 + 1/6"}));
        assert_eq!(row["call"]["tool"], "arithmetic/evaluate");
        assert_eq!(row["call"]["verdict"], "run");
    });
}

#[test]
fn g3_a_denied_tool_is_refused_and_the_other_calls_run() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("acme/narrow", &json!({"enabled": ["hostile/*"], "disabled": ["hostile/spin"]}));
        let session = operator.open_session("acme/narrow");
        let calls = [
            json!({"id": "denied", "tool": "call_arithmetic_evaluate", "arguments": {"expression": "1"}}),
            json!({"id": "disabled", "tool": "call_hostile_spin"}),
            json!({"id": "unknown", "tool": "call_hostile_ehco"}),
            json!({"id": "allowed", "tool": "CALL_Hostile_Echo", "arguments": {"text": "x"}}),
        ];
        let replies = session.calls(&calls);
        let denied = replies[0].clone().expect_error("ACCESS_DENIED");
        let fixed = "Access denied. This agent is not authorized to use the call_arithmetic_evaluate tool.";
        assert_eq!(denied.message(), fixed);
        assert_eq!(denied.0["executed"], "no");
        replies[1].clone().expect_error("TOOL_DISABLED");
        let unknown = replies[2].clone().expect_error("TOOL_NOT_FOUND");
        assert!(
            unknown.0["error"]["hint"].as_str().is_some_and(|hint| hint.contains("call_hostile_echo")),
            "{}",
            unknown.0
        );
        assert_eq!(replies[3].output(), "x");
        for (id, code) in
            [("denied", "ACCESS_DENIED"), ("disabled", "TOOL_DISABLED"), ("unknown", "TOOL_NOT_FOUND")]
        {
            let row = session.audit_row(&operator, id);
            assert_eq!(row["outcome"]["error_type"], code, "{row}");
            assert_eq!(row["call"]["verdict"], "refused", "{row}");
            assert_eq!(row["outcome"]["executed"], "no", "{row}");
        }
    });
}

/// One timer exceeds the deadline, so the call only ends because both timers run at once.
#[test]
fn t2_an_async_tool_awaits_several_futures_at_once() {
    with_fixture(|fixture| {
        fixture.daemon.operator().load("caller", guests::CALLER);
        let session = fixture.session();
        for (left_ms, right_ms, first) in [(3_600_000, 1, "right"), (1, 3_600_000, "left")] {
            let arguments = json!({"left_ms": left_ms, "right_ms": right_ms});
            assert_eq!(session.call("caller/race", arguments).output(), first);
        }
    });
}

/// B2: an organization's policy lowers the limits of its agents, also in open sessions, and of no other organization.
#[test]
fn b2_the_policy_of_an_organization_narrows_its_limits() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let inside = fixture.daemon.session_within("narrow/bot", &json!({}));
        let outside = fixture.session();
        let fails =
            |session: &Session| session.call("hostile/echo", json!({"text": "x"})).error_type().is_some();
        assert!(!fails(&inside));
        let narrow = json!({"enabled": "*", "limits": {"fuel": 10}});
        operator.replace("/v1/orgs/narrow/policy", &narrow).expect(200);
        assert!(fails(&inside) && !fails(&outside));
        inside.call("hostile/echo", json!({"text": "x"})).expect_error("FUEL_EXHAUSTED");
        let policy = operator.get("/v1/orgs/narrow/policy").expect(200);
        assert_eq!(policy.json(), narrow);
        let tag = policy.header("etag").expect("a tag").to_owned();
        let replace = |body: &str| {
            let headers = [("If-Match", tag.as_str()), ("Content-Type", "application/json")];
            operator.send("PUT", "/v1/orgs/narrow/policy", &headers, body.as_bytes())
        };
        replace(r#"{"limits":{"fual":10}}"#).expect_refusal(422, "INVALID_POLICY");
        assert!(fails(&inside));
        // A policy can lower limits but not raise them.
        replace(r#"{"enabled":"*","limits":{"fuel":1000000000000}}"#).expect(200);
        assert!(!fails(&inside));
        inside.call("hostile/spin", json!({})).expect_error("FUEL_EXHAUSTED");
        operator.make("/v1/orgs/nosuch/policy", &json!({})).expect_refusal(404, "NOT_FOUND");
    });
}

#[test]
fn g1_an_agent_without_tools_gets_no_session() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        for (agent, enabled) in [("acme/nothing", json!([])), ("acme/nobody", json!(["nosuch/*"]))] {
            operator.make_agent(agent, &json!({"enabled": enabled}));
            let reply = operator.post("/v1/sessions", &json!({"agent": agent}));
            assert_eq!(reply.error_type(), "NO_TOOLS", "{}", reply.text());
            assert!(
                reply.text().contains("This agent has no tools configured. Please contact the agent creator")
            );
        }
        operator.make_agent("acme/something", &json!({"enabled": ["arithmetic/evaluate"]}));
        operator.open_session("acme/something");
    });
}

#[test]
fn a_session_lists_the_tools_that_it_can_call() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let listed = session.client.get(&session.path("/tools")).expect(200).json();
        let tools = listed["tools"].as_array().expect("tools").clone();
        assert!(tools.len() > 10, "{listed}");
        for tool in tools {
            let name = tool["name"].as_str().expect("a name");
            // The gate lets the call in; the schema refuses its arguments.
            let reply = session.call(name, json!({"no such argument": 1}));
            assert_eq!(reply.error_type(), Some("INVALID_ARGUMENTS"), "{name}: {}", reply.0);
        }
    });
}

#[test]
fn r2_arguments_that_break_the_schema_are_refused_with_an_explanation() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let cases = [
            (json!({}), "Validation Error: Missing required argument 'ms' for tool 'call_hostile_rest'"),
            (json!({"ms": "1"}), "/ms"),
            (json!({"ms": -1}), "/ms"),
            (json!({"ms": 1, "sm": 2}), "sm"),
        ];
        for (at, (arguments, words)) in cases.into_iter().enumerate() {
            let id = format!("c{at}");
            let reply =
                session.call_as(&id, "call_hostile_rest", arguments).expect_error("INVALID_ARGUMENTS");
            assert!(reply.message().starts_with("Validation Error: "), "{}", reply.0);
            assert!(reply.0.to_string().contains(words), "{}", reply.0);
            assert_eq!(reply.0["executed"], "no");
            assert_eq!(
                session.audit_row(&fixture.daemon.operator(), &id)["outcome"]["error_type"],
                "INVALID_ARGUMENTS"
            );
        }
        // JSON Schema: a float without a fraction is an integer.
        let whole = r#"{"calls":[{"tool":"call_hostile_rest","arguments":{"ms":1.0}}]}"#;
        let reply = session.client.post_text(&session.path("/calls"), whole).expect(200).json();
        assert_eq!(reply["results"][0]["status"], "ok", "{reply}");
    });
}

/// Invalid arguments fail their own call, not the whole request.
#[test]
fn invalid_arguments_fail_only_their_own_call() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let deep = |levels: usize| format!("{{\"text\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let cases = [
            ("same key", r#"{"text":"a","text":"b"}"#.to_owned()),
            ("same key inside", r#"{"text":{"a":1,"a":1}}"#.to_owned()),
            ("too deep", deep(65)),
            ("too large", format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20))),
            ("2^64", r#"{"text":18446744073709551616}"#.to_owned()),
            ("-2^63-1", r#"{"text":-9223372036854775809}"#.to_owned()),
            ("1e400", r#"{"text":1e400}"#.to_owned()),
            ("no object", "[]".to_owned()),
            ("lone surrogate", r#"{"text":"\ud800"}"#.to_owned()),
        ];
        for (case, arguments) in cases {
            let calls = format!(
                r#"{{"calls":[{{"tool":"hostile/echo","arguments":{arguments}}},{{"tool":"hostile/echo","arguments":{{"text":"x"}}}}]}}"#
            );
            let reply = session.client.post_text(&session.path("/calls"), &calls).expect(200).json();
            let (bad, good) = (&reply["results"][0], &reply["results"][1]);
            assert_eq!(bad["error"]["error_type"], "INVALID_ARGUMENTS", "{case}: {bad}");
            assert!(
                bad["error"]["message"].as_str().is_some_and(|text| text.starts_with("Validation Error: ")),
                "{case}: {bad}"
            );
            assert_eq!(good["output"], "x", "{case}");
        }
        let large = session.call("hostile/echo", json!({"text": "x".repeat((1 << 20) - 100)}));
        assert_eq!(large.status(), "ok", "{:?}", large.error_type());
    });
}

#[test]
fn t4_a_request_runs_thirty_two_calls_at_the_same_time_and_not_more() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let doze = json!({"tool": "hostile/doze", "arguments": {}});
        let mut events = Stream::open(&session.client, &session.path("/events"));
        let post = json!({"calls": vec![doze.clone(); 32]}).to_string();
        let headers = [("Content-Type", "application/json")];
        let running = session.client.start("POST", &session.path("/calls"), &headers, post.as_bytes());
        // None ends by itself, so all of them run when the last one begins.
        let mut begun = Vec::new();
        while begun.len() < 32 {
            let (name, event) = events.next().expect("an event");
            begun.extend((name == "progress").then(|| event["call"].clone()));
        }
        for id in begun {
            session.cancel(id.as_str().expect("an id")).expect(204);
        }
        let answer = running.reply().expect(200).json();
        assert_eq!(answer["results"].as_array().map(Vec::len), Some(32), "{answer}");
        session.post(&json!({"calls": vec![doze; 33]})).expect_refusal(413, "TOO_LARGE");
        session.post(&json!({"calls": []})).expect_refusal(400, "INVALID_REQUEST");
        assert_eq!(
            fixture.daemon.operator().audit(&format!("kind=call&session={}&limit=100", session.id)).len(),
            32
        );
    });
}

/// 34: the orchestrator gives its calls a time, within the limits of the rules.
#[test]
fn a_request_bounds_the_time_of_its_calls() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let within = |deadline_ms: u64, tool: &str, arguments: Value| {
            let call = json!({"id": format!("c{deadline_ms}"), "tool": tool, "arguments": arguments});
            session.post(&json!({"calls": [call], "deadline_ms": deadline_ms}))
        };
        let ended = within(50, "hostile/doze", json!({})).expect(200).json();
        assert_eq!(ended["results"][0]["error"]["error_type"], "DEADLINE_EXCEEDED", "{ended}");
        let done = within(100_000_000, "hostile/rest", json!({"ms": 1})).expect(200).json();
        assert_eq!(done["results"][0]["status"], "ok", "{done}");
        within(0, "hostile/rest", json!({"ms": 1})).expect_refusal(400, "INVALID_REQUEST");
    });
}

#[test]
fn r7_a_repeated_id_runs_once_and_gets_the_same_result() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let write = json!({"path": "log.txt", "content": "once"});
        let first = session.call_as("c1", "call_files_write", write.clone());
        assert_eq!(first.output()["created"], true);
        let mut again = session.call_as("c1", "call_files_write", write.clone());
        assert_eq!(again.0["replayed"].take(), true, "{}", again.0);
        again.0.as_object_mut().expect("an object").remove("replayed");
        assert_eq!(again, first, "the call ran again");
        assert_eq!(session.get_result("c1"), first);
        session.audit_row(&fixture.daemon.operator(), "c1");
        let other = json!({"path": "log.txt", "content": "twice"});
        session.call_as("c1", "call_files_write", other.clone()).expect_error("CONFLICT");
        session.call_as("c1", "call_files_read", write).expect_error("CONFLICT");
        assert_eq!(session.get_file("log.txt").expect(200).text(), "once");
        // Ids are scoped to a session.
        assert_eq!(fixture.session().call_as("c1", "call_files_write", other).output()["created"], true);
    });
}

#[test]
fn r7_a_repeated_id_gets_running_while_the_call_runs() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let running = session.start("c1", "hostile/doze", json!({}));
        session.wait_until_running("c1");
        let call = json!({"id": "c1", "tool": "hostile/doze", "arguments": {}});
        let again = session.post(&json!({"calls": [call]})).expect(200).json();
        let known = &again["results"][0];
        assert_eq!((&known["status"], &known["executed"]), (&json!("running"), &json!("unknown")));
        assert_eq!(again["next"], "wait", "a running call means `wait`");
        session.call_as("c1", "hostile/rest", json!({"ms": 1})).expect_error("CONFLICT");
        session.cancel("c1").expect(204);
        running.reply().expect(200);
        session.get_call("c1").expect_error("CANCELLED");
    });
}

#[test]
fn r7_two_calls_of_a_request_cannot_have_one_id() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let call = json!({"id": "c1", "tool": "hostile/rest", "arguments": {"ms": 1}});
        let answer = session.post(&json!({"calls": [call, call]})).expect(200).json();
        let [first, second] = [&answer["results"][0], &answer["results"][1]];
        assert_eq!((&first["id"], &first["status"]), (&json!("c1"), &json!("ok")), "{answer}");
        assert_eq!(
            (&second["id"], &second["error"]["error_type"]),
            (&json!("c1"), &json!("CONFLICT")),
            "{answer}"
        );
        let calls = fixture.daemon.operator().audit(&format!("kind=call&session={}", session.id));
        assert_eq!(calls.len(), 1, "the second did not run");
    });
}

#[test]
fn m6_an_id_of_any_visible_characters_names_its_call_in_answers_and_paths() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let id = "call/1 é+=";
        let call = json!({"calls": [{"id": id, "tool": "hostile/rest", "arguments": {"ms": 1}}]});
        for replayed in [None, Some(true)] {
            let result = session.post(&call).expect(200).json()["results"][0].clone();
            assert_eq!((&result["id"], &result["status"]), (&json!(id), &json!("ok")), "{result}");
            assert_eq!(result["replayed"].as_bool(), replayed, "{result}");
        }
        let read = |id: &str| session.client.get(&session.path(&format!("/calls/{id}")));
        assert_eq!(read("call%2F1%20%C3%A9%2B%3D").expect(200).json()["status"], "ok");
        read("call%2F2").expect_refusal(404, "NOT_FOUND");
        let wrong =
            json!({"calls": [{"id": "a\nb", "tool": "hostile/count"}, {"id": "", "tool": "hostile/count"}]});
        let results = session.post(&wrong).expect(200).json()["results"].clone();
        assert_eq!(results[0]["error"]["error_type"], "INVALID_REQUEST", "{results}");
        assert_eq!(results[1]["status"], "ok", "{results}");
    });
}

#[test]
fn t5_a_tool_reads_every_field_of_its_context() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.make("/v1/platform/policy", &json!({"channels": {"sms": {}}})).expect(201);
    operator.make_agent("acme/bot", &json!({"enabled": ["hostile/*"], "limits": {"deadline_ms": 20_000}}));
    let request = json!({"agent": "acme/bot", "user": "u-17", "conversation": "v-1", "channel": "sms"});
    let opened = operator.post("/v1/sessions", &request).expect(201).json();
    let session = Session { client: operator, id: opened["session"].as_str().expect("an id").to_owned() };
    let told = session.call_as("c1", "hostile/about", json!({}));
    // R4: the answer about one call has both, as that to a request with calls.
    assert_eq!(session.get_call("c1").0["conversation"], "v-1");
    let left: u64 = told.output()[1].as_str().and_then(|text| text.parse().ok()).expect("milliseconds");
    assert!((1..=20_000).contains(&left), "{left}");
    let rest = [
        &told.output()[0],
        &told.output()[2],
        &told.output()[3],
        &told.output()[4],
        &told.output()[5],
        &told.output()[6],
        &told.output()[7],
        &told.output()[8],
    ];
    assert_eq!(
        json!(rest),
        json!(["c1", session.id, "v-1", "acme", "bot", "u-17", "sms", null]),
        "{}",
        told.0
    );
    let bare = daemon.session_within("acme/plain", &json!({})).call_as("c1", "hostile/about", json!({}));
    assert_eq!(
        json!([bare.output()[3], bare.output()[6], bare.output()[7]]),
        json!([null, null, null]),
        "{}",
        bare.0
    );
}

#[test]
fn r11_content_blocks_reach_every_provider_as_its_own() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let arguments = json!({"mime_type": "image/png"});
        let own = session.call("hostile/show", arguments.clone());
        assert_eq!((own.output(), &own.0["content"][1]["data"]), (&json!(7), &json!("QUJD")), "{}", own.0);
        let post = |body: Value| session.post(&body).expect(200).json();
        let anthropic = post(
            json!({"anthropic": [{"type": "tool_use", "id": "a1", "name": "call_hostile_show", "input": arguments}]}),
        );
        let blocks = &anthropic["anthropic"][0]["content"];
        assert_eq!((&blocks[0]["text"], &blocks[1]["text"]), (&json!("7"), &json!("see it")), "{blocks}");
        assert_eq!(blocks[2]["source"], json!({"type": "base64", "media_type": "image/png", "data": "QUJD"}));
        assert_eq!(anthropic["calls"][0]["content"][2]["path"], "/workspace/a.pdf");
        let function = json!({"name": "call_hostile_show", "arguments": arguments.to_string()});
        let openai =
            post(json!({"openai": {"tool_calls": [{"id": "o1", "type": "function", "function": function}]}}));
        let text = openai["openai"][0]["content"].as_str().expect("a text");
        assert!(text.starts_with("7\nsee it\n[image/png, about 3 bytes: left out"), "{text}");
        let wrong = session.call("hostile/show", json!({"mime_type": "text/html"}));
        assert!(wrong.expect_error("INVALID_OUTPUT").message().contains("mime_type"));
    });
}

#[test]
fn r6_respond_async_accepts_calls_at_once() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let dozing = json!({"id": "c1", "tool": "hostile/doze"});
        let post = |calls: Value| {
            let body = json!({"calls": calls}).to_string();
            let headers = [("Content-Type", "application/json"), ("Prefer", "respond-async, wait=1")];
            session.client.start("POST", &session.path("/calls"), &headers, body.as_bytes()).reply()
        };
        let accepted =
            post(json!([dozing, {"id": "c2", "tool": "hostile/rest", "arguments": {"ms": 1}}])).expect(202);
        assert_eq!(accepted.header("preference-applied"), Some("respond-async"));
        let accepted = accepted.json();
        assert_eq!(accepted["next"], "wait", "{accepted}");
        assert_eq!(
            (&accepted["results"][0]["status"], &accepted["results"][1]["id"]),
            (&json!("running"), &json!("c2"))
        );
        wait::until_true("the call to end", || {
            session.client.get(&session.path("/calls/c2")).status == 200
                && session.get_call("c2").status() == "ok"
        });
        assert_eq!(session.get_call("c1").status(), "running");
        let again = post(json!([{"id": "c2", "tool": "hostile/rest", "arguments": {"ms": 1}}, {"id": "c1", "tool": "hostile/rest"}])).json();
        assert_eq!(
            (&again["results"][0]["output"], &again["results"][0]["replayed"]),
            (&json!(1), &json!(true)),
            "{again}"
        );
        assert_eq!(again["results"][1]["error"]["error_type"], "CONFLICT", "{again}");
        session.cancel("c1").expect(204);
    });
}

/// Plugins are loaded, replaced, rolled back and removed while their calls run. No call fails.
#[test]
fn o1_no_call_fails_while_its_plugin_changes() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let version = |number: u32| {
            let describe = PluginFile::new("changing").with_member("version", json!(format!("{number}.0.0")));
            describe.with_result(&number.to_string()).build()
        };
        operator.load("changing", &version(1));
        let session = fixture.session();
        let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let seen = Mutex::new(BTreeSet::new());
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let reply = session.call("changing/answer", json!({}));
                        let number = reply.output().as_u64().expect("a number");
                        assert_eq!(reply.0["plugin"]["version"], format!("{number}.0.0"), "{}", reply.0);
                        seen.lock().expect("no panic").insert(number);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let since = |mark: usize| {
                wait::until_true("calls between two changes", || {
                    answered.load(Ordering::Relaxed) > mark + 20
                });
            };
            for number in [2, 3, 2] {
                since(answered.load(Ordering::Relaxed));
                operator.load("changing", &version(number));
            }
            since(answered.load(Ordering::Relaxed));
            operator.post("/v1/plugins/changing/rollback", &json!({})).expect(200);
            since(answered.load(Ordering::Relaxed));
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(seen.into_inner().expect("no panic"), BTreeSet::from([1, 2, 3]));
        let running = session.start("long", "hostile/rest", json!({"ms": 1500}));
        session.wait_until_running("long");
        operator.delete("/v1/plugins/hostile").expect(204);
        session.call("hostile/echo", json!({"text": "gone"})).expect_error("TOOL_NOT_FOUND");
        let answer = running.reply().expect(200).json();
        assert_eq!(answer["results"][0]["output"], 1500, "a running call failed: {answer}");
        operator.load("hostile", guests::HOSTILE);
        assert_eq!(session.call("hostile/echo", json!({"text": "back"})).output(), "back");
    });
}

#[test]
fn o1_a_disabled_plugin_takes_no_calls_and_an_enabled_one_does_again() {
    with_fixture(|fixture| {
        let (operator, session) = (fixture.daemon.operator(), fixture.session());
        operator.post("/v1/plugins/arithmetic/disable", &json!({})).expect(200);
        let call = || session.call("arithmetic/evaluate", json!({"expression": "1"}));
        call().expect_error("TOOL_DISABLED");
        operator.delete("/v1/plugins/arithmetic").expect_refusal(409, "CONFLICT");
        operator.post("/v1/plugins/arithmetic/enable", &json!({})).expect(200);
        assert_eq!(call().status(), "ok");
    });
}

#[test]
fn a_policy_change_holds_at_once_for_open_sessions() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("acme/changing", &json!({"enabled": ["hostile/*"]}));
        let session = operator.open_session("acme/changing");
        let call = || session.call("hostile/echo", json!({"text": "x"}));
        assert_eq!(call().status(), "ok");
        let path = "/v1/orgs/acme/agents/changing";
        operator.replace(path, &json!({"enabled": ["arithmetic/*"]})).expect(200);
        call().expect_error("ACCESS_DENIED");
        operator.replace(path, &json!({"enabled": ["hostile/*"], "autonomy": "autonomous"})).expect(200);
        assert_eq!(call().status(), "ok");
    });
}
