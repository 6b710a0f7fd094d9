//! Connections that are kept for the next request, of the same owner only.
//!
//! A connection belongs to an organization, a plugin, a credential and the grant that vetted it; whoever differs in any
//! of them opens one of their own. It is closed after a while in which nobody wanted it, or before where somebody else
//! wants its slot.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use toolgate_admission::{Grant, Host, NetworkScheme, Permitted};

use super::connection::{Connection, Task};
use super::slots::{Full, Slot, Slots};

/// Idle connections of all owners. Each is a socket and some buffers.
const IDLE: usize = 1_024;
/// Idle connections of one owner to one place: as many as calls commonly run at once.
const IDLE_OF_ONE: usize = 32;
/// How long one is kept without use. Servers commonly close after a minute; using one they just closed is a failure.
const IDLE_TIME: Duration = Duration::from_secs(20);

/// Whose connection it is, and where it leads.
#[derive(Clone, Debug)]
pub(super) struct Key {
    organization: Arc<str>,
    plugin: Arc<str>,
    credential: Option<Arc<str>>,
    scheme: NetworkScheme,
    host: Host,
    port: u16,
    /// Of which the networks and the authorities count.
    granted: Arc<Grant>,
}

impl Key {
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

    fn vetted_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.granted, &other.granted);
        Arc::ptr_eq(own, others)
            || own.private_networks == others.private_networks && own.extra_ca == others.extra_ca
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts() && self.vetted_as(other)
    }
}

impl Eq for Key {}

/// Certificates are compared and not hashed: there are few, and they are long.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

struct Idle {
    id: u64,
    connection: Connection,
    since: Instant,
}

/// The idle connections, and how many there may be of both kinds. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pool {
    kept: Arc<Mutex<Kept>>,
    slots: Arc<Slots>,
}

#[derive(Default)]
struct Kept {
    idle: HashMap<Arc<Key>, Vec<Idle>>,
    count: usize,
    last_id: u64,
    /// Closes what has been idle for too long, as long as there is anything.
    sweeping: Option<Task>,
}

impl Pool {
    pub(super) fn new(slots: Slots) -> Self {
        Self { kept: Arc::default(), slots: Arc::new(slots) }
    }

    /// Leave to open a connection of this owner, once there is a slot: idle ones are closed to make room.
    pub(super) async fn slot(&self, key: &Key) -> Slot {
        self.slots.take(&key.organization, |full| self.make_room(full, &key.organization)).await
    }

    /// Closes the connection that has been idle longest. One that its server closed may have no slot any more.
    fn make_room(&self, full: Full, organization: &str) {
        let is_of_those = |key: &Key| full == Full::All || *key.organization == *organization;
        loop {
            let oldest = lock(&self.kept).take_oldest(is_of_those);
            if oldest.is_none_or(|idle| !idle.connection.is_closed()) {
                return;
            }
        }
    }

    /// The connection of this owner that was used last and can be used again.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        loop {
            let idle = lock(&self.kept).pop(key);
            let mut connection = idle?.connection;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, where there is room and nobody waits for its slot.
    pub(super) fn put(&self, key: &Arc<Key>, connection: Connection) {
        if connection.is_spent() {
            return;
        }
        let mut kept = lock(&self.kept);
        let is_full = kept.count >= IDLE || kept.idle.get(key).is_some_and(|idle| idle.len() >= IDLE_OF_ONE);
        if is_full || self.slots.is_wanted_of(&key.organization) {
            return;
        }
        if kept.idle.len() >= 2 * IDLE {
            kept.idle.retain(|_, idle| !idle.is_empty());
        }
        kept.last_id += 1;
        let idle = Idle { id: kept.last_id, connection, since: Instant::now() };
        kept.idle.entry(Arc::clone(key)).or_default().push(idle);
        kept.count += 1;
        if kept.sweeping.as_ref().is_none_or(Task::has_ended) {
            kept.sweeping = Some(Task(tokio::spawn(sweep(Arc::downgrade(&self.kept)))));
        }
    }
}

async fn sweep(kept: Weak<Mutex<Kept>>) {
    let mut until = Instant::now() + IDLE_TIME;
    loop {
        sleep_until(until).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = lock(&kept);
        let expired = kept.take_expired();
        match kept.all().map(|(idle, _)| idle.since).min() {
            Some(oldest) => until = oldest + IDLE_TIME,
            None => kept.sweeping = None,
        }
        let is_done = kept.sweeping.is_none();
        drop(kept);
        drop(expired);
        if is_done {
            return;
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn pop(&mut self, key: &Key) -> Option<Idle> {
        // Where that was the last, its place is kept for when it comes back; `put` and the sweep take away what stays empty.
        let last = self.idle.get_mut(key)?.pop();
        self.count -= usize::from(last.is_some());
        last
    }

    /// The one of those that was put here first.
    fn take_oldest(&mut self, is_of_those: impl Fn(&Key) -> bool) -> Option<Idle> {
        let those = self.all().filter(|(_, key)| is_of_those(key));
        let (id, key) =
            those.min_by_key(|(idle, _)| idle.id).map(|(idle, key)| (idle.id, Arc::clone(key)))?;
        self.remove(&key, id)
    }

    fn all(&self) -> impl Iterator<Item = (&Idle, &Arc<Key>)> {
        self.idle.iter().flat_map(|(key, idle)| idle.iter().map(move |idle| (idle, key)))
    }

    fn take_expired(&mut self) -> Vec<Idle> {
        let (now, mut expired) = (Instant::now(), Vec::new());
        self.idle.retain(|_, idle| {
            expired.extend(idle.extract_if(.., |idle| now >= idle.since + IDLE_TIME));
            !idle.is_empty()
        });
        self.count -= expired.len();
        expired
    }

    fn remove(&mut self, key: &Key, id: u64) -> Option<Idle> {
        let idle = self.idle.get_mut(key)?;
        let at = idle.iter().position(|idle| idle.id == id)?;
        let removed = idle.swap_remove(at);
        if idle.is_empty() {
            self.idle.remove(key);
        }
        self.count -= 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, DuplexStream};
    use toolgate_admission::{CallAccess, Capabilities, Target};

    use super::super::heard::Heard;
    use super::*;

    fn grant(more: Value) -> Value {
        let mut grant =
            json!({"network": [{"host": "*.api.example"}, {"host": "b.api.example", "port": 8443}]});
        let members = grant.as_object_mut().zip(more.as_object());
        members.into_iter().for_each(|(grant, more)| grant.extend(more.clone()));
        grant
    }

    fn permitted(grant: &Value, authority: &str) -> Permitted {
        let granted = Grant::parse(&grant.to_string()).expect("a grant");
        let asked = Capabilities { network: granted.network.clone(), ..Capabilities::default() };
        let target = Target::parse("https", authority, "/", "GET").expect("a target");
        CallAccess::new(Arc::new(asked), Arc::new(granted)).permit(target).expect("it is in the grant")
    }

    fn key(organization: &str, plugin: &str, credential: Option<&str>, permitted: &Permitted) -> Arc<Key> {
        Arc::new(Key::new(&organization.into(), &plugin.into(), credential.map(Arc::from), permitted))
    }

    fn usual() -> Arc<Key> {
        key("acme", "sha256:1", Some("stripe@1"), &permitted(&grant(json!({})), "a.api.example"))
    }

    /// A connection, and its other end.
    async fn connection(pool: &Pool, key: &Key) -> (Connection, DuplexStream) {
        let (near, far) = tokio::io::duplex(64);
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(near)).await;
        let (sender, driving) = shaken.expect("nothing is said yet");
        let slot = pool.slot(key).await;
        let driving = async move { drop(driving.await) };
        (Connection::new(sender, slot, Heard::default(), driving), far)
    }

    fn pool() -> Pool {
        Pool::new(Slots::new(8, 8))
    }

    #[tokio::test]
    async fn m1_a_connection_is_kept_for_its_owner_and_what_it_was_vetted_for() {
        let pool = pool();
        let (mine, _far) = connection(&pool, &usual()).await;
        pool.put(&usual(), mine);
        let here = permitted(&grant(json!({})), "a.api.example");
        let others = [
            key("rival", "sha256:1", Some("stripe@1"), &here),
            key("acme", "sha256:2", Some("stripe@1"), &here),
            key("acme", "sha256:1", Some("stripe@2"), &here),
            key("acme", "sha256:1", None, &here),
            key("acme", "sha256:1", Some("stripe@1"), &permitted(&grant(json!({})), "b.api.example")),
            key("acme", "sha256:1", Some("stripe@1"), &permitted(&grant(json!({})), "b.api.example:8443")),
            key(
                "acme",
                "sha256:1",
                Some("stripe@1"),
                &permitted(&grant(json!({"private_networks": ["10.0.0.0/8"]})), "a.api.example"),
            ),
        ];
        for other in others {
            assert!(pool.take(&other).is_none(), "{other:?}");
        }
        assert!(pool.take(&usual()).is_some(), "another grant of the same");
        assert!(pool.take(&usual()).is_none(), "it is used by one at a time");
    }

    #[tokio::test]
    async fn what_is_idle_for_too_long_is_closed_and_nothing_is_left_of_its_place() {
        let pool = pool();
        let (old, mut closed) = connection(&pool, &usual()).await;
        let (young, _far) = connection(&pool, &usual()).await;
        pool.put(&usual(), old);
        pool.put(&usual(), young);
        let long_ago = Instant::now().checked_sub(IDLE_TIME).expect("the clock is older");
        lock(&pool.kept).idle.values_mut().for_each(|idle| idle[0].since = long_ago);
        drop(lock(&pool.kept).take_expired());
        assert_eq!(closed.read(&mut [0]).await.expect("it ends well"), 0);
        assert!(pool.take(&usual()).is_some(), "the young one");
        let mut kept = lock(&pool.kept);
        assert_eq!((kept.count, kept.idle.len()), (0, 1), "its place is kept for when it comes back");
        assert!(kept.take_expired().is_empty() && kept.idle.is_empty());
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
