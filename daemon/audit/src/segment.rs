//! Segments that are written to: the current one, and the next with its space allocated and filled with zeros ahead of time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::folder::{Folder, write_zeros};
use super::format::{Hash, SegmentHeader};
use super::record::{Anchor, Sha256};

/// Zeros written at once, a few hundred calls' worth: a small cost per call, and a short wait of the next segment for
/// the preallocator.
const ZERO_CHUNK_BYTES: u64 = 512 * 1024;

/// The segment that is being written.
pub(crate) struct CurrentSegment {
    pub file: File,
    pub number: u64,
    /// Offset of the next record.
    pub end: u64,
    /// Synced up to here.
    pub durable: u64,
    /// Zeroed up to here.
    pub zeroed: u64,
}

impl CurrentSegment {
    /// Writes zeros ahead of the records. Overwriting written blocks is cheap to sync; the first write into an allocated block
    /// also changes the extents of the file, which takes a commit of the file system's journal (measured: a third of the
    /// sync). Only for the first segment after a start: [`SegmentPreallocator`] zeroes the later ones.
    pub(crate) fn zero_ahead(&mut self, segment_bytes: u64) -> io::Result<()> {
        if self.end + ZERO_CHUNK_BYTES / 2 <= self.zeroed || self.zeroed >= segment_bytes {
            return Ok(());
        }
        let from = self.zeroed.max(self.end);
        self.zeroed = (from + ZERO_CHUNK_BYTES).min(segment_bytes);
        write_zeros(&self.file, from, self.zeroed)
    }

    /// The last record of the log, whose sequence and hash are these.
    pub(crate) fn anchor(&self, sequence: u64, hash: Hash) -> Anchor {
        Anchor { sequence, segment: self.number, offset: self.end, hash: Sha256(hash) }
    }
}

/// Writes a header into the spare and renames it to its segment name. On return, both are on disk.
pub(crate) fn begin_segment(
    folder: &Folder,
    spare: SpareSegment,
    segment: u64,
    first_sequence: u64,
    previous_hash: Hash,
    open_intents: Vec<u64>,
) -> io::Result<(CurrentSegment, Hash)> {
    let header =
        SegmentHeader { segment, first_sequence, made_at_ms: super::now_ms(), previous_hash, open_intents };
    let (bytes, hash) = header.encode();
    let SpareSegment { file, zeroed, .. } = spare;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    folder.adopt_spare(segment)?;
    let end = bytes.len() as u64;
    Ok((CurrentSegment { file, number: segment, end, durable: end, zeroed: zeroed.max(end) }, hash))
}

/// The next segment, with its space allocated.
pub(crate) struct SpareSegment {
    pub file: File,
    /// Zeroed and synced up to here.
    pub zeroed: u64,
    bytes: u64,
}

impl SpareSegment {
    pub(crate) fn new(file: File, bytes: u64) -> Self {
        Self { file, zeroed: 0, bytes }
    }

    fn zero_chunk(&mut self) -> io::Result<()> {
        let to = (self.zeroed + ZERO_CHUNK_BYTES).min(self.bytes);
        write_zeros(&self.file, self.zeroed, to)?;
        self.file.sync_data()?;
        self.zeroed = to;
        Ok(())
    }
}

/// Fills the spare segment with zeros while the current one fills, in a thread of its own.
///
/// A write into allocated but unwritten space makes a sync wait for a journal commit, and zeros written together with
/// records make it wait for them: half a megabyte of zeros made one sync in 400 calls take 1.2 ms instead of 0.14 ms, and
/// every call waited for it. Zeros in another file cost the syncs of the current one almost nothing.
///
/// Either this struct or the thread owns the spare, never both, so that no zeros overwrite a record.
pub(crate) struct SegmentPreallocator {
    shared: Arc<PreallocatorShared>,
    thread: Option<JoinHandle<()>>,
    /// Size of the current segment below which the thread need not be woken.
    wake_at_bytes: u64,
}

#[derive(Default)]
struct PreallocatorShared {
    state: Mutex<PreallocatorState>,
    changed: Condvar,
}

#[derive(Default)]
struct PreallocatorState {
    spare: SpareState,
    /// The spare is to be zeroed up to here.
    target_bytes: u64,
    closing: bool,
}

#[derive(Default)]
enum SpareState {
    #[default]
    Absent,
    Ready(SpareSegment),
    /// Owned by the thread.
    Zeroing,
}

impl SegmentPreallocator {
    pub(crate) fn spawn() -> io::Result<Self> {
        let shared = Arc::<PreallocatorShared>::default();
        let run = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("audit-ahead".into()).spawn(move || run.run())?;
        Ok(Self { shared, thread: Some(thread), wake_at_bytes: 0 })
    }

    pub(crate) fn has_spare(&self) -> bool {
        !matches!(self.shared.state.lock().spare, SpareState::Absent)
    }

    pub(crate) fn put(&mut self, spare: SpareSegment) {
        let mut state = self.shared.state.lock();
        state.spare = SpareState::Ready(spare);
        (state.target_bytes, self.wake_at_bytes) = (0, 0);
    }

    /// Requests zeros up to one chunk beyond the size of the current segment.
    pub(crate) fn zero_beyond(&mut self, current_bytes: u64) {
        if current_bytes < self.wake_at_bytes {
            return;
        }
        self.wake_at_bytes = current_bytes + ZERO_CHUNK_BYTES / 2;
        self.shared.state.lock().target_bytes = current_bytes + ZERO_CHUNK_BYTES;
        self.shared.changed.notify_all();
    }

    /// Takes the spare, as far as it is zeroed. Waits for the current chunk.
    pub(crate) fn take(&mut self) -> Option<SpareSegment> {
        let mut state = self.shared.state.lock();
        let is_zeroing = |state: &mut PreallocatorState| matches!(state.spare, SpareState::Zeroing);
        self.shared.changed.wait_while(&mut state, is_zeroing);
        match std::mem::take(&mut state.spare) {
            SpareState::Ready(spare) => Some(spare),
            SpareState::Absent | SpareState::Zeroing => None,
        }
    }
}

impl Drop for SegmentPreallocator {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic hook reported a panic.
            let _ = thread.join();
        }
    }
}

impl PreallocatorShared {
    fn run(&self) {
        // After a panic, `take` must not wait for a spare that is gone.
        scopeguard::defer! {
            let mut state = self.state.lock();
            if matches!(state.spare, SpareState::Zeroing) {
                state.spare = SpareState::Absent;
            }
            self.changed.notify_all();
        }
        let mut state = self.state.lock();
        while !state.closing {
            let Some(mut spare) = state.take_unfinished() else {
                self.changed.wait(&mut state);
                continue;
            };
            drop(state);
            if let Err(error) = spare.zero_chunk() {
                // The writer gets the same error when it writes to the segment, and reports it.
                tracing::warn!(event = "audit_not_ahead", %error, "the next audit segment cannot be preallocated");
                spare.bytes = spare.zeroed;
            }
            state = self.state.lock();
            state.spare = SpareState::Ready(spare);
            self.changed.notify_all();
        }
    }
}

impl PreallocatorState {
    /// Takes the spare if it is not zeroed up to the target.
    fn take_unfinished(&mut self) -> Option<SpareSegment> {
        let SpareState::Ready(spare) = &self.spare else { return None };
        if spare.zeroed >= self.target_bytes.min(spare.bytes) {
            return None;
        }
        match std::mem::replace(&mut self.spare, SpareState::Zeroing) {
            SpareState::Ready(spare) => Some(spare),
            SpareState::Absent | SpareState::Zeroing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A spare segment full of ones.
    fn spare(bytes: u64) -> SpareSegment {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; usize::try_from(bytes).expect("small")], 0).expect("ones");
        SpareSegment::new(file, bytes)
    }

    /// Waits until the thread has zeroed the spare up to the target.
    fn wait_until_ready(preallocator: &SegmentPreallocator) {
        let mut state = preallocator.shared.state.lock();
        let working = |state: &mut PreallocatorState| match &state.spare {
            SpareState::Zeroing => true,
            SpareState::Ready(spare) => spare.zeroed < state.target_bytes.min(spare.bytes),
            SpareState::Absent => false,
        };
        preallocator.shared.changed.wait_while(&mut state, working);
    }

    fn bytes_of(spare: &SpareSegment) -> Vec<u8> {
        let mut bytes =
            vec![0; usize::try_from(spare.file.metadata().expect("a size").len()).expect("small")];
        spare.file.read_exact_at(&mut bytes, 0).expect("bytes");
        bytes
    }

    #[test]
    fn the_spare_is_zeroed_one_chunk_beyond_the_size_of_the_current_segment() {
        let mut preallocator = SegmentPreallocator::spawn().expect("a thread");
        preallocator.put(spare(4 * ZERO_CHUNK_BYTES));
        wait_until_ready(&preallocator);
        preallocator.zero_beyond(1);
        wait_until_ready(&preallocator);
        let spare = preallocator.take().expect("it is there");
        assert_eq!(spare.zeroed, 2 * ZERO_CHUNK_BYTES);
        let bytes = bytes_of(&spare);
        let (zeros, rest) = bytes.split_at(usize::try_from(spare.zeroed).expect("small"));
        assert!(zeros.iter().all(|byte| *byte == 0) && rest.iter().all(|byte| *byte == 1));
        assert!(!preallocator.has_spare() && preallocator.take().is_none());
    }

    #[test]
    fn no_zeros_are_written_beyond_the_end_or_before_they_are_requested() {
        let mut preallocator = SegmentPreallocator::spawn().expect("a thread");
        preallocator.zero_beyond(10 * ZERO_CHUNK_BYTES);
        preallocator.put(spare(ZERO_CHUNK_BYTES / 2));
        wait_until_ready(&preallocator);
        assert_eq!(preallocator.take().expect("it is there").zeroed, 0);
        preallocator.put(spare(ZERO_CHUNK_BYTES / 2));
        preallocator.zero_beyond(10 * ZERO_CHUNK_BYTES);
        wait_until_ready(&preallocator);
        let spare = preallocator.take().expect("it is there");
        assert_eq!(
            (spare.zeroed, bytes_of(&spare).len() as u64),
            (ZERO_CHUNK_BYTES / 2, ZERO_CHUNK_BYTES / 2)
        );
    }

    #[test]
    fn a_spare_that_cannot_be_written_is_returned_unchanged() {
        let path = tempfile::NamedTempFile::new().expect("a file");
        let mut preallocator = SegmentPreallocator::spawn().expect("a thread");
        preallocator.put(SpareSegment::new(File::open(path.path()).expect("to read"), ZERO_CHUNK_BYTES));
        preallocator.zero_beyond(1);
        wait_until_ready(&preallocator);
        assert_eq!(preallocator.take().expect("it is there").zeroed, 0);
    }
}
