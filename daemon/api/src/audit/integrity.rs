//! Recovery, verification and anchors of the log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use super::Sha256;

/// The findings of a start after a crash. Also recorded in the chain, so that cuts and losses stay known.
#[optional_fields]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AuditRecovery)]
pub struct Recovery {
    /// The torn end of the newest segment.
    pub cut: Option<TornEnd>,
    /// Acknowledged records that the `head` file or the index knows and the folder lacks. A crash cannot cause this: a file
    /// was truncated, the folder was emptied or replaced by an older copy, or the disk ignores syncs.
    pub lost: Option<LostRecords>,
    /// The `head` file was missing, so that a missing end of the log cannot be detected.
    pub anchor_missing: bool,
    /// Number of calls and administrative acts that were running when the daemon died; each gets the outcome `unknown`.
    pub unknown: u64,
    /// The folder is a copy of the one that the daemon wrote to: an earlier one that was put back, or one that was made while
    /// a daemon wrote to the original, so that some of its files are later than others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copied: bool,
    /// An operator gave the log before this one up with `toolgate serve --accept-lost-log`. This log begins with the record
    /// of it, and is intact.
    pub accepted: Option<AcceptedLoss>,
}

impl Recovery {
    /// Whether the start found anything.
    pub fn is_needed(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a crash does not explain the findings.
    pub fn is_suspicious(&self) -> bool {
        self.lost.is_some() || self.anchor_missing || self.accepted.is_some()
    }

    /// Whether acknowledged records are gone, which no operator accepted.
    pub fn has_loss(&self) -> bool {
        self.lost.is_some() && self.accepted.is_none()
    }
}

/// The findings in words, the most serious one first; `-` for none.
impl std::fmt::Display for Recovery {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut findings = Vec::new();
        if let Some(AcceptedLoss { cause, moved_to, .. }) = &self.accepted {
            let files =
                moved_to.as_ref().map_or_else(String::new, |name| format!("; its files are in `{name}`"));
            findings.push(format!("the log before was given up with `--accept-lost-log`: {cause}{files}"));
        }
        if let Some(lost) = &self.lost {
            let LostRecords { after_sequence, acknowledged_sequence, .. } = lost;
            findings.push(if self.copied {
                format!(
                    "the folder is a copy: records behind {after_sequence}, up to {acknowledged_sequence}, are in the \
                     original alone"
                )
            } else {
                format!("acknowledged records behind {after_sequence} are gone, up to {acknowledged_sequence}")
            });
        }
        if self.anchor_missing {
            findings.push("the `head` file was missing, so an end that is gone would not show".to_owned());
        }
        if let Some(TornEnd { segment, offset, bytes }) = &self.cut {
            findings.push(format!("{bytes} torn bytes cut off segment {segment} at byte {offset}"));
        }
        if self.unknown > 0 {
            findings.push(format!("calls and acts that ended as unknown: {}", self.unknown));
        }
        out.write_str(if findings.is_empty() { "-" } else { "" })?;
        out.write_str(&findings.join("; "))
    }
}

/// A torn end of a segment: bytes that were never acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditCut)]
pub struct TornEnd {
    /// Number of the segment.
    pub segment: u64,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// Size, up to the last byte that was not zero.
    pub bytes: u64,
}

/// Acknowledged records that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditLost)]
pub struct LostRecords {
    /// Sequence of the last remaining record.
    pub after_sequence: u64,
    /// Sequence of the last acknowledged record.
    pub acknowledged_sequence: u64,
    /// Hash of that record, in hexadecimal digits.
    pub acknowledged_hash: String,
}

/// A log that an operator gave up, since it was damaged or gone.
#[optional_fields]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditAcceptedLoss)]
pub struct AcceptedLoss {
    /// Why the daemon could not go on with it.
    pub cause: String,
    /// The folder with its files, in that of the log; none if there were no files.
    pub moved_to: Option<String>,
    /// The last time at which a daemon is known to have run on the data, in milliseconds since 1970.
    pub last_run_ms: Option<u64>,
}

/// Result of reading the whole log.
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditVerification)]
pub struct VerifyReport {
    /// Whether the log is intact: no damaged record, and no recovery that lost acknowledged records, unless an
    /// operator accepted it.
    pub ok: bool,
    /// Valid records before the first damaged one.
    pub records: u64,
    /// Segment files read.
    pub segments: u64,
    /// The last valid record. Store its hash elsewhere to compare the log with it later.
    pub head: Anchor,
    /// The last record that retention removed: the log begins after it, as a record of the chain says.
    pub cut: Option<Anchor>,
    /// The source of the anchor that the end of the chain was compared with.
    pub anchor: AnchorSource,
    /// The first damaged record.
    pub first_bad: Option<Corruption>,
    /// Recoveries that a crash does not explain. With `lost`, the log is not `ok`; with a missing `head` file, a loss
    /// cannot be excluded.
    pub suspicious: Vec<NotedRecovery>,
    /// Restores from a backup, as the chain records them. This log lacks the records between a backup and its restore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<NotedRestore>,
}

/// The backup that a data folder was restored from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoredFrom {
    /// The id of the backup.
    pub backup: String,
    /// The time at which it was made, in milliseconds since 1970.
    pub made_at_ms: u64,
    /// The version of the program that made it.
    pub version: String,
    /// The last record in it.
    pub head: Anchor,
}

/// A restore from a backup, as its record in the chain tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditRestore)]
pub struct NotedRestore {
    /// Sequence of the record.
    pub sequence: u64,
    /// Time of the first start after the restore, in milliseconds since 1970.
    pub at_ms: u64,
    /// The backup.
    pub from: RestoredFrom,
}

/// A position at which the log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditBadPlace)]
pub struct Corruption {
    /// Path on the daemon's host.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The reason.
    pub what: String,
}

/// A recovery that a crash does not explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditNotedRecovery)]
pub struct NotedRecovery {
    /// Sequence of its record in the log.
    pub sequence: u64,
    /// Time of the recovery, in milliseconds since 1970.
    pub at_ms: u64,
    /// The findings.
    pub recovery: Recovery,
}

/// The last record of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditHead)]
pub struct Anchor {
    /// Sequence of the record in the log.
    pub sequence: u64,
    /// Number of its segment.
    pub segment: u64,
    /// Offset in the segment at which the next record begins, in bytes.
    pub offset: u64,
    /// SHA-256 over the record and the previous hash.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    pub hash: Sha256,
}

impl Anchor {
    /// The start of an empty log.
    pub const fn empty(segment: u64) -> Self {
        Self { sequence: 0, segment, offset: 0, hash: Sha256([0; 32]) }
    }
}

/// The source of the anchor that the end of the chain was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuditAnchor)]
pub enum AnchorSource {
    /// The memory of the running daemon.
    Daemon,
    /// The file `head` in the audit folder.
    HeadFile,
    /// No anchor: a missing end cannot be detected.
    None,
}
