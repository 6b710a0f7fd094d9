//! Responses over HTTP/2 that their client does not read.
//!
//! A client that grants no window and answers pings would hold its connection for ever, and clients without a token so hold all
//! that they may have. hyper polls a body only if there is window for its next frame, so a body that is not polled again waits for
//! its client. Over HTTP/1.1, `client_stream` has a timeout for each write.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Shortest sleep between two looks.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The responses of one connection. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct StreamWatch(Arc<Mutex<Streams>>);

#[derive(Default)]
struct Streams {
    next_number: u64,
    /// The time since which a response waits for its client, by its number.
    unread_since: HashMap<u64, Instant>,
}

/// The body of a response that is watched until it is dropped.
pub(super) struct WatchedBody<B> {
    body: B,
    number: u64,
    watch: StreamWatch,
}

impl StreamWatch {
    /// Watches a body.
    pub(super) fn watch<B>(&self, body: B) -> WatchedBody<B> {
        let mut streams = self.0.lock();
        let number = streams.next_number;
        streams.next_number += 1;
        streams.unread_since.insert(number, Instant::now());
        WatchedBody { body, number, watch: self.clone() }
    }

    /// Resolves when a client has not read a response for this time.
    pub(super) async fn wait_for_stall(&self, longest: Duration) {
        loop {
            let oldest = self.0.lock().unread_since.values().min().copied();
            if oldest.is_some_and(|since| since.elapsed() >= longest) {
                return;
            }
            sleep_until(oldest.unwrap_or_else(Instant::now) + longest.max(SHORTEST_SLEEP)).await;
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let mut streams = self.watch.0.lock();
        match frame.is_pending() {
            true => streams.unread_since.remove(&self.number),
            false => streams.unread_since.insert(self.number, Instant::now()),
        };
        drop(streams);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        self.watch.0.lock().unread_since.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt, stream};
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn a_response_waits_for_its_client_until_it_is_read_or_has_nothing_to_send() {
        let watch = StreamWatch::default();
        let is_stalled = |longest| watch.wait_for_stall(longest).now_or_never().is_some();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _entered = runtime.enter();
        assert!(!is_stalled(Duration::ZERO), "without a response");
        let events = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"a"))]).chain(stream::pending());
        let mut quiet = watch.watch(Body::from_stream(events));
        assert!(is_stalled(Duration::ZERO) && !is_stalled(Duration::from_secs(600)));
        assert!(quiet.frame().now_or_never().is_some_and(|frame| frame.is_some()));
        assert!(is_stalled(Duration::ZERO), "the next frame is not asked for");
        assert!(quiet.frame().now_or_never().is_none());
        assert!(!is_stalled(Duration::ZERO), "there is no next frame yet");
        let other = watch.watch(Body::from("b"));
        assert!(is_stalled(Duration::ZERO), "another response of the connection");
        drop(other);
        assert!(!is_stalled(Duration::ZERO));
        drop(quiet);
        assert!(watch.0.lock().unread_since.is_empty());
    }
}
