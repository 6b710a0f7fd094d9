//! Every dialect with the fields of its published types; each refused request has an accepted counterpart.

mod answers;
mod text;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_api::error::ErrorType;

use self::text::arguments;
use super::*;

/// Parses a valid request.
fn parse_valid(body: &str) -> ParsedRequest {
    parse(body.as_bytes(), 32).unwrap_or_else(|problem| panic!("{body}: {problem:?}"))
}

/// Returns the id, tool and arguments of the calls of a valid request.
fn calls(body: &str) -> Vec<(String, String, String)> {
    let calls = parse_valid(body).calls.into_iter();
    calls.map(|call| (call.id, call.tool.to_string(), call.arguments.to_string())).collect()
}

/// Returns the message of an invalid request.
fn refusal(body: &str) -> String {
    refused_as(ErrorType::InvalidRequest, body)
}

/// Returns the message of a request over a limit.
fn too_large(body: &str) -> String {
    refused_as(ErrorType::TooLarge, body)
}

fn refused_as(error_type: ErrorType, body: &str) -> String {
    let problem = parse(body.as_bytes(), 32).expect_err(body);
    assert_eq!(problem.0.error_type, error_type, "{body}");
    assert!(!problem.0.hint.is_empty(), "{body}");
    problem.0.message
}

fn call(id: &str, tool: &str, arguments: &str) -> (String, String, String) {
    (id.into(), tool.into(), arguments.into())
}

#[test]
fn the_one_member_that_carries_calls_says_the_form() {
    assert_eq!(refusal("{}"), "the request has no calls");
    assert_eq!(refusal(r#"{"turn":"t","text":null}"#), "the request has no calls");
    let two = r#"{"text":"[[TOOL_CALL: a()]]","tool_call":{"tool_name":"a"}}"#;
    assert_eq!(refusal(two), "the request has calls under `tool_call` and under `text`");
    assert_eq!(parse_valid(r#"{"text":"[[TOOL_CALL: a()]]","tool_call":null}"#).calls.len(), 1);
}

#[test]
fn an_envelope_is_an_object_with_known_members_each_once() {
    let sound = r#"{"turn":"t1","calls":[{"id":"c1","tool":"a/b"}]}"#;
    assert_eq!(parse_valid(sound).turn.as_deref(), Some("t1"));
    for unsound in [
        r#"{"calls":[{"id":"c1","tool":"a/b"}],"more":1}"#,
        r#"{"calls":[{"id":"c1","tool":"a/b","more":1}]}"#,
        r#"{"calls":[{"id":"c1","tool":"a/b"}],"calls":[{"tool":"a/c"}]}"#,
        r#"{"calls":[{"id":"c1","tool":"a/b","tool":"a/c"}]}"#,
        r#"["t1",null,[{"id":"c1","tool":"a/b"}]]"#,
        r#"{"calls":[["c1","a/b",{}]]}"#,
        r#"{"calls":[{"id":"c1","tool":"a/b"}]} x"#,
        r#"{"calls":{"id":"c1","tool":"a/b"}}"#,
        "",
        "null",
    ] {
        assert!(refusal(unsound).starts_with("invalid request body: "), "{unsound}");
    }
    let message = parse(b"{\"text\":\"\xff\"}", 32).expect_err("no UTF-8").0.message;
    assert_eq!(message, "the body is not UTF-8 at byte 9");
}

#[test]
fn a_turn_is_a_short_id() {
    let body = |turn: &str| json!({"turn": turn, "text": "[[TOOL_CALL: a()]]"}).to_string();
    assert!(parse_valid(&body(&"t".repeat(200))).turn.is_some());
    for unsound in ["", "a\nb", &"t".repeat(201)] {
        assert!(refusal(&body(unsound)).starts_with("`turn` is empty, longer than 200 bytes"), "{unsound}");
    }
}

/// A model that repeats itself in a tool name does not fail its other calls, and fills neither the audit log nor the
/// response.
#[test]
fn a_name_that_no_tool_can_have_is_cut_in_every_form() {
    let named = |name: &str| {
        [
            json!({"calls": [{"tool": name}]}),
            json!({"openai": {"tool_calls": [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]}}),
            json!({"openai_responses": [{"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}]}),
            json!({"anthropic": [{"type": "tool_use", "id": "c", "name": name, "input": {}}]}),
            json!({"gemini": [{"functionCall": {"name": name, "args": {}}}]}),
            json!({"tool_call": {"tool_name": name}}),
        ]
    };
    let tool = |body: &Value| parse_valid(&body.to_string()).calls[0].tool.to_string();
    for body in named(&"é".repeat(128)) {
        assert_eq!(tool(&body), "é".repeat(128), "{body}");
    }
    for body in named(&"é".repeat(33_000)) {
        assert_eq!(tool(&body), format!("{}…", "é".repeat(126)));
    }
    assert_eq!(
        tool(&json!({"text": format!("[[TOOL_CALL: {}()]]", "a".repeat(257))})),
        format!("{}…", "a".repeat(253))
    );
}

#[test]
fn a_request_has_at_least_one_call_and_no_more_than_allowed() {
    let body = |count: usize| json!({"calls": vec![json!({"tool": "a/b"}); count]}).to_string();
    assert_eq!(parse_valid(&body(32)).calls.len(), 32);
    assert_eq!(too_large(&body(33)), "the request has 33 calls");
    assert_eq!(refusal(&body(0)), "the message contains no tool calls");
}

#[test]
fn m6_calls_of_a_message_over_the_limit_are_answered_and_the_others_run() {
    let body = |count: usize| {
        let call = |at| json!({"id": format!("c{at}"), "type": "function", "function": {"name": "a", "arguments": "{}"}});
        json!({"openai": {"tool_calls": (0..count).map(call).collect::<Vec<_>>()}}).to_string()
    };
    let parsed = parse_valid(&body(40));
    let faults: Vec<bool> = parsed.calls.iter().map(|call| call.fault.is_some()).collect();
    assert_eq!(faults, [[false; 32].as_slice(), &[true; 8]].concat());
    let fault = parsed.calls[32].fault.as_ref().expect("a fault");
    assert!(fault.hint.contains("next message"), "{fault:?}");
    assert_eq!(parse_valid(&body(256)).calls.len(), 256);
    assert_eq!(too_large(&body(257)), "the request has 257 calls");
}

/// An item of two bytes in the request takes far more memory once parsed.
#[test]
fn a_list_has_no_more_items_than_anybody_sends() {
    let text = json!({"type": "text", "text": "-"});
    let body = |count: usize| {
        let mut blocks = vec![text.clone(); count - 1];
        blocks.push(json!({"type": "tool_use", "id": "c", "name": "a"}));
        json!({ "anthropic": blocks }).to_string()
    };
    assert_eq!(parse_valid(&body(4096)).calls.len(), 1);
    assert!(too_large(&body(4097)).contains("a list of more than 4096 items"));
    for member in ["calls", "openai_responses", "gemini"] {
        let many = json!({ member: vec![json!({"tool": "a"}); 4097] }).to_string();
        assert!(too_large(&many).contains("a list of more than 4096 items"), "{member}");
    }
    let many = json!({"openai": {"tool_calls": vec![1; 4097]}}).to_string();
    assert!(too_large(&many).contains("a list of more than 4096 items"));
}

#[test]
fn m6_ids_of_our_form_are_any_visible_characters_and_a_wrong_one_fails_alone() {
    let body = |one: &str, other: &str| {
        json!({"calls": [{"id": one, "tool": "a/b"}, {"id": other, "tool": "a/b"}]}).to_string()
    };
    let odd = format!("call_1__thought__{}", "aB+/=".repeat(300));
    let parsed = parse_valid(&body("toolu_01A09q90qw90lq917835lq9", &odd));
    assert_eq!(shown_ids(&parsed), ["toolu_01A09q90qw90lq917835lq9", &*odd]);
    assert_eq!(parsed.calls[1].id, kept_id(&odd), "the id in paths");
    assert!(parsed.calls.iter().all(|call| call.fault.is_none() && call.outlives_request), "{parsed:?}");
    for repeated in ["x", &odd] {
        let parsed = parse_valid(&body(repeated, repeated));
        assert_eq!(shown_ids(&parsed), [repeated, repeated]);
        let faults = parsed.calls.iter().map(|call| call.fault.as_ref().map(|fault| fault.error_type));
        assert_eq!(faults.collect::<Vec<_>>(), [None, Some(ErrorType::Conflict)], "{repeated}");
        assert_ne!(parsed.calls[0].id, parsed.calls[1].id);
    }
    for wrong in ["a\nb", &"x".repeat(2049)] {
        assert!(fault(&body("x", wrong)).starts_with("the id of `/calls/1`"), "{wrong}");
    }
    for one in [
        json!({"text": "[[TOOL_CALL: a()]]", "id": odd}),
        json!({"tool_call": {"tool_name": "a"}, "id": odd}),
    ] {
        assert_eq!(parse_valid(&one.to_string()).calls[0].id, kept_id(&odd), "{one}");
    }
}

#[test]
fn m6_a_call_of_our_form_without_a_name_or_with_an_id_that_is_no_text_fails_alone() {
    let beside = |bad: &str| format!(r#"{{"calls":[{bad},{{"id":"c2","tool":"a/b"}}]}}"#);
    for (bad, expected, shown) in [
        (r#"{"id":"c1"}"#, "`/calls/0` names no tool", "c1"),
        (r#"{"id":"c1","tool":null,"arguments":{}}"#, "`/calls/0` names no tool", "c1"),
        (r#"{"id":"c1","tool":7}"#, "`/calls/0/tool` is `7`, which is no text", "c1"),
        (r#"{"id":7,"tool":"a/b"}"#, "`/calls/0/id` is `7`, which is no text", "7"),
        (r#"{"id":-1.5,"tool":null}"#, "`/calls/0/id` is `-1.5`, which is no text", "-1.5"),
    ] {
        let parsed = parse_valid(&beside(bad));
        assert_eq!(
            (fault(&beside(bad)).as_str(), shown_ids(&parsed)),
            (expected, vec![shown.into(), "c2".into()])
        );
        let error = parsed.calls[0].fault.as_deref().expect("an error");
        let place =
            error.details.as_ref().and_then(|details| serde_json::to_value(details).ok()).expect("details");
        assert!(place.to_string().contains("/calls/0"), "{place}");
    }
    assert!(fault(&beside(r#"{"id":{},"tool":"a/b"}"#)).starts_with("`/calls/0/id` is `{}`"));
    for strict in [r#"{"id":7,"tool":"a/b","more":1}"#, r#"{"tool":null,"tool":"a/b"}"#, "7"] {
        assert!(refusal(&beside(strict)).starts_with("invalid request body: "), "{strict}");
    }
}

#[test]
fn a_call_without_an_id_gets_one() {
    let made = &parse_valid(r#"{"calls":[{"tool":"a/b"}]}"#).calls[0];
    assert!(made.id_is_new && made.id.starts_with("c_"));
    for none in [r#"{"calls":[{"id":"","tool":"a/b"}]}"#, r#"{"calls":[{"id":null,"tool":"a/b"}]}"#] {
        assert!(parse_valid(none).calls[0].id_is_new, "{none}");
    }
    assert!(!parse_valid(r#"{"calls":[{"id":"c1","tool":"a/b"}]}"#).calls[0].id_is_new);
}

#[test]
fn our_form_keeps_the_text_of_its_arguments() {
    let body = r#"{"calls":[{"id":"c1","tool":"a/b","arguments": {"x" : 1.0e2, "x":[ ]} },{"id":"c2","tool":"a/b","arguments":null}]}"#;
    assert_eq!(calls(body), [call("c1", "a/b", r#"{"x" : 1.0e2, "x":[ ]}"#), call("c2", "a/b", "{}")]);
}

#[test]
fn openai_a_whole_message_of_an_assistant_is_taken() {
    let message = json!({"openai": {
        "role": "assistant", "content": null, "refusal": null, "annotations": [], "audio": null,
        "function_call": null, "parsed": null, "name": null,
        "tool_calls": [
            {"id": "call_abc", "type": "function", "function": {"name": "call_a_b", "arguments": "{\"x\": 1}"}},
            {"id": "call_def", "type": "custom", "custom": {"name": "theirs", "input": "free text"}},
            {"index": 1, "id": "call_ghi", "function": {"name": "call_a_c", "arguments": "", "parsed_arguments": null}},
        ],
    }});
    let read = calls(&message.to_string());
    assert_eq!(read, [call("call_abc", "call_a_b", "{\"x\": 1}"), call("call_ghi", "call_a_c", "{}")]);
}

/// The error belongs to the call, for the model to read, and not to the request.
#[test]
fn openai_arguments_that_are_no_json_are_passed_on() {
    let body = |text: &str| json!({"openai": {"tool_calls": [{"id": "c", "function": {"name": "a", "arguments": text}}]}});
    for text in ["{\"x\":", "not json", "{\"a\":1,\"a\":2}", "\u{0}"] {
        assert_eq!(calls(&body(text).to_string()), [call("c", "a", text)]);
    }
}

/// Returns the message of a call's own error; the call beside it runs.
fn fault(body: &str) -> String {
    let parsed = parse_valid(body).calls;
    let faults: Vec<_> = parsed.iter().filter_map(|call| call.fault.as_ref()).collect();
    assert!(faults.len() == 1 && parsed.len() == 2, "{parsed:?}");
    assert!(!faults[0].hint.is_empty() && faults[0].error_type == ErrorType::InvalidRequest, "{body}");
    faults[0].message.clone()
}

/// Bodies with these calls in each form that providers' messages have; `null` stands for a missing member.
fn in_every_form(of: &[(Value, Value, Value)]) -> [Value; 4] {
    let list = |item: fn(&(Value, Value, Value)) -> Value| of.iter().map(item).collect::<Vec<_>>();
    [
        json!({"openai": {"reasoning_content": "r", "tool_calls": list(|(id, name, arguments)| {
            json!({"id": id, "extra_content": {}, "function": {"name": name, "arguments": arguments, "more": 1}})
        })}}),
        json!({"openai_responses": list(|(id, name, arguments)| {
            json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments, "more": 1})
        })}),
        json!({"anthropic": list(|(id, name, arguments)| {
            json!({"type": "tool_use", "id": id, "name": name, "input": arguments, "more": 1})
        })}),
        json!({"gemini": list(|(id, name, arguments)| {
            json!({"functionCall": {"id": id, "name": name, "args": arguments, "more": 1}, "more": 1})
        })}),
    ]
}

/// Ids that the answer repeats.
fn shown_ids(parsed: &ParsedRequest) -> Vec<String> {
    let outcome = |call: &RequestedCall| {
        CallOutcome::of_forgotten(&call.id, &call.tool, toolgate_api::call::Executed::No).into()
    };
    let outcomes: Vec<_> = parsed.calls.iter().map(outcome).collect();
    let context = ReplyContext { session: "s", conversation: None, turn: None, next: "model" };
    let answer: Value = serde_json::from_str(&render(&parsed.dialect, context, &outcomes)).expect("JSON");
    let items = ["results", "openai", "openai_responses", "anthropic", "gemini"]
        .into_iter()
        .find_map(|form| answer[form].as_array());
    let id = |item: &Value| {
        let mut ids = ["tool_call_id", "call_id", "tool_use_id", "id"].iter().map(|name| &item[name]);
        let id = ids.find_map(Value::as_str).or_else(|| item["functionResponse"]["id"].as_str());
        id.unwrap_or("none").to_owned()
    };
    items.expect("a list").iter().map(id).collect()
}

#[test]
fn m6_ids_are_taken_and_repeated_as_providers_and_gateways_give_them() {
    let call = |id: &str| (json!(id), json!("call_a_b"), json!({}));
    let long = format!("call_1__thought__{}", "aB+/=".repeat(300));
    for body in in_every_form(&[call("c1"), call(&long), call("functions.get:0 é"), call("c1")]) {
        let (parsed, again) = (parse_valid(&body.to_string()), parse_valid(&body.to_string()));
        assert_eq!(shown_ids(&parsed), ["c1", &*long, "functions.get:0 é", "c1"], "{body}");
        let ids =
            |parsed: &ParsedRequest| parsed.calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&parsed), ids(&again), "a request that is sent again has the same ids");
        assert_eq!(ids(&parsed)[0], "c1");
        assert!(ids(&parsed)[1..].iter().all(|id| id.starts_with("h_") && id.len() == 34), "{parsed:?}");
        assert!(parsed.calls.iter().all(|call| call.fault.is_none()), "{parsed:?}");
    }
    for none in [json!(null), json!("")] {
        for body in in_every_form(&[(none.clone(), json!("call_a_b"), json!({}))]) {
            let parsed = parse_valid(&body.to_string());
            assert!(parsed.calls[0].id_is_new && parsed.calls[0].fault.is_none(), "{body}");
        }
    }
    for bad in ["a\nb".to_owned(), "x".repeat(2049)] {
        for body in in_every_form(&[call(&bad), call("c2")]) {
            assert!(fault(&body.to_string()).starts_with("the id of `/"), "{body}");
        }
    }
}

#[test]
fn m6_arguments_are_taken_as_text_as_an_object_and_as_nothing() {
    let object = r#"{"x":1}"#;
    for (sent, taken) in [
        (json!(object), object),
        (json!({"x": 1}), object),
        (json!(null), "{}"),
        (json!(""), "{}"),
        (json!(" \n "), "{}"),
        (json!("null"), "{}"),
        (json!("[1"), "[1"),
        (json!([1]), "[1]"),
        (json!(7), "7"),
    ] {
        for body in in_every_form(&[(json!("c1"), json!("call_a_b"), sent.clone())]) {
            assert_eq!(calls(&body.to_string()), [call("c1", "call_a_b", taken)], "{body}");
        }
    }
    let half = r#"{"openai":{"tool_calls":[{"id":"c","function":{"name":"a","arguments":"\ud800"}}]}}"#;
    assert_eq!(calls(half), [call("c", "a", r#""\ud800""#)], "the gate refuses it");
}

#[test]
fn m6_a_call_without_a_name_fails_alone() {
    for body in
        in_every_form(&[(json!("c1"), json!(null), json!({})), (json!("c2"), json!("call_a_b"), json!({}))])
    {
        assert!(fault(&body.to_string()).ends_with("` names no tool"), "{body}");
        assert_eq!(shown_ids(&parse_valid(&body.to_string())), ["c1", "c2"]);
    }
    let good = r#"{"id":"c","function":{"name":"a"}}"#;
    for bad in [
        r#"{"id":"d"}"#,
        r#"{"id":"d","function":["a","{}"]}"#,
        r#"{"id":"d","function":{"name":"a","name":"b"}}"#,
    ] {
        let body = format!(r#"{{"openai":{{"tool_calls":[{bad},{good}]}}}}"#);
        assert!(fault(&body).starts_with("`/openai/tool_calls/0` does not match"), "{bad}");
        assert_eq!(shown_ids(&parse_valid(&body)), ["d", "c"]);
    }
}

#[test]
fn openai_a_message_without_calls_is_refused() {
    assert!(refusal(r#"{"openai":[]}"#).contains("expected an object"));
    assert_eq!(
        refusal(r#"{"openai":{"content":"No tool is needed."}}"#),
        "the message contains no tool calls"
    );
    let old = r#"{"openai":{"function_call":{"name":"a","arguments":"{}"}}}"#;
    assert!(refusal(old).starts_with("`/openai/function_call` was replaced by `tool_calls`"));
}

/// An item that may be a call is not passed over, since its call would get no response.
#[test]
fn m6_an_item_of_a_misspelt_or_unknown_type_fails_alone() {
    let good = r#"{"id":"c","function":{"name":"a"}}"#;
    let use_a = r#"{"type":"tool_use","id":"c","name":"a"}"#;
    let call_a = r#"{"type":"function_call","call_id":"c","name":"a"}"#;
    for (body, expected, meant) in [
        (
            format!(
                r#"{{"openai":{{"tool_calls":[{{"type":"functon","id":"d","function":{{"name":"a"}}}},{good}]}}}}"#
            ),
            "`/openai/tool_calls/0/type` is `functon`",
            "function",
        ),
        (
            format!(r#"{{"openai":{{"tool_calls":[{{"type":"of_tomorrow","id":"d"}},{good}]}}}}"#),
            "`/openai/tool_calls/0/type` is `of_tomorrow`",
            "function",
        ),
        (
            format!(r#"{{"anthropic":[{{"type":"tool_us","id":"d","name":"a"}},{use_a}]}}"#),
            "`/anthropic/0/type` is `tool_us`",
            "tool_use",
        ),
        (
            format!(r#"{{"openai_responses":[{{"type":"function_cal","call_id":"d"}},{call_a}]}}"#),
            "`/openai_responses/0/type` is `function_cal`",
            "function_call",
        ),
    ] {
        assert_eq!(fault(&body), expected);
        let parsed = parse_valid(&body);
        assert_eq!(shown_ids(&parsed), ["d", "c"]);
        let error = parsed.calls[0].fault.as_deref().expect("an error");
        assert_eq!(error.hint, format!("did you mean `{meant}`?"));
    }
    for (body, message) in [
        (format!(r#"{{"openai":{{"tool_calls":[7,{good}]}}}}"#), "`/openai/tool_calls/0` does not match"),
        (format!(r#"{{"anthropic":[{{"id":"d","name":"a"}},{use_a}]}}"#), "`/anthropic/0` has no `type`"),
        (
            format!(r#"{{"anthropic":[{{"type":"tool_use","type":"text"}},{use_a}]}}"#),
            "`/anthropic/0` does not",
        ),
        (
            format!(r#"{{"openai_responses":[{{"name":"a"}},{call_a}]}}"#),
            "`/openai_responses/0` has no `type`",
        ),
        (r#"{"gemini":[[],{"functionCall":{"name":"a"}}]}"#.to_owned(), "`/gemini/0` does not match"),
    ] {
        assert!(fault(&body).starts_with(message), "{body}");
    }
    let others = r#"{"anthropic":[{"type":"server_tool_use"},{"type":"mcp_tool_use"},{"type":"tool_use","id":"c","name":"a"}]}"#;
    assert_eq!(parse_valid(others).calls.len(), 1);
    let custom =
        format!(r#"{{"openai":{{"tool_calls":[{{"type":"custom","id":"x","custom":{{}}}},{good}]}}}}"#);
    assert_eq!(parse_valid(&custom).calls.len(), 1);
}

#[test]
fn responses_calls_are_taken_from_among_the_other_items() {
    let body = json!({"openai_responses": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [], "status": "completed"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "call_a_b", "arguments": "{\"x\":[ ]}",
         "status": "completed", "caller": null, "namespace": null, "async": false, "created_by": null,
         "parsed_arguments": null},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call", "call_id": "call_2", "name": "call_a_c", "arguments": ""},
    ]});
    let read = calls(&body.to_string());
    assert_eq!(read, [call("call_1", "call_a_b", "{\"x\":[ ]}"), call("call_2", "call_a_c", "{}")]);
}

#[test]
fn responses_a_call_that_is_still_streamed_fails_alone() {
    let body = |status: &str| {
        json!({"openai_responses": [
            {"type": "function_call", "call_id": "c", "name": "a", "arguments": "", "status": status},
            {"type": "function_call", "call_id": "d", "name": "a", "arguments": ""},
        ]})
        .to_string()
    };
    assert_eq!(calls(&body("completed")), [call("c", "a", "{}"), call("d", "a", "{}")]);
    assert_eq!(
        fault(&body("in_progress")),
        "`/openai_responses/0` is not complete: its status is `in_progress`"
    );
    let message = r#"{"openai_responses":[{"role":"user","content":"Hello"}]}"#;
    assert_eq!(refusal(message), "the message contains no tool calls");
}

#[test]
fn anthropic_calls_are_taken_from_among_the_other_blocks() {
    let body = r#"{"anthropic":[
        {"type":"thinking","thinking":"…","signature":"…"},
        {"type":"text","text":"[[TOOL_CALL: a()]]","citations":null},
        {"type":"tool_use","id":"toolu_1","name":"call_a_b","input":{"x": 1.50},"caller":{"type":"direct"},"toolset_name":null},
        {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},
        {"type":"tool_use","id":"toolu_2","name":"call_a_c","input":{},"cache_control":{"type":"ephemeral"}}
    ]}"#;
    assert_eq!(
        calls(body),
        [call("toolu_1", "call_a_b", r#"{"x": 1.50}"#), call("toolu_2", "call_a_c", "{}")]
    );
    let block = |block: &str| refusal(&format!(r#"{{"anthropic":[{block}]}}"#));
    assert_eq!(block(r#"{"type":"text","text":"no call"}"#), "the message contains no tool calls");
}

#[test]
fn gemini_calls_are_taken_from_among_the_other_parts() {
    let body = r#"{"gemini":[
        {"text":"Let me look.","thought":true},
        {"functionCall":{"name":"call_a_b","args":{"x" :1}},"thoughtSignature":"c2ln"},
        {"function_call":{"id":"g1","name":"call_a_c","args":null,"partial_args":null,"will_continue":null},"thought_signature":null,"text":null},
        {"executableCode":{"language":"PYTHON","code":"1"}}
    ]}"#;
    let read = parse_valid(body).calls;
    assert!(read[0].id_is_new, "Gemini gives no ids by itself");
    assert_eq!((&*read[0].tool, &*read[0].arguments), ("call_a_b", r#"{"x" :1}"#));
    assert_eq!((&*read[1].id, &*read[1].tool, &*read[1].arguments), ("g1", "call_a_c", "{}"));
    let alone = |part: &str| fault(&format!(r#"{{"gemini":[{part},{{"functionCall":{{"name":"a"}}}}]}}"#));
    for misspelt in ["functioncall", "FunctionCall", "functonCall", "function_cal"] {
        let message = alone(&format!(r#"{{"{misspelt}":{{"name":"b"}}}}"#));
        assert!(message.contains(&format!("has the field `{misspelt}`")), "{misspelt}");
    }
    let others = r#"{"gemini":[{"text":"t"},{"functionResponse":{}},{"aKindOfTomorrow":1},{"functionCall":{"name":"a"}}]}"#;
    assert_eq!(parse_valid(others).calls.len(), 1);
    assert!(
        alone(r#"{"functionCall":{"name":"a"},"function_call":{"name":"b"}}"#).contains("duplicate field")
    );
    assert!(alone(r#"{"functionCall":{"name":"a","willContinue":true}}"#).contains("still being streamed"));
}

#[test]
fn s5_a_namespace_and_an_action_or_a_wire_name_alone_are_taken() {
    let body = r#"{"tool_call":{"tool_name":"weather","action":"current","parameters":{"city": "Paris"}}}"#;
    let read = &parse_valid(body).calls[0];
    assert_eq!((&*read.tool, &*read.arguments), ("weather/current", r#"{"city": "Paris"}"#));
    for (tool_name, action, called) in [
        ("weather_service", "getCurrentWeather", "weather-service/getCurrentWeather"),
        ("Weather Service", "current", "weather-service/current"),
        ("Web-Search", "current", "web-search/current"),
        ("天気", "current", "天気/current"),
    ] {
        let body = json!({"tool_call": {"tool_name": tool_name, "action": action}}).to_string();
        assert_eq!(&*parse_valid(&body).calls[0].tool, called);
    }
    let wire = r#"{"id":"c7","tool_call":{"tool_name":"call_weather_current","action":null}}"#;
    assert_eq!(calls(wire), [call("c7", "call_weather_current", "{}")]);
    assert!(
        refusal(r#"{"tool_call":{"tool_name":"a","arguments":{}}}"#).contains("unknown field `arguments`")
    );
    assert!(refusal(r#"{"tool_call":{"action":"b"}}"#).contains("missing field `tool_name`"));
    assert!(refusal(r#"{"tool_call":["a","b"]}"#).contains("expected an object"));
}

#[test]
fn an_id_stands_beside_a_form_that_has_no_place_for_it_only() {
    let text = r#"{"id":"c1","text":"[[TOOL_CALL: a(x=1)]]"}"#;
    assert_eq!(calls(text), [call("c1", "a", r#"{"x":1}"#)]);
    let calls = r#"{"id":"c1","calls":[{"tool":"a"}]}"#;
    assert_eq!(refusal(calls), "`id` is not allowed beside calls that have ids of their own");
}

/// Generates JSON text with whitespace between tokens, as clients can send it.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| json!(text).to_string()),
        "\"(\\\\u00[0-9a-fA-F]{2}|\\\\[\"\\\\/bfnrt]|[a-z ])*\"",
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[ {}]", items.join(" ,\n"))),
            proptest::collection::vec(("[a-z]{1,3}", inner), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
                format!("{{{}\t}}", members.join(", "))
            }),
        ]
    })
}

proptest! {
    /// Requirements 9.8: the received arguments are checked and passed to the plugin byte for byte.
    #[test]
    fn arguments_pass_byte_for_byte_in_every_form(arguments in any_json()) {
        // A string is the text of the arguments where a provider's message has one.
        prop_assume!(!arguments.starts_with('"'));
        let quoted = json!(arguments).to_string();
        // `null` equals an absent argument.
        let expected = if arguments == "null" { "{}" } else { arguments.as_str() };
        for body in [
            format!(r#"{{"calls":[{{"tool":"a","arguments":{arguments}}}]}}"#),
            format!(r#"{{"anthropic":[{{"type":"tool_use","id":"c","name":"a","input":{arguments}}}]}}"#),
            format!(r#"{{"gemini":[{{"functionCall":{{"name":"a","args":{arguments}}}}}]}}"#),
            format!(r#"{{"tool_call":{{"tool_name":"a","parameters":{arguments}}}}}"#),
        ] {
            prop_assert_eq!(&*parse_valid(&body).calls[0].arguments, expected, "{}", body);
        }
        for body in [
            format!(r#"{{"openai":{{"tool_calls":[{{"id":"c","function":{{"name":"a","arguments":{quoted}}}}}]}}}}"#),
            format!(r#"{{"openai_responses":[{{"type":"function_call","call_id":"c","name":"a","arguments":{quoted}}}]}}"#),
        ] {
            prop_assert_eq!(&*parse_valid(&body).calls[0].arguments, expected, "{}", body);
        }
    }

    /// A literal of the string form has its JSON value, in single or double quotes.
    #[test]
    fn text_arguments_say_what_they_say_in_json(literal in any_json(), text in any::<String>()) {
        let single = json!(text).to_string();
        let single = single[1..single.len() - 1].replace("\\\"", "\"").replace('\'', "\\'");
        let written = arguments(&format!("[[TOOL_CALL: a(x={literal}, y='{single}')]]"));
        let members: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
            serde_json::from_str(&written).expect("an object");
        let without_space = |text: &str| text.replace([' ', '\n', '\t'], "");
        prop_assert_eq!(without_space(members["x"].get()), without_space(&literal));
        prop_assert_eq!(serde_json::from_str::<String>(members["y"].get()).expect("a string"), text);
    }

    #[test]
    fn no_request_makes_reading_panic(text in "\\PC{0,60}", piece in "[\\[\\]{}\"':,=()a-z0-9\\\\ ]{0,40}") {
        let _ = parse(text.as_bytes(), 32);
        let _ = parse(json!({"text": format!("[[TOOL_CALL: a({piece})]]")}).to_string().as_bytes(), 32);
        let _ = parse(format!("{{\"gemini\":[{piece}]}}").as_bytes(), 32);
    }
}
