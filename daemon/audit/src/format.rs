//! Encoding of a segment file. Pure functions on byte slices.
//!
//! ```text
//! segment   header | record | record | … | zeros to the preallocated end
//! header    magic 8 · version u32 · count of open intents u32 · segment u64 · first sequence u64 · made at u64 · 0 u64
//!           · last hash of the previous segment 32 · digest 32 · sequences of the open intents u64 each
//! record    length u32 · kind u32 · checksum u64 · sequence u64 · of u64 · at u64 · durable u64 · hash 32 · payload · zeros to 8
//! ```
//! Little endian, header and records aligned to eight bytes. `checksum` is the start of the payload's SHA-256, so that a record
//! can be validated alone; `hash` = SHA-256(previous hash, the 48 bytes before it, SHA-256 of the payload), where the previous
//! hash of the first record is the digest of the header. The header lists the intents that had no outcome when the segment began,
//! so that recovery reads one segment, however long a call or an act lasts.
//!
//! `durable` is the offset up to which the segment was synced when the record was written. An intact record whose `durable` lies
//! beyond a damaged record proves that the damaged one was acknowledged: this tells damage from a torn write at the end. No
//! payload can imitate a record, since JSON text contains no zero bytes and the high byte of `length` is always zero.

use super::record::sha256;
use ring::digest;
use serde::Serialize;

pub(crate) const MAGIC: [u8; 8] = *b"TGAUDIT\n";
pub(crate) const VERSION: u32 = 1;
pub(crate) const RECORD_HEADER_BYTES: usize = 80;
/// Limit of a payload: well above the largest arguments, and below 2^24, so that the high byte of `length` is zero.
pub(crate) const PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1;
const CHAINED_BYTES: usize = 48;
const SEGMENT_FIXED_BYTES: usize = 112;
const DIGEST_AT: usize = 80;
/// Initial capacity of an encoded record, enough for most.
const RECORD_CAPACITY: usize = 1024;
/// Segments are smaller than 4 GiB (see [`AuditSettings`](super::AuditSettings)).
const OFFSET_BITS: u32 = 32;

pub(crate) type Hash = [u8; 32];

/// Start of a record in the log; one integer in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub segment: u64,
    pub offset: u64,
}

impl LogPosition {
    pub(crate) fn pack(self) -> i64 {
        i64::try_from(self.segment << OFFSET_BITS | self.offset).unwrap_or(i64::MAX)
    }

    pub(crate) fn unpack(number: i64) -> Self {
        let number = u64::try_from(number).unwrap_or(0);
        Self { segment: number >> OFFSET_BITS, offset: number & ((1 << OFFSET_BITS) - 1) }
    }
}

/// The type of a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    CallOpen = 1,
    /// The outcome of the call or the act whose intent it names.
    Close = 2,
    Effect = 3,
    /// An act with its outcome: one of the daemon itself, or of a version that recorded no intents of acts.
    Admin = 4,
    Recovery = 5,
    /// The intent of an act.
    AdminOpen = 6,
}

impl RecordKind {
    fn read(number: u32) -> Option<Self> {
        [Self::CallOpen, Self::Close, Self::Effect, Self::Admin, Self::Recovery, Self::AdminOpen]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }

    /// Whether a record of this kind is followed by an outcome.
    pub(crate) fn is_intent(self) -> bool {
        matches!(self, Self::CallOpen | Self::AdminOpen)
    }
}

/// The header of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub segment: u64,
    pub first_sequence: u64,
    pub made_at_ms: u64,
    pub previous_hash: Hash,
    /// Sequences of the intents without outcome, ascending.
    pub open_intents: Vec<u64>,
}

/// The start of the bytes is not a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Short,
    Version(u32),
    Damaged,
}

impl SegmentHeader {
    pub(crate) const fn bytes_for(open_intents: u64) -> u64 {
        SEGMENT_FIXED_BYTES as u64 + 8 * open_intents
    }

    pub(crate) fn bytes(&self) -> u64 {
        Self::bytes_for(self.open_intents.len() as u64)
    }

    /// Returns the encoded header and its digest, the previous hash of the first record.
    pub(crate) fn encode(&self) -> (Vec<u8>, Hash) {
        let mut bytes = Vec::with_capacity(SEGMENT_FIXED_BYTES + 8 * self.open_intents.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(self.open_intents.len()).unwrap_or(u32::MAX).to_le_bytes());
        for number in [self.segment, self.first_sequence, self.made_at_ms, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.previous_hash);
        bytes.extend_from_slice(&[0; 32]);
        for sequence in &self.open_intents {
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        let digest = segment_digest(&bytes);
        bytes[DIGEST_AT..SEGMENT_FIXED_BYTES].copy_from_slice(&digest);
        (bytes, digest)
    }

    /// Decodes the header at the start of `bytes`; `Short` means that more bytes are needed.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Hash), HeaderError> {
        let fixed = bytes.get(..SEGMENT_FIXED_BYTES).ok_or(HeaderError::Short)?;
        match (fixed[..8] == MAGIC, u32_at(fixed, 8)) {
            (true, VERSION) => {}
            // No version has the number 0: the header was overwritten with zeros.
            (false, _) | (true, 0) => return Err(HeaderError::Damaged),
            (true, version) => return Err(HeaderError::Version(version)),
        }
        let end = SEGMENT_FIXED_BYTES + 8 * u32_at(fixed, 12) as usize;
        let whole = bytes.get(..end).ok_or(HeaderError::Short)?;
        let digest = segment_digest(whole);
        if fixed[DIGEST_AT..] != digest {
            return Err(HeaderError::Damaged);
        }
        let open_intents = whole[SEGMENT_FIXED_BYTES..]
            .as_chunks()
            .0
            .iter()
            .map(|number| u64::from_le_bytes(*number))
            .collect();
        let header = Self {
            segment: u64_at(fixed, 16),
            first_sequence: u64_at(fixed, 24),
            made_at_ms: u64_at(fixed, 32),
            previous_hash: hash_at(fixed, 48),
            open_intents,
        };
        Ok((header, digest))
    }
}

/// Hashes everything except the digest itself.
fn segment_digest(bytes: &[u8]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&bytes[..DIGEST_AT]);
    context.update(&bytes[SEGMENT_FIXED_BYTES..]);
    finish(context)
}

/// The fixed-size part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub length: u32,
    pub kind: RecordKind,
    pub checksum: u64,
    pub sequence: u64,
    /// The sequence of the intent that an outcome or effect belongs to; 0 for the others.
    pub of: u64,
    pub at_ms: u64,
    pub durable: u64,
    pub hash: Hash,
}

impl RecordHeader {
    /// Size of header, payload and padding.
    pub(crate) fn bytes(&self) -> u64 {
        record_bytes(self.length as usize) as u64
    }

    /// Compares the checksum with the payload.
    pub(crate) fn has_payload(&self, payload: &[u8]) -> bool {
        checksum(&sha256(payload).0) == self.checksum
    }
}

pub(crate) const fn record_bytes(payload_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(8)
}

/// Encodes a record, except for sequence, `durable` and hash, which [`seal`] adds. The expensive part happens here, in the
/// caller's thread; the digest of the payload is stored in place of the hash.
pub(crate) fn encode(kind: RecordKind, of: u64, at_ms: u64, body: &impl Serialize) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_CAPACITY);
    record.resize(RECORD_HEADER_BYTES, 0);
    // INVARIANT: bodies are structs of `record.rs` with string keys, no maps and no NaN: they always serialize.
    let _ = serde_json::to_writer(&mut record, body);
    let payload = &record[RECORD_HEADER_BYTES..];
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let digest = sha256(payload).0;
    record.resize(record_bytes(length as usize), 0);
    put(&mut record, 0, &length.to_le_bytes());
    put(&mut record, 4, &(kind as u32).to_le_bytes());
    put(&mut record, 8, &digest[..8]);
    put(&mut record, 24, &of.to_le_bytes());
    put(&mut record, 32, &at_ms.to_le_bytes());
    put(&mut record, 48, &digest);
    record
}

/// Completes a record with the fields that the writer knows, and returns its hash.
pub(crate) fn seal(record: &mut [u8], sequence: u64, durable: u64, previous: &Hash) -> Hash {
    put(record, 16, &sequence.to_le_bytes());
    put(record, 40, &durable.to_le_bytes());
    let digest = hash_at(record, 48);
    let hash = chain(previous, &record[..CHAINED_BYTES], &digest);
    put(record, 48, &hash);
    hash
}

fn chain(previous: &Hash, chained: &[u8], payload_digest: &Hash) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(previous);
    context.update(chained);
    context.update(payload_digest);
    finish(context)
}

/// Result of [`parse_record`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedRecord<'a> {
    Record(RecordHeader, &'a [u8]),
    /// Zeros in place of a header: the end.
    Zeros,
    /// An incomplete record of this many bytes.
    Short(usize),
    /// Not the start of a record.
    Invalid,
}

/// Parses the record at the start of `bytes`, without validating its checksum and hash.
pub(crate) fn parse_record(bytes: &[u8]) -> ParsedRecord<'_> {
    let Some(head) = bytes.get(..RECORD_HEADER_BYTES) else {
        return ParsedRecord::Short(RECORD_HEADER_BYTES);
    };
    if head.iter().all(|byte| *byte == 0) {
        return ParsedRecord::Zeros;
    }
    let length = u32_at(head, 0);
    let (Some(kind), 1..=PAYLOAD_BYTES_MAX) = (RecordKind::read(u32_at(head, 4)), length as usize) else {
        return ParsedRecord::Invalid;
    };
    let Some(payload) = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + length as usize) else {
        return ParsedRecord::Short(record_bytes(length as usize));
    };
    let header = RecordHeader {
        length,
        kind,
        checksum: u64_at(head, 8),
        sequence: u64_at(head, 16),
        of: u64_at(head, 24),
        at_ms: u64_at(head, 32),
        durable: u64_at(head, 40),
        hash: hash_at(head, 48),
    };
    ParsedRecord::Record(header, payload)
}

/// Computes the hash of the record at the start of `bytes`.
pub(crate) fn expected_hash(bytes: &[u8], previous: &Hash, payload_digest: &Hash) -> Hash {
    chain(previous, &bytes[..CHAINED_BYTES], payload_digest)
}

/// Returns the hash field of the record at the start of `bytes`, even if the record is damaged.
pub(crate) fn stored_hash(bytes: &[u8]) -> Option<Hash> {
    bytes.get(..RECORD_HEADER_BYTES).map(|head| hash_at(head, CHAINED_BYTES))
}

/// Returns the digest field of the segment header at the start of `bytes`, even if the header is damaged.
pub(crate) fn stored_digest(bytes: &[u8]) -> Option<Hash> {
    bytes.get(..SEGMENT_FIXED_BYTES).map(|fixed| hash_at(fixed, DIGEST_AT))
}

pub(crate) fn checksum(digest: &Hash) -> u64 {
    u64_at(digest, 0)
}

fn finish(context: digest::Context) -> Hash {
    hash_at(context.finish().as_ref(), 0)
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn hash_at(bytes: &[u8], at: usize) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(&bytes[at..at + 32]);
    hash
}
