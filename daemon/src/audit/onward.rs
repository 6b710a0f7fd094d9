//! Finds where the log goes on behind a damaged place, for the indexer; recovery and `verify` stop there.
//!
//! A record is taken when the hash that it was chained to stands in front of it: in the damaged record itself, whose
//! content alone may have changed, or in a record that cannot be judged. So a changed content costs one record, and
//! a changed header one where its hash is still there. A segment is taken when its header is whole and is its own;
//! one that stands under another's name is passed over, and so is one whose records were seen already. Where nothing
//! is found, the log goes on at what the daemon knows that it wrote.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use super::folder::Folder;
use super::format::{self, Found, Hash, SegmentHeader};
use super::head::Head;
use super::reader::{Link, judge, read_up_to};
use super::record::Sha256;

/// Where a reader that came to a damaged place goes on.
pub struct Onward {
    /// The record before, as a reader has it that comes by the chain.
    pub from: Head,
    /// What is missing was recorded before this time.
    pub before_ms: u64,
    /// The calls that are open there, where it is the beginning of a segment.
    pub open_calls: Option<Vec<u64>>,
}

/// The next good record behind `bad`, up to `durable`.
pub fn find(folder: &Folder, bad: Head, durable: Head) -> io::Result<Onward> {
    let mut search = Search { bad, durable, hashes: HashMap::from([(bad.sequence + 1, bad.hash.0)]) };
    for segment in bad.segment..=durable.segment {
        let from = if segment == bad.segment { bad.offset } else { 0 };
        let limit = if segment == durable.segment { durable.offset } else { u64::MAX };
        let Some(bytes) = read(folder, segment, from, limit)? else { continue };
        if let Some(onward) = search.segment(segment, from, &bytes) {
            return Ok(onward);
        }
    }
    Ok(Onward { from: durable, before_ms: super::now_ms(), open_calls: None })
}

/// The bytes from there on; none where there is no such file.
fn read(folder: &Folder, segment: u64, from: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
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

struct Search {
    bad: Head,
    durable: Head,
    /// What the record of this sequence is chained to, as far as something says so.
    hashes: HashMap<u64, Hash>,
}

impl Search {
    fn segment(&mut self, segment: u64, from: u64, bytes: &[u8]) -> Option<Onward> {
        if from > 0 {
            // Its content may have changed, its hash not.
            self.hashes.extend(format::stored_hash(bytes).map(|hash| (self.bad.sequence + 2, hash)));
            return self.record(segment, from, bytes);
        }
        match SegmentHeader::decode(bytes) {
            Ok((header, hash)) if self.follows(segment, &header) => {
                let (sequence, offset) = (header.first_sequence - 1, header.bytes());
                let from = Head { sequence, segment, offset, hash: Sha256(hash) };
                Some(Onward { from, before_ms: header.made_at_ms, open_calls: Some(header.open_calls) })
            }
            Ok(_) => None,
            Err(_) => {
                self.hashes.extend(format::stored_digest(bytes).map(|hash| (self.bad.sequence + 1, hash)));
                self.record(segment, from, bytes)
            }
        }
    }

    /// Behind a gap nothing says what a header is chained to; without one it must be what was read last.
    fn follows(&self, segment: u64, header: &SegmentHeader) -> bool {
        let (first, next) = (header.first_sequence, self.bad.sequence + 1);
        let chained = first > next || (first == next && header.previous_hash == self.bad.hash.0);
        header.segment == segment && chained && first <= self.durable.sequence
    }

    /// Records stand on multiples of eight.
    fn record(&mut self, segment: u64, from: u64, bytes: &[u8]) -> Option<Onward> {
        let places = (0..bytes.len()).step_by(8).map(|at| (from + at as u64, &bytes[at..]));
        for (offset, ahead) in places {
            let Found::Record(header, _) = format::find(ahead) else { continue };
            let sequence = header.sequence;
            if sequence <= self.bad.sequence || sequence > self.durable.sequence {
                continue;
            }
            if let Some(hash) = self.hashes.get(&sequence).copied()
                && judge(&header, ahead, &Link { hash, sequence }).is_ok()
            {
                let from = Head { sequence: sequence - 1, segment, offset, hash: Sha256(hash) };
                return Some(Onward { from, before_ms: header.at_ms, open_calls: None });
            }
            self.hashes.insert(sequence + 1, header.hash);
        }
        None
    }
}
