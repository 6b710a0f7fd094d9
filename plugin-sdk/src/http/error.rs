//! Why a request brought no answer, or not the one that was wanted.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Statuses that are gone when asked again: the server was busy, or something before it was.
const PASSING_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// A request that failed. Pass it on with `?`: it becomes a [`toolgate_sdk::Error`](crate::Error) that says whether the
/// same call can succeed later.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// No request can be sent to this URL.
    InvalidUrl {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A method, header field or content that cannot be sent.
    InvalidRequest {
        /// What is wrong with it.
        why: String,
    },
    /// The plugin did not ask for this request, its operator did not grant it, or the agent's own list leaves it out.
    Denied {
        /// The host that may not be reached so.
        host: String,
    },
    /// There is no answer, or not all of it.
    Unavailable {
        /// The host that was to answer.
        host: String,
        /// What failed.
        why: Unavailable,
    },
    /// The answer has a status that is no success; from [`Response::error_for_status`](super::Response::error_for_status).
    Status {
        /// The host that answered.
        host: String,
        /// The status, as 404.
        status: u16,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// How the content begins, where it is text; the title of a page.
        excerpt: String,
    },
    /// The content is longer than may be read.
    TooLarge {
        /// The host that answered.
        host: String,
        /// What may be read.
        max_bytes: usize,
    },
    /// The content is not what it was read as.
    Unreadable {
        /// The host that answered.
        host: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What failed between the plugin and a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unavailable {
    /// The name has no address, or the name service did not answer.
    Dns,
    /// Nobody took the connection.
    Connect,
    /// The certificate is not to be trusted, or TLS failed otherwise.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection or the answer broke.
    Broken,
    /// The call may not send or receive as much.
    Limit,
}

impl Error {
    /// Whether the same request can succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { why, .. } => !matches!(why, Unavailable::Tls | Unavailable::Limit),
            Self::Status { status, .. } => PASSING_STATUSES.contains(status),
            Self::InvalidUrl { .. }
            | Self::InvalidRequest { .. }
            | Self::Denied { .. }
            | Self::TooLarge { .. }
            | Self::Unreadable { .. } => false,
        }
    }

    /// The status of the answer, where that is what failed.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Adds to a failure what a program can use.
    pub(crate) fn mark(&self, failure: crate::Error) -> crate::Error {
        let failure = if self.is_retryable() { failure.retryable() } else { failure };
        let Self::Status { status, retry_after, .. } = self else { return failure };
        let mut details = Map::from_iter([("status".to_owned(), Value::from(*status))]);
        if let Some(wait) = retry_after {
            // A server may say any number; more than this many is none in JSON.
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            details.insert("retry_after_ms".to_owned(), json!(wait));
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
                write!(formatter, "the answer of `{host}` is longer than {max_bytes} bytes")
            }
            Self::Unreadable { host, why } => {
                write!(formatter, "the answer of `{host}` cannot be read: {why}")
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Dns => "its name has no address",
            Self::Connect => "no connection could be made",
            Self::Tls => "its certificate is not to be trusted, or TLS failed",
            Self::Timeout => "it did not answer in time",
            Self::Broken => "the connection or its answer broke",
            Self::Limit => "the call may not send or receive as much",
        })
    }
}

impl std::error::Error for Error {}
