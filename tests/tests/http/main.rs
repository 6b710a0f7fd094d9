//! HTTP interface: request formats, authentication, authorization, and isolation between organizations. `rights.rs`
//! checks every operation for every role.
//!
//! The daemon answers a valid request after each bad one. A refused request never becomes a call, so the audit log
//! has no record of it.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

mod address;
mod alerts;
mod files;
mod heads;
mod openapi;
mod prometheus;
mod tls;
mod tokens;
mod wire;

use toolgate_tests::{Client, Daemon, LeakCheck, Reply, Shared, guests, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

const SETTINGS: &str = "
[http]
body_bytes = 2_097_152
plugin_bytes = 4_194_304
bodies_bytes = 8_388_608
bodies_bytes_per_organization = 4_194_304
connections = 64
";

/// Timeouts of a daemon whose clients are late on purpose. A whole request of another client must fit into each of them.
const SHORT_MS: u64 = 1_500;

static FIXTURE: Shared<Fixture> = Shared::new();
static IMPATIENT: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
}

impl Fixture {
    fn start() -> Self {
        Self::start_with(SETTINGS)
    }

    fn start_impatient() -> Self {
        let keys = ["header_timeout_ms", "body_timeout_ms", "write_timeout_ms"];
        Self::start_with(&format!("{SETTINGS}{}", keys.map(|key| format!("{key} = {SHORT_MS}\n")).concat()))
    }

    fn start_with(settings: &str) -> Self {
        let daemon = Daemon::start(PROGRAM, settings);
        let operator = daemon.operator();
        operator.load("hostile", guests::HOSTILE);
        for organization in ["acme", "rival"] {
            operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
        }
        Self { daemon }
    }

    fn client_with_role(&self, role: &str, organization: &str) -> Client {
        self.daemon.operator().with_new_token(&json!({"role": role, "organization": organization}))
    }

    /// Runs requests that must leave no memory, no connection and no audit record but that of a refused token.
    fn assert_no_trace(&mut self, test: impl FnOnce(&mut Self)) {
        let newest = |operator: Client| {
            let rows = operator.audit("limit=500");
            rows.into_iter().find(|row| row["admin"]["action"] != "request.refuse")
        };
        let leak_check = LeakCheck::start(&self.daemon);
        let before = newest(self.daemon.operator());
        test(self);
        leak_check.assert_none(&mut self.daemon);
        assert_eq!(newest(self.daemon.operator()), before, "a refused request was recorded");
    }

    /// Asserts that the same process still answers.
    fn assert_serves(&mut self) {
        assert!(self.daemon.is_running());
        self.daemon.anonymous().get("/healthz").expect(200);
    }
}

fn with_fixture(test: impl FnOnce(&mut Fixture)) {
    FIXTURE.with(Fixture::start, |fixture| {
        test(fixture);
        fixture.assert_serves();
    });
}

/// Runs a test on a daemon with short timeouts.
fn with_impatient_fixture(test: impl FnOnce(&mut Fixture)) {
    IMPATIENT.with(Fixture::start_impatient, |fixture| {
        test(fixture);
        fixture.assert_serves();
    });
}

#[test]
fn invalid_json_bodies_are_refused() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        let path = session.path("/calls");
        let call = r#"{"tool":"hostile/echo","arguments":{"text":"x"}}"#;
        let bodies = [
            ("empty", String::new()),
            ("cut", r#"{"calls":["#.to_owned()),
            ("text after it", format!(r#"{{"calls":[{call}]}} {{}}"#)),
            ("no object", "[]".to_owned()),
            ("unknown field", format!(r#"{{"calls":[{call}],"call":1}}"#)),
            ("unknown field of a call", r#"{"calls":[{"tool":"a/b","argument":{}}]}"#.to_owned()),
            ("same key", format!(r#"{{"calls":[{call}],"calls":[{call}]}}"#)),
            ("same key of a call", r#"{"calls":[{"tool":"a/b","tool":"c/d"}]}"#.to_owned()),
            ("wrong type", r#"{"calls":{"tool":"a/b"}}"#.to_owned()),
            ("a call that is none", r#"{"calls":[7]}"#.to_owned()),
            ("byte order mark", format!("\u{feff}{{\"calls\":[{call}]}}")),
            ("deep", format!("{{\"calls\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000))),
        ];
        for (case, body) in bodies {
            let reply = session.client.post_text(&path, &body);
            assert_eq!(reply.status, 400, "{case}: {}", reply.text());
            reply.expect_refusal(400, "INVALID_REQUEST");
        }
        let not_utf8 = [b"{\"calls\":[{\"tool\":\"".as_slice(), b"\xff\xfe", b"\"}]}"].concat();
        let headers = [("Content-Type", "application/json")];
        session.client.send("POST", &path, &headers, &not_utf8).expect_refusal(400, "INVALID_REQUEST");
        assert!(fixture.daemon.operator().audit(&format!("kind=call&session={}", session.id)).is_empty());
        session.client.post_text(&path, &format!(r#"{{"calls":[{call}]}}"#)).expect(200);
        // What is wrong with one call is its own error (M6).
        for (wrong, pointer) in [(r#"{"tool":7}"#, "/calls/0/tool"), ("{}", "/calls/0")] {
            let reply =
                session.client.post_text(&path, &format!(r#"{{"calls":[{wrong},{call}]}}"#)).expect(200);
            let results = reply.json()["results"].clone();
            assert_eq!(results[0]["error"]["details"]["pointer"], pointer, "{wrong}: {results}");
            assert_eq!(results[1]["status"], "ok", "{wrong}: {results}");
        }
    });
}

#[test]
fn a_body_of_another_content_type_is_refused() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        let body = br#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#;
        let send =
            |headers: &[(&str, &str)]| session.client.send("POST", &session.path("/calls"), headers, body);
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonp",
            "",
        ] {
            send(&[("Content-Type", kind)]).expect_refusal(400, "INVALID_REQUEST");
        }
        send(&[]).expect_refusal(400, "INVALID_REQUEST");
        send(&[("Content-Type", "application/json; charset=utf-8")]).expect(200);
        let wasm = [("Content-Type", "application/octet-stream")];
        fixture
            .daemon
            .operator()
            .send("PUT", "/v1/plugins/x", &wasm, b"\0asm")
            .expect_refusal(400, "INVALID_REQUEST");
    });
}

/// The refusal names the encoding, not the JSON error that follows from it.
#[test]
fn an_encoded_body_is_refused_with_its_encoding() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        let body = br#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#;
        let send = |method: &str, path: &str, kind: &str, coding: &str| {
            let headers = [("Content-Type", kind), ("Content-Encoding", coding)];
            session.client.send(method, path, &headers, body)
        };
        let (calls, file) = (session.path("/calls"), session.path("/files/encoded"));
        for (method, path, kind) in [
            ("POST", calls.as_str(), "application/json"),
            ("PUT", "/v1/orgs/acme/agents/encoded", "application/json"),
            ("PUT", "/v1/plugins/encoded", "application/wasm"),
            ("PUT", &file, "application/octet-stream"),
        ] {
            for coding in ["gzip", "br", "gzip, identity"] {
                let reply = send(method, path, kind, coding).expect_refusal(400, "INVALID_REQUEST");
                let said = format!("encoded as `{coding}`");
                assert!(reply.json()["detail"].to_string().contains(&said), "{path}: {}", reply.text());
            }
        }
        session.get_file("encoded").expect_refusal(404, "NOT_FOUND");
        send("POST", &calls, "application/json", "identity").expect(200);
        send("PUT", &file, "application/octet-stream", "Identity").expect(204);
    });
}

#[test]
fn a_head_request_gets_the_headers_of_a_get() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        session.put_file("a.txt", b"some text").expect(204);
        let file = session.path("/files/a.txt");
        let status_of = |client: &Client, path: &str| {
            let [get, head] = ["GET", "HEAD"].map(|method| client.send(method, path, &[], b""));
            assert_eq!(head.body, b"", "{path}");
            assert_eq!(head.status, get.status, "{path}");
            let headers = |reply: &Reply| -> Vec<_> {
                reply.headers.iter().filter(|(name, _)| name != "date").cloned().collect()
            };
            assert_eq!(headers(&head), headers(&get), "{path}");
            assert_eq!(get.header("content-length"), Some(get.body.len().to_string().as_str()), "{path}");
            head.status
        };
        for path in ["/healthz", "/openapi.json", "/v1/plugins", "/v1/orgs/acme", file.as_str()] {
            assert_eq!(status_of(&operator, path), 200, "{path}");
        }
        assert_eq!(status_of(&operator, "/v1/orgs/nosuch"), 404);
        assert_eq!(status_of(&operator, "/nosuch"), 404);
        assert_eq!(status_of(&fixture.daemon.anonymous(), "/v1/plugins"), 401);
        assert_eq!(operator.send("HEAD", "/v1/backup", &[], b"").status, 405);
    });
}

#[test]
fn a_request_without_a_valid_token_is_refused() {
    with_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        let token = fixture.daemon.operator_token();
        let basic = format!("Basic {token}");
        let cut = format!("Bearer {}", &token[..token.len() - 1]);
        let longer = format!("Bearer {token}x");
        let spaced = format!("Bearer  {token} x");
        for authorization in ["", "Bearer", "Bearer x", "Bearer tg_", &basic, &cut, &longer, &spaced, &token]
        {
            let reply = anonymous.send("GET", "/v1/plugins", &[("Authorization", authorization)], b"");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{authorization}");
            reply.expect_refusal(401, "UNAUTHENTICATED");
        }
        anonymous.get("/v1/plugins").expect_refusal(401, "UNAUTHENTICATED");
        let good = format!("Bearer {token}");
        let twice = format!(
            "GET /v1/plugins HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {good}\r\nAuthorization: Bearer x\r\n\r\n"
        );
        anonymous.raw(twice.as_bytes()).reply().expect_refusal(400, "INVALID_REQUEST");
        anonymous.send("GET", "/v1/plugins", &[("Authorization", &good)], b"").expect(200);
    });
}

#[test]
fn a_role_allows_its_operations_alone() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        let calls = session.path("/calls");
        let call = json!({"calls": [{"tool": "hostile/echo", "arguments": {"text": "x"}}]});
        let [owner, orchestrator, auditor] =
            ["owner", "orchestrator", "auditor"].map(|role| fixture.client_with_role(role, "acme"));
        for (who, client) in [("owner", &owner), ("orchestrator", &orchestrator), ("auditor", &auditor)] {
            for path in ["/v1/plugins", "/v1/orgs", "/v1/orgs/acme"] {
                let reply = client.get(path);
                assert_eq!(reply.status, 403, "{who} {path}");
                reply.expect_refusal(403, "FORBIDDEN");
            }
            client.upload("x", b"\0asm").expect_refusal(403, "FORBIDDEN");
            client.post("/v1/tokens", &json!({"role": "operator"})).expect_refusal(403, "FORBIDDEN");
        }
        orchestrator.get("/v1/audit").expect_refusal(403, "FORBIDDEN");
        orchestrator.get("/v1/orgs/acme/agents/bot").expect_refusal(403, "FORBIDDEN");
        orchestrator
            .post("/v1/tokens", &json!({"role": "orchestrator", "organization": "acme"}))
            .expect_refusal(403, "FORBIDDEN");
        auditor.post(&calls, &call).expect_refusal(403, "FORBIDDEN");
        auditor.post("/v1/sessions", &json!({"agent": "acme/bot"})).expect_refusal(403, "FORBIDDEN");
        owner.get("/v1/audit/verify").expect_refusal(403, "FORBIDDEN");
        for client in [&owner, &orchestrator] {
            client.post(&calls, &call).expect(200);
        }
        owner.get("/v1/orgs/acme/agents/bot").expect(200);
        auditor.get("/v1/audit").expect(200);
        auditor.get("/v1/audit/verify").expect(200);
    });
}

/// A resource of another organization gets the same response, byte for byte, as a missing one.
#[test]
fn another_organizations_resources_look_missing() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let [owner, orchestrator] =
            ["owner", "orchestrator"].map(|role| fixture.client_with_role(role, "acme"));
        let theirs = operator.open_session("rival/bot");
        theirs.call_as("c1", "hostile/echo", json!({"text": "secret"}));
        theirs.put_file("a.txt", b"secret").expect(204);
        let missing = format!("s_{}", "0".repeat(theirs.id.len() - 2));
        for client in [&owner, &orchestrator] {
            for (method, rest) in [
                ("GET", ""),
                ("GET", "/tools"),
                ("GET", "/calls/c1"),
                ("GET", "/files/a.txt"),
                ("POST", "/calls"),
                ("PUT", "/files/a.txt"),
                ("DELETE", ""),
                ("DELETE", "/calls/c1"),
                ("DELETE", "/files/a.txt"),
            ] {
                let path = |id: &str| format!("/v1/sessions/{id}{rest}");
                assert_same_by_path(client, method, &path(&theirs.id), &path(&missing));
            }
            let open = |agent: &str| client.post("/v1/sessions", &json!({"agent": agent}));
            assert_same_response(open("rival/bot"), open("nosuch/bot"), "rival", "nosuch");
        }
        for rest in ["/agents", "/agents/bot"] {
            assert_same_by_path(
                &owner,
                "GET",
                &format!("/v1/orgs/rival{rest}"),
                &format!("/v1/orgs/nosuch{rest}"),
            );
        }
        assert_same_response(
            owner.get("/v1/audit?organization=rival"),
            owner.get("/v1/audit?organization=nosuch"),
            "rival",
            "nosuch",
        );
        let token = json!({"role": "owner", "organization": "rival"});
        let token = operator.post("/v1/tokens", &token).expect(201).json();
        let id = token["id"].as_str().expect("an id");
        let no_id: String =
            id.chars().map(|character| if character.is_ascii_digit() { '9' } else { 'q' }).collect();
        assert_same_by_path(&owner, "DELETE", &format!("/v1/tokens/{id}"), &format!("/v1/tokens/{no_id}"));
        // Lists do not show it either.
        for path in ["/v1/tokens?limit=1000", "/v1/audit?limit=500"] {
            let list = owner.get(path).expect(200).text();
            assert!(!list.contains("rival") && !list.contains(&theirs.id), "{path}");
        }
        assert_eq!(theirs.get_file("a.txt").expect(200).text(), "secret");
        assert_eq!(theirs.get_call("c1").output(), "secret");
    });
}

fn assert_same_by_path(client: &Client, method: &str, theirs: &str, missing: &str) {
    let headers = [("Content-Type", "application/json")];
    let send = |path: &str| client.send(method, path, &headers, br#"{"calls":[{"tool":"hostile/count"}]}"#);
    let name = |path: &str| path.split('/').nth(3).unwrap_or_default().to_owned();
    assert_same_response(send(theirs), send(missing), &name(theirs), &name(missing));
}

/// Asserts that two responses differ only in the requested name, which the caller knew.
fn assert_same_response(theirs: Reply, missing: Reply, their_name: &str, no_name: &str) {
    let theirs = theirs.expect_refusal(404, "NOT_FOUND");
    let names: Vec<_> = theirs.headers.iter().map(|(name, _)| name.clone()).collect();
    let no_names: Vec<_> = missing.headers.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, no_names);
    assert_eq!(theirs.text().replace(their_name, "?"), missing.text().replace(no_name, "?"));
    assert_eq!(missing.status, 404);
}

#[test]
fn a_token_of_one_agent_works_for_no_other() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("acme/second", &json!({"enabled": ["*"]}));
        let bound = operator
            .with_new_token(&json!({"role": "orchestrator", "organization": "acme", "agents": ["bot"]}));
        let theirs = operator.open_session("acme/second");
        bound.post("/v1/sessions", &json!({"agent": "acme/second"})).expect_refusal(403, "FORBIDDEN");
        bound.get(&theirs.path("")).expect_refusal(404, "NOT_FOUND");
        let own = bound.open_session("acme/bot");
        assert_eq!(own.call("hostile/echo", json!({"text": "x"})).output(), "x");
    });
}

#[test]
fn the_audit_log_finds_the_actions_of_a_token() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let owner = json!({"role": "owner", "organization": "acme"});
        let made = operator.post("/v1/tokens", &owner).expect(201).json();
        let client = Client::new(operator.address, made["token"].as_str());
        let session = client.open_session("acme/bot");
        session.call_as("c1", "hostile/echo", json!({"text": "x"})).output();
        client.make("/v1/orgs/acme/agents/of-a-token", &json!({"enabled": "*"})).expect(201);
        let id = &made["id"];
        let rows = client.audit(&format!("principal={}", id.as_str().expect("an id")));
        assert!(rows.iter().all(|row| row["call"]["principal"] == *id || row["admin"]["principal"] == *id));
        assert!(rows.iter().any(|row| row["call"]["call"] == "c1"), "{rows:?}");
        assert!(rows.iter().any(|row| row["admin"]["action"] == "agent.put"), "{rows:?}");
        assert!(client.audit("principal=nobody").is_empty());
    });
}

/// The agent may be created later, so the token is created.
#[test]
fn a_token_for_a_missing_agent_is_created_with_a_warning() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make("/v1/orgs/warned", &json!({})).expect(201);
        operator.make("/v1/orgs/warned/agents/support", &json!({"name": "Support"})).expect(201);
        let warnings = |agents: &[&str]| {
            let wanted = json!({"role": "orchestrator", "organization": "warned", "agents": agents});
            operator.post("/v1/tokens", &wanted).expect(201).json()["warnings"].clone()
        };
        assert_eq!(warnings(&["support"]), json!([]));
        let warning = json!({
            "code": "UNRESOLVED_AGENT", "path": "/agents/1", "nearest": "support",
            "message": "the organization `warned` has no agent `suport`",
        });
        assert_eq!(warnings(&["support", "suport"]), json!([warning]));
    });
}

#[test]
fn a_revoked_token_is_refused() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let made =
            operator.post("/v1/tokens", &json!({"role": "owner", "organization": "acme"})).expect(201).json();
        let holder = Client::new(operator.address, made["token"].as_str());
        holder.get("/v1/orgs/acme/agents").expect(200);
        let path = format!("/v1/tokens/{}", made["id"].as_str().expect("an id"));
        operator.delete(&path).expect(204);
        holder.get("/v1/orgs/acme/agents").expect_refusal(401, "UNAUTHENTICATED");
        let listed = operator.get("/v1/tokens?limit=1000").expect(200).text();
        assert!(
            !listed.contains(made["token"].as_str().expect("a token")),
            "a listed token shows its secret"
        );
    });
}

#[test]
fn a_display_name_that_is_too_long_is_refused_with_its_field() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let put = |chars: usize| operator.make("/v1/orgs/wordy", &json!({"display_name": "x".repeat(chars)}));
        let problem = put(201).expect_refusal(400, "INVALID_REQUEST").json();
        assert_eq!(problem["detail"], "`display_name` has 201 characters and may have 200", "{problem}");
        put(200).expect(201);
    });
}

#[test]
fn documents_are_replaced_only_with_their_etag() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let path = "/v1/orgs/acme/agents/tagged";
        let document = json!({"enabled": ["arithmetic/*"]}).to_string();
        let put = |headers: &[(&str, &str)]| {
            let headers: Vec<_> =
                [("Content-Type", "application/json")].into_iter().chain(headers.iter().copied()).collect();
            operator.send("PUT", path, &headers, document.as_bytes())
        };
        put(&[]).expect_refusal(428, "INVALID_REQUEST");
        let made = put(&[("If-None-Match", "*")]).expect(201);
        put(&[("If-None-Match", "*")]).expect_refusal(412, "CONFLICT");
        put(&[("If-Match", "\"999999\"")]).expect_refusal(412, "CONFLICT");
        put(&[("If-Match", made.header("etag").expect("a tag"))]).expect(200);
        put(&[("If-Match", made.header("etag").expect("a tag"))]).expect_refusal(412, "CONFLICT");
        operator
            .make("/v1/orgs/acme/agents/bad", &json!({"enabeld": []}))
            .expect_refusal(422, "INVALID_POLICY");
        operator.get("/v1/orgs/acme/agents/bad").expect_refusal(404, "NOT_FOUND");
        operator.make("/v1/orgs/Bad%20Name", &json!({})).expect_refusal(400, "INVALID_REQUEST");
    });
}

#[test]
fn missing_resources_and_wrong_methods_are_reported() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.get("/v1/nosuch").expect_refusal(404, "NOT_FOUND");
        operator.get("/").expect_refusal(404, "NOT_FOUND");
        operator.get("/v1/sessions/%2e%2e/files/x").expect_refusal(404, "NOT_FOUND");
        operator.get("/v1/plugins/nosuch").expect_refusal(404, "NOT_FOUND");
        operator.get("/v1/orgs/nosuch").expect_refusal(404, "NOT_FOUND");
        operator.get("/v1/sessions/nosuch").expect_refusal(404, "NOT_FOUND");
        operator.post("/v1/sessions", &json!({"agent": "acme/nosuch"})).expect_refusal(404, "NOT_FOUND");
        operator.delete("/v1/tokens/nosuch").expect_refusal(404, "NOT_FOUND");
        operator.delete("/healthz").expect_refusal(405, "INVALID_REQUEST");
        operator.post("/v1/sessions", &json!({"agent": "acme"})).expect_refusal(400, "INVALID_REQUEST");
        operator
            .post("/v1/sessions", &json!({"agent": "acme/bot", "user": "\u{7}"}))
            .expect_refusal(400, "INVALID_REQUEST");
        operator.get("/v1/audit?cursor=nonsense").expect_refusal(400, "INVALID_REQUEST");
    });
}

/// Ignoring a misspelt parameter would return another result than requested.
#[test]
fn an_unknown_query_parameter_is_refused_with_the_known_ones() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        let calls = session.path("/calls");
        let call = json!({"calls": [{"tool": "hostile/echo", "arguments": {"text": "x"}}]});
        let refused = |reply: Reply, name: &str, taken: &str| {
            let problem = reply.expect_refusal(400, "INVALID_REQUEST").json();
            assert!(problem["detail"].to_string().contains(&format!("`{name}`")), "{problem}");
            assert!(problem["hint"].to_string().contains(taken), "{problem}");
        };
        refused(operator.get("/v1/audit?kindd=call"), "kindd", "`kind`");
        refused(operator.get("/v1/tokens?limit=1&cusor=x"), "cusor", "`cursor`, `limit`");
        refused(operator.get("/v1/orgs/acme/agents/bot?revision=1"), "revision", ": none");
        refused(operator.post(&format!("{calls}?dry_run=true"), &call), "dry_run", ": none");
        assert_eq!(operator.send("HEAD", "/v1/tokens?cusor=x", &[], b"").status, 400);
        for path in ["/healthz", "/readyz", "/openapi.json"] {
            refused(fixture.daemon.anonymous().get(&format!("{path}?verbose")), "verbose", ": none");
            fixture.daemon.anonymous().get(&format!("{path}?")).expect(200);
        }
        // Authentication and authorization come before validation.
        fixture.daemon.anonymous().get("/v1/tokens?cusor=x").expect_refusal(401, "UNAUTHENTICATED");
        fixture
            .client_with_role("auditor", "acme")
            .get("/v1/tokens?cusor=x")
            .expect_refusal(403, "FORBIDDEN");
        assert!(operator.audit(&format!("kind=call&session={}", session.id)).is_empty());
        operator.post(&calls, &call).expect(200);
        operator.get("/v1/tokens?limit=1").expect(200);
        operator.get("/v1/audit?kind=call&limit=1").expect(200);
    });
}
