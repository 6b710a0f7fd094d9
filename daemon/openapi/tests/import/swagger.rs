//! Swagger 2.0, which is converted to OpenAPI 3.0 first.

use serde_json::{Value, json};
use toolgate_openapi::ImportOptions;

use super::{fits, import_checked, notes};

const SHOP: &str = r##"
swagger: 2.0
info: {title: Shop, version: 1}
host: shop.example.com
basePath: /v2/
schemes: [http, https]
consumes: [application/json]
produces: [application/json]
securityDefinitions: {key: {type: apiKey, in: header, name: X-Key}}
security: [{key: []}]
parameters:
  page: {name: page, in: query, type: integer, minimum: 1}
  note: {name: note, in: formData, type: string, required: true, description: A note}
  pet: {name: pet, in: body, required: true, schema: {$ref: '#/definitions/Pet'}}
responses:
  pets: {description: pets, schema: {type: array, items: {$ref: '#/definitions/Pet'}}}
definitions:
  Pet:
    type: object
    discriminator: kind
    required: [name]
    properties:
      name: {type: string}
      kind: {type: string, enum: [cat, dog], x-nullable: true}
      parent: {$ref: '#/definitions/Pet'}
paths:
  /pets:
    parameters:
      - {$ref: '#/parameters/page'}
    get:
      operationId: listPets
      parameters:
        - {name: ids, in: query, type: array, items: {type: integer}, collectionFormat: csv}
        - {name: tags, in: query, type: array, items: {type: string}, collectionFormat: multi}
        - {name: X-Trace, in: header, type: string}
      responses: {200: {$ref: '#/responses/pets'}}
    post:
      operationId: addPet
      parameters:
        - {$ref: '#/parameters/pet'}
      responses: {201: {description: added, schema: {$ref: '#/definitions/Pet'}}}
  /pets/{id}/photo:
    parameters:
      - {name: id, in: path, required: true, type: string, pattern: '^[a-z]+$'}
      - {name: token, in: formData, type: string}
    post:
      operationId: addPhoto
      consumes: [multipart/form-data]
      parameters:
        - {$ref: '#/parameters/note'}
        - {name: photo, in: formData, type: file, required: true}
    put:
      operationId: setToken
      consumes: [application/x-www-form-urlencoded]
    get:
      operationId: getPhoto
      produces: [image/png]
      responses: {200: {description: photo, schema: {type: file}}}
"##;

fn shop(output_schemas: bool) -> toolgate_openapi::Imported {
    let options = ImportOptions { output_schemas, ..ImportOptions::new("t") };
    import_checked(SHOP, &options).unwrap_or_else(|error| panic!("{error}; {}", error.hint))
}

fn action(name: &str) -> Value {
    let imported = shop(true);
    let actions = imported.definition["actions"].as_array().expect("actions");
    let found = actions.iter().find(|action| action["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is left out: {:?}", imported.left_out)).clone()
}

#[test]
fn c7_a_swagger_document_becomes_a_definition() {
    let imported = shop(false);
    assert_eq!(imported.definition["base_url"], "https://shop.example.com/v2");
    assert_eq!(imported.definition["authentication"], json!({"kind": "api_key", "provider": "t"}));
    assert_eq!((imported.operations, imported.left_out.len()), (5, 0), "{:?}", imported.left_out);
    assert!(notes(&imported).contains("saved to the workspace"), "{}", notes(&imported));
}

#[test]
fn c7_swagger_parameters_get_schemas_and_styles() {
    let list = action("listPets");
    assert_eq!(list["arguments"], json!({"X-Trace": "header", "ids": {"in": "query", "style": "comma"}}));
    assert!(fits(&list, &json!({"page": 1, "ids": [1, 2], "tags": ["a"], "X-Trace": "t"})));
    assert!(!fits(&list, &json!({"page": 0})));
    assert_eq!(list["output_schema"]["type"], "array", "{list}");
}

#[test]
fn c7_a_swagger_body_becomes_arguments() {
    let add = action("addPet");
    assert!(fits(&add, &json!({"name": "Tom", "kind": null, "parent": {"name": "Ada"}})), "{add}");
    assert!(!fits(&add, &json!({"kind": "cat"})) && !fits(&add, &json!({"name": "Tom", "kind": "cow"})));
    assert_eq!(add.get("body"), None);
}

#[test]
fn c7_a_swagger_form_becomes_a_form_or_parts() {
    let photo = action("addPhoto");
    assert_eq!(photo["body"], "multipart");
    assert_eq!(photo["arguments"], json!({"photo": {"in": "body", "file": true}}));
    assert_eq!(photo["input_schema"]["required"], json!(["id", "note", "photo"]));
    assert_eq!(photo["input_schema"]["properties"]["note"]["description"], "A note");
    let token = action("setToken");
    assert_eq!(token["body"], "form");
    assert!(fits(&token, &json!({"id": "a", "token": "t"})) && !fits(&token, &json!({"id": "A"})));
    assert_eq!(action("getPhoto")["result"], json!({"file": "save_as"}));
}

#[test]
fn c7_a_swagger_document_without_a_host_needs_a_base_url() {
    let text = SHOP.replace("host: shop.example.com", "");
    let error = import_checked(&text, &ImportOptions::new("t")).expect_err("no host");
    assert!(!error.hint.is_empty(), "{error}");
    let base = ImportOptions { base_url: Some("https://other.example.com/v2"), ..ImportOptions::new("t") };
    assert_eq!(
        import_checked(&text, &base).expect("a definition").definition["base_url"],
        "https://other.example.com/v2"
    );
}
