//! Time zones by name: from the database that is compiled in, and from nothing of the machine.

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use toolgate_sdk::Error;

/// Names of zones are shorter. A longer text is not worth repeating in a message.
const MAX_NAME_CHARACTERS: usize = 60;

/// RFC 3339 has no offset beyond 23:59.
const MAX_OFFSET_SECONDS: i32 = 23 * 3_600 + 59 * 60;

/// Abbreviations that people write for zones, and what each may stand for.
const ABBREVIATIONS: &str = include_str!("abbreviations.txt");

pub fn database() -> TimeZoneDatabase {
    TimeZoneDatabase::bundled()
}

/// Finds a zone by its IANA name or its offset, as a model writes them.
pub fn find(written: &str) -> Result<TimeZone, Error> {
    let name = written.trim();
    if name.is_empty() {
        return Err(Error::invalid("a time zone is empty: write a name as `Europe/Berlin`, or leave it out"));
    }
    if let Some(zone) = universal(name) {
        return Ok(zone);
    }
    if name.starts_with(['+', '-', '\u{2212}']) {
        return offset(name).map(TimeZone::fixed);
    }
    database().get(&name.replace(' ', "_")).map_err(|_| unknown(name))
}

/// The zone of `UTC` and what is written for it, also with an offset as in `UTC+2`.
pub fn universal(written: &str) -> Option<TimeZone> {
    let lower = written.to_ascii_lowercase();
    let rest = match lower.as_str() {
        "z" | "zulu" => return Some(TimeZone::UTC),
        _ => lower.strip_prefix("utc").or_else(|| lower.strip_prefix("gmt"))?,
    };
    if rest.is_empty() { Some(TimeZone::UTC) } else { offset(rest).ok().map(TimeZone::fixed) }
}

/// Reads an offset: `+02:00`, `+0200`, `+02`, `-5`.
pub fn offset(written: &str) -> Result<Offset, Error> {
    let wrong = || {
        Error::invalid(format!(
            "`{}` is no offset from UTC: write it as `+02:00` or `-05:30`",
            shorten(written)
        ))
    };
    let (sign, rest) = match written.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (-1, rest),
        None => (1, written.strip_prefix('+').ok_or_else(wrong)?),
    };
    let (hours, minutes) = match (rest.split_once(':'), rest.len()) {
        (Some(parts), _) => parts,
        (None, 1 | 2) => (rest, "0"),
        (None, 4) if rest.is_ascii() => rest.split_at(2),
        _ => return Err(wrong()),
    };
    let is_short =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_short(hours) || !is_short(minutes) {
        return Err(wrong());
    }
    let (hours, minutes): (i32, i32) =
        (hours.parse().map_err(|_| wrong())?, minutes.parse().map_err(|_| wrong())?);
    // No place on earth is further from UTC than 14 hours; the database of history knows a little more.
    if hours > 18 || minutes > 59 {
        return Err(wrong());
    }
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).map_err(|_| wrong())
}

/// An offset that others have read, for they take more than there is.
pub fn check_offset(offset: Offset) -> Result<Offset, Error> {
    if offset.seconds().abs() <= MAX_OFFSET_SECONDS {
        return Ok(offset);
    }
    Err(Error::invalid(format!(
        "`{}` is no offset from UTC, for none is beyond 23:59: write it as `+02:00` or `-05:30`",
        write_offset(offset)
    )))
}

/// The refusal of an abbreviation, with what it may stand for.
pub fn abbreviation(written: &str) -> Option<Error> {
    let mut known = ABBREVIATIONS.lines().filter_map(|line| line.split_once(' '));
    let (_, meanings) = known.find(|(name, _)| name.eq_ignore_ascii_case(written))?;
    Some(Error::invalid(format!(
        "`{written}` is an abbreviation and no time zone: write the zone that is meant, as {meanings}"
    )))
}

fn unknown(name: &str) -> Error {
    if let Some(error) = abbreviation(name) {
        return error;
    }
    let near = near(name);
    let hint = if near.is_empty() {
        "zones are named as `Europe/Berlin`, and `zones` searches for them".to_owned()
    } else {
        format!("did you mean `{}`?", near.join("`, `"))
    };
    Error::invalid(format!("there is no time zone `{}`: {hint}", shorten(name)))
}

/// Names whose last part is the last part of the wrong one.
fn near(name: &str) -> Vec<String> {
    let place = name.rsplit('/').next().unwrap_or(name).trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let is_near = |known: &str| {
        let known = known.to_ascii_lowercase();
        known.rsplit('/').next() == Some(place.as_str())
    };
    database()
        .available()
        .map(|known| known.as_str().to_owned())
        .filter(|known| is_near(known))
        .take(3)
        .collect()
}

/// The name by which the zone is found again.
pub fn name(zone: &TimeZone) -> String {
    if is_utc(zone) {
        return "UTC".to_owned();
    }
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => write_offset(offset),
        (None, Err(_)) => "unknown".to_owned(),
    }
}

pub fn is_utc(zone: &TimeZone) -> bool {
    *zone == TimeZone::UTC || zone.iana_name() == Some("UTC")
}

/// An offset as in RFC 3339, to the minute.
pub fn write_offset(offset: Offset) -> String {
    let minutes = (f64::from(offset.seconds()) / 60.0).round().abs();
    let sign = if offset.seconds() < 0 && minutes > 0.0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", (minutes / 60.0).floor(), minutes % 60.0)
}

pub fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_NAME_CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME_CHARACTERS).chain(['…']).collect()
}
