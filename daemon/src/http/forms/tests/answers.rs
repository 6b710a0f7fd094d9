//! What each form is answered with.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Around, write};
use super::asked;

const AROUND: Around<'_> = Around { session: "s_1", conversation: None, turn: None, next: "model" };

/// A result of our own form, which ended well.
fn ok(id: &str, tool: &str, output: &Value) -> Value {
    json!({
        "id": id, "tool": tool, "tool_name": "a", "action": "b", "status": "ok", "executed": "yes",
        "output": output, "text": format!("<tool_result tool_name=\"{tool}\" status=\"ok\">{output}</tool_result>"),
        "usage": {"fuel": 1}, "plugin": {"version": "1.0.0"},
    })
}

fn failed(id: &str, tool: &str) -> Value {
    json!({
        "id": id, "tool": tool, "tool_name": "a", "action": "b", "status": "error", "executed": "no",
        "error": {"error_type": "RATE_LIMITED", "message": "too many calls", "hint": "wait", "retryable": true,
                  "details": {"retry_after_ms": 5}},
        "text": "<tool_result>RATE_LIMITED</tool_result>", "usage": {"fuel": 0},
    })
}

fn waiting(id: &str, tool: &str) -> Value {
    json!({
        "id": id, "tool": tool, "tool_name": "a", "action": "b", "status": "approval_required", "executed": "no",
        "approval": "ap_1", "expires_at": 9, "text": "", "usage": {"fuel": 0},
    })
}

/// The answer to a request with these results.
fn answer(request: &Value, results: &[Value]) -> Value {
    let form = asked(&request.to_string()).form;
    let results: Vec<String> = results.iter().map(Value::to_string).collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    serde_json::from_str(&write(&form, &AROUND, &results)).expect("JSON")
}

#[test]
fn our_form_has_the_results_as_they_are() {
    let form = asked(r#"{"calls":[{"id":"c1","tool":"a/b"}]}"#).form;
    let around = Around { conversation: Some("v\"1"), turn: Some("t1"), ..AROUND };
    assert_eq!(
        write(&form, &around, &[r#"{"id" : "c1"}"#, "{}"]),
        r#"{"session":"s_1","conversation":"v\"1","turn":"t1","results":[{"id" : "c1"},{}],"next":"model"}"#
    );
    assert_eq!(write(&form, &AROUND, &[]), r#"{"session":"s_1","results":[],"next":"model"}"#);
}

#[test]
fn openai_has_a_message_of_the_tool_for_each_call() {
    let request = json!({"openai": {"tool_calls": [
        {"id": "c1", "function": {"name": "call_a_b"}}, {"id": "c2", "function": {"name": "call_a_b"}},
    ]}});
    let answer = answer(&request, &[ok("c1", "call_a_b", &json!(1)), failed("c2", "call_a_b")]);
    assert_eq!(
        answer,
        json!({
            "session": "s_1",
            "openai": [
                {"role": "tool", "tool_call_id": "c1", "content": "<tool_result tool_name=\"call_a_b\" status=\"ok\">1</tool_result>"},
                {"role": "tool", "tool_call_id": "c2", "content": "<tool_result>RATE_LIMITED</tool_result>"},
            ],
            "calls": [
                {"id": "c1", "status": "ok", "executed": "yes"},
                {"id": "c2", "status": "error", "executed": "no", "error_type": "RATE_LIMITED", "retryable": true,
                 "details": {"retry_after_ms": 5}},
            ],
            "next": "model",
        })
    );
}

#[test]
fn responses_have_an_output_for_each_call_and_who_called() {
    let request = json!({"openai_responses": [
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "a", "arguments": "{}",
         "caller": {"type": "program", "caller_id": "p1"}},
    ]});
    let answer = answer(&request, &[ok("c1", "a", &json!(1)), ok("c2", "a", &json!(2))]);
    let text = |output: u8| format!("<tool_result tool_name=\"a\" status=\"ok\">{output}</tool_result>");
    assert_eq!(
        answer["openai_responses"],
        json!([
            {"type": "function_call_output", "call_id": "c1", "output": text(1)},
            {"type": "function_call_output", "call_id": "c2", "output": text(2),
             "caller": {"type": "program", "caller_id": "p1"}},
        ])
    );
}

#[test]
fn anthropic_has_a_block_for_each_call_which_says_whether_it_failed() {
    let request = json!({"anthropic": [
        {"type": "tool_use", "id": "c1", "name": "a", "input": {}}, {"type": "tool_use", "id": "c2", "name": "a"},
        {"type": "tool_use", "id": "c3", "name": "a"},
    ]});
    let answer = answer(&request, &[ok("c1", "a", &json!(1)), failed("c2", "a"), waiting("c3", "a")]);
    let blocks = &answer["anthropic"];
    assert_eq!(blocks[0]["type"], "tool_result");
    assert_eq!((&blocks[0]["tool_use_id"], blocks[0].get("is_error")), (&json!("c1"), None));
    assert_eq!(blocks[1]["is_error"], true);
    assert_eq!(blocks[2].get("is_error"), None, "a call that waits has not failed");
}

#[test]
fn gemini_has_a_part_for_each_call_with_the_id_that_it_gave() {
    let request = json!({"gemini": [
        {"functionCall": {"name": "call_a_b"}}, {"functionCall": {"id": "g2", "name": "call_a_b"}},
    ]});
    let answer = answer(&request, &[ok("c_made", "call_a_b", &json!(1)), failed("g2", "call_a_b")]);
    let text = "<tool_result tool_name=\"call_a_b\" status=\"ok\">1</tool_result>";
    assert_eq!(
        answer["gemini"],
        json!([
            {"functionResponse": {"name": "call_a_b", "response": {"output": text}}},
            {"functionResponse": {"id": "g2", "name": "call_a_b", "response": {"error": "<tool_result>RATE_LIMITED</tool_result>"}}},
        ])
    );
    assert_eq!(answer["calls"][0]["id"], "c_made");
}

#[test]
fn s5_has_one_flat_object_for_a_result_and_for_an_error() {
    let request = json!({"tool_call": {"tool_name": "A", "action": "b"}});
    assert_eq!(
        answer(&request, &[ok("c1", "A/b", &json!(null))])["tool_call"],
        json!({"tool_name": "A", "action": "b", "status": "ok", "executed": "yes", "output": null})
    );
    assert_eq!(
        answer(&request, &[failed("c1", "A/b")])["tool_call"],
        json!({"tool_name": "A", "action": "b", "status": "error", "executed": "no", "error_type": "RATE_LIMITED",
               "message": "too many calls", "hint": "wait", "retryable": true, "details": {"retry_after_ms": 5}})
    );
    let wire = json!({"tool_call": {"tool_name": "call_a_b"}});
    let answer = answer(&wire, &[ok("c1", "call_a_b", &json!(1))]);
    assert_eq!(
        (&answer["tool_call"]["tool_name"], &answer["tool_call"]["action"]),
        (&json!("a"), &json!("b"))
    );
}

#[test]
fn text_has_a_response_with_the_call_as_it_was_written() {
    let said = |result: &Value| {
        let request = json!({"text": "[[TOOL_CALL: a/b(q='x', n=3)]]"});
        answer(&request, std::slice::from_ref(result))["text"].as_str().expect("a string").to_owned()
    };
    let text = ok("c1", "a/b", &json!("Page 1 isn't C:\\"));
    assert_eq!(said(&text), r"[[TOOL_RESPONSE: a/b(q='x', n=3) -> 'Page 1 isn\'t C:\\']]");
    assert_eq!(
        said(&ok("c1", "a/b", &json!([1, [2]]))),
        "[[TOOL_RESPONSE: a/b(q='x', n=3) -> [1,[2&#93;] ]]"
    );
    assert_eq!(
        said(&failed("c1", "a/b")),
        "[[TOOL_RESPONSE: a/b(q='x', n=3) -> error RATE_LIMITED: too many calls (wait)]]"
    );
    assert!(said(&waiting("c1", "a/b")).contains("-> approval_required: The call has not run."));
}

#[test]
fn a_call_that_waits_is_told_to_the_model_in_words_and_to_the_program_in_fields() {
    for (status, words) in [
        ("approval_required", "It waits for a person's approval"),
        ("client_required", "waits for the client to carry it out"),
        ("running", "The call still runs."),
    ] {
        let mut result = waiting("c1", "a/b");
        result["status"] = status.into();
        result["payload"] = Value::Null;
        let answer = answer(
            &json!({"openai": {"tool_calls": [{"id": "c1", "function": {"name": "a/b"}}]}}),
            &[result],
        );
        let content = answer["openai"][0]["content"].as_str().expect("text");
        let opening = format!("<tool_result tool_name=\"a/b\" status=\"{status}\">");
        assert!(content.starts_with(&opening) && content.contains(words), "{content}");
        assert_eq!(
            answer["calls"][0],
            json!({"id": "c1", "status": status, "executed": "no", "approval": "ap_1", "expires_at": 9, "payload": null})
        );
    }
}

/// That is a fault of the daemon; it is told as one, and ends nothing.
#[test]
fn a_result_that_cannot_be_read_is_answered_as_an_internal_error() {
    let form = asked(r#"{"tool_call":{"tool_name":"a"}}"#).form;
    let answer: Value = serde_json::from_str(&write(&form, &AROUND, &["{"])).expect("JSON");
    assert_eq!(answer["tool_call"]["error_type"], "INTERNAL");
}

proptest! {
    /// R9: neither what the model wrote nor what the tool answered ends or opens a frame.
    #[test]
    fn no_output_breaks_the_string_form(argument in "[\\[\\]>)'\"\\\\a-]{0,12}", output in "[\\[\\]>)'\"\\\\<a-]{0,12}", list in any::<bool>()) {
        let quoted = argument.replace('\\', "\\\\").replace('\'', "\\'");
        let request = json!({"text": format!("[[TOOL_CALL: a(x='{quoted}')]]")});
        let output = if list { json!([[output]]) } else { json!(output) };
        let answer = answer(&request, &[ok("c1", "a", &output)]);
        let text = answer["text"].as_str().expect("a string");
        prop_assert_eq!(text.rfind("[["), Some(0), "{}", text);
        prop_assert_eq!(text.find("]]"), Some(text.len() - 2), "{}", text);
        prop_assert_eq!(text.matches(" -> ").count(), 1, "{}", text);
    }
}
