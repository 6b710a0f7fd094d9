//! The body of a guest's request: counted, and without trailers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wasmtime_wasi_http::{Error, WasiBody};

use super::record::RequestHandle;

/// The content of a request.
pub(super) struct GuestBody {
    inner: WasiBody,
    /// The guest's `Content-Length`. `wasi:http` enforces it, and so does hyper's framing.
    length: Option<u64>,
    handle: RequestHandle,
    /// Bytes that hyper has taken_bytes so far. `None` if there is no content.
    taken_bytes: Option<Arc<AtomicUsize>>,
}

/// A body of this size is sent once hyper has taken it: the send buffer of an unused socket holds it.
const SOCKET_BUFFER_BYTES: usize = 16 * 1024;

/// Progress of a request body, after hyper took ownership of the body.
pub(super) struct SendProgress(Option<Arc<AtomicUsize>>);

impl SendProgress {
    /// Whether content may be buffered or not taken yet. hyper drops a body once it has taken all of it.
    pub(super) fn may_be_unsent(&self) -> bool {
        self.0.as_ref().is_some_and(|taken_bytes| {
            Arc::strong_count(taken_bytes) > 1 || taken_bytes.load(Ordering::Relaxed) > SOCKET_BUFFER_BYTES
        })
    }
}

impl GuestBody {
    pub(super) fn new(inner: WasiBody, length: Option<u64>, handle: RequestHandle) -> Self {
        let taken_bytes = (!inner.is_end_stream()).then(Arc::default);
        Self { inner, length, handle, taken_bytes }
    }

    pub(super) fn progress(&self) -> SendProgress {
        SendProgress(self.taken_bytes.clone())
    }

    fn count(&self, data: &Bytes) -> Result<(), Error> {
        if let Some(taken_bytes) = &self.taken_bytes {
            taken_bytes.fetch_add(data.len(), Ordering::Relaxed);
        }
        self.handle.trace(|exchange| exchange.body.add(data));
        self.handle.count_sent(data.len())
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
                // Trailers are dropped; no frame follows them.
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
