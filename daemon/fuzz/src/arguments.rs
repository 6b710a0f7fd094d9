//! A call's arguments from the gate to the permit.

use serde_json::{Value, json};
use toolgate_admission::{
    Checked, Descriptor, Ledger, Rates, Refusal, Rules, SessionFacts, ToolCall, Verdict, check,
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
/// Accepted arguments are strict JSON, valid by two other validators, and leave the charged permit byte for byte. Refused
/// arguments are not, and each violation has a message and a pointer into them. The second run gives the same result.
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
    check(rules, &SessionFacts::default(), ToolCall { tool: "call_fuzz_tool".into(), arguments: sent.into() })
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
    let value = strict::read(sent, LEVELS);
    assert_eq!(value.as_ref(), Some(checked.arguments().value()), "accepted with another value");
    let value = value.unwrap_or_default();
    assert!(serde_json::from_str::<Value>(sent).is_ok(), "accepted, but not JSON for `serde_json`");
    assert_ne!(is_valid(schema, &value), Some(false), "accepted, but not valid for {schema}");
    assert_ne!(is_valid_by_library(schema, &value), Some(false), "accepted, but not valid for {schema}");
    let mut ledger = Ledger::new(Rates { calls_per_second: None, burst: 1 });
    let caller = Name::parse("fuzz").expect("a name");
    let admitted = ledger.charge(&caller, checked, 0).expect("no limit");
    assert_eq!(admitted.arguments().raw().as_bytes(), sent.as_bytes(), "the plugin gets other bytes");
    assert!(sent.len() as u64 <= admitted.limits().arguments_bytes);
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
    let validator = jsonschema::options().offline().should_validate_formats(true).build(schema).ok()?;
    Some(validator.validate(value).is_ok())
}
