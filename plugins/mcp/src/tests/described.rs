//! The owner's document, and the plugin that it makes.

use super::*;

fn refusal(changes: Value) -> (String, String, String) {
    let error = describe(&envelope(document(changes))).unwrap_err();
    let detail = |name: &str| details(&error)[name].as_str().unwrap().to_owned();
    (error.message().to_owned(), detail("pointer"), detail("hint"))
}

#[test]
fn m4_before_its_server_was_asked_a_mount_has_one_tool() {
    let changes = json!({
        "display_name": "Weather", "publisher": "Acme", "category": "Data", "version": "1.2.0",
        "authentication": {"kind": "bearer", "provider": "weather"},
        "headers": {"X-Tenant": "acme"}, "rate_limit": {"calls": 60, "seconds": 60}, "tools": ["b", "a"],
    });
    let plugin = describe(&envelope(document(changes))).unwrap();

    assert_eq!(
        plugin,
        json!({
            "name": "weather", "version": "1.2.0", "publisher": "Acme", "category": "Data",
            "purpose": "Weather by place", "rate_limit": {"calls": 60, "seconds": 60},
            "capabilities": {
                "network": [{"scheme": "https", "host": "mcp.example.com", "methods": ["POST", "GET", "DELETE"], "path": "/mcp"}],
                "credentials": ["weather"],
            },
            "tools": [{
                "name": "discover",
                "description": plugin["tools"][0]["description"], "usage": plugin["tools"][0]["usage"],
                "input_schema": {"type": "object", "additionalProperties": false},
                "output_schema": {"type": "object", "required": ["protocol", "tools", "left_out"]},
                "hints": {"read_only": true, "destructive": false, "idempotent": true, "open_world": true},
                "tags": ["mcp"], "required_integrations": ["weather"],
                "definition": {"url": URL, "headers": [["x-tenant", "acme"]], "only": ["a", "b"]},
            }],
        })
    );
}

#[test]
fn m4_what_a_mount_may_reach_is_the_same_before_and_after_discovery() {
    for changes in [
        json!({}),
        json!({"protocol": "2025-11-25"}),
        json!({"protocol": "2026-07-28"}),
        json!({"url": "http://127.0.0.1:8080"}),
    ] {
        let document = document(changes);
        let before = describe(&envelope(document.clone())).unwrap();
        let after = mount(&document, &discovery(json!([{"name": "a", "inputSchema": {"type": "object"}}])));
        assert_eq!(before["capabilities"], after["capabilities"]);
    }
}

#[test]
fn m4_a_stateless_server_is_asked_with_post_alone() {
    let methods = |changes: Value| {
        describe(&envelope(document(changes))).unwrap()["capabilities"]["network"][0]["methods"].clone()
    };
    assert_eq!(methods(json!({"protocol": "2026-07-28"})), json!(["POST"]));
    assert_eq!(methods(json!({"protocol": "2025-11-25"})), json!(["POST", "GET", "DELETE"]));
}

#[test]
fn m4_the_address_has_one_spelling() {
    for (url, rule) in [
        ("https://MCP.example.com", json!(["https", "mcp.example.com", null, "/"])),
        ("https://mcp.example.com:443/a/", json!(["https", "mcp.example.com", null, "/a/"])),
        ("http://localhost:8080/mcp", json!(["http", "localhost", 8080, "/mcp"])),
        ("https://[::1]:8443/mcp", json!(["https", "[::1]", 8443, "/mcp"])),
        ("https://10.0.0.1/a-b/~c", json!(["https", "10.0.0.1", null, "/a-b/~c"])),
    ] {
        let plugin = describe(&envelope(document(json!({"url": url})))).unwrap();
        let found = &plugin["capabilities"]["network"][0];
        assert_eq!(json!([found["scheme"], found["host"], found["port"], found["path"]]), rule, "{url}");
    }
}

#[test]
fn m4_what_is_no_address_of_a_server_is_refused() {
    for url in [
        "mcp.example.com",
        "ftp://mcp.example.com/",
        "https:///mcp",
        "https://user:secret@mcp.example.com/",
        "https://mcp.example.com/?key=1",
        "https://mcp.example.com/#a",
        "https://mcp.example.com:0/",
        "https://mcp.example.com:99999/",
        "https://mcp.example.com:/",
        "https://mcp.example.com:+80/",
        "https://mcp_.example.com/",
        "https://bücher.example/",
        "https://0177.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::0001]/",
        "https://[::1/",
        "https://mcp.example.com/a//b",
        "https://mcp.example.com/a/../b",
        "https://mcp.example.com/a/..;x/b",
        "https://mcp.example.com/%2e%2e/",
        "https://mcp.example.com/a b",
        "https://mcp.example.com\\a",
        &format!("https://mcp.example.com/{}", "a".repeat(1_000)),
    ] {
        let (_, pointer, hint) = refusal(json!({"url": url}));
        assert_eq!(pointer, "/url", "{url}");
        assert!(!hint.is_empty());
    }
}

#[test]
fn m4_a_secret_in_an_address_is_told_where_it_belongs() {
    for (url, says) in [
        ("https://user:secret@mcp.example.com/", "credentials are bound by `authentication`"),
        ("https://mcp.example.com/?key=1", "has a query"),
    ] {
        let (message, ..) = refusal(json!({"url": url}));
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn m4_a_document_is_read_strictly() {
    for (changes, pointer, says) in [
        (json!({"kind": null}), "", "add `kind`"),
        (json!({"kind": "http"}), "/kind", "`mcp`"),
        (json!({"description": null}), "", "add `description`"),
        (json!({"description": " "}), "/description", "write"),
        (json!({"description": "a\u{200b}b"}), "/description", "invisible"),
        (json!({"url": null}), "", "add `url`"),
        (json!({"url": 1}), "/url", "a string"),
        (json!({"uri": "x"}), "/uri", "did you mean `url`?"),
        (json!({"authentification": {}}), "/authentification", "did you mean `authentication`?"),
        (json!({"base_url": "x"}), "/base_url", "kind `mcp` has no such field"),
        (json!({"xyzzy": "x"}), "/xyzzy", "known fields are `kind`"),
        (json!({"version": "1 2"}), "/version", "without spaces"),
        (json!({"protocol": "2024-10-07"}), "/protocol", "did you mean `2024-11-05`?"),
        (json!({"protocol": "1"}), "/protocol", "`2026-07-28`, `2025-11-25`, `2025-06-18`"),
        (json!({"tools": []}), "/tools", "list 1 to 1000"),
        (json!({"tools": ["a", 1]}), "/tools/1", "a string"),
        (json!({"tools": ["a", "a"]}), "/tools/1", "once"),
        (json!({"rate_limit": {"calls": 0, "seconds": 1}}), "/rate_limit/calls", "from 1 to 1000000"),
        (json!({"rate_limit": {"calls": 1}}), "/rate_limit", "add `seconds`"),
        (json!({"rate_limit": {"calls": 1, "second": 1}}), "/rate_limit/second", "did you mean `seconds`?"),
        (json!({"authentication": {"kind": "bearer"}}), "/authentication", "add `provider`"),
        (json!({"authentication": {"kind": "magic", "provider": "x"}}), "/authentication/kind", "`api_key`"),
        (json!({"authentication": {"kind": "none", "provider": "x"}}), "/authentication/provider", "`kind`"),
        (json!({"authentication": {"kind": "bearer", "token": "x"}}), "/authentication/token", "`provider`"),
        (
            json!({"authentication": {"kind": "oauth2_client_credentials", "provider": "x", "token_url": "http://a.b/t"}}),
            "/authentication/token_url",
            "https",
        ),
    ] {
        let (_, found, hint) = refusal(changes.clone());
        assert_eq!(found, pointer, "{changes}");
        assert!(hint.contains(says), "{changes}: {hint}");
    }
}

#[test]
fn m4_every_kind_of_authentication_is_taken() {
    for kind in ["api_key", "bearer", "basic", "oauth2_client_credentials", "oauth2_authorization_code"] {
        let plugin =
            describe(&envelope(document(json!({"authentication": {"kind": kind, "provider": "x"}}))))
                .unwrap();
        assert_eq!(plugin["tools"][0]["required_integrations"], json!(["x"]), "{kind}");
    }
    let none = describe(&envelope(document(json!({"authentication": {"kind": "none"}})))).unwrap();
    assert_eq!(none["capabilities"]["credentials"], json!([]));
    let oauth2 = json!({
        "kind": "oauth2_client_credentials", "provider": "x", "token_url": "https://a.example/t", "scopes": ["a"],
    });
    describe(&envelope(document(json!({"authentication": oauth2})))).unwrap();
}

#[test]
fn m4_headers_carry_neither_authority_nor_framing() {
    for name in [
        "Authorization",
        "cookie",
        "Proxy-Authorization",
        "X-Auth-User",
        "X-Api-Key",
        "my-token",
        "apikey",
        "client-secret",
        "Host",
        "Content-Length",
        "Content-Type",
        "Transfer-Encoding",
        "Connection",
        "TE",
        "Upgrade",
        "Expect",
        "X-Forwarded-For",
        "Forwarded",
        "X-HTTP-Method-Override",
        "Accept",
        "Last-Event-ID",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Sec-Fetch-Mode",
        "a b",
        "",
    ] {
        let (_, pointer, _) = refusal(json!({"headers": {name: "x"}}));
        assert_eq!(pointer, format!("/headers/{name}"));
    }
    for value in [json!(""), json!("a\nb"), json!("é"), json!(1), json!(" a")] {
        assert_eq!(refusal(json!({"headers": {"x-a": value}})).1, "/headers/x-a");
    }
    assert_eq!(refusal(json!({"headers": {"x-a": "1", "X-A": "2"}})).1, "/headers/x-a");
    let many: Value = (0..17).map(|number| (format!("x-{number}"), json!("a"))).collect();
    assert_eq!(refusal(json!({"headers": many})).1, "/headers");

    let plugin =
        describe(&envelope(document(json!({"headers": {"X-Tenant": "acme", "User-Agent": "a b"}})))).unwrap();
    let sent = &plugin["tools"][0]["definition"]["headers"];
    assert_eq!(*sent, json!([["user-agent", "a b"], ["x-tenant", "acme"]]));
}

#[test]
fn m4_hints_are_the_owners_word_and_not_the_servers() {
    for (definition, read_only) in
        [(json!({}), false), (json!({"read_only": ["b"]}), false), (json!({"read_only": ["a"]}), true)]
    {
        for annotations in [json!(null), json!({"readOnlyHint": true, "openWorldHint": false})] {
            let tools = json!([{"name": "a", "inputSchema": {"type": "object"}, "annotations": annotations}]);
            let plugin = mount(&document(definition.clone()), &discovery(tools));
            let expected = json!({
                "read_only": read_only, "destructive": !read_only, "idempotent": read_only, "open_world": true,
            });
            assert_eq!(plugin["tools"][0]["hints"], expected, "{definition} {annotations}");
        }
    }
    assert_eq!(refusal(json!({"read_only": "a"})).1, "/read_only");
    assert_eq!(refusal(json!({"read_only": ["a", "a"]})).1, "/read_only/1");
}

#[test]
fn m4_a_tool_carries_what_a_call_of_it_needs() {
    let tools = json!([{
        "name": "Get.Forecast", "title": "Forecast", "description": "Tells the weather.",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
        "outputSchema": {"type": "object"},
    }]);
    let document = document(json!({
        "headers": {"x-a": "b"}, "authentication": {"kind": "bearer", "provider": "weather"},
    }));
    let plugin = mount(&document, &discovery(tools));

    let tool = &plugin["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["original_name"], &tool["tags"], &tool["required_integrations"]),
        (&json!("get_forecast"), &json!("Get.Forecast"), &json!(["Forecast"]), &json!(["weather"]))
    );
    assert_eq!(
        tool["definition"],
        json!({
            "url": URL, "headers": [["x-a", "b"]], "protocol": "2026-07-28", "tool": "Get.Forecast", "structured": true,
            "mirrored": [{"path": ["region"], "header": "Mcp-Param-Region"}],
        })
    );
}

#[test]
fn m4_only_the_tools_that_the_owner_names_are_mounted() {
    let tools = json!([
        {"name": "a", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": {"type": "object"}},
    ]);
    let plugin = mount(&document(json!({"tools": ["b", "z"]})), &discovery(tools.clone()));
    assert_eq!(plugin["tools"].as_array().unwrap().len(), 1);
    assert_eq!(plugin["tools"][0]["name"], "b");

    let error = Mcp::describe(
        &json!({"namespace": "weather", "definition": document(json!({"tools": ["z"]})), "discovered": discovery(tools)})
            .to_string(),
    );
    assert_eq!(details(&error.unwrap_err())["pointer"], "/tools");
}

#[test]
fn m4_a_server_without_tools_makes_no_plugin() {
    let envelope = json!({"namespace": "weather", "definition": document(json!({})), "discovered": discovery(json!([]))});
    let error = Mcp::describe(&envelope.to_string()).unwrap_err();
    assert_eq!(details(&error)["pointer"], "/url");
    assert!(error.message().contains("no tool"));
}

#[test]
fn m4_a_long_description_is_whole_in_the_usage() {
    let long = "word ".repeat(1_500);
    let tools = json!([
        {"name": "a", "description": long.trim(), "inputSchema": {"type": "object"}},
        {"name": "b", "inputSchema": {"type": "object"}},
    ]);
    let plugin = mount(&document(json!({})), &discovery(tools));
    let tool = &plugin["tools"][0];
    assert!(tool["description"].as_str().unwrap().ends_with('…'));
    assert_eq!(tool["usage"], json!(long.trim()));
    assert!(plugin["tools"][1]["description"].as_str().unwrap().contains("`b`"));
}
