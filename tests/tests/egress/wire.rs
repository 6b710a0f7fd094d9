//! Requests on the wire: the host controls framing, `Host` and connection headers.

use super::{API, fetch, with_fixture};
use toolgate_tests::{Session, json};

fn post(
    session: &Session,
    headers: &[&str],
    body: Option<&str>,
    trailer: Option<&str>,
) -> toolgate_tests::CallReply {
    let url = format!("{API}/in");
    session.call(
        "caller/fetch",
        json!({"method": "POST", "url": url, "headers": headers, "body": body, "trailer": trailer}),
    )
}

/// Value of a header that occurs exactly once.
fn single_value<'a>(request: &'a str, name: &str) -> &'a str {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let of_name = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
    let lines: Vec<&str> = head.lines().filter(of_name).collect();
    assert_eq!(lines.len(), 1, "`{name}` in {head}");
    &lines[0][name.len() + 2..]
}

#[test]
fn b3_a_guest_cannot_set_the_hosts_headers() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let headers = [
            "accept-encoding: br",
            "te: trailers",
            "trailer: x-late",
            "expect: 100-continue",
            "x-mine: kept",
            "range-x: 1",
        ];
        post(&session, &headers, Some("four"), Some("x-late: smuggled")).output();
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(single_value(&request, "host"), "api.upstream.test:8443");
        assert_eq!(single_value(&request, "accept-encoding"), "gzip, deflate");
        assert_eq!(single_value(&request, "transfer-encoding"), "chunked");
        assert_eq!(single_value(&request, "x-mine"), "kept");
        assert_eq!(single_value(&request, "user-agent"), "toolgate");
        for absent in ["te:", "trailer:", "expect:", "content-length:", "connection:", "x-late", "smuggled"] {
            assert!(!request.to_ascii_lowercase().contains(&format!("\n{absent}")), "{absent} in {request}");
        }
        assert!(request.ends_with("\r\n0\r\n\r\n"), "{request}");
        // The guest cannot set these fields at all.
        for header in [
            "host: evil.test",
            "connection: upgrade",
            "transfer-encoding: chunked",
            "upgrade: websocket",
            "proxy-authorization: x",
        ] {
            let reply = post(&session, &[header], None, None);
            assert!(reply.error_type().is_some(), "{header}: {}", reply.0);
        }
    });
}

#[test]
fn b3_the_content_length_matches_the_body() {
    with_fixture(|fixture| {
        let session = fixture.session();
        post(&session, &["content-length: 4"], Some("four"), None).output();
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(single_value(&request, "content-length"), "4");
        assert!(
            request.ends_with("\r\n\r\nfour") && !request.to_ascii_lowercase().contains("transfer-encoding"),
            "{request}"
        );
        let before = fixture.upstream.requests().len();
        for (length, body) in
            [("3", "four"), ("5", "four"), ("+4", "four"), ("4, 4", "four"), ("0x4", "four"), ("4", "")]
        {
            let reply = post(&session, &[&format!("content-length: {length}")], Some(body), None);
            assert!(reply.error_type().is_some(), "{length}: {}", reply.0);
        }
        assert_eq!(fixture.upstream.requests().len(), before, "a complete request arrived");
        post(&session, &["content-length: 4", "content-length: 5"], Some("four"), None)
            .expect_error("TOOL_FAILED");
    });
}

/// Methods with usual content send `Content-Length: 0` (RFC 9110, 8.6), even if the guest does not.
#[test]
fn b3_a_request_without_a_body_has_a_content_length_where_usual() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let request = |method: &str, headers: &[&str], body: Option<&str>| {
            let url = format!("{API}/in");
            let arguments = json!({"method": method, "url": url, "headers": headers, "body": body});
            session.call("caller/fetch", arguments).output();
            fixture.upstream.requests().pop().expect("a request")
        };
        for method in ["POST", "PUT", "PATCH"] {
            for headers in [&[][..], &["content-length: 0"]] {
                let request = request(method, headers, None);
                assert_eq!(single_value(&request, "content-length"), "0", "{request}");
                assert!(!request.to_ascii_lowercase().contains("transfer-encoding"), "{request}");
            }
            assert_eq!(single_value(&request(method, &[], Some("four")), "transfer-encoding"), "chunked");
        }
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            let request = request(method, &[], None);
            assert!(!request.to_ascii_lowercase().contains("content-length"), "{request}");
        }
    });
}

#[test]
fn b3_header_injection_is_refused() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let before = fixture.upstream.requests().len();
        for header in ["x-a: b\r\nx-evil: 1", "x-a: b\nx-evil: 1", "x-a\r\nx-evil: 1", "x a: b", "x-a: b\0c"]
        {
            let reply = post(&session, &[header], None, None);
            assert!(reply.error_type().is_some(), "{header:?}: {}", reply.0);
        }
        for path in ["/a HTTP/1.1\r\nX-Evil: 1", "/a\r\n\r\nGET /b", "/a%0d%0aX-Evil: 1", "/a\tb", "/a b"] {
            let reply = fetch(&session, "GET", &format!("{API}{path}"));
            assert!(reply.error_type().is_some(), "{path:?}: {}", reply.0);
        }
        assert_eq!(fixture.upstream.requests().len(), before);
        post(&session, &["x-a: b c"], None, None).output();
    });
}
