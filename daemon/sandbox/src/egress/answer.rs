//! The body of an answer on its way to the guest: waited for no longer than allowed, decoded, counted, and without the
//! secrets that its call may use.
//!
//! It owns the connection. When the last byte was read the connection goes back to the pool; dropped before, it is closed.

use std::future::Future;
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
use super::decode::{Decoder, STEP_BYTES};
use super::failure::words;
use super::headers;
use super::pool::{Key, Pool};
use super::record::Noted;
use super::scan::Scanner;

/// What belongs to an answer beside its own bytes.
pub(super) struct Around {
    pub(super) scanner: Option<Scanner>,
    pub(super) noted: Noted,
    pub(super) between_bytes: Duration,
    pub(super) header_bytes: usize,
    /// Until the end is read.
    pub(super) connection: Option<Connection>,
    /// Where the connection goes then; nowhere where its server ends it.
    pub(super) home: Option<(Pool, Arc<Key>)>,
}

/// The body.
pub(super) struct AnswerBody {
    incoming: Incoming,
    decoder: Decoder,
    around: Around,
    /// What is waited for at most; nothing before the first wait.
    patience: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    /// Came and is not decoded yet.
    pending: Bytes,
    /// Anything was decoded: an answer to HEAD names a coding and has no content.
    has_content: bool,
    trailers: Option<HeaderMap>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// Nothing more comes; what was held back is still here.
    Ended,
    Trailers,
    Done,
}

impl AnswerBody {
    pub(super) fn new(incoming: Incoming, decoder: Decoder, around: Around) -> Self {
        Self {
            incoming,
            decoder,
            patience: None,
            is_waiting: false,
            around,
            pending: Bytes::new(),
            has_content: false,
            trailers: None,
            state: State::Reading,
        }
    }

    /// One step; nothing where it brought nothing to pass on.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Error>> {
        match self.state {
            State::Reading if !self.pending.is_empty() => Poll::Ready(self.decode()),
            State::Reading => self.read(context),
            State::Ended => Poll::Ready(self.finish()),
            State::Trailers => {
                self.state = State::Done;
                Poll::Ready(Ok(self.trailers.take().map(Frame::trailers)))
            }
            State::Done => Poll::Ready(Ok(None)),
        }
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Error>> {
        let frame = match self.poll_incoming(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                std::task::ready!(self.wait(context));
                return Poll::Ready(Err(Error::ConnectionReadTimeout));
            }
        };
        self.is_waiting = false;
        Poll::Ready(match frame {
            None => {
                self.state = State::Ended;
                Ok(None)
            }
            Some(Err(_)) => Err(Error::HttpResponseIncomplete),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => self.take(data),
                Err(frame) => self.take_trailers(frame.into_trailers().unwrap_or_default()),
            },
        })
    }

    /// Ready when it was waited for too long.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let between_bytes = self.around.between_bytes;
        let begins = !std::mem::replace(&mut self.is_waiting, true);
        match &mut self.patience {
            Some(patience) if begins => patience.as_mut().reset(Instant::now() + between_bytes),
            Some(_) => {}
            None => self.patience = Some(Box::pin(sleep(between_bytes))),
        }
        self.patience.as_mut().map_or(Poll::Pending, |patience| patience.as_mut().poll(context))
    }

    /// What is there, or comes when the connection is driven.
    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let there = Pin::new(&mut self.incoming).poll_frame(context);
        if there.is_ready() {
            return there;
        }
        self.around.connection.iter_mut().for_each(|connection| connection.drive(context));
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn take(&mut self, data: Bytes) -> Result<Option<Frame<Bytes>>, Error> {
        self.count(data.len())?;
        if self.decoder.is_identity() {
            return Ok(self.scan(data));
        }
        self.has_content = true;
        self.pending = data;
        Ok(None)
    }

    fn decode(&mut self) -> Result<Option<Frame<Bytes>>, Error> {
        let step = self.pending.split_to(self.pending.remaining().min(STEP_BYTES));
        let decoded = self.decoder.step(&step).map_err(|_| Error::HttpResponseIncomplete)?;
        self.count(decoded.len())?;
        Ok(self.scan(decoded.into()))
    }

    fn take_trailers(&mut self, mut trailers: HeaderMap) -> Result<Option<Frame<Bytes>>, Error> {
        self.count(headers::bytes(&trailers))?;
        if headers::bytes(&trailers) > self.around.header_bytes {
            return Err(Error::HttpResponseTrailerSectionSize(None));
        }
        headers::clean_answer(&mut trailers, self.around.scanner.as_ref());
        self.trailers = Some(trailers);
        self.state = State::Ended;
        Ok(None)
    }

    fn finish(&mut self) -> Result<Option<Frame<Bytes>>, Error> {
        self.state = State::Trailers;
        let rest = match self.has_content {
            true => self.decoder.finish().map_err(|_| Error::HttpResponseIncomplete)?,
            false => Vec::new(),
        };
        self.count(rest.len())?;
        let passed = self.scan(rest.into());
        if let (Some(connection), Some((pool, key))) = (self.around.connection.take(), &self.around.home) {
            pool.put(key, connection);
        }
        // With it goes the secret, however long the guest holds on to an answer that it has read.
        let held = self.around.scanner.take().map(Scanner::finish).unwrap_or_default();
        let passed = passed.and_then(|frame| frame.into_data().ok()).unwrap_or_default();
        self.around.noted.trace(|exchange| exchange.answer.add(&held));
        let whole: Bytes = if held.is_empty() { passed } else { [&passed[..], &held].concat().into() };
        Ok((!whole.is_empty()).then(|| Frame::data(whole)))
    }

    fn scan(&mut self, data: Bytes) -> Option<Frame<Bytes>> {
        let passed = match &mut self.around.scanner {
            Some(scanner) => scanner.push(&data).into(),
            None => data,
        };
        self.around.noted.trace(|exchange| exchange.answer.add(&passed));
        (!passed.is_empty()).then(|| Frame::data(passed))
    }

    fn count(&self, bytes: usize) -> Result<(), Error> {
        self.around.noted.received(bytes).map_err(|_| Error::HttpResponseBodySize(None))
    }

    fn failed(&mut self, error: &Error) {
        self.state = State::Done;
        (self.around.connection, self.around.scanner) = (None, None);
        self.around.noted.failed(words(error));
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        while self.state != State::Done {
            match std::task::ready!(self.step(context)) {
                Ok(None) => {}
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Err(error) => {
                    self.failed(&error);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}
