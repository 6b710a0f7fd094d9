//! Raw bytes of one connection, through the daemon's own listener and routes, with real state.

mod in_process;
mod requests;
mod responses;
mod seeds;

use std::cell::RefCell;

use in_process::InProcessDaemon;
use requests::{ParsedInput, ParsedRequest};
use responses::Response;
pub use seeds::{SEEDS, long_seeds};
use serde_json::Value;
use toolgate_api::error::ErrorType;

use crate::error_format::find_hidden;

/// Longest input; longer ones reach no further code.
const BYTES: usize = 64 * 1024;
/// Inputs for one daemon. The tokens, agents and files that they create must not slow down the next ones.
const INPUTS_PER_DAEMON: usize = 500;
/// Statuses of the interface beside those of error types: preconditions, methods, time and size.
const OTHER_STATUSES: [u16; 10] = [200, 201, 202, 204, 405, 408, 412, 414, 428, 431];
const UNAUTHENTICATED_PATHS: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

thread_local! {
    static DAEMON: RefCell<Option<(InProcessDaemon, usize)>> = const { RefCell::new(None) };
}

/// Input: the bytes that a client sends on one connection; `@owner` and `@session` are replaced by a token of an
/// organization's owner and a session of its agent.
///
/// The daemon sends complete, well-formed responses with documented statuses, none of them 5xx, and never more of them than
/// a second parser finds requests (no request smuggling). A request to another host or without a token does not succeed.
pub fn http(data: &[u8]) {
    if data.len() > BYTES {
        return;
    }
    DAEMON.with_borrow_mut(|slot| {
        let (daemon, inputs) = slot.get_or_insert_with(|| (InProcessDaemon::start(), 0));
        let sent = daemon.substitute(data);
        let parsed = requests::parse(&sent);
        let responses = daemon.exchange(&sent, &parsed);
        check_responses(&parsed, &responses);
        *inputs += 1;
        if *inputs == INPUTS_PER_DAEMON {
            *slot = None;
        }
    });
}

fn check_responses(parsed: &ParsedInput, responses: &[Response]) {
    let most = parsed.requests.len() + usize::from(parsed.is_ambiguous);
    assert!(responses.len() <= most, "{} responses to {most} requests", responses.len());
    for response in responses {
        let status = response.status;
        let is_documented = OTHER_STATUSES.contains(&status)
            || ErrorType::ALL.iter().any(|error_type| error_type.http_status() == status);
        assert!(is_documented, "status {status} is not documented");
        assert!(status < 500, "a server error: {status} {}", String::from_utf8_lossy(&response.body));
        check_body(response);
    }
    for (request, response) in parsed.requests.iter().zip(responses) {
        let exchange = || format!("status {} for {request:?}", response.status);
        if !is_for_this_host(request) {
            assert!(matches!(response.status, 400 | 403 | 408 | 414 | 431 | 417 | 413), "{}", exchange());
        }
        if !request.has_token && !UNAUTHENTICATED_PATHS.contains(&request.path.as_str()) {
            assert!(response.status >= 400, "{}", exchange());
        }
    }
}

/// Whether the daemon serves the host of the target, or else of the only `Host` field (RFC 9110, 7.2).
fn is_for_this_host(request: &ParsedRequest) -> bool {
    let Some(host) = &request.host else { return false };
    let (name, port) = match host.strip_prefix('[') {
        Some(_) => host.split_at(host.find(']').map_or(host.len(), |end| end + 1)),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && HOSTS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A JSON content type has a JSON body, and a problem (RFC 9457) has its members and the status of the status line.
fn check_body(response: &Response) {
    let content_type = response.field("content-type").unwrap_or_default();
    if response.is_bodiless || !content_type.ends_with("json") {
        assert!(response.status < 400 || response.is_bodiless, "an error of `{content_type}`");
        return;
    }
    let body: Value = serde_json::from_slice(&response.body).expect("the content type is JSON");
    if content_type == "application/problem+json" {
        assert_eq!(body["status"], response.status);
        let known = body["error_type"]
            .as_str()
            .is_some_and(|name| ErrorType::ALL.iter().any(|known| known.as_str() == name));
        assert!(known, "{body}");
        for member in ["detail", "hint", "title", "type"] {
            let text = body[member].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no `{member}`: {body}");
            assert_eq!(find_hidden(text), None, "`{member}` hides a character: {}", text.escape_debug());
        }
    }
}
