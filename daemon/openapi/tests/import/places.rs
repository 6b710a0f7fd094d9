//! Servers, credentials, names and selection.

use serde_json::json;
use toolgate_openapi::{ImportOptions, Imported, Selector};

use super::{all, document, import_checked, notes, skip_reason};

fn with(head: &str, options: &ImportOptions<'_>) -> Result<Imported, toolgate_openapi::ImportError> {
    import_checked(
        &format!("openapi: 3.0.3\ninfo: {{title: T, version: v 1}}\npaths: {{/a: {{get: {{}}}}}}\n{head}"),
        options,
    )
}

#[test]
fn c2_the_base_url_is_the_first_server_with_tls() {
    for (servers, base_url) in [
        ("[{url: 'https://a.example/'}]", "https://a.example"),
        ("[{url: 'http://a.example'}, {url: 'https://b.example/v1/'}]", "https://b.example/v1"),
        ("[{url: 'http://a.example:8080/x'}]", "http://a.example:8080/x"),
        ("[{url: '//a.example/x'}]", "https://a.example/x"),
        (
            "[{url: 'https://{region}.example/{base}', variables: {region: {default: eu}, base: {default: 2}}}]",
            "https://eu.example/2",
        ),
    ] {
        let imported = with(&format!("servers: {servers}"), &ImportOptions::new("t")).expect(servers);
        assert_eq!(imported.definition["base_url"], base_url);
    }
}

#[test]
fn c2_without_a_host_one_must_be_given() {
    for servers in [
        "[]",
        "[{url: /v1}]",
        "[{url: 'https://{x}.example'}]",
        "[{url: 'https://a@b.example'}]",
        "[{url: 'https://a.example?x=1'}]",
        "7",
    ] {
        let servers = format!("servers: {servers}");
        let error = with(&servers, &ImportOptions::new("t")).expect_err(&servers);
        assert!(error.pointer == "/servers" && error.hint.contains("base_url"), "{error:?}");
        let options = ImportOptions { base_url: Some("https://mine.example/v2/"), ..ImportOptions::new("t") };
        assert_eq!(
            with(&servers, &options).expect("given").definition["base_url"],
            "https://mine.example/v2"
        );
    }
    let options = ImportOptions { base_url: Some("mine.example"), ..ImportOptions::new("t") };
    assert!(with("", &options).expect_err("no scheme").message.contains("`mine.example`"));
}

#[test]
fn c2_an_operation_with_another_server_is_left_out() {
    let own = |url: &str| format!("paths: {{/a: {{get: {{servers: [{{url: '{url}'}}]}}}}}}");
    assert!(skip_reason(&own("https://upload.example.com")).contains("a server of its own"));
    assert!(all(&own("https://api.example.com/v1")).left_out.is_empty());
}

#[test]
fn c2_security_schemes_become_authentication() {
    let flow = |flow: &str| {
        format!(
            "{{type: oauth2, flows: {{{flow}: {{tokenUrl: 'https://login.example/t', scopes: {{read: r}}}}}}}}"
        )
    };
    let (client, code, implicit) = (flow("clientCredentials"), flow("authorizationCode"), flow("implicit"));
    for (scheme, expected) in [
        ("{type: http, scheme: Bearer}", json!({"kind": "bearer", "provider": "t"})),
        ("{type: http, scheme: basic}", json!({"kind": "basic", "provider": "t"})),
        ("{type: apiKey, in: header, name: X-Key}", json!({"kind": "api_key", "provider": "t"})),
        ("{type: apiKey, in: query, name: key}", json!({"kind": "api_key", "provider": "t"})),
        (
            &client,
            json!({"kind": "oauth2_client_credentials", "provider": "t", "token_url": "https://login.example/t", "scopes": ["read"]}),
        ),
        (
            &code,
            json!({"kind": "oauth2_authorization_code", "provider": "t", "token_url": "https://login.example/t", "scopes": ["read"]}),
        ),
        (&implicit, json!({"kind": "bearer", "provider": "t"})),
        ("{type: openIdConnect}", json!({"kind": "bearer", "provider": "t"})),
    ] {
        let imported = all(&format!(
            "components: {{securitySchemes: {{s: {scheme}}}}}\nsecurity: [{{s: [read]}}]\npaths: {{/a: {{get: {{}}}}}}"
        ));
        assert_eq!(imported.definition["authentication"], expected, "{scheme}");
        assert!(notes(&imported).contains("calls need a credential of the provider `t`"));
    }
    for scheme in ["{type: http, scheme: digest}", "{type: apiKey, in: cookie, name: s}", "{type: mutualTLS}"]
    {
        let paths = format!(
            "components: {{securitySchemes: {{s: {scheme}}}}}\nsecurity: [{{s: []}}]\npaths: {{/a: {{get: {{}}}}}}"
        );
        assert!(skip_reason(&paths).contains("needs `s`"), "{}", skip_reason(&paths));
    }
}

const TWO_KEYS: &str = "
components: {securitySchemes: {user: {type: http, scheme: bearer}, admin: {type: apiKey, in: header, name: X-Admin}, oauth: {type: openIdConnect}}}
paths:
  /a: {get: {security: [{user: []}], parameters: [{name: x-admin, in: header, schema: {type: string}}]}}
  /b: {get: {security: [{admin: []}, {user: []}]}}
  /c: {get: {security: [{admin: []}]}}
  /d: {get: {security: [{admin: [], user: []}]}}
  /e: {get: {security: []}}
  /f: {get: {security: [{admin: []}, {}]}}
  /g: {get: {security: [{oauth: [], user: []}]}}
";

#[test]
fn c2_one_credential_is_chosen_and_operations_that_need_another_are_left_out() {
    let imported = all(TWO_KEYS);
    let left_out: Vec<&str> = imported.left_out.iter().map(|left_out| left_out.what.as_str()).collect();
    assert_eq!(imported.definition["authentication"]["kind"], "bearer");
    assert_eq!(left_out, ["GET /c", "GET /d"], "`oauth` and `user` are one secret, in one place");
    let options = ImportOptions { scheme: Some("admin"), ..ImportOptions::new("t") };
    let admin = super::import_checked(&document(TWO_KEYS), &options).expect("imported");
    let left_out: Vec<&str> = admin.left_out.iter().map(|left_out| left_out.what.as_str()).collect();
    assert_eq!(left_out, ["GET /a", "GET /d", "GET /g"]);
    let unknown = ImportOptions { scheme: Some("none"), ..ImportOptions::new("t") };
    let error = super::import_checked(&document(TWO_KEYS), &unknown).expect_err("no such scheme");
    assert!(error.hint.contains("`admin`") && error.hint.contains("`user`"), "{}", error.hint);
}

/// An action cannot opt out of the credential of its definition.
#[test]
fn c2_operations_that_need_no_credential_and_are_sent_with_it_are_named() {
    let scheme =
        "components: {securitySchemes: {s: {type: http, scheme: bearer}}}\nsecurity: [{s: []}]\npaths:\n";
    let with = |paths: &str| notes(&all(&format!("{scheme}{paths}")));
    let about = "/components/securitySchemes/s: GET ";
    assert!(!with("  /a: {get: {}}\n  /b: {get: {security: [{}, {s: []}]}}").contains(about), "all take it");
    for open in ["[]", "[{}]"] {
        let one = with(&format!("  /a: {{get: {{}}}}\n  /b: {{get: {{security: {open}}}}}"));
        assert!(one.contains(&format!("{about}/b needs no credential and is sent with it\n")), "{one}");
    }
    let paths = |count| {
        let open = (0..count).map(|at| format!("  /b{at}: {{get: {{security: []}}}}\n"));
        format!("  /a: {{get: {{}}}}\n{}", open.collect::<String>())
    };
    let two = with(&paths(2));
    assert!(two.contains("GET /b0 and GET /b1 need no credential and are sent with it\n"), "{two}");
    let many = with(&paths(9));
    let named = "GET /b0, GET /b1, GET /b2, GET /b3 and 5 others need no credential and are sent with it\n";
    assert!(many.contains(named), "{many}");
    let none = notes(&all("paths: {/a: {get: {security: []}}}"));
    assert!(!none.contains("sent with it"), "{none}");
}

#[test]
fn c2_the_definition_states_safe_methods_only_on_request() {
    let document = document("paths: {/a: {get: {}}}");
    let safe_methods_of = |safe_methods| {
        let options = ImportOptions { safe_methods, ..ImportOptions::new("t") };
        let imported = super::import_checked(&document, &options).expect("imported");
        imported.definition.get("safe_methods").cloned()
    };
    assert_eq!(safe_methods_of(true), Some(json!(true)));
    assert_eq!(safe_methods_of(false), None);
}

#[test]
fn c2_the_parameter_that_holds_the_secret_is_not_an_argument() {
    let imported = all(
        "components: {securitySchemes: {s: {type: apiKey, in: query, name: key}}}
security: [{s: []}]
paths: {/a: {get: {parameters: [{name: key, in: query, required: true, schema: {type: string}}, {name: q, in: query, schema: {type: string}}]}}}",
    );
    let action = &imported.definition["actions"][0];
    assert_eq!(action["input_schema"]["properties"], json!({"q": {"type": "string"}}));
    assert!(notes(&imported).contains("`key` is left out: the host puts the credential there"));
}

#[test]
fn c2_a_field_that_repeats_the_credential_is_no_argument_and_one_without_a_scheme_ends_the_action() {
    let operation = "paths: {/a: {get: {parameters: [{name: token, in: header, required: true}]}}}";
    let scheme = "components: {securitySchemes: {s: {type: http, scheme: bearer}}}\nsecurity: [{s: []}]";
    let imported = all(&format!("{scheme}\n{operation}"));
    assert!(notes(&imported).contains("`token` is left out: the host puts the credential there"));
    assert!(skip_reason(operation).contains("carries a credential"));
}

#[test]
fn c2_a_credential_is_not_sent_without_tls() {
    let head = "servers: [{url: 'http://a.example'}]\ncomponents: {securitySchemes: {s: {type: http, scheme: basic}}}\nsecurity: [{s: []}]";
    let error = with(head, &ImportOptions::new("t")).expect_err("no TLS");
    assert!(error.message.contains("without TLS") && error.hint.contains("https"), "{error}");
}

const MANY: &str = "paths:
  /pets: {get: {operationId: listPets, tags: [Pets]}, post: {operationId: addPet, tags: [Pets]}}
  /pets/{id}: {get: {operationId: getPet, tags: [pets]}, delete: {operationId: removePet, deprecated: true, tags: [pets]}}
  /petshop: {get: {operationId: shop, tags: [shop]}}
  /users: {get: {tags: [users]}}
";

#[test]
fn c2_operations_are_selected_by_tag_path_name_and_method() {
    for (select, names) in [
        ("", "listPets addPet getPet shop get_users"),
        ("tag:pets", "listPets addPet getPet"),
        ("tag:pets method:get", "listPets getPet"),
        ("tag:shop tag:users", "shop get_users"),
        ("path:/pets", "listPets addPet getPet"),
        ("operation:*Pet", "addPet getPet"),
        ("operation:get_*", "getPet get_users"),
    ] {
        let select: Vec<Selector> =
            select.split_whitespace().map(|text| text.parse().expect("a selector")).collect();
        let options = ImportOptions { select: &select, ..ImportOptions::new("t") };
        let imported = import_checked(&document(MANY), &options).expect("some");
        let actions = imported.definition["actions"].as_array().expect("actions");
        let found: Vec<&str> = actions.iter().filter_map(|action| action["name"].as_str()).collect();
        assert_eq!(found.join(" "), names);
    }
    let select = ["tag:none".parse().expect("a selector")];
    let error =
        import_checked(&document(MANY), &ImportOptions { select: &select, ..ImportOptions::new("t") })
            .expect_err("none");
    assert!(error.message.contains("none of the 6 operations is selected"), "{error}");
}

#[test]
fn c2_deprecated_operations_are_left_out_unless_requested() {
    let plain = all(MANY);
    assert_eq!(plain.left_out.len(), 1);
    assert!(plain.left_out[0].to_string().starts_with("DELETE /pets/{id}: it is deprecated"));
    let options = ImportOptions { deprecated: true, ..ImportOptions::new("t") };
    let all = import_checked(&document(MANY), &options).expect("all");
    let removed = all.definition["actions"]
        .as_array()
        .expect("actions")
        .iter()
        .find(|action| action["name"] == "removePet");
    assert_eq!(removed.expect("taken")["description"], "Deprecated. DELETE /pets/{id}");
}

#[test]
fn c2_beyond_the_limit_whole_operations_are_left_out() {
    let options = ImportOptions { limit: 2, ..ImportOptions::new("t") };
    let imported = import_checked(&document(MANY), &options).expect("some");
    assert_eq!(imported.definition["actions"].as_array().map(Vec::len), Some(2));
    assert_eq!((imported.operations, imported.selected, imported.left_out.len()), (6, 6, 4));
    assert!(imported.left_out[0].why.contains("2 actions are taken already: select fewer"));
}

/// 9.4: the name in the document is kept, and the tool name made of it fits the namespace's wire name.
#[test]
fn c2_an_action_is_called_as_in_the_document() {
    let long = "listEverythingThatThereIsAndMoreThanFitsTheNameOfAnyToolThatAModelCanCall";
    for (id, name) in [
        ("getPetById", "getPetById"),
        ("repos/get-content", "repos/get-content"),
        (long, long),
        ("日本", "get_a_b"),
        ("\"\\nx\"", "get_a_b"),
        ("''", "get_a_b"),
    ] {
        let text = document(&format!("paths: {{'/a/{{b}}': {{get: {{operationId: {id}}}}}}}"));
        let imported =
            import_checked(&text, &ImportOptions::new("a-namespace-of-thirty-letters")).expect("imported");
        assert_eq!(imported.definition["actions"][0]["name"], name);
    }
    let text = document("paths: {/a: {get: {}}}");
    assert!(super::import_checked(&text, &ImportOptions::new("No Namespace")).is_err());
}

/// 9.4: a policy that allows the shared name would be ambiguous.
#[test]
fn c2_operations_that_would_be_one_tool_are_left_out_unless_one_is_selected() {
    let text = document(
        "paths:
  /a: {get: {operationId: listUsers}, put: {operationId: list_users, deprecated: true}}
  /b: {get: {operationId: list-users}, put: {operationId: other}}
",
    );
    let names = |options: &ImportOptions<'_>| {
        let imported = import_checked(&text, options).expect("imported");
        let actions = imported.definition["actions"].as_array().expect("actions").clone();
        let left_out: Vec<String> = imported.left_out.iter().map(ToString::to_string).collect();
        (actions.iter().map(|action| action["name"].clone()).collect::<Vec<_>>(), left_out.join("; "))
    };
    let (taken, left_out) = names(&ImportOptions::new("t"));
    assert_eq!(taken, ["other"]);
    for label in ["GET /a", "GET /b"] {
        assert!(
            left_out
                .contains(&format!("{label}: it and another operation would both be the tool `list_users`"))
        );
    }
    let select = ["operation:listUsers", "operation:other"].map(|one| one.parse().expect("a selector"));
    let (taken, _) = names(&ImportOptions { select: &select, ..ImportOptions::new("t") });
    assert_eq!(taken, ["listUsers", "other"]);
    // A deprecated operation, which is left out anyway, reserves no tool name.
    let select = ["path:/a".parse().expect("a selector")];
    let (taken, left_out) = names(&ImportOptions { select: &select, ..ImportOptions::new("t") });
    assert_eq!(taken, ["listUsers"], "{left_out}");
}

#[test]
fn c2_the_head_of_the_definition_says_what_the_document_says() {
    let imported =
        with("servers: [{url: 'https://a.example'}]\ntags: []", &ImportOptions::new("t")).expect("imported");
    assert_eq!(imported.definition["version"], "v-1");
    assert_eq!(imported.definition["display_name"], "T");
    assert_eq!(imported.definition["description"], "T");
    assert_eq!(imported.definition["kind"], "http");
    assert_eq!(imported.definition["authentication"], json!({"kind": "none"}));
}
