//! Servers of 2026-07-28, as PyPI `mcp` 2.3.0 answers.

use std::time::Duration;

use toolgate_sdk::http::{self, Unavailable};

use super::*;

const STATELESS: &str = "2026-07-28";

fn plugin() -> Value {
    let tools = json!([
        {"name": "getForecast", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
        {"name": "echo", "inputSchema": {"type": "object"}},
        {"name": "Regional/Query", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
        }}},
        {"name": "天気", "inputSchema": {"type": "object"}},
    ]);
    mount(&document(json!({"headers": {"x-tenant": "acme"}})), &discovery(tools))
}

/// The result of a call of `echo` with this answer of the server.
fn echo(answer: Value) -> Result<Value, Error> {
    let _network = testing::network(move |request| Ok(result(request, answer.clone())));
    call(&plugin(), "echo", json!({"text": "hi"}))
}

/// The failure of a call that is answered so.
fn failure(reply: impl Fn(&Sent) -> Reply + 'static) -> Error {
    let _network = testing::network(move |request| Ok(reply(request)));
    call(&plugin(), "echo", json!({"text": "hi"})).unwrap_err()
}

#[test]
fn m4_a_call_is_one_request_whose_headers_say_what_its_body_says() {
    let network = testing::network(|request| {
        Ok(result(
            request,
            json!({
                "content": [{"text": "{\n  \"city\": \"Paris\",\n  \"celsius\": 21.5\n}", "type": "text"}], "isError": false,
                "resultType": "complete", "structuredContent": {"city": "Paris", "celsius": 21.5},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "toolgate-tests", "version": "1.2.3"}},
            }),
        ))
    });
    let found = call(&plugin(), "get_forecast", json!({"city": "Paris"})).unwrap();

    assert_eq!(found, json!({"city": "Paris", "celsius": 21.5}));
    let sent = network.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].method(), sent[0].url()), ("POST", URL));
    for (name, value) in [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", STATELESS),
        ("mcp-method", "tools/call"),
        ("mcp-name", "getForecast"),
        ("x-tenant", "acme"),
    ] {
        assert_eq!(sent[0].headers().get_all(name).collect::<Vec<_>>(), [value], "{name}");
    }
    assert_eq!(sent[0].header("mcp-session-id"), None);
    let client = json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")});
    assert_eq!(
        sent[0].json(),
        json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {
                "name": "getForecast", "arguments": {"city": "Paris"},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientInfo": client,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "progressToken": 2,
                    // Half of the time that the call has.
                    "toolgate/wait-ms": 14_875,
                },
            },
        })
    );
}

/// Events with the progress of this and of another request, before the result.
#[test]
fn m4_progress_of_the_server_is_passed_on() {
    let network = testing::network(|request| {
        let progress = |token: Value, told: Value| {
            let mut params = told;
            params["progressToken"] = token;
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        };
        let answer = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"content": []}});
        let events = [
            progress(json!(2), json!({"progress": 1, "total": 4, "message": "a\u{202e}b"})),
            progress(json!(7), json!({"progress": 2, "total": 4})),
            progress(json!("2"), json!({"progress": 0.5, "total": 1})),
            progress(json!(2), json!({"progress": -1})),
            answer,
        ];
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Ok(Reply::new(200).header("content-type", "text/event-stream").body(body))
    });
    let context = testing::context().build();
    let plugin = plugin();
    let definition = plugin["tools"].as_array().unwrap()[1]["definition"].to_string();
    Mcp::call("echo", &definition, &context, "{}").unwrap();
    let told: Vec<_> =
        testing::reported(&context).into_iter().map(|told| (told.done, told.total, told.message)).collect();
    assert_eq!(told, [(1, Some(4), Some("a\\u{202e}b".to_owned())), (50, Some(100), None)]);
    drop(network);
}

#[test]
fn m4_arguments_pass_as_the_model_wrote_them() {
    let network = testing::network(|request| Ok(result(request, json!({"content": []}))));
    let plugin = plugin();
    let definition = plugin["tools"].as_array().unwrap()[1]["definition"].to_string();
    let arguments = "{\"b\": 1.0, \"a\": 12345678901234567890123}";
    Mcp::call("echo", &definition, &testing::context().build(), arguments).unwrap();

    let sent = String::from_utf8(network.sent()[0].body().to_vec()).unwrap();
    assert!(sent.contains(arguments), "{sent}");
}

#[test]
fn m4_marked_arguments_stand_in_header_fields_too() {
    let network = testing::network(|request| Ok(result(request, json!({"content": []}))));
    call(&plugin(), "regional_query", json!({"region": "zürich", "query": "q"})).unwrap();
    call(&plugin(), "regional_query", json!({"query": "q"})).unwrap();

    let sent = network.sent();
    assert_eq!(sent[0].header("mcp-param-region"), Some("=?base64?esO8cmljaA==?="));
    assert_eq!(sent[0].header("mcp-name"), Some("Regional/Query"));
    assert_eq!(sent[1].header("mcp-param-region"), None);
}

#[test]
fn m4_a_name_that_no_header_can_carry_is_encoded() {
    let network = testing::network(|request| Ok(result(request, json!({"content": []}))));
    let plugin = plugin();
    let name = plugin["tools"][3]["name"].as_str().unwrap();
    call(&plugin, name, json!({})).unwrap();
    assert_eq!(network.sent()[0].header("mcp-name"), Some("=?base64?5aSp5rCX?="));
    assert_eq!(network.sent()[0].json()["params"]["name"], "天気");
}

/// R11: providers have blocks for text and media; links and other kinds are told as JSON.
#[test]
fn r11_content_becomes_a_string_or_blocks() {
    let noted = |text: &str| json!({"type": "text", "text": text, "annotations": {"audience": ["user"]}});
    let picture =
        json!({"data": "iVBORw0KGgo=", "mimeType": "image/png", "type": "image", "_meta": {"a": 1}});
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"});
    let link =
        json!({"name": "Blob 1", "uri": "demo://1", "type": "resource_link", "icons": [], "annotations": {}});
    let of = |resource: Value| json!({"type": "resource", "resource": resource});
    for (content, blocks) in [
        (json!([noted("a"), noted("b")]), json!([text("a"), text("b")])),
        (json!([picture]), json!([image])),
        (
            json!([{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}]),
            json!([{"type": "audio", "data": "QUJD", "mime_type": "audio/wav"}]),
        ),
        (
            json!([noted("see"), link]),
            json!([text("see"), text(r#"{"name":"Blob 1","type":"resource_link","uri":"demo://1"}"#)]),
        ),
        (json!([of(json!({"uri": "demo://2", "text": "hi", "_meta": {}}))]), json!([text("demo://2\nhi")])),
        (
            json!([of(json!({"uri": "demo://3", "mimeType": "image/png", "blob": "iVBORw0KGgo="}))]),
            json!([image]),
        ),
        (
            json!([of(json!({"uri": "demo://4", "mimeType": "application/pdf", "blob": "QUJD"}))]),
            json!([text(
                r#"{"resource":{"blob":"[4 characters, left out]","mimeType":"application/pdf","uri":"demo://4"},"type":"resource"}"#
            )]),
        ),
        (
            json!([{"type": "image", "data": "no base64", "mimeType": "image/png"}]),
            json!([text(r#"{"data":"[9 characters, left out]","mimeType":"image/png","type":"image"}"#)]),
        ),
        (json!([{"type": "smell", "note": 1}]), json!([text(r#"{"note":1,"type":"smell"}"#)])),
    ] {
        let found = echo(json!({"content": content, "resultType": "complete"})).unwrap();
        assert_eq!(found, json!({"output": null, "content": blocks}));
    }
    assert_eq!(echo(json!({"content": [noted("hi\u{200b}")]})).unwrap(), "hi\u{200b}");
    assert_eq!(echo(json!({"content": []})).unwrap(), json!(null));
}

#[test]
fn r11_more_pieces_than_blocks_are_joined_and_what_is_too_much_is_told() {
    let picture = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
    let many = |pieces: Vec<Value>| echo(json!({"content": pieces})).unwrap()["content"].clone();
    let texts = many((0..100).map(text).collect());
    assert_eq!(texts.as_array().unwrap().len(), 1);
    assert!(texts[0]["text"].as_str().unwrap().ends_with("\n98\n99"));
    let media = many(vec![picture; 70]);
    assert_eq!(media.as_array().unwrap().len(), 64);
    assert_eq!(media[63], text("[7 more pieces of content are left out]"));
}

/// The result of a call of a tool with an output schema.
fn forecast(answer: Value) -> Result<Value, Error> {
    let _network = testing::network(move |request| Ok(result(request, answer.clone())));
    call(&plugin(), "get_forecast", json!({}))
}

fn text(text: impl ToString) -> Value {
    json!({"type": "text", "text": text.to_string()})
}

/// Null is how serializers write a structure that is not there (arcade-mcp#817).
#[test]
fn m4_structured_content_is_the_result_unless_it_is_null() {
    for value in [json!({"a": 1}), json!([1]), json!("text"), json!(false)] {
        let found = echo(json!({"content": [text(&value)], "structuredContent": value}));
        assert_eq!(found.unwrap(), value);
    }
    let found = echo(json!({"content": [text("hello")], "structuredContent": null, "isError": false}));
    assert_eq!(found.unwrap(), "hello");
    let found = forecast(json!({"content": [text("{\"n\":1}")], "structuredContent": null}));
    assert_eq!(found.unwrap(), json!({"n": 1}));
}

#[test]
fn m4_content_that_the_structure_does_not_say_is_kept_beside_it() {
    let picture = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"});
    let structure = json!({"w": 1, "rows": ["one", "two"], "note": "as said"});
    for (content, more) in [
        (json!([]), vec![]),
        (json!([text("{ \"note\": \"as said\", \"w\": 1, \"rows\": [\"one\", \"two\"] }")]), vec![]),
        (json!([text("one"), text("two"), text("as said"), text(" ")]), vec![]),
        (json!([text("see units in footer"), picture]), vec![text("see units in footer"), image.clone()]),
        (json!([text("one"), picture]), vec![image.clone()]),
    ] {
        let expected = match more.is_empty() {
            true => structure.clone(),
            false => json!({"output": structure, "content": more}),
        };
        let answer = json!({"content": content, "structuredContent": structure});
        assert_eq!(forecast(answer.clone()).unwrap(), expected);
        assert_eq!(echo(answer).unwrap(), expected);
    }
    assert_eq!(forecast(json!({"structuredContent": structure})).unwrap(), structure, "no content at all");
}

#[test]
fn m4_a_text_in_json_is_the_structure_that_was_promised() {
    assert_eq!(forecast(json!({"content": [text("{\"n\": 3}")]})).unwrap(), json!({"n": 3}));
    assert_eq!(
        forecast(json!({"content": [text("done"), text("{\"n\": 3}")]})).unwrap(),
        json!({"output": {"n": 3}, "content": [text("done")]})
    );
    // Without a promise a text stays text. What came in place of the structure is told, since the tool ran.
    assert_eq!(echo(json!({"content": [text("{\"n\": 3}")]})).unwrap(), "{\"n\": 3}");
    for (content, texts) in [
        (json!([text("{}"), text("[]")]), "{}\n[]"),
        (json!([text("plain")]), "plain"),
        (json!([text("3")]), "3"),
    ] {
        let error = forecast(json!({"content": content})).unwrap_err();
        let says = format!("ran, and gave text in place of the structure that it promised: {texts}");
        assert!(error.message().ends_with(&says), "{error}");
    }
}

#[test]
fn m4_content_that_is_no_list_is_taken_or_told() {
    assert_eq!(echo(json!({"content": "hello"})).unwrap(), "hello");
    assert_eq!(echo(json!({"content": text("hello")})).unwrap(), "hello");
    assert_eq!(echo(json!({"content": ["a", "b"]})).unwrap()["content"], json!([text("a"), text("b")]));
    assert_eq!(echo(json!({"toolResult": {"n": 1}, "_meta": {}})).unwrap(), json!({"toolResult": {"n": 1}}));
    assert_eq!(echo(json!({"isError": false})).unwrap(), json!(null));
    let error = echo(json!({"content": 7})).unwrap_err();
    assert!(error.message().contains("neither a list nor a text"), "{error}");
}

#[test]
fn m4_a_failure_is_told_by_its_structure_or_resource_where_no_text_says_it() {
    let failure = |structured: Value, content: Value| {
        echo(json!({"isError": true, "content": content, "structuredContent": structured})).unwrap_err()
    };
    let of = |text: &str| json!({"type": "resource", "resource": {"uri": "log://1", "text": text}});
    for (structured, content, says) in [
        (json!({"error": {"code": "NOT_FOUND", "message": "no such repo"}}), json!([]), "no such repo"),
        (json!({"error": "no such repo"}), json!([text(" ")]), "no such repo"),
        (json!({"errors": [{"message": "no such repo"}]}), json!([]), "no such repo"),
        (json!("no such repo"), json!([]), "no such repo"),
        (json!({"code": 7}), json!([]), "{\"code\":7}"),
        (json!({"code": 7}), json!([of("no such repo")]), "no such repo"),
        (json!({"error": "short"}), json!([text("no such repo")]), "no such repo"),
    ] {
        let error = failure(structured.clone(), content);
        assert_eq!(error.message(), says);
        assert_eq!(details(&error)["structured"], structured);
    }
    let large = failure(json!({"message": "no", "log": "x".repeat(5_000)}), json!([]));
    assert_eq!((large.message(), large.details()), ("no", None));
    assert!(failure(json!(null), json!([])).message().contains("does not say why"));
}

#[test]
fn m4_a_tool_that_failed_says_why() {
    let error = echo(json!({
        "content": [{"text": "Error executing tool fail: cannot be done: x", "type": "text"}], "isError": true,
        "resultType": "complete",
    }))
    .unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        ("TOOL_FAILED", "Error executing tool fail: cannot be done: x")
    );

    let silent = echo(json!({"content": [], "isError": true})).unwrap_err();
    assert!(silent.message().contains("does not say why"));
    let long =
        echo(json!({"content": [{"type": "text", "text": "x".repeat(9_000)}], "isError": true})).unwrap_err();
    assert_eq!(long.message().chars().count(), 4_000);
}

#[test]
fn m4_a_server_that_asks_back_is_told_about() {
    let error = echo(json!({
        "resultType": "input_required",
        "inputRequests": {"login": {"method": "elicitation/create", "params": {"mode": "form", "message": "Your\nname?"}}},
        "requestState": "abc",
    }))
    .unwrap_err();
    assert_eq!(error.code(), "TOOL_FAILED");
    assert_eq!(
        error.message(),
        "tool `echo` of the server asks back (`elicitation/create`: Your name?), which is not supported: call it with \
         everything that it needs"
    );
    let error = echo(json!({"resultType": "task"})).unwrap_err();
    assert!(error.message().contains("kind `task`"), "{error}");

    let missing = json!({
        "code": -32021, "message": "Client did not declare the form elicitation capability required by resolver 'who'",
        "data": {"requiredCapabilities": {"elicitation": {"form": {}}}},
    });
    let error = failure(move |request| error_reply(request, 400, missing.clone()));
    assert!(error.message().contains("wants to ask back"), "{error}");
    assert_eq!(details(&error)["data"], json!({"requiredCapabilities": {"elicitation": {"form": {}}}}));
}

#[test]
fn m4_errors_of_json_rpc_keep_their_code() {
    for (status, code, ours, says) in [
        (200, -32602, "INVALID_ARGUMENTS", "does not take these arguments: no"),
        (400, -32602, "INVALID_ARGUMENTS", "does not take these arguments: no"),
        (404, -32601, "TOOL_FAILED", "error -32601: no"),
        (200, -32603, "TOOL_FAILED", "error -32603: no"),
        (400, -32020, "TOOL_FAILED", "discover them again: no"),
        (400, -32022, "TOOL_FAILED", "discover them again: no"),
        (200, 7, "TOOL_FAILED", "error 7: no"),
    ] {
        let error =
            failure(move |request| error_reply(request, status, json!({"code": code, "message": "no"})));
        assert_eq!((error.code(), &details(&error)["code"]), (ours, &json!(code)));
        assert!(error.message().contains(says), "{error}");
        assert!(!error.is_retryable());
    }
    let large = "x".repeat(5_000);
    let error = failure(move |request| {
        error_reply(request, 200, json!({"code": 1, "message": large.clone(), "data": large.clone()}))
    });
    assert_eq!(details(&error).get("data"), None);
    assert!(error.message().chars().count() < 4_100);
}

#[test]
fn m4_statuses_are_told_with_the_way_out() {
    for (status, says, retryable) in [
        (401, "must bind or renew it", false),
        (403, "does not allow this", false),
        (404, "no MCP server at this address", false),
        (405, "takes no MCP requests at this address", false),
        (307, "leads to `https://mcp.example.com/mcp/`", false),
        (418, "status 418: short and stout", false),
        (429, "status 429", true),
        (503, "status 503", true),
    ] {
        let error = failure(move |_| {
            Reply::text("short and\nstout")
                .status(status)
                .header("location", "https://mcp.example.com/mcp/")
                .header("retry-after", "2")
        });
        assert!(error.message().contains(says), "{error}");
        assert_eq!(*details(&error), json!({"status": status, "retry_after_ms": 2_000}));
        assert_eq!(error.is_retryable(), retryable, "{status}");
    }
    // A refused credential is reported, also beside an error of the protocol.
    let error = failure(|request| error_reply(request, 401, json!({"code": -32602, "message": "x"})));
    assert!(error.message().contains("wants a credential"));
    let page = failure(|_| Reply::new(500).header("content-type", "text/html").body("<title>Oops</title>"));
    assert_eq!(page.message(), "`mcp.example.com` answered with status 500: Oops");
}

/// RFC 6750, 3; RFC 9728, 5.1.
#[test]
fn m4_a_challenge_is_told_with_its_scope_and_the_place_of_the_metadata() {
    let metadata = "https://h/.well-known/oauth-protected-resource/mcp";
    let challenge = format!(
        "Basic realm=\"error\", Bearer error=\"invalid_token\", resource_metadata=\"{metadata}\", scope=\"read write\""
    );
    let error = failure(move |_| Reply::new(401).header("www-authenticate", &challenge));
    for part in ["`error`: invalid_token", "`scope`: read write", &format!("`resource_metadata`: {metadata}")]
    {
        assert!(error.message().contains(part), "{error}");
    }
    assert_eq!(details(&error)["scope"], "read write");
    assert_eq!(details(&error)["resource_metadata"], metadata);
    let error = failure(|_| {
        Reply::json(&json!({"error": "insufficient_scope"}))
            .status(403)
            .header("www-authenticate", "Bearer scope=admin, error=insufficient_scope")
    });
    assert!(error.message().contains("`scope`: admin"), "{error}");
    let error = failure(|_| Reply::new(401).header("www-authenticate", "Bearer realm=\"x\", scope=\"\""));
    assert!(!error.message().contains("scope"), "{error}");
}

#[test]
fn m4_notifications_come_before_the_answer() {
    let stream = |id: u64| {
        format!(
            ": ping\r\n\r\nevent: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{}}}}\r\n\r\n\
             event: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{{\"content\":[]}}}}\r\n\r\n\
             event: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"text\":\"counted to 2\",\"type\":\"text\"}}]}}}}\r\n\r\n"
        )
    };
    let _network = testing::network(move |request| {
        let id = request.json()["id"].as_u64().unwrap();
        Ok(Reply::new(200).header("content-type", "text/event-stream; charset=utf-8").body(stream(id)))
    });
    assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "counted to 2");
}

/// Servers repeat an id as a text or a float, mix media types up, name events as they like, and cut characters in two.
#[test]
fn m4_an_answer_is_taken_however_it_is_written() {
    let of = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [text("hi")]}}).to_string();
    let stream = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
    let (json, events) = ("application/json", "text/event-stream");
    for (content_type, body) in [
        (json, of(json!("2"))),
        (json, of(json!(2.0))),
        (json, format!("\u{feff}{}", of(json!(2)))),
        (json, format!("[{}]", of(json!(2)))),
        (
            json,
            format!("[{},{}]", json!({"jsonrpc": "2.0", "method": "notifications/progress"}), of(json!(2))),
        ),
        (json, stream("message", &of(json!("2")))),
        (events, of(json!(2))),
        (events, stream("response", &of(json!(2)))),
        (events, stream("endpoint", "/messages") + &stream("message", &of(json!(2)))),
        ("text/plain", of(json!(2))),
    ] {
        let reply = Reply::new(200).header("content-type", content_type).body(body.clone());
        let _network = testing::network(move |_| Ok(reply.clone()));
        let found = call(&plugin(), "echo", json!({})).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(found, "hi", "{body}");
    }
    let cut = of(json!(2)).replace("hi", "cut \\ud83d");
    let _network =
        testing::network(move |_| Ok(Reply::new(200).header("content-type", json).body(cut.clone())));
    assert_eq!(call(&plugin(), "echo", json!({})).unwrap(), "cut \u{fffd}");
}

#[test]
fn m4_an_error_is_taken_however_it_is_written() {
    for (error, code, says) in [
        (json!({"code": "-32602", "message": "no"}), json!(-32602), "does not take these arguments: no"),
        (json!({"code": -32603.0, "message": "no"}), json!(-32603), "error -32603: no"),
        (json!({"message": "no"}), json!(0), "answered with an error: no"),
        (json!("no"), json!(0), "answered with an error: no"),
    ] {
        let told_error = error.clone();
        let failure = failure(move |request| error_reply(request, 200, told_error.clone()));
        assert!(failure.message().contains(says), "{failure}");
        assert_eq!(details(&failure)["code"], code, "{error}");
    }
    // Not of JSON-RPC: the status says what it is.
    let other = failure(|_| Reply::json(&json!({"error": {"message": "no"}})).status(418));
    assert!(other.message().contains("status 418"), "{other}");
}

#[test]
fn m4_what_is_no_answer_is_told_so() {
    for (reply, says) in [
        (Reply::new(202), "no message of JSON-RPC"),
        (Reply::text("hello"), "no message of JSON-RPC"),
        (Reply::json(&json!([])), "no message of JSON-RPC"),
        (Reply::json(&json!({"jsonrpc": "2.0", "id": 99, "result": {}})), "no answer to this request"),
        (Reply::json(&json!({"jsonrpc": "2.0", "id": 2})), "no answer to this request"),
        (Reply::json(&json!({"jsonrpc": "2.0", "id": 2, "result": 1})), "gave no result"),
        (
            Reply::new(200).header("content-type", "text/event-stream").body(": bye\n\n"),
            "ended before the answer",
        ),
        (
            Reply::new(200).header("content-type", "text/event-stream").body("data: x\n\n"),
            "no message of JSON-RPC",
        ),
        (
            Reply::json(&json!({"jsonrpc": "2.0", "id": 2, "result": "x".repeat(4 << 20)})),
            "longer than 4194304 bytes",
        ),
    ] {
        let error = failure(move |_| reply.clone());
        assert!(error.message().contains(says), "{error}");
        assert_eq!(error.code(), "TOOL_FAILED");
    }
    let many: Vec<Value> = (0..1_001).map(|_| json!({"type": "text", "text": ""})).collect();
    assert!(echo(json!({"content": many})).unwrap_err().message().contains("more than 1000 pieces"));
}

#[test]
fn m4_a_server_that_is_away_can_be_asked_again() {
    let away = http::Error::Unavailable { host: "mcp.example.com".to_owned(), why: Unavailable::Connect };
    let _network = testing::network(move |_| Err(away.clone()));
    assert!(call(&plugin(), "echo", json!({})).unwrap_err().is_retryable());
}

#[test]
fn m4_a_request_gives_up_before_the_call_is_stopped() {
    let network = testing::network(|request| Ok(result(request, json!({"content": []}))));
    let plugin = plugin();
    let definition = plugin["tools"][1]["definition"].to_string();
    for (left, patience) in [(10_000, 9_750), (100, 50)] {
        let context = testing::context().time_left(Duration::from_millis(left)).build();
        Mcp::call("echo", &definition, &context, "{}").unwrap();
        assert_eq!(network.sent().last().unwrap().timeout(), Some(Duration::from_millis(patience)));
    }
}
