//! The broker over HTTP (G15). `admission/tests/broker.rs` measures its recall.

use toolgate_tests::{Daemon, Session, Value, json, sample_policy};

#[test]
fn g15_a_message_narrows_what_is_shown_and_never_what_is_allowed() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let operator = daemon.operator();
    sample_policy::open(&operator);
    let opened = operator
        .post("/v1/sessions", &json!({"agent": "office/system", "channel": "webchat"}))
        .expect(201)
        .json();
    let session =
        Session { client: operator.clone(), id: opened["session"].as_str().expect("a session").to_owned() };
    let all = opened["tools"].as_array().expect("tools").len();
    let select = |message: &str| {
        operator.post(&session.path("/tools/select"), &json!({"message": message})).expect(200).json()
    };
    let names = |selected: &Value| -> Vec<String> {
        let tools = selected["tools"].as_array().expect("tools");
        tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
    };
    let billing = select("Can you send me the invoice for last month again?");
    let shown = names(&billing);
    assert!(shown.len() <= 15 && shown.contains(&"call_billing_send_invoice".to_owned()), "{shown:?}");
    for always in ["call_crm_query_org_data", "call_meta_request_feature"] {
        assert!(shown.iter().any(|name| name == always), "{always}: {shown:?}");
    }
    assert_eq!(billing["narrowed"], true);
    let why = billing["why"].as_array().expect("reasons");
    assert_eq!(why.len(), shown.len());
    assert!(why.iter().all(|tool| tool["why"].as_array().is_some_and(|why| !why.is_empty())), "{billing}");
    assert!(billing["why"].to_string().contains("intent `billing`"), "{billing}");
    assert!(billing["system_prompt"].as_str().is_some_and(
        |text| text.contains("call_billing_send_invoice") && text.contains(&format!("{all} specific"))
    ));
    // An omitted tool can still be called, and is then selected as recent.
    let left_out = "call_events_list_events";
    assert!(!shown.iter().any(|name| name == left_out), "{shown:?}");
    assert_eq!(session.call(left_out, json!({})).status(), "ok");
    let again = select("Can you send me the invoice for last month again?");
    assert!(names(&again).iter().any(|name| name == left_out), "{again}");
    // Without a match, every tool is returned, in a provider's format too.
    assert_eq!(names(&select("qwrtz plmk")).len(), all);
    let openai = operator
        .post(&session.path("/tools/select?format=openai"), &json!({"message": "refund the invoice"}))
        .expect(200)
        .json();
    assert_eq!(openai["tools"][0]["type"], "function");
}

#[test]
fn g15_the_broker_is_off_by_default() {
    let daemon = Daemon::start(crate::PROGRAM, "");
    let session = daemon.session_within("acme/bot", &json!({}));
    let selected = session
        .client
        .post(&session.path("/tools/select"), &json!({"message": "add two numbers"}))
        .expect(200)
        .json();
    assert_eq!(selected["narrowed"], false);
    assert!(selected["why"][0]["why"][0].as_str().is_some_and(|why| why.contains("off")), "{selected}");
}
