//! Calls that wait over MCP: for a person (G11), as tasks, and while the daemon stops (R6).

use super::*;

#[test]
fn m2_a_call_waits_for_an_approval_and_runs_once() {
    let server = Server::start(&json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let write = json!({"path": "notes.txt", "content": "hello"});
    let approver = server.operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let answer = std::thread::scope(|threads| {
        let calling = threads.spawn(|| call(&server.agent, "call_files_write", write.clone()));
        let approval = toolgate_tests::wait::until("the approval", || {
            let list = approver.get("/v1/approvals").expect(200).json();
            list["items"][0]["id"].as_str().map(str::to_owned)
        });
        server.agent.get("/v1/approvals").expect(403);
        let decision = json!({"decision": "approve"});
        approver.post(&format!("/v1/approvals/{approval}"), &decision).expect(200);
        calling.join().expect("an answer")
    });
    assert_eq!(answer["result"]["structuredContent"]["bytes"], 5, "{answer}");
}

/// A daemon whose agent waits for a person before each write, and the token of the person.
fn supervised() -> (Server, Client) {
    let server = Server::start(&json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let owner = server.operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    (server, owner)
}

/// Waits for the only pending approval. Returns its path.
fn pending_approval(approver: &Client) -> String {
    wait::until("the approval", || {
        let list = approver.get("/v1/approvals?state=pending").expect(200).json();
        let items = list["items"].as_array().expect("approvals");
        assert!(items.len() < 2, "a call that waits asks once: {items:?}");
        items.first().and_then(|item| item["id"].as_str()).map(|id| format!("/v1/approvals/{id}"))
    })
}

fn write_call(path: &str) -> Value {
    json!({"name": "call_files_write", "arguments": {"path": path, "content": "hello"}})
}

/// Sends a call in a session of revision 2025-11-25. Returns the text of its response.
fn call_within(client: &Client, session: &str, params: &Value) -> String {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    client.send("POST", "/mcp", &session_headers(session), call.as_bytes()).expect(200).text()
}

/// G11: a waiting call is posted again only when it is decided, so it neither fills the log nor asks again for what was denied.
#[test]
fn g11_a_denial_reaches_a_waiting_client_of_each_revision_and_a_wait_records_nothing() {
    const ROUNDS: usize = 100;
    let (server, owner) = supervised();
    let session = initialize(&server.agent);
    for round in 0..2 * ROUNDS {
        let write = write_call(&format!("{round}.txt"));
        let answer = std::thread::scope(|threads| {
            let calling = threads.spawn(|| match round % 2 {
                0 => call(&server.agent, "call_files_write", write["arguments"].clone()).to_string(),
                _ => call_within(&server.agent, &session, &write),
            });
            owner.post(&pending_approval(&owner), &json!({"decision": "deny"})).expect(200);
            calling.join().expect("an answer")
        });
        assert!(answer.contains("a person denied this call"), "{round}: {answer}");
    }
    // One record that it waits, and one of its end.
    let records = server.operator.audit("kind=call&limit=500").len();
    assert!(records <= 2 * 2 * ROUNDS, "{records} records of {} calls", 2 * ROUNDS);
}

/// G11: a client that posts again and again asks once, and is told the denial.
#[test]
fn g11_a_denial_reaches_a_client_that_posts_in_a_loop() {
    let (server, owner) = supervised();
    for round in 0..20 {
        let write = write_call(&format!("{round}.txt"));
        let post = || send_at(&server.agent, "/mcp?wait_ms=0", &write).to_string();
        std::thread::scope(|threads| {
            let calling = threads.spawn(|| while !post().contains("a person denied this call") {});
            owner.post(&pending_approval(&owner), &json!({"decision": "deny"})).expect(200);
            calling.join().expect("the denial");
        });
        let waiting = owner.get("/v1/approvals?state=pending").expect(200).json();
        assert_eq!(waiting["items"], json!([]), "{round}: it is asked again");
    }
}

/// Sends a call of revision 2026-07-28 to an address.
fn send_at(client: &Client, address: &str, call: &Value) -> Value {
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "call_files_write"),
    ];
    let mut params = call.clone();
    params["_meta"] = meta();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    client.send("POST", address, &headers, body.as_bytes()).expect(200).json()
}

/// G11: the approval of a client that gave up can still be given, and the call that it makes again runs.
#[test]
fn g11_a_client_that_gives_up_finds_its_call_again() {
    let (server, owner) = supervised();
    let session = initialize(&server.agent);
    let write = write_call("notes.txt");
    let waiting = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": write}).to_string();
    let waiting = server.agent.start("POST", "/mcp", &session_headers(&session), waiting.as_bytes());
    let approval = pending_approval(&owner);
    // Until its answer is recorded, the call still runs, and a cancellation ends it.
    wait::until_true("the call to wait", || {
        server.operator.audit("kind=call&limit=1").iter().any(|call| call["status"] == "approval_required")
    });
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    server.agent.send("POST", "/mcp", &session_headers(&session), cancel.to_string().as_bytes()).expect(202);
    waiting.hang_up();
    assert_eq!(pending_approval(&owner), approval);
    owner.post(&approval, &json!({"decision": "approve"})).expect(200);
    let answer = call_within(&server.agent, &session, &write);
    assert!(answer.contains("\"bytes\":5"), "{answer}");
}

/// The address says how long a call waits, since no framework lets its user set `_meta`.
#[test]
fn g11_a_client_says_in_its_address_how_long_a_call_waits() {
    let (server, owner) = supervised();
    let send = || send_at(&server.agent, "/mcp?wait_ms=0", &write_call("notes.txt"));
    let answer = send();
    assert!(answer["result"]["isError"] == true && answer.to_string().contains("approval"), "{answer}");
    owner.post(&pending_approval(&owner), &json!({"decision": "approve"})).expect(200);
    let answer = send();
    assert_eq!(answer["result"]["structuredContent"]["bytes"], 5, "{answer}");
}

/// Sends a request of a client that takes tasks.
fn send_with_tasks(client: &Client, method: &str, mut params: Value) -> Value {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let name = params["taskId"].as_str().unwrap_or_default().to_owned();
    let headers: &[(&str, &str)] = if name.is_empty() { &[] } else { &[("Mcp-Name", &name)] };
    send(client, method, params, headers).json()
}

#[test]
fn m2_a_call_that_waits_for_a_person_is_a_task() {
    let server = Server::start(&json!({"enabled": ["files/*"], "autonomy": "supervised"}));
    let owner = server.operator.with_new_token(&json!({"role": "owner", "organization": "acme"}));
    let begin = |path: &str| {
        let write = json!({"name": "call_files_write", "arguments": {"path": path, "content": "hello"}});
        let begun = send_with_tasks(&server.agent, "tools/call", write);
        assert_eq!(begun["result"]["resultType"], "task", "{begun}");
        begun["result"]["taskId"].as_str().expect("an id").to_owned()
    };
    let ask = |method: &str, task: &str| send_with_tasks(&server.agent, method, json!({"taskId": task}));
    let task = begin("notes.txt");
    let state = ask("tasks/get", &task);
    assert_eq!(state["result"]["status"], "working", "{state}");
    let approval = owner.get("/v1/approvals").expect(200).json()["items"][0]["id"].clone();
    let message = state["result"]["statusMessage"].as_str().unwrap_or_default();
    assert!(message.contains(approval.as_str().expect("an id")), "{state}");
    // Another agent's token does not find it.
    server.operator.make_agent("acme/other", &json!({"enabled": ["files/*"]}));
    let other = json!({"role": "agent", "organization": "acme", "agents": ["other"]});
    let other = server.operator.with_new_token(&other);
    let foreign = send_with_tasks(&other, "tasks/get", json!({"taskId": task}));
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    // Without the extension a client cannot ask for tasks.
    let reply = send(&server.agent, "tasks/get", json!({"taskId": task}), &[("Mcp-Name", &task)]).json();
    assert_eq!(reply["error"]["code"], -32021, "{reply}");

    let approval = approval.as_str().expect("an id");
    owner.post(&format!("/v1/approvals/{approval}"), &json!({"decision": "approve"})).expect(200);
    for _ in 0..2 {
        let done = ask("tasks/get", &task);
        assert_eq!(done["result"]["status"], "completed", "{done}");
        assert_eq!(done["result"]["result"]["structuredContent"]["bytes"], 5, "{done}");
    }
    let cancelled = begin("other.txt");
    assert_eq!(ask("tasks/cancel", &cancelled)["result"]["resultType"], "complete");
    assert_eq!(ask("tasks/get", &cancelled)["result"]["status"], "cancelled");
    let update = |task: &str| {
        send_with_tasks(&server.agent, "tasks/update", json!({"taskId": task, "inputResponses": {}}))
    };
    assert_eq!(update(&cancelled)["result"]["resultType"], "complete");
    assert_eq!(update("c_unknown")["error"]["code"], -32602);
    assert_eq!(ask("tasks/get", "c_unknown")["error"]["code"], -32602);
}

/// R6: a graceful stop waits for calls over MCP as for those over HTTP, ends subscriptions, and lets no call wait for a person.
#[test]
fn r6_a_stop_waits_for_running_calls_of_each_revision() {
    let document = json!({"enabled": ["hostile/*", "files/*"], "require_approval_for": ["files/*"], "autonomy": "autonomous"});
    let mut server = Server::start_with("drain_seconds = 600", &document);
    server.operator.load("hostile", guests::HOSTILE);
    let session = initialize(&server.agent);
    let request = |id: u64, params: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let headers = session_headers(&session);
    let rest = |meta: Value| json!({"name": "call_hostile_rest", "arguments": {"ms": 5_000}, "_meta": meta});
    let newer = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "call_hostile_rest"),
    ];
    let running = [
        server.agent.start("POST", "/mcp", &headers, request(7, &rest(json!({}))).as_bytes()),
        server.agent.start("POST", "/mcp", &newer, request(7, &rest(meta())).as_bytes()),
    ];
    let waiting =
        server.agent.start("POST", "/mcp", &headers, request(8, &write_call("notes.txt")).as_bytes());
    let listening = listen(&server.agent);
    wait::until_true("two running calls and one that waits", || {
        let calls = server.operator.audit("kind=call&limit=10");
        let count = |status: &str| calls.iter().filter(|call| call["status"] == status).count();
        count("running") == 2 && count("approval_required") == 1
    });
    server.daemon.terminate();
    for call in running {
        let text = call.reply().expect(200).text();
        assert!(text.contains("5000") && !text.contains("\"isError\":true"), "{text}");
    }
    let text = waiting.reply().expect(200).text();
    assert!(text.contains("approval"), "{text}");
    listening.all().expect("the end of the stream");
    assert!(server.daemon.wait_for_exit().success());
}
