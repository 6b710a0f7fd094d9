//! The transport of 2024-11-05 (HTTP with SSE): one stream of events carries every answer of a session, and requests are
//! posted to the endpoint that its first event names.
//!
//! Later revisions replaced it, and say how a client finds it: the server refuses the POST of `initialize`, and answers GET
//! with such a stream (2025-11-25, Transports, Backwards Compatibility). The session ends with the stream.

use std::io::Read;

use serde::Serialize;
use toolgate_api::network::parse_authority;
use toolgate_sdk::http::Response;
use toolgate_sdk::serde_json::Value;

use crate::exchange::{Message, Server};
use crate::failure::{Failure, read_failure};
use crate::stream::{EventKind, Events};
use crate::text::display;

/// Longest URL of an endpoint: it holds the id of a session.
const ENDPOINT_BYTES: usize = 2_048;

/// An open stream.
pub struct Channel<'a> {
    server: &'a Server<'a>,
    endpoint: String,
    events: Events<Box<dyn Read>>,
}

impl<'a> Channel<'a> {
    /// Opens the stream and reads its first event.
    pub fn open(server: &'a Server<'a>) -> Result<Self, Failure> {
        let response = server.stream()?;
        if !response.is_success() {
            return Err(read_failure(response));
        }
        if !is_event_stream(&response) {
            return Err(Failure::Unreadable("it answers GET with no stream of events".to_owned()));
        }
        let mut events = Events::new(Box::new(response.into_reader()) as Box<dyn Read>);
        while let Some(event) = events.next()? {
            if event.kind == EventKind::Endpoint {
                let endpoint = endpoint(server.url, event.data.trim())?;
                return Ok(Self { server, endpoint, events });
            }
        }
        Err(Failure::Unreadable("its stream of events names no endpoint".to_owned()))
    }

    /// Sends a request, and reads events up to its answer.
    pub fn ask<P: Serialize>(&mut self, message: &Message<P>) -> Result<Value, Failure> {
        let server = Server { url: &self.endpoint, ..*self.server };
        self.events.begin_answer();
        server.ask_by_events(message, &mut self.events)
    }

    /// Sends a notification.
    pub fn tell<P: Serialize>(&self, message: &Message<P>) -> Result<(), Failure> {
        Server { url: &self.endpoint, ..*self.server }.tell(&[], message)
    }
}

fn is_event_stream(response: &Response) -> bool {
    let media_type = response.header("content-type").unwrap_or_default();
    media_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Resolves the URL of an endpoint. One of another origin would get the arguments and the credential of calls.
fn endpoint(base: &str, written: &str) -> Result<String, Failure> {
    let refuse = |why: &str| {
        Err(Failure::Unreadable(format!("its stream names the endpoint `{}`, {why}", display(written, 200))))
    };
    if written.len() > ENDPOINT_BYTES
        || written.contains('#')
        || !written.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return refuse("which is no URL of a request");
    }
    let Some((own, path)) = split(base) else { return refuse("which has no base") };
    if let Some((other, path)) = split(written) {
        return match origin(other).is_some() && origin(other) == origin(own) {
            true => Ok(format!("{own}{path}")),
            false => refuse("which is of another origin than the server"),
        };
    }
    if written.starts_with("//") || written.split(['/', '?']).next().is_some_and(|first| first.contains(':'))
    {
        return refuse("which is of another origin than the server");
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match written.starts_with('/') {
        true => Ok(format!("{own}{written}")),
        false => Ok(format!("{own}{folder}/{written}")),
    }
}

/// Splits an absolute URL before its path.
fn split(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?']))?;
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    Some(url.split_at(scheme.len() + 3 + authority))
}

/// The scheme, host and port of a URL without path.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let (scheme, authority) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let own_port = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let (host, port) = parse_authority(authority).ok()?;
    Some((scheme, host.to_string(), port.unwrap_or(own_port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m4_an_endpoint_is_one_of_the_servers_origin() {
        let base = "https://mcp.example.com/v1/sse";
        for (written, url) in [
            ("/messages/?session_id=a", "https://mcp.example.com/messages/?session_id=a"),
            ("messages?a=b:c", "https://mcp.example.com/v1/messages?a=b:c"),
            ("https://mcp.example.com/m", "https://mcp.example.com/m"),
            ("https://MCP.example.com:443/m?x=https://a", "https://mcp.example.com/m?x=https://a"),
            ("/m?to=https://evil.example", "https://mcp.example.com/m?to=https://evil.example"),
        ] {
            assert_eq!(endpoint(base, written).unwrap(), url, "{written}");
        }
        for written in [
            "https://evil.example/m",
            "//evil.example/m",
            "http://mcp.example.com/m",
            "https://mcp.example.com:8443/m",
            "https://mcp.example.com@evil.example/m",
            "https://mcp.example.com.evil.example/m",
            "javascript:alert(1)",
            "ftp://mcp.example.com/m",
            "/m#a",
            "/a b",
            "/\u{e9}",
            &format!("/{}", "a".repeat(3_000)),
        ] {
            assert!(endpoint(base, written).is_err(), "{written}");
        }
        // The port that the definition names stays.
        assert_eq!(endpoint("http://10.0.0.1:81/sse", "/m").unwrap(), "http://10.0.0.1:81/m");
        assert!(endpoint("http://10.0.0.1:81/sse", "http://10.0.0.1/m").is_err());
    }
}
