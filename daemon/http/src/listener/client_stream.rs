//! The stream of a client connection: strict framing of requests, a write timeout, and suppression of hyper's own error
//! responses.
//!
//! A client that does not read its responses would hold a connection, and the memory of the responses, without a
//! limit. The timer runs only while a write is pending and restarts with every byte written, so a slow client is
//! served and an idle event stream stays open.
//!
//! To a malformed head, hyper writes a status without a body, and has no hook for it. But it flushes a response before
//! it parses the next head, so bytes that it writes while no request is in flight are its own. Requests are counted
//! when they begin and when their response body is dropped, and a flush with equal counts ends the response. (If
//! thousands of pipelined requests arrive in one read and the client does not read, hyper can parse ahead of the last
//! flush; the client then gets hyper's own response.)

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::framing::RequestFraming;
use crate::connections::RequestCounts;

/// The position of the status code in a response.
const STATUS: std::ops::Range<usize> = "HTTP/1.1 ".len().."HTTP/1.1 400".len();

/// A connection that passes on only the responses to requests.
pub(super) struct ClientStream<S> {
    connection: S,
    write_timeout: Duration,
    /// The timer of a pending write. It is allocated on the first pending write, which most connections never have.
    timer: Option<Pin<Box<Sleep>>>,
    requests: Arc<RequestCounts>,
    /// Requests whose responses are fully written.
    written: u64,
    /// The status of the suppressed response.
    suppressed: Option<StatusCode>,
    framing: RequestFraming,
}

impl<S> ClientStream<S> {
    pub(super) fn new(connection: S, write_timeout: Duration, requests: Arc<RequestCounts>) -> Self {
        let (framing, suppressed) = (RequestFraming::default(), None);
        Self { connection, write_timeout, timer: None, requests, written: 0, suppressed, framing }
    }

    /// The reason why the framing of a request was refused, if it was.
    pub(super) fn framing_refusal(&self) -> Option<&'static str> {
        self.framing.refusal()
    }

    /// Returns true if a request's response is not fully written.
    pub(super) fn is_responding(&self) -> bool {
        self.requests.begun.load(Ordering::Relaxed) != self.written
    }

    /// Ends the suppression and returns the status of the suppressed response.
    pub(super) fn end_suppression(&mut self) -> Option<StatusCode> {
        // A request that never ends: all bytes from here on are passed on.
        self.requests.begun.fetch_add(1, Ordering::Relaxed);
        self.suppressed.take()
    }

    fn suppress(&mut self, bytes: &[u8]) {
        let status = bytes.get(STATUS).and_then(|digits| StatusCode::from_bytes(digits).ok());
        self.suppressed.get_or_insert(status.unwrap_or(StatusCode::BAD_REQUEST));
    }

    /// Returns the result of a write, or `TimedOut` if it was pending for too long.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if wrote.is_ready() {
            self.timer = None;
            return wrote;
        }
        let timeout = self.write_timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its response")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The end of the stream, for hyper.
        if self.framing.refusal().is_some() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        // Nothing was read where it is pending or failed.
        let passed = self.framing.follow(buffer.filled_mut().get_mut(before..).unwrap_or_default());
        buffer.set_filled(before + passed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_responding() {
            let wrote = Pin::new(&mut self.connection).poll_write_vectored(context, pieces);
            return self.in_time(context, wrote);
        }
        pieces.iter().take(1).for_each(|head| self.suppress(head));
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
        match self.suppressed {
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut self.connection).poll_shutdown(context),
        }
    }
}
