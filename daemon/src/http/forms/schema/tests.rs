//! What the document says of the forms is what is read and written.

use std::collections::BTreeSet;

use serde_json::json;
use utoipa::PartialSchema;

use super::answers::*;
use super::*;

/// The members that a schema knows, of one that is written out and not referred to.
fn described<T: PartialSchema>() -> BTreeSet<String> {
    let schema = serde_json::to_value(T::schema()).expect("a schema");
    keys(&schema["properties"])
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

fn expect_read(request: &Value) {
    let read = super::super::read(request.to_string().as_bytes(), 32);
    assert!(read.is_ok(), "{request}: {:?}", read.err());
}

/// A request with every member that is described, each with a value that fits its description.
fn with_all(members: &BTreeSet<String>, carrier: &str, calls: &Value) {
    let mut request = json!({});
    for member in members {
        request[member] = if member == carrier { calls.clone() } else { json!("x1") };
    }
    assert_eq!(request[carrier], *calls, "`{carrier}` is not described");
    expect_read(&request);
}

#[test]
fn what_is_described_of_requests_is_read() {
    with_all(&described::<OurRequest>(), "calls", &json!([{"tool": "a"}]));
    let function = json!({"name": "a", "arguments": "{}"});
    let message = json!({"tool_calls": [{"id": "c", "type": "function", "function": function}]});
    with_all(&described::<OpenAiRequest>(), "openai", &message);
    let item = json!([{"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"}]);
    with_all(&described::<ResponsesRequest>(), "openai_responses", &item);
    let block = json!([{"type": "tool_use", "id": "c", "name": "a", "input": {}}]);
    with_all(&described::<AnthropicRequest>(), "anthropic", &block);
    let part = json!([{"functionCall": {"id": "c", "name": "a", "args": {}}}]);
    assert_eq!(keys(&part[0]["functionCall"]), described::<GeminiFunctionCall>());
    with_all(&described::<GeminiRequest>(), "gemini", &part);
    let call = json!({"tool_name": "a", "action": "b", "parameters": {}});
    assert_eq!(keys(&call), described::<FlatToolCall>());
    with_all(&described::<FlatRequest>(), "tool_call", &call);
    with_all(&described::<TextRequest>(), "text", &json!("[[TOOL_CALL: a()]]"));
}

#[test]
fn what_is_written_in_answers_is_described() {
    let around =
        super::super::Around { session: "s", conversation: Some("v"), turn: Some("t"), next: "model" };
    let result = json!({
        "id": "c", "tool": "a", "tool_name": "a", "action": "b", "status": "error", "executed": "no", "text": "",
        "output": 1, "payload": 1, "approval": 1, "expires_at": 1,
        "error": {"error_type": "INTERNAL", "message": "m", "hint": "h", "retryable": false, "details": {}},
    })
    .to_string();
    let written = |request: Value| -> Value {
        let asked = super::super::read(request.to_string().as_bytes(), 32).expect("a request");
        let answer = super::super::write(&asked.form, &around, &[&result]);
        serde_json::from_str(&answer).expect("an answer")
    };
    let flat = written(json!({"tool_call": {"tool_name": "a"}}));
    assert_eq!(keys(&flat), described::<FlatAnswer>());
    assert_eq!(keys(&flat["tool_call"]), described::<FlatResult>());
    assert_eq!(keys(&flat["calls"][0]), described::<CallState>());
    let text = written(json!({"text": "[[TOOL_CALL: a()]]"}));
    assert_eq!(keys(&text), described::<TextAnswer>());
    let ours = written(json!({"calls": [{"tool": "a"}]}));
    assert_eq!(keys(&ours), described::<OurAnswer>());
    let function = json!({"tool_calls": [{"id": "c", "function": {"name": "a"}}]});
    let openai = written(json!({ "openai": function }));
    assert_eq!(keys(&openai), described::<OpenAiAnswer>());
    assert_eq!(keys(&openai["openai"][0]), described::<OpenAiToolMessage>());
    let item = json!([{"type": "function_call", "call_id": "c", "name": "a", "caller": {"type": "direct"}}]);
    let responses = written(json!({ "openai_responses": item }));
    assert_eq!(keys(&responses), described::<ResponsesAnswer>());
    assert_eq!(keys(&responses["openai_responses"][0]), described::<ResponsesOutput>());
    let anthropic = written(json!({"anthropic": [{"type": "tool_use", "id": "c", "name": "a"}]}));
    assert_eq!(keys(&anthropic), described::<AnthropicAnswer>());
    assert_eq!(keys(&anthropic["anthropic"][0]), described::<AnthropicToolResult>());
    let gemini = written(json!({"gemini": [{"functionCall": {"id": "c", "name": "a"}}]}));
    assert_eq!(keys(&gemini), described::<GeminiAnswer>());
    let response = &gemini["gemini"][0]["functionResponse"];
    assert_eq!(keys(response), described::<GeminiFunctionResponse>());
    assert!(keys(&response["response"]).is_subset(&described::<GeminiResponse>()));
}
