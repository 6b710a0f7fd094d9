//! Guests take turns on the processors, by organization: who runs many of them does not get more than who runs one.
//!
//! The runtime polls whatever is ready in the order in which it became ready. With a hundred guests that compute, a request
//! would wait for a hundred of their slices at each of its steps, and organizations would have processors by the number of
//! their calls. So no more guests are ready at a time than there are processors; the others wait in a queue of this
//! module, each organization in a line of its own.
//!
//! A turn is one poll, which the epoch ends. A guest that yields keeps its place until the runtime comes back to it, which
//! is after everything else that is ready, and gives it up then if somebody waits. One that waits for the host gives it up
//! at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::time::Instant;
use wasmtime::{Store, UpdateDeadline};

use crate::queue::{Queue, QueueSettings};

/// The processors, as guests share them.
pub struct Turns(Queue);

/// Whether a guest stopped because its turn was over, and not to wait for the host.
pub struct Yielded(Arc<AtomicBool>);

impl Turns {
    /// Those of this machine, on each of which the runtime has a thread.
    pub fn of_this_machine() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn new(processors: usize) -> Self {
        // How many wait is bounded already, by the instances that there are.
        Self(Queue::new(QueueSettings {
            running: processors,
            waiting_per_organization: usize::MAX,
            waiting: usize::MAX,
        }))
    }

    /// Runs a guest to its end, a turn at a time. Whoever calls ends it at its deadline.
    pub async fn take<G: Future>(
        &self,
        organization: &str,
        deadline: Instant,
        yielded: &Yielded,
        guest: G,
    ) -> G::Output {
        let mut guest = pin!(guest);
        let mut kept = None;
        loop {
            let place = match kept.take() {
                Some(place) => self.0.again(place, organization, deadline).await,
                None => self.0.enter(organization, deadline).await,
            };
            let Ok(place) = place else { return std::future::pending().await };
            let polled = std::future::poll_fn(|context| Poll::Ready(guest.as_mut().poll(context))).await;
            if let Poll::Ready(end) = polled {
                return end;
            }
            kept = yielded.0.swap(false, Ordering::Relaxed).then_some(place);
            // Whatever woke the guest wakes this.
            let mut woken = false;
            std::future::poll_fn(|_| match std::mem::replace(&mut woken, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

impl Yielded {
    /// Has the guests of a store yield at every tick of the epoch.
    pub fn at_every_tick<T: 'static>(store: &mut Store<T>) -> Self {
        let yielded = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&yielded);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            told.store(true, Ordering::Relaxed);
            Ok(UpdateDeadline::Yield(1))
        });
        Self(yielded)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    use super::*;

    const GUESTS: usize = 16;
    const SLICES: usize = 50;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A guest that computes: it yields at the end of each slice.
    async fn computing(turns: Arc<Turns>, organization: &'static str, polled: Arc<Mutex<Vec<&'static str>>>) {
        let flag = Arc::new(AtomicBool::new(false));
        let yielded = Yielded(Arc::clone(&flag));
        let guest = async {
            for _ in 0..SLICES {
                polled.lock().unwrap_or_else(PoisonError::into_inner).push(organization);
                flag.store(true, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        };
        turns.take(organization, soon(), &yielded, guest).await;
    }

    async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
        std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn r6_organizations_have_processors_alike_however_many_guests_they_run() {
        let (turns, polled) = (Arc::new(Turns::new(1)), Arc::default());
        let mut guests = JoinSet::new();
        for _ in 0..GUESTS {
            guests.spawn(computing(Arc::clone(&turns), "noisy", Arc::clone(&polled)));
        }
        guests.spawn(computing(Arc::clone(&turns), "quiet", Arc::clone(&polled)));
        guests.join_all().await;
        let polled = polled.lock().unwrap();
        assert_eq!(polled.len(), (GUESTS + 1) * SLICES);
        let first = polled.iter().position(|organization| *organization == "quiet").unwrap();
        let last = polled.iter().rposition(|organization| *organization == "quiet").unwrap();
        let beside = last - first + 1;
        assert!(beside <= 2 * SLICES, "its {SLICES} slices took as long as {beside} of all");
    }

    #[tokio::test]
    async fn r6_a_guest_that_waits_for_the_host_or_is_dropped_takes_no_turn_from_others() {
        let turns = Turns::new(1);
        let never = Yielded(Arc::default());
        let (answer, asked) = oneshot::channel();
        let mut waiting = pin!(turns.take("acme", soon(), &never, asked));
        assert!(is_pending(waiting.as_mut()).await);
        turns.take("acme", soon(), &never, std::future::ready(())).await;
        answer.send(7).unwrap();
        assert_eq!(waiting.await, Ok(7));

        let yielded = Yielded(Arc::new(AtomicBool::new(true)));
        {
            let mut kept = pin!(turns.take("acme", soon(), &yielded, std::future::pending::<()>()));
            assert!(is_pending(kept.as_mut()).await, "it keeps its place");
            assert!(turns.0.try_enter().is_none());
        }
        turns.take("acme", soon(), &never, std::future::ready(())).await;
    }
}
