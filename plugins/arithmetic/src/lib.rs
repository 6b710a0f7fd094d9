//! Exact calculation: a model that asks here need not guess at numbers.
//!
//! Whole numbers and fractions are exact whatever their size, up to a cap. What no fraction can say (the square root of
//! 2) is kept between two fractions, and every digit that is shown is certain. Nothing is ever a float.
//!
//! `evaluate` is here; the other tools have files of their own.
//!
//! Reading and calculating are one pass over the expression (`expression`), so that each error knows its place. Where an
//! answer is not certain yet, the whole pass is made again with more digits.

mod amount;
mod decimal;
mod expression;
mod functions;
mod number;
mod tokens;

mod convert_units;
mod statistics;
mod units;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, plugin, tool};

use crate::expression::Problem;
use crate::number::{Number, Precision};

/// Longer expressions are a program, for which this is the wrong tool.
const MAX_EXPRESSION_CHARACTERS: usize = 10_000;

/// More digits help nobody who reads.
const MAX_DIGITS: u32 = 1_000;

/// Each attempt has four times the digits of the one before.
const ATTEMPTS: u32 = 4;

/// A result.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evaluation {
    /// The result in decimal digits, the last of them rounded half away from zero
    decimal: String,
    /// Whether `decimal` is the whole result; if not, it is correctly rounded
    exact: bool,
    /// The exact result, where it is a fraction
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<String>,
}

/// Calculates an expression exactly.
///
/// Use it for every calculation beyond the trivial. Whole numbers and fractions are exact at any size up to 10,000
/// digits. `exact: false` means that `decimal` is correctly rounded; `fraction` is then the exact result, if it is one.
///
/// - Operators: `+ - * /`, `//` (division rounded down), `^` or `**` (power), `!` (factorial), parentheses.
/// - `15%` is 0.15, so 15% of 80 is `80 * 15%`, and 15% more is `80 * 115%`. `a % b` with spaces is the remainder, which has the sign of b.
/// - Numbers: `1_000_000`, `2.5`, `6.02e23`. No comma between thousands.
/// - Rounding, to whole numbers or to `digits` after the point: round(x, digits) has halves away from zero, round_half_even (banker's) to the even digit, round_half_down towards zero; floor, ceil, trunc (towards zero) and round_up (away from zero) take `digits` too.
/// - Functions: abs, min, max, gcd, lcm, mod(a, b), sqrt, cbrt, root(x, n), factorial, choose(n, k).
#[tool(
    read_only,
    tags("calculator", "math", "percent", "fraction"),
    examples(
        "thirds": {"expression": "1/3 + 1/6"} => {"decimal": "0.5", "exact": true, "fraction": "1/2"},
        "a discount": {"expression": "round(249.99 * 85%, 2)"} => {"decimal": "212.49", "exact": true, "fraction": "21249/100"},
        "more than a float holds": {"expression": "2^100 + 1"} => {"decimal": "1267650600228229401496703205377", "exact": true},
        "banker's rounding": {"expression": "round_half_even(2.345, 2)"} => {"decimal": "2.34", "exact": true, "fraction": "117/50"},
        "rounded": {"expression": "sqrt(2)", "digits": 10} => {"decimal": "1.4142135624", "exact": false},
    )
)]
fn evaluate(
    /// The expression, as in `(2 + 3) * 4 / 7`
    expression: String,
    /// Digits after the decimal point, where the result has more
    #[default(20)]
    #[schemars(range(max = 1000))]
    digits: u32,
) -> Result<Evaluation, Error> {
    if expression.chars().count() > MAX_EXPRESSION_CHARACTERS {
        return Err(Error::invalid(format!(
            "the expression has more than {MAX_EXPRESSION_CHARACTERS} characters: calculate its parts"
        )));
    }
    check_digits(digits)?;
    calculate(&expression, digits).map_err(Error::invalid)
}

fn check_digits(digits: u32) -> Result<(), Error> {
    if digits > MAX_DIGITS {
        return Err(Error::invalid(format!("`digits` is more than {MAX_DIGITS}")));
    }
    Ok(())
}

fn calculate(expression: &str, digits: u32) -> Result<Evaluation, String> {
    settle(digits, |precision| expression::evaluate(expression, precision))
}

/// Writes a number with so many digits, and has it made again with more precision where they are not certain.
fn settle(digits: u32, make: impl Fn(Precision) -> Result<Number, Problem>) -> Result<Evaluation, String> {
    let mut undecided = String::new();
    for attempt in 0..ATTEMPTS {
        let precision = Precision::digits((digits + 30) << (2 * attempt));
        match make(precision) {
            Ok(number) => {
                match decimal::write(&number, digits) {
                    Some(evaluation) => return Ok(evaluation),
                    None => undecided =
                        "the result is too close to call: reorder the expression, or leave roots to the end"
                            .to_owned(),
                }
            }
            Err(Problem::Undecided(problem)) => undecided = problem,
            Err(Problem::Wrong(problem)) => return Err(problem),
        }
    }
    Err(undecided)
}

plugin! {
    "arithmetic",
    publisher = "Toolgate",
    category = "Calculation",
    evaluate, convert_units::convert_units, statistics::statistics
}

#[cfg(test)]
mod tests;
