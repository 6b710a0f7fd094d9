//! How many connections may be open, of one organization and of all: each takes a slot from before it is opened until
//! its socket is closed, used or idle.
//!
//! An organization waits at its own gate first and then at that of all, so those of it that wait for the others are no
//! more than it may have open: in the line of all, first come first served, it cannot stand before everybody else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots.
pub(super) struct Slots {
    all: Arc<Gate>,
    of_one: usize,
    /// Those of organizations that have or want connections.
    organizations: Mutex<HashMap<String, Weak<Gate>>>,
}

/// Leave for one connection.
pub(super) struct Slot {
    _of_all: OwnedSemaphorePermit,
    _of_one: OwnedSemaphorePermit,
    _gate: Arc<Gate>,
}

/// What is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// What the organization of the request may have open.
    Organization,
    /// What all of them may.
    All,
}

struct Gate {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Slots {
    pub(super) fn new(all: usize, of_one: usize) -> Self {
        Self { all: Arc::new(Gate::new(all)), of_one, organizations: Mutex::default() }
    }

    /// A slot, once there is one. `make_room` closes an idle connection, of the organization or of anybody.
    ///
    /// Whoever waits is counted before it makes room, and what becomes idle is kept only where nobody waits: so no idle
    /// connection stays open beside one that waits for its slot.
    pub(super) async fn take(&self, organization: &str, make_room: impl Fn(Full)) -> Slot {
        let gate = self.gate_of(organization);
        let of_one = gate.enter(|| make_room(Full::Organization)).await;
        let of_all = self.all.enter(|| make_room(Full::All)).await;
        Slot { _of_all: of_all, _of_one: of_one, _gate: gate }
    }

    /// Whether somebody waits for the slot of an idle connection of this organization.
    pub(super) fn is_wanted_of(&self, organization: &str) -> bool {
        self.all.is_waited_at() || self.gate_of(organization).is_waited_at()
    }

    fn gate_of(&self, organization: &str) -> Arc<Gate> {
        let mut organizations = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = organizations.get(organization).and_then(Weak::upgrade) {
            return gate;
        }
        // There are no more of them than slots and those who wait.
        organizations.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(Gate::new(self.of_one));
        organizations.insert(organization.to_owned(), Arc::downgrade(&gate));
        gate
    }
}

impl Gate {
    fn new(slots: usize) -> Self {
        let free = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { free, waiting: AtomicUsize::new(0) }
    }

    async fn enter(&self, make_room: impl Fn()) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return permit;
        }
        let _waiting = Waiting::at(self);
        make_room();
        match Arc::clone(&self.free).acquire_owned().await {
            Ok(permit) => permit,
            // It is closed by nobody.
            Err(_) => std::future::pending().await,
        }
    }

    fn is_waited_at(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

/// Counted as long as it waits, however that ends.
struct Waiting<'gate>(&'gate Gate);

impl<'gate> Waiting<'gate> {
    fn at(gate: &'gate Gate) -> Self {
        gate.waiting.fetch_add(1, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What a future says when it is asked once.
    fn now<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn taken(slots: &Slots, organization: &str) -> Option<Slot> {
        now(slots.take(organization, |_| {}))
    }

    #[test]
    fn one_organization_cannot_take_what_is_there_for_all() {
        let slots = Slots::new(3, 2);
        let (first, _second) = (taken(&slots, "a"), taken(&slots, "a"));
        assert!(first.is_some() && taken(&slots, "a").is_none());
        let third = taken(&slots, "b");
        assert!(third.is_some() && taken(&slots, "c").is_none());
        drop(first);
        assert!(taken(&slots, "c").is_some());
        assert!(taken(&slots, "a").is_some());
    }

    #[test]
    fn who_waits_is_seen_and_asks_for_the_room_that_is_missing() {
        let slots = Slots::new(2, 1);
        let asked = Mutex::new(Vec::new());
        let take =
            |organization| slots.take(organization, |full| asked.lock().expect("nobody else").push(full));
        let (_one, two) = (now(take("a")), now(take("b")));
        assert!(!slots.is_wanted_of("a") && asked.lock().expect("nobody else").is_empty());
        {
            let mut waiting = pin!(take("a"));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(slots.is_wanted_of("a") && !slots.is_wanted_of("b"));
        }
        assert!(!slots.is_wanted_of("a"), "who gave up is not waited for");
        let mut waiting = pin!(take("c"));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(slots.is_wanted_of("a") && slots.is_wanted_of("b"));
        assert_eq!(*asked.lock().expect("nobody else"), [Full::Organization, Full::All]);
        drop(two);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn organizations_without_connections_are_forgotten() {
        let slots = Slots::new(8, 8);
        (0..100).for_each(|number| drop(taken(&slots, &number.to_string())));
        assert!(slots.organizations.lock().expect("nobody else").len() <= 1);
    }

    #[test]
    fn a_slot_that_was_made_free_goes_to_who_waited_longest() {
        let slots = Slots::new(1, 1);
        let first = taken(&slots, "a");
        let is_done = AtomicBool::new(false);
        let mut waiting = pin!(async {
            let _slot = slots.take("b", |_| {}).await;
            is_done.store(true, Ordering::SeqCst);
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(taken(&slots, "c").is_none(), "it was taken past the line");
        assert!(waiting.as_mut().poll(&mut context).is_ready() && is_done.load(Ordering::SeqCst));
    }
}
