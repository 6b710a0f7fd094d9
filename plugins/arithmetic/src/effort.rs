//! How hard a calculation tries: how many bits its inexact numbers have, and how much work it has done.
//!
//! All long work on whole numbers goes through here and is counted before it is done. So a call ends with a message and
//! not with its fuel, and a native test sees what a call costs: the count is the same everywhere, and no clock.

use std::cell::{Cell, OnceCell};

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::number::{Failure, Outcome};

/// A step is one multiplication of 32 bits, of about twenty units of fuel, and for short numbers up to forty. All of
/// them use an eighth to a quarter of what a call has by default, so that it ends well within less too.
pub const MAX_STEPS: u64 = 6_000_000;

/// What the shortest operation costs beside its digits.
const OPERATION_STEPS: u64 = 60;

/// From here on, `num-bigint` multiplies halves three times instead of four.
const KARATSUBA_LIMBS: u64 = 32;

#[derive(Debug)]
pub struct Effort {
    bits: u64,
    steps: Cell<u64>,
    /// The natural logarithm of 2 is in every power, and the same for all of them.
    pub ln_two: OnceCell<BigInt>,
}

impl Effort {
    /// Inexact numbers have this many decimal digits, at least when they are made.
    pub fn digits(digits: u32) -> Self {
        Self { bits: u64::from(digits) * 3_322 / 1_000 + 1, steps: Cell::new(0), ln_two: OnceCell::new() }
    }

    /// Another attempt with more digits, which goes on counting.
    pub fn with_digits(self, digits: u32) -> Self {
        Self { steps: self.steps, ..Self::digits(digits) }
    }

    pub fn bits(&self) -> u64 {
        self.bits
    }

    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub fn charge(&self, steps: u64) -> Outcome<()> {
        let steps = self.steps.get().saturating_add(steps).saturating_add(OPERATION_STEPS);
        if steps > MAX_STEPS {
            return Err(Failure::TooMuchWork);
        }
        self.steps.set(steps);
        Ok(())
    }

    pub fn product(&self, left: &BigInt, right: &BigInt) -> Outcome<BigInt> {
        self.charge(multiplication(limbs(left), limbs(right)))?;
        Ok(left * right)
    }

    /// The quotient rounded down, and the remainder.
    pub fn quotient(&self, dividend: &BigInt, divisor: &BigInt) -> Outcome<(BigInt, BigInt)> {
        let (long, short) = (limbs(dividend), limbs(divisor));
        self.charge((long.saturating_sub(short) + 1).saturating_mul(short) + long)?;
        Ok(dividend.div_mod_floor(divisor))
    }

    pub fn power(&self, base: &BigInt, mut exponent: u64) -> Outcome<BigInt> {
        let mut square = base.clone();
        let mut power = BigInt::one();
        loop {
            if exponent % 2 == 1 {
                power = self.product(&power, &square)?;
            }
            exponent /= 2;
            if exponent == 0 {
                return Ok(power);
            }
            square = self.product(&square, &square)?;
        }
    }

    pub fn power_of_ten(&self, exponent: u64) -> Outcome<BigInt> {
        self.power(&BigInt::from(10), exponent)
    }

    /// The greatest common divisor, by the method of Lehmer: the leading digits decide about thirty steps of Euclid at
    /// once, which for long numbers is ten times faster than what `num-integer` does.
    pub fn greatest_common_divisor(&self, left: &BigInt, right: &BigInt) -> Outcome<BigInt> {
        let (mut large, mut small) = (left.abs(), right.abs());
        if large < small {
            std::mem::swap(&mut large, &mut small);
        }
        self.charge(limbs(&large) * limbs(&small) + 3 * limbs(&small) * limbs(&small))?;
        while small.bits() > 64 {
            let [a, b, c, d] = leading_steps(&large, &small);
            if b == 0 {
                (large, small) = (small.clone(), large % small);
            } else {
                (large, small) = (&large * a + &small * b, large * c + small * d);
            }
        }
        let Some(short) = small.to_u64().filter(|short| *short != 0) else { return Ok(large) };
        Ok(BigInt::from((large % short).to_u64().unwrap_or_default().gcd(&short)))
    }
}

/// As many steps of Euclid as the leading 62 bits decide, as factors for both numbers (Knuth, algorithm 4.5.2 L).
fn leading_steps(large: &BigInt, small: &BigInt) -> [i64; 4] {
    let shift = large.bits().saturating_sub(62);
    let leading = |number: &BigInt| (number >> shift).to_i64().unwrap_or_default();
    let (mut x, mut y) = (leading(large), leading(small));
    let [mut a, mut b, mut c, mut d] = [1_i64, 0, 0, 1];
    while y + c != 0 && y + d != 0 {
        let quotient = (x + a) / (y + c);
        if quotient != (x + b) / (y + d) {
            break;
        }
        let (next_c, next_d) = (a - quotient * c, b - quotient * d);
        // Longer factors are of two limbs and cost more than they save.
        if next_c.abs().max(next_d.abs()) > i64::from(u32::MAX) {
            break;
        }
        (a, b, c, d) = (c, d, next_c, next_d);
        (x, y) = (y, x - quotient * y);
    }
    [a, b, c, d]
}

pub fn limbs(number: &BigInt) -> u64 {
    number.bits().div_ceil(32)
}

fn multiplication(left: u64, right: u64) -> u64 {
    let (mut short, long) = (left.min(right).max(1), left.max(right));
    let pieces = long.div_ceil(short);
    let mut parts = 1;
    while short > KARATSUBA_LIMBS {
        short = short.div_ceil(2);
        parts *= 3;
    }
    if parts == 1 { short * long } else { pieces * parts * short * short }
}

/// The root rounded down of a number that is not negative: half of its digits first, then one or two steps of Newton.
pub fn root_floor(number: &BigInt, degree: u32, effort: &Effort) -> Outcome<BigInt> {
    if number.is_zero() || degree == 1 {
        return Ok(number.clone());
    }
    let wide_degree = u64::from(degree);
    let root_bits = number.bits().div_ceil(wide_degree);
    if root_bits <= 1 {
        return Ok(BigInt::one());
    }
    let degree_bits = u64::from(u32::BITS - degree.leading_zeros());
    let mut root = if root_bits <= 40 + degree_bits {
        short_root_above(number, degree)
    } else {
        let dropped = (root_bits - degree_bits) / 2 - 1;
        (root_floor(&(number >> (dropped * wide_degree)), degree, effort)? + 1_u32) << dropped
    };
    loop {
        // From above, Newton comes down to the root and then turns.
        let (quotient, _) = effort.quotient(number, &effort.power(&root, wide_degree - 1)?)?;
        let next = (&root * (degree - 1) + quotient) / degree;
        if next >= root {
            return Ok(root);
        }
        root = next;
    }
}

/// No less than the root, and close to it. The float is a guess that Newton mends.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn short_root_above(number: &BigInt, degree: u32) -> BigInt {
    let shift = number.bits().saturating_sub(64);
    let leading = (number >> shift).to_f64().unwrap_or(f64::MAX);
    let root = ((leading.log2() + shift as f64) / f64::from(degree)).exp2();
    BigInt::from((root * (1.0 + 1e-9)) as u128) + 2_u32
}
