//! Against real servers: `tests/mcp` says how to start them. Skipped where none is named.
//!
//! `MCP_STATELESS=http://127.0.0.1:8001/mcp MCP_SESSION=http://127.0.0.1:8002/mcp cargo test -p mcp live`
#![allow(clippy::disallowed_methods, reason = "who runs the servers names them in the environment")]

use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

#[test]
fn m4_pypi_mcp_is_mounted_in_both_families() {
    let Ok(url) = env::var("MCP_STATELESS") else { return };
    let _network = testing::network(|request| Ok(over_tcp(request)));
    for protocol in [json!(null), json!("2026-07-28"), json!("2025-11-25")] {
        let document = document(json!({"url": url, "protocol": protocol}));
        let found = discover(document.clone()).unwrap();
        let family = if protocol.is_null() { json!("2026-07-28") } else { protocol };
        assert_eq!(found["protocol"], family);
        assert_eq!(found["left_out"], json!([]));
        let plugin = mount(&document, &found);
        let answers = [
            ("get_forecast", json!({"city": "Paris"}), json!({"city": "Paris", "celsius": 21.5})),
            ("echo", json!({"text": "é"}), json!("é")),
            ("regional_query", json!({"region": "zürich", "query": "q"}), json!("zürich: q")),
            ("notes_forget_all", json!({}), json!({"result": true})),
            ("count", json!({"to": 3}), json!("counted to 3")),
        ];
        for (tool, arguments, answer) in answers {
            assert_eq!(call(&plugin, tool, arguments), Ok(answer), "{tool} {family}");
        }
        let error = call(&plugin, "fail", json!({"why": "rain"})).unwrap_err();
        assert!(error.message().contains("rain"), "{error}");
    }
    let document = document(json!({"url": url}));
    let plugin = mount(&document, &discover(document.clone()).unwrap());
    let error = call(&plugin, "confirm", json!({})).unwrap_err();
    assert!(error.message().contains("wants to ask back"), "{error}");
}

#[test]
fn m4_npm_server_everything_is_mounted() {
    let Ok(url) = env::var("MCP_SESSION") else { return };
    let _network = testing::network(|request| Ok(over_tcp(request)));
    let document = document(json!({"url": url}));
    let found = discover(document.clone()).unwrap();
    assert_eq!(
        (&found["protocol"], found["left_out"].as_array().unwrap().len()),
        (&json!("2025-11-25"), 1),
        "{found:#}"
    );

    let plugin = mount(&document, &found);
    assert_eq!(call(&plugin, "echo", json!({"message": "hi"})), Ok(json!("Echo: hi")));
    assert_eq!(call(&plugin, "get_sum", json!({"a": 1, "b": 2})), Ok(json!("The sum of 1 and 2 is 3.")));
    let weather = call(&plugin, "get_structured_content", json!({"location": "New York"})).unwrap();
    assert!(weather["temperature"].is_number(), "{weather}");
    let picture = call(&plugin, "get_tiny_image", json!({})).unwrap();
    assert_eq!(picture["content"][1]["mimeType"], "image/png");
    let error = call(&plugin, "echo", json!({})).unwrap_err();
    assert!(error.message().contains("Input validation error"), "{error}");
}

/// Sends a request over a connection of its own, and reads to the end.
fn over_tcp(request: &Sent) -> Reply {
    let (authority, path) = request.url().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut head =
        format!("{} /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n", request.method());
    for (name, value) in request.headers().iter() {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", request.body().len());
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.write_all(&[head.as_bytes(), request.body()].concat()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    // A server may keep the connection although it is asked not to; then the last chunk is the end.
    while !answer.ends_with(b"\r\n0\r\n\r\n") {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            read => answer.extend(&piece[..read]),
        }
    }
    read_reply(&answer)
}

fn read_reply(answer: &[u8]) -> Reply {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let body = &answer[end + 4..];
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let is_chunked = fields
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("transfer-encoding") && *value == "chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_vec() };
    fields.into_iter().fold(Reply::new(status).body(body), |reply, (name, value)| reply.header(name, value))
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend(&rest[end + 2..end + 2 + size]);
        rest = &rest[(end + 4 + size).min(rest.len())..];
    }
    body
}
