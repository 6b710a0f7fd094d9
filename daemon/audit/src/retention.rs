//! Retention: cuts whole segments from the beginning of the log.
//!
//! A cut is a record in the log (`audit.cut`) with the last record that goes: its sequence and hash. When that is on disk, the
//! file `cut` names the same record under the daemon's seal, and only then the segments are removed, oldest first. A crash
//! after the file leaves segments that the next start removes; a crash before it leaves a log that is cut again. `verify` begins
//! after the file's record, and requires that the chain has a record of that cut.
//!
//! The current segment and the one before it always stay. The index forgets the rows, and keeps the sums of usage.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::{ConnectOptions as _, Connection as _};
use toolgate_macros::boxed;
use toolgate_state::clock::{now_ms, steady_unix_ms};

use super::error::AuditError;
use super::folder::{Folder, remove_if_there};
use super::index::options;
use super::reader::Reader;
use super::record::{AdminRecord, Anchor, Sha256};
use super::sql_number::integer;
use super::{Audit, blocking, unreadable};

/// Action of the record of a cut.
pub(crate) const CUT_ACTION: &str = "audit.cut";

/// Segments that always stay: the current one and the one before it.
const SEGMENTS_KEPT: u64 = 2;

/// Time for which a cut waits for the end of a verification; others begin after the cut.
const CUT_WAIT: Duration = Duration::from_secs(10);

/// The age and size up to which the log is kept; `None` is without end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Segments whose last record is older are cut.
    pub kept_ms: Option<u64>,
    /// The oldest segments are cut while all together are larger.
    pub kept_bytes: Option<u64>,
}

impl Retention {
    /// Whether everything is kept.
    pub fn is_endless(&self) -> bool {
        self.kept_ms.is_none() && self.kept_bytes.is_none()
    }
}

#[boxed]
impl Audit {
    /// Cuts the segments that `retention` does not keep. Returns the number of records that were cut: none while a verification
    /// takes long; the next try comes soon.
    pub async fn cut_old(&self, retention: Retention) -> Result<u64, AuditError> {
        // A cut waits for readers, since clients that verify the log again and again would otherwise keep every record.
        let cutting = tokio::time::timeout(CUT_WAIT, self.log.cutting.write()).await;
        let Ok(_cutting) = cutting else { return Ok(0) };
        let (log, before) = (&self.log, self.cut()?);
        if let Some(cut) = before {
            // A cut that was interrupted may have left rows.
            forget_rows(&log.index_path, cut.sequence).await?;
        }
        if retention.is_endless() {
            return Ok(0);
        }
        let durable = log.progress.durable();
        let folder = log.folder.clone();
        // The earlier one of both clocks: one of them may have been wrong at the start or since.
        let now_ms = steady_unix_ms().min(now_ms());
        let planned = blocking(move || plan(&folder, retention, durable, before, now_ms)).await?;
        let Some(cut) = planned else { return Ok(0) };
        // Records that are cut before they are indexed would be missing in the reports of usage.
        log.index.catch_up(cut.last_sequence).await?;
        let details = serde_json::value::to_raw_value(&cut).ok();
        self.admin(AdminRecord {
            organization: None,
            principal: "toolgate".into(),
            action: CUT_ACTION.into(),
            target: format!("segments {} to {}", cut.first_segment, cut.last_segment).into(),
            outcome: "ok".into(),
            revision: None,
            details: details.map(Cow::Owned),
            source: "daemon".into(),
        })
        .await?;
        log.sealer.write_cut(&log.folder, &cut.anchor()).map_err(unreadable)?;
        let (folder, last) = (log.folder.clone(), cut.last_segment);
        blocking(move || remove_segments(&folder, last)).await?;
        forget_rows(&log.index_path, cut.last_sequence).await?;
        Ok(cut.records)
    }

    /// The last record that was cut.
    pub(super) fn cut(&self) -> Result<Option<Anchor>, AuditError> {
        self.log.sealer.read_cut(&self.log.folder).map_err(unreadable)
    }
}

/// Details of the record of a cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CutDetails {
    /// Number of the first segment that was removed.
    pub first_segment: u64,
    /// Number of the last one.
    pub last_segment: u64,
    /// Sequence of the last record in it.
    pub last_sequence: u64,
    /// Hash of that record, which the first remaining segment continues.
    pub last_hash: Sha256,
    /// Number of records that were removed.
    pub records: u64,
    /// The setting that asked for it: `kept_days` or `kept_bytes`.
    pub rule: String,
}

impl CutDetails {
    /// Position before the first remaining segment.
    pub(crate) fn anchor(&self) -> Anchor {
        Anchor { sequence: self.last_sequence, segment: self.last_segment, offset: 0, hash: self.last_hash }
    }

    /// Whether the record with this payload is that of the cut at `anchor`.
    pub(crate) fn is_recorded_in(payload: &[u8], anchor: &Anchor) -> bool {
        #[derive(Deserialize)]
        struct CutRecord {
            action: String,
            details: Option<serde_json::Value>,
        }
        let Ok(CutRecord { action, details: Some(details) }) = serde_json::from_slice(payload) else {
            return false;
        };
        action == CUT_ACTION
            && serde_json::from_value::<Self>(details).is_ok_and(|details| details.anchor() == *anchor)
    }
}

/// Decides what is cut now: the longest run of old segments that a rule names. `durable` is the last durable record, `before` the
/// cut before.
pub(crate) fn plan(
    folder: &Folder,
    retention: Retention,
    durable: Anchor,
    before: Option<Anchor>,
    now_ms: u64,
) -> io::Result<Option<CutDetails>> {
    let mut bytes: u64 = 0;
    let mut removable = Vec::new();
    for segment in folder.segments()? {
        let size = folder.segment(segment).metadata()?.len();
        bytes += size;
        if segment + SEGMENTS_KEPT <= durable.segment {
            removable.push((segment, size));
        }
    }
    let first_segment = removable.first().map_or(0, |(segment, _)| *segment);
    let mut planned = None;
    for (segment, size) in removable {
        // The first record of the next segment is later than every record of this one.
        let mut next = Reader::open(folder, segment + 1)?;
        let Ok((header, _)) = next.header()? else {
            tracing::warn!(segment, "the audit log is not cut at a damaged segment");
            break;
        };
        let is_old =
            retention.kept_ms.is_some_and(|kept_ms| header.made_at_ms < now_ms.saturating_sub(kept_ms));
        let is_over = retention.kept_bytes.is_some_and(|kept_bytes| bytes > kept_bytes);
        let rule = match (is_old, is_over) {
            (true, _) => "kept_days",
            (false, true) => "kept_bytes",
            (false, false) => break,
        };
        bytes = bytes.saturating_sub(size);
        let last_sequence = header.first_sequence.saturating_sub(1);
        planned = Some(CutDetails {
            first_segment,
            last_segment: segment,
            last_sequence,
            last_hash: Sha256(header.previous_hash),
            records: last_sequence.saturating_sub(before.map_or(0, |cut| cut.sequence)),
            rule: rule.to_owned(),
        });
    }
    Ok(planned)
}

/// Removes the segments up to `last`, oldest first, so that a crash leaves no gap.
pub(crate) fn remove_segments(folder: &Folder, last: u64) -> io::Result<()> {
    let segments = folder.segments()?;
    let mut removed = segments.iter().take_while(|segment| **segment <= last).peekable();
    if removed.peek().is_none() {
        return Ok(());
    }
    for segment in removed {
        remove_if_there(&folder.segment(*segment))?;
    }
    folder.sync()
}

/// Rows that are deleted at once, so that the indexer never waits long.
const FORGET_ROWS: i64 = 5_000;

/// Deletes the rows of records up to `last`, which were cut from the log. The sums of usage stay.
async fn forget_rows(path: &Path, last: u64) -> Result<(), AuditError> {
    let mut connection = options(path).connect().await?;
    let query =
        "DELETE FROM rows WHERE sequence IN (SELECT sequence FROM rows WHERE sequence <= $1 LIMIT $2)";
    loop {
        let deleted =
            sqlx::query(query).bind(integer(last)).bind(FORGET_ROWS).execute(&mut connection).await?;
        if deleted.rows_affected() == 0 {
            break;
        }
    }
    let query = sqlx::query("DELETE FROM spans WHERE last_sequence <= $1");
    query.bind(integer(last)).execute(&mut connection).await?;
    Ok(connection.close().await?)
}
