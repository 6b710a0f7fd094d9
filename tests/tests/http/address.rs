//! Host, origin and path of a request, in every spelling that a parser may read differently.

use super::*;

/// Host names that resemble the daemon's, and names that some parsers confuse with them.
const FOREIGN_HOSTS: &[&str] = &[
    "localhost.",
    "127.0.0.1.",
    "localhost:99999",
    "localhost:x",
    "localhost:80:80",
    "localhost:+80",
    "localhost:x@evil.example",
    "localhost:80@evil.example",
    "localhost@evil.example",
    "evil.example@localhost",
    "[::1]evil.example",
    "[::1]:x@evil.example",
    "[::1",
    "::1",
    "evil[::1]",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0.0.0.0",
    "localhost%2eevil.example",
    "localhost,evil.example",
    "localhost/evil.example",
    "localhost#",
    "local\u{2024}host",
];

#[test]
fn a_request_for_another_host_is_refused() {
    with_fixture(|fixture| {
        let (anonymous, operator) = (fixture.daemon.anonymous(), fixture.daemon.operator());
        for path in ["/healthz", "/openapi.json", "/v1/plugins", "/nosuch"] {
            for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "", "10.0.0.1:7300"] {
                operator.send("GET", path, &[("Host", host)], b"").expect_refusal(403, "FORBIDDEN");
            }
        }
        for host in FOREIGN_HOSTS {
            let reply = operator.send("GET", "/healthz", &[("Host", host)], b"");
            assert!(matches!(reply.status, 400 | 403), "{host}: {}", reply.text());
            let origin = format!("http://{host}");
            let reply = operator.send("GET", "/healthz", &[("Origin", &origin)], b"");
            assert!(matches!(reply.status, 400 | 403), "{origin}: {}", reply.text());
        }
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:7300"] {
            anonymous.send("GET", "/healthz", &[("Host", host)], b"").expect(200);
        }
        let absolute =
            "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        anonymous.raw(absolute.as_bytes()).reply().expect_refusal(403, "FORBIDDEN");
        let twice =
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        anonymous.raw(twice.as_bytes()).reply().expect_refusal(400, "INVALID_REQUEST");
        let none = "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n";
        let reply = anonymous.raw(none.as_bytes()).reply().expect_refusal(400, "INVALID_REQUEST");
        assert!(reply.json()["hint"].to_string().contains("`Host`"), "{}", reply.text());
        let other = anonymous.send("GET", "/healthz", &[("Host", "evil.example")], b"");
        assert!(other.json()["hint"].to_string().contains("`allowed_hosts`"), "{}", other.text());
        assert!(anonymous.get("/nosuch").json()["hint"].to_string().contains("/openapi.json"));
    });
}

#[test]
fn a_request_of_another_origin_is_refused() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        for origin in ["http://evil.example", "null", "https://localhost.evil.example", "evil", "file://"] {
            operator.send("GET", "/v1/plugins", &[("Origin", origin)], b"").expect_refusal(403, "FORBIDDEN");
            operator.send("GET", "/healthz", &[("Origin", origin)], b"").expect_refusal(403, "FORBIDDEN");
        }
        operator
            .send("GET", "/v1/plugins", &[("Origin", &format!("http://{}", operator.address))], b"")
            .expect(200);
    });
}

#[test]
fn the_host_of_an_absolute_target_is_checked() {
    with_fixture(|fixture| {
        fixture.assert_no_trace(|fixture| {
            let anonymous = fixture.daemon.anonymous();
            let get = |target: &str, host: &str| {
                let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
                anonymous.raw(text.as_bytes()).reply()
            };
            assert_eq!(get("http://localhost/healthz", "localhost").status, 200);
            assert_eq!(get("http://LOCALHOST:7300/healthz", "localhost:7300").status, 200);
            for target in [
                "http://evil.example/healthz",
                "http://localhost:x@evil.example/healthz",
                "http://localhost@evil.example/healthz",
                "http://evil.example@localhost/healthz",
                "http://localhost:80@evil.example:80/healthz",
                "http://localhost./healthz",
                "http://[::1]evil.example/healthz",
                "//evil.example/healthz",
                "evil.example/healthz",
                "http:/healthz",
                "http://",
                "file:///etc/passwd",
            ] {
                let reply = get(target, "localhost");
                assert!((400..500).contains(&reply.status), "{target}: {}", reply.text());
            }
            // The host of the target and the `Host` field must both be allowed.
            get("http://localhost/healthz", "evil.example").expect_refusal(403, "FORBIDDEN");
            let twice = "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
            anonymous.raw(twice.as_bytes()).reply().expect_refusal(400, "INVALID_REQUEST");
            for (method, target) in [
                ("CONNECT", "localhost:80"),
                ("CONNECT", "evil.example:80"),
                ("OPTIONS", "*"),
                ("TRACE", "/healthz"),
                ("PROPFIND", "/healthz"),
                ("get", "/healthz"),
                ("GET", "*"),
            ] {
                let text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Canary: canary\r\nConnection: close\r\n\r\n");
                let reply = anonymous.raw(text.as_bytes()).reply();
                assert!((400..500).contains(&reply.status), "{method} {target}: {}", reply.text());
                assert!(!reply.text().contains("canary"), "{}", reply.text());
            }
        });
    });
}

/// No spelling of a path bypasses authentication, role or organization.
#[test]
fn a_path_has_one_spelling() {
    with_fixture(|fixture| {
        let owner = fixture.client_with_role("owner", "acme");
        let (anonymous, operator) = (fixture.daemon.anonymous(), fixture.daemon.operator());
        fixture.assert_no_trace(|_| {
            for path in [
                "//v1/plugins",
                "/v1//plugins",
                "/v1/plugins/",
                "/./v1/plugins",
                "/v1/./plugins",
                "/healthz/../v1/plugins",
                "/healthz/%2e%2e/v1/plugins",
                "/healthz%2f..%2fv1/plugins",
                "/v1/x/../plugins",
                "/v1/x/%2E%2E/plugins",
                "/v1\\plugins",
                "/v1%5cplugins",
                "/v1%2fplugins",
                "/V1/plugins",
                "/v1/plugins;x=y",
                "/v1/plugins%00",
                "/v1/plugins%20",
                "/v1/plugins%",
                "/v1/plugins%zz",
                "/v1/plugins%c0%ae",
                "/v1/plugins.json",
                "/%76%31/plugins",
            ] {
                let reply = operator.get(path);
                assert!(matches!(reply.status, 400 | 404), "{path}: {}", reply.text());
                assert!(matches!(anonymous.get(path).status, 400 | 401 | 404), "{path}");
            }
            operator.get("/v1/plugins").expect(200);
            for path in [
                "/v1/orgs/acme/../rival/agents",
                "/v1/orgs/acme/%2e%2e/rival/agents",
                "/v1/orgs/acme%2f..%2frival/agents",
                "/v1/orgs/acme/agents/..%2f..%2frival%2fagents",
                "/v1/orgs/acme/agents/../../rival/agents/bot",
                "/v1/orgs/rival%2fagents",
                "/v1/orgs/RIVAL/agents",
                "/v1/orgs/rival%20/agents",
                "/v1/orgs/%72ival/agents",
                "/v1/orgs/riv%61l/agents/bot",
                "/v1/orgs/rival%00/agents",
                "/v1/orgs/acme%00rival/agents",
                "/v1/orgs/\u{ff41}cme/agents",
                "/v1/orgs/%ef%bd%81cme/agents",
                "/v1/orgs/acme,rival/agents",
                "/v1/orgs//agents",
                "/v1/orgs/acme/agents?organization=rival&x=1",
            ] {
                let reply = owner.get(path);
                assert!(matches!(reply.status, 400 | 403 | 404), "{path}: {} {}", reply.status, reply.text());
            }
            // A needless percent-escape names the same path.
            assert_eq!(
                owner.get("/v1/orgs/%61cme/agents").expect(200).json(),
                owner.get("/v1/orgs/acme/agents").expect(200).json()
            );
        });
    });
}
