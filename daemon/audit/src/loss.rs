//! A log that is damaged or gone: the daemon refuses to start, unless an operator gives the log up.
//!
//! Then its files are moved into the folder `damaged-N` beside it, and nothing is deleted. The log that begins in its place has a
//! recovery record of what was lost as its first one.

use std::io;
use std::path::Path;

use super::error::StartError;
use super::folder::Folder;
use super::record::{AcceptedLoss, Anchor};

const DAMAGED: &str = "damaged-";

/// Refuses a folder without segments if a daemon is known to have had a log in it: the index has its last record, or the store
/// the time of the last run.
pub(crate) fn refuse_missing_log(
    folder: &Folder,
    indexed: Option<&Anchor>,
    last_run_ms: Option<u64>,
) -> Result<(), StartError> {
    let last_sequence = indexed.map(|last| last.sequence).filter(|sequence| *sequence > 0);
    let had_log = last_sequence.is_some() || last_run_ms.is_some();
    let segments = folder.segments().map_err(StartError::io("list", folder.dir()))?;
    match had_log && segments.is_empty() {
        true => Err(StartError::Gone { dir: folder.dir().to_path_buf(), last_sequence }),
        false => Ok(()),
    }
}

/// Moves the files of a log aside. `error` is why the daemon cannot go on with it.
pub(crate) fn give_up(
    folder: &Folder,
    error: &StartError,
    last_run_ms: Option<u64>,
) -> Result<AcceptedLoss, StartError> {
    let moved = move_aside(folder.dir()).map_err(StartError::io("move aside the files of", folder.dir()))?;
    tracing::warn!(
        event = "audit_loss_accepted",
        cause = %error,
        moved_to = moved.as_deref(),
        "the audit log is given up, as `--accept-lost-log` says, and a new one begins with the record of it: leave the option out from now on"
    );
    Ok(AcceptedLoss { cause: error.to_string(), moved_to: moved, last_run_ms })
}

/// Returns the name of the folder in `dir` that the files are in now; `None` if there were none.
fn move_aside(dir: &Path) -> io::Result<Option<String>> {
    let mut names = Vec::new();
    for entry in dir.read_dir()? {
        let name = entry?.file_name();
        // The lock is held, and earlier logs stay where they are.
        if name != "lock" && !name.to_string_lossy().starts_with(DAMAGED) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let free = (1..).map(|number: u64| format!("{DAMAGED}{number}")).find(|name| !dir.join(name).exists());
    let target = free.unwrap_or_default();
    Folder::at(&dir.join(&target)).create().map_err(io::Error::other)?;
    for name in names {
        std::fs::rename(dir.join(&name), dir.join(&target).join(&name))?;
    }
    Folder::at(dir).sync()?;
    Ok(Some(target))
}
