//! The parameters of one call, and its guest's clock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use toolgate_admission::CallAccess;
use toolgate_api::limits::Limits;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

use crate::effect::{BeforeEffect, ProgressSink};
use crate::egress::{Credentials, Egress, EgressRecord, Sender, TraceContext, Upstreams};
use crate::limiter::saturating_usize;
use crate::services::Services;
use crate::workspace::Workspace;

/// The parameters of a call besides its limits and its component.
pub struct CallContext {
    /// Id of the call, unique in its session.
    pub call_id: Arc<str>,
    /// Shared by all calls of a session.
    pub identity: Arc<CallIdentity>,
    /// The time at which the call is stopped; time in the queue counts.
    pub deadline: tokio::time::Instant,
    /// The session's files. Used only with a grant.
    pub workspace: Option<Workspace>,
    /// The guest's clock.
    pub clock: CallClock,
    /// Seed of the guest's random numbers.
    pub seed: [u8; 32],
    /// The organization's settings for the plugin, as JSON text; none stands for `{}`.
    pub settings: Option<Arc<str>>,
    /// The connections to upstreams. Used only with a grant.
    pub upstreams: Option<Upstreams>,
    /// Provides the credential of each request.
    pub credentials: Credentials,
    /// Awaited before the call's first effect.
    pub before_effect: BeforeEffect,
    /// Receives the progress of the call.
    pub progress: ProgressSink,
    /// The services of the daemon that the call may use.
    pub services: Services,
    /// The rest of the script that makes the call.
    pub left: Remainder,
    /// The trace of the call, which its requests carry. None if upstreams are not told.
    pub trace_context: Option<Arc<TraceContext>>,
    /// Whether requests and responses are kept in full, for the result of a test call.
    pub traced: bool,
}

/// The rest that a script has for the call that it makes. The smaller of this and the call's own limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// Fuel.
    pub fuel: u64,
    /// Bytes over the network.
    pub egress_bytes: u64,
}

impl Remainder {
    /// No script makes the call, so its own limits count.
    pub const WHOLE: Self = Self { fuel: u64::MAX, egress_bytes: u64::MAX };

    pub(crate) fn narrow(self, limits: &Limits) -> Limits {
        Limits {
            fuel: limits.fuel.min(self.fuel),
            egress_bytes: limits.egress_bytes.min(self.egress_bytes),
            ..*limits
        }
    }
}

/// The session and the parties that a call is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallIdentity {
    /// Id of the session.
    pub session: Box<str>,
    /// The orchestrator's conversation.
    pub conversation: Option<Box<str>>,
    /// The organization's name.
    pub organization: Arc<str>,
    /// The agent's name.
    pub agent: Box<str>,
    /// The user, as the orchestrator names it.
    pub user: Option<Box<str>>,
    /// The channel of the conversation.
    pub channel: Option<Box<str>>,
}

/// The guest's clock. A stopped clock makes a call reproducible.
#[derive(Clone, Debug)]
pub enum CallClock {
    /// Advances from the start of the call.
    Running {
        /// Wall time at the start of the call.
        started: SystemTime,
        /// The same moment on the monotonic clock.
        origin: Instant,
    },
    /// Always shows the same time: for `describe`, which must not depend on time, and for replays.
    Stopped {
        /// Time since 1970.
        at: Duration,
    },
}

impl CallContext {
    /// A context without capabilities: no files, upstreams, credentials, effects or progress events, and a stopped
    /// clock. The caller adds what the call may do.
    pub fn without_capabilities(call_id: &str, deadline: tokio::time::Instant) -> Self {
        Self {
            call_id: call_id.into(),
            identity: Arc::default(),
            deadline,
            workspace: None,
            clock: CallClock::Stopped { at: Duration::ZERO },
            seed: [0; 32],
            settings: None,
            upstreams: None,
            credentials: Credentials::NONE,
            before_effect: BeforeEffect::forbidden(),
            progress: ProgressSink::NONE,
            services: Services::default(),
            left: Remainder::WHOLE,
            trace_context: None,
            traced: false,
        }
    }

    /// The outgoing HTTP of this call. `plugin` is the digest: idle connections are shared only between calls of one
    /// organization and one plugin.
    pub(crate) fn egress(&self, limits: &Limits, reach: &Arc<CallAccess>, plugin: &str) -> Egress {
        let record = EgressRecord::new(limits, self.traced);
        let sender = self.upstreams.clone().filter(|_| reach.has_network()).map(|upstreams| Sender {
            upstreams,
            credentials: self.credentials.clone(),
            before_effect: self.before_effect.clone(),
            trace_context: self.trace_context.clone(),
            record: record.clone(),
            organization: Arc::clone(&self.identity.organization),
            plugin: plugin.into(),
            header_bytes: saturating_usize(limits.header_bytes),
        });
        Egress { reach: Arc::clone(reach), record, sender }
    }
}

impl CallClock {
    /// The clock of a call that starts now.
    pub fn start(now: SystemTime) -> Self {
        Self::Running { started: now, origin: Instant::now() }
    }

    fn elapsed_time(&self) -> Duration {
        match self {
            Self::Running { origin, .. } => origin.elapsed(),
            Self::Stopped { .. } => Duration::ZERO,
        }
    }
}

impl HostWallClock for CallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        match self {
            Self::Running { started, .. } => {
                started.duration_since(UNIX_EPOCH).unwrap_or_default() + self.elapsed_time()
            }
            Self::Stopped { at } => *at,
        }
    }
}

impl HostMonotonicClock for CallClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.elapsed_time().as_nanos()).unwrap_or(u64::MAX)
    }
}
