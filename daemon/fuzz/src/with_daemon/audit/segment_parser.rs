//! A second parser of segments, written from the diagram at the top of `daemon/src/audit/format.rs`.

use ring::digest::{SHA256, digest};

pub type Hash = [u8; 32];

const HEADER_BYTES: usize = 112;
const RECORD_BYTES: usize = 80;
const CHAINED_BYTES: usize = 48;
const PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1;

/// The valid prefix of a segment.
pub struct Segment {
    number: u64,
    first_sequence: u64,
    previous: Hash,
    header_end: usize,
    pub records: Vec<ValidRecord>,
}

#[derive(Clone, Copy)]
pub struct ValidRecord {
    pub sequence: u64,
    pub hash: Hash,
    /// Offset after its padding.
    pub end: usize,
}

impl Segment {
    /// Whether it can be the first segment of a log.
    pub fn is_first(&self) -> bool {
        (self.number, self.first_sequence, self.previous) == (1, 1, [0; 32])
    }

    /// Whether only zeros follow the valid records.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.get(self.end()..).unwrap_or_default().iter().all(|byte| *byte == 0)
    }

    pub fn end(&self) -> usize {
        self.records.last().map_or(self.header_end, |last| last.end)
    }

    pub fn last_sequence(&self) -> u64 {
        self.records.last().map_or(self.first_sequence.wrapping_sub(1), |last| last.sequence)
    }

    pub fn last_hash(&self) -> Hash {
        self.records.last().map_or(self.previous, |last| last.hash)
    }
}

/// Parses a segment; none if its header is not valid.
pub fn parse(bytes: &[u8]) -> Option<Segment> {
    let end = header_end(bytes)?;
    let is_valid =
        &bytes[..8] == b"TGAUDIT\n" && u32_at(bytes, 8) == 1 && bytes[80..112] == header_digest(bytes, end);
    let mut segment = Segment {
        number: u64_at(bytes, 16),
        first_sequence: u64_at(bytes, 24),
        previous: array_at(bytes, 48),
        header_end: end,
        records: Vec::new(),
    };
    let (mut at, mut hash, mut sequence) = (end, array_at(bytes, 80), segment.first_sequence);
    while let Some(record) = record(bytes, at, &hash, sequence) {
        (at, hash, sequence) = (record.end, record.hash, sequence.wrapping_add(1));
        segment.records.push(record);
    }
    is_valid.then_some(segment)
}

/// Recomputes digests, checksums and hashes, as far as the lengths are valid.
pub fn recompute_hashes(bytes: &mut [u8]) {
    let Some(mut at) = header_end(bytes) else { return };
    let mut hash = header_digest(bytes, at);
    bytes[80..112].copy_from_slice(&hash);
    while let Some(length) = payload_bytes(bytes, at) {
        let payload = sha256(&[&bytes[at + RECORD_BYTES..at + RECORD_BYTES + length]]);
        bytes[at + 8..at + 16].copy_from_slice(&payload[..8]);
        hash = sha256(&[&hash, &bytes[at..at + CHAINED_BYTES], &payload]);
        bytes[at + CHAINED_BYTES..at + RECORD_BYTES].copy_from_slice(&hash);
        at += (RECORD_BYTES + length).next_multiple_of(8);
    }
}

pub fn open_intents(bytes: &[u8]) -> Option<usize> {
    bytes.get(..HEADER_BYTES).map(|header| u32_at(header, 12) as usize)
}

fn header_end(bytes: &[u8]) -> Option<usize> {
    let end = HEADER_BYTES + 8 * open_intents(bytes)?;
    (end <= bytes.len()).then_some(end)
}

fn header_digest(bytes: &[u8], end: usize) -> Hash {
    sha256(&[&bytes[..80], &bytes[HEADER_BYTES..end]])
}

fn payload_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..at + RECORD_BYTES)?;
    let length = u32_at(head, 0) as usize;
    let known = (1..=6).contains(&u32_at(head, 4)) && (1..=PAYLOAD_BYTES_MAX).contains(&length);
    (known && bytes.len() >= at + RECORD_BYTES + length).then_some(length)
}

fn record(bytes: &[u8], at: usize, previous: &Hash, sequence: u64) -> Option<ValidRecord> {
    let length = payload_bytes(bytes, at)?;
    let (head, payload_end) = (&bytes[at..at + RECORD_BYTES], at + RECORD_BYTES + length);
    let payload = sha256(&[&bytes[at + RECORD_BYTES..payload_end]]);
    let end = at + (RECORD_BYTES + length).next_multiple_of(8);
    let padding = &bytes[payload_end..end.min(bytes.len())];
    let hash = sha256(&[previous, &head[..CHAINED_BYTES], &payload]);
    let is_valid = u64_at(head, 16) == sequence
        // The last number cannot have a successor.
        && sequence < u64::MAX
        && head[8..16] == payload[..8]
        && head[CHAINED_BYTES..] == hash
        && padding.iter().all(|byte| *byte == 0);
    is_valid.then_some(ValidRecord { sequence, hash, end })
}

fn sha256(parts: &[&[u8]]) -> Hash {
    array_at(digest(&SHA256, &parts.concat()).as_ref(), 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn array_at<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().expect("the caller checks the length")
}
