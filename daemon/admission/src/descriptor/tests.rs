//! One refusal for each rule of a description, each a small change to one that passes.

mod published;

use serde_json::{Value, json};
use toolgate_api::error::ErrorType;
use toolgate_api::grant::FilesystemAccess;
use toolgate_api::limits::Limits;

use super::*;
use crate::rules::descriptor_warnings;

/// The smallest description that passes.
fn smallest() -> Value {
    json!({"name": "sums", "version": "0.1.0", "tools": [tool("add")]})
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Adds two numbers.", "usage": "Give both.", "input_schema": {"type": "object"}})
}

fn parse(value: &Value) -> Result<Descriptor, ReadError> {
    Descriptor::parse(&value.to_string())
}

/// The smallest description with the value at a JSON pointer's place set, or taken away by `null`.
fn with(parent: &str, field: &str, value: Value) -> Value {
    let mut description = smallest();
    description.pointer_mut(parent).expect("a parent")[field] = value;
    description
}

#[track_caller]
fn assert_refused(description: &Value, place: &str, message: &str) {
    let error = parse(description).expect_err(message);
    assert!(error.message.contains(message), "{}", error.message);
    assert_eq!(error.place, place, "{}", error.message);
    assert!(!error.hint.is_empty());
}

#[test]
fn the_smallest_description_passes_with_careful_defaults() {
    let descriptor = parse(&smallest()).expect("a descriptor");
    assert_eq!((descriptor.namespace.as_str(), descriptor.version.as_str()), ("sums", "0.1.0"));
    assert_eq!(descriptor.capabilities, Capabilities::default());
    let tool = descriptor.tool("add").expect("a tool");
    assert_eq!((tool.wire.as_str(), tool.id.to_string().as_str()), ("call_sums_add", "sums/add"));
    assert_eq!((tool.mode, tool.hints), (Mode::Server, Hints::default()));
    assert!(
        !tool.hints.read_only && tool.hints.destructive && !tool.hints.idempotent && tool.hints.open_world
    );
    assert!(tool.output.is_none() && descriptor.unknown_fields.is_empty());
}

/// T1: everything that a plugin can say.
#[test]
fn a_whole_description_is_read() {
    let descriptor = parse(&json!({
        "name": "weather", "version": "1.2.0", "publisher": "Example", "category": "data", "purpose": "Forecasts.",
        "capabilities": {
            "filesystem": "workspace",
            "network": [{"host": "api.example", "port": 8443, "methods": ["GET"], "path": "/v1/"}],
            "credentials": ["stripe"],
        },
        "config_schema": {"type": "object"}, "limits": {"fuel": 5, "deadline_ms": 1000},
        "tools": [{
            "name": "current", "description": "Now.", "usage": "Say where.\nIn words.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            "output_schema": true, "mode": "client",
            "hints": {"read_only": true, "destructive": false, "idempotent": true, "open_world": false},
            "required_integrations": ["stripe"], "prerequisites": ["Buy it first."], "tags": ["rain"],
            "examples": [{"description": "Paris", "input": {"city": "Paris"}, "output": 11.5}],
            "redact": ["/city", ""],
        }],
    }))
    .expect("a descriptor");
    assert_eq!(descriptor.capabilities.filesystem, FilesystemAccess::Workspace);
    assert_eq!(descriptor.capabilities.network[0].port, Some(8443));
    assert_eq!(descriptor.limits.iter().count(), 2);
    let tool = &descriptor.tools[0];
    assert_eq!(tool.mode, Mode::Client);
    assert!(
        tool.hints.read_only && tool.hints.idempotent && !tool.hints.destructive && !tool.hints.open_world
    );
    assert_eq!(tool.examples[0].output, Some(json!(11.5)));
    assert_eq!(tool.redact, ["/city", ""]);
}

#[test]
fn a_field_that_is_not_known_is_ignored_and_reported() {
    let mut description = with("/tools/0", "icon", json!("x"));
    description["homepage"] = json!("y");
    description["capabilities"] = json!({"sockets": true});
    let descriptor = parse(&description).expect("a descriptor");
    assert_eq!(descriptor.unknown_fields, ["/homepage", "/capabilities/sockets", "/tools/0/icon"]);
}

#[test]
fn what_is_no_json_object_is_refused() {
    for text in ["", "[]", "null", "{", "{\"name\":\"a\",\"name\":\"b\"}", "\"x\""] {
        assert!(Descriptor::parse(text).is_err(), "{text}");
    }
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(PLUGIN_BYTES));
    assert!(Descriptor::parse(&long).unwrap_err().message.contains("more than"));
}

#[test]
fn each_required_field_is_required() {
    for field in ["name", "version", "tools"] {
        assert_refused(&with("", field, Value::Null), "", &format!("the field `{field}` is missing"));
    }
    for field in ["name", "description", "usage", "input_schema"] {
        assert_refused(
            &with("/tools/0", field, Value::Null),
            "/tools/0",
            &format!("the field `{field}` is missing"),
        );
    }
}

#[test]
fn names_are_held_to_their_rules() {
    assert_refused(&with("", "name", json!("Sums")), "/name", "not a namespace");
    assert_refused(&with("", "name", json!(1)), "/name", "a number stands where a string belongs");
    assert_refused(&with("/tools/0", "name", json!("Add")), "/tools/0/name", "not a tool's name");
    assert_refused(&with("/tools/0", "name", json!("a".repeat(56))), "/tools/0/name", "wire name");
    assert!(parse(&with("/tools/0", "name", json!("a".repeat(54)))).is_ok());
}

#[test]
fn a_plugin_without_tools_or_with_one_tool_twice_is_refused() {
    assert_refused(&with("", "tools", json!([])), "/tools", "no tools");
    assert_refused(&with("", "tools", json!([tool("a"), tool("b"), tool("a")])), "/tools/2", "twice");
    assert!(parse(&with("", "tools", json!([tool("a"), tool("b")]))).is_ok());
    let many = |count: usize| (0..count).map(|index| tool(&format!("t{index}"))).collect::<Vec<_>>();
    assert!(parse(&with("", "tools", json!(many(1_000)))).is_ok());
    assert_refused(&with("", "tools", json!(many(1_001))), "/tools", "more than the 1000");
}

/// T1, T11: a tool without description or usage text is useless.
#[test]
fn a_tool_says_what_it_does_and_how_to_call_it() {
    for field in ["description", "usage"] {
        for text in ["", "  \n"] {
            assert_refused(&with("/tools/0", field, json!(text)), &format!("/tools/0/{field}"), "empty");
        }
    }
    assert_refused(
        &with("/tools/0", "description", json!("x".repeat(4_097))),
        "/tools/0/description",
        "more than 4096",
    );
    assert!(parse(&with("/tools/0", "description", json!("é".repeat(4_096)))).is_ok());
    assert_refused(
        &with("/tools/0", "usage", json!("x".repeat(16_385))),
        "/tools/0/usage",
        "more than 16384",
    );
}

#[test]
fn hidden_characters_are_refused_wherever_a_reader_would_meet_them() {
    let hidden = "a\u{202e}b";
    assert_refused(&with("", "purpose", json!(hidden)), "/purpose", "\\u{202e}");
    assert_refused(&with("/tools/0", "description", json!(hidden)), "/tools/0/description", "hidden");
    assert_refused(&with("/tools/0", "usage", json!("a\u{1b}[2J")), "/tools/0/usage", "\\u{1b}");
    assert_refused(&with("/tools/0", "tags", json!([hidden])), "/tools/0/tags/0", "hidden");
    let schema = json!({"type": "object", "properties": {"a": {"description": hidden}}});
    assert_refused(
        &with("/tools/0", "input_schema", schema),
        "/tools/0/input_schema/properties/a/description",
        "hidden",
    );
    let schema = json!({"type": "object", "properties": {hidden: {}}});
    assert_refused(&with("/tools/0", "input_schema", schema), "/tools/0/input_schema/properties", "hidden");
    assert_refused(
        &with("/tools/0", "examples", json!([{"input": {"a": hidden}}])),
        "/tools/0/examples/0/input/a",
        "hidden",
    );
    assert!(parse(&with("/tools/0", "usage", json!("Zwei Zeilen:\n\t日本語, العربية, ❤\u{fe0f}"))).is_ok());
}

#[test]
fn a_schema_that_is_not_accepted_is_named_with_the_place_inside() {
    assert_refused(
        &with("/tools/0", "input_schema", json!({"type": "array"})),
        "/tools/0/input_schema",
        "object",
    );
    assert_refused(&with("/tools/0", "input_schema", json!(true)), "/tools/0/input_schema", "object");
    let schema = json!({"type": "object", "properties": {"a": {"type": "strin"}}});
    assert_refused(
        &with("/tools/0", "input_schema", schema),
        "/tools/0/input_schema/properties/a/type",
        "not valid",
    );
    assert_refused(
        &with("/tools/0", "output_schema", json!({"$ref": "http://x/"})),
        "/tools/0/output_schema/$ref",
        "leaves",
    );
    assert_refused(&with("", "config_schema", json!(1)), "/config_schema", "not valid");
}

#[test]
fn the_schemas_of_a_plugin_are_bounded_together() {
    let items: Vec<Value> = (0..9_000).map(|_| json!({})).collect();
    let heavy = |count: usize| {
        let tools: Vec<Value> = (0..count)
            .map(|index| {
                let mut tool = tool(&format!("t{index}"));
                tool["input_schema"] = json!({"type": "object", "properties": {"a": {"prefixItems": items}}});
                tool
            })
            .collect();
        with("", "tools", json!(tools))
    };
    assert!(parse(&heavy(2)).is_ok());
    assert_refused(&heavy(12), "/tools", "subschemas together");
}

#[test]
fn capabilities_are_read_strictly() {
    for (field, value, place) in [
        ("filesystem", json!("all"), "/capabilities/filesystem"),
        ("network", json!({}), "/capabilities/network"),
        ("network", json!([{}]), "/capabilities/network/0"),
        ("network", json!([{"host": ""}]), "/capabilities/network/0/host"),
        ("network", json!([{"host": "a b"}]), "/capabilities/network/0/host"),
        ("network", json!([{"host": "a", "scheme": "ftp"}]), "/capabilities/network/0/scheme"),
        ("network", json!([{"host": "a", "port": 0}]), "/capabilities/network/0/port"),
        ("network", json!([{"host": "a", "port": 65_536}]), "/capabilities/network/0/port"),
        ("network", json!([{"host": "a", "path": "v1"}]), "/capabilities/network/0/path"),
        ("credentials", json!([1]), "/capabilities/credentials/0"),
        ("unused", json!(["sockets"]), "/capabilities/unused/0"),
    ] {
        let error = parse(&with("", "capabilities", json!({field: value}))).expect_err(field);
        assert_eq!(error.place, place);
    }
}

#[test]
fn a_limit_that_nobody_enforces_is_refused() {
    assert_refused(&with("", "limits", json!({"feul": 1})), "/limits/feul", "did you mean `fuel`?");
    assert_refused(&with("", "limits", json!({"fuel": -1})), "/limits/fuel", "whole number");
    assert!(parse(&with("", "limits", json!({"fuel": 0}))).is_ok());
}

#[test]
fn a_limit_above_the_platforms_and_one_with_which_nothing_runs_are_warned_of() {
    let warnings = |limits: Value| {
        let descriptor = parse(&with("", "limits", limits)).expect("a descriptor");
        let warnings = descriptor_warnings(&descriptor, &Limits { fuel: 1_000, ..Limits::DEFAULT });
        warnings.into_iter().map(|warning| (warning.code, warning.path, warning.message)).collect::<Vec<_>>()
    };
    let above = "`fuel` of 1001 is above 1000, which is all that there is to give";
    let nothing = "with a `deadline_ms` of 0 no call can run";
    assert_eq!(
        warnings(json!({"fuel": 1_001, "deadline_ms": 0})),
        [
            ("LIMIT_WITHOUT_EFFECT", "/limits/fuel".into(), above.into()),
            ("NOTHING_RUNS", "/limits/deadline_ms".into(), nothing.into())
        ]
    );
    assert_eq!(warnings(json!({"fuel": 1_000, "deadline_ms": 1, "requests": 0})), []);
}

#[test]
fn modes_hints_examples_and_redactions_are_read_strictly() {
    assert_refused(&with("/tools/0", "mode", json!("both")), "/tools/0/mode", "not one of the words");
    assert_refused(
        &with("/tools/0", "hints", json!({"read_only": "yes"})),
        "/tools/0/hints/read_only",
        "`true` or `false`",
    );
    assert_refused(&with("/tools/0", "examples", json!([{}])), "/tools/0/examples/0", "`input` is missing");
    assert_refused(
        &with("/tools/0", "examples", json!([{"input": 1}])),
        "/tools/0/examples/0/input",
        "not an object",
    );
    for pointer in ["password", "/a~", "/a~2"] {
        assert_refused(
            &with("/tools/0", "redact", json!([pointer])),
            "/tools/0/redact/0",
            "not a JSON pointer",
        );
    }
    assert!(parse(&with("/tools/0", "redact", json!(["/a~0b~1c/0"]))).is_ok());
}

#[test]
fn an_error_becomes_the_answer_that_a_caller_gets() {
    let error = parse(&with("", "name", json!("Sums"))).unwrap_err();
    let error = error.into_call_error(ErrorType::InvalidPlugin);
    assert_eq!(error.details_json(), Some(json!({"pointer": "/name"})));
}

/// C1: what a service takes, and what comes back to the component that makes plugins of definitions.
#[test]
fn a_rate_and_a_part_of_a_definition_are_read() {
    let tool = json!({
        "name": "now", "description": "d", "usage": "u", "input_schema": {"type": "object"},
        "definition": {"path": ["v1", {"argument": "city"}]},
    });
    let describe = |rate: Value| {
        json!({"name": "weather", "version": "1", "rate_limit": rate, "tools": [tool]}).to_string()
    };
    let descriptor = Descriptor::parse(&describe(json!({"calls": 60, "seconds": 10}))).unwrap();
    assert_eq!(descriptor.rate_limit, Some(RateLimit { calls: 60, seconds: 10 }));
    let part = descriptor.tools[0].definition.as_deref();
    assert_eq!(part, Some(r#"{"path":["v1",{"argument":"city"}]}"#));
    assert_eq!(descriptor.unknown_fields, [] as [&str; 0]);
    assert_eq!(Descriptor::parse(&describe(Value::Null)).unwrap().rate_limit, None);
    for rate in [
        json!({"calls": 0, "seconds": 1}),
        json!({"calls": 1, "seconds": 86_401}),
        json!({"calls": 1}),
        json!(5),
    ] {
        assert!(Descriptor::parse(&describe(rate.clone())).is_err(), "{rate}");
    }
}

/// 9.4: an original name can be called, so it must not equal the name of another tool.
#[test]
fn g4_an_original_name_is_nobody_elses() {
    let named = |tools: &[(&str, &str)]| {
        let tools = tools.iter().map(|(name, original)| {
            let mut tool = tool(name);
            tool["original_name"] = (*original).into();
            tool
        });
        json!({"name": "sums", "version": "0.1.0", "tools": tools.collect::<Vec<_>>()})
    };
    let descriptor = parse(&named(&[("add_two", "addTwo"), ("add", "add"), ("sub", "SUB")])).unwrap();
    let originals = descriptor.tools.iter().map(|tool| tool.original_name.as_deref());
    assert_eq!(originals.collect::<Vec<_>>(), [Some("addTwo"), None, Some("SUB")]);
    for other in ["addTwo", "sub", "Sub"] {
        let description = named(&[("add_two", "addTwo"), ("sub", "minus"), ("x", other)]);
        assert_refused(&description, "/tools/2", "another tool is called by the original name");
    }
    for original in ["", " ", "a\u{202e}b"] {
        assert!(parse(&named(&[("add", original)])).is_err(), "{original}");
    }
}
