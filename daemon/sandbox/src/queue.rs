//! A bounded, fair queue: organizations take turns, and each has its own bounded line.
//!
//! There are two of them on the way of a call. In front of the sandbox every call waits for a slot, before its rules are
//! looked at. In it, guests take turns on the processors (`turns.rs`). Where nobody waits, entering is one atomic operation.

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
    /// Slots taken. A slot passes from a finished call to a waiting one without becoming free.
    running: AtomicUsize,
    /// Calls in `lines`, readable without the lock.
    waiting: AtomicUsize,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    of: HashMap<Arc<str>, VecDeque<oneshot::Sender<Slot>>>,
    /// Organizations with a line, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

/// The right to run one call. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Slot(Option<Arc<Shared>>);

impl Queue {
    /// A queue with all slots free.
    pub fn new(settings: QueueSettings) -> Self {
        Self(Arc::new(Shared {
            settings,
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            lines: Mutex::default(),
        }))
    }

    /// Waits for a slot, at most until `deadline`.
    pub async fn enter(&self, organization: &str, deadline: Instant) -> Result<Slot, QueueError> {
        match self.try_enter() {
            Some(slot) => Ok(slot),
            None => turn(self.0.line_up(organization)?, deadline).await,
        }
    }

    /// Gives a slot to the next one that waits, if there is one, and waits behind it for another.
    pub async fn again(&self, slot: Slot, organization: &str, deadline: Instant) -> Result<Slot, QueueError> {
        if self.waiting() == 0 {
            return Ok(slot);
        }
        // It stands in line before its slot goes on; otherwise its organization would miss the turn that is its own.
        let called = self.0.line_up(organization)?;
        drop(slot);
        turn(called, deadline).await
    }

    /// A slot, where one is free and nobody waits.
    pub fn try_enter(&self) -> Option<Slot> {
        (self.waiting() == 0).then(|| self.0.try_take()).flatten()
    }

    /// Calls that hold a slot.
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::Acquire)
    }

    /// Calls that wait.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Acquire)
    }
}

async fn turn(called: oneshot::Receiver<Slot>, deadline: Instant) -> Result<Slot, QueueError> {
    match tokio::time::timeout_at(deadline, called).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) => Err(QueueError::Full),
        Err(_) => Err(QueueError::Deadline),
    }
}

impl Shared {
    fn try_take(self: &Arc<Self>) -> Option<Slot> {
        self.running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < self.settings.running).then_some(running + 1)
            })
            .ok()
            .map(|_| Slot(Some(Arc::clone(self))))
    }

    fn line_up(self: &Arc<Self>, organization: &str) -> Result<oneshot::Receiver<Slot>, QueueError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Ordering::Acquire) >= self.settings.waiting {
            return Err(QueueError::Full);
        }
        let known = lines.of.get(organization).map_or(0, VecDeque::len);
        if known >= self.settings.waiting_per_organization {
            return Err(QueueError::Full);
        }
        let (call_in, turn) = oneshot::channel();
        let organization: Arc<str> = organization.into();
        if known == 0 {
            lines.turns.push_back(Arc::clone(&organization));
        }
        lines.of.entry(organization).or_default().push_back(call_in);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        drop(lines);
        // A slot may have become free between the look and the line.
        if let Some(slot) = self.try_take() {
            self.pass_on(slot);
        }
        Ok(turn)
    }

    /// Gives a slot to the next organization in turn, or frees it.
    fn pass_on(self: &Arc<Self>, mut slot: Slot) {
        loop {
            let next = {
                let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                let next = lines.next();
                match next {
                    Some(_) => drop(self.waiting.fetch_sub(1, Ordering::AcqRel)),
                    // Freed under the lock: whoever lines up afterwards sees it and looks again.
                    None => slot.free(),
                }
                next
            };
            let Some(call_in) = next else { return };
            match call_in.send(slot) {
                Ok(()) => return,
                // It gave up waiting; the slot goes to the one after it.
                Err(returned) => slot = returned,
            }
        }
    }
}

impl Lines {
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        let organization = self.turns.pop_front()?;
        let line = self.of.get_mut(&organization)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.of.remove(&organization);
        } else {
            self.turns.push_back(organization);
        }
        next
    }
}

impl Slot {
    fn free(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.running.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let slot = Slot(Some(Arc::clone(&shared)));
        shared.pass_on(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue(running: usize, per_organization: usize) -> Queue {
        Queue::new(QueueSettings { running, waiting_per_organization: per_organization, waiting: 100 })
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Starts waiting and returns once the call stands in its line.
    async fn wait_in(queue: &Queue, organization: &str) -> tokio::task::JoinHandle<Result<Slot, QueueError>> {
        let before = queue.waiting();
        let (clone, organization) = (queue.clone(), organization.to_owned());
        let handle = tokio::spawn(async move { clone.enter(&organization, soon()).await });
        while queue.waiting() == before {
            tokio::task::yield_now().await;
        }
        handle
    }

    #[tokio::test]
    async fn a_free_slot_is_taken_at_once_and_given_back() {
        let queue = queue(1, 1);
        let slot = queue.enter("acme", soon()).await.unwrap();
        assert_eq!(queue.running(), 1);
        drop(slot);
        assert_eq!(queue.running(), 0);
    }

    #[tokio::test]
    async fn organizations_take_turns_however_long_one_line_is() {
        let queue = queue(1, 10);
        let slot = queue.enter("noisy", soon()).await.unwrap();
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
        let slot = queue.enter("noisy", soon()).await.unwrap();
        let waiting = wait_in(&queue, "noisy").await;
        assert_eq!(queue.enter("noisy", soon()).await.unwrap_err(), QueueError::Full);
        let quiet = wait_in(&queue, "quiet").await;
        drop(slot);
        drop(waiting.await.unwrap().unwrap());
        assert!(quiet.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_deadline_ends_the_wait_and_the_slot_goes_to_the_next() {
        let queue = queue(1, 10);
        let slot = queue.enter("acme", soon()).await.unwrap();
        let late = queue.enter("acme", Instant::now()).await;
        assert_eq!(late.unwrap_err(), QueueError::Deadline);
        let next = wait_in(&queue, "acme").await;
        drop(slot);
        assert!(next.await.unwrap().is_ok());
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_lost_or_doubled_under_contention() {
        let queue = queue(3, 10_000);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..2_000 {
            let queue = queue.clone();
            calls.spawn(async move {
                let organization = format!("org{}", number % 7);
                let deadline = if number % 5 == 0 { Instant::now() } else { soon() };
                if let Ok(slot) = queue.enter(&organization, deadline).await {
                    assert!(queue.running() <= 3);
                    tokio::task::yield_now().await;
                    drop(slot);
                }
            });
        }
        while let Some(done) = calls.join_next().await {
            done.unwrap();
        }
        assert_eq!(queue.running(), 0);
        // Calls that gave up still stand in line until their turn comes; one more visitor clears them.
        drop(queue.enter("last", soon()).await.unwrap());
        assert_eq!(queue.waiting(), 0);
    }
}
