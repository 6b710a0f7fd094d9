//! Schemas that a plugin brings and arguments that a model sends, each of which may be made to cost the other dear.
//!
//! A schema is refused when the plugin is loaded, and nothing of the plugin is left. Arguments are refused before
//! anything runs, and are that call's answer alone.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::time::{Duration, Instant};

use toolgate_tests::{Daemon, LeakCheck, PluginFile, Session, Shared, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Longer than a check of anything may take, on a machine that does other things meanwhile.
const SOON: Duration = Duration::from_secs(5);

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
        daemon
            .operator()
            .load("any", &PluginFile::new("any").with_room(2 << 20).with_tool("input_schema", any).build());
        let fixture = Self { daemon, good };
        fixture.good.call("any/answer", json!({"warm": 1})).output();
        fixture
    }

    /// Loads a plugin whose tool takes this.
    fn load(&self, namespace: &str, schema: &Value) {
        let file = PluginFile::new(namespace).with_room(2 << 20).with_tool("input_schema", schema.clone());
        self.daemon.operator().load(namespace, &file.build());
    }

    /// Uploads a plugin whose tool takes, or answers, what must be refused.
    #[track_caller]
    fn refuses(&mut self, case: &str, schema: &Value) {
        let leak_check = LeakCheck::start(&self.daemon);
        let operator = self.daemon.operator();
        for member in ["input_schema", "output_schema"] {
            let began = Instant::now();
            let file = PluginFile::new("refused").with_tool(member, schema.clone()).build();
            let reply = operator.upload("refused", &file);
            assert_eq!(reply.status, 422, "{case} as {member}: {}", reply.text());
            reply.expect_refusal(422, "INVALID_PLUGIN");
            assert!(began.elapsed() < 2 * SOON, "{case} took {:?}", began.elapsed());
            operator.get("/v1/plugins/refused").expect_refusal(404, "NOT_FOUND");
            let row = &operator.audit("kind=admin&limit=1")[0];
            assert_eq!(row["admin"]["outcome"], "INVALID_PLUGIN", "{row}");
        }
        self.good.call("any/answer", json!({})).output();
        leak_check.assert_none(&mut self.daemon);
    }

    /// Makes a call with arguments as text, and one beside it that is sound.
    #[track_caller]
    fn with_arguments(&mut self, tool: &str, arguments: &str) -> Value {
        let leak_check = LeakCheck::start(&self.daemon);
        let began = Instant::now();
        let calls = format!(
            r#"{{"calls":[{{"tool":"{tool}","arguments":{arguments}}},{{"tool":"any/answer","arguments":{{}}}}]}}"#
        );
        let reply = self.good.client.post_text(&self.good.path("/calls"), &calls).expect(200).json();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let (asked, beside) = (&reply["results"][0], &reply["results"][1]);
        assert_eq!(beside["output"], 1, "{reply}");
        let id = asked["id"].as_str().expect("an id");
        // Whatever was sent, the log of it can be read.
        let row = self.good.audit_row(&self.daemon.operator(), id);
        assert_eq!(row["outcome"]["error_type"], asked["error"]["error_type"], "{row}");
        assert!(row["call"]["arguments_sha256"].is_string(), "{row}");
        leak_check.assert_none(&mut self.daemon);
        asked.clone()
    }

    #[track_caller]
    fn refuses_arguments(&mut self, case: &str, tool: &str, arguments: &str) -> Value {
        let refused = self.with_arguments(tool, arguments);
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

/// An object with one property.
fn with_property(property: Value) -> Value {
    json!({"type": "object", "properties": {"a": property}})
}

/// A chain of definitions, each made from the one before.
fn chain(links: usize, first: Value, next: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    definitions.insert("d0".into(), first);
    for at in 1..links {
        definitions.insert(format!("d{at}"), next(json!({"$ref": format!("#/$defs/d{}", at - 1)})));
    }
    let last = format!("#/$defs/d{}", links - 1);
    json!({"type": "object", "properties": {"a": {"$ref": last}}, "$defs": definitions})
}

/// Nothing is fetched: somebody listens, and nobody comes.
#[test]
fn references_that_leave_the_schema_are_refused_and_not_followed() {
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
            fixture.refuses(reference, &with_property(json!({"$ref": reference})));
        }
        fixture.refuses("id", &json!({"type": "object", "properties": {"a": {"$id": away, "$ref": "#/x"}}}));
        fixture.refuses("dialect", &json!({"$schema": away, "type": "object"}));
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            fixture.refuses(keyword, &with_property(json!({keyword: "#"})));
        }
        assert!(listener.accept().is_err(), "somebody came to fetch");
        let inside = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}});
        fixture.load("inside", &inside);
        assert_eq!(fixture.with_arguments("inside/answer", r#"{"a":1}"#)["output"], 1);
        fixture.refuses_arguments("inside", "inside/answer", r#"{"a":"1"}"#);
    });
}

#[test]
fn schemas_that_multiply_are_refused() {
    with_fixture(|fixture| {
        let string = || json!({"type": "string"});
        for keyword in ["allOf", "anyOf", "oneOf"] {
            fixture.refuses(keyword, &chain(40, string(), |before| json!({keyword: [before, before]})));
        }
        let properties = chain(40, string(), |before| json!({"properties": {"a": before, "b": before}}));
        fixture.refuses("properties", &properties);
        fixture.refuses("in place", &json!({"type": "object", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}));
        let both = json!({"anyOf": [{"items": {"$ref": "#/$defs/n"}}, {"items": {"$ref": "#/$defs/n"}}]});
        fixture.refuses(
            "each level doubles",
            &json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": both}}),
        );
        // A tree that refers to itself once costs the same at every level.
        let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "value": {"type": "integer"}}, "additionalProperties": false});
        fixture.load("tree", &tree);
        let deep = (0..60).fold("{}".to_owned(), |inner, _| format!(r#"{{"left":{inner}}}"#));
        assert_eq!(fixture.with_arguments("tree/answer", &deep)["output"], 1);
        fixture.load("chained", &chain(6, string(), |before| json!({"allOf": [before]})));
        fixture.refuses_arguments("chained", "chained/answer", r#"{"a":1}"#);
    });
}

#[test]
fn schemas_that_are_too_large_in_any_direction_are_refused() {
    with_fixture(|fixture| {
        let nested = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        fixture.refuses("deep", &with_property(nested));
        fixture.refuses("long", &with_property(json!({"description": "x".repeat(300 << 10)})));
        let many: serde_json::Map<_, _> = (0..11_000).map(|at| (format!("p{at}"), json!({}))).collect();
        fixture.refuses("wide", &json!({"type": "object", "properties": many}));
        let unique = vec![json!({"type": "array", "uniqueItems": true}); 40];
        fixture.refuses("unique", &with_property(json!({"prefixItems": unique})));
        let patterns: serde_json::Map<_, _> = (0..70).map(|at| (format!("^p{at}"), json!({}))).collect();
        fixture.refuses("patterns", &json!({"type": "object", "patternProperties": patterns}));
        let references: Vec<_> = (0..2_100).map(|_| json!({"$ref": "#/$defs/x"})).collect();
        fixture.refuses(
            "references",
            &json!({"type": "object", "properties": {"a": {"prefixItems": references}}, "$defs": {"x": {}}}),
        );
        let few: serde_json::Map<_, _> =
            (0..100).map(|at| (format!("p{at}"), json!({"type": "integer"}))).collect();
        fixture.load("wide", &json!({"type": "object", "properties": few}));
        assert_eq!(fixture.with_arguments("wide/answer", r#"{"p7":7}"#)["output"], 1);
    });
}

/// Patterns are matched in linear time, so those that only backtracking could match are refused.
#[test]
fn patterns_that_would_blow_up_are_refused_or_harmless() {
    with_fixture(|fixture| {
        for pattern in [r"(a)\1", "(?=a)b", "(?<!a)b", "((a{100}){100}){100}", "(", "[z-a]", r"\u{110000}"] {
            fixture.refuses(pattern, &with_property(json!({"type": "string", "pattern": pattern})));
        }
        // The classic of backtracking: here it takes as long as the text is.
        fixture.load("evil", &with_property(json!({"type": "string", "pattern": "^(a+)+$"})));
        let text = "a".repeat(500_000);
        let matched = fixture.with_arguments("evil/answer", &format!(r#"{{"a":"{text}"}}"#));
        assert_eq!(matched["output"], 1, "{matched}");
        fixture.refuses_arguments("evil", "evil/answer", &format!(r#"{{"a":"{text}!"}}"#));
    });
}

/// What a schema costs is bounded, and so is what an argument is: their product is too.
#[test]
fn a_check_that_would_take_long_is_refused_before_it_begins() {
    with_fixture(|fixture| {
        let branch = |at: usize| json!({"properties": {"k": {"const": at}}, "required": ["k"]});
        let branches: Vec<_> = (0..600).map(branch).collect();
        let schema = with_property(json!({"type": "array", "items": {"anyOf": branches}}));
        fixture.load("branching", &schema);
        let of = |items: usize| format!(r#"{{"a":[{}]}}"#, vec![r#"{"k":599}"#; items].join(","));
        // They would fit, if somebody looked for long enough.
        let refused = fixture.refuses_arguments("many", "branching/answer", &of(60_000));
        assert!(
            refused["error"]["message"].as_str().is_some_and(|text| text.contains("too large")),
            "{refused}"
        );
        assert_eq!(fixture.with_arguments("branching/answer", &of(10))["output"], 1);
        fixture.load("unique", &with_property(json!({"type": "array", "uniqueItems": true})));
        let items: Vec<_> = (0..100_000).map(|at| at.to_string()).collect();
        fixture.with_arguments("unique/answer", &format!(r#"{{"a":[{}]}}"#, items.join(",")));
        fixture.refuses_arguments("twice", "unique/answer", r#"{"a":[1,1]}"#);
    });
}

#[test]
fn arguments_that_are_too_deep_or_too_large_are_refused() {
    with_fixture(|fixture| {
        let nested = |open: &str, close: &str, levels: usize| {
            format!(r#"{{"a":{}1{}}}"#, open.repeat(levels), close.repeat(levels))
        };
        assert_eq!(fixture.with_arguments("any/answer", &nested("[", "]", 63))["output"], 1);
        for levels in [64, 127, 128, 1_000, 100_000] {
            fixture.refuses_arguments("arrays", "any/answer", &nested("[", "]", levels));
        }
        for levels in [64, 1_000, 50_000] {
            fixture.refuses_arguments("objects", "any/answer", &nested(r#"{"a":"#, "}", levels));
        }
        let long = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes));
        assert_eq!(fixture.with_arguments("any/answer", &long((1 << 20) - 10))["output"], 1);
        for bytes in [1 << 20, 7 << 20] {
            fixture.refuses_arguments("long", "any/answer", &long(bytes));
        }
        let keys: Vec<_> = (0..80_000).map(|at| format!(r#""k{at}":0"#)).collect();
        assert_eq!(fixture.with_arguments("any/answer", &format!("{{{}}}", keys.join(",")))["output"], 1);
    });
}

/// Two honest parsers would read these differently, so neither gets to.
#[test]
fn arguments_that_can_be_read_in_two_ways_are_refused() {
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
            fixture.refuses_arguments(case, "any/answer", arguments);
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
            assert_eq!(fixture.with_arguments("any/answer", arguments)["output"], 1, "{case}");
        }
    });
}

/// What a schema says of numbers holds for those that a double would round.
#[test]
fn numbers_beyond_the_integers_of_a_double_are_compared_exactly() {
    with_fixture(|fixture| {
        let most = json!({"type": "integer", "maximum": 9_007_199_254_740_992_i64});
        fixture.load("bounded", &with_property(most));
        assert_eq!(fixture.with_arguments("bounded/answer", r#"{"a":9007199254740992}"#)["output"], 1);
        fixture.refuses_arguments("2^53+1", "bounded/answer", r#"{"a":9007199254740993}"#);
        fixture.load("exactly", &with_property(json!({"const": 9_007_199_254_740_993_i64})));
        assert_eq!(fixture.with_arguments("exactly/answer", r#"{"a":9007199254740993}"#)["output"], 1);
        fixture.refuses_arguments("rounded", "exactly/answer", r#"{"a":9007199254740992}"#);
        fixture.load("whole", &with_property(json!({"type": "integer"})));
        assert_eq!(fixture.with_arguments("whole/answer", r#"{"a":1.0}"#)["output"], 1);
        for number in ["1.5", "9007199254740993.5e-1"] {
            fixture.refuses_arguments(number, "whole/answer", &format!(r#"{{"a":{number}}}"#));
        }
    });
}

/// What is no JSON at all makes the request unsound: nobody can say where the arguments end.
#[test]
fn arguments_that_are_no_json_make_the_request_unsound() {
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
        assert_eq!(fixture.with_arguments("any/answer", " {\t\"a\" :\n1 } ")["output"], 1);
        leak_check.assert_none(&mut fixture.daemon);
    });
}
