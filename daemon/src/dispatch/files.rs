//! The session's files, for a call that may reach them.
//!
//! The calls of a request run at the same time, and models ask for several edits of one file at once. What reads a file and
//! writes it again would undo what another call wrote in between, and no guest can see another one. So calls that may change
//! the files of a session follow each other, and those of tools that only read run beside them.

use tokio::time::{Instant, timeout_at};
use toolgate_admission::{Admitted, CallError, ErrorType, Facts, FilesystemAccess, Verdict};
use toolgate_sandbox::workspace::{Quota, WorkspaceError};
use toolgate_sandbox::{Component, QueueError, Slot, Workspace};

use super::{Stop, record};
use crate::sessions::Session;

/// The files of a session have one line: nobody in it is somebody else's.
const LINE: &str = "";

/// Whether the call may change its session's files.
pub(super) fn may_change(verdict: &Verdict<Component>) -> bool {
    let call: &Facts<Component> = match verdict {
        Verdict::Run(checked) => checked,
        Verdict::NeedsApproval(unapproved) => unapproved,
        Verdict::Refused(_) => return false,
    };
    !call.tool().hints.read_only && reaches(call)
}

fn reaches(call: &Facts<Component>) -> bool {
    match call.reach().filesystem() {
        FilesystemAccess::None => false,
        FilesystemAccess::Workspace => true,
    }
}

/// The right to change the session's files, if nobody has it or waits for it.
pub(super) fn try_take(session: &Session) -> Option<Slot> {
    session.changing_files.try_enter(LINE)
}

/// Waits for it, until the deadline. None where the call is stopped.
pub(super) async fn take(
    session: &Session,
    deadline: Instant,
    stop: Stop<'_>,
) -> Result<Option<Slot>, CallError> {
    tokio::select! {
        biased;
        taken = session.changing_files.enter(LINE, || deadline) => taken.map(Some).map_err(not_taken),
        () = stop.comes() => Ok(None),
    }
}

/// Opens the session's files for a call that may reach them.
pub(super) async fn of_call(
    session: &Session,
    admitted: &Admitted<Component>,
    deadline: Instant,
    stop: Stop<'_>,
) -> Result<Option<Workspace>, CallError> {
    if !reaches(admitted) {
        return Ok(None);
    }
    let limits = admitted.limits();
    let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
    let opened = tokio::select! {
        biased;
        opened = timeout_at(deadline, session.workspace(quota)) => opened.map_err(|_| too_late())?,
        () = stop.comes() => return Err(CallError::cancelled()),
    };
    match opened {
        Ok(workspace) => Ok(Some(workspace)),
        // The session has ended since the call began.
        Err(WorkspaceError::NotFound) => Err(CallError::cancelled()),
        Err(error) => Err(record::workspace_unavailable(&error)),
    }
}

fn not_taken(error: QueueError) -> CallError {
    match error {
        QueueError::Full => {
            let message = "too many calls wait for the session's files, which one call at a time may change";
            CallError::new(
                ErrorType::Overloaded,
                message,
                "wait for the answers of the other calls, then call again",
            )
            .with_details(serde_json::json!({"retry_after_ms": 1000}))
        }
        QueueError::Deadline => too_late(),
    }
}

fn too_late() -> CallError {
    CallError::new(
        ErrorType::DeadlineExceeded,
        "the deadline passed while the call waited for the session's files, which another call may change",
        "wait for the answer of the other calls that may change files, then call again",
    )
}
