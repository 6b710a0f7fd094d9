//! Lifecycle events of calls (G6), published to the subscribers of a call, a session, an organization or everything.
//!
//! A call emits one `tool_call` (attempted, refused calls too) and in the end exactly one of `tool_result` (it ran) and
//! `tool_error` (it did not run), with `progress`, `approval` and `client` between. Events carry neither arguments nor
//! results; a subscriber asks for the call.
//!
//! Each organization has a ring buffer. A subscriber that lags behind is told how many events it missed. Each event has a
//! position in its ring, so that a subscriber that lost its connection resumes after the last one that it received; the ring
//! of such a subscriber is kept for [`KEPT`]. Without subscribers and kept rings no event is built.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use toolgate_api::event::Event;
use toolgate_api::name::Name;
use toolgate_macros::boxed;
use toolgate_state::identifier;

/// Events of one organization that a subscriber can lag behind.
const RING_EVENTS: usize = 1_024;

/// How long a ring is kept for subscribers that may resume, after the last one has left.
pub const KEPT: Duration = Duration::from_secs(5 * 60);

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
    organizations: RwLock<HashMap<Name, Arc<Ring>>>,
    all: RwLock<Option<Arc<Ring>>>,
    /// Number of rings, of all scopes.
    rings: AtomicUsize,
    pending: TaskTracker,
}

/// The newest events of a scope.
struct Ring {
    /// Random, so that positions of another ring, or of one before a restart, are recognized.
    id: String,
    state: Mutex<RingState>,
    /// Notified after each event.
    changes: watch::Sender<()>,
}

struct RingState {
    events: VecDeque<Arc<Event>>,
    /// Position of the oldest event. The first event has the position 1.
    first: u64,
    subscribers: usize,
    /// When the last subscriber left that may resume.
    left: Option<Instant>,
}

/// Receives the events of a scope.
pub struct Subscriber {
    ring: Arc<Ring>,
    /// Position of the next event.
    next: u64,
    /// The position to resume at belongs to another ring.
    has_gap: bool,
    changes: watch::Receiver<()>,
    _subscription: Subscription,
}

/// Counts a subscriber. Dropping the last one of a scope removes its ring, unless the ring is kept.
struct Subscription {
    broadcaster: Arc<Broadcaster>,
    ring: Arc<Ring>,
    scope: Scope,
    may_resume: bool,
}

/// An item that a subscriber receives.
#[derive(Debug)]
pub enum Received {
    /// An event.
    Event(Arc<Event>),
    /// The subscriber lagged behind and missed this number of events of its scope.
    Missed(u64),
    /// The events after the position to resume at are no longer known: the daemon was restarted, or the ring was not kept.
    Gap,
}

impl Events {
    /// Events with at most so many subscribers for each organization. A subscriber holds a connection, and without the limit
    /// one tenant could hold them all.
    pub fn new(subscribers_per_organization: usize) -> Self {
        Self(Arc::new(Broadcaster {
            subscribers_per_organization,
            organizations: RwLock::default(),
            all: RwLock::default(),
            rings: AtomicUsize::default(),
            pending: TaskTracker::default(),
        }))
    }

    /// Calls whose last event is still to be emitted. Closed at shutdown, so that waiting for it waits for the last event.
    pub fn pending(&self) -> &TaskTracker {
        &self.0.pending
    }

    /// Whether any scope has a subscriber, or a kept ring.
    pub fn has_subscribers(&self) -> bool {
        self.0.rings.load(Ordering::Relaxed) > 0
    }

    /// Publishes an event, which is only built where its scope has a ring.
    pub fn emit(&self, organization: &Name, build: impl FnOnce() -> Event) {
        if !self.has_subscribers() {
            return;
        }
        let ring = {
            let organizations = self.0.organizations.read();
            organizations.get(organization).cloned()
        };
        let all = self.0.all.read().clone();
        if ring.is_none() && all.is_none() {
            return;
        }
        let event = Arc::new(build());
        for ring in ring.into_iter().chain(all) {
            ring.push(Arc::clone(&event));
        }
    }

    /// Subscribes from now on; none where the organization has all its subscribers.
    pub fn subscribe(&self, scope: Scope) -> Option<Subscriber> {
        self.add_subscriber(scope, None, false)
    }

    /// Subscribes with a ring that is kept for a while after the connection is lost. `after` is the [`Subscriber::position`]
    /// to resume at; without it, from now on.
    pub fn resume(&self, scope: Scope, after: Option<&str>) -> Option<Subscriber> {
        self.add_subscriber(scope, after, true)
    }

    /// Removes the rings that were kept for [`KEPT`] and that no subscriber came back to.
    pub fn remove_unused(&self, now: Instant) {
        let mut organizations = self.0.organizations.write();
        let before = organizations.len();
        organizations.retain(|_, ring| !ring.state.lock().is_unused(now));
        let removed = before - organizations.len();
        drop(organizations);
        let mut all = self.0.all.write();
        let removed_all = all.take_if(|ring| ring.state.lock().is_unused(now)).is_some();
        self.0.rings.fetch_sub(removed + usize::from(removed_all), Ordering::Relaxed);
    }

    fn add_subscriber(&self, scope: Scope, after: Option<&str>, may_resume: bool) -> Option<Subscriber> {
        let new = || {
            self.0.rings.fetch_add(1, Ordering::Relaxed);
            Arc::new(Ring::new())
        };
        // Counted under the lock of the map, so that no ring is removed in between.
        let ring = match &scope {
            Scope::All => {
                let mut all = self.0.all.write();
                let ring = all.get_or_insert_with(new);
                ring.state.lock().subscribers += 1;
                Arc::clone(ring)
            }
            Scope::Organization(name) => {
                let mut organizations = self.0.organizations.write();
                let subscribers = organizations.get(name).map_or(0, |ring| ring.state.lock().subscribers);
                if subscribers >= self.0.subscribers_per_organization {
                    return None;
                }
                let ring = organizations.entry(name.clone()).or_insert_with(new);
                ring.state.lock().subscribers += 1;
                Arc::clone(ring)
            }
        };
        let changes = ring.changes.subscribe();
        let (next, has_gap) = ring.start(after);
        let subscription =
            Subscription { broadcaster: Arc::clone(&self.0), ring: Arc::clone(&ring), scope, may_resume };
        Some(Subscriber { ring, next, has_gap, changes, _subscription: subscription })
    }
}

impl Ring {
    fn new() -> Self {
        let state = RingState { events: VecDeque::new(), first: 1, subscribers: 0, left: None };
        Self { id: identifier::fresh("e"), state: Mutex::new(state), changes: watch::Sender::new(()) }
    }

    fn push(&self, event: Arc<Event>) {
        let mut state = self.state.lock();
        if state.events.len() >= RING_EVENTS {
            state.events.pop_front();
            state.first += 1;
        }
        state.events.push_back(event);
        drop(state);
        self.changes.send_replace(());
    }

    /// The position of the first event to send after `after`, and whether the events before it are unknown.
    fn start(&self, after: Option<&str>) -> (u64, bool) {
        let state = self.state.lock();
        let Some(after) = after else { return (state.end(), false) };
        let position = after.strip_prefix(self.id.as_str()).and_then(|rest| rest.strip_prefix('-'));
        match position.and_then(|position| position.parse::<u64>().ok()) {
            Some(position) if position < state.end() => (position + 1, false),
            // The events of this ring are later than all that a subscriber of an earlier ring has seen.
            _ => (state.first, true),
        }
    }
}

impl RingState {
    /// Position of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn is_unused(&self, now: Instant) -> bool {
        self.subscribers == 0 && self.left.is_none_or(|left| now.saturating_duration_since(left) >= KEPT)
    }
}

#[boxed]
impl Subscriber {
    /// The next item. Dropping the future loses none.
    pub async fn next(&mut self) -> Received {
        loop {
            if let Some(received) = self.try_next() {
                return received;
            }
            // The sender lives as long as the ring, which this subscriber holds.
            let _ = self.changes.changed().await;
        }
    }

    /// Whether an item is ready.
    pub fn has_more(&self) -> bool {
        self.has_gap || self.next < self.ring.state.lock().end()
    }

    /// The next item, if one is ready.
    pub fn try_next(&mut self) -> Option<Received> {
        if std::mem::take(&mut self.has_gap) {
            return Some(Received::Gap);
        }
        let state = self.ring.state.lock();
        if self.next < state.first {
            let missed = state.first - self.next;
            self.next = state.first;
            return Some(Received::Missed(missed));
        }
        let index = usize::try_from(self.next - state.first).ok()?;
        let event = state.events.get(index).cloned()?;
        self.next += 1;
        Some(Received::Event(event))
    }

    /// The position after the last item, for [`Events::resume`]: the id of the ring and a number.
    pub fn position(&self) -> String {
        format!("{}-{}", self.ring.id, self.next - 1)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let now = Instant::now();
        let leave = |ring: &Ring| {
            let mut state = ring.state.lock();
            state.subscribers -= 1;
            if self.may_resume {
                state.left = Some(now);
            }
            state.is_unused(now)
        };
        let broadcaster = &self.broadcaster;
        let is_removed = match &self.scope {
            Scope::All => {
                let mut all = broadcaster.all.write();
                leave(&self.ring) && all.take().is_some()
            }
            Scope::Organization(name) => {
                let mut organizations = broadcaster.organizations.write();
                leave(&self.ring) && organizations.remove(name).is_some()
            }
        };
        broadcaster.rings.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
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
            Received::Gap => "gap".to_owned(),
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
        assert!(events.0.organizations.read().is_empty());
    }

    #[tokio::test]
    async fn a_subscriber_that_comes_back_receives_what_happened_meanwhile_and_no_event_twice() {
        let (events, acme) = (Events::new(2), name("acme"));
        let scope = || Scope::Organization(name("acme"));
        let mut first = events.resume(scope(), None).expect("room");
        for call in ["1", "2"] {
            events.emit(&acme, || event(call));
        }
        assert_eq!((receive(&mut first).await, receive(&mut first).await), ("1".into(), "2".into()));
        let position = first.position();
        drop(first);
        events.emit(&acme, || event("3"));
        let mut again = events.resume(scope(), Some(&position)).expect("room");
        events.emit(&acme, || event("4"));
        assert_eq!((receive(&mut again).await, receive(&mut again).await), ("3".into(), "4".into()));
        assert!(again.try_next().is_none());
        drop(again);
        for number in 0..=RING_EVENTS {
            events.emit(&acme, || event(&number.to_string()));
        }
        let mut late = events.resume(scope(), Some(&position)).expect("room");
        assert_eq!((receive(&mut late).await, receive(&mut late).await), ("missed 3".into(), "1".into()));
    }

    #[tokio::test]
    async fn a_position_of_another_ring_is_a_gap() {
        let (events, scope) = (Events::new(9), || Scope::Organization(name("acme")));
        let other = events.resume(Scope::Organization(name("other")), None).expect("room");
        let reader = events.resume(scope(), None).expect("room");
        events.emit(&name("acme"), || event("1"));
        let ahead = reader.position().replace("-0", "-7");
        let long = "x".repeat(9_999);
        for unknown in [other.position().as_str(), &ahead, "", "-", "e_1", &long] {
            let mut again = events.resume(scope(), Some(unknown)).expect("room");
            assert_eq!((receive(&mut again).await, receive(&mut again).await), ("gap".into(), "1".into()));
        }
    }

    #[test]
    fn a_ring_is_kept_for_a_while_and_then_removed() {
        let events = Events::new(2);
        for scope in [Scope::Organization(name("acme")), Scope::All] {
            drop(events.resume(scope, None).expect("room"));
        }
        events.remove_unused(Instant::now());
        assert!(events.has_subscribers());
        events.remove_unused(Instant::now() + KEPT);
        assert!(!events.has_subscribers());
        events.emit(&name("acme"), || unreachable!("no ring left"));
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
                assert!(events.0.organizations.read().is_empty());
                assert!(events.0.all.read().is_none());
            }
        }
    }
}
