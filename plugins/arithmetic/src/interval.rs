//! A number that no fraction is, between two binary numbers.
//!
//! Every operation takes the outermost results that its operands allow and rounds them outwards, so the true value is
//! always inside. The bounds are of limited length, so an operation costs the same however long a calculation is.

use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};

use crate::effort::{Effort, limbs, root_floor};
use crate::fraction::Rational;
use crate::number::{Failure, MAX_BITS, Outcome, too_large};
use crate::series;

/// Numbers nearer to zero than two to the power of minus this are only known to be so near.
const LEAST_BITS: i64 = 2 * MAX_BITS as i64;

/// Roots of higher degrees cost less by logarithm.
const MAX_DIRECT_DEGREE: u32 = 3;

/// From `low` to `high`, both times two to the power of `exponent`.
#[derive(Clone, Debug)]
pub struct Interval {
    low: BigInt,
    high: BigInt,
    exponent: i64,
}

impl Interval {
    pub fn of(value: &Rational, effort: &Effort) -> Outcome<Self> {
        let (numerator, denominator) = (value.numer(), value.denom());
        if denominator.is_one() {
            return Self::rounded(numerator.clone(), numerator.clone(), 0, effort);
        }
        let shift = effort.bits() as i64 + denominator.bits() as i64 - numerator.bits() as i64 + 2;
        let (numerator, denominator) = (shifted(numerator, shift), shifted(denominator, -shift));
        let (low, _) = effort.quotient(&numerator, &denominator)?;
        let high = &low + 1;
        Self::rounded(low, high, -shift, effort)
    }

    /// The number times two to the power of `exponent`, give or take an error in the same unit.
    pub fn around(number: BigInt, error: u64, exponent: i64, effort: &Effort) -> Outcome<Self> {
        Self::rounded(&number - error, number + error, exponent, effort)
    }

    fn rounded(mut low: BigInt, mut high: BigInt, mut exponent: i64, effort: &Effort) -> Outcome<Self> {
        effort.charge(limbs(&low) + limbs(&high))?;
        let bits = low.bits().max(high.bits());
        let excess = bits.saturating_sub(effort.bits() + 2);
        if excess > 0 {
            // A shift to the right rounds down.
            (low, high) = (low >> excess, -(-high >> excess));
            exponent = exponent.saturating_add(excess as i64);
        }
        let magnitude = exponent.saturating_add(bits as i64 - excess as i64);
        if bits > 0 && magnitude > MAX_BITS as i64 + 1 {
            return Err(too_large(None));
        }
        if magnitude < -LEAST_BITS {
            return Ok(Self {
                low: low.signum().min(0.into()),
                high: high.signum().max(0.into()),
                exponent: -LEAST_BITS,
            });
        }
        Ok(Self { low, high, exponent })
    }

    /// The bounds, each as a numerator and a denominator.
    pub fn bounds(&self) -> [(BigInt, BigInt); 2] {
        let denominator = shifted(&BigInt::one(), -self.exponent);
        [&self.low, &self.high].map(|bound| (shifted(bound, self.exponent), denominator.clone()))
    }

    pub fn is_positive(&self) -> bool {
        self.low.is_positive()
    }

    pub fn is_negative(&self) -> bool {
        self.high.is_negative()
    }

    pub fn negate(&self) -> Self {
        Self { low: -&self.high, high: -&self.low, exponent: self.exponent }
    }

    pub fn abs(&self) -> Self {
        if !self.low.is_negative() {
            self.clone()
        } else if !self.high.is_positive() {
            self.negate()
        } else {
            let high = self.high.clone().max(-&self.low);
            Self { low: BigInt::zero(), high, exponent: self.exponent }
        }
    }

    pub fn min(&self, other: &Self) -> Self {
        let (left, right, exponent) = self.aligned(other);
        Self { low: left.0.min(right.0), high: left.1.min(right.1), exponent }
    }

    pub fn add(&self, other: &Self, effort: &Effort) -> Outcome<Self> {
        effort.charge((self.exponent - other.exponent).unsigned_abs() / 32)?;
        let (left, right, exponent) = self.aligned(other);
        Self::rounded(left.0 + right.0, left.1 + right.1, exponent, effort)
    }

    /// The bounds of both in one unit.
    fn aligned(&self, other: &Self) -> ((BigInt, BigInt), (BigInt, BigInt), i64) {
        let exponent = self.exponent.min(other.exponent);
        let bounds = |of: &Self| {
            let shift = of.exponent - exponent;
            (&of.low << shift, &of.high << shift)
        };
        (bounds(self), bounds(other), exponent)
    }

    pub fn multiply(&self, other: &Self, effort: &Effort) -> Outcome<Self> {
        let exponent = self.exponent + other.exponent;
        let low = effort.product(&self.low, &other.low)?;
        let high = effort.product(&self.high, &other.high)?;
        if !self.low.is_negative() && !other.low.is_negative() {
            return Self::rounded(low, high, exponent, effort);
        }
        let crossed = effort.product(&self.low, &other.high)?;
        let across = effort.product(&self.high, &other.low)?;
        let least = (&low).min(&high).min(&crossed).min(&across).clone();
        Self::rounded(least, low.max(high).max(crossed).max(across), exponent, effort)
    }

    pub fn divide(&self, divisor: &Self, effort: &Effort) -> Outcome<Self> {
        if divisor.is_negative() {
            return self.negate().divide(&divisor.negate(), effort);
        }
        if !divisor.is_positive() {
            return Err(Failure::Undecided);
        }
        let shift = effort.bits() as i64 + 2 + divisor.high.bits() as i64;
        let below = if self.low.is_negative() { &divisor.low } else { &divisor.high };
        let above = if self.high.is_negative() { &divisor.high } else { &divisor.low };
        let (low, _) = effort.quotient(&(&self.low << shift), below)?;
        let (high, _) = effort.quotient(&-(&self.high << shift), above)?;
        Self::rounded(low, -high, self.exponent - divisor.exponent - shift, effort)
    }

    pub fn power(&self, mut times: u64, effort: &Effort) -> Outcome<Self> {
        let mut square = self.clone();
        let mut power = Self { low: BigInt::one(), high: BigInt::one(), exponent: 0 };
        loop {
            if times % 2 == 1 {
                power = power.multiply(&square, effort)?;
            }
            times /= 2;
            if times == 0 {
                return Ok(power);
            }
            square = square.multiply(&square, effort)?;
        }
    }

    /// The root, undecided where the number may be negative.
    pub fn root(&self, degree: u32, effort: &Effort) -> Outcome<Self> {
        if self.low.is_negative() {
            return Err(Failure::Undecided);
        }
        if degree > MAX_DIRECT_DEGREE {
            let degree = Self { low: degree.into(), high: degree.into(), exponent: 0 };
            return self.ln(effort)?.divide(&degree, effort)?.exp(effort);
        }
        let wide_degree = i64::from(degree);
        let wanted = wide_degree * (effort.bits() as i64 + 2) - self.high.bits() as i64;
        let shift = wanted.max(0) + (self.exponent - wanted.max(0)).rem_euclid(wide_degree);
        let low = root_floor(&(&self.low << shift), degree, effort)?;
        let high = if self.low == self.high {
            low.clone()
        } else {
            root_floor(&(&self.high << shift), degree, effort)?
        };
        Self::rounded(low, high + 1, (self.exponent - shift) / wide_degree, effort)
    }

    pub fn exp(&self, effort: &Effort) -> Outcome<Self> {
        let low = series::exp(&self.low, self.exponent, effort)?;
        if self.low == self.high {
            return Ok(low);
        }
        // For a width up to 1, its exponential is at most 1 more than twice the width.
        let width = &self.high - &self.low;
        if width.bits() as i64 + self.exponent > 0 {
            return Err(Failure::Undecided);
        }
        let one = BigInt::one() << -self.exponent;
        let factor = Self::rounded(one.clone(), one + (width << 1), self.exponent, effort)?;
        low.multiply(&factor, effort)
    }

    /// The natural logarithm.
    pub fn ln(&self, effort: &Effort) -> Outcome<Self> {
        if !self.is_positive() {
            return Err(Failure::Undecided);
        }
        let low = series::ln(&self.low, self.exponent, effort)?;
        if self.low == self.high {
            return Ok(low);
        }
        // The slope is nowhere more than at the lower bound.
        let width = Self { low: BigInt::zero(), high: &self.high - &self.low, exponent: 0 };
        let slope = Self { low: self.low.clone(), high: self.low.clone(), exponent: 0 };
        low.add(&width.divide(&slope, effort)?, effort)
    }
}

/// Where the shift is to the left; a number that would be shifted to the right stays.
fn shifted(number: &BigInt, shift: i64) -> BigInt {
    number << shift.max(0)
}
