//! A call is carried to its end, also where nobody waits for it any more: it is stopped then, and what it did and used
//! until then is recorded.
//!
//! It runs where its caller waits, in the same task, so that it costs no hop to another; it gets a task of its own when
//! its caller hangs up.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;

/// The calls whose callers are gone, and the end of all that run.
#[derive(Debug, Default)]
pub struct Carrying {
    left_alone: TaskTracker,
    over: CancellationToken,
}

impl Carrying {
    /// Cancelled when the daemon waits for no call any longer.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Counts a task that has calls in it, which its caller drops somewhere else: they are handed over when that happens.
    pub fn tracked<F: Future>(&self, calls: F) -> TrackedFuture<F> {
        self.left_alone.track_future(calls)
    }

    /// Waits for the ends of those whose callers are gone.
    pub async fn close(&self) {
        self.over.cancel();
        self.left_alone.close();
        self.left_alone.wait().await;
    }
}

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call, as long as its caller waits for it.
pub(super) struct Carried<'a, T: Send + 'static> {
    call: Option<Call<T>>,
    stop: CancellationToken,
    carrying: &'a Carrying,
}

impl<'a, T: Send + 'static> Carried<'a, T> {
    /// `stop` is what makes `call` end soon.
    pub fn new(carrying: &'a Carrying, stop: CancellationToken, call: Call<T>) -> Self {
        Self { call: Some(call), stop, carrying }
    }
}

impl<T: Send + 'static> Future for Carried<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Carried<'_, T> {
    fn drop(&mut self) {
        // Where the runtime is gone, its end is recorded as well as it can be by what is dropped with it.
        let (Some(call), Ok(runtime)) = (self.call.take(), Handle::try_current()) else { return };
        self.stop.cancel();
        self.carrying.left_alone.spawn_on(call, &runtime);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// A call that ends when it is stopped or told to, and says which.
    fn call(
        stop: &CancellationToken,
        told: oneshot::Receiver<()>,
        ended: oneshot::Sender<&'static str>,
    ) -> Call<()> {
        let stop = stop.clone();
        Box::pin(async move {
            let end = tokio::select! {
                _ = told => "told",
                () = stop.cancelled() => "stopped",
            };
            let _ = ended.send(end);
        })
    }

    #[tokio::test]
    async fn a_call_whose_caller_is_gone_is_stopped_and_ends() {
        let (carrying, stop) = (Carrying::default(), CancellationToken::new());
        let ((_tell, told), (ended, end)) = (oneshot::channel(), oneshot::channel());
        let mut carried = Carried::new(&carrying, stop.clone(), call(&stop, told, ended));
        assert!(futures_util::poll!(&mut carried).is_pending());
        drop(carried);
        assert_eq!(end.await, Ok("stopped"));
        carrying.close().await;
    }

    #[tokio::test]
    async fn a_call_whose_caller_waits_is_not_stopped() {
        let (carrying, stop) = (Carrying::default(), CancellationToken::new());
        let ((tell, told), (ended, end)) = (oneshot::channel(), oneshot::channel());
        let carried = Carried::new(&carrying, stop.clone(), call(&stop, told, ended));
        tell.send(()).unwrap();
        carried.await;
        assert_eq!(end.await, Ok("told"));
        assert!(!stop.is_cancelled());
    }
}
