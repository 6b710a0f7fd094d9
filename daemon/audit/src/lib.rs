//! The audit log: a durable, tamper-evident record of every call and administrative act.
//!
//! Records form a hash chain in append-only segment files. They are written with group commit, by one thread at a time, so that one
//! `fdatasync` serves many calls. [`Audit::open`] appends the intent of a call and returns an [`Entry`]; [`Audit::close`]
//! appends the outcome and resolves when it is on disk. A call waits for one sync: its intent is synced with its outcome, or
//! earlier if [`Entry::sync`] asks for it before an outside effect. An administrative act is recorded in the same way. A record that cannot be written is an error: intents
//! are refused when the allocated space runs low ([`AuditError::Full`], outcomes still fit), everything is refused after
//! the first failed write ([`AuditError::Failed`]). Searches use an SQLite index that lags behind the log (`index.rs`).
//! `recover.rs` describes crash recovery, `verify.rs` and `anchor.rs` what `verify` detects.

#![deny(unreachable_pub)]

// Reading the log as a whole.
mod export_folder;
mod export;
mod proof;
mod verify;
mod copy;

// Append: intent and outcome, queue, segment, sync; after a crash, recovery.
mod start;
mod origin;
mod loss;
mod writer;
mod recover;
mod segment;
mod retention;

// Search.
mod index;
mod watch;
mod index_tables;
mod index_batch;
mod rates;
mod usage;
mod search;
mod row_keys;
mod query;
mod sql_number;
mod histogram;

// On disk.
mod reader;
mod anchor;
mod folder;
mod entry;
mod group_commit;
mod space;
mod format;

// Records and errors.
mod data_keys;
mod inner_calls;
mod record;
mod error;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use toolgate_api::usage::UsageRow;
use toolgate_macros::boxed;

pub use copy::{LogCopy, is_sealed_by, seal_text, stage_log};
pub use data_keys::{DataKeys, WrappedKey};
pub use entry::{Entry, IntentSync};
pub use error::{AuditError, StartError};
pub use export::{ExportQuery, Exporter};
pub use export_folder::FolderExport;
pub use group_commit::Durable;
pub use histogram::{HISTOGRAM_BUCKETS, Histogram, percentile};
pub use inner_calls::{inner_id, outer_id};
pub use proof::CallRecord;
pub use query::{PAGE_ROWS, Query};
pub use rates::{RateBy, RatePhase, RateQuery, RateSpan, RateSums};
pub use record::{
    ActOutcome, AdminRecord, Anchor, AnchorSource, CallIntent, CallOutcome, Corruption, EffectRecord,
    Executed, Kind, NotedRecovery, NotedRestore, Order, OutputStamp, PluginStamp, Reason, Recovery,
    RestoredFrom, Row, Sha256, Status, Usage, Verdict, VerifyReport, sha256,
};
#[doc(hidden)]
pub use recover::recover_folder;
pub use retention::Retention;
pub use row_keys::ORGANIZATION_DELETE;
pub use search::{EarlierCalls, Page};
pub use usage::UsageQuery;
pub use verify::verify_folder;
pub use watch::{CallWatch, NewCalls};

use anchor::Sealer;
use data_keys::{DataSealing, SealedRecord};
use folder::{Folder, FolderLock};
use format::RecordKind;
use group_commit::CommitQueue;
use index::{Index, IndexProgress};
use record::{EFFECT_DETAIL_BYTES, EFFECT_NAME_BYTES};
use search::LogContent;
use start::OpenLog;
use writer::WriterThread;

/// Location and size of the log.
#[derive(Clone)]
pub struct AuditSettings {
    /// Folder of the segments, created if missing.
    pub dir: PathBuf,
    /// Path of the index, `DIR/../audit-index.db` by default.
    pub index: PathBuf,
    /// HMAC key of the anchor: only its holder can forge a whole chain. Must not be stored in `dir`.
    pub key: Option<[u8; 32]>,
    /// Keys that encrypt the data of organizations; without them it is written as it is.
    pub data_keys: Option<DataKeys>,
    /// Size of a segment. At least two are allocated, the current one and the next.
    pub segment_bytes: u64,
    /// Space that intents may not use, kept for outcomes and administrative acts on a full disk.
    pub reserve_bytes: u64,
    /// The last time at which a daemon ran on the data, in milliseconds since 1970, so that there must be a log; `None` at the
    /// first start.
    pub last_run_ms: Option<u64>,
    /// Begins a new log in the place of one that is damaged or gone, instead of refusing to start.
    pub accept_lost_log: bool,
}

impl AuditSettings {
    /// Lasts 1.5 s at 20,000 calls a second; allocating it takes a fraction of a millisecond.
    pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
    /// Outcomes of 4,000 calls.
    pub const RESERVE_BYTES: u64 = 4 * 1024 * 1024;
    /// A group of the largest records must fit into a segment and its spare.
    const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
    const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let index = dir.with_file_name("audit-index.db");
        Self {
            dir,
            index,
            key: None,
            data_keys: None,
            segment_bytes: Self::SEGMENT_BYTES,
            reserve_bytes: Self::RESERVE_BYTES,
            last_run_ms: None,
            accept_lost_log: false,
        }
    }

    fn validate(&self) -> Result<(), StartError> {
        let within = |name, value, min, max| match value {
            value if (min..=max).contains(&value) => Ok(()),
            value => Err(StartError::Setting { name, value, min, max }),
        };
        within("segment_bytes", self.segment_bytes, Self::SEGMENT_BYTES_MIN, Self::SEGMENT_BYTES_MAX)?;
        within("reserve_bytes", self.reserve_bytes, 0, self.segment_bytes / 2)
    }

    /// A larger record would waste too much at the end of the segment that it does not fit into.
    fn record_bytes_max(&self) -> u64 {
        (self.segment_bytes / 4).min(format::PAYLOAD_BYTES_MAX as u64)
    }
}

/// Handle of the log; clones share it. Dropping the last one syncs every appended record and joins the threads.
#[derive(Clone)]
pub struct Audit {
    log: Arc<Log>,
}

/// Fields drop in this order: the writer syncs, the indexer ends, the folder is unlocked.
struct Log {
    writer: WriterThread,
    index: Index,
    queue: Arc<CommitQueue>,
    progress: Arc<IndexProgress>,
    folder: Folder,
    data_keys: Option<DataKeys>,
    sealer: Sealer,
    index_path: PathBuf,
    /// Written by a cut, and read while the whole log is: no segment is removed under a reader.
    cutting: tokio::sync::RwLock<()>,
    /// Held while the whole log is read, also after the client that asked for it left: readers of a large log would take the
    /// disk from the calls, and the threads for such work.
    verifying: Arc<tokio::sync::Mutex<()>>,
    record_bytes_max: u64,
    /// Sequence of the last record of earlier runs, including the recovery record of this start.
    start_sequence: u64,
    /// This start found that acknowledged records are gone.
    has_lost_records: bool,
    _lock: FolderLock,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditCounts {
    pub records: u64,
    pub bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Syncs of a segment: fewer than calls, thanks to group commit.
    pub syncs: u64,
    /// Time spent in them.
    pub sync_time: Duration,
    /// Segments started.
    pub segments: u64,
}

impl Log {
    fn content(&self) -> LogContent {
        LogContent { folder: self.folder.clone(), keys: self.data_keys.clone() }
    }
}

#[boxed]
impl Audit {
    /// Locks the folder, recovers its content and starts the threads. On return, calls and acts that were running when the
    /// daemon died have the outcome `unknown` on disk. The [`Recovery`] says what was repaired; it is also a record of the log.
    pub async fn start(settings: &AuditSettings) -> Result<(Self, Recovery), StartError> {
        settings.validate()?;
        let owned = settings.clone();
        // Read before the index is rebuilt: after the loss of the folder only the index knows the last record.
        let indexed = index::last_indexed(&settings.index).await;
        let opened = tokio::task::spawn_blocking(move || OpenLog::open(&owned, indexed)).await;
        opened.map_err(|error| StartError::Thread(io::Error::other(error)))??.start(settings).await
    }

    /// Appends the intent of a call, without waiting for the disk. Dropping the entry records the outcome `cancelled`.
    pub fn open(&self, mut intent: CallIntent<'_>) -> Result<Entry, AuditError> {
        let sealing = DataSealing::of(self.log.data_keys.as_ref(), &intent.organization);
        match sealing.seal_call(&mut intent) {
            None => self.append_intent(RecordKind::CallOpen, &intent, sealing),
            sealed => self.append_intent(RecordKind::CallOpen, &SealedRecord::new(&intent, sealed), sealing),
        }
    }

    /// Appends the outcome at once; the response may be sent when the returned future resolves.
    pub fn close(&self, mut entry: Entry, outcome: CallOutcome<'_>) -> Durable {
        entry.closed = true;
        let record = entry.encode_outcome(outcome);
        self.log.writer.append_durably(RecordKind::Close, entry.sequence, &record)
    }

    /// Appends the outcome of an inner call, which no client sees. It is on disk before every record after it, so before the
    /// next effect of the script, and before the script's answer.
    pub fn close_inner(&self, mut entry: Entry, outcome: CallOutcome<'_>) -> Result<(), AuditError> {
        entry.closed = true;
        let record = entry.encode_outcome(outcome);
        entry.queue.append(RecordKind::Close, entry.sequence, &record).map(drop)
    }

    /// Appends an effect of a call. It is on disk with the outcome at the latest; await [`Audit::sync`] to have it there
    /// before the effect happens. An effect that does not fit is counted in the outcome.
    pub fn effect(&self, entry: &Entry, effect: EffectRecord<'_>) -> Result<(), AuditError> {
        let mut effect = EffectRecord {
            effect: truncate(&effect.effect, EFFECT_NAME_BYTES).into(),
            detail: truncate(&effect.detail, EFFECT_DETAIL_BYTES).into(),
        };
        let record = match entry.sealing.seal_effect(entry.sequence, &mut effect) {
            None => encode(RecordKind::Effect, entry.sequence, &effect),
            sealed => encode(RecordKind::Effect, entry.sequence, &SealedRecord::new(&effect, sealed)),
        };
        let appended = entry.queue.append(RecordKind::Effect, entry.sequence, &record);
        if appended.is_err() {
            entry.effects_lost.fetch_add(1, Ordering::Relaxed);
        }
        appended.map(drop)
    }

    /// Appends the intent of an administrative act, with the outcome that is shown until it has one. Await [`Entry::sync`]
    /// before the act takes effect.
    pub fn open_act(&self, mut act: AdminRecord<'_>) -> Result<Entry, AuditError> {
        let sealing = match &act.organization {
            Some(organization) => DataSealing::of(self.log.data_keys.as_ref(), organization),
            None => DataSealing::Plain,
        };
        match sealing.seal_act(&mut act) {
            None => self.append_intent(RecordKind::AdminOpen, &act, DataSealing::Plain),
            sealed => {
                let act = SealedRecord::new(&act, sealed);
                self.append_intent(RecordKind::AdminOpen, &act, DataSealing::Plain)
            }
        }
    }

    /// Appends the outcome of an act at once; the act may be acknowledged when the returned future resolves.
    pub fn close_act(&self, mut entry: Entry, outcome: ActOutcome<'_>) -> Durable {
        entry.closed = true;
        let record = encode(RecordKind::Close, entry.sequence, &outcome);
        entry.queue.append_durably(RecordKind::Close, entry.sequence, &record)
    }

    /// Appends an act of the daemon itself with its outcome, as one record.
    pub fn admin(&self, act: AdminRecord<'_>) -> Durable {
        match self.encode(RecordKind::Admin, now_ms(), &act) {
            Ok(record) => self.log.queue.append_durably(RecordKind::Admin, 0, &record),
            Err(error) => Durable::ready(Err(error)),
        }
    }

    /// Resolves when everything appended so far is on disk.
    pub fn sync(&self) -> Durable {
        self.log.queue.durable(self.log.queue.last_sequence())
    }

    /// Returns an error if the next call could not be recorded. Also asks the writer to retry the allocation that failed.
    pub fn takes_calls(&self) -> Result<(), AuditError> {
        self.log.queue.takes_calls()
    }

    /// Searches the log. Sees every record appended before the search began, or, after a failure, those on disk.
    pub async fn search(&self, query: &Query) -> Result<Page, AuditError> {
        // A log that failed can still be searched up to its last durable record.
        let _ = self.sync().await;
        self.log.index.catch_up(self.log.progress.durable().sequence).await?;
        search::search(&self.log.index.reading, &self.log.content(), query).await
    }

    /// Searches what is indexed, without waiting for the newest records.
    pub async fn search_indexed(&self, query: &Query) -> Result<Page, AuditError> {
        search::search(&self.log.index.reading, &self.log.content(), query).await
    }

    /// Returns the records of the rows that match, with their hashes in the chain.
    pub async fn records(&self, query: &Query) -> Result<Vec<CallRecord>, AuditError> {
        proof::records(&self.log.index.reading, &self.log.content(), query).await
    }

    /// Watches the calls that match: [`Audit::new_calls`] returns at most `limit` of them at a time.
    pub fn watch_calls(&self, query: &Query, limit: usize) -> CallWatch {
        self.log.index.watches.watch(query, limit)
    }

    /// Waits until a record after `sequence` is indexed, and returns the last one. The indexer is at most a batch behind the log.
    pub async fn wait_for_records(&self, sequence: u64) -> Result<u64, AuditError> {
        self.log.index.wait_beyond(sequence).await
    }

    /// Returns the newest calls that match and began or ended since the last look, and the number of all of them.
    pub async fn new_calls(&self, watch: &CallWatch) -> Result<NewCalls, AuditError> {
        watch::new_calls(&self.log.index.reading, &self.log.content(), watch).await
    }

    /// Counts the calls that match and began after a record, up to a limit.
    pub async fn count_calls_after(&self, query: &Query, sequence: u64) -> Result<u64, AuditError> {
        watch::count_after(&self.log.index.reading, query, sequence).await
    }

    /// Sums the use of all calls that ended before; none where the report would be too long.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Option<Vec<UsageRow>>, AuditError> {
        let _ = self.sync().await;
        self.log.index.catch_up(self.log.progress.durable().sequence).await?;
        usage::report(&self.log.index.reading, query).await
    }

    /// Sums calls by minute, hour or day, the oldest first. The newest calls may not be counted yet.
    pub async fn rates(&self, query: &RateQuery) -> Result<Vec<(u64, RateSums)>, AuditError> {
        rates::series(&self.log.index.reading, query).await
    }

    /// Sums the calls of organizations or tools, those with the most calls first. The newest calls may not be counted yet.
    pub async fn ranking(
        &self,
        query: &RateQuery,
        by: RateBy,
        limit: u32,
    ) -> Result<Vec<(String, RateSums)>, AuditError> {
        rates::ranking(&self.log.index.reading, query, by, limit).await
    }

    /// Sums the calls of each plugin from the day of `since_ms` on, of one organization or of all. The newest calls may not be
    /// counted yet.
    pub async fn calls_by_plugin(
        &self,
        organization: Option<&str>,
        since_ms: u64,
    ) -> Result<HashMap<String, u64>, AuditError> {
        usage::calls_by_plugin(&self.log.index.reading, organization, since_ms).await
    }

    /// Returns the newest call with this id and session that an earlier run of the daemon recorded; or a damaged range
    /// recorded since `begun_ms`, the start of the session, which may have contained it. Records of this run are not waited for.
    pub async fn lookup(&self, session: &str, begun_ms: u64, call: &str) -> Result<Option<Row>, AuditError> {
        self.log.index.catch_up(self.log.start_sequence).await?;
        search::lookup(&self.log.index.reading, &self.log.content(), session, begun_ms, call).await
    }

    /// Returns the ids of the calls that earlier runs of the daemon recorded in this session, which began at `begun_ms`:
    /// one query instead of a [`lookup`](Self::lookup) for each call.
    pub async fn earlier_calls(&self, session: &str, begun_ms: u64) -> Result<EarlierCalls, AuditError> {
        self.log.index.catch_up(self.log.start_sequence).await?;
        search::earlier_calls(&self.log.index.reading, session, begun_ms).await
    }

    /// Reads the whole log again, up to its last durable record. One verification runs at a time.
    pub async fn verify(&self) -> Result<VerifyReport, AuditError> {
        let running = self.log.verifying.clone().lock_owned().await;
        let _uncut = self.log.cutting.read().await;
        let (folder, durable, cut) = (self.log.folder.clone(), self.log.progress.durable(), self.cut()?);
        blocking(move || {
            let report = verify::verify_live(&folder, durable, cut);
            drop(running);
            report
        })
        .await
    }

    /// The data keys of organizations, if the log has them.
    pub fn data_keys(&self) -> Option<&DataKeys> {
        self.log.data_keys.as_ref()
    }

    /// The last durable record. An operator who stores its hash elsewhere can compare the log with it later.
    pub fn anchor(&self) -> Anchor {
        self.log.progress.durable()
    }

    pub fn counts(&self) -> AuditCounts {
        let counters = &self.log.queue.counters;
        AuditCounts {
            records: counters.records.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
            groups: counters.groups.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            sync_time: Duration::from_nanos(counters.sync_ns.load(Ordering::Relaxed)),
            segments: counters.segments.load(Ordering::Relaxed),
        }
    }

    /// Whether this start found that acknowledged records are gone, also if an operator accepted it.
    pub fn has_lost_records(&self) -> bool {
        self.log.has_lost_records
    }

    /// Records that are not on disk yet.
    pub fn lag(&self) -> u64 {
        self.log.queue.lag()
    }

    fn append_intent(
        &self,
        kind: RecordKind,
        intent: &impl Serialize,
        sealing: DataSealing,
    ) -> Result<Entry, AuditError> {
        let opened_ms = now_ms();
        let record = self.encode(kind, opened_ms, intent)?;
        let queue = self.log.queue.clone();
        let sequence = queue.append(kind, 0, &record)?;
        Ok(Entry {
            kind,
            queue,
            sequence,
            opened_ms,
            opened: Instant::now(),
            effects_lost: AtomicU64::new(0),
            sealing,
            closed: false,
        })
    }

    fn encode(&self, kind: RecordKind, at_ms: u64, body: &impl Serialize) -> Result<Vec<u8>, AuditError> {
        let record = format::encode(kind, 0, at_ms, body);
        let (bytes, limit_bytes) = (record.len() as u64, self.log.record_bytes_max);
        if bytes > limit_bytes { Err(AuditError::TooLarge { bytes, limit_bytes }) } else { Ok(record) }
    }
}

/// Reads or changes files on a thread for that.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, AuditError> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other).flatten().map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> AuditError {
    AuditError::Unreadable { reason: error.to_string().into() }
}

fn encode(kind: RecordKind, of: u64, body: &impl Serialize) -> Vec<u8> {
    format::encode(kind, of, now_ms(), body)
}

/// Cuts `text` to at most `bytes_max`, at a character boundary.
fn truncate(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Wall clock time, informative only: records are ordered by sequence.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
