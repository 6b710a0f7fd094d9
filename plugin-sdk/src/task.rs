//! A minimal executor for `async` tools: one task on one thread, which blocks in the host until a pollable is ready.
//!
//! Nothing is spawned, and a call's futures end with the call.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

#[cfg(not(target_family = "wasm"))]
pub use native::sleep;
#[cfg(target_family = "wasm")]
pub use reactor::{sleep, wait_for};

/// Runs a future to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = park::waker();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        park::park();
    }
}

#[cfg(target_family = "wasm")]
mod park {
    //! `block_on` polls the only task after each wait, so its own waker does nothing.

    use std::task::Waker;

    pub(super) fn waker() -> Waker {
        Waker::noop().clone()
    }

    pub(super) fn park() {
        super::reactor::wait();
    }
}

#[cfg(not(target_family = "wasm"))]
mod park {
    //! In native tests, another thread may wake the task.

    use std::sync::Arc;
    use std::task::{Wake, Waker};
    use std::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    pub(super) fn waker() -> Waker {
        Arc::new(Unpark(thread::current())).into()
    }

    pub(super) fn park() {
        thread::park();
    }
}

#[cfg(not(target_family = "wasm"))]
mod native {
    //! Timers for native tests.

    use std::future::poll_fn;
    use std::task::Poll;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Waits for a duration.
    #[allow(clippy::disallowed_methods, reason = "this is a timer")]
    pub async fn sleep(duration: Duration) {
        let until = Instant::now() + duration;
        poll_fn(|context| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            // One thread for each poll: tests are small and have no runtime.
            let waker = context.waker().clone();
            thread::spawn(move || {
                thread::sleep(left);
                waker.wake();
            });
            Poll::Pending
        })
        .await;
    }
}

#[cfg(target_family = "wasm")]
mod reactor {
    //! A reactor on `wasi:io/poll`.

    use std::cell::RefCell;
    use std::future::{Future, poll_fn};
    use std::rc::{Rc, Weak};
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use wasip2::clocks::monotonic_clock;
    use wasip2::io::poll::{self, Pollable};

    /// A pollable and the waker of its task. The waiting future owns it; the reactor has a weak reference.
    struct Interest {
        pollable: Pollable,
        /// None before the future is first polled, and after it was woken.
        waker: RefCell<Option<Waker>>,
    }

    thread_local! {
        static WAITING: RefCell<Vec<Weak<Interest>>> = const { RefCell::new(Vec::new()) };
    }

    /// Waits until the pollable is ready.
    pub fn wait_for(pollable: Pollable) -> impl Future<Output = ()> {
        let interest = Rc::new(Interest { pollable, waker: RefCell::new(None) });
        WAITING.with_borrow_mut(|waiting| waiting.push(Rc::downgrade(&interest)));
        poll_fn(move |context| {
            if interest.pollable.ready() {
                return Poll::Ready(());
            }
            interest.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        })
    }

    /// Waits for a duration.
    pub async fn sleep(duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        wait_for(monotonic_clock::subscribe_duration(nanoseconds)).await;
    }

    /// Blocks in the host until a pollable is ready, and wakes its task.
    pub(super) fn wait() {
        let waiting: Vec<Rc<Interest>> = WAITING.with_borrow_mut(|waiting| {
            waiting.retain(|interest| interest.strong_count() > 0);
            waiting
                .iter()
                .filter_map(Weak::upgrade)
                .filter(|interest| interest.waker.borrow().is_some())
                .collect()
        });
        // Nothing can wake the task: a panic in the log is better than a call that hangs until its deadline.
        assert!(!waiting.is_empty(), "the tool awaits a future that the host cannot wake");

        let pollables: Vec<&Pollable> = waiting.iter().map(|interest| &interest.pollable).collect();
        for ready in poll::poll(&pollables) {
            if let Some(waker) = waiting[ready as usize].waker.take() {
                waker.wake();
            }
        }
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;
    use std::thread;

    use super::*;

    #[test]
    fn a_ready_future_returns_its_output() {
        assert_eq!(block_on(async { 1 + 1 }), 2);
    }

    #[test]
    fn a_native_test_can_sleep() {
        let (began, nap) = (std::time::Instant::now(), std::time::Duration::from_millis(2));
        block_on(sleep(nap));
        assert!(began.elapsed() >= nap);
    }

    #[test]
    fn another_thread_can_wake_the_future() {
        let mut is_polled = false;
        let woken = poll_fn(|context| {
            if is_polled {
                return Poll::Ready("woken");
            }
            is_polled = true;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        });

        assert_eq!(block_on(woken), "woken");
    }
}
