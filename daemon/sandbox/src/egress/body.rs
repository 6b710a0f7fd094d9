//! The body that a guest sends: counted, framed by us, without its trailers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wasmtime_wasi_http::{Error, WasiBody};

use super::record::Noted;

/// What leaves as the content of a request.
pub(super) struct GuestBody {
    inner: WasiBody,
    /// What the guest announced. Held to by `wasi:http`, and again by the framing that is made of it.
    length: Option<u64>,
    noted: Noted,
    /// Bytes that were taken so far. None where there is no content.
    taken: Option<Arc<AtomicUsize>>,
}

/// So much of a request is surely sent when all of it was taken: a socket has room for it when nothing else was sent.
const SENT_AT_ONCE_BYTES: usize = 16 * 1024;

/// How far the content of a request is, for who cannot see the body any more.
pub(super) struct Sending(Option<Arc<AtomicUsize>>);

impl Sending {
    /// Whether some of it may lie in a buffer, or is not taken yet. A body is dropped once all of it is taken.
    pub(super) fn may_go_on(&self) -> bool {
        self.0.as_ref().is_some_and(|taken| {
            Arc::strong_count(taken) > 1 || taken.load(Ordering::Relaxed) > SENT_AT_ONCE_BYTES
        })
    }
}

impl GuestBody {
    pub(super) fn new(inner: WasiBody, length: Option<u64>, noted: Noted) -> Self {
        let taken = (!inner.is_end_stream()).then(Arc::default);
        Self { inner, length, noted, taken }
    }

    pub(super) fn sending(&self) -> Sending {
        Sending(self.taken.clone())
    }

    fn count(&self, data: &Bytes) -> Result<(), Error> {
        if let Some(taken) = &self.taken {
            taken.fetch_add(data.len(), Ordering::Relaxed);
        }
        self.noted.trace(|exchange| exchange.body.add(data));
        self.noted.sent(data.len()).map_err(|_| Error::HttpRequestBodySize(None))
    }
}

impl Body for GuestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Some(self.count(&data).map(|()| Frame::data(data))),
                // Trailers: dropped, and nothing comes after them.
                Err(_) => None,
            },
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            Some(length) => SizeHint::with_exact(length),
            None => self.inner.size_hint(),
        }
    }
}
