//! Writes a number in decimal digits.

use dashu_base::{Abs, BitTest, Signed, UnsignedAbs};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::Evaluation;
use crate::number::{Number, Outcome, power_of_ten};
use crate::work::Work;

/// A longer fraction says nothing to a reader.
const MAX_FRACTION_CHARACTERS: usize = 1_000;

/// An inexact number with more digits before its point is written with an exponent.
const MAX_PLAIN_DIGITS: i32 = 100;

/// Writes the number with so many digits after the point, the last of them rounded half away from zero.
pub fn write(number: &Number, digits: u32, work: &Work) -> Outcome<Evaluation> {
    let value = number.fraction(work)?;
    let bits = value.numerator().bit_len().max(value.denominator().bit_len());
    work.charge_product(bits, bits + digits as usize * 4, 1)?;
    let is_exact = matches!(number, Number::Exact(_));
    if value.is_zero() || (is_exact && value.is_int()) {
        return Ok(Evaluation { decimal: value.to_string(), exact: is_exact, fraction: None });
    }
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    let is_plain = is_exact || exponent_of(&value) < MAX_PLAIN_DIGITS;
    let (decimal, is_whole) = match round(&value, places) {
        (scaled, is_whole) if is_plain && (!scaled.is_zero() || digits == 0) => {
            (place_point(&scaled, digits), is_whole)
        }
        _ => write_with_exponent(&value, digits),
    };
    let exact = is_exact && is_whole;
    let is_short = bits <= 4 * MAX_FRACTION_CHARACTERS;
    let fraction = (is_exact && is_short).then(|| value.to_string());
    Ok(Evaluation {
        decimal: if exact { without_zeros(&decimal) } else { decimal },
        exact,
        fraction: fraction.filter(|fraction| fraction.len() <= MAX_FRACTION_CHARACTERS),
    })
}

/// Whether none of the digits after the point is other than zero.
pub fn is_nearly_zero(number: &Number, digits: u32, work: &Work) -> bool {
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    number.fraction(work).is_ok_and(|value| round(&value, places).0.is_zero())
}

fn write_with_exponent(value: &RBig, digits: u32) -> (String, bool) {
    let places = i32::try_from(digits).unwrap_or(i32::MAX);
    let exponent = exponent_of(value);
    let (mut mantissa, mut is_whole) = round(value, places - exponent);
    let mut exponent = exponent;
    // The estimate is never too great, and ten is left only where the digits were rounded up to it.
    while mantissa.clone().unsigned_abs() >= UBig::from(10_u8).pow(digits as usize + 1) {
        exponent += 1;
        (mantissa, is_whole) = round(value, places - exponent);
    }
    (format!("{}e{exponent}", place_point(&mantissa, digits)), is_whole)
}

/// The power of ten that a number is at least, or one or two less.
fn exponent_of(value: &RBig) -> i32 {
    let bits = |part: usize| i64::try_from(part).unwrap_or(i64::MAX);
    let bits = bits(value.numerator().bit_len()) - bits(value.denominator().bit_len()) - 1;
    // The logarithm of 2, on the side that is less.
    let exponent = (bits * if bits < 0 { 30_103 } else { 30_102 }).div_euclid(100_000);
    i32::try_from(exponent).unwrap_or(i32::MAX)
}

/// The value times a power of ten, rounded, and whether it was whole.
fn round(value: &RBig, places: i32) -> (IBig, bool) {
    let scaled = value * power_of_ten(places);
    (scaled.round(), scaled.is_int())
}

/// The digits of a number that was multiplied by a power of ten.
fn place_point(scaled: &IBig, digits: u32) -> String {
    let sign = if scaled.is_negative() { "-" } else { "" };
    let places = digits as usize;
    let written = format!("{:0>1$}", scaled.abs().to_string(), places + 1);
    match written.split_at(written.len() - places) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}

/// An exact number needs no zeros at the end.
fn without_zeros(decimal: &str) -> String {
    let (mantissa, exponent) = decimal.split_at(decimal.find('e').unwrap_or(decimal.len()));
    if !mantissa.contains('.') {
        return decimal.to_owned();
    }
    format!("{}{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}
