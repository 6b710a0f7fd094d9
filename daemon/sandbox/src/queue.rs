//! A bounded, fair queue: round robin over organizations, each with a bounded queue of its own.
//!
//! The daemon has three kinds. One admits calls before their rules are evaluated: a call may hold its slot until its
//! deadline, so no organization may hold all slots. One shares the processors among guests (`cpu_scheduler.rs`). One
//! with a single slot serializes the calls that may change a session's files.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Limits on running and waiting calls.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Slots: calls that run at the same time.
    pub running: usize,
    /// Slots that one organization may hold.
    pub running_per_organization: usize,
    /// Calls of one organization that may wait.
    pub waiting_per_organization: usize,
    /// Calls that may wait, all organizations together.
    pub waiting: usize,
}

/// The reason why a call got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue is full; no state of the call is kept.
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
    /// Length of `round_robin`, readable without the lock.
    eligible: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: usize,
    /// Organizations with calls that wait or, if those are counted, run.
    organizations: HashMap<Arc<str>, OrganizationCalls>,
    /// Organizations whose next call gets the next slot, in turn: each has waiting calls and fewer slots than its
    /// limit. INVARIANT: empty unless all slots are taken.
    round_robin: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct OrganizationCalls {
    running: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// The receiver of the next slot and, if slots are counted by organization, its organization.
type Handover = (oneshot::Sender<Slot>, Option<Arc<str>>);

/// The right to run one call. Dropping it wakes the next call.
#[derive(Debug)]
pub struct Slot(Option<SlotClaim>);

#[derive(Debug)]
struct SlotClaim {
    queue: Arc<Shared>,
    /// The organization, if slots are counted by organization.
    organization: Option<Arc<str>>,
}

impl Queue {
    /// Creates a queue with all slots free.
    pub fn new(settings: QueueSettings) -> Self {
        Self(Arc::new(Shared { settings, state: Mutex::default(), eligible: AtomicUsize::new(0) }))
    }

    /// Waits for a slot, at most until `deadline`, which is computed only if the call has to wait.
    pub async fn enter(
        &self,
        organization: &str,
        deadline: impl FnOnce() -> Instant,
    ) -> Result<Slot, QueueError> {
        match self.0.enter(organization)? {
            Entry::Admitted(slot) => Ok(slot),
            Entry::Waiting(waiter) => waiter.wait(deadline()).await,
        }
    }

    /// Returns a slot if one is free.
    pub fn try_enter(&self, organization: &str) -> Option<Slot> {
        self.0.with_state(|state| self.0.free_slot(state, organization))
    }

    /// Passes the slot to the next waiting call, if any, and waits behind it for another.
    pub async fn yield_slot(
        &self,
        slot: Slot,
        organization: &str,
        deadline: Instant,
    ) -> Result<Slot, QueueError> {
        if self.0.eligible.load(Ordering::Acquire) == 0 {
            return Ok(slot);
        }
        // Enqueued before the slot is passed on; otherwise its organization would miss its turn.
        let entered = self.0.enter(organization)?;
        drop(slot);
        match entered {
            Entry::Admitted(slot) => Ok(slot),
            Entry::Waiting(waiter) => waiter.wait(deadline).await,
        }
    }

    /// Calls that hold a slot, and calls that wait for one.
    pub fn depth(&self) -> (usize, usize) {
        self.0.with_state(|state| (state.running, state.waiting))
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

/// The result of entering the queue.
enum Entry {
    Admitted(Slot),
    Waiting(Waiter),
}

/// A waiting call. Dropping it removes the call from the queue.
struct Waiter {
    queue: Arc<Shared>,
    organization: Arc<str>,
    granted: oneshot::Receiver<Slot>,
}

impl Waiter {
    async fn wait(mut self, deadline: Instant) -> Result<Slot, QueueError> {
        match tokio::time::timeout_at(deadline, &mut self.granted).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) => Err(QueueError::Full),
            Err(_) => Err(QueueError::Deadline),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.granted.is_terminated() {
            self.granted.close();
            self.queue.with_state(|state| state.remove_closed(&self.organization));
        }
    }
}

impl Shared {
    fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.eligible.store(state.round_robin.len(), Ordering::Release);
        result
    }

    /// Whether slots are counted by organization. Not needed if one organization may hold them all.
    fn counts_by_organization(&self) -> bool {
        self.settings.running_per_organization < self.settings.running
    }

    fn enter(self: &Arc<Self>, organization: &str) -> Result<Entry, QueueError> {
        self.with_state(|state| {
            if let Some(slot) = self.free_slot(state, organization) {
                return Ok(Entry::Admitted(slot));
            }
            let waits = state.organizations.get(organization).map_or(0, |calls| calls.waiting.len());
            if waits >= self.settings.waiting_per_organization || state.waiting >= self.settings.waiting {
                return Err(QueueError::Full);
            }
            let organization: Arc<str> = organization.into();
            let granted = state.enqueue(&self.settings, &organization);
            Ok(Entry::Waiting(Waiter { queue: Arc::clone(self), organization, granted }))
        })
    }

    /// Takes a free slot if the organization may hold one more. This overtakes no waiting call: either all slots are
    /// taken, or every organization with waiting calls is at its limit.
    fn free_slot(self: &Arc<Self>, state: &mut State, organization: &str) -> Option<Slot> {
        if state.running >= self.settings.running {
            return None;
        }
        let organization = match self.counts_by_organization() {
            false => None,
            true => {
                let known = state.organizations.get_key_value(organization);
                let known = known.map(|(organization, calls)| (Arc::clone(organization), calls.running));
                let (organization, runs) = known.unwrap_or_else(|| (organization.into(), 0));
                if runs >= self.settings.running_per_organization {
                    return None;
                }
                state.organizations.entry(Arc::clone(&organization)).or_default().running += 1;
                Some(organization)
            }
        };
        state.running += 1;
        Some(Slot(Some(SlotClaim { queue: Arc::clone(self), organization })))
    }

    /// Takes a slot back and picks the call that gets it.
    fn leave(&self, organization: Option<&Arc<str>>) -> Option<Handover> {
        self.with_state(|state| {
            state.running -= 1;
            if let Some(organization) = organization
                && let Some(calls) = state.organizations.get_mut(organization)
            {
                calls.running -= 1;
                if calls.is_idle() {
                    state.organizations.remove(organization);
                } else if calls.running + 1 == self.settings.running_per_organization
                    && !calls.waiting.is_empty()
                {
                    state.round_robin.push_back(Arc::clone(organization));
                }
            }
            state.next(&self.settings, self.counts_by_organization())
        })
    }
}

impl State {
    fn enqueue(&mut self, settings: &QueueSettings, organization: &Arc<str>) -> oneshot::Receiver<Slot> {
        let (sender, granted) = oneshot::channel();
        let calls = self.organizations.entry(Arc::clone(organization)).or_default();
        calls.waiting.push_back(sender);
        if calls.waiting.len() == 1 && calls.running < settings.running_per_organization {
            self.round_robin.push_back(Arc::clone(organization));
        }
        self.waiting += 1;
        granted
    }

    fn next(&mut self, settings: &QueueSettings, counts: bool) -> Option<Handover> {
        let organization = self.round_robin.pop_front()?;
        let calls = self.organizations.get_mut(&organization)?;
        let sender = calls.waiting.pop_front()?;
        self.waiting -= 1;
        self.running += 1;
        calls.running += usize::from(counts);
        if calls.is_idle() {
            self.organizations.remove(&organization);
        } else if calls.running < settings.running_per_organization && !calls.waiting.is_empty() {
            self.round_robin.push_back(Arc::clone(&organization));
        }
        Some((sender, counts.then_some(organization)))
    }

    fn remove_closed(&mut self, organization: &Arc<str>) {
        let Some(calls) = self.organizations.get_mut(organization) else { return };
        let waited = calls.waiting.len();
        calls.waiting.retain(|sender| !sender.is_closed());
        self.waiting -= waited - calls.waiting.len();
        if waited > 0 && calls.waiting.is_empty() {
            self.round_robin.retain(|waiting| waiting != organization);
        }
        if calls.is_idle() {
            self.organizations.remove(organization);
        }
    }
}

impl OrganizationCalls {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }
}

impl SlotClaim {
    fn hand_over(mut self) {
        loop {
            let Some((sender, organization)) = self.queue.leave(self.organization.as_ref()) else { return };
            let slot = Slot(Some(Self { queue: Arc::clone(&self.queue), organization }));
            // The receiver may have been dropped; then the slot goes to the next call.
            let Some(returned) = sender.send(slot).err().and_then(|mut slot| slot.0.take()) else { return };
            self = returned;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(claim) = self.0.take() {
            claim.hand_over();
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

    fn shared_queue(running: usize, per_organization: usize, waiting_per_organization: usize) -> Queue {
        Queue::new(QueueSettings {
            running,
            running_per_organization: per_organization,
            waiting_per_organization,
            waiting: 10_000,
        })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Starts to wait and returns once the call is enqueued.
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
    async fn organizations_take_turns_however_many_calls_wait() {
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
    async fn a_full_queue_refuses_its_organization_and_no_other() {
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
    async fn an_abandoned_wait_leaves_the_queue() {
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

    /// The limit holds however long the calls run: other slots are not the organization's own.
    #[tokio::test]
    async fn an_organization_has_no_more_slots_than_it_may() {
        let queue = shared_queue(3, 2, 10);
        let held = [queue.enter("noisy", soon).await.unwrap(), queue.enter("noisy", soon).await.unwrap()];
        let (third, fourth) = (wait_in(&queue, "noisy").await, wait_in(&queue, "noisy").await);
        let quiet = queue.enter("quiet", soon).await.unwrap();
        let waiting = wait_in(&queue, "quiet").await;
        // A slot freed by the quiet organization does not go to one at its limit, however long its calls have waited.
        drop(quiet);
        drop(waiting.await.unwrap().unwrap());
        assert_eq!((queue.running(), queue.waiting()), (2, 2));
        drop(queue.enter("quiet", soon).await.unwrap());
        // A slot of its own does.
        drop(held);
        let held = [third.await.unwrap().unwrap(), fourth.await.unwrap().unwrap()];
        assert_eq!((queue.running(), queue.waiting()), (2, 0));
        drop(held);
        assert_eq!(queue.running(), 0);
        assert!(queue.0.with_state(|state| state.organizations.is_empty()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_lost_or_doubled_under_contention() {
        for per_organization in [1, 2, 3] {
            let queue = shared_queue(3, per_organization, 10_000);
            let running: Arc<[AtomicUsize; 7]> = Arc::default();
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..2_000 {
                let (queue, running) = (queue.clone(), Arc::clone(&running));
                calls.spawn(async move {
                    let deadline = || if number % 5 == 0 { Instant::now() } else { soon() };
                    let Ok(slot) = queue.enter(&format!("org{}", number % 7), deadline).await else { return };
                    let of_it = &running[number % 7];
                    assert!(of_it.fetch_add(1, Ordering::SeqCst) < per_organization);
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
            assert!(
                queue.0.with_state(|state| state.organizations.is_empty() && state.round_robin.is_empty())
            );
        }
    }
}
