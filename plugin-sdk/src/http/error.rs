//! The errors of a request.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Statuses that may differ for a later request: the server, or a proxy before it, was busy.
const RETRYABLE_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// A failed request. Pass it on with `?`: it becomes a [`toolgate_sdk::Error`](crate::Error) that says whether the same call
/// can succeed later.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// No request can be sent to this URL.
    InvalidUrl {
        /// The URL as given.
        url: String,
        /// The reason.
        why: &'static str,
    },
    /// A method, header field or body that cannot be sent.
    InvalidRequest {
        /// The reason.
        why: String,
    },
    /// The plugin did not request this, its operator did not grant it, or the agent's own list excludes it.
    Denied {
        /// The host of the request.
        host: String,
    },
    /// There is no response, or only a part of it.
    Unavailable {
        /// The host of the request.
        host: String,
        /// The reason.
        why: Unavailable,
    },
    /// The status is not 200 to 299; from [`Response::error_for_status`](super::Response::error_for_status).
    Status {
        /// The host that responded.
        host: String,
        /// The status, like 404.
        status: u16,
        /// The delay that the server requests with `Retry-After`.
        retry_after: Option<Duration>,
        /// The start of the body if it is text; the title of an HTML page.
        excerpt: String,
    },
    /// The body exceeds the limit.
    TooLarge {
        /// The host that responded.
        host: String,
        /// The limit.
        max_bytes: usize,
    },
    /// The body does not have the expected format.
    Unreadable {
        /// The host that responded.
        host: String,
        /// The reason.
        why: String,
    },
}

/// The failure between plugin and server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unavailable {
    /// The name has no address, or DNS did not respond.
    Dns,
    /// The connection failed.
    Connect,
    /// The certificate is not trusted, or TLS failed otherwise.
    Tls,
    /// The request timed out.
    Timeout,
    /// The connection or the response ended early.
    Broken,
    /// The call exceeded a limit of what it may send or receive.
    Limit,
}

impl Error {
    /// Returns whether the same request can succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { why, .. } => !matches!(why, Unavailable::Tls | Unavailable::Limit),
            Self::Status { status, .. } => RETRYABLE_STATUSES.contains(status),
            Self::InvalidUrl { .. }
            | Self::InvalidRequest { .. }
            | Self::Denied { .. }
            | Self::TooLarge { .. }
            | Self::Unreadable { .. } => false,
        }
    }

    /// Returns the status of an [`Error::Status`].
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Copies the retry flag, status and delay into a tool's error.
    pub(crate) fn annotate(&self, failure: crate::Error) -> crate::Error {
        let failure = if self.is_retryable() { failure.retryable() } else { failure };
        let Self::Status { status, retry_after, .. } = self else { return failure };
        let mut details = Map::from_iter([("status".to_owned(), Value::from(*status))]);
        if let Some(delay) = retry_after {
            // A server can send any number; JSON numbers end here.
            let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            details.insert("retry_after_ms".to_owned(), json!(delay));
        }
        failure.with_details(details)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidUrl { url, why } => write!(formatter, "`{url}` cannot be requested: {why}"),
            Self::InvalidRequest { why } => write!(formatter, "the request cannot be sent: {why}"),
            Self::Denied { host } => write!(formatter, "this tool may not send this request to `{host}`"),
            Self::Unavailable { host, why } => write!(formatter, "`{host}` cannot be used: {why}"),
            Self::Status { host, status, excerpt, .. } if excerpt.is_empty() => {
                write!(formatter, "`{host}` answered with status {status}")
            }
            Self::Status { host, status, excerpt, .. } => {
                write!(formatter, "`{host}` answered with status {status}: {excerpt}")
            }
            Self::TooLarge { host, max_bytes } => {
                write!(formatter, "the response of `{host}` is longer than {max_bytes} bytes")
            }
            Self::Unreadable { host, why } => {
                write!(formatter, "the response of `{host}` cannot be parsed: {why}")
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Dns => "its name has no address",
            Self::Connect => "no connection could be made",
            Self::Tls => "its certificate is not trusted, or TLS failed",
            Self::Timeout => "it did not answer in time",
            Self::Broken => "the connection or its response ended early",
            Self::Limit => "the call exceeded its limit of what it may send or receive",
        })
    }
}

impl std::error::Error for Error {}
