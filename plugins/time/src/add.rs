//! `add`: a time before or after another.

use jiff::tz::AmbiguousOffset;
use jiff::{Span, Zoned};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::parsed::MAX_CHARACTERS;
use crate::reader::Reader;

/// Adds a duration to a time, or takes it off.
///
/// Years, months, weeks and days follow the calendar: a month after 31 January is the last day of February, and a day
/// later is the same time of day, also where clocks are changed in between. Hours and less are time that passes. Give
/// `time_zone` for that: an offset alone, as `-05:00`, does not say when clocks are changed. A time of day that clocks
/// skip or repeat is settled, and `assumed` says how.
#[tool(
    read_only,
    tags("date", "later", "before", "deadline"),
    examples(
        "30 days from now": {"time": "now", "duration": "30 days"},
        "the calendar": {"time": "2024-01-31", "duration": "1 month"} => {
            "before": {"time": "2024-01-31T00:00:00Z", "time_zone": "UTC", "weekday": "Wednesday", "unix_seconds": 1706659200},
            "after": {"time": "2024-02-29T00:00:00Z", "time_zone": "UTC", "weekday": "Thursday", "unix_seconds": 1709164800}
        },
        "back, past a change of clocks": {"time": "2024-03-10T12:00", "duration": "-1 day", "time_zone": "America/New_York"} => {
            "before": {"time": "2024-03-10T12:00:00-04:00", "time_zone": "America/New_York", "weekday": "Sunday", "unix_seconds": 1710086400},
            "after": {"time": "2024-03-09T12:00:00-05:00", "time_zone": "America/New_York", "weekday": "Saturday", "unix_seconds": 1710003600}
        },
        "to a time that clocks skip": {"time": "2024-03-09T02:30", "duration": "1 day", "time_zone": "America/New_York"} => {
            "before": {"time": "2024-03-09T02:30:00-05:00", "time_zone": "America/New_York", "weekday": "Saturday", "unix_seconds": 1709969400},
            "after": {"time": "2024-03-10T03:30:00-04:00", "time_zone": "America/New_York", "weekday": "Sunday", "unix_seconds": 1710055800},
            "assumed": ["a later time of day, as clocks were set forward and never showed 2024-03-10T02:30:00"]
        },
    )
)]
pub fn add(
    /// The time to begin with, in any form that `parse` takes, or `now`
    time: String,
    /// How much: `1 month 3 days`, `-2h 30m`, `90 minutes ago`, or ISO 8601 as `P1M3DT2H`. `m` is minutes, `mo` months
    duration: String,
    /// The zone to calculate in; if left out, the one that the time is written with, else UTC
    time_zone: Option<String>,
) -> Result<Added, Error> {
    Reader::new(time_zone.as_deref())?.add(&time, &duration)
}

/// A time, and another that is a duration away.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Added {
    /// The time to begin with
    pub before: Moment,
    /// The time with the duration added
    pub after: Moment,
    /// Time that was assumed where clocks skip or repeat it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub assumed: Vec<String>,
}

impl Reader {
    pub fn add(&self, time: &str, duration: &str) -> Result<Added, Error> {
        let before = self.read(time)?;
        let span = read_duration(duration)?;
        let after = before.checked_add(span).map_err(|_| {
            Error::invalid(format!(
                "`{time}` and `{duration}` is beyond the times that are known, from -009999-01-02T01:59:59Z to \
                 9999-12-30T22:00:00Z: take a shorter duration"
            ))
        })?;
        let assumed = assumption(&before, span).into_iter().collect();
        Ok(Added { before: Moment::from(&before), after: Moment::from(&after), assumed })
    }
}

/// The assumption where the calendar leads to a time that clocks skip or repeat, before hours and less are added.
fn assumption(before: &Zoned, span: Span) -> Option<String> {
    let days = Span::new()
        .years(span.get_years())
        .months(span.get_months())
        .weeks(span.get_weeks())
        .days(span.get_days());
    if days.is_zero() {
        return None;
    }
    let local = before.datetime().checked_add(days).ok()?;
    match before.time_zone().to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => {
            Some(format!("a later time of day, as clocks were set forward and never showed {local}"))
        }
        AmbiguousOffset::Fold { .. } => {
            Some(format!("the first of two times, as clocks were set back and showed {local} twice"))
        }
    }
}

fn read_duration(text: &str) -> Result<Span, Error> {
    if text.chars().count() > MAX_CHARACTERS {
        return Err(Error::invalid("`duration` is too long: write it as `1 month 3 days`"));
    }
    text.trim().parse().map_err(|_| {
        Error::invalid(format!(
            "`{text}` is no duration: write amounts in digits with their units, from large to small, as `1 month 3 days`, \
             `-2h 30m` or `P1M3DT2H`; only hours and less have fractions, and the units are years, months, weeks, days, \
             hours, minutes and seconds"
        ))
    })
}
