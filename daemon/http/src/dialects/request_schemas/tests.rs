//! The schemas describe the members that the parsers accept.

use std::collections::BTreeSet;

use serde_json::json;
use utoipa::PartialSchema;

use super::*;

/// Returns the property names of an inline schema.
fn property_names<T: PartialSchema>() -> BTreeSet<String> {
    let schema = serde_json::to_value(T::schema()).expect("a schema");
    keys(&schema["properties"])
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

fn expect_parsed(request: &Value) {
    let parsed = super::super::parse(request.to_string().as_bytes(), 32);
    assert!(parsed.is_ok(), "{request}: {:?}", parsed.err());
}

/// Parses a request with every described member, each with a value that matches its schema.
fn parse_with_all(members: &BTreeSet<String>, carrier: &str, calls: &Value) {
    let mut request = json!({});
    for member in members {
        request[member] = match member.as_str() {
            "on_disconnect" => json!("cancel"),
            "deadline_ms" => json!(1),
            member if member == carrier => calls.clone(),
            _ => json!("x1"),
        };
    }
    assert_eq!(request[carrier], *calls, "`{carrier}` is not described");
    expect_parsed(&request);
}

#[test]
fn every_described_member_of_a_request_is_parsed() {
    parse_with_all(&property_names::<NativeRequest>(), "calls", &json!([{"tool": "a"}]));
    let function = json!({"name": "a", "arguments": "{}"});
    let message = json!({"tool_calls": [{"id": "c", "type": "function", "function": function}]});
    parse_with_all(&property_names::<OpenAiRequest>(), "openai", &message);
    let item = json!([{"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"}]);
    parse_with_all(&property_names::<ResponsesRequest>(), "openai_responses", &item);
    let block = json!([{"type": "tool_use", "id": "c", "name": "a", "input": {}}]);
    parse_with_all(&property_names::<AnthropicRequest>(), "anthropic", &block);
    let part = json!([{"functionCall": {"id": "c", "name": "a", "args": {}}}]);
    assert_eq!(keys(&part[0]["functionCall"]), property_names::<GeminiFunctionCall>());
    parse_with_all(&property_names::<GeminiRequest>(), "gemini", &part);
    let call = json!({"tool_name": "a", "action": "b", "parameters": {}});
    assert_eq!(keys(&call), property_names::<FlatToolCall>());
    parse_with_all(&property_names::<FlatRequest>(), "tool_call", &call);
    parse_with_all(&property_names::<TextRequest>(), "text", &json!("[[TOOL_CALL: a()]]"));
}
