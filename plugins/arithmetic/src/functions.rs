//! The functions that an expression can call.

use num_traits::ToPrimitive;

use crate::effort::Effort;
use crate::number::{Number, Outcome, impossible};

/// Their names, for a message to the one who guessed at another.
pub const KNOWN: &str = "abs, floor, ceil, trunc, round, round_half_even, round_half_down, round_up, min, max, gcd, lcm, mod, sqrt, cbrt, root, ln, log10, log2, log, exp, factorial, choose, and the numbers pi and e";

/// Digit 1000 is the furthest that anybody needs.
const MAX_ROUND_DIGITS: i64 = 1_000;

/// Calls a function by its name. None where there is none of that name.
pub fn call(name: &str, arguments: &[Number], effort: &Effort) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("abs", [x]) => Ok(x.abs()),
        ("floor", [x]) => x.floor(effort),
        ("ceil", [x]) => x.ceil(effort),
        ("trunc", [x]) => x.trunc(effort),
        ("round", [x]) => x.round(effort),
        ("round_half_even", [x]) => x.round_half_even(effort),
        ("round_half_down", [x]) => x.round_half_down(effort),
        ("round_up", [x]) => x.round_up(effort),
        ("round", [x, digits]) => at_digit(x, digits, effort, Number::round),
        ("round_half_even", [x, digits]) => at_digit(x, digits, effort, Number::round_half_even),
        ("round_half_down", [x, digits]) => at_digit(x, digits, effort, Number::round_half_down),
        ("round_up", [x, digits]) => at_digit(x, digits, effort, Number::round_up),
        ("floor", [x, digits]) => at_digit(x, digits, effort, Number::floor),
        ("ceil", [x, digits]) => at_digit(x, digits, effort, Number::ceil),
        ("trunc", [x, digits]) => at_digit(x, digits, effort, Number::trunc),
        ("sqrt", [x]) => x.root(2, effort),
        ("cbrt", [x]) => x.root(3, effort),
        ("root", [x, degree]) => root(x, degree, effort),
        ("ln", [x]) => x.ln(effort),
        ("log10", [x]) => x.log(&Number::whole(10), effort),
        ("log2", [x]) => x.log(&Number::whole(2), effort),
        ("log", [x, base]) => x.log(base, effort),
        ("exp", [x]) => x.exp(effort),
        ("mod", [a, b]) => a.remainder(b, effort),
        ("factorial", [n]) => n.factorial(effort),
        ("choose", [n, k]) => n.choose(k, effort),
        ("min", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |least, x| least.min(x, effort)),
        ("max", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |most, x| most.max(x, effort)),
        ("gcd", [first, rest @ ..]) => {
            rest.iter().try_fold(first.clone(), |divisor, x| divisor.gcd(x, effort))
        }
        ("lcm", [first, rest @ ..]) => {
            rest.iter().try_fold(first.clone(), |multiple, x| multiple.lcm(x, effort))
        }
        (name, _) => {
            return arity(name)
                .map(|takes| Err(impossible(format!("`{name}` takes {takes}, not {}", arguments.len()))));
        }
    })
}

/// A number that has a name. None where there is none of that name.
pub fn constant(name: &str, effort: &Effort) -> Option<Outcome> {
    match name {
        "pi" | "π" => Some(Number::pi(effort)),
        "e" => Some(Number::whole(1).exp(effort)),
        _ => None,
    }
}

fn arity(name: &str) -> Option<&'static str> {
    Some(match name {
        "abs" | "sqrt" | "cbrt" | "ln" | "log10" | "log2" | "exp" | "factorial" => "one number",
        "root" | "mod" | "choose" => "two numbers",
        "log" => "a number and a base (`ln(x)` has the base e, `log10(x)` has 10)",
        "floor" | "ceil" | "trunc" | "round" | "round_half_even" | "round_half_down" | "round_up" => {
            "one number, and how many digits to keep"
        }
        "min" | "max" | "gcd" | "lcm" => "one number or more",
        _ => return None,
    })
}

/// Rounds at a digit after the point, or before it where `digits` is negative.
fn at_digit(x: &Number, digits: &Number, effort: &Effort, round: fn(&Number, &Effort) -> Outcome) -> Outcome {
    let digits =
        digits.as_whole().and_then(ToPrimitive::to_i64).filter(|digits| digits.abs() <= MAX_ROUND_DIGITS);
    let digits = digits.ok_or_else(|| {
        impossible(format!("rounding keeps a whole number of digits, at most {MAX_ROUND_DIGITS}"))
    })?;
    round(&x.times_power_of_ten(digits, effort)?, effort)?.times_power_of_ten(-digits, effort)
}

fn root(x: &Number, degree: &Number, effort: &Effort) -> Outcome {
    let degree = degree.as_whole().and_then(ToPrimitive::to_u32);
    x.root(degree.ok_or_else(|| impossible("the degree of a root is a whole number"))?, effort)
}
