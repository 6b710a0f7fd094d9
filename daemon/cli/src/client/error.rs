//! Errors of client requests, worded for the user at the terminal.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use hyper_util::client::legacy;
use toolgate_api::error::ErrorType;
use toolgate_api::problem::Problem;

use super::Server;

/// If a connection closes during a request of at least this size, the size is the likely cause: a smaller body fits
/// the socket buffers, so the daemon's response arrives.
const LARGE_BYTES: usize = 1 << 20;

/// Excerpt of an unexpected response, in characters.
const EXCERPT_CHARS: usize = 80;

/// Error of a client request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not one of a server.
    #[error("`{server}` is not the URL of a daemon")]
    BadServer {
        /// The text.
        server: String,
    },
    /// The file of certificate authorities cannot be used.
    #[error("the certificates in `{path}` cannot be read: {reason}")]
    BadCaFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The files of the client's certificate cannot be used.
    #[error("the client certificate cannot be used: `{path}`: {reason}")]
    BadClientFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A header field cannot have the token as its value.
    #[error("the token cannot be sent: it has characters that no token has")]
    BadToken,
    /// The path of the request is not valid.
    #[error("the request cannot be sent: its path is not valid")]
    BadRequest,
    /// No TCP connection.
    #[error("no daemon answers at `{server}`: {reason}")]
    Unreachable {
        /// The server.
        server: Server,
        /// The cause.
        reason: String,
    },
    /// The server has a certificate that is not valid for it, or that no trusted authority signed.
    #[error("the certificate of `{server}` is not trusted: {reason}")]
    Untrusted {
        /// The server.
        server: Server,
        /// The cause.
        reason: String,
    },
    /// No TLS connection.
    #[error("no TLS connection to `{server}`: {reason}")]
    Tls {
        /// The server.
        server: Server,
        /// The cause.
        reason: String,
    },
    /// The response is not HTTP/1.1.
    #[error("`{server}` does not answer in HTTP/1.1")]
    NotHttp {
        /// The server.
        server: Server,
    },
    /// The connection closed before the whole response arrived.
    #[error("the connection was closed: {reason}")]
    Lost {
        /// The cause.
        reason: String,
    },
    /// The connection closed while a large request was sent.
    #[error("the connection was closed during a request of {} MiB: {reason}", .bytes >> 20)]
    LostOnLarge {
        /// Size of the request's body.
        bytes: usize,
        /// The cause.
        reason: String,
    },
    /// The daemon refused the request.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The response does not come from a daemon, or from one of another version.
    #[error("the response is not one of a daemon (status {status}): {excerpt}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The first characters of the body.
        excerpt: String,
    },
}

impl ClientError {
    /// Returns the hint.
    pub fn hint(&self) -> &str {
        match self {
            Self::BadServer { .. } => {
                "write it like `http://127.0.0.1:7300`, `https://tools.example.org` or `unix:/run/toolgate.sock`"
            }
            Self::BadCaFile { .. } => "give a file of PEM certificates that this user may read",
            Self::BadClientFile { .. } => {
                "give PEM files that this user may read with `--client-certificate` and `--client-key`"
            }
            Self::BadToken => "give the file that holds the token and nothing else",
            Self::BadRequest => "check the names that were given",
            Self::Unreachable { .. } => {
                "start one with `toolgate serve`, or say where it is with `--server` or TOOLGATE_SERVER"
            }
            Self::Untrusted { .. } => {
                "check `--server`; give the certificate of a private authority with `--ca-file` or TOOLGATE_CA_FILE"
            }
            Self::Tls { .. } => "check `--server`: a port without TLS needs `http://`",
            Self::NotHttp { .. } => "check `--server`: a port with TLS needs `https://`",
            Self::Lost { .. } => "check whether the daemon still runs; the request may have been carried out",
            Self::LostOnLarge { .. } => {
                "it may be larger than the daemon allows: `http.plugin_bytes` is its limit for plugin files, \
                 `http.body_bytes` for all else; if not, check whether it still runs: the request may have been carried out"
            }
            Self::Refused(problem) if problem.error_type == ErrorType::Unauthenticated => {
                "give a token with `--token-file FILE` or TOOLGATE_TOKEN, or log in again with `toolgate login`; the first one is in \
                 DATA/operator.token"
            }
            Self::Refused(problem) => &problem.hint,
            Self::Unexpected { .. } => {
                "check `--server`: another program may listen there, or a daemon of another version"
            }
        }
    }

    /// Returns the HTTP status, if a response arrived.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(problem) => Some(problem.status),
            Self::Unexpected { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the code of a refusal.
    pub fn error_type(&self) -> Option<ErrorType> {
        match self {
            Self::Refused(problem) => Some(problem.error_type),
            _ => None,
        }
    }

    /// Whether the daemon may answer later: it is away, starting or stopping, or has too much to do.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            // 429 also where the daemon has not noticed yet that the connection of a stream is lost.
            Self::Refused(problem) => problem.status >= 500 || problem.status == 429,
            _ => false,
        }
    }

    /// Converts the error of a request whose body has `bytes`.
    pub(super) fn from_request(server: &Server, bytes: usize, error: &legacy::Error) -> Self {
        let server = || server.clone();
        if let Some(error) = find_cause::<rustls::Error>(error) {
            let reason = error.to_string();
            return match error {
                rustls::Error::InvalidCertificate(_) => Self::Untrusted { server: server(), reason },
                _ => Self::Tls { server: server(), reason },
            };
        }
        let reason = reason(error);
        if error.is_connect() {
            Self::Unreachable { server: server(), reason }
        } else if find_cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
            Self::NotHttp { server: server() }
        } else if bytes >= LARGE_BYTES {
            Self::LostOnLarge { bytes, reason }
        } else {
            Self::Lost { reason }
        }
    }

    pub(crate) fn refusal(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(problem) => Self::Refused(problem),
            Err(_) => Self::unexpected_response(status, body),
        }
    }

    /// Error for a response that does not come from a daemon.
    pub(crate) fn unexpected_response(status: u16, body: &[u8]) -> Self {
        let excerpt = String::from_utf8_lossy(body).chars().take(EXCERPT_CHARS).collect();
        Self::Unexpected { status, excerpt }
    }
}

/// Returns the first cause of this type.
fn find_cause<T: Error + 'static>(error: &legacy::Error) -> Option<&T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Returns the innermost cause: the outer errors say no more than "client error".
fn reason(error: &legacy::Error) -> String {
    let io_text = causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .find_map(|error| text_of_kind(error.kind()));
    match (io_text, causes(error).last()) {
        (Some(text), _) => text.to_owned(),
        (None, last) => last.map(ToString::to_string).unwrap_or_default(),
    }
}

/// Returns the error and its causes. The source of an [`io::Error`] is that of the error inside it, so the one inside is
/// returned as well.
fn causes(error: &legacy::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |cause| {
        let cause: &(dyn Error + 'static) = *cause;
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}

/// Describes common I/O errors without the error numbers of the system.
fn text_of_kind(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::ConnectionReset => Some("connection reset"),
        io::ErrorKind::BrokenPipe => Some("connection closed"),
        io::ErrorKind::TimedOut => Some("there was no response in time"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some("there is no route to it"),
        _ => None,
    }
}
