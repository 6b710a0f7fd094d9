//! A call's arguments from the gate to the permit: what passes is sound, and is what the plugin gets.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_admission::{
    Catalogue, Checked, Descriptor, Digest, ErrorType, Ledger, LimitsPatch, Name, Plugin, Rates, Refusal,
    Rules, SessionFacts, ToolCall, Verdict, check,
};

use crate::evaluate::fits;
use crate::strict;
use crate::tell::{assert_place, assert_pointer, assert_told};

/// Between the schema and the arguments.
const SEPARATOR: &str = "\n---\n";

/// Levels that arguments may have unless a limit says otherwise.
const LEVELS: u64 = 64;

/// A schema, a line `---`, and the text of the arguments, which meet at the gate as in a call.
///
/// What passes is strict JSON, fits the schema in the opinion of two other validators, and comes out of the charged
/// permit byte for byte. What is refused is not sound or does not fit, and each violation has its words and a place
/// in the arguments. The same call is answered twice in the same way.
pub fn arguments(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (schema, sent) = text.split_once(SEPARATOR).unwrap_or((r#"{"type":"object"}"#, text));
    let Some(schema) = strict::read(schema, LEVELS) else { return };
    let Some(rules) = rules(&schema) else { return };
    let verdict = judge(&rules, sent);
    let again = judge(&rules, sent);
    match (verdict, again) {
        (Verdict::Run(checked), Verdict::Run(_)) => passed(checked, &schema, sent),
        (Verdict::Refused(refusal), Verdict::Refused(same)) => {
            assert_eq!(refusal.error, same.error);
            refused(&refusal, &schema, sent);
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}

fn judge(rules: &Rules<()>, sent: &str) -> Verdict<()> {
    check(rules, &SessionFacts::default(), ToolCall { tool: "call_fuzz_tool".into(), arguments: sent.into() })
}

/// An agent that may call one tool with this schema, where the schema is accepted.
fn rules(schema: &Value) -> Option<Rules<()>> {
    let tool = json!({"name": "tool", "description": "Does it.", "usage": "Use it.", "input_schema": schema});
    let description = json!({"name": "fuzz", "version": "1.0.0", "tools": [tool]}).to_string();
    let descriptor = match Descriptor::parse(&description) {
        Ok(descriptor) => descriptor,
        Err(error) => {
            assert_told(&error.message, &error.hint);
            assert_pointer(&error.place);
            return None;
        }
    };
    let plugin = Plugin {
        granted: Arc::new(descriptor.capabilities.clone().into()),
        descriptor: Arc::new(descriptor),
        digest: Digest::from_sha256([7; 32]),
        component: (),
        disabled: false,
    };
    let catalogue = Arc::new(Catalogue::new(LimitsPatch::new(), vec![Arc::new(plugin)]));
    Some(Rules::everything(catalogue))
}

fn passed(checked: Checked<()>, schema: &Value, sent: &str) {
    let value = strict::read(sent, LEVELS);
    assert_eq!(value.as_ref(), Some(checked.arguments().value()), "accepted otherwise than it reads");
    let value = value.unwrap_or_default();
    assert!(serde_json::from_str::<Value>(sent).is_ok(), "accepted, and no JSON to `serde_json`");
    assert_ne!(fits(schema, &value), Some(false), "accepted, and does not fit {schema}");
    assert_ne!(fits_elsewhere(schema, &value), Some(false), "accepted, and does not fit {schema}");
    let mut ledger = Ledger::new(Rates { calls_per_second: None, burst: 1 });
    let caller = Name::parse("fuzz").expect("a name");
    let admitted = ledger.charge(&caller, checked, 0).expect("nothing is limited");
    assert_eq!(admitted.arguments().raw().as_bytes(), sent.as_bytes(), "the plugin gets other bytes");
    assert!(sent.len() as u64 <= admitted.limits().arguments_bytes);
}

fn refused(refusal: &Refusal, schema: &Value, sent: &str) {
    let error = &refusal.error;
    assert_eq!(error.error_type, ErrorType::InvalidArguments);
    assert_told(&error.message, &error.hint);
    assert!(error.message.starts_with("Validation Error: "), "{}", error.message);
    let value = strict::read(sent, LEVELS);
    let violations = error.details.as_ref().and_then(|details| details["violations"].as_array());
    let violations = violations.expect("a refusal lists its violations");
    assert!(!violations.is_empty() && violations.len() <= 8, "{violations:?}");
    let mut is_beyond = false;
    for violation in violations {
        let word =
            |member: &str| violation[member].as_str().unwrap_or_else(|| panic!("no `{member}`: {violation}"));
        for member in ["expected", "found", "message"] {
            assert_told(word(member), "see the refusal");
        }
        match &value {
            Some(value) => assert_place(value, word("pointer")),
            None => assert_pointer(word("pointer")),
        }
        is_beyond |= word("expected") == "a smaller or flatter value";
    }
    let Some(value) = value.filter(|_| !is_beyond) else { return };
    assert_ne!(fits(schema, &value), Some(true), "refused, and fits {schema}: {}", error.message);
    assert_ne!(fits_elsewhere(schema, &value), Some(true), "refused, and fits {schema}: {}", error.message);
}

/// The library that the gate uses as well, asked directly, without the gate's settings.
fn fits_elsewhere(schema: &Value, value: &Value) -> Option<bool> {
    let validator = jsonschema::options().offline().should_validate_formats(true).build(schema).ok()?;
    Some(validator.validate(value).is_ok())
}
