//! Stored credentials: from the owner's request to the upstream, and nowhere else (K1, K2, K5).

use toolgate_tests::{Client, Session, Value, json};

use super::{API, Fixture, fetch, upstream, with_fixture};

const SECRET: &str = "sk_live_owned_77c1d0";
const CHARGES: &str = "https://api.upstream.test:8443/v1/charges";

/// Opens a session for a user, or without one.
fn session(operator: &Client, user: Option<&str>) -> Session {
    let request = json!({"agent": "keeper/bot", "user": user});
    let opened = operator.post("/v1/sessions", &request).expect(201).json();
    Session { client: operator.clone(), id: opened["session"].as_str().unwrap_or_default().to_owned() }
}

fn store(operator: &Client, name: &str, document: &Value) {
    let headers = [("Content-Type", "application/json"), ("If-None-Match", "*")];
    let path = format!("/v1/orgs/keeper/credentials/{name}");
    operator.send("PUT", &path, &headers, document.to_string().as_bytes()).expect(201);
}

fn bearer(secret: &str, more: &Value) -> Value {
    let mut document = json!({
        "provider": "stripe", "kind": "bearer", "secret": secret,
        "bound_to": [{"host": "api.upstream.test", "port": 8443, "path": "/v1/"}],
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

/// The last `Authorization` value that the upstream received.
fn last_authorization(fixture: &Fixture) -> Option<String> {
    let request = fixture.upstream.requests().pop()?;
    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"))?;
    Some(line.split_once(' ')?.1.to_owned())
}

#[test]
fn k2_a_stored_credential_is_sent_only_to_its_bound_hosts() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| upstream::ok("text/plain", &format!("you said {SECRET}")));
        let operator = fixture.daemon.operator();
        operator.make_agent("keeper/bot", &json!({"enabled": ["*"]}));
        let with_credentials = |user_credentials: bool| {
            let mut grant = super::grant(&fixture.upstream);
            grant["credentials"] = json!(["stripe"]);
            grant["user_credentials"] = json!(user_credentials);
            operator.replace("/v1/plugins/caller/grant", &grant).expect(200);
        };
        with_credentials(true);
        let no_user = session(&operator, None);
        // Granted, but not stored.
        fetch(&no_user, "GET", CHARGES).expect_error("CREDENTIAL_MISSING");

        store(&operator, "stripe", &bearer(SECRET, &json!({})));
        let reply = fetch(&no_user, "GET", CHARGES);
        assert_eq!(last_authorization(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));
        let output = reply.output().to_string();
        assert!(output.contains(&format!("you said {}", "*".repeat(SECRET.len()))), "{output}");
        assert!(!reply.0.to_string().contains(SECRET), "{}", reply.0);
        let effects = format!("{:?}", fixture.effects(&no_user));
        assert!(effects.contains("credential stripe@1") && !effects.contains(SECRET), "{effects}");

        // Outside its bound path the credential is not sent, but still masked in responses.
        for url in [&*format!("{API}/elsewhere"), "http://plain.upstream.test:8080/"] {
            let reply = fetch(&no_user, "GET", url);
            assert_eq!(last_authorization(fixture), None, "{url}");
            assert!(reply.output().to_string().contains("you said ***"), "{url}: {}", reply.0);
            assert!(!reply.0.to_string().contains(SECRET), "{url}: {}", reply.0);
        }

        // A user's credential takes precedence, for this user only.
        store(&operator, "ann", &bearer("of-ann-0123456789", &json!({"user": "ann"})));
        fetch(&session(&operator, Some("ann")), "GET", CHARGES).output();
        assert_eq!(last_authorization(fixture).as_deref(), Some("Bearer of-ann-0123456789"));
        fetch(&no_user, "GET", CHARGES).output();
        assert_eq!(last_authorization(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));

        // Without `user_credentials` in the grant, the organization's credential is used.
        with_credentials(false);
        fetch(&session(&operator, Some("ann")), "GET", CHARGES).output();
        assert_eq!(last_authorization(fixture).as_deref(), Some(format!("Bearer {SECRET}").as_str()));

        operator.replace("/v1/plugins/caller/grant", &super::grant(&fixture.upstream)).expect(200);
        fetch(&no_user, "GET", CHARGES).output();
        assert_eq!(last_authorization(fixture), None, "the grant has no credential");
        // A plugin without the credential gets the same text unmasked.
        assert!(fetch(&no_user, "GET", CHARGES).output().to_string().contains(SECRET));
    });
}

/// K5: over MCP nobody says for whom a call is made, so what is not shared serves calls with a named user or over HTTP alone.
#[test]
fn k5_a_credential_that_is_not_shared_serves_no_mcp_client_and_explain_names_it() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| upstream::ok("text/plain", "here"));
        let operator = fixture.daemon.operator();
        operator.make_agent("club/mcp", &json!({"enabled": ["*"]}));
        let mut grant = super::grant(&fixture.upstream);
        grant["credentials"] = json!(["stripe"]);
        operator.replace("/v1/plugins/caller/grant", &grant).expect(200);
        let path = "/v1/orgs/club/credentials/stripe";
        operator.make(path, &bearer(SECRET, &json!({"shared": false}))).expect(201);
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "call_caller_fetch"),
        ];
        let over_mcp = || {
            let arguments = json!({"method": "GET", "url": CHARGES, "headers": []});
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let params = json!({"name": "call_caller_fetch", "arguments": arguments, "_meta": meta});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            operator
                .send("POST", "/mcp?agent=club/mcp", &headers, call.to_string().as_bytes())
                .expect(200)
                .text()
        };
        let explained = || {
            let explain = "/v1/orgs/club/agents/mcp/explain?tool=caller/fetch";
            operator.get(explain).expect(200).json()["tools"][0]["not_over_mcp"].clone()
        };
        let before = fixture.upstream.requests().len();
        let refused = over_mcp();
        assert!(refused.contains("is not shared with this caller"), "{refused}");
        assert_eq!(fixture.upstream.requests().len(), before, "nothing was sent");
        assert_eq!(explained(), json!(["stripe/stripe"]));
        let request = json!({"agent": "club/mcp"});
        let opened = operator.post("/v1/sessions", &request).expect(201).json();
        let id = opened["session"].as_str().unwrap_or_default().to_owned();
        fetch(&Session { client: operator.clone(), id }, "GET", CHARGES).output();
        let sent = Some(format!("Bearer {SECRET}"));
        assert_eq!(last_authorization(fixture), sent);

        operator.replace(path, &bearer(SECRET, &json!({"shared": true}))).expect(200);
        assert!(over_mcp().contains("here"));
        assert_eq!((last_authorization(fixture), explained()), (sent, Value::Null));
        operator.replace("/v1/plugins/caller/grant", &super::grant(&fixture.upstream)).expect(200);
    });
}
