//! Where records wait for the writer: a short lock around a push, and the rules of when the writer wakes.
//!
//! A record gets its sequence and its place here, under the lock; serializing and hashing its payload
//! happened before, in the caller's thread, and everything that touches the disk happens after, in the
//! writer's. Nobody holds the lock across I/O.
//!
//! The writer is woken when somebody waits for a sync, and when it sleeps for good and anything comes. In
//! between it lingers for a moment after each group: under load, intents cost no wake-up and ride along with
//! the next outcome; a call that runs longer than that has its intent handed to the kernel, so that a killed
//! daemon shows it as `unknown`.
//!
//! A sync takes as long for one call as for sixty. Whoever was told of the last group tends to be back with
//! the next call soon, so a group is held back until as many wait as are expected: of those of the last group
//! and those who came during its sync, all where a sync takes long, and half where it is quick, so that one
//! half is computed while the other is synced. It is held back no longer than a sync takes, and how long is
//! learnt: longer where waiting brought company, shorter where it did not, as beside calls that take their
//! time. Without this each sync would take along the few who came during the one before; with more patience
//! all would be waited for, and the processors would have nothing to do.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::AuditError;
use super::format::RecordKind;
use super::room::{Claim, Place, Room};

/// How long records without a waiter stay in memory.
const LINGER: Duration = Duration::from_millis(2);
/// Records without a waiter are written once there are this many bytes of them.
const UNWRITTEN_BYTES_MAX: usize = 1024 * 1024;
/// Between attempts to get a spare segment from a disk that had no room.
const SPARE_RETRY: Duration = Duration::from_millis(200);

/// A group is held back for those who are expected at most as long as a sync takes, and no longer than this,
/// however slow the disk is.
const PATIENCE_MAX: Duration = Duration::from_millis(2);
/// A sync that takes less is quick: what calls compute takes about as long. With 16 connections on two processors and a
/// disk that syncs in 0.1 ms, waiting for all instead of half cost 15 % of the calls that `tests/benches/http.sh` makes: the processors had nothing
/// to do during the sync. On a disk that is much slower than they are, halves would wait for each other's sync.
const SYNC_QUICK: Duration = Duration::from_micros(400);
/// The part of the most that is waited where waiting brought nobody.
const PATIENCE_LEAST: u32 = 16;

/// Bytes that a group keeps room for: one burst must not hold its size in memory for ever.
const KEPT_BYTES: usize = 1024 * 1024;

/// A record on its way to the writer.
pub struct Pending {
    /// Its size in the bytes of its group.
    pub length: usize,
    pub kind: RecordKind,
    pub of: u64,
    pub sequence: u64,
    pub begins_segment: bool,
}

/// What the writer takes at once.
#[derive(Default)]
pub struct Group {
    /// The records, one behind the other.
    pub bytes: Vec<u8>,
    pub records: Vec<Pending>,
    pub waiters: Vec<Waiter>,
    pub sync: bool,
    pub wants_spare: bool,
    /// Filled in by the writer.
    pub sync_took: Duration,
}

impl Group {
    /// Keeps the capacity, so that a group costs no allocations of its own.
    fn empty(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.records.clear();
        self.waiters.clear();
        (self.sync, self.wants_spare, self.sync_took) = (false, false, Duration::ZERO);
    }
}

pub type Waiter = oneshot::Sender<Result<(), AuditError>>;

/// Resolves when a record is on disk, or never will be. Dropping it takes nothing back.
#[must_use = "a record counts when it is on disk: await this"]
pub struct Durable(Wait);

enum Wait {
    Decided(Option<Result<(), AuditError>>),
    Group(oneshot::Receiver<Result<(), AuditError>>),
}

impl Durable {
    pub fn decided(result: Result<(), AuditError>) -> Self {
        Self(Wait::Decided(Some(result)))
    }
}

impl Future for Durable {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Wait::Decided(result) => Poll::Ready(result.take().unwrap_or(Err(AuditError::Closed))),
            Wait::Group(receiver) => {
                Pin::new(receiver).poll(context).map(|result| result.unwrap_or(Err(AuditError::Closed)))
            }
        }
    }
}

/// Counts since the start, for metrics, tests and benchmarks.
#[derive(Debug, Default)]
pub struct Counters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    pub segments: AtomicU64,
}

pub struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// Sequence of the last record on disk.
    durable: AtomicU64,
    pub counters: Counters,
}

struct State {
    group: Group,
    last_sequence: u64,
    open_calls: u64,
    room: Room,
    writer: WriterIs,
    /// As many waiters make a group whole.
    expected_waiters: usize,
    patience: Duration,
    /// How long the last sync took.
    sync_took: Duration,
    closing: bool,
    refusal: Option<AuditError>,
    no_spare_because: Arc<str>,
    spare_asked: Option<Instant>,
    /// The largest intent that was refused since there was room last.
    refused_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterIs {
    /// Will look again before it sleeps.
    Busy,
    /// Sleeps for a moment; a record that nobody waits for need not wake it.
    Lingering,
    /// Holds a group back; the last of those who are expected wakes it.
    Gathering,
    /// Sleeps until it is woken.
    Idle,
}

impl Queue {
    pub fn new(last_sequence: u64, open_calls: u64, room: Room) -> Self {
        let state = State {
            group: Group::default(),
            last_sequence,
            open_calls,
            room,
            writer: WriterIs::Busy,
            expected_waiters: 0,
            patience: Duration::ZERO,
            sync_took: Duration::ZERO,
            closing: false,
            refusal: None,
            no_spare_because: "the next segment is not there yet".into(),
            spare_asked: None,
            refused_bytes: 0,
        };
        Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
            durable: AtomicU64::new(last_sequence),
            counters: Counters::default(),
        }
    }

    /// Appends a record, to be written when somebody waits or the writer gets to it. Returns its sequence.
    pub fn append(&self, kind: RecordKind, of: u64, record: &[u8]) -> Result<u64, AuditError> {
        let mut state = self.lock();
        let sequence = self.push(&mut state, kind, of, record)?;
        self.rouse(state, false);
        Ok(sequence)
    }

    /// Appends a record, and asks for it to be on disk.
    pub fn append_durably(&self, kind: RecordKind, of: u64, record: &[u8]) -> Durable {
        let mut state = self.lock();
        match self.push(&mut state, kind, of, record) {
            Err(error) => Durable::decided(Err(error)),
            Ok(_) => self.wait(state),
        }
    }

    /// Asks for a record that was appended before to be on disk.
    pub fn durable(&self, sequence: u64) -> Durable {
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Durable::decided(Ok(()));
        }
        let state = self.lock();
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Durable::decided(Ok(()));
        }
        if let Some(error) = &state.refusal {
            return Durable::decided(Err(error.clone()));
        }
        self.wait(state)
    }

    pub fn last_sequence(&self) -> u64 {
        self.lock().last_sequence
    }

    /// Whether the next call can be recorded, also one as large as those that were refused. Where there is no room it
    /// asks for some: while no calls come, nobody else does.
    pub fn takes_calls(&self) -> Result<(), AuditError> {
        let mut state = self.lock();
        let (room, bytes) = (state.room, state.refused_bytes);
        let placed = self.place(&mut state, Claim::Intent, bytes);
        state.room = room;
        placed.map(drop)
    }

    /// Takes no more; the writer ends when it has written what is here.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.refusal.get_or_insert(AuditError::Closed);
        drop(state);
        self.wake.notify_all();
    }

    fn push(&self, state: &mut State, kind: RecordKind, of: u64, record: &[u8]) -> Result<u64, AuditError> {
        let Place { begins_segment } = self.place(state, claim_of(kind), record.len() as u64)?;
        match kind {
            RecordKind::CallOpen => state.open_calls += 1,
            RecordKind::CallClose => state.open_calls = state.open_calls.saturating_sub(1),
            _ => {}
        }
        state.last_sequence += 1;
        let (sequence, length) = (state.last_sequence, record.len());
        // Copied, so that what it was built in is free again at once, in the thread that it came from.
        state.group.bytes.extend_from_slice(record);
        state.group.records.push(Pending { length, kind, of, sequence, begins_segment });
        Ok(sequence)
    }

    fn place(&self, state: &mut State, claim: Claim, bytes: u64) -> Result<Place, AuditError> {
        if let Some(error) = &state.refusal {
            return Err(error.clone());
        }
        if let Some(place) = state.room.place(claim, bytes, state.open_calls) {
            return Ok(place);
        }
        if claim == Claim::Intent {
            state.refused_bytes = state.refused_bytes.max(bytes);
        }
        self.ask_for_spare(state);
        Err(AuditError::Full { reason: state.no_spare_because.clone() })
    }

    fn wait(&self, mut state: MutexGuard<'_, State>) -> Durable {
        let (sender, receiver) = oneshot::channel();
        state.group.waiters.push(sender);
        state.group.sync = true;
        self.rouse(state, true);
        Durable(Wait::Group(receiver))
    }

    fn rouse(&self, mut state: MutexGuard<'_, State>, now: bool) {
        let asleep = match state.writer {
            WriterIs::Busy => false,
            WriterIs::Lingering => now || state.group.bytes.len() >= UNWRITTEN_BYTES_MAX,
            WriterIs::Gathering => state.group.waiters.len() >= state.expected_waiters,
            WriterIs::Idle => true,
        };
        if asleep {
            state.writer = WriterIs::Busy;
            drop(state);
            self.wake.notify_one();
        }
    }

    fn ask_for_spare(&self, state: &mut State) {
        let lately = state.spare_asked.is_some_and(|at| at.elapsed() < SPARE_RETRY);
        if state.room.spare_bytes.is_none() && !lately {
            state.spare_asked = Some(Instant::now());
            state.group.wants_spare = true;
            state.writer = WriterIs::Busy;
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many make a group whole, of so many whose calls are under way.
fn expected(at_work: usize, sync_took: Duration) -> usize {
    if sync_took < SYNC_QUICK { at_work / 2 } else { at_work }
}

fn claim_of(kind: RecordKind) -> Claim {
    match kind {
        RecordKind::CallOpen => Claim::Intent,
        RecordKind::CallClose => Claim::Outcome,
        RecordKind::Effect => Claim::Effect,
        RecordKind::Admin | RecordKind::Recovery => Claim::Admin,
    }
}

/// The writer's side.
impl Queue {
    /// Waits for work and swaps it for the emptied `group` of the time before; false when the log is closed
    /// and everything is written.
    pub fn take(&self, group: &mut Group) -> bool {
        group.empty();
        let mut state = self.lock();
        let mut lingered = false;
        loop {
            if state.is_ripe(lingered) {
                state = self.gather(state);
                std::mem::swap(&mut state.group, group);
                return true;
            }
            if state.closing {
                return false;
            }
            state = if lingered { self.sleep(state) } else { self.linger(state, &mut lingered) };
            state.writer = WriterIs::Busy;
        }
    }

    /// Waits for those who are expected, if there are more of them and somebody is here to wait with.
    fn gather<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let came_first = state.group.waiters.len();
        let most = state.sync_took.min(PATIENCE_MAX);
        let patience = state.patience.clamp(most / PATIENCE_LEAST, most);
        let began = Instant::now();
        while state.group.sync && state.group.waiters.len() < state.expected_waiters && !state.closing {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                let all = state.group.waiters.len();
                let was_worth_it = (all - came_first) * 4 >= all;
                state.patience = if was_worth_it { patience * 2 } else { patience / 2 };
                break;
            }
            state.writer = WriterIs::Gathering;
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.writer = WriterIs::Busy;
        }
        state
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.writer = WriterIs::Idle;
        // Woken for a record that nobody waits for, the writer writes it at once: there was no load to ride
        // with.
        self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn linger<'a>(&self, mut state: MutexGuard<'a, State>, lingered: &mut bool) -> MutexGuard<'a, State> {
        state.writer = WriterIs::Lingering;
        let (state, timeout) = self.wake.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
        *lingered = timeout.timed_out();
        state
    }

    /// Tells how far the log is on disk, and everybody who waited for it.
    pub fn settle(&self, durable_sequence: u64, group: &mut Group) {
        self.durable.store(durable_sequence, Ordering::Release);
        if group.sync {
            let mut state = self.lock();
            let at_work = group.waiters.len() + state.group.waiters.len();
            state.expected_waiters = expected(at_work, group.sync_took);
            state.sync_took = group.sync_took;
        }
        for waiter in group.waiters.drain(..) {
            // Whoever hung up has its record all the same.
            let _ = waiter.send(Ok(()));
        }
    }

    /// The next segment is there, or why it is not.
    pub fn set_spare(&self, spare: Result<u64, Arc<str>>) {
        let mut state = self.lock();
        match spare {
            Ok(bytes) => (state.room.spare_bytes, state.refused_bytes) = (Some(bytes), 0),
            Err(reason) => state.no_spare_because = reason,
        }
    }

    /// Stops the log: everybody who waits, now or later, gets the error.
    pub fn fail(&self, error: &AuditError, waiters: &mut Vec<Waiter>) {
        let mut state = self.lock();
        state.refusal = Some(error.clone());
        let late = std::mem::take(&mut state.group);
        drop(state);
        for waiter in waiters.drain(..).chain(late.waiters) {
            let _ = waiter.send(Err(error.clone()));
        }
    }
}

impl State {
    fn is_ripe(&self, lingered: bool) -> bool {
        let group = &self.group;
        let written_anyway = lingered || self.closing || group.bytes.len() >= UNWRITTEN_BYTES_MAX;
        group.sync || group.wants_spare || (written_anyway && !group.records.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_sync_waits_for_half_and_a_slow_one_for_all_and_nobody_alone_waits_for_company() {
        let slow = SYNC_QUICK * 2;
        assert_eq!((expected(16, SYNC_QUICK / 2), expected(16, slow)), (8, 16));
        assert!(expected(1, SYNC_QUICK / 2) <= 1 && expected(1, slow) <= 1);
    }
}
