//! Raw bytes of one connection, through the daemon's own listener and routes, with real state behind them.

mod answers;
mod house;
mod requests;

use std::cell::RefCell;

use serde_json::Value;
use toolgate_admission::ErrorType;

use crate::tell::hidden;
use answers::Answer;
use house::House;
use requests::{Asked, Asking};

/// Longest input; what is longer says nothing new.
const BYTES: usize = 64 * 1024;
/// Inputs that one house takes. What they leave there (tokens, agents, files) must not slow the others.
const INPUTS_PER_HOUSE: usize = 500;
/// Statuses of the interface beside those of the closed list: those of preconditions, methods, time and size.
const OTHER_STATUSES: [u16; 10] = [200, 201, 202, 204, 405, 408, 412, 414, 428, 431];
const OPEN_TO_ALL: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

thread_local! {
    static HOUSE: RefCell<Option<(House, usize)>> = const { RefCell::new(None) };
}

/// The bytes that a client sends on one connection, in which `@owner` and `@session` stand for a token of an
/// organization's owner and a session of its agent.
///
/// What comes back is whole, well-formed answers with documented statuses, none of them the daemon's fault, and never
/// more of them than there are requests for a reader that splits where the specification does. What asks for
/// another host, or brings no token, gets nothing.
pub fn http(data: &[u8]) {
    if data.len() > BYTES {
        return;
    }
    HOUSE.with_borrow_mut(|slot| {
        let (house, inputs) = slot.get_or_insert_with(|| (House::build(), 0));
        let sent = house.filled_in(data);
        let asked = requests::split(&sent);
        let answers = house.ask(&sent, &asked);
        judge(&asked, &answers);
        *inputs += 1;
        if *inputs == INPUTS_PER_HOUSE {
            *slot = None;
        }
    });
}

fn judge(asked: &Asked, answers: &[Answer]) {
    let most = asked.requests.len() + usize::from(asked.is_unclear);
    assert!(answers.len() <= most, "{} answers to {most} requests", answers.len());
    for answer in answers {
        let status = answer.status;
        let is_documented = OTHER_STATUSES.contains(&status)
            || ErrorType::ALL.iter().any(|error_type| error_type.http_status() == status);
        assert!(is_documented, "status {status} is documented nowhere");
        assert!(
            status < 500,
            "the daemon takes the blame: {status} {}",
            String::from_utf8_lossy(&answer.body)
        );
        has_sound_body(answer);
    }
    for (request, answer) in asked.requests.iter().zip(answers) {
        let shown = || format!("{request:?} is answered with {}", answer.status);
        if !asks_here(request) {
            assert!(matches!(answer.status, 400 | 403 | 408 | 414 | 431 | 417 | 413), "{}", shown());
        }
        if !request.has_token && !OPEN_TO_ALL.contains(&request.path.as_str()) {
            assert!(answer.status >= 400, "{}", shown());
        }
    }
}

/// The host that a request is for, by the rule of RFC 9110: that of the target, else that of the one `Host` field.
fn asks_here(request: &Asking) -> bool {
    let Some(host) = &request.host else { return false };
    let (name, port) = match host.strip_prefix('[') {
        Some(_) => host.split_at(host.find(']').map_or(host.len(), |end| end + 1)),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && HOSTS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// JSON where JSON is announced; a problem says what it is, and the same as the status line.
fn has_sound_body(answer: &Answer) {
    let content_type = answer.field("content-type").unwrap_or_default();
    if answer.is_bodiless || !content_type.ends_with("json") {
        assert!(answer.status < 400 || answer.is_bodiless, "an error of `{content_type}`");
        return;
    }
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON is announced");
    if content_type == "application/problem+json" {
        assert_eq!(body["status"], answer.status);
        let known = body["error_type"]
            .as_str()
            .is_some_and(|name| ErrorType::ALL.iter().any(|known| known.as_str() == name));
        assert!(known, "{body}");
        for member in ["detail", "hint", "title", "type"] {
            let text = body[member].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no `{member}`: {body}");
            assert_eq!(hidden(text), None, "`{member}` hides a character: {}", text.escape_debug());
        }
    }
}
