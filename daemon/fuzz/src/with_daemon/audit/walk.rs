//! A second reader of segments, made from the picture in the head of `daemon/src/audit/format.rs`.

use ring::digest::{SHA256, digest};

pub type Hash = [u8; 32];

const HEADER_BYTES: usize = 112;
const RECORD_BYTES: usize = 80;
const CHAINED_BYTES: usize = 48;
const PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1;

/// A segment as far as it is good.
pub struct Walked {
    segment: u64,
    first_sequence: u64,
    previous: Hash,
    header_end: usize,
    pub good: Vec<Good>,
}

/// One good record.
#[derive(Clone, Copy)]
pub struct Good {
    pub sequence: u64,
    pub hash: Hash,
    /// Behind its padding.
    pub end: usize,
}

impl Walked {
    /// Whether it can be the first segment of a log.
    pub fn is_first(&self) -> bool {
        (self.segment, self.first_sequence, self.previous) == (1, 1, [0; 32])
    }

    /// Whether nothing but zeros stands behind the good records.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.get(self.end()..).unwrap_or_default().iter().all(|byte| *byte == 0)
    }

    pub fn end(&self) -> usize {
        self.good.last().map_or(self.header_end, |last| last.end)
    }

    pub fn last_sequence(&self) -> u64 {
        self.good.last().map_or(self.first_sequence.wrapping_sub(1), |last| last.sequence)
    }

    pub fn last_hash(&self) -> Hash {
        self.good.last().map_or(self.previous, |last| last.hash)
    }
}

/// Reads a segment; none where it has no whole header.
pub fn walk(bytes: &[u8]) -> Option<Walked> {
    let end = header_end(bytes)?;
    let sound =
        &bytes[..8] == b"TGAUDIT\n" && u32_at(bytes, 8) == 1 && bytes[80..112] == header_digest(bytes, end);
    let mut walked = Walked {
        segment: u64_at(bytes, 16),
        first_sequence: u64_at(bytes, 24),
        previous: hash_at(bytes, 48),
        header_end: end,
        good: Vec::new(),
    };
    let (mut at, mut hash, mut sequence) = (end, hash_at(bytes, 80), walked.first_sequence);
    while let Some(good) = record(bytes, at, &hash, sequence) {
        (at, hash, sequence) = (good.end, good.hash, sequence.wrapping_add(1));
        walked.good.push(good);
    }
    sound.then_some(walked)
}

/// Makes digests, checksums and hashes fit what is there, as far as lengths make sense.
pub fn refit(bytes: &mut [u8]) {
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

fn header_end(bytes: &[u8]) -> Option<usize> {
    let open_calls = bytes.get(..HEADER_BYTES).map(|fixed| u32_at(fixed, 12))?;
    let end = HEADER_BYTES + 8 * open_calls as usize;
    (end <= bytes.len()).then_some(end)
}

fn header_digest(bytes: &[u8], end: usize) -> Hash {
    sha256(&[&bytes[..80], &bytes[HEADER_BYTES..end]])
}

fn payload_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..at + RECORD_BYTES)?;
    let length = u32_at(head, 0) as usize;
    let known = (1..=5).contains(&u32_at(head, 4)) && (1..=PAYLOAD_BYTES_MAX).contains(&length);
    (known && bytes.len() >= at + RECORD_BYTES + length).then_some(length)
}

fn record(bytes: &[u8], at: usize, previous: &Hash, sequence: u64) -> Option<Good> {
    let length = payload_bytes(bytes, at)?;
    let (head, payload_end) = (&bytes[at..at + RECORD_BYTES], at + RECORD_BYTES + length);
    let payload = sha256(&[&bytes[at + RECORD_BYTES..payload_end]]);
    let end = at + (RECORD_BYTES + length).next_multiple_of(8);
    let padding = &bytes[payload_end..end.min(bytes.len())];
    let hash = sha256(&[previous, &head[..CHAINED_BYTES], &payload]);
    let sound = u64_at(head, 16) == sequence
        // Nothing could follow the last number there is.
        && sequence < u64::MAX
        && head[8..16] == payload[..8]
        && head[CHAINED_BYTES..] == hash
        && padding.iter().all(|byte| *byte == 0);
    sound.then_some(Good { sequence, hash, end })
}

fn sha256(parts: &[&[u8]]) -> Hash {
    hash_at(digest(&SHA256, &parts.concat()).as_ref(), 0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn hash_at(bytes: &[u8], at: usize) -> Hash {
    array_at(bytes, at)
}

fn array_at<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().expect("the caller looked")
}
