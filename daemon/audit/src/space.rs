//! The space budget of the log: which records still fit into the allocated segments.

use super::format::{RecordKind, SegmentHeader};

/// Limit of an outcome record, with every number at its longest.
pub(crate) const CLOSE_BYTES_MAX: u64 = 1024;

/// The allocated space that is left: the rest of the current segment and one spare. Pure arithmetic.
///
/// Every record reserves its space here, in order, before it is queued. So "full" is known while the caller can still
/// refuse the call, and an outcome never meets a full disk: an intent is accepted only if the outcomes of all open intents
/// still fit and the reserve is untouched. Effects may use half of the reserve, administrative acts all of it (an operator
/// must be able to free space), outcomes everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceBudget {
    /// Free bytes of the segment that the next record goes to.
    pub left_bytes: u64,
    /// Size of the spare segment, if it is allocated.
    pub spare_bytes: Option<u64>,
    pub reserve_bytes: u64,
}

/// Class of a record, which decides how much of the space it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceClass {
    Intent,
    Effect,
    AdminIntent,
    Admin,
    Outcome,
}

impl From<RecordKind> for SpaceClass {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::CallOpen => Self::Intent,
            RecordKind::AdminOpen => Self::AdminIntent,
            RecordKind::Close => Self::Outcome,
            RecordKind::Effect => Self::Effect,
            RecordKind::Admin | RecordKind::Recovery => Self::Admin,
        }
    }
}

/// Reserved space of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The record is the first one of the spare segment.
    pub begins_segment: bool,
}

impl SpaceBudget {
    /// Reserves `bytes` for a record; `None` leaves the budget unchanged.
    pub(crate) fn reserve(&mut self, class: SpaceClass, bytes: u64, open_intents: u64) -> Option<Placement> {
        let mut after = *self;
        let begins_segment = bytes > after.left_bytes;
        if begins_segment {
            after.left_bytes =
                after.spare_bytes.take()?.checked_sub(SegmentHeader::bytes_for(open_intents))?;
        }
        after.left_bytes = after.left_bytes.checked_sub(bytes)?;
        if after.usable_bytes(open_intents) < self.required_bytes(class, open_intents) {
            return None;
        }
        *self = after;
        Some(Placement { begins_segment })
    }

    /// Space for further outcomes: a segment end too short for one and the next header are not usable.
    fn usable_bytes(&self, open_intents: u64) -> u64 {
        let unusable = SegmentHeader::bytes_for(open_intents) + CLOSE_BYTES_MAX;
        self.left_bytes + self.spare_bytes.map_or(0, |bytes| bytes.saturating_sub(unusable))
    }

    /// Space that must be left after a record of this class.
    fn required_bytes(&self, class: SpaceClass, open_intents: u64) -> u64 {
        let outcomes = open_intents.saturating_mul(CLOSE_BYTES_MAX);
        match class {
            SpaceClass::Intent => self.reserve_bytes.max(outcomes + CLOSE_BYTES_MAX),
            SpaceClass::Effect => (self.reserve_bytes / 2).max(outcomes),
            SpaceClass::AdminIntent => outcomes + CLOSE_BYTES_MAX,
            SpaceClass::Admin => outcomes,
            SpaceClass::Outcome => 0,
        }
    }
}
