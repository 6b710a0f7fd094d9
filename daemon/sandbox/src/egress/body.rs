//! The body that a guest sends: counted, framed by us, without its trailers.

use std::pin::Pin;
use std::sync::{Arc, Weak};
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
    /// Goes with this, once all of it is taken or nobody will take it; none where there is no content.
    unsent: Option<Arc<()>>,
}

/// Whether content of a request is still to be sent.
pub(super) struct Unsent(Option<Weak<()>>);

impl Unsent {
    pub(super) fn is_any(&self) -> bool {
        self.0.as_ref().is_some_and(|unsent| unsent.strong_count() > 0)
    }
}

impl GuestBody {
    pub(super) fn new(inner: WasiBody, length: Option<u64>, noted: Noted) -> Self {
        let unsent = (!inner.is_end_stream()).then(Arc::default);
        Self { inner, length, noted, unsent }
    }

    pub(super) fn unsent(&self) -> Unsent {
        Unsent(self.unsent.as_ref().map(Arc::downgrade))
    }

    fn count(&self, data: &Bytes) -> Result<(), Error> {
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
