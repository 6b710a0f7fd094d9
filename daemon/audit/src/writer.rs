//! The writer: adds records to the hash chain, writes and syncs them in groups, in a thread of its own or in that of a lone
//! caller.
//!
//! The order of steps is the durability guarantee: a group is written, synced, named in the anchor file, published to the
//! indexer, and then its futures resolve. A segment is synced before the next one gets its name. After any error of a write
//! or sync the thread ends and the queue refuses records: the kernel may mark a page clean that it failed to write, so a
//! retry could report success for lost data.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::anchor::AnchorFile;
use super::error::AuditError;
use super::folder::Folder;
use super::format::{self, Hash, RecordKind};
use super::group_commit::{CommitQueue, Durable, Group, PendingRecord};
use super::index::IndexProgress;
use super::recover::Recovered;
use super::segment::{CurrentSegment, SegmentPreallocator, SpareSegment, begin_segment};

pub(crate) struct Writer {
    queue: Arc<CommitQueue>,
    progress: Arc<IndexProgress>,
    folder: Folder,
    segment_bytes: u64,
    current: CurrentSegment,
    preallocator: SegmentPreallocator,
    anchor_file: AnchorFile,
    last_hash: Hash,
    last_sequence: u64,
    /// Sequences of the written intents without outcome.
    open_intents: BTreeSet<u64>,
    has_failed: bool,
}

/// The running writer. Dropping it closes the log and waits until the last record is on disk.
pub(crate) struct WriterThread {
    queue: Arc<CommitQueue>,
    /// Locked by the thread that commits; the group is that of a lone caller.
    writer: Arc<Mutex<(Writer, Group)>>,
    thread: Option<JoinHandle<()>>,
    /// A caller may commit: another processor serves other callers meanwhile.
    lets_callers_commit: bool,
}

impl WriterThread {
    pub(crate) fn spawn(writer: Writer) -> io::Result<Self> {
        let queue = writer.queue.clone();
        let writer = Arc::new(Mutex::new((writer, Group::default())));
        let lets_callers_commit = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        let (run, queue_of_run) = (Arc::clone(&writer), Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("audit-writer".into())
            .spawn(move || run_writer(&run, &queue_of_run))?;
        Ok(Self { queue, writer, thread: Some(thread), lets_callers_commit })
    }

    /// Appends a record and has it synced: by the writer, or before the return where the caller is alone and the disk is fast.
    pub(crate) fn append_durably(&self, kind: RecordKind, of: u64, record: &[u8]) -> Durable {
        if self.lets_callers_commit
            && self.queue.is_quiet()
            && let Ok(mut locked) = self.writer.try_lock()
        {
            let (writer, group) = &mut *locked;
            return match self.queue.append_alone(kind, of, record, group) {
                Ok(()) => Durable::ready(writer.commit_and_complete(group)),
                Err(durable) => durable,
            };
        }
        self.queue.append_durably(kind, of, record)
    }
}

/// Runs until the log is closed or fails.
fn run_writer(writer: &Mutex<(Writer, Group)>, queue: &CommitQueue) {
    let _fail_on_panic = FailOnPanic(queue);
    let mut group = Group::default();
    while queue.take(&mut group) {
        let Ok(mut writer) = writer.lock() else { return };
        let writer = &mut writer.0;
        if writer.commit_and_complete(&mut group).is_err() {
            return;
        }
        if group.wants_spare {
            writer.allocate_spare();
        }
    }
    let Ok(mut writer) = writer.lock() else { return };
    writer.0.finish();
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // The panic hook reported a panic, and `FailOnPanic` resolved the waiters.
            let _ = thread.join();
        }
    }
}

/// After a panic of the writer or of a commit, their waiters get an error.
struct FailOnPanic<'a>(&'a CommitQueue);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = AuditError::Failed { reason: "the writer crashed".into() };
            self.0.fail(&error, &mut Vec::new());
        }
    }
}

impl Writer {
    /// Takes over the result of recovery and allocates the next segment before the first record comes.
    pub(crate) fn new(
        queue: Arc<CommitQueue>,
        progress: Arc<IndexProgress>,
        folder: Folder,
        segment_bytes: u64,
        preallocator: SegmentPreallocator,
        recovered: Recovered,
    ) -> Self {
        let Recovered { current, last_hash, last_sequence, open_intents, anchor_file, .. } = recovered;
        let mut writer = Self {
            queue,
            progress,
            folder,
            segment_bytes,
            current,
            preallocator,
            anchor_file,
            last_hash,
            last_sequence,
            open_intents,
            has_failed: false,
        };
        writer.allocate_spare();
        writer
    }

    /// Writes and syncs a group and resolves its futures. After a failure nothing is written any more.
    fn commit_and_complete(&mut self, group: &mut Group) -> Result<(), AuditError> {
        let queue = Arc::clone(&self.queue);
        let _fail_on_panic = FailOnPanic(&queue);
        match self.commit(group) {
            Ok(()) => {
                queue.complete(self.progress.durable().sequence, group);
                Ok(())
            }
            Err(error) => Err(self.fail(&error, group)),
        }
    }

    /// Syncs the last records of a log that is closed.
    fn finish(&mut self) {
        if self.has_failed {
            return;
        }
        if let Err(error) = self.sync().and_then(|()| self.anchor_file.sync()) {
            self.fail(&error, &mut Group::default());
        }
    }

    fn fail(&mut self, error: &io::Error, group: &mut Group) -> AuditError {
        self.has_failed = true;
        let error = AuditError::failure("could not write", error);
        tracing::error!(event = "audit_failed", error = %error, "{}", error.hint());
        self.queue.fail(&error, &mut group.waiters);
        error
    }

    fn commit(&mut self, group: &mut Group) -> io::Result<()> {
        // End of the written and of the sealed bytes.
        let (mut written, mut sealed) = (0, 0);
        for record in &group.records {
            if record.begins_segment {
                self.write(&group.bytes[written..sealed])?;
                written = sealed;
                self.rotate(record.sequence)?;
            }
            let end = sealed + record.length;
            self.seal(record, &mut group.bytes[sealed..end]);
            sealed = end;
        }
        self.write(&group.bytes[written..])?;
        let counters = &self.queue.counters;
        counters.records.fetch_add(group.records.len() as u64, Ordering::Relaxed);
        counters.groups.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        if group.sync {
            self.sync()?;
            group.sync_took = started.elapsed();
        }
        Ok(())
    }

    fn seal(&mut self, record: &PendingRecord, bytes: &mut [u8]) {
        self.last_hash = format::seal(bytes, record.sequence, self.current.durable, &self.last_hash);
        self.last_sequence = record.sequence;
        match record.kind {
            kind if kind.is_intent() => drop(self.open_intents.insert(record.sequence)),
            RecordKind::Close => drop(self.open_intents.remove(&record.of)),
            _ => {}
        }
    }

    fn write(&mut self, records: &[u8]) -> io::Result<()> {
        self.current.file.write_all_at(records, self.current.end)?;
        self.current.end += records.len() as u64;
        self.queue.counters.bytes.fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.current.durable == self.current.end {
            return Ok(());
        }
        self.current.zero_ahead(self.segment_bytes)?;
        let started = Instant::now();
        self.current.file.sync_data()?;
        let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.queue.counters.sync_ns.fetch_add(took, Ordering::Relaxed);
        self.queue.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.current.durable = self.current.end;
        self.preallocator.zero_beyond(self.current.end);
        let anchor = self.current.anchor(self.last_sequence, self.last_hash);
        self.anchor_file.write(&anchor)?;
        self.progress.advance(anchor);
        Ok(())
    }

    /// Syncs the current segment and continues in the spare, whose first record will be `first_sequence`.
    fn rotate(&mut self, first_sequence: u64) -> io::Result<()> {
        self.sync()?;
        let spare = self
            .preallocator
            .take()
            .ok_or_else(|| io::Error::other("a record was placed in a segment that does not exist"))?;
        let open_intents = self.open_intents.iter().copied().collect();
        let number = self.current.number + 1;
        let begun = begin_segment(&self.folder, spare, number, first_sequence, self.last_hash, open_intents)?;
        // Returns the unused space to the disk. An error is harmless, since readers take zeros for the end.
        let _ = self.current.file.set_len(self.current.end);
        (self.current, self.last_hash) = begun;
        self.queue.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.allocate_spare();
        Ok(())
    }

    fn allocate_spare(&mut self) {
        if self.preallocator.has_spare() {
            return;
        }
        let result = self.folder.make_spare(self.segment_bytes);
        self.queue.set_spare(match result {
            Ok(file) => {
                self.preallocator.put(SpareSegment::new(file, self.segment_bytes));
                Ok(self.segment_bytes)
            }
            Err(error) => {
                tracing::warn!(event = "audit_no_spare", %error, "the audit log could not allocate its next segment");
                Err(error.to_string().into())
            }
        });
    }
}
