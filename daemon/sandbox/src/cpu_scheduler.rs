//! Fair CPU scheduling of guests: round robin over organizations, so an organization with many guests gets no more CPU
//! time than one with a single guest.
//!
//! tokio polls tasks in the order in which they became ready. With a hundred busy guests, a request would wait for a
//! hundred time slices at each of its steps, and organizations would share the processors in proportion to their
//! calls. So at most as many guests are ready as there are processors; the others wait in a [`Queue`], one line for
//! each organization.
//!
//! A slice is one poll. An epoch tick ends it, but not the first tick of a call: nearly every call is shorter than a
//! tick, and yielding in its last microseconds would make others wait for its slot. A guest that yields keeps its slot
//! until tokio has polled all other ready tasks, sockets and timers, and passes it on only if another guest waits. A
//! guest that waits for the host releases its slot at once. Work of the daemon on long arguments and results takes a slot
//! too ([`Sandbox::turn`]), so that it counts to its organization, and leaves one processor to others. So a guest must be polled as soon as it is woken; never,
//! for example, from a response body, which waits for its reader.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread::Thread;
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::{Store, UpdateDeadline};

use crate::queue::{Queue, QueueSettings, Slot};

/// Bytes of arguments or of a result from which work on them takes a turn. To check fewer costs less than a tenth of a millisecond.
const TURN_BYTES: usize = 16 * 1024;

/// Time after which work goes on without a turn.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// Ticks without a guest after which the thread that ticks waits for one. To wake it costs a call more than some ticks.
const IDLE_TICKS: u32 = 100;

/// Processors available to this process, and so the number of threads for a runtime that runs guests.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Shares the processors among guests.
pub(crate) struct CpuScheduler {
    guests: Queue,
    /// Work outside of guests, on all processors but one. It cannot be interrupted, so that one is left for short calls.
    turns: Queue,
}

/// An organization's turn at a processor, for work outside of guests. Dropping it ends the turn.
#[derive(Debug)]
pub struct Turn {
    _turn: Slot,
    _guest: Slot,
}

/// Epoch ticks so far, and the guests that need them. Clones share both.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochTicks(Arc<Ticks>);

#[derive(Debug, Default)]
struct Ticks {
    /// Each tick counts once at its begin and once at its end.
    count: AtomicU64,
    guests: AtomicUsize,
    /// The thread that ticks waits for a guest.
    is_idle: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The time slices of one guest.
#[derive(Default)]
pub(crate) struct TimeSlice {
    ticks: EpochTicks,
    /// Completed ticks when the slice began.
    began: AtomicU64,
    /// Whether the guest yielded because its slice ended, and not to wait for the host.
    ended: AtomicBool,
    /// Processor time of the slices so far, in nanoseconds.
    cpu_ns: AtomicU64,
    /// Whether the guest counts among those that need ticks.
    entered: bool,
}

impl Drop for TimeSlice {
    fn drop(&mut self) {
        if self.entered {
            self.ticks.0.guests.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl CpuScheduler {
    pub(crate) fn new(processors: usize) -> Self {
        // The number of instances already bounds the number of waiting guests.
        let queue = |running| {
            Queue::new(QueueSettings {
                running,
                running_per_organization: running,
                waiting_per_organization: usize::MAX,
                waiting: usize::MAX,
            })
        };
        Self { guests: queue(processors), turns: queue(processors.saturating_sub(1).max(1)) }
    }

    pub(crate) async fn turn(&self, organization: &str, bytes: usize) -> Option<Turn> {
        if bytes < TURN_BYTES {
            return None;
        }
        let deadline = || Instant::now() + TURN_WAIT;
        let turn = async {
            let turn = self.turns.enter(organization, deadline).await.ok()?;
            Some(Turn { _turn: turn, _guest: self.guests.enter(organization, deadline).await.ok()? })
        };
        // Boxed, so that callers hold no room for what few of them await.
        Box::pin(turn).await
    }

    /// Runs a guest to completion in time slices. The caller enforces the deadline.
    ///
    /// The guest is pinned by the caller: moved into this future, it would take its size twice.
    pub(crate) async fn run<G: Future>(
        &self,
        organization: &str,
        deadline: Instant,
        slice: &TimeSlice,
        mut guest: Pin<&mut G>,
    ) -> G::Output {
        let mut kept_slot = None;
        loop {
            let slot = match kept_slot.take() {
                Some(slot) => {
                    // `yield_now` polls the I/O driver before this task runs again. Otherwise tokio would poll it only
                    // every 61 polls, that is, every 61 slices.
                    tokio::task::yield_now().await;
                    self.guests.yield_slot(slot, organization, deadline).await
                }
                None => self.guests.enter(organization, || deadline).await,
            };
            let Ok(slot) = slot else { return std::future::pending().await };
            slice.begin();
            let polled = std::future::poll_fn(|context| {
                let began = thread_cpu_time();
                let polled = guest.as_mut().poll(context);
                slice.add_cpu_time(thread_cpu_time().saturating_sub(began));
                Poll::Ready(polled)
            })
            .await;
            if let Poll::Ready(end) = polled {
                return end;
            }
            kept_slot = slice.take_ended().then_some(slot);
            // The guest registered its waker in the poll above; this pending poll returns to the runtime until then.
            let mut woken = false;
            std::future::poll_fn(|_| match std::mem::replace(&mut woken, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

/// Processor time of this thread. Only it tells what a guest used beside others: wall time counts theirs too.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

impl EpochTicks {
    /// Counts one tick; `tick` advances the epoch.
    pub(crate) fn tick(&self, tick: impl FnOnce()) {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        tick();
        self.0.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits for the next tick, in the thread that ticks. After some ticks without a guest it waits for one, so that an idle
    /// daemon leaves the processor alone.
    pub(crate) fn wait(&self, tick: Duration, without_guest: &mut u32) {
        if self.0.guests.load(Ordering::SeqCst) > 0 {
            *without_guest = 0;
        } else {
            *without_guest += 1;
        }
        if *without_guest < IDLE_TICKS {
            return std::thread::park_timeout(tick);
        }
        self.0.thread.get_or_init(std::thread::current);
        self.0.is_idle.store(true, Ordering::SeqCst);
        // A guest that begins after this look sees that the thread is idle.
        if self.0.guests.load(Ordering::SeqCst) == 0 {
            std::thread::park();
        }
        self.0.is_idle.store(false, Ordering::SeqCst);
    }

    fn enter(&self) {
        self.0.guests.fetch_add(1, Ordering::SeqCst);
        if self.0.is_idle.load(Ordering::SeqCst) {
            self.0.thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// Ticks that every guest has seen.
    pub(crate) fn completed_count(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst) / 2
    }

    /// Ticks that a guest may have seen.
    pub(crate) fn started_count(&self) -> u64 {
        self.0.count.load(Ordering::SeqCst).div_ceil(2)
    }
}

impl TimeSlice {
    /// Ends slices at epoch ticks, and calls `on_tick` at each tick.
    pub(crate) fn on_epoch_ticks<T: 'static>(
        store: &mut Store<T>,
        on_tick: fn(&mut T),
        ticks: &EpochTicks,
    ) -> Arc<Self> {
        ticks.enter();
        let mut slice = Self::default();
        (slice.ticks, slice.entered) = (ticks.clone(), true);
        let slice = Arc::new(slice);
        let state = Arc::clone(&slice);
        let mut is_first = true;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |mut store| {
            // The tick fell due while the guest waited for its slot.
            let was_due_before = state.ticks.started_count() == state.began.load(Ordering::Relaxed);
            on_tick(store.data_mut());
            if was_due_before || std::mem::take(&mut is_first) {
                return Ok(UpdateDeadline::Continue(1));
            }
            state.ended.store(true, Ordering::Relaxed);
            Ok(UpdateDeadline::Yield(1))
        });
        slice
    }

    /// Processor time of the guest so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu_ns.load(Ordering::Relaxed))
    }

    fn add_cpu_time(&self, time: Duration) {
        self.cpu_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn begin(&self) {
        self.began.store(self.ticks.completed_count(), Ordering::Relaxed);
    }

    fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::pin::pin;

    use parking_lot::Mutex;
    use tokio::io::AsyncReadExt;
    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    use super::*;

    const GUESTS: usize = 16;
    const SLICES: usize = 50;

    /// Pause between two looks at a condition.
    const PAUSE: Duration = Duration::from_millis(1);

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A busy guest: yields at the end of each slice.
    async fn busy_guest(
        scheduler: Arc<CpuScheduler>,
        organization: &'static str,
        polled: Arc<Mutex<Vec<&'static str>>>,
    ) {
        let slice = TimeSlice::default();
        let guest = pin!(async {
            for _ in 0..SLICES {
                polled.lock().push(organization);
                end_of_slice(&slice).await;
            }
        });
        scheduler.run(organization, soon(), &slice, guest).await;
    }

    /// Ends a slice as an epoch tick does.
    async fn end_of_slice(slice: &TimeSlice) {
        slice.ended.store(true, Ordering::Relaxed);
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
        let (scheduler, polled) = (Arc::new(CpuScheduler::new(1)), Arc::default());
        let mut guests = JoinSet::new();
        for _ in 0..GUESTS {
            guests.spawn(busy_guest(Arc::clone(&scheduler), "noisy", Arc::clone(&polled)));
        }
        guests.spawn(busy_guest(Arc::clone(&scheduler), "quiet", Arc::clone(&polled)));
        guests.join_all().await;
        let polled = polled.lock();
        assert_eq!(polled.len(), (GUESTS + 1) * SLICES);
        let first = polled.iter().position(|organization| *organization == "quiet").unwrap();
        let last = polled.iter().rposition(|organization| *organization == "quiet").unwrap();
        let beside = last - first + 1;
        assert!(beside <= 2 * SLICES, "its {SLICES} slices took as long as {beside} of all");
    }

    #[tokio::test]
    async fn r6_work_outside_of_guests_takes_turns_with_those_of_other_organizations() {
        let scheduler = CpuScheduler::new(1);
        let held = scheduler.turn("noisy", TURN_BYTES).await;
        let mut waiting = pin!(scheduler.turn("noisy", TURN_BYTES));
        assert!(is_pending(waiting.as_mut()).await);
        assert!(scheduler.turn("noisy", TURN_BYTES - 1).await.is_none(), "short work waits for nothing");
        let slice = TimeSlice::default();
        let work = pin!(std::future::ready(()));
        let mut guest = pin!(scheduler.run("quiet", soon(), &slice, work));
        assert!(is_pending(guest.as_mut()).await);
        drop(held);
        assert!(is_pending(waiting.as_mut()).await, "the other organization comes first");
        guest.await;
        assert!(waiting.await.is_some());
    }

    #[tokio::test]
    async fn r6_work_outside_of_guests_leaves_a_processor_to_guests() {
        let scheduler = CpuScheduler::new(2);
        let held = scheduler.turn("noisy", TURN_BYTES).await;
        let mut waiting = pin!(scheduler.turn("noisy", TURN_BYTES));
        assert!(is_pending(waiting.as_mut()).await);
        let (slice, work) = (TimeSlice::default(), pin!(std::future::ready(())));
        scheduler.run("quiet", soon(), &slice, work).await;
        drop(held);
        assert!(waiting.await.is_some());
    }

    #[tokio::test]
    async fn r6_before_each_slice_of_a_guest_the_runtime_looks_for_what_came_in() {
        let (mut sent, received) = std::os::unix::net::UnixStream::pair().unwrap();
        received.set_nonblocking(true).unwrap();
        let mut received = tokio::net::UnixStream::from_std(received).unwrap();
        let slices = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&slices);
        tokio::spawn(async move {
            let slice = TimeSlice::default();
            let guest = pin!(async {
                sent.write_all(b"!").unwrap();
                for _ in 0..SLICES {
                    counted.fetch_add(1, Ordering::Relaxed);
                    end_of_slice(&slice).await;
                }
            });
            CpuScheduler::new(1).run("noisy", soon(), &slice, guest).await;
        });
        received.read_u8().await.unwrap();
        assert_eq!(slices.load(Ordering::Relaxed), 1);
    }

    /// `(func (export "spin") (loop br 0))`
    const SPIN: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x08\x01\x04spin\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";

    #[tokio::test]
    #[allow(clippy::disallowed_methods, reason = "the pause between two looks at a condition")]
    async fn r6_a_tick_ends_the_turn_of_a_guest_but_not_its_first_and_not_one_that_was_due_before_it() {
        let engine = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true)).unwrap();
        let module = wasmtime::Module::new(&engine, SPIN).unwrap();
        let (ticks, seen) = (EpochTicks::default(), Arc::new(AtomicU64::new(0)));
        let mut store = Store::new(&engine, Arc::clone(&seen));
        let count = |seen: &mut Arc<AtomicU64>| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let slice = TimeSlice::on_epoch_ticks(&mut store, count, &ticks);
        let instance = wasmtime::Instance::new_async(&mut store, &module, &[]).await.unwrap();
        let spin = instance.get_typed_func::<(), ()>(&mut store, "spin").unwrap();
        let scheduler = CpuScheduler::new(1);
        let spinning = pin!(spin.call_async(&mut store, ()));
        let mut guest = pin!(scheduler.run("acme", soon(), &slice, spinning));
        engine.increment_epoch();
        let yielded = Arc::new(AtomicBool::new(false));
        let next_ticks = std::thread::spawn({
            let (engine, seen, yielded) = (engine.clone(), Arc::clone(&seen), Arc::clone(&yielded));
            move || {
                while seen.load(Ordering::Relaxed) < 1 {
                    std::thread::sleep(PAUSE);
                }
                // More ticks than are seen: a tick before the next deadline is set is lost.
                while !yielded.load(Ordering::Relaxed) {
                    ticks.tick(|| engine.increment_epoch());
                    std::thread::sleep(PAUSE);
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
        assert_eq!(scheduler.guests.running(), 1, "it keeps its slot while no other guest waits");
    }

    #[tokio::test]
    async fn r6_a_guest_that_waits_for_the_host_or_is_dropped_takes_no_turn_from_others() {
        let scheduler = CpuScheduler::new(1);
        let never = TimeSlice::default();
        let (answer, mut asked) = oneshot::channel();
        let mut waiting = pin!(scheduler.run("acme", soon(), &never, Pin::new(&mut asked)));
        assert!(is_pending(waiting.as_mut()).await);
        scheduler.run("acme", soon(), &never, pin!(std::future::ready(()))).await;
        answer.send(7).unwrap();
        assert_eq!(waiting.await, Ok(7));

        let ended = TimeSlice::default();
        ended.ended.store(true, Ordering::Relaxed);
        {
            let endless = pin!(std::future::pending::<()>());
            let mut kept = pin!(scheduler.run("acme", soon(), &ended, endless));
            assert!(is_pending(kept.as_mut()).await, "it keeps its slot");
            assert_eq!(scheduler.guests.running(), 1);
        }
        scheduler.run("acme", soon(), &never, pin!(std::future::ready(()))).await;
    }
}
