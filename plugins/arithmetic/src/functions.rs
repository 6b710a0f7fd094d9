//! The functions that an expression can call.

use num_traits::ToPrimitive;

use crate::number::{Number, Outcome, Precision, impossible, power_of_ten};

/// Their names, for a message to the one who guessed at another.
pub const KNOWN: &str = "abs, floor, ceil, trunc, round, round_half_even, round_half_down, round_up, min, max, gcd, lcm, mod, sqrt, cbrt, root, factorial, choose";

/// Digit 1000 is the furthest that anybody needs.
const MAX_ROUND_DIGITS: i64 = 1_000;

/// Calls a function by its name. None where there is none of that name.
pub fn call(name: &str, arguments: &[Number], precision: Precision) -> Option<Outcome> {
    Some(match (name, arguments) {
        ("abs", [x]) => Ok(x.abs()),
        ("floor", [x]) => x.floor(),
        ("ceil", [x]) => x.ceil(),
        ("trunc", [x]) => x.trunc(),
        ("round", [x]) => x.round(),
        ("round_half_even", [x]) => x.round_half_even(),
        ("round_half_down", [x]) => x.round_half_down(),
        ("round_up", [x]) => x.round_up(),
        ("round", [x, digits]) => at_digit(x, digits, precision, Number::round),
        ("round_half_even", [x, digits]) => at_digit(x, digits, precision, Number::round_half_even),
        ("round_half_down", [x, digits]) => at_digit(x, digits, precision, Number::round_half_down),
        ("round_up", [x, digits]) => at_digit(x, digits, precision, Number::round_up),
        ("floor", [x, digits]) => at_digit(x, digits, precision, Number::floor),
        ("ceil", [x, digits]) => at_digit(x, digits, precision, Number::ceil),
        ("trunc", [x, digits]) => at_digit(x, digits, precision, Number::trunc),
        ("sqrt", [x]) => x.root(2, precision),
        ("cbrt", [x]) => x.root(3, precision),
        ("root", [x, degree]) => root(x, degree, precision),
        ("mod", [a, b]) => a.remainder(b, precision),
        ("factorial", [n]) => n.factorial(),
        ("choose", [n, k]) => n.choose(k),
        ("min", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |least, x| least.min(x))),
        ("max", [first, rest @ ..]) => Ok(rest.iter().fold(first.clone(), |most, x| most.max(x))),
        ("gcd", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |divisor, x| divisor.gcd(x)),
        ("lcm", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |multiple, x| multiple.lcm(x)),
        (name, _) => {
            return arity(name)
                .map(|takes| Err(impossible(format!("`{name}` takes {takes}, not {}", arguments.len()))));
        }
    })
}

fn arity(name: &str) -> Option<&'static str> {
    Some(match name {
        "abs" | "sqrt" | "cbrt" | "factorial" => "one number",
        "root" | "mod" | "choose" => "two numbers",
        "floor" | "ceil" | "trunc" | "round" | "round_half_even" | "round_half_down" | "round_up" => {
            "one number, and how many digits to keep"
        }
        "min" | "max" | "gcd" | "lcm" => "one number or more",
        _ => return None,
    })
}

/// Rounds at a digit after the point, or before it where `digits` is negative.
fn at_digit(x: &Number, digits: &Number, precision: Precision, round: fn(&Number) -> Outcome) -> Outcome {
    let digits =
        digits.as_whole().and_then(ToPrimitive::to_i64).filter(|digits| digits.abs() <= MAX_ROUND_DIGITS);
    let digits = digits.ok_or_else(|| {
        impossible(format!("rounding keeps a whole number of digits, at most {MAX_ROUND_DIGITS}"))
    })?;
    let scale = Number::exact(power_of_ten(digits));
    round(&x.multiply(&scale, precision)?)?.divide(&scale, precision)
}

fn root(x: &Number, degree: &Number, precision: Precision) -> Outcome {
    let degree = degree.as_whole().and_then(ToPrimitive::to_u32);
    x.root(degree.ok_or_else(|| impossible("the degree of a root is a whole number"))?, precision)
}
