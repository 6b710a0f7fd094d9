//! Writes a number in decimal digits that are certain.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

use crate::Evaluation;
use crate::effort::{Effort, limbs};
use crate::fraction::Rational;
use crate::number::{MAX_BITS, Number, Outcome};

/// A fraction longer than this says nothing to a reader.
const MAX_FRACTION_CHARACTERS: usize = 1_000;

/// An inexact number with more digits before its point is written with an exponent: most of them would not be certain.
const MAX_PLAIN_DIGITS: i64 = 100;

/// A numerator and a denominator above zero.
type Parts = (BigInt, BigInt);

/// Writes the number with so many digits after the point. None where the number is not known that precisely.
pub fn write(number: &Number, digits: u32, effort: &Effort) -> Outcome<Option<Evaluation>> {
    let interval = match number {
        Number::Exact(value) => return write_exact(value, digits, effort).map(Some),
        Number::Between(interval) => interval,
    };
    let [low, high] = interval.bounds();
    let is_plain = estimated_exponent(&high).max(estimated_exponent(&low)) < MAX_PLAIN_DIGITS;
    let (low, _) = write_rounded(&low, digits, is_plain, effort)?;
    let (high, _) = write_rounded(&high, digits, is_plain, effort)?;
    Ok((low == high).then_some(Evaluation { decimal: low, exact: false, fraction: None }))
}

/// Writes what is only known to be too near to zero for any of the digits, if it is.
pub fn write_nearly_zero(number: &Number, digits: u32, effort: &Effort) -> Outcome<Option<Evaluation>> {
    let Number::Between(interval) = number else { return Ok(None) };
    let [low, high] = interval.bounds();
    let is_zero = |bound| Ok(rounded(bound, i64::from(digits), effort)?.0.is_zero());
    let is_zero = is_zero(&low)? && is_zero(&high)?;
    Ok(is_zero.then(|| Evaluation { decimal: "0".to_owned(), exact: false, fraction: None }))
}

fn write_exact(value: &Rational, digits: u32, effort: &Effort) -> Outcome<Evaluation> {
    if value.is_integer() {
        let decimal = text(value.numer(), effort)?;
        return Ok(Evaluation { decimal, exact: true, fraction: None });
    }
    let parts = (value.numer().clone(), value.denom().clone());
    let (decimal, exact) = write_rounded(&parts, digits, true, effort)?;
    let decimal = if exact { without_zeros(&decimal) } else { decimal };
    Ok(Evaluation { decimal, exact, fraction: fraction(value) })
}

fn fraction(value: &Rational) -> Option<String> {
    let longest = MAX_BITS.min(4 * MAX_FRACTION_CHARACTERS as u64);
    let is_short = value.numer().bits().max(value.denom().bits()) <= longest;
    is_short.then(|| value.to_string()).filter(|text| text.len() <= MAX_FRACTION_CHARACTERS)
}

/// The digits, and whether they are the whole value. Numbers too small for any of the digits are written with an
/// exponent; with no digits after the point, whole numbers are asked for.
fn write_rounded(value: &Parts, digits: u32, is_plain: bool, effort: &Effort) -> Outcome<(String, bool)> {
    if is_plain {
        let (number, is_exact) = rounded(value, i64::from(digits), effort)?;
        if !number.is_zero() || value.0.is_zero() || digits == 0 {
            return Ok((place_point(&number, digits as usize, effort)?, is_exact));
        }
    }
    let mut exponent = estimated_exponent(value);
    loop {
        let (mantissa, is_exact) = rounded(value, i64::from(digits) - exponent, effort)?;
        // The estimate is never too great, and so ten is left only where the digits were rounded up to it.
        if mantissa.abs() >= effort.power_of_ten(u64::from(digits) + 1)? {
            exponent += 1;
        } else {
            let written = place_point(&mantissa, digits as usize, effort)?;
            return Ok((format!("{written}e{exponent}"), is_exact));
        }
    }
}

/// The power of ten that a number is at least, or one or two less.
fn estimated_exponent((numerator, denominator): &Parts) -> i64 {
    let bits = numerator.bits() as i64 - denominator.bits() as i64 - 1;
    // The logarithm of 2, on the side that is less.
    (bits * if bits < 0 { 30_103 } else { 30_102 }).div_euclid(100_000)
}

/// The value times ten to the power of `places`, rounded half away from zero, and whether it was whole.
fn rounded((numerator, denominator): &Parts, places: i64, effort: &Effort) -> Outcome<(BigInt, bool)> {
    let power = effort.power_of_ten(places.unsigned_abs())?;
    let (up, down) = if places < 0 { (BigInt::one(), power) } else { (power, BigInt::one()) };
    let denominator = effort.product(denominator, &down)?;
    let (quotient, rest) = effort.quotient(&effort.product(&numerator.abs(), &up)?, &denominator)?;
    let is_up = (&rest << 1) >= denominator;
    let number = quotient + u8::from(is_up);
    Ok((if numerator.is_negative() { -number } else { number }, rest.is_zero()))
}

/// The digits of a number that was multiplied by ten to the power of `places`.
fn place_point(scaled: &BigInt, places: usize, effort: &Effort) -> Outcome<String> {
    let sign = if scaled.is_negative() { "-" } else { "" };
    let (whole, fraction) = scaled.abs().div_rem(&effort.power_of_ten(places as u64)?);
    let whole = text(&whole, effort)?;
    if places == 0 {
        return Ok(format!("{sign}{whole}"));
    }
    Ok(format!("{sign}{whole}.{:0>places$}", text(&fraction, effort)?))
}

/// What is exact needs no zeros at the end.
fn without_zeros(decimal: &str) -> String {
    let (mantissa, exponent) = decimal.split_at(decimal.find('e').unwrap_or(decimal.len()));
    if !mantissa.contains('.') {
        return decimal.to_owned();
    }
    format!("{}{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}

fn text(number: &BigInt, effort: &Effort) -> Outcome<String> {
    effort.charge(limbs(number) * limbs(number))?;
    Ok(number.to_string())
}
