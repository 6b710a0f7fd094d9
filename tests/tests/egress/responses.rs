//! Responses of upstreams: huge, slow, compressed, malformed, or from an unauthenticated server.

use std::io::Write;

use super::upstream::{Piece, answer};
use super::{API, TRUSTED, UNTRUSTED, fetch, with_fixture};
use toolgate_tests::{json, wait};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    // Stored blocks need no compressor.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).expect("a block");
        file.push(u8::from(blocks.peek().is_none()));
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.write_all(block).expect("memory");
    }
    let checksum = bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    });
    file.extend((!checksum).to_le_bytes());
    file.extend(u32::try_from(bytes.len()).expect("a length").to_le_bytes());
    file
}

/// Gzip bomb: one MB of zeros for each KB.
fn bomb(megabytes: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // A block that is not the last, with fixed Huffman codes: a literal zero, then repetitions of it.
    bits.push(0b010, 3);
    bits.push_code(0x30, 8);
    for _ in 0..megabytes * 1024 * 1024 / 258 {
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    bits.push_code(0, 7);
    [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255][..], &bits.bytes].concat()
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: usize,
}

impl Bits {
    fn push(&mut self, value: u32, count: usize) {
        for at in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = u8::try_from(value >> at & 1).expect("a bit");
            *self.bytes.last_mut().expect("a byte") |= bit << (self.used % 8);
            self.used += 1;
        }
    }

    /// Huffman codes are packed starting with the most significant bit.
    fn push_code(&mut self, code: u32, count: usize) {
        (0..count).rev().for_each(|at| self.push(code >> at & 1, 1));
    }
}

#[test]
fn b3_a_compressed_response_is_decoded_by_the_host() {
    with_fixture(|fixture| {
        let text = "plain words, ".repeat(10_000);
        let file = gzip(text.as_bytes());
        fixture
            .upstream
            .answer(move |_| answer(200, &[("Content-Encoding", "gzip"), ("Connection", "close")], &file));
        let reply = fetch(&fixture.session(), "GET", &format!("{API}/"));
        let output = reply.output().as_str().unwrap_or_default();
        assert!(
            output.ends_with(&text)
                && !output.contains("content-encoding")
                && !output.contains("content-length")
        );
    });
}

/// A response to HEAD names the coding of the omitted body.
#[test]
fn b3_a_head_response_has_no_body_to_decode() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| {
            let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\nConnection: close\r\n\r\n";
            vec![Piece::Bytes(head.as_bytes().to_vec())]
        });
        let reply = fetch(&fixture.session(), "HEAD", &format!("{API}/"));
        assert!(reply.output().as_str().is_some_and(|output| output.starts_with("200\n")), "{}", reply.0);
    });
}

#[test]
fn b3_a_gzip_bomb_is_stopped() {
    with_fixture(|fixture| {
        let file = bomb(64);
        assert!(file.len() < 1024 * 1024);
        fixture
            .upstream
            .answer(move |_| answer(200, &[("Content-Encoding", "gzip"), ("Connection", "close")], &file));
        let reply = fetch(&fixture.session(), "GET", &format!("{API}/")).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("egress_bytes"));
    });
}

#[test]
fn b3_an_endless_response_is_stopped() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| {
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
            vec![Piece::Bytes(head), Piece::Repeat(vec![b'x'; 64 * 1024], 10_000)]
        });
        // Less than the memory limit of the guest.
        let session = fixture.session_with(&json!({"limits": {"egress_bytes": 4 << 20}}));
        let reply = fetch(&session, "GET", &format!("{API}/")).expect_error("RESOURCE_EXCEEDED");
        assert_eq!(reply.limit(), Some("egress_bytes"));
    });
}

/// A guest may send its whole request before it reads a response that has already begun.
#[test]
fn b3_a_response_may_begin_before_the_request_is_complete() {
    with_fixture(|fixture| {
        fixture.upstream.answer_early(|_| {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n".to_vec();
            vec![Piece::Bytes(head), Piece::Rest, Piece::Bytes(b"whole".to_vec())]
        });
        let received = fixture.upstream.received_bytes();
        let body = "x".repeat(512 * 1024);
        let arguments = json!({
            "method": "POST", "url": format!("{API}/"), "headers": [], "body": body, "response_first": true,
        });
        let reply = fixture.session().call("caller/fetch", arguments);
        assert!(reply.output().as_str().is_some_and(|output| output.ends_with("\n\nwhole")), "{}", reply.0);
        assert!(fixture.upstream.received_bytes() - received > body.len());
    });
}

#[test]
fn b3_a_malformed_response_is_an_error() {
    let head = |rest: &str| {
        vec![Piece::Bytes(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{rest}").into_bytes())]
    };
    let flood: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    let large = format!("X-Large: {}\r\n\r\n", "y".repeat(60_000));
    with_fixture(|fixture| {
        let session = fixture.session();
        for (what, pieces) in [
            ("too short", head("Content-Length: 10\r\n\r\nshort")),
            ("half a chunk", head("Transfer-Encoding: chunked\r\n\r\nff\r\nhalf")),
            ("no chunk", head("Transfer-Encoding: chunked\r\n\r\nzz\r\n")),
            ("no HTTP", vec![Piece::Bytes(b"SSH-2.0-x\r\n\r\nConnection: close".to_vec())]),
            ("many fields", head(&format!("{flood}\r\n"))),
            ("a large field", head(&large)),
            ("another coding", head("Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx")),
            ("two codings", head("Content-Encoding: gzip, gzip\r\nContent-Length: 1\r\n\r\nx")),
            ("no gzip", head("Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain")),
            ("half a gzip", head("Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\u{1f}")),
            (
                "another protocol",
                head("Upgrade: x\r\n\r\n").into_iter().map(|piece| switch_protocols(&piece)).collect(),
            ),
            ("two lengths", head("Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy")),
        ] {
            fixture.upstream.answer(move |_| pieces.clone());
            let reply = fetch(&session, "GET", &format!("{API}/"));
            assert_eq!(reply.error_type(), Some("API_UNAVAILABLE"), "{what}: {}", reply.0);
        }
        fixture.upstream.answer(|_| super::upstream::ok("text/plain", "whole"));
        fetch(&session, "GET", &format!("{API}/")).output();
    });
}

fn switch_protocols(piece: &Piece) -> Piece {
    let Piece::Bytes(bytes) = piece else { return piece.clone() };
    Piece::Bytes(String::from_utf8_lossy(bytes).replace("200 OK", "101 Switching Protocols").into_bytes())
}

#[test]
fn b3_a_slow_response_ends_at_its_timeout() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let slow = |first: Option<u64>, between: Option<u64>| {
            let arguments = json!({"method": "GET", "url": format!("{API}/"), "headers": [], "first_byte_ms": first, "between_bytes_ms": between});
            session.call("caller/fetch", arguments).expect_error("API_UNAVAILABLE")
        };
        fixture.upstream.answer(|_| vec![Piece::Hang]);
        slow(Some(50), None);
        fixture.upstream.answer(|_| {
            vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive!".to_vec()), Piece::Hang]
        });
        slow(None, Some(50));
        let hasty = fixture.session_with(&json!({"limits": {"deadline_ms": 300}}));
        // On a busy machine the deadline may pass before the response begins.
        wait::until_true("the request to be recorded with its status", || {
            fetch(&hasty, "GET", &format!("{API}/")).expect_error("DEADLINE_EXCEEDED");
            fixture.effects(&hasty).iter().any(|(_, detail)| detail.contains("/: 200, "))
        });
    });
}

#[test]
fn b3_trailers_of_a_response_reach_the_guest() {
    with_fixture(|fixture| {
        fixture.upstream.answer(|_| {
            let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n4\r\nbody\r\n0\r\nx-sum: 4\r\n\r\n";
            vec![Piece::Bytes(text.as_bytes().to_vec())]
        });
        let reply = fetch(&fixture.session(), "GET", &format!("{API}/"));
        let output = reply.output().as_str().unwrap_or_default();
        assert!(output.ends_with("\n\nbody\nx-sum: 4") && !output.contains("transfer-encoding"), "{output}");
    });
}

#[test]
fn b3_a_server_with_an_invalid_certificate_gets_no_request() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let before = fixture.upstream.received_bytes();
        let refused = |label: &str, why: &str| {
            let (connections, closed) =
                (fixture.upstream.connections(), fixture.upstream.closed_connections());
            let url = format!("https://{label}.upstream.test:8443/path?key=canary");
            let reply = fetch(&session, "GET", &url).expect_error("API_UNAVAILABLE");
            let (ending, adds_authority) = match label {
                "expired" | "early" => ("its certificate is not valid at this time", false),
                "wrong" => ("its certificate is for another name", false),
                "client" => ("its certificate is not for a server", false),
                "authority" => ("a server needs one that the authority issued to it", false),
                "unentitled" => ("its certificate is not to be trusted", false),
                _ => ("`extra_ca` of the grant adds an authority", true),
            };
            assert!(reply.message().contains("certificate"), "{label}, {why}: {}", reply.0);
            assert_eq!(reply.0["error"]["retryable"], false, "{label}, {why}: waiting does not help");
            assert!(reply.message().ends_with(ending), "{label}, {why}: {}", reply.0);
            assert_eq!(reply.message().contains("extra_ca"), adds_authority, "{label}, {why}");
            let effects = fixture.effects(&session);
            let (_, effect) = effects.last().expect("it is in the record");
            assert!(effect.contains(", 0 bytes out, 0 bytes in"), "{label}: {effect}");
            assert_eq!(fixture.upstream.connections(), connections + 1, "{label}: no connection");
            fixture.upstream.wait_until("the end of the connection", |_, ended| ended > closed);
            assert_eq!(
                fixture.upstream.received_bytes(),
                before,
                "{label}, {why}: bytes of the request were sent"
            );
        };
        UNTRUSTED.iter().for_each(|(label, why)| refused(label, why));
        // The valid certificate, without its authority in the grant.
        let path = "/v1/plugins/caller/grant";
        let mut document = super::grant(&fixture.upstream);
        document["extra_ca"] = json!([]);
        fixture.daemon.operator().replace(path, &document).expect(200);
        refused(TRUSTED, "its authority is not in the grant");
        fixture.daemon.operator().replace(path, &super::grant(&fixture.upstream)).expect(200);
        fetch(&session, "GET", &format!("https://{TRUSTED}.upstream.test:8443/path?key=canary")).output();
        assert!(fixture.upstream.received_bytes() > before);
    });
}

#[test]
fn b3_a_host_without_an_address_is_unavailable() {
    with_fixture(|fixture| {
        let session = fixture.session();
        fixture.upstream.dns.set_answers("moving.upstream.test", &[&[]]);
        fetch(&session, "GET", "https://moving.upstream.test:8443/").expect_error("API_UNAVAILABLE");
        let here = fixture.upstream.address.to_string();
        fixture.upstream.dns.set_answers("moving.upstream.test", &[&[&here]]);
        fetch(&session, "GET", "https://moving.upstream.test:8443/").output();
    });
}
