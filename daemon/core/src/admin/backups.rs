//! Backups, an act of operators.

use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;

use super::{Actor, Admin};
use crate::backup::{Backup, BackupError, BackupSource};
use crate::identity::Access;

#[boxed]
impl Admin {
    /// Takes a backup, which can then be written. The act ends when the backup is taken; its record in the backup itself is
    /// one without outcome.
    pub async fn take_backup(&self, actor: Actor<'_>, source: BackupSource) -> Result<Backup, CallError> {
        actor.caller.may(Access::Operate)?;
        let taking = async {
            // The answers of calls that have ended are in the files that it copies.
            self.services().sessions.answers().flush().await;
            Backup::take(source).await.map_err(|error| failure(&error))
        };
        self.run_audited(actor.action(None, "backup.take", "data folder"), taking).await
    }
}

fn failure(error: &BackupError) -> CallError {
    let error_type = match error {
        BackupError::Busy => ErrorType::Conflict,
        _ => ErrorType::Unavailable,
    };
    CallError::new(error_type, error.to_string(), error.hint())
}
