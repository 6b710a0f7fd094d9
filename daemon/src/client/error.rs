//! Errors of client requests, worded for the user at the terminal.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use serde_json::Value;

use super::Server;

/// If a connection closes during a request of at least this size, the size is the likely cause: a smaller body fits
/// the socket buffers, so the daemon's response arrives.
const LARGE_BYTES: usize = 1 << 20;

/// Excerpt of an unexpected response, in characters.
const EXCERPT_CHARS: usize = 80;

/// Error of a client request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{server}` is no address of a daemon")]
    BadServer { server: String },
    #[error("`https` is not supported yet")]
    NoHttps,
    #[error("the token cannot be sent: it has characters that no token has")]
    BadToken,
    #[error("the request cannot be sent: its address is not sound")]
    BadRequest,
    #[error("no daemon answers at `{server}`: {reason}")]
    Unreachable { server: String, reason: String },
    #[error("the connection broke off: {reason}")]
    Lost { reason: String },
    #[error("the connection broke off on a request of {} MiB: {reason}", .bytes >> 20)]
    LostOnLarge { bytes: usize, reason: String },
    #[error("{}", .0.message)]
    Refused(Box<Problem>),
    #[error("the answer is not one of a daemon (status {status}): {excerpt}")]
    Strange { status: u16, excerpt: String },
}

/// Error body of the daemon's response.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub status: u16,
    pub error_type: String,
    pub message: String,
    pub hint: String,
    pub details: Option<Value>,
}

impl ClientError {
    /// Returns the hint.
    pub fn hint(&self) -> &str {
        match self {
            Self::BadServer { .. } => "write it like `http://127.0.0.1:7300`",
            Self::NoHttps => {
                "run it on the daemon's machine, or through a tunnel: `ssh -L 7300:127.0.0.1:7300 HOST`"
            }
            Self::BadToken => "give the file that holds the token and nothing else",
            Self::BadRequest => "check the names that were given",
            Self::Unreachable { .. } => {
                "start one with `toolgate serve`, or say where it is with `--server` or TOOLGATE_SERVER"
            }
            Self::Lost { .. } => "see whether the daemon still runs; what was asked may have been done",
            Self::LostOnLarge { .. } => {
                "it may be more than the daemon takes: `http.plugin_bytes` is its limit of plugin files, \
                 `http.body_bytes` of all else; if not, see whether it still runs: what was asked may have been done"
            }
            Self::Refused(problem) if problem.error_type == "UNAUTHENTICATED" => {
                "give a token with `--token-file FILE` or TOOLGATE_TOKEN; the first one is in DATA/operator.token"
            }
            Self::Refused(problem) => &problem.hint,
            Self::Strange { .. } => "check `--server`: something else may listen there",
        }
    }

    /// Returns the HTTP status, if a response arrived.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(problem) => Some(problem.status),
            Self::Strange { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Converts the error of a request whose body has `bytes`.
    pub(super) fn of_request(server: &Server, bytes: usize, error: &legacy::Error) -> Self {
        let reason = reason(error);
        if error.is_connect() {
            Self::Unreachable { server: server.to_string(), reason }
        } else if bytes >= LARGE_BYTES {
            Self::LostOnLarge { bytes, reason }
        } else {
            Self::Lost { reason }
        }
    }

    pub(super) fn refusal(status: u16, body: &[u8]) -> Self {
        match problem(status, body) {
            Some(problem) => Self::Refused(Box::new(problem)),
            None => Self::strange(status, body),
        }
    }

    /// Error for a response that does not come from a daemon.
    pub fn strange(status: u16, body: &[u8]) -> Self {
        let excerpt = String::from_utf8_lossy(body).chars().take(EXCERPT_CHARS).collect();
        Self::Strange { status, excerpt }
    }
}

fn problem(status: u16, body: &[u8]) -> Option<Problem> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(Problem {
        status,
        error_type: text("error_type")?,
        message: text("detail").or_else(|| text("message"))?,
        hint: text("hint").unwrap_or_default(),
        details: body.get("details").cloned(),
    })
}

/// Returns the innermost cause: the outer errors say no more than "client error".
fn reason(error: &legacy::Error) -> String {
    let mut cause: &dyn Error = error;
    loop {
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && let Some(text) = of_kind(error.kind())
        {
            return text.to_owned();
        }
        match cause.source() {
            Some(below) => cause = below,
            None => return cause.to_string(),
        }
    }
}

/// Describes common I/O errors without the error numbers of the system.
fn of_kind(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::ConnectionReset => Some("connection reset"),
        io::ErrorKind::BrokenPipe => Some("connection closed"),
        io::ErrorKind::TimedOut => Some("it does not answer in time"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some("there is no way to it"),
        _ => None,
    }
}
