//! How far the log is on disk, how far the index is, and the bell between the two.
//!
//! The writer tells after each synced group, the indexer waits. It is not rung for every group: an index in
//! large batches costs a fraction of one in small ones, so the bell rings when the indexer sleeps for good,
//! when a whole batch is there, or when a search waits. With nothing to do the indexer sleeps without a
//! timer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::head::Head;

/// How long the indexer gathers records that no search waits for.
const GATHER: Duration = Duration::from_millis(250);
/// With this many records there, gathering ends.
pub const BATCH_RECORDS: u64 = 4000;

pub struct Progress {
    state: Mutex<State>,
    bell: Condvar,
}

struct State {
    durable: Head,
    indexed_sequence: u64,
    wanted_sequence: u64,
    indexer: IndexerIs,
    /// The index failed; it is tried again when a search asks for it.
    paused: bool,
    closing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexerIs {
    Busy,
    Gathering,
    Idle,
}

impl Progress {
    pub fn new(durable: Head) -> Self {
        let state = State {
            durable,
            indexed_sequence: 0,
            wanted_sequence: 0,
            indexer: IndexerIs::Busy,
            paused: false,
            closing: false,
        };
        Self { state: Mutex::new(state), bell: Condvar::new() }
    }

    pub fn durable(&self) -> Head {
        self.lock().durable
    }

    /// Called by the writer when a group is on disk.
    pub fn advance(&self, durable: Head) {
        let mut state = self.lock();
        state.durable = durable;
        let full = durable.sequence.saturating_sub(state.indexed_sequence) >= BATCH_RECORDS;
        self.ring(state, full);
    }

    /// Asks the indexer to get this far without gathering.
    pub fn want(&self, sequence: u64) {
        let mut state = self.lock();
        state.wanted_sequence = state.wanted_sequence.max(sequence);
        state.paused = false;
        self.ring(state, true);
    }

    pub fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        self.ring(state, true);
    }

    /// No more attempts until a search asks.
    pub fn pause(&self) {
        let mut state = self.lock();
        state.paused = true;
        state.wanted_sequence = 0;
    }

    fn ring(&self, mut state: MutexGuard<'_, State>, now: bool) {
        let asleep = match state.indexer {
            IndexerIs::Busy => false,
            IndexerIs::Gathering => now,
            IndexerIs::Idle => true,
        };
        if asleep {
            state.indexer = IndexerIs::Busy;
            drop(state);
            self.bell.notify_one();
        }
    }

    /// The indexer's side: waits until there is something to index beyond `indexed_sequence`, and says up to
    /// where; none when the log is closed.
    pub fn wait(&self, indexed_sequence: u64) -> Option<Head> {
        let mut state = self.lock();
        state.indexed_sequence = indexed_sequence;
        let mut gathered = false;
        loop {
            if state.closing {
                return None;
            }
            if state.is_due(gathered) {
                return Some(state.durable);
            }
            let nothing = state.durable.sequence <= indexed_sequence;
            state =
                if nothing || state.paused { self.sleep(state) } else { self.gather(state, &mut gathered) };
            state.indexer = IndexerIs::Busy;
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.indexer = IndexerIs::Idle;
        self.bell.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn gather<'a>(&self, mut state: MutexGuard<'a, State>, gathered: &mut bool) -> MutexGuard<'a, State> {
        state.indexer = IndexerIs::Gathering;
        let (state, timeout) = self.bell.wait_timeout(state, GATHER).unwrap_or_else(PoisonError::into_inner);
        *gathered = timeout.timed_out();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_due(&self, gathered: bool) -> bool {
        let waiting = self.durable.sequence.saturating_sub(self.indexed_sequence);
        waiting > 0
            && !self.paused
            && (gathered || waiting >= BATCH_RECORDS || self.wanted_sequence > self.indexed_sequence)
    }
}
