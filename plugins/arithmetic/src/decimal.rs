//! Writes a number in decimal digits that are certain.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, Zero};

use crate::Evaluation;
use crate::number::{Number, Rational, compare, power_of_ten};

/// A fraction longer than this says nothing to a reader.
const MAX_FRACTION_CHARACTERS: usize = 1_000;

/// Writes the number with so many digits after the point. None where the number is not known that precisely.
pub fn write(number: &Number, digits: u32) -> Option<Evaluation> {
    if let Some(value) = number.value() {
        return Some(write_exact(value, digits));
    }
    let (low, high) = number.bounds();
    let decimal = write_rounded(low, digits);
    (decimal == write_rounded(high, digits)).then_some(Evaluation { decimal, exact: false, fraction: None })
}

fn write_exact(value: &Rational, digits: u32) -> Evaluation {
    if value.is_integer() {
        return Evaluation { decimal: value.numer().to_string(), exact: true, fraction: None };
    }
    let is_short = (value * power_of_ten(i64::from(digits))).is_integer();
    let decimal = write_rounded(value, digits);
    let decimal = if is_short { decimal.trim_end_matches('0').to_owned() } else { decimal };
    let fraction = Some(value.to_string()).filter(|text| text.len() <= MAX_FRACTION_CHARACTERS);
    Evaluation { decimal, exact: is_short, fraction }
}

/// Numbers too small for any of the digits are written with an exponent.
fn write_rounded(value: &Rational, digits: u32) -> String {
    let places = i64::from(digits);
    let scaled = (value * power_of_ten(places)).round();
    if scaled.is_zero() && !value.is_zero() {
        return write_with_exponent(value, digits);
    }
    place_point(scaled.numer(), digits as usize)
}

fn write_with_exponent(value: &Rational, digits: u32) -> String {
    let mut exponent = (value.numer().bits() as i64 - value.denom().bits() as i64) * 301 / 1_000;
    // The estimate from the bits is off by one or two.
    while compare(&value.abs(), &power_of_ten(exponent + 1)).is_ge() {
        exponent += 1;
    }
    while compare(&value.abs(), &power_of_ten(exponent)).is_lt() {
        exponent -= 1;
    }
    let mantissa = (value * power_of_ten(i64::from(digits) - exponent)).round();
    format!("{}e{exponent}", place_point(mantissa.numer(), digits as usize))
}

/// The digits of a number that was multiplied by ten to the power of `places`.
fn place_point(scaled: &BigInt, places: usize) -> String {
    let sign = if scaled.is_negative() { "-" } else { "" };
    let power = num_traits::pow(BigInt::from(10), places);
    let (whole, fraction) = scaled.abs().div_rem(&power);
    if places == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction:0>places$}", fraction = fraction.to_string())
    }
}
