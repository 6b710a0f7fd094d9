//! Exact calculation: a model that asks here need not guess at numbers.
//!
//! Whole numbers and fractions are exact whatever their size, up to a cap. What no fraction can say (the square root of
//! 2), and fractions beyond the cap, are kept between two bounds, and every digit that is shown is certain. A float is at
//! most a first guess, which is then mended.
//!
//! All long work is counted (`effort`), so that every call ends well before its fuel does.
//!
//! `evaluate` is here; the other tools have files of their own.
//!
//! Reading and calculating are one pass over the expression (`expression`), so that each error knows its place. Where an
//! answer is not certain yet, the whole pass is made again with more digits.

mod amount;
mod decimal;
mod effort;
mod expression;
mod fraction;
mod functions;
mod interval;
mod number;
mod series;
mod tokens;

mod convert_units;
mod statistics;
mod units;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, plugin, tool};

use crate::effort::Effort;
use crate::expression::Problem;
use crate::number::Number;

/// Longer expressions are a program, for which this is the wrong tool.
const MAX_EXPRESSION_CHARACTERS: usize = 10_000;

/// More digits help nobody who reads.
const MAX_DIGITS: u32 = 1_000;

/// Beyond the digits that are asked for and a tenth of them: for digits before the point, and what operations lose.
const SPARE_DIGITS: u32 = 30;

/// Each attempt has so many times the digits of the one before.
const GROWTH: u32 = 5;

/// The last attempt. Enough for every digit before the point of a square root that is kept.
const MOST_DIGITS: u32 = 5_100;

const TOO_CLOSE: &str = "the result is too close to call: ask for other `digits`, reorder the expression, or leave roots to the end";

const TOO_MUCH_WORK: &str = "this takes more work than one call may do: calculate it in parts, ask for fewer `digits`, or round long numbers first, as in `round(x, 50)`";

/// A result.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evaluation {
    /// The result in decimal digits, the last of them rounded half away from zero
    decimal: String,
    /// Whether `decimal` is the whole result; if not, it is correctly rounded
    exact: bool,
    /// The exact result, where it is a fraction of fewer than 1,000 characters
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<String>,
}

/// Calculates an expression exactly, or to as many digits as asked for.
///
/// Use it for every calculation beyond the trivial. Whole numbers and fractions are exact at any size up to 10,000
/// digits; roots, logarithms, powers as `1.05^(1/12)` and longer fractions are not, but each digit given is right.
/// `exact: false` means that `decimal` is correctly rounded; `fraction` is then the exact result, if it is a short one.
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
    settle(digits, |effort| expression::evaluate(expression, effort))
}

/// Writes a number with so many digits, and has it made again with more precision where they are not certain.
fn settle(digits: u32, make: impl Fn(&Effort) -> Result<Number, Problem>) -> Result<Evaluation, String> {
    settle_counted(digits, make).0
}

/// The same, and the effort with all that was spent.
fn settle_counted(
    digits: u32,
    make: impl Fn(&Effort) -> Result<Number, Problem>,
) -> (Result<Evaluation, String>, Effort) {
    let mut precision = digits + digits / 10 + SPARE_DIGITS;
    let mut effort = Effort::digits(precision);
    let mut answer = Err(TOO_MUCH_WORK.to_owned());
    loop {
        answer = match attempt(digits, &effort, &make) {
            Attempt::Certain(evaluation) => return (Ok(evaluation), effort),
            Attempt::Impossible(problem) => return (Err(problem), effort),
            Attempt::TooMuchWork => return (answer, effort),
            Attempt::Uncertain(answer) => answer,
        };
        if precision == MOST_DIGITS {
            return (answer, effort);
        }
        precision = (precision * GROWTH).min(MOST_DIGITS);
        effort = effort.with_digits(precision);
    }
}

/// What came of one precision.
enum Attempt {
    Certain(Evaluation),
    /// What to answer if more digits do not change it.
    Uncertain(Result<Evaluation, String>),
    Impossible(String),
    TooMuchWork,
}

fn attempt(digits: u32, effort: &Effort, make: impl Fn(&Effort) -> Result<Number, Problem>) -> Attempt {
    let number = match make(effort) {
        Ok(number) => number,
        Err(Problem::Wrong(problem)) => return Attempt::Impossible(problem),
        Err(Problem::Undecided(problem)) => return Attempt::Uncertain(Err(problem)),
        Err(Problem::TooMuchWork) => return Attempt::TooMuchWork,
    };
    match decimal::write(&number, digits, effort) {
        Ok(Some(evaluation)) => Attempt::Certain(evaluation),
        Ok(None) => match decimal::write_nearly_zero(&number, digits, effort) {
            Ok(Some(zero)) => Attempt::Uncertain(Ok(zero)),
            _ => Attempt::Uncertain(Err(TOO_CLOSE.to_owned())),
        },
        Err(_) => Attempt::TooMuchWork,
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
