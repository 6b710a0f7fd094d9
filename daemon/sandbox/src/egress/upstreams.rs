//! Resolver, connector and connection pool, shared by the calls of all plugins.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connect::Connector;
use super::pool::Pool;
use super::resolve::Resolver;
use super::slots::Slots;

/// Default limit of connections of all organizations: four organizations at their limit, and a fraction of the usual
/// limit of open files.
const CONNECTIONS: usize = 1_024;
/// Default limit of connections of one organization: as many as its concurrent calls.
const CONNECTIONS_PER_ORGANIZATION: usize = 256;

/// Settings of outgoing HTTP.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// The name servers to query; with none, those of the system.
    pub name_servers: Vec<SocketAddr>,
    /// Most connections of all organizations, open or being opened.
    pub connections: usize,
    /// Most connections of one organization.
    pub connections_per_organization: usize,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            name_servers: Vec::new(),
            connections: CONNECTIONS,
            connections_per_organization: CONNECTIONS_PER_ORGANIZATION,
        }
    }
}

/// Resolver, connector and connection pool. Cheap to clone.
#[derive(Clone)]
pub struct Upstreams(Arc<Shared>);

struct Shared {
    resolver: Resolver,
    connector: Connector,
    pool: Pool,
}

impl Upstreams {
    /// Opens no connection yet.
    pub fn new(settings: EgressSettings) -> Self {
        let slots = Slots::new(settings.connections, settings.connections_per_organization);
        Self(Arc::new(Shared {
            resolver: Resolver::new(settings.name_servers),
            connector: Connector::default(),
            pool: Pool::new(slots),
        }))
    }

    pub(super) fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.0.connector
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.0.pool
    }
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Upstreams")
    }
}
