//! Durations that cannot be read as they are written, and how they can be.
//!
//! `jiff` reads durations; here is only the refusal. It does not guess: a quarter or half a day is told in units that
//! leave no doubt, for the writer to take or not.

use jiff::Span;
use toolgate_sdk::Error;

/// More of a unit than all years that are known have of it.
const MAX_AMOUNT: f64 = 1e9;

/// The units that a rewritten duration is made of, from large to small.
const UNITS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];

/// How many of a smaller unit a part of one is worth, for each of the units above. A month is not always of 30 days, and
/// a day not always of 24 hours, which is why this is offered and not done.
const PARTS: [f64; 5] = [12.0, 30.0, 24.0, 60.0, 60.0];

/// The refusal, with the way to write it where that can be told.
pub fn wrong_duration(text: &str) -> Error {
    let Some(better) = rewrite(text) else {
        return Error::invalid(format!(
            "`{text}` is no duration: write amounts in digits with their units, from large to small, as `1 month 3 days`, \
             `-2h 30m` or `P1M3DT2H`"
        ));
    };
    Error::invalid(format!(
        "`{text}` is no duration: only hours and less have fractions, and the units are years, months, weeks, days, hours, \
         minutes and seconds, from large to small; write `{better}`, if that is meant"
    ))
}

/// The same in units that `jiff` knows and in its order, where every part has an amount and a unit.
fn rewrite(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (is_past, rest) = match (lower.strip_prefix('-'), lower.strip_suffix("ago")) {
        (Some(rest), None) => (true, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => (false, lower.as_str()),
        (Some(_), Some(_)) => return None,
    };
    let mut amounts = [0.0; UNITS.len()];
    let mut rest = trim(rest);
    while !rest.is_empty() {
        let (amount, after) = rest.split_at(rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?);
        let after = after.trim_start();
        let (unit, after) =
            after.split_at(after.find(|sign: char| !sign.is_ascii_lowercase()).unwrap_or(after.len()));
        let amount: f64 = amount.parse().ok()?;
        let (index, factor) = known(unit)?;
        amounts[index] += amount * factor;
        rest = trim(after);
    }
    let better = write(amounts)?;
    let better = if is_past { format!("{better} ago") } else { better };
    better.parse::<Span>().is_ok().then_some(better)
}

/// What stands between parts says nothing.
fn trim(text: &str) -> &str {
    let text = text.trim_start_matches([' ', ',', '+']).trim_end();
    text.strip_prefix("and ").map_or(text, str::trim_start)
}

/// The unit that a name is told in, and how many of it.
fn known(name: &str) -> Option<(usize, f64)> {
    Some(match name.strip_suffix('s').filter(|singular| !singular.is_empty()).unwrap_or(name) {
        "century" | "centurie" => (0, 100.0),
        "decade" => (0, 10.0),
        "year" | "yr" | "y" => (0, 1.0),
        "quarter" | "qtr" | "q" => (1, 3.0),
        "month" | "mo" => (1, 1.0),
        "fortnight" => (2, 14.0),
        "week" | "wk" | "w" => (2, 7.0),
        "day" | "d" => (2, 1.0),
        "hour" | "hr" | "h" => (3, 1.0),
        "minute" | "min" | "m" => (4, 1.0),
        "second" | "sec" | "s" => (5, 1.0),
        _ => return None,
    })
}

/// Whole amounts, the parts of each told in the next smaller unit.
fn write(mut amounts: [f64; UNITS.len()]) -> Option<String> {
    let mut written = Vec::new();
    for (index, unit) in UNITS.iter().enumerate() {
        // Digits beyond these are what binary fractions add.
        let amount = (amounts[index] * 1e6).round() / 1e6;
        if amount > MAX_AMOUNT {
            return None;
        }
        let whole = match PARTS.get(index) {
            Some(parts) => {
                amounts[index + 1] += (amount - amount.floor()) * parts;
                amount.floor()
            }
            None => amount,
        };
        if whole > 0.0 {
            written.push(format!("{whole} {unit}{}", if whole == 1.0 { "" } else { "s" }));
        }
    }
    (!written.is_empty()).then(|| written.join(" "))
}
