//! Components without the plugin contract (T10): loaded as they are, each function a tool.

use super::*;

/// The daemon with the guest `plain`, and a session that may call its tools.
struct Plain {
    daemon: Daemon,
    session: Session,
}

impl Plain {
    fn load() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        daemon.operator().upload("plain", guests::PLAIN).expect(200);
        let session = daemon.session_within("acme/bot", &json!({}));
        Self { daemon, session }
    }

    fn view(&self) -> Value {
        self.daemon.operator().get("/v1/plugins/plain").expect(200).json()
    }

    fn tool(&self, name: &str) -> Value {
        let view = self.view();
        let tools = view["tools"].as_array().expect("tools");
        tools.iter().find(|tool| tool["name"] == name).expect("a tool").clone()
    }

    #[track_caller]
    fn output(&self, tool: &str, arguments: Value) -> Value {
        self.session.call(&format!("plain/{tool}"), arguments).output().clone()
    }
}

#[test]
fn t10_a_component_of_plain_functions_loads_and_its_tools_are_called() {
    let plain = Plain::load();
    let place = json!({"city": "Oslo", "latitude": 59.9, "longitude": 10.75});
    let there = json!({"city": "OSLO", "latitude": 59.9, "longitude": 10.75});
    let cases = [
        ("sum", json!({"numbers": [1, 2, 255]}), json!(258)),
        ("sum", json!({"numbers": []}), json!(0)),
        ("locate", json!({"place": place, "days": ["monday"]}), json!([there, 1])),
        (
            "locate",
            json!({"place": {"city": "x", "latitude": 0}, "days": []}),
            json!([{"city": "X", "latitude": 0.0, "longitude": null}, 0]),
        ),
        (
            "format",
            json!({"seconds": "-9223372036854775808", "form": {"tag": "offset", "val": -5}, "parts": ["hours"]}),
            json!("-9223372036854775808 Form::Offset(-5) Parts(HOURS)"),
        ),
        ("letter", json!({"letter": "é", "twice": false}), json!({"some": "é"})),
        ("letter", json!({"letter": "-", "twice": true}), json!({"some": null})),
        ("letter", json!({"letter": "-", "twice": false}), json!(null)),
        ("divide", json!({"dividend": 1, "divisor": 0}), json!("Infinity")),
        ("divide", json!({"dividend": 1, "divisor": 4}), json!(0.25)),
        ("nested", json!({"outcome": {"tag": "ok", "val": [1, null]}}), json!([1, null])),
        ("repeat", json!({"text": "a", "times": 2}), json!(["a", "a"])),
        ("count", json!({"keys": ["a"]}), json!(1)),
        ("get_current_time", json!({"zone": "far"}), json!("18446744073709551615")),
    ];
    for (tool, arguments, expected) in cases {
        assert_eq!(plain.output(tool, arguments.clone()), expected, "{tool}: {arguments}");
    }
    assert!(
        plain.output("get_current_time", json!({})).as_u64().is_some_and(|seconds| seconds > 1_700_000_000)
    );
    assert_eq!(plain.output("get-current-time", json!({"zone": "far"})), "18446744073709551615");
}

#[test]
fn t10_an_error_value_fails_the_call_and_is_in_its_details() {
    let plain = Plain::load();
    let call = |tool: &str, arguments| plain.session.call(&format!("plain/{tool}"), arguments);
    let failed = call("fail", json!({"message": "no such city"})).expect_error("TOOL_FAILED");
    assert_eq!((failed.message(), &failed.0["error"]["details"]), ("no such city", &json!("no such city")));
    let failed = call("get_current_time", json!({"zone": "Mars"})).expect_error("TOOL_FAILED");
    assert_eq!(failed.0["error"]["details"], json!({"tag": "unknown-zone", "val": "Mars"}));
    let failed = call("nested", json!({"outcome": {"tag": "err", "val": "x"}})).expect_error("TOOL_FAILED");
    assert_eq!(failed.message(), "x");
    call("crash", json!({})).expect_error("TOOL_CRASHED");
}

#[test]
fn t10_arguments_are_validated_by_the_types() {
    let plain = Plain::load();
    let cases = [
        ("sum", json!({"numbers": [256]})),
        ("sum", json!({"numbers": [1.5]})),
        ("sum", json!({"numbers": "1"})),
        ("sum", json!({})),
        ("sum", json!({"numbers": [], "more": 1})),
        ("letter", json!({"letter": "ab", "twice": true})),
        ("format", json!({"seconds": "9223372036854775808", "form": {"tag": "short"}, "parts": []})),
        ("format", json!({"seconds": 1, "form": {"tag": "long"}, "parts": []})),
        ("format", json!({"seconds": 1, "form": {"tag": "short"}, "parts": ["years"]})),
        ("locate", json!({"place": {"city": "x"}, "days": []})),
    ];
    for (tool, arguments) in cases {
        let reply = plain.session.call(&format!("plain/{tool}"), arguments.clone());
        assert_eq!(reply.error_type(), Some("INVALID_ARGUMENTS"), "{tool}: {arguments}");
        assert!(reply.message().starts_with("Validation Error: "), "{}", reply.message());
    }
    let surrogate = r#"{"calls":[{"tool":"plain/repeat","arguments":{"text":"\ud800","times":1}}]}"#;
    let reply = plain.session.client.post_text(&plain.session.path("/calls"), surrogate);
    assert!(reply.text().contains("INVALID_") && !reply.text().contains("TOOL_CRASHED"), "{}", reply.text());
}

#[test]
fn t10_a_list_that_is_too_long_ends_the_call_alone() {
    let plain = Plain::load();
    let reply = plain.session.call("plain/repeat", json!({"text": "x", "times": 50_000_000}));
    let ended = ["MEMORY_EXCEEDED", "OUTPUT_TOO_LARGE", "FUEL_EXHAUSTED"];
    assert!(reply.error_type().is_some_and(|code| ended.contains(&code)), "{reply:?}");
    let reply = plain.session.call("plain/repeat", json!({"text": "", "times": 3_000_000}));
    assert!(reply.error_type().is_some_and(|code| ended.contains(&code)), "{reply:?}");
    assert_eq!(plain.output("repeat", json!({"text": "", "times": 1})), json!([""]));
}

#[test]
fn t10_functions_that_are_no_tools_are_named_with_the_reason() {
    let plain = Plain::load();
    let view = plain.view();
    let left_out = view["left_out"].as_array().expect("a list");
    let why = |name: &str| {
        let name = format!("local:time-server/store@0.2.0#{name}");
        left_out.iter().find(|left| left["name"] == name).map(|left| left["why"].clone())
    };
    assert_eq!(
        why("open"),
        Some(json!("its signature has the handle of a resource, which JSON cannot carry"))
    );
    assert_eq!(why("[constructor]bucket"), Some(json!("it belongs to a resource")));
    assert_eq!((&view["version"], &view["publisher"]), (&json!("0.2.0"), &json!(null)));
    plain.session.call("plain/open", json!({"name": "x"})).expect_error("TOOL_NOT_FOUND");
}

#[test]
fn t10_hints_of_functions_do_not_count() {
    let plain = Plain::load();
    let tool = plain.tool("get_current_time");
    assert_eq!((&tool["hints_state"], &tool["read_only"]), (&json!("unconfirmed"), &json!(false)));
    assert_eq!(tool["original_name"], "get-current-time");
}

/// 9.11: hints are off until an operator writes them for the version that serves.
#[test]
fn t10_an_operator_writes_the_hints_of_a_function_into_the_grant() {
    let plain = Plain::load();
    let operator = plain.daemon.operator();
    operator.make_agent("acme/careful", &json!({"enabled": ["*"], "autonomy": "supervised"}));
    let careful = operator.open_session("acme/careful");
    let status = |tool: &str, arguments: Value| careful.call(tool, arguments).status().to_owned();
    let sum = |numbers: &[u8]| status("plain/sum", json!({"numbers": numbers}));
    assert_eq!(sum(&[1]), "approval_required");
    let grant = |confirmed: &Value| {
        let hints = json!({"sum": {"read_only": true, "open_world": false}, "summ": {"read_only": true}});
        json!({"hints": hints, "confirmed_hints": confirmed})
    };
    let codes = |accepted: &Value| -> Vec<String> {
        let warnings = accepted["warnings"].as_array().into_iter().flatten();
        warnings.filter_map(|warning| warning["code"].as_str().map(str::to_owned)).collect()
    };
    // Hints that are confirmed for no version, or for another one, do not count.
    let another = json!(format!("sha256:{}", "0".repeat(64)));
    let path = "/v1/plugins/plain/grant";
    let accepted = operator.make(path, &grant(&Value::Null)).expect(201).json();
    assert!(codes(&accepted).contains(&"UNCONFIRMED".to_owned()), "{accepted}");
    operator.replace(path, &grant(&another)).expect(200);
    assert_eq!(
        (sum(&[2]), &plain.tool("sum")["hints_state"]),
        ("approval_required".to_owned(), &json!("unconfirmed"))
    );
    let accepted = operator.replace(path, &grant(&plain.view()["digest"])).expect(200).json();
    let codes = codes(&accepted);
    assert!(
        codes.contains(&"UNRESOLVED_TOOL".to_owned()) && !codes.contains(&"UNCONFIRMED".to_owned()),
        "{accepted}"
    );
    let tool = plain.tool("sum");
    assert_eq!((&tool["hints_state"], &tool["read_only"]), (&json!("confirmed"), &json!(true)), "{tool}");
    assert_eq!(
        (&tool["hints"]["open_world"], &tool["hints"]["destructive"]),
        (&json!(false), &json!(true)),
        "{tool}"
    );
    assert_eq!(sum(&[3]), "ok");
    assert_eq!(status("plain/repeat", json!({"text": "a", "times": 1})), "approval_required");
    for wrong in
        [json!({"sum": {"readonly": true}}), json!({"no such": {}}), json!({"sum": {"read_only": "yes"}})]
    {
        let refused = operator.replace(path, &json!({"hints": wrong}));
        let pointer = refused.expect_refusal(422, "INVALID_POLICY").json()["details"]["pointer"].clone();
        assert!(pointer.as_str().is_some_and(|pointer| pointer.starts_with("/hints/")), "{pointer}");
    }
    assert_eq!(sum(&[4]), "ok", "a refused grant changes nothing");
}

#[test]
fn t10_an_operator_describes_a_function_in_the_grant() {
    let plain = Plain::load();
    let operator = plain.daemon.operator();
    let made = plain.tool("sum");
    assert_eq!(made["description_source"], "signature");
    assert!(
        made["usage"].as_str().is_some_and(|usage| usage.contains("sum: func(numbers: list<u8>) -> u32"))
    );
    let grant = json!({"descriptions": {"sum": "Adds up small numbers.", "summ": "Nothing."}});
    let accepted = operator.make("/v1/plugins/plain/grant", &grant).expect(201).json();
    let mut warnings = accepted["warnings"].as_array().into_iter().flatten();
    let unresolved = warnings.find(|warning| warning["code"] == "UNRESOLVED_TOOL").expect("a warning");
    assert_eq!(unresolved["path"], "/descriptions/summ");
    let described = plain.tool("sum");
    assert_eq!(described["description"], "Adds up small numbers.");
    assert_eq!(described["description_source"], "operator");
    let listed = plain.session.client.get(&plain.session.path("/tools")).expect(200).text();
    assert!(listed.contains("Adds up small numbers."), "{listed}");
    operator.replace("/v1/plugins/plain/grant", &json!({})).expect(200);
    assert_eq!(plain.tool("sum"), made);
}

#[test]
fn t10_files_are_denied_without_a_grant_and_work_with_one() {
    let plain = Plain::load();
    plain.session.put_file("note.txt", b"hello").expect(204);
    let read = || plain.session.call("plain/read_file", json!({"path": "/workspace/note.txt"}));
    read().expect_error("TOOL_FAILED");
    assert_eq!(plain.view()["capabilities"]["filesystem"], "workspace");
    plain.daemon.operator().make("/v1/plugins/plain/grant", &json!({"filesystem": "workspace"})).expect(201);
    assert_eq!(read().output(), "hello");
}

#[test]
fn t10_functions_serve_after_a_restart_under_the_version_that_the_operator_named() {
    let mut plain = Plain::load();
    let wasm = [("Content-Type", "application/wasm")];
    let operator = plain.daemon.operator();
    operator.send("PUT", "/v1/plugins/clock?version=7.1.0", &wasm, guests::PLAIN).expect(200);
    plain.daemon = plain.daemon.crash_and_restart();
    plain.session = plain.daemon.operator().open_session("acme/bot");
    assert_eq!(plain.output("sum", json!({"numbers": [1]})), 1);
    assert_eq!(plain.session.call("clock/sum", json!({"numbers": [2]})).output(), 2);
    let view = plain.daemon.operator().get("/v1/plugins/clock").expect(200).json();
    assert_eq!((&view["version"], &view["state"]), (&json!("7.1.0"), &json!("active")));
    assert!(plain.view()["left_out"].as_array().is_some_and(|left| !left.is_empty()));
}

#[test]
fn t10_a_component_without_a_possible_tool_is_refused_with_the_reason() {
    with_fixture(|fixture| {
        let importing = assemble(r#"(component (import "wasi:clocks/monotonic-clock@0.3.0" (instance)))"#);
        fixture.assert_refused("bare", &importing, "WASI 0.3");
        let stringless = r#"(component
            (core module $m (func (export "f") (result i32) (i32.const 7)))
            (core instance $i (instantiate $m))
            (func (export "lucky-number") (result u32) (canon lift (core func $i "f"))))"#;
        let operator = fixture.daemon.operator();
        operator.load("bare", &assemble(stringless));
        assert_eq!(fixture.good.call("bare/lucky_number", json!({})).output(), 7);
        operator.delete("/v1/plugins/bare").expect(204);
    });
}
