//! Crash recovery: finds the end of the log and decides whether a crash explains it.
//!
//! | after the last valid record | meaning | action |
//! |---|---|---|
//! | zeros or nothing | the daemon stopped or was killed | continue |
//! | part of a record, garbage or gaps, without proof of acknowledgement | torn write of a group that was not acknowledged | cut, reported, recorded in the chain |
//! | the same, and a later intact record was written after this position was synced | damage in the middle | refuse to start |
//! | nothing or part of a record, but `head` names a later record | the end was cut off, not by a crash | start (the records are lost), reported, recorded in the chain permanently |
//! | nothing, and the index knows a later record | the folder was emptied or replaced by an older copy | the same (`audit.rs` reads the index) |
//! | a complete record that does not follow, and `head` names it or a later one | damage or an edit at the end | refuse to start |
//! | `head` names a segment that is missing or has no header, or numbers are missing | files were removed | refuse to start |
//!
//! Only the newest segment is read: its header lists the intents without outcome when it began. `verify` reads all segments.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::anchor::{AnchorFile, Sealer};
use super::error::StartError;
use super::folder::{Folder, allocate, remove_if_there, write_zeros};
use super::format::{self, Hash, HeaderError, ParsedRecord, RecordKind};
use super::reader::{ChainLink, Reader, Step, read_up_to};
use super::record::Anchor;
use super::record::{LostRecords, Recovery, TornEnd};
use super::retention;
use super::segment::{CurrentSegment, SpareSegment, begin_segment};

/// The recovered log, ready for writing.
pub(crate) struct Recovered {
    pub current: CurrentSegment,
    /// Free bytes of the current segment.
    pub left_bytes: u64,
    /// Previous hash of the next record: that of the last record, or the digest of a header without records.
    pub last_hash: Hash,
    pub last_sequence: u64,
    /// Hash of the last record, possibly in an earlier segment.
    pub last_record_hash: Hash,
    /// Sequences of the intents without outcome, whose callers are gone.
    pub open_intents: BTreeSet<u64>,
    pub anchor_file: AnchorFile,
    pub recovery: Recovery,
}

impl Recovered {
    pub(crate) fn anchor(&self) -> Anchor {
        self.current.anchor(self.last_sequence, self.last_record_hash)
    }
}

/// Recovers a folder without recording the recovery, and returns the end of the log. For tests on copies.
#[doc(hidden)]
pub fn recover_folder(
    dir: &Path,
    key: Option<&[u8; 32]>,
    segment_bytes: u64,
) -> Result<(Recovery, Anchor), StartError> {
    let folder = Folder::at(dir);
    let _lock = folder.lock()?;
    let recovered = recover(&folder, Sealer::new(key), segment_bytes)?;
    Ok((recovered.recovery.clone(), recovered.anchor()))
}

/// Reads the newest segment and cuts a torn end, or begins a new log. The folder must be locked.
pub(crate) fn recover(folder: &Folder, sealer: Sealer, segment_bytes: u64) -> Result<Recovered, StartError> {
    let anchor = sealer.read(folder)?;
    let cut = sealer.read_cut(folder)?;
    if let Some(cut) = &cut {
        // Finishes a cut during which the daemon was killed.
        let removed = retention::remove_segments(folder, cut.segment);
        removed.map_err(StartError::io("remove cut segments of", folder.dir()))?;
    }
    let segments = folder.segments().map_err(StartError::io("list", folder.dir()))?;
    check_numbers(folder, &segments, anchor.as_ref(), cut.as_ref())?;
    let Some(newest) = segments.last().copied() else {
        return begin(folder, sealer, segment_bytes, Recovery::default());
    };
    let mut recovery = Recovery { anchor_missing: anchor.is_none(), ..Recovery::default() };
    let mut end = find_end(folder, newest, anchor.as_ref())?;
    if let SegmentEnd::NoHeader { cut_bytes } = end {
        check_unacknowledged(folder, newest, anchor.as_ref())?;
        recovery.cut = Some(TornEnd { segment: newest, offset: 0, bytes: cut_bytes });
        let path = folder.segment(newest);
        remove_if_there(&path).map_err(StartError::io("remove", &path))?;
        if newest == 1 {
            recovery.lost = lost_records(anchor.as_ref(), 0);
            return begin(folder, sealer, segment_bytes, recovery);
        }
        end = find_end(folder, newest - 1, anchor.as_ref())?;
    }
    let SegmentEnd::Valid(end) = end else {
        return Err(StartError::corrupt(&folder.segment(newest - 1), 0, "its header is damaged"));
    };
    recovery.lost = lost_records(anchor.as_ref(), end.link.sequence - 1);
    recovery.cut = recovery.cut.or(end.torn_end());
    resume(folder, sealer, segment_bytes, end, recovery)
}

fn check_numbers(
    folder: &Folder,
    segments: &[u64],
    anchor: Option<&Anchor>,
    cut: Option<&Anchor>,
) -> Result<(), StartError> {
    let missing = |segment| StartError::Missing { dir: folder.dir().to_path_buf(), segment };
    // A cut leaves two segments. A new log in their place would be removed as what was cut.
    let first = match cut {
        Some(cut) if segments.is_empty() => return Err(missing(cut.segment + 1)),
        cut => cut.map_or(1, |cut| cut.segment + 1),
    };
    for (expected, number) in (first..).zip(segments) {
        if *number != expected {
            return Err(missing(expected));
        }
    }
    let newest = segments.last().copied().unwrap_or(0);
    let named = anchor.filter(|anchor| anchor.sequence > 0).map_or(0, |anchor| anchor.segment);
    if named > newest { Err(missing(newest + 1)) } else { Ok(()) }
}

/// Refuses to remove a segment without header that the anchor names. A segment gets its name after its header is synced, so a
/// crash leaves no records without header; removing the file would hide the damage from the next start.
fn check_unacknowledged(folder: &Folder, segment: u64, anchor: Option<&Anchor>) -> Result<(), StartError> {
    match anchor.filter(|anchor| anchor.sequence > 0 && anchor.segment == segment) {
        None => Ok(()),
        Some(Anchor { sequence, .. }) => {
            let what = format!("its header is damaged; `head` says that record {sequence} was acknowledged");
            Err(StartError::corrupt(&folder.segment(segment), 0, what))
        }
    }
}

/// Returns the records missing after `last_sequence`, if a later one is known.
pub(crate) fn lost_records(known: Option<&Anchor>, last_sequence: u64) -> Option<LostRecords> {
    let anchor = known.filter(|anchor| anchor.sequence > last_sequence)?;
    Some(LostRecords {
        after_sequence: last_sequence,
        acknowledged_sequence: anchor.sequence,
        acknowledged_hash: anchor.hash.to_string(),
    })
}

/// Begins a new log, also in place of a first segment that never got its header.
fn begin(
    folder: &Folder,
    sealer: Sealer,
    segment_bytes: u64,
    recovery: Recovery,
) -> Result<Recovered, StartError> {
    let empty = Anchor::empty(1);
    let anchor_file = AnchorFile::open(folder, sealer, &empty)?;
    let spare = folder.make_spare(segment_bytes).map_err(StartError::io("allocate", &folder.spare()))?;
    let begun = begin_segment(folder, SpareSegment::new(spare, segment_bytes), 1, 1, [0; 32], Vec::new());
    let (current, last_hash) = begun.map_err(StartError::io("begin", &folder.segment(1)))?;
    Ok(Recovered {
        left_bytes: segment_bytes - current.end,
        current,
        last_hash,
        last_sequence: 0,
        last_record_hash: empty.hash.0,
        open_intents: BTreeSet::new(),
        anchor_file,
        recovery,
    })
}

/// Opens the newest segment for writing after its last valid record.
fn resume(
    folder: &Folder,
    sealer: Sealer,
    segment_bytes: u64,
    end: ValidEnd,
    recovery: Recovery,
) -> Result<Recovered, StartError> {
    let path = folder.segment(end.segment);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    let file = opened.map_err(StartError::io("open", &path))?;
    let (size, offset) = (end.tail.file_bytes.max(segment_bytes), end.offset);
    // A later recovery must not find the torn bytes, and records that a killed daemon left in the page cache must be synced.
    let cleaned = write_zeros(&file, offset, end.tail.end).and_then(|()| file.sync_data());
    cleaned.map_err(StartError::io("clean the end of", &path))?;
    let left_bytes = match allocate(&file, size) {
        Ok(()) => size - offset,
        Err(error) => {
            tracing::warn!(event = "audit_no_space", %error, "the space of the newest audit segment could not be allocated again");
            0
        }
    };
    let current = CurrentSegment { file, number: end.segment, end: offset, durable: offset, zeroed: offset };
    let last_sequence = end.link.sequence - 1;
    let anchor = current.anchor(last_sequence, end.last_record_hash);
    Ok(Recovered {
        anchor_file: AnchorFile::open(folder, sealer, &anchor)?,
        current,
        left_bytes,
        last_hash: end.link.hash,
        last_sequence,
        last_record_hash: end.last_record_hash,
        open_intents: end.open_intents,
        recovery,
    })
}

enum SegmentEnd {
    Valid(ValidEnd),
    /// The header itself is missing or damaged.
    NoHeader {
        cut_bytes: u64,
    },
}

/// The end of the valid records of a segment.
struct ValidEnd {
    segment: u64,
    offset: u64,
    link: ChainLink,
    last_record_hash: Hash,
    open_intents: BTreeSet<u64>,
    tail: Tail,
}

impl ValidEnd {
    fn torn_end(&self) -> Option<TornEnd> {
        let bytes = self.tail.end - self.offset;
        (bytes > 0).then_some(TornEnd { segment: self.segment, offset: self.offset, bytes })
    }
}

/// Follows the chain through one segment and checks the bytes after its end.
fn find_end(folder: &Folder, segment: u64, anchor: Option<&Anchor>) -> Result<SegmentEnd, StartError> {
    let check = SegmentCheck { path: folder.segment(segment), anchor };
    let mut reader = Reader::open(folder, segment).map_err(StartError::io("open", &check.path))?;
    let (header, hash) = match reader.header().map_err(StartError::io("read", &check.path))? {
        Ok(header) => header,
        Err(HeaderError::Version(found)) => {
            return Err(StartError::Version { file: check.path, found, known: format::VERSION });
        }
        Err(HeaderError::Short | HeaderError::Damaged) => {
            let tail = check.read_tail(0, 1)?;
            check.refuse_proven(0, &tail, "its header is damaged")?;
            return Ok(SegmentEnd::NoHeader { cut_bytes: tail.end });
        }
    };
    if header.segment != segment {
        let what = format!("it is segment {} under another name", header.segment);
        return Err(StartError::corrupt(&check.path, 0, what));
    }
    let Some(before) = header.first_sequence.checked_sub(1) else {
        return Err(StartError::corrupt(&check.path, 0, "it begins with record 0, and records begin with 1"));
    };
    let mut link = ChainLink { hash, sequence: header.first_sequence };
    check.match_anchor(before, &header.previous_hash, 0)?;
    let mut last_record_hash = header.previous_hash;
    let mut open_intents = BTreeSet::from_iter(header.open_intents);
    let what = loop {
        match reader.next(&mut link).map_err(StartError::io("read", &check.path))? {
            Step::End => break "a record was overwritten with zeros".to_owned(),
            Step::Bad(what) => break what,
            Step::Record { offset, header, .. } => {
                check.match_anchor(header.sequence, &header.hash, offset)?;
                last_record_hash = header.hash;
                match header.kind {
                    kind if kind.is_intent() => drop(open_intents.insert(header.sequence)),
                    RecordKind::Close => drop(open_intents.remove(&header.of)),
                    _ => {}
                }
            }
        }
    };
    let offset = reader.offset();
    let tail = check.read_tail(offset, link.sequence)?;
    check.refuse_proven(offset, &tail, &what)?;
    check.refuse_anchored(offset, &tail, link.sequence, &what)?;
    Ok(SegmentEnd::Valid(ValidEnd { segment, offset, link, last_record_hash, open_intents, tail }))
}

/// The bytes after the last valid record.
struct Tail {
    /// End of the last byte that is not zero; the start of the tail if there is none.
    end: u64,
    file_bytes: u64,
    /// Offset of a later intact record that was written after the start of the tail was synced.
    proof: Option<u64>,
    /// The bytes are the beginning of one record, as in a truncated file.
    is_truncated: bool,
}

struct SegmentCheck<'a> {
    path: PathBuf,
    anchor: Option<&'a Anchor>,
}

impl SegmentCheck<'_> {
    fn match_anchor(&self, sequence: u64, hash: &Hash, offset: u64) -> Result<(), StartError> {
        match self.anchor {
            Some(anchor) if anchor.sequence == sequence && sequence > 0 && anchor.hash.0 != *hash => {
                let what =
                    format!("record {sequence} is not the one that `head` names; the chain was rewritten");
                Err(StartError::corrupt(&self.path, offset, what))
            }
            _ => Ok(()),
        }
    }

    fn refuse_proven(&self, offset: u64, tail: &Tail, what: &str) -> Result<(), StartError> {
        let Some(proof) = tail.proof else { return Ok(()) };
        let what =
            format!("{what}; the intact record at offset {proof} was written after this offset was synced");
        Err(StartError::corrupt(&self.path, offset, what))
    }

    fn refuse_anchored(&self, offset: u64, tail: &Tail, sequence: u64, what: &str) -> Result<(), StartError> {
        match self.anchor {
            Some(anchor) if anchor.sequence >= sequence && !tail.is_truncated => {
                let what = format!("{what}; `head` says that record {} was acknowledged", anchor.sequence);
                Err(StartError::corrupt(&self.path, offset, what))
            }
            _ => Ok(()),
        }
    }

    fn read_tail(&self, offset: u64, sequence: u64) -> Result<Tail, StartError> {
        let read = File::open(&self.path).and_then(|file| read_tail(&file, offset, sequence));
        read.map_err(StartError::io("read", &self.path))
    }
}

fn read_tail(file: &File, offset: u64, sequence: u64) -> io::Result<Tail> {
    let file_bytes = file.metadata()?.len();
    let end = last_data(file, offset)?;
    let mut bytes = vec![0; usize::try_from(end - offset).map_err(io::Error::other)?];
    read_up_to(file, &mut bytes, offset)?;
    // The bytes end with one that is not zero, and no payload ends with a zero: an incomplete record lost its end.
    let is_truncated = matches!(format::parse_record(&bytes), ParsedRecord::Short(_));
    Ok(Tail { end, file_bytes, proof: find_proof(&bytes, offset, sequence), is_truncated })
}

/// Returns the end of the last byte after `from` that is not zero, or `from`.
pub(crate) fn last_data(file: &File, from: u64) -> io::Result<u64> {
    let mut chunk = vec![0; 256 * 1024];
    let mut end = from;
    for range in written_ranges(file, from)? {
        let mut at = range.start;
        while at < range.end {
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(chunk.len());
            let count = read_up_to(file, &mut chunk[..wanted], at)?;
            if count == 0 {
                break;
            }
            if let Some(last) = chunk[..count].iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
            }
            at += count as u64;
        }
    }
    Ok(end)
}

/// Returns the ranges that may contain data (`SEEK_DATA`), so that preallocated space is not read. Computed before any read:
/// pages that read-ahead puts into the page cache count as data.
fn written_ranges(file: &File, from: u64) -> io::Result<Vec<Range<u64>>> {
    let (size, mut at, mut ranges) = (file.metadata()?.len(), from, Vec::new());
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // Not supported by the file system: everything may be data.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).max(start + 1);
        ranges.push(start..end);
        at = end;
    }
    Ok(ranges)
}

/// Returns the offset of an intact record that says it was written after `offset` was synced. Records are aligned to eight
/// bytes.
fn find_proof(bytes: &[u8], offset: u64, sequence: u64) -> Option<u64> {
    (8..bytes.len()).step_by(8).find_map(|start| {
        let at = offset + start as u64;
        let ParsedRecord::Record(header, payload) = format::parse_record(&bytes[start..]) else {
            return None;
        };
        let proves = header.durable > offset && header.durable <= at && header.sequence >= sequence;
        (proves && header.has_payload(payload)).then_some(at)
    })
}
