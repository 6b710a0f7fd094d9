//! A bounded, fair queue: organizations take turns, and each has its own bounded line.
//!
//! There are two of them on the way of every call. In front of the sandbox it waits for a slot, before its rules are looked
//! at, and no organization has all of the slots: its calls may keep them for as long as their deadlines are, and turns are of
//! no use where nobody leaves. In the sandbox guests take turns on the processors (`turns.rs`). A third, of one slot, is at the
//! files of each session: whoever may change them waits there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many calls run, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Slots: what may run at the same time.
    pub running: usize,
    /// Slots that one organization may have of them.
    pub running_per_organization: usize,
    /// Calls of one organization that may wait.
    pub waiting_per_organization: usize,
    /// Calls that may wait, all organizations together.
    pub waiting: usize,
}

/// Why a call did not get a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The line is full; nothing was kept of the call.
    #[error("too many calls are waiting")]
    Full,
    /// The call's deadline passed while it waited.
    #[error("the deadline passed while the call waited for a free slot")]
    Deadline,
}

/// The queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: QueueSettings,
    state: Mutex<State>,
    /// Organizations in `turns`, readable without the lock.
    called: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: usize,
    /// Organizations with calls that run, where those are counted, or wait.
    of: HashMap<Arc<str>, Line>,
    /// Organizations whose next call takes the next slot, in the order of their turns: each that has a line and not all the
    /// slots that it may have. So either all slots are taken or this is empty.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct Line {
    running: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// Who has the next slot, and whose it is, where slots are counted by organization.
type Next = (oneshot::Sender<Slot>, Option<Arc<str>>);

/// The right to run one call. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Slot(Option<Held>);

#[derive(Debug)]
struct Held {
    queue: Arc<Shared>,
    /// Whose it is, where slots are counted by organization.
    organization: Option<Arc<str>>,
}

impl Queue {
    /// A queue with all slots free.
    pub fn new(settings: QueueSettings) -> Self {
        Self(Arc::new(Shared { settings, state: Mutex::default(), called: AtomicUsize::new(0) }))
    }

    /// Waits for a slot, at most until `deadline`, which is asked for only where there is none at once.
    pub async fn enter(
        &self,
        organization: &str,
        deadline: impl FnOnce() -> Instant,
    ) -> Result<Slot, QueueError> {
        match self.0.enter(organization)? {
            Entered::At(slot) => Ok(slot),
            Entered::InLine(place) => place.slot(deadline()).await,
        }
    }

    /// A slot, where one is free at once.
    pub fn try_enter(&self, organization: &str) -> Option<Slot> {
        self.0.with_state(|state| self.0.slot_at_once(state, organization))
    }

    /// Gives a slot to the next one that waits, if there is one, and waits behind it for another.
    pub async fn again(&self, slot: Slot, organization: &str, deadline: Instant) -> Result<Slot, QueueError> {
        if self.0.called.load(Ordering::Acquire) == 0 {
            return Ok(slot);
        }
        // It stands in line before its slot goes on; otherwise its organization would miss the turn that is its own.
        let entered = self.0.enter(organization)?;
        drop(slot);
        match entered {
            Entered::At(slot) => Ok(slot),
            Entered::InLine(place) => place.slot(deadline).await,
        }
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.0.with_state(|state| state.running)
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.0.with_state(|state| state.waiting)
    }
}

/// What came of entering.
enum Entered {
    At(Slot),
    InLine(Place),
}

/// A place in the line of an organization. Dropping it leaves the line.
struct Place {
    queue: Arc<Shared>,
    organization: Arc<str>,
    called: oneshot::Receiver<Slot>,
}

impl Place {
    async fn slot(mut self, deadline: Instant) -> Result<Slot, QueueError> {
        match tokio::time::timeout_at(deadline, &mut self.called).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(QueueError::Full),
            Err(_) => Err(QueueError::Deadline),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.called.is_terminated() {
            self.called.close();
            self.queue.with_state(|state| state.forget_who_left(&self.organization));
        }
    }
}

impl Shared {
    fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.called.store(state.turns.len(), Ordering::Release);
        result
    }

    /// Whether slots are counted by organization: not where one may have them all.
    fn counts(&self) -> bool {
        self.settings.running_per_organization < self.settings.running
    }

    fn enter(self: &Arc<Self>, organization: &str) -> Result<Entered, QueueError> {
        self.with_state(|state| {
            if let Some(slot) = self.slot_at_once(state, organization) {
                return Ok(Entered::At(slot));
            }
            let waits = state.of.get(organization).map_or(0, |line| line.waiting.len());
            if waits >= self.settings.waiting_per_organization || state.waiting >= self.settings.waiting {
                return Err(QueueError::Full);
            }
            let organization: Arc<str> = organization.into();
            let called = state.line_up(&self.settings, &organization);
            Ok(Entered::InLine(Place { queue: Arc::clone(self), organization, called }))
        })
    }

    /// A free slot, if the organization may have one more. Nobody waits for it: either all slots are taken, or nobody who
    /// may have one is in line.
    fn slot_at_once(self: &Arc<Self>, state: &mut State, organization: &str) -> Option<Slot> {
        if state.running >= self.settings.running {
            return None;
        }
        let organization = match self.counts() {
            false => None,
            true => {
                let known = state.of.get_key_value(organization);
                let known = known.map(|(organization, line)| (Arc::clone(organization), line.running));
                let (organization, runs) = known.unwrap_or_else(|| (organization.into(), 0));
                if runs >= self.settings.running_per_organization {
                    return None;
                }
                state.of.entry(Arc::clone(&organization)).or_default().running += 1;
                Some(organization)
            }
        };
        state.running += 1;
        Some(Slot(Some(Held { queue: Arc::clone(self), organization })))
    }

    /// Takes a slot back, and gives it to the call whose turn it is.
    fn leave(&self, organization: Option<&Arc<str>>) -> Option<Next> {
        self.with_state(|state| {
            state.running -= 1;
            if let Some(organization) = organization
                && let Some(line) = state.of.get_mut(organization)
            {
                line.running -= 1;
                if line.counts() == (0, 0) {
                    state.of.remove(organization);
                } else if line.running + 1 == self.settings.running_per_organization
                    && !line.waiting.is_empty()
                {
                    state.turns.push_back(Arc::clone(organization));
                }
            }
            state.next(&self.settings, self.counts())
        })
    }
}

impl State {
    fn line_up(&mut self, settings: &QueueSettings, organization: &Arc<str>) -> oneshot::Receiver<Slot> {
        let (call_in, called) = oneshot::channel();
        let line = self.of.entry(Arc::clone(organization)).or_default();
        line.waiting.push_back(call_in);
        if line.waiting.len() == 1 && line.running < settings.running_per_organization {
            self.turns.push_back(Arc::clone(organization));
        }
        self.waiting += 1;
        called
    }

    fn next(&mut self, settings: &QueueSettings, counts: bool) -> Option<Next> {
        let organization = self.turns.pop_front()?;
        let line = self.of.get_mut(&organization)?;
        let call_in = line.waiting.pop_front()?;
        self.waiting -= 1;
        self.running += 1;
        line.running += usize::from(counts);
        if line.counts() == (0, 0) {
            self.of.remove(&organization);
        } else if line.running < settings.running_per_organization && !line.waiting.is_empty() {
            self.turns.push_back(Arc::clone(&organization));
        }
        Some((call_in, counts.then_some(organization)))
    }

    fn forget_who_left(&mut self, organization: &Arc<str>) {
        let Some(line) = self.of.get_mut(organization) else { return };
        let waited = line.waiting.len();
        line.waiting.retain(|call_in| !call_in.is_closed());
        self.waiting -= waited - line.waiting.len();
        if waited > 0 && line.waiting.is_empty() {
            self.turns.retain(|called| called != organization);
        }
        if line.counts() == (0, 0) {
            self.of.remove(organization);
        }
    }
}

impl Line {
    fn counts(&self) -> (usize, usize) {
        (self.running, self.waiting.len())
    }
}

impl Held {
    fn pass_on(mut self) {
        loop {
            let Some((call_in, organization)) = self.queue.leave(self.organization.as_ref()) else { return };
            let slot = Slot(Some(Self { queue: Arc::clone(&self.queue), organization }));
            // It may have given up waiting; then the slot goes to the one after it.
            let Some(returned) = call_in.send(slot).err().and_then(|mut slot| slot.0.take()) else { return };
            self = returned;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue(running: usize, per_organization: usize) -> Queue {
        shared_queue(running, running, per_organization)
    }

    fn shared_queue(running: usize, of_one: usize, waiting_of_one: usize) -> Queue {
        Queue::new(QueueSettings {
            running,
            running_per_organization: of_one,
            waiting_per_organization: waiting_of_one,
            waiting: 10_000,
        })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Starts waiting and returns once the call stands in its line.
    async fn wait_in(queue: &Queue, organization: &str) -> tokio::task::JoinHandle<Result<Slot, QueueError>> {
        let before = queue.waiting();
        let (clone, organization) = (queue.clone(), organization.to_owned());
        let handle = tokio::spawn(async move { clone.enter(&organization, soon).await });
        while queue.waiting() == before {
            assert!(!handle.is_finished(), "it need not wait");
            tokio::task::yield_now().await;
        }
        handle
    }

    #[tokio::test]
    async fn a_free_slot_is_taken_at_once_and_given_back() {
        let queue = queue(1, 1);
        let slot = queue.enter("acme", soon).await.unwrap();
        assert_eq!(queue.running(), 1);
        drop(slot);
        assert_eq!(queue.running(), 0);
    }

    #[tokio::test]
    async fn organizations_take_turns_however_long_one_line_is() {
        let queue = queue(1, 10);
        let slot = queue.enter("noisy", soon).await.unwrap();
        let first = wait_in(&queue, "noisy").await;
        let second = wait_in(&queue, "noisy").await;
        let quiet = wait_in(&queue, "quiet").await;
        drop(slot);
        let first = first.await.unwrap().unwrap();
        drop(first);
        let quiet = quiet.await.unwrap().unwrap();
        assert!(!second.is_finished());
        drop(quiet);
        assert!(second.await.unwrap().is_ok());
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_full_line_refuses_its_organization_and_no_other() {
        let queue = queue(1, 1);
        let slot = queue.enter("noisy", soon).await.unwrap();
        let waiting = wait_in(&queue, "noisy").await;
        assert_eq!(queue.enter("noisy", soon).await.unwrap_err(), QueueError::Full);
        let quiet = wait_in(&queue, "quiet").await;
        drop(slot);
        drop(waiting.await.unwrap().unwrap());
        assert!(quiet.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_deadline_ends_the_wait_and_the_slot_goes_to_the_next() {
        let queue = queue(1, 10);
        let slot = queue.enter("acme", soon).await.unwrap();
        let late = queue.enter("acme", Instant::now).await;
        assert_eq!(late.unwrap_err(), QueueError::Deadline);
        let next = wait_in(&queue, "acme").await;
        drop(slot);
        assert!(next.await.unwrap().is_ok());
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_gives_up_leaves_the_line() {
        let queue = queue(1, 1);
        let slot = queue.enter("acme", soon).await.unwrap();
        let gone = wait_in(&queue, "acme").await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        assert_eq!(queue.waiting(), 0);
        let next = wait_in(&queue, "acme").await;
        drop(slot);
        assert!(next.await.unwrap().is_ok());
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    /// However long they stay: there are slots that are not its own.
    #[tokio::test]
    async fn an_organization_has_no_more_slots_than_it_may() {
        let queue = shared_queue(3, 2, 10);
        let held = [queue.enter("noisy", soon).await.unwrap(), queue.enter("noisy", soon).await.unwrap()];
        let (third, fourth) = (wait_in(&queue, "noisy").await, wait_in(&queue, "noisy").await);
        let quiet = queue.enter("quiet", soon).await.unwrap();
        let waiting = wait_in(&queue, "quiet").await;
        // What the quiet one leaves is not for who has all that it may have, however long it waits already.
        drop(quiet);
        drop(waiting.await.unwrap().unwrap());
        assert_eq!((queue.running(), queue.waiting()), (2, 2));
        drop(queue.enter("quiet", soon).await.unwrap());
        // What it leaves itself is.
        drop(held);
        let held = [third.await.unwrap().unwrap(), fourth.await.unwrap().unwrap()];
        assert_eq!((queue.running(), queue.waiting()), (2, 0));
        drop(held);
        assert_eq!(queue.running(), 0);
        assert!(queue.0.with_state(|state| state.of.is_empty()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_lost_or_doubled_under_contention() {
        for of_one in [1, 2, 3] {
            let queue = shared_queue(3, of_one, 10_000);
            let running: Arc<[AtomicUsize; 7]> = Arc::default();
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..2_000 {
                let (queue, running) = (queue.clone(), Arc::clone(&running));
                calls.spawn(async move {
                    let deadline = || if number % 5 == 0 { Instant::now() } else { soon() };
                    let Ok(slot) = queue.enter(&format!("org{}", number % 7), deadline).await else { return };
                    let of_it = &running[number % 7];
                    assert!(of_it.fetch_add(1, Ordering::SeqCst) < of_one);
                    assert!(queue.running() <= 3);
                    tokio::task::yield_now().await;
                    of_it.fetch_sub(1, Ordering::SeqCst);
                    drop(slot);
                });
            }
            while let Some(done) = calls.join_next().await {
                done.unwrap();
            }
            assert_eq!((queue.running(), queue.waiting()), (0, 0));
            assert!(queue.0.with_state(|state| state.of.is_empty() && state.turns.is_empty()));
        }
    }
}
