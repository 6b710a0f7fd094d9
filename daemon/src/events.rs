//! What happens, as it happens: for those who listen to a call, a session, an organization or everything (G6).
//!
//! Every call gives one `tool_call` (it was attempted, refused or not) and in the end exactly one of `tool_result` (it
//! ran, whatever came out) and `tool_error` (it did not run). Between them there can be `progress`, `approval` and
//! `client`. An event says what happened and not what was sent: arguments and results are asked for with the call.
//!
//! Each organization has a ring of its own, which a slow reader falls out of: it is then told how much it missed,
//! and nobody waits for it. With no reader nothing is made at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio_util::task::TaskTracker;
use toolgate_admission::Name;
use utoipa::ToSchema;

/// Events of one organization that a reader can lag behind.
const RING: usize = 1_024;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A call was attempted.
    ToolCall,
    /// The tool told how far it is.
    Progress,
    /// The call waits for a person, or a person has decided.
    Approval,
    /// The tool has prepared what a client is to do.
    Client,
    /// The call ran, whatever came out.
    ToolResult,
    /// The call did not run.
    ToolError,
}

impl EventKind {
    /// As streams name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::Progress => "progress",
            Self::Approval => "approval",
            Self::Client => "client",
            Self::ToolResult => "tool_result",
            Self::ToolError => "tool_error",
        }
    }
}

/// What an event says.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub struct EventBody<'a> {
    /// What happened.
    pub event: EventKind,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The organization.
    pub organization: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// The session.
    pub session: &'a str,
    /// The orchestrator's conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub conversation: Option<&'a str>,
    /// The call's id.
    pub call: &'a str,
    /// The tool as it was called.
    pub tool: &'a str,
    /// How the call stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub status: Option<&'a str>,
    /// The code, where it ended in an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub error_type: Option<&'a str>,
    /// What was told of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub message: Option<&'a str>,
    /// The approval's id and state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EventApproval, required = false)]
    pub approval: Option<EventApproval<'a>>,
    /// How far the tool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EventProgress, required = false)]
    pub progress: Option<EventProgress<'a>>,
}

/// What a stream tells. A call that is followed ends with the event `answer`, which is the call's result.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by the derive alone")]
pub enum StreamEvent {
    /// The event named by its member `event`.
    Event(Box<EventBody<'static>>),
    /// The event `dropped`: the reader was too slow.
    Dropped(EventsDropped),
}

/// How many of the organization's events a reader has missed.
#[derive(Serialize, ToSchema)]
pub struct EventsDropped {
    /// Events.
    pub dropped: u64,
}

/// An approval in an event.
#[derive(Serialize, ToSchema)]
pub struct EventApproval<'a> {
    /// Its id.
    pub id: &'a str,
    /// `pending`, `approved`, `denied`, …
    pub state: &'a str,
}

/// How far a tool is, as it says.
#[derive(Serialize, ToSchema)]
pub struct EventProgress<'a> {
    /// How much is done.
    pub done: u64,
    /// Of how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub total: Option<u64>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub message: Option<&'a str>,
}

/// An event on its way to readers.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The session it is about.
    pub session: Box<str>,
    /// The call it is about.
    pub call: Box<str>,
    /// An [`EventBody`] as JSON text.
    pub json: Box<str>,
}

/// What a reader wants to hear of.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Everything.
    All,
    /// One organization.
    Organization(Name),
}

/// Where events go. Cheap to clone.
#[derive(Clone)]
pub struct Events(Arc<Hub>);

struct Hub {
    /// Readers of one organization.
    most: usize,
    organizations: RwLock<HashMap<Name, Sender<Arc<Event>>>>,
    all: RwLock<Option<Sender<Arc<Event>>>>,
    readers: AtomicUsize,
    telling: TaskTracker,
}

/// Somebody who listens.
pub struct Reader {
    // INVARIANT: it is dropped before the place is given up, so the last of the readers that leave at the same time finds
    // that nobody is left.
    receiver: Receiver<Arc<Event>>,
    _place: Place,
}

/// A place among the readers. Dropping the last one of a scope forgets its ring.
struct Place {
    hub: Arc<Hub>,
    scope: Scope,
}

/// What a reader gets.
#[derive(Debug)]
pub enum Heard {
    /// Something happened.
    Event(Arc<Event>),
    /// The reader was too slow: so many events of its scope are gone.
    Missed(u64),
}

impl Events {
    /// Events of organizations that have at most so many readers each: whoever listens holds a connection, and one tenant
    /// could hold all that there are.
    pub fn new(readers_per_organization: usize) -> Self {
        Self(Arc::new(Hub {
            most: readers_per_organization,
            organizations: RwLock::default(),
            all: RwLock::default(),
            readers: AtomicUsize::default(),
            telling: TaskTracker::default(),
        }))
    }

    /// Calls whose end is still to be told. Closed when the daemon stops, so that waiting for it waits for the last word.
    pub fn telling(&self) -> &TaskTracker {
        &self.0.telling
    }

    /// Whether anybody listens at all.
    pub fn anybody(&self) -> bool {
        self.0.readers.load(Ordering::Relaxed) > 0
    }

    /// Tells those who listen. The event is only made if somebody does.
    pub fn tell(&self, organization: &Name, make: impl FnOnce() -> Event) {
        if !self.anybody() {
            return;
        }
        let to = {
            let organizations = self.0.organizations.read().unwrap_or_else(PoisonError::into_inner);
            organizations.get(organization).cloned()
        };
        let all = self.0.all.read().unwrap_or_else(PoisonError::into_inner).clone();
        if to.is_none() && all.is_none() {
            return;
        }
        let event = Arc::new(make());
        // Nobody may be left by now, which is no fault.
        for sender in to.into_iter().chain(all) {
            let _ = sender.send(Arc::clone(&event));
        }
    }

    /// Listens from now on; nothing where the organization has all its readers.
    pub fn listen(&self, scope: Scope) -> Option<Reader> {
        let new = || broadcast::channel(RING).0;
        let receiver = match &scope {
            Scope::All => {
                let mut all = self.0.all.write().unwrap_or_else(PoisonError::into_inner);
                all.get_or_insert_with(new).subscribe()
            }
            Scope::Organization(name) => {
                let mut organizations = self.0.organizations.write().unwrap_or_else(PoisonError::into_inner);
                let readers = organizations.get(name).map_or(0, Sender::receiver_count);
                if readers >= self.0.most {
                    return None;
                }
                organizations.entry(name.clone()).or_insert_with(new).subscribe()
            }
        };
        self.0.readers.fetch_add(1, Ordering::Relaxed);
        Some(Reader { receiver, _place: Place { hub: Arc::clone(&self.0), scope } })
    }
}

impl Reader {
    /// The next event, or how many are gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Heard {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Heard::Event(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => return Heard::Missed(missed),
                // The sender lives as long as there are readers.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Reader {
    /// Whether something was told that was not heard yet.
    pub fn has_more(&self) -> bool {
        !self.receiver.is_empty()
    }

    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<Heard> {
        match self.receiver.try_recv() {
            Ok(event) => Some(Heard::Event(event)),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(_) => None,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.readers.fetch_sub(1, Ordering::Relaxed);
        let is_unheard = |sender: &Sender<Arc<Event>>| sender.receiver_count() == 0;
        match &self.scope {
            Scope::All => {
                let mut all = self.hub.all.write().unwrap_or_else(PoisonError::into_inner);
                if all.as_ref().is_some_and(is_unheard) {
                    *all = None;
                }
            }
            Scope::Organization(name) => {
                let mut organizations =
                    self.hub.organizations.write().unwrap_or_else(PoisonError::into_inner);
                if organizations.get(name).is_some_and(is_unheard) {
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

    /// Often enough that two threads meet in between.
    const ROUNDS: usize = 500;

    fn event(call: &str) -> Event {
        Event { kind: EventKind::ToolCall, session: "s".into(), call: call.into(), json: "{}".into() }
    }

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    async fn heard(reader: &mut Reader) -> String {
        match reader.next().await {
            Heard::Event(event) => event.call.to_string(),
            Heard::Missed(missed) => format!("missed {missed}"),
        }
    }

    /// G6: never another tenant's.
    #[tokio::test]
    async fn a_reader_hears_its_organization_and_no_other() {
        let events = Events::new(2);
        let mut acme = events.listen(Scope::Organization(name("acme"))).expect("room");
        let mut all = events.listen(Scope::All).expect("room");
        events.tell(&name("other"), || event("theirs"));
        events.tell(&name("acme"), || event("ours"));
        assert_eq!(heard(&mut acme).await, "ours");
        assert_eq!((heard(&mut all).await, heard(&mut all).await), ("theirs".into(), "ours".into()));
    }

    #[test]
    fn an_organization_has_so_many_readers_and_takes_none_of_the_others() {
        let events = Events::new(2);
        let acme = || events.listen(Scope::Organization(name("acme")));
        let readers = [acme(), acme()];
        assert!(acme().is_none());
        assert!(events.listen(Scope::Organization(name("other"))).is_some());
        assert!(events.listen(Scope::All).is_some());
        drop(readers);
        assert!(acme().is_some());
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_much_it_missed_and_goes_on() {
        let events = Events::new(2);
        let mut slow = events.listen(Scope::Organization(name("acme"))).expect("room");
        for number in 0..RING + 3 {
            events.tell(&name("acme"), || event(&number.to_string()));
        }
        assert_eq!(heard(&mut slow).await, "missed 3");
        assert_eq!(heard(&mut slow).await, "3");
    }

    #[test]
    fn without_readers_nothing_is_made_and_nothing_is_kept() {
        let events = Events::new(2);
        let reader = events.listen(Scope::Organization(name("acme"))).expect("room");
        events.tell(&name("other"), || unreachable!("nobody listens there"));
        drop(reader);
        events.tell(&name("acme"), || unreachable!("nobody listens any more"));
        assert!(events.0.organizations.read().unwrap().is_empty());
    }
    #[test]
    fn readers_who_leave_at_the_same_time_leave_nothing_behind() {
        let events = Events::new(2);
        for _ in 0..ROUNDS {
            for scope in [Scope::Organization(name("acme")), Scope::All] {
                let together = Barrier::new(2);
                let readers =
                    [events.listen(scope.clone()).expect("room"), events.listen(scope).expect("room")];
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
