//! Limits on open connections, per organization and in total. A connection holds a slot from before it is opened until
//! its socket is closed, also while idle.
//!
//! A request first waits for its organization's limit and then for the total one (FIFO). So an organization has no
//! more requests in the total line than connections it may have open, and cannot crowd out the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits.
pub(super) struct Slots {
    total: Arc<ConnectionLimit>,
    per_organization: usize,
    /// Limits of the organizations with open or requested connections.
    organizations: Mutex<HashMap<String, Weak<ConnectionLimit>>>,
}

/// The permit for one connection.
pub(super) struct Slot {
    _total: OwnedSemaphorePermit,
    _organization: OwnedSemaphorePermit,
    _limit: Arc<ConnectionLimit>,
}

/// The exhausted limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    /// The organization's.
    Organization,
    /// The total.
    Total,
}

struct ConnectionLimit {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Slots {
    pub(super) fn new(total: usize, per_organization: usize) -> Self {
        Self {
            total: Arc::new(ConnectionLimit::new(total)),
            per_organization,
            organizations: Mutex::default(),
        }
    }

    /// Waits for a slot. `close_idle` closes an idle connection, of the organization or of any.
    ///
    /// A waiting request is counted before it calls `close_idle`, and a connection is kept idle only if no request
    /// waits. So no idle connection holds a slot that a request waits for.
    pub(super) async fn take(&self, organization: &str, close_idle: impl Fn(Exhausted)) -> Slot {
        let limit = self.organization_limit(organization);
        let organization_permit = limit.enter(|| close_idle(Exhausted::Organization)).await;
        let total_permit = self.total.enter(|| close_idle(Exhausted::Total)).await;
        Slot { _total: total_permit, _organization: organization_permit, _limit: limit }
    }

    /// Whether a request waits for the slot of an idle connection of this organization.
    pub(super) fn has_waiters(&self, organization: &str) -> bool {
        self.total.has_waiters() || self.organization_limit(organization).has_waiters()
    }

    fn organization_limit(&self, organization: &str) -> Arc<ConnectionLimit> {
        let mut organizations = self.organizations.lock();
        if let Some(limit) = organizations.get(organization).and_then(Weak::upgrade) {
            return limit;
        }
        // Bounds the map to the organizations with slots or waiting requests.
        organizations.retain(|_, limit| limit.strong_count() > 0);
        let limit = Arc::new(ConnectionLimit::new(self.per_organization));
        organizations.insert(organization.to_owned(), Arc::downgrade(&limit));
        limit
    }
}

impl ConnectionLimit {
    fn new(slots: usize) -> Self {
        let free = Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { free, waiting: AtomicUsize::new(0) }
    }

    async fn enter(&self, close_idle: impl Fn()) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return permit;
        }
        let _waiting = WaitingGuard::new(self);
        close_idle();
        match Arc::clone(&self.free).acquire_owned().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

/// Counts a waiting request until it is dropped.
struct WaitingGuard<'limit>(&'limit ConnectionLimit);

impl<'limit> WaitingGuard<'limit> {
    fn new(limit: &'limit ConnectionLimit) -> Self {
        limit.waiting.fetch_add(1, Ordering::SeqCst);
        Self(limit)
    }
}

impl Drop for WaitingGuard<'_> {
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

    /// The output of a future that is ready at its first poll.
    fn poll_once<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn try_take(slots: &Slots, organization: &str) -> Option<Slot> {
        poll_once(slots.take(organization, |_| {}))
    }

    #[test]
    fn one_organization_cannot_take_what_is_there_for_all() {
        let slots = Slots::new(3, 2);
        let (first, _second) = (try_take(&slots, "a"), try_take(&slots, "a"));
        assert!(first.is_some() && try_take(&slots, "a").is_none());
        let third = try_take(&slots, "b");
        assert!(third.is_some() && try_take(&slots, "c").is_none());
        drop(first);
        assert!(try_take(&slots, "c").is_some());
        assert!(try_take(&slots, "a").is_some());
    }

    #[test]
    fn who_waits_is_seen_and_asks_for_the_room_that_is_missing() {
        let slots = Slots::new(2, 1);
        let asked = Mutex::new(Vec::new());
        let take = |organization| slots.take(organization, |exhausted| asked.lock().push(exhausted));
        let (_one, two) = (poll_once(take("a")), poll_once(take("b")));
        assert!(!slots.has_waiters("a") && asked.lock().is_empty());
        {
            let mut waiting = pin!(take("a"));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(slots.has_waiters("a") && !slots.has_waiters("b"));
        }
        assert!(!slots.has_waiters("a"), "who gave up is not waited for");
        let mut waiting = pin!(take("c"));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(slots.has_waiters("a") && slots.has_waiters("b"));
        assert_eq!(*asked.lock(), [Exhausted::Organization, Exhausted::Total]);
        drop(two);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn organizations_without_connections_are_forgotten() {
        let slots = Slots::new(8, 8);
        (0..100).for_each(|number| drop(try_take(&slots, &number.to_string())));
        assert!(slots.organizations.lock().len() <= 1);
    }

    #[test]
    fn a_slot_that_was_made_free_goes_to_who_waited_longest() {
        let slots = Slots::new(1, 1);
        let first = try_take(&slots, "a");
        let is_done = AtomicBool::new(false);
        let mut waiting = pin!(async {
            let _slot = slots.take("b", |_| {}).await;
            is_done.store(true, Ordering::SeqCst);
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(try_take(&slots, "c").is_none(), "it was taken past the line");
        assert!(waiting.as_mut().poll(&mut context).is_ready() && is_done.load(Ordering::SeqCst));
    }
}
