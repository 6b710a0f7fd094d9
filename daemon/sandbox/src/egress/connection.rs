//! A connection to an upstream, polled by the request that uses it.
//!
//! hyper's connection future is polled together with the request, without a task of its own: that saves a task switch for
//! each read, and dropping the call closes the socket. An idle connection is polled again before its next use. The
//! exception is a response that begins before its request was sent completely: then a task polls the connection until it
//! ends, since a guest may write its whole request before it reads, or read the whole response while it still writes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::body::GuestBody;
use super::read_tracker::ReadTracker;
use super::slots::Slot;

/// Longest use of a connection, so that a host that moved is resolved again.
const MAX_AGE: Duration = Duration::from_secs(300);

type ConnectionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Connection {
    sender: SendRequest<GuestBody>,
    driver: Driver,
    tracker: ReadTracker,
    opened: Instant,
}

/// Polls hyper's connection future. The slot is declared after the future, so it is released after the socket is closed.
enum Driver {
    Inline(ConnectionFuture, Slot),
    Spawned(#[expect(dead_code, reason = "dropping it aborts the task")] Task),
    Ended,
}

/// A task that is aborted on drop.
pub(super) struct Task(pub(super) JoinHandle<()>);

impl Task {
    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    pub(super) fn new(
        sender: SendRequest<GuestBody>,
        slot: Slot,
        tracker: ReadTracker,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { sender, driver: Driver::Inline(Box::pin(future), slot), tracker, opened: Instant::now() }
    }

    /// Sends a request and waits for the head of its response. A request that hyper did not begin to send is returned in
    /// the error.
    pub(super) async fn send(
        &mut self,
        request: Request<GuestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<GuestBody>>> {
        self.tracker.reset();
        let mut response = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        poll_fn(|context| {
            driver.drive(context);
            response.as_mut().poll(context)
        })
        .await
    }

    /// Whether any response byte was read since the last request was sent.
    pub(super) fn was_answered(&self) -> bool {
        self.tracker.has_read()
    }

    /// Reads and writes without waiting.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        self.driver.drive(context);
    }

    /// Spawns a task that polls the connection from now on.
    pub(super) fn drive_apart(&mut self) {
        self.driver = match std::mem::replace(&mut self.driver, Driver::Ended) {
            Driver::Inline(future, slot) => Driver::Spawned(Task(tokio::spawn(async move {
                future.await;
                drop(slot);
            }))),
            other => other,
        };
    }

    /// Polls the connection, and returns whether it can carry another request.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready() && !self.is_spent()
    }

    /// Whether the connection is closed or too old, without polling it.
    pub(super) fn is_spent(&self) -> bool {
        self.is_closed() || self.opened.elapsed() >= MAX_AGE
    }

    /// Whether the connection is closed, without polling it.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Driver {
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Self::Inline(future, _) = self
            && future.as_mut().poll(context) == Poll::Ready(())
        {
            *self = Self::Ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;

    use super::super::slots::Slots;
    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_too_old_is_not_used_again() {
        let (near, _far) = tokio::io::duplex(64);
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(near)).await;
        let (sender, driving) = shaken.expect("nothing is said yet");
        let slot = Slots::new(1, 1).take("acme", |_| {}).await;
        let driving = async move { drop(driving.await) };
        let mut connection = Connection::new(sender, slot, ReadTracker::default(), driving);
        assert!(connection.is_usable());
        connection.opened = connection.opened.checked_sub(MAX_AGE).expect("the clock is older");
        assert!(!connection.is_usable());
    }
}
