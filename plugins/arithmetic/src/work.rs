//! The precision of inexact numbers, and how much work one call may do.
//!
//! The cost of long operations is estimated and counted before they run, so a call ends with a message and not with its
//! fuel.

use std::cell::{Cell, RefCell};

use dashu_float::round::mode::HalfAway;
use dashu_float::{ConstCache, Context};

use crate::number::{Failure, Outcome};

/// A step is about one multiplication of 32 bits, of 25 units of fuel. All of them use half of what a call has by default.
pub const MAX_STEPS: u64 = 20_000_000;

/// The cost of the shortest operation beside its digits.
const OPERATION_STEPS: u64 = 60;

/// The cost of a series of few digits.
const SERIES_STEPS: u64 = 30_000;

pub struct Work {
    /// Bits of inexact numbers.
    pub bits: usize,
    pub steps: Cell<u64>,
    /// The digits of pi and the logarithm of 2 that were calculated.
    pub constants: RefCell<ConstCache>,
}

impl Work {
    pub fn new(digits: u32) -> Self {
        Self { bits: bits(digits), steps: Cell::new(0), constants: RefCell::default() }
    }

    /// Another attempt with more digits, which goes on counting.
    pub fn with_digits(self, digits: u32) -> Self {
        Self { bits: bits(digits), ..self }
    }

    pub fn context(&self) -> Context<HalfAway> {
        Context::new(self.bits)
    }

    pub fn charge(&self, steps: u64) -> Outcome<()> {
        let steps = self.steps.get().saturating_add(steps).saturating_add(OPERATION_STEPS);
        if steps > MAX_STEPS {
            return Err(Failure::TooMuchWork);
        }
        self.steps.set(steps);
        Ok(())
    }

    /// Charges for operands of so many bits, each 32 of one with each 32 of the other, so many times.
    pub fn charge_product(&self, left_bits: usize, right_bits: usize, times: u64) -> Outcome<()> {
        let (left, right) = (left_bits as u64 / 32 + 1, right_bits as u64 / 32 + 1);
        self.charge(left.saturating_mul(right).saturating_mul(times))
    }

    /// Charges for a function that is a series: products for each term, of which there are about as many as the root of
    /// the precision.
    pub fn charge_series(&self) -> Outcome<()> {
        self.charge(SERIES_STEPS)?;
        self.charge_product(self.bits, self.bits, 2 * self.bits.isqrt() as u64)
    }
}

fn bits(digits: u32) -> usize {
    digits as usize * 3_322 / 1_000 + 1
}
