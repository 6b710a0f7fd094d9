//! `difference`: how long from one time to another.

use std::collections::BTreeMap;

use jiff::{Span, Unit, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::serde_json::Number;
use toolgate_sdk::{Error, tool};

use crate::reader::Reader;

/// Tells how long it is from one time to another, in the units asked for.
///
/// With several units each counts what the larger ones leave: `["years", "months", "days"]` for an age, `["days"]` for
/// the days until a date, `["hours", "minutes"]` for a duration. All are whole but the smallest, which may have a
/// fraction. Negative where `end` is before `start`. Days and longer follow the calendar of the zone, and `add` with the
/// amounts leads from `start` to `end`: from 31 January to 28 February is a month.
#[tool(
    read_only,
    tags("duration", "age", "countdown", "elapsed"),
    examples(
        "an age": {"start": "1990-07-15", "end": "2024-03-10", "units": ["years", "months", "days"]} => {
            "amounts": {"years": 33, "months": 7, "days": 24}, "seconds": 1062028800
        },
        "born on a leap day": {"start": "2000-02-29", "end": "2024-02-28", "units": ["years", "months", "days"]} => {
            "amounts": {"years": 23, "months": 11, "days": 30}, "seconds": 757296000
        },
        "a fraction": {"start": "2024-03-10T09:00", "end": "2024-03-10T10:30", "units": ["hours"]} => {"amounts": {"hours": 1.5}, "seconds": 5400},
    )
)]
pub fn difference(
    /// The time to count from, in any form that `parse` takes, or `now`
    start: String,
    /// The time to count to, likewise
    end: String,
    /// The units to tell it in, in any order
    #[default(vec![DifferenceUnit::Days, DifferenceUnit::Hours, DifferenceUnit::Minutes, DifferenceUnit::Seconds])]
    units: Vec<DifferenceUnit>,
    /// The zone whose calendar counts; if left out, the one that `start` is written with, else UTC
    time_zone: Option<String>,
) -> Result<Difference, Error> {
    let reader = Reader::new(time_zone.as_deref())?;
    between(&reader.read(&start)?, &reader.read(&end)?, &units)
}

/// A unit of time. The larger ones come first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DifferenceUnit {
    Years,
    Months,
    Weeks,
    Days,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// How long it is.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The amount of each unit asked for
    pub amounts: BTreeMap<DifferenceUnit, Number>,
    /// All of it in seconds
    pub seconds: Number,
}

pub fn between(start: &Zoned, end: &Zoned, units: &[DifferenceUnit]) -> Result<Difference, Error> {
    let mut units = units.to_vec();
    units.sort_unstable();
    units.dedup();
    let Some(smallest) = units.last().copied() else {
        return Err(Error::invalid("`units` is empty: name at least one, as `[\"days\"]`"));
    };
    // Calendars of two zones have no common days.
    let end = end.with_time_zone(start.time_zone().clone());
    let mut counted = Counted { start, span: Span::new() };
    let mut amounts = BTreeMap::new();
    for unit in units {
        let whole = counted.whole(&end, unit)?;
        counted.span = counted.with(unit, whole)?;
        let fraction = if unit == smallest { counted.fraction(&end, unit)? } else { 0.0 };
        amounts.insert(unit, number(whole, fraction));
    }
    let elapsed = start.duration_until(&end);
    let seconds = number(elapsed.as_secs(), f64::from(elapsed.subsec_nanos()) / 1e9);
    Ok(Difference { amounts, seconds })
}

/// The units that are counted so far. Each unit is added to the start and not to what the larger ones reached, for a month counted
/// from a day that was clamped, as 28 February after the 29th, is no month after the start.
struct Counted<'s> {
    start: &'s Zoned,
    span: Span,
}

impl Counted<'_> {
    /// How many of the unit fit before the end, as `add` adds them.
    fn whole(&self, end: &Zoned, unit: DifferenceUnit) -> Result<i64, Error> {
        let reached = self.reach(self.span)?;
        let span = reached.until((unit.unit(), end)).map_err(too_far)?;
        let mut whole = unit.of(&span);
        // Counted from a clamped day it may be one too many, or one too few.
        let direction = if end < self.start { -1 } else { 1 };
        let fits = |amount| {
            let reached = self.with(unit, amount).and_then(|span| self.reach(span));
            reached.is_ok_and(|reached| if direction < 0 { reached >= *end } else { reached <= *end })
        };
        if whole != 0 && !fits(whole) {
            whole -= direction;
        } else if fits(whole + direction) {
            whole += direction;
        }
        Ok(whole)
    }

    /// The part of one more unit that is left: days, months and years are not all of one length.
    fn fraction(&self, end: &Zoned, unit: DifferenceUnit) -> Result<f64, Error> {
        let reached = self.reach(self.span)?;
        let left = reached.duration_until(end);
        if left.is_zero() {
            return Ok(0.0);
        }
        let whole = unit.of(&self.span);
        let direction = if left.is_negative() { -1 } else { 1 };
        // At the end of the years that are known, the unit before is as long as the one after.
        let next = self.with(unit, whole + direction).and_then(|span| self.reach(span));
        let next = next.or_else(|_| self.with(unit, whole - direction).and_then(|span| self.reach(span)))?;
        let ratio = left.as_secs_f64() / reached.duration_until(&next).as_secs_f64().abs();
        Ok(if ratio.is_finite() { ratio } else { 0.0 })
    }

    fn with(&self, unit: DifferenceUnit, amount: i64) -> Result<Span, Error> {
        unit.set(self.span, amount).map_err(too_far)
    }

    fn reach(&self, span: Span) -> Result<Zoned, Error> {
        self.start.checked_add(span).map_err(too_far)
    }
}

/// Whole numbers are written without a point. A fraction has as many digits as mean something.
fn number(whole: i64, fraction: f64) -> Number {
    let fraction = (fraction * 1e9).round() / 1e9;
    if fraction == 0.0 {
        return Number::from(whole);
    }
    if fraction.abs() >= 1.0 {
        // So close to one more that no digit tells.
        return Number::from(whole + if fraction < 0.0 { -1 } else { 1 });
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "years -9999 to 9999 have fewer milliseconds than an f64 counts"
    )]
    let sum = whole as f64 + fraction;
    Number::from_f64(sum).unwrap_or_else(|| Number::from(whole))
}

fn too_far(_: jiff::Error) -> Error {
    Error::invalid("the times are too far apart for these units: ask for larger ones")
}

impl DifferenceUnit {
    fn unit(self) -> Unit {
        match self {
            Self::Years => Unit::Year,
            Self::Months => Unit::Month,
            Self::Weeks => Unit::Week,
            Self::Days => Unit::Day,
            Self::Hours => Unit::Hour,
            Self::Minutes => Unit::Minute,
            Self::Seconds => Unit::Second,
            Self::Milliseconds => Unit::Millisecond,
        }
    }

    /// The span with so many of the unit.
    fn set(self, span: Span, amount: i64) -> Result<Span, jiff::Error> {
        match self {
            Self::Years => span.try_years(amount),
            Self::Months => span.try_months(amount),
            Self::Weeks => span.try_weeks(amount),
            Self::Days => span.try_days(amount),
            Self::Hours => span.try_hours(amount),
            Self::Minutes => span.try_minutes(amount),
            Self::Seconds => span.try_seconds(amount),
            Self::Milliseconds => span.try_milliseconds(amount),
        }
    }

    /// How many of the unit the span has.
    fn of(self, span: &Span) -> i64 {
        match self {
            Self::Years => i64::from(span.get_years()),
            Self::Months => i64::from(span.get_months()),
            Self::Weeks => i64::from(span.get_weeks()),
            Self::Days => i64::from(span.get_days()),
            Self::Hours => i64::from(span.get_hours()),
            Self::Minutes => span.get_minutes(),
            Self::Seconds => span.get_seconds(),
            Self::Milliseconds => span.get_milliseconds(),
        }
    }
}
