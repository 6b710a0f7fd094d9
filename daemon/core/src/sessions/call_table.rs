//! The calls of one session by id: each runs once, and the same id gets the same answer (R7).
//!
//! Answers are bounded by age, by the bytes of one session, and by the bytes of one organization (`organization.rs`). The
//! id of a dropped answer stays, so that it never runs again; the answer itself may still be on disk (`answers.rs`).
//!
//! A call that waits for a person or a client holds no request open. Approval, client result, expiry, cancellation and the
//! end of the session compete for it under one lock, and the first ends it. A client result that is being recorded keeps
//! the others away until it is on disk or dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::answers::SessionAnswers;
use super::organization::OrganizationUse;
use super::pending_call::{PendingCall, PendingOn};
use crate::call::CallOutcome;

/// Bytes of recorded answers that one session may hold: sixteen results of the largest default size.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Ids that one session remembers: more than the rounds of a session times the calls of a request.
const REMEMBERED_CALLS: usize = 40_000;

/// The state of a call.
#[derive(Clone, Debug)]
pub enum CallState {
    /// The call runs. `called` is the tool as the model named it.
    Running { stop: CancellationToken, called: Arc<str> },
    /// The call was answered, and waits for a person or a client.
    Pending(Arc<PendingCall>),
    /// The call ended with this outcome.
    Ended(Arc<CallOutcome>),
    /// The call was dropped before it ended, by a failure of the daemon, or before any of it began. The state is final.
    Cancelled,
    /// The call ended, and its answer is no longer in memory.
    Forgotten,
}

/// The result of opening an id.
#[derive(Debug)]
pub enum Lookup {
    /// The id is new: run it. Dropping the guard without an outcome records it as cancelled.
    New(RunningCall),
    /// The id is known, with the same tool and arguments.
    Known(CallState),
    /// The id is known, with another tool or other arguments.
    Conflict,
    /// The session has made as many calls as it can remember.
    Full,
}

/// The result of opening a call for its client's result.
#[derive(Debug)]
pub enum ResultLookup {
    /// The call is reserved for this result until it is dropped.
    Open(PostedResult),
    /// The same result was posted before.
    Same(Arc<CallOutcome>),
    /// Another result was posted before, or one is being recorded.
    Conflict,
    /// The result came too late, whether or not the call has been ended since.
    TooLate,
    /// No client performs the call.
    NotForClient,
}

/// The calls of a session that may have ended.
#[derive(Debug)]
pub(super) struct WeakCallTable(Weak<Shared>);

/// The calls of one session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallTable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    /// The answers on disk; none for a session that no later run of the daemon restores.
    stored: Option<Arc<SessionAnswers>>,
    /// Notified when a call ends or is withdrawn.
    ended: Notify,
    /// Changes when an approval that a call waits for is decided.
    decisions: watch::Sender<()>,
}

#[derive(Debug)]
struct Table {
    calls: HashMap<Arc<str>, Entry>,
    /// Ended calls with an answer, oldest first.
    held: VecDeque<(Arc<str>, u64)>,
    held_bytes: usize,
    /// Calls that wait for their client.
    at_client: usize,
    organization: Arc<OrganizationUse>,
    kept_ms: u64,
}

#[derive(Debug)]
struct Entry {
    /// The tool as the model named it, and SHA-256 of the arguments: the same id with others is another call.
    called: Arc<str>,
    arguments: [u8; 32],
    state: CallState,
    /// Boxed, since few calls have a client's part.
    result: Option<Box<ResultState>>,
}

/// A call that has just ended.
struct EndedCall {
    id: Arc<str>,
    outcome: Arc<CallOutcome>,
    /// SHA-256 of its arguments.
    arguments: [u8; 32],
    /// The fingerprint of the client's result that ended it.
    posted: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug)]
enum ResultState {
    /// A result with this fingerprint was posted. While the call is pending, it is being recorded.
    Posted([u8; 32]),
    /// No result came in time.
    TooLate,
}

/// A call that was opened and has not ended.
#[derive(Debug)]
pub struct RunningCall {
    table: CallTable,
    id: Arc<str>,
    /// Stops the call.
    pub cancelled: CancellationToken,
    /// The approval that the call waited for before it was posted again.
    pub waited_for: Option<Arc<PendingCall>>,
    ended: bool,
}

/// A client's result that is being recorded. Dropping it leaves the call pending.
#[derive(Debug)]
pub struct PostedResult {
    table: CallTable,
    id: Arc<str>,
    /// The pending call.
    pub call: Arc<PendingCall>,
    ended: bool,
}

impl Entry {
    /// The pending call; none where its client's result is being recorded, since that ends it.
    fn pending(&self) -> Option<&Arc<PendingCall>> {
        match &self.state {
            CallState::Pending(call) if self.result.is_none() => Some(call),
            _ => None,
        }
    }
}

impl CallTable {
    pub(crate) fn new(
        kept_ms: u64,
        organization: Arc<OrganizationUse>,
        stored: Option<Arc<SessionAnswers>>,
    ) -> Self {
        let table = Table {
            calls: HashMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            at_client: 0,
            organization,
            kept_ms,
        };
        Self(Arc::new(Shared {
            table: Mutex::new(table),
            stored,
            ended: Notify::new(),
            decisions: watch::Sender::new(()),
        }))
    }

    /// Opens an id for a call of the tool `called`, whose arguments have this SHA-256.
    pub fn open(
        &self,
        id: &str,
        called: &Arc<str>,
        arguments: [u8; 32],
        now_ms: u64,
        parent: &CancellationToken,
    ) -> Lookup {
        self.with(|table| {
            table.forget_before(now_ms.saturating_sub(table.kept_ms));
            let running = |waited_for| {
                let (id, cancelled): (Arc<str>, _) = (id.into(), parent.child_token());
                let state = CallState::Running { stop: cancelled.clone(), called: Arc::clone(called) };
                (RunningCall { table: self.clone(), id, cancelled, waited_for, ended: false }, state)
            };
            if let Some(entry) = table.calls.get_mut(id) {
                if entry.called != *called || entry.arguments != arguments {
                    return Lookup::Conflict;
                }
                let CallState::Pending(pending) = &entry.state else {
                    return Lookup::Known(entry.state.clone());
                };
                if pending.is_at_client() {
                    return Lookup::Known(entry.state.clone());
                }
                let (call, state) = running(Some(Arc::clone(pending)));
                entry.state = state;
                return Lookup::New(call);
            }
            if table.calls.len() >= REMEMBERED_CALLS {
                return Lookup::Full;
            }
            let (call, state) = running(None);
            let entry = Entry { called: Arc::clone(called), arguments, state, result: None };
            table.calls.insert(Arc::clone(&call.id), entry);
            Lookup::New(call)
        })
    }

    /// What opening this call would find, without opening it; `None` for a call that would begin to run.
    pub fn look_up(&self, id: &str, called: &Arc<str>, arguments: [u8; 32]) -> Option<Lookup> {
        self.with(|table| {
            let entry = table.calls.get(id)?;
            Some(match entry.called == *called && entry.arguments == arguments {
                true => Lookup::Known(entry.state.clone()),
                false => Lookup::Conflict,
            })
        })
    }

    /// Whether an id was used.
    pub fn has(&self, id: &str) -> bool {
        self.with(|table| table.calls.contains_key(id))
    }

    /// The state of a call.
    pub fn find(&self, id: &str, now_ms: u64) -> Option<CallState> {
        self.with(|table| {
            table.forget_before(now_ms.saturating_sub(table.kept_ms));
            table.calls.get(id).map(|entry| entry.state.clone())
        })
    }

    /// Resolves when a call ends or is withdrawn after this future was first polled or enabled.
    pub fn next_end(&self) -> Notified<'_> {
        self.0.ended.notified()
    }

    /// Changes when an approval that a call of the session waits for is decided.
    pub fn decisions(&self) -> watch::Receiver<()> {
        self.0.decisions.subscribe()
    }

    /// Wakes those that wait for a decision.
    pub fn announce_decision(&self) {
        self.0.decisions.send_replace(());
    }

    /// Opens a call for the result that its client posts. `fingerprint` identifies the result.
    pub fn open_result(&self, id: &str, fingerprint: [u8; 32], now_ms: u64) -> ResultLookup {
        self.with(|table| {
            let Some(entry) = table.calls.get_mut(id) else { return ResultLookup::NotForClient };
            match (&entry.state, entry.result.as_deref().copied()) {
                (CallState::Pending(call), None) if !call.is_at_client() => ResultLookup::NotForClient,
                (CallState::Pending(call), None) if call.expires_ms() <= now_ms => ResultLookup::TooLate,
                (CallState::Pending(call), None) => {
                    entry.result = Some(Box::new(ResultState::Posted(fingerprint)));
                    let (table, call) = (self.clone(), Arc::clone(call));
                    ResultLookup::Open(PostedResult { table, id: id.into(), call, ended: false })
                }
                (CallState::Ended(outcome), Some(ResultState::Posted(posted))) if posted == fingerprint => {
                    ResultLookup::Same(Arc::clone(outcome))
                }
                (_, Some(ResultState::Posted(_))) => ResultLookup::Conflict,
                (_, Some(ResultState::TooLate)) => ResultLookup::TooLate,
                (_, None) => ResultLookup::NotForClient,
            }
        })
    }

    /// Stops a call that runs, or ends a pending one with the outcome that `end` makes of it.
    ///
    /// A call whose pending answer is still being recorded counts as running; `dispatch` looks at the token again once the
    /// answer is on disk.
    pub fn cancel(&self, id: &str, now_ms: u64, end: impl FnOnce(Arc<PendingCall>) -> Arc<CallOutcome>) {
        let ended = self.with(|table| {
            let entry = table.calls.get(id)?;
            if let CallState::Running { stop, .. } = &entry.state {
                stop.cancel();
                return None;
            }
            let pending = entry.pending().cloned()?;
            table.end(id, end(pending), now_ms)
        });
        self.settle(ended, now_ms);
    }

    /// Adds a call that waited when the daemon stopped, unless its id is known.
    pub fn restore(&self, call: PendingCall) {
        self.with(|table| {
            if table.calls.contains_key(call.outcome.id.as_str()) {
                return;
            }
            let (id, called) = (call.outcome.id.as_str().into(), Arc::clone(&call.outcome.called));
            table.count_pending(&call);
            let (arguments, state) = (call.arguments, CallState::Pending(Arc::new(call)));
            table.calls.insert(id, Entry { called, arguments, state, result: None });
        });
    }

    /// The ids of pending calls.
    pub fn pending(&self) -> Vec<Arc<str>> {
        self.pending_where(|_| true).into_iter().map(|(id, _)| id).collect()
    }

    /// The ids of calls that wait for an approval.
    pub fn pending_on_approval(&self, approval: &str) -> Vec<Arc<str>> {
        let calls = self.pending_where(|call| call.approval() == Some(approval));
        calls.into_iter().map(|(id, _)| id).collect()
    }

    /// Calls whose client's time is over.
    pub fn expired_at_client(&self, now_ms: u64) -> Vec<(Arc<str>, Arc<PendingCall>)> {
        match self.at_client() {
            0 => Vec::new(),
            _ => self.pending_where(|call| call.is_at_client() && call.expires_ms() <= now_ms),
        }
    }

    /// The number of calls that wait for their client.
    pub fn at_client(&self) -> usize {
        self.with(|table| table.at_client)
    }

    /// Ends a call that waits for an approval that will not come. None where the call does not wait.
    pub fn end_unapproved(&self, outcome: CallOutcome, now_ms: u64) -> Option<Arc<CallOutcome>> {
        self.end_pending(outcome, None, now_ms)
    }

    /// Ends a call whose client did not post a result in time. None where the call does not wait.
    pub fn end_too_late(&self, outcome: CallOutcome, now_ms: u64) -> Option<Arc<CallOutcome>> {
        self.end_pending(outcome, Some(ResultState::TooLate), now_ms)
    }

    fn end_pending(
        &self,
        outcome: CallOutcome,
        result: Option<ResultState>,
        now_ms: u64,
    ) -> Option<Arc<CallOutcome>> {
        let outcome = Arc::new(outcome);
        let ended = self.with(|table| {
            table.calls.get(&*outcome.id)?.pending()?;
            let ended = table.end(&outcome.id, Arc::clone(&outcome), now_ms);
            if let Some(entry) = table.calls.get_mut(&*outcome.id) {
                entry.result = result.map(Box::new);
            }
            ended
        });
        let outcome = ended.is_some().then_some(outcome);
        self.settle(ended, now_ms);
        outcome
    }

    fn pending_where(&self, fits: impl Fn(&PendingCall) -> bool) -> Vec<(Arc<str>, Arc<PendingCall>)> {
        self.with(|table| {
            let pending = table.calls.iter().filter_map(|(id, entry)| Some((id, entry.pending()?)));
            let fitting = pending.filter(|(_, call)| fits(call));
            fitting.map(|(id, call)| (Arc::clone(id), Arc::clone(call))).collect()
        })
    }

    fn end(&self, id: &str, outcome: CallOutcome, now_ms: u64) -> Arc<CallOutcome> {
        let outcome = Arc::new(outcome);
        let ended = self.with(|table| table.end(id, Arc::clone(&outcome), now_ms));
        self.settle(ended, now_ms);
        outcome
    }

    /// Tells those that wait of the end of a call, queues its answer for the disk, and counts it for the organization. The
    /// table is not locked: an answer of this or another session may be dropped for the new one.
    fn settle(&self, ended: Option<EndedCall>, now_ms: u64) {
        let Some(EndedCall { id, outcome, arguments, posted }) = ended else { return };
        self.0.ended.notify_waiters();
        if let Some(stored) = &self.0.stored {
            stored.append_end(outcome, arguments, posted, now_ms);
        }
        let organization = self.with(|table| Arc::clone(&table.organization));
        organization.answers.append(WeakCallTable(Arc::downgrade(&self.0)), id);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        act(&mut self.0.table.lock())
    }
}

impl RunningCall {
    /// The start of the first run of a script that waited for an approval, in milliseconds since 1970.
    pub fn script_began_ms(&self) -> Option<u64> {
        match self.waited_for.as_ref()?.on {
            PendingOn::Script { began_ms } => Some(began_ms),
            PendingOn::Person | PendingOn::Client(_) => None,
        }
    }

    /// Records the final outcome.
    pub fn end(mut self, outcome: CallOutcome, now_ms: u64) -> Arc<CallOutcome> {
        self.ended = true;
        self.table.end(&self.id, outcome, now_ms)
    }

    /// Leaves the call to a person or a client. `arguments` is the SHA-256 of its arguments.
    pub fn suspend(
        mut self,
        outcome: CallOutcome,
        on: PendingOn,
        arguments: [u8; 32],
        now_ms: u64,
    ) -> Arc<CallOutcome> {
        let outcome = Arc::new(outcome);
        let call = Arc::new(PendingCall { outcome: Arc::clone(&outcome), arguments, on });
        // Before another thread can end the call, since the newest record counts.
        if let Some(stored) = self.table.0.stored.as_ref().filter(|_| call.is_at_client()) {
            stored.append_at_client(&call, now_ms);
        }
        self.set_state(CallState::Pending(call));
        outcome
    }

    /// Removes the call, of which nothing was recorded. Its id may be used again; a call that waited for approval waits
    /// again.
    pub fn withdraw(mut self) {
        match self.waited_for.take() {
            Some(pending) => self.set_state(CallState::Pending(pending)),
            None => {
                self.ended = true;
                self.table.with(|table| drop(table.calls.remove(&self.id)));
            }
        }
        self.table.0.ended.notify_waiters();
    }

    fn set_state(&mut self, state: CallState) {
        self.ended = true;
        self.table.with(|table| {
            if let CallState::Pending(call) = &state {
                table.count_pending(call);
            }
            if let Some(entry) = table.calls.get_mut(&self.id) {
                entry.state = state;
            }
        });
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if !self.ended {
            self.set_state(CallState::Cancelled);
            self.table.0.ended.notify_waiters();
        }
    }
}

impl PostedResult {
    /// Ends the call with the client's result.
    pub fn end(mut self, outcome: CallOutcome, now_ms: u64) -> Arc<CallOutcome> {
        self.ended = true;
        self.table.end(&self.id, outcome, now_ms)
    }
}

impl Drop for PostedResult {
    fn drop(&mut self) {
        if !self.ended {
            self.table.with(|table| {
                if let Some(entry) = table.calls.get_mut(&self.id) {
                    entry.result = None;
                }
            });
        }
    }
}

impl Table {
    fn count_pending(&mut self, call: &PendingCall) {
        if call.is_at_client() {
            self.at_client += 1;
            self.organization.add_at_client();
        }
    }

    /// Ends a call, if it is known.
    fn end(&mut self, id: &str, outcome: Arc<CallOutcome>, now_ms: u64) -> Option<EndedCall> {
        let (id, _) = self.calls.get_key_value(id)?;
        let id = Arc::clone(id);
        let bytes = outcome.held_bytes();
        self.held_bytes += bytes;
        self.organization.answers.add_bytes(bytes);
        let (mut posted, mut arguments) = (None, [0; 32]);
        if let Some(entry) = self.calls.get_mut(&id) {
            arguments = entry.arguments;
            if let Some(ResultState::Posted(fingerprint)) = entry.result.as_deref() {
                posted = Some(*fingerprint);
            }
            let before = std::mem::replace(&mut entry.state, CallState::Ended(Arc::clone(&outcome)));
            if let CallState::Pending(call) = before
                && call.is_at_client()
            {
                self.at_client -= 1;
                self.organization.remove_at_client(1);
            }
        }
        self.held.push_back((Arc::clone(&id), now_ms));
        while self.held_bytes > ANSWER_BYTES && self.held.len() > 1 {
            self.forget_oldest();
        }
        Some(EndedCall { id, outcome, arguments, posted })
    }

    fn forget_before(&mut self, before_ms: u64) {
        while self.held.front().is_some_and(|(_, ended_ms)| *ended_ms < before_ms) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((id, _)) = self.held.pop_front() {
            self.forget(&id);
        }
    }

    /// Drops an answer, unless it was dropped before.
    fn forget(&mut self, id: &str) {
        let Some(entry) = self.calls.get_mut(id) else { return };
        if let CallState::Ended(outcome) = &entry.state {
            let bytes = outcome.held_bytes();
            self.held_bytes = self.held_bytes.saturating_sub(bytes);
            self.organization.answers.remove_bytes(bytes);
            entry.state = CallState::Forgotten;
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.organization.answers.remove_bytes(self.held_bytes);
        self.organization.remove_at_client(self.at_client);
    }
}

impl WeakCallTable {
    /// Whether the session is still in use.
    pub(super) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Drops an answer.
    pub(super) fn forget(&self, id: &str) {
        if let Some(shared) = self.0.upgrade() {
            CallTable(shared).with(|table| table.forget(id));
        }
    }
}

#[cfg(test)]
mod tests;
