//! Connections that fail: pooled connections closed by the server, and missing responses.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::upstream::{Piece, answer};
use super::{API, Fixture, fetch, with_fixture};
use toolgate_tests::{CallReply, Session, json};

/// Opens a session with a pooled connection. The upstream answers the next request with these pieces, and all others
/// with 200.
fn session_with_pooled_connection(fixture: &mut Fixture, next: Vec<Piece>) -> Session {
    fixture.agents += 1;
    let agent = format!("dropped{}/a", fixture.agents);
    let operator = fixture.daemon.operator();
    operator.make_agent(&agent, &json!({"enabled": ["*"]}));
    let session = operator.open_session(&agent);
    let count = AtomicUsize::new(0);
    fixture.upstream.answer(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        1 => next.clone(),
        _ => answer(200, &[], b""),
    });
    fetch(&session, "GET", &format!("{API}/first")).output();
    session
}

/// Sends a request, and returns its reply, the number of arrived requests, and the number of new connections.
fn send_and_count(fixture: &Fixture, request: impl FnOnce() -> CallReply) -> (CallReply, usize, usize) {
    let before = (fixture.upstream.requests().len(), fixture.upstream.connections());
    let reply = request();
    (reply, fixture.upstream.requests().len() - before.0, fixture.upstream.connections() - before.1)
}

#[test]
fn b3_an_idempotent_request_is_retried_after_its_pooled_connection_closed() {
    with_fixture(|fixture| {
        for method in ["GET", "HEAD", "OPTIONS"] {
            for end in [Piece::Cut, Piece::End] {
                let session = session_with_pooled_connection(fixture, vec![end.clone()]);
                if matches!(end, Piece::End) {
                    fixture.upstream.end_one();
                }
                let url = format!("{API}/second");
                let (reply, requests, connections) =
                    send_and_count(fixture, || fetch(&session, method, &url));
                reply.output();
                assert_eq!((requests, connections), (2, 1), "{method} {end:?}");
                let all = fixture.upstream.requests();
                assert_eq!(all[all.len() - 1], all[all.len() - 2]);
            }
        }
    });
}

#[test]
fn b3_a_request_with_side_effects_is_sent_once() {
    with_fixture(|fixture| {
        for (method, body) in
            [("POST", None), ("POST", Some("four")), ("PUT", None), ("DELETE", None), ("GET", Some("four"))]
        {
            let session = session_with_pooled_connection(fixture, vec![Piece::Cut]);
            let url = format!("{API}/second");
            let arguments = json!({"method": method, "url": url, "headers": [], "body": body});
            let (reply, requests, connections) =
                send_and_count(fixture, || session.call("caller/fetch", arguments));
            assert_eq!((requests, connections), (1, 0), "{method} {body:?}: {}", reply.0);
            let reply = reply.expect_error("API_UNAVAILABLE");
            assert!(reply.message().ends_with("it closed the connection without an answer"), "{}", reply.0);
        }
    });
}

#[test]
fn b3_a_request_with_a_partial_or_late_response_is_sent_once() {
    with_fixture(|fixture| {
        let bytes = |text: &str| Piece::Bytes(text.as_bytes().to_vec());
        for (next, first_byte_ms, why) in [
            (vec![bytes("HTTP/1.1 2"), Piece::Cut], None, "its answer is broken"),
            (vec![bytes("HTTP/1.1 103 Early Hints\r\n\r\n"), Piece::Cut], None, "its answer is broken"),
            (vec![bytes("canary\r\n\r\n"), Piece::Cut], None, "its answer is not HTTP"),
            (vec![Piece::Hang], Some(300), "it did not answer in time"),
        ] {
            let session = session_with_pooled_connection(fixture, next);
            let url = format!("{API}/second");
            let arguments =
                json!({"method": "GET", "url": url, "headers": [], "first_byte_ms": first_byte_ms});
            let before = fixture.upstream.requests().len();
            let (reply, requests, connections) = send_and_count(fixture, || {
                let reply = session.call("caller/fetch", arguments);
                // The timeout may have come before the server read the request.
                fixture.upstream.wait_until("the request", |seen, _| seen > before);
                reply
            });
            assert_eq!((requests, connections), (1, 0), "{why}: {}", reply.0);
            let reply = reply.expect_error("API_UNAVAILABLE");
            assert!(reply.message().ends_with(why) && !reply.0.to_string().contains("canary"), "{}", reply.0);
        }
    });
}

#[test]
fn b3_a_request_on_a_new_connection_is_not_retried() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.upstream.answer(|_| vec![Piece::Cut]);
        let url = format!("{API}/only");
        let (reply, requests, connections) = send_and_count(fixture, || fetch(&session, "GET", &url));
        assert_eq!((requests, connections), (1, 1), "{}", reply.0);
        let reply = reply.expect_error("API_UNAVAILABLE");
        assert!(reply.message().ends_with("it closed the connection without an answer"), "{}", reply.0);
        // The request was sent and is recorded.
        let effects = fixture.effects(&session);
        assert!(!effects[0].1.contains(", 0 bytes out"), "{effects:?}");
    });
}
