//! Each refusal of a document: its place, and the way out.

mod actions;

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
