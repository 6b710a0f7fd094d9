//! The response in each dialect.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_api::call::Executed;
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_core::call::{CallAnswer, CallOutcome, OutcomeState};

use super::super::{ReplyContext, render};
use super::parse_valid;

const CONTEXT: ReplyContext<'_> =
    ReplyContext { session: "s_1", conversation: None, turn: None, next: "model" };

fn outcome(id: &str, tool: &str, executed: Executed, state: OutcomeState) -> CallOutcome {
    CallOutcome::new(id, &tool.into(), executed, state)
}

fn ok(id: &str, tool: &str, output: &Value) -> CallOutcome {
    let output = serde_json::value::to_raw_value(output).expect("JSON");
    outcome(id, tool, Executed::Yes, OutcomeState::Ok(output))
}

fn failure(id: &str, tool: &str) -> CallOutcome {
    let error = CallError::new(ErrorType::RateLimited, "too many calls", "wait").with_retry_after_ms(5);
    outcome(id, tool, Executed::No, OutcomeState::Error(error))
}

fn pending(id: &str, tool: &str) -> CallOutcome {
    outcome(id, tool, Executed::No, OutcomeState::ApprovalRequired(None))
}

/// Renders the response to a request with these outcomes.
fn answer<const N: usize>(request: &Value, outcomes: [CallOutcome; N]) -> Value {
    let dialect = parse_valid(&request.to_string()).dialect;
    let outcomes = outcomes.map(CallAnswer::from);
    serde_json::from_str(&render(&dialect, CONTEXT, &outcomes)).expect("JSON")
}

/// The text of a failed call for a model.
const FAILED: &str = "RATE_LIMITED: too many calls (wait)";

#[test]
fn the_native_dialect_has_every_result_and_its_context() {
    let dialect = parse_valid(r#"{"calls":[{"id":"c1","tool":"a/b"}]}"#).dialect;
    let context = ReplyContext { conversation: Some("v\"1"), turn: Some("t1"), ..CONTEXT };
    let outcomes = [ok("c1", "call_a_b", &json!({"x": 1.50})).into()];
    let answer: Value = serde_json::from_str(&render(&dialect, context, &outcomes)).expect("JSON");
    let result = json!({
        "id": "c1", "tool": "call_a_b", "tool_name": "a", "action": "b", "status": "ok", "executed": "yes",
        "output": {"x": 1.5},
        "text": "<tool_result tool_name=\"call_a_b\" status=\"ok\">{\"x\":1.5}</tool_result>",
        "usage": {"fuel": 0, "memory_bytes": 0, "duration_us": 0, "cpu_us": 0, "host_calls": 0, "egress_bytes": 0, "cost": 0,
                  "output_bytes": 0, "log_bytes": 0},
    });
    assert_eq!(
        answer,
        json!({"session": "s_1", "conversation": "v\"1", "turn": "t1", "results": [result], "next": "model"})
    );
    assert_eq!(render(&dialect, CONTEXT, &[]), r#"{"session":"s_1","results":[],"next":"model"}"#);
}

#[test]
fn an_output_stays_byte_for_byte() {
    let dialect = parse_valid(r#"{"calls":[{"id":"c1","tool":"a/b"}]}"#).dialect;
    let raw = r#"{"a":  1.0e2, "b":12345678901234567890123}"#;
    let output = serde_json::value::RawValue::from_string(raw.to_owned()).expect("JSON");
    let outcome = outcome("c1", "a/b", Executed::Yes, OutcomeState::Ok(output));
    let answer = render(&dialect, CONTEXT, &[outcome.into()]);
    assert!(answer.contains(&format!("\"output\":{raw}")), "{answer}");
}

#[test]
fn openai_has_a_message_of_the_tool_for_each_call() {
    let request = json!({"openai": {"tool_calls": [
        {"id": "c1", "function": {"name": "call_a_b"}}, {"id": "c2", "function": {"name": "call_a_b"}},
    ]}});
    let answer = answer(&request, [ok("c1", "call_a_b", &json!(1)), failure("c2", "call_a_b")]);
    assert_eq!(
        answer,
        json!({
            "session": "s_1",
            "openai": [
                {"role": "tool", "tool_call_id": "c1", "content": "1"},
                {"role": "tool", "tool_call_id": "c2", "content": FAILED},
            ],
            "calls": [
                {"id": "c1", "status": "ok", "executed": "yes", "output": 1},
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
    let answer = answer(&request, [ok("c1", "a", &json!(1)), ok("c2", "a", &json!(2))]);
    assert_eq!(
        answer["openai_responses"],
        json!([
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": "2",
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
    let answer = answer(&request, [ok("c1", "a", &json!(1)), failure("c2", "a"), pending("c3", "a")]);
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
    let answer = answer(&request, [ok("c_made", "call_a_b", &json!(1)), failure("g2", "call_a_b")]);
    assert_eq!(
        answer["gemini"],
        json!([
            {"functionResponse": {"name": "call_a_b", "response": {"output": "1"}}},
            {"functionResponse": {"id": "g2", "name": "call_a_b", "response": {"error": FAILED}}},
        ])
    );
    assert_eq!(answer["calls"][0]["id"], "c_made");
}

#[test]
fn s5_has_one_flat_object_for_a_result_and_for_an_error() {
    let request = json!({"tool_call": {"tool_name": "A", "action": "b"}});
    assert_eq!(
        answer(&request, [ok("c1", "A/b", &json!(null))])["tool_call"],
        json!({"tool_name": "A", "action": "b", "status": "ok", "executed": "yes", "output": null})
    );
    assert_eq!(
        answer(&request, [failure("c1", "A/b")])["tool_call"],
        json!({"tool_name": "A", "action": "b", "status": "error", "executed": "no", "error_type": "RATE_LIMITED",
               "message": "too many calls", "hint": "wait", "retryable": true, "details": {"retry_after_ms": 5}})
    );
    let wire = json!({"tool_call": {"tool_name": "call_a_b"}});
    let answer = answer(&wire, [ok("c1", "call_a_b", &json!(1))]);
    assert_eq!(
        (&answer["tool_call"]["tool_name"], &answer["tool_call"]["action"]),
        (&json!("a"), &json!("b"))
    );
}

#[test]
fn text_has_a_response_with_the_call_as_it_was_written() {
    let text = |outcome: CallOutcome| {
        let request = json!({"text": "[[TOOL_CALL: a/b(q='x', n=3)]]"});
        answer(&request, [outcome])["text"].as_str().expect("a string").to_owned()
    };
    let quoted = ok("c1", "a/b", &json!("Page 1 isn't C:\\"));
    assert_eq!(text(quoted), r"[[TOOL_RESPONSE: a/b(q='x', n=3) -> 'Page 1 isn\'t C:\\']]");
    assert_eq!(text(ok("c1", "a/b", &json!([1, [2]]))), "[[TOOL_RESPONSE: a/b(q='x', n=3) -> [1,[2] ] ]]");
    assert_eq!(
        text(failure("c1", "a/b")),
        "[[TOOL_RESPONSE: a/b(q='x', n=3) -> error RATE_LIMITED: too many calls (wait)]]"
    );
    assert!(text(pending("c1", "a/b")).contains("-> approval_required: The call has not run."));
}

#[test]
fn r11_a_call_in_a_form_without_blocks_has_notes_or_the_blocks_as_they_are() {
    let blocks = || {
        let text = |text: &str| ContentBlock::Text { text: text.to_owned() };
        let image = ContentBlock::Image { data: "QUJD".to_owned(), mime_type: "image/png".to_owned() };
        vec![text("isn't ]] \u{202e}"), image, text("error X: y")]
    };
    let text = |state: CallOutcome| {
        let request = json!({"text": "[[TOOL_CALL: a/b()]]"});
        answer(&request, [CallOutcome { content: blocks(), ..state }])["text"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    let note = "[image/png, about 3 bytes: left out, since results for this model have no such content]";
    assert_eq!(
        text(ok("c1", "a/b", &json!(7))),
        format!("[[TOOL_RESPONSE: a/b() -> 7\n'isn\\'t ] ] \\u{{202e}}'\n{note}\n'error X: y']]")
    );
    assert!(text(ok("c1", "a/b", &json!(null))).starts_with("[[TOOL_RESPONSE: a/b() -> 'isn"));
    assert!(text(failure("c1", "a/b")).contains(" -> error RATE_LIMITED: too many calls (wait)\n'isn"));
    let flat = json!({"tool_call": {"tool_name": "a", "action": "b"}});
    let with_content = CallOutcome { content: blocks(), ..ok("c1", "a/b", &json!(7)) };
    let flat = &answer(&flat, [with_content])["tool_call"];
    assert_eq!((&flat["output"], &flat["content"][1]["data"]), (&json!(7), &json!("QUJD")), "{flat}");
}

#[test]
fn a_pending_call_has_words_for_the_model_and_fields_for_the_program() {
    let payload = serde_json::value::to_raw_value(&json!(null)).expect("JSON");
    let client = OutcomeState::ClientRequired { payload, expires_ms: 9 };
    for (state, status, words, fields) in [
        (
            OutcomeState::ApprovalRequired(None),
            "approval_required",
            "It waits for a person's approval",
            json!({}),
        ),
        (
            client,
            "client_required",
            "waits for the client to carry it out",
            json!({"payload": null, "expires_at": 9}),
        ),
        (OutcomeState::Running, "running", "The call still runs;", json!({})),
    ] {
        let request = json!({"openai": {"tool_calls": [{"id": "c1", "function": {"name": "a/b"}}]}});
        let answer = answer(&request, [outcome("c1", "a/b", Executed::No, state)]);
        let content = answer["openai"][0]["content"].as_str().expect("text");
        assert!(content.contains(words), "{content}");
        let mut expected = json!({"id": "c1", "status": status, "executed": "no"});
        let members = expected.as_object_mut().expect("an object");
        members.extend(fields.as_object().expect("an object").clone());
        assert_eq!(answer["calls"][0], expected);
    }
}

proptest! {
    /// R9: no bytes of the model's arguments or of the tool's output end or open a frame.
    #[test]
    fn no_output_breaks_the_string_form(argument in "[\\[\\]>)'\"\\\\a-]{0,12}", output in "[\\[\\]>)'\"\\\\<a-]{0,12}", list in any::<bool>()) {
        let quoted = argument.replace('\\', "\\\\").replace('\'', "\\'");
        let request = json!({"text": format!("[[TOOL_CALL: a(x='{quoted}')]]")});
        let output = if list { json!([[output]]) } else { json!(output) };
        let answer = answer(&request, [ok("c1", "a", &output)]);
        let text = answer["text"].as_str().expect("a string");
        prop_assert_eq!(text.rfind("[[TOOL_"), Some(0), "{}", text);
        prop_assert_eq!(text.find("]]"), Some(text.len() - 2), "{}", text);
        let output = text.split_once(" -> ").map(|(before, _)| before.ends_with(')'));
        prop_assert_eq!(output, Some(true), "{}", text);
    }
}
