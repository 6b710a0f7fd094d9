//! `format`: a time in the form that the caller asks for.

use jiff::Zoned;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::reader::Reader;

/// A longer form is a text with times in it, for which this is the wrong tool. As each sign pads what it stands for to
/// 255 characters at most, this bounds the result too.
const MAX_FORMAT_BYTES: usize = 500;

/// Writes a time in a given form, with the signs of strftime.
///
/// - Date: `%Y` 2024, `%m` 03, `%d` 10, `%B` March, `%b` Mar, `%A` Sunday, `%a` Sun, `%j` day of the year, `%G-W%V-%u` ISO week, `%q` quarter, `%F` = `%Y-%m-%d`.
/// - Time: `%H` 14, `%I` 02, `%M` 30, `%S` 05, `%p` PM, `%.3f` .123, `%T` = `%H:%M:%S`, `%s` Unix seconds.
/// - Zone: `%z` -0400, `%:z` -04:00, `%Z` EDT, `%Q` America/New_York.
/// - `%-d` has no padding (3 instead of 03), `%%` is a percent sign. Names are English.
///
/// An e-mail date is `%a, %d %b %Y %T %z`; an HTTP date is `%a, %d %b %Y %T GMT` with `time_zone` UTC.
#[tool(
    read_only,
    tags("strftime", "date"),
    examples({"time": "2024-03-10T14:30:00Z", "format": "%A, %-d %B %Y, %H:%M %Z", "time_zone": "America/New_York"} => {"text": "Sunday, 10 March 2024, 10:30 EDT"})
)]
pub fn format(
    /// The time, in any form that `parse` takes, or `now`
    time: String,
    /// The form, as `%d.%m.%Y %H:%M`
    format: String,
    /// The zone to show it in; if left out, the one that the time is written with, else UTC
    time_zone: Option<String>,
) -> Result<Formatted, Error> {
    write(&Reader::new(time_zone.as_deref())?.read(&time)?, &format)
}

/// A time as text.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Formatted {
    pub text: String,
}

pub fn write(zoned: &Zoned, format: &str) -> Result<Formatted, Error> {
    if format.len() > MAX_FORMAT_BYTES {
        return Err(Error::invalid(format!(
            "`format` has more than {MAX_FORMAT_BYTES} bytes: write only the part with the time in it"
        )));
    }
    // Without it `%c`, `%x` and `%r` are written in the forms of no language in particular, which no `strftime` writes.
    let config = Config::new().custom(PosixCustom::new());
    let mut text = String::new();
    BrokenDownTime::from(zoned)
        .format_with_config(&config, format, &mut text)
        .map_err(|error| Error::invalid(format!("{error}; `%%` writes a percent sign")))?;
    Ok(Formatted { text })
}
