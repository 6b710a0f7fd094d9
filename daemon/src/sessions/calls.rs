//! The calls of one session by id: each runs once, and asking again gives the same answer (R7).
//!
//! Answers are bounded three times: by age, by the bytes of one session, and by those of all sessions. What is
//! dropped leaves its id behind: an id that ran once never runs again, it only says that its answer is no
//! longer held.

mod waiting;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;
use toolgate_admission::Admitted;
use toolgate_sandbox::{Component, Usage};

use super::Status;
use waiting::ResultState;

pub use waiting::{ClientCall, PostedResult, ResultOpened, Waiting, WaitsFor};

/// Bytes of recorded answers that one session may hold. Sixteen results of the largest default size.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of recorded answers that all sessions may hold together. Past that, a session that gets a new
/// answer drops its own old ones first, so that many sessions cannot do what one may not.
const ALL_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Ids that one session remembers. It is above the rounds of a session times the calls of a request.
const REMEMBERED_CALLS: usize = 40_000;

/// What is known of a call.
#[derive(Clone, Debug)]
pub enum CallState {
    /// It runs.
    Running {
        /// Stops it.
        stop: CancellationToken,
        /// The tool as it was called.
        called: Arc<str>,
    },
    /// It waits for a person's approval. Posted again, it is decided again.
    Waiting(Arc<Waiting>),
    /// A client has its second half.
    Client(Arc<ClientCall>),
    /// It ended with this answer.
    Ended(Arc<Recorded>),
    /// It was dropped before it ended: the daemon failed, or nothing of it was begun. It stays so.
    Cancelled,
    /// It ended, and its answer is no longer held.
    Forgotten,
}

/// Whom a call that was answered, and has not ended, is left to.
#[derive(Debug)]
pub enum LeftTo {
    /// A person, by way of an approval.
    Person {
        /// The approval's id.
        approval: String,
        /// SHA-256 of the arguments.
        arguments: [u8; 32],
    },
    /// A client.
    Client {
        /// What was decided about it.
        admitted: Box<Admitted<Component>>,
        /// When the result comes too late.
        expires_ms: u64,
        /// SHA-256 of the arguments.
        arguments: [u8; 32],
        /// What preparing it took.
        usage: Usage,
    },
}

/// An answer as it was given, and as it is given again.
#[derive(Debug)]
pub struct Recorded {
    /// The result object, as JSON text.
    pub json: Box<str>,
    /// What it says of the call.
    pub status: Status,
}

/// What opening an id found.
#[derive(Debug)]
pub enum Opened {
    /// The id is new: run it. Dropping the guard without an answer records it as cancelled.
    New(RunningCall),
    /// The id is known, with these very arguments.
    Known(CallState),
    /// The id is known, with another tool or other arguments.
    Conflict,
    /// The session has made as many calls as it can remember.
    Full,
}

/// The calls of one session.
#[derive(Clone, Debug)]
pub struct CallBook(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    /// Told whenever a call ends, or is no longer known.
    ended: Notify,
}

#[derive(Debug)]
struct Book {
    calls: HashMap<Arc<str>, Entry>,
    /// Ended calls with an answer, oldest first.
    held: VecDeque<(Arc<str>, u64)>,
    held_bytes: usize,
    /// Calls that a client has.
    at_client: usize,
    /// Of all sessions.
    all_held_bytes: Arc<AtomicUsize>,
    kept_ms: u64,
}

#[derive(Debug)]
struct Entry {
    /// The tool as it was called, and SHA-256 of the arguments: the same id with others is another call.
    called: Arc<str>,
    arguments: [u8; 32],
    state: CallState,
    /// What came of the client's part, where it has one: few have, so the others need not be larger for it.
    result: Option<Box<ResultState>>,
}

/// A call that was opened and has not ended.
#[derive(Debug)]
pub struct RunningCall {
    book: CallBook,
    id: Arc<str>,
    /// Stops the call.
    pub cancelled: CancellationToken,
    /// What it waited for, where it waited for an approval and was posted again.
    pub waited_for: Option<Arc<Waiting>>,
    ended: bool,
}

impl CallBook {
    pub(crate) fn new(kept_ms: u64, all_held_bytes: Arc<AtomicUsize>) -> Self {
        let book = Book {
            calls: HashMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            at_client: 0,
            all_held_bytes,
            kept_ms,
        };
        Self(Arc::new(Shared { book: Mutex::new(book), ended: Notify::new() }))
    }

    /// Opens an id for a call of the tool `called`, whose arguments have this SHA-256.
    pub fn open(
        &self,
        id: &str,
        called: &Arc<str>,
        arguments: [u8; 32],
        now_ms: u64,
        parent: &CancellationToken,
    ) -> Opened {
        self.with(|book| {
            book.forget_before(now_ms.saturating_sub(book.kept_ms));
            let state_of = |running: &RunningCall| CallState::Running {
                stop: running.cancelled.clone(),
                called: Arc::clone(called),
            };
            let running = |waited_for| {
                let (id, cancelled): (Arc<str>, _) = (id.into(), parent.child_token());
                RunningCall { book: self.clone(), id, cancelled, waited_for, ended: false }
            };
            if let Some(entry) = book.calls.get_mut(id) {
                let same = entry.called == *called && entry.arguments == arguments;
                return match (&entry.state, same) {
                    (_, false) => Opened::Conflict,
                    (CallState::Waiting(waiting), true) => {
                        let again = running(Some(Arc::clone(waiting)));
                        entry.state = state_of(&again);
                        Opened::New(again)
                    }
                    (state, true) => Opened::Known(state.clone()),
                };
            }
            if book.calls.len() >= REMEMBERED_CALLS {
                return Opened::Full;
            }
            let new = running(None);
            let state = state_of(&new);
            let entry = Entry { called: Arc::clone(called), arguments, state, result: None };
            book.calls.insert(Arc::clone(&new.id), entry);
            Opened::New(new)
        })
    }

    /// Whether an id was used.
    pub fn knows(&self, id: &str) -> bool {
        self.with(|book| book.calls.contains_key(id))
    }

    /// What is known of an id.
    pub fn find(&self, id: &str, now_ms: u64) -> Option<CallState> {
        self.with(|book| {
            book.forget_before(now_ms.saturating_sub(book.kept_ms));
            book.calls.get(id).map(|entry| entry.state.clone())
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Book) -> T) -> T {
        act(&mut self.0.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resolves when a call ends, or is taken back, after this was first polled, or enabled.
    pub fn next_end(&self) -> Notified<'_> {
        self.0.ended.notified()
    }
}

impl RunningCall {
    /// Records the final answer.
    pub fn end(mut self, answer: Recorded, now_ms: u64) -> Arc<Recorded> {
        let recorded = Arc::new(answer);
        self.ended = true;
        self.book.with(|book| book.end(&self.id, Arc::clone(&recorded), now_ms));
        self.book.0.ended.notify_waiters();
        recorded
    }

    /// Leaves the call to somebody: a person, or a client. `called` is the tool as it was called.
    pub fn leave(mut self, answer: Recorded, to: LeftTo, called: &Arc<str>) -> Arc<Recorded> {
        let (called, answer) = (Arc::clone(called), Arc::new(answer));
        let state = match to {
            LeftTo::Person { approval, arguments } => {
                let answer = Arc::clone(&answer);
                CallState::Waiting(Arc::new(Waiting { approval, called, answer, arguments }))
            }
            LeftTo::Client { admitted, expires_ms, arguments, usage } => {
                let answer = Arc::clone(&answer);
                let call = ClientCall { called, admitted, answer, expires_ms, arguments, usage };
                CallState::Client(Arc::new(call))
            }
        };
        self.stand(state);
        answer
    }

    fn stand(&mut self, state: CallState) {
        self.ended = true;
        self.book.with(|book| {
            book.at_client += usize::from(matches!(state, CallState::Client(_)));
            if let Some(entry) = book.calls.get_mut(&self.id) {
                entry.state = state;
            }
        });
    }

    /// Takes the call back: nothing of it was recorded. Its id may be tried again, and one that waited for approval waits
    /// on.
    pub fn withdraw(mut self) {
        match self.waited_for.take() {
            Some(waiting) => self.stand(CallState::Waiting(waiting)),
            None => {
                self.ended = true;
                self.book.with(|book| drop(book.calls.remove(&self.id)));
            }
        }
        self.book.0.ended.notify_waiters();
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.stand(CallState::Cancelled);
        self.book.0.ended.notify_waiters();
    }
}

impl Book {
    fn end(&mut self, id: &Arc<str>, recorded: Arc<Recorded>, now_ms: u64) {
        self.held_bytes += recorded.json.len();
        self.all_held_bytes.fetch_add(recorded.json.len(), Ordering::Relaxed);
        if let Some(entry) = self.calls.get_mut(id) {
            let before = std::mem::replace(&mut entry.state, CallState::Ended(recorded));
            self.at_client -= usize::from(matches!(before, CallState::Client(_)));
        }
        self.held.push_back((Arc::clone(id), now_ms));
        while self.holds_too_much() && self.held.len() > 1 {
            self.forget_oldest();
        }
    }

    fn holds_too_much(&self) -> bool {
        self.held_bytes > ANSWER_BYTES || self.all_held_bytes.load(Ordering::Relaxed) > ALL_ANSWER_BYTES
    }

    fn forget_before(&mut self, before_ms: u64) {
        while self.held.front().is_some_and(|(_, ended_ms)| *ended_ms < before_ms) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((id, _)) = self.held.pop_front() else { return };
        let Some(entry) = self.calls.get_mut(&id) else { return };
        if let CallState::Ended(recorded) = &entry.state {
            self.held_bytes = self.held_bytes.saturating_sub(recorded.json.len());
            self.all_held_bytes.fetch_sub(recorded.json.len(), Ordering::Relaxed);
        }
        entry.state = CallState::Forgotten;
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        self.all_held_bytes.fetch_sub(self.held_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn book() -> CallBook {
        CallBook::new(HOUR_MS, Arc::default())
    }

    fn open(book: &CallBook, id: &str, arguments: u8, now_ms: u64) -> Opened {
        book.open(id, &"t".into(), [arguments; 32], now_ms, &CancellationToken::new())
    }

    fn run(book: &CallBook, id: &str, answer: &str, now_ms: u64) {
        match open(book, id, 1, now_ms) {
            Opened::New(call) => {
                drop(call.end(Recorded { json: answer.into(), status: Status::Ok }, now_ms));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn r7_the_same_id_is_answered_the_same_and_runs_once() {
        let book = book();
        run(&book, "c1", "answer", 0);
        match open(&book, "c1", 1, 5) {
            Opened::Known(CallState::Ended(recorded)) => assert_eq!(&*recorded.json, "answer"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(open(&book, "c2", 1, 5), Opened::New(_)));
    }

    #[test]
    fn r7_the_same_id_with_another_tool_or_other_arguments_is_a_conflict() {
        let book = book();
        run(&book, "c1", "answer", 0);
        assert!(matches!(open(&book, "c1", 2, 5), Opened::Conflict));
        let another = book.open("c1", &"u".into(), [1; 32], 5, &CancellationToken::new());
        assert!(matches!(another, Opened::Conflict));
    }

    #[test]
    fn a_running_call_is_known_and_can_be_stopped() {
        let book = book();
        let Opened::New(call) = open(&book, "c1", 1, 0) else { panic!() };
        let Some(CallState::Running { stop, .. }) = book.find("c1", 0) else { panic!() };
        stop.cancel();
        assert!(call.cancelled.is_cancelled());
    }

    #[test]
    fn the_end_of_the_session_stops_its_calls() {
        let book = book();
        let session = CancellationToken::new();
        let Opened::New(call) = book.open("c1", &"t".into(), [1; 32], 0, &session) else { panic!() };
        session.cancel();
        assert!(call.cancelled.is_cancelled());
    }

    #[test]
    fn r7_an_expired_answer_is_forgotten_and_its_id_never_runs_again() {
        let book = book();
        run(&book, "c1", "answer", 0);
        assert!(matches!(book.find("c1", HOUR_MS), Some(CallState::Ended(_))));
        assert!(matches!(open(&book, "c1", 1, HOUR_MS + 1), Opened::Known(CallState::Forgotten)));
    }

    #[test]
    fn answers_are_bounded_by_their_bytes_together() {
        let book = book();
        let large = "x".repeat(ANSWER_BYTES / 2 + 1);
        run(&book, "c1", &large, 0);
        run(&book, "c2", &large, 0);
        assert!(matches!(book.find("c1", 0), Some(CallState::Forgotten)));
        assert!(matches!(book.find("c2", 0), Some(CallState::Ended(_))));
    }

    #[test]
    fn answers_of_all_sessions_are_bounded_and_counted_back() {
        let all = Arc::new(AtomicUsize::new(ALL_ANSWER_BYTES));
        let book = CallBook::new(HOUR_MS, Arc::clone(&all));
        run(&book, "c1", "answer", 0);
        run(&book, "c2", "answer", 0);
        assert!(matches!(book.find("c1", 0), Some(CallState::Forgotten)));
        assert!(matches!(book.find("c2", 0), Some(CallState::Ended(_))));
        drop(book);
        assert_eq!(all.load(Ordering::Relaxed), ALL_ANSWER_BYTES);
    }

    #[test]
    fn r7_a_dropped_call_stays_cancelled_and_a_withdrawn_one_may_be_tried_again() {
        let book = book();
        drop(open(&book, "dropped", 1, 0));
        assert!(matches!(open(&book, "dropped", 1, 0), Opened::Known(CallState::Cancelled)));
        let Opened::New(call) = open(&book, "withdrawn", 1, 0) else { panic!() };
        call.withdraw();
        assert!(matches!(open(&book, "withdrawn", 1, 0), Opened::New(_)));
    }
}
