//! The description that a definition becomes, for the daemon, its operators and models.

use super::*;

fn weather() -> Value {
    json!({
        "kind": "http", "display_name": "Weather", "description": "Weather by place", "publisher": "Acme",
        "category": "Data", "version": "1.2.0", "base_url": "https://API.example.com:8443/v1/",
        "authentication": {"kind": "api_key", "provider": "weather"},
        "headers": {"X-Version": "2"},
        "rate_limit": {"calls": 60, "seconds": 60},
        "actions": [
            {
                "name": "current", "description": "Gives the weather.", "usage": "Give both.", "method": "GET",
                "path": "/points/{lat},{lon}",
                "input_schema": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                    "required": ["lat", "lon"]},
                "output_schema": {"type": "object"}, "result": {"pointer": "/now"}, "tags": ["weather"],
                "examples": [{"description": "one", "input": {"lat": 1, "lon": 2}, "output": {"celsius": 3}}],
                "redact": ["/lat"],
            },
            {"name": "report", "description": "Reports weather.", "method": "POST", "path": "/reports"},
        ],
    })
}

fn description_of(document: &Value) -> Value {
    plugin(document).unwrap().description().clone()
}

#[test]
fn c1_a_definition_becomes_a_description() {
    let expected = json!({
        "name": "things", "version": "1.2.0", "publisher": "Acme", "category": "Data", "purpose": "Weather by place",
        "capabilities": {
            "network": [{"scheme": "https", "host": "api.example.com", "port": 8443, "methods": ["GET", "POST"], "path": "/v1/"}],
            "credentials": ["weather"],
        },
        "rate_limit": {"calls": 60, "seconds": 60},
        "tools": [
            {
                "name": "current", "description": "Gives the weather.", "usage": "Give both.",
                "input_schema": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                    "required": ["lat", "lon"], "additionalProperties": false},
                "output_schema": {"type": "object"},
                "hints": {"read_only": false, "destructive": true, "idempotent": false, "open_world": true},
                "required_integrations": ["weather"], "tags": ["weather"],
                "examples": [{"description": "one", "input": {"lat": 1, "lon": 2}, "output": {"celsius": 3}}],
                "redact": ["/lat"],
                "definition": {
                    "method": "GET", "origin": "https://api.example.com:8443", "needs_content": true,
                    "path": [{"text": "/v1/points/"}, {"argument": {"name": "lat"}}, {"text": ","}, {"argument": {"name": "lon"}}],
                    "has_credential": true,
                    "headers": [["X-Version", "2"], ["accept", "application/json"]],
                    "arguments": {"lat": {"in": "path"}, "lon": {"in": "path"}},
                    "result": {"pointer": "/now"},
                },
            },
            {
                "name": "report", "description": "Reports weather.", "usage": "Reports weather.",
                "input_schema": {"type": "object", "properties": {}, "additionalProperties": false},
                "hints": {"read_only": false, "destructive": true, "idempotent": false, "open_world": true},
                "required_integrations": ["weather"],
                "definition": {
                    "method": "POST", "origin": "https://api.example.com:8443", "path": [{"text": "/v1/reports"}],
                    "has_credential": true,
                    "headers": [["X-Version", "2"], ["accept", "application/json"]], "arguments": {},
                },
            },
        ],
    });
    assert_eq!(description_of(&weather()), expected);
}

#[test]
fn c1_a_definition_is_described_in_the_same_way_each_time() {
    assert_eq!(description_of(&weather()).to_string(), description_of(&weather()).to_string());
}

#[test]
fn c1_what_is_asked_for_is_what_the_actions_request() {
    for (base, path, rule) in [
        ("https://a.example", "/x", json!({"scheme": "https", "host": "a.example", "methods": ["GET"]})),
        ("https://a.example/", "", json!({"scheme": "https", "host": "a.example", "methods": ["GET"]})),
        (
            "https://a.example:443/v1",
            "/x",
            json!({"scheme": "https", "host": "a.example", "methods": ["GET"], "path": "/v1/"}),
        ),
        (
            "https://a.example/v1/",
            "",
            json!({"scheme": "https", "host": "a.example", "methods": ["GET"], "path": "/v1"}),
        ),
        (
            "http://[::1]:8080/v1",
            "/",
            json!({"scheme": "http", "host": "[::1]", "port": 8080, "methods": ["GET"], "path": "/v1/"}),
        ),
    ] {
        let mut document = with_action(json!({"path": path}));
        document["base_url"] = base.into();
        assert_eq!(
            description_of(&document)["capabilities"],
            json!({"network": [rule], "credentials": []}),
            "{base}{path}"
        );
    }
}

#[test]
fn c1_a_base_url_without_a_path_of_the_action_is_requested_itself() {
    assert_eq!(sent(&with_action(json!({"path": ""})), "{}").unwrap().url(), "https://api.example.com/v1");
    assert_eq!(sent(&with_action(json!({"path": "/"})), "{}").unwrap().url(), "https://api.example.com/v1/");
}

/// Hints of an action with the method, where the definition says so much of methods.
fn hints_of(safe_methods: &Value, method: &str, hints: &Value) -> Value {
    let mut document = with_action(json!({"method": method, "hints": hints}));
    document["safe_methods"] = safe_methods.clone();
    description_of(&document)["tools"][0]["hints"].clone()
}

fn hints([read_only, destructive, idempotent, open_world]: [bool; 4]) -> Value {
    json!({
        "read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": open_world,
    })
}

/// 9.11: options that loosen the gate are off until a definition sets them.
#[test]
fn c1_hints_are_off_until_the_action_says_them() {
    let unconfirmed = [false, true, false, true];
    for safe_methods in [Value::Null, json!(false)] {
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"] {
            for none in [Value::Null, json!({})] {
                assert_eq!(hints_of(&safe_methods, method, &none), hints(unconfirmed), "{method}");
            }
        }
        for (method, said, expected) in [
            ("GET", json!({"read_only": true}), [true, false, true, true]),
            ("POST", json!({"read_only": true}), [true, false, true, true]),
            ("GET", json!({"idempotent": true}), [false, true, true, true]),
            ("DELETE", json!({"destructive": false, "open_world": false}), [false, false, false, false]),
        ] {
            assert_eq!(hints_of(&safe_methods, method, &said), hints(expected), "{method} {said}");
        }
    }
}

#[test]
fn c1_hints_follow_from_the_method_where_the_api_keeps_to_http() {
    for (method, said, expected) in [
        ("GET", json!({}), [true, false, true, true]),
        ("HEAD", json!({}), [true, false, true, true]),
        ("OPTIONS", json!({}), [true, false, true, true]),
        ("PUT", json!({}), [false, true, true, true]),
        ("DELETE", json!({}), [false, true, true, true]),
        ("POST", json!({}), [false, true, false, true]),
        ("PATCH", json!({}), [false, true, false, true]),
        ("POST", json!({"read_only": true}), [true, false, true, true]),
        ("POST", json!({"destructive": false, "open_world": false}), [false, false, false, false]),
        ("PATCH", json!({"idempotent": true}), [false, true, true, true]),
        ("GET", json!({"read_only": false}), [false, true, true, true]),
    ] {
        assert_eq!(hints_of(&json!(true), method, &said), hints(expected), "{method} {said}");
    }
}

#[test]
fn c1_what_is_not_said_is_left_out() {
    let description = description_of(&with_action(json!({})));
    assert_eq!(description["version"], "1");
    for name in ["publisher", "category", "rate_limit"] {
        assert_eq!(description.get(name), None, "{name}");
    }
    assert_eq!(description["tools"][0].get("required_integrations"), None);
}

#[test]
fn c1_a_thousand_actions_are_described() {
    let action = |index: usize| {
        json!({"name": format!("act_{index}"), "description": "Does it.", "method": "GET", "path": "/a/{id}",
            "input_schema": any_of(&["id"])})
    };
    let actions: Vec<Value> = (0..1_000).map(action).collect();
    let description = description_of(&with_members(json!({"actions": actions})));
    assert_eq!(description["tools"].as_array().unwrap().len(), 1_000);
    assert_eq!(description["capabilities"]["network"][0]["methods"], json!(["GET"]));
}

/// The page for owners shows a document; what it says of it is true.
#[test]
fn c1_the_example_of_the_page_is_true() {
    let page = include_str!("../../../../daemon/docs/custom-tools.md");
    let (_, example) = page.split_once("```json\n").unwrap();
    let document: Value = serde_json::from_str(example.split("```").next().unwrap()).unwrap();
    let _network = testing::network(|request| {
        assert_eq!(request.method(), "GET");
        assert_eq!(request.url(), "https://api.example.com/v1/points/52.2,21?units=metric");
        Ok(Reply::json(&json!({"properties": {"current": {"celsius": 21}}})))
    });
    let arguments = json!({"lat": 52.2, "lon": 21, "units": "metric"});
    let result = plugin(&document).unwrap().call(&testing::context().build(), "current", &arguments);
    assert_eq!(result, Ok(json!({"celsius": 21})));
}
