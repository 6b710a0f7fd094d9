//! Pool of idle connections, reused by requests of the same owner only.
//!
//! The owner is an organization, a plugin, a credential and the grant that vetted the address; a request that differs
//! in any of these opens a connection of its own. A connection is closed after an idle timeout, or earlier if another
//! owner needs its slot.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use toolgate_admission::Permitted;
use toolgate_api::grant::Grant;
use toolgate_api::network::{Host, NetworkScheme};

use super::connection::{Connection, Task};
use super::slots::{Exhausted, Slot, Slots};

/// Idle connections of all owners. Each is a socket and some buffers.
const IDLE_MAX: usize = 1_024;
/// Idle connections of one owner to one host: as many as calls commonly run at once.
const IDLE_PER_OWNER: usize = 32;
/// Idle timeout. Servers commonly close after a minute, and a request on a connection that was just closed fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The owner and the destination of a connection.
#[derive(Clone, Debug)]
pub(super) struct PoolKey {
    organization: Arc<str>,
    plugin: Arc<str>,
    credential: Option<Arc<str>>,
    scheme: NetworkScheme,
    host: Host,
    port: u16,
    /// Compared by its private networks and certificate authorities.
    granted: Arc<Grant>,
}

impl PoolKey {
    pub(super) fn new(
        organization: &Arc<str>,
        plugin: &Arc<str>,
        credential: Option<Arc<str>>,
        permitted: &Permitted,
    ) -> Self {
        let target = permitted.target();
        Self {
            organization: Arc::clone(organization),
            plugin: Arc::clone(plugin),
            credential,
            scheme: target.scheme(),
            host: target.host().clone(),
            port: target.port(),
            granted: Arc::clone(permitted.grant()),
        }
    }

    fn parts(&self) -> impl PartialEq + Hash {
        (&self.organization, &self.plugin, &self.credential, self.scheme, &self.host, self.port)
    }

    fn has_same_grant(&self, other: &Self) -> bool {
        let (own, others) = (&self.granted, &other.granted);
        Arc::ptr_eq(own, others)
            || own.private_networks == others.private_networks && own.extra_ca == others.extra_ca
    }
}

impl PartialEq for PoolKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts() && self.has_same_grant(other)
    }
}

impl Eq for PoolKey {}

/// Certificates are compared and not hashed: they are few and long.
impl Hash for PoolKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// The idle connections and the slots of all connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pool {
    state: Arc<Mutex<PoolState>>,
    slots: Arc<Slots>,
}

#[derive(Default)]
struct PoolState {
    /// Each list is in the order in which its connections became idle.
    idle: HashMap<Arc<PoolKey>, Vec<Idle>>,
    count: usize,
    /// Closes expired connections; runs while the pool has any.
    sweeper: Option<Task>,
}

impl Pool {
    pub(super) fn new(slots: Slots) -> Self {
        Self { state: Arc::default(), slots: Arc::new(slots) }
    }

    /// Waits for a slot for a connection of this owner; closes an idle connection if all are taken.
    pub(super) async fn slot(&self, key: &PoolKey) -> Slot {
        self.slots.take(&key.organization, |exhausted| self.close_oldest(exhausted, &key.organization)).await
    }

    /// Closes the connection that has been idle longest. A connection closed by its server may no longer hold a slot.
    fn close_oldest(&self, exhausted: Exhausted, organization: &str) {
        let matches = |key: &PoolKey| exhausted == Exhausted::Total || *key.organization == *organization;
        loop {
            let oldest = self.state.lock().take_oldest(matches);
            if oldest.is_none_or(|idle| !idle.connection.is_closed()) {
                return;
            }
        }
    }

    /// Returns the most recently used connection of this owner that is still usable.
    pub(super) fn take(&self, key: &PoolKey) -> Option<Connection> {
        loop {
            let idle = self.state.lock().pop(key);
            let mut connection = idle?.connection;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, unless the pool is full or a request waits for its slot.
    pub(super) fn put(&self, key: &Arc<PoolKey>, connection: Connection) {
        if connection.is_spent() {
            return;
        }
        let mut state = self.state.lock();
        let is_full =
            state.count >= IDLE_MAX || state.idle.get(key).is_some_and(|idle| idle.len() >= IDLE_PER_OWNER);
        if is_full || self.slots.has_waiters(&key.organization) {
            return;
        }
        if state.idle.len() >= 2 * IDLE_MAX {
            state.idle.retain(|_, idle| !idle.is_empty());
        }
        let idle = Idle { connection, since: Instant::now() };
        state.idle.entry(Arc::clone(key)).or_default().push(idle);
        state.count += 1;
        if state.sweeper.as_ref().is_none_or(Task::has_ended) {
            state.sweeper = Some(Task(tokio::spawn(sweep(Arc::downgrade(&self.state)))));
        }
    }
}

async fn sweep(state: Weak<Mutex<PoolState>>) {
    let mut until = Instant::now() + IDLE_TIMEOUT;
    loop {
        sleep_until(until).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock();
        let expired = state.take_expired();
        match state.idle.values().flatten().map(|idle| idle.since).min() {
            Some(oldest) => until = oldest + IDLE_TIMEOUT,
            None => state.sweeper = None,
        }
        let is_done = state.sweeper.is_none();
        drop(state);
        drop(expired);
        if is_done {
            return;
        }
    }
}

impl PoolState {
    fn pop(&mut self, key: &PoolKey) -> Option<Idle> {
        // An empty list is kept for the next `put`; `put` and the sweep remove those that stay empty.
        let last = self.idle.get_mut(key)?.pop();
        self.count -= usize::from(last.is_some());
        last
    }

    /// Removes the matching connection that has been idle longest, which is the first of its list.
    fn take_oldest(&mut self, matches: impl Fn(&PoolKey) -> bool) -> Option<Idle> {
        let lists = self.idle.iter_mut().filter(|(key, idle)| !idle.is_empty() && matches(key));
        let (_, oldest) = lists.min_by_key(|(_, idle)| idle[0].since)?;
        self.count -= 1;
        Some(oldest.remove(0))
    }

    fn take_expired(&mut self) -> Vec<Idle> {
        let (now, mut expired) = (Instant::now(), Vec::new());
        self.idle.retain(|_, idle| {
            expired.extend(idle.extract_if(.., |idle| now >= idle.since + IDLE_TIMEOUT));
            !idle.is_empty()
        });
        self.count -= expired.len();
        expired
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, DuplexStream};
    use toolgate_admission::CallAccess;
    use toolgate_api::grant::Capabilities;
    use toolgate_api::network::Target;

    use super::super::read_tracker::ReadTracker;
    use super::*;

    fn grant(more: Value) -> Value {
        let mut grant =
            json!({"network": [{"host": "*.api.example"}, {"host": "b.api.example", "port": 8443}]});
        let members = grant.as_object_mut().zip(more.as_object());
        members.into_iter().for_each(|(grant, more)| grant.extend(more.clone()));
        grant
    }

    fn permit(grant: &Value, authority: &str) -> Permitted {
        let granted = Grant::parse(&grant.to_string()).expect("a grant");
        let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
        let target = Target::parse("https", authority, "/", "GET").expect("a target");
        CallAccess::new(Arc::new(asked), Arc::new(granted)).permit(target).expect("it is in the grant")
    }

    fn key(
        organization: &str,
        plugin: &str,
        credential: Option<&str>,
        permitted: &Permitted,
    ) -> Arc<PoolKey> {
        Arc::new(PoolKey::new(&organization.into(), &plugin.into(), credential.map(Arc::from), permitted))
    }

    fn usual() -> Arc<PoolKey> {
        key("acme", "sha256:1", Some("stripe@1"), &permit(&grant(json!({})), "a.api.example"))
    }

    /// A connection and its other end.
    async fn connection(pool: &Pool, key: &PoolKey) -> (Connection, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(near)).await;
        let (sender, driving) = shaken.expect("nothing is said yet");
        let slot = pool.slot(key).await;
        let driving = async move { drop(driving.await) };
        (Connection::new(sender, slot, ReadTracker::default(), driving), far)
    }

    fn pool() -> Pool {
        Pool::new(Slots::new(8, 8))
    }

    #[tokio::test]
    async fn m1_a_connection_is_kept_for_its_owner_and_what_it_was_vetted_for() {
        let pool = pool();
        let (mine, _far) = connection(&pool, &usual()).await;
        pool.put(&usual(), mine);
        let here = permit(&grant(json!({})), "a.api.example");
        let others = [
            key("rival", "sha256:1", Some("stripe@1"), &here),
            key("acme", "sha256:2", Some("stripe@1"), &here),
            key("acme", "sha256:1", Some("stripe@2"), &here),
            key("acme", "sha256:1", None, &here),
            key("acme", "sha256:1", Some("stripe@1"), &permit(&grant(json!({})), "b.api.example")),
            key("acme", "sha256:1", Some("stripe@1"), &permit(&grant(json!({})), "b.api.example:8443")),
            key(
                "acme",
                "sha256:1",
                Some("stripe@1"),
                &permit(&grant(json!({"private_networks": ["10.0.0.0/8"]})), "a.api.example"),
            ),
        ];
        for other in others {
            assert!(pool.take(&other).is_none(), "{other:?}");
        }
        assert!(pool.take(&usual()).is_some(), "another grant of the same");
        assert!(pool.take(&usual()).is_none(), "it is used by one at a time");
    }

    #[tokio::test]
    async fn what_is_idle_for_too_long_is_closed_and_its_entry_is_removed() {
        let pool = pool();
        let (old, mut closed) = connection(&pool, &usual()).await;
        let (young, _far) = connection(&pool, &usual()).await;
        pool.put(&usual(), old);
        pool.put(&usual(), young);
        let long_ago = Instant::now().checked_sub(IDLE_TIMEOUT).expect("the clock is older");
        pool.state.lock().idle.values_mut().for_each(|idle| idle[0].since = long_ago);
        drop(pool.state.lock().take_expired());
        assert_eq!(closed.read(&mut [0]).await.expect("it ends well"), 0);
        assert!(pool.take(&usual()).is_some(), "the young one");
        let mut state = pool.state.lock();
        assert_eq!((state.count, state.idle.len()), (0, 1), "its entry is kept for reuse");
        assert!(state.take_expired().is_empty() && state.idle.is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_its_server_closed_is_not_used_again() {
        let pool = pool();
        let (connection, far) = connection(&pool, &usual()).await;
        pool.put(&usual(), connection);
        drop(far);
        assert!(pool.take(&usual()).is_none());
    }
}
