//! Copies and restores of the folder, which a loss of records would otherwise look like tampering in.
//!
//! The file `origin` names the inode of the folder that the daemon wrote to. In a copy it names another one: a folder that
//! was copied while a daemon wrote to it has files of different times, so its `head` or its index may know of records that
//! its segments lack. That explains a loss without excusing it, since a program that can write to the folder can also copy it.
//!
//! A restore leaves the file `restored` with the backup that it came from, under the seal of the daemon's key. The first
//! start appends it to the chain as a record of the act `audit.restored`, and removes the file.

use std::borrow::Cow;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::anchor::Sealer;
use super::error::StartError;
use super::folder::{Folder, create_private, remove_if_there};
use super::record::{AdminRecord, Anchor, LostRecords, NotedRestore, RestoredFrom, Sha256};

/// Action of the record of a restore.
pub(crate) const RESTORED_ACTION: &str = "audit.restored";

const ORIGIN: &str = "origin";
const RESTORED: &str = "restored";

#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Origin {
    inode: u64,
}

impl Origin {
    fn of(folder: &Folder) -> io::Result<Self> {
        Ok(Self { inode: folder.dir().metadata()?.ino() })
    }
}

/// JSON text with its seal.
#[derive(Serialize, Deserialize)]
struct Sealed {
    text: String,
    seal: Sha256,
}

/// Whether the folder is a copy of another one. A folder of an earlier version has no `origin`, and counts as none.
pub(crate) fn is_copy(folder: &Folder, sealer: &Sealer) -> io::Result<bool> {
    let origin: Option<Origin> = read(&folder.origin(), ORIGIN, sealer)?;
    Ok(origin.is_some() && origin != Some(Origin::of(folder)?))
}

/// Marks the folder as the one that is written to from now on. Called when its losses are recorded: after a kill in between, the
/// next start has to explain them, too.
pub(crate) fn mark_origin(folder: &Folder, sealer: &Sealer) {
    let marked = Origin::of(folder).and_then(|here| {
        let is_marked = read(&folder.origin(), ORIGIN, sealer)?.as_ref() == Some(&here);
        if is_marked { Ok(()) } else { write(&folder.origin(), ORIGIN, sealer, &here) }
    });
    if let Err(error) = marked {
        // A daemon on a full disk starts, too.
        tracing::warn!(%error, "the audit folder cannot be marked, so a copy of it would not explain itself");
    }
}

/// Tells that acknowledged records are missing, and what to do.
pub(crate) fn report_loss(lost: &LostRecords, copied: bool) {
    let LostRecords { after_sequence, acknowledged_sequence, .. } = lost;
    if copied {
        return tracing::warn!(
            event = "audit_copied",
            after_sequence,
            acknowledged_sequence,
            "the audit folder is a copy, of an earlier time or made while a daemon wrote to the original: it lacks the newest records, and their calls may run again. Make copies with `toolgate backup`, or of a stopped daemon. The daemon goes on with this one, and `audit verify` tells of the gap from now on"
        );
    }
    tracing::error!(
        event = "audit_lost",
        after_sequence,
        acknowledged_sequence,
        "acknowledged records of the audit log are lost, and their calls may run again: to restore them, stop the daemon and restore the data folder from a backup",
    );
}

/// Reads the backup that the folder was restored from, if this is the first start since. `last` is the last record.
pub(crate) fn restored_from(
    folder: &Folder,
    sealer: &Sealer,
    last: &Anchor,
) -> Result<Option<RestoredFrom>, StartError> {
    let path = folder.restored_file();
    if !path.exists() {
        return Ok(None);
    }
    let from: Option<RestoredFrom> = read(&path, RESTORED, sealer).map_err(StartError::io("read", &path))?;
    match from {
        Some(from) if from.head.sequence == last.sequence && from.head.hash == last.hash => Ok(Some(from)),
        // The record is there: the daemon died before it removed the file.
        Some(from) if from.head.sequence < last.sequence => {
            forget_restore(folder).map_err(StartError::io("remove", &path))?;
            Ok(None)
        }
        _ => Err(StartError::corrupt(&path, 0, "it was not made for this log with the key of this daemon")),
    }
}

/// Removes the file of a restore, whose record is on disk.
pub(crate) fn forget_restore(folder: &Folder) -> io::Result<()> {
    remove_if_there(&folder.restored_file())?;
    folder.sync()
}

/// The content of the file of a restore.
pub(crate) fn restored_text(sealer: &Sealer, from: &RestoredFrom) -> io::Result<Vec<u8>> {
    seal(RESTORED, sealer, from)
}

/// The record of a restore.
pub(crate) fn restored_record(from: &RestoredFrom) -> AdminRecord<'static> {
    AdminRecord {
        organization: None,
        principal: "toolgate".into(),
        action: RESTORED_ACTION.into(),
        target: format!("backup {}", from.backup).into(),
        outcome: "ok".into(),
        revision: None,
        details: serde_json::value::to_raw_value(from).ok().map(Cow::Owned),
        source: "daemon".into(),
    }
}

/// Reads the record of a restore; none if the payload is that of another act.
pub(crate) fn noted_restore(sequence: u64, at_ms: u64, payload: &[u8]) -> Option<NotedRestore> {
    #[derive(Deserialize)]
    struct RestoreRecord {
        action: String,
        details: Option<serde_json::Value>,
    }
    let record: RestoreRecord = serde_json::from_slice(payload).ok()?;
    let details = record.details.filter(|_| record.action == RESTORED_ACTION)?;
    Some(NotedRestore { sequence, at_ms, from: serde_json::from_value(details).ok()? })
}

/// Reads sealed text; none if there is no file, or its seal is of another purpose or key.
fn read<T: for<'de> Deserialize<'de>>(path: &Path, purpose: &str, sealer: &Sealer) -> io::Result<Option<T>> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let Ok(Sealed { text, seal }) = serde_json::from_slice(&bytes) else { return Ok(None) };
    let is_sealed = seal == sealer.seal_text(purpose, text.as_bytes());
    Ok(is_sealed.then(|| serde_json::from_str(&text).ok()).flatten())
}

fn seal(purpose: &str, sealer: &Sealer, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_string(value)?;
    let seal = sealer.seal_text(purpose, text.as_bytes());
    Ok(serde_json::to_vec(&Sealed { text, seal })?)
}

/// Replaces the file. A crash leaves the one before, this one, or none.
fn write(path: &Path, purpose: &str, sealer: &Sealer, value: &impl Serialize) -> io::Result<()> {
    let text = seal(purpose, sealer, value)?;
    let new = path.with_extension("new");
    remove_if_there(&new)?;
    create_private(&new, true)?.write_all_at(&text, 0)?;
    std::fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_told_from_its_copy_and_a_copy_becomes_a_folder_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (parent.path().join("one"), parent.path().join("other"));
        let folders = [&one, &other].map(|path| {
            std::fs::create_dir(path).unwrap();
            Folder::at(path)
        });
        let sealer = Sealer::new(Some(&[7; 32]));
        for _ in 0..2 {
            assert!(!is_copy(&folders[0], &sealer).unwrap());
            mark_origin(&folders[0], &sealer);
        }
        std::fs::copy(folders[0].origin(), folders[1].origin()).unwrap();
        for _ in 0..2 {
            assert!(is_copy(&folders[1], &sealer).unwrap());
        }
        // Without its key, nothing is known of a folder.
        assert!(!is_copy(&folders[1], &Sealer::new(Some(&[8; 32]))).unwrap());
        mark_origin(&folders[1], &sealer);
        assert!(!is_copy(&folders[1], &sealer).unwrap());
    }
}
