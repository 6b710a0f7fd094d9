//! The built-in plugin `http`, through the daemon: it asks for every host, and reads those that its operator names.

use super::{API, Fixture, upstream, with_fixture};
use toolgate_tests::json;

const PATH: &str = "/v1/plugins/http/grant";

fn grant_page_hosts(fixture: &Fixture) {
    let grant = json!({
        "network": [{"host": "api.upstream.test", "port": 8443}],
        "private_networks": [format!("{}/32", fixture.upstream.address)],
        "extra_ca": [fixture.upstream.authority],
    });
    fixture.daemon.operator().make(PATH, &grant).expect(201);
}

/// One test, since there is one plugin `http` in a daemon and its grant is what changes.
#[test]
fn t7_pages_are_read_from_hosts_that_are_granted_and_from_no_other() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let fetch = |url: &str| session.call("http/fetch", json!({"url": url}));

        // Built in, and still nobody granted it a host.
        let before = fixture.upstream.connections();
        fetch(API).expect_error("NETWORK_DENIED");
        let everything = json!({"network": [{"host": "*"}]});
        fixture.daemon.operator().make(PATH, &everything).expect_refusal(422, "INVALID_POLICY");
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

        // A page that was granted does not lead to one that was not.
        let before = fixture.upstream.requests().len();
        fetch(&format!("{API}/away")).expect_error("NETWORK_DENIED");
        assert_eq!(fixture.upstream.requests().len(), before + 1);
    });
}
