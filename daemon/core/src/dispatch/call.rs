//! The sequence of one call. Its order is the promise: nothing runs that was not decided and recorded before.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use scopeguard::ScopeGuard;
use serde_json::value::RawValue;
use tokio::time::Instant;
use toolgate_admission::{Admitted, Checked, Used, Verdict};
use toolgate_api::call::Executed;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit as audit;
use toolgate_audit::{AuditError, Entry};
use toolgate_sandbox::{Component, FinishedCall, Output, Usage, Workspace};
use toolgate_state::clock::now_ms;

use super::admit::AdmittedEntry;
use super::events::CallEvents;
use super::known_calls::id_reused;
use super::script::Script;
use super::spill::spill;
use super::{
    Attempt, CallOptions, Charged, Dispatcher, Origin, OuterCall, Recorded, Stop, admit, charge_time, client,
    consumer, deadline_of, record,
};
use crate::call::{CallAnswer, CallOutcome, MODEL_TEXT_BYTES, OutcomeState, RequestedCall};
use crate::detach::DetachOnDrop;
use crate::metrics::Phase;
use crate::sessions::{CallState, ClientPart, Lookup, PendingOn, RoundsExceeded, RunningCall, Session};
use crate::traces::CallTrace;

impl Dispatcher {
    /// Runs a call, unless its id is known: then the recorded outcome is returned (R7).
    pub(super) async fn call_idempotent(
        &self,
        session: &Arc<Session>,
        call: RequestedCall,
        origin: &Origin,
        exceeded: Option<RoundsExceeded>,
        outer: Option<OuterCall>,
    ) -> CallAnswer {
        if let Some(fault) = &call.fault {
            return self.refuse_unopened(session, &call, origin, (**fault).clone());
        }
        let arguments_sha256 = audit::sha256(call.arguments.as_bytes());
        match session.calls.open(&call.id, &call.tool, arguments_sha256.0, now_ms(), session.end_signal()) {
            Lookup::New(running) => {
                // A caller that disconnects during the look-up has made no call.
                let looking_up = scopeguard::guard(running, RunningCall::withdraw);
                let mut began_ms = None;
                if session.restored && !call.id_is_new {
                    match Box::pin(self.earlier_answer(session, &call, arguments_sha256, origin)).await {
                        Ok(began) => began_ms = began,
                        Err(known) => return *known,
                    }
                }
                let running = ScopeGuard::into_inner(looking_up);
                // A call that waited for approval was counted when it was first posted.
                let exceeded = exceeded.filter(|_| running.waited_for.is_none());
                let options = CallOptions { exceeded, outer, began_ms, ..CallOptions::default() };
                let outcome =
                    self.call_to_end(session, call, arguments_sha256, origin, running, options).await;
                CallAnswer { outcome, replayed: false }
            }
            Lookup::Known(state) => {
                let replayed = matches!(state, CallState::Ended(_) | CallState::Forgotten);
                let outcome = Box::pin(self.known_outcome(session, &call.id, &call.tool, &state)).await;
                CallAnswer { outcome, replayed }
            }
            Lookup::Conflict => self.refuse_unopened(session, &call, origin, id_reused(&call.id)),
            Lookup::Full => self.refuse_unopened(session, &call, origin, session_full()),
        }
    }

    /// Runs a call to a recorded end, also where its caller hangs up, which stops a call that ends with its request.
    pub(super) async fn call_to_end(
        &self,
        session: &Arc<Session>,
        call: RequestedCall,
        arguments_sha256: audit::Sha256,
        origin: &Origin,
        running: RunningCall,
        options: CallOptions,
    ) -> Arc<CallOutcome> {
        let stop = (!call.outlives_request).then(|| running.cancelled.clone());
        let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
        let call = async move {
            let parts = &*dispatcher.0;
            let options = CallOptions { trace: parts.traces.begin(origin.trace.as_ref()), ..options };
            let outcome =
                dispatcher.call(&session, &call, arguments_sha256, &origin, running, &options).await;
            parts.metrics.count_call(&session.setup.organization, &outcome);
            parts.log.tool_executed(&session.setup, &outcome);
            parts.traces.end(options.trace, &session.setup, origin.source, &outcome);
            outcome
        };
        DetachOnDrop::new(&self.0.detached, stop, Box::pin(call)).await
    }

    /// Decides, records, performs, and records the outcome.
    ///
    /// Futures that ask the store are boxed, here and below: the future of a call has room for everything that it may await,
    /// and few calls await the store.
    async fn call(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        arguments_sha256: audit::Sha256,
        origin: &Origin,
        running: RunningCall,
        options: &CallOptions,
    ) -> Arc<CallOutcome> {
        let arrived = Instant::now();
        let parts = &*self.0;
        let events = CallEvents::begin(&parts.events, session, call, running.waited_for.is_none());
        let (cancelled, revoked) = (&running.cancelled, &origin.revoked);
        let stop = Stop { cancelled, revoked, shutdown: parts.detached.shutdown() };
        let (trace, outer) = (options.trace.as_ref(), options.outer);
        let attempt = Attempt { session, call, arguments_sha256, origin, arrived, trace, outer };
        let admitted = match self.admit(&attempt, options, stop).await {
            Ok(admitted) => admitted,
            Err(error) => {
                let given_up = Box::pin(self.record_given_up(&attempt, error, options)).await;
                return withdraw(running, call, events, given_up);
            }
        };
        self.observe_decision(&attempt, &admitted);
        if let Some(outcome) = self.counted_refusal(&attempt, &running, &admitted) {
            return end(running, events, outcome);
        }
        self.record_repeated(session);
        let entry = match self.record_intent(&attempt, &admitted) {
            Ok(entry) => entry,
            Err(error) => return withdraw(running, call, events, record::unrecordable(&error)),
        };
        let AdmittedEntry { verdict, revision, permits, turn, .. } = admitted;
        drop(turn);
        self.withdraw_unneeded(session, &running, &verdict).await;
        let exchanges = options.test.as_ref().map(|test| &test.exchanges);
        let began_ms = running.script_began_ms().or(options.began_ms);
        let recorded = Recorded { attempt, entry: &entry, exchanges, began_ms };
        let (performed, on) = match stop.is_requested() {
            true => (CallOutcome::of_error(call, CallError::cancellation()), None),
            false => self.perform(verdict, &recorded, revision, stop).await,
        };
        drop(permits);
        session.touch(now_ms());
        let outcome = CallOutcome { duration: arrived.elapsed(), ..performed };
        if let Err(error) = self.record_outcome(session, entry, &outcome, options).await {
            // A call that ran and could not be recorded is not shown as done.
            let state = OutcomeState::Error(record::unrecordable(&error));
            return end(running, events, CallOutcome { state, ..outcome });
        }
        let Some(on) = on else { return end(running, events, outcome) };
        let cancelled = running.cancelled.clone();
        let outcome = running.suspend(outcome, on, arguments_sha256.0, now_ms());
        events.end(&outcome);
        let raced = self.reconcile_races(session, origin, &outcome, &cancelled);
        Box::pin(raced).await.unwrap_or(outcome)
    }

    /// Opens the record of a decided call: the intent, with the decision.
    fn record_intent(&self, attempt: &Attempt<'_>, admitted: &AdmittedEntry) -> Result<Entry, AuditError> {
        let AdmittedEntry { verdict, rules, revision, .. } = admitted;
        let decision = record::Decision {
            verdict,
            catalogue: &rules.catalogue,
            revision: *revision,
            redacts_emails: record::redacts_emails(rules),
        };
        self.0.audit.open(record::intent(decision, attempt))
    }

    /// Measures a decision, and logs the attempt at a tool that the agent may not call, also where its record is one for many.
    fn observe_decision(&self, attempt: &Attempt<'_>, admitted: &AdmittedEntry) {
        let Attempt { arrived, trace, .. } = *attempt;
        let queue = arrived.elapsed().saturating_sub(admitted.decision);
        self.measure(Phase::Queue, arrived, queue, trace);
        self.measure(Phase::Decision, arrived + queue, admitted.decision, trace);
        let Verdict::Refused(refusal) = &admitted.verdict else { return };
        self.0.metrics.count_refusal(refusal.reason.layer);
        if refusal.error.error_type == ErrorType::AccessDenied {
            self.0.log.unauthorized_access(&attempt.session.setup, attempt.call, &refusal.reason);
        }
    }

    /// Measures a phase that has ended, for the metrics and the trace of the call.
    pub(super) fn measure(
        &self,
        phase: Phase,
        began: Instant,
        duration: Duration,
        trace: Option<&CallTrace>,
    ) {
        self.0.metrics.add_duration(phase, duration);
        if let Some(trace) = trace {
            trace.add_phase(phase, began, duration);
        }
    }

    async fn record_outcome(
        &self,
        session: &Session,
        entry: Entry,
        outcome: &CallOutcome,
        options: &CallOptions,
    ) -> Result<(), AuditError> {
        let began = Instant::now();
        let turn =
            self.turn(&session.setup.organization, outcome.output().map_or(0, |json| json.get().len())).await;
        let (audit, outcome) = (&self.0.audit, record::outcome(outcome));
        drop(turn);
        let recorded = match options.outer {
            Some(_) => audit.close_inner(entry, outcome),
            None => audit.close(entry, outcome).await,
        };
        self.measure(Phase::Record, began, began.elapsed(), options.trace.as_ref());
        recorded
    }

    /// Withdraws the approval of a call that waited for one and needs none any more.
    async fn withdraw_unneeded(&self, session: &Session, running: &RunningCall, verdict: &Charged) {
        if let Some(approval) = running.waited_for.as_ref().and_then(|pending| pending.approval())
            && !matches!(verdict, Verdict::NeedsApproval(_))
            && running.script_began_ms().is_none()
            && let Err(error) = Box::pin(self.withdraw_approval(session, approval)).await
        {
            let conversation = session.setup.conversation_or_empty();
            let session = session.setup.id.as_str();
            tracing::warn!(%error, session, conversation, approval, "an approval that is no longer needed cannot be withdrawn");
        }
    }

    /// Performs an admitted call, between intent and outcome: a step that fails is the outcome. Returns the party that a
    /// pending call waits for.
    async fn perform(
        &self,
        verdict: Charged,
        attempt: &Recorded<'_>,
        revision: u64,
        stop: Stop<'_>,
    ) -> (CallOutcome, Option<PendingOn>) {
        let (charged, approval) = match verdict {
            Verdict::Run(admitted) => (Ok(admitted), None),
            Verdict::Refused(refusal) => return (CallOutcome::of_refusal(attempt.call, refusal), None),
            Verdict::NeedsApproval(unapproved) => {
                match Box::pin(self.consume_approval(unapproved, attempt, revision)).await {
                    Ok((checked, approval)) => (self.charge_approved(checked, attempt), Some(approval)),
                    Err(outcome) => return *outcome,
                }
            }
        };
        let prepared = match charged {
            Ok(admitted) => self.prepare(admitted, attempt, stop).await,
            Err(refused) => Err(refused),
        };
        let (admitted, deadline, workspace) = match prepared {
            Ok(prepared) => prepared,
            Err(outcome) => {
                Box::pin(self.release_approval(approval)).await;
                return (*outcome, None);
            }
        };
        self.record_approval_use(attempt, approval.as_ref());
        let instead = approval.as_ref().and_then(|used| used.instead.clone());
        let script = admitted.access().may_call_tools() && attempt.exchanges.is_none();
        let script = script.then(|| Script::new(self, attempt, &admitted, deadline));
        let context = self.context(&admitted, attempt, deadline, workspace, script.as_ref());
        // Pinned here, since each future that it moves into would hold room for it twice.
        let stopped = pin!(stop.wait_for_request());
        let began = Instant::now();
        admitted.begin();
        let mut finished = self.0.sandbox.run(&admitted, context, stopped).await;
        settle(&admitted, &mut finished, script.as_deref(), attempt.outer.is_some());
        if !finished.executed {
            // The deadline passed before the first instruction: nothing of what was approved has happened.
            Box::pin(self.release_approval(approval)).await;
        }
        self.observe_run(attempt, began, &mut finished);
        let mut outcome = match script.as_deref().and_then(Script::take_end) {
            Some(state) => script_end(attempt, state, &finished).by(&admitted),
            None => self.check_result(attempt, &admitted, &mut finished).await,
        };
        outcome.content.extend(script.iter().flat_map(|script| script.take_notes()));
        let outcome = outcome.with_arguments_instead(instead.as_deref());
        let organization = &attempt.session.setup.organization;
        let redacts_emails = || self.0.registry.snapshot().redacts_emails(organization);
        record::effects(&self.0.audit, attempt.entry, &admitted, &finished, redacts_emails);
        record::log_lines(attempt.session, attempt.call, &admitted, &finished);
        record::log_exception(attempt.session, &outcome, admitted.id());
        self.count_end(attempt.session, &outcome, &admitted);
        let on = pending_on(&outcome, admitted, attempt);
        (outcome, on)
    }

    /// Counts and traces a run, and moves the exchanges of a test call to its caller.
    fn observe_run(&self, attempt: &Recorded<'_>, began: Instant, finished: &mut FinishedCall) {
        if let Some(exchanges) = attempt.exchanges {
            exchanges.lock().append(&mut finished.exchanges);
        }
        self.0.metrics.count_run(finished);
        if let Some(trace) = attempt.trace {
            trace.add_run(began, finished);
        }
    }

    fn charge_approved(
        &self,
        checked: Checked<Component>,
        attempt: &Recorded<'_>,
    ) -> Result<Admitted<Component>, Box<CallOutcome>> {
        self.0.ledger.charge(consumer(attempt), checked, charge_time()).map_err(|refusal| {
            self.0.metrics.count_refusal(refusal.reason.layer);
            Box::new(CallOutcome::of_refusal(attempt.call, refusal))
        })
    }

    /// Checks the room for the call, and opens its workspace.
    async fn prepare(
        &self,
        admitted: Admitted<Component>,
        attempt: &Recorded<'_>,
        stop: Stop<'_>,
    ) -> Result<(Admitted<Component>, Instant, Option<Workspace>), Box<CallOutcome>> {
        let Attempt { session, call, .. } = **attempt;
        let refused = |error| Box::new(CallOutcome::of_error(call, error).by(&admitted));
        client::check_capacity(session, &admitted).map_err(refused)?;
        let deadline = deadline_of(attempt.arrived, admitted.limits().deadline_ms, call, attempt.outer);
        let workspace = admit::open_workspace(session, &admitted, deadline, stop).await.map_err(refused)?;
        Ok((admitted, deadline, workspace))
    }

    /// Checks what the plugin returned against its declared mode and output schema (R3, T3). A valid result over the limit is
    /// written into the workspace (R10).
    async fn check_result(
        &self,
        attempt: &Recorded<'_>,
        admitted: &Admitted<Component>,
        finished: &mut FinishedCall,
    ) -> CallOutcome {
        let output = std::mem::replace(&mut finished.outcome, Err(CallError::cancellation()));
        let (mut content, mut kept_in) = (Vec::new(), None);
        let short = admitted.limits().output_bytes.min(MODEL_TEXT_BYTES as u64);
        let state = match output {
            Ok(Output::Result(json)) if json.len() as u64 > short => {
                let is_for_model = attempt.outer.is_none();
                let effects = &mut finished.effects;
                let turn = self.turn(&attempt.session.setup.organization, json.len()).await;
                let spilling = spill(attempt.session, admitted, json, turn, is_for_model, effects);
                Box::pin(spilling).await.map(|spilled| {
                    (content, kept_in) = (spilled.content, spilled.kept_in);
                    spilled.state
                })
            }
            Ok(Output::Result(json)) => admitted.check_result(&json).and_then(|with_content| {
                let output = match with_content {
                    Some((output, blocks)) => {
                        content = blocks;
                        output
                    }
                    None => json,
                };
                raw(output).map(OutcomeState::Ok)
            }),
            Ok(Output::Client(json)) => {
                let expires_ms = now_ms().saturating_add(self.0.client_result_ms);
                let payload = admitted.check_client_payload(json).and_then(raw);
                payload.map(|payload| OutcomeState::ClientRequired { payload, expires_ms })
            }
            Err(error) => Err(error),
        };
        let executed = if finished.executed { Executed::Yes } else { Executed::No };
        let state = state.unwrap_or_else(|error| OutcomeState::Error(with_withheld_files(error, admitted)));
        let outcome = CallOutcome::new(&attempt.call.id, &attempt.call.tool, executed, state).by(admitted);
        CallOutcome { content, kept_in, usage: finished.usage, ..outcome }
    }

    /// Counts the end of a call for a canary (O1) and for the session's circuit breaker (G13).
    fn count_end(&self, session: &Arc<Session>, outcome: &CallOutcome, admitted: &Admitted<Component>) {
        if let (Some(counters), Executed::Yes) = (&admitted.plugin().counters, outcome.executed) {
            counters.count(outcome.error().map(|error| error.error_type));
        }
        let Some(tool) = &outcome.tool else { return };
        let ended = outcome.error().map_or(Ok(()), |error| Err(error.error_type));
        // A deadline that passed in the queue is not the tool's failure.
        if (ended, outcome.executed) == (Err(ErrorType::DeadlineExceeded), Executed::No) {
            return;
        }
        let Some(why) = session.state.record_end(tool, ended) else { return };
        let setup = &session.setup;
        tracing::warn!(
            event = "tool_stopped", organization = %setup.organization, agent = %setup.agent,
            session = setup.id, conversation = setup.conversation_or_empty(), %tool, why, "a tool kept failing"
        );
        self.store_unavailable_tools(session);
    }
}

/// The party that the outcome of a guest waits for.
fn pending_on(
    outcome: &CallOutcome,
    admitted: Admitted<Component>,
    attempt: &Recorded<'_>,
) -> Option<PendingOn> {
    match outcome.state {
        OutcomeState::ClientRequired { .. } => {
            Some(PendingOn::Client(ClientPart::Admitted(Box::new(admitted))))
        }
        OutcomeState::ApprovalRequired(_) => Some(PendingOn::Script { began_ms: attempt.began_ms() }),
        _ => None,
    }
}

/// Settles what the quotas of the call reserved. A call that never ran costs nothing, and a script what it used itself.
///
/// A trap loses the fuel that the guest held in a register, so a call that crashed used all the fuel that it reserved.
fn settle(
    admitted: &Admitted<Component>,
    finished: &mut FinishedCall,
    script: Option<&Script>,
    is_inner: bool,
) {
    if !finished.executed {
        return admitted.settle(None);
    }
    let inner_fuel = script.map_or(0, Script::inner_fuel);
    finished.usage.cost = admitted.tool().cost;
    finished.usage.fuel = finished.usage.fuel.saturating_sub(inner_fuel);
    let mut used_fuel = finished.usage.fuel;
    match &mut finished.outcome {
        // A call of a script reserves no fuel of its own.
        Err(error) if error.error_type == ErrorType::ToolCrashed && !is_inner => {
            used_fuel = admitted.limits().fuel.saturating_sub(inner_fuel);
        }
        Err(error) if error.error_type == ErrorType::FuelExhausted => {
            // The tool had less than its own limit, so the failure is not the tool's.
            if let Some(exceeded) = admitted.fuel_quota_error() {
                *error = exceeded;
            }
        }
        _ => {}
    }
    let Usage { cpu_us, egress_bytes, cost, .. } = finished.usage;
    admitted.settle(Some(&Used { fuel: used_fuel, cpu_us, egress_bytes, cost }));
}

/// The outcome of a script that one of its calls ended.
fn script_end(attempt: &Recorded<'_>, state: OutcomeState, finished: &FinishedCall) -> CallOutcome {
    let outcome = CallOutcome::new(&attempt.call.id, &attempt.call.tool, Executed::Yes, state);
    CallOutcome { usage: finished.usage, ..outcome }
}

/// Says in the error of a plugin that it has no files, since it cannot know why they are not there.
fn with_withheld_files(mut error: CallError, admitted: &Admitted<Component>) -> CallError {
    let is_of_plugin = matches!(error.error_type, ErrorType::ToolFailed | ErrorType::ToolCrashed);
    if is_of_plugin && admitted.access().withholds_files() {
        error.hint += "; the plugin asks for the session's files, which it is not granted: an operator can add \
                       `{\"filesystem\":\"workspace\"}` to its grant";
    }
    error
}

/// Ends a call, first for those who watch it.
fn end(running: RunningCall, events: CallEvents<'_>, outcome: CallOutcome) -> Arc<CallOutcome> {
    events.end(&outcome);
    running.end(outcome, now_ms())
}

/// Nothing of this attempt was recorded: its id may be used again, and a call that waited for approval waits on.
fn withdraw(
    running: RunningCall,
    call: &RequestedCall,
    events: CallEvents<'_>,
    error: CallError,
) -> Arc<CallOutcome> {
    let waits_on = running.waited_for.is_some();
    running.withdraw();
    let outcome = CallOutcome::of_error(call, error);
    match waits_on {
        true => events.wait_on(),
        false => events.end(&outcome),
    }
    Arc::new(outcome)
}

/// JSON text that was checked before.
pub(super) fn raw(json: String) -> Result<Box<RawValue>, CallError> {
    RawValue::from_string(json).map_err(|error| {
        let message = format!("the result is not JSON: {error}");
        CallError::new(
            ErrorType::InvalidOutput,
            message,
            "the plugin broke its own contract: tell its publisher",
        )
    })
}

fn session_full() -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        "the session has made as many calls as it can remember",
        "open a new session",
    )
    .retryable(false)
}
