//! Calls outlive their callers: when a caller hangs up, its call goes on in a task of its own, so that its outcome or, for a
//! call that is stopped then, its effects and usage are recorded.
//!
//! Until then the call runs in its caller's task, which costs no hop to another one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;
use toolgate_macros::boxed;

/// Calls whose callers disconnected, and the token that ends all calls at shutdown.
#[derive(Debug, Default)]
pub struct DetachedCalls {
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

#[boxed]
impl DetachedCalls {
    /// No calls yet; `shutdown` ends them all.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { tasks: TaskTracker::new(), shutdown }
    }

    /// Cancelled when the daemon waits for calls no longer.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Tracks a task that contains calls: they are detached when it is dropped.
    pub fn track<F: Future>(&self, calls: F) -> TrackedFuture<F> {
        self.tasks.track_future(calls)
    }

    /// Stops all calls and waits for the detached ones.
    pub async fn close(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call that its caller awaits. Dropped before its end, it is detached, and stopped if it ends with its request.
pub(crate) struct DetachOnDrop<'a, T: Send + 'static> {
    call: Option<Call<T>>,
    stop: Option<CancellationToken>,
    detached: &'a DetachedCalls,
}

impl<'a, T: Send + 'static> DetachOnDrop<'a, T> {
    /// `stop` makes `call` end soon; a call without it goes on.
    pub(crate) fn new(detached: &'a DetachedCalls, stop: Option<CancellationToken>, call: Call<T>) -> Self {
        Self { call: Some(call), stop, detached }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let outcome = ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(outcome)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<'_, T> {
    fn drop(&mut self) {
        // Without a runtime the drop guards inside the call record its end.
        let (Some(call), Ok(runtime)) = (self.call.take(), Handle::try_current()) else { return };
        if let Some(stop) = &self.stop {
            stop.cancel();
        }
        self.detached.tasks.spawn_on(call, &runtime);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// A call that ends when it is stopped or released, and says which.
    fn call(
        stop: &CancellationToken,
        release: oneshot::Receiver<()>,
        ended: oneshot::Sender<&'static str>,
    ) -> Call<()> {
        let stop = stop.clone();
        Box::pin(async move {
            let end = tokio::select! {
                _ = release => "released",
                () = stop.cancelled() => "stopped",
            };
            let _ = ended.send(end);
        })
    }

    #[tokio::test]
    async fn r6_a_call_whose_caller_hangs_up_is_stopped_and_ends() {
        let (detached, stop) = (DetachedCalls::default(), CancellationToken::new());
        let ((_release, released), (ended, end)) = (oneshot::channel(), oneshot::channel());
        let mut awaited = DetachOnDrop::new(&detached, Some(stop.clone()), call(&stop, released, ended));
        assert!(futures_util::poll!(&mut awaited).is_pending());
        drop(awaited);
        assert_eq!(end.await, Ok("stopped"));
        detached.close().await;
    }

    #[tokio::test]
    async fn r6_a_call_that_outlives_its_request_goes_on_to_its_end() {
        let (detached, stop) = (DetachedCalls::default(), CancellationToken::new());
        let ((release, released), (ended, end)) = (oneshot::channel(), oneshot::channel());
        let mut awaited = DetachOnDrop::new(&detached, None, call(&stop, released, ended));
        assert!(futures_util::poll!(&mut awaited).is_pending());
        drop(awaited);
        release.send(()).unwrap();
        assert_eq!(end.await, Ok("released"));
        detached.close().await;
    }

    #[tokio::test]
    async fn a_call_whose_caller_waits_is_not_stopped() {
        let (detached, stop) = (DetachedCalls::default(), CancellationToken::new());
        let ((release, released), (ended, end)) = (oneshot::channel(), oneshot::channel());
        let awaited = DetachOnDrop::new(&detached, Some(stop.clone()), call(&stop, released, ended));
        release.send(()).unwrap();
        awaited.await;
        assert_eq!(end.await, Ok("released"));
        assert!(!stop.is_cancelled());
    }
}
