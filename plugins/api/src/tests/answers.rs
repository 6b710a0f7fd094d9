//! Answers become results and failures.

use std::time::Duration;

use toolgate_sdk::http::Unavailable;

use super::*;

fn call_with(result: Option<Value>, reply: Reply) -> Result<Value, Error> {
    let action = result.map_or(json!({}), |result| json!({"result": result}));
    let _network = answering(reply);
    plugin(&with_action(action)).unwrap().call(&testing::context().build(), "act", &json!({}))
}

fn call(reply: Reply) -> Result<Value, Error> {
    call_with(None, reply)
}

fn of_type(content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply::new(200).header("content-type", content_type).body(body)
}

#[test]
fn c1_an_answer_in_json_is_the_result() {
    for content_type in
        ["application/json", "Application/JSON; charset=utf-8", "application/hal+json", "text/json"]
    {
        assert_eq!(
            call(of_type(content_type, "\u{feff}{\"a\": [1]}")).unwrap(),
            json!({"a": [1]}),
            "{content_type}"
        );
    }
    assert_eq!(call(Reply::new(200).body("[1]")).unwrap(), json!([1]), "without a type it may be JSON");
    let numbers = "[18446744073709551615,-9223372036854775808,1.5]";
    assert_eq!(call(of_type("application/json", numbers)).unwrap().to_string(), numbers);
}

#[test]
fn c1_other_text_is_the_result_as_it_is() {
    for (reply, text) in [
        (of_type("text/csv", "a,b\n1,2"), "a,b\n1,2"),
        (of_type("application/xml; charset=UTF-8", "<a>é</a>"), "<a>é</a>"),
        (of_type("text/plain; charset=iso-8859-1", b"caf\xe9".to_vec()), "café"),
        (of_type("text/plain", "123"), "123"),
        (Reply::new(200).body("hello"), "hello"),
        (of_type("application/octet-stream", "hello"), "hello"),
    ] {
        assert_eq!(call(reply.clone()).unwrap(), json!(text), "{reply:?}");
    }
}

#[test]
fn c1_an_empty_answer_is_null() {
    for reply in [
        Reply::new(204),
        Reply::new(200),
        of_type("application/json", ""),
        of_type("application/json", " \n"),
        of_type("text/plain", ""),
        of_type("application/json", "").header("content-length", "0"),
    ] {
        assert_eq!(call(reply.clone()).unwrap(), Value::Null, "{reply:?}");
    }
}

#[test]
fn o12_an_empty_answer_where_the_output_schema_demands_one_says_so() {
    let call = |schema: Value, result: Value, reply: Reply| {
        let _network = answering(reply);
        let document = with_action(json!({"output_schema": schema, "result": result}));
        plugin(&document).unwrap().call(&testing::context().build(), "act", &json!({}))
    };
    let error = call(json!({"type": "string"}), Value::Null, Reply::new(204)).unwrap_err();
    assert!(
        error.message().starts_with(
            "`api.example.com` took the request (status 204) and answered with nothing in its body"
        ),
        "{error}"
    );
    assert_eq!(error.details(), Some(&json!({"status": 204})));
    let error =
        call(json!({"type": ["object"]}), json!({"pointer": "/data"}), Reply::json(&json!({}))).unwrap_err();
    assert!(error.message().contains("nothing where the result of this tool is"), "{error}");
    for schema in [json!({"type": ["string", "null"]}), json!({}), json!({"anyOf": [{"type": "null"}]})] {
        assert_eq!(call(schema, Value::Null, Reply::new(204)).unwrap(), Value::Null);
    }
    assert_eq!(call(json!({"type": "string"}), Value::Null, Reply::text("a")).unwrap(), json!("a"));
}

#[test]
fn c1_an_answer_that_is_neither_json_nor_text_is_a_failure() {
    for reply in [
        of_type("image/png", "\u{89}PNG"),
        of_type("application/octet-stream", b"\xff\xfe".to_vec()),
        Reply::new(200).body(b"\xff\xfe".to_vec()),
        of_type("text/plain", "a\0b"),
        of_type("application/pdf", "%PDF"),
    ] {
        let error = call(reply).unwrap_err();
        assert!(error.message().contains("neither JSON nor text"), "{error}");
        assert_eq!(error.code(), "TOOL_FAILED");
    }
}

#[test]
fn c1_text_whose_bytes_are_not_utf8_is_told_so() {
    for media_type in ["text/plain", "text/csv", "application/xml"] {
        let error = call(of_type(media_type, b"caf\xe9".to_vec())).unwrap_err();
        assert!(error.message().contains("its bytes are not UTF-8"), "{error}");
        assert_eq!(call(of_type(media_type, "café")).unwrap(), "café");
        let named = format!("{media_type}; charset=iso-8859-1");
        assert_eq!(call(of_type(&named, b"caf\xe9".to_vec())).unwrap(), "café");
    }
}

#[test]
fn c1_an_answer_that_says_it_is_json_and_is_not_is_a_failure() {
    for body in ["<html>", "{\"a\":", "{} {}"] {
        let error = call(of_type("application/json", body)).unwrap_err();
        assert!(error.message().starts_with("the response of `api.example.com` cannot be parsed"), "{error}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn c1_json_that_is_nested_too_deeply_is_told_so() {
    let nested = |levels| of_type("application/json", "[".repeat(levels) + &"]".repeat(levels));
    for result in [None, Some(json!({"jmespath": "[0]"}))] {
        let error = call_with(result.clone(), nested(128)).unwrap_err();
        assert!(error.message().ends_with("it is nested too deeply: at most 127 levels are read"), "{error}");
        assert!(call_with(result, nested(127)).is_ok());
    }
}

#[test]
fn c1_an_answer_that_is_too_long_is_a_failure() {
    let error = call(of_type("text/plain", "a".repeat(4 * 1024 * 1024 + 1))).unwrap_err();
    assert!(error.message().contains("longer than"), "{error}");
    assert!(call(of_type("text/plain", "a".repeat(4 * 1024 * 1024))).is_ok());
}

#[test]
fn c1_the_result_is_the_part_that_the_definition_points_at() {
    let answer =
        json!({"data": {"items": [{"id": 1, "n": "a"}, {"id": 2, "n": "b"}], "a/b": true}, "next": null});
    for (result, expected) in [
        (json!({"pointer": ""}), answer.clone()),
        (json!({"pointer": "/data/items/1/id"}), json!(2)),
        (json!({"pointer": "/data/a~1b"}), json!(true)),
        (json!({"pointer": "/nothing/here"}), Value::Null),
        (
            json!({"jmespath": "data.items[].{id: id, name: n}"}),
            json!([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]),
        ),
        (json!({"jmespath": "data.items[?id > `1`].n | [0]"}), json!("b")),
        (json!({"jmespath": "length(data.items)"}), json!(2)),
        (json!({"jmespath": "nothing.here[0]"}), Value::Null),
    ] {
        assert_eq!(call_with(Some(result.clone()), Reply::json(&answer)).unwrap(), expected, "{result}");
    }
}

#[test]
fn c1_a_part_of_what_is_no_json_is_null() {
    assert_eq!(call_with(Some(json!({"pointer": "/a"})), Reply::text("hello")).unwrap(), Value::Null);
    assert_eq!(call_with(Some(json!({"jmespath": "a"})), Reply::new(204)).unwrap(), Value::Null);
    let unnamed = Reply::text(r#"{"a": 1}"#);
    assert_eq!(call_with(Some(json!({"pointer": "/a"})), unnamed).unwrap(), json!(1));
}

#[test]
fn c1_a_jmespath_that_does_not_fit_the_answer_is_a_failure() {
    let error = call_with(Some(json!({"jmespath": "length(items)"})), Reply::json(&json!({}))).unwrap_err();
    assert!(error.message().contains("JMESPath"), "{error}");
    assert_eq!(error.message().lines().count(), 1);
}

#[test]
fn c1_a_jmespath_keeps_whole_numbers() {
    let reply = of_type("application/json", r#"{"a": 18446744073709551615, "b": -9223372036854775808}"#);
    let found = call_with(Some(json!({"jmespath": "[a, b]"})), reply).unwrap();
    assert_eq!(found.to_string(), "[18446744073709551615,-9223372036854775808]");
}

#[test]
fn c1_a_status_that_is_no_success_is_a_failure() {
    for (status, is_retryable) in [
        (400, false),
        (401, false),
        (404, false),
        (408, true),
        (425, true),
        (429, true),
        (500, true),
        (501, false),
        (502, true),
        (503, true),
        (504, true),
    ] {
        let error = call(Reply::json(&json!({"error": "no such item"})).status(status)).unwrap_err();
        assert_eq!(error.code(), "TOOL_FAILED");
        assert_eq!(error.is_retryable(), is_retryable, "{status}");
        assert_eq!(error.details(), Some(&json!({"status": status})));
        let message =
            format!("`api.example.com` answered with status {status}: {{\"error\":\"no such item\"}}");
        assert_eq!(error.message(), message);
    }
}

#[test]
fn c1_how_long_a_server_asks_to_wait_is_passed_on() {
    let error = call(Reply::new(429).header("Retry-After", "7")).unwrap_err();
    assert_eq!(error.details(), Some(&json!({"status": 429, "retry_after_ms": 7000})));
}

#[test]
fn c1_a_credential_that_is_not_accepted_is_for_who_keeps_it() {
    let with_credential = with_members(json!({"authentication": {"kind": "bearer", "provider": "shop"}}));
    let refused = |document: &Value, status: u16| {
        let _network = answering(Reply::text("expired\ntoken").status(status).header("retry-after", "1"));
        plugin(document).unwrap().call(&testing::context().build(), "act", &json!({})).unwrap_err()
    };
    for (status, says) in [
        (
            401,
            "`api.example.com` wants a credential, or does not accept the one it got (status 401): \
             expired token",
        ),
        (403, "`api.example.com` does not allow this with the credential it got (status 403): expired token"),
        (404, "`api.example.com` answered with status 404: expired token"),
    ] {
        let error = refused(&with_credential, status);
        assert_eq!(error.message(), says);
        assert_eq!(error.details(), Some(&json!({"status": status, "retry_after_ms": 1_000})));
        assert_eq!((error.code(), error.is_retryable()), ("TOOL_FAILED", false));
    }
    // Where none is sent, it is no matter of one.
    for status in [401, 403] {
        let error = refused(&with_members(json!({"authentication": {"kind": "none"}})), status);
        assert_eq!(
            error.message(),
            format!("`api.example.com` answered with status {status}: expired token")
        );
    }
}

#[test]
fn c1_of_a_page_its_title_is_told() {
    let page = "<!doctype html><html><head><title>Not found | Shop</title></head><body><p>Sorry";
    let error = call(of_type("text/html", page).status(404)).unwrap_err();
    assert_eq!(error.message(), "`api.example.com` answered with status 404: Not found | Shop");
}

#[test]
fn c1_a_redirect_is_a_failure_that_names_where_it_leads() {
    for (status, location, named) in [
        (301, "https://other.example.org/v2?secret=1", "to `other.example.org/v2`"),
        (302, "//user:pass@other.example.org:8443/", "to `other.example.org:8443`"),
        (307, "/v2/items/?secret=1", "to the path `/v2/items/` of the same host"),
        (308, "https://api.example.com/v2", "to the path `/v2` of the same host"),
        (307, "items/", "to the path `/v1/items/` of the same host"),
        (307, "?secret=1", "to the path `/v1/items` of the same host"),
        (307, "/v2//items/?secret=1", "to the path `/v2//items/` of the same host"),
        (308, "//u:pass@api.example.com", "to the path `/` of the same host"),
        (302, "https://a`b\u{202e}c/", "to `abc`"),
    ] {
        let error = call(Reply::new(status).header("location", location)).unwrap_err();
        assert!(error.message().contains(named), "{error}");
        assert!(!error.message().contains("secret") && !error.message().contains("pass@"), "{error}");
        assert_eq!(error.details(), Some(&json!({"status": status})));
    }
    let error = call(Reply::new(304)).unwrap_err();
    assert_eq!(error.message(), "`api.example.com` answered with status 304");
}

#[test]
fn c1_an_upstream_that_does_not_answer_is_a_failure_that_passes() {
    let host = || "api.example.com".to_owned();
    let timeout = http::Error::Unavailable { host: host(), why: Unavailable::Timeout };
    let broken = http::Error::Unavailable { host: host(), why: Unavailable::Broken };
    let _network = testing::network(move |_| Err(timeout.clone()));
    let error = plugin(&with_action(json!({}))).unwrap().call(&testing::context().build(), "act", &json!({}));
    assert!(error.unwrap_err().is_retryable());
    assert!(call(Reply::text("half").breaks(broken)).unwrap_err().is_retryable());
}

#[test]
fn c1_a_request_has_no_timeout_but_the_deadline_of_its_call() {
    assert_eq!(sent(&with_action(json!({})), "{}").unwrap().timeout(), None::<Duration>);
}

/// RFC 8259, 8.2: such a text is JSON; servers cut emoji in two.
#[test]
fn c1_a_lone_surrogate_is_replaced_and_the_rest_of_the_answer_kept() {
    let reply = |body: &str| Reply::new(200).header("content-type", "application/json").body(body);
    assert_eq!(call(reply(r#"{"a":"cut \ud83d","b":1}"#)).unwrap(), json!({"a": "cut \u{fffd}", "b": 1}));
    assert_eq!(call(reply(r#"{"a":"\ud83d\ude00"}"#)).unwrap(), json!({"a": "\u{1f600}"}));
    assert!(call(reply(r#"{"a":"\ud83"}"#)).unwrap_err().message().contains("and is not"));
}
