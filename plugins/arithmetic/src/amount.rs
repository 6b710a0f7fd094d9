//! A number as a model gives it: bare, or as text where it has more digits than a JSON number keeps.

use num_bigint::BigInt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::serde_json::Number;

use crate::fraction::{Rational, power_of_ten};

/// Measurements have far fewer digits. With exponents as large as expressions allow, sums would exhaust a call.
const MAX_DIGITS: i64 = 100;

/// A number, bare or as text.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// As `2.5`
    Number(Number),
    /// As `"2.5"`, for more digits than 15
    Text(String),
}

/// A number in decimal digits.
#[derive(Debug)]
pub struct Decimal {
    significant: BigInt,
    /// How many of the digits stand after the point; fewer than none where zeros follow.
    pub places: i64,
}

impl Amount {
    pub fn text(&self) -> String {
        match self {
            // The shortest digits that mean this float, so `0.1` is a tenth.
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// The number, where it is written in digits and is no calculation.
    ///
    /// Read here and not as an expression: a list has thousands of them, and each fraction in lowest terms costs more
    /// than all else that is done with it.
    pub fn decimal(&self) -> Result<Decimal, String> {
        let text = self.text();
        let wrong = || "it is no number in digits, as `-1234.5` or `6.02e23`".to_owned();
        let too_long = || format!("it has more than the {MAX_DIGITS} digits that are taken here");
        let (mantissa, exponent) = text.trim().split_once(['e', 'E']).unwrap_or((text.trim(), "0"));
        let (is_negative, magnitude) = match mantissa.strip_prefix(['-', '−']) {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
        let digits = format!("{whole}{fraction}").replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
        let places = i64::try_from(fraction.replace('_', "").len())
            .ok()
            .and_then(|places| places.checked_sub(exponent));
        let places = places.filter(|places| places.abs() <= MAX_DIGITS).ok_or_else(too_long)?;
        if i64::try_from(digits.len()).unwrap_or(i64::MAX) > MAX_DIGITS {
            return Err(too_long());
        }
        let significant: BigInt = digits.parse().map_err(|_| wrong())?;
        Ok(Decimal { significant: if is_negative { -significant } else { significant }, places })
    }
}

impl Decimal {
    /// The number in units of ten to the power of minus `places`, which are no fewer than its own.
    pub fn in_units(&self, places: i64) -> BigInt {
        &self.significant * power_of_ten((places - self.places).max(0)).numer()
    }

    pub fn value(&self) -> Rational {
        power_of_ten(-self.places) * &self.significant
    }
}
