//! Servers of 2024-11-05 (HTTP with SSE), as PyPI `mcp` answers with its `sse_app`.

use toolgate_sdk::http;

use super::*;

const SSE: &str = "https://mcp.example.com/sse";
const ENDPOINT: &str = "https://mcp.example.com/messages/?session_id=4f3a";

/// The stream of a session with these results, by the ids of the requests.
fn stream(endpoint: &str, results: &[(u32, Value)]) -> Reply {
    let mut events = format!("event: endpoint\r\ndata: {endpoint}\r\n\r\n: ping - 2026-11-05\r\n\r\n");
    for (id, result) in results {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        events += &format!("event: message\r\ndata: {message}\r\n\r\n");
    }
    Reply::new(200).header("content-type", "text/event-stream; charset=utf-8").body(events)
}

fn initialize_answer() -> (u32, Value) {
    (
        1,
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}),
    )
}

/// A server whose stream has these results.
fn answer(request: &Sent, endpoint: &str, results: &[(u32, Value)]) -> Reply {
    match (request.method(), request.url()) {
        ("GET", SSE) => stream(endpoint, results),
        ("POST", ENDPOINT) => Reply::new(202).body("Accepted"),
        _ => Reply::new(405).body("Method Not Allowed"),
    }
}

fn list_answers() -> Vec<(u32, Value)> {
    vec![initialize_answer(), (2, json!({"tools": [{"name": "echo"}]}))]
}

fn way(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .map(|sent| format!("{} {} {}", sent.method(), sent.url(), method(sent)).trim_end().to_owned())
        .collect()
}

#[test]
fn m4_a_server_of_the_oldest_transport_is_found_by_its_refusal_and_called_by_its_stream() {
    for endpoint in ["/messages/?session_id=4f3a", ENDPOINT] {
        for protocol in [Value::Null, json!("2024-11-05")] {
            let network = testing::network(move |request| Ok(answer(request, endpoint, &list_answers())));
            let document = document(json!({"url": SSE, "protocol": protocol}));
            let found = discover(document.clone()).unwrap();
            assert_eq!((&found["protocol"], &found["sse"]), (&json!("2024-11-05"), &json!(true)));
            let sent = way(&network.sent());
            let opened = sent.iter().position(|request| request.starts_with("GET")).unwrap();
            let posted = |method| format!("POST {ENDPOINT} {method}");
            let expected = [
                format!("GET {SSE}"),
                posted("initialize"),
                posted("notifications/initialized"),
                posted("tools/list"),
            ];
            assert_eq!(sent[opened..], expected);
            assert_eq!(sent[opened - 1], format!("POST {SSE} initialize"));
            drop(network);

            let results = [initialize_answer(), (2, json!({"content": [{"type": "text", "text": "hi"}]}))];
            let network = testing::network(move |request| Ok(answer(request, endpoint, &results)));
            assert_eq!(call(&mount(&document, &found), "echo", json!({})).unwrap(), "hi");
            let expected = [
                format!("GET {SSE}"),
                posted("initialize"),
                posted("notifications/initialized"),
                posted("tools/call"),
            ];
            assert_eq!(way(&network.sent()), expected);
            assert_eq!(network.sent()[1].json()["params"]["protocolVersion"], "2024-11-05");
        }
    }
}

#[test]
fn m4_an_endpoint_of_another_origin_gets_no_request() {
    for endpoint in ["https://evil.example/messages", "//evil.example/messages"] {
        let network = testing::network(move |request| Ok(answer(request, endpoint, &list_answers())));
        let found = discover(document(json!({"url": SSE})));
        assert!(found.unwrap_err().message().contains("status 405"));
        assert!(network.sent().iter().all(|request| request.url() == SSE));
        drop(network);
        // A mount whose server changes later.
        let found = json!({"protocol": "2024-11-05", "sse": true, "tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "left_out": []});
        let _network = testing::network(move |request| Ok(answer(request, endpoint, &list_answers())));
        let error = call(&mount(&document(json!({"url": SSE})), &found), "echo", json!({})).unwrap_err();
        assert!(error.message().contains("of another origin than the server"), "{error}");
    }
}

#[test]
fn m4_a_server_that_opens_no_such_stream_is_told_by_its_first_refusal() {
    for (status, content_type, body) in [
        (405, "text/plain", "no"),
        (200, "text/html", "<title>Home</title>"),
        (200, "text/event-stream", ": ping\n\n"),
        (200, "text/event-stream", "event: message\ndata: {}\n\n"),
    ] {
        let _network = testing::network(move |request| {
            Ok(match request.method() {
                "GET" => Reply::new(status).header("content-type", content_type).body(body),
                _ => Reply::new(404),
            })
        });
        let error = discover(document(json!({"url": SSE}))).unwrap_err();
        assert!(error.message().contains("no MCP server at this address"), "{error}");
    }
    // A stream that ends before the answer.
    let _network = testing::network(|request| Ok(answer(request, ENDPOINT, &[initialize_answer()])));
    let error = discover(document(json!({"url": SSE}))).unwrap_err();
    assert!(error.message().contains("ended before the answer came"), "{error}");
}

/// The host tells of a denied request, unless a later one is answered.
#[test]
fn m4_a_refusal_is_the_reason_where_the_oldest_transport_may_not_be_tried() {
    let denied = || http::Error::Denied { host: "mcp.example.com".to_owned() };
    for (status, body, says) in [
        (
            404,
            "",
            "has no MCP server at this address (status 404): the transport of 2024-11-05 could not be tried",
        ),
        (
            405,
            "Gone",
            "takes no MCP requests at this address (status 405): Gone; the transport of 2024-11-05",
        ),
    ] {
        let network = testing::network(move |request| match request.method() {
            "GET" => Err(denied()),
            _ => Ok(Reply::text(body).status(status)),
        });
        let error = discover(document(json!({"url": SSE}))).unwrap_err();
        assert!(error.message().contains(says), "{error}");
        assert!(error.message().ends_with("since this tool may not send GET"), "{error}");
        assert_eq!(way(&network.sent()).last(), Some(&format!("POST {SSE} initialize")));
    }
    // An owner who names the transport hears of the denial, and so does one whose grant lacks the endpoint.
    let network = testing::network(move |request| match request.method() {
        "GET" => Err(denied()),
        _ => Ok(Reply::new(404)),
    });
    discover(document(json!({"url": SSE, "protocol": "2024-11-05"}))).unwrap_err();
    assert_eq!(way(&network.sent()).last(), Some(&format!("GET {SSE}")));
    drop(network);
    let network = testing::network(move |request| match request.url() {
        ENDPOINT => Err(denied()),
        _ => Ok(answer(request, ENDPOINT, &list_answers())),
    });
    discover(document(json!({"url": SSE}))).unwrap_err();
    assert_eq!(way(&network.sent()).last(), Some(&format!("POST {ENDPOINT} initialize")));
}

#[test]
fn m4_a_mount_of_the_oldest_revision_asks_for_every_path() {
    for (protocol, path) in [("2024-11-05", "/"), ("2025-03-26", "/sse")] {
        let described = describe(&envelope(document(json!({"url": SSE, "protocol": protocol})))).unwrap();
        assert_eq!(described["capabilities"]["network"][0]["path"], path);
    }
}
