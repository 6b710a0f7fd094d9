//! The way of a call, from one end to the other. Read this file first.
//!
//! A call flows one way: it waits for a slot, takes one snapshot of what is in force, is decided, recorded,
//! performed and recorded again; then it is answered. `batch` runs several of them at the same time. No step
//! is reached without the one before it, because each hands on a value that only it can make.
//!
//! Hanging up drops these futures, and that is the whole of cancelling: the instance is freed, the audit
//! entry closes itself as cancelled, the call's id remembers that it was.

mod answer;
mod record;
mod settle;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{
    self as admission, Admitted, CallError, ErrorType, FilesystemAccess, Ledger, Limits, LimitsPatch, Verdict,
};
use toolgate_sandbox::workspace::Quota;
use toolgate_sandbox::{BeforeEffect, CallClock, CallContext, Component, Finished, Output, Sandbox};

use crate::audit::{Audit, Entry};
use crate::queue::{Queue, QueueError};
use crate::registry::{Registry, Snapshot};
use crate::sessions::{CallState, Opened, Recorded, RunningCall, Session};

pub use answer::{Answer, Executed, PluginStamp, Status, Status as CallStatus, WireUsage as CallUsage};

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

/// What a request is answered with.
#[derive(Debug)]
pub struct BatchAnswer {
    /// One answer a call, in the order of the request.
    pub results: Vec<Arc<Recorded>>,
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
    /// The platform's limits; they bound the wait before an agent's own are known.
    pub limits: LimitsPatch,
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

    /// Runs the calls of one request at the same time and answers each.
    pub async fn batch(
        &self,
        session: &Arc<Session>,
        calls: Vec<RequestedCall>,
        origin: &Origin,
    ) -> BatchAnswer {
        if let [_] = calls.as_slice() {
            let mut results = Vec::with_capacity(1);
            for call in calls {
                results.push(self.once(session, call, origin).await);
            }
            return BatchAnswer { results };
        }
        // Tasks of their own, so that calls that compute use every processor. Dropping the set ends them.
        let mut running = JoinSet::new();
        let mut results: Vec<Option<Arc<Recorded>>> = calls.iter().map(|_| None).collect();
        for (at, call) in calls.into_iter().enumerate() {
            let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
            running.spawn(async move { (at, dispatcher.once(&session, call, &origin).await) });
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((at, answer)) = ended
                && let Some(place) = results.get_mut(at)
            {
                *place = Some(answer);
            }
        }
        let results = results.into_iter().map(|answer| answer.unwrap_or_else(|| answer::lost(""))).collect();
        BatchAnswer { results }
    }

    /// Runs a call unless its id is known; then it is answered with what is known (R7).
    async fn once(&self, session: &Arc<Session>, call: RequestedCall, origin: &Origin) -> Arc<Recorded> {
        let sha256 = crate::audit::Sha256::of(call.arguments.as_bytes());
        let fingerprint = record::fingerprint(&call.tool, &sha256);
        match session.calls.open(&call.id, fingerprint, now_ms(), session.ended()) {
            Opened::New(running) => {
                if session.taken_up
                    && !call.id_is_new
                    && let Some(known) = self.of_an_earlier_run(session, &call, sha256).await
                {
                    running.withdraw();
                    return known.unrecorded(&call);
                }
                self.call(session, &call, sha256, origin, running).await
            }
            Opened::Known(CallState::Ended(recorded)) => recorded,
            Opened::Known(state) => Answer::of_known(&state).unrecorded(&call),
            Opened::Conflict => Answer::refused(id_reused(&call.id)).unrecorded(&call),
            Opened::Full => Answer::refused(session_full()).unrecorded(&call),
        }
    }

    /// The end of a call of this id that ran before the daemon was started again: it does not run once more.
    async fn of_an_earlier_run(
        &self,
        session: &Session,
        call: &RequestedCall,
        sha256: crate::audit::Sha256,
    ) -> Option<Answer> {
        let row = match self.0.audit.lookup(&session.setup.id, &call.id).await {
            Ok(row) => row?,
            // Nobody can tell whether it ran.
            Err(error) => return Some(Answer::refused(record::unrecordable(&error))),
        };
        let same = row
            .call
            .as_ref()
            .is_some_and(|intent| *intent.wire_name == *call.tool && intent.arguments_sha256 == sha256);
        Some(if same { Answer::of_an_earlier_run(&row) } else { Answer::refused(id_reused(&call.id)) })
    }

    /// The sequence. Its order is the promise: nothing runs that was not decided and recorded before.
    async fn call(
        &self,
        session: &Session,
        call: &RequestedCall,
        sha256: crate::audit::Sha256,
        origin: &Origin,
        running: RunningCall,
    ) -> Arc<Recorded> {
        let arrived = Instant::now();
        let parts = &*self.0;
        let organization = &session.setup.organization;
        let wait_until = after(arrived, Limits::platform(&parts.limits).deadline_ms);
        let slot = match parts.queue.enter(organization, wait_until).await {
            Ok(slot) => slot,
            Err(error) => return not_opened(running, call, not_entered(error)),
        };
        let snapshot = parts.registry.snapshot();
        let verdict = decide(&snapshot, session, call);
        let intent = record::intent(&snapshot, session, call, sha256, &verdict, origin);
        let entry = match parts.audit.open(intent) {
            Ok(entry) => entry,
            Err(error) => return not_opened(running, call, record::unrecordable(&error)),
        };
        let performed = if running.cancelled.is_cancelled() || origin.revoked.is_cancelled() {
            Answer::cancelled()
        } else {
            // In this order, since most calls end in their first poll, and waiting to be cancelled takes locks.
            tokio::select! {
                biased;
                performed = self.perform(verdict, &entry, session, call, arrived) => performed,
                () = running.cancelled.cancelled() => Answer::cancelled(),
                () = origin.revoked.cancelled() => Answer::cancelled(),
            }
        };
        drop(slot);
        let answer = performed.timed(arrived.elapsed());
        let outcome = parts.audit.close(entry, record::outcome(&answer));
        match settle::settle(outcome, running, answer.json(call)).await {
            Ok(recorded) => recorded,
            // What ran and could not be recorded is not shown as done.
            Err((error, running)) => {
                let answer = Answer::unrecorded_outcome(record::unrecordable(&error), answer);
                running.end(answer.json(call), now_ms())
            }
        }
    }

    /// Everything between the intent and the outcome: where a step may fail, and its failure is the outcome.
    async fn perform(
        &self,
        verdict: Verdict<Component>,
        entry: &Entry,
        session: &Session,
        call: &RequestedCall,
        arrived: Instant,
    ) -> Answer {
        let checked = match verdict {
            Verdict::Run(checked) => checked,
            Verdict::NeedsApproval(refusal) | Verdict::Refused(refusal) => return refusal.into(),
        };
        let charged = {
            let mut ledger = self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.charge(&session.setup.organization, checked, now_ms())
        };
        let admitted = match charged {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.into(),
        };
        let context = match self.context(&admitted, entry, session, call, arrived).await {
            Ok(context) => context,
            Err(error) => return Answer::refused(error).by(&admitted),
        };
        let finished = self.0.sandbox.run(&admitted, context).await;
        record::effects(&self.0.audit, entry, &finished);
        record::log(session, call, &admitted, &finished);
        let answer = accept(&admitted, finished);
        record::exception(session, call, admitted.id(), &answer);
        answer
    }

    async fn context(
        &self,
        admitted: &Admitted<Component>,
        entry: &Entry,
        session: &Session,
        call: &RequestedCall,
        arrived: Instant,
    ) -> Result<CallContext, CallError> {
        let limits = admitted.limits();
        let workspace = match admitted.granted().filesystem {
            FilesystemAccess::None => None,
            FilesystemAccess::Workspace => {
                let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
                let opened = session.workspace(quota).await;
                Some(opened.map_err(|error| record::workspace_unavailable(&error))?)
            }
        };
        let setup = &session.setup;
        Ok(CallContext {
            call_id: call.id.clone(),
            session: setup.id.clone(),
            conversation: setup.conversation.clone(),
            organization: setup.organization.to_string(),
            agent: setup.agent.to_string(),
            user: setup.user.clone(),
            channel: setup.channel.clone(),
            deadline: after(arrived, limits.deadline_ms),
            workspace,
            clock: CallClock::start(SystemTime::now()),
            // From a generator of this thread, which the system seeds now and then: a call costs no system call.
            seed: rand::random(),
            settings: "{}".into(),
            definition: None,
            before_effect: before_effect(entry),
        })
    }
}

/// Decides by the rules of this snapshot. An agent that is gone has no tools left.
fn decide(snapshot: &Snapshot, session: &Session, call: &RequestedCall) -> Verdict<Component> {
    let setup = &session.setup;
    let rules = snapshot.rules(&setup.organization, &setup.agent).unwrap_or_else(|| snapshot.denying_rules());
    let call = admission::ToolCall { tool: Arc::clone(&call.tool), arguments: Arc::clone(&call.arguments) };
    admission::check(&rules, &session.facts, call)
}

/// Nothing of the call was recorded: its id may be tried again.
fn not_opened(running: RunningCall, call: &RequestedCall, error: CallError) -> Arc<Recorded> {
    running.withdraw();
    Answer::refused(error).unrecorded(call)
}

/// What the plugin answered, held against what it said that it would (R3).
fn accept(admitted: &Admitted<Component>, finished: Finished) -> Answer {
    let output = match finished.outcome {
        Ok(Output::Result(json)) => admitted.check_output(json),
        Ok(Output::Client(_)) => Err(against_its_mode()),
        Err(error) => Err(error),
    };
    Answer::finished(output, finished.usage, finished.executed).by(admitted)
}

/// The intent is on disk before the call's first effect.
fn before_effect(entry: &Entry) -> BeforeEffect {
    let intent = entry.intent_sync();
    BeforeEffect::new(move || {
        let synced = intent.synced();
        async move { synced.await.map_err(|error| error.to_string()) }
    })
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

/// Milliseconds since 1970 by the machine's clock.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn not_entered(error: QueueError) -> CallError {
    match error {
        QueueError::Full => {
            CallError::new(ErrorType::Overloaded, "too many calls are waiting", "call again in a moment")
                .with_details(serde_json::json!({"retry_after_ms": 1000}))
        }
        QueueError::Deadline => CallError::new(
            ErrorType::DeadlineExceeded,
            "the deadline passed while the call waited for a free slot",
            "call again when there is less to do",
        ),
    }
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

fn against_its_mode() -> CallError {
    CallError::new(
        ErrorType::InvalidOutput,
        "the tool prepared a payload for a client, but it is declared to end on the server",
        "tell the plugin's author; other arguments will not help",
    )
}
