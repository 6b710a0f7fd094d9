//! The open connections, and which of them give way to new ones.
//!
//! A connection is authenticated once one of its requests had a valid token. The others may be three quarters of all
//! connections, and half of all with one peer address. At either limit an idle connection without authentication is
//! closed for the new one: one without a finished request before others, of the address with the most connections,
//! the oldest first. So clients without a token cannot keep others out, however many connections they open. If there is no such
//! connection for a moment, an idle one with authentication is closed: a tenant cannot keep others out either.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Time in which a new connection need not have sent its request before it gives way to one of another address.
const GRACE: Duration = Duration::from_millis(250);

/// Interval at which a new connection looks again for one that gives way.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The open connections of a listener.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    limit: usize,
    table: Mutex<Table>,
    freed: Notify,
}

#[derive(Default)]
struct Table {
    next_number: u64,
    /// By number, and so by age.
    entries: BTreeMap<u64, Entry>,
    /// Connections without authentication, by peer address.
    by_peer: HashMap<IpAddr, usize>,
    /// The sum of `by_peer`.
    unauthenticated: usize,
}

struct Entry {
    peer: IpAddr,
    opened: Instant,
    connection: Arc<ConnectionState>,
}

/// The state of one connection, shared with its requests.
#[derive(Default)]
pub(crate) struct ConnectionState {
    pub(crate) requests: Arc<RequestCounts>,
    /// Cancelled when the connection must give way.
    pub(crate) gives_way: CancellationToken,
    is_authenticated: AtomicBool,
}

impl ConnectionState {
    /// Whether a request had a valid token.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }
}

/// The right to hold a connection, released on drop.
pub struct ConnectionPermit {
    connections: Connections,
    number: u64,
    /// The peer's address.
    pub(crate) peer: IpAddr,
    pub(crate) state: Arc<ConnectionState>,
}

/// Request counters of a connection. Its task counts; the table of connections reads.
#[derive(Default)]
pub(crate) struct RequestCounts {
    pub begun: AtomicU64,
    pub answered: AtomicU64,
}

impl RequestCounts {
    /// Whether a request was received and not answered yet.
    pub(crate) fn any_in_flight(&self) -> bool {
        self.begun.load(Ordering::Relaxed) != self.answered.load(Ordering::Relaxed)
    }

    /// Whether a request was answered.
    pub(crate) fn any_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed) > 0
    }
}

/// A request in flight; dropping it counts the request as answered.
pub(crate) struct RequestInFlight(Arc<RequestCounts>);

impl RequestInFlight {
    pub(crate) fn begin(requests: &Arc<RequestCounts>) -> Self {
        requests.begun.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(requests))
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The id of the token for which a client's certificate stands.
#[derive(Clone, Debug)]
pub struct ClientCertificate(pub Arc<str>);

/// The client of a request. The router has it as an extension.
#[derive(Clone)]
pub struct Peer {
    pub address: IpAddr,
    pub certificate: Option<ClientCertificate>,
    /// `None` once a request of the connection had a valid token.
    unauthenticated: Option<Unauthenticated>,
}

/// A connection without authentication.
#[derive(Clone)]
struct Unauthenticated {
    connections: Connections,
    number: u64,
}

/// The room for a new connection.
enum Room {
    Free,
    /// The address has its share, and none of its connections is idle.
    ShareInUse,
    /// All connections are in use.
    None,
}

impl Connections {
    /// No connections yet, at most `limit`.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit, table: Mutex::default(), freed: Notify::new() }))
    }

    /// Waits for room for a connection. Returns none if its address has its share of connections in use.
    pub async fn admit(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let peer = network(address);
        if !self.has_room(peer) {
            // Connections that were just accepted read their requests first.
            tokio::task::yield_now().await;
        }
        let mut has_waited = false;
        loop {
            match self.try_admit(address, has_waited) {
                (Room::Free, permit) => return permit,
                (Room::ShareInUse, _) => return None,
                (Room::None, _) => {}
            }
            has_waited = timeout(LOOK_AGAIN, self.0.freed.notified()).await.is_err();
        }
    }

    fn has_room(&self, peer: IpAddr) -> bool {
        self.0.table.lock().has_room(peer, self.0.limit)
    }

    fn try_admit(&self, address: IpAddr, has_waited: bool) -> (Room, Option<ConnectionPermit>) {
        let peer = network(address);
        let mut table = self.0.table.lock();
        let mut room = table.make_room(peer, self.0.limit, Instant::now());
        if matches!(room, Room::None) && has_waited && table.close_authenticated(self.0.limit) {
            room = Room::Free;
        }
        let permit = matches!(room, Room::Free).then(|| {
            let state = Arc::<ConnectionState>::default();
            let number = table.insert(peer, &state);
            ConnectionPermit { connections: self.clone(), number, peer: address, state }
        });
        (room, permit)
    }
}

impl ConnectionPermit {
    /// Returns the client of a request.
    pub(crate) fn peer(&self, certificate: Option<ClientCertificate>) -> Peer {
        let is_authenticated = self.state.is_authenticated.load(Ordering::Relaxed);
        let unauthenticated = (!is_authenticated)
            .then(|| Unauthenticated { connections: self.connections.clone(), number: self.number });
        Peer { address: self.peer, certificate, unauthenticated }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.0.table.lock().remove(self.number);
        self.connections.0.freed.notify_one();
    }
}

impl Peer {
    /// Records that a request had a valid token.
    pub fn mark_authenticated(&self) {
        let Some(Unauthenticated { connections, number }) = &self.unauthenticated else { return };
        let mut table = connections.0.table.lock();
        let Some(entry) = table.entries.get(number) else { return };
        let peer = entry.peer;
        if !entry.connection.is_authenticated.swap(true, Ordering::Relaxed) {
            table.uncount(peer);
        }
    }
}

impl Table {
    fn insert(&mut self, peer: IpAddr, state: &Arc<ConnectionState>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        *self.by_peer.entry(peer).or_default() += 1;
        self.unauthenticated += 1;
        self.entries.insert(number, Entry { peer, opened: Instant::now(), connection: Arc::clone(state) });
        number
    }

    fn share_left(&self, peer: IpAddr, limit: usize) -> bool {
        self.by_peer.get(&peer).is_none_or(|held| *held < limit.div_ceil(2))
    }

    /// Whether there is room beside the reserve of authenticated clients.
    fn is_below_limits(&self, limit: usize) -> bool {
        self.entries.len() < limit && self.is_reserve_free(limit)
    }

    fn is_reserve_free(&self, limit: usize) -> bool {
        self.unauthenticated < limit - limit / 4
    }

    fn has_room(&self, peer: IpAddr, limit: usize) -> bool {
        self.share_left(peer, limit) && self.is_below_limits(limit)
    }

    /// Closes connections until there is room, if they can give way.
    fn make_room(&mut self, peer: IpAddr, limit: usize, now: Instant) -> Room {
        if !self.share_left(peer, limit) && !self.close_one(|entry| entry.peer == peer) {
            return Room::ShareInUse;
        }
        let is_of_age = |entry: &Entry| now.duration_since(entry.opened) >= GRACE;
        match self.is_below_limits(limit) || self.close_one(is_of_age) {
            true => Room::Free,
            false => Room::None,
        }
    }

    /// Closes the first idle connection without authentication that `may_close` admits. Returns whether there was one.
    fn close_one(&mut self, may_close: impl Fn(&Entry) -> bool) -> bool {
        let idle = self.entries.iter().filter(|(_, entry)| entry.is_idle() && may_close(entry));
        let order = |number: u64, entry: &Entry| {
            let held = self.by_peer.get(&entry.peer).copied().unwrap_or(0);
            (entry.connection.requests.any_answered(), Reverse(held), number)
        };
        let first = idle.min_by_key(|(number, entry)| order(**number, entry)).map(|(number, _)| *number);
        self.close(first)
    }

    /// Closes an idle connection with authentication, if that makes room: of the address with the most of them, the oldest.
    fn close_authenticated(&mut self, limit: usize) -> bool {
        if !self.is_reserve_free(limit) {
            return false;
        }
        let entries = || self.entries.iter().filter(|(_, entry)| entry.connection.is_authenticated());
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for (_, entry) in entries() {
            *held.entry(entry.peer).or_default() += 1;
        }
        let idle = entries().filter(|(_, entry)| !entry.connection.requests.any_in_flight());
        let order = |number: u64, entry: &Entry| (Reverse(held.get(&entry.peer).copied()), number);
        let first = idle.min_by_key(|(number, entry)| order(**number, entry)).map(|(number, _)| *number);
        self.close(first)
    }

    fn close(&mut self, number: Option<u64>) -> bool {
        let Some(closed) = number.and_then(|number| self.remove(number)) else { return false };
        closed.connection.gives_way.cancel();
        true
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if !entry.connection.is_authenticated.load(Ordering::Relaxed) {
            self.uncount(entry.peer);
        }
        Some(entry)
    }

    fn uncount(&mut self, peer: IpAddr) {
        self.unauthenticated -= 1;
        if let Some(held) = self.by_peer.get_mut(&peer) {
            *held -= 1;
            if *held == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }
}

impl Entry {
    /// Whether it may be closed: without authentication and without a request in flight.
    fn is_idle(&self) -> bool {
        let state = &self.connection;
        !state.is_authenticated.load(Ordering::Relaxed) && !state.requests.any_in_flight()
    }
}

/// The address, or the network that one customer gets where it is IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 8;
    const SHARE: usize = 4;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    async fn admit(connections: &Connections, number: u8) -> ConnectionPermit {
        connections.admit(peer(number)).await.expect("admitted")
    }

    fn gives_way(permit: &ConnectionPermit) -> bool {
        permit.state.gives_way.is_cancelled()
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_of_an_address_gives_way_at_its_share() {
        let connections = Connections::new(LIMIT);
        let mut held = Vec::new();
        for _ in 0..SHARE {
            held.push(admit(&connections, 1).await);
        }
        assert!(!held.iter().any(gives_way));
        let busy = RequestInFlight::begin(&held[0].state.requests);
        held.push(admit(&connections, 1).await);
        let closed: Vec<bool> = held.iter().map(gives_way).collect();
        assert_eq!(closed, [false, true, false, false, false], "a request in flight is not cut off");
        drop(busy);
        held.push(admit(&connections, 1).await);
        assert!(gives_way(&held[2]) && !gives_way(&held[0]), "a finished request counts");
        let other = admit(&connections, 2).await;
        assert!(!gives_way(&other));
    }

    #[tokio::test]
    async fn an_address_whose_requests_use_its_share_is_refused_and_others_are_not() {
        let connections = Connections::new(LIMIT);
        let mut held = Vec::new();
        for _ in 0..SHARE {
            let permit = admit(&connections, 1).await;
            held.push((RequestInFlight::begin(&permit.state.requests), permit));
        }
        assert!(connections.admit(peer(1)).await.is_none());
        admit(&connections, 2).await;
        held.pop();
        admit(&connections, 1).await;
    }

    #[tokio::test]
    async fn authenticated_clients_keep_a_reserve() {
        let connections = Connections::new(LIMIT);
        let mut held = Vec::new();
        for number in 0..6 {
            let permit = admit(&connections, number).await;
            held.push((RequestInFlight::begin(&permit.state.requests), permit));
        }
        // Three quarters of all are in use without authentication.
        let late = timeout(GRACE * 2, connections.admit(peer(7))).await;
        assert!(late.is_err(), "there is no room");
        for (_, permit) in &held {
            permit.peer(None).mark_authenticated();
            assert!(permit.peer(None).unauthenticated.is_none());
        }
        for _ in 0..2 {
            let permit = admit(&connections, 7).await;
            permit.peer(None).mark_authenticated();
            held.push((RequestInFlight::begin(&permit.state.requests), permit));
        }
        let full = timeout(GRACE * 2, connections.admit(peer(8))).await;
        assert!(full.is_err(), "requests of authenticated connections are not cut off");
        held.pop();
        admit(&connections, 8).await;
    }

    #[tokio::test]
    async fn idle_authenticated_connections_give_way_last() {
        let connections = Connections::new(LIMIT);
        let mut held = Vec::new();
        for number in [1, 2, 2, 2, 3, 3, 1, 3] {
            let permit = admit(&connections, number).await;
            permit.peer(None).mark_authenticated();
            held.push(permit);
        }
        let busy = RequestInFlight::begin(&held[1].state.requests);
        let new = timeout(GRACE * 400, admit(&connections, 4)).await.expect("a tenant keeps no others out");
        let closed: Vec<usize> = (0..held.len()).filter(|number| gives_way(&held[*number])).collect();
        assert_eq!(closed, [2], "of an address with the most");
        new.peer(None).mark_authenticated();
        admit(&connections, 4).await;
        assert!(gives_way(&held[4]) && !gives_way(&new));
        drop(busy);
    }

    #[tokio::test]
    async fn the_address_with_the_most_connections_gives_way_first() {
        let connections = Connections::new(LIMIT);
        let mut held = vec![admit(&connections, 9).await];
        // It waits until one of them had time for its request.
        for number in [1, 1, 1, 2, 2] {
            held.push(admit(&connections, number).await);
        }
        let new = admit(&connections, 3).await;
        let closed: Vec<bool> = held.iter().map(gives_way).collect();
        assert_eq!(closed, [false, true, false, false, false, false]);
        assert!(!gives_way(&new));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let parse = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8:1:2::1"), parse("2001:db8:1:2:ffff::9"));
        assert_ne!(parse("2001:db8:1:2::1"), parse("2001:db8:1:3::1"));
        assert_eq!(parse("::ffff:192.0.2.7"), peer(7));
    }
}
