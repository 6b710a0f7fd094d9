//! Responses to malformed requests: sends a problem document before the connection is closed.
//!
//! hyper gives no request to answer, so the problem is served by a second hyper connection that reads a fixed, valid
//! request; hyper thus frames this response like all others.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use toolgate_api::error::{CallError, Details, ErrorType};

use super::super::problem::Problem;
use crate::header::HEADER_FIELDS;

/// The fixed request that the problem answers.
const FIXED_GET: &[u8] = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";

/// The fixed request if the client sent a `HEAD`, as far as the bytes show: the response then has no body.
const FIXED_HEAD: &[u8] = b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n";

/// Longest target of a request, in bytes; the limit is hyper's.
const TARGET_BYTES: usize = 65_534;

/// A request head that hyper could not parse.
pub(super) struct BadRequest {
    /// The error of the parser.
    pub error: hyper::Error,
    /// The status of hyper's own response, if any.
    pub status: Option<StatusCode>,
    /// The reason, if the framing was refused before hyper parsed the head.
    pub framing: Option<&'static str>,
    /// The received bytes of the head. hyper has dropped a head that it read to its end.
    pub head: Bytes,
    /// The limit of the head, in bytes.
    pub header_bytes: usize,
    /// The timeout of the head.
    pub header_timeout: Duration,
}

impl BadRequest {
    /// Sends the problem, if there is one, with `Connection: close`.
    pub(super) async fn reply(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let Some((status, problem)) = self.problem() else { return };
        let response = Cell::new(Some(problem.with_status(status)));
        let service = service_fn(move |_| ready(Ok::<_, Infallible>(response.take().unwrap_or_default())));
        let request = if self.head.starts_with(b"HEAD ") { FIXED_HEAD } else { FIXED_GET };
        let stream = TokioIo::new(tokio::io::join(request, stream));
        // The fixed request ends with EOF, which hyper would treat as a disconnect. A write error means that the
        // client disconnected.
        let _ = http1::Builder::new().half_close(true).serve_connection(stream, service).await;
    }

    /// Returns no problem for an idle connection and for one with an I/O error.
    fn problem(&self) -> Option<(StatusCode, Problem)> {
        // Empty lines before a request line are ignored (RFC 9112, section 2.2).
        let has_begun = self.head.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
        Some(match self.status {
            Some(status @ StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) => {
                (status, too_large(self.header_bytes))
            }
            Some(status @ StatusCode::URI_TOO_LONG) => (status, too_long()),
            None if self.error.is_timeout() && has_begun => {
                (StatusCode::REQUEST_TIMEOUT, too_slow(self.header_timeout))
            }
            None if self.error.is_incomplete_message() && has_begun => {
                (StatusCode::BAD_REQUEST, unreadable("it ended early"))
            }
            None if !self.error.is_parse() => return None,
            _ => {
                let why = self.framing.map_or_else(|| self.error.to_string(), str::to_owned);
                (StatusCode::BAD_REQUEST, unreadable(&why))
            }
        })
    }
}

fn unreadable(why: &str) -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        format!("the head of the request cannot be read: {why}"),
        "send HTTP/1.1 as RFC 9112 specifies it; the bytes after this head were not read",
    )
}

fn too_large(header_bytes: usize) -> Problem {
    Problem::new(
        ErrorType::TooLarge,
        format!(
            "the head of the request has more than {header_bytes} bytes or more than {HEADER_FIELDS} header fields"
        ),
        "send fewer and shorter fields, or ask the operator to raise `http.header_bytes`",
    )
}

fn too_long() -> Problem {
    Problem::new(
        ErrorType::TooLarge,
        format!("the address in the request has more than {TARGET_BYTES} bytes"),
        "send a shorter one",
    )
}

fn too_slow(timeout: Duration) -> Problem {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let error = CallError::new(
        ErrorType::DeadlineExceeded,
        format!("the head of the request did not arrive within {timeout_ms} ms"),
        "send it faster, or ask the operator to raise `http.header_timeout_ms`",
    );
    CallError { details: Some(Details::HeaderTimeout { header_timeout_ms: timeout_ms }), ..error }.into()
}
