//! Definitions: tested before they are saved, replaced, bounded, and made of an OpenAPI document.

use super::*;

#[test]
fn c1_a_tool_is_replaced_and_deleted_with_its_etag() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "changing");
        tenant.make(&definition());
        tenant.operator.make(&tenant.path("shop"), &definition()).expect_refusal(412, "CONFLICT");
        let shown = tenant.operator.get(&tenant.path("shop")).expect(200);
        assert_eq!(shown.json(), definition());
        let mut other = definition();
        other["actions"].as_array_mut().expect("actions").remove(0);
        let replaced = tenant.operator.replace(&tenant.path("shop"), &other).expect(200).json();
        assert_eq!(replaced["tools"].as_array().map(Vec::len), Some(1));
        let session = tenant.session();
        session.call("shop/item", json!({"id": "1"})).expect_error("TOOL_NOT_FOUND");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"order":1}"#));
        session.call("shop/order", json!({"items": []})).output();
        let tag =
            tenant.operator.get(&tenant.path("shop")).header("etag").map(str::to_owned).unwrap_or_default();
        tenant.operator.send("DELETE", &tenant.path("shop"), &[("If-Match", &tag)], b"").expect(204);
        session.call("shop/order", json!({"items": []})).expect_error("TOOL_NOT_FOUND");
        tenant.operator.get(&tenant.path("shop")).expect_refusal(404, "NOT_FOUND");
    });
}

#[test]
fn c1_an_invalid_definition_is_refused_with_its_place() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "mistaken");
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
        for (place, value, expected) in cases {
            let mut invalid = definition();
            let (parent, name) = place.rsplit_once('/').expect("a pointer");
            invalid.pointer_mut(parent).expect("a place")[name.replace("~1", "/").as_str()] = value;
            let refused = tenant
                .operator
                .make(&tenant.path("shop"), &invalid)
                .expect_refusal(422, "INVALID_POLICY")
                .json();
            let pointer = refused["details"]["pointer"].as_str().unwrap_or_default().to_owned();
            assert!(pointer.starts_with(expected), "{place}: {refused}");
        }
        tenant.operator.get(&tenant.path("shop")).expect_refusal(404, "NOT_FOUND");
        // A namespace of the platform.
        tenant.operator.make(&tenant.path("files"), &definition()).expect_refusal(409, "CONFLICT");
        tenant.make(&definition());
    });
}

/// T04: the owner can give such an argument another name.
#[test]
fn c1_a_name_that_providers_refuse_is_warned_about() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "bracketed");
        let mut definition = definition();
        definition["actions"][1]["input_schema"]["properties"]["filter[status]"] = json!({"type": "string"});
        let made = tenant.make(&definition);
        let warning = &made["warnings"][0];
        assert_eq!(warning["code"], "REFUSED_NAME", "{made}");
        assert_eq!(warning["path"], "/actions/1/input_schema/properties/filter[status]");
        assert_eq!(made["warnings"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn c3_a_test_call_shows_request_and_response_without_the_secret() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "trying");
        let mut secret = definition();
        secret["authentication"] = json!({"kind": "api_key", "provider": "shop"});
        tenant.make(&secret);
        tenant.store_secret();
        let raw = format!(r#"{{"item":{{"name":"Pen"}},"you":"{SECRET}"}}"#);
        fixture.upstream.answer(move |_| upstream::ok("application/json", &raw));
        let request =
            json!({"organization": "trying", "tool": "shop/item", "arguments": {"id": "7", "fields": ["a"]}});
        let tried = tenant.operator.post("/v1/try", &request).expect(200).json();
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
        // A test call is a real call, recorded with its caller.
        let rows = tenant.operator.audit("kind=call&agent=try");
        assert!(rows.iter().any(|row| row["call"]["organization"] == "trying"), "{rows:?}");
    });
}

#[test]
fn c3_a_definition_is_tested_before_it_is_saved() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "drafting");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"item":1}"#));
        let owner = tenant.operator.with_new_token(&json!({"role": "owner", "organization": "drafting"}));
        let draft = |definition: &Value, action: &str| json!({"namespace": "shop", "definition": definition, "tool": action, "arguments": {"id": "1"}});
        let tried = owner.post("/v1/try", &draft(&definition(), "item")).expect(200).json();
        assert_eq!(tried["result"]["output"], json!(1), "{tried}");
        owner.get(&tenant.path("shop")).expect_refusal(404, "NOT_FOUND");
        // A refused request is shown as well.
        let mut elsewhere = definition();
        elsewhere["base_url"] = json!("https://elsewhere.example/");
        let tried = owner.post("/v1/try", &draft(&elsewhere, "item")).expect(200).json();
        assert_eq!(tried["result"]["error"]["error_type"], "NETWORK_DENIED", "{tried}");
        assert!(
            tried["requests"][0]["failed"].as_str().is_some_and(|why| why.contains("may not reach")),
            "{tried}"
        );
        owner.post("/v1/try", &draft(&json!({}), "item")).expect_refusal(422, "INVALID_POLICY");
        // The name of a platform plugin would borrow that plugin's permissions.
        let mut masked = draft(&definition(), "item");
        masked["namespace"] = json!("text");
        owner.post("/v1/try", &masked).expect_refusal(409, "CONFLICT");
        let theirs = json!({"organization": "trying", "tool": "shop/item"});
        owner.post("/v1/try", &theirs).expect_refusal(404, "NOT_FOUND");
        // A saved tool is subject to the organization's policy.
        tenant.make(&definition());
        let saved = json!({"tool": "shop/item", "arguments": {"id": "1"}});
        assert_eq!(owner.post("/v1/try", &saved).expect(200).json()["result"]["status"], "ok");
        tenant
            .operator
            .replace("/v1/orgs/drafting/policy", &json!({"enabled": ["*"], "disabled": ["shop/*"]}))
            .expect(200);
        let refused = owner.post("/v1/try", &saved).expect(200).json();
        assert_eq!(refused["result"]["error"]["error_type"], "TOOL_DISABLED", "{refused}");
    });
}

/// Concurrent requests get the last place exactly once.
#[test]
fn c1_an_organization_has_at_most_200_tools() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "crowded");
        let put = &|number: usize| {
            let path = tenant.path(&format!("shop-{number}"));
            tenant.operator.make(&path, &definition()).status
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
        // Replacing an existing tool does not count.
        assert_eq!(tenant.operator.replace(&tenant.path("shop-0"), &definition()).status, 200);
    });
}

#[test]
fn c2_an_openapi_document_becomes_a_tool_whose_actions_work() {
    with_fixture(|fixture| {
        let tenant = Tenant::new(fixture, "importing");
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
        let path = tenant.path("import");
        let shown = tenant.operator.post(&path, &request(true)).expect(200).json();
        assert_eq!(shown["tool"], Value::Null);
        assert_eq!(shown["definition"]["safe_methods"], true);
        assert_eq!(shown["definition"]["actions"][1]["body"], "binary", "{shown}");
        tenant.operator.get(&tenant.path("shop")).expect_refusal(404, "NOT_FOUND");
        let made = tenant.operator.post(&path, &request(false)).expect(201).json();
        assert_eq!(made["tool"]["tools"][0]["name"], "get_item", "{made}");
        tenant.operator.post(&path, &request(false)).expect_refusal(412, "CONFLICT");
        fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"name":"Pen"}"#));
        let item = tenant.session().call("shop/get_item", json!({"id": "7", "expand": ["a", "b"]}));
        assert_eq!(item.output(), &json!({"name": "Pen"}));
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(head(&request), "GET /shop/items/7?expand=a&expand=b HTTP/1.1");
        let invalid = json!({"namespace": "other", "document": "swagger: \"2.0\""});
        tenant.operator.post(&path, &invalid).expect_refusal(422, "INVALID_POLICY");
    });
}
