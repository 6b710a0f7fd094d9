//! Servers of 2025-11-25 and before, as npm `server-everything` and PyPI `mcp` answer.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

const SESSION: &str = "bfe97e9e-c860-45e8-9529-dfa233050a5d";

fn plugin() -> Value {
    let found = json!({
        "protocol": "2025-11-25", "server": {"name": "mcp-servers/everything", "version": "2.0.0"},
        "tools": [{"name": "echo", "inputSchema": {"type": "object", "properties": {
            "message": {"type": "string", "x-mcp-header": "Message"},
        }}}],
        "left_out": [],
    });
    mount(&document(json!({})), &found)
}

/// An answer as `server-everything` writes it: an empty event first, then the message.
fn stream_reply(request: &Sent, result: Value) -> Reply {
    let message = json!({"result": result, "jsonrpc": "2.0", "id": request.json()["id"]});
    let events = format!("id: d82bd69f\ndata: \n\nevent: message\nid: acf84644\ndata: {message}\n\n");
    Reply::new(200).header("content-type", "text/event-stream").header("mcp-session-id", SESSION).body(events)
}

fn initialize_reply(request: &Sent, revision: &str) -> Reply {
    let server =
        json!({"name": "mcp-servers/everything", "title": "Everything Reference Server", "version": "2.0.0"});
    stream_reply(
        request,
        json!({"protocolVersion": revision, "capabilities": {"tools": {"listChanged": true}}, "serverInfo": server}),
    )
}

/// A server in whose sessions `tools/call` is answered so.
fn answer(request: &Sent, called: impl Fn(&Sent) -> Reply) -> Reply {
    match (request.method(), method(request).as_str()) {
        ("DELETE", _) => Reply::new(200),
        (_, "initialize") => initialize_reply(request, "2025-11-25"),
        (_, "notifications/initialized") => Reply::new(202),
        (_, "tools/call") => called(request),
        // What we answer to its questions.
        (_, "") => Reply::new(202),
        (_, other) => panic!("{other}"),
    }
}

fn text(request: &Sent) -> Reply {
    stream_reply(request, json!({"content": [{"type": "text", "text": "Echo: hi"}]}))
}

fn way(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(|sent| format!("{} {}", sent.method(), method(sent)).trim_end().to_owned()).collect()
}

#[test]
fn m4_a_call_opens_a_session_and_ends_it() {
    let network = testing::network(|request| Ok(answer(request, text)));
    assert_eq!(call(&plugin(), "echo", json!({"message": "hi"})).unwrap(), "Echo: hi");

    let sent = network.sent();
    assert_eq!(
        way(&sent),
        ["POST initialize", "POST notifications/initialized", "POST tools/call", "DELETE"]
    );
    let client = json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!(
        sent[0].json(),
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client},
        })
    );
    assert_eq!((sent[0].header("mcp-session-id"), sent[0].header("mcp-protocol-version")), (None, None));
    for later in &sent[1..] {
        assert_eq!(later.header("mcp-session-id"), Some(SESSION));
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!((later.header("mcp-method"), later.header("mcp-param-message")), (None, None));
    }
    assert_eq!(sent[1].json(), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(
        sent[2].json(),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"message": "hi"}, "_meta": {"progressToken": 2},
        }})
    );
}

#[test]
fn m4_a_session_that_cannot_be_ended_fails_no_call() {
    for status in [404, 405, 500] {
        let network = testing::network(move |request| {
            Ok(if request.method() == "DELETE" { Reply::new(status) } else { answer(request, text) })
        });
        assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "Echo: hi");
        assert_eq!(network.sent().len(), 4);
    }
    // The host tells of a denied request in place of a failure, unless a later one is answered.
    let network = testing::network(|request| match (request.method(), method(request).as_str()) {
        ("DELETE", _) => Err(toolgate_sdk::http::Error::Denied { host: "mcp.example.com".to_owned() }),
        (_, "ping") => Ok(result(request, json!({}))),
        _ => Ok(answer(request, text)),
    });
    assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "Echo: hi");
    assert_eq!(way(&network.sent())[3..], ["DELETE", "POST ping"]);
}

#[test]
fn m4_a_server_without_sessions_has_none_to_end() {
    let network = testing::network(|request| {
        Ok(match method(request).as_str() {
            "initialize" => result(request, json!({"protocolVersion": "2025-11-25", "capabilities": {}})),
            "tools/call" => result(request, json!({"content": [{"type": "text", "text": "hi"}]})),
            _ => Reply::new(202),
        })
    });
    assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "hi");
    assert_eq!(network.sent().len(), 3);
    assert_eq!(network.sent()[2].header("mcp-session-id"), None);
}

#[test]
fn m4_older_revisions_of_the_family_are_spoken_and_others_are_not() {
    for (revision, is_spoken) in [
        ("2025-11-25", true),
        ("2025-06-18", true),
        ("2025-03-26", true),
        ("2024-11-05", true),
        ("2024-10-07", false),
        ("2026-07-28", false),
        ("", false),
    ] {
        let network = testing::network(move |request| {
            Ok(if method(request) == "initialize" {
                initialize_reply(request, revision)
            } else {
                answer(request, text)
            })
        });
        let found = call(&plugin(), "echo", json!({}));
        match is_spoken {
            true => {
                found.unwrap();
                assert_eq!(network.sent()[2].header("mcp-protocol-version"), Some(revision));
            }
            false => {
                let error = found.unwrap_err();
                assert!(error.message().contains(&format!("it speaks revision `{revision}`")), "{error}");
                assert_eq!(way(&network.sent()), ["POST initialize", "DELETE"]);
            }
        }
    }
}

/// 2025-11-25, Transports: a stream that closes after an event with an id is a disconnection, and goes on by GET.
#[test]
fn m4_a_stream_that_closes_before_the_answer_is_resumed() {
    let event = |id: &str, data: &str| {
        Reply::new(200)
            .header("content-type", "text/event-stream")
            .body(format!("id: {id}\nretry: 0\ndata: {data}\n\n"))
    };
    let message =
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "late"}]}})
            .to_string();
    let broken = toolgate_sdk::http::Error::Unavailable {
        host: "mcp.example.com".to_owned(),
        why: toolgate_sdk::http::Unavailable::Broken,
    };
    for first in [event("e1", ""), event("e1", "").breaks(broken)] {
        let message = message.clone();
        let network = testing::network(move |request| {
            Ok(match (request.method(), request.header("last-event-id")) {
                ("GET", Some("e1")) => event("e2", ""),
                ("GET", Some("e2")) => event("e3", &message),
                ("GET", other) => panic!("{other:?}"),
                _ => answer(request, |_| first.clone()),
            })
        });
        assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "late");
        let sent = network.sent();
        assert_eq!(
            way(&sent),
            ["POST initialize", "POST notifications/initialized", "POST tools/call", "GET", "GET", "DELETE"]
        );
        assert_eq!(sent[3].headers().get_all("accept").collect::<Vec<_>>(), ["text/event-stream"]);
        assert_eq!(sent[3].header("mcp-session-id"), Some(SESSION));
    }
}

#[test]
fn m4_a_stream_that_cannot_be_resumed_is_told_and_the_call_not_repeated() {
    let event =
        || Reply::new(200).header("content-type", "text/event-stream").body("id: e1\nretry: 0\ndata: \n\n");
    for (status, says, requests) in
        [(404, "does not resume it (status 404)", 5), (200, "ended before the answer", 16)]
    {
        let network = testing::network(move |request| {
            Ok(match request.method() {
                "GET" => event().status(status),
                _ => answer(request, |_| event()),
            })
        });
        let error = call(&plugin(), "echo", json!({})).unwrap_err();
        assert!(error.message().contains(says) && !error.is_retryable(), "{error}");
        assert_eq!(network.sent().len(), requests);
    }
}

#[test]
fn m4_a_lost_session_is_opened_anew_once() {
    let calls = Rc::new(Cell::new(0));
    let seen = Rc::clone(&calls);
    // PyPI `mcp` says so of a session that it forgot.
    let lost = || {
        Reply::json(
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Session not found"}}),
        )
        .status(404)
    };
    let network = testing::network(move |request| {
        Ok(answer(request, |request| {
            seen.set(seen.get() + 1);
            if seen.get() == 1 { lost() } else { text(request) }
        }))
    });
    assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "Echo: hi");
    assert_eq!(
        way(&network.sent()),
        [
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/call",
            "POST initialize",
            "POST notifications/initialized",
            "POST tools/call",
            "DELETE",
        ]
    );
    drop(network);

    let network = testing::network(move |request| Ok(answer(request, |_| lost())));
    let error = call(&plugin(), "echo", json!({})).unwrap_err();
    assert!(error.message().contains("ended the session") && error.is_retryable(), "{error}");
    assert_eq!(network.sent().len(), 6);
}

/// By its last answer the host tells that the server has trouble; a session that ends well would hide it.
#[test]
fn m4_a_server_that_has_trouble_is_asked_for_nothing_more() {
    let told = |request: &Sent| {
        error_reply(request, 429, json!({"code": 1, "message": "slowly"})).header("retry-after", "7")
    };
    for (reply, last, retryable) in [
        (|_: &Sent| Reply::new(429).header("retry-after", "7"), "POST tools/call", true),
        (told, "POST tools/call", true),
        (|_: &Sent| Reply::new(400), "DELETE", false),
    ] as [(fn(&Sent) -> Reply, &str, bool); 3]
    {
        let network = testing::network(move |request| Ok(answer(request, reply)));
        let error = call(&plugin(), "echo", json!({})).unwrap_err();
        assert_eq!(way(&network.sent()).last().map(String::as_str), Some(last), "{error}");
        assert_eq!(error.is_retryable(), retryable, "{error}");
        let wait = details(&error).get("retry_after_ms").cloned();
        assert_eq!(wait, retryable.then(|| json!(7_000)), "{error}");
    }
}

#[test]
fn m4_questions_of_the_server_are_declined_and_pings_answered() {
    let asked = |id: &Value| {
        let question = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {
            "mode": "form", "message": "Who are you?", "requestedSchema": {"type": "object"},
        }});
        let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
        let refused = json!({"jsonrpc": "2.0", "id": id, "error": {
            "code": -32601, "message": "the client cannot be asked back during a call",
        }});
        format!("event: message\r\ndata: {question}\r\n\r\ndata: {ping}\r\n\r\ndata: {refused}\r\n\r\n")
    };
    let network = testing::network(move |request| {
        Ok(answer(request, |request| {
            Reply::new(200).header("content-type", "text/event-stream").body(asked(&request.json()["id"]))
        }))
    });
    let error = call(&plugin(), "echo", json!({})).unwrap_err();

    assert!(error.message().contains("cannot be asked back"), "{error}");
    let sent = network.sent();
    assert_eq!(
        sent[3].json(),
        json!({"jsonrpc": "2.0", "id": 1, "error": {
            "code": -32601, "message": "the client cannot be asked back during a call",
        }})
    );
    assert_eq!(sent[4].json(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    assert_eq!((sent[3].header("mcp-session-id"), sent[5].method()), (Some(SESSION), "DELETE"));
}

#[test]
fn m4_a_server_that_asks_on_and_on_is_left() {
    let questions: String = (0..20)
        .map(|id| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})))
        .collect();
    let network = testing::network(move |request| {
        let questions = questions.clone();
        Ok(answer(request, move |_| {
            Reply::new(200).header("content-type", "text/event-stream").body(questions.clone())
        }))
    });
    let error = call(&plugin(), "echo", json!({})).unwrap_err();
    assert!(error.message().contains("asks back more than 8 times"), "{error}");
    assert_eq!(network.sent().len(), 3 + 8 + 1);
}

#[test]
fn m4_the_id_of_a_session_is_visible_ascii() {
    for id in ["a b", &"a".repeat(1_025), "é"] {
        let id = id.to_owned();
        let _network = testing::network(move |request| {
            let said = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            Ok(result(request, said).header("mcp-session-id", &id))
        });
        let error = call(&plugin(), "echo", json!({})).unwrap_err();
        assert!(error.message().contains("visible ASCII"), "{error}");
    }
}
