//! Exact fractions in lowest terms.
//!
//! `num-rational` knows these operations too, but finds common divisors bit by bit, and more of them than are needed:
//! for numbers of thousands of digits that exhausts a call.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_rational::Ratio;
use num_traits::{One, Signed, Zero};

use crate::effort::{Effort, root_floor};
use crate::number::Outcome;

pub type Rational = Ratio<BigInt>;

/// The fraction of two whole numbers, the second of which is not zero.
pub fn reduced(numerator: BigInt, denominator: BigInt, effort: &Effort) -> Outcome<Rational> {
    let divisor = effort.greatest_common_divisor(&numerator, &denominator)?;
    let divisor = if denominator.is_negative() { -divisor } else { divisor };
    let (numerator, denominator) =
        (divided(numerator, &divisor, effort)?, divided(denominator, &divisor, effort)?);
    Ok(Ratio::new_raw(numerator, denominator))
}

pub fn sum(left: &Rational, right: &Rational, effort: &Effort) -> Outcome<Rational> {
    if left.is_integer() && right.is_integer() {
        return Ok(Ratio::from_integer(left.numer() + right.numer()));
    }
    // Only what both denominators share can be in the sum too (Knuth, 4.5.1).
    let shared = effort.greatest_common_divisor(left.denom(), right.denom())?;
    let left_rest = divided(left.denom().clone(), &shared, effort)?;
    let right_rest = divided(right.denom().clone(), &shared, effort)?;
    let numerator = effort.product(left.numer(), &right_rest)? + effort.product(right.numer(), &left_rest)?;
    let common = effort.greatest_common_divisor(&numerator, &shared)?;
    let denominator = effort.product(&left_rest, &divided(right.denom().clone(), &common, effort)?)?;
    Ok(Ratio::new_raw(divided(numerator, &common, effort)?, denominator))
}

pub fn product(left: &Rational, right: &Rational, effort: &Effort) -> Outcome<Rational> {
    let down = effort.greatest_common_divisor(left.numer(), right.denom())?;
    let up = effort.greatest_common_divisor(left.denom(), right.numer())?;
    if down.is_zero() || up.is_zero() {
        return Ok(Ratio::zero());
    }
    let numerator = effort.product(
        &divided(left.numer().clone(), &down, effort)?,
        &divided(right.numer().clone(), &up, effort)?,
    )?;
    let denominator = effort.product(
        &divided(left.denom().clone(), &up, effort)?,
        &divided(right.denom().clone(), &down, effort)?,
    )?;
    Ok(Ratio::new_raw(numerator, denominator))
}

pub fn power(base: &Rational, exponent: u64, effort: &Effort) -> Outcome<Rational> {
    Ok(Ratio::new_raw(effort.power(base.numer(), exponent)?, effort.power(base.denom(), exponent)?))
}

/// The root of a number that is not negative, where it is a fraction.
pub fn exact_root(value: &Rational, degree: u32, effort: &Effort) -> Outcome<Option<Rational>> {
    let (numerator, denominator) =
        (root_floor(value.numer(), degree, effort)?, root_floor(value.denom(), degree, effort)?);
    let is_root = |root, of: &BigInt| Ok(effort.power(root, degree.into())? == *of);
    let is_exact = is_root(&numerator, value.numer())? && is_root(&denominator, value.denom())?;
    Ok(is_exact.then(|| Ratio::new_raw(numerator, denominator)))
}

/// Compares by common denominator. The order that `Ratio` brings follows continued fractions by recursion, which for
/// numbers that are long and close exhausts the stack.
pub fn compare(left: &Rational, right: &Rational, effort: &Effort) -> Outcome<Ordering> {
    let (left, right) =
        (effort.product(left.numer(), right.denom())?, effort.product(right.numer(), left.denom())?);
    Ok(left.cmp(&right))
}

/// Fractions are kept in lowest terms, so equal ones look the same.
pub fn are_equal(left: &Rational, right: &Rational) -> bool {
    left.numer() == right.numer() && left.denom() == right.denom()
}

/// Only for exponents that are limited where they come from.
pub fn power_of_ten(exponent: i64) -> Rational {
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    let power = num_traits::pow(BigInt::from(10), places);
    if exponent < 0 { Ratio::new_raw(BigInt::one(), power) } else { Ratio::from_integer(power) }
}

/// By a divisor that leaves no remainder, and most often is 1.
fn divided(number: BigInt, divisor: &BigInt, effort: &Effort) -> Outcome<BigInt> {
    if divisor.is_one() { Ok(number) } else { Ok(effort.quotient(&number, divisor)?.0) }
}
