//! Calls in every dialect (R1, M3). `providers.rs` tests the responses with the providers' client libraries.

use toolgate_tests::{Value, json};

use crate::with_fixture;

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
