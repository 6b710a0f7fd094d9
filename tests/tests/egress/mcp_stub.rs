//! Mounts of MCP servers (M4) that answer as servers in the wild do, scripted. Real servers are in `mcp/mounts.rs`.

use std::sync::{Arc, Mutex, PoisonError};

use toolgate_tests::upstream::Piece;
use toolgate_tests::{Client, Session, Value, json};

use super::{Fixture, upstream, with_fixture};

/// A server of 2025-11-25 with these tools, whose calls and resumptions `called` answers.
fn serve(
    fixture: &Fixture,
    tools: Value,
    called: impl Fn(&str, &Value) -> Vec<Piece> + Send + Sync + 'static,
) {
    fixture.upstream.answer(move |request| {
        let body = request.rsplit("\r\n\r\n").next().unwrap_or_default();
        let message: Value = body.parse().unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
            Some("tools/list") => json!({"tools": tools, "nextCursor": ""}),
            Some("tools/call") | None => return called(request, &message),
            Some(_) => return upstream::answer(202, &[("Connection", "close")], b""),
        };
        upstream::ok("application/json", &answer(&message, &result))
    });
}

fn answer(message: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

/// An organization that may mount the server.
struct Tenant {
    operator: Client,
    organization: &'static str,
}

impl Tenant {
    fn new(fixture: &Fixture, organization: &'static str) -> Self {
        let operator = fixture.daemon.operator();
        operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
        let grant = fixture
            .upstream
            .grant(json!({"network": [{"host": "api.upstream.test", "port": 8443, "path": "/mcp"}]}));
        operator.make(&format!("/v1/orgs/{organization}/tools/wiki/grant"), &grant).expect(201);
        Self { operator, organization }
    }

    fn mount(&self) -> toolgate_tests::Reply {
        let definition = json!({
            "kind": "mcp", "description": "Pages.", "url": "https://api.upstream.test:8443/mcp", "protocol": "2025-11-25",
        });
        self.operator.make(&format!("/v1/orgs/{}/tools/wiki", self.organization), &definition)
    }

    fn session(&self) -> Session {
        self.operator.open_session(&format!("{}/bot", self.organization))
    }
}

#[test]
fn m4_a_mount_without_a_usable_tool_says_which_and_why() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "leftout");
        let tools = json!([
            {"name": "old", "inputSchema": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}},
            {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}},
        ]);
        serve(fixture, tools, |_, _| Vec::new());
        let refused = tenant.mount().expect_refusal(422, "INVALID_POLICY").json();
        let left_out = &refused["details"]["left_out"];
        assert_eq!(
            (&left_out[0]["name"], &left_out[1]["name"]),
            (&json!("old"), &json!("remote")),
            "{refused}"
        );
        let told = refused["detail"].as_str().unwrap_or_default();
        assert!(
            told.contains("`old`: ") && told.contains("draft-04") && told.contains("another document"),
            "{told}"
        );
        let acts = tenant.operator.audit("kind=admin&organization=leftout");
        let act = acts.iter().find(|row| row["admin"]["action"] == "tool.left_out").expect("recorded");
        assert_eq!(&act["admin"]["details"]["left_out"], left_out, "{act}");
    });
}

/// The refusal of the address is told, and not that of the request with which the oldest transport was tried.
#[test]
fn m4_an_address_without_a_server_is_told_as_such_where_get_is_not_granted() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("nothing/bot", &json!({"enabled": ["*"]}));
        let host =
            json!({"host": "api.upstream.test", "port": 8443, "path": "/mcp", "methods": ["POST", "DELETE"]});
        let grant = fixture.upstream.grant(json!({"network": [host]}));
        operator.make("/v1/orgs/nothing/tools/wiki/grant", &grant).expect(201);
        fixture.upstream.answer(|_| upstream::answer(404, &[("Connection", "close")], b""));
        let definition =
            json!({"kind": "mcp", "description": "Pages.", "url": "https://api.upstream.test:8443/mcp"});
        let refused = operator.make("/v1/orgs/nothing/tools/wiki", &definition);
        let told = refused.text();
        assert!(
            told.contains("status 404")
                && told.contains("2024-11-05 could not be tried")
                && !told.contains("NETWORK_DENIED"),
            "{told}"
        );
    });
}

#[test]
fn m4_what_servers_in_the_wild_send_is_mounted_with_notes_and_called() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "wild");
        let tools = json!([{
            "name": "probe", "description": "Looks something up.",
            "inputSchema": {
                "$schema": "https://json-schema.org/draft-07/schema", "type": "object",
                "properties": {"name": {"type": "string", "pattern": "^[\\w-.]+$", "description": null}},
            },
            "outputSchema": {
                "type": "object", "required": ["at"], "properties": {"at": {"type": "string", "format": "date-time"}},
            },
        }]);
        let structure = json!({"at": "2024-01-01T10:00:00"});
        let content = json!([{"type": "text", "text": "local time"}]);
        let result = json!({"content": content, "structuredContent": structure});
        // The server closes the stream while it computes, and answers to the request that resumes it.
        let call = Arc::new(Mutex::new(Value::Null));
        serve(fixture, tools, move |request, message| {
            let mut call = call.lock().unwrap_or_else(PoisonError::into_inner);
            if message["method"] == "tools/call" {
                *call = message.clone();
                return upstream::ok("text/event-stream", "id: e1\nretry: 1\ndata: \n\n");
            }
            let is_resumed =
                request.starts_with("GET /mcp ") && request.to_lowercase().contains("last-event-id: e1");
            match is_resumed {
                true => {
                    let event = format!("id: e2\ndata: {}\n\n", answer(&call, &result));
                    upstream::ok("text/event-stream", &event)
                }
                false => upstream::answer(200, &[("Connection", "close")], b""),
            }
        });
        let made = tenant.mount().expect(201).json();
        let notes = made["notes"].to_string();
        assert!(
            notes.contains("is left to the server") && notes.contains("cursor of the next page is empty"),
            "{made}"
        );
        assert_eq!(made["left_out"], json!([]), "{made}");

        let session = tenant.session();
        let found = session.call("wiki/probe", json!({"name": "a b"}));
        assert_eq!((found.output(), &found.0["content"]), (&structure, &content), "{}", found.0);
        session.call("wiki/probe", json!({"name": 1})).expect_error("INVALID_ARGUMENTS");
    });
}
