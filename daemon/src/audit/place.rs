//! Where a record begins.

/// A segment and an offset in it; one number in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub segment: u64,
    pub offset: u64,
}

/// Segments stay below 4 GiB, as the settings have it.
const OFFSET_BITS: u32 = 32;

impl Place {
    pub fn packed(self) -> i64 {
        i64::try_from(self.segment << OFFSET_BITS | self.offset).unwrap_or(i64::MAX)
    }

    pub fn unpacked(number: i64) -> Self {
        let number = u64::try_from(number).unwrap_or(0);
        Self { segment: number >> OFFSET_BITS, offset: number & ((1 << OFFSET_BITS) - 1) }
    }
}
