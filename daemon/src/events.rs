//! Lifecycle events of calls (G6), published to the subscribers of a call, a session, an organization or everything.
//!
//! A call emits one `tool_call` (attempted, refused calls too) and in the end exactly one of `tool_result` (it ran) and
//! `tool_error` (it did not run), with `progress`, `approval` and `client` between. Events carry neither arguments nor
//! results; a subscriber asks for the call.
//!
//! Each organization has a ring buffer. A subscriber that lags behind is told how many events it missed. Without
//! subscribers no event is built.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio_util::task::TaskTracker;
use toolgate_api::event::Event;
use toolgate_api::name::Name;

/// Events of one organization that a subscriber can lag behind.
const RING_EVENTS: usize = 1_024;

/// The scope of a subscription.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All organizations.
    All,
    /// One organization.
    Organization(Name),
}

/// Publishes events. Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<Broadcaster>);

struct Broadcaster {
    subscribers_per_organization: usize,
    organizations: RwLock<HashMap<Name, Sender<Arc<Event>>>>,
    all: RwLock<Option<Sender<Arc<Event>>>>,
    subscribers: AtomicUsize,
    pending: TaskTracker,
}

/// Receives the events of a scope.
pub struct Subscriber {
    // INVARIANT: the receiver is dropped before the subscription, so the last of several subscribers that leave at the same
    // time finds a receiver count of zero.
    receiver: Receiver<Arc<Event>>,
    _subscription: Subscription,
}

/// Counts a subscriber. Dropping the last one of a scope removes its ring buffer.
struct Subscription {
    broadcaster: Arc<Broadcaster>,
    scope: Scope,
}

/// An item that a subscriber receives.
#[derive(Debug)]
pub enum Received {
    /// An event.
    Event(Arc<Event>),
    /// The subscriber lagged behind and missed this number of events of its scope.
    Missed(u64),
}

impl Events {
    /// Events with at most so many subscribers for each organization. A subscriber holds a connection, and without the limit
    /// one tenant could hold them all.
    pub fn new(subscribers_per_organization: usize) -> Self {
        Self(Arc::new(Broadcaster {
            subscribers_per_organization,
            organizations: RwLock::default(),
            all: RwLock::default(),
            subscribers: AtomicUsize::default(),
            pending: TaskTracker::default(),
        }))
    }

    /// Calls whose last event is still to be emitted. Closed at shutdown, so that waiting for it waits for the last event.
    pub fn pending(&self) -> &TaskTracker {
        &self.0.pending
    }

    /// Whether any scope has a subscriber.
    pub fn has_subscribers(&self) -> bool {
        self.0.subscribers.load(Ordering::Relaxed) > 0
    }

    /// Publishes an event, which is only built where its scope has a subscriber.
    pub fn emit(&self, organization: &Name, build: impl FnOnce() -> Event) {
        if !self.has_subscribers() {
            return;
        }
        let ring = {
            let organizations = self.0.organizations.read().unwrap_or_else(PoisonError::into_inner);
            organizations.get(organization).cloned()
        };
        let all = self.0.all.read().unwrap_or_else(PoisonError::into_inner).clone();
        if ring.is_none() && all.is_none() {
            return;
        }
        let event = Arc::new(build());
        // Sending fails where the last subscriber has left meanwhile.
        for sender in ring.into_iter().chain(all) {
            let _ = sender.send(Arc::clone(&event));
        }
    }

    /// Subscribes from now on; none where the organization has all its subscribers.
    pub fn subscribe(&self, scope: Scope) -> Option<Subscriber> {
        let new = || broadcast::channel(RING_EVENTS).0;
        let receiver = match &scope {
            Scope::All => {
                let mut all = self.0.all.write().unwrap_or_else(PoisonError::into_inner);
                all.get_or_insert_with(new).subscribe()
            }
            Scope::Organization(name) => {
                let mut organizations = self.0.organizations.write().unwrap_or_else(PoisonError::into_inner);
                let subscribers = organizations.get(name).map_or(0, Sender::receiver_count);
                if subscribers >= self.0.subscribers_per_organization {
                    return None;
                }
                organizations.entry(name.clone()).or_insert_with(new).subscribe()
            }
        };
        self.0.subscribers.fetch_add(1, Ordering::Relaxed);
        let subscription = Subscription { broadcaster: Arc::clone(&self.0), scope };
        Some(Subscriber { receiver, _subscription: subscription })
    }
}

impl Subscriber {
    /// The next item. Dropping the future loses none.
    pub async fn next(&mut self) -> Received {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Received::Event(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => return Received::Missed(missed),
                // The sender lives as long as the subscription.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Whether an item is ready.
    pub fn has_more(&self) -> bool {
        !self.receiver.is_empty()
    }

    /// The next item, if one is ready.
    pub fn try_next(&mut self) -> Option<Received> {
        match self.receiver.try_recv() {
            Ok(event) => Some(Received::Event(event)),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(Received::Missed(missed)),
            Err(_) => None,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Self { broadcaster, scope } = self;
        broadcaster.subscribers.fetch_sub(1, Ordering::Relaxed);
        let is_unused = |sender: &Sender<Arc<Event>>| sender.receiver_count() == 0;
        match scope {
            Scope::All => {
                let mut all = broadcaster.all.write().unwrap_or_else(PoisonError::into_inner);
                if all.as_ref().is_some_and(is_unused) {
                    *all = None;
                }
            }
            Scope::Organization(name) => {
                let mut organizations =
                    broadcaster.organizations.write().unwrap_or_else(PoisonError::into_inner);
                if organizations.get(name).is_some_and(is_unused) {
                    organizations.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use toolgate_api::event::EventKind;

    /// Often enough that two threads meet in between.
    const ROUNDS: usize = 500;

    fn event(call: &str) -> Event {
        Event { session: "s".into(), call: call.into(), ..Event::new(EventKind::ToolCall, 0, "", "") }
    }

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    async fn receive(subscriber: &mut Subscriber) -> String {
        match subscriber.next().await {
            Received::Event(event) => event.call.to_string(),
            Received::Missed(missed) => format!("missed {missed}"),
        }
    }

    /// G6: never another tenant's.
    #[tokio::test]
    async fn a_subscriber_receives_events_of_its_organization_alone() {
        let events = Events::new(2);
        let mut acme = events.subscribe(Scope::Organization(name("acme"))).expect("room");
        let mut all = events.subscribe(Scope::All).expect("room");
        events.emit(&name("other"), || event("theirs"));
        events.emit(&name("acme"), || event("ours"));
        assert_eq!(receive(&mut acme).await, "ours");
        assert_eq!((receive(&mut all).await, receive(&mut all).await), ("theirs".into(), "ours".into()));
    }

    #[test]
    fn the_subscribers_of_an_organization_are_limited_by_themselves() {
        let events = Events::new(2);
        let acme = || events.subscribe(Scope::Organization(name("acme")));
        let readers = [acme(), acme()];
        assert!(acme().is_none());
        assert!(events.subscribe(Scope::Organization(name("other"))).is_some());
        assert!(events.subscribe(Scope::All).is_some());
        drop(readers);
        assert!(acme().is_some());
    }

    #[tokio::test]
    async fn a_slow_subscriber_receives_the_number_of_missed_events_and_goes_on() {
        let events = Events::new(2);
        let mut slow = events.subscribe(Scope::Organization(name("acme"))).expect("room");
        for number in 0..RING_EVENTS + 3 {
            events.emit(&name("acme"), || event(&number.to_string()));
        }
        assert_eq!(receive(&mut slow).await, "missed 3");
        assert_eq!(receive(&mut slow).await, "3");
    }

    #[test]
    fn without_subscribers_no_event_is_built_and_no_ring_is_kept() {
        let events = Events::new(2);
        let reader = events.subscribe(Scope::Organization(name("acme"))).expect("room");
        events.emit(&name("other"), || unreachable!("no subscriber there"));
        drop(reader);
        events.emit(&name("acme"), || unreachable!("no subscriber left"));
        assert!(events.0.organizations.read().unwrap().is_empty());
    }

    #[test]
    fn subscribers_that_leave_at_the_same_time_leave_no_ring() {
        let events = Events::new(2);
        for _ in 0..ROUNDS {
            for scope in [Scope::Organization(name("acme")), Scope::All] {
                let together = Barrier::new(2);
                let readers =
                    [events.subscribe(scope.clone()).expect("room"), events.subscribe(scope).expect("room")];
                std::thread::scope(|threads| {
                    for reader in readers {
                        threads.spawn(|| {
                            together.wait();
                            drop(reader);
                        });
                    }
                });
                assert!(events.0.organizations.read().unwrap().is_empty());
                assert!(events.0.all.read().unwrap().is_none());
            }
        }
    }
}
