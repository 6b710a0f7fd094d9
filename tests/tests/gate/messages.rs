//! Error messages for models (R2, R4, R5): a scripted model fixes its call from the text of the refusal alone.

use toolgate_tests::{CallReply, Session, Value, json};

use crate::with_fixture;

/// Model that reads only `text`, the member meant for models.
struct Model<'a> {
    session: &'a toolgate_tests::Session,
}

impl Model<'_> {
    fn call(&self, tool: &str, arguments: Value) -> CallReply {
        self.session.call(tool, arguments)
    }

    /// Text in backticks or single quotes.
    fn quoted_words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for quote in ['`', '\''] {
            words.extend(text.split(quote).skip(1).step_by(2).map(str::to_owned));
        }
        words
    }
}

fn model_text(reply: &CallReply) -> String {
    reply.0["text"]
        .as_str()
        .expect("a text")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

#[test]
fn r2_a_model_fixes_a_misspelt_tool() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/quote"]}));
        let model = Model { session: &agent.session };
        let refused = model.call("call_pay_qoute", json!({"to": "bob", "amount": 1}));
        assert_eq!(refused.error_type(), Some("TOOL_NOT_FOUND"));
        let meant =
            Model::quoted_words(model_text(&refused).split("did you mean").nth(1).expect("a suggestion"))
                .remove(0);
        assert_eq!(model.call(&meant, json!({"to": "bob", "amount": 1})).status(), "ok");
    });
}

/// L17: the strict forms of function schemas make models send `null` for all that they leave out.
#[test]
fn m5_every_built_in_tool_takes_null_for_an_optional_argument() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": "*", "autonomy": "autonomous"}));
        let tools = agent.session.client.get(&agent.session.path("/tools")).expect(200).json();
        let mut optional = 0;
        for tool in tools["tools"].as_array().expect("tools") {
            let schema = &tool["input_schema"];
            let properties = schema["properties"].as_object().expect("properties");
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let nulls: Value = properties
                .keys()
                .filter(|name| !required.contains(&json!(name)))
                .map(|name| (name.clone(), Value::Null))
                .collect();
            optional += nulls.as_object().map_or(0, |nulls| nulls.len());
            let reply = agent.session.call(tool["name"].as_str().expect("a name"), nulls);
            for violation in reply.0["error"]["details"]["violations"].as_array().into_iter().flatten() {
                assert_ne!(violation["found"], "null", "{tool}: {}", reply.0);
            }
        }
        assert!(optional > 50, "{optional}");
        let parsed = agent.session.call(
            "text/csv_parse",
            json!({"text": "a\n1\n", "delimiter": null, "header": null, "convert": null, "offset": null, "limit": null}),
        );
        assert_eq!(parsed.output()["rows"], json!([{"a": "1"}]));
        let row = agent.session.audit_row(&fixture.operator, parsed.id());
        assert_eq!(row["call"]["arguments"], json!({"text": "a\n1\n", "delimiter": null}), "{row}");
        let removed = json!(["/convert", "/header", "/limit", "/offset"]);
        assert_eq!(row["call"]["nulls_removed"], removed, "{row}");
        let plain = agent.session.call("text/count", json!({"text": "a"}));
        let row = agent.session.audit_row(&fixture.operator, plain.id());
        assert_eq!(row["call"].get("nulls_removed"), None, "{row}");
    });
}

#[test]
fn r2_a_model_adds_missing_arguments_and_fixes_types() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/quote"]}));
        let model = Model { session: &agent.session };
        // The text names each missing argument with its type.
        let refused = model.call("call_pay_quote", json!({"to": "bob"}));
        let text = model_text(&refused);
        assert!(
            text.contains("Validation Error: Missing required argument 'amount' for tool 'call_pay_quote'"),
            "{text}"
        );
        assert!(text.contains("`amount`: integer"), "{text}");
        let refused = model.call("call_pay_quote", json!({"to": "bob", "amount": "12"}));
        let text = model_text(&refused);
        assert!(text.contains("Argument 'amount' must be an integer"), "{text}");
        assert_eq!(model.call("call_pay_quote", json!({"to": "bob", "amount": 12})).status(), "ok");
        // An unknown argument is named.
        let refused = model.call("call_pay_quote", json!({"to": "bob", "amount": 12, "note": "x"}));
        let text = model_text(&refused);
        assert!(Model::quoted_words(&text).iter().any(|word| word == "note"), "{text}");
    });
}

/// Reaction to a refusal, from its text alone.
#[derive(Debug, PartialEq)]
enum Next {
    /// Calls the suggested tool.
    CallInstead(String),
    /// Sends other arguments.
    FixArguments,
    /// Continues without the tool, and does not repeat the call.
    ContinueWithout,
    /// Waits, and does not repeat the call meanwhile.
    Wait,
    /// Calls again later.
    CallLater,
    /// Answers without further calls.
    AnswerNow,
}

/// The scripted model. It looks for phrases, not for the daemon's codes.
fn next(text: &str) -> Next {
    let text = text.to_lowercase();
    if let Some(suggested) = text.split("did you mean `").nth(1) {
        return Next::CallInstead(suggested.split('`').next().unwrap_or_default().to_owned());
    }
    let says = |words: &str| text.contains(words);
    if says("validation error") {
        Next::FixArguments
    } else if says("answer with what is there") {
        Next::AnswerNow
    } else if says("call again in") || says("call again when") {
        Next::CallLater
    } else if says("do not repeat it meanwhile") || says("its result comes later") {
        Next::Wait
    } else if says("go on without")
        || says("one of the tools in the session's list")
        || says("a read-only tool")
    {
        Next::ContinueWithout
    } else {
        panic!("the text names no reaction: {text}")
    }
}

/// R2, R5: every refusal of the gate, with the expected reaction to its text.
#[test]
fn r5_the_text_of_every_refusal_says_what_to_do() {
    let settings = "[calls]\nrounds_per_turn = 2\nrounds_per_session = 1000\nbreaker_failures = 1\n[rates]\ncalls_per_second = 1\nburst = 40";
    let daemon = toolgate_tests::Daemon::start(crate::PROGRAM, settings);
    let operator = daemon.operator();
    operator.load("hostile", toolgate_tests::guests::HOSTILE);
    operator.load_confirmed("pay", &crate::payments("1.0.0"));
    let platform = json!({
        "blocked": ["codec/*"], "channels": {"sms": {"blocked": ["time/now"]}}, "integrations": {"text/*": "stripe"},
    });
    operator.make("/v1/platform/policy", &platform).expect(201);
    operator.make_organization("acme");
    operator
        .replace("/v1/orgs/acme/policy", &json!({"enabled": "*", "disabled": ["files/delete"]}))
        .expect(200);
    let agent = json!({
        "enabled": ["pay/*", "hostile/*", "codec/*", "text/*", "time/*", "files/delete", "user/ask"],
        "disabled": ["hostile/exit"], "autonomy": "autonomous", "require_approval_for": ["pay/send"],
    });
    operator.make_agent("acme/bot", &agent);
    operator.make_agent("acme/draft", &json!({"enabled": ["pay/*"], "autonomy": "draft_only"}));
    let open = |agent: &str| operator.open_session(agent);
    let opened =
        operator.post("/v1/sessions", &json!({"agent": "acme/bot", "channel": "sms"})).expect(201).json();
    let on_sms =
        Session { client: operator.clone(), id: opened["session"].as_str().expect("an id").to_owned() };
    let payment = json!({"to": "bob", "amount": 1});
    let crashed = open("acme/bot");
    crashed.call("hostile/panic", json!({"message": "x"})).expect_error("TOOL_CRASHED");
    let cases = [
        (open("acme/bot"), "call_pay_qoute", payment.clone(), Next::CallInstead("call_pay_quote".to_owned())),
        (open("acme/bot"), "pay.quote", payment.clone(), Next::CallInstead("call_pay_quote".to_owned())),
        (open("acme/bot"), "pay/quote", json!({}), Next::FixArguments),
        (open("acme/bot"), "pay/quote", json!([]), Next::FixArguments),
        (open("acme/bot"), "pay/quote", json!({"to": "x".repeat(2 << 20), "amount": 1}), Next::FixArguments),
        (open("acme/bot"), "codec/encode", json!({}), Next::ContinueWithout),
        (open("acme/bot"), "text/count", json!({}), Next::ContinueWithout),
        (open("acme/bot"), "files/delete", json!({}), Next::ContinueWithout),
        (open("acme/bot"), "files/read", json!({}), Next::ContinueWithout),
        (open("acme/bot"), "hostile/exit", json!({}), Next::ContinueWithout),
        (on_sms, "time/now", json!({}), Next::ContinueWithout),
        (crashed, "hostile/panic", json!({"message": "x"}), Next::ContinueWithout),
        (open("acme/draft"), "pay/send", payment.clone(), Next::ContinueWithout),
        (open("acme/bot"), "pay/send", payment.clone(), Next::Wait),
        (open("acme/bot"), "user/ask", json!({"question": "Which?"}), Next::Wait),
    ];
    for (session, tool, arguments, expected) in cases {
        let reply = session.call(tool, arguments);
        assert_ne!(reply.status(), "ok", "{}", reply.0);
        assert_eq!(next(&model_text(&reply)), expected, "{}", model_text(&reply));
        if let Next::CallInstead(suggested) = expected {
            assert_eq!(session.call(&suggested, payment.clone()).status(), "ok");
        }
    }
    // An approval is denied, the rounds are used up, the rate limit is exceeded.
    let denied = open("acme/bot");
    let waiting = denied.call_as("c1", "pay/send", payment.clone());
    let approval = waiting.approval();
    let owner = operator.with_new_token(&json!({"role": "owner", "organization": "acme", "label": "owner"}));
    owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "deny"})).expect(200);
    assert_eq!(next(&model_text(&denied.get_call("c1"))), Next::ContinueWithout);
    let spent = open("acme/bot");
    let turn = json!({"turn": "t1", "calls": [{"tool": "pay/quote", "arguments": payment}]});
    let [_, _, last] =
        [(); 3].map(|()| CallReply(spent.post(&turn).expect(200).json()["results"][0].clone()));
    assert_eq!(last.error_type(), Some("ROUNDS_EXCEEDED"));
    assert_eq!(next(&model_text(&last)), Next::AnswerNow);
    let limited = toolgate_tests::wait::until("a call over the rate", || {
        let reply = open("acme/bot").call("pay/quote", payment.clone());
        (reply.error_type() == Some("RATE_LIMITED")).then_some(reply)
    });
    assert_eq!(next(&model_text(&limited)), Next::CallLater);
}

/// Each refusal of the gate names an alternative, and says that repeating does not help.
#[test]
fn r5_every_refusal_of_the_gate_names_an_alternative() {
    with_fixture(|fixture| {
        let agent = fixture.agent(&json!({"enabled": ["pay/*"], "disabled": ["pay/send"]}));
        let model = Model { session: &agent.session };
        let arguments = || json!({"to": "bob", "amount": 1});
        let denied = model.call("call_hostile_echo", json!({"text": "x"})).expect_error("ACCESS_DENIED");
        assert_eq!(
            denied.message(),
            "Access denied. This agent is not authorized to use the call_hostile_echo tool."
        );
        assert!(model_text(&denied).contains("session's list"), "{}", model_text(&denied));
        let disabled = model.call("call_pay_send", arguments()).expect_error("TOOL_DISABLED");
        assert!(model_text(&disabled).contains("go on without it"), "{}", model_text(&disabled));
        for refused in [&denied, &disabled] {
            assert_eq!(refused.0["error"]["retryable"], false);
            assert_eq!(refused.0["executed"], "no");
        }
        agent.owner.replace(&agent.document(), &json!({"enabled": ["pay/*"]})).expect(200);
        let waiting = model.call("call_pay_send", arguments());
        assert!(model_text(&waiting).contains("do not repeat it"), "{}", model_text(&waiting));
    });
}
