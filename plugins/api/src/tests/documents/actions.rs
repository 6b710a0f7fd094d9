//! Actions: names, methods, paths, and the places of arguments.

use super::*;

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
