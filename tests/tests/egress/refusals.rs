//! Refused requests: by rules, by resolved addresses (SSRF), and by limits.

use super::{API, fetch, with_fixture};
use toolgate_tests::json;

#[test]
fn b3_a_request_outside_the_grant_is_refused_before_it_is_sent() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let before = fixture.upstream.connections();
        for (method, url, said) in [
            ("GET", "https://other.upstream.test:8443/", "may not reach `other.upstream.test`"),
            ("GET", "https://api.upstream.test/", "port 443"),
            ("GET", "http://api.upstream.test:8443/", "by http"),
            ("POST", "https://moving.upstream.test:8443/", "may not send POST"),
            ("GET", "https://mixed.upstream.test:8443/closed", "this path"),
            ("GET", "https://mixed.upstream.test:8443/openly", "this path"),
            ("GET", "https://mixed.upstream.test:8443/open/%2e%2e/closed", "segment"),
            ("GET", "https://mixed.upstream.test:8443/open/..;/closed", "segment"),
            ("GET", "https://api.upstream.test.:8443/", "no host name"),
            ("GET", "https://user:secret@api.upstream.test:8443/", "user-info"),
            ("GET", "https://2130706433:8443/", "can be read as an address"),
            ("GET", "https://0x7f.1:8443/", "can be read as an address"),
            ("GET", "https://evil.test/", "may not reach `evil.test`"),
            ("CONNECT", "https://api.upstream.test:8443/", "`CONNECT` is not sent"),
            ("TRACE", "https://api.upstream.test:8443/", "`TRACE` is not sent"),
            ("get", "https://api.upstream.test:8443/", "no method"),
            ("GET", "ftp://api.upstream.test:8443/", "scheme `ftp`"),
        ] {
            let reply = fetch(&session, method, url).expect_error("NETWORK_DENIED");
            assert!(reply.message().contains(said), "{url}: {}", reply.0);
        }
        assert_eq!(fixture.upstream.connections(), before, "a connection was opened");
        let effects = fixture.effects(&session);
        assert_eq!(effects.len(), 17, "{effects:?}");
        assert!(effects.iter().all(|(kind, _)| kind == "network_denied"), "{effects:?}");
        assert!(!format!("{effects:?}").contains("secret"), "{effects:?}");
        // Positive twins.
        fetch(&session, "GET", "https://moving.upstream.test:8443/").output();
        fetch(&session, "GET", "https://mixed.upstream.test:8443/open/").output();
    });
}

/// B5: the hint has the missing grant.
#[test]
fn b5_a_refusal_shows_the_missing_grant() {
    with_fixture(|fixture| {
        let reply = fetch(&fixture.session(), "GET", "https://other.upstream.test:8443/a?b=c")
            .expect_error("NETWORK_DENIED");
        let error = &reply.0["error"];
        let rule = json!({"scheme": "https", "host": "other.upstream.test", "port": 8443, "methods": ["GET"], "path": "/a"});
        assert_eq!(error["details"]["grant"], json!({"network": [rule]}), "{error}");
        assert_eq!(error["details"]["denied_by"], "grant");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains(&error["details"]["grant"].to_string()), "{hint}");
    });
}

#[test]
fn b3_one_private_address_of_a_name_refuses_the_request() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let here = fixture.upstream.address.to_string();
        let url = "https://moving.upstream.test:8443/";
        let before = fixture.upstream.connections();
        for bad in [
            &["127.0.0.1"][..],
            &["169.254.169.254"],
            &["10.0.0.1"],
            &["0.0.0.0"],
            &["::1"],
            &["::ffff:127.0.0.1"],
            &["fd00:ec2::254"],
            &[&here, "127.0.0.1"],
            &["127.0.0.1", &here],
            &[&here, "::1"],
            &["8.8.8.8", "192.168.0.1"],
            &["64:ff9b::7f00:1"],
        ] {
            fixture.upstream.dns.set_answers("moving.upstream.test", &[bad]);
            let reply = fetch(&session, "GET", url).expect_error("NETWORK_DENIED");
            assert!(reply.message().contains("not public"), "{bad:?}: {}", reply.0);
        }
        assert_eq!(fixture.upstream.connections(), before, "a connection was opened");
        fixture.upstream.dns.set_answers("moving.upstream.test", &[&[&here, &here]]);
        fetch(&session, "GET", url).output();
        // The grant for a private address that no rule names has both parts that it lacks.
        let reply = fetch(&session, "GET", "http://127.0.0.9:81/").expect_error("NETWORK_DENIED");
        let lacking = &reply.0["error"]["details"]["grant"];
        assert_eq!(
            (&lacking["private_networks"], &lacking["plain_http"]),
            (&json!(["127.0.0.9/32"]), &json!(["127.0.0.9:81"]))
        );
        // A literal address is checked by the same rules.
        let reply = fetch(&session, "GET", "https://127.0.0.1:8443/").expect_error("NETWORK_DENIED");
        assert_eq!(
            reply.0["error"]["details"]["grant"],
            json!({"private_networks": ["127.0.0.1/32"]}),
            "{}",
            reply.0
        );
    });
}

/// DNS rebinding: each connection checks the newly resolved addresses.
#[test]
fn b3_a_rebound_name_is_checked_again() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let here = fixture.upstream.address.to_string();
        let url = "https://moving.upstream.test:8443/";
        let fetch_from = |address: &str| {
            fixture.upstream.dns.set_answers("moving.upstream.test", &[&[address]]);
            fetch(&session, "GET", url)
        };
        fetch_from(&here).output();
        fetch_from("127.0.0.1").expect_error("NETWORK_DENIED");
        fetch_from("169.254.169.254").expect_error("NETWORK_DENIED");
        fetch_from(&here).output();
    });
}

#[test]
fn k4_plain_http_is_sent_only_to_hosts_that_allow_it() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fetch(&session, "GET", "http://plain.upstream.test:8080/").output();
        fetch(&session, "GET", "http://plain.upstream.test/").expect_error("NETWORK_DENIED");
        fetch(&session, "GET", "http://api.upstream.test:8080/").expect_error("NETWORK_DENIED");
    });
}

#[test]
fn b3_a_redirect_is_returned_and_not_followed() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| {
            super::upstream::answer(
                302,
                &[("Location", "https://other.upstream.test:8443/"), ("Connection", "close")],
                b"",
            )
        });
        let before = fixture.upstream.requests().len();
        let reply = fetch(&fixture.session(), "GET", &format!("{API}/"));
        let output = reply.output().as_str().unwrap_or_default();
        assert!(
            output.starts_with("302\n") && output.contains("location: https://other.upstream.test:8443/"),
            "{output}"
        );
        assert_eq!(fixture.upstream.requests().len(), before + 1);
    });
}

#[test]
fn b2_requests_and_bytes_of_a_call_are_limited() {
    with_fixture(|fixture| {
        let none = fixture.session_with(&json!({"limits": {"requests": 0}}));
        let reply = fetch(&none, "GET", &format!("{API}/")).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("requests"));
        let few = fixture.session_with(&json!({"limits": {"egress_bytes": 2_000}}));
        fetch(&few, "GET", &format!("{API}/")).output();
        let body =
            json!({"method": "POST", "url": format!("{API}/"), "headers": [], "body": "x".repeat(4_000)});
        let reply = few.call("caller/fetch", body).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("egress_bytes"));
    });
}

#[test]
fn b5_an_agents_document_restricts_the_hosts_of_its_tools() {
    with_fixture(|fixture| {
        let network = json!({"network": [{"host": "api.upstream.test", "port": 8443, "path": "/mine"}, {"host": "evil.test"}]});
        let session = fixture.session_with(&network);
        fetch(&session, "GET", &format!("{API}/mine/7")).output();
        let reply = fetch(&session, "GET", &format!("{API}/yours")).expect_error("NETWORK_DENIED");
        assert_eq!(reply.0["error"]["details"]["denied_by"], "agent", "{}", reply.0);
        fetch(&session, "GET", "https://evil.test/").expect_error("NETWORK_DENIED");
        let nothing = fixture.session_with(&json!({"network": []}));
        fetch(&nothing, "GET", &format!("{API}/mine")).expect_error("NETWORK_DENIED");
    });
}
