//! Calls of a session that wait for somebody: a person who is to approve them, or a client that has their second half.
//!
//! They hold nothing open. What ends one comes by another request or by its time, and the first that comes is its end:
//! a result that is being recorded keeps every other end away until it is on disk, or is dropped.

use std::sync::Arc;

use toolgate_admission::Admitted;
use toolgate_sandbox::{Component, Usage};

use super::{CallBook, CallState, Entry, Recorded};

/// A call that waits for an approval.
#[derive(Debug)]
pub struct Waiting {
    /// The approval's id.
    pub approval: String,
    /// The tool as it was called.
    pub called: Arc<str>,
    /// The answer that it was given.
    pub answer: Arc<Recorded>,
    /// SHA-256 of the arguments.
    pub arguments: [u8; 32],
}

/// A call whose second half a client performs (T3).
#[derive(Debug)]
pub struct ClientCall {
    /// The tool as it was called.
    pub called: Arc<str>,
    /// What was decided about it, and the schema that the result must fit.
    pub admitted: Box<Admitted<Component>>,
    /// The answer that it was given, with the prepared payload.
    pub answer: Arc<Recorded>,
    /// When nobody waits for the result any more.
    pub expires_ms: u64,
    /// SHA-256 of the arguments.
    pub arguments: [u8; 32],
    /// What preparing it took.
    pub usage: Usage,
}

/// Whom a call waits for.
#[derive(Clone, Debug)]
pub enum WaitsFor {
    /// A person, who is to approve it.
    Person(Arc<Waiting>),
    /// A client, that is to post its result.
    Client(Arc<ClientCall>),
}

/// What opening a call for its client's result found.
#[derive(Debug)]
pub enum ResultOpened {
    /// The client's to give, and nobody else's until this is dropped.
    Open(PostedResult),
    /// This very result was posted before.
    Same(Arc<Recorded>),
    /// Another result was posted before, or one is being recorded.
    Conflict,
    /// It came too late, whether or not the call has been ended since.
    TooLate,
    /// The call is none that a client ends.
    NotClients,
}

/// A client's result that was taken and is not yet recorded. Dropping it gives the call back to the client.
#[derive(Debug)]
pub struct PostedResult {
    book: CallBook,
    id: Arc<str>,
    /// The call that it is of.
    pub call: Arc<ClientCall>,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ResultState {
    /// A result with this fingerprint was posted. While the client still has the call, it is being recorded.
    Posted([u8; 32]),
    /// None was posted in time.
    TooLate,
}

impl Entry {
    /// Whom the call waits for: none where it does not, or where what it waited for is being recorded and ends it.
    fn waits_for(&self) -> Option<WaitsFor> {
        match &self.state {
            CallState::Waiting(waiting) => Some(WaitsFor::Person(Arc::clone(waiting))),
            CallState::Client(client) if self.result.is_none() => Some(WaitsFor::Client(Arc::clone(client))),
            _ => None,
        }
    }
}

impl CallBook {
    /// Opens a call for the result that its client posts, which `fingerprint` tells from others.
    pub fn open_result(&self, id: &str, fingerprint: [u8; 32], now_ms: u64) -> ResultOpened {
        self.with(|book| {
            let Some(entry) = book.calls.get_mut(id) else { return ResultOpened::NotClients };
            let posted = |call: &Arc<ClientCall>| {
                let (book, call) = (self.clone(), Arc::clone(call));
                PostedResult { book, id: id.into(), call, ended: false }
            };
            match (&entry.state, entry.result.as_deref().copied()) {
                (CallState::Client(call), None) if call.expires_ms <= now_ms => ResultOpened::TooLate,
                (CallState::Client(call), None) => {
                    entry.result = Some(Box::new(ResultState::Posted(fingerprint)));
                    ResultOpened::Open(posted(call))
                }
                (CallState::Ended(recorded), Some(ResultState::Posted(posted))) if posted == fingerprint => {
                    ResultOpened::Same(Arc::clone(recorded))
                }
                (_, Some(ResultState::Posted(_))) => ResultOpened::Conflict,
                (_, Some(ResultState::TooLate)) => ResultOpened::TooLate,
                (_, None) => ResultOpened::NotClients,
            }
        })
    }

    /// Stops a call that runs, or ends one that waits with what `answer` makes of it.
    ///
    /// One that has left off running and waits only once its answer is on disk is cancelled again by who lets it wait.
    pub fn cancel(&self, id: &str, now_ms: u64, answer: impl FnOnce(WaitsFor) -> Recorded) {
        self.with(|book| {
            let Some((id, entry)) = book.calls.get_key_value(id) else { return };
            if let CallState::Running { stop, .. } = &entry.state {
                stop.cancel();
            } else if let Some(waits_for) = entry.waits_for() {
                let id = Arc::clone(id);
                book.end(&id, Arc::new(answer(waits_for)), now_ms);
                self.0.ended.notify_waiters();
            }
        });
    }

    /// The calls that wait for somebody.
    pub fn waiting(&self) -> Vec<Arc<str>> {
        self.with(|book| {
            let waiting = book.calls.iter().filter(|(_, entry)| entry.waits_for().is_some());
            waiting.map(|(id, _)| Arc::clone(id)).collect()
        })
    }

    /// Ends a call that waits: for a client, or for an approval that will not come. Gives none where it does not wait.
    pub fn end_waiting(&self, id: &str, answer: Recorded, now_ms: u64) -> Option<Arc<Recorded>> {
        self.end_unasked(id, answer, None, now_ms)
    }

    /// Ends a call whose client did not come in time, in the same way.
    pub fn end_too_late(&self, id: &str, answer: Recorded, now_ms: u64) -> Option<Arc<Recorded>> {
        self.end_unasked(id, answer, Some(ResultState::TooLate), now_ms)
    }

    fn end_unasked(
        &self,
        id: &str,
        answer: Recorded,
        result: Option<ResultState>,
        now_ms: u64,
    ) -> Option<Arc<Recorded>> {
        self.with(|book| {
            let (id, entry) = book.calls.get_key_value(id)?;
            let id = entry.waits_for().map(|_| Arc::clone(id))?;
            let recorded = Arc::new(answer);
            book.end(&id, Arc::clone(&recorded), now_ms);
            if let Some(entry) = book.calls.get_mut(&id) {
                entry.result = result.map(Box::new);
            }
            self.0.ended.notify_waiters();
            Some(recorded)
        })
    }

    /// The calls that wait for an approval.
    pub fn waiting_for(&self, approval: &str) -> Vec<Arc<str>> {
        self.with(|book| {
            let waits = |entry: &Entry| matches!(&entry.state, CallState::Waiting(waiting) if waiting.approval == approval);
            book.calls.iter().filter(|(_, entry)| waits(entry)).map(|(id, _)| Arc::clone(id)).collect()
        })
    }

    /// How many calls a client has the second half of.
    pub fn at_client(&self) -> usize {
        self.with(|book| book.at_client)
    }

    /// The calls that no client will end any more.
    pub fn expired_at_client(&self, now_ms: u64) -> Vec<(Arc<str>, Arc<ClientCall>)> {
        self.with(|book| {
            if book.at_client == 0 {
                return Vec::new();
            }
            let expired = |(id, entry): (&Arc<str>, &Entry)| match &entry.state {
                CallState::Client(call) if call.expires_ms <= now_ms && entry.result.is_none() => {
                    Some((Arc::clone(id), Arc::clone(call)))
                }
                _ => None,
            };
            book.calls.iter().filter_map(expired).collect()
        })
    }
}

impl PostedResult {
    /// Ends the call with the client's result.
    pub fn end(mut self, answer: Recorded, now_ms: u64) -> Arc<Recorded> {
        let recorded = Arc::new(answer);
        self.ended = true;
        self.book.with(|book| book.end(&self.id, Arc::clone(&recorded), now_ms));
        self.book.0.ended.notify_waiters();
        recorded
    }
}

impl Drop for PostedResult {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.book.with(|book| {
            if let Some(entry) = book.calls.get_mut(&self.id) {
                entry.result = None;
            }
        });
    }
}
