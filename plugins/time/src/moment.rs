//! A point in time as the tools give it back.

use jiff::Zoned;
use jiff::civil::Weekday;
use schemars::JsonSchema;
use serde::Serialize;

use crate::zone;

/// A point in time, as clocks in a zone show it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// In RFC 3339, with the offset from UTC: `2024-03-10T14:30:00-04:00`
    pub time: String,
    /// The zone whose clocks show it: an IANA name, or an offset
    pub time_zone: String,
    /// The day of the week
    pub weekday: &'static str,
    /// Whole seconds since 1970-01-01T00:00:00Z
    pub unix_seconds: i64,
}

impl From<&Zoned> for Moment {
    fn from(zoned: &Zoned) -> Self {
        Self {
            time: rfc3339(zoned),
            time_zone: zone::name(zoned.time_zone()),
            weekday: weekday_name(zoned.weekday()),
            unix_seconds: zoned.timestamp().as_second(),
        }
    }
}

/// In RFC 3339, with an offset. UTC has `Z`.
pub fn rfc3339(zoned: &Zoned) -> String {
    if zone::is_utc(zoned.time_zone()) {
        return zoned.timestamp().to_string();
    }
    zoned.timestamp().display_with_offset(zoned.offset()).to_string()
}

pub fn weekday_name(weekday: Weekday) -> &'static str {
    match weekday {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}
