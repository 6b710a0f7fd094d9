//! The functions that an expression can call.

use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::number::{Number, Outcome, impossible, round_half_down, round_half_even, round_up};
use crate::work::Work;

pub const KNOWN: &str = "abs, floor, ceil, trunc, round, round_half_even, round_half_down, round_up, min, max, gcd, lcm, mod, sqrt, cbrt, root, ln, log10, log2, log, exp, factorial, choose, and the numbers pi and e";

/// Digit 1000 is the furthest that a reader needs.
const MAX_ROUND_DIGITS: i32 = 1_000;

/// Calls a function by its name. None where there is none of that name.
pub fn call(name: &str, arguments: &[Number], work: &Work) -> Option<Outcome> {
    if let Some(mode) = rounding(name) {
        return Some(match arguments {
            [x] => x.round(mode, 0, work),
            [x, digits] => round_at(x, digits, mode, work),
            _ => Err(wrong_count(name, "one number, and how many digits to keep", arguments)),
        });
    }
    let takes = match name {
        "abs" | "sqrt" | "cbrt" | "ln" | "log10" | "log2" | "exp" | "factorial" => "one number",
        "root" | "mod" | "choose" => "two numbers",
        "log" => "a number and a base (`ln(x)` has the base e, `log10(x)` has 10)",
        "min" | "max" | "gcd" | "lcm" => "one number or more",
        _ => return None,
    };
    Some(match (name, arguments) {
        ("abs", [x]) => Ok(x.abs()),
        ("sqrt", [x]) => x.root(2, work),
        ("cbrt", [x]) => x.root(3, work),
        ("ln", [x]) => x.ln(work),
        ("log10", [x]) => x.log(&Number::whole(10), work),
        ("log2", [x]) => x.log(&Number::whole(2), work),
        ("exp", [x]) => x.exp(work),
        ("factorial", [n]) => n.factorial(work),
        ("root", [x, degree]) => root(x, degree, work),
        ("mod", [a, b]) => a.remainder(b, work),
        ("choose", [n, k]) => n.choose(k, work),
        ("log", [x, base]) => x.log(base, work),
        ("min", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |least, x| least.min(x, work)),
        ("max", [first, rest @ ..]) => {
            let least = rest.iter().try_fold(first.negate(), |least, x| least.min(&x.negate(), work));
            least.map(|least| least.negate())
        }
        ("gcd", [first, rest @ ..]) => rest.iter().try_fold(first.clone(), |divisor, x| divisor.gcd(x, work)),
        ("lcm", [first, rest @ ..]) => {
            rest.iter().try_fold(first.clone(), |multiple, x| multiple.lcm(x, work))
        }
        _ => Err(wrong_count(name, takes, arguments)),
    })
}

/// A number that has a name. None where there is none of that name.
pub fn constant(name: &str, work: &Work) -> Option<Outcome> {
    match name {
        "pi" | "π" => Some(Number::pi(work)),
        "e" => Some(Number::whole(1).exp(work)),
        _ => None,
    }
}

fn rounding(name: &str) -> Option<fn(&RBig) -> IBig> {
    Some(match name {
        "floor" => RBig::floor,
        "ceil" => RBig::ceil,
        "trunc" => RBig::trunc,
        "round" => RBig::round,
        "round_half_even" => round_half_even,
        "round_half_down" => round_half_down,
        "round_up" => round_up,
        _ => return None,
    })
}

fn round_at(x: &Number, digits: &Number, mode: fn(&RBig) -> IBig, work: &Work) -> Outcome {
    let places = digits.as_whole().and_then(|digits| i32::try_from(digits.clone()).ok());
    let places = places.filter(|places| (-MAX_ROUND_DIGITS..=MAX_ROUND_DIGITS).contains(places));
    let too_far =
        || impossible(format!("rounding keeps a whole number of digits, at most {MAX_ROUND_DIGITS}"));
    x.round(mode, places.ok_or_else(too_far)?, work)
}

fn root(x: &Number, degree: &Number, work: &Work) -> Outcome {
    let degree = degree.as_whole().and_then(|degree| u32::try_from(degree.clone()).ok());
    x.root(degree.ok_or_else(|| impossible("the degree of a root is a whole number"))? as usize, work)
}

fn wrong_count(name: &str, takes: &str, arguments: &[Number]) -> crate::number::Failure {
    impossible(format!("`{name}` takes {takes}, not {}", arguments.len()))
}
