//! Every wait of a call, and the decision after the last of them.
//!
//! A call waits for a slot of the sandbox. A call that may change its session's files also waits until no other call does:
//! the calls of a request run at the same time, models ask for several edits of one file at once, and a read followed by a
//! write would undo another call's write. Calls of read-only tools run beside them.
//!
//! Only the decision says whether a call may change files, and a refused call need not wait for them. So a call is decided
//! first. If the files are taken, it returns its slot, waits without one, queues again and is decided anew: the decision
//! holds when the call runs, and a chain of calls of one session occupies no slots.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use toolgate_admission::{self as admission, Admitted, CallAccess, CallFacts, Refusal, Rules, Verdict};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::FilesystemAccess;
use toolgate_api::hints::Hints;
use toolgate_api::name::Namespace;
use toolgate_sandbox::workspace::{Quota, WorkspaceError};
use toolgate_sandbox::{Component, QueueError, Slot, Turn, Workspace};

use super::{
    Attempt, CallOptions, Charged, Dispatcher, Stop, after, charge_time, consumer, deadline_of, record,
};
use crate::call::RequestedCall;
use crate::registry::Snapshot;
use crate::sessions::Session;

/// The queue of a session's files is that of one organization, so fairness needs no name.
const ONE_ORGANIZATION: &str = "";

/// A call that has waited, and the decision made after that.
pub(super) struct AdmittedEntry {
    pub verdict: Charged,
    /// The rules that decided.
    pub rules: Rules<Component>,
    /// The revision of the snapshot.
    pub revision: u64,
    /// Time that the decision took.
    pub decision: Duration,
    pub permits: CallPermits,
    /// Held until the decision is recorded, which handles the arguments once more.
    pub turn: Option<Turn>,
}

/// Permits held for the duration of the call and released on drop: a slot of the sandbox, unless the call was stopped, and
/// the session's files, where the call may change them.
pub(super) struct CallPermits {
    _slot: Option<Slot>,
    _files: Option<Slot>,
}

impl Dispatcher {
    /// Waits for what the call needs, until its deadline or until it is stopped, and decides it.
    pub(super) async fn admit(
        &self,
        attempt: &Attempt<'_>,
        options: &CallOptions,
        stop: Stop<'_>,
    ) -> Result<AdmittedEntry, CallError> {
        let Attempt { session, call, arrived, .. } = *attempt;
        let rules_at = |snapshot: &Snapshot| options.rules(snapshot, session);
        let deadline = || {
            let rules = rules_at(&self.0.registry.snapshot());
            deadline_of(arrived, admission::limits_of(&rules, &call.tool).deadline_ms, call, options.outer)
        };
        let mut files = None;
        loop {
            let slot = self.wait_for_slot(session, options, deadline, stop).await?;
            let turn = self.turn(&session.setup.organization, call.arguments.len()).await;
            let snapshot = self.0.registry.snapshot();
            let (compiling, setup) = (snapshot.compiling_plugin(&call.tool), &session.setup);
            let may_use = |plugin: &Namespace| {
                options.test.is_some() || snapshot.may_use(&setup.organization, &setup.agent, plugin)
            };
            if compiling.as_ref().is_some_and(may_use) && !stop.is_requested() {
                drop((slot, turn));
                Box::pin(self.wait_until_compiled(call, deadline(), stop)).await?;
                continue;
            }
            let rules = rules_at(&snapshot);
            let deciding = Instant::now();
            let verdict = match options.exceeded {
                // The agent need not wait for a refusal.
                None if compiling.is_some() => Verdict::Refused(Refusal::not_given(&call.tool)),
                None => self.0.decide(&rules, session, call),
                Some(exceeded) => Verdict::Refused(Refusal::rounds_exceeded(exceeded.what, exceeded.allowed)),
            };
            let decision = deciding.elapsed();
            if files.is_none() && options.outer.is_none() && needs_files(&verdict) {
                files = session.changing_files.try_enter(ONE_ORGANIZATION);
                if files.is_none() && !stop.is_requested() {
                    drop((slot, turn));
                    files = Box::pin(wait_for_files(session, deadline(), stop)).await?;
                    continue;
                }
            }
            let verdict = self.0.ledger.admit(consumer(attempt), verdict, charge_time());
            if let Some(at) = retry_at(&verdict, stop).filter(|at| *at < deadline()) {
                drop((slot, turn, files.take()));
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = stop.wait_for_request() => {}
                }
                continue;
            }
            let permits = CallPermits { _slot: slot, _files: files };
            return Ok(AdmittedEntry {
                verdict,
                rules,
                revision: snapshot.revision,
                decision,
                permits,
                turn,
            });
        }
    }
}

impl Dispatcher {
    async fn wait_for_slot(
        &self,
        session: &Session,
        options: &CallOptions,
        deadline: impl Fn() -> Instant,
        stop: Stop<'_>,
    ) -> Result<Option<Slot>, CallError> {
        tokio::select! {
            biased;
            // An inner call runs in the slot of its outer call, and would wait for another one for ever.
            () = std::future::ready(()), if options.outer.is_some() => Ok(None),
            slot = self.0.queue.enter(session.setup.organization.as_str(), deadline) => match slot {
                // A stopped call is recorded and does not run, so it needs no slot.
                Err(_) if stop.is_requested() => Ok(None),
                slot => slot.map(Some).map_err(queue_refusal),
            },
            () = stop.wait_for_request() => Ok(None),
        }
    }

    /// Waits for the compilation of the tool's plugin, at the first start of a daemon.
    async fn wait_until_compiled(
        &self,
        call: &RequestedCall,
        deadline: Instant,
        stop: Stop<'_>,
    ) -> Result<(), CallError> {
        let compiled = self.0.registry.wait_for_tool(&call.tool);
        tokio::select! {
            biased;
            compiled = timeout_at(deadline, compiled) => compiled.map_err(|_| CallError::new(
                ErrorType::DeadlineExceeded,
                "the deadline passed while the plugin was being compiled, which happens once",
                "call again in a moment",
            )),
            () = stop.wait_for_request() => Ok(()),
        }
    }
}

/// The time at which a refused call is decided again, if its quota says that it waits.
fn retry_at(verdict: &Charged, stop: Stop<'_>) -> Option<Instant> {
    let Verdict::Refused(refusal) = verdict else { return None };
    let retry_after_ms = refusal.error.retry_after_ms().filter(|_| refusal.waits && !stop.is_requested())?;
    Some(after(Instant::now(), retry_after_ms))
}

fn needs_files(verdict: &Verdict<Component>) -> bool {
    let call: &CallFacts<Component> = match verdict {
        Verdict::Run(checked) => checked,
        Verdict::NeedsApproval(unapproved) => unapproved,
        Verdict::Refused(_) => return false,
    };
    // A script holds the files for all its calls: one that waited for them would keep its slot from the call that has them.
    call.access().may_call_tools() || may_change_files(call.hints(), call.access())
}

/// Whether a call of a tool with these hints and this access can change the session's files.
pub(super) fn may_change_files(hints: Hints, access: &CallAccess) -> bool {
    !hints.read_only && access.filesystem() == FilesystemAccess::Workspace
}

/// Waits for the right to change the session's files. None where the call is stopped.
async fn wait_for_files(
    session: &Session,
    deadline: Instant,
    stop: Stop<'_>,
) -> Result<Option<Slot>, CallError> {
    tokio::select! {
        biased;
        files = session.changing_files.enter(ONE_ORGANIZATION, || deadline) => {
            files.map(Some).map_err(files_refusal)
        }
        () = stop.wait_for_request() => Ok(None),
    }
}

/// Opens the session's workspace for a call that may use it.
pub(super) async fn open_workspace(
    session: &Session,
    admitted: &Admitted<Component>,
    deadline: Instant,
    stop: Stop<'_>,
) -> Result<Option<Workspace>, CallError> {
    if admitted.access().filesystem() == FilesystemAccess::None {
        return Ok(None);
    }
    let limits = admitted.limits();
    let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
    let opened = tokio::select! {
        biased;
        opened = timeout_at(deadline, session.workspace(quota)) => opened.map_err(|_| files_deadline())?,
        () = stop.wait_for_request() => return Err(CallError::cancellation()),
    };
    match opened {
        Ok(workspace) => Ok(Some(workspace)),
        // The session ended after the call began.
        Err(WorkspaceError::NotFound) => Err(CallError::cancellation()),
        Err(error) => Err(record::workspace_unavailable(&error)),
    }
}

fn queue_refusal(error: QueueError) -> CallError {
    match error {
        QueueError::Full => overload("too many calls are waiting", "call again in a moment"),
        QueueError::Deadline => CallError::new(
            ErrorType::DeadlineExceeded,
            "the deadline passed while the call waited for a free slot",
            "call again later: the daemon is busy",
        ),
    }
}

fn files_refusal(error: QueueError) -> CallError {
    match error {
        QueueError::Full => overload(
            "too many calls wait for the session's files, which one call at a time may change",
            "wait for the answers of the other calls, then call again",
        ),
        QueueError::Deadline => files_deadline(),
    }
}

fn overload(message: &str, hint: &str) -> CallError {
    CallError::new(ErrorType::Overloaded, message, hint).with_retry_after_ms(1000)
}

fn files_deadline() -> CallError {
    CallError::new(
        ErrorType::DeadlineExceeded,
        "the deadline passed while the call waited for the session's files, which another call may change",
        "wait for the answers of the other calls that may change files, then call again",
    )
}
