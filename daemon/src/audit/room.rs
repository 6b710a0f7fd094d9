//! How much of the space taken in advance is left, and who may have it. Pure arithmetic.
//!
//! The log owns the rest of the current segment and one spare. Every record is placed here, in order, before
//! it is written, so that the answer "full" comes while the caller can still refuse, and an outcome never
//! finds the disk full: an intent is taken only if after it the outcomes of all open calls still fit, and the
//! reserve is untouched. Effects may go into half of the reserve, administrative acts into all of it (an
//! operator who makes room must be able to), outcomes into everything.

use super::format::SegmentHeader;

/// An outcome with every number at its longest stays below this.
pub const CLOSE_BYTES_MAX: u64 = 1024;

/// Who asks for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Intent,
    Effect,
    Admin,
    Outcome,
}

#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Unplaced bytes of the segment that the next record goes to.
    pub left_bytes: u64,
    /// Size of the spare segment, if there is one.
    pub spare_bytes: Option<u64>,
    pub reserve_bytes: u64,
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// It is the first record of the spare.
    pub begins_segment: bool,
}

impl Room {
    /// Takes `bytes` for a record, or leaves everything as it was.
    pub fn place(&mut self, claim: Claim, bytes: u64, open_calls: u64) -> Option<Place> {
        let mut after = *self;
        let begins_segment = bytes > after.left_bytes;
        if begins_segment {
            after.left_bytes = after.spare_bytes.take()?.checked_sub(SegmentHeader::bytes_for(open_calls))?;
        }
        after.left_bytes = after.left_bytes.checked_sub(bytes)?;
        if after.usable(open_calls) < self.floor(claim, open_calls) {
            return None;
        }
        *self = after;
        Some(Place { begins_segment })
    }

    /// What small records can still get: the end of a segment that one of them does not fit into is lost, and
    /// so is the next header.
    fn usable(&self, open_calls: u64) -> u64 {
        let lost = SegmentHeader::bytes_for(open_calls) + CLOSE_BYTES_MAX;
        self.left_bytes + self.spare_bytes.map_or(0, |bytes| bytes.saturating_sub(lost))
    }

    fn floor(&self, claim: Claim, open_calls: u64) -> u64 {
        let outcomes = open_calls.saturating_mul(CLOSE_BYTES_MAX);
        match claim {
            Claim::Intent => self.reserve_bytes.max(outcomes + CLOSE_BYTES_MAX),
            Claim::Effect => (self.reserve_bytes / 2).max(outcomes),
            Claim::Admin => outcomes,
            Claim::Outcome => 0,
        }
    }
}
