//! The built-in plugin `http` over HTTP: it declares every host, and reaches only those that the operator grants.

use super::{API, Fixture, upstream, with_fixture};
use toolgate_tests::{Value, json};

const PATH: &str = "/v1/plugins/http/grant";

fn grant_page_hosts(fixture: &Fixture) {
    let grant = json!({"network": [{"host": "api.upstream.test", "port": 8443}]});
    fixture.daemon.operator().replace(PATH, &fixture.upstream.grant(grant)).expect(200);
}

/// One test, because the daemon has one `http` plugin and the test changes its grant.
#[test]
fn t7_pages_are_read_only_from_granted_hosts() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let fetch = |url: &str| session.call("http/fetch", json!({"url": url}));

        // A built-in plugin has no network without a grant either.
        let before = fixture.upstream.connections();
        fetch(API).expect_error("NETWORK_DENIED");
        let open = |more: Value| {
            let mut grant = json!({"network": [{"host": "*", "port": 8443}]});
            grant.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            grant
        };
        for more in [
            json!({"credentials": ["stripe"]}),
            json!({"user_credentials": true}),
            json!({"private_networks": ["127.0.0.0/8"]}),
        ] {
            fixture.daemon.operator().make(PATH, &open(more)).expect_refusal(422, "INVALID_POLICY");
        }
        // Every public host: the upstream's address is private.
        let granted = fixture.daemon.operator().make(PATH, &open(json!({}))).expect(201).json();
        let warnings = granted["warnings"].as_array().cloned().unwrap_or_default();
        assert!(warnings.iter().any(|warning| warning["code"] == "EVERY_HOST"), "{granted}");
        let private = fetch(API).expect_error("NETWORK_DENIED");
        assert!(private.message().contains("is not public"), "{}", private.message());
        let other_port = fetch("https://api.upstream.test/").expect_error("NETWORK_DENIED");
        assert!(other_port.message().contains("port 443"), "{}", other_port.message());
        assert_eq!(fixture.upstream.connections(), before);

        grant_page_hosts(fixture);
        fixture.upstream.answer(|request| match request.split(' ').nth(1) {
            Some("/old") => upstream::answer(301, &[("Location", "/new")], b""),
            Some("/away") => upstream::answer(302, &[("Location", "https://other.upstream.test:8443/")], b""),
            _ => upstream::ok("text/html", "<h1>News</h1><p>A <b>bold</b> word"),
        });
        let page = fetch(&format!("{API}/old"));
        let page = page.output();
        assert_eq!(page["text"], "# News\n\nA **bold** word");
        assert_eq!(page["redirects"], json!([{"status": 301, "url": format!("{API}/old")}]));
        assert_eq!(page["url"], format!("{API}/new"));

        // A redirect to another host is refused.
        let before = fixture.upstream.requests().len();
        let denied = fetch(&format!("{API}/away")).expect_error("NETWORK_DENIED");
        let way = format!("to which `GET {API}/away` led with status 302");
        assert!(denied.message().contains(&way), "{}", denied.message());
        let direct = fetch("https://other.upstream.test:8443/").expect_error("NETWORK_DENIED");
        assert!(!direct.message().contains("to which"), "{}", direct.message());
        assert_eq!(fixture.upstream.requests().len(), before + 1);
    });
}
