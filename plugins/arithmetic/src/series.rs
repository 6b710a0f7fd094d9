//! The natural logarithm and its inverse, and the circle's number, by series over whole numbers.
//!
//! A value is counted in units of two to the power of minus `places`. Each function says by how many units it may be
//! off; the bounds of the result are that far apart, with much to spare.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::effort::{Effort, limbs};
use crate::interval::Interval;
use crate::number::{MAX_BITS, Outcome, too_large};

/// Beyond what a result keeps. A result counts up to 2^17 logarithms of 2, each off by a unit, and more is spared.
const GUARD_PLACES: u64 = 40;

const ERROR: u64 = 1 << 20;

/// Exponentials of what has more bits before its point are too large or too small whatever it is exactly.
const MAX_EXPONENT_BITS: i64 = 16;

/// Up to here, the logarithm of a float is close enough to start from.
const FLOAT_PLACES: u64 = 120;

/// The exponential of a number times two to the power of `exponent`.
pub fn exp(number: &BigInt, exponent: i64, effort: &Effort) -> Outcome<Interval> {
    let places = effort.bits() + GUARD_PLACES;
    if number.bits() as i64 + exponent > MAX_EXPONENT_BITS {
        if number.is_negative() {
            return Interval::around(BigInt::one(), 1, -4 * MAX_BITS as i64, effort);
        }
        return Err(too_large(None));
    }
    let (twos, rest) = moved(number, exponent + places as i64).div_mod_floor(&ln_two(places, effort)?);
    let value = exp_of_part(&rest, places, effort)?;
    Interval::around(value, ERROR, twos.to_i64().unwrap_or_default() - places as i64, effort)
}

/// The natural logarithm of a positive number times two to the power of `exponent`.
pub fn ln(number: &BigInt, exponent: i64, effort: &Effort) -> Outcome<Interval> {
    let places = effort.bits() + GUARD_PLACES;
    let twos = number.bits() as i64 - 1;
    let logarithm = ln_of_part(&moved(number, places as i64 - twos), places, effort)?;
    let value = logarithm + ln_two(places, effort)? * (twos + exponent);
    Interval::around(value, ERROR, -(places as i64), effort)
}

/// By the formula of Machin.
pub fn pi(effort: &Effort) -> Outcome<Interval> {
    let places = effort.bits() + GUARD_PLACES;
    let value = inverse_tangent(5, places, -1, effort)? * 16 - inverse_tangent(239, places, -1, effort)? * 4;
    Interval::around(value, ERROR, -(places as i64), effort)
}

/// Off by a unit at most.
fn ln_two(places: u64, effort: &Effort) -> Outcome<BigInt> {
    if let Some(known) = effort.ln_two.get() {
        return Ok(known.clone());
    }
    let finer = places + GUARD_PLACES;
    let value = inverse_tangent(26, finer, 1, effort)? * 18 - inverse_tangent(4_801, finer, 1, effort)? * 2
        + inverse_tangent(8_749, finer, 1, effort)? * 8;
    // All that ask have the places of this effort.
    Ok(effort.ln_two.get_or_init(|| value >> GUARD_PLACES).clone())
}

/// The inverse tangent of a whole number's inverse, or with the sign 1 the hyperbolic one. Off by two units a term.
fn inverse_tangent(inverse: u32, places: u64, sign: i32, effort: &Effort) -> Outcome<BigInt> {
    let mut power = (BigInt::one() << places) / inverse;
    let mut sum = BigInt::zero();
    let mut factor = 1;
    for odd in (1_u32..).step_by(2) {
        if power.is_zero() {
            break;
        }
        effort.charge(limbs(&power))?;
        sum += &power / odd * factor;
        power /= inverse * inverse;
        factor *= sign;
    }
    Ok(sum)
}

/// The exponential of a number from 0 to 1, off by two units at most.
fn exp_of_part(number: &BigInt, places: u64, effort: &Effort) -> Outcome<BigInt> {
    // The fewer terms, the more squarings: about as many of both is cheapest. Each squaring doubles the error.
    let squarings = places.isqrt();
    let finer = places + squarings + GUARD_PLACES;
    // Moved to the finer unit and halved as often as it is squared later.
    let small = number << GUARD_PLACES;
    let mut term = BigInt::one() << finer;
    let mut value = term.clone();
    for count in 1_u32.. {
        term = (effort.product(&term, &small)? >> finer) / count;
        if term.is_zero() {
            break;
        }
        value += &term;
    }
    for _ in 0..squarings {
        value = effort.product(&value, &value)? >> finer;
    }
    Ok(value >> (finer - places))
}

/// The natural logarithm of a number from 1 to 2, off by 2^10 units at most.
fn ln_of_part(number: &BigInt, places: u64, effort: &Effort) -> Outcome<BigInt> {
    let guess = if places <= FLOAT_PLACES {
        ln_of_float(number, places)
    } else {
        // With a third of the places first: the step from there triples them.
        let fewer = (places / 3 + 16).max(FLOAT_PLACES / 2);
        ln_of_part(&(number >> (places - fewer)), fewer, effort)? << (places - fewer)
    };
    let guess = guess.max(BigInt::zero());
    let power = exp_of_part(&guess, places, effort)?;
    let (quotient, _) = effort.quotient(&((number - &power) << (places + 1)), &(number + &power))?;
    Ok(guess + quotient)
}

#[allow(clippy::cast_possible_truncation)]
fn ln_of_float(number: &BigInt, places: u64) -> BigInt {
    let float = (number >> (places - 60)).to_f64().unwrap_or_default() / (1_u64 << 60) as f64;
    BigInt::from((float.ln() * (1_u64 << 60) as f64) as i64) << (places - 60)
}

/// Rounded down where it loses bits.
fn moved(number: &BigInt, places: i64) -> BigInt {
    if places < 0 { number >> -places } else { number << places }
}
