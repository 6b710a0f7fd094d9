//! Suppresses hyper's own responses: to a malformed head, hyper writes a status without a body.
//!
//! hyper has no hook for these responses, but it flushes a response before it parses the next head. Bytes that it
//! writes while no request is in flight are therefore its own. Requests are counted when they begin and when their
//! response body is dropped, and a flush with equal counts ends the response. (If thousands of pipelined requests
//! arrive in one read and the client does not read, hyper can parse ahead of the last flush; the client then gets
//! hyper's own response.)

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The position of the status code in a response.
const STATUS: std::ops::Range<usize> = "HTTP/1.1 ".len().."HTTP/1.1 400".len();

/// A connection that passes on only the responses to requests.
pub(super) struct Withheld<S> {
    connection: S,
    requests: Arc<Requests>,
    /// Requests whose responses are fully written.
    written: u64,
    /// The status of the suppressed response.
    status: Option<StatusCode>,
}

/// Request counters of a connection. Only its task uses them; they are atomic since the task can move between
/// threads.
#[derive(Default)]
pub(super) struct Requests {
    begun: AtomicU64,
    answered: AtomicU64,
}

/// A request in flight; dropping it counts the request as answered.
pub(super) struct Answering(Arc<Requests>);

/// The body of a response.
pub(super) struct AnswerBody {
    body: Body,
    _answering: Answering,
}

impl<S> Withheld<S> {
    pub(super) fn new(connection: S, requests: Arc<Requests>) -> Self {
        Self { connection, requests, written: 0, status: None }
    }

    /// Returns the connection and the status of the suppressed response.
    pub(super) fn into_parts(self) -> (S, Option<StatusCode>) {
        (self.connection, self.status)
    }

    /// Returns true if a request's response is not fully written.
    pub(super) fn is_answering(&self) -> bool {
        self.requests.begun.load(Ordering::Relaxed) != self.written
    }

    fn hold_back(&mut self, bytes: &[u8]) {
        let status = bytes.get(STATUS).and_then(|digits| StatusCode::from_bytes(digits).ok());
        self.status.get_or_insert(status.unwrap_or(StatusCode::BAD_REQUEST));
    }
}

impl Answering {
    pub(super) fn begin(requests: &Arc<Requests>) -> Self {
        requests.begun.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(requests))
    }

    /// Returns the body, whose drop ends the request.
    pub(super) fn with(self, body: Body) -> AnswerBody {
        AnswerBody { body, _answering: self }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Withheld<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Withheld<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_answering() {
            return Pin::new(&mut self.connection).poll_write(context, bytes);
        }
        self.hold_back(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_answering() {
            return Pin::new(&mut self.connection).poll_write_vectored(context, pieces);
        }
        pieces.iter().take(1).for_each(|head| self.hold_back(head));
        Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.connection).poll_flush(context))?;
        let begun = self.requests.begun.load(Ordering::Relaxed);
        if begun == self.requests.answered.load(Ordering::Relaxed) {
            self.written = begun;
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps the connection open after a suppressed response, since the problem document follows it.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.status {
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut self.connection).poll_shutdown(context),
        }
    }
}
