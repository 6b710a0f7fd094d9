//! Group commit: the queue between the callers and the writer.
//!
//! Under a short mutex a record gets its sequence and its place in a segment. Serializing and hashing the payload happen
//! before, in the caller's thread; all disk I/O happens after. The lock is never held across I/O.
//!
//! A request for a sync wakes the writer, and so does any record while the writer is idle. Otherwise the writer waits
//! [`FLUSH_DELAY`] after each group: under load, intents cause no wake-up and are written with the next outcome. The intent of
//! a call that takes longer is written to the page cache by then, so that after a kill of the daemon the call is `unknown`.
//!
//! A sync takes as long for one call as for sixty, and a caller that was answered tends to send its next call soon. So
//! the writer delays a group until the expected number of callers wait: those of the last group plus those that came during
//! its sync. On a slow disk it expects all of them, on a fast one half, so that one half computes while the other is synced.
//! The delay never exceeds the duration of a sync and adapts: it doubles if callers came while the writer waited, and halves
//! if not. Without a delay each sync would serve only the few that came during the previous one; with a longer delay the
//! processors would idle.
//!
//! A lone caller commits its outcome itself ([`CommitQueue::append_alone`]) while the writer sleeps: two changes of thread take
//! longer than a fast sync. Never more than one thread commits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::error::AuditError;
use super::format::RecordKind;
use super::space::{Placement, SpaceBudget, SpaceClass};

/// Longest time that records without a waiter stay in memory.
const FLUSH_DELAY: Duration = Duration::from_millis(2);
/// Size of the unwritten records at which they are written without a waiter.
const UNWRITTEN_BYTES_MAX: usize = 1024 * 1024;
/// Pause between attempts to allocate a spare segment on a full disk.
const SPARE_RETRY: Duration = Duration::from_millis(200);

/// Maximum commit delay, however long a sync takes.
const MAX_DELAY: Duration = Duration::from_millis(2);
/// Minimum commit delay, as a fraction (1/16) of the maximum.
const MIN_DELAY_DIVISOR: u32 = 16;
/// A faster sync takes about as long as the computing of a call. Measured with `tests/benches/http.sh`, 16 connections, two
/// processors and a disk that syncs in 0.1 ms: waiting for all callers instead of half cost 15 % of the calls, since the
/// processors idled during the sync. On a slow disk, halves would wait for each other's sync.
const FAST_SYNC: Duration = Duration::from_micros(400);

/// Buffer capacity that a group keeps, so that one burst does not hold its memory for ever.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;

/// A queued record.
pub(crate) struct PendingRecord {
    /// Size in the buffer of its group.
    pub length: usize,
    pub kind: RecordKind,
    pub of: u64,
    pub sequence: u64,
    pub begins_segment: bool,
}

/// The records that the writer takes, writes and syncs at once.
#[derive(Default)]
pub(crate) struct Group {
    /// The encoded records, concatenated.
    pub bytes: Vec<u8>,
    pub records: Vec<PendingRecord>,
    pub waiters: Vec<Waiter>,
    pub sync: bool,
    pub wants_spare: bool,
    /// Set by the writer.
    pub sync_took: Duration,
}

impl Group {
    /// Keeps the capacity, so that a group needs no allocations.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_BYTES_KEPT);
        self.records.clear();
        self.waiters.clear();
        (self.sync, self.wants_spare, self.sync_took) = (false, false, Duration::ZERO);
    }
}

pub(crate) type Waiter = oneshot::Sender<Result<(), AuditError>>;

/// Future that resolves when a record is on disk or has failed. Dropping it does not withdraw the record.
#[must_use = "a record counts when it is on disk: await this"]
pub struct Durable(DurableState);

enum DurableState {
    Ready(Option<Result<(), AuditError>>),
    Waiting(oneshot::Receiver<Result<(), AuditError>>),
}

impl Durable {
    pub fn ready(result: Result<(), AuditError>) -> Self {
        Self(DurableState::Ready(Some(result)))
    }
}

impl Future for Durable {
    type Output = Result<(), AuditError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            DurableState::Ready(result) => Poll::Ready(result.take().unwrap_or(Err(AuditError::Closed))),
            DurableState::Waiting(receiver) => {
                Pin::new(receiver).poll(context).map(|result| result.unwrap_or(Err(AuditError::Closed)))
            }
        }
    }
}

/// Counters since the start, for metrics, tests and benchmarks.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub groups: AtomicU64,
    pub syncs: AtomicU64,
    /// Time in syncs, in nanoseconds.
    pub sync_ns: AtomicU64,
    pub segments: AtomicU64,
}

pub(crate) struct CommitQueue {
    state: Mutex<State>,
    writer_wake: Condvar,
    /// Sequence of the last record on disk.
    durable: AtomicU64,
    /// The last sync was fast and served one caller, so the next one may commit alone. Read without the lock.
    is_quiet: AtomicBool,
    pub counters: Counters,
}

struct State {
    group: Group,
    last_sequence: u64,
    open_intents: u64,
    space: SpaceBudget,
    writer: WriterState,
    /// Number of waiters at which the group is committed without further delay.
    expected_waiters: usize,
    commit_delay: Duration,
    last_sync_took: Duration,
    /// A caller commits what was queued; the writer waits for it.
    alone: bool,
    closing: bool,
    /// Set once the log is closed or has failed.
    refusal: Option<AuditError>,
    no_spare_reason: Arc<str>,
    spare_requested: Option<Instant>,
    /// Size of the largest intent that was refused since the last allocation.
    refused_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// Checks the queue again before it sleeps.
    Busy,
    /// Waits [`FLUSH_DELAY`]; a record without a waiter does not wake it.
    FlushDelay,
    /// Delays a commit; the last expected waiter wakes it.
    CommitDelay,
    /// Sleeps until woken.
    Idle,
}

/// The callers' side.
impl CommitQueue {
    pub(crate) fn new(last_sequence: u64, open_intents: u64, space: SpaceBudget) -> Self {
        let state = State {
            group: Group::default(),
            last_sequence,
            open_intents,
            space,
            writer: WriterState::Busy,
            expected_waiters: 0,
            commit_delay: Duration::ZERO,
            last_sync_took: Duration::ZERO,
            alone: false,
            closing: false,
            refusal: None,
            no_spare_reason: "the next segment is not allocated yet".into(),
            spare_requested: None,
            refused_bytes: 0,
        };
        Self {
            state: Mutex::new(state),
            writer_wake: Condvar::new(),
            durable: AtomicU64::new(last_sequence),
            is_quiet: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Appends a record without requesting a sync. Returns its sequence.
    pub(crate) fn append(&self, kind: RecordKind, of: u64, record: &[u8]) -> Result<u64, AuditError> {
        let mut state = self.state.lock();
        let sequence = self.push(&mut state, kind, of, record)?;
        self.wake(state, false);
        Ok(sequence)
    }

    /// Appends a record and requests a sync.
    pub(crate) fn append_durably(&self, kind: RecordKind, of: u64, record: &[u8]) -> Durable {
        let mut state = self.state.lock();
        match self.push(&mut state, kind, of, record) {
            Err(error) => Durable::ready(Err(error)),
            Ok(_) => self.wait(state),
        }
    }

    /// Whether a caller may be the only one.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Relaxed)
    }

    /// Appends a record and moves all that is queued into `group`, which the caller must commit and [complete](Self::complete).
    /// Where another one commits or waits, or a segment would begin, requests a sync as [`CommitQueue::append_durably`] does.
    pub(crate) fn append_alone(
        &self,
        kind: RecordKind,
        of: u64,
        record: &[u8],
        group: &mut Group,
    ) -> Result<(), Durable> {
        let mut state = self.state.lock();
        if let Err(error) = self.push(&mut state, kind, of, record) {
            return Err(Durable::ready(Err(error)));
        }
        if !self.is_quiet() || !state.may_commit_alone() {
            return Err(self.wait(state));
        }
        group.clear();
        std::mem::swap(&mut state.group, group);
        (state.alone, group.sync) = (true, true);
        Ok(())
    }

    /// Requests a sync of a record that was appended before.
    pub(crate) fn durable(&self, sequence: u64) -> Durable {
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Durable::ready(Ok(()));
        }
        let state = self.state.lock();
        if self.durable.load(Ordering::Acquire) >= sequence {
            return Durable::ready(Ok(()));
        }
        if let Some(error) = &state.refusal {
            return Durable::ready(Err(error.clone()));
        }
        self.wait(state)
    }

    /// Records that are not on disk yet.
    pub(crate) fn lag(&self) -> u64 {
        self.last_sequence().saturating_sub(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn last_sequence(&self) -> u64 {
        self.state.lock().last_sequence
    }

    /// Returns an error if an intent as large as the refused ones would not fit. Also requests a spare segment then:
    /// while no calls come, nothing else does.
    pub(crate) fn takes_calls(&self) -> Result<(), AuditError> {
        let mut state = self.state.lock();
        let (space, bytes) = (state.space, state.refused_bytes);
        let reserved = self.reserve(&mut state, SpaceClass::Intent, bytes);
        state.space = space;
        reserved.map(drop)
    }

    /// Refuses further records; the writer ends after the queued ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        state.refusal.get_or_insert(AuditError::Closed);
        drop(state);
        self.writer_wake.notify_all();
    }

    fn push(&self, state: &mut State, kind: RecordKind, of: u64, record: &[u8]) -> Result<u64, AuditError> {
        let Placement { begins_segment } = self.reserve(state, kind.into(), record.len() as u64)?;
        match kind {
            kind if kind.is_intent() => state.open_intents += 1,
            RecordKind::Close => state.open_intents = state.open_intents.saturating_sub(1),
            _ => {}
        }
        state.last_sequence += 1;
        let (sequence, length) = (state.last_sequence, record.len());
        // Copied, so that the caller's buffer is freed in the thread that allocated it.
        state.group.bytes.extend_from_slice(record);
        state.group.records.push(PendingRecord { length, kind, of, sequence, begins_segment });
        Ok(sequence)
    }

    fn reserve(&self, state: &mut State, class: SpaceClass, bytes: u64) -> Result<Placement, AuditError> {
        if let Some(error) = &state.refusal {
            return Err(error.clone());
        }
        if let Some(placement) = state.space.reserve(class, bytes, state.open_intents) {
            return Ok(placement);
        }
        if class == SpaceClass::Intent {
            state.refused_bytes = state.refused_bytes.max(bytes);
        }
        self.request_spare(state);
        Err(AuditError::Full { reason: state.no_spare_reason.clone() })
    }

    fn wait(&self, mut state: MutexGuard<'_, State>) -> Durable {
        let (sender, receiver) = oneshot::channel();
        state.group.waiters.push(sender);
        state.group.sync = true;
        self.wake(state, true);
        Durable(DurableState::Waiting(receiver))
    }

    fn wake(&self, mut state: MutexGuard<'_, State>, sync: bool) {
        let must_wake = match state.writer {
            _ if state.alone => false,
            WriterState::Busy => false,
            WriterState::FlushDelay => sync || state.group.bytes.len() >= UNWRITTEN_BYTES_MAX,
            WriterState::CommitDelay => state.group.waiters.len() >= state.expected_waiters,
            WriterState::Idle => true,
        };
        if must_wake {
            state.writer = WriterState::Busy;
            drop(state);
            self.writer_wake.notify_one();
        }
    }

    fn request_spare(&self, state: &mut State) {
        let is_recent = state.spare_requested.is_some_and(|at| at.elapsed() < SPARE_RETRY);
        if state.space.spare_bytes.is_none() && !is_recent {
            state.spare_requested = Some(Instant::now());
            state.group.wants_spare = true;
            state.writer = WriterState::Busy;
            self.writer_wake.notify_one();
        }
    }
}

/// The writer's side.
impl CommitQueue {
    /// Waits for work and swaps it with `group`, whose content is dropped. Returns false when the log is closed and all
    /// records are written.
    pub(crate) fn take(&self, group: &mut Group) -> bool {
        group.clear();
        let mut state = self.state.lock();
        let mut flush_due = false;
        loop {
            if state.alone {
                state.writer = WriterState::Idle;
                self.writer_wake.wait(&mut state);
                state.writer = WriterState::Busy;
                continue;
            }
            if state.must_write(flush_due) {
                self.wait_for_more(&mut state);
                std::mem::swap(&mut state.group, group);
                return true;
            }
            if state.closing {
                return false;
            }
            if flush_due {
                // Idle until the next record, which is then written at once.
                state.writer = WriterState::Idle;
                self.writer_wake.wait(&mut state);
            } else {
                state.writer = WriterState::FlushDelay;
                flush_due = self.writer_wake.wait_for(&mut state, FLUSH_DELAY).timed_out();
            }
            state.writer = WriterState::Busy;
        }
    }

    /// Delays the commit until the expected callers wait or the delay is over; not at all without a waiter.
    fn wait_for_more(&self, state: &mut MutexGuard<'_, State>) {
        let waiters_before = state.group.waiters.len();
        let max_delay = state.last_sync_took.min(MAX_DELAY);
        let delay = state.commit_delay.clamp(max_delay / MIN_DELAY_DIVISOR, max_delay);
        let began = Instant::now();
        while state.group.sync && state.group.waiters.len() < state.expected_waiters && !state.closing {
            let left = delay.saturating_sub(began.elapsed());
            if left.is_zero() {
                let waiters = state.group.waiters.len();
                let was_worth_it = (waiters - waiters_before) * 4 >= waiters;
                state.commit_delay = if was_worth_it { delay * 2 } else { delay / 2 };
                break;
            }
            state.writer = WriterState::CommitDelay;
            self.writer_wake.wait_for(state, left);
            state.writer = WriterState::Busy;
        }
    }

    /// Records that the log is on disk up to `durable_sequence`, and resolves the futures of the group.
    pub(crate) fn complete(&self, durable_sequence: u64, group: &mut Group) {
        self.durable.store(durable_sequence, Ordering::Release);
        if group.sync {
            let mut state = self.state.lock();
            let alone = std::mem::take(&mut state.alone);
            let active = usize::from(alone) + group.waiters.len() + state.group.waiters.len();
            state.expected_waiters = expected_waiters(active, group.sync_took);
            state.last_sync_took = group.sync_took;
            // A group without records may have had nothing to sync, which tells nothing about the disk.
            if !group.records.is_empty() {
                self.is_quiet.store(active <= 1 && group.sync_took < FAST_SYNC, Ordering::Relaxed);
            }
            if alone && (state.closing || state.must_write(false) || !state.group.records.is_empty()) {
                self.writer_wake.notify_one();
            }
        }
        for waiter in group.waiters.drain(..) {
            // The receiver may be dropped; the record is durable all the same.
            let _ = waiter.send(Ok(()));
        }
    }

    /// Sets the size of the new spare segment, or the reason why there is none.
    pub(crate) fn set_spare(&self, spare: Result<u64, Arc<str>>) {
        let mut state = self.state.lock();
        match spare {
            Ok(bytes) => (state.space.spare_bytes, state.refused_bytes) = (Some(bytes), 0),
            Err(reason) => state.no_spare_reason = reason,
        }
    }

    /// Stops the log: every current and later waiter gets the error.
    pub(crate) fn fail(&self, error: &AuditError, waiters: &mut Vec<Waiter>) {
        let mut state = self.state.lock();
        state.refusal = Some(error.clone());
        state.alone = false;
        let queued = std::mem::take(&mut state.group);
        drop(state);
        self.writer_wake.notify_one();
        for waiter in waiters.drain(..).chain(queued.waiters) {
            let _ = waiter.send(Err(error.clone()));
        }
    }
}

impl State {
    /// Whether the writer sleeps and no caller waits for a sync. Work that takes longer than a sync stays with the writer.
    fn may_commit_alone(&self) -> bool {
        let group = &self.group;
        let is_asleep = matches!(self.writer, WriterState::Idle | WriterState::FlushDelay);
        let is_short = group.bytes.len() < UNWRITTEN_BYTES_MAX && !group.wants_spare;
        let is_idle = is_asleep && !self.alone && !self.closing && group.waiters.is_empty();
        is_idle && is_short && !group.records.iter().any(|record| record.begins_segment)
    }

    fn must_write(&self, flush_due: bool) -> bool {
        let group = &self.group;
        let must_flush = flush_due || self.closing || group.bytes.len() >= UNWRITTEN_BYTES_MAX;
        group.sync || group.wants_spare || (must_flush && !group.records.is_empty())
    }
}

/// Number of waiters to delay a commit for, of `active` callers.
fn expected_waiters(active: usize, sync_took: Duration) -> usize {
    if sync_took < FAST_SYNC { active / 2 } else { active }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_sync_waits_for_half_of_the_callers_a_slow_one_for_all_and_a_lone_caller_never_waits() {
        let slow = FAST_SYNC * 2;
        assert_eq!((expected_waiters(16, FAST_SYNC / 2), expected_waiters(16, slow)), (8, 16));
        assert!(expected_waiters(1, FAST_SYNC / 2) <= 1 && expected_waiters(1, slow) <= 1);
    }

    /// Appends a record for a caller that would commit alone; `Some` has the group that it must commit.
    fn append_alone(queue: &CommitQueue) -> Option<Group> {
        let mut group = Group::default();
        queue.append_alone(RecordKind::Admin, 0, b"record", &mut group).is_ok().then_some(group)
    }

    #[test]
    fn a_lone_caller_commits_after_a_fast_sync_and_nobody_else_meanwhile() {
        let space = SpaceBudget { left_bytes: 1 << 20, spare_bytes: Some(1 << 20), reserve_bytes: 0 };
        let queue = CommitQueue::new(0, 0, space);
        let take = || {
            let mut group = Group::default();
            assert!(queue.take(&mut group), "the log is open");
            group
        };
        assert!(append_alone(&queue).is_none(), "no sync was measured yet");
        let sync = |mut group: Group, took| {
            group.sync_took = took;
            let last = group.records.last().expect("a record").sequence;
            queue.complete(last, &mut group);
        };
        sync(take(), FAST_SYNC / 2);
        let taken = std::thread::scope(|scope| {
            let writer = scope.spawn(take);
            while queue.state.lock().writer == WriterState::Busy {
                std::thread::yield_now();
            }
            let alone = append_alone(&queue).expect("the writer sleeps and no caller waits");
            assert!(append_alone(&queue).is_none(), "another one commits");
            assert!(append_alone(&queue).is_none(), "another one commits");
            sync(alone, FAST_SYNC / 2);
            writer.join().expect("no crash")
        });
        assert_eq!(taken.records.len(), 2, "the writer waits for the caller");
        sync(taken, FAST_SYNC * 2);
        assert!(!queue.is_quiet(), "the disk is slow");
        assert!(append_alone(&queue).is_none());
    }
}
