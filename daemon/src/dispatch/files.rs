//! The session's files, for a call that may reach them.
//!
//! The calls of a request run at the same time, and models ask for several edits of one file at once. What reads a file and
//! writes it again would undo what another call wrote in between, and no guest can see another one. So calls that may change
//! the files of a session have their turns, and those of tools that only read run beside them.

use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout_at};
use toolgate_admission::{Admitted, CallError, ErrorType, FilesystemAccess};
use toolgate_sandbox::workspace::{Quota, WorkspaceError};
use toolgate_sandbox::{Component, Workspace};

use super::{Stop, record};
use crate::sessions::Session;

/// What a call has of its session's files, as long as this lives.
pub(super) struct Files<'s> {
    /// The files, where the call may reach them.
    pub workspace: Option<Workspace>,
    /// The right to change them.
    _turn: Option<MutexGuard<'s, ()>>,
}

/// Waits for the turn of a call that may change files, until its deadline or until it is stopped.
pub(super) async fn of_call<'s>(
    session: &'s Session,
    admitted: &Admitted<Component>,
    deadline: Instant,
    stop: Stop<'_>,
) -> Result<Files<'s>, CallError> {
    match admitted.reach().filesystem() {
        FilesystemAccess::None => return Ok(Files { workspace: None, _turn: None }),
        FilesystemAccess::Workspace => {}
    }
    let opening = async {
        let turn = match admitted.tool().hints.read_only {
            true => None,
            false => Some(session.turn_at_files().await),
        };
        let limits = admitted.limits();
        let quota = Quota { bytes: limits.workspace_bytes, files: limits.workspace_files };
        match session.workspace(quota).await {
            Ok(workspace) => Ok(Files { workspace: Some(workspace), _turn: turn }),
            // The session has ended since the call began.
            Err(WorkspaceError::NotFound) => Err(CallError::cancelled()),
            Err(error) => Err(record::workspace_unavailable(&error)),
        }
    };
    tokio::select! {
        biased;
        opened = timeout_at(deadline, opening) => opened.unwrap_or_else(|_| Err(too_late())),
        () = stop.comes() => Err(CallError::cancelled()),
    }
}

fn too_late() -> CallError {
    CallError::new(
        ErrorType::DeadlineExceeded,
        "the deadline passed while the call waited for the session's files, which another call may change",
        "wait for the answer of the other calls that may change files, then call again",
    )
}
