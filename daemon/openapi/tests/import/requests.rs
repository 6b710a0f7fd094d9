//! Parameters and bodies: where each argument goes, and what is left out.

use serde_json::json;

use super::{action, all, fits, notes, skip_reason};

#[test]
fn c2_parameters_become_arguments_with_their_places() {
    let action = action(
        "paths:
  /points/{lat},{lon}:
    parameters:
      - {name: lat, in: path, required: true, schema: {type: number}}
      - {name: units, in: query, schema: {type: string}}
    get:
      operationId: getPoint
      parameters:
        - {name: lon, in: path, required: true, schema: {type: number}}
        - {name: units, in: query, description: of the operation, schema: {enum: [si, us]}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: 'filter[x]', in: query, schema: {type: string}}",
    );
    assert_eq!(action["name"], "getPoint");
    assert_eq!(action["path"], "/points/{lat},{lon}");
    assert_eq!(
        action["arguments"],
        json!({"X-Trace": "header", "filter_x": {"in": "query", "name": "filter[x]"}})
    );
    assert_eq!(action["input_schema"]["required"], json!(["lat", "lon"]));
    assert_eq!(action["input_schema"]["properties"]["units"]["description"], "of the operation");
    assert!(fits(&action, &json!({"lat": 1, "lon": 2, "units": "si"})));
    assert!(!fits(&action, &json!({"lat": 1, "lon": 2, "units": "xx"})));
    assert!(!fits(&action, &json!({"lat": 1})));
}

#[test]
fn c2_styles_become_those_of_definitions() {
    let list = "schema: {type: array, items: {type: string}}";
    for (parameter, place) in [
        (format!("in: query, {list}"), json!(null)),
        (format!("in: query, explode: false, {list}"), json!({"in": "query", "style": "comma"})),
        (format!("in: query, style: spaceDelimited, {list}"), json!({"in": "query", "style": "space"})),
        (format!("in: query, style: pipeDelimited, {list}"), json!({"in": "query", "style": "pipe"})),
        (format!("in: query, style: deepObject, {list}"), json!({"in": "query", "name": "p[]"})),
        (format!("in: header, {list}"), json!("header")),
        (
            "in: query, style: deepObject, schema: {type: object, properties: {a: {type: string}}}"
                .to_owned(),
            json!({"in": "query", "style": "deep_object"}),
        ),
        (
            "in: query, content: {application/json: {schema: {type: object}}}".to_owned(),
            json!({"in": "query", "style": "json"}),
        ),
    ] {
        let action = action(&format!("paths: {{/a: {{get: {{parameters: [{{name: p, {parameter}}}]}}}}}}"));
        assert_eq!(action["arguments"].get("p").cloned().unwrap_or_default(), place, "{parameter}");
    }
}

#[test]
fn c2_a_parameter_that_cannot_be_written_is_dropped_where_it_is_optional_and_ends_the_action_where_it_is_not()
{
    for (parameter, why) in [
        ("in: cookie", "cookies are not sent"),
        ("in: header, name: X-Api-Key", "carries a credential"),
        ("in: header, name: Host", "message framing"),
        ("in: query, schema: {type: object, properties: {a: {}}}", "the style `form`"),
        ("in: query, schema: {type: array, items: {type: object}}", "the style `form`"),
        ("in: query, content: {text/csv: {}}", "written as `text/csv`"),
    ] {
        let parameter =
            if parameter.contains("name:") { parameter.to_owned() } else { format!("name: p, {parameter}") };
        let imported = all(&format!("paths: {{/a: {{get: {{parameters: [{{{parameter}}}]}}}}}}"));
        assert!(notes(&imported).contains(why), "{}", notes(&imported));
        assert_eq!(imported.definition["actions"][0]["input_schema"]["properties"], json!({}));
        let reason = skip_reason(&format!(
            "paths: {{/a: {{get: {{parameters: [{{{parameter}, required: true}}]}}}}}}"
        ));
        assert!(reason.contains(why), "{reason}");
    }
    let matrix = "paths: {'/a/{p}': {get: {parameters: [{name: p, in: path, style: matrix}]}}}";
    assert!(skip_reason(matrix).contains("style `matrix`"));
}

#[test]
fn c2_headers_that_openapi_describes_elsewhere_are_no_arguments() {
    let action = action(
        "paths: {/a: {get: {parameters: [{name: Accept, in: header, required: true}, {name: Authorization, in: header, required: true}]}}}",
    );
    assert_eq!(action["input_schema"]["properties"], json!({}));
}

#[test]
fn c2_the_path_and_its_parameters_are_brought_together() {
    let imported = all("paths:
  '/a/{known}/{unknown}?format=json#two':
    get:
      parameters:
        - {name: known, in: path, required: true, schema: {type: integer}}
        - {name: other, in: path, required: true, schema: {type: integer}}
        - {name: format, in: query, schema: {type: string}}");
    let action = &imported.definition["actions"][0];
    assert_eq!(action["path"], "/a/{known}/{unknown}?format=json");
    assert_eq!(
        action["input_schema"]["properties"],
        json!({"known": {"type": "integer"}, "unknown": {"type": "string"}})
    );
    let notes = notes(&imported);
    for note in
        ["`unknown` of the path is not described", "`other` is left out", "`format` is left out", "`#`"]
    {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    for path in ["/a//b", "/a/../b", "/a/{", "/a/{x}/{x}", "a", "/ä"] {
        let reason = skip_reason(&format!("paths: {{'{path}': {{get: {{}}}}}}"));
        assert!(reason.contains("path"), "{reason}");
    }
}

#[test]
fn c2_members_of_a_json_body_become_arguments() {
    let action = action(
        "paths:
  /users/{id}:
    post:
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [name, created]
              properties:
                name: {type: string}
                age: {type: integer}
                created: {type: string, readOnly: true}",
    );
    assert!(fits(&action, &json!({"id": "1", "name": "x"})));
    for wrong in [json!({"id": "1"}), json!({"id": "1", "name": "x", "created": "now"})] {
        assert!(!fits(&action, &wrong), "{wrong}");
    }
    assert_eq!(action.get("arguments"), None, "all go where they go by themselves");
    assert_eq!(action.get("body"), None);
}

#[test]
fn c2_a_body_that_its_members_cannot_say_is_one_argument() {
    for (case, schema) in [
        ("no object", "{type: array, items: {type: string}}"),
        ("a map", "{type: object, additionalProperties: {type: string}}"),
        ("an open object", "{type: object, properties: {a: {}}, additionalProperties: true}"),
        ("alternatives", "{oneOf: [{type: object, properties: {a: {}}}, {type: string}]}"),
        ("a clash", "{type: object, properties: {id: {type: string}}}"),
    ] {
        let action = action(&format!(
            "paths: {{'/a/{{id}}': {{post: {{requestBody: {{required: true, content: {{application/json: {{schema: {schema}}}}}}}}}}}}}"
        ));
        assert_eq!(action["arguments"], json!({"body": {"in": "body", "whole": true}}), "{case}");
        assert_eq!(action["input_schema"]["required"], json!(["id", "body"]), "{case}");
    }
}

#[test]
fn c2_a_body_that_may_be_left_out_whole_stays_one() {
    let body = |required: bool| {
        action(&format!(
            "paths: {{/a: {{post: {{requestBody: {{required: {required}, content: {{application/json: {{schema: {{type: object, required: [x], properties: {{x: {{type: string}}}}}}}}}}}}}}}}}}"
        ))
    };
    assert!(fits(&body(true), &json!({"x": "1"})) && !fits(&body(true), &json!({})));
    assert!(fits(&body(false), &json!({})) && fits(&body(false), &json!({"body": {"x": "1"}})));
    assert!(!fits(&body(false), &json!({"body": {}})));
}

#[test]
fn c2_of_media_types_the_one_is_taken_that_can_be_sent() {
    for (content, body, content_type) in [
        ("application/xml: {}, application/json: {}", None, None),
        ("application/merge-patch+json: {}", None, Some("application/merge-patch+json")),
        ("application/json; charset=utf-8: {}", None, Some("application/json; charset=utf-8")),
        ("'*/*': {}", None, None),
        ("text/plain: {schema: {type: string}}", Some("text"), None),
        (
            "multipart/form-data: {}, application/x-www-form-urlencoded: {schema: {type: object, properties: {a: {}}}}",
            Some("form"),
            None,
        ),
    ] {
        let action = action(&format!("paths: {{/a: {{post: {{requestBody: {{content: {{{content}}}}}}}}}}}"));
        assert_eq!(action.get("body").and_then(|body| body.as_str()), body, "{content}");
        assert_eq!(action.get("content_type").and_then(|kind| kind.as_str()), content_type, "{content}");
    }
    for (content, why) in [
        ("multipart/form-data: {}", "its body has parts"),
        ("multipart/mixed: {}", "its body is sent as"),
        ("application/xml: {}", "its body is sent as"),
    ] {
        let reason =
            skip_reason(&format!("paths: {{/a: {{post: {{requestBody: {{content: {{{content}}}}}}}}}}}"));
        assert!(reason.starts_with(why), "{reason}");
    }
}

#[test]
fn c7_parts_and_files_are_taken_from_the_workspace() {
    let multipart = action(
        "paths:
  /a:
    post:
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [file]
              properties:
                file: {type: string, format: binary, description: The photo}
                'more[]': {type: array, items: {type: string, contentMediaType: application/octet-stream}}
                meta: {type: object, properties: {a: {type: string}}}
                key: {type: string, contentMediaType: image/png, contentEncoding: base64}",
    );
    assert_eq!(multipart["body"], "multipart");
    assert_eq!(
        multipart["arguments"],
        json!({"file": {"in": "body", "file": true}, "more": {"in": "body", "name": "more[]", "file": true}})
    );
    let properties = &multipart["input_schema"]["properties"];
    assert_eq!(
        properties["file"],
        json!({"type": "string", "description": "Path of a workspace file. The photo"})
    );
    assert_eq!(properties["more"]["items"], json!({"type": "string"}));
    assert_eq!(multipart["input_schema"]["required"], json!(["file"]));
    for (content, content_type) in [
        ("application/octet-stream: {}", json!("application/octet-stream")),
        ("'image/*': {schema: {type: string, format: binary}}", json!(null)),
        ("image/png: {}, image/jpeg: {}", json!(null)),
        ("'*/*': {schema: {type: string, format: binary}}", json!(null)),
        ("application/x-tar: {schema: {contentMediaType: application/x-tar}}", json!("application/x-tar")),
    ] {
        let action = action(&format!("paths: {{/a: {{put: {{requestBody: {{content: {{{content}}}}}}}}}}}"));
        assert_eq!(action["body"], "binary", "{content}");
        assert_eq!(action.get("content_type").cloned().unwrap_or_default(), content_type, "{content}");
        assert_eq!(action["arguments"], json!({"body": {"in": "body", "whole": true}}));
        assert!(fits(&action, &json!({"body": "in/photo.png"})));
    }
}

#[test]
fn c7_a_response_that_is_a_file_is_saved_to_the_workspace() {
    let result = |responses: &str, parameter: &str| {
        let action = action(&format!(
            "paths: {{/a: {{get: {{parameters: [{parameter}], responses: {{{responses}}}}}}}}}"
        ));
        action.get("result").cloned().unwrap_or_default()
    };
    for responses in [
        "200: {content: {application/pdf: {}}}",
        "200: {content: {application/x-any: {schema: {type: string, format: binary}}}}, 404: {content: {application/json: {}}}",
    ] {
        assert_eq!(result(responses, ""), json!({"file": "save_as"}), "{responses}");
    }
    let taken = "{name: save_as, in: query, schema: {type: string}}";
    assert_eq!(result("200: {content: {image/png: {}}}", taken), json!({"file": "save_as_2"}));
    for responses in [
        "200: {content: {application/json: {}, application/pdf: {}}}",
        "200: {content: {application/pdf: {}}}, 202: {content: {application/json: {}}}",
        "204: {description: none}",
        "200: {content: {text/csv: {}}}",
    ] {
        assert_eq!(result(responses, ""), json!(null), "{responses}");
    }
}

/// RFC 7396: `null` removes a member.
#[test]
fn c7_the_members_of_a_merge_patch_can_be_null() {
    let document = "paths:
  '/a/{id}':
    patch:
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody:
        required: true
        content:
          MEDIA_TYPE:
            schema:
              type: object
              properties:
                name: {type: string}
                kind: {type: string, enum: [a]}
                secret: {type: string, format: password}
                home: {$ref: '#/components/schemas/Home'}
                work: {$ref: '#/components/schemas/Home'}
                address: {type: object, properties: {city: {type: string}}}
components:
  schemas:
    Home: {type: object, properties: {pin: {type: string, format: password}}}";
    let patch = |media_type: &str| action(&document.replace("MEDIA_TYPE", media_type));
    let action = patch("application/merge-patch+json");
    let all = json!({"id": "1", "name": null, "kind": null, "secret": null, "home": null, "address": null});
    assert!(fits(&action, &all), "{action}");
    assert!(fits(&action, &json!({"id": "1", "address": {"city": null}})));
    assert!(!fits(&action, &json!({"id": null})));
    assert!(!fits(&action, &json!({"id": "1", "kind": "b"})));
    assert_eq!(action["redact"], json!(["/home/pin", "/secret", "/work/pin"]));
    assert!(!fits(&patch("application/json"), &json!({"id": "1", "name": null})));
}

#[test]
fn c2_a_form_has_fields_and_objects_only_where_it_says_how() {
    let form = |encoding: &str, required: &str| {
        format!(
            "paths:
  /a:
    post:
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            {encoding}
            schema:
              type: object
              required: [{required}]
              properties:
                name: {{type: string}}
                ids: {{type: array, items: {{type: string}}}}
                labels: {{anyOf: [{{type: object, additionalProperties: {{type: string}}}}, {{type: string, enum: ['']}}]}}
                tree: {{type: object, additionalProperties: {{type: object}}}}
                address: {{type: object, properties: {{city: {{type: string}}, parts: {{type: array, items: {{type: object}}}}}}}}"
        )
    };
    let plain = all(&form("{}", "name").replace("            {}\n", ""));
    assert_eq!(plain.definition["actions"][0].get("arguments"), None);
    assert!(notes(&plain).contains("`address` is left out"), "{}", notes(&plain));
    assert!(skip_reason(&form("{}", "address").replace("            {}\n", "")).contains("`address`"));
    let deep = all(&form(
        "encoding: {ids: {style: deepObject}, address: {style: deepObject}, labels: {style: deepObject}, tree: {style: deepObject}}",
        "name",
    ));
    assert_eq!(
        deep.definition["actions"][0]["arguments"],
        json!({"ids": {"in": "body", "name": "ids[]"}, "address_city": {"in": "body", "name": "address[city]"},
            "labels": {"in": "body", "name": "labels", "style": "deep_object"}})
    );
    assert!(notes(&deep).contains("`tree` is left out"), "{}", notes(&deep));
    assert!(notes(&deep).contains("a part of `address` is left out"), "{}", notes(&deep));
}

#[test]
fn c2_requests_that_have_no_body_lose_it_and_delete_keeps_it_in_its_place() {
    let body = "requestBody: {content: {application/json: {schema: {type: object, properties: {x: {}}}}}}";
    let imported = all(&format!("paths: {{/a: {{get: {{{body}}}}}}}"));
    assert!(notes(&imported).contains("its body is left out"));
    let action = action(&format!("paths: {{/a: {{delete: {{{body}}}}}}}"));
    assert_eq!(action["arguments"], json!({"x": "body"}));
}

#[test]
fn c2_two_arguments_never_go_to_the_same_place() {
    let imported = all(
        "paths: {/a: {get: {parameters: [{name: f, in: query, style: deepObject, schema: {type: object, properties: {a: {}}}}, {name: 'f[a]', in: query, schema: {type: string}}]}}}",
    );
    assert!(notes(&imported).contains("`f[a]` is left out: another argument goes there"));
}

#[test]
fn c2_a_password_is_not_shown_in_logs() {
    let action = action(
        "paths: {/a: {post: {requestBody: {content: {application/json: {schema: {type: object, properties: {user: {type: string}, secret: {type: string, format: password}}}}}}}}}",
    );
    assert_eq!(action["redact"], json!(["/secret"]));
    let inside = self::action(
        "paths: {/a: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}}}}
components: {schemas: {A: {type: object, required: [b], properties: {b: {type: object, properties: {'p/w': {type: string, format: password}}}}}}}",
    );
    assert_eq!(inside["redact"], json!(["/body/b/p~1w"]));
}
