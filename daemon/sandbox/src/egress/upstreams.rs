//! What the calls of all plugins share to reach upstreams: name service, ways to connect, and connections that are kept.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connect::Connector;
use super::pool::Pool;
use super::resolve::Resolver;
use super::slots::Slots;

/// Connections of all organizations where nobody says otherwise: four organizations at their most, and a fraction of the
/// open files that a system usually allows.
const CONNECTIONS: usize = 1_024;
/// Those of one organization: as many as calls run at once.
const CONNECTIONS_PER_ORGANIZATION: usize = 256;

/// How outgoing requests are made.
#[derive(Clone, Debug)]
pub struct EgressSettings {
    /// The name servers that are asked; those of the system where there are none.
    pub name_servers: Vec<SocketAddr>,
    /// Connections that may be open or being opened at once, of all organizations.
    pub connections: usize,
    /// Those of one organization.
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

/// What all calls share to reach upstreams: name service and connections. Cheap to clone.
#[derive(Clone)]
pub struct Upstreams(Arc<Shared>);

struct Shared {
    resolver: Resolver,
    connector: Connector,
    pool: Pool,
}

impl Upstreams {
    /// Opens nothing yet.
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
