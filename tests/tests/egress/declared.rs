//! Tools that an organization declares of an HTTP API (C1), and what trying one shows (C3).

use toolgate_tests::{CallReply, Client, PluginFile, Session, Value, json};

use super::{Fixture, upstream, with_fixture};

const SECRET: &str = "sk_live_declared_5511aa";

/// A tool of the upstream, whose network only an operator can grant.
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

struct House {
    operator: Client,
    organization: String,
}

impl House {
    /// An organization of its own, whose tool may reach the upstream.
    fn new(fixture: &Fixture, organization: &str) -> Self {
        let house = Self { operator: fixture.daemon.operator(), organization: organization.to_owned() };
        house.operator.make_agent(&format!("{organization}/bot"), &json!({"enabled": ["*"]}));
        let grant = json!({
            "network": [{"host": "api.upstream.test", "port": 8443}, {"scheme": "http", "host": "plain.upstream.test", "port": 8080}],
            "private_networks": [format!("{}/32", fixture.upstream.address)],
            "plain_http": ["plain.upstream.test:8080"],
            "extra_ca": [fixture.upstream.authority],
            "credentials": ["shop"],
        });
        house.operator.make(&house.path("shop/grant"), &grant).expect(201);
        house
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

    fn keep_secret(&self) {
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
fn c1_a_declared_action_is_a_request_and_its_answer_a_result() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "declared");
        let made = house.make(&definition());
        assert_eq!(made["state"], "active", "{made}");
        assert_eq!(made["tools"][0]["wire_name"], "call_shop_item");
        assert_eq!(made["warnings"], json!([]), "{made}");
        fixture.upstream.answer(|request| match request.starts_with("GET ") {
            true => upstream::ok("application/json", r#"{"item":{"name":"Pen","id":12345678901234567890}}"#),
            false => upstream::answer(201, &[("Content-Type", "application/json")], br#"{"order":7}"#),
        });
        let session = house.session();
        let item = session.call("shop/item", json!({"id": "a/b?c#d", "fields": ["name", "id"]}));
        assert_eq!(item.output(), &json!({"name": "Pen", "id": 12345678901234567890_u64}), "{}", item.0);
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(head(&request), "GET /shop/v1/items/a%2Fb%3Fc%23d?fields=name,id HTTP/1.1");
        assert!(request.to_ascii_lowercase().contains("\r\nx-client: toolgate\r\n"), "{request}");

        // An argument stays in its place: what would lead elsewhere is not sent.
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

/// 9.4: a name from elsewhere makes the tool's, is shown, and is taken in a call as S5 writes it.
#[test]
fn c1_an_action_is_called_as_it_is_elsewhere() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "named");
        let mut definition = definition();
        definition["actions"][0]["name"] = "getItem".into();
        let made = house.make(&definition);
        assert_eq!(made["tools"][0]["name"], "get_item", "{made}");
        assert_eq!(
            (&made["tools"][0]["original_name"], &made["tools"][1]["original_name"]),
            (&json!("getItem"), &Value::Null)
        );
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":{"name":"Pen"}}"#));
        let session = house.session();
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
            "as it was called"
        );
        assert_eq!(flat("shop", "get_item")["status"], "ok");
        assert_eq!(session.call("shop/getItem", json!({"id": "7"})).output(), &json!({"name": "Pen"}));
        for action in ["getitem", "GetItem", "getItems"] {
            assert_eq!(flat("shop", action)["error_type"], "TOOL_NOT_FOUND", "{action}");
        }
        let tools = house.operator.get(&format!("/v1/sessions/{}/tools", session.id)).expect(200).json();
        let listed =
            tools["tools"].as_array().into_iter().flatten().find(|tool| tool["name"] == "call_shop_get_item");
        assert_eq!(listed.map(|tool| &tool["original_name"]), Some(&json!("getItem")), "{tools}");
        let tried = json!({"organization": "named", "tool": "shop/getItem", "arguments": {"id": "7"}});
        assert_eq!(house.operator.post("/v1/try", &tried).expect(200).json()["result"]["status"], "ok");
        // The gate knows it by its own name alone, and holds whatever it is called by.
        house
            .operator
            .make("/v1/orgs/named/agents/other", &json!({"enabled": ["*"], "disabled": ["shop/get_item"]}));
        let other = house.operator.open_session("named/other");
        other.call("shop/getItem", json!({"id": "7"})).expect_error("TOOL_DISABLED");
        // Two that would be one tool are refused, and what is there stays.
        definition["actions"][1]["name"] = "get-item".into();
        house.operator.replace(&house.path("shop"), &definition).expect_refusal(422, "INVALID_POLICY");
        assert_eq!(flat("shop", "getItem")["status"], "ok");
    });
}

/// Nothing of an organization's tool is there for another one.
#[test]
fn c1_a_tool_of_one_organization_does_not_exist_for_another() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "having");
        house.make(&definition());
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        assert_eq!(house.session().call("shop/item", json!({"id": "1"})).output(), &json!(1));
        let operator = fixture.daemon.operator();
        operator.make_agent("lacking/bot", &json!({"enabled": ["*"]}));
        let other = operator.open_session("lacking/bot");
        let theirs = other.call("shop/item", json!({"id": "1"}));
        let nobodys = other.call("shop/nothing", json!({"id": "1"}));
        assert_eq!(error(theirs, "TOOL_NOT_FOUND")["hint"], error(nobodys, "TOOL_NOT_FOUND")["hint"]);
        let listed = operator.get(&format!("/v1/sessions/{}/tools", other.id)).expect(200).text();
        assert!(!listed.contains("call_shop_"), "{listed}");
        let owner = operator.with_new_token(&json!({"role": "owner", "organization": "lacking"}));
        owner.get(&house.path("shop")).expect_refusal(404, "NOT_FOUND");
        owner.get("/v1/orgs/lacking/tools").expect(200);
        assert_eq!(owner.get("/v1/orgs/lacking/tools").json()["items"], json!([]));
        // It can have one of the same name, which is another.
        let theirs = json!({"description": "Theirs.", "base_url": "https://other.example", "actions": [
            {"name": "nothing", "description": "Nothing.", "method": "GET", "path": "/", "input_schema": {"type": "object"}}]});
        owner.make("/v1/orgs/lacking/tools/shop", &theirs).expect(201);
        let called = |session: &Session| operator.get(&format!("/v1/sessions/{}/tools", session.id)).text();
        assert!(called(&other).contains("call_shop_nothing") && !called(&other).contains("call_shop_item"));
        assert!(called(&house.session()).contains("call_shop_item"));
    });
}

#[test]
fn c1_a_tool_is_replaced_and_removed_under_its_tag() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "changing");
        house.make(&definition());
        house.operator.make(&house.path("shop"), &definition()).expect_refusal(412, "CONFLICT");
        let shown = house.operator.get(&house.path("shop")).expect(200);
        assert_eq!(shown.json(), definition());
        let mut other = definition();
        other["actions"].as_array_mut().expect("actions").remove(0);
        let replaced = house.operator.replace(&house.path("shop"), &other).expect(200).json();
        assert_eq!(replaced["tools"].as_array().map(Vec::len), Some(1));
        let session = house.session();
        session.call("shop/item", json!({"id": "1"})).expect_error("TOOL_NOT_FOUND");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"order":1}"#));
        session.call("shop/order", json!({"items": []})).output();
        let tag =
            house.operator.get(&house.path("shop")).header("etag").map(str::to_owned).unwrap_or_default();
        house.operator.send("DELETE", &house.path("shop"), &[("If-Match", &tag)], b"").expect(204);
        session.call("shop/order", json!({"items": []})).expect_error("TOOL_NOT_FOUND");
        house.operator.get(&house.path("shop")).expect_refusal(404, "NOT_FOUND");
    });
}

/// Which of the two is meant is not for the daemon to guess, and nobody else is concerned.
#[test]
fn c1_a_plugin_of_the_platform_under_the_name_of_a_tool_serves_neither_there() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "crossed");
        let operator = &house.operator;
        operator.make(&house.path("late"), &definition()).expect(201);
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = house.session();
        // No operator granted this one its network, so it is refused there, and is there.
        session.call("late/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        operator.load("late", &PluginFile::new("late").build());
        session.call("late/item", json!({"id": "1"})).expect_error("TOOL_NOT_FOUND");
        session.call("late/answer", json!({})).expect_error("TOOL_NOT_FOUND");
        operator.make_agent("uncrossed/bot", &json!({"enabled": ["*"]}));
        operator.open_session("uncrossed/bot").call("late/answer", json!({})).output();
        operator.make("/v1/orgs/uncrossed/tools/late", &definition()).expect_refusal(409, "CONFLICT");
        operator.delete("/v1/plugins/late").expect(204);
        session.call("late/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
    });
}

/// A grant is the operator's, and outlives what the owner writes.
#[test]
fn c1_a_grant_holds_over_another_definition_and_can_be_less_than_that_names() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "granted");
        house.make(&definition());
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = house.session();
        session.call("shop/item", json!({"id": "1"})).output();
        let mut less: Value = house.operator.get(&house.path("shop/grant")).expect(200).json();
        less["network"] = json!([{"host": "api.upstream.test", "port": 8443, "methods": ["POST"]}]);
        house.operator.replace(&house.path("shop/grant"), &less).expect(200);
        session.call("shop/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        house.operator.replace(&house.path("shop"), &definition()).expect(200);
        session.call("shop/item", json!({"id": "1"})).expect_error("NETWORK_DENIED");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"order":1}"#));
        session.call("shop/order", json!({"items": []})).output();
    });
}

/// The bucket is the plugin's own, and its size what the definition says.
#[test]
fn c1_what_the_service_takes_is_held() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "limited");
        let mut limited = definition();
        limited["rate_limit"] = json!({"calls": 2, "seconds": 86_400});
        house.make(&limited);
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let session = house.session();
        for _ in 0..2 {
            session.call("shop/item", json!({"id": "1"})).output();
        }
        let error = error(session.call("shop/item", json!({"id": "1"})), "RATE_LIMITED");
        assert!(error["details"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 40_000_000), "{error}");
    });
}

#[test]
fn c1_an_upstream_that_fails_is_told_from_a_request_that_it_refuses() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "failing");
        house.make(&definition());
        let session = house.session();
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

/// What an owner alone can say reaches the public network over HTTPS, and no other.
#[test]
fn c1_without_a_grant_a_definition_reaches_no_private_address_and_nothing_without_tls() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "ungranted");
        let before = fixture.upstream.connections();
        let other = |base: &str| {
            let mut other = definition();
            other["base_url"] = json!(base);
            other
        };
        let path = house.path("inside");
        house.operator.make(&path, &other("https://api.upstream.test:8443/shop/v1")).expect(201);
        let session = house.session();
        let denied = || error(session.call("inside/item", json!({"id": "1"})), "NETWORK_DENIED").to_string();
        assert!(denied().contains("private_networks"), "{}", denied());
        house.operator.replace(&path, &other("http://plain.upstream.test:8080/")).expect(200);
        assert!(denied().contains("without TLS"), "{}", denied());
        assert_eq!(fixture.upstream.connections(), before);
    });
}

#[test]
fn c1_a_definition_that_makes_no_tool_is_refused_with_its_place() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "mistaken");
        let cases: [(&str, Value, &str); 8] = [
            ("/base_ulr", json!("https://a.example"), "/base_ulr"),
            ("/base_url", json!("ftp://a.example"), "/base_url"),
            ("/base_url", json!("https://u:p@a.example"), "/base_url"),
            ("/headers/Authorization", json!("Bearer x"), "/headers/Authorization"),
            ("/kind", json!("htp"), "/kind"),
            ("/actions/0/path", json!("/items/{other}"), "/actions/0/path"),
            ("/actions/0/input_schema/properties/id/type", json!("strin"), "/actions/0/input_schema"),
            ("/actions/1/name", json!("item"), "/actions/1/name"),
        ];
        for (place, value, told) in cases {
            let mut unsound = definition();
            let (parent, name) = place.rsplit_once('/').expect("a pointer");
            unsound.pointer_mut(parent).expect("a place")[name.replace("~1", "/").as_str()] = value;
            let refused = house
                .operator
                .make(&house.path("shop"), &unsound)
                .expect_refusal(422, "INVALID_POLICY")
                .json();
            let pointer = refused["details"]["pointer"].as_str().unwrap_or_default().to_owned();
            assert!(pointer.starts_with(told), "{place}: {refused}");
        }
        house.operator.get(&house.path("shop")).expect_refusal(404, "NOT_FOUND");
        // A namespace that everybody has already.
        house.operator.make(&house.path("files"), &definition()).expect_refusal(409, "CONFLICT");
        house.make(&definition());
    });
}

#[test]
fn c1_a_secret_is_the_hosts_and_without_it_the_integration_is_missing() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "secretive");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        let made = house.make(&secret);
        assert_eq!(made["warnings"][0]["code"], "NO_CREDENTIAL", "{made}");
        let session = house.session();
        session.call("shop/item", json!({"id": "1"})).expect_error("INTEGRATION_MISSING");
        house.keep_secret();
        fixture.upstream.answer(|_| upstream::ok("application/json", &format!(r#"{{"item":"{SECRET}"}}"#)));
        let reply = session.call("shop/item", json!({"id": "1"}));
        assert_eq!(reply.output(), &json!("*".repeat(SECRET.len())));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert!(request.contains(SECRET), "{request}");
    });
}

#[test]
fn c1_a_credential_that_is_not_accepted_is_for_who_keeps_it() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "expired");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        house.make(&secret);
        house.keep_secret();
        let session = house.session();
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
            says("hint", "whoever keeps the credential must look at it");
        }
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        assert_eq!(call().output(), &json!(1));
    });
}

/// 9.11: a method alone does not loosen the gate.
#[test]
fn c1_what_only_reads_passes_unasked_where_the_definition_says_so() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "asked");
        let supervised = json!({"enabled": ["*"], "autonomy": "supervised"});
        house.operator.make_agent("asked/supervised", &supervised);
        let session = house.operator.open_session("asked/supervised");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        house.make(&definition());
        assert_eq!(session.call("shop/item", json!({"id": "1"})).status(), "approval_required");
        let mut vouched = definition();
        vouched["safe_methods"] = json!(true);
        house.operator.replace(&house.path("shop"), &vouched).expect(200);
        assert_eq!(session.call("shop/item", json!({"id": "1"})).output(), &json!(1));
        assert_eq!(session.call("shop/order", json!({"items": []})).status(), "approval_required");
    });
}

#[test]
fn c3_a_trial_shows_the_request_as_it_was_sent_and_the_raw_answer_without_the_secret() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "trying");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        house.make(&secret);
        house.keep_secret();
        let raw = format!(r#"{{"item":{{"name":"Pen"}},"you":"{SECRET}"}}"#);
        fixture.upstream.answer(move |_| upstream::ok("application/json", &raw));
        let request =
            json!({"organization": "trying", "tool": "shop/item", "arguments": {"id": "7", "fields": ["a"]}});
        let tried = house.operator.post("/v1/try", &request).expect(200).json();
        assert_eq!(tried["result"]["output"], json!({"name": "Pen"}), "{tried}");
        assert!(tried["result"]["usage"]["fuel"].as_u64().is_some_and(|fuel| fuel > 0));
        let seen = &tried["requests"][0];
        assert_eq!(seen["request"], "GET https://api.upstream.test:8443/shop/v1/items/7?fields=a", "{tried}");
        let field = |name: &str| {
            let fields = seen["headers"].as_array().into_iter().flatten();
            fields.filter(|field| field["name"] == name).map(|field| field["value"].clone()).next()
        };
        assert_eq!(field("x-api-key"), Some(json!("***")), "{tried}");
        assert_eq!(field("x-client"), Some(json!("toolgate")));
        assert_eq!(seen["status"], 200);
        assert_eq!(seen["credential"], "shop@1");
        assert_eq!(seen["rule"]["host"], "api.upstream.test");
        let answer = seen["answer"]["text"].as_str().unwrap_or_default();
        assert!(answer.starts_with(r#"{"item":{"name":"Pen"}"#) && answer.contains("***"), "{answer}");
        assert!(!tried.to_string().contains(SECRET), "{tried}");
        // It was a real call, and is in the log under whoever tried.
        let rows = house.operator.audit("kind=call&agent=try");
        assert!(rows.iter().any(|row| row["call"]["organization"] == "trying"), "{rows:?}");
    });
}

#[test]
fn c3_a_definition_is_tried_before_it_is_saved_and_leaves_nothing() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "drafting");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let owner = house.operator.with_new_token(&json!({"role": "owner", "organization": "drafting"}));
        let draft = |definition: &Value, action: &str| json!({"namespace": "shop", "definition": definition, "tool": action, "arguments": {"id": "1"}});
        let tried = owner.post("/v1/try", &draft(&definition(), "item")).expect(200).json();
        assert_eq!(tried["result"]["output"], json!(1), "{tried}");
        owner.get(&house.path("shop")).expect_refusal(404, "NOT_FOUND");
        // What is refused on its way is shown as well.
        let mut elsewhere = definition();
        elsewhere["base_url"] = json!("https://elsewhere.example/");
        let tried = owner.post("/v1/try", &draft(&elsewhere, "item")).expect(200).json();
        assert_eq!(tried["result"]["error"]["error_type"], "NETWORK_DENIED", "{tried}");
        assert!(
            tried["requests"][0]["failed"].as_str().is_some_and(|why| why.contains("may not reach")),
            "{tried}"
        );
        owner.post("/v1/try", &draft(&json!({}), "item")).expect_refusal(422, "INVALID_POLICY");
        // Under the name of a platform's plugin it would have what is allowed to that one.
        let mut masked = draft(&definition(), "item");
        masked["namespace"] = json!("text");
        owner.post("/v1/try", &masked).expect_refusal(409, "CONFLICT");
        let theirs = json!({"organization": "trying", "tool": "shop/item"});
        owner.post("/v1/try", &theirs).expect_refusal(404, "NOT_FOUND");
        // A saved tool goes by the organization's policy.
        house.make(&definition());
        let saved = json!({"tool": "shop/item", "arguments": {"id": "1"}});
        assert_eq!(owner.post("/v1/try", &saved).expect(200).json()["result"]["status"], "ok");
        house
            .operator
            .replace("/v1/orgs/drafting/policy", &json!({"enabled": ["*"], "disabled": ["shop/*"]}))
            .expect(200);
        let refused = owner.post("/v1/try", &saved).expect(200).json();
        assert_eq!(refused["result"]["error"]["error_type"], "TOOL_DISABLED", "{refused}");
    });
}

/// However many are made at once: the last place is given once.
#[test]
fn c1_an_organization_has_200_tools_and_no_more() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "crowded");
        let put = &|number: usize| {
            let path = house.path(&format!("shop-{number}"));
            house.operator.make(&path, &definition()).status
        };
        let four = |first: usize| {
            std::thread::scope(|threads| {
                let running = [0, 1, 2, 3].map(|turn| threads.spawn(move || put(first + turn)));
                running.map(|thread| thread.join().expect("an answer"))
            })
        };
        for first in (0..196).step_by(4) {
            assert_eq!(four(first), [201; 4], "{first}");
        }
        let made: Vec<u16> = (196..199).map(put).collect();
        assert_eq!(made, [201; 3]);
        let mut last = four(199);
        last.sort_unstable();
        assert_eq!(last, [201, 429, 429, 429]);
        // Another definition of one that is there is no tool more.
        assert_eq!(house.operator.replace(&house.path("shop-0"), &definition()).status, 200);
    });
}

/// The platform's word holds for it, so nobody is to think that it does not.
#[test]
fn c1_a_platforms_policy_knows_the_tools_that_organizations_made() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "known-above");
        house.make(&definition());
        let warned = |tool: &str| {
            let preview =
                house.operator.post("/v1/platform/policy/diff", &json!({"blocked": [tool]})).expect(200);
            let warnings = preview.json()["warnings"].as_array().cloned().unwrap_or_default();
            warnings.iter().any(|warning| warning["code"] == "UNRESOLVED_TOOL")
        };
        assert!(!warned("shop/order") && !warned("shop/*"));
        assert!(warned("shop/ordr"), "no organization has that one");
    });
}

#[test]
fn c2_an_openapi_document_becomes_a_tool_whose_actions_work() {
    with_fixture(|fixture| {
        let house = House::new(fixture, "importing");
        let document = r#"
openapi: 3.0.3
info: {title: Shop, version: "1.2"}
servers: [{url: "https://api.upstream.test:8443/shop"}]
paths:
  /items/{id}:
    get:
      operationId: getItem
      summary: One item
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: expand, in: query, schema: {type: array, items: {type: string}}}
      responses: {"200": {description: ok}}
  /items/{id}/picture:
    put:
      operationId: putPicture
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody: {required: true, content: {image/png: {schema: {type: string, format: binary}}}}
      responses: {"200": {description: ok}}
"#;
        let request = |dry: bool| json!({"namespace": "shop", "document": document, "safe_methods": true, "dry_run": dry});
        let path = house.path("import");
        let shown = house.operator.post(&path, &request(true)).expect(200).json();
        assert_eq!(shown["tool"], Value::Null);
        assert_eq!(shown["definition"]["safe_methods"], true);
        assert_eq!(shown["left_out"][0]["what"], "PUT /items/{id}/picture", "{shown}");
        house.operator.get(&house.path("shop")).expect_refusal(404, "NOT_FOUND");
        let made = house.operator.post(&path, &request(false)).expect(201).json();
        assert_eq!(made["tool"]["tools"][0]["name"], "get_item", "{made}");
        house.operator.post(&path, &request(false)).expect_refusal(412, "CONFLICT");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"name":"Pen"}"#));
        let item = house.session().call("shop/get_item", json!({"id": "7", "expand": ["a", "b"]}));
        assert_eq!(item.output(), &json!({"name": "Pen"}));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(head(&request), "GET /shop/items/7?expand=a&expand=b HTTP/1.1");
        let unsound = json!({"namespace": "other", "document": "swagger: \"2.0\""});
        house.operator.post(&path, &unsound).expect_refusal(422, "INVALID_POLICY");
    });
}
