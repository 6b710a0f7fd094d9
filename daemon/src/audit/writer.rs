//! The one thread that writes: seals records into the chain, writes a group at once, syncs it once.
//!
//! Order is everything here. A group is written, synced, anchored in `head`, shown to the indexer and then
//! told to those who wait. A segment is finished (synced) before the next one exists under its name. After
//! any error of a write or a sync the thread ends and the queue refuses: a page that the kernel failed to
//! write may be marked clean, so trying again would pretend.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use super::ahead::{Ahead, Spare};
use super::error::AuditError;
use super::folder::{Folder, write_zeros};
use super::format::{self, Hash, RecordKind, SegmentHeader};
use super::head::{Head, HeadFile};
use super::progress::Progress;
use super::queue::{Group, Pending, Queue};
use super::record::Sha256;
use super::recover::Recovered;

/// Zeros written ahead at once: some hundred calls' worth, so that they cost a call little.
const ZERO_AHEAD_BYTES: u64 = 512 * 1024;

/// The segment that is being written.
pub struct Current {
    pub file: File,
    pub number: u64,
    /// Where the next record goes.
    pub end: u64,
    /// How far it is on disk.
    pub durable: u64,
    /// How far zeros were written ahead of the records.
    pub zeroed: u64,
}

impl Current {
    /// Overwriting blocks that were written before is all that a sync then has to wait for; the first write
    /// into allocated blocks also changes the file's extents, which takes a commit of the file system's
    /// journal (measured: a third of the sync). Done here for the segment that a start found or made: the later ones
    /// were written ahead of while they were spares (`ahead.rs`).
    fn zero_ahead(&mut self, segment_bytes: u64) -> io::Result<()> {
        if self.end + ZERO_AHEAD_BYTES / 2 <= self.zeroed || self.zeroed >= segment_bytes {
            return Ok(());
        }
        let from = self.zeroed.max(self.end);
        self.zeroed = (from + ZERO_AHEAD_BYTES).min(segment_bytes);
        write_zeros(&self.file, from, self.zeroed)
    }
}

pub struct Writer {
    queue: Arc<Queue>,
    progress: Arc<Progress>,
    folder: Folder,
    segment_bytes: u64,
    current: Current,
    ahead: Ahead,
    head: HeadFile,
    last_hash: Hash,
    last_sequence: u64,
    /// Intents written, outcomes not.
    open_calls: BTreeSet<u64>,
}

/// The running writer; dropping it closes the log and waits until the last record is on disk.
pub struct WriterThread {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    pub fn spawn(writer: Writer) -> io::Result<Self> {
        let queue = writer.queue.clone();
        let thread = std::thread::Builder::new().name("audit-writer".into()).spawn(move || writer.run())?;
        Ok(Self { queue, thread: Some(thread) })
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported by the panic hook, and by `Writer::drop` to all who waited.
            let _ = thread.join();
        }
    }
}

/// Nobody waits for a writer that is gone.
impl Drop for Writer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = AuditError::Failed { reason: "the writer crashed".into() };
            self.queue.fail(&error, &mut Vec::new());
        }
    }
}

impl Writer {
    /// Takes over what recovery found, and sets the next segment aside before the first record comes.
    pub fn new(
        queue: Arc<Queue>,
        progress: Arc<Progress>,
        folder: Folder,
        segment_bytes: u64,
        ahead: Ahead,
        from: Recovered,
    ) -> Self {
        let Recovered { current, last_hash, last_sequence, open_calls, head, .. } = from;
        let mut writer = Self {
            queue,
            progress,
            folder,
            segment_bytes,
            current,
            ahead,
            head,
            last_hash,
            last_sequence,
            open_calls,
        };
        writer.prepare_spare();
        writer
    }

    /// Runs until the log is closed or fails.
    fn run(mut self) {
        let mut group = Group::default();
        while self.queue.take(&mut group) {
            if let Err(error) = self.commit(&mut group) {
                return self.fail(&error, &mut group);
            }
            self.queue.settle(self.progress.durable().sequence, &mut group);
            if group.wants_spare {
                self.prepare_spare();
            }
        }
        if let Err(error) = self.sync().and_then(|()| self.head.sync()) {
            self.fail(&error, &mut group);
        }
    }

    fn fail(&self, error: &io::Error, group: &mut Group) {
        let error = AuditError::failed("could not write", error);
        tracing::error!(event = "audit_failed", error = %error, "{}", error.hint());
        self.queue.fail(&error, &mut group.waiters);
    }

    fn commit(&mut self, group: &mut Group) -> io::Result<()> {
        // Behind what is written, and behind what is sealed.
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

    fn seal(&mut self, record: &Pending, bytes: &mut [u8]) {
        self.last_hash = format::seal(bytes, record.sequence, self.current.durable, &self.last_hash);
        self.last_sequence = record.sequence;
        match record.kind {
            RecordKind::CallOpen => drop(self.open_calls.insert(record.sequence)),
            RecordKind::CallClose => drop(self.open_calls.remove(&record.of)),
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
        self.current.file.sync_data()?;
        self.queue.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.current.durable = self.current.end;
        self.ahead.keep_up(self.current.end);
        let head = self.reached();
        self.head.write(&head)?;
        self.progress.advance(head);
        Ok(())
    }

    fn reached(&self) -> Head {
        let Current { number: segment, end: offset, .. } = self.current;
        Head { sequence: self.last_sequence, segment, offset, hash: Sha256(self.last_hash) }
    }

    /// Finishes the current segment and goes on in the spare, whose first record will be `first_sequence`.
    fn rotate(&mut self, first_sequence: u64) -> io::Result<()> {
        self.sync()?;
        let spare = self
            .ahead
            .take()
            .ok_or_else(|| io::Error::other("a record was placed in a segment that is not there"))?;
        let open_calls = self.open_calls.iter().copied().collect();
        let number = self.current.number + 1;
        let begun = begin_segment(&self.folder, spare, number, first_sequence, self.last_hash, open_calls)?;
        // The space behind the last record goes back to the disk. If not, readers take zeros for an end as
        // well.
        let _ = self.current.file.set_len(self.current.end);
        (self.current, self.last_hash) = begun;
        self.queue.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.prepare_spare();
        Ok(())
    }

    fn prepare_spare(&mut self) {
        if self.ahead.has_spare() {
            return;
        }
        let made = self.folder.make_spare(self.segment_bytes);
        let told = made.as_ref().map(|_| self.segment_bytes).map_err(|error| Arc::from(error.to_string()));
        if let Err(error) = &made {
            tracing::warn!(event = "audit_no_spare", %error, "the audit log could not set space aside");
        }
        if let Ok(file) = made {
            self.ahead.put(Spare::new(file, self.segment_bytes));
        }
        self.queue.set_spare(told);
    }
}

/// Puts a header into the spare and the spare into its place. When this returns, both are on disk.
pub fn begin_segment(
    folder: &Folder,
    spare: Spare,
    segment: u64,
    first_sequence: u64,
    previous_hash: Hash,
    open_calls: Vec<u64>,
) -> io::Result<(Current, Hash)> {
    let header =
        SegmentHeader { segment, first_sequence, made_at_ms: super::now_ms(), previous_hash, open_calls };
    let (bytes, hash) = header.encode();
    let Spare { file, zeroed, .. } = spare;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    folder.adopt_spare(segment)?;
    let end = bytes.len() as u64;
    Ok((Current { file, number: segment, end, durable: end, zeroed: zeroed.max(end) }, hash))
}
