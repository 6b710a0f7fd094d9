//! Keeps a request until the head of its response is known, so that it can be repeated with a renewed credential.
//!
//! A server that answers 401 has not processed the request (RFC 9110, 15.5.2), so every method may be repeated, if the host
//! still has all of its content.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use wasmtime_wasi_http::{Error, WasiBody};

use super::headers;

/// Largest content that is kept. Calls of MCP servers and declared APIs are smaller, and each running request may hold as much.
const REPLAY_BYTES: usize = 64 * 1024;

/// A copy of a request.
pub(super) struct Replay {
    head: Request<()>,
    length: Option<u64>,
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
struct Content {
    chunks: Vec<Bytes>,
    bytes: usize,
    has_ended: bool,
}

impl Replay {
    /// Splits a request into itself and its copy, which is filled while the request is sent.
    pub(super) fn of(request: Request<WasiBody>) -> (Self, Request<WasiBody>) {
        let (parts, inner) = request.into_parts();
        let mut head = Request::from_parts(parts.clone(), ());
        *head.extensions_mut() = Extensions::default();
        let content = Content { has_ended: inner.is_end_stream(), ..Content::default() };
        let content = Arc::new(Mutex::new(content));
        let length = headers::content_length(head.headers());
        let body = KeptBody { inner, content: Arc::clone(&content) };
        (Self { head, length, content }, Request::from_parts(parts, body.boxed_unsync()))
    }

    /// Returns the request again; `None` unless all of its content was sent and kept.
    pub(super) fn into_request(self) -> Option<Request<WasiBody>> {
        let mut content = self.content.lock();
        // hyper stops reading at the announced length.
        let is_whole = content.has_ended || self.length == u64::try_from(content.bytes).ok();
        if !is_whole || content.bytes > REPLAY_BYTES {
            return None;
        }
        let whole: Bytes = std::mem::take(&mut content.chunks).concat().into();
        let body = Full::new(whole).map_err(|never| match never {}).boxed_unsync();
        Some(self.head.map(|()| body))
    }
}

impl Content {
    fn keep(&mut self, chunk: &Bytes) {
        self.bytes = self.bytes.saturating_add(chunk.len());
        match self.bytes <= REPLAY_BYTES {
            true => self.chunks.push(chunk.clone()),
            false => self.chunks.clear(),
        }
    }
}

/// The content of the first request.
struct KeptBody {
    inner: WasiBody,
    content: Arc<Mutex<Content>>,
}

impl Body for KeptBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        let mut content = self.content.lock();
        match &frame {
            // Trailers are not sent.
            Some(Ok(frame)) => {
                frame.data_ref().into_iter().for_each(|data| content.keep(data));
                content.has_ended = frame.is_trailers() || self.inner.is_end_stream();
            }
            Some(Err(_)) => {}
            None => content.has_ended = true,
        }
        drop(content);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(content: &[u8], length: Option<usize>) -> Request<WasiBody> {
        let body = Full::new(Bytes::copy_from_slice(content)).map_err(|never| match never {});
        let mut request = Request::post("/mcp").header("x-kept", "a").body(body.boxed_unsync()).unwrap();
        if let Some(length) = length {
            request.headers_mut().insert("content-length", length.into());
        }
        request
    }

    /// Returns the content of the repeated request, after `is_sent` says whether the first one was sent.
    async fn repeat(first: Request<WasiBody>, is_sent: bool) -> Option<Bytes> {
        let (replay, mut sent) = Replay::of(first);
        if is_sent {
            while let Some(frame) = sent.body_mut().frame().await {
                frame.unwrap();
            }
        }
        let again = replay.into_request()?;
        assert_eq!((again.method().as_str(), again.uri().path()), ("POST", "/mcp"));
        assert_eq!(again.headers()["x-kept"], "a");
        Some(again.into_body().collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn c7_a_request_is_repeated_with_all_of_its_content_or_not() {
        let largest = vec![b'a'; REPLAY_BYTES];
        for content in [&b"{}"[..], b"", &largest] {
            assert_eq!(repeat(request(content, None), true).await.as_deref(), Some(content));
        }
        let larger = vec![b'a'; REPLAY_BYTES + 1];
        assert_eq!(repeat(request(&larger, Some(REPLAY_BYTES + 1)), true).await, None);
        assert_eq!(repeat(request(b"{}", Some(2)), false).await, None, "not sent");
        assert_eq!(repeat(request(b"", None), false).await.as_deref(), Some(&b""[..]), "nothing to send");
    }
}
