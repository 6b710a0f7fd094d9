//! Custom HTTP tools of an organization (C1), and test calls of them (C3).

mod definitions;

use toolgate_tests::{CallReply, Client, PluginFile, Session, Value, json};

use super::{Fixture, upstream, with_fixture};

const SECRET: &str = "sk_live_declared_5511aa";

/// Tool of the upstream. Only an operator can grant its private network.
fn definition() -> Value {
    json!({
        "display_name": "Shop", "description": "What the shop has.", "publisher": "Acme",
        "base_url": "https://api.upstream.test:8443/shop/v1",
        "headers": {"X-Client": "toolgate"},
        "actions": [
            {"name": "item", "description": "One item.", "method": "GET", "path": "/items/{id}",
             "input_schema": {"type": "object", "required": ["id"], "additionalProperties": false,
                "properties": {"id": {"type": "string"}, "fields": {"type": "array", "items": {"type": "string"}}}},
             "arguments": {"fields": {"in": "query", "style": "comma"}},
             "result": {"pointer": "/item"}},
            {"name": "order", "description": "Orders items.", "method": "POST", "path": "/orders",
             "input_schema": {"type": "object", "required": ["items"],
                "properties": {"items": {"type": "array"}, "note": {"type": "string"}, "key": {"type": "string"}}},
             "arguments": {"key": {"in": "header", "name": "Idempotency-Key"}},
             "output_schema": {"type": "object", "required": ["order"]}},
        ],
    })
}

struct Tenant {
    operator: Client,
    organization: String,
}

impl Tenant {
    /// Creates an organization whose tool may reach the upstream.
    fn new(fixture: &Fixture, organization: &str) -> Self {
        let tenant = Self { operator: fixture.daemon.operator(), organization: organization.to_owned() };
        tenant.operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
        let grant = fixture.upstream.grant(json!({
            "network": [{"host": "api.upstream.test", "port": 8443}, {"scheme": "http", "host": "plain.upstream.test", "port": 8080}],
            "plain_http": ["plain.upstream.test:8080"], "credentials": ["shop"],
        }));
        tenant.operator.make(&tenant.path("shop/grant"), &grant).expect(201);
        tenant
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/orgs/{}/tools/{rest}", self.organization)
    }

    fn make(&self, definition: &Value) -> Value {
        self.operator.make(&self.path("shop"), definition).expect(201).json()
    }

    fn session(&self) -> Session {
        self.operator.open_session(&format!("{}/bot", self.organization))
    }

    fn store_secret(&self) {
        let credential = json!({
            "provider": "shop", "kind": "api_key", "header": "x-api-key", "secret": SECRET,
            "bound_to": [{"host": "api.upstream.test", "port": 8443, "path": "/shop/"}],
        });
        let path = format!("/v1/orgs/{}/credentials/shop", self.organization);
        self.operator.make(&path, &credential).expect(201);
    }
}

fn error(reply: CallReply, error_type: &str) -> Value {
    reply.expect_error(error_type).0["error"].clone()
}

fn head(request: &str) -> &str {
    request.lines().next().unwrap_or_default()
}

#[test]
fn c1_an_action_sends_a_request_and_returns_the_response() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "declared");
        let made = tenant.make(&definition());
        assert_eq!(made["state"], "active", "{made}");
        assert_eq!(made["tools"][0]["wire_name"], "call_shop_item");
        assert_eq!(made["warnings"], json!([]), "{made}");
        fixture.upstream.answer(|request| match request.starts_with("GET ") {
            true => upstream::ok("application/json", r#"{"item":{"name":"Pen","id":12345678901234567890}}"#),
            false => upstream::answer(201, &[("Content-Type", "application/json")], br#"{"order":7}"#),
        });
        let session = tenant.session();
        let item = session.call("shop/item", json!({"id": "a/b?c#d", "fields": ["name", "id"]}));
        assert_eq!(item.output(), &json!({"name": "Pen", "id": 12345678901234567890_u64}), "{}", item.0);
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(head(&request), "GET /shop/v1/items/a%2Fb%3Fc%23d?fields=name,id HTTP/1.1");
        assert!(request.to_ascii_lowercase().contains("\r\nx-client: toolgate\r\n"), "{request}");

        // An argument cannot change the path: traversal is refused.
        let before = fixture.upstream.requests().len();
        session.call("shop/item", json!({"id": "a/../../../admin"})).expect_error("INVALID_ARGUMENTS");
        assert_eq!(fixture.upstream.requests().len(), before);

        let order = session.call("shop/order", json!({"items": [1, 2], "note": "soon", "key": "k1"}));
        assert_eq!(order.output(), &json!({"order": 7}));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(request.starts_with("POST /shop/v1/orders HTTP/1.1\r\n"), "{request}");
        assert!(request.to_ascii_lowercase().contains("\r\nidempotency-key: k1\r\n"), "{request}");
        let body = request.rsplit("\r\n\r\n").next().unwrap_or_default();
        assert_eq!(body.parse::<Value>().ok(), Some(json!({"items": [1, 2], "note": "soon"})), "{request}");
    });
}

/// 9.4: an original name becomes a valid tool name, is shown, and works in S5's call form.
#[test]
fn c1_an_action_is_called_by_its_original_name() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "named");
        let mut definition = definition();
        definition["actions"][0]["name"] = "getItem".into();
        let made = tenant.make(&definition);
        assert_eq!(made["tools"][0]["name"], "get_item", "{made}");
        assert_eq!(
            (&made["tools"][0]["original_name"], &made["tools"][1]["original_name"]),
            (&json!("getItem"), &Value::Null)
        );
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":{"name":"Pen"}}"#));
        let session = tenant.session();
        let flat = |tool_name: &str, action: &str| {
            let call =
                json!({"tool_call": {"tool_name": tool_name, "action": action, "parameters": {"id": "7"}}});
            session.post(&call).json()["tool_call"].clone()
        };
        let got = flat("shop", "getItem");
        assert_eq!((&got["status"], &got["output"]), (&json!("ok"), &json!({"name": "Pen"})), "{got}");
        assert_eq!(
            (&got["tool_name"], &got["action"]),
            (&json!("shop"), &json!("getItem")),
            "the result has the name of the call"
        );
        assert_eq!(flat("shop", "get_item")["status"], "ok");
        assert_eq!(session.call("shop/getItem", json!({"id": "7"})).output(), &json!({"name": "Pen"}));
        for action in ["getitem", "GetItem", "getItems"] {
            assert_eq!(flat("shop", action)["error_type"], "TOOL_NOT_FOUND", "{action}");
        }
        let tools = tenant.operator.get(&format!("/v1/sessions/{}/tools", session.id)).expect(200).json();
        let listed =
            tools["tools"].as_array().into_iter().flatten().find(|tool| tool["name"] == "call_shop_get_item");
        assert_eq!(listed.map(|tool| &tool["original_name"]), Some(&json!("getItem")), "{tools}");
        let tried = json!({"organization": "named", "tool": "shop/getItem", "arguments": {"id": "7"}});
        assert_eq!(tenant.operator.post("/v1/try", &tried).expect(200).json()["result"]["status"], "ok");
        let mut of_user = tried.clone();
        of_user["user"] = json!("u".repeat(201));
        tenant.operator.post("/v1/try", &of_user).expect_refusal(400, "INVALID_REQUEST");
        // Policies use the tool's own name, and apply to calls by its original name.
        tenant
            .operator
            .make("/v1/orgs/named/agents/other", &json!({"enabled": ["*"], "disabled": ["shop/get_item"]}));
        let other = tenant.operator.open_session("named/other");
        other.call("shop/getItem", json!({"id": "7"})).expect_error("TOOL_DISABLED");
        // Two names that map to the same tool are refused, and the existing tool stays.
        definition["actions"][1]["name"] = "get-item".into();
        tenant.operator.replace(&tenant.path("shop"), &definition).expect_refusal(422, "INVALID_POLICY");
        assert_eq!(flat("shop", "getItem")["status"], "ok");
    });
}

/// An organization's tool does not exist for another one.
#[test]
fn c1_a_tool_of_one_organization_does_not_exist_for_another() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "having");
        tenant.make(&definition());
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        assert_eq!(tenant.session().call("shop/item", json!({"id": "1"})).output(), &json!(1));
        let operator = fixture.daemon.operator();
        operator.make_agent("lacking/bot", &json!({"enabled": ["*"]}));
        let other = operator.open_session("lacking/bot");
        let theirs = other.call("shop/item", json!({"id": "1"}));
        let unknown = other.call("shop/nothing", json!({"id": "1"}));
        assert_eq!(error(theirs, "TOOL_NOT_FOUND")["hint"], error(unknown, "TOOL_NOT_FOUND")["hint"]);
        let listed = operator.get(&format!("/v1/sessions/{}/tools", other.id)).expect(200).text();
        assert!(!listed.contains("call_shop_"), "{listed}");
        let owner = operator.with_new_token(&json!({"role": "owner", "organization": "lacking"}));
        owner.get(&tenant.path("shop")).expect_refusal(404, "NOT_FOUND");
        owner.get("/v1/orgs/lacking/tools").expect(200);
        assert_eq!(owner.get("/v1/orgs/lacking/tools").json()["items"], json!([]));
        // Another organization may use the same name for its own tool.
        let theirs = json!({"description": "Theirs.", "base_url": "https://other.example", "actions": [
            {"name": "nothing", "description": "Nothing.", "method": "GET", "path": "/", "input_schema": {"type": "object"}}]});
        owner.make("/v1/orgs/lacking/tools/shop", &theirs).expect(201);
        let called = |session: &Session| operator.get(&format!("/v1/sessions/{}/tools", session.id)).text();
        assert!(called(&other).contains("call_shop_nothing") && !called(&other).contains("call_shop_item"));
        assert!(called(&tenant.session()).contains("call_shop_item"));
    });
}

/// 9.4: its own tool wins in the organization, and both sides are told. Other organizations have the plugin.
#[test]
fn c1_an_own_tool_wins_over_a_plugin_loaded_later() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "crossed");
        let operator = &tenant.operator;
        operator.make(&tenant.path("late"), &definition()).expect(201);
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = tenant.session();
        // The tool exists, but has no granted network.
        session.call("late/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        let loaded = operator.load("late", &PluginFile::new("late").build());
        assert!(loaded["warnings"].to_string().contains("`crossed`"), "{loaded}");
        let kept = operator.replace(&tenant.path("late"), &definition()).expect(200).json();
        assert!(kept.to_string().contains("HIDES_PLUGIN"), "{kept}");
        let explained = operator.get("/v1/orgs/crossed/agents/bot/explain?tool=late/item").expect(200).json();
        assert!(
            explained["tools"][0]["why"].as_str().is_some_and(|why| why.contains("own tool")),
            "{explained}"
        );
        session.call("late/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        session.call("late/answer", json!({})).expect_error("TOOL_NOT_FOUND");
        operator.make_agent("uncrossed/bot", &json!({"enabled": ["*"]}));
        operator.open_session("uncrossed/bot").call("late/answer", json!({})).output();
        operator.make("/v1/orgs/uncrossed/tools/late", &definition()).expect_refusal(409, "CONFLICT");
        operator.delete("/v1/plugins/late").expect(204);
        session.call("late/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
    });
}

/// A grant belongs to the operator and survives changes of the definition.
#[test]
fn c1_a_grant_survives_a_new_definition_and_can_allow_less() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "granted");
        tenant.make(&definition());
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = tenant.session();
        session.call("shop/item", json!({"id": "1"})).output();
        let mut less: Value = tenant.operator.get(&tenant.path("shop/grant")).expect(200).json();
        less["network"] = json!([{"host": "api.upstream.test", "port": 8443, "methods": ["POST"]}]);
        tenant.operator.replace(&tenant.path("shop/grant"), &less).expect(200);
        session.call("shop/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        tenant.operator.replace(&tenant.path("shop"), &definition()).expect(200);
        session.call("shop/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"order":1}"#));
        session.call("shop/order", json!({"items": []})).output();
    });
}

/// Token bucket of the plugin, with the size from the definition.
#[test]
fn c1_the_rate_limit_of_a_definition_is_enforced() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "limited");
        let mut limited = definition();
        limited["rate_limit"] = json!({"calls": 2, "seconds": 86_400});
        tenant.make(&limited);
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = tenant.session();
        for _ in 0..2 {
            session.call("shop/item", json!({"id": "1"})).output();
        }
        let error = error(session.call("shop/item", json!({"id": "1"})), "RATE_LIMITED");
        assert!(error["details"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 40_000_000), "{error}");
    });
}

#[test]
fn c1_an_upstream_failure_differs_from_a_refused_request() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "failing");
        tenant.make(&definition());
        let session = tenant.session();
        let call = || session.call("shop/item", json!({"id": "1"}));
        let busy = [("Retry-After", "7"), ("Content-Type", "text/plain")];
        fixture.upstream.answer(move |_| upstream::answer(503, &busy, b"come again"));
        let unavailable = error(call(), "API_UNAVAILABLE");
        assert_eq!(unavailable["details"], json!({"status": 503, "retry_after_ms": 7000}), "{unavailable}");
        assert_eq!(unavailable["retryable"], true);
        assert_eq!(unavailable["hint"], "call again in 7 seconds; if it stays, tell the operator");
        let says =
            |error: &Value, what: &str| error["message"].as_str().is_some_and(|text| text.contains(what));
        assert!(says(&unavailable, "come again"), "{unavailable}");
        let plain = [("Content-Type", "application/json")];
        fixture.upstream.answer(move |_| upstream::answer(404, &plain, br#"{"error":"no such item"}"#));
        let refused = error(call(), "TOOL_FAILED");
        assert_eq!((&refused["details"]["status"], &refused["retryable"]), (&json!(404), &json!(false)));
        assert!(says(&refused, "no such item"), "{refused}");
    });
}

/// A definition without a grant reaches public addresses over HTTPS only.
#[test]
fn c1_without_a_grant_only_public_https_is_reachable() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "ungranted");
        let before = fixture.upstream.connections();
        let other = |base: &str| {
            let mut other = definition();
            other["base_url"] = json!(base);
            other
        };
        let path = tenant.path("inside");
        tenant.operator.make(&path, &other("https://api.upstream.test:8443/shop/v1")).expect(201);
        let session = tenant.session();
        let denied = || error(session.call("inside/item", json!({"id": "1"})), "NETWORK_DENIED").to_string();
        assert!(denied().contains("private_networks"), "{}", denied());
        tenant.operator.replace(&path, &other("http://plain.upstream.test:8080/")).expect(200);
        assert!(denied().contains("without TLS"), "{}", denied());
        assert_eq!(fixture.upstream.connections(), before);
    });
}

#[test]
fn c1_a_tool_without_its_secret_has_a_missing_integration() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "secretive");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        let dry = format!("{}?dry_run=true", tenant.path("shop"));
        let checked = tenant.operator.make(&dry, &secret).expect(200).json();
        let made = tenant.make(&secret);
        assert_eq!(made["warnings"][0]["code"], "NO_CREDENTIAL", "{made}");
        assert_eq!(checked["warnings"], made["warnings"], "a dry run warns as the write does");
        let session = tenant.session();
        session.call("shop/item", json!({"id": "1"})).expect_error("INTEGRATION_MISSING");
        tenant.store_secret();
        fixture.upstream.answer(|_| upstream::ok("application/json", &format!(r#"{{"item":"{SECRET}"}}"#)));
        let reply = session.call("shop/item", json!({"id": "1"}));
        assert_eq!(reply.output(), &json!("*".repeat(SECRET.len())));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(request.contains(SECRET), "{request}");
    });
}

#[test]
fn c1_a_rejected_credential_names_its_keeper() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "expired");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        tenant.make(&secret);
        tenant.store_secret();
        let session = tenant.session();
        let call = || session.call("shop/item", json!({"id": "1"}));
        for status in [401, 403] {
            let plain = [("Content-Type", "text/plain")];
            fixture.upstream.answer(move |_| upstream::answer(status, &plain, b"no"));
            let refused = error(call(), "TOOL_FAILED");
            let says = |member: &str, what: &str| {
                assert!(refused[member].as_str().is_some_and(|text| text.contains(what)), "{refused}");
            };
            says("message", "it got");
            says("message", &format!("(status {status})"));
            says("hint", "check the credential");
        }
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        assert_eq!(call().output(), &json!(1));
    });
}

#[test]
fn c7_workspace_files_are_sent_and_responses_are_saved() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "filed");
        let grant = fixture.upstream.grant(json!({
            "filesystem": "workspace", "network": [{"host": "api.upstream.test", "port": 8443}],
        }));
        tenant.operator.replace(&tenant.path("shop/grant"), &grant).expect(200);
        let mut definition = definition();
        definition["actions"] = json!([
            {"name": "add_photo", "description": "Adds a photo.", "method": "POST", "path": "/photos", "body": "multipart",
             "input_schema": {"type": "object", "properties": {"photo": {"type": "string"}, "title": {"type": "string"}}},
             "arguments": {"photo": {"in": "body", "file": true}}},
            {"name": "report", "description": "Makes a report.", "method": "GET", "path": "/report",
             "result": {"file": "save_as"}},
        ]);
        let made = tenant.make(&definition);
        assert_eq!(made["capabilities"]["filesystem"], "workspace", "{made}");
        let session = tenant.session();
        session.put_file("in/a.png", b"\x89PNG").expect(204);
        fixture.upstream.answer(|request| match request.starts_with("GET ") {
            true => upstream::answer(200, &[("Content-Type", "application/pdf")], b"%PDF\xff"),
            false => upstream::ok("application/json", "7"),
        });
        let added = session.call("shop/add_photo", json!({"photo": "in/a.png", "title": "A"}));
        assert_eq!(added.output(), &json!(7));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(request.contains("multipart/form-data; boundary=toolgate-"), "{request}");
        assert!(
            request.contains("name=\"photo\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n"),
            "{request}"
        );
        let saved = session.call("shop/report", json!({"save_as": "out/r.pdf"}));
        let expected = json!({"path": "out/r.pdf", "bytes": 5, "content_type": "application/pdf"});
        assert_eq!(saved.output(), &expected);
        assert_eq!(session.get_file("out/r.pdf").expect(200).body, b"%PDF\xff");
        session.call("shop/add_photo", json!({"photo": "in/missing"})).expect_error("INVALID_ARGUMENTS");
    });
}

/// 9.11: a safe method alone does not waive approval.
#[test]
fn c1_safe_methods_need_no_approval_only_if_declared() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "asked");
        let supervised = json!({"enabled": ["*"], "autonomy": "supervised"});
        tenant.operator.make_agent("asked/supervised", &supervised);
        let session = tenant.operator.open_session("asked/supervised");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        tenant.make(&definition());
        assert_eq!(session.call("shop/item", json!({"id": "1"})).status(), "approval_required");
        let mut vouched = definition();
        vouched["safe_methods"] = json!(true);
        tenant.operator.replace(&tenant.path("shop"), &vouched).expect(200);
        assert_eq!(session.call("shop/item", json!({"id": "1"})).output(), &json!(1));
        assert_eq!(session.call("shop/order", json!({"items": []})).status(), "approval_required");
    });
}

/// Platform policies apply to custom tools, so their names resolve without a warning.
#[test]
fn c1_a_platform_policy_resolves_custom_tools() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "known-above");
        tenant.make(&definition());
        let warned = |tool: &str| {
            let preview =
                tenant.operator.post("/v1/platform/policy/diff", &json!({"blocked": [tool]})).expect(200);
            let warnings = preview.json()["warnings"].as_array().cloned().unwrap_or_default();
            warnings.iter().any(|warning| warning["code"] == "UNRESOLVED_TOOL")
        };
        assert!(!warned("shop/order") && !warned("shop/*"));
        assert!(warned("shop/ordr"), "an unknown tool gets a warning");
    });
}
