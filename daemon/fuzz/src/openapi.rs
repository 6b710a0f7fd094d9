//! Imported OpenAPI documents: the definition is checked directly, and by the daemon's parser of descriptions.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_admission::Descriptor;
use toolgate_openapi::{ImportOptions, Imported, import};

use crate::error_format::{assert_error_text, assert_pointer, find_hidden};

/// Input: an OpenAPI document.
///
/// In a definition every argument has a location, path variables are required arguments, and the daemon accepts its
/// description. An error and each part left out have a reason. The second run gives the same result.
pub fn openapi(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let options = ImportOptions { output_schemas: true, deprecated: true, ..ImportOptions::new("api") };
    match import(text, &options) {
        Err(error) => {
            assert_error_text(&error.message, &error.hint);
            assert_pointer(&error.pointer);
        }
        Ok(imported) => {
            let again = import(text, &options).map(|imported| imported.definition);
            assert_eq!(again.as_ref(), Ok(&imported.definition), "the second import differs");
            check_imported(&imported);
        }
    }
}

fn check_imported(imported: &Imported) {
    let text = imported.definition.to_string();
    assert!(text.len() <= 2 << 20, "a definition of {} bytes", text.len());
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON").to_string(), text);
    imported.left_out.iter().for_each(|left_out| assert_error_text(&left_out.to_string(), "none"));
    imported.notes.iter().for_each(|note| assert_error_text(&note.to_string(), "none"));
    assert_eq!(find_hidden(&text), None, "the definition hides a character");
    let actions = imported.definition["actions"].as_array().expect("actions");
    assert!((1..=1_000).contains(&actions.len()));
    actions.iter().for_each(check_action);
    let description = describe(&imported.definition, actions);
    if let Err(error) = Descriptor::parse(&description) {
        panic!("imported, but the daemon refuses it: {error}");
    }
}

fn check_action(action: &Value) {
    let schema = &action["input_schema"];
    let names: BTreeSet<&str> =
        schema["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
    let locations = action.get("arguments").and_then(Value::as_object);
    for (name, _) in locations.into_iter().flatten() {
        assert!(names.contains(name.as_str()), "`{name}` has a location but is not an argument");
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    assert!(required.iter().all(|name| names.contains(name)));
    assert_eq!(schema["additionalProperties"], false);
    let path = action["path"].as_str().expect("a path").split('?').next().unwrap_or_default();
    for variable in path.split('{').skip(1) {
        let name = variable.split('}').next().unwrap_or_default();
        assert!(required.contains(&name), "`{name}` is in the path but not required");
    }
}

/// The description that the built-in plugin `api` returns for the definition.
fn describe(definition: &Value, actions: &[Value]) -> String {
    let tools: Vec<Value> = actions
        .iter()
        .map(|action| {
            let original = action["name"].as_str().expect("a name");
            let name = toolgate_api::name::derive_tool_name("api", original);
            let mut tool =
                json!({"name": name, "usage": action.get("usage").unwrap_or(&action["description"])});
            if name != original {
                tool["original_name"] = original.into();
            }
            for field in ["description", "input_schema", "output_schema", "tags", "redact"] {
                if let Some(value) = action.get(field) {
                    tool[field] = value.clone();
                }
            }
            tool
        })
        .collect();
    let version = definition.get("version").unwrap_or(&Value::Null);
    let version = if version.is_null() { "1" } else { version.as_str().expect("a version") };
    json!({"name": "api", "version": version, "purpose": definition["description"], "tools": tools})
        .to_string()
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("aliases", r#"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
a: &a [x, x]
b: &b [*a, *a]
c: [*b, *b]
paths: {/a: {get: {}}}
"#),
    ("circles", r##"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
paths: {/a: {$ref: "#/paths/~1a"}, /b: {get: {parameters: [{$ref: "#/x"}]}}}
x: {$ref: "#/x"}
"##),
    ("form-with-brackets", r#"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
paths: {/a: {post: {requestBody: {content: {application/x-www-form-urlencoded: {encoding: {a: {style: deepObject}}, schema: {type: object, properties: {a: {type: object, properties: {b: {type: string}}}, a_b: {type: string}}}}}}}}}
"#),
    ("hidden-in-a-path", "openapi: 3.0.0\n\
         info: {title: T, version: \"1\"}\n\
         servers: [{url: \"https://a.example\"}]\n\
         paths: {\"/a\u{202e}\": {get: {summary: \"\\u202e\"}}, \"/{a}/{a}\": {get: {}}, \"/{\": {get: {}}}\n"),
    ("json-with-an-answer", r#"{"openapi":"3.1.0","servers":[{"url":"https://a.example"}],"paths":{"/a/{b}":{"get":{"operationId":"getB","parameters":[{"name":"b","in":"path","required":true,"schema":{"type":["string","null"]}}],"responses":{"200":{"content":{"application/json":{"schema":{"type":"object","properties":{"x":{"writeOnly":true}}}}}}}}}}}"#),
    ("nothing-can-be-taken", r#"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
paths: {/a: {get: {operationId: listA}, post: {operationId: list_a}}}
security: [{"a/b~": []}]
components: {securitySchemes: {"a/b~": {type: apiKey, in: cookie, name: x}}}
"#),
    ("ordinary", "openapi: 3.0.3
info:
  title: Orders
  version: 2024-05-01
  description: |
    What customers ordered, and what became of it.
servers:
  - url: http://localhost:8080/v2
    description: development
  - url: https://{region}.orders.example/v2
    variables:
      region: {default: eu, enum: [eu, us]}
security:
  - key: []
  - oauth: [orders.read]
tags:
  - name: orders
paths:
  /orders:
    get:
      operationId: listOrders
      tags: [orders]
      summary: List orders
      description: Newest first, a page at a time.
      parameters:
        - $ref: '#/components/parameters/Page'
        - name: status
          in: query
          explode: false
          schema: {type: array, items: {$ref: '#/components/schemas/Status'}}
        - name: created
          in: query
          style: deepObject
          description: Between these times.
          schema:
            type: object
            properties:
              from: {type: string, format: date-time}
              to: {type: string, format: date-time}
        - {name: session, in: cookie, schema: {type: string}}
      responses:
        200: {description: a page}
    post:
      operationId: createOrder
      tags: [orders]
      summary: Place an order
      parameters:
        - {name: Idempotency-Key, in: header, schema: {type: string, maxLength: 64}}
      requestBody:
        required: true
        content:
          application/xml: {}
          application/json:
            schema: {$ref: '#/components/schemas/NewOrder'}
      responses:
        201: {description: placed}
  /orders/{orderId}:
    parameters:
      - {name: orderId, in: path, required: true, schema: {type: string, pattern: '^o_[a-z0-9]{12}$'}}
    get:
      operationId: getOrder
      tags: [orders]
      responses: {200: {description: it}}
    patch:
      operationId: changeOrder
      tags: [orders]
      summary: Change an order
      requestBody:
        content:
          application/merge-patch+json:
            schema:
              allOf:
                - $ref: '#/components/schemas/NewOrder'
                - type: object
                  properties:
                    status: {$ref: '#/components/schemas/Status'}
      responses: {200: {description: changed}}
    delete:
      operationId: deleteOrder
      deprecated: true
      responses: {204: {description: gone}}
  /orders/{orderId}/notes:
    put:
      summary: Note something
      parameters:
        - {name: orderId, in: path, required: true, schema: {type: string}}
      requestBody:
        required: true
        content: {text/plain: {schema: {type: string}}}
      responses: {204: {description: noted}}
  /orders/{orderId}/files:
    post:
      operationId: attachFile
      requestBody:
        content: {multipart/form-data: {schema: {type: object}}}
      responses: {204: {description: attached}}
  /admin/reset:
    post:
      operationId: reset
      security: [{admin: []}]
      responses: {204: {description: done}}
components:
  parameters:
    Page:
      name: page
      in: query
      schema: {type: integer, format: int32, minimum: 0, exclusiveMinimum: true, default: 1}
  schemas:
    Status: {type: string, enum: [open, sent, returned]}
    Address:
      type: object
      required: [street, city]
      properties:
        street: {type: string}
        city: {type: string, example: Łódź}
        country: {type: string, minLength: 2, maxLength: 2, nullable: true}
    Item:
      type: object
      required: [sku, count]
      properties:
        sku: {type: string}
        count: {type: integer, minimum: 1}
        bundle: {type: array, items: {$ref: '#/components/schemas/Item'}}
    NewOrder:
      type: object
      required: [id, items]
      properties:
        id: {type: string, readOnly: true}
        items: {type: array, minItems: 1, items: {$ref: '#/components/schemas/Item'}}
        shipTo: {$ref: '#/components/schemas/Address'}
        billTo: {$ref: '#/components/schemas/Address'}
        pin: {type: string, format: password}
        payment:
          oneOf:
            - {title: by card, type: object, required: [card], properties: {card: {type: string}}}
            - {title: later, type: object, required: [invoice], properties: {invoice: {type: boolean}}}
          discriminator: {propertyName: kind}
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Orders-Key}
    oauth:
      type: oauth2
      flows:
        clientCredentials: {tokenUrl: 'https://login.orders.example/token', scopes: {orders.read: Read}}
    admin: {type: http, scheme: digest}
"),
    ("schema-defined-by-itself", r##"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
paths: {/a: {post: {requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/A"}}}}}}}
components: {schemas: {A: {allOf: [{$ref: "#/components/schemas/A"}, {properties: {a: {$ref: "#/components/schemas/A"}}}]}}}
"##),
    ("smallest", r#"openapi: 3.0.0
info: {title: T, version: "1"}
servers: [{url: "https://a.example"}]
paths: {/a: {get: {}}}
"#),
    ("swagger", r##"swagger: "2.0"
host: a.example
parameters: {B: {name: b, in: body, schema: {$ref: "#/definitions/A"}}, F: {name: f, in: formData, type: file}}
paths: {/a: {post: {parameters: [{$ref: "#/parameters/B"}]}, put: {parameters: [{$ref: "#/parameters/F"}]}}}
definitions: {A: {type: object, properties: {a: {type: string, x-nullable: true}}}}
"##),
];
