//! The records of calls that end before they begin (9.18): those given up in the queue, and floods of equal refusals.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use toolgate_admission::{Layer, Reason, Refusal, Verdict};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::text::escape_for_display;
use toolgate_audit as audit;
use toolgate_audit::{AdminRecord, Row};

use super::admit::AdmittedEntry;
use super::events::CallEvents;
use super::{Attempt, CallOptions, Dispatcher, Origin, record};
use crate::call::{CallAnswer, CallOutcome, RequestedCall};
use crate::metrics::Phase;
use crate::sessions::{Counted, RefusalKind, RefusedCall, RepeatedRefusals, RunningCall, Session};

/// Longest id and name of a call that is not opened, in a record.
const SHOWN_CHARS: usize = 200;

/// Whether a recorded call was given up before its decision.
pub(super) fn is_given_up(row: &Row) -> bool {
    row.call.as_ref().is_some_and(|intent| intent.reason.layer == Layer::Queue.as_str())
}

impl Dispatcher {
    /// Records a call that was given up before its decision. Returns the error for the caller.
    pub(super) async fn record_given_up(
        &self,
        attempt: &Attempt<'_>,
        error: CallError,
        options: &CallOptions,
    ) -> CallError {
        let Attempt { session, call, arrived, .. } = *attempt;
        self.measure(Phase::Queue, arrived, arrived.elapsed(), attempt.trace);
        let snapshot = self.0.registry.snapshot();
        let rules = options.rules(&snapshot, session);
        let tool = rules.catalogue.find(&call.tool).map(|tool| tool.id().clone());
        let refusal = Refusal::given_up(tool, error.clone());
        self.0.metrics.count_refusal(refusal.reason.layer);
        if self.is_counted(attempt, &refusal, snapshot.revision) {
            return error;
        }
        self.record_repeated(session);
        let outcome = CallOutcome::of_refusal(call, refusal.clone());
        let outcome = CallOutcome { duration: arrived.elapsed(), ..outcome };
        let verdict = Verdict::Refused(refusal);
        let decision = record::Decision {
            verdict: &verdict,
            catalogue: &rules.catalogue,
            revision: snapshot.revision,
            redacts_emails: record::redacts_emails(&rules),
        };
        let recorded = match self.0.audit.open(record::intent(decision, attempt)) {
            Ok(entry) => self.0.audit.close(entry, record::outcome(&outcome)).await,
            Err(error) => Err(error),
        };
        recorded.map_or_else(|error| record::unrecordable(&error), |()| error)
    }

    /// The outcome of a refused call that was counted instead of recorded. A call that waited for approval is recorded.
    pub(super) fn counted_refusal(
        &self,
        attempt: &Attempt<'_>,
        running: &RunningCall,
        admitted: &AdmittedEntry,
    ) -> Option<CallOutcome> {
        let Verdict::Refused(refusal) = &admitted.verdict else { return None };
        if running.waited_for.is_some() || !self.is_counted(attempt, refusal, admitted.revision) {
            return None;
        }
        let outcome = CallOutcome::of_refusal(attempt.call, refusal.clone());
        Some(CallOutcome { duration: attempt.arrived.elapsed(), ..outcome })
    }

    /// Counts a refusal instead of recording it, where the session has had many equal ones.
    fn is_counted(&self, attempt: &Attempt<'_>, refusal: &Refusal, revision: u64) -> bool {
        let Attempt { session, call, arguments_sha256, origin, .. } = *attempt;
        // The counts are recorded before the end, and only where the log takes them.
        if self.0.detached.shutdown().is_cancelled() || self.0.audit.takes_calls().is_err() {
            return false;
        }
        let kind = RefusalKind {
            called: Arc::clone(&call.tool),
            error_type: refusal.error.error_type,
            reason: refusal.reason,
            principal: Arc::clone(&origin.principal),
            source: origin.source,
        };
        let refused = || RefusedCall {
            call: call.id.clone(),
            arguments_sha256,
            tool: refusal.tool.clone(),
            policy_revision: revision,
        };
        match session.refusals.count(&kind, refused, Instant::now()) {
            Counted::No => return false,
            Counted::Yes { unawaited_end: None } => {}
            Counted::Yes { unawaited_end: Some(end) } => self.record_repeated_at(session, end),
        }
        true
    }

    /// Refuses a call that is not opened: it is faulty, or its id is taken. Its events are left out where the id is that of
    /// another call, which has its own (G6).
    pub(super) fn refuse_unopened(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        origin: &Origin,
        error: CallError,
    ) -> CallAnswer {
        self.record_unopened(session, call, origin, &error);
        let is_others = error.error_type == ErrorType::Conflict;
        let outcome = CallOutcome::of_error(call, error);
        if !is_others {
            CallEvents::begin(&self.0.events, session, call, true).end(&outcome);
        }
        outcome.into()
    }

    /// Records an attempt at a call that is not opened (9.18). The record is an act and not a call, since the call of that id may
    /// be another one, whose record counts.
    fn record_unopened(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        origin: &Origin,
        error: &CallError,
    ) {
        let policy_revision = self.0.registry.snapshot().revision;
        let kind = RefusalKind {
            called: Arc::clone(&call.tool),
            error_type: error.error_type,
            reason: Reason { layer: Layer::Session, rule: "not_opened" },
            principal: Arc::clone(&origin.principal),
            source: origin.source,
        };
        let refused = || RefusedCall {
            call: String::new(),
            arguments_sha256: audit::sha256(call.arguments.as_bytes()),
            tool: None,
            policy_revision,
        };
        match session.refusals.count(&kind, refused, Instant::now()) {
            Counted::No => {
                let act = unopened_act(session, call, origin, error, policy_revision);
                // Nothing has happened: the next sync of the log has the record.
                drop(self.0.audit.admin(act));
            }
            Counted::Yes { unawaited_end: None } => {}
            Counted::Yes { unawaited_end: Some(end) } => self.record_repeated_at(session, end),
        }
    }

    /// Records the refusals of a session that were counted so far.
    pub(super) fn record_repeated(&self, session: &Session) {
        for refusals in session.refusals.take_all() {
            self.record_refusals(session, &refusals);
        }
    }

    /// Records the counts of windows that end then, or at shutdown.
    fn record_repeated_at(&self, session: &Arc<Session>, end: Instant) {
        let (dispatcher, session) = (self.clone(), Arc::clone(session));
        let recording = async move {
            tokio::select! {
                () = sleep_until(end) => {
                    for refusals in session.refusals.take_ended(end) {
                        dispatcher.record_refusals(&session, &refusals);
                    }
                }
                () = dispatcher.0.detached.shutdown().cancelled() => dispatcher.record_repeated(&session),
            }
        };
        tokio::spawn(self.0.detached.track(recording));
    }

    /// Appends the record. The log syncs it with the next one, or when it is closed.
    fn record_refusals(&self, session: &Session, refusals: &RepeatedRefusals) {
        let RefusalKind { principal, source, .. } = &refusals.kind;
        let revoked = CancellationToken::new();
        let origin = Origin { principal: Arc::clone(principal), source, trace: None, revoked };
        match self.0.audit.open(record::repeated_intent(session, refusals, &origin)) {
            Ok(entry) => drop(self.0.audit.close(entry, record::refused_outcome(refusals.kind.error_type))),
            Err(error) => {
                let conversation = session.setup.conversation_or_empty();
                let (session, count) = (session.setup.id.as_str(), refusals.count);
                tracing::error!(%error, session, conversation, count, "counted refusals cannot be recorded");
            }
        }
    }
}

fn unopened_act<'a>(
    session: &'a Session,
    call: &'a RequestedCall,
    origin: &'a Origin,
    error: &'a CallError,
    policy_revision: u64,
) -> AdminRecord<'a> {
    let shown = |text: &str| escape_for_display(text, SHOWN_CHARS);
    let details = json!({"call": shown(&call.id), "tool": shown(&call.tool)});
    AdminRecord {
        organization: Some(session.setup.organization.as_str().into()),
        principal: Cow::Borrowed(&origin.principal),
        action: "call.refuse".into(),
        target: session.setup.id.as_str().into(),
        outcome: error.error_type.as_str().into(),
        revision: Some(policy_revision),
        details: RawValue::from_string(details.to_string()).ok().map(Cow::Owned),
        source: origin.source.into(),
    }
}
