//! Reads records in order and judges each by the one before it.
//!
//! Recovery, `verify` and the indexer all read through this, so there is one opinion of what a good record
//! is. A reader never looks past its limit: in the segment that is being written, that is how far it is
//! synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::folder::Folder;
use super::format::{self, Found, Hash, HeaderError, RECORD_HEADER_BYTES, RecordHeader, SegmentHeader};
use super::place::Place;
use super::record::Sha256;

const CHUNK_BYTES: usize = 256 * 1024;

/// What the next record has to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub hash: Hash,
    /// The sequence that the next record must have.
    pub sequence: u64,
}

/// What stands at the reader's place.
#[derive(Debug)]
pub enum Step<'a> {
    Record {
        offset: u64,
        header: RecordHeader,
        payload: &'a [u8],
    },
    /// The limit, the end of the file, or zeros.
    End,
    /// Not a record that belongs here, and why.
    Bad(String),
}

pub struct Reader {
    file: File,
    /// Bytes of the file from `offset - start` on.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    limit: u64,
    judged: bool,
}

impl Reader {
    pub fn open(folder: &Folder, segment: u64) -> io::Result<Self> {
        let file = File::open(folder.segment(segment))?;
        let limit = file.metadata()?.len();
        Ok(Self { file, buffer: Vec::new(), start: 0, offset: 0, limit, judged: true })
    }

    /// Does not read at or beyond this offset.
    pub fn limited(mut self, offset: u64) -> Self {
        self.limit = self.limit.min(offset);
        self
    }

    /// Takes records at their word but for their order, for a reader of what this process wrote and hashed a moment ago.
    pub fn unjudged(mut self) -> Self {
        self.judged = false;
        self
    }

    pub fn at(mut self, offset: u64) -> Self {
        (self.buffer, self.start, self.offset) = (Vec::new(), 0, offset);
        self
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the segment's header, and stands at the first record after it.
    pub fn header(&mut self) -> io::Result<Result<(SegmentHeader, Hash), HeaderError>> {
        let mut wanted = CHUNK_BYTES;
        loop {
            let whole = self.fill(wanted)?;
            match SegmentHeader::decode(self.ahead()) {
                Err(HeaderError::Short) if whole => wanted *= 2,
                Ok((header, hash)) => {
                    self.advance(header.bytes());
                    return Ok(Ok((header, hash)));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// The next record, if it follows `link`; then `link` is what the one after it has to follow.
    pub fn next(&mut self, link: &mut Link) -> io::Result<Step<'_>> {
        let mut wanted = RECORD_HEADER_BYTES;
        loop {
            let whole = self.fill(wanted)?;
            match format::find(self.ahead()) {
                Found::Short(bytes) if whole && bytes > wanted => wanted = bytes,
                Found::Short(_) if self.ahead().iter().all(|byte| *byte == 0) => return Ok(Step::End),
                Found::Short(_) => return Ok(Step::Bad("the file ends inside of a record".into())),
                Found::Zeros => return Ok(Step::End),
                Found::Nonsense => return Ok(Step::Bad("no record begins here".into())),
                Found::Record(header, _) => {
                    // The padding is looked at too.
                    self.fill(format::record_bytes(header.length as usize))?;
                    return Ok(self.take(header, link));
                }
            }
        }
    }

    fn take(&mut self, header: RecordHeader, link: &mut Link) -> Step<'_> {
        let (offset, from) = (self.offset, self.start + RECORD_HEADER_BYTES);
        let length = header.length as usize;
        let good = if self.judged { judge(&header, self.ahead(), link) } else { in_order(&header, link) };
        if let Err(what) = good {
            return Step::Bad(what);
        }
        *link = Link { hash: header.hash, sequence: header.sequence.saturating_add(1) };
        self.advance(header.bytes());
        Step::Record { offset, header, payload: &self.buffer[from..from + length] }
    }

    fn ahead(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.start += usize::try_from(bytes).unwrap_or(usize::MAX);
    }

    /// Whether that many bytes are ahead, after reading what there is.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.ahead().len() >= wanted {
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

/// Whether the record at the start of `bytes` is whole and follows `link`.
pub fn judge(header: &RecordHeader, bytes: &[u8], link: &Link) -> Result<(), String> {
    in_order(header, link)?;
    let (payload_end, end) =
        (RECORD_HEADER_BYTES + header.length as usize, format::record_bytes(header.length as usize));
    let payload = &bytes[RECORD_HEADER_BYTES..payload_end];
    let digest = Sha256::of(payload).0;
    if format::checksum(&digest) != header.checksum {
        return Err(format!("the content of record {} does not match its checksum", header.sequence));
    }
    if format::expected_hash(bytes, &link.hash, &digest) != header.hash {
        return Err(format!("record {} does not follow from the one before it", header.sequence));
    }
    if bytes[payload_end..end.min(bytes.len())].iter().any(|byte| *byte != 0) {
        return Err(format!("something stands behind record {}", header.sequence));
    }
    Ok(())
}

fn in_order(header: &RecordHeader, link: &Link) -> Result<(), String> {
    match header.sequence {
        sequence if sequence != link.sequence => {
            Err(format!("record {sequence} stands where record {} belongs", link.sequence))
        }
        u64::MAX => Err("no record can follow the one of the greatest number".to_owned()),
        _ => Ok(()),
    }
}

/// One record by its place, judged by its checksum alone.
pub fn read_one(folder: &Folder, place: Place) -> io::Result<(RecordHeader, Vec<u8>)> {
    read_from(&File::open(folder.segment(place.segment))?, place.offset)
}

/// The same, from a file that is open.
pub fn read_from(file: &File, offset: u64) -> io::Result<(RecordHeader, Vec<u8>)> {
    let mut bytes = vec![0; 4096];
    loop {
        let count = read_up_to(file, &mut bytes, offset)?;
        match format::find(&bytes[..count]) {
            Found::Short(wanted) if count == bytes.len() => bytes.resize(wanted, 0),
            Found::Record(header, payload) if header.fits(payload) => return Ok((header, payload.to_vec())),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("no whole record at offset {offset}"),
                ));
            }
        }
    }
}

pub fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
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
