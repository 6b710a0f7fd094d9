//! Schemas from plugins and arguments from models that try to exhaust the daemon.
//!
//! A bad schema is refused when the plugin is loaded, without a trace of the plugin. Bad arguments are refused before
//! the call runs, and fail only that call.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use toolgate_tests::{Daemon, LeakCheck, PluginFile, Session, Shared, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    good: Session,
}

impl Fixture {
    fn start() -> Self {
        let daemon = Daemon::start(PROGRAM, "");
        let good = daemon.session_within("acme/bot", &json!({}));
        let any = json!({"type": "object"});
        daemon.operator().load(
            "any",
            &PluginFile::new("any").with_argument_bytes(2 << 20).with_tool("input_schema", any).build(),
        );
        let fixture = Self { daemon, good };
        fixture.good.call("any/answer", json!({"warm": 1})).output();
        fixture
    }

    /// Loads a plugin whose tool has this input schema.
    fn load(&self, namespace: &str, schema: &Value) {
        let file =
            PluginFile::new(namespace).with_argument_bytes(2 << 20).with_tool("input_schema", schema.clone());
        self.daemon.operator().load(namespace, &file.build());
    }

    /// Uploads plugins with this schema as input and as output schema, and asserts that they are refused.
    #[track_caller]
    fn assert_schema_refused(&mut self, case: &str, schema: &Value) {
        let leak_check = LeakCheck::start(&self.daemon);
        let operator = self.daemon.operator();
        for member in ["input_schema", "output_schema"] {
            let file = PluginFile::new("refused").with_tool(member, schema.clone()).build();
            let reply = operator.upload("refused", &file);
            assert_eq!(reply.status, 422, "{case} as {member}: {}", reply.text());
            reply.expect_refusal(422, "INVALID_PLUGIN");
            operator.get("/v1/plugins/refused").expect_refusal(404, "NOT_FOUND");
            let row = &operator.audit("kind=admin&limit=1")[0];
            assert_eq!(row["admin"]["outcome"], "INVALID_PLUGIN", "{row}");
        }
        self.good.call("any/answer", json!({})).output();
        leak_check.assert_none(&mut self.daemon);
    }

    /// Makes a call with arguments as text, in one request with a valid call.
    #[track_caller]
    fn call_with(&mut self, tool: &str, arguments: &str) -> Value {
        // Many equal refusals of one session are one record.
        self.good = self.daemon.operator().open_session("acme/bot");
        self.good.call("any/answer", json!({})).output();
        let leak_check = LeakCheck::start(&self.daemon);
        let calls = format!(
            r#"{{"calls":[{{"tool":"{tool}","arguments":{arguments}}},{{"tool":"any/answer","arguments":{{}}}}]}}"#
        );
        let reply = self.good.client.post_text(&self.good.path("/calls"), &calls).expect(200).json();
        let (called, beside) = (&reply["results"][0], &reply["results"][1]);
        assert_eq!(beside["output"], 1, "{reply}");
        let id = called["id"].as_str().expect("an id");
        // The audit log stays readable with any arguments.
        let row = self.good.audit_row(&self.daemon.operator(), id);
        assert_eq!(row["outcome"]["error_type"], called["error"]["error_type"], "{row}");
        assert!(row["call"]["arguments_sha256"].is_string(), "{row}");
        leak_check.assert_none(&mut self.daemon);
        called.clone()
    }

    #[track_caller]
    fn assert_arguments_refused(&mut self, case: &str, tool: &str, arguments: &str) -> Value {
        let refused = self.call_with(tool, arguments);
        assert_eq!(refused["error"]["error_type"], "INVALID_ARGUMENTS", "{case}: {refused}");
        assert_eq!(refused["executed"], "no", "{case}: {refused}");
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Validation Error: ") && message.len() < 4096, "{case}: {message}");
        refused
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, test);
}

/// Object schema with one property.
fn with_property(property: Value) -> Value {
    json!({"type": "object", "properties": {"a": property}})
}

/// Chain of definitions, each built from the one before.
fn chain(links: usize, first: Value, next: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    definitions.insert("d0".into(), first);
    for at in 1..links {
        definitions.insert(format!("d{at}"), next(json!({"$ref": format!("#/$defs/d{}", at - 1)})));
    }
    let last = format!("#/$defs/d{}", links - 1);
    json!({"type": "object", "properties": {"a": {"$ref": last}}, "$defs": definitions})
}

/// A listener shows that nothing is fetched.
#[test]
fn external_references_are_refused_and_not_fetched() {
    with_fixture(|fixture| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        listener.set_nonblocking(true).expect("not waiting");
        let port = listener.local_addr().expect("an address").port();
        let away = format!("http://127.0.0.1:{port}/schema.json");
        for reference in [
            away.as_str(),
            "https://json-schema.org/draft/2020-12/schema",
            "file:///etc/passwd",
            "/etc/passwd",
            "//127.0.0.1/x",
            "other.json",
            "other.json#/$defs/x",
            "urn:toolgate:x",
            "data:application/json,{}",
            "#/$defs/missing",
            "#missing",
            "#/%zz",
            "",
        ] {
            fixture.assert_schema_refused(reference, &with_property(json!({"$ref": reference})));
        }
        fixture.assert_schema_refused(
            "id",
            &json!({"type": "object", "properties": {"a": {"$id": away, "$ref": "#/x"}}}),
        );
        fixture.assert_schema_refused("dialect", &json!({"$schema": away, "type": "object"}));
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            fixture.assert_schema_refused(keyword, &with_property(json!({keyword: "#"})));
        }
        assert!(listener.accept().is_err(), "a reference was fetched");
        let inside = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}});
        fixture.load("inside", &inside);
        assert_eq!(fixture.call_with("inside/answer", r#"{"a":1}"#)["output"], 1);
        fixture.assert_arguments_refused("inside", "inside/answer", r#"{"a":"1"}"#);
    });
}

#[test]
fn schemas_with_exponential_cost_are_refused() {
    with_fixture(|fixture| {
        let string = || json!({"type": "string"});
        for keyword in ["allOf", "anyOf", "oneOf"] {
            fixture.assert_schema_refused(
                keyword,
                &chain(40, string(), |before| json!({keyword: [before, before]})),
            );
        }
        let properties = chain(40, string(), |before| json!({"properties": {"a": before, "b": before}}));
        fixture.assert_schema_refused("properties", &properties);
        fixture.assert_schema_refused("in place", &json!({"type": "object", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}));
        let both = json!({"anyOf": [{"items": {"$ref": "#/$defs/n"}}, {"items": {"$ref": "#/$defs/n"}}]});
        fixture.assert_schema_refused(
            "each level doubles",
            &json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": both}}),
        );
        // A tree that refers to itself once costs the same at every level.
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}}, "additionalProperties": false});
        fixture.load("tree", &tree);
        let deep = (0..60).fold("{}".to_owned(), |inner, _| format!(r#"{{"left":{inner}}}"#));
        assert_eq!(fixture.call_with("tree/answer", &deep)["output"], 1);
        fixture.load("chained", &chain(6, string(), |before| json!({"allOf": [before]})));
        fixture.assert_arguments_refused("chained", "chained/answer", r#"{"a":1}"#);
    });
}

#[test]
fn schemas_that_are_too_large_in_any_direction_are_refused() {
    with_fixture(|fixture| {
        let nested = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        fixture.assert_schema_refused("deep", &with_property(nested));
        fixture.assert_schema_refused("long", &with_property(json!({"description": "x".repeat(300 << 10)})));
        let many: serde_json::Map<_, _> = (0..11_000).map(|at| (format!("p{at}"), json!({}))).collect();
        fixture.assert_schema_refused("wide", &json!({"type": "object", "properties": many}));
        let unique = vec![json!({"type": "array", "uniqueItems": true}); 40];
        fixture.assert_schema_refused("unique", &with_property(json!({"prefixItems": unique})));
        let patterns: serde_json::Map<_, _> = (0..70).map(|at| (format!("^p{at}"), json!({}))).collect();
        fixture.assert_schema_refused("patterns", &json!({"type": "object", "patternProperties": patterns}));
        let references: Vec<_> = (0..2_100).map(|_| json!({"$ref": "#/$defs/x"})).collect();
        fixture.assert_schema_refused(
            "references",
            &json!({"type": "object", "properties": {"a": {"prefixItems": references}}, "$defs": {"x": {}}}),
        );
        let few: serde_json::Map<_, _> =
            (0..100).map(|at| (format!("p{at}"), json!({"type": "integer"}))).collect();
        fixture.load("wide", &json!({"type": "object", "properties": few}));
        assert_eq!(fixture.call_with("wide/answer", r#"{"p7":7}"#)["output"], 1);
    });
}

/// Matching takes linear time, so patterns that need backtracking are refused.
#[test]
fn patterns_that_need_backtracking_are_refused_or_linear() {
    with_fixture(|fixture| {
        for pattern in [r"(a)\1", "(?=a)b", "(?<!a)b", "((a{100}){100}){100}", "(", "[z-a]", r"\u{110000}"] {
            fixture.assert_schema_refused(
                pattern,
                &with_property(json!({"type": "string", "pattern": pattern})),
            );
        }
        // Exponential with backtracking, linear here.
        fixture.load("evil", &with_property(json!({"type": "string", "pattern": "^(a+)+$"})));
        let text = "a".repeat(500_000);
        let matched = fixture.call_with("evil/answer", &format!(r#"{{"a":"{text}"}}"#));
        assert_eq!(matched["output"], 1, "{matched}");
        fixture.assert_arguments_refused("evil", "evil/answer", &format!(r#"{{"a":"{text}!"}}"#));
    });
}

/// Bounds the cost of validation: schema size times argument size.
#[test]
fn a_validation_that_would_take_long_is_refused_before_it_starts() {
    with_fixture(|fixture| {
        let branch = |at: usize| json!({"properties": {"k": {"const": at}}, "required": ["k"]});
        let branches: Vec<_> = (0..600).map(branch).collect();
        let schema = with_property(json!({"type": "array", "items": {"anyOf": branches}}));
        fixture.load("branching", &schema);
        let of = |items: usize| format!(r#"{{"a":[{}]}}"#, vec![r#"{"k":599}"#; items].join(","));
        // The items would match, after a long search.
        let refused = fixture.assert_arguments_refused("many", "branching/answer", &of(60_000));
        assert!(
            refused["error"]["message"].as_str().is_some_and(|text| text.contains("too large")),
            "{refused}"
        );
        assert_eq!(fixture.call_with("branching/answer", &of(10))["output"], 1);
        fixture.load("unique", &with_property(json!({"type": "array", "uniqueItems": true})));
        let items: Vec<_> = (0..100_000).map(|at| at.to_string()).collect();
        fixture.call_with("unique/answer", &format!(r#"{{"a":[{}]}}"#, items.join(",")));
        fixture.assert_arguments_refused("twice", "unique/answer", r#"{"a":[1,1]}"#);
    });
}

#[test]
fn arguments_that_are_too_deep_or_too_large_are_refused() {
    with_fixture(|fixture| {
        let nested = |open: &str, close: &str, levels: usize| {
            format!(r#"{{"a":{}1{}}}"#, open.repeat(levels), close.repeat(levels))
        };
        assert_eq!(fixture.call_with("any/answer", &nested("[", "]", 63))["output"], 1);
        for levels in [64, 127, 128, 1_000, 100_000] {
            fixture.assert_arguments_refused("arrays", "any/answer", &nested("[", "]", levels));
        }
        for levels in [64, 1_000, 50_000] {
            fixture.assert_arguments_refused("objects", "any/answer", &nested(r#"{"a":"#, "}", levels));
        }
        let long = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes));
        assert_eq!(fixture.call_with("any/answer", &long((1 << 20) - 10))["output"], 1);
        for bytes in [1 << 20, 7 << 20] {
            fixture.assert_arguments_refused("long", "any/answer", &long(bytes));
        }
        let keys: Vec<_> = (0..80_000).map(|at| format!(r#""k{at}":0"#)).collect();
        assert_eq!(fixture.call_with("any/answer", &format!("{{{}}}", keys.join(",")))["output"], 1);
    });
}

/// JSON parsers disagree about these texts, so they are refused.
#[test]
fn ambiguous_arguments_are_refused() {
    with_fixture(|fixture| {
        for (case, arguments) in [
            ("same key", r#"{"a":1,"a":2}"#),
            ("same key escaped", r#"{"a":1,"\u0061":2}"#),
            ("same key inside", r#"{"x":[{"a":1,"b":{},"a":1}]}"#),
            ("2^64", r#"{"a":18446744073709551616}"#),
            ("-2^63-1", r#"{"a":-9223372036854775809}"#),
            ("400 digits", &format!(r#"{{"a":1{}}}"#, "0".repeat(400))),
            ("1e400", r#"{"a":1e400}"#),
            ("-1e400", r#"{"a":-1e400}"#),
            ("so small that it would be zero", r#"{"a":1e-400}"#),
            ("2^53+1 as a float", r#"{"a":9007199254740993.0}"#),
            ("lone high surrogate", r#"{"a":"\ud800"}"#),
            ("lone low surrogate", r#"{"a":"\udc00"}"#),
            ("surrogates in the wrong order", r#"{"a":"\udc00\ud800"}"#),
            ("lone surrogate in a key", r#"{"\ud800":1}"#),
            ("high surrogate and a letter", r#"{"a":"\ud800a"}"#),
        ] {
            fixture.assert_arguments_refused(case, "any/answer", arguments);
        }
        for (case, arguments) in [
            ("2^53+1", r#"{"a":9007199254740993}"#),
            ("2^64-1", r#"{"a":18446744073709551615}"#),
            ("-2^63", r#"{"a":-9223372036854775808}"#),
            ("the smallest double", r#"{"a":5e-324}"#),
            ("2^53 as a float", r#"{"a":9007199254740992.0}"#),
            ("minus zero", r#"{"a":-0.0}"#),
            ("pair", r#"{"a":"\ud83d\ude00"}"#),
            ("nul", r#"{"a":"\u0000"}"#),
            ("not a character", r#"{"a":"\uffff"}"#),
            ("two keys", r#"{"a":1,"A":2}"#),
        ] {
            assert_eq!(fixture.call_with("any/answer", arguments)["output"], 1, "{case}");
        }
    });
}

/// Comparisons are exact where a double would round.
#[test]
fn numbers_beyond_the_integers_of_a_double_are_compared_exactly() {
    with_fixture(|fixture| {
        let most = json!({"type": "integer", "maximum": 9_007_199_254_740_992_i64});
        fixture.load("bounded", &with_property(most));
        assert_eq!(fixture.call_with("bounded/answer", r#"{"a":9007199254740992}"#)["output"], 1);
        fixture.assert_arguments_refused("2^53+1", "bounded/answer", r#"{"a":9007199254740993}"#);
        fixture.load("exactly", &with_property(json!({"const": 9_007_199_254_740_993_i64})));
        assert_eq!(fixture.call_with("exactly/answer", r#"{"a":9007199254740993}"#)["output"], 1);
        fixture.assert_arguments_refused("rounded", "exactly/answer", r#"{"a":9007199254740992}"#);
        fixture.load("whole", &with_property(json!({"type": "integer"})));
        assert_eq!(fixture.call_with("whole/answer", r#"{"a":1.0}"#)["output"], 1);
        for number in ["1.5", "9007199254740993.5e-1"] {
            fixture.assert_arguments_refused(number, "whole/answer", &format!(r#"{{"a":{number}}}"#));
        }
    });
}

/// Text that is not JSON makes the whole request invalid, since the end of the arguments is unknown.
#[test]
fn arguments_that_are_not_json_make_the_request_invalid() {
    with_fixture(|fixture| {
        let leak_check = LeakCheck::start(&fixture.daemon);
        let path = fixture.good.path("/calls");
        let newest = fixture.daemon.operator().audit("limit=1");
        for arguments in [
            "{'a':1}",
            "{a:1}",
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":.5}"#,
            r#"{"a":+1}"#,
            r#"{"a":NaN}"#,
            r#"{"a":Infinity}"#,
            r#"{"a":0x1}"#,
            r#"{"a":1}//"#,
            r#"{"a":/**/1}"#,
            "{\"a\":\"\u{1}\"}",
            r#"{"a":"\x41"}"#,
            r#"{"a":"\u12"}"#,
            "\u{feff}{}",
            r#"{"a" 1}"#,
            "",
        ] {
            let text = format!(r#"{{"calls":[{{"tool":"any/answer","arguments":{arguments}}}]}}"#);
            fixture.good.client.post_text(&path, &text).expect_refusal(400, "INVALID_REQUEST");
        }
        for bytes in [&b"\xff"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"] {
            let text = [br#"{"calls":[{"tool":"any/answer","arguments":{"a":""#, bytes, br#""}}]}"#].concat();
            let headers = [("Content-Type", "application/json")];
            fixture.good.client.send("POST", &path, &headers, &text).expect_refusal(400, "INVALID_REQUEST");
        }
        assert_eq!(fixture.daemon.operator().audit("limit=1"), newest, "a refused request was recorded");
        assert_eq!(fixture.call_with("any/answer", " {\t\"a\" :\n1 } ")["output"], 1);
        leak_check.assert_none(&mut fixture.daemon);
    });
}
