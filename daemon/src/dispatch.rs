//! The way of a call, from one end to the other. Read this file first.
//!
//! A call flows one way: it waits for what it needs, is decided by one snapshot of what is in force (`enter.rs`), recorded,
//! performed and recorded again; then it is answered. `batch.rs` runs several of them at the same time. No
//! step is reached without the one before it, because each hands on a value that only it can make.
//!
//! A caller that hangs up or cancels stops the guest, and the call goes on to its end here like any other (`carried.rs`).

mod answer;
mod batch;
mod carried;
mod client;
mod credential;
mod enter;
mod files;
mod record;
mod tell;
mod trial;
mod waiting;

use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use scopeguard::ScopeGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{
    self as admission, Admitted, CallError, Checked, ErrorType, Ledger, Rules, Verdict,
};
use toolgate_sandbox::{
    BeforeEffect, CallClock, CallContext, Component, Exchange, Finished, Output, Queue, Sandbox, Upstreams,
    Workspace,
};

use crate::approvals::Approvals;
use crate::audit::{Audit, Entry};
use crate::credentials::Credentials;
use crate::events::Events;
use crate::registry::{Registry, Snapshot};
use crate::sessions::{CallState, LeftTo, Opened, Recorded, RoundsSpent, RunningCall, Session};
use crate::store::Store;
use carried::Carried;
use enter::Entered;
use tell::Teller;

pub use answer::{Answer, ApprovalStamp, Executed, PluginStamp, WireUsage as CallUsage};
pub use batch::{BatchAnswer, Next};
pub use carried::Carrying;
pub use client::{ClientResult, NotTaken};
pub use trial::{Trial, Tried};

/// One call as a request brought it.
#[derive(Clone, Debug)]
pub struct RequestedCall {
    /// The orchestrator's id, unique in the session.
    pub id: String,
    /// The tool as the model called it.
    pub tool: Arc<str>,
    /// The arguments: JSON text, kept byte for byte.
    pub arguments: Arc<str>,
    /// The id was made here just now, so that no call before can have had it.
    pub id_is_new: bool,
}

impl RequestedCall {
    /// A call of which only the id is known.
    pub fn unnamed(id: String) -> Self {
        Self { id, tool: "".into(), arguments: "{}".into(), id_is_new: false }
    }
}

/// Where a request came from, for the record.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The id of the token that asked.
    pub principal: Arc<str>,
    /// The door it came in by.
    pub door: &'static str,
    /// Cancelled when the token is revoked: what it started stops.
    pub revoked: CancellationToken,
}

/// Carries calls out. Cheap to clone.
#[derive(Clone)]
pub struct Dispatcher(Arc<Parts>);

/// What the dispatcher is made of.
pub struct Parts {
    /// The line in front of the sandbox.
    pub queue: Queue,
    /// What is in force.
    pub registry: Registry,
    /// The log that every call is recorded in.
    pub audit: Audit,
    /// What runs admitted calls.
    pub sandbox: Sandbox,
    /// The token buckets. Locked for arithmetic only.
    pub ledger: Mutex<Ledger>,
    /// How calls reach upstreams.
    pub upstreams: Upstreams,
    /// What their requests carry.
    pub credentials: Credentials,
    /// What persons decided.
    pub approvals: Approvals,
    /// Who listens.
    pub events: Events,
    /// What survives a restart.
    pub store: Store,
    /// How long a client has for its part of a call.
    pub client_result_ms: u64,
    /// The calls whose callers hung up.
    pub carrying: Carrying,
}

impl Dispatcher {
    /// A dispatcher over these parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// What the dispatcher is made of.
    pub fn parts(&self) -> &Parts {
        &self.0
    }

    /// Runs a call unless its id is known; then it is answered with what is known (R7).
    async fn once(
        &self,
        session: &Arc<Session>,
        call: RequestedCall,
        origin: &Origin,
        spent: Option<RoundsSpent>,
    ) -> Arc<Recorded> {
        let sha256 = crate::audit::Sha256::of(call.arguments.as_bytes());
        match session.calls.open(&call.id, &call.tool, sha256.0, now_ms(), session.ended()) {
            Opened::New(running) => {
                // Whoever hangs up during the look-up has made no call: neither was it found, nor has it begun.
                let looking = scopeguard::guard(running, RunningCall::withdraw);
                if session.taken_up
                    && !call.id_is_new
                    && let Some(known) = Box::pin(self.of_an_earlier_run(session, &call, sha256)).await
                {
                    return known.unrecorded(&call);
                }
                let running = ScopeGuard::into_inner(looking);
                // What waited for approval had its round.
                let spent = spent.filter(|_| running.waited_for.is_none());
                self.carry(session, call, sha256, origin, running, Terms { spent, trial: None }).await
            }
            Opened::Known(CallState::Ended(recorded)) => recorded,
            Opened::Known(CallState::Client(client)) => Arc::clone(&client.answer),
            Opened::Known(state) => Answer::of_known(&state).unrecorded(&call),
            Opened::Conflict => Answer::refused(id_reused(&call.id)).unrecorded(&call),
            Opened::Full => Answer::refused(session_full()).unrecorded(&call),
        }
    }

    /// Calls a tool, to an end that is recorded, whether its caller waits for it or not.
    async fn carry(
        &self,
        session: &Arc<Session>,
        call: RequestedCall,
        sha256: crate::audit::Sha256,
        origin: &Origin,
        running: RunningCall,
        terms: Terms,
    ) -> Arc<Recorded> {
        let stop = running.cancelled.clone();
        let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
        let call = async move { dispatcher.call(&session, &call, sha256, &origin, running, &terms).await };
        Carried::new(&self.0.carrying, stop, Box::pin(call)).await
    }

    /// The end of a call of this id that ran before the daemon was started again: it does not run once more.
    async fn of_an_earlier_run(
        &self,
        session: &Session,
        call: &RequestedCall,
        sha256: crate::audit::Sha256,
    ) -> Option<Answer> {
        let (setup, audit) = (&session.setup, &self.0.audit);
        let look_up = async {
            let earlier = || audit.earlier_calls(&setup.id, setup.created_ms);
            match session.earlier_calls.get_or_try_init(earlier).await?.may_have(&call.id) {
                true => audit.lookup(&setup.id, setup.created_ms, &call.id).await,
                false => Ok(None),
            }
        };
        let row = match look_up.await {
            Ok(row) => row?,
            // Nobody can tell whether it ran.
            Err(error) => return Some(Answer::refused(record::unrecordable(&error))),
        };
        // One whose intent can no longer be read is taken for the same: it must not run again.
        let same = row
            .call
            .as_ref()
            .is_none_or(|intent| *intent.wire_name == *call.tool && intent.arguments_sha256 == sha256);
        if !same {
            return Some(Answer::refused(id_reused(&call.id)));
        }
        // One that waited for approval has not run, and is decided again.
        (row.status != Some(crate::audit::Status::ApprovalRequired)).then(|| Answer::of_an_earlier_run(&row))
    }

    /// The sequence. Its order is the promise: nothing runs that was not decided and recorded before.
    ///
    /// What asks the store is boxed, here and below: a call is moved with room for whatever it could wait for, and few wait
    /// for that.
    async fn call(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        sha256: crate::audit::Sha256,
        origin: &Origin,
        running: RunningCall,
        terms: &Terms,
    ) -> Arc<Recorded> {
        let arrived = Instant::now();
        let parts = &*self.0;
        let teller = Teller::begin(&parts.events, session, call, running.waited_for.is_none());
        let stop =
            Stop { cancelled: &running.cancelled, revoked: &origin.revoked, over: parts.carrying.over() };
        let entered = match self.enter(session, call, terms, arrived, stop).await {
            Ok(entered) => entered,
            Err(error) => return not_opened(running, call, teller, error),
        };
        let Entered { verdict, rules, revision, held } = entered;
        let decided = record::Decided { verdict: &verdict, catalogue: &rules.catalogue, revision };
        let intent = record::intent(decided, session, call, sha256, origin);
        let entry = match parts.audit.open(intent) {
            Ok(entry) => entry,
            Err(error) => return not_opened(running, call, teller, record::unrecordable(&error)),
        };
        record::refused(session, call, &verdict);
        if let Some(waiting) = &running.waited_for
            && !matches!(verdict, Verdict::NeedsApproval(_))
            && let Err(error) = Box::pin(self.withdraw(session, &waiting.approval)).await
        {
            tracing::warn!(%error, waiting.approval, "what nobody needs to decide any more cannot be taken back");
        }
        let exchanges = terms.trial.as_ref().map(|trial| &trial.exchanges);
        let attempt = Attempt { session, call, origin, entry: &entry, arrived, arguments: sha256, exchanges };
        let (performed, left_to) = match stop.has_come() {
            true => (Answer::refused(CallError::cancelled()), None),
            false => self.perform(verdict, &attempt, revision, stop).await,
        };
        drop(held);
        session.touch(now_ms());
        let answer = performed.timed(arrived.elapsed());
        let outcome = parts.audit.close(entry, record::outcome(&answer));
        // Written while the disk works.
        let recorded = answer.recorded(call);
        match outcome.await {
            Ok(()) => match left_to {
                None => {
                    teller.end(&answer);
                    running.end(recorded, now_ms())
                }
                Some(somebody) => {
                    let cancelled = running.cancelled.clone();
                    let recorded = running.leave(recorded, somebody, &call.tool);
                    teller.end(&answer);
                    let missed = self.see_what_it_missed(session, call, origin, &answer, &cancelled);
                    Box::pin(missed).await.unwrap_or(recorded)
                }
            },
            // What ran and could not be recorded is not shown as done.
            Err(error) => {
                let answer = Answer::unrecorded_outcome(record::unrecordable(&error), answer);
                teller.end(&answer);
                running.end(answer.recorded(call), now_ms())
            }
        }
    }

    /// Everything between the intent and the outcome: where a step may fail, and its failure is the outcome.
    async fn perform(
        &self,
        verdict: Verdict<Component>,
        attempt: &Attempt<'_>,
        revision: u64,
        stop: Stop<'_>,
    ) -> (Answer, Option<LeftTo>) {
        let (checked, used) = match verdict {
            Verdict::Run(checked) => (checked, None),
            Verdict::Refused(refusal) => return (refusal.into(), None),
            Verdict::NeedsApproval(unapproved) => {
                match Box::pin(self.approved(unapproved, attempt, revision)).await {
                    Ok((checked, used)) => (checked, Some(used)),
                    Err(answered) => return *answered,
                }
            }
        };
        let (admitted, deadline, workspace) = match self.prepare(checked, attempt, stop).await {
            Ok(prepared) => prepared,
            Err(answer) => {
                Box::pin(self.not_used(used)).await;
                return (*answer, None);
            }
        };
        self.used(attempt, used);
        let session = attempt.session;
        let context = self.context(&admitted, attempt, deadline, workspace);
        // Pinned here, since each future that it is moved into keeps room for it twice.
        let stopped = pin!(stop.comes());
        let mut finished = self.0.sandbox.run(&admitted, context, stopped).await;
        if let Some(kept) = attempt.exchanges {
            kept.lock().unwrap_or_else(PoisonError::into_inner).append(&mut finished.exchanges);
        }
        record::effects(&self.0.audit, attempt.entry, attempt.call, &admitted, &finished);
        record::log(session, attempt.call, &admitted, &finished);
        let answer = self.accept(&admitted, finished);
        record::ended(session, attempt.call, admitted.id(), &answer);
        self.note(session, &answer);
        let left_to = answer.expires_ms().map(|expires_ms| {
            let admitted = Box::new(admitted);
            LeftTo::Client { admitted, expires_ms, arguments: attempt.arguments.0, usage: answer.usage }
        });
        (answer, left_to)
    }

    /// What stands between a call that may run and the sandbox: its rate, room for what it leaves to a client, its files.
    async fn prepare(
        &self,
        checked: Checked<Component>,
        attempt: &Attempt<'_>,
        stop: Stop<'_>,
    ) -> Result<(Admitted<Component>, Instant, Option<Workspace>), Box<Answer>> {
        let session = attempt.session;
        let charged = {
            let mut ledger = self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.charge(&session.setup.organization, checked, monotonic_ms())
        };
        let admitted = charged.map_err(|refusal| Box::new(refusal.into()))?;
        let refused = |error| Box::new(Answer::refused(error).by(&admitted));
        client::room(session, &admitted).map_err(refused)?;
        let deadline = after(attempt.arrived, admitted.limits().deadline_ms);
        let workspace = files::of_call(session, &admitted, deadline, stop).await.map_err(refused)?;
        Ok((admitted, deadline, workspace))
    }

    fn context(
        &self,
        admitted: &Admitted<Component>,
        attempt: &Attempt<'_>,
        deadline: Instant,
        workspace: Option<Workspace>,
    ) -> CallContext {
        let Attempt { session, call, entry, exchanges, .. } = *attempt;
        CallContext {
            call_id: call.id.as_str().into(),
            made_for: Arc::clone(&session.made_for),
            deadline,
            workspace,
            clock: CallClock::start(SystemTime::now()),
            // From a generator of this thread, which the system seeds now and then: a call costs no system call.
            seed: rand::random(),
            settings: "{}".into(),
            upstreams: Some(self.0.upstreams.clone()),
            credentials: credential::of_call(&self.0.credentials, session, admitted),
            before_effect: before_effect(entry),
            progress: tell::progress(&self.0.events, session, call),
            traced: exchanges.is_some(),
        }
    }

    /// What the plugin answered, held against what it said that it would (R3, T3).
    fn accept(&self, admitted: &Admitted<Component>, finished: Finished) -> Answer {
        let output = match finished.outcome {
            Ok(Output::Result(json)) => admitted.check_output(json),
            Ok(Output::Client(json)) => match admitted.check_client_payload(json) {
                Ok(payload) => {
                    let expires_ms = now_ms().saturating_add(self.0.client_result_ms);
                    return Answer::for_client(payload, expires_ms, finished.usage).by(admitted);
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        Answer::finished(output, finished.usage, finished.executed).by(admitted)
    }

    /// Counts how a tool does in its session (G13).
    fn note(&self, session: &Arc<Session>, answer: &Answer) {
        let Some(tool) = answer.tool() else { return };
        let ended = answer.error().map_or(Ok(()), |error| Err(error.error_type));
        // It waited too long for its place, which is not the tool's doing.
        if (ended, answer.executed) == (Err(ErrorType::DeadlineExceeded), Executed::No) {
            return;
        }
        let Some(why) = session.conduct.note(tool, ended) else { return };
        tracing::warn!(event = "tool_stopped", session = session.setup.id, %tool, why, "a tool kept failing");
        self.store_tools_out(session);
    }

    /// Writes behind which tools are out for a session. Losing it to a crash lets the tool try again.
    pub fn store_tools_out(&self, session: &Arc<Session>) {
        let (store, session) = (self.0.store.clone(), Arc::clone(session));
        tokio::spawn(async move {
            let (disabled, broken) = session.conduct.tools_out();
            if let Err(error) = store.set_tools_out(&session.setup.id, &disabled, &broken).await {
                tracing::warn!(%error, "which tools are out for a session cannot be written down");
            }
        });
    }
}

/// One call on its way, for the steps that it takes.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    session: &'a Arc<Session>,
    call: &'a RequestedCall,
    origin: &'a Origin,
    entry: &'a Entry,
    arrived: Instant,
    arguments: crate::audit::Sha256,
    /// Where its requests are kept, if somebody tries the tool.
    exchanges: Option<&'a Mutex<Vec<Exchange>>>,
}

/// What stops a call before its end. It is awaited where a call can take long, in the line, at the session's files and in the
/// sandbox, and never around all of it, so that what a stopped call did and used is recorded like that of any other.
#[derive(Clone, Copy)]
struct Stop<'a> {
    /// Its caller hung up or cancelled it, its session or agent ended.
    cancelled: &'a CancellationToken,
    /// The token that it was made with is no longer good.
    revoked: &'a CancellationToken,
    /// The daemon stops and has waited long enough.
    over: &'a CancellationToken,
}

impl Stop<'_> {
    fn has_come(self) -> bool {
        self.cancelled.is_cancelled() || self.revoked.is_cancelled() || self.over.is_cancelled()
    }

    async fn comes(self) {
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = self.revoked.cancelled() => {}
            () = self.over.cancelled() => {}
        }
    }
}

/// What is special about a call.
struct Terms {
    /// Its session has had all its rounds.
    spent: Option<RoundsSpent>,
    /// Somebody tries the tool, by rules of their own.
    trial: Option<Arc<Trial>>,
}

/// The rules for the session's agent. One that is gone has no tools left.
fn rules_of(snapshot: &Snapshot, session: &Session) -> Rules<Component> {
    let setup = &session.setup;
    snapshot.rules(&setup.organization, &setup.agent).unwrap_or_else(|| snapshot.denying_rules())
}

fn decide(rules: &Rules<Component>, session: &Session, call: &RequestedCall) -> Verdict<Component> {
    let call = admission::ToolCall { tool: Arc::clone(&call.tool), arguments: Arc::clone(&call.arguments) };
    admission::check(rules, &session.conduct.facts(), call)
}

/// Nothing of the call was recorded: its id may be tried again.
fn not_opened(
    running: RunningCall,
    call: &RequestedCall,
    teller: Teller<'_>,
    error: CallError,
) -> Arc<Recorded> {
    running.withdraw();
    let answer = Answer::refused(error);
    teller.end(&answer);
    answer.unrecorded(call)
}

/// The intent is on disk before the call's first effect.
fn before_effect(entry: &Entry) -> BeforeEffect {
    let intent = entry.intent_sync();
    BeforeEffect::new(move || {
        let synced = intent.sync();
        async move { synced.await.map_err(|error| error.to_string()) }
    })
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

/// Milliseconds since this was first asked. Unlike the machine's clock it is never set back, which would leave buckets empty.
fn monotonic_ms() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(FIRST.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 by the machine's clock.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn id_reused(id: &str) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the id `{id}` was used in this session for another tool or other arguments"),
        "give every call an id of its own; the same id answers the same call again",
    )
}

fn session_full() -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        "the session has made as many calls as it can remember",
        "open a new session",
    )
}
