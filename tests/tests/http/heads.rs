//! Request heads that cannot be parsed: refused like other bad requests, without damage to earlier responses.

use super::*;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

const GOOD: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const MALFORMED: &str = "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n";

/// Default of `http.header_bytes`.
const HEADER_BYTES: usize = 32 << 10;
/// Documented limit.
const HEADER_FIELDS: usize = 100;

/// Request head with this many fields.
fn with_fields(count: usize) -> String {
    let fields: String = (2..count).map(|at| format!("X-{at}: x\r\n")).collect();
    format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n")
}

#[test]
fn an_unreadable_head_is_refused_with_its_reason() {
    with_fixture(|fixture| {
        fixture.assert_no_trace(|fixture| {
            let anonymous = fixture.daemon.anonymous();
            for (head, why) in [
                (MALFORMED, "header"),
                ("GET /hea lthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "version"),
                ("GET /healthz\r\n\r\n", "URI"),
                ("GET /\u{1} HTTP/1.1\r\nHost: localhost\r\n\r\n", "URI"),
                ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP2"),
                ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", "content-length"),
                ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n", "method"),
            ] {
                let reply = anonymous.raw(head.as_bytes()).reply().expect_refusal(400, "INVALID_REQUEST");
                assert_eq!(reply.header("connection"), Some("close"), "{head:?}");
                assert!(reply.header("date").is_some(), "{head:?}");
                assert!(reply.text().contains(why), "{head:?}: {}", reply.text());
            }
        });
    });
}

/// A response with any content is complete before the refusal of the next request follows.
#[test]
fn a_response_before_an_unreadable_head_is_complete() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        // The file starts like an error response of the HTTP library, and exceeds a socket buffer.
        let file =
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".repeat(50_000);
        session.put_file("file", file.as_bytes()).expect(204);
        let token = operator.token.as_deref().unwrap_or_default();
        let request = |method: &str| {
            let path = session.path("/files/file");
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n")
        };
        for (method, body) in [("GET", file.as_str()), ("HEAD", "")] {
            let sent = format!("{}{GOOD}{MALFORMED}{GOOD}", request(method));
            let answers = operator.raw(sent.as_bytes()).all().expect("answers");
            let answers = String::from_utf8_lossy(&answers);
            let (head, rest) = answers.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let rest = rest.strip_prefix(body).expect("the whole file");
            let (second, refusal) = rest.split_once("HTTP/1.1 400 ").expect("a refusal");
            assert!(second.starts_with("HTTP/1.1 200 ") && second.ends_with('}'), "{second}");
            assert!(refusal.contains("INVALID_REQUEST") && refusal.ends_with('}'), "{refusal}");
        }
    });
}

#[test]
fn the_number_of_header_fields_is_limited() {
    with_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        let with = |count: usize| anonymous.raw(with_fields(count).as_bytes()).reply();
        with(HEADER_FIELDS).expect(200);
        for count in [HEADER_FIELDS + 1, 100_000] {
            let reply = with(count).expect_refusal(431, "TOO_LARGE");
            assert!(reply.text().contains("100 header fields"), "{}", reply.text());
        }
        let document = anonymous.get("/openapi.json").expect(200).json();
        let said = document["paths"]["/v1/sessions"]["post"]["responses"]["431"]["description"].to_string();
        assert!(said.contains("100 header fields"), "{said}");
    });
}

/// The limit does not depend on the size of the TCP segments or on the place of the long part.
#[test]
fn the_size_of_a_head_is_limited_to_the_byte() {
    with_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        let padded = |before: &str, after: &str, bytes: usize| {
            format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()))
        };
        let field = |bytes| {
            padded("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ", "\r\n\r\n", bytes)
        };
        let address =
            |bytes| padded("GET /", " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", bytes);
        let in_pieces = |head: &str, piece: usize| {
            let mut pending = anonymous.raw(b"");
            let sent = head.as_bytes().chunks(piece).try_for_each(|piece| pending.write(piece));
            sent.expect("the daemon takes it");
            pending.reply()
        };
        for piece in [usize::MAX, 20_000, HEADER_BYTES] {
            in_pieces(&field(HEADER_BYTES), piece).expect(200);
            in_pieces(&address(HEADER_BYTES), piece).expect_refusal(404, "NOT_FOUND");
            for head in [field(HEADER_BYTES + 1), address(HEADER_BYTES + 1), field(60_000)] {
                let reply = in_pieces(&head, piece).expect_refusal(431, "TOO_LARGE");
                assert!(reply.text().contains("http.header_bytes"), "{}", reply.text());
            }
        }
    });
}

#[test]
fn a_late_head_is_refused_and_an_idle_connection_closed() {
    with_impatient_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        for head in ["G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "] {
            let reply = anonymous.raw(head.as_bytes()).reply().expect_refusal(408, "DEADLINE_EXCEEDED");
            assert_eq!(reply.json()["details"]["header_timeout_ms"], SHORT_MS, "{}", reply.text());
        }
        assert_eq!(anonymous.raw(b"").all().expect("an end"), b"");
        // An idle connection after a response is closed without a 408, also after an extra empty line.
        for request in [GOOD.to_owned(), format!("{GOOD}\r\n")] {
            let answers = anonymous.raw(request.as_bytes()).all().expect("an end");
            assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count(), 1);
        }
    });
}

#[test]
fn a_head_that_ends_early_is_refused() {
    with_fixture(|fixture| {
        let send_and_half_close = |bytes: &str| {
            let mut stream = TcpStream::connect(fixture.daemon.anonymous().address).expect("a connection");
            stream.write_all(bytes.as_bytes()).expect("taken");
            stream.shutdown(Shutdown::Write).expect("half a connection");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an end");
            answer
        };
        let answer = send_and_half_close("GET /healthz HTTP/1.1\r\nHost: loc");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("ended early"), "{answer}");
        assert_eq!(send_and_half_close(""), "");
    });
}
