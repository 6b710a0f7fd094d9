//! Resource limits of guests (B1, B2).
//!
//! Each test checks the documented error code, one audit row with that code, free instance slots (two concurrent
//! calls must find the two slots), and that the daemon's memory and open files are back.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod failures;
mod host;
mod memory;
mod slots;

use toolgate_tests::component::PluginFile;
use toolgate_tests::{CallReply, Daemon, LeakCheck, Session, Shared, Value, guests, json, process, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Two slots, so that a leaked slot is noticed at once. The high fuel limit lets a test reach other limits first.
const SETTINGS: &str = "
[sandbox]
instances = 2
[limits]
fuel = 1_000_000_000_000
";

/// Slots in the pool.
const INSTANCES: usize = 2;

/// Codes of `interfaces.md` with which a call may end.
const DOCUMENTED: &[&str] = &[
    "FUEL_EXHAUSTED",
    "MEMORY_EXCEEDED",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXCEEDED",
    "OUTPUT_TOO_LARGE",
    "INVALID_OUTPUT",
    "TOOL_CRASHED",
    "TOOL_FAILED",
    "NETWORK_DENIED",
];

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    agents: u32,
    good: Session,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        let operator = daemon.operator();
        operator.load("hostile", guests::HOSTILE);
        let good = daemon.session_within("acme/good", &json!({}));
        let mut fixture = Self { daemon, agents: 0, good };
        // Warm-up: the pool's first pages, store connections and file threads are kept, and are no leaks.
        let warm = fixture.session(&json!({"memory_bytes": 67_108_864}));
        for tool in ["hostile/swallow", "hostile/log_flood"] {
            warm.calls(&[
                json!({"tool": tool, "arguments": {"lines": 100}}),
                json!({"tool": "hostile/swallow"}),
            ]);
        }
        fixture.good.calls(&[rest(), rest()]);
        operator.audit("limit=1");
        fixture
    }

    /// Opens a session of a new agent.
    fn session(&mut self, limits: &Value) -> Session {
        self.agents += 1;
        self.daemon.session_within(&format!("acme/a{}", self.agents), limits)
    }

    /// Makes one call and checks audit row, slots, memory and files.
    fn call(&mut self, limits: Value, tool: &str, arguments: Value) -> CallReply {
        let session = self.session(&limits);
        let leak_check = LeakCheck::start(&self.daemon);
        let reply = session.call_as("c1", tool, arguments);
        self.assert_recorded(&session, &reply);
        self.assert_slots_free();
        // The workspace of an open session stays open.
        session.client.delete(&session.path("")).expect(204);
        leak_check.assert_none(&mut self.daemon);
        reply
    }

    /// Makes calls until one fits, since a busy machine may begin a call late or stop it for a while.
    fn call_until(
        &mut self,
        limits: &Value,
        tool: &str,
        arguments: &Value,
        fits: impl Fn(&CallReply) -> bool,
    ) -> CallReply {
        wait::until("a call that fits", || {
            Some(self.call(limits.clone(), tool, arguments.clone())).filter(|reply| fits(reply))
        })
    }

    fn assert_recorded(&self, session: &Session, reply: &CallReply) {
        let row = session.audit_row(&self.daemon.operator(), reply.id());
        let outcome = &row["outcome"];
        assert_eq!(outcome["error_type"].as_str(), reply.error_type(), "{row}");
        assert_eq!(outcome["status"].as_str(), Some(reply.status()), "{row}");
        assert_eq!(outcome["executed"], reply.0["executed"], "{row}");
        assert_eq!(outcome["usage"]["fuel"], reply.0["usage"]["fuel"], "{row}");
        if let Some(code) = reply.error_type() {
            assert!(DOCUMENTED.contains(&code), "{}", reply.0);
        }
    }

    /// Makes as many concurrent calls as there are slots.
    fn assert_slots_free(&self) {
        for reply in self.good.calls(&vec![rest(); INSTANCES]) {
            assert_eq!(reply.output(), 20);
        }
    }
}

fn rest() -> Value {
    json!({"tool": "hostile/rest", "arguments": {"ms": 20}})
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

#[test]
fn a_result_has_its_usage() {
    with_fixture(|fixture| {
        let reply = fixture.call(json!({}), "call_hostile_echo", json!({"text": "hello"}));
        assert_eq!(reply.output(), "hello");
        for measure in ["fuel", "memory_bytes", "duration_us"] {
            assert!(reply.usage(measure) > 0, "{measure}: {}", reply.0);
        }
    });
}

#[test]
fn an_endless_loop_ends_by_fuel() {
    with_fixture(|fixture| {
        let reply = fixture
            .call(json!({"fuel": 100_000_000}), "hostile/spin", json!({}))
            .expect_error("FUEL_EXHAUSTED");
        assert_eq!(reply.limit(), Some("fuel"));
        assert_eq!(reply.usage("fuel"), 100_000_000);
        assert_eq!(reply.usage("host_calls"), 0);
        assert_eq!(reply.0["executed"], "yes");
    });
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    with_fixture(|fixture| {
        let limits = json!({"deadline_ms": 300});
        // A call that misses its deadline in the queue exceeds no limit.
        let is_stopped = |reply: &CallReply| reply.limit() == Some("deadline_ms");
        fixture.call_until(&limits, "hostile/spin", &json!({}), is_stopped).expect_error("DEADLINE_EXCEEDED");
        assert_stops_in_time(fixture, "hostile/spin", 300);
    });
}

/// Preemption is not a host call, and the fuel of a guest that makes no host calls is still counted.
#[test]
fn b1_a_guest_that_computes_until_its_deadline_used_fuel_and_no_host_calls() {
    with_fixture(|fixture| {
        let limits = json!({"deadline_ms": 1_000, "host_calls": 0});
        let slice = 20_000_000;
        let computed = |reply: &CallReply| reply.usage("fuel") >= slice;
        let reply = fixture.call_until(&limits, "hostile/spin", &json!({}), computed);
        assert_eq!(reply.expect_error("DEADLINE_EXCEEDED").usage("host_calls"), 0);
        let limits = json!({"host_calls": 0});
        fixture.call(limits, "hostile/rest", json!({"ms": 1})).expect_error("RESOURCE_EXCEEDED");
    });
}

#[test]
fn a_busy_guest_does_not_delay_other_calls() {
    with_fixture(|fixture| {
        let session = fixture.session(&json!({"deadline_ms": 30_000}));
        let busy = session.start("b1", "hostile/spin", json!({}));
        session.wait_until_running("b1");
        let reply = fixture.good.call("hostile/echo", json!({"text": "still here"}));
        assert_eq!(reply.output(), "still here");
        session.cancel("b1").expect(204);
        let reply = busy.reply().expect(200).json();
        assert_eq!(reply["results"][0]["error"]["error_type"], "CANCELLED", "{reply}");
    });
}

#[test]
fn a_guest_that_sleeps_for_ever_ends_at_its_deadline() {
    with_fixture(|fixture| {
        let reply = fixture
            .call(json!({"deadline_ms": 300}), "hostile/doze", json!({}))
            .expect_error("DEADLINE_EXCEEDED");
        assert!(reply.usage("fuel") < 1_000_000, "fuel was used while sleeping: {}", reply.0);
        assert_stops_in_time(fixture, "hostile/doze", 300);
    });
}

/// Asserts that a call ends within 100 ms of its deadline, as soon as the machine has time for one.
fn assert_stops_in_time(fixture: &mut Fixture, tool: &str, deadline_ms: u64) {
    let session = fixture.session(&json!({"deadline_ms": deadline_ms}));
    wait::until_true("a call that ends at its deadline", || {
        let took_ms = session.call(tool, json!({})).usage("duration_us") / 1000;
        (deadline_ms - 50..=deadline_ms + 100).contains(&took_ms)
    });
}

#[test]
fn endless_recursion_ends_at_the_stack_limit() {
    with_fixture(|fixture| {
        let reply = fixture.call(json!({}), "hostile/recurse", json!({})).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("stack"));
    });
}

/// Asserts that a plugin that needs too much is refused at load (which calls `describe`) or when it is called.
fn assert_refused_at_load_or_call(fixture: &mut Fixture, file: &PluginFile, namespace: &str, code: &str) {
    let leak_check = LeakCheck::start(&fixture.daemon);
    let operator = fixture.daemon.operator();
    let reply = operator.upload(namespace, &file.build());
    if reply.status == 200 {
        fixture.call(json!({}), &format!("{namespace}/answer"), json!({})).expect_error(code);
        operator.delete(&format!("/v1/plugins/{namespace}")).expect(204);
    } else {
        reply.expect_refusal(422, "INVALID_PLUGIN");
        operator.get(&format!("/v1/plugins/{namespace}")).expect_refusal(404, "NOT_FOUND");
    }
    fixture.assert_slots_free();
    leak_check.assert_none(&mut fixture.daemon);
}

#[test]
fn a_trap_in_start_is_refused_when_the_plugin_is_loaded() {
    with_fixture(|fixture| {
        let trap = PluginFile::new("trap-in-start").with_inner("(func $trap unreachable) (start $trap)");
        let reply = fixture
            .daemon
            .operator()
            .upload("trap-in-start", &trap.build())
            .expect_refusal(422, "INVALID_PLUGIN");
        assert!(reply.text().contains("unreachable"), "{}", reply.text());
        let endless = PluginFile::new("endless-start")
            .with_inner("(func $endless (loop $more (br $more))) (start $endless)");
        fixture
            .daemon
            .operator()
            .upload("endless-start", &endless.build())
            .expect_refusal(422, "INVALID_PLUGIN");
        let quiet = PluginFile::new("quiet-start").with_inner("(func $quiet) (start $quiet)");
        fixture.daemon.operator().load("quiet-start", &quiet.build());
        fixture.assert_slots_free();
    });
}

#[test]
fn endless_host_calls_end_at_the_host_call_limit() {
    with_fixture(|fixture| {
        let reply =
            fixture.call(json!({}), "hostile/spin_in_host", json!({})).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("host_calls"));
        assert!(reply.usage("host_calls") <= 100_001, "{}", reply.0);
    });
}

#[test]
fn host_calls_use_fuel() {
    with_fixture(|fixture| {
        let limits = json!({"fuel": 10_000_000});
        let reply = fixture.call(limits, "hostile/spin_in_host", json!({})).expect_error("FUEL_EXHAUSTED");
        assert!((1_000..=20_000).contains(&reply.usage("host_calls")), "{}", reply.0);
    });
}

#[test]
fn random_bytes_are_limited() {
    with_fixture(|fixture| {
        assert_eq!(fixture.call(json!({}), "hostile/dice", json!({"bytes": 65_536})).output(), 65_536);
        for bytes in [65_537, 1_u64 << 32] {
            let at_once = |reply: &CallReply| reply.usage("duration_us") < 5_000_000;
            let reply = fixture.call_until(&json!({}), "hostile/dice", &json!({"bytes": bytes}), at_once);
            assert_eq!(reply.expect_error("RESOURCE_EXCEEDED").limit(), Some("random_bytes"));
        }
        let limits = json!({"host_calls": 1000});
        let reply =
            fixture.call(limits, "hostile/dice_for_ever", json!({})).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("host_calls"));
        // Host work is charged to the guest as fuel.
        let limits = json!({"fuel": 100_000_000});
        let reply = fixture.call(limits, "hostile/dice_for_ever", json!({})).expect_error("FUEL_EXHAUSTED");
        assert!(reply.usage("host_calls") < 1_000, "{}", reply.0);
    });
}

#[test]
fn endless_random_bytes_end_at_the_deadline() {
    with_fixture(|fixture| {
        fixture
            .call(json!({"deadline_ms": 100}), "hostile/dice_for_ever", json!({}))
            .expect_error("DEADLINE_EXCEEDED");
    });
}

#[test]
fn a_huge_log_message_is_refused() {
    with_fixture(|fixture| {
        assert_eq!(
            fixture.call(json!({}), "hostile/shout_to_host", json!({"bytes": 1 << 20})).output(),
            1 << 20
        );
        let reply = fixture
            .call(json!({}), "hostile/shout_to_host", json!({"bytes": 10 << 20}))
            .expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("host_call_bytes"));
    });
}

/// Bulk operations cost fuel by bytes, also in slices.
#[test]
fn b2_bulk_memory_operations_do_their_work_and_cost_fuel() {
    with_fixture(|fixture| {
        let filled = fixture.call(json!({}), "hostile/fill_and_copy", json!({"mebibytes": 25}));
        assert_eq!(filled.output(), 25 << 20);
        let fuel = filled.0["usage"]["fuel"].as_u64().expect("fuel");
        assert!(fuel > 50 << 20, "{fuel}");
        fixture
            .call(json!({"fuel": 10_000_000}), "hostile/fill_and_copy", json!({"mebibytes": 25}))
            .expect_error("FUEL_EXHAUSTED");
    });
}

#[test]
fn r10_a_result_over_the_limit_is_in_the_workspace_and_one_over_all_limits_is_refused() {
    with_fixture(|fixture| {
        let whole = fixture.call(json!({}), "hostile/shout", json!({"bytes": (1 << 20) - 2}));
        assert_eq!(whole.output().as_str().map(str::len), Some((1 << 20) - 2));
        // Programs get the whole, and a model the file where its text is cut.
        let session = fixture.session(&json!({}));
        let call =
            json!({"id": "c", "name": "call_hostile_shout", "input": {"bytes": 70_000}, "type": "tool_use"});
        let answer = session.post(&json!({"anthropic": [call]})).expect(200).json();
        assert_eq!(answer["calls"][0]["output"].as_str().map(str::len), Some(70_000));
        let text = answer["anthropic"][0]["content"].as_str().expect("a text");
        let (_, file) = text.rsplit_once("the whole result is in the file /workspace/").expect("a file");
        let kept = session.get_file(file.trim_end_matches(']')).expect(200).json();
        assert_eq!(kept.as_str().map(str::len), Some(70_000));
        for bytes in [1 << 20, 8 << 20] {
            let session = fixture.session(&json!({}));
            let call = json!({"id": "shouted_once", "type": "function", "function": {"name": "call_hostile_shout", "arguments": json!({"bytes": bytes}).to_string()}});
            let answer = session.post(&json!({"openai": {"tool_calls": [call]}})).expect(200).json();
            let output = &answer["calls"][0]["output"];
            assert_eq!(output["bytes"], bytes + 2, "{output}");
            let path = output["path"].as_str().expect("a path");
            let text = answer["openai"][0]["content"].as_str().expect("a text");
            assert!(text.contains(path) && text.len() < 10_000 && text.contains("\"xxxx"), "{text}");
            let file = path.strip_prefix("/workspace/").expect("a path in the workspace");
            assert!(file.starts_with(".results/r_") && !file.contains("shouted_once"), "{file}");
            let kept = session.get_file(file).expect(200).json();
            assert_eq!(kept.as_str().map(str::len), Some(bytes));
            let row = session.audit_row(&fixture.daemon.operator(), "shouted_once");
            assert_eq!(row["outcome"]["output"]["bytes"], bytes + 2, "{row}");
            let effects = fixture.daemon.operator().audit(&format!("kind=effect&session={}", session.id));
            assert!(effects[0].to_string().contains(file), "{effects:?}");
        }
        let reply = fixture
            .call(json!({"output_bytes": 100_000}), "hostile/shout", json!({"bytes": 2 << 20}))
            .expect_error("OUTPUT_TOO_LARGE");
        assert_eq!(reply.limit(), Some("output_bytes"));
        assert!(reply.message().contains("the tool ran"), "{}", reply.0);
        let no_room = fixture
            .call(json!({"workspace_bytes": 1000}), "hostile/shout", json!({"bytes": 1 << 20}))
            .expect_error("OUTPUT_TOO_LARGE");
        assert!(no_room.message().contains("the tool ran"), "{}", no_room.0);
        assert_eq!(no_room.0["executed"], "yes");
    });
}

#[test]
fn a_result_outside_the_guests_memory_is_a_crash() {
    with_fixture(|fixture| {
        let far = "(i32.store8 (i32.const 0) (i32.const 0)) (i32.store8 (i32.const 4) (i32.const 0))
            (i32.store (i32.const 8) (i32.const 0x7fffffff)) (i32.store (i32.const 12) (i32.const 64)) (i32.const 0)";
        let file = PluginFile::new("far-result").with_call(far);
        fixture.daemon.operator().load("far-result", &file.build());
        fixture.call(json!({}), "far-result/answer", json!({})).expect_error("TOOL_CRASHED");
    });
}

#[test]
fn a_log_flood_is_truncated_and_the_tool_continues() {
    with_fixture(|fixture| {
        for (tool, lines) in [("hostile/log_flood", 20_000), ("hostile/print_flood", 3_000)] {
            let reply = fixture.call(json!({}), tool, json!({"lines": lines}));
            assert_eq!(reply.output(), lines);
            assert!((32 << 10..=64 << 10).contains(&reply.usage("log_bytes")), "{}", reply.0);
        }
        fixture.daemon.wait_for_log("the dropped lines", |line| line.contains("cut at its limit"));
    });
}

#[test]
fn a_plugin_cannot_forge_a_log_line() {
    with_fixture(|fixture| {
        let forged = "first\n2026-01-01T00:00:00Z  INFO toolgate: all is well\x1b[2J\u{202e}";
        fixture.call(json!({}), "hostile/log", json!({"message": forged})).output();
        let line = fixture.daemon.wait_for_log("the plugin's message", |line| line.contains("all is well"));
        assert!(
            line.contains("first\\n") && !line.contains('\x1b') && !line.contains('\u{202e}'),
            "{line:?}"
        );
    });
}

#[test]
fn the_json_log_has_the_plugins_message_unchanged() {
    let daemon = Daemon::start(PROGRAM, "[log]\nformat = \"json\"");
    daemon.operator().load("hostile", guests::HOSTILE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let said = "first\nall is \"well\"\x1b[2J\u{202e}";
    session.call("hostile/log", json!({"message": said})).output();
    let line = daemon.wait_for_log("the plugin's message", |line| line.contains("all is"));
    assert!(!line.contains('\u{202e}'), "{line}");
    let line: Value = serde_json::from_str(&line).expect("json");
    assert_eq!((&line["message"], &line["event"]), (&json!(said), &json!("said")), "{line}");
    let pairs = json!([["length", said.len().to_string()]]);
    let fields = &line["fields"];
    assert_eq!((&fields["fields"], &fields["session"]), (&pairs, &json!(session.id)), "{line}");
    assert_eq!(fields["tool"], "hostile/log", "{line}");
}

#[test]
fn empty_writes_use_no_memory() {
    with_fixture(|fixture| {
        let reply = fixture.call(json!({}), "hostile/empty_writes", json!({"writes": 40_000}));
        assert_eq!(reply.output(), 40_000);
        assert_eq!(reply.usage("log_bytes"), 0);
    });
}

#[test]
fn too_many_open_handles_are_refused() {
    with_fixture(|fixture| {
        for tool in ["hostile/pollables", "hostile/streams"] {
            assert_eq!(fixture.call(json!({}), tool, json!({"count": 100})).output(), 100);
            let reply =
                fixture.call(json!({}), tool, json!({"count": 50_000})).expect_error("RESOURCE_EXCEEDED");
            assert!(matches!(reply.limit(), Some("resources" | "component_handles")), "{}", reply.0);
        }
    });
}

#[test]
fn t6_a_panic_and_an_exit_are_crashes() {
    with_fixture(|fixture| {
        let reply = fixture
            .call(json!({}), "hostile/panic", json!({"message": "goodbye"}))
            .expect_error("TOOL_CRASHED");
        assert_eq!(reply.0["executed"], "yes");
        fixture.daemon.wait_for_log("the exception", |line| line.contains("[panic_call__Exception]"));
        for code in [0, 1] {
            fixture.call(json!({}), "hostile/exit", json!({"code": code})).expect_error("TOOL_CRASHED");
        }
    });
}

#[test]
fn a_tool_error_has_the_tools_own_message() {
    with_fixture(|fixture| {
        let reply = fixture
            .call(json!({}), "hostile/fail", json!({"message": "no such city"}))
            .expect_error("TOOL_FAILED");
        assert_eq!(reply.message(), "no such city");
    });
}

#[test]
fn r3_a_result_that_breaks_its_schema_is_refused() {
    with_fixture(|fixture| {
        let number = json!({"type": "number"});
        let cases = [
            ("text-for-number", "\"one\"".to_owned(), number.clone()),
            ("no-json", "{".to_owned(), json!({})),
            ("no-result", String::new(), json!({})),
            ("two-results", "1 2".to_owned(), json!({})),
            ("same-key", r#"{"a":1,"a":2}"#.to_owned(), json!({})),
            ("deep-result", "[".repeat(100_000) + &"]".repeat(100_000), json!({})),
            ("endless-number", "1e999".to_owned(), json!({})),
        ];
        for (namespace, answer, schema) in cases {
            let file = PluginFile::new(namespace).with_tool("output_schema", schema).with_result(&answer);
            fixture.daemon.operator().load(namespace, &file.build());
            fixture.call(json!({}), &format!("{namespace}/answer"), json!({})).expect_error("INVALID_OUTPUT");
        }
        let file = PluginFile::new("kept-promise").with_tool("output_schema", number).with_result("1.5");
        fixture.daemon.operator().load("kept-promise", &file.build());
        assert_eq!(fixture.call(json!({}), "kept-promise/answer", json!({})).output(), 1.5);
    });
}

#[test]
fn b2_an_agents_limit_can_only_be_lower() {
    with_fixture(|fixture| {
        let small = json!({"output_bytes": 100, "workspace_bytes": 0});
        let reply = fixture.call(small, "hostile/shout", json!({"bytes": 200}));
        assert_eq!(reply.expect_error("OUTPUT_TOO_LARGE").0["error"]["details"]["allowed"], 100);
        let wide = json!({"output_bytes": 1_u64 << 30, "memory_bytes": 1_u64 << 40});
        let reply = fixture.call(wide, "hostile/swallow", json!({})).expect_error("MEMORY_EXCEEDED");
        assert_eq!(reply.0["error"]["details"]["allowed"], 64 << 20);
    });
}

#[test]
fn b2_a_plugins_own_limit_holds() {
    with_fixture(|fixture| {
        let file =
            PluginFile::new("modest").with_member("limits", json!({"output_bytes": 3})).with_result("12345");
        fixture.daemon.operator().load("modest", &file.build());
        fixture
            .call(json!({"workspace_bytes": 0}), "modest/answer", json!({}))
            .expect_error("OUTPUT_TOO_LARGE");
        // Without the check for leaks: the workspace stays open for a while.
        assert_eq!(fixture.session(&json!({})).call("modest/answer", json!({})).output()["bytes"], 5);
    });
}
