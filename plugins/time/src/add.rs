//! `add`: a time before or after another.

use jiff::Span;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::reader::Reader;
use crate::written::MAX_CHARACTERS;

/// Adds a duration to a time, or takes it off.
///
/// Years, months, weeks and days follow the calendar: a month after 31 January is the last day of February, and a day
/// later is the same time of day, also where clocks are changed in between. Hours and less are time that passes. Give
/// `time_zone` for that: an offset alone, as `-05:00`, does not say when clocks are changed.
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
}

impl Reader {
    pub fn add(&self, time: &str, duration: &str) -> Result<Added, Error> {
        let before = self.read(time)?;
        let after = before.checked_add(read_duration(duration)?).map_err(|_| {
            Error::invalid(format!(
                "`{time}` and `{duration}` is beyond the years from -9999 to 9999 that are known"
            ))
        })?;
        Ok(Added { before: Moment::from(&before), after: Moment::from(&after) })
    }
}

fn read_duration(text: &str) -> Result<Span, Error> {
    if text.chars().count() > MAX_CHARACTERS {
        return Err(Error::invalid("`duration` is too long: write it as `1 month 3 days`"));
    }
    text.trim().parse().map_err(|error: jiff::Error| {
        Error::invalid(format!(
            "`{text}` is no duration: {error}; write it from large to small, as `1 month 3 days`, `-2h 30m` or `P1M3DT2H`"
        ))
    })
}
