//! Raw requests: slow, large or numerous, ambiguous framing, other protocol versions.

use super::*;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use toolgate_tests::wait;

/// Status codes of the responses, in order.
fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices("HTTP/1.").filter_map(|(at, _)| text[at..].split(' ').nth(1)?.parse().ok()).collect()
}

/// Head of a valid call request, without framing headers.
fn head_of_call(client: &Client, path: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n",
        client.token.as_deref().unwrap_or_default()
    )
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        let large = vec![b' '; 3 << 20];
        let headers = [("Content-Type", "application/json")];
        operator.send("POST", &session.path("/calls"), &headers, &large).expect_refusal(413, "TOO_LARGE");
        operator.upload("huge", &vec![0; 5 << 20]).expect_refusal(413, "TOO_LARGE");
        // A chunked body meets the same limit.
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            session.path("/calls"),
            operator.address,
            operator.token.as_deref().unwrap_or_default()
        );
        let mut pending = operator.raw(head.as_bytes());
        let piece = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
        for _ in 0..40 {
            if pending.write(&piece).is_err() {
                break;
            }
        }
        pending.reply().expect_refusal(413, "TOO_LARGE");
        // A body within the limit is accepted.
        let mut fits = br#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#.to_vec();
        fits.resize(1 << 20, b' ');
        operator.send("POST", &session.path("/calls"), &headers, &fits).expect(200);
    });
}

/// A `Content-Length` over the limit is refused before the body arrives. A client that sends the body anyway still
/// receives the response: closing the socket with unread bytes would reset the connection.
#[test]
fn a_content_length_over_the_limit_is_refused_before_the_body() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let head = |bytes: usize| {
            format!("{}Content-Length: {bytes}\r\n\r\n", head_of_call(&operator, "/v1/plugins/huge"))
        };
        let request =
            head(1_000_000_000).replace("POST", "PUT").replace("application/json", "application/wasm");
        operator.raw(request.as_bytes()).reply().expect_refusal(413, "TOO_LARGE");
        let large = vec![0; 32 << 20];
        let mut whole = request.replace("1000000000", &large.len().to_string()).into_bytes();
        whole.extend_from_slice(&large);
        for _ in 0..5 {
            let mut stream = TcpStream::connect(operator.address).expect("a connection");
            stream.write_all(&whole).expect("the daemon reads all of it");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        }
    });
}

#[test]
fn a_late_body_is_refused() {
    with_impatient_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
            session.path("/calls"),
            operator.token.as_deref().unwrap_or_default()
        );
        let reply = anonymous.raw(head.as_bytes()).reply();
        assert_eq!(reply.error_type(), "DEADLINE_EXCEEDED", "{}", reply.text());
    });
}

/// Bodies that do not end hold memory, and only the organization that sends them is refused more.
#[test]
fn the_memory_for_bodies_is_bounded_by_organization() {
    with_impatient_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let part = vec![b' '; (2 << 20) - 1024];
        let stall = |client: &Client, path: &str| {
            let mut pending = client
                .raw(format!("{}Content-Length: 2097152\r\n\r\n", head_of_call(client, path)).as_bytes());
            let _ = pending.write(&part);
            pending
        };
        let path = |agent: &str| operator.open_session(agent).path("/calls");
        let (acme, rival) = (path("acme/bot"), path("rival/bot"));
        let client = fixture.client_with_role("orchestrator", "acme");
        let other = fixture.client_with_role("orchestrator", "rival");
        let mut call = br#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#.to_vec();
        let small = call.clone();
        call.resize(1 << 20, b' ');
        let headers = [("Content-Type", "application/json")];
        // Stalled requests time out.
        let (refused, others) = wait::until("a refusal", || {
            let _stalled = [stall(&client, &acme), stall(&client, &acme)];
            let refused = client.send("POST", &acme, &headers, &call);
            let others = other.send("POST", &rival, &headers, &call);
            (refused.status == 429).then_some((refused, others))
        });
        refused.expect_refusal(429, "QUOTA_EXCEEDED");
        others.expect(200);
        client.send("POST", &acme, &headers, &small).expect(200);
        wait::until_true("the memory to be given back", || {
            client.send("POST", &acme, &headers, &call).status == 200
        });
    });
}

#[test]
fn idle_connections_are_closed_for_new_ones() {
    with_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        // All connections and twenty more, without a request.
        let idle: Vec<_> = (0..84).map(|_| anonymous.raw(b"")).collect();
        // The oldest of them give way.
        anonymous.get("/healthz").expect(200);
        fixture.daemon.operator().get("/v1/orgs").expect(200);
        drop(idle);
    });
}

/// Slowloris: every byte arrives in time, the whole request does not.
#[test]
fn a_slow_request_ends_at_the_total_timeout() {
    with_impatient_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        fixture.assert_no_trace(|_| {
            let pause = Duration::from_millis(40);
            let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(200));
            let answer = operator.raw(b"").drip(head.as_bytes(), pause).expect("an end");
            assert_eq!(statuses(&answer), [408], "{answer:?}");
            let head = head_of_call(&operator, &session.path("/calls")) + "Content-Length: 1000\r\n\r\n";
            let answer = operator.raw(head.as_bytes()).drip(&[b' '; 200], pause).expect("an answer");
            assert_eq!(statuses(&answer), [408], "{}", String::from_utf8_lossy(&answer));
            assert!(String::from_utf8_lossy(&answer).contains("DEADLINE_EXCEEDED"));
        });
        // Slow, but within the timeout, unless the machine is busy.
        let whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        wait::until_true("an answer to a slow request", || {
            let answer = operator.raw(b"").drip(whole, Duration::from_millis(2)).expect("an answer");
            statuses(&answer) == [200]
        });
    });
}

/// A client that does not read holds its connection until the write timeout.
#[test]
fn clients_that_do_not_read_are_disconnected() {
    with_impatient_fixture(|fixture| {
        fixture.assert_no_trace(|fixture| {
            let anonymous = fixture.daemon.anonymous();
            let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
            let held: Vec<_> = (0..64)
                .map(|_| {
                    let mut pending = anonymous.raw(b"");
                    // Back-pressure: the daemon stops reading while its responses are not read.
                    let _ = pending.write_for(request.as_bytes(), Duration::from_millis(50));
                    pending
                })
                .collect();
            anonymous.get("/healthz").expect(200);
            drop(held);
        });
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    with_fixture(|fixture| {
        fixture.assert_no_trace(|fixture| {
            let anonymous = fixture.daemon.anonymous();
            let good = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            let missing = "GET /v1/plugins HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let all = |text: String| statuses(&anonymous.raw(text.as_bytes()).all().expect("answers"));
            assert_eq!(all(format!("{good}{missing}{last}")), [200, 401, 200]);
            let many = all(good.repeat(999) + last);
            assert_eq!(many.len(), 1000);
            assert!(many.iter().all(|status| *status == 200));
            // Requests after an unreadable one are ignored.
            assert_eq!(
                all(format!("{good}GET  / HTTP/1.1\r\nHost : x\r\n\r\n{good}{good}{last}")),
                [200, 400]
            );
            // The body of a refused request is not parsed as the next request.
            let hidden = format!(
                "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{good}{last}",
                good.len()
            );
            let answers = all(hidden);
            assert!(answers == [401, 200] || answers == [401], "{answers:?}");
        });
    });
}

#[test]
fn other_protocol_versions_are_served_or_closed() {
    with_impatient_fixture(|fixture| {
        fixture.assert_no_trace(|fixture| {
            let anonymous = fixture.daemon.anonymous();
            let all = |text: &str| anonymous.raw(text.as_bytes()).all().expect("an end");
            assert_eq!(statuses(&all("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")), [200]);
            let kept = "GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";
            let last = "GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n";
            assert_eq!(statuses(&all(&format!("{kept}{last}"))), [200, 200]);
            assert_eq!(statuses(&all("GET /healthz HTTP/1.0\r\n\r\n")), [400]);
            let chunked = "POST /v1/sessions HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
            assert!(!statuses(&all(&format!("{chunked}{kept}{last}"))).contains(&200));
            for text in ["GET /healthz\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /healthz HTTP/1.2\r\nHost: localhost\r\n\r\n"] {
                assert!(!statuses(&all(text)).contains(&200), "{text:?}");
            }
            // The upgrade is ignored and the request answered.
            let upgrade = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n";
            assert_eq!(statuses(&all(upgrade)), [200]);
            // A TLS ClientHello, and noise.
            let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
            assert!(!statuses(&anonymous.raw(tls).all().expect("an end")).contains(&200));
            let mut seed = 0x5EED_u64;
            for _ in 0..50 {
                let noise: Vec<u8> = (0..200)
                    .map(|_| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        seed.to_be_bytes()[2]
                    })
                    .chain(*b"\r\n\r\n")
                    .collect();
                assert!(!statuses(&anonymous.raw(&noise).all().expect("an end")).contains(&200));
            }
        });
    });
}

#[test]
fn expect_continue_is_answered_and_holds_no_connection() {
    with_impatient_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        let body = r#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#;
        let head = head_of_call(&operator, &session.path("/calls"));
        let asking =
            |length: usize| format!("{head}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n");
        fixture.assert_no_trace(|fixture| {
            // A refused request gets no `100 Continue`.
            let anonymous = fixture.daemon.anonymous();
            let refused = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n";
            assert_eq!(statuses(&anonymous.raw(refused.as_bytes()).all().expect("an answer")), [401]);
            // Requests that wait for `100 Continue` and send no body time out and free their connection.
            let flood: Vec<_> = (0..80).map(|_| operator.raw(asking(1000).as_bytes())).collect();
            anonymous.get("/healthz").expect(200);
            for pending in flood {
                let answer = pending.all().expect("an answer");
                assert_eq!(statuses(&answer).last(), Some(&408), "{}", String::from_utf8_lossy(&answer));
            }
        });
        let answer =
            operator.raw(format!("{}{body}", asking(body.len())).as_bytes()).all().expect("an answer");
        assert_eq!(statuses(&answer).last(), Some(&200), "{}", String::from_utf8_lossy(&answer));
    });
}

#[test]
fn an_ambiguous_request_is_refused() {
    with_fixture(|fixture| {
        let anonymous = fixture.daemon.anonymous();
        let inner = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let heads = [
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 50\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
            "GET /healthz HTTP/1.1\nHost: localhost\nX: a\rb\n\n",
            "GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
            "\u{0}\u{1}\u{2}\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-\u{e9}: x\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\u{0}b\r\n\r\n",
            "GET /hea lthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET\t/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /healthz HTTP/1.1\nHost: localhost\n\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n",
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            // The server may refuse both framings together (RFC 9112, 6.3).
            "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ];
        for head in heads {
            let answer = anonymous.raw(format!("{head}{inner}").as_bytes()).all().expect("an end");
            assert_eq!(statuses(&answer), [400], "{head:?}");
            assert!(String::from_utf8_lossy(&answer).contains("INVALID_REQUEST"), "{head:?}");
        }
    });
}

#[test]
fn a_malformed_chunked_body_is_refused() {
    with_impatient_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        let session = operator.open_session("acme/bot");
        let head = head_of_call(&operator, &session.path("/calls")) + "Transfer-Encoding: chunked\r\n\r\n";
        let inner = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        fixture.assert_no_trace(|_| {
            let flood = "1;".to_owned() + &"x=y;".repeat(20_000) + "\r\n{\r\n";
            let trailers: String = (0..20_000).map(|at| format!("X-{at}: y\r\n")).collect();
            for body in [
                "FFFFFFFFFFFFFFFFF\r\n{".to_owned(),
                "fffffffffffffff\r\n{".to_owned(),
                "-1\r\n{\r\n0\r\n\r\n".to_owned(),
                "0x1\r\n{\r\n0\r\n\r\n".to_owned(),
                "1\r\n{}}\r\n0\r\n\r\n".to_owned(),
                "5\r\n{}\r\n0\r\n\r\n".to_owned(),
                "g\r\n{}\r\n0\r\n\r\n".to_owned(),
                flood,
                format!("0\r\n{trailers}\r\n"),
            ] {
                let answer = operator.raw(format!("{head}{body}{inner}").as_bytes()).all().expect("an end");
                let shown = &body[..body.len().min(40)];
                let statuses = statuses(&answer);
                assert!(!statuses.contains(&200), "{shown:?}: {statuses:?}");
                assert!(
                    statuses.iter().all(|status| (400..=504).contains(status)),
                    "{shown:?}: {statuses:?}"
                );
            }
        });
        let body = r#"{"calls":[{"tool":"hostile/echo","arguments":{"text":"x"}}]}"#;
        let good = format!("{head}{:x};x=y\r\n{body}\r\n0\r\nX: y\r\n\r\n", body.len());
        assert_eq!(statuses(&operator.raw(good.as_bytes()).all().expect("an answer")), [200]);
    });
}
