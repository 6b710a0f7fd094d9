//! One connection to an upstream, driven by whoever uses it.
//!
//! Nothing drives it beside the request that it carries: no task is woken to read what this one waits for, and what is
//! dropped with the call is closed with it. One that is idle is looked at when it is wanted again. Only where an answer
//! begins while some of its request may not be sent does a task of its own go on sending, for as long as the connection
//! lasts: a guest may write all of it before it reads, or read all of the answer while the server still listens.

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
use super::heard::Heard;
use super::slots::Slot;

/// How long one is used at all, so that a host that moved is found again.
const AGE: Duration = Duration::from_secs(300);

type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Connection {
    sender: SendRequest<GuestBody>,
    driving: Driver,
    heard: Heard,
    opened: Instant,
}

/// What moves bytes. The slot is free once the socket is closed, so it goes with it and behind it.
enum Driver {
    Here(Driving, Slot),
    Apart(#[expect(dead_code, reason = "it ends the task when it is dropped")] Task),
    Ended,
}

/// A task that ends with whoever holds it.
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
        heard: Heard,
        driving: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { sender, driving: Driver::Here(Box::pin(driving), slot), heard, opened: Instant::now() }
    }

    /// Sends a request and waits for the head of its answer. What was not begun to be sent comes back with the error.
    pub(super) async fn send(
        &mut self,
        request: Request<GuestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<GuestBody>>> {
        self.heard.forget();
        let mut answer = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driving;
        poll_fn(|context| {
            driver.drive(context);
            answer.as_mut().poll(context)
        })
        .await
    }

    /// Whether anything of an answer came since the last request was sent.
    pub(super) fn was_answered(&self) -> bool {
        self.heard.anything()
    }

    /// Moves bytes as far as they go.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        self.driving.drive(context);
    }

    /// Has a task of its own move bytes from now on.
    pub(super) fn drive_apart(&mut self) {
        self.driving = match std::mem::replace(&mut self.driving, Driver::Ended) {
            Driver::Here(driving, slot) => Driver::Apart(Task(tokio::spawn(async move {
                driving.await;
                drop(slot);
            }))),
            other => other,
        };
    }

    /// Whether the next request can go by it, as far as its server was heard.
    pub(super) fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready() && !self.is_spent()
    }

    /// Whether no request will go by it, as far as is known without looking.
    pub(super) fn is_spent(&self) -> bool {
        self.is_closed() || self.opened.elapsed() >= AGE
    }

    /// Whether it ended, as far as is known without looking.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Driver {
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Self::Here(driving, _) = self
            && driving.as_mut().poll(context) == Poll::Ready(())
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
        let mut connection = Connection::new(sender, slot, Heard::default(), driving);
        assert!(connection.is_usable());
        connection.opened = connection.opened.checked_sub(AGE).expect("the clock is older");
        assert!(!connection.is_usable());
    }
}
