//! Dates in filters. All of them are in UTC, for there is no other time zone here.

use std::time::{SystemTime, UNIX_EPOCH};

use jaq_core::ValR;
use jaq_json::{Error, Num, Val};
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::functions::{float, text};

/// The seconds since 1970, with fractions.
pub fn now() -> ValR<Val> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(Error::str)?;
    Ok(Val::from(since.as_secs_f64()))
}

pub fn to_iso8601(value: &Val) -> ValR<Val> {
    // As in `jq`, of the parts too, which `strptime` and `gmtime` give.
    Ok(Val::from(zoned(value)?.timestamp().to_string()))
}

pub fn from_iso8601(value: &Val) -> ValR<Val> {
    let text = text(value)?;
    let timestamp: Timestamp = text
        .parse()
        .map_err(|_| Error::str(format!("`{text}` is no date as in `2024-05-17T12:30:00Z`: use strptime")))?;
    Ok(seconds(timestamp))
}

/// The parts of a time: year, month from 0, day, hour, minute, second, day of the week from Sunday, day of the year from 0.
pub fn gmtime(value: &Val) -> ValR<Val> {
    Ok(parts(timestamp(value)?.to_zoned(TimeZone::UTC).datetime()))
}

pub fn mktime(value: &Val) -> ValR<Val> {
    Ok(seconds(zoned(value)?.timestamp()))
}

pub fn strftime(value: Val, format: Val) -> ValR<Val> {
    strtime::format(text(&format)?.as_bytes(), &zoned(&value)?).map(Val::from).map_err(Error::str)
}

pub fn strptime(value: Val, format: Val) -> ValR<Val> {
    let text = text(&value)?;
    // The name of the zone can only be one here.
    let format = text_of_format(&format)?;
    let parsed = strtime::parse(format.as_bytes(), text.as_bytes()).map_err(Error::str)?;
    let moment = match parsed.offset() {
        Some(_) => parsed.to_timestamp().map(|timestamp| timestamp.to_zoned(TimeZone::UTC).datetime()),
        None => parsed.to_datetime().or_else(|_| parsed.to_date().map(|date| date.at(0, 0, 0, 0))),
    };
    moment.map(parts).map_err(Error::str)
}

fn text_of_format(format: &Val) -> Result<String, Error> {
    Ok(text(format)?.replace("%Z", "Z"))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float beyond the range becomes the end of it, which is refused"
)]
fn timestamp(value: &Val) -> Result<Timestamp, Error> {
    let microseconds = (float(value)? * 1e6).round() as i64;
    Timestamp::from_microsecond(microseconds).map_err(Error::str)
}

/// A time, from the seconds or from the parts.
fn zoned(value: &Val) -> Result<Zoned, Error> {
    let Val::Arr(parts) = value else { return Ok(timestamp(value)?.to_zoned(TimeZone::UTC)) };
    let numbers = parts.iter().take(6).map(float).collect::<Result<Vec<_>, _>>()?;
    let [year, month, day, hour, minute, second] = numbers[..] else {
        return Err(Error::str("a time has six parts or more: year, month, day, hour, minute, second"));
    };
    let nanoseconds = second.fract() * 1e9;
    let moment = DateTime::new(
        whole(year),
        whole(month + 1.0),
        whole(day),
        whole(hour),
        whole(minute),
        whole(second),
        whole(nanoseconds),
    );
    moment.and_then(|moment| moment.to_zoned(TimeZone::UTC)).map_err(Error::str)
}

/// The whole part. What no calendar has becomes a number that no calendar has.
fn whole<T: TryFrom<i64> + Bounded>(number: f64) -> T {
    #[expect(clippy::cast_possible_truncation, reason = "a float beyond the range becomes the end of it")]
    let whole = number.floor() as i64;
    T::try_from(whole).unwrap_or(T::MOST)
}

trait Bounded {
    const MOST: Self;
}

impl Bounded for i8 {
    const MOST: Self = Self::MAX;
}

impl Bounded for i16 {
    const MOST: Self = Self::MAX;
}

impl Bounded for i32 {
    const MOST: Self = Self::MAX;
}

fn parts(moment: DateTime) -> Val {
    let fraction = moment.subsec_nanosecond();
    let second = match fraction {
        0 => integer(moment.second()),
        _ => Val::from(f64::from(moment.second()) + f64::from(fraction) / 1e9),
    };
    [
        integer(moment.year()),
        integer(moment.month() - 1),
        integer(moment.day()),
        integer(moment.hour()),
        integer(moment.minute()),
        second,
        integer(moment.weekday().to_sunday_zero_offset()),
        integer(moment.day_of_year() - 1),
    ]
    .into_iter()
    .collect()
}

fn integer(number: impl Into<i64>) -> Val {
    Val::Num(Num::from_integral(number.into()))
}

/// Whole seconds as an integer, so that no digit is lost.
fn seconds(timestamp: Timestamp) -> Val {
    match timestamp.subsec_nanosecond() {
        0 => integer(timestamp.as_second()),
        #[expect(clippy::cast_precision_loss, reason = "a fraction of a second in a float, as in jq")]
        _ => Val::from(timestamp.as_microsecond() as f64 / 1e6),
    }
}
