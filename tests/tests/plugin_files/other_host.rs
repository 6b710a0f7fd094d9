//! Components made for other hosts (T10): programs, settings and logs by drafts of WASI, and what their tools leave in them.

use super::*;

const GRANT: &str = "/v1/plugins/other/grant";

/// The daemon with the guest `other-host`, and a session that may call its tools.
fn load() -> (Daemon, Session, Value) {
    let daemon = Daemon::start(PROGRAM, "");
    let view = daemon.operator().upload("other", guests::OTHER_HOST).expect(200).json();
    let session = daemon.session_within("acme/bot", &json!({}));
    (daemon, session, view)
}

#[test]
fn t10_settings_of_the_grant_and_of_the_organization_are_read_by_name() {
    let (daemon, session, view) = load();
    let operator = daemon.operator();
    let paths = |view: &Value| -> Vec<String> {
        let warnings = view["warnings"].as_array().into_iter().flatten();
        warnings.filter_map(|warning| warning["path"].as_str().map(str::to_owned)).collect()
    };
    assert!(paths(&view).contains(&"/settings".to_owned()), "{view}");
    let output = |tool: &str, name: &str| {
        session.call(&format!("other/{tool}"), json!({"name": name})).output().clone()
    };
    assert_eq!((output("setting", "UNITS"), output("variable", "UNITS")), (json!(null), json!(null)));

    let grant = json!({"settings": {"UNITS": "metric", "REGION": "eu"}});
    let granted = operator.make(GRANT, &grant).expect(201).json();
    assert!(!paths(&granted).contains(&"/settings".to_owned()), "{granted}");
    assert_eq!((output("setting", "UNITS"), output("variable", "UNITS")), (json!("metric"), json!("metric")));
    assert_eq!((output("setting", "HOME"), output("variable", "HOME")), (json!(null), json!(null)));

    let enabled = "/v1/orgs/acme/enabled/other";
    operator.make(enabled, &json!({"config": {"UNITS": "imperial"}})).expect(201);
    assert_eq!(
        (output("setting", "UNITS"), output("variable", "UNITS")),
        (json!("imperial"), json!("imperial"))
    );
    let all = session.call("other/settings", json!({}));
    assert_eq!(all.output(), &json!([["REGION", "eu"], ["UNITS", "imperial"]]));
    for wrong in [json!({"MORE": "x"}), json!({"UNITS": 7})] {
        operator.replace(enabled, &json!({"config": wrong})).expect_refusal(422, "INVALID_POLICY");
    }
    for wrong in [json!({"A=B": "x"}), json!({"": "x"}), json!({"A": 7}), json!({"A": "x\u{0}"})] {
        operator.replace(GRANT, &json!({"settings": wrong})).expect_refusal(422, "INVALID_POLICY");
    }
}

#[test]
fn t10_a_plugin_with_settings_of_its_own_gets_none_from_its_grant() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("configured", guests::CONFIGURED);
    let granted = operator.make("/v1/plugins/configured/grant", &json!({"settings": {"A": "x"}})).expect(201);
    let granted = granted.json();
    let warnings = granted["warnings"].as_array().expect("warnings");
    assert!(warnings.iter().any(|warning| warning["path"] == "/settings" && warning["code"] == "NO_EFFECT"));
}

#[test]
fn t10_a_program_has_arguments_and_input_and_returns_its_output() {
    let (_daemon, session, _) = load();
    let run = |arguments: Value| session.call("other/run", arguments);
    assert_eq!(run(json!({"args": ["a b", "c"], "stdin": "x\ny"})).output(), "run a b c|x\ny");
    assert_eq!(run(json!({})).output(), "run|");
    assert_eq!(run(json!({"args": ["exit"]})).output(), "run exit|");
    let failed = run(json!({"args": ["fail"], "stdin": "in"})).expect_error("TOOL_FAILED");
    assert_eq!(failed.message(), "the program ended with the exit code 1: there is no such file");
    assert_eq!(failed.0["error"]["details"], json!({"exit_code": 1, "stdout": "run fail|in"}));
    run(json!({"args": [1]})).expect_error("INVALID_ARGUMENTS");
    run(json!({"stdin": "x".repeat(900_000)})).output();
}

#[test]
fn t10_a_handler_of_requests_is_a_tool() {
    let (_daemon, session, _) = load();
    let request = |arguments: Value| session.call("other/request", arguments);
    let post = json!({"path": "/echo", "method": "POST", "headers": [["x-a", "1"]], "body": "hello"});
    let answered = request(post);
    let headers = answered.output()["headers"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        (&answered.output()["status"], &answered.output()["body"]),
        (&json!(200), &json!("Method::Post /echo hello"))
    );
    assert!(headers.contains(&json!(["x-answer", "yes"])), "{headers:?}");
    assert_eq!(request(json!({"path": "/other"})).output()["status"], 404);
    request(json!({"path": "/silent"})).expect_error("TOOL_FAILED");
    request(json!({"path": "/echo", "method": "NO METHOD"})).expect_error("INVALID_ARGUMENTS");
    request(json!({"path": "/echo", "headers": [["a\n", "1"]]})).expect_error("INVALID_ARGUMENTS");
    request(json!({})).expect_error("INVALID_ARGUMENTS");
}

#[test]
fn t10_what_made_a_component_leaves_no_tool_in_it() {
    let (_daemon, session, view) = load();
    let left_out = view["left_out"].as_array().expect("a list");
    let init = left_out.iter().find(|left| left["name"] == "init").expect("`init`");
    assert_eq!(init["why"], "the tool that made the component has called it");
    session.call("other/init", json!({})).expect_error("TOOL_NOT_FOUND");
    let tools: Vec<&Value> =
        view["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(tools, ["request", "run", "setting", "settings", "variable"]);
}

#[test]
fn t10_a_component_that_cannot_start_under_the_limits_is_refused_at_the_load() {
    let daemon = Daemon::start(PROGRAM, "[limits]\ninstances = 1\n");
    let operator = daemon.operator();
    let refused = operator.upload("other", guests::OTHER_HOST).expect_refusal(422, "INVALID_PLUGIN");
    assert!(refused.text().contains("limit `instances`"), "{}", refused.text());
    operator.get("/v1/plugins/other").expect(404);
}

/// The worker that compiles is not asked: a file that no compiler could read is refused for its import.
#[test]
fn t10_imports_are_refused_before_anything_is_compiled() {
    with_fixture(|fixture| {
        let text = r#"(component (import "wasi:threads/spawn@0.2.0" (instance)) (core module (func)))"#;
        let mut file = assemble(text);
        let end = file.len() - 3;
        file.truncate(end);
        fixture.assert_refused("bare", &file, "wasi:threads/spawn@0.2.0");
    });
}
