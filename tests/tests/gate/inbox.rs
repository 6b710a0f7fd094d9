//! Messages between agents (T12).

use toolgate_tests::events::Stream;
use toolgate_tests::{Client, Daemon, json};

use crate::PROGRAM;

fn start() -> (Daemon, Client) {
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make("/v1/plugins/messages/grant", &json!({"messages": true})).expect(201);
    (daemon, operator)
}

#[test]
fn t12_a_message_waits_until_it_is_named_as_read_and_an_event_tells_of_it() {
    let (_daemon, operator) = start();
    operator.make_agent("acme/sales", &json!({"enabled": ["messages/*"], "messages_to": ["support"]}));
    operator.make_agent("acme/support", &json!({"enabled": ["messages/*"]}));
    let (sales, support) = (operator.open_session("acme/sales"), operator.open_session("acme/support"));
    let mut events = Stream::open(&operator, "/v1/orgs/acme/events");
    let send = |text: &str| sales.call("messages/send", json!({"to": "support", "body": text}));
    let first = send("paid").output()["id"].as_str().expect("an id").to_owned();
    let told = std::iter::from_fn(|| events.next()).find(|(name, _)| name == "message").expect("an event").1;
    assert_eq!((&told["agent"], &told["inbox"]["from"]), (&json!("support"), &json!("sales")));
    assert_eq!((&told["inbox"]["id"], &told["inbox"]["unread"]), (&json!(first), &json!(1)));
    send("sent");

    let read = |arguments| support.call("messages/read", arguments).output().clone();
    for _ in 0..2 {
        let inbox = read(json!({"limit": 1}));
        assert_eq!((&inbox["messages"][0]["body"], &inbox["unread"]), (&json!("paid"), &json!(2)));
        assert_eq!(
            (&inbox["messages"][0]["from"], &inbox["messages"][0]["id"]),
            (&json!("sales"), &json!(first))
        );
    }
    let inbox = read(json!({"read": first}));
    assert_eq!((&inbox["messages"][0]["body"], &inbox["unread"]), (&json!("sent"), &json!(1)));
    let inbox = read(json!({"read": inbox["messages"][0]["id"]}));
    assert_eq!(inbox, json!({"messages": [], "unread": 0}));
    assert_eq!(
        sales.call("messages/read", json!({})).output()["unread"],
        0,
        "the sender has an inbox of its own"
    );
}

/// An orchestrator sees the events of its sessions alone, and supervised agents are the default.
#[test]
fn t12_a_session_is_told_of_a_message_and_a_supervised_agent_reads_it_without_a_person() {
    let (_daemon, operator) = start();
    operator.make_agent("acme/sales", &json!({"enabled": ["messages/*"], "messages_to": "*"}));
    for agent in ["acme/support", "acme/other"] {
        operator.make_agent(agent, &json!({"enabled": ["messages/*"], "autonomy": "supervised"}));
    }
    let orchestrator = operator.with_new_token(&json!({"role": "orchestrator", "organization": "acme"}));
    let sales = operator.open_session("acme/sales");
    let [support, other] = ["acme/support", "acme/other"].map(|agent| orchestrator.open_session(agent));
    let mut told = Stream::open(&orchestrator, &support.path("/events"));
    let mut untold = Stream::open(&orchestrator, &other.path("/events"));
    sales.call("messages/send", json!({"to": "support", "body": "paid"})).output();
    let (name, event) = told.next().expect("an event");
    assert_eq!((&*name, &event["inbox"]["from"]), ("message", &json!("sales")));
    let list = || support.call("messages/list", json!({}));
    assert_eq!(list().output()["unread"], 1);
    assert_eq!(list().output()["messages"][0]["body"], "paid", "it is still unread");
    assert_eq!(support.call("messages/read", json!({})).status(), "approval_required");
    // The first event of the other session is its own.
    other.call("messages/list", json!({})).output();
    assert_eq!(untold.next().expect("an event").0, "tool_call");
}

#[test]
fn t12_an_agent_writes_only_to_those_whom_its_document_names() {
    let (_daemon, operator) = start();
    operator
        .make_agent("acme/sales", &json!({"enabled": ["messages/*"], "messages_to": ["support", "nobody"]}));
    operator.make_agent("acme/all", &json!({"enabled": ["messages/*"], "messages_to": "*"}));
    operator.make_agent("acme/none", &json!({"enabled": ["messages/*"], "messages_to": []}));
    operator.make_agent("acme/support", &json!({"enabled": ["messages/*"]}));
    operator.make_agent("other/bot", &json!({"enabled": ["messages/*"]}));
    let send = |from: &str, to: &str| {
        operator.open_session(from).call("messages/send", json!({"to": to, "body": "hello"}))
    };
    send("acme/sales", "support").output();
    send("acme/all", "sales").output();
    for (from, to, says) in [
        ("acme/sales", "all", "may not write"),
        ("acme/none", "support", "may not write"),
        ("acme/support", "sales", "may not write"),
        ("acme/sales", "nobody", "no agent"),
        ("acme/all", "bot", "no agent"),
        ("acme/all", "all", "may not write"),
    ] {
        let refused = send(from, to).expect_error("TOOL_FAILED");
        assert!(refused.message().contains(says), "{from} to {to}: {}", refused.message());
    }
    let agent = |document| operator.make("/v1/orgs/acme/agents/odd", &document);
    agent(json!({"messages_to": "support"})).expect(422);
    agent(json!({"messages_to": ["Not A Name"]})).expect(422);
}

#[test]
fn t12_one_sender_cannot_fill_an_inbox_and_a_deleted_agent_takes_its_inbox_along() {
    let (_daemon, operator) = start();
    operator.make_agent("acme/sales", &json!({"enabled": ["messages/*"], "messages_to": "*"}));
    operator.make_agent("acme/support", &json!({"enabled": ["messages/*"]}));
    let sales = operator.open_session("acme/sales");
    let send = |body: &str| sales.call("messages/send", json!({"to": "support", "body": body}));
    for number in 0..200 {
        send(&number.to_string()).output();
    }
    assert!(send("one more").expect_error("TOOL_FAILED").message().contains("has not read"));
    assert!(send(&"x".repeat(65 * 1024)).expect_error("TOOL_FAILED").message().contains("65536"));
    let support = operator.open_session("acme/support");
    let inbox = support.call("messages/read", json!({"limit": 50})).output().clone();
    support.call("messages/read", json!({"read": inbox["messages"][49]["id"]})).output();
    send("now there is room").output();

    let document = "/v1/orgs/acme/agents/support";
    let etag = operator.get(document).header("etag").map(str::to_owned).expect("an etag");
    operator.send("DELETE", document, &[("If-Match", &etag)], b"").expect(204);
    operator.make_agent("acme/support", &json!({"enabled": ["messages/*"]}));
    let empty = operator.open_session("acme/support").call("messages/read", json!({}));
    assert_eq!(empty.output()["unread"], 0);
}
