//! The life of a call. Read this folder first: `batch.rs` runs the calls of a request, `call.rs` is the sequence of one.
//!
//! A call flows one way. It waits for what it needs, one snapshot of rules and plugins decides it (`admit.rs`), its intent
//! is recorded, it is performed, and its outcome is recorded and returned. Each step takes a value that only the step
//! before it can make.
//!
//! A caller that disconnects or cancels stops the guest; the call still ends here with a recorded outcome (`../detach.rs`).

mod batch;
mod call;
mod known_calls;
mod admit;
mod approval;
mod client;
mod context;
mod test_call;
mod events;
mod record;
mod refusals;
mod script;
mod spill;

use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{self as admission, Admitted, CanaryDraw, ChargeTime, Consumer, Rules, Verdict};
use toolgate_api::name::Name;
use toolgate_audit as audit;
use toolgate_audit::Entry;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, Exchange, Remainder, Turn};
use toolgate_state::clock::{monotonic_ms, steady_unix_ms};

use crate::call::RequestedCall;
use crate::registry::Snapshot;
use crate::services::Services;
use crate::sessions::{RoundsExceeded, Session};
use crate::traces::{CallTrace, TraceParent};

pub use batch::{BatchOutcome, Next};
pub use client::{ClientResult, ResultRefusal};
pub use known_calls::known_outcome;
pub use script::refuse_in_script;
pub use test_call::{TestCall, TestCallResult};

/// The front end of MCP clients, in [`Origin::source`].
pub const MCP: &str = "mcp";

/// The origin of a request, for the record.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The id of the token that made it.
    pub principal: Arc<str>,
    /// The front end that took it.
    pub source: &'static str,
    /// The trace of the caller, where calls have traces.
    pub trace: Option<Arc<TraceParent>>,
    /// Cancelled when the token is revoked, which stops the calls of the request.
    pub revoked: CancellationToken,
}

/// Carries calls out. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher(Arc<Services>);

#[boxed]
impl Dispatcher {
    /// A dispatcher of these services.
    pub fn new(services: Arc<Services>) -> Self {
        Self(services)
    }

    /// The services that calls use.
    pub fn services(&self) -> &Services {
        &self.0
    }

    /// Writes the disabled and broken tools of a session to the store, in a task of its own. A crash that loses the write
    /// lets the tools be tried again.
    pub fn store_unavailable_tools(&self, session: &Arc<Session>) {
        let (store, session) = (self.0.store.clone(), Arc::clone(session));
        tokio::spawn(async move {
            let (disabled, broken) = session.state.unavailable_tools();
            let setup = &session.setup;
            if let Err(error) = store.set_tools_out(&setup.id, &disabled, &broken).await {
                let conversation = setup.conversation_or_empty();
                tracing::warn!(%error, session = setup.id, conversation, "the disabled tools of a session cannot be stored");
            }
        });
    }

    /// Stores every second what was used of quotas, until `stop`.
    pub async fn store_quota_use_until(self, stop: CancellationToken) {
        while tokio::time::timeout(QUOTA_STORE_INTERVAL, stop.cancelled()).await.is_err() {
            self.store_quota_use().await;
        }
    }

    /// Stores what was used of quotas since the last time.
    pub async fn store_quota_use(&self) {
        let now_ms = steady_unix_ms();
        let quotas = self.0.ledger.quotas();
        let changed = quotas.take_changes(now_ms);
        if changed.is_empty() {
            return;
        }
        if let Err(error) = self.0.store.store_quota_use(&changed, now_ms).await {
            tracing::warn!(%error, "the use of quotas cannot be stored");
            quotas.keep_unsaved(&changed);
        }
    }

    /// The verdict of the rules in force on a call of that session.
    pub fn verdict(&self, session: &Session, tool: &str, arguments: &str) -> Verdict<Component> {
        let draw = CanaryDraw::SERVING;
        let call = admission::ToolCall { tool: tool.into(), arguments: arguments.into(), draw };
        let rules = rules_of(&self.0.registry.snapshot(), session);
        admission::check(&rules, &session.state.facts(), call)
    }
}

/// Most time by which a call that a rate or a quota refuses comes back later than it may.
const JITTER_MS: u64 = 250;
/// A kill loses the use of quotas of at most this time.
const QUOTA_STORE_INTERVAL: Duration = Duration::from_secs(1);

/// The verdict on a call that was charged.
type Charged = Verdict<Component, Admitted<Component>>;

/// The parties that a call is charged to.
fn consumer<'a>(attempt: &Attempt<'a>) -> Consumer<'a> {
    let setup = &attempt.session.setup;
    Consumer {
        organization: &setup.organization,
        agent: &setup.agent,
        user: setup.user.as_deref(),
        token: &attempt.origin.principal,
        is_inner: attempt.outer.is_some(),
    }
}

fn charge_time() -> ChargeTime {
    let jitter_ms = rand::random_range(0..=JITTER_MS);
    ChargeTime { monotonic_ms: monotonic_ms(), unix_ms: steady_unix_ms(), jitter_ms }
}

/// A call under way.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    session: &'a Arc<Session>,
    call: &'a RequestedCall,
    arguments_sha256: audit::Sha256,
    origin: &'a Origin,
    arrived: Instant,
    trace: Option<&'a CallTrace>,
    outer: Option<OuterCall>,
}

/// A call whose intent is recorded, for the steps between intent and outcome.
#[derive(Clone, Copy)]
struct Recorded<'a> {
    attempt: Attempt<'a>,
    entry: &'a Entry,
    /// The HTTP exchanges of a test call.
    exchanges: Option<&'a Mutex<Vec<Exchange>>>,
    /// The start of the first run of a script that waited for an approval, in milliseconds since 1970.
    began_ms: Option<u64>,
}

impl<'a> Deref for Recorded<'a> {
    type Target = Attempt<'a>;

    fn deref(&self) -> &Attempt<'a> {
        &self.attempt
    }
}

impl Recorded<'_> {
    /// The start of the call, or of the first run of its script.
    fn began_ms(&self) -> u64 {
        self.began_ms.unwrap_or_else(|| self.entry.opened_ms())
    }
}

/// The rest of the call whose script makes this one.
#[derive(Clone, Copy, Debug)]
struct OuterCall {
    deadline: Instant,
    left: Remainder,
}

/// The options of a call.
#[derive(Default)]
struct CallOptions {
    /// The bound of rounds that the request exceeded.
    exceeded: Option<RoundsExceeded>,
    /// The call is a test call, with rules of its own.
    test: Option<Arc<TestCall>>,
    /// The trace of the call, which begins with it.
    trace: Option<CallTrace>,
    /// The start of the first run of a script, where an earlier run of the daemon made it.
    began_ms: Option<u64>,
    /// A script makes the call.
    outer: Option<OuterCall>,
}

impl CallOptions {
    /// The rules that decide the call.
    fn rules(&self, snapshot: &Snapshot, session: &Session) -> Rules<Component> {
        match &self.test {
            None => rules_of(snapshot, session),
            Some(test) => test.rules.clone(),
        }
    }
}

/// The tokens that stop a call before its end.
///
/// They are awaited in the queue, at the session's files and in the sandbox, and never around the whole call, so that the
/// effects and the usage of a stopped call are recorded like those of any other.
#[derive(Clone, Copy)]
struct Stop<'a> {
    /// The caller disconnected or cancelled, or the session or agent ended.
    cancelled: &'a CancellationToken,
    /// The token of the request was revoked.
    revoked: &'a CancellationToken,
    /// The daemon stops and has waited long enough.
    shutdown: &'a CancellationToken,
}

impl Stop<'_> {
    fn is_requested(self) -> bool {
        self.cancelled.is_cancelled() || self.revoked.is_cancelled() || self.shutdown.is_cancelled()
    }

    async fn wait_for_request(self) {
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = self.revoked.cancelled() => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

/// The rules for the session's agent. An agent that was deleted has no tools.
pub fn rules_of(snapshot: &Snapshot, session: &Session) -> Rules<Component> {
    let setup = &session.setup;
    snapshot.rules(&setup.organization, &setup.agent).unwrap_or_else(|| snapshot.denying_rules())
}

impl Services {
    /// The verdict on a call. The same call draws the same version of a plugin each time until a restart.
    fn decide(
        &self,
        rules: &Rules<Component>,
        session: &Session,
        call: &RequestedCall,
    ) -> Verdict<Component> {
        let draw = CanaryDraw::of_hash(self.draw_key.hash_one((&session.setup.id, &call.id)));
        let call = admission::ToolCall {
            tool: Arc::clone(&call.tool),
            arguments: Arc::clone(&call.arguments),
            draw,
        };
        admission::check(rules, &session.state.facts(), call)
    }
}

impl Dispatcher {
    /// Waits for the organization's turn at a processor, for work on this many bytes of arguments or of a result ([`toolgate_sandbox::Sandbox::turn`]).
    pub async fn turn(&self, organization: &Name, bytes: usize) -> Option<Turn> {
        self.0.sandbox.turn(organization.as_str(), bytes).await
    }
}

/// The deadline of a call by its rules, its request and the call whose script makes it.
fn deadline_of(arrived: Instant, limit_ms: u64, call: &RequestedCall, outer: Option<OuterCall>) -> Instant {
    let deadline = after(arrived, call.deadline_ms.map_or(limit_ms, |asked_ms| asked_ms.min(limit_ms)));
    outer.map_or(deadline, |outer| outer.deadline.min(deadline))
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

#[cfg(test)]
pub(crate) mod tests;
