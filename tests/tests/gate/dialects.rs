//! Calls in every dialect (R1, M3). `providers.rs` tests the responses with the providers' client libraries.

use toolgate_tests::{Daemon, Value, guests, json};

use crate::{PROGRAM, with_fixture};

#[test]
fn r1_each_dialect_gets_its_own_response() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"], "autonomy": "autonomous"}));
        let post = |body: Value| agent.session.post(&body).expect(200).json();
        let arguments = json!({"to": "bob", "amount": 1});

        let openai = post(
            json!({"turn": "t", "openai": {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "call_pay_quote", "arguments": arguments.to_string()}},
                {"id": "call_2", "type": "function", "function": {"name": "call_pay_quote", "arguments": "{\"to\":"}},
            ]}}),
        );
        assert_eq!(openai["openai"][0]["tool_call_id"], "call_1", "{openai}");
        assert!(
            openai["openai"][0]["content"].as_str().is_some_and(|text| text.contains("\"done\":true")),
            "{openai}"
        );
        assert!(
            openai["openai"][1]["content"].as_str().is_some_and(|text| text.contains("INVALID_ARGUMENTS")),
            "{openai}"
        );
        assert_eq!((&openai["turn"], &openai["next"]), (&json!("t"), &json!("model")));
        assert_eq!(openai["calls"][1]["error_type"], "INVALID_ARGUMENTS");

        let responses = post(
            json!({"openai_responses": [{"type": "function_call", "call_id": "r1", "name": "call_pay_quote", "arguments": arguments.to_string()}]}),
        );
        assert_eq!(responses["openai_responses"][0]["call_id"], "r1", "{responses}");

        let anthropic = post(
            json!({"anthropic": [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "toolu_1", "name": "call_pay_quote", "input": arguments}]}),
        );
        assert_eq!(anthropic["anthropic"][0]["tool_use_id"], "toolu_1", "{anthropic}");

        let gemini =
            post(json!({"gemini": [{"functionCall": {"name": "call_pay_quote", "args": arguments}}]}));
        assert_eq!(gemini["gemini"][0]["functionResponse"]["name"], "call_pay_quote", "{gemini}");

        let flat =
            post(json!({"tool_call": {"tool_name": "pay", "action": "quote", "parameters": arguments}}));
        assert_eq!(flat["tool_call"]["status"], "ok", "{flat}");
        let refused = post(json!({"tool_call": {"tool_name": "pay", "action": "quote", "parameters": {}}}));
        assert_eq!(refused["tool_call"]["error_type"], "INVALID_ARGUMENTS", "{refused}");
        assert!(refused["tool_call"]["message"].is_string());

        let text = post(json!({"text": "[[TOOL_CALL: call_pay_quote(to='bob', amount=1)]]"}));
        assert!(
            text["text"].as_str().is_some_and(|text| text.starts_with("[[TOOL_RESPONSE: call_pay_quote(")),
            "{text}"
        );
        agent
            .session
            .post(&json!({"text": "please [[TOOL_CALL: call_pay_quote(to='bob', amount=1)]]"}))
            .expect_refusal(400, "INVALID_REQUEST");
        agent
            .session
            .post(&json!({"text": "[[TOOL_CALL: x()]]", "calls": []}))
            .expect_refusal(400, "INVALID_REQUEST");
    });
}

/// Pending approvals and client calls are reported beside the provider's own list, which its library must accept.
#[test]
fn r1_a_waiting_call_is_reported_and_runs_when_posted_again() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"], "autonomy": "supervised"}));
        let body = json!({"anthropic": [{"type": "tool_use", "id": "toolu_1", "name": "call_pay_send", "input": {"to": "bob", "amount": 1}}]});
        let waiting = agent.session.post(&body).expect(200).json();
        assert_eq!(
            (&waiting["next"], &waiting["calls"][0]["status"]),
            (&json!("approval"), &json!("approval_required"))
        );
        agent.approve(waiting["calls"][0]["approval"]["id"].as_str().expect("an approval"));
        let done = agent.session.post(&body).expect(200).json();
        assert_eq!((&done["next"], &done["calls"][0]["status"]), (&json!("model"), &json!("ok")), "{done}");
    });
}

#[test]
fn m3_tools_are_listed_in_the_requested_dialect() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/send"], "autonomy": "supervised"}));
        let list = |format: &str| {
            agent
                .session
                .client
                .get(&agent.session.path(&format!("/tools?format={format}")))
                .expect(200)
                .json()["tools"][0]
                .clone()
        };
        assert_eq!(
            (&list("toolgate")["name"], &list("toolgate")["requires_approval"]),
            (&json!("call_pay_send"), &json!(true))
        );
        assert_eq!(list("openai")["function"]["name"], "call_pay_send");
        assert_eq!(list("openai_responses")["name"], "call_pay_send");
        assert!(list("anthropic")["input_schema"].is_object());
        assert_eq!(list("gemini")["functionDeclarations"][0]["name"], "call_pay_send");
        assert_eq!(list("mcp")["annotations"]["readOnlyHint"], false);
        agent
            .session
            .client
            .get(&agent.session.path("/tools?format=yaml"))
            .expect_refusal(400, "INVALID_REQUEST");
    });
}

/// Media have a limit of their own (R10): beyond it they are files, in their order, and the text of the result is whole. Files come as
/// the provider's own content where it takes their type (R11).
#[test]
fn r10_r11_media_and_files_reach_the_model() {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load("conformance", guests::CONFORMANCE);
    let session = daemon.session_within("acme/bot", &json!({}));
    let large = session.call("conformance/large_images", json!({"sizes": [900_000, 2_500_000, 10]}));
    let content = large.0["content"].as_array().cloned().unwrap_or_default();
    let kinds: Vec<&str> = content.iter().filter_map(|block| block["type"].as_str()).collect();
    assert_eq!(kinds, ["image", "file", "image"]);
    let path = content[1]["path"].as_str().and_then(|path| path.strip_prefix("/workspace/")).expect("a path");
    assert!(path.starts_with(".results/m_") && path.ends_with(".png"), "{path}");
    assert_eq!(session.get_file(path).expect(200).body.len(), 2_500_000);

    let call = |tool: &str| json!({"name": tool, "input": {}, "type": "tool_use", "id": tool});
    let blocks = |tool: &str| {
        let answer = session.post(&json!({"anthropic": [call(tool)]})).expect(200).json();
        answer["anthropic"][0]["content"].as_array().cloned().unwrap_or_default()
    };
    let text = blocks("call_conformance_test_embedded_resource");
    assert_eq!(text[0]["text"], "[the file /workspace/embedded.txt]\nThis is an embedded resource content.");
    let image = blocks("call_conformance_binary_file");
    assert_eq!(
        (&image[0]["type"], &image[0]["source"]["media_type"]),
        (&json!("image"), &json!("image/png"))
    );
    // Chat completions take no media: the model gets the path.
    let arguments = json!({"name": "call_conformance_binary_file", "arguments": "{}"});
    let chat = json!({"openai": {"tool_calls": [{"id": "c", "type": "function", "function": arguments}]}});
    let chat = session.post(&chat).expect(200).json();
    assert_eq!(chat["openai"][0]["content"], "[the file /workspace/image.png]");
}
