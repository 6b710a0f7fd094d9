//! The body of a response on its way to the guest: timed, decoded, counted, and with the call's secrets masked.
//!
//! The body owns the connection, which returns to the pool after the last byte and is closed if the body is dropped before.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};
use wasmtime_wasi_http::Error;

use super::connection::Connection;
use super::decode::Decoder;
use super::failure::reason;
use super::headers;
use super::pool::{Pool, PoolKey};
use super::record::RequestHandle;
use super::scan::Scanner;

/// State of a response besides its bytes.
pub(super) struct BodyContext {
    pub(super) scanner: Option<Scanner>,
    pub(super) handle: RequestHandle,
    pub(super) between_bytes: Duration,
    pub(super) header_bytes: usize,
    /// Present until the end of the body.
    pub(super) connection: Option<Connection>,
    /// The pool for the connection. `None` if the server closes it after this response.
    pub(super) pool: Option<(Pool, Arc<PoolKey>)>,
}

/// The body.
pub(super) struct ResponseBody {
    incoming: Incoming,
    decoder: Decoder,
    context: BodyContext,
    /// The read timeout. Created by the first wait.
    read_timeout: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    /// Received and not decoded yet.
    pending: Bytes,
    /// Whether any byte was decoded: a response to `HEAD` has a content coding and no content.
    has_content: bool,
    trailers: Option<HeaderMap>,
    state: BodyState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyState {
    Reading,
    /// No more data arrives; the scanner may still hold bytes.
    Ended,
    Trailers,
    Done,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, decoder: Decoder, context: BodyContext) -> Self {
        Self {
            incoming,
            decoder,
            read_timeout: None,
            is_waiting: false,
            context,
            pending: Bytes::new(),
            has_content: false,
            trailers: None,
            state: BodyState::Reading,
        }
    }

    /// One step; `None` if it produced no frame.
    fn step(&mut self, task: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Error>> {
        match self.state {
            BodyState::Reading if !self.pending.is_empty() => Poll::Ready(self.decode()),
            BodyState::Reading => self.read(task),
            BodyState::Ended => Poll::Ready(self.finish()),
            BodyState::Trailers => {
                self.state = BodyState::Done;
                Poll::Ready(Ok(self.trailers.take().map(Frame::trailers)))
            }
            BodyState::Done => Poll::Ready(Ok(None)),
        }
    }

    fn read(&mut self, task: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Error>> {
        let frame = match self.poll_incoming(task) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                std::task::ready!(self.wait(task));
                return Poll::Ready(Err(Error::ConnectionReadTimeout));
            }
        };
        self.is_waiting = false;
        Poll::Ready(match frame {
            None => {
                self.state = BodyState::Ended;
                Ok(None)
            }
            Some(Err(_)) => Err(Error::HttpResponseIncomplete),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => self.take(data),
                Err(frame) => self.take_trailers(frame.into_trailers().unwrap_or_default()),
            },
        })
    }

    /// Ready after the read timeout.
    fn wait(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let between_bytes = self.context.between_bytes;
        let begins = !std::mem::replace(&mut self.is_waiting, true);
        match &mut self.read_timeout {
            Some(read_timeout) if begins => read_timeout.as_mut().reset(Instant::now() + between_bytes),
            Some(_) => {}
            None => self.read_timeout = Some(Box::pin(sleep(between_bytes))),
        }
        self.read_timeout.as_mut().map_or(Poll::Pending, |read_timeout| read_timeout.as_mut().poll(task))
    }

    /// Polls the body, and drives the connection if it has no frame.
    fn poll_incoming(&mut self, task: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(task);
        if frame.is_ready() {
            return frame;
        }
        self.context.connection.iter_mut().for_each(|connection| connection.drive(task));
        Pin::new(&mut self.incoming).poll_frame(task)
    }

    fn take(&mut self, data: Bytes) -> Result<Option<Frame<Bytes>>, Error> {
        self.context.handle.count_received(data.len())?;
        if self.decoder.is_identity() {
            return Ok(self.scan(data));
        }
        self.has_content = true;
        self.pending = data;
        Ok(None)
    }

    fn decode(&mut self) -> Result<Option<Frame<Bytes>>, Error> {
        if self.decoder.is_identity() {
            // The first bytes showed that it is not compressed.
            let rest = std::mem::take(&mut self.pending);
            return Ok(self.scan(rest));
        }
        let step = self.pending.split_to(self.pending.remaining().min(self.decoder.step_bytes()));
        let decoded = self.decoder.step(&step).map_err(decode_error)?;
        if !self.decoder.is_identity() {
            self.context.handle.count_received(decoded.len())?;
        }
        Ok(self.scan(decoded.into()))
    }

    fn take_trailers(&mut self, mut trailers: HeaderMap) -> Result<Option<Frame<Bytes>>, Error> {
        self.context.handle.count_received(headers::wire_bytes(&trailers))?;
        if headers::wire_bytes(&trailers) > self.context.header_bytes {
            return Err(Error::HttpResponseTrailerSectionSize(None));
        }
        headers::clean_response(&mut trailers, self.context.scanner.as_ref());
        self.trailers = Some(trailers);
        self.state = BodyState::Ended;
        Ok(None)
    }

    fn finish(&mut self) -> Result<Option<Frame<Bytes>>, Error> {
        self.state = BodyState::Trailers;
        let rest = match self.has_content {
            true => self.decoder.finish().map_err(decode_error)?,
            false => Vec::new(),
        };
        self.context.handle.count_received(rest.len())?;
        let passed = self.scan(rest.into());
        if let (Some(connection), Some((pool, key))) = (self.context.connection.take(), &self.context.pool) {
            pool.put(key, connection);
        }
        // Drops the secrets now: a guest may keep the body of a response after its end.
        let held = self.context.scanner.take().map(Scanner::finish).unwrap_or_default();
        let passed = passed.and_then(|frame| frame.into_data().ok()).unwrap_or_default();
        self.context.handle.trace(|exchange| exchange.answer.add(&held));
        let whole: Bytes = if held.is_empty() { passed } else { [&passed[..], &held].concat().into() };
        Ok((!whole.is_empty()).then(|| Frame::data(whole)))
    }

    fn scan(&mut self, data: Bytes) -> Option<Frame<Bytes>> {
        let passed = match &mut self.context.scanner {
            Some(scanner) => scanner.push(&data).into(),
            None => data,
        };
        self.context.handle.trace(|exchange| exchange.answer.add(&passed));
        (!passed.is_empty()).then(|| Frame::data(passed))
    }

    fn fail(&mut self, error: &Error) {
        self.state = BodyState::Done;
        (self.context.connection, self.context.scanner) = (None, None);
        self.context.handle.record_failure(error, reason(error));
    }
}

fn decode_error(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::Unsupported => Error::HttpResponseContentCoding(None),
        _ => Error::HttpResponseIncomplete,
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        while self.state != BodyState::Done {
            match std::task::ready!(self.step(task)) {
                Ok(None) => {}
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Err(error) => {
                    self.fail(&error);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}
