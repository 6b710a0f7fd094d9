//! Compares `wit/describe.schema.json` with the parser of descriptors. Authors in other languages have only the
//! schema, so a descriptor that it accepts must load, and one that it rejects must not.
//!
//! The test mutates a descriptor with every field: each field gets many values, and schema and parser must agree on
//! each. Rules that JSON Schema cannot express are in the schema's own descriptions, and their cases are listed here
//! by name.

use std::sync::LazyLock;

use jsonschema::Validator;
use toolgate_api::limits::Limits;

use super::*;

static PUBLISHED: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../../../../wit/describe.schema.json")).unwrap();
    jsonschema::options().offline().build(&schema).unwrap()
});

/// Every field, none of them with a schema inside that could break rules of its own.
fn whole() -> Value {
    json!({
        "name": "w", "version": "1.2.0", "publisher": "Example", "category": "data", "purpose": "Forecasts.",
        "capabilities": {
            "filesystem": "workspace",
            "network": [{"scheme": "https", "host": "api.example", "port": 8443, "methods": ["GET"], "path": "/v1/"}],
            "credentials": ["stripe"],
            "unused": ["filesystem"],
        },
        "config_schema": true,
        "rate_limit": {"calls": 60, "seconds": 10},
        "limits": {"fuel": 5},
        "tools": [{
            "name": "now", "original_name": "getNow", "description": "Now.", "usage": "Say where.",
            "input_schema": {"type": "object"}, "output_schema": true, "mode": "client",
            "hints": {"read_only": true, "destructive": false, "idempotent": true, "open_world": false},
            "required_integrations": ["stripe"], "prerequisites": ["Buy it first."], "tags": ["rain"],
            "examples": [{"description": "Paris", "input": {}, "output": 11.5}],
            "redact": ["/city"], "definition": "any",
        }],
    })
}

/// Values for every field: each JSON type, and both sides of every bound and format of the schema.
fn values() -> Vec<Value> {
    let texts = "| |\n\t|a|é|A|a b|a-b|a_b|a--b|1a|a\n|none|network|http|server|GET|get|CONNECT|TRACES|*|\
        *.a|*.a.b|*.A.b-c|a.*|a.b|a.b.|a..b|-a|1.2.3.4|[::1]|[::1|[a b]|https://a|a:1|/|/a/b|/a b|/é|/%41|/%4|/~0~1|/~2|/a~|~0|a/b|/?a"
        .split('|');
    let lengths = [20, 40, 57, 63, 64, 100, 200, 256, 1_000, 2_000, 4_096, 16_384];
    let long = lengths.into_iter().flat_map(|most| [most, most + 1]).flat_map(|count| {
        ["a", "A", "é"]
            .map(|letter| letter.repeat(count))
            .into_iter()
            .chain([format!("/{}", "a".repeat(count - 1))])
    });
    let names = [251, 252, 253, 254].map(|count| "a.".repeat(count)[..count].to_owned() + "b");
    let below = names.clone().map(|name| format!("*.{name}"));
    let limits: serde_json::Map<_, _> = Limits::names().map(|name| (name.to_owned(), 1.into())).collect();
    let others = json!([
        null, true, false, -1, 0, 1, 65_535, 65_536, 86_400, 86_401, 1_000_000, 1_000_001, u64::MAX,
        1e6, 1_000_001.0, 1.5, -0.0, 1e30, 18_446_744_073_709_551_616.0,
        [], [null], ["a"], ["a b"], [1],
        {}, {"a": "b"}, {"type": "object"}, {"type": "string"}, {"type": ["object"]}, {"host": "a"}, {"input": {}},
        {"calls": 1}, {"feul": 1}, {"fuel": null}, limits,
    ]);
    let texts = texts.map(str::to_owned).chain(long).chain(names).chain(below).map(Value::String);
    texts.chain(others.as_array().cloned().unwrap_or_default()).collect()
}

/// The JSON pointers of a value and of all that is in it.
fn places(value: &Value, at: String) -> Vec<String> {
    let inside: Vec<String> = match value {
        Value::Object(members) => {
            members.iter().flat_map(|(name, inner)| places(inner, format!("{at}/{name}"))).collect()
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, inner)| places(inner, format!("{at}/{index}")))
            .collect(),
        _ => Vec::new(),
    };
    [at].into_iter().chain(inside).collect()
}

#[track_caller]
fn assert_same_verdict(description: &Value, what: &str) {
    let (read, fits) = (parse(description), PUBLISHED.is_valid(description));
    assert_eq!(read.is_ok(), fits, "{what}: fits the schema: {fits}, and is read as {:?}", read.err());
}

#[test]
fn the_schema_and_the_reader_say_the_same_of_every_value_at_every_place() {
    let (whole, values) = (whole(), values());
    assert!(parse(&whole).is_ok() && PUBLISHED.is_valid(&whole));
    for place in places(&whole, String::new()) {
        for value in &values {
            let mut changed = whole.clone();
            *changed.pointer_mut(&place).unwrap() = value.clone();
            assert_same_verdict(
                &changed,
                &format!("`{place}` is {}", toolgate_api::text::escape_for_display(&value.to_string(), 80)),
            );
        }
    }
}

#[test]
fn the_schema_and_the_reader_require_the_same_fields_and_ignore_the_same() {
    let whole = whole();
    for place in places(&whole, String::new()) {
        let mut more = whole.clone();
        if let Some(Value::Object(members)) = more.pointer_mut(&place) {
            members.insert("new".into(), json!(1));
            assert_same_verdict(&more, &format!("`{place}/new` is there"));
        }
        let Some((parent, name)) = place.rsplit_once('/') else { continue };
        let mut less = whole.clone();
        if let Some(Value::Object(members)) = less.pointer_mut(parent) {
            members.remove(name);
            assert_same_verdict(&less, &format!("`{place}` is absent"));
        }
    }
}

#[test]
fn the_schema_and_the_reader_bound_the_same_lists() {
    let whole = whole();
    for place in places(&whole, String::new()).into_iter().filter(|place| place != "/tools") {
        for count in [100, 101] {
            let mut longer = whole.clone();
            if let Some(Value::Array(items)) = longer.pointer_mut(&place) {
                *items = vec![items[0].clone(); count];
                assert_same_verdict(&longer, &format!("`{place}` has {count} entries"));
            }
        }
    }
    for count in [1_000, 1_001] {
        let tools: Vec<Value> = (0..count).map(|index| tool(&format!("t{index}"))).collect();
        assert_same_verdict(&with("", "tools", json!(tools)), &format!("{count} tools"));
    }
}

/// Exactly the rules that the schema states in its descriptions and cannot express.
#[test]
fn what_the_schema_cannot_say_is_refused_all_the_same() {
    let rule = |field: &str, value: &str| {
        let mut rule = json!({"host": "a"});
        rule[field] = value.into();
        with("", "capabilities", json!({"network": [rule]}))
    };
    let deep = (0..DESCRIBE_DEPTH).fold(json!({}), |inner, _| json!([inner]));
    let called_alike = {
        let mut first = tool("a");
        first["original_name"] = "b".into();
        json!([first, tool("b")])
    };
    for (what, description) in [
        ("levels", with("", "new", deep)),
        ("bytes", with("", "new", "a".repeat(PLUGIN_BYTES).into())),
        ("a hidden character", with("", "purpose", "a\u{200b}".into())),
        ("names that are long together", with("/tools/0", "name", "a".repeat(56).into())),
        ("two tools of a name", with("", "tools", json!([tool("a"), tool("a")]))),
        ("two tools that are called alike", with("", "tools", called_alike)),
        ("a schema that is not valid", with("", "config_schema", json!({"type": "strin"}))),
        ("a name that reads as an address", rule("host", "127.1")),
        ("an address in another spelling", rule("host", "[::0]")),
        ("a segment of dots", rule("path", "/a/../b")),
        ("an encoded segment of dots", rule("path", "/a/%2e%2e/b")),
        ("an empty segment", rule("path", "//a")),
    ] {
        assert!(PUBLISHED.is_valid(&description), "{what}");
        assert!(parse(&description).is_err(), "{what}");
    }
    for text in [r#""new": 1, "new": 1"#, r#""new": 1e999"#, r#""new": 18446744073709551616"#] {
        let description = smallest().to_string().replacen('{', &format!("{{{text},"), 1);
        assert!(Descriptor::parse(&description).is_err(), "{text}");
    }
}
