//! Arguments become requests, and none leaves its place.

use super::*;

/// The URL that an action of this path and these places requests, without what is the same each time.
fn url_of(path: &str, schema: &Value, places: &Value, arguments: &str) -> Result<String, Error> {
    let document = with_action(json!({"path": path, "input_schema": schema, "arguments": places}));
    let url = sent(&document, arguments)?.url().to_owned();
    Ok(url.strip_prefix("https://api.example.com/v1").unwrap().to_owned())
}

fn path_of(value: &Value) -> Result<String, Error> {
    url_of("/items/{id}/parts", &any_of(&["id"]), &json!({}), &json!({"id": value}).to_string())
}

#[track_caller]
fn assert_refused(found: Result<impl std::fmt::Debug, Error>, words: &str) {
    let error = found.expect_err(words);
    assert_eq!(error.code(), "INVALID_ARGUMENTS");
    assert!(error.message().contains(words), "{error}");
}

#[test]
fn c1_arguments_go_where_the_method_has_them_unless_it_is_said() {
    let schema = any_of(&["id", "note"]);
    for (method, url, body) in [
        ("GET", "/items/7?note=n", ""),
        ("DELETE", "/items/7?note=n", ""),
        ("OPTIONS", "/items/7?note=n", ""),
        ("POST", "/items/7", r#"{"note":"n"}"#),
        ("PUT", "/items/7", r#"{"note":"n"}"#),
        ("PATCH", "/items/7", r#"{"note":"n"}"#),
    ] {
        let document = with_action(json!({"method": method, "path": "/items/{id}", "input_schema": schema}));
        let sent = sent(&document, r#"{"id": 7, "note": "n"}"#).unwrap();

        assert_eq!(sent.method(), method);
        assert_eq!(sent.url().strip_prefix("https://api.example.com/v1"), Some(url), "{method}");
        assert_eq!(sent.body(), body.as_bytes(), "{method}");
    }
}

#[test]
fn c1_each_argument_goes_to_the_place_that_is_written() {
    let document = with_action(json!({
        "method": "POST", "path": "/items/{id}", "input_schema": any_of(&["id", "q", "trace", "note"]),
        "arguments": {"id": "path", "q": {"in": "query", "name": "filter[x]"},
            "trace": {"in": "header", "name": "X-Trace"}, "note": {"in": "body", "name": "memo"}},
    }));
    let sent = sent(&document, r#"{"id":"a","q":"b","trace":"c","note":"d"}"#).unwrap();

    assert_eq!(sent.url(), "https://api.example.com/v1/items/a?filter%5Bx%5D=b");
    assert_eq!(sent.header("x-trace"), Some("c"));
    assert_eq!(sent.body(), br#"{"memo":"d"}"#);
}

#[test]
fn c1_a_value_in_the_path_is_one_part_of_it() {
    for (value, part) in [
        (json!("a"), "a"),
        (json!("a/b"), "a%2Fb"),
        (json!("a?b#c"), "a%3Fb%23c"),
        (json!("a b+c&d=e"), "a%20b%2Bc%26d%3De"),
        (json!("50%"), "50%25"),
        (json!("a%2fb"), "a%252fb"),
        (json!("żółć 日本"), "%C5%BC%C3%B3%C5%82%C4%87%20%E6%97%A5%E6%9C%AC"),
        (json!("a;b@c:d"), "a%3Bb%40c%3Ad"),
        (json!("..a"), "..a"),
        (json!("v1.2-3_4~5"), "v1.2-3_4~5"),
        (json!(7), "7"),
        (json!(-1.5), "-1.5"),
        (json!(true), "true"),
        (json!(["a", "b,c", 3]), "a,b%2Cc,3"),
    ] {
        assert_eq!(path_of(&value).unwrap(), format!("/items/{part}/parts"), "{value}");
    }
}

#[test]
fn c1_a_value_that_would_leave_its_part_of_the_path_is_refused() {
    for value in [
        json!(""),
        json!("."),
        json!(".."),
        json!("..."),
        json!("../x"),
        json!("x/../y"),
        json!("/x"),
        json!("a//b"),
        json!("%2f"),
        json!("%2e%2e"),
        json!("%2E%2e/x"),
        json!("%252e%252e"),
        json!("..;a"),
        json!("..\\x"),
        json!("a\\b"),
        json!("%5c"),
        json!("a\nb"),
        json!("a\0"),
        json!("%00"),
        json!("%ff"),
        json!([]),
        json!(["a", ""]),
        json!({"a": "b"}),
        json!([["a"]]),
        json!(null),
    ] {
        assert_refused(path_of(&value), "`id`");
    }
}

#[test]
fn c1_two_values_cannot_make_a_detour_together() {
    let path = |value: &str| {
        let arguments = json!({"a": value, "b": value}).to_string();
        url_of("/items/{a}{b}/parts", &any_of(&["a", "b"]), &json!({}), &arguments)
    };
    assert_eq!(path("x").unwrap(), "/items/xx/parts");
    assert_refused(path("."), "`a`");
    let split = json!({"a": "%2e", "b": "%2e"}).to_string();
    assert_refused(url_of("/items/{a}{b}/parts", &any_of(&["a", "b"]), &json!({}), &split), "`a`, `b`");
}

#[test]
fn c1_an_argument_of_the_path_can_have_a_default() {
    let schema = json!({"type": "object", "properties": {"lang": {"type": "string", "default": "en gb"}}});
    let url = |arguments: &str| url_of("/{lang}/items", &schema, &json!({}), arguments).unwrap();

    assert_eq!(url("{}"), "/en%20gb/items");
    assert_eq!(url(r#"{"lang": null}"#), "/en%20gb/items");
    assert_eq!(url(r#"{"lang": "pl"}"#), "/pl/items");
}

#[test]
fn c1_a_query_takes_lists_and_objects_in_the_style_of_the_api() {
    let list = json!(["a b", "c,d", 3]);
    let object = json!({"x": "1&2", "y": [1, 2], "z": null});
    for (style, value, query) in [
        ("form", &list, "q=a%20b&q=c%2Cd&q=3"),
        ("comma", &list, "q=a%20b,c%2Cd,3"),
        ("space", &list, "q=a%20b%20c%2Cd%203"),
        ("pipe", &list, "q=a%20b%7Cc%2Cd%7C3"),
        ("deep_object", &object, "q%5Bx%5D=1%262&q%5By%5D=1&q%5By%5D=2"),
        ("json", &object, "q=%7B%22x%22%3A%221%262%22%2C%22y%22%3A%5B1%2C2%5D%2C%22z%22%3Anull%7D"),
        ("json", &list, "q=%5B%22a%20b%22%2C%22c%2Cd%22%2C3%5D"),
        ("form", &json!("a=b&c"), "q=a%3Db%26c"),
        ("comma", &json!(true), "q=true"),
    ] {
        let places = json!({"q": {"in": "query", "style": style}});
        let url = url_of("/items", &any_of(&["q"]), &places, &json!({"q": value}).to_string());
        assert_eq!(url.unwrap(), format!("/items?{query}"), "{style} {value}");
    }
}

#[test]
fn c1_what_a_style_cannot_write_is_refused() {
    for (style, value) in [
        ("form", json!({"a": 1})),
        ("comma", json!([[1]])),
        ("pipe", json!([{"a": 1}])),
        ("deep_object", json!("a")),
        ("deep_object", (0..20).fold(json!(1), |inner, _| json!({"a": inner}))),
    ] {
        let places = json!({"q": {"in": "query", "style": style}});
        assert_refused(url_of("/items", &any_of(&["q"]), &places, &json!({"q": value}).to_string()), "`q`");
    }
}

#[test]
fn c1_what_is_absent_or_null_is_left_out() {
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "l": {}}});
    let places = json!({"c": {"in": "header", "name": "X-C"}});
    let url = |arguments: &str| url_of("/items", &schema, &places, arguments).unwrap();

    assert_eq!(url("{}"), "/items");
    assert_eq!(url(r#"{"a": null, "b": "", "c": null}"#), "/items?b=");
    assert_eq!(url(r#"{"l": []}"#), "/items");
    assert_eq!(url(r#"{"l": [null, 1]}"#), "/items?l=1");
}

#[test]
fn c1_an_argument_without_a_place_is_refused() {
    assert_refused(url_of("/items", &any_of(&["a"]), &json!({}), r#"{"a": 1, "b": 2}"#), "`b`");
    assert!(url_of("/items", &any_of(&["a"]), &json!({}), r#"{"a": 1}"#).is_ok());
}

#[test]
fn c1_a_constant_query_comes_first() {
    let url = url_of("/items?format=json&x", &any_of(&["a"]), &json!({}), r#"{"a": 1}"#).unwrap();
    assert_eq!(url, "/items?format=json&x&a=1");
    assert_eq!(url_of("/items?format=json", &any_of(&[]), &json!({}), "{}").unwrap(), "/items?format=json");
}

#[test]
fn c1_a_number_keeps_its_digits() {
    let schema = any_of(&["a"]);
    for number in
        ["18446744073709551615", "-9223372036854775808", "123456789012345678901234567890", "1.10", "1e400"]
    {
        let arguments = format!(r#"{{"a": {number}}}"#);
        let url = url_of("/items", &schema, &json!({}), &arguments).unwrap();
        assert_eq!(url, format!("/items?a={number}"));

        let document = with_action(json!({"method": "POST", "input_schema": schema}));
        assert_eq!(sent(&document, &arguments).unwrap().body(), format!(r#"{{"a":{number}}}"#).as_bytes());
    }
}

#[test]
fn c1_an_integer_is_written_as_one_where_text_is_sent() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "l": {"items": {"type": ["integer", "null"]}}}});
    for (number, text) in [("1.0", "1"), ("2e3", "2000"), ("-0.0", "0"), ("7", "7"), ("1e300", "1e300")] {
        let url =
            url_of("/items", &schema, &json!({}), &format!(r#"{{"a":{number},"l":[{number}]}}"#)).unwrap();
        assert_eq!(url, format!("/items?a={text}&l={text}"));
    }
    let url = url_of("/items", &any_of(&["a"]), &json!({}), r#"{"a": 1.0}"#).unwrap();
    assert_eq!(url, "/items?a=1.0", "its schema does not say that it is an integer");
}

#[test]
fn c1_content_is_written_as_the_action_says() {
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
    let body = |members: Value, arguments: &str| {
        let mut action = json!({"method": "POST", "input_schema": schema});
        merge(&mut action, members);
        let sent = sent(&with_action(action), arguments).unwrap();
        let content_type = sent.header("content-type").unwrap_or_default().to_owned();
        (content_type, String::from_utf8(sent.body().to_vec()).unwrap())
    };
    let expected = |content_type: &str, body: &str| (content_type.to_owned(), body.to_owned());

    let arguments = r#"{"b": [1.0, {"x" : "é\u0000"}], "a": 2}"#;
    assert_eq!(
        body(json!({}), arguments),
        expected("application/json", r#"{"b":[1.0, {"x" : "é\u0000"}],"a":2}"#)
    );
    assert_eq!(body(json!({}), "{}"), expected("application/json", "{}"));
    assert_eq!(
        body(json!({"content_type": "application/merge-patch+json"}), r#"{"a":1}"#),
        expected("application/merge-patch+json", r#"{"a":1}"#)
    );
    assert_eq!(
        body(json!({"body": "form"}), r#"{"b":["x y","&"],"a":"é="}"#),
        expected("application/x-www-form-urlencoded", "b=x%20y&b=%26&a=%C3%A9%3D")
    );
}

#[test]
fn c1_one_argument_can_be_the_whole_content() {
    let body = |kind: &str, form: &str, arguments: &str| {
        let document = with_action(json!({
            "method": "PUT", "body": form,
            "input_schema": {"type": "object", "properties": {"payload": {"type": kind}, "q": {}}},
            "arguments": {"payload": {"in": "body", "whole": true}, "q": "query"},
        }));
        sent(&document, arguments)
    };
    assert_eq!(body("array", "json", r#"{"payload": [1, 2.50]}"#).unwrap().body(), b"[1, 2.50]");
    assert_eq!(body("object", "form", r#"{"payload": {"a": 1, "b": null}}"#).unwrap().body(), b"a=1");
    let text = body("string", "text", r#"{"payload": "a\n\"b\" \u00e9", "q": 1}"#).unwrap();
    assert_eq!(text.body(), "a\n\"b\" é".as_bytes());
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    let without = body("string", "text", "{}").unwrap();
    assert_eq!((without.body(), without.header("content-type")), (&b""[..], None));
}

#[test]
fn c1_a_request_without_arguments_for_it_has_no_content() {
    let document = with_action(json!({"method": "POST"}));
    let sent = sent(&document, "{}").unwrap();
    assert_eq!((sent.body(), sent.header("content-type")), (&b""[..], None));
}

#[test]
fn c1_a_form_takes_no_objects() {
    let document = with_action(json!({"method": "POST", "body": "form", "input_schema": any_of(&["a"])}));
    assert_refused(sent(&document, r#"{"a": {"b": 1}}"#), "`a`");
    assert_eq!(sent(&document, r#"{"a": "b"}"#).unwrap().body(), b"a=b");
}

#[test]
fn c1_a_form_takes_an_object_where_it_says_how() {
    let document = with_action(json!({
        "method": "POST", "body": "form", "input_schema": any_of(&["a", "b"]),
        "arguments": {"a": {"in": "body", "name": "meta", "style": "deep_object"}},
    }));
    let body =
        |arguments: &str| String::from_utf8(sent(&document, arguments).unwrap().body().to_vec()).unwrap();
    assert_eq!(
        body(r#"{"a": {"x": "1&2", "y": [3, true]}, "b": 4}"#),
        "meta%5Bx%5D=1%262&meta%5By%5D=3&meta%5By%5D=true&b=4"
    );
    assert_eq!(body(r#"{"a": ""}"#), "meta=");
    assert_eq!(body(r#"{"a": {}}"#), "");
    assert_eq!(body(r#"{"a": {"x": {"y": 1}}}"#), "meta%5Bx%5D%5By%5D=1");
}

/// As qs, Rails and PHP read it.
#[test]
fn o01_an_object_in_the_query_can_be_nested() {
    let places = json!({"filters": {"in": "query", "style": "deep_object"}});
    let query = |filters: Value| {
        let arguments = json!({"filters": filters}).to_string();
        url_of("/items", &any_of(&["filters"]), &places, &arguments)
            .unwrap()
            .replace("%5B", "[")
            .replace("%5D", "]")
    };
    assert_eq!(query(json!({"documentId": {"$eq": "doc_1"}})), "/items?filters[documentId][%24eq]=doc_1");
    assert_eq!(
        query(json!({"a": {"b": {"c": [1, 2], "d": null}}})),
        "/items?filters[a][b][c]=1&filters[a][b][c]=2"
    );
    assert_eq!(
        query(json!({"$or": [{"a": 1}, {"b": [2]}]})),
        "/items?filters[%24or][0][a]=1&filters[%24or][1][b]=2"
    );
}

/// A merge patch removes what is null (RFC 7396).
#[test]
fn c7_a_null_that_the_schema_allows_stays_in_a_json_body() {
    let document = with_action(json!({
        "method": "PATCH", "content_type": "application/merge-patch+json", "path": "/items/{id}",
        "input_schema": any_of(&["id", "name", "note"]), "arguments": {"note": {"in": "header", "name": "X-Note"}},
    }));
    let patch = sent(&document, r#"{"id": 1, "name": null, "note": null}"#).unwrap();
    assert_eq!((patch.body(), patch.header("x-note")), (&br#"{"name":null}"#[..], None));
    let form = with_action(json!({"method": "POST", "body": "form", "input_schema": any_of(&["a", "b"])}));
    assert_eq!(sent(&form, r#"{"a": null, "b": 1}"#).unwrap().body(), b"b=1");
}

#[test]
fn c1_json_is_asked_for_unless_the_definition_says_otherwise() {
    assert_eq!(sent(&with_action(json!({})), "{}").unwrap().header("accept"), Some("application/json"));
    let document = with_members(json!({"headers": {"Accept": "text/csv", "X-Version": "2"}}));
    let sent = sent(&document, "{}").unwrap();
    assert_eq!((sent.headers().get_all("accept").count(), sent.header("accept")), (1, Some("text/csv")));
    assert_eq!(sent.header("x-version"), Some("2"));
}

#[test]
fn c1_an_argument_takes_the_place_of_a_header_of_its_name() {
    let document = with_members(json!({
        "headers": {"Accept-Language": "en"},
        "actions": [{
            "name": "act", "description": "Does it.", "method": "GET", "path": "/items",
            "input_schema": {"type": "object", "properties": {"language": {}}},
            "arguments": {"language": {"in": "header", "name": "accept-language"}},
        }],
    }));
    let languages = |arguments: &str| {
        let sent = sent(&document, arguments).unwrap();
        sent.headers().get_all("accept-language").map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(languages("{}"), ["en"]);
    assert_eq!(languages(r#"{"language": ["pl", "de"]}"#), ["pl,de"]);
}

#[test]
fn c1_a_value_cannot_end_a_header_field() {
    let document = with_action(json!({
        "input_schema": any_of(&["trace"]), "arguments": {"trace": {"in": "header", "name": "X-Trace"}},
    }));
    for value in [
        json!("a\r\nX-Other: b"),
        json!("a\nb"),
        json!("a\0"),
        json!("\u{7f}"),
        json!(["a", "b\n"]),
        json!({"a": 1}),
    ] {
        assert_refused(sent(&document, &json!({"trace": value}).to_string()), "`trace`");
    }
    assert_eq!(sent(&document, r#"{"trace": "a: b, c"}"#).unwrap().header("x-trace"), Some("a: b, c"));
}

#[test]
fn c1_a_refused_argument_is_named_by_its_place() {
    let schema = any_of(&["a/b"]);
    let error = url_of("/items/{a/b}", &schema, &json!({}), r#"{"a/b": ""}"#).unwrap_err();
    assert_eq!(error.details(), Some(&json!({"pointer": "/a~1b"})));
}
