//! The start of the log: recovery, its records, and the threads.

use std::sync::Arc;

use super::anchor::Sealer;
use super::folder::{Folder, FolderLock};
use super::format::RecordKind;
use super::group_commit::CommitQueue;
use super::index::{Index, IndexProgress};
use super::record::{Anchor, Executed, Recovery, RestoredFrom, Status, implicit_outcome};
use super::recover::{self, Recovered};
use super::segment::SegmentPreallocator;
use super::space::SpaceBudget;
use super::writer::{Writer, WriterThread};
use super::{Audit, AuditError, AuditSettings, Log, StartError, blocking, encode, loss, origin};

/// A log whose writer runs and whose recovery is not recorded yet.
pub(super) struct OpenLog {
    writer: WriterThread,
    queue: Arc<CommitQueue>,
    progress: Arc<IndexProgress>,
    folder: Folder,
    lock: FolderLock,
    recovery: Recovery,
    /// Sequences of the intents without outcome.
    unknown: Vec<u64>,
    /// The folder is a copy of the one that the daemon wrote to.
    is_copy: bool,
    /// The backup that the folder was restored from, on the first start since.
    restored: Option<RestoredFrom>,
    /// The last record that the index knew.
    indexed: Option<Anchor>,
}

impl OpenLog {
    pub(super) fn open(settings: &AuditSettings, indexed: Option<Anchor>) -> Result<Self, StartError> {
        let folder = Folder::at(&settings.dir);
        folder.create()?;
        let lock = folder.lock()?;
        let sealer = Sealer::new(settings.key.as_ref());
        let is_copy = origin::is_copy(&folder, &sealer).map_err(StartError::io("read", &folder.origin()))?;
        let (recovered, restored) = match read_log(settings, &folder, &sealer, indexed.as_ref()) {
            Err(error) if settings.accept_lost_log && error.is_loss() => {
                (begin_anew(settings, &folder, &sealer, &error)?, None)
            }
            read => read?,
        };
        let opened = Self::spawn(settings, folder, lock, recovered)?;
        Ok(Self { is_copy, restored, indexed, ..opened })
    }

    pub(super) fn spawn(
        settings: &AuditSettings,
        folder: Folder,
        lock: FolderLock,
        recovered: Recovered,
    ) -> Result<Self, StartError> {
        let unknown: Vec<u64> = recovered.open_intents.iter().copied().collect();
        let recovery = Recovery { unknown: unknown.len() as u64, ..recovered.recovery.clone() };
        let space = SpaceBudget {
            left_bytes: recovered.left_bytes,
            spare_bytes: None,
            reserve_bytes: settings.reserve_bytes,
        };
        let queue = Arc::new(CommitQueue::new(recovered.last_sequence, recovery.unknown, space));
        let progress = Arc::new(IndexProgress::new(recovered.anchor()));
        let preallocator = SegmentPreallocator::spawn().map_err(StartError::Thread)?;
        let writer = Writer::new(
            queue.clone(),
            progress.clone(),
            folder.clone(),
            settings.segment_bytes,
            preallocator,
            recovered,
        );
        let writer = WriterThread::spawn(writer).map_err(StartError::Thread)?;
        let (is_copy, restored, indexed) = (false, None, None);
        Ok(Self { writer, queue, progress, folder, lock, recovery, unknown, is_copy, restored, indexed })
    }

    pub(super) async fn start(mut self, settings: &AuditSettings) -> Result<(Audit, Recovery), StartError> {
        let lost = recover::lost_records(self.indexed.as_ref(), self.progress.durable().sequence);
        self.recovery.lost =
            self.recovery.lost.take().into_iter().chain(lost).max_by_key(|lost| lost.acknowledged_sequence);
        self.recovery.copied = self.is_copy && self.recovery.has_loss();
        self.record_restore().await.map_err(StartError::Record)?;
        let recovery = self.record_recovery().await.map_err(StartError::Record)?;
        let Self { writer, queue, progress, folder, lock, .. } = self;
        let sealer = Sealer::new(settings.key.as_ref());
        origin::mark_origin(&folder, &sealer);
        let cut = sealer.read_cut(&folder)?;
        let log = Log {
            writer,
            index: Index::start(&settings.index, folder.clone(), progress.clone(), cut).await?,
            index_path: settings.index.clone(),
            sealer,
            cutting: tokio::sync::RwLock::default(),
            verifying: Arc::default(),
            start_sequence: queue.last_sequence(),
            has_lost_records: recovery.lost.is_some() || recovery.accepted.is_some(),
            queue,
            progress,
            folder,
            data_keys: settings.data_keys.clone(),
            record_bytes_max: settings.record_bytes_max(),
            _lock: lock,
        };
        Ok((Audit { log: Arc::new(log) }, recovery))
    }

    /// Records that the folder was restored. The record is the first one after those of the backup.
    async fn record_restore(&self) -> Result<(), AuditError> {
        let Some(from) = &self.restored else { return Ok(()) };
        let record = encode(RecordKind::Admin, 0, &origin::restored_record(from));
        self.queue.append_durably(RecordKind::Admin, 0, &record).await?;
        tracing::info!(
            event = "audit_restored",
            backup = %from.backup,
            made_at_ms = from.made_at_ms,
            records = from.head.sequence,
            "this data folder was restored from a backup: what changed after it is not here, and tokens that were revoked since are valid again"
        );
        let folder = self.folder.clone();
        blocking(move || origin::forget_restore(&folder)).await
    }

    pub(super) async fn record_recovery(&self) -> Result<Recovery, AuditError> {
        if !self.recovery.is_needed() {
            return Ok(Recovery::default());
        }
        tracing::warn!(event = "audit_recovered", recovery = %self.recovery, "the audit log was not closed cleanly");
        if let Some(lost) = self.recovery.lost.as_ref().filter(|_| self.recovery.has_loss()) {
            origin::report_loss(lost, self.recovery.copied);
        }
        let outcome = implicit_outcome(Status::Unknown, "UNKNOWN", Executed::Unknown);
        for sequence in &self.unknown {
            let record = encode(RecordKind::Close, *sequence, &outcome);
            self.queue.append(RecordKind::Close, *sequence, &record)?;
        }
        let record = encode(RecordKind::Recovery, 0, &self.recovery);
        self.queue.append_durably(RecordKind::Recovery, 0, &record).await?;
        Ok(self.recovery.clone())
    }
}

/// Recovers the log, or refuses one that is damaged or gone. Returns the backup that it was restored from, too.
fn read_log(
    settings: &AuditSettings,
    folder: &Folder,
    sealer: &Sealer,
    indexed: Option<&Anchor>,
) -> Result<(Recovered, Option<RestoredFrom>), StartError> {
    // Of the files of a damaged log, `head` or `cut` names the segment that is missing.
    if !folder.anchor().exists() && !folder.cut().exists() {
        loss::refuse_missing_log(folder, indexed, settings.last_run_ms)?;
    }
    let recovered = recover::recover(folder, Sealer::new(settings.key.as_ref()), settings.segment_bytes)?;
    let restored = origin::restored_from(folder, sealer, &recovered.anchor())?;
    Ok((recovered, restored))
}

/// Begins a log in the place of one that the operator gives up.
fn begin_anew(
    settings: &AuditSettings,
    folder: &Folder,
    sealer: &Sealer,
    error: &StartError,
) -> Result<Recovered, StartError> {
    let head = sealer.read(folder).ok().flatten();
    let accepted = loss::give_up(folder, error, settings.last_run_ms)?;
    let mut begun = recover::recover(folder, Sealer::new(settings.key.as_ref()), settings.segment_bytes)?;
    begun.recovery.lost = recover::lost_records(head.as_ref(), 0);
    begun.recovery.accepted = Some(accepted);
    Ok(begun)
}
