//! The services that calls and administration share, in one flat structure. `restore.rs` makes them.

use std::hash::RandomState;
use std::sync::Arc;

use toolgate_admission::Ledger;
use toolgate_audit::Audit;
use toolgate_sandbox::{Queue, Sandbox, Upstreams};
use toolgate_state::store::Store;

use crate::approvals::Approvals;
use crate::credentials::Credentials;
use crate::detach::DetachedCalls;
use crate::events::Events;
use crate::identity::Identity;
use crate::logging::NamedEvents;
use crate::metrics::Metrics;
use crate::plugins::Plugins;
use crate::registry::Registry;
use crate::sessions::Sessions;
use crate::traces::Traces;
use crate::webhooks::Webhooks;

/// The services of a daemon.
pub struct Services {
    /// The SQL store.
    pub store: Store,
    /// The audit log that records every call and act.
    pub audit: Audit,
    /// Tokens and their roles.
    pub identity: Arc<Identity>,
    /// The rules and plugins in force.
    pub registry: Registry,
    /// The loaded plugins.
    pub plugins: Plugins,
    /// The credential store.
    pub credentials: Credentials,
    /// The open sessions.
    pub sessions: Arc<Sessions>,
    /// Approvals by people.
    pub approvals: Approvals,
    /// The webhooks of organizations.
    pub webhooks: Webhooks,
    /// The event broadcaster.
    pub events: Events,
    /// The queue in front of the sandbox.
    pub queue: Queue,
    /// Runs admitted calls.
    pub sandbox: Sandbox,
    /// Connections to upstream servers.
    pub upstreams: Upstreams,
    /// Charges calls to rate limits and quotas.
    pub ledger: Ledger,
    /// Calls whose callers disconnected.
    pub detached: DetachedCalls,
    /// The time that a client has for its part of a call.
    pub client_result_ms: u64,
    /// Random key of the hash by which a call draws the serving version or its canary.
    pub draw_key: RandomState,
    /// Counters of calls.
    pub metrics: Arc<Metrics>,
    /// Named events of the daemon's log.
    pub log: NamedEvents,
    /// Traces of calls.
    pub traces: Traces,
}
