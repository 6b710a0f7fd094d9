//! Guests take turns on the processors, by organization: who runs many of them does not get more than who runs one.
//!
//! The runtime polls whatever is ready in the order in which it became ready. With a hundred guests that compute, a request
//! would wait for a hundred of their slices at each of its steps, and organizations would have processors by the number of
//! their calls. So no more guests are ready at a time than there are processors; the others wait in a queue of this
//! module, each organization in a line of its own.
//!
//! A turn is one poll, which the epoch ends, though not at the first tick that a call meets: nearly every call is shorter than
//! the time between two, and one that stopped for a moment of its last microseconds would make others wait for its place. A
//! guest that yields keeps its place until the runtime comes back to it, which is after everything else that is ready and a
//! look at sockets and timers, and gives it up then if somebody waits. One that waits for the host gives it up at once. So
//! whoever runs guests polls them whenever they are woken: never, say, from the body of an answer, which waits for its reader.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use tokio::time::Instant;
use wasmtime::{Store, UpdateDeadline};

use crate::queue::{Queue, QueueSettings};

/// How many processors this process may use, and so how many threads a runtime for guests needs.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processors, as guests share them.
pub struct Turns(Queue);

/// Ticks of the epoch so far, each counted when it begins and when it is over. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Ticks(Arc<AtomicU64>);

/// The turn of one guest.
pub struct Turn(Arc<Now>);

#[derive(Default)]
struct Now {
    ticks: Ticks,
    /// The tick in which it began.
    began: AtomicU64,
    /// Whether the guest stopped because it was over, and not to wait for the host.
    over: AtomicBool,
}

impl Turns {
    pub fn new(processors: usize) -> Self {
        // How many wait is bounded already, by the instances that there are.
        Self(Queue::new(QueueSettings {
            running: processors,
            running_per_organization: processors,
            waiting_per_organization: usize::MAX,
            waiting: usize::MAX,
        }))
    }

    /// Runs a guest to its end, a turn at a time. Whoever calls ends it at its deadline.
    ///
    /// The caller pins it, since a future that it is moved into keeps room for it twice.
    pub async fn take<G: Future>(
        &self,
        organization: &str,
        deadline: Instant,
        turn: &Turn,
        mut guest: Pin<&mut G>,
    ) -> G::Output {
        let mut kept = None;
        loop {
            let place = match kept.take() {
                Some(place) => {
                    // The runtime looks for what came in before it comes back to whoever yields in this way. By itself it
                    // would do so after 61 polls, and as many slices.
                    tokio::task::yield_now().await;
                    self.0.again(place, organization, deadline).await
                }
                None => self.0.enter(organization, || deadline).await,
            };
            let Ok(place) = place else { return std::future::pending().await };
            turn.begin();
            let polled = std::future::poll_fn(|context| Poll::Ready(guest.as_mut().poll(context))).await;
            if let Poll::Ready(end) = polled {
                return end;
            }
            kept = turn.is_over().then_some(place);
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

impl Ticks {
    /// One more, which `tick` makes known to the guests.
    pub fn tick(&self, tick: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        tick();
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Those that every guest knows of.
    pub fn whole(&self) -> u64 {
        self.0.load(Ordering::SeqCst) / 2
    }

    /// Those that a guest may know of.
    pub fn begun(&self) -> u64 {
        self.0.load(Ordering::SeqCst).div_ceil(2)
    }
}

impl Turn {
    /// Turns that end at ticks of the epoch, of which `tick` is told.
    pub fn ended_by_ticks<T: 'static>(store: &mut Store<T>, tick: fn(&mut T), ticks: &Ticks) -> Self {
        let now = Arc::new(Now { ticks: ticks.clone(), ..Now::default() });
        let turn = Self(Arc::clone(&now));
        let mut is_first = true;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |mut store| {
            // It fell due while the guest waited for its turn.
            let fell_due_before = now.ticks.begun() == now.began.load(Ordering::Relaxed);
            tick(store.data_mut());
            if fell_due_before || std::mem::take(&mut is_first) {
                return Ok(UpdateDeadline::Continue(1));
            }
            now.over.store(true, Ordering::Relaxed);
            Ok(UpdateDeadline::Yield(1))
        });
        turn
    }

    fn begin(&self) {
        self.0.began.store(self.0.ticks.whole(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.0.over.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::pin::pin;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
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
        let now = Arc::<Now>::default();
        let turn = Turn(Arc::clone(&now));
        let guest = pin!(async {
            for _ in 0..SLICES {
                polled.lock().unwrap_or_else(PoisonError::into_inner).push(organization);
                end_of_slice(&now).await;
            }
        });
        turns.take(organization, soon(), &turn, guest).await;
    }

    /// As a tick of the epoch ends it.
    async fn end_of_slice(now: &Now) {
        now.over.store(true, Ordering::Relaxed);
        let mut goes_on = false;
        std::future::poll_fn(|context| match std::mem::replace(&mut goes_on, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
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
    async fn r6_before_each_slice_of_a_guest_the_runtime_looks_for_what_came_in() {
        let (mut sent, received) = std::os::unix::net::UnixStream::pair().unwrap();
        received.set_nonblocking(true).unwrap();
        let mut received = tokio::net::UnixStream::from_std(received).unwrap();
        let slices = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&slices);
        tokio::spawn(async move {
            let now = Arc::<Now>::default();
            let guest = pin!(async {
                sent.write_all(b"!").unwrap();
                for _ in 0..SLICES {
                    counted.fetch_add(1, Ordering::Relaxed);
                    end_of_slice(&now).await;
                }
            });
            Turns::new(1).take("noisy", soon(), &Turn(Arc::clone(&now)), guest).await;
        });
        received.read_u8().await.unwrap();
        assert_eq!(slices.load(Ordering::Relaxed), 1);
    }

    /// `(func (export "spin") (loop br 0))`
    const SPIN: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x08\x01\x04spin\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

    #[tokio::test]
    async fn r6_a_tick_ends_the_turn_of_a_guest_but_not_its_first_and_not_one_that_fell_due_before_it() {
        let engine = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true)).unwrap();
        let module = wasmtime::Module::new(&engine, SPIN).unwrap();
        let (ticks, seen) = (Ticks::default(), Arc::new(AtomicU64::new(0)));
        let mut store = Store::new(&engine, Arc::clone(&seen));
        let count = |seen: &mut Arc<AtomicU64>| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let turn = Turn::ended_by_ticks(&mut store, count, &ticks);
        let instance = wasmtime::Instance::new_async(&mut store, &module, &[]).await.unwrap();
        let spin = instance.get_typed_func::<(), ()>(&mut store, "spin").unwrap();
        let turns = Turns::new(1);
        let spinning = pin!(spin.call_async(&mut store, ()));
        let mut guest = pin!(turns.take("acme", soon(), &turn, spinning));
        engine.increment_epoch();
        let yielded = Arc::new(AtomicBool::new(false));
        let next_ticks = std::thread::spawn({
            let (engine, seen, yielded) = (engine.clone(), Arc::clone(&seen), Arc::clone(&yielded));
            move || {
                while seen.load(Ordering::Relaxed) < 1 {
                    std::thread::yield_now();
                }
                // More than are seen: one that comes before the runtime has set the next deadline is not.
                while !yielded.load(Ordering::Relaxed) {
                    ticks.tick(|| engine.increment_epoch());
                    std::thread::yield_now();
                }
            }
        });
        assert!(is_pending(guest.as_mut()).await);
        yielded.store(true, Ordering::Relaxed);
        next_ticks.join().unwrap();
        assert_eq!(
            seen.load(Ordering::Relaxed),
            3,
            "due before it, the first of the call, and the one that ends it"
        );
        assert_eq!(turns.0.running(), 1, "it keeps its place while nobody waits");
    }

    #[tokio::test]
    async fn r6_a_guest_that_waits_for_the_host_or_is_dropped_takes_no_turn_from_others() {
        let turns = Turns::new(1);
        let never = Turn(Arc::default());
        let (answer, mut asked) = oneshot::channel();
        let mut waiting = pin!(turns.take("acme", soon(), &never, Pin::new(&mut asked)));
        assert!(is_pending(waiting.as_mut()).await);
        turns.take("acme", soon(), &never, pin!(std::future::ready(()))).await;
        answer.send(7).unwrap();
        assert_eq!(waiting.await, Ok(7));

        let over = Turn(Arc::default());
        over.0.over.store(true, Ordering::Relaxed);
        {
            let endless = pin!(std::future::pending::<()>());
            let mut kept = pin!(turns.take("acme", soon(), &over, endless));
            assert!(is_pending(kept.as_mut()).await, "it keeps its place");
            assert_eq!(turns.0.running(), 1);
        }
        turns.take("acme", soon(), &never, pin!(std::future::ready(()))).await;
    }
}
