//! `parse`: a time from any text.

use jiff::civil::Date;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::parsed::{MAX_CHARACTERS, ParsedForm, ParsedTime};
use crate::reader::Reader;
use crate::zone;

/// What POSIX takes for a year of two digits.
const CENTURY: &str = "a year from 1969 to 2068, as `format` has two digits of it";

/// Reads a date and time in nearly any form, and gives it in RFC 3339 and in parts.
///
/// - Forms of programs: RFC 3339, ISO 8601 (also `2024-W10-7` and `2024-070`), `2024-03-10T14:30[Europe/Berlin]`, e-mail dates, Unix times as `@1710081000`.
/// - Forms of people: `10 March 2024 2:30 pm`, `Sunday, Mar 10th, 2024`, `10.03.2024`, `2024/03/10`. English only.
/// - `now`, `today`, `tomorrow 3pm`, `yesterday at 14:30`. For other relative times call `add`.
///
/// A year of two digits is one from 1969 to 2068, and more digits of a Unix time are milliseconds or less: `assumed` says
/// so. A text with two meanings (`3/4/2024`, `CST`, a time that clocks show twice) is refused with the choices: pick one and
/// write it so. For texts of a known form, give `format`, and nothing is ambiguous.
#[tool(
    read_only,
    tags("date", "iso", "rfc3339", "timestamp", "unix"),
    examples(
        "as people write": {"text": "Sunday, 10 March 2024 at 2:30 pm", "time_zone": "Europe/Berlin"} => {
            "time": "2024-03-10T14:30:00+01:00", "time_zone": "Europe/Berlin", "weekday": "Sunday", "unix_seconds": 1710077400,
            "parts": {"year": 2024, "month": 3, "day": 10, "hour": 14, "minute": 30, "second": 0, "nanosecond": 0, "offset": "+01:00"}
        },
        "in a known form": {"text": "03/04/24", "format": "%d/%m/%y"} => {
            "time": "2024-04-03T00:00:00Z", "time_zone": "UTC", "weekday": "Wednesday", "unix_seconds": 1712102400,
            "parts": {"year": 2024, "month": 4, "day": 3, "hour": 0, "minute": 0, "second": 0, "nanosecond": 0, "offset": "+00:00"},
            "assumed": ["a year from 1969 to 2068, as `format` has two digits of it", "the start of the day, as no time of day is written", "UTC, as no time zone is written or given"]
        },
    )
)]
pub fn parse(
    /// The text, and nothing but the time
    text: String,
    /// The form of the text in signs of strptime, as `%d/%m/%Y %H:%M`; only where it cannot be recognised
    format: Option<String>,
    /// The zone that is meant where the text names none, and to convert to where it names another
    time_zone: Option<String>,
) -> Result<Parsed, Error> {
    let reader = Reader::new(time_zone.as_deref())?;
    match format {
        Some(format) => Parsed::settle(read_as(&text, &format)?, &reader),
        None => Parsed::settle(reader.recognise(&text)?, &reader),
    }
}

/// The parsed time.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parsed {
    #[serde(flatten)]
    pub moment: Moment,
    pub parts: Parts,
    /// Parts that the text does not say or leaves open, and what is taken for them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub assumed: Vec<String>,
}

/// What calendar and clock show in the zone.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parts {
    pub year: i16,
    pub month: i8,
    pub day: i8,
    pub hour: i8,
    pub minute: i8,
    pub second: i8,
    /// The part of a second, in billionths
    pub nanosecond: i32,
    /// From UTC
    pub offset: String,
}

impl Parsed {
    pub fn settle(written: ParsedTime, reader: &Reader) -> Result<Self, Error> {
        let assumed = written.assumptions(reader.zone());
        let zoned = written.settle(reader.zone())?;
        let parts = Parts {
            year: zoned.year(),
            month: zoned.month(),
            day: zoned.day(),
            hour: zoned.hour(),
            minute: zoned.minute(),
            second: zoned.second(),
            nanosecond: zoned.subsec_nanosecond(),
            offset: zone::write_offset(zoned.offset()),
        };
        Ok(Self { moment: Moment::from(&zoned), parts, assumed })
    }
}

/// Reads a text of a form that is told.
pub fn read_as(text: &str, format: &str) -> Result<ParsedTime, Error> {
    if text.len().max(format.len()) > 4 * MAX_CHARACTERS {
        return Err(Error::invalid("the text or its `format` is too long: write nothing but the time"));
    }
    let wrong = |error: jiff::Error| {
        Error::invalid(format!(
            "`{text}` does not have the form `{format}`: {error}; leave out `format` to have it recognised"
        ))
    };
    let found = BrokenDownTime::parse(format, text).map_err(wrong)?;
    let zone = match (found.iana_time_zone(), found.offset()) {
        (Some(name), _) => Some(zone::find(name)?),
        (None, Some(offset)) => Some(TimeZone::fixed(zone::check_offset(offset)?)),
        (None, None) => None,
    };
    if let Some(instant) = found.timestamp() {
        return Ok(ParsedTime::instant(instant, zone.unwrap_or(TimeZone::UTC)));
    }
    let date: Date = found.to_date().map_err(wrong)?;
    let time = found.hour().map(|_| found.to_time()).transpose().map_err(wrong)?;
    let written = match (time, found.offset(), zone) {
        // With both, the offset says which of two times is meant.
        (Some(time), Some(offset), Some(zone)) => {
            let instant = offset.to_timestamp(date.to_datetime(time)).map_err(wrong)?;
            ParsedTime::instant(instant, zone)
        }
        (time, _, zone) => ParsedForm::Local { date, time, zone }.into(),
    };
    Ok(if has_short_year(format) { written.assuming(CENTURY) } else { written })
}

/// Whether a form has the year in two digits. `%D` is `%m/%d/%y`, and `%g` the year of the week.
fn has_short_year(format: &str) -> bool {
    // The letter after a percent sign that is written as such stands for itself.
    let format = format.replace("%%", "");
    format.split('%').skip(1).any(|sign| {
        let is_flag = |sign: char| matches!(sign, '-' | '_' | '^' | '#') || sign.is_ascii_digit();
        sign.trim_start_matches(is_flag).starts_with(['y', 'D', 'g'])
    })
}
