//! A number as a model gives it: bare, or as text where it has more digits than a JSON number keeps.

use dashu_float::DBig;
use dashu_int::IBig;
use dashu_ratio::RBig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::serde_json::Number;

use crate::number::power_of_ten;

/// Measurements have far fewer digits. With exponents as large as expressions allow, sums would exhaust a call.
const MAX_DIGITS: i32 = 100;

/// A number, bare or as text.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// As `2.5`
    Number(Number),
    /// As `"2.5"`, for more digits than 15
    Text(String),
}

/// A whole number times ten to the power of minus `places`.
#[derive(Debug)]
pub struct Decimal {
    significant: IBig,
    pub places: i32,
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
    /// Not a fraction: a list has thousands of numbers, and to bring each to lowest terms costs more than all else.
    pub fn decimal(&self) -> Result<Decimal, String> {
        let text = self.text().trim().replace('−', "-");
        let wrong = || "it is no number in digits, as `-1234.5` or `6.02e23`".to_owned();
        let too_long = || format!("it has more than the {MAX_DIGITS} digits that are taken here");
        if !text.chars().all(|c| c.is_ascii_digit() || ".+-_eE".contains(c)) {
            return Err(wrong());
        }
        let number: DBig = text.parse().map_err(|_| wrong())?;
        let (significant, exponent) = number.into_repr().into_parts();
        let exponent = i32::try_from(exponent)
            .ok()
            .filter(|exponent| exponent.unsigned_abs() <= MAX_DIGITS.unsigned_abs());
        let places = -exponent.ok_or_else(too_long)?;
        if significant.clone() / IBig::from(10).pow(MAX_DIGITS.unsigned_abs() as usize) != IBig::ZERO {
            return Err(too_long());
        }
        Ok(Decimal { significant, places })
    }
}

impl Decimal {
    /// The number in units of ten to the power of minus `places`, which are no fewer than its own.
    pub fn in_units(&self, places: i32) -> IBig {
        &self.significant * power_of_ten((places - self.places).max(0)).numerator()
    }

    pub fn value(&self) -> RBig {
        power_of_ten(-self.places) * RBig::from(self.significant.clone())
    }
}
