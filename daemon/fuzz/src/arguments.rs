//! A call's arguments from the gate to the permit.

use serde_json::{Value, json};
use toolgate_admission::{
    CanaryDraw, ChargeTime, Checked, Consumer, Descriptor, Ledger, QuotaCounters, Rates, Refusal, Rules,
    SessionFacts, ToolCall, Verdict, check,
};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;

use crate::error_format::{assert_error_text, assert_pointer, assert_pointer_into};
use crate::evaluate::is_valid;
use crate::{plugin, strict};

/// Between the schema and the arguments.
const SEPARATOR: &str = "\n---\n";

/// Nesting levels of arguments under the default limits.
const LEVELS: u64 = 64;

/// Input: a schema, a line `---`, and the text of the arguments.
///
/// Accepted arguments are strict JSON, valid by two other validators, and leave the charged permit byte for byte, unless they are
/// valid only without some members that are null. Refused arguments are not valid, and each violation has a message and a pointer into them. The second run gives the same result.
pub fn arguments(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (schema, sent) = text.split_once(SEPARATOR).unwrap_or((r#"{"type":"object"}"#, text));
    let Some(schema) = strict::read(schema, LEVELS) else { return };
    let Some(rules) = rules(&schema) else { return };
    match (decide(&rules, sent), decide(&rules, sent)) {
        (Verdict::Run(checked), Verdict::Run(_)) => check_accepted(checked, &schema, sent),
        (Verdict::Refused(refusal), Verdict::Refused(same)) => {
            assert_eq!(refusal.error, same.error);
            check_refusal(&refusal, &schema, sent);
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}

fn decide(rules: &Rules<()>, sent: &str) -> Verdict<()> {
    let draw = CanaryDraw::SERVING;
    let call = ToolCall { tool: "call_fuzz_tool".into(), arguments: sent.into(), draw };
    check(rules, &SessionFacts::default(), call)
}

/// Rules of an agent that may call one tool with this schema; none if the schema is refused.
fn rules(schema: &Value) -> Option<Rules<()>> {
    let tool = json!({"name": "tool", "description": "Does it.", "usage": "Use it.", "input_schema": schema});
    let description = json!({"name": "fuzz", "version": "1.0.0", "tools": [tool]}).to_string();
    match Descriptor::parse(&description) {
        Ok(descriptor) => Some(Rules::allow_all(plugin::catalogue([descriptor]))),
        Err(error) => {
            assert_error_text(&error.message, &error.hint);
            assert_pointer(&error.place);
            None
        }
    }
}

fn check_accepted(checked: Checked<()>, schema: &Value, sent: &str) {
    let sent_value = strict::read(sent, LEVELS).expect("accepted, but not strict JSON");
    assert!(serde_json::from_str::<Value>(sent).is_ok(), "accepted, but not JSON for `serde_json`");
    let value = checked.arguments().value().clone();
    let is_as_sent = value == sent_value;
    assert!(is_as_sent || is_without_nulls(&sent_value, &value), "accepted with another value");
    assert!(is_as_sent || is_valid(schema, &sent_value) != Some(true), "valid, and changed");
    assert_ne!(is_valid(schema, &value), Some(false), "accepted, but not valid for {schema}");
    assert_ne!(is_valid_by_library(schema, &value), Some(false), "accepted, but not valid for {schema}");
    let ledger = Ledger::new(Rates::UNLIMITED, QuotaCounters::default());
    let caller = Name::parse("fuzz").expect("a name");
    let admitted =
        ledger.charge(Consumer::without_session(&caller), checked, ChargeTime::at(0)).expect("no limit");
    let raw = admitted.arguments().raw();
    assert_eq!(strict::read(raw, LEVELS), Some(value), "the plugin gets another value");
    assert!(!is_as_sent || raw.as_bytes() == sent.as_bytes(), "the plugin gets other bytes");
    assert!(raw.len() as u64 <= admitted.limits().arguments_bytes);
}

/// Whether a value is another one without some of the members that are null.
fn is_without_nulls(sent: &Value, value: &Value) -> bool {
    match (sent, value) {
        (Value::Object(sent), Value::Object(value)) => {
            let is_kept = |(name, member): (&String, &Value)| match value.get(name) {
                Some(kept) => is_without_nulls(member, kept),
                None => member.is_null(),
            };
            value.keys().all(|name| sent.contains_key(name)) && sent.iter().all(is_kept)
        }
        (Value::Array(sent), Value::Array(value)) => {
            sent.len() == value.len()
                && sent.iter().zip(value).all(|(sent, value)| is_without_nulls(sent, value))
        }
        (sent, value) => sent == value,
    }
}

fn check_refusal(refusal: &Refusal, schema: &Value, sent: &str) {
    let error = &refusal.error;
    assert_eq!(error.error_type, ErrorType::InvalidArguments);
    assert_error_text(&error.message, &error.hint);
    assert!(error.message.starts_with("Validation Error: "), "{}", error.message);
    let value = strict::read(sent, LEVELS);
    let violations = error.details_json().and_then(|details| details["violations"].as_array().cloned());
    let violations = violations.expect("a refusal lists its violations");
    assert!(!violations.is_empty() && violations.len() <= 8, "{violations:?}");
    let mut is_over_limit = false;
    for violation in &violations {
        let text =
            |member: &str| violation[member].as_str().unwrap_or_else(|| panic!("no `{member}`: {violation}"));
        for member in ["expected", "found", "message"] {
            assert_error_text(text(member), "see the refusal");
        }
        match &value {
            Some(value) => assert_pointer_into(value, text("pointer")),
            None => assert_pointer(text("pointer")),
        }
        is_over_limit |= text("expected") == "a smaller or flatter value";
    }
    let Some(value) = value.filter(|_| !is_over_limit) else { return };
    assert_ne!(is_valid(schema, &value), Some(true), "refused, but valid for {schema}: {}", error.message);
    let by_library = is_valid_by_library(schema, &value);
    assert_ne!(by_library, Some(true), "refused, but valid for {schema}: {}", error.message);
}

/// The `jsonschema` crate, which the gate uses too, called directly without the gate's settings.
fn is_valid_by_library(schema: &Value, value: &Value) -> Option<bool> {
    let is_asked = schema.get("x-assert-format").and_then(Value::as_bool);
    let dialect = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let asserts_format = is_asked.unwrap_or(dialect.contains("draft-0"));
    let validator =
        jsonschema::options().offline().should_validate_formats(asserts_format).build(schema).ok()?;
    Some(validator.validate(value).is_ok())
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("absent-as-null", r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"properties":{"c":{"type":"integer"}}},"d":{"type":["null","string"]}}}
---
{"a":null,"b":{"c":null},"d":null}"#),
    ("alternatives", r#"{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]}]}}}
---
{"x":{"k":"b"}}"#),
    ("beyond-53-bits", r#"{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740992}}}
---
{"n":9007199254740993}"#),
    ("beyond-64-bits", r#"{"type":"object"}
---
{"n":18446744073709551616}"#),
    ("contains", r#"{"type":"object","properties":{"x":{"contains":{"const":1},"minContains":2,"maxContains":3}}}
---
{"x":[1,2]}"#),
    ("dependent", r#"{"type":"object","dependentRequired":{"a":["b"]}}
---
{"a":1}"#),
    ("doubles-at-each-level", r##"{"type":"object","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"properties":{"x":{"$ref":"#/$defs/a"},"y":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}
---
{"x":{"x":{"y":1}}}"##),
    ("draft-seven", r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"}}}
---
{"x":1}"##),
    ("duplicate-key", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","city":"London"}"#),
    ("duplicate-key-spelt-otherwise", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","c\u0069ty":"London"}"#),
    ("empty-enumeration", r#"{"type":"object","properties":{"x":{"enum":[]}}}
---
{"x":1}"#),
    ("enumeration-with-numbers", r#"{"type":"object","properties":{"x":{"enum":[1,1.5,"1",null,[1],{"a":1}]}}}
---
{"x":1.0}"#),
    ("exactly-one", r#"{"type":"object","properties":{"x":{"oneOf":[{"type":"number"},{"minimum":5}]}}}
---
{"x":7}"#),
    ("false-schema", r#"{"type":"object","properties":{"x":false}}
---
{"x":null}"#),
    ("fits", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","days":3}"#),
    ("fits-with-space-around", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"minLength\":1},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\"],\"additionalProperties\":false}\n\
         ---\n\
         \x20\n\
         {\"city\":\"Paris\"}\t"),
    ("format", r#"{"type":"object","properties":{"x":{"format":"date-time"},"y":{"format":"ipv4"},"z":{"format":"uri"}}}
---
{"x":"2026-02-30T00:00:00Z","y":"1.2.3.256","z":"a b"}"#),
    ("format-asserted", r#"{"type":"object","x-assert-format":true,"properties":{"x":{"format":"date-time"},"y":{"format":"ipv4"},"z":{"format":"uri"}}}
---
{"x":"2026-02-30T00:00:00Z","y":"1.2.3.256","z":"a b"}"#),
    ("fraction-for-integer", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","days":3.5}"#),
    ("hidden-characters-come", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"minLength\":1},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\"],\"additionalProperties\":false}\n\
         ---\n\
         {\"city\":\"\u{202e}\u{200b}\u{feff}\",\"\u{85}\":1}"),
    ("if-then-else", r#"{"type":"object","if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}
---
{"a":1}"#),
    ("integral-float", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","days":3.0}"#),
    ("keys-of-pointers", r#"{"type":"object","properties":{"a/b":{"properties":{"~":{"type":"null"}}}}}
---
{"a/b":{"~":1}}"#),
    ("many-misfits", r#"{"type":"object","additionalProperties":{"type":"integer"}}
---
{"k0":"v","k1":"v","k2":"v","k3":"v","k4":"v","k5":"v","k6":"v","k7":"v","k8":"v","k9":"v","k10":"v","k11":"v","k12":"v","k13":"v","k14":"v","k15":"v","k16":"v","k17":"v","k18":"v","k19":"v","k20":"v","k21":"v","k22":"v","k23":"v","k24":"v","k25":"v","k26":"v","k27":"v","k28":"v","k29":"v"}"#),
    ("missing", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"days":3}"#),
    ("multiple-of", r#"{"type":"object","properties":{"x":{"multipleOf":0.1}}}
---
{"x":0.3}"#),
    ("negative-bound", r#"{"type":"object","properties":{"x":{"exclusiveMinimum":-1,"exclusiveMaximum":1e3}}}
---
{"x":-1}"#),
    ("nested-items", r#"{"type":"object","properties":{"rows":{"type":"array","minItems":1,"items":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}}
---
{"rows":[{"id":1},{"id":"2"},{}]}"#),
    ("no-json", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
city=Paris"#),
    ("not-an-object", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
["Paris"]"#),
    ("nothing", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
"#),
    ("pattern", r#"{"type":"object","properties":{"x":{"pattern":"^[a-z]+(-[a-z]+)*$"}}}
---
{"x":"a--b"}"#),
    ("pattern-properties", r#"{"type":"object","patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false}
---
{"a1":"x","b":1}"#),
    ("pattern-that-backtracks", r#"{"type":"object","properties":{"x":{"pattern":"^(a+)+$"}}}
---
{"x":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}"#),
    ("pattern-too-large", r#"{"type":"object","properties":{"x":{"pattern":"((a{100}){100}){100}"}}}
---
{}"#),
    ("property-names", r#"{"type":"object","propertyNames":{"pattern":"^x-"}}
---
{"x-a":1,"b":2}"#),
    ("recursive", r##"{"type":"object","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"integer"}}}},"properties":{"list":{"$ref":"#/$defs/n"}}}
---
{"list":{"next":{"next":{"v":"x"}}}}"##),
    ("refers-elsewhere", r#"{"type":"object","properties":{"x":{"$ref":"https://example.com/s.json"}}}
---
{}"#),
    ("refers-to-itself-in-place", r##"{"type":"object","$ref":"#"}
---
{}"##),
    ("sixty-five-levels", r#"{"type":"object"}
---
{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}"#),
    ("unevaluated", r#"{"type":"object","allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}
---
{"a":1,"b":2}"#),
    ("unique-items", r#"{"type":"object","properties":{"x":{"uniqueItems":true}}}
---
{"x":[1,1.0,"1"]}"#),
    ("unknown", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":"Paris","dais":3}"#),
    ("wrong-type", r#"{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["city"],"additionalProperties":false}
---
{"city":7}"#),
];
