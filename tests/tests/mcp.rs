//! The MCP server (M2): real clients of both families of revisions, and hostile requests. `clients.rs` has a bench of more clients.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

#[path = "mcp/conformance.rs"]
mod conformance;
#[path = "mcp/mounts.rs"]
mod mounts;
#[path = "mcp/waiting.rs"]
mod waiting;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use toolgate_tests::client::Pending;
use toolgate_tests::{Client, Daemon, Reply, Value, guests, json, process, wait};

#[path = "mcp/oauth.rs"]
mod oauth;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

struct Server {
    daemon: Daemon,
    operator: Client,
    agent: Client,
}

impl Server {
    /// A daemon with the agent `acme/bot`, and a token of the role `agent` for it.
    fn start(document: &Value) -> Self {
        Self::start_with("", document)
    }

    fn start_with(settings: &str, document: &Value) -> Self {
        let daemon = Daemon::start(PROGRAM, settings);
        let operator = daemon.operator();
        operator.make_agent("acme/bot", document);
        let agent = json!({"role": "agent", "organization": "acme", "agents": ["bot"]});
        let agent = operator.with_new_token(&agent);
        Self { daemon, operator, agent }
    }

    /// Runs a client, and returns its output.
    fn run(&self, program: &Path, script: &str, folder: &Path) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(script);
        let token_file = self.daemon.folder.path().join("agent.token");
        std::fs::write(&token_file, self.agent.token.as_deref().unwrap_or_default()).expect("written");
        let done = process::external_command(program)
            .arg(&script)
            .current_dir(folder)
            .env("TOOLGATE_URL", format!("http://{}/mcp", self.daemon.address))
            .env("TOOLGATE_TOKEN", self.agent.token.as_deref().unwrap_or_default())
            .env("TOOLGATE_PROGRAM", PROGRAM)
            .env("TOOLGATE_TOKEN_FILE", &token_file)
            .env("TOOLGATE_OPERATOR", self.daemon.operator_token())
            .env("TOOLGATE_RESULTS", self.daemon.folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the program runs");
        let output = String::from_utf8_lossy(&done.stdout).into_owned();
        let log = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {output}{log}", script.display());
        output
    }
}

fn tool_path(path: &str) -> PathBuf {
    process::find_installed(PROGRAM, &format!("clients/{path}"))
}

/// The members that each request of revision 2026-07-28 has.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Sends a request of revision 2026-07-28.
fn send(client: &Client, method: &str, mut params: Value, more: &[(&str, &str)]) -> Reply {
    let own = params["_meta"].take();
    params["_meta"] = meta();
    for (name, value) in own.as_object().into_iter().flatten() {
        params["_meta"][name] = value.clone();
    }
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
    ];
    if !name.is_empty() {
        headers.push(("Mcp-Name", &name));
    }
    headers.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    headers.extend(more);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    client.send("POST", "/mcp", &headers, body.as_bytes())
}

fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    send(client, "tools/call", json!({"name": tool, "arguments": arguments}), &[]).expect(200).json()
}

/// Follows the list in revision 2026-07-28.
fn listen(client: &Client) -> Pending {
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta()});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "subscriptions/listen"),
    ];
    client.start("POST", "/mcp", &headers, body.as_bytes())
}

/// Begins a session of revision 2025-11-25. Returns its id.
fn initialize(client: &Client) -> String {
    initialize_with(client, &json!({}))
}

fn initialize_with(client: &Client, capabilities: &Value) -> String {
    initialize_revision(client, "2025-11-25", capabilities)
}

fn initialize_revision(client: &Client, revision: &str, capabilities: &Value) -> String {
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
    }});
    let begun = client.send("POST", "/mcp", &headers, initialize.to_string().as_bytes()).expect(200);
    begun.header("mcp-session-id").expect("a session").to_owned()
}

fn session_headers(id: &str) -> [(&str, &str); 4] {
    [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", id),
        ("MCP-Protocol-Version", "2025-11-25"),
    ]
}

/// Lists the tools in a session of revision 2025-11-25.
fn list_within(client: &Client, id: &str) -> Reply {
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}).to_string();
    client.send("POST", "/mcp", &session_headers(id), list.as_bytes())
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn m2_the_python_client_uses_every_family_of_revisions() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*", "user/ask"]}));
    server.run(&tool_path("mcp-2/bin/python"), "revisions.py", server.daemon.folder.path());
    let calls = server.operator.audit("kind=call&limit=1");
    assert_eq!(calls[0]["call"]["source"], "mcp", "{calls:?}");
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn m2_the_node_client_hears_of_a_changed_list() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    // Node looks for packages beside the script.
    let folder = tool_path("node");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/list_changed.mjs");
    std::fs::copy(script, folder.join("list_changed.mjs")).expect("copied");
    let script = folder.join("list_changed.mjs");
    server.run(Path::new("node"), script.to_str().expect("a path"), &folder);
}

#[test]
fn m2_hostile_requests_are_refused_and_the_next_is_served() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let good = || {
        let answer = call(&server.agent, "call_arithmetic_evaluate", json!({"expression": "6*7"}));
        assert_eq!(answer["result"]["structuredContent"]["decimal"], "42", "{answer}");
    };
    good();
    let params = json!({"name": "call_arithmetic_evaluate", "arguments": {"expression": "1"}});
    // A header that differs from the body.
    for header in [("Mcp-Name", "call_arithmetic_other"), ("Mcp-Method", "tools/list")] {
        let reply = send(&server.agent, "tools/call", params.clone(), &[header]);
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32020)), "{}", reply.text());
    }
    // Arguments that two parsers read differently, and a twin that all read alike.
    let call_with = |arguments: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"call_arithmetic_evaluate","arguments":{arguments},"_meta":{}}}}}"#,
            meta()
        );
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "call_arithmetic_evaluate"),
        ];
        server.agent.send("POST", "/mcp", &headers, body.as_bytes()).expect(200).json()["result"].clone()
    };
    assert_eq!(call_with(r#"{"expression":"6*7"}"#)["structuredContent"]["decimal"], "42");
    for (ambiguous, told) in [
        (r#"{"expression":"1","expression":"6*7"}"#, "duplicate key"),
        (r#"{"expression":"6*7","digits":123456789012345678901}"#, "does not fit 64 bits"),
    ] {
        let refused = call_with(ambiguous);
        assert!(refused["isError"] == true && refused["content"].to_string().contains(told), "{refused}");
    }
    let reply = send(&server.agent, "tools/list", json!({}), &[("MCP-Protocol-Version", "1999-01-01")]);
    assert!(reply.status == 400 && reply.text().contains("2026-07-28"), "{}", reply.text());
    for (body, code) in [("{", -32700), ("[]", -32600), ("\"x\"", -32600), ("{\"jsonrpc\":\"2.0\"}", -32600)]
    {
        let headers =
            [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        let reply = server.agent.send("POST", "/mcp", &headers, body.as_bytes()).expect(400);
        assert_eq!(reply.json()["error"]["code"], code, "{body}");
    }
    let reply = server.agent.send(
        "POST",
        "/mcp",
        &[("Content-Type", "application/json"), ("Accept", "text/html")],
        b"{}",
    );
    assert_eq!(reply.status, 406);
    let large = vec![b' '; 11 << 20];
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    server.agent.send("POST", "/mcp", &headers, &large).expect_refusal(413, "TOO_LARGE");
    send(&server.daemon.anonymous(), "tools/list", json!({}), &[]).expect_refusal(401, "UNAUTHENTICATED");
    let auditor = server.operator.with_new_token(&json!({"role": "auditor"}));
    send(&auditor, "tools/list", json!({}), &[]).expect_refusal(403, "FORBIDDEN");
    good();
}

#[test]
fn m2_a_session_of_an_older_revision_works_for_its_own_token_alone() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let id = initialize(&server.agent);
    let within = |client: &Client| list_within(client, &id);
    assert!(within(&server.agent).expect(200).text().contains("call_arithmetic_evaluate"));
    let other = json!({"role": "agent", "organization": "acme", "agents": ["bot"]});
    let other = server.operator.with_new_token(&other);
    within(&other).expect(404);
    server.agent.send("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], b"").expect(204);
    within(&server.agent).expect(404);
}

/// Clients name one type, a wildcard or none, and get what they take. Those of older revisions get no event without data.
#[test]
fn m2_each_header_accept_of_real_clients_is_served() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let arguments = json!({"name": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}});
    let older = initialize_revision(&server.agent, "2025-06-18", &json!({}));
    for (accept, is_json) in [
        (Some("application/json"), Some(true)),
        (Some("text/event-stream"), Some(false)),
        (Some("*/*"), None),
        (Some("application/*"), Some(true)),
        (None, None),
    ] {
        let mut newer = vec![
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "call_arithmetic_evaluate"),
        ];
        let mut within = vec![
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2025-06-18"),
            ("Mcp-Session-Id", &*older),
        ];
        for headers in [&mut newer, &mut within] {
            headers.extend(accept.map(|accept| ("Accept", accept)));
        }
        for (headers, own) in [(newer, meta()), (within, json!({}))] {
            let mut params = arguments.clone();
            params["_meta"] = own;
            let call =
                json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
            let reply = server.agent.send("POST", "/mcp", &headers, call.as_bytes()).expect(200);
            let is_sent_as_json = reply.header("content-type") == Some("application/json");
            assert!(is_json.is_none_or(|is_json| is_json == is_sent_as_json), "{accept:?}");
            let text = reply.text();
            let answer = match is_sent_as_json {
                true => text.as_str(),
                false => text
                    .split("data:")
                    .nth(1)
                    .and_then(|data| data.split('\n').next())
                    .expect("the first event"),
            };
            let answer: Value = serde_json::from_str(answer).expect("JSON");
            assert_eq!(
                (&answer["id"], &answer["result"]["structuredContent"]["decimal"]),
                (&json!(7), &json!("42"))
            );
        }
    }
}

/// A client attaches the id of its last session to `initialize`, also after a restart.
#[test]
fn m2_a_session_begins_whatever_session_the_client_had() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    let mut headers = session_headers("gone").to_vec();
    headers.truncate(3);
    let begun = server.agent.send("POST", "/mcp", &headers, initialize.to_string().as_bytes()).expect(200);
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    list_within(&server.agent, &id).expect(200);
    list_within(&server.agent, "gone").expect(404);
    // PHP writes an empty object as a list, and models write arguments as a text.
    for (method, params) in [
        ("tools/list", json!([])),
        ("tools/list", json!({"cursor": ""})),
        ("tools/call", json!({"name": "call_arithmetic_evaluate", "arguments": "{\"expression\":\"6*7\"}"})),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let reply = server.agent.send("POST", "/mcp", &session_headers(&id), message.as_bytes()).expect(200);
        let text = reply.text();
        assert!(text.contains("\"result\"") && !text.contains("\"isError\":true"), "{method}: {text}");
    }
}

#[test]
fn m2_the_token_decides_the_agent() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    server.operator.make_agent("acme/other", &json!({"enabled": ["text/*"]}));
    let path = |client: &Client, query: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}});
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        client.send("POST", &format!("/mcp{query}"), &headers, body.to_string().as_bytes())
    };
    let orchestrator =
        server.operator.with_new_token(&json!({"role": "orchestrator", "organization": "acme"}));
    path(&orchestrator, "").expect_refusal(400, "INVALID_REQUEST");
    assert!(path(&orchestrator, "?agent=other").expect(200).text().contains("call_text_csv_parse"));
    assert!(path(&orchestrator, "?agent=bot").expect(200).text().contains("call_arithmetic_evaluate"));
    path(&server.agent, "?agent=bot").expect(200);
    path(&server.agent, "?agent=other").expect_refusal(404, "NOT_FOUND");
    let rival = json!({"role": "orchestrator", "organization": "rival"});
    server.operator.make_agent("rival/bot", &json!({"enabled": "*"}));
    let rival = server.operator.with_new_token(&rival);
    path(&rival, "?agent=acme/bot").expect_refusal(404, "NOT_FOUND");
    path(&orchestrator, "?agent=bot&user=u-17").expect(200);
    path(&server.agent, "?user=u-17").expect_refusal(403, "FORBIDDEN");
    server.agent.post("/v1/sessions", &json!({"agent": "acme/bot"})).expect_refusal(403, "FORBIDDEN");
}

/// K5, O4: the calls of an agent's token are made for its user, also after a restart, and in sessions of their own.
#[test]
fn k5_a_token_of_an_agent_names_its_user() {
    let mut server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let token = |user: Value| {
        let request = json!({"role": "agent", "organization": "acme", "agents": ["bot"], "user": user});
        server.operator.post("/v1/tokens", &request)
    };
    for wrong in [json!(""), json!("a\nb"), json!("x".repeat(256))] {
        token(wrong).expect_refusal(400, "INVALID_REQUEST");
    }
    let orchestrator = json!({"role": "orchestrator", "organization": "acme", "user": "ann"});
    server.operator.post("/v1/tokens", &orchestrator).expect_refusal(400, "INVALID_REQUEST");
    let made = token(json!("ann")).expect(201).json();
    assert_eq!(made["user"], "ann");
    let text = made["token"].as_str().expect("a token").to_owned();
    let users = |server: &Server| {
        for token in [Some(&*text), server.agent.token.as_deref()] {
            let client = Client::new(server.daemon.address, token);
            call(&client, "call_arithmetic_evaluate", json!({"expression": "1"}));
        }
        let rows = server.daemon.operator().audit("kind=call&limit=2");
        assert_ne!(rows[0]["call"]["session"], rows[1]["call"]["session"]);
        [rows[1]["call"]["user"].clone(), rows[0]["call"]["user"].clone()]
    };
    assert_eq!(users(&server), [json!("ann"), Value::Null]);
    server.daemon = server.daemon.crash_and_restart();
    assert_eq!(users(&server), [json!("ann"), Value::Null]);
}

#[test]
fn m2_the_embedded_daemon_serves_an_agent_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    toolgate_tests::compiled_code::restore(Path::new(PROGRAM), &data).expect("the compiled code is copied");
    let mut child = Command::new(PROGRAM)
        .args(["mcp", "--stdio", "--embedded", "--data"])
        .arg(&data)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("its input");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut ask = |id: u64, method: &str, mut params: Value| {
        params["_meta"] = meta();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").expect("written");
        let line = lines.next().expect("an answer").expect("a line");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    let listed = ask(1, "tools/list", json!({}));
    assert!(listed.to_string().contains("call_files_write"), "{listed}");
    let params = json!({"name": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}});
    let done = ask(2, "tools/call", params);
    assert_eq!(
        (&done["id"], &done["result"]["structuredContent"]["decimal"]),
        (&json!(2), &json!("42")),
        "{done}"
    );
    // An open subscription does not outlive the input.
    let listens = ask(3, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(listens["method"], "notifications/subscriptions/acknowledged", "{listens}");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// A desktop client cannot begin its session again, so the bridge does it: the daemon forgets the oldest of many, and all when it
/// is restarted.
#[test]
fn m2_the_bridge_begins_a_lost_session_again() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let folder = server.daemon.folder.path();
    std::fs::write(folder.join("agent.token"), server.agent.token.as_deref().expect("a token"))
        .expect("written");
    let mut bridge = Command::new(PROGRAM)
        .args(["mcp", "--stdio", "--token-file", "agent.token", "--server"])
        .arg(format!("http://{}", server.daemon.address))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = bridge.stdin.take().expect("its input");
    let mut lines = BufReader::new(bridge.stdout.take().expect("its output")).lines();
    let mut ask = |id: u64, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").expect("written");
        let answer = lines.by_ref().map(|line| line.expect("a line"));
        let mut answer = answer.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
        answer.find(|answer| answer["id"] == id).expect("an answer")
    };
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    ask(1, "initialize", begin);
    let call = json!({"name": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}});
    for id in [2, 3] {
        let done = ask(id, "tools/call", call.clone());
        assert_eq!(done["result"]["structuredContent"]["decimal"], "42", "{done}");
        // As many sessions as a token may have.
        for _ in 0..64 {
            initialize(&server.agent);
        }
    }
    drop(input);
    assert!(bridge.wait().expect("it ends").success());
}

#[test]
fn m2_the_configurations_in_the_docs_are_understood() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/docs/mcp.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks: Vec<Value> = page
        .split("```json\n")
        .skip(1)
        .map(|block| serde_json::from_str(block.split("```").next().unwrap_or_default()).expect("JSON"))
        .collect();
    let servers = ["mcpServers", "servers", "context_servers"];
    let mut commands = 0;
    for block in &blocks {
        let server = servers.iter().map(|name| &block[name]["toolgate"]).find(|server| server.is_object());
        let server = server.unwrap_or_else(|| panic!("no server: {block}"));
        if let Some(url) = server["url"].as_str() {
            assert!(url.ends_with("/mcp"), "{url}");
            continue;
        }
        let arguments: Vec<String> = serde_json::from_value(server["args"].clone()).expect("arguments");
        // With `--help` the options are read, and nothing runs.
        let done = Command::new(PROGRAM).args(&arguments).arg("--help").output().expect("the program runs");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        commands += 1;
    }
    assert_eq!((blocks.len(), commands), (4, 3));
}

#[test]
fn m2_a_tool_for_the_client_is_listed_where_the_client_performs_it() {
    let server = Server::start(&json!({"enabled": ["user/ask"]}));
    let list =
        |meta: Value| send(&server.agent, "tools/list", json!({"_meta": meta}), &[]).expect(200).text();
    assert!(!list(json!({})).contains("call_user_ask"));
    assert!(list(json!({"toolgate/client-tools": true})).contains("call_user_ask"));
    let explained = |tool: &str| {
        let path = format!("/v1/orgs/acme/agents/bot/explain?tool={tool}");
        server.operator.get(&path).expect(200).json()["tools"][0].clone()
    };
    let ask = explained("user%2Fask");
    assert!(ask["left_out"].as_str().is_some_and(|text| text.contains("toolgate/client-tools")), "{ask}");
    assert_eq!(explained("time%2Fnow")["left_out"], Value::Null);
    // A client that does not wait is told what the call waits for, and one that asks nobody that it must ask in another way.
    let ask = |meta: Value| {
        let params = json!({"name": "call_user_ask", "arguments": {"question": "Which day?"}, "_meta": meta});
        let answer = send(&server.agent, "tools/call", params, &[]).expect(200).json();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    };
    let waiting = ask(json!({"toolgate/client-tools": true, "toolgate/wait-ms": 0}));
    assert!(waiting.contains("waits for the client"), "{waiting}");
    let refused = ask(json!({}));
    assert!(refused.contains("shows its user no questions"), "{refused}");
}

/// The Python client answers such a question; one that does not answer gets the end of the call.
#[test]
fn m2_a_question_without_an_answer_waits_no_longer_than_its_call() {
    let agent = json!({"enabled": ["user/ask"]});
    let server = Server::start_with("[calls]\nclient_result_seconds = 1", &agent);
    let session = initialize_with(&server.agent, &json!({"elicitation": {}}));
    let params = json!({"name": "call_user_ask", "arguments": {"question": "Which day?"}});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}).to_string();
    let answer = server.agent.send("POST", "/mcp", &session_headers(&session), call.as_bytes());
    let answer = answer.expect(200).text();
    assert!(answer.contains("\"isError\":true") && answer.contains("posted no result"), "{answer}");
}

/// R10: a client refuses a result without the promised structure, which a result in the workspace has not.
#[test]
fn m2_a_result_that_is_too_large_is_told_with_its_place() {
    let server = Server::start(&json!({"enabled": ["text/*"], "limits": {"output_bytes": 2_000}}));
    let parse = |lines: usize| {
        let text = format!("a\n{}", "one more line\n".repeat(lines));
        call(&server.agent, "call_text_csv_parse", json!({"text": text}))["result"].clone()
    };
    let small = parse(3);
    assert!(small["structuredContent"]["rows"].is_array() && small["isError"] != true, "{small}");
    let large = parse(1_000);
    assert_eq!((&large["isError"], large.get("structuredContent")), (&json!(true), None), "{large}");
    let text = large["content"][0]["text"].as_str().expect("a text");
    assert!(text.starts_with("The tool ran.") && text.contains("/workspace/.results/"), "{text}");
}

/// R6: both revisions can cancel a call, the older one by a notification, the later one by closing the stream.
#[test]
fn r6_a_cancelled_request_and_a_closed_stream_stop_their_calls() {
    let server = Server::start(&json!({"enabled": ["hostile/*"], "autonomy": "autonomous"}));
    server.operator.load("hostile", guests::HOSTILE);
    let wait_for = |status: &str, count: usize| {
        wait::until_true(status, || {
            let calls = server.operator.audit("kind=call&limit=10");
            calls.iter().filter(|call| call["status"] == status).count() == count
        });
    };
    let call = |meta: Value| {
        let doze = json!({"name": "call_hostile_doze", "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": doze}).to_string()
    };
    let session = initialize(&server.agent);
    let headers = session_headers(&session);
    let waiting = server.agent.start("POST", "/mcp", &headers, call(json!({})).as_bytes());
    wait_for("running", 1);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    server.agent.send("POST", "/mcp", &headers, cancel.to_string().as_bytes()).expect(202);
    wait_for("cancelled", 1);
    waiting.hang_up();
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "call_hostile_doze"),
    ];
    let waiting = server.agent.start("POST", "/mcp", &headers, call(meta()).as_bytes());
    wait_for("running", 1);
    waiting.hang_up();
    wait_for("cancelled", 2);
}

/// R3: files outlive a restart and a new connection. A conversation of another name has none of them.
#[test]
fn m2_a_client_that_comes_back_finds_its_files() {
    let server = Server::start(&json!({"enabled": ["files/*"], "autonomy": "autonomous"}));
    let path = |query: &str| format!("/mcp{query}");
    let connect = |server: &Server, query: &str| {
        let headers =
            [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }});
        let begun =
            server.agent.send("POST", &path(query), &headers, begin.to_string().as_bytes()).expect(200);
        begun.header("mcp-session-id").expect("a session").to_owned()
    };
    let within = |server: &Server, query: &str, session: &str, tool: &str, arguments: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let headers = session_headers(session);
        server.agent.send("POST", &path(query), &headers, call.to_string().as_bytes()).expect(200).text()
    };
    let write = |text: &str| json!({"path": "notes.txt", "content": text});
    let read = json!({"path": "notes.txt"});
    let query = "?conversation=c-42";
    let session = connect(&server, query);
    within(&server, query, &session, "call_files_write", write("of c-42"));
    server.agent.send("DELETE", &path(query), &[("Mcp-Session-Id", &session)], b"").expect(204);
    call(&server.agent, "call_files_write", write("shared"));

    let daemon = server.daemon.crash_and_restart();
    let agent = Client::new(daemon.address, server.agent.token.as_deref());
    let server = Server { operator: daemon.operator(), agent, daemon };
    let session = connect(&server, query);
    assert!(within(&server, query, &session, "call_files_read", read.clone()).contains("of c-42"));
    let other = connect(&server, "?conversation=c-43");
    let unknown = within(&server, "?conversation=c-43", &other, "call_files_read", read.clone());
    assert!(unknown.contains("there is no `notes.txt`"), "{unknown}");
    let shared = call(&server.agent, "call_files_read", read);
    assert!(shared.to_string().contains("shared"), "{shared}");
    // One session for each conversation that made a call, before and after the restart.
    let sessions = server.operator.get("/v1/sessions?state=open").expect(200).json();
    assert_eq!(sessions["items"].as_array().map(Vec::len), Some(3), "{sessions}");
}

#[test]
fn m2_a_subscription_ends_with_its_token() {
    let server = Server::start(&json!({"enabled": ["arithmetic/*"]}));
    let token = json!({"role": "agent", "organization": "acme", "agents": ["bot"]});
    let made = server.operator.post("/v1/tokens", &token).expect(201).json();
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str());
    let client = Client::new(server.daemon.address, token);
    let listening = listen(&client);
    server.operator.delete(&format!("/v1/tokens/{id}")).expect(204);
    // Its response ends, where it would go on for ever with a valid token.
    listening.all().expect("the end of the stream");
    send(&client, "tools/list", json!({}), &[]).expect_refusal(401, "UNAUTHENTICATED");
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs Python, which `.ci/run` sets up")]
fn m2_the_program_in_the_docs_is_python() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../daemon/docs/mcp.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let program =
        page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let check = "import ast, sys; ast.parse(sys.argv[1])";
    let done =
        Command::new(tool_path("mcp-2/bin/python")).args(["-c", check, program]).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
