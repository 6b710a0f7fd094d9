//! `convert_units`: one quantity in two units.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::amount::Amount;
use crate::expression;
use crate::number::{Outcome, impossible};
use crate::units::{self, Unit};
use crate::work::Work;
use crate::{Evaluation, MAX_EXPRESSION_CHARACTERS, check_digits, settle};

/// Converts a quantity between units, with factors that are exact by definition.
///
/// - length: mm cm m km in ft yd mi nmi; area: m2 km2 ha acre ft2 mi2; volume: mL L m3 ft3 and `us_` or `imperial_` gallon, quart, pint, cup, floz, `us_` or `metric_` tbsp, tsp, `metric_cup`
/// - mass: mg g kg t oz lb stone short_ton long_ton; temperature: C F K R
/// - time: ns us ms s min h day week month year (the average Gregorian ones); speed: m/s km/h mph knot ft/s
/// - data: bit B, kB MB GB TB (1000), KiB MiB GiB TiB (1024), kbit Mbit Gbit; energy: J kJ MJ Wh kWh cal kcal BTU eV; pressure: Pa hPa kPa bar mbar atm psi mmHg torr
///
/// Names as `meters` or `square feet` work too. A name with two meanings (`gallon`, `ton`, `mb`) is refused with the choices,
/// and so is a symbol in letters of another case where that counts (`Mm`, `mj`).
#[tool(
    read_only,
    tags("metric", "imperial", "temperature", "measure"),
    examples(
        {"value": 26.2, "from": "mi", "to": "km"} => {"decimal": "42.1648128", "exact": true, "fraction": "3294126/78125", "unit": "km"},
        {"value": 100, "from": "F", "to": "C", "digits": 2} => {"decimal": "37.78", "exact": false, "fraction": "340/9", "unit": "C"},
        "a calculation": {"value": "3 * 1.5", "from": "GiB", "to": "MB"} => {"decimal": "4831.838208", "exact": true, "fraction": "75497472/15625", "unit": "MB"},
    )
)]
pub fn convert_units(
    /// How much: a number, or an expression as `evaluate` takes it
    value: Amount,
    /// The unit that it is in
    from: String,
    /// The unit to convert to
    to: String,
    /// Digits after the decimal point, where the result has more
    #[default(10)]
    #[schemars(range(max = 1000))]
    digits: u32,
) -> Result<Conversion, Error> {
    check_digits(digits)?;
    let value = value.text();
    if value.chars().count() > MAX_EXPRESSION_CHARACTERS {
        return Err(Error::invalid("`value` is too long: give a number"));
    }
    let (from, to) = units::pair(&from, &to).map_err(Error::invalid)?;
    let result = settle(digits, |work| convert(&value, &from, &to, work)).map_err(Error::invalid)?;
    Ok(Conversion { result, unit: to.name() })
}

/// A quantity in another unit.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Conversion {
    #[serde(flatten)]
    pub result: Evaluation,
    /// The unit of the result
    pub unit: &'static str,
}

fn convert(value: &str, from: &Unit, to: &Unit, work: &Work) -> Outcome {
    let base = expression::evaluate(value, work)?.add(&from.zero(work)?, work)?;
    if from.has_least() && base.is_negative() {
        return Err(impossible(format!(
            "there is no such temperature: {} is below absolute zero",
            from.name()
        )));
    }
    base.multiply(&from.size(work)?, work)?.divide(&to.size(work)?, work)?.subtract(&to.zero(work)?, work)
}
