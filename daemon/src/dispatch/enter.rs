//! Every wait of a call, and the decision behind the last of them.
//!
//! A call waits for a slot of the sandbox, and one that may change its session's files waits until no other one does. Only
//! a decision tells which those are, and what is refused need not wait for anybody. So a call is decided first, and where
//! it finds the files taken it gives its slot back, waits without one, enters again and is decided anew: what was decided
//! holds when it runs, and calls that follow each other keep nobody else out of the sandbox.

use tokio::time::Instant;
use toolgate_admission::{self as admission, CallError, ErrorType, Refusal, Rules, Verdict};
use toolgate_sandbox::{Component, QueueError, Slot};

use super::{Dispatcher, RequestedCall, Stop, Terms, after, decide, files, rules_of};
use crate::registry::Snapshot;
use crate::sessions::Session;

/// A call that has waited, and what was decided about it then.
pub(super) struct Entered {
    pub verdict: Verdict<Component>,
    /// What decided.
    pub rules: Rules<Component>,
    /// The revision of what is in force.
    pub revision: u64,
    /// What it waited for, to let go of when it has run.
    pub held: Held,
}

/// A slot of the sandbox, which a call that was stopped needs none of, and the files of its session, where it may change
/// them.
pub(super) struct Held {
    _slot: Option<Slot>,
    _files: Option<Slot>,
}

impl Dispatcher {
    /// Waits for what the call needs, until its deadline or until it is stopped, and decides about it.
    pub(super) async fn enter(
        &self,
        session: &Session,
        call: &RequestedCall,
        terms: &Terms,
        arrived: Instant,
        stop: Stop<'_>,
    ) -> Result<Entered, CallError> {
        let rules_at = |snapshot: &Snapshot| match &terms.trial {
            None => rules_of(snapshot, session),
            Some(trial) => trial.rules.clone(),
        };
        let wait_until = || {
            let rules = rules_at(&self.0.registry.snapshot());
            after(arrived, admission::limits_of(&rules, &call.tool).deadline_ms)
        };
        let mut files = None;
        loop {
            let slot = tokio::select! {
                biased;
                entered = self.0.queue.enter(session.setup.organization.as_str(), wait_until) => {
                    Some(entered.map_err(not_entered)?)
                }
                // Nothing runs, so it needs no place in the sandbox to be recorded.
                () = stop.comes() => None,
            };
            let snapshot = self.0.registry.snapshot();
            let rules = rules_at(&snapshot);
            let verdict = match terms.spent {
                None => decide(&rules, session, call),
                Some(spent) => Verdict::Refused(Refusal::of_rounds(spent.what, spent.allowed)),
            };
            if files.is_none() && files::may_change(&verdict) {
                files = files::try_take(session);
                if files.is_none() && !stop.has_come() {
                    drop(slot);
                    files = Box::pin(files::take(session, wait_until(), stop)).await?;
                    continue;
                }
            }
            let held = Held { _slot: slot, _files: files };
            return Ok(Entered { verdict, rules, revision: snapshot.revision, held });
        }
    }
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
