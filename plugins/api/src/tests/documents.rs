//! Each refusal of a document: its place, and the way out.

use super::*;

#[track_caller]
fn assert_refused(document: &Value, pointer: &str, words: &str) {
    let error = plugin(document).err().unwrap_or_else(|| panic!("accepted: {words}"));
    assert_eq!(error.code(), "INVALID_ARGUMENTS");
    let details = error.details().unwrap();
    assert_eq!(details["pointer"], pointer, "{error}");
    let hint = details["hint"].as_str().unwrap();
    assert!(!hint.is_empty());
    assert!(format!("{error} — {hint}").contains(words), "{error} — {hint}");
}

/// Refusals of a document with these members, each with its place and some words of it.
fn refused_members(cases: Vec<(Value, &str, &str)>) {
    for (members, pointer, words) in cases {
        assert_refused(&with_members(members), pointer, words);
    }
}

/// The same for members of its action; the place is within the action.
fn refused_actions(cases: Vec<(Value, &str, &str)>) {
    for (members, pointer, words) in cases {
        assert_refused(&with_action(members), &format!("/actions/0{pointer}"), words);
    }
}

fn assert_accepted(document: &Value) {
    plugin(document).unwrap_or_else(|error| panic!("{error:?}"));
}

#[test]
fn c1_the_documents_that_refusals_start_from_are_accepted() {
    assert_accepted(&with_members(json!({})));
    assert_accepted(&with_members(
        json!({"kind": "http", "display_name": "Items", "authentication": {"kind": "none"}, "safe_methods": true}),
    ));
}

#[test]
fn c1_a_document_is_an_object_with_known_fields() {
    assert_refused(&json!([]), "", "object");
    assert_refused(&json!("x"), "", "object");
    refused_members(vec![
        (json!({"baseurl": "x"}), "/baseurl", "did you mean `base_url`?"),
        (json!({"Actions": []}), "/Actions", "did you mean `actions`?"),
        (json!({"xyzzy": 1}), "/xyzzy", "known fields are"),
        (json!({"a/b~c": 1}), "/a~1b~0c", "unknown field"),
        (json!({"kind": "mcp"}), "/kind", "`mcp`"),
        (json!({"kind": 1}), "/kind", "a number stands where a string belongs"),
        (json!({"safe_methods": "yes"}), "/safe_methods", "a string stands where `true` or `false` belongs"),
        (json!({"safe_methods": ["GET"]}), "/safe_methods", "write `true` or `false`"),
        (json!({"safe_method": true}), "/safe_method", "did you mean `safe_methods`?"),
    ]);
}

#[test]
fn c1_what_must_be_there_is_asked_for() {
    for name in ["description", "base_url", "actions"] {
        refused_members(vec![(json!({name: null}), "", name)]);
    }
    for name in ["name", "description", "method", "path"] {
        refused_actions(vec![(json!({name: null}), "", name)]);
    }
}

#[test]
fn c1_texts_are_bounded() {
    refused_members(vec![
        (json!({"description": " "}), "/description", "empty"),
        (json!({"description": "a".repeat(2_001)}), "/description", "2000"),
        (json!({"description": "a\u{1b}"}), "/description", "control"),
        (json!({"display_name": "a".repeat(101)}), "/display_name", "100"),
        (json!({"publisher": "a".repeat(201)}), "/publisher", "200"),
        (json!({"category": "a".repeat(101)}), "/category", "100"),
        (json!({"version": "1 2"}), "/version", "one word"),
        (json!({"version": 1}), "/version", "string"),
    ]);
    refused_actions(vec![
        (json!({"description": "a".repeat(4_097)}), "/description", "4096"),
        (json!({"usage": "a".repeat(16_385)}), "/usage", "16384"),
        (json!({"tags": ["a", "b".repeat(101)]}), "/tags/1", "100"),
        (json!({"tags": vec!["a"; 101]}), "/tags", "100"),
        (json!({"path": format!("/{}", "a".repeat(2_000))}), "/path", "2000"),
        (
            json!({"content_type": "a".repeat(201), "method": "POST", "input_schema": any_of(&["a"])}),
            "/content_type",
            "media type",
        ),
    ]);
    let whole = json!({"description": "a".repeat(2 * 1024 * 1024)});
    assert_refused(&whole, "", "2097152");
}

#[test]
fn c1_a_base_url_is_a_place_that_a_rule_can_name() {
    for url in [
        "api.example.com",
        "ftp://api.example.com",
        "HTTPS://api.example.com",
        "https://",
        "https:///v1",
        "https://u:p@api.example.com",
        "https://api.example.com?a=b",
        "https://api.example.com/#a",
        "https://api.example.com:0",
        "https://api.example.com:99999",
        "https://api.example.com:080",
        "https://api.example.com:",
        "https://api_x.example.com",
        "https://-a.example",
        "https://a..example",
        "https://a.example.",
        "https://*.example.com",
        "https://exämple.com",
        "https://127.1",
        "https://0x7f.1",
        "https://2130706433",
        "https://[::0001]",
        "https://[::1",
        "https://[fe80::1%eth0]",
        "https://a.example/../b",
        "https://a.example//b",
        "https://a.example/%2e%2e/b",
        "https://a.example/a b",
        "https://a.example/%zz",
        "https://a.example\\b",
        "https://a.example/{id}",
    ] {
        refused_members(vec![(json!({"base_url": url}), "/base_url", "")]);
    }
    for url in [
        "https://api.example.com",
        "http://127.0.0.1:8080",
        "https://[2001:db8::1]/v1",
        "https://xn--exmple-cua.com/",
        "https://localhost",
        "https://a.example/a%20b/c",
    ] {
        assert_accepted(&with_members(json!({"base_url": url})));
    }
    refused_members(vec![
        (json!({"base_url": "https://u:p@api.example.com"}), "/base_url", "store it as a credential"),
        (json!({"base_url": "https://api.example.com/v1?a=b"}), "/base_url", "a query or a fragment"),
        (json!({"base_url": format!("https://a.example/{}", "a".repeat(1_000))}), "/base_url", "1000"),
    ]);
}

#[test]
fn c1_authentication_names_a_provider_and_holds_no_secret() {
    let authentication = |value: Value| json!({"authentication": value});
    for kind in ["api_key", "bearer", "basic", "oauth2_client_credentials", "oauth2_authorization_code"] {
        assert_accepted(&with_members(authentication(json!({"kind": kind, "provider": "items"}))));
        refused_members(vec![(authentication(json!({"kind": kind})), "/authentication", "provider")]);
    }
    for secret in ["secret", "client_secret", "token", "api_key", "password", "client_id"] {
        let value = json!({"kind": "bearer", "provider": "items", secret: "s3cret"});
        refused_members(vec![(
            authentication(value),
            &format!("/authentication/{secret}"),
            "credential put",
        )]);
    }
    refused_members(vec![
        (authentication(json!({})), "/authentication", "kind"),
        (authentication(json!("bearer")), "/authentication", "object"),
        (authentication(json!({"kind": "oauth2"})), "/authentication/kind", "oauth2"),
        (authentication(json!({"kind": "none", "provider": "x"})), "/authentication/provider", "unknown"),
        (authentication(json!({"kind": "bearer", "provider": "a b"})), "/authentication/provider", "word"),
        (
            authentication(json!({"kind": "bearer", "provider": "a", "token_url": "https://a.example"})),
            "/authentication/token_url",
            "unknown",
        ),
        (
            authentication(
                json!({"kind": "oauth2_client_credentials", "provider": "a", "token_url": "http://a.example"}),
            ),
            "/authentication/token_url",
            "TLS",
        ),
        (
            authentication(json!({"kind": "oauth2_client_credentials", "provider": "a", "scopes": "a"})),
            "/authentication/scopes",
            "list",
        ),
        (
            authentication(json!({"kind": "oauth2_client_credentials", "provider": "a", "scopes": ["a b"]})),
            "/authentication/scopes/0",
            "word",
        ),
    ]);
    assert_accepted(&with_members(authentication(json!({
        "kind": "oauth2_client_credentials", "provider": "a", "token_url": "https://a.example/token", "scopes": ["read"],
    }))));
}

#[test]
fn c1_a_credential_is_not_asked_for_without_tls() {
    let mut document = with_members(json!({"base_url": "http://127.0.0.1:80"}));
    assert_accepted(&document);
    document["authentication"] = json!({"kind": "bearer", "provider": "items"});
    assert_refused(&document, "/authentication", "TLS");
}

#[test]
fn c1_headers_that_lend_authority_or_frame_the_message_are_refused() {
    for name in [
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "Cookie",
        "Set-Cookie",
        "X-Api-Key",
        "x_api_key",
        "apikey",
        "X-Goog-Api-Key",
        "X-Auth",
        "X-Auth-Token",
        "X-Auth-User",
        "X-Amz-Security-Token",
        "Private-Token",
        "Token",
        "X-Access-Key",
        "X-Client-Secret",
        "X-Password",
        "Ocp-Apim-Subscription-Key",
        "X-Authorization",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Keep-Alive",
        "Proxy-Connection",
        "Accept-Encoding",
        "Content-Encoding",
        "HTTP2-Settings",
        "Proxy-Foo",
        "Via",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Real-IP",
        "X-HTTP-Method-Override",
        "X-Original-URL",
        "Content-Type",
        "a b",
        "a:b",
        "",
        "é",
        "a\n",
    ] {
        let pointer = format!("/headers/{name}");
        refused_members(vec![(json!({"headers": {name: "v"}}), &pointer, "")]);
        refused_actions(vec![(
            json!({"input_schema": any_of(&["a"]), "arguments": {"a": {"in": "header", "name": name}}}),
            "/arguments/a",
            "",
        )]);
    }
    for name in
        ["Accept", "Accept-Language", "User-Agent", "X-Trace", "Idempotency-Key", "If-Match", "Authority"]
    {
        assert_accepted(&with_members(json!({"headers": {name: "v"}})));
    }
}

#[test]
fn c1_values_of_headers_are_printable() {
    for value in [
        json!("a\r\nb"),
        json!("a\u{7f}"),
        json!("é"),
        json!(""),
        json!(" "),
        json!("a".repeat(1_001)),
        json!(1),
    ] {
        refused_members(vec![(json!({"headers": {"X-A": value}}), "/headers/X-A", "")]);
    }
    refused_members(vec![(json!({"headers": {"X-A": "1", "x-a": "2"}}), "/headers/x-a", "twice")]);
    let many: Value = (0..51).map(|index| (format!("X-{index}"), json!("v"))).collect();
    refused_members(vec![(json!({"headers": many}), "/headers", "50")]);
}

#[test]
fn c1_a_rate_limit_is_calls_in_seconds() {
    let limit = |value: Value| json!({"rate_limit": value});
    assert_accepted(&with_members(limit(json!({"calls": 1, "seconds": 86_400}))));
    refused_members(vec![
        (limit(json!({"calls": 1})), "/rate_limit", "seconds"),
        (limit(json!({"calls": 0, "seconds": 1})), "/rate_limit/calls", "1000000"),
        (limit(json!({"calls": 1.5, "seconds": 1})), "/rate_limit/calls", "whole"),
        (limit(json!({"calls": 1, "seconds": 86_401})), "/rate_limit/seconds", "86400"),
        (limit(json!({"calls": 1, "seconds": 1, "burst": 1})), "/rate_limit/burst", "unknown"),
    ]);
}

#[test]
fn c1_actions_are_one_to_a_thousand_with_names_of_their_own() {
    let action = with_action(json!({}))["actions"][0].clone();
    refused_members(vec![
        (json!({"actions": []}), "/actions", "no actions"),
        (json!({"actions": {}}), "/actions", "list"),
        (json!({"actions": [action, 1]}), "/actions/1", "object"),
        (
            json!({"actions": [action, action]}),
            "/actions/1/name",
            "the action `act` would both be the tool `act`",
        ),
        (json!({"actions": vec![action; 1_001]}), "/actions", "1000"),
    ]);
    for name in ["", "two\nlines", " space", "space ", "tab\ted"] {
        refused_actions(vec![(json!({"name": name}), "/name", "")]);
    }
    refused_actions(vec![(json!({"name": "a".repeat(257)}), "/name", "256")]);
}

/// 9.4: a name that is none of ours is mapped by the one rule, and kept. Two that become the same are refused.
#[test]
fn c1_an_action_may_be_called_as_elsewhere() {
    let long = "a".repeat(53);
    for (original, name) in [
        ("act", None),
        ("getCurrentWeather", Some("get_current_weather")),
        ("act-it", Some("act_it")),
        (&*long, Some("")),
        ("1a", Some("tool_1a")),
    ] {
        let described = plugin(&with_action(json!({"name": original}))).unwrap().description().clone();
        let tool = &described["tools"][0];
        let kept = tool["original_name"].as_str();
        assert_eq!(kept, name.map(|_| original), "{tool}");
        let made = tool["name"].as_str().unwrap();
        assert!(
            format!("call_things_{made}").len() <= 64
                && name.is_none_or(|name| name.is_empty() || name == made),
            "{made}"
        );
    }
    let mut document = with_action(json!({"name": "getItem"}));
    let mut other = document["actions"][0].clone();
    other["name"] = "get-item".into();
    document["actions"].as_array_mut().unwrap().push(other);
    let error = plugin(&document).err().unwrap().to_string();
    assert!(error.contains("`getItem` would both be the tool `get_item`"), "{error}");
}

#[test]
fn c1_an_action_has_known_fields_and_a_known_method() {
    refused_actions(vec![
        (json!({"descripton": "x"}), "/descripton", "did you mean `description`?"),
        (json!({"method": "get"}), "/method", "did you mean `GET`?"),
        (json!({"method": "CONNECT"}), "/method", "`CONNECT`"),
        (json!({"method": "TRACE"}), "/method", "`TRACE`"),
        (json!({"hints": {"readonly": true}}), "/hints/readonly", "did you mean `read_only`?"),
        (json!({"hints": {"read_only": "yes"}}), "/hints/read_only", "`true` or `false`"),
        (
            json!({"hints": {"read_only": true, "destructive": true}}),
            "/hints/destructive",
            "destroys nothing",
        ),
        (json!({"examples": [{"output": 1}]}), "/examples/0", "input"),
        (json!({"examples": [{"input": 1}]}), "/examples/0/input", "object"),
        (json!({"examples": [{"input": {}, "outptu": 1}]}), "/examples/0/outptu", "did you mean `output`?"),
        (json!({"redact": ["password"]}), "/redact/0", "pointer"),
        (json!({"output_schema": 1}), "/output_schema", "object"),
    ]);
}

#[test]
fn c1_a_path_is_text_and_arguments_that_are_always_there() {
    let schema = json!({"type": "object", "properties": {"id": {}, "it": {"default": {}}, "x": {"default": ""}}, "required": ["it2"]});
    let path = |path: &str| json!({"path": path, "input_schema": schema});
    refused_actions(vec![
        (path("/a/{id}"), "/path", "`required`"),
        (path("/a/{it}"), "/path", "`required`"),
        (path("/a/{x}"), "/path", "`required`"),
        (path("/a/{ids}"), "/path", "did you mean `id`?"),
        (path("/a/{}"), "/path", "no property"),
        (path("/a/{+id}"), "/path", "no property"),
        (path("/a/{id"), "/path", "not closed"),
        (path("/a/id}"), "/path", "not opened"),
        (path("/a}/{id}"), "/path", "not opened"),
        (path("a"), "/path", "begin with `/`"),
        (path("https://evil.example/"), "/path", "begin with `/`"),
        (path("/a/../b"), "/path", "`..`"),
        (path("/a//b"), "/path", "empty"),
        (path("//evil.example/b"), "/path", "empty"),
        (path("/%2e%2e/b"), "/path", "`..`"),
        (path("/a b"), "/path", "`%`"),
        (path("/a#b"), "/path", "`%`"),
        (path("/a%"), "/path", "`%`"),
        (path("/a\\b"), "/path", "backslash"),
        (path("/a?q={id}"), "/path", "`arguments`"),
        (path("/a?q=a b"), "/path", "`%`"),
        (path("/a?q=#b"), "/path", "`%`"),
        (path("/a?q=%"), "/path", "`%`"),
        (path("/a?api_key=1"), "/path", "credential"),
        (path("/a?x=1&access_token=1"), "/path", "credential"),
    ]);
}

#[test]
fn c1_the_schema_of_arguments_names_all_of_them() {
    let schema = |schema: Value| json!({"input_schema": schema});
    let many: Value = (0..201).map(|index| (format!("a{index}"), json!({}))).collect();
    refused_actions(vec![
        (schema(json!(true)), "/input_schema", "object"),
        (schema(json!({})), "/input_schema", "type"),
        (schema(json!({"type": "array"})), "/input_schema", "type"),
        (schema(json!({"type": "object", "properties": []})), "/input_schema/properties", "object"),
        (schema(json!({"type": "object", "properties": many})), "/input_schema/properties", "200"),
        (
            schema(json!({"type": "object", "additionalProperties": true})),
            "/input_schema/additionalProperties",
            "whole",
        ),
        (
            schema(json!({"type": "object", "additionalProperties": {}})),
            "/input_schema/additionalProperties",
            "whole",
        ),
    ]);
    assert_accepted(&with_action(json!({"input_schema": null})));
}

#[test]
fn c1_places_of_arguments_are_there_and_fit() {
    let action = |method: &str, places: Value| {
        let mut all = json!({"object": {"in": "query", "style": "json"}});
        if let Value::Object(_) = places {
            merge(&mut all, places)
        } else {
            all = places
        }
        let schema = json!({"type": "object", "required": ["id"], "properties": {
            "id": {}, "object": {"type": ["object", "null"]}, "text": {"type": "string"}, "list": {"type": "array"}}});
        json!({"method": method, "path": "/{id}", "input_schema": schema, "arguments": all})
    };
    refused_actions(vec![
        (action("GET", json!([])), "/arguments", "object"),
        (action("GET", json!({"txet": "query"})), "/arguments/txet", "did you mean `text`?"),
        (action("GET", json!({"text": "qury"})), "/arguments/text", "did you mean `query`?"),
        (action("GET", json!({"text": 1})), "/arguments/text", "or an object"),
        (action("GET", json!({"text": {"name": "x"}})), "/arguments/text", "`in`"),
        (
            action("GET", json!({"text": {"in": "query", "nam": "x"}})),
            "/arguments/text/nam",
            "did you mean `name`?",
        ),
        (
            action("GET", json!({"text": {"in": "query", "style": "forms"}})),
            "/arguments/text/style",
            "did you mean `form`?",
        ),
        (
            action("GET", json!({"text": {"in": "header", "style": "form"}})),
            "/arguments/text/style",
            "unknown",
        ),
        (action("GET", json!({"text": {"in": "query", "name": ""}})), "/arguments/text", "name"),
        (action("GET", json!({"text": {"in": "query", "name": "a\nb"}})), "/arguments/text", "name"),
        (action("GET", json!({"text": {"in": "query", "name": "a".repeat(201)}})), "/arguments/text", "200"),
        (action("GET", json!({"text": "cookie"})), "/arguments/text", "cookies"),
        (action("GET", json!({"text": {"in": "cookie", "name": "s"}})), "/arguments/text", "cookies"),
        (action("GET", json!({"text": "path"})), "/arguments/text", "`{text}`"),
        (action("GET", json!({"id": "query"})), "/arguments/id", "stands in the path"),
        (action("GET", json!({"object": "header"})), "/arguments/object", "object"),
        (action("GET", json!({"object": "query"})), "/arguments/object", "deep_object"),
        (action("GET", json!({"object": null})), "/arguments/object", "deep_object"),
        (
            action("GET", json!({"list": {"in": "query", "style": "deep_object"}})),
            "/arguments/list",
            "deep_object",
        ),
        (action("GET", json!({"text": "body"})), "/arguments/text", "no body"),
        (action("HEAD", json!({"text": "body"})), "/arguments/text", "no body"),
        (
            action("POST", json!({"text": {"in": "body", "whole": true, "name": "x"}})),
            "/arguments/text/name",
            "whole",
        ),
        (action("POST", json!({"text": {"in": "body", "whole": 1}})), "/arguments/text/whole", "`true`"),
        (
            action("POST", json!({"object": {"in": "body", "style": "deep_object"}})),
            "/arguments/object",
            "only a form",
        ),
        (
            action("POST", json!({"object": {"in": "body", "style": "comma"}})),
            "/arguments/object/style",
            "deep_object",
        ),
        (
            action("POST", json!({"object": {"in": "body", "whole": true, "style": "deep_object"}})),
            "/arguments/object/style",
            "whole",
        ),
    ]);
    assert_accepted(&with_action(action(
        "GET",
        json!({"object": {"in": "query", "style": "deep_object"}, "list": "query"}),
    )));
    assert_accepted(&with_action(action("DELETE", json!({"object": "body", "id": {"in": "path"}}))));
    let in_path = json!({"type": "object", "properties": {"o": {"type": "object"}}, "required": ["o"]});
    refused_actions(vec![(json!({"path": "/{o}", "input_schema": in_path}), "/arguments/o", "object")]);
}

#[test]
fn c1_no_two_arguments_go_to_one_place() {
    let action = |places: Value| json!({"method": "POST", "path": "/items?fixed=1", "input_schema": any_of(&["a", "b"]), "arguments": places});
    for (a, b) in [
        (json!({"in": "query", "name": "x"}), json!({"in": "query", "name": "x"})),
        (json!({"in": "query", "name": "b"}), json!("query")),
        (json!({"in": "header", "name": "X-A"}), json!({"in": "header", "name": "x-a"})),
        (json!({"in": "body", "name": "b"}), json!("body")),
        (json!({"in": "body", "whole": true}), json!("body")),
        (json!("body"), json!({"in": "body", "whole": true})),
        (json!({"in": "body", "whole": true}), json!({"in": "body", "whole": true})),
        (json!({"in": "query", "name": "f", "style": "deep_object"}), json!({"in": "query", "name": "f[x]"})),
    ] {
        refused_actions(vec![(action(json!({"a": a, "b": b})), "/arguments/b", "same place")]);
    }
    let mut form = action(json!({
        "a": {"in": "body", "name": "f", "style": "deep_object"}, "b": {"in": "body", "name": "f[x]"},
    }));
    form["body"] = json!("form");
    refused_actions(vec![(form.clone(), "/arguments/b", "same place")]);
    form["arguments"]["b"]["name"] = json!("g[x]");
    assert_accepted(&with_action(form));
    refused_actions(vec![(
        action(json!({"a": {"in": "query", "name": "fixed"}})),
        "/arguments/a",
        "always sent",
    )]);
    // One of them goes where it goes by itself.
    refused_actions(vec![(
        action(json!({"a": {"in": "body", "whole": true}})),
        "/arguments/b",
        "same place",
    )]);
    for (a, b) in [
        (json!({"in": "query", "name": "x"}), json!({"in": "body", "name": "x"})),
        (json!({"in": "query", "name": "f[a]"}), json!({"in": "query", "name": "f[b]"})),
        (json!({"in": "body", "whole": true}), json!("query")),
    ] {
        assert_accepted(&with_action(action(json!({"a": a, "b": b}))));
    }
}

#[test]
fn c1_a_body_is_written_in_one_form() {
    let body = |method: &str, kind: &str, members: Value| {
        let schema = json!({"type": "object", "properties": {"a": {"type": kind}}});
        let mut action = json!({"method": method, "input_schema": schema});
        merge(&mut action, members);
        action
    };
    refused_actions(vec![
        (body("GET", "string", json!({"body": "json"})), "/body", "no body"),
        (body("POST", "string", json!({"body": "xml"})), "/body", "`xml`"),
        (body("POST", "object", json!({"body": "form"})), "/arguments/a", "form"),
        (body("POST", "integer", json!({"body": "text"})), "/arguments/a", "string"),
        (
            body("POST", "string", json!({"body": "text", "arguments": {"a": "body"}})),
            "/arguments/a",
            "whole",
        ),
        (
            body("POST", "string", json!({"body": "form", "content_type": "text/plain"})),
            "/content_type",
            "form",
        ),
        (body("POST", "string", json!({"content_type": "json"})), "/content_type", "media type"),
        (body("POST", "string", json!({"content_type": "a/b\r\nx: y"})), "/content_type", "media type"),
        (body("POST", "string", json!({"body": "json", "arguments": {"a": "query"}})), "/body", "no effect"),
        (body("DELETE", "string", json!({"content_type": "a/b"})), "/content_type", "no effect"),
    ]);
    assert_accepted(&with_action(body(
        "POST",
        "string",
        json!({"body": "text", "content_type": "text/csv; charset=utf-8"}),
    )));
}

#[test]
fn c1_a_result_is_found_in_one_way_that_works() {
    let result = |result: Value| json!({"result": result});
    refused_actions(vec![
        (result(json!("/data")), "/result", "object"),
        (result(json!({})), "/result", "pointer"),
        (result(json!({"pointer": "/a", "jmespath": "a"})), "/result", "two ways"),
        (result(json!({"path": "/a"})), "/result/path", "known fields are"),
        (result(json!({"pointer": "data"})), "/result/pointer", "JSON pointer"),
        (result(json!({"pointer": "/a~2"})), "/result/pointer", "JSON pointer"),
        (result(json!({"pointer": format!("/{}", "a".repeat(1_000))})), "/result/pointer", "too long"),
        (result(json!({"jmespath": ""})), "/result/jmespath", "JMESPath"),
        (result(json!({"jmespath": "a["})), "/result/jmespath", "at character"),
        (result(json!({"jmespath": "items[].{n: lenght(name)}"})), "/result/jmespath", "`lenght`"),
        (result(json!({"jmespath": "!".repeat(101) + "a"})), "/result/jmespath", "100 levels"),
        (result(json!({"jmespath": "a".repeat(2_001)})), "/result/jmespath", "2000"),
    ]);
    let wide =
        format!("{{{}}}", (0..60).map(|index| format!("a{index}: b.c.d")).collect::<Vec<_>>().join(", "));
    assert_accepted(&with_action(result(json!({"jmespath": wide}))));
}
