//! The audit log: what was attempted, what the gate said, what became of it, durable before anybody is
//! answered.
//!
//! The truth is a chain of records in append-only segment files; one thread writes them, one sync serves
//! a whole group of calls (another thread prepares the next file: `ahead.rs`). [`Audit::open`] records an
//! intent and hands out an [`Entry`]; [`Audit::close`] records the outcome and resolves when it is on
//! disk; an entry that is dropped closes itself. A call waits for one group, once: its intent is appended
//! without waiting and is on disk with its outcome at the latest, or when [`Entry::synced`] asks for it
//! before an outside effect. What cannot be recorded is refused: when the space set aside runs low
//! ([`AuditError::Full`], outcomes still fit), and after the first failed write ([`AuditError::Failed`]).
//! Searches go through an index that lags behind and can be deleted (`index.rs`). What recovery does is
//! in `recover.rs`, what `verify` can and cannot show in `verify.rs` and `head.rs`.

// What is recorded, and the handle of a call.
mod error;
mod record;

mod entry;

// The way of a record: it waits, gets its place, is written and synced.
mod queue;
mod room;

mod ahead;
mod writer;

// On disk.
mod folder;
mod format;
mod head;
mod place;

// Read again: after a crash, by an auditor.
mod reader;
mod recover;
mod verify;

// Found again.
mod progress;

mod fold;
mod index;
mod onward;
mod search;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

pub use entry::{Entry, IntentSync};
pub use error::{AuditError, StartError};
pub use head::Head;
pub use queue::Durable;
pub use record::{
    AdminRecord, CallIntent, CallOutcome, Cut, EffectRecord, Executed, Kind, Lost, OutputStamp, PluginStamp,
    Reason, Recovery, Sha256, Status, Usage, Verdict,
};
#[doc(hidden)]
pub use recover::recover_folder;
pub use search::{EarlierCalls, Order, PAGE_ROWS, PAGE_ROWS_MAX, Page, Query, Row};
pub use verify::{Anchor, BadPlace, NotedRecovery, VerifyReport, verify_folder};

use ahead::Ahead;
use folder::{Folder, FolderLock};
use format::RecordKind;
use head::Sealer;
use index::Index;
use progress::Progress;
use queue::Queue;
use recover::Recovered;
use room::Room;
use writer::{Writer, WriterThread};

/// Where the log lives and how much space it takes in advance.
#[derive(Clone)]
pub struct AuditSettings {
    /// The folder of the segments, made if it is not there.
    pub dir: PathBuf,
    /// The index, `DIR/../audit-index.db` unless set.
    pub index: PathBuf,
    /// Seals the anchor of the chain, so that only its holder can make the chain anew. It must not lie in
    /// `dir`.
    pub key: Option<[u8; 32]>,
    /// Size of a segment. Two are on disk at least, the current one and the next.
    pub segment_bytes: u64,
    /// Space that intents leave alone, for what must be recorded on a full disk.
    pub reserve_bytes: u64,
}

impl AuditSettings {
    /// At 20,000 calls a second a segment lasts a second and a half; its allocation takes a fraction of a
    /// millisecond.
    pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
    /// Outcomes of 4,000 calls.
    pub const RESERVE_BYTES: u64 = 4 * 1024 * 1024;
    /// A group of the largest records must not exhaust a segment and its spare at once.
    const SEGMENT_BYTES_LEAST: u64 = 64 * 1024;
    const SEGMENT_BYTES_MOST: u64 = 1024 * 1024 * 1024;

    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let index = dir.with_file_name("audit-index.db");
        Self { dir, index, key: None, segment_bytes: Self::SEGMENT_BYTES, reserve_bytes: Self::RESERVE_BYTES }
    }

    fn check(&self) -> Result<(), StartError> {
        let within = |name, value, least, most| match value {
            value if (least..=most).contains(&value) => Ok(()),
            value => Err(StartError::Setting { name, value, least, most }),
        };
        within("segment_bytes", self.segment_bytes, Self::SEGMENT_BYTES_LEAST, Self::SEGMENT_BYTES_MOST)?;
        within("reserve_bytes", self.reserve_bytes, 0, self.segment_bytes / 2)
    }

    /// Larger records would make the end of a segment that they do not fit into a waste.
    fn record_bytes_max(&self) -> u64 {
        (self.segment_bytes / 4).min(format::PAYLOAD_BYTES_MAX as u64)
    }
}

/// The log. Clones are the same log; when the last is dropped, everything appended is written and synced, and
/// its threads have ended.
#[derive(Clone)]
pub struct Audit {
    log: Arc<Log>,
}

/// Dropped in this order: the writer finishes, the indexer ends, the folder is free.
struct Log {
    _writer: WriterThread,
    index: Index,
    queue: Arc<Queue>,
    progress: Arc<Progress>,
    folder: Folder,
    record_bytes_max: u64,
    /// The last record of earlier runs, and of what this one said of them at its start.
    begun_after: u64,
    _lock: FolderLock,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditCounts {
    pub records: u64,
    pub bytes: u64,
    /// Groups written, and how many syncs they took: fewer than calls, that is the point.
    pub groups: u64,
    pub syncs: u64,
    /// Segments begun.
    pub segments: u64,
}

impl Audit {
    /// Locks the folder, recovers what is in it, and starts the threads. When this returns, calls that were
    /// running when the daemon died have their outcome `unknown` on disk. What was found is in the
    /// [`Recovery`], and in the log.
    pub async fn start(settings: &AuditSettings) -> Result<(Self, Recovery), StartError> {
        settings.check()?;
        let own = settings.clone();
        let opened = tokio::task::spawn_blocking(move || Opened::open(&own)).await;
        opened.map_err(|error| StartError::Thread(io::Error::other(error)))??.start(settings).await
    }

    /// Records an intent, without waiting for the disk. Dropping the entry records the outcome `cancelled`.
    pub fn open(&self, intent: CallIntent<'_>) -> Result<Entry, AuditError> {
        let record = self.encode(RecordKind::CallOpen, 0, &intent)?;
        let sequence = self.log.queue.append(RecordKind::CallOpen, 0, &record)?;
        Ok(Entry::new(self.log.queue.clone(), sequence))
    }

    /// Records the outcome at once; the answer may leave when the returned future says so.
    pub fn close(&self, entry: Entry, outcome: CallOutcome<'_>) -> Durable {
        entry.close(outcome)
    }

    /// Records what a call did or tried. It is on disk with the outcome at the latest; to have it there
    /// before the act, await [`Audit::synced`]. One that finds no room is counted in the outcome.
    pub fn effect(&self, entry: &Entry, effect: EffectRecord<'_>) -> Result<(), AuditError> {
        entry.effect(&effect)
    }

    /// Records an administrative act; it counts when the returned future says so.
    pub fn admin(&self, act: AdminRecord<'_>) -> Durable {
        match self.encode(RecordKind::Admin, 0, &act) {
            Ok(record) => self.log.queue.append_durably(RecordKind::Admin, 0, &record),
            Err(error) => Durable::decided(Err(error)),
        }
    }

    /// Resolves when everything appended so far is on disk.
    pub fn synced(&self) -> Durable {
        self.log.queue.durable(self.log.queue.last_sequence())
    }

    /// Whether the next call can be recorded; what stands in the way is looked at again by asking.
    pub fn takes_calls(&self) -> Result<(), AuditError> {
        self.log.queue.takes_calls()
    }

    /// Finds rows; sees everything that was appended before it began, or, after a failure, what is on disk.
    pub async fn search(&self, query: &Query) -> Result<Page, AuditError> {
        self.index_everything().await?;
        search::search(&self.log.index.reading, &self.log.folder, query).await
    }

    /// The newest call of this id in this session that an earlier run of the daemon recorded; or a damaged place of the time
    /// since the session began, which may have had it. What this run records need not be on disk or in the index for that.
    pub async fn lookup(&self, session: &str, begun_ms: u64, call: &str) -> Result<Option<Row>, AuditError> {
        self.log.index.caught_up(self.log.begun_after).await?;
        search::lookup(&self.log.index.reading, &self.log.folder, session, begun_ms, call).await
    }

    /// The calls that earlier runs of the daemon recorded in this session, which began then: for whoever would otherwise look
    /// up each call of the session.
    pub async fn earlier_calls(&self, session: &str, begun_ms: u64) -> Result<EarlierCalls, AuditError> {
        self.log.index.caught_up(self.log.begun_after).await?;
        search::earlier_calls(&self.log.index.reading, session, begun_ms).await
    }

    /// Reads the whole log again, up to what is on disk now.
    pub async fn verify(&self) -> Result<VerifyReport, AuditError> {
        let (folder, durable) = (self.log.folder.clone(), self.log.progress.durable());
        let read = tokio::task::spawn_blocking(move || verify::verify_live(&folder, durable)).await;
        read.map_err(io::Error::other)
            .flatten()
            .map_err(|error| AuditError::Unreadable { reason: error.to_string().into() })
    }

    /// The last record on disk: its hash is what an operator writes down elsewhere.
    pub fn head(&self) -> Head {
        self.log.progress.durable()
    }

    pub fn counts(&self) -> AuditCounts {
        let counters = &self.log.queue.counters;
        AuditCounts {
            records: counters.records.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
            groups: counters.groups.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
            segments: counters.segments.load(Ordering::Relaxed),
        }
    }

    fn encode(&self, kind: RecordKind, of: u64, body: &impl Serialize) -> Result<Vec<u8>, AuditError> {
        let record = entry::encode(kind, of, body);
        let (bytes, limit_bytes) = (record.len() as u64, self.log.record_bytes_max);
        if bytes > limit_bytes { Err(AuditError::TooLarge { bytes, limit_bytes }) } else { Ok(record) }
    }

    async fn index_everything(&self) -> Result<(), AuditError> {
        // A log that has stopped can still be searched, as far as it is on disk.
        let _ = self.synced().await;
        self.log.index.caught_up(self.log.progress.durable().sequence).await
    }
}

/// A log whose writer runs, before what recovery found is recorded.
struct Opened {
    writer: WriterThread,
    queue: Arc<Queue>,
    progress: Arc<Progress>,
    folder: Folder,
    lock: FolderLock,
    recovery: Recovery,
    unknown: Vec<u64>,
}

impl Opened {
    fn open(settings: &AuditSettings) -> Result<Self, StartError> {
        let folder = Folder::at(&settings.dir);
        folder.create()?;
        let lock = folder.lock()?;
        let recovered =
            recover::recover(&folder, Sealer::new(settings.key.as_ref()), settings.segment_bytes)?;
        Self::run(settings, folder, lock, recovered)
    }

    fn run(
        settings: &AuditSettings,
        folder: Folder,
        lock: FolderLock,
        recovered: Recovered,
    ) -> Result<Self, StartError> {
        let unknown: Vec<u64> = recovered.open_calls.iter().copied().collect();
        let recovery = Recovery { unknown: unknown.len() as u64, ..recovered.recovery.clone() };
        let room = Room {
            left_bytes: recovered.left_bytes,
            spare_bytes: None,
            reserve_bytes: settings.reserve_bytes,
        };
        let queue = Arc::new(Queue::new(recovered.last_sequence, recovery.unknown, room));
        let progress = Arc::new(Progress::new(recovered.reached()));
        let ahead = Ahead::spawn().map_err(StartError::Thread)?;
        let bytes = settings.segment_bytes;
        let writer = Writer::new(queue.clone(), progress.clone(), folder.clone(), bytes, ahead, recovered);
        let writer = WriterThread::spawn(writer).map_err(StartError::Thread)?;
        Ok(Self { writer, queue, progress, folder, lock, recovery, unknown })
    }

    async fn start(mut self, settings: &AuditSettings) -> Result<(Audit, Recovery), StartError> {
        // Before the index is made anew, since it is all that knows.
        let known = index::known(&settings.index).await;
        let lost = recover::lost(known.as_ref(), self.progress.durable().sequence);
        self.recovery.lost =
            self.recovery.lost.take().into_iter().chain(lost).max_by_key(|lost| lost.acknowledged_sequence);
        let recovery = self.record_recovery().await.map_err(StartError::Record)?;
        let Self { writer, queue, progress, folder, lock, .. } = self;
        let index = Index::start(&settings.index, folder.clone(), progress.clone()).await?;
        let record_bytes_max = settings.record_bytes_max();
        let begun_after = queue.last_sequence();
        let log = Log {
            _writer: writer,
            index,
            queue,
            progress,
            folder,
            record_bytes_max,
            begun_after,
            _lock: lock,
        };
        Ok((Audit { log: Arc::new(log) }, recovery))
    }

    async fn record_recovery(&self) -> Result<Recovery, AuditError> {
        if !self.recovery.is_needed() {
            return Ok(Recovery::default());
        }
        tracing::warn!(event = "audit_recovered", recovery = ?self.recovery, "the audit log was not closed in order");
        if let Some(Lost { after_sequence, acknowledged_sequence, .. }) = self.recovery.lost {
            tracing::error!(
                event = "audit_lost",
                after_sequence,
                acknowledged_sequence,
                "acknowledged records of the audit log are gone, and calls that they had may run again: to have them back, stop the daemon and restore the audit folder",
            );
        }
        let outcome = CallOutcome::abandoned(Status::Unknown, "UNKNOWN", Executed::Unknown);
        for sequence in &self.unknown {
            let record = entry::encode(RecordKind::CallClose, *sequence, &outcome);
            self.queue.append(RecordKind::CallClose, *sequence, &record)?;
        }
        let record = entry::encode(RecordKind::Recovery, 0, &self.recovery);
        self.queue.append_durably(RecordKind::Recovery, 0, &record).await?;
        Ok(self.recovery.clone())
    }
}

/// Wall clock, for people; order is by sequence.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
