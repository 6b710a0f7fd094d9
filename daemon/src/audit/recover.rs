//! Finds the end of the log after whatever happened, and decides whether that end is honest.
//!
//! | what stands behind the last good record | what it means | what is done |
//! |---|---|---|
//! | zeros, or nothing | the daemon stopped, or was killed | go on |
//! | half a record, garbage, gaps; no proof of acknowledgement | a group was torn by a crash, nobody was told of it | cut, reported, noted in the chain |
//! | the same, and a later intact record was written after this place was synced | damage in the middle | refuse to start |
//! | nothing or half a record, but `head` names a later one | the end was cut off by something else than a crash | start (what is gone is gone), reported, noted in the chain for good |
//! | nothing, and the index knows a later record | the folder was emptied, or put back to an older copy | the same (`audit.rs` asks the index) |
//! | a whole record that does not belong, and `head` names it or a later one | damage or an edit at the end | refuse to start |
//! | `head` names a segment that is not there or has no header, or numbers are missing | files were removed | refuse to start |
//!
//! Only the newest segment is read: its header lists the calls that were open when it began. `verify` reads
//! them all.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::ahead::Spare;
use super::error::StartError;
use super::folder::{Folder, allocate, remove_if_there, write_zeros};
use super::format::{self, Found, Hash, HeaderError, RecordKind};
use super::head::{Head, HeadFile, Sealer};
use super::reader::{Link, Reader, Step, read_up_to};
use super::record::{Cut, Lost, Recovery, Sha256};
use super::writer::{Current, begin_segment};

/// The log, ready to be written to.
pub struct Recovered {
    pub current: Current,
    /// Bytes that the current segment still has space for.
    pub left_bytes: u64,
    /// What the next record is chained to: the last record, or the header of a segment that has none yet.
    pub last_hash: Hash,
    pub last_sequence: u64,
    /// The hash of the last record, wherever it is.
    pub last_record_hash: Hash,
    /// Intents that have no outcome and will never get one from whoever wrote them.
    pub open_calls: BTreeSet<u64>,
    pub head: HeadFile,
    pub recovery: Recovery,
}

impl Recovered {
    pub fn reached(&self) -> Head {
        let Current { number: segment, end: offset, .. } = self.current;
        Head { sequence: self.last_sequence, segment, offset, hash: Sha256(self.last_record_hash) }
    }
}

/// What the start of a log does first, with nothing written behind it: tells what was found, and where the log ends.
/// What is cut here stays unrecorded, so this is for tests that try it on copies.
#[doc(hidden)]
pub fn recover_folder(
    dir: &Path,
    key: Option<&[u8; 32]>,
    segment_bytes: u64,
) -> Result<(Recovery, Head), StartError> {
    let folder = Folder::at(dir);
    let _lock = folder.lock()?;
    let recovered = recover(&folder, Sealer::new(key), segment_bytes)?;
    Ok((recovered.recovery.clone(), recovered.reached()))
}

/// Reads what is there, cuts what was torn, or begins a new log. The folder must be locked.
pub fn recover(folder: &Folder, sealer: Sealer, segment_bytes: u64) -> Result<Recovered, StartError> {
    let anchor = sealer.read(folder)?;
    let segments = folder.segments().map_err(StartError::io("list", folder.dir()))?;
    check_numbers(folder, &segments, anchor.as_ref())?;
    let Some(newest) = segments.last().copied() else {
        return begin(folder, sealer, segment_bytes, Recovery::default());
    };
    let mut recovery = Recovery { anchor_missing: anchor.is_none(), ..Recovery::default() };
    let mut end = find_end(folder, newest, anchor.as_ref())?;
    if let End::NoSegment { cut_bytes } = end {
        refuse_acknowledged(folder, newest, anchor.as_ref())?;
        recovery.cut = Some(Cut { segment: newest, offset: 0, bytes: cut_bytes });
        let path = folder.segment(newest);
        remove_if_there(&path).map_err(StartError::io("remove", &path))?;
        if newest == 1 {
            recovery.lost = lost(anchor.as_ref(), 0);
            return begin(folder, sealer, segment_bytes, recovery);
        }
        end = find_end(folder, newest - 1, anchor.as_ref())?;
    }
    let End::At(end) = end else {
        return Err(StartError::corrupt(&folder.segment(newest - 1), 0, "its header is damaged"));
    };
    recovery.lost = lost(anchor.as_ref(), end.link.sequence - 1);
    recovery.cut = recovery.cut.or(end.cut());
    resume(folder, sealer, segment_bytes, end, recovery)
}

fn check_numbers(folder: &Folder, segments: &[u64], anchor: Option<&Head>) -> Result<(), StartError> {
    let missing = |segment| StartError::Missing { dir: folder.dir().to_path_buf(), segment };
    for (expected, number) in (1..).zip(segments) {
        if *number != expected {
            return Err(missing(expected));
        }
    }
    let newest = segments.last().copied().unwrap_or(0);
    let named = anchor.filter(|head| head.sequence > 0).map_or(0, |head| head.segment);
    if named > newest { Err(missing(newest + 1)) } else { Ok(()) }
}

/// A segment gets its name when its header is on disk, so a crash leaves no segment without one that has records. To
/// remove it would also take away what a later start looks for.
fn refuse_acknowledged(folder: &Folder, segment: u64, anchor: Option<&Head>) -> Result<(), StartError> {
    match anchor.filter(|head| head.sequence > 0 && head.segment == segment) {
        None => Ok(()),
        Some(head) => {
            let what =
                format!("its header is damaged; `head` says that record {} was acknowledged", head.sequence);
            Err(StartError::corrupt(&folder.segment(segment), 0, what))
        }
    }
}

/// What is missing behind the last record, if a later one is known.
pub fn lost(known: Option<&Head>, last_sequence: u64) -> Option<Lost> {
    let head = known.filter(|head| head.sequence > last_sequence)?;
    Some(Lost {
        after_sequence: last_sequence,
        acknowledged_sequence: head.sequence,
        acknowledged_hash: head.hash.to_string(),
    })
}

/// A new log, or one whose first segment never got its header.
fn begin(
    folder: &Folder,
    sealer: Sealer,
    segment_bytes: u64,
    recovery: Recovery,
) -> Result<Recovered, StartError> {
    let nothing = Head { sequence: 0, segment: 1, offset: 0, hash: Sha256([0; 32]) };
    let head = HeadFile::open(folder, sealer, &nothing)?;
    let spare =
        folder.make_spare(segment_bytes).map_err(StartError::io("take space for", &folder.spare()))?;
    let begun = begin_segment(folder, Spare::new(spare, segment_bytes), 1, 1, [0; 32], Vec::new());
    let (current, last_hash) = begun.map_err(StartError::io("begin", &folder.segment(1)))?;
    let left_bytes = segment_bytes - current.end;
    Ok(Recovered {
        current,
        left_bytes,
        last_hash,
        last_sequence: 0,
        last_record_hash: nothing.hash.0,
        open_calls: BTreeSet::new(),
        head,
        recovery,
    })
}

/// Opens the newest segment for writing behind its last good record.
fn resume(
    folder: &Folder,
    sealer: Sealer,
    segment_bytes: u64,
    end: GoodEnd,
    recovery: Recovery,
) -> Result<Recovered, StartError> {
    let path = folder.segment(end.segment);
    let opened = OpenOptions::new().read(true).write(true).open(&path);
    let file = opened.map_err(StartError::io("open", &path))?;
    let (size, offset) = (end.file_bytes.max(segment_bytes), end.offset);
    // What was torn must not be found by a later recovery, and what a killed daemon left to the kernel is not
    // on disk yet.
    let cleaned = write_zeros(&file, offset, end.rest.end).and_then(|()| file.sync_data());
    cleaned.map_err(StartError::io("clean the end of", &path))?;
    let left_bytes = match allocate(&file, size) {
        Ok(()) => size - offset,
        Err(error) => {
            tracing::warn!(event = "audit_no_space", %error, "the newest audit segment could not get its space back");
            0
        }
    };
    Ok(Recovered {
        current: Current { file, number: end.segment, end: offset, durable: offset, zeroed: offset },
        left_bytes,
        last_hash: end.link.hash,
        last_sequence: end.link.sequence - 1,
        last_record_hash: end.last_record_hash,
        head: HeadFile::open(folder, sealer, &end.head())?,
        open_calls: end.open_calls,
        recovery,
    })
}

enum End {
    At(GoodEnd),
    /// Not even the header is there.
    NoSegment {
        cut_bytes: u64,
    },
}

struct GoodEnd {
    segment: u64,
    offset: u64,
    file_bytes: u64,
    link: Link,
    last_record_hash: Hash,
    open_calls: BTreeSet<u64>,
    rest: Rest,
}

impl GoodEnd {
    fn cut(&self) -> Option<Cut> {
        let bytes = self.rest.end - self.offset;
        (bytes > 0).then_some(Cut { segment: self.segment, offset: self.offset, bytes })
    }

    fn head(&self) -> Head {
        Head {
            sequence: self.link.sequence - 1,
            segment: self.segment,
            offset: self.offset,
            hash: Sha256(self.last_record_hash),
        }
    }
}

/// Follows the chain through one segment and judges what is behind its end.
fn find_end(folder: &Folder, segment: u64, anchor: Option<&Head>) -> Result<End, StartError> {
    let place = Place { path: folder.segment(segment), anchor };
    let mut reader = Reader::open(folder, segment).map_err(StartError::io("open", &place.path))?;
    let (header, hash) = match reader.header().map_err(StartError::io("read", &place.path))? {
        Ok(header) => header,
        Err(HeaderError::Version(found)) => {
            return Err(StartError::Version { file: place.path, found, known: format::VERSION });
        }
        Err(HeaderError::Short | HeaderError::Damaged) => {
            let rest = place.examine(0, 1)?;
            place.refuse_proven(0, &rest, "its header is damaged")?;
            return Ok(End::NoSegment { cut_bytes: rest.end });
        }
    };
    if header.segment != segment {
        return Err(StartError::corrupt(
            &place.path,
            0,
            format!("it is segment {} under another name", header.segment),
        ));
    }
    let Some(before) = header.first_sequence.checked_sub(1) else {
        return Err(StartError::corrupt(&place.path, 0, "it begins with record 0, and records begin with 1"));
    };
    let mut link = Link { hash, sequence: header.first_sequence };
    place.check_anchor(before, &header.previous_hash, 0)?;
    let mut last_record_hash = header.previous_hash;
    let mut open_calls = BTreeSet::from_iter(header.open_calls);
    let what = loop {
        match reader.next(&mut link).map_err(StartError::io("read", &place.path))? {
            Step::End => break "zeros stand where a record was".to_owned(),
            Step::Bad(what) => break what,
            Step::Record { offset, header, .. } => {
                place.check_anchor(header.sequence, &header.hash, offset)?;
                last_record_hash = header.hash;
                match header.kind {
                    RecordKind::CallOpen => drop(open_calls.insert(header.sequence)),
                    RecordKind::CallClose => drop(open_calls.remove(&header.of)),
                    _ => {}
                }
            }
        }
    };
    let offset = reader.offset();
    let rest = place.examine(offset, link.sequence)?;
    place.refuse_proven(offset, &rest, &what)?;
    place.refuse_anchored(offset, &rest, link.sequence, &what)?;
    Ok(End::At(GoodEnd {
        segment,
        offset,
        file_bytes: rest.file_bytes,
        link,
        last_record_hash,
        open_calls,
        rest,
    }))
}

/// What lies behind the last good record.
struct Rest {
    /// Behind the last byte that is not zero; the place itself where there is none.
    end: u64,
    file_bytes: u64,
    /// A later intact record that was written when the place was on disk already.
    proof: Option<u64>,
    /// Whether the bytes can be the beginning of a record with nothing behind it, as a shortened file has.
    is_cut_off: bool,
}

struct Place<'a> {
    path: PathBuf,
    anchor: Option<&'a Head>,
}

impl Place<'_> {
    fn check_anchor(&self, sequence: u64, hash: &Hash, offset: u64) -> Result<(), StartError> {
        match self.anchor {
            Some(head) if head.sequence == sequence && sequence > 0 && head.hash.0 != *hash => {
                let what =
                    format!("record {sequence} is not the one that `head` names; the chain was made anew");
                Err(StartError::corrupt(&self.path, offset, what))
            }
            _ => Ok(()),
        }
    }

    fn refuse_proven(&self, offset: u64, rest: &Rest, what: &str) -> Result<(), StartError> {
        let Some(proof) = rest.proof else { return Ok(()) };
        let what =
            format!("{what}; the intact record at offset {proof} was written after this place was on disk");
        Err(StartError::corrupt(&self.path, offset, what))
    }

    fn refuse_anchored(&self, offset: u64, rest: &Rest, sequence: u64, what: &str) -> Result<(), StartError> {
        match self.anchor {
            Some(head) if head.sequence >= sequence && !rest.is_cut_off => {
                let what = format!("{what}; `head` says that record {} was acknowledged", head.sequence);
                Err(StartError::corrupt(&self.path, offset, what))
            }
            _ => Ok(()),
        }
    }

    fn examine(&self, offset: u64, sequence: u64) -> Result<Rest, StartError> {
        let examined = File::open(&self.path).and_then(|file| examine(&file, offset, sequence));
        examined.map_err(StartError::io("read", &self.path))
    }
}

fn examine(file: &File, offset: u64, sequence: u64) -> io::Result<Rest> {
    let file_bytes = file.metadata()?.len();
    let end = last_data(file, offset)?;
    let mut bytes = vec![0; usize::try_from(end - offset).map_err(io::Error::other)?];
    read_up_to(file, &mut bytes, offset)?;
    Ok(Rest { end, file_bytes, proof: proof(&bytes, offset, sequence), is_cut_off: is_cut_off(&bytes) })
}

/// Behind the last byte that is not zero.
pub fn last_data(file: &File, from: u64) -> io::Result<u64> {
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

/// Where the file may have something else than zeros, so that space that was only set aside costs no reading. All asked
/// before anything is read: what reading ahead puts into the page cache counts as written.
fn written_ranges(file: &File, from: u64) -> io::Result<Vec<Range<u64>>> {
    let (size, mut at, mut ranges) = (file.metadata()?.len(), from, Vec::new());
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            // A file system that does not know: everything may be.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(size).max(start + 1);
        ranges.push(start..end);
        at = end;
    }
    Ok(ranges)
}

/// Looks for an intact record that says it was written after `offset` was synced. Records stand on multiples
/// of eight.
fn proof(bytes: &[u8], offset: u64, sequence: u64) -> Option<u64> {
    let places = (8..bytes.len()).step_by(8);
    places.map(|place| (place, offset + place as u64)).find_map(|(place, at)| {
        match format::find(&bytes[place..]) {
            Found::Record(header, payload) => {
                let proves = header.durable > offset && header.durable <= at && header.sequence >= sequence;
                (proves && header.fits(payload)).then_some(at)
            }
            _ => None,
        }
    })
}

/// `bytes` end with the last byte that is not zero, and no payload ends with a zero: a record that lacks
/// bytes lost its end.
fn is_cut_off(bytes: &[u8]) -> bool {
    matches!(format::find(bytes), Found::Short(_))
}
