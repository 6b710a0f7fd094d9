//! What is on the wire: framing, host and connection are said by the host alone.

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

/// The value of a header that stands there exactly once.
fn only<'a>(request: &'a str, name: &str) -> &'a str {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let of_name = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
    let lines: Vec<&str> = head.lines().filter(of_name).collect();
    assert_eq!(lines.len(), 1, "`{name}` in {head}");
    &lines[0][name.len() + 2..]
}

#[test]
fn b3_a_guest_cannot_say_what_is_ours_to_say() {
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
        assert_eq!(only(&request, "host"), "api.upstream.test:8443");
        assert_eq!(only(&request, "accept-encoding"), "gzip, deflate");
        assert_eq!(only(&request, "transfer-encoding"), "chunked");
        assert_eq!(only(&request, "x-mine"), "kept");
        assert_eq!(only(&request, "user-agent"), "toolgate");
        for absent in ["te:", "trailer:", "expect:", "content-length:", "connection:", "x-late", "smuggled"] {
            assert!(!request.to_ascii_lowercase().contains(&format!("\n{absent}")), "{absent} in {request}");
        }
        assert!(request.ends_with("\r\n0\r\n\r\n"), "{request}");
        // What no guest may even write down.
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
fn b3_a_length_is_that_of_the_content() {
    with_fixture(|fixture| {
        let session = fixture.session();
        post(&session, &["content-length: 4"], Some("four"), None).output();
        let request = fixture.upstream.requests().pop().expect("a request");
        assert_eq!(only(&request, "content-length"), "4");
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
        assert_eq!(fixture.upstream.requests().len(), before, "a request was taken whole");
        post(&session, &["content-length: 4", "content-length: 5"], Some("four"), None)
            .expect_error("TOOL_FAILED");
    });
}

/// Servers that want a length get one where content is usual (RFC 9110, 8.6), and no guest decides about it.
#[test]
fn b3_a_request_without_content_says_so_where_content_is_usual() {
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
                assert_eq!(only(&request, "content-length"), "0", "{request}");
                assert!(!request.to_ascii_lowercase().contains("transfer-encoding"), "{request}");
            }
            assert_eq!(only(&request(method, &[], Some("four")), "transfer-encoding"), "chunked");
        }
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            let request = request(method, &[], None);
            assert!(!request.to_ascii_lowercase().contains("content-length"), "{request}");
        }
    });
}

#[test]
fn b3_no_line_can_be_put_into_a_request() {
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
