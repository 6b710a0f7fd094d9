//! Reads and validates records; finds the next valid record after a damaged one.
//!
//! Recovery, `verify` and the indexer share this reader, so that they agree on the validity of a record. In the segment that is
//! being written, the limit of a reader is the synced offset.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::folder::Folder;
use super::format::{
    self, Hash, HeaderError, LogPosition, ParsedRecord, RECORD_HEADER_BYTES, RecordHeader, SegmentHeader,
};
use super::record::Anchor;
use super::record::Sha256;
use super::record::sha256;

const CHUNK_BYTES: usize = 256 * 1024;

/// Expected sequence and previous hash of the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainLink {
    pub hash: Hash,
    pub sequence: u64,
}

/// Result of [`Reader::next`].
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Record {
        offset: u64,
        header: RecordHeader,
        payload: &'a [u8],
    },
    /// The limit, the end of the file, or zeros.
    End,
    /// An invalid record, and the reason.
    Bad(String),
}

pub(crate) struct Reader {
    file: File,
    /// Bytes of the file from `offset - start` on.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    limit: u64,
    checks: bool,
}

impl Reader {
    pub(crate) fn open(folder: &Folder, segment: u64) -> io::Result<Self> {
        let file = File::open(folder.segment(segment))?;
        let limit = file.metadata()?.len();
        Ok(Self { file, buffer: Vec::new(), start: 0, offset: 0, limit, checks: true })
    }

    /// Reads no further than this offset.
    pub(crate) fn with_limit(mut self, offset: u64) -> Self {
        self.limit = self.limit.min(offset);
        self
    }

    /// Skips checksums and hashes, to read records that this process wrote a moment ago.
    pub(crate) fn without_checks(mut self) -> Self {
        self.checks = false;
        self
    }

    pub(crate) fn at(mut self, offset: u64) -> Self {
        (self.buffer, self.start, self.offset) = (Vec::new(), 0, offset);
        self
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the header of the segment and moves to its first record.
    pub(crate) fn header(&mut self) -> io::Result<Result<(SegmentHeader, Hash), HeaderError>> {
        let mut wanted = CHUNK_BYTES;
        loop {
            let is_filled = self.fill(wanted)?;
            match SegmentHeader::decode(self.unread()) {
                Err(HeaderError::Short) if is_filled => wanted *= 2,
                Ok((header, hash)) => {
                    self.advance(header.bytes());
                    return Ok(Ok((header, hash)));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Reads the next record if it follows `link`, and updates `link` for the one after it.
    pub(crate) fn next(&mut self, link: &mut ChainLink) -> io::Result<Step<'_>> {
        let mut wanted = RECORD_HEADER_BYTES;
        loop {
            let is_filled = self.fill(wanted)?;
            match format::parse_record(self.unread()) {
                ParsedRecord::Short(bytes) if is_filled && bytes > wanted => wanted = bytes,
                ParsedRecord::Short(_) if self.unread().iter().all(|byte| *byte == 0) => {
                    return Ok(Step::End);
                }
                ParsedRecord::Short(_) => return Ok(Step::Bad("the file ends inside of a record".into())),
                ParsedRecord::Zeros => return Ok(Step::End),
                ParsedRecord::Invalid => return Ok(Step::Bad("no record begins here".into())),
                ParsedRecord::Record(header, _) => {
                    // The padding is validated too.
                    self.fill(format::record_bytes(header.length as usize))?;
                    return Ok(self.take(header, link));
                }
            }
        }
    }

    fn take(&mut self, header: RecordHeader, link: &mut ChainLink) -> Step<'_> {
        let (offset, from) = (self.offset, self.start + RECORD_HEADER_BYTES);
        let length = header.length as usize;
        let result = if self.checks {
            validate(&header, self.unread(), link)
        } else {
            validate_sequence(&header, link)
        };
        if let Err(what) = result {
            return Step::Bad(what);
        }
        *link = ChainLink { hash: header.hash, sequence: header.sequence.saturating_add(1) };
        self.advance(header.bytes());
        Step::Record { offset, header, payload: &self.buffer[from..from + length] }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.start += usize::try_from(bytes).unwrap_or(usize::MAX);
    }

    /// Reads until `wanted` bytes are unread; returns false if the file or the limit ends before.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.unread().len() >= wanted {
            return Ok(true);
        }
        self.buffer.drain(..self.start.min(self.buffer.len()));
        self.start = 0;
        let have = self.buffer.len();
        let left = usize::try_from(self.limit.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.buffer.resize(wanted.max(CHUNK_BYTES).min(left).max(have), 0);
        let filled = have + read_up_to(&self.file, &mut self.buffer[have..], self.offset + have as u64)?;
        self.buffer.truncate(filled);
        Ok(filled >= wanted)
    }
}

/// Validates the record at the start of `bytes`: sequence, checksum, hash, padding.
fn validate(header: &RecordHeader, bytes: &[u8], link: &ChainLink) -> Result<(), String> {
    validate_sequence(header, link)?;
    let (payload_end, end) =
        (RECORD_HEADER_BYTES + header.length as usize, format::record_bytes(header.length as usize));
    let payload = &bytes[RECORD_HEADER_BYTES..payload_end];
    let digest = sha256(payload).0;
    if format::checksum(&digest) != header.checksum {
        return Err(format!("the content of record {} does not match its checksum", header.sequence));
    }
    if format::expected_hash(bytes, &link.hash, &digest) != header.hash {
        return Err(format!("record {} does not follow from the one before it", header.sequence));
    }
    if bytes[payload_end..end.min(bytes.len())].iter().any(|byte| *byte != 0) {
        return Err(format!("the padding of record {} is not zero", header.sequence));
    }
    Ok(())
}

fn validate_sequence(header: &RecordHeader, link: &ChainLink) -> Result<(), String> {
    match header.sequence {
        sequence if sequence != link.sequence => {
            Err(format!("found record {sequence} instead of record {}", link.sequence))
        }
        u64::MAX => Err("the sequence is the largest number, so no record can follow".to_owned()),
        _ => Ok(()),
    }
}

/// Reads one record by its position and validates its checksum alone.
pub(crate) fn read_one(folder: &Folder, position: LogPosition) -> io::Result<(RecordHeader, Vec<u8>)> {
    read_from(&File::open(folder.segment(position.segment))?, position.offset)
}

/// Like [`read_one`], from an open file.
pub(crate) fn read_from(file: &File, offset: u64) -> io::Result<(RecordHeader, Vec<u8>)> {
    let mut bytes = vec![0; 4096];
    loop {
        let count = read_up_to(file, &mut bytes, offset)?;
        match format::parse_record(&bytes[..count]) {
            ParsedRecord::Short(wanted) if count == bytes.len() => bytes.resize(wanted, 0),
            ParsedRecord::Record(header, payload) if header.has_payload(payload) => {
                return Ok((header, payload.to_vec()));
            }
            _ => {
                let what = format!("no complete record at offset {offset}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
}

pub(crate) fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The next valid record after a damaged one, for the indexer; recovery and `verify` stop at damage.
pub(crate) struct ResyncPoint {
    /// The anchor before that record, as if the chain had been read up to it.
    pub from: Anchor,
    /// The skipped records were recorded before this time.
    pub before_ms: u64,
    /// The open intents, if the point is the start of a segment.
    pub open_intents: Option<Vec<u64>>,
}

/// Finds the next valid record after `bad`, up to `durable`.
///
/// A record is valid if its hash matches a previous hash found before it: the one in the damaged record itself, whose payload
/// alone may have changed, or in a record that cannot be validated. So a changed payload costs one record, and so does a changed
/// header that still has its hash. A segment is valid if its header is intact and names the segment; a segment under another
/// name and a segment whose records were read already are skipped. If no record is valid, reading continues at `durable`.
pub(crate) fn resync(folder: &Folder, bad: Anchor, durable: Anchor) -> io::Result<ResyncPoint> {
    let mut search = ResyncSearch { bad, durable, hashes: HashMap::from([(bad.sequence + 1, bad.hash.0)]) };
    for segment in bad.segment..=durable.segment {
        let from = if segment == bad.segment { bad.offset } else { 0 };
        let limit = if segment == durable.segment { durable.offset } else { u64::MAX };
        let Some(bytes) = read_range(folder, segment, from, limit)? else { continue };
        if let Some(point) = search.find_in_segment(segment, from, &bytes) {
            return Ok(point);
        }
    }
    Ok(ResyncPoint { from: durable, before_ms: super::now_ms(), open_intents: None })
}

/// Reads a segment from one offset to another; `None` if the file is missing.
fn read_range(folder: &Folder, segment: u64, from: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(folder.segment(segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let end = file.metadata()?.len().min(limit);
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(from)).map_err(io::Error::other)?];
    let filled = read_up_to(&file, &mut bytes, from)?;
    bytes.truncate(filled);
    Ok(Some(bytes))
}

struct ResyncSearch {
    bad: Anchor,
    durable: Anchor,
    /// Known previous hashes, by the sequence of the record that is chained to them.
    hashes: HashMap<u64, Hash>,
}

impl ResyncSearch {
    fn find_in_segment(&mut self, segment: u64, from: u64, bytes: &[u8]) -> Option<ResyncPoint> {
        if from > 0 {
            // The payload of the damaged record may have changed and its hash not.
            self.hashes.extend(format::stored_hash(bytes).map(|hash| (self.bad.sequence + 2, hash)));
            return self.find_record(segment, from, bytes);
        }
        match SegmentHeader::decode(bytes) {
            Ok((header, hash)) if self.can_follow(segment, &header) => {
                let (sequence, offset) = (header.first_sequence - 1, header.bytes());
                let from = Anchor { sequence, segment, offset, hash: Sha256(hash) };
                Some(ResyncPoint {
                    from,
                    before_ms: header.made_at_ms,
                    open_intents: Some(header.open_intents),
                })
            }
            Ok(_) => None,
            Err(_) => {
                self.hashes.extend(format::stored_digest(bytes).map(|hash| (self.bad.sequence + 1, hash)));
                self.find_record(segment, from, bytes)
            }
        }
    }

    /// After a gap the previous hash of the header cannot be checked; without a gap it must be the last hash.
    fn can_follow(&self, segment: u64, header: &SegmentHeader) -> bool {
        let (first, next) = (header.first_sequence, self.bad.sequence + 1);
        let chained = first > next || (first == next && header.previous_hash == self.bad.hash.0);
        header.segment == segment && chained && first <= self.durable.sequence
    }

    /// Tries every multiple of eight, the alignment of records.
    fn find_record(&mut self, segment: u64, from: u64, bytes: &[u8]) -> Option<ResyncPoint> {
        for at in (0..bytes.len()).step_by(8) {
            let (offset, unread) = (from + at as u64, &bytes[at..]);
            let ParsedRecord::Record(header, _) = format::parse_record(unread) else { continue };
            let sequence = header.sequence;
            if sequence <= self.bad.sequence || sequence > self.durable.sequence {
                continue;
            }
            if let Some(hash) = self.hashes.get(&sequence).copied()
                && validate(&header, unread, &ChainLink { hash, sequence }).is_ok()
            {
                let from = Anchor { sequence: sequence - 1, segment, offset, hash: Sha256(hash) };
                return Some(ResyncPoint { from, before_ms: header.at_ms, open_intents: None });
            }
            self.hashes.insert(sequence + 1, header.hash);
        }
        None
    }
}
