//! Runs an `async` tool: one task on one thread, which sleeps in the host until something it waits for is ready.
//!
//! Not a runtime: nothing is spawned, and a call's futures end with the call.

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
    //! The one task is polled after each wait, so its own waker has nothing to do.

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
    //! In native tests another thread may wake the task.

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
    //! What tools wait for, in the native tests of their authors.

    use std::future::poll_fn;
    use std::task::Poll;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Waits for a while.
    #[allow(clippy::disallowed_methods, reason = "to sleep is what is asked for")]
    pub async fn sleep(duration: Duration) {
        let until = Instant::now() + duration;
        poll_fn(|context| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            // A thread for each poll: a test has few, and no runtime to ask.
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
    //! What the task waits for, as `wasi:io/poll` knows it.

    use std::cell::RefCell;
    use std::future::{Future, poll_fn};
    use std::rc::{Rc, Weak};
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use wasip2::clocks::monotonic_clock;
    use wasip2::io::poll::{self, Pollable};

    /// A pollable, and whom to wake. The future that waits owns it; the reactor only knows of it.
    struct Interest {
        pollable: Pollable,
        /// None while nobody waits: before the future is polled, and after it was woken.
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

    /// Waits for a while.
    pub async fn sleep(duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        wait_for(monotonic_clock::subscribe_duration(nanoseconds)).await;
    }

    /// Sleeps in the host until something is ready, and wakes who waits for it.
    pub(super) fn wait() {
        let waiting: Vec<Rc<Interest>> = WAITING.with_borrow_mut(|waiting| {
            waiting.retain(|interest| interest.strong_count() > 0);
            waiting
                .iter()
                .filter_map(Weak::upgrade)
                .filter(|interest| interest.waker.borrow().is_some())
                .collect()
        });
        // Nothing can ever wake the task: better a message in the log than a call that hangs until its deadline.
        assert!(!waiting.is_empty(), "the tool waits for something that is not the host's to give");

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
    fn a_future_that_is_ready_gives_its_output() {
        assert_eq!(block_on(async { 1 + 1 }), 2);
    }

    #[test]
    fn a_native_test_can_sleep() {
        let (began, nap) = (std::time::Instant::now(), std::time::Duration::from_millis(2));
        block_on(sleep(nap));
        assert!(began.elapsed() >= nap);
    }

    #[test]
    fn a_future_that_another_thread_wakes_ends() {
        let mut asked = false;
        let woken = poll_fn(|context| {
            if asked {
                return Poll::Ready("woken");
            }
            asked = true;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        });

        assert_eq!(block_on(woken), "woken");
    }
}
