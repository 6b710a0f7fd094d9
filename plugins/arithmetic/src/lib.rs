//! Exact calculation: a model that asks here need not guess at numbers.
//!
//! Fractions are exact in any size, up to a cap. Values that no fraction can say (the square root of 2), and fractions
//! beyond the cap, are floats of more digits than are asked for. Such a result is calculated again with more of them, until
//! two attempts give the same digits.

mod amount;
mod decimal;
mod expression;
mod functions;
mod number;
mod work;

mod convert_units;
mod statistics;
mod units;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, plugin, tool};

use crate::number::{Failure, Number, Outcome};
use crate::work::Work;

/// Longer expressions are a program, for which this is the wrong tool.
const MAX_EXPRESSION_CHARACTERS: usize = 10_000;

/// More digits help no reader.
const MAX_DIGITS: u32 = 1_000;

/// Beyond the digits that are asked for and a tenth of them: for digits before the point, and what operations lose.
const SPARE_DIGITS: u32 = 20;

/// The last attempt. Enough for every digit before the point of a square root that is kept.
const MOST_DIGITS: u32 = 5_100;

const RESULT_TOO_CLOSE: &str = "the result is too close to call: ask for other `digits`, reorder the expression, or leave roots to the end";

const TOO_MUCH_WORK: &str = "this takes more work than one call may do: calculate it in parts, ask for fewer `digits`, or round long numbers first, as in `round(x, 50)`";

/// A result.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evaluation {
    /// The result in decimal digits, the last of them rounded half away from zero
    decimal: String,
    /// Whether `decimal` is the whole result; if not, it is rounded
    exact: bool,
    /// The exact result, where it is a fraction of fewer than 1,000 characters
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<String>,
}

/// Calculates an expression exactly, or to as many digits as asked for.
///
/// Use it for every calculation beyond the trivial. Whole numbers and fractions are exact at any size up to 10,000
/// digits; roots, logarithms, powers as `1.05^(1/12)` and longer fractions are not: they are calculated with more digits
/// until those given no longer change. `exact: false` means that `decimal` is rounded; `fraction` is then the exact
/// result, if it is a short one.
/// Results too small for `digits`, and inexact ones above about 10^100, have an exponent: `3.3e-31`.
///
/// - Operators: `+ - * /`, `//` (division rounded down), `^` or `**` (power), `!` (factorial), parentheses.
/// - `15%` is 0.15, so 15% of 80 is `80 * 15%`, and 15% more is `80 * 115%` or `80 * (1 + 15%)`; `80 + 15%` is refused. `a % b` with spaces is the remainder, which has the sign of b; `50% 80` and `7%3` are refused.
/// - Numbers: `1_000_000`, `2.5`, `6.02e23`. No comma between thousands.
/// - Rounding, to whole numbers or to `digits` after the point: round(x, digits) has halves away from zero, round_half_even (banker's) to the even digit, round_half_down towards zero; floor, ceil, trunc (towards zero) and round_up (away from zero) take `digits` too.
/// - Functions: abs, min, max, gcd, lcm, mod(a, b), sqrt, cbrt, root(x, n), ln, log10, log2, log(x, base), exp, factorial, choose(n, k). Numbers: pi, e. No sin, cos or tan.
#[tool(
    read_only,
    tags("calculator", "math", "percent", "fraction"),
    examples(
        "thirds": {"expression": "1/3 + 1/6"} => {"decimal": "0.5", "exact": true, "fraction": "1/2"},
        "a discount": {"expression": "round(249.99 * 85%, 2)"} => {"decimal": "212.49", "exact": true, "fraction": "21249/100"},
        "more than a float holds": {"expression": "2^100 + 1"} => {"decimal": "1267650600228229401496703205377", "exact": true},
        "banker's rounding": {"expression": "round_half_even(2.345, 2)"} => {"decimal": "2.34", "exact": true, "fraction": "117/50"},
        "compound interest": {"expression": "1000 * (1 + 5%/365)^(365*30)", "digits": 2} => {"decimal": "4481.23", "exact": false},
        "the rate of a day": {"expression": "1.05^(1/365) - 1", "digits": 12} => {"decimal": "0.000133680617", "exact": false},
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
    settle(digits, |work| expression::evaluate(expression, work))
}

/// Calculates and writes a number until two precisions give the same digits.
fn settle(digits: u32, calculate: impl Fn(&Work) -> Outcome) -> Result<Evaluation, String> {
    settle_counted(digits, calculate).0
}

/// The same, and the work with all that was spent.
fn settle_counted(digits: u32, calculate: impl Fn(&Work) -> Outcome) -> (Result<Evaluation, String>, Work) {
    let mut precision = digits + digits / 10 + SPARE_DIGITS;
    let mut work = Work::new(precision);
    let mut answer = Err(TOO_MUCH_WORK.to_owned());
    let mut before = None;
    loop {
        let result =
            calculate(&work).and_then(|number| Ok((decimal::write(&number, digits, &work)?, number)));
        answer = match result {
            Ok((evaluation, Number::Exact(_))) => return (Ok(evaluation), work),
            Ok((evaluation, _)) if before.as_ref() == Some(&evaluation) => return (Ok(evaluation), work),
            Ok((evaluation, number)) => {
                before = Some(evaluation);
                // Operands that cancel give zero as far as they are known.
                let zero = Evaluation { decimal: "0".to_owned(), exact: false, fraction: None };
                let is_zero = decimal::is_nearly_zero(&number, digits, &work);
                if is_zero { Ok(zero) } else { Err(RESULT_TOO_CLOSE.to_owned()) }
            }
            Err(Failure::Impossible(problem)) => return (Err(problem), work),
            Err(Failure::Undecided(problem)) => Err(problem),
            Err(Failure::TooMuchWork) => return (answer, work),
        };
        if precision == MOST_DIGITS {
            return (answer, work);
        }
        precision = (precision * 4 / 3).min(MOST_DIGITS);
        work = work.with_digits(precision);
    }
}

plugin! {
    "arithmetic",
    publisher = "Toolgate",
    category = "Calculation",
    evaluate, convert_units::convert_units, statistics::statistics
}

#[cfg(test)]
mod tests;
