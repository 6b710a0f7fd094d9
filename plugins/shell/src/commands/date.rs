//! `date`, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::{DateTime, Time, Weekday};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Unit, Zoned};

use crate::call::Call;
use crate::shell::{Outcome, Stop, fail};

pub fn date(call: &mut Call<'_>) -> Outcome {
    // The value of `-I` is in the same word, and may be missing.
    let arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|word| if word == "-I" { "-Idate".to_owned() } else { word.clone() })
        .collect();
    let options = Call::new(call.shell, "date", &arguments, call.io).options(
        "ud:r:I:R",
        "utc=u date=d reference=r iso-8601=I",
        false,
    )?;
    let time = match (options.value('d'), options.value('r')) {
        (Some(text), _) => parse(text)?,
        (None, Some(path)) => from_system(call.place(path).and_then(|place| Ok(place.metadata()?.modified))?),
        _ => now(),
    };
    let format = match options.rest.first() {
        Some(format) if format.starts_with('+') => format[1..].to_owned(),
        Some(other) => return fail(format!("`{other}`: the time is not set here; a format starts with `+`")),
        None if options.value('I') == Some("seconds") => "%Y-%m-%dT%H:%M:%S+00:00".to_owned(),
        None if options.has('I') => "%Y-%m-%d".to_owned(),
        None if options.has('R') => "%a, %d %b %Y %H:%M:%S +0000".to_owned(),
        None => "%a %b %e %H:%M:%S UTC %Y".to_owned(),
    };
    let text = format_time(&format, time)?;
    call.line(text).map(|()| 0)
}

/// The time now. The library asks no clock, so that other plugins with it import none.
pub fn now() -> Timestamp {
    from_system(SystemTime::now())
}

fn from_system(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(seconds, since.subsec_nanos().cast_signed()).unwrap_or(Timestamp::MAX)
}

pub fn to_system(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.as_second()).unwrap_or(0))
}

/// Formats seconds since 1970, or the time now where the text is no number.
pub fn format_seconds(format: &str, seconds: &str) -> Outcome<String> {
    let time = match seconds.parse() {
        Ok(seconds) if seconds >= 0 => {
            Timestamp::from_second(seconds).or_else(|error| fail(error.to_string()))?
        }
        _ => now(),
    };
    format_time(format, time)
}

fn format_time(format: &str, time: Timestamp) -> Outcome<String> {
    // The library has no `%N` with a width and no `%:z` of a fixed offset that GNU writes otherwise.
    let format = format
        .replace("%3N", &format!("{:03}", time.subsec_millisecond()))
        .replace("%N", &format!("{:09}", time.subsec_nanosecond()));
    strtime::format(&format, &time.to_zoned(TimeZone::UTC))
        .or_else(|error| fail(format!("`{format}` is no format: {error}")))
}

/// Reads a time: a date, a date and a time, `@seconds`, or words such as `yesterday` and `2 days ago`.
pub fn parse(text: &str) -> Outcome<Timestamp> {
    let invalid = || {
        let forms = "2024-05-31, 2024-05-31T12:30:00Z, @1700000000, `2 days ago`, or `next friday`";
        Stop::Fail(1, format!("invalid date '{text}': write as {forms}"))
    };
    let unknown = || Err(invalid());
    let trimmed = text.trim();
    if let Some(seconds) = trimmed.strip_prefix('@') {
        return seconds
            .parse()
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .map_or_else(unknown, Ok);
    }
    if let Ok(time) = trimmed.parse::<Timestamp>() {
        return Ok(time);
    }
    let signed = trimmed.replace(" + ", " +").replace(" - ", " -");
    let words: Vec<&str> = signed.split_whitespace().collect();
    let mut words = words.as_slice();
    let mut time = now().to_zoned(TimeZone::UTC);
    while !words.is_empty() {
        if let Some((parsed, used)) = absolute(words) {
            time = parsed.to_zoned(TimeZone::UTC).map_err(|_| invalid())?;
            words = &words[used..];
            continue;
        }
        if let Some((moved, used)) = clock_or_weekday(&time, words) {
            time = moved;
            words = &words[used..];
            continue;
        }
        let Some((count, unit, used)) = relative(words) else { return unknown() };
        words = &words[used..];
        let is_ago = words.first() == Some(&"ago");
        words = &words[usize::from(is_ago)..];
        let unit = unit.trim_end_matches('s');
        let Some(span) = span(if is_ago { -count } else { count }, unit) else { return unknown() };
        time = add(time, span, matches!(unit, "month" | "year")).map_err(|_| invalid())?;
    }
    time.timestamp().round(Unit::Second).or_else(|_| unknown())
}

/// The date, or the date and time, that words begin with, and how many of them it has.
fn absolute(words: &[&str]) -> Option<(DateTime, usize)> {
    if let [date, time, ..] = words
        && time.contains(':')
        && let Ok(parsed) = format!("{date} {time}").parse()
    {
        return Some((parsed, 2));
    }
    Some((words.first()?.to_uppercase().parse().ok()?, 1))
}

/// The time moved to the time of day, or to the day of the week, that words begin with, and how many of them it has.
fn clock_or_weekday(time: &Zoned, words: &[&str]) -> Option<(Zoned, usize)> {
    if let Ok(clock) = format!("{:0>5}", words.first()?).parse::<Time>() {
        return Some((time.with().time(clock).build().ok()?, 1));
    }
    let (ordinal, day, used) = weekday(words)?;
    let days = days_to(time.weekday(), day, ordinal);
    Some((time.start_of_day().ok()?.checked_add(days.days()).ok()?, used))
}

/// The day of the week that words begin with, such as `monday` (0), `next monday` (1) and `last monday` (-1), and how many of them
/// it has.
fn weekday(words: &[&str]) -> Option<(i64, Weekday, usize)> {
    let ordinal = match words.first()?.to_lowercase().as_str() {
        "this" => Some(0),
        "next" => Some(1),
        "last" => Some(-1),
        _ => None,
    };
    let used = 1 + usize::from(ordinal.is_some());
    let name = words.get(used - 1)?.trim_end_matches(',').to_lowercase();
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let index = names.iter().position(|full| *full == name || full[..3] == name)?;
    let day = Weekday::from_monday_zero_offset(i8::try_from(index).ok()?).ok()?;
    Some((ordinal.unwrap_or(0), day, used))
}

/// Days from one day of the week to another: from today on, after today (1), or before it (-1).
fn days_to(today: Weekday, day: Weekday, ordinal: i64) -> i64 {
    let days = i64::from(today.until(day));
    days + 7 * if ordinal > 0 && days > 0 { ordinal - 1 } else { ordinal }
}

/// The count and the unit, such as those of `2 days` and `tomorrow`, that words begin with, and how many of them it has.
fn relative<'w>(words: &[&'w str]) -> Option<(i64, &'w str, usize)> {
    let word = words.first()?.to_lowercase();
    let count = match word.as_str() {
        "now" | "today" | "utc" | "z" => return Some((0, "day", 1)),
        "yesterday" => return Some((-1, "day", 1)),
        "tomorrow" => return Some((1, "day", 1)),
        "next" => 1,
        "last" => -1,
        unit if span(1, unit.trim_end_matches('s')).is_some() => return Some((1, words[0], 1)),
        count => count.parse().ok()?,
    };
    Some((count, words.get(1)?, 2))
}

/// Adds months from the first day on, as GNU does: a month after January 31 is in March.
fn add(time: Zoned, span: jiff::Span, has_months: bool) -> Result<Zoned, jiff::Error> {
    if !has_months {
        return time.checked_add(span);
    }
    let days = i64::from(time.day() - 1).days();
    time.first_of_month()?.checked_add(span)?.checked_add(days)
}

fn span(count: i64, unit: &str) -> Option<jiff::Span> {
    let zero = 0.days();
    match unit {
        "second" | "sec" => zero.try_seconds(count),
        "minute" | "min" => zero.try_minutes(count),
        "hour" => zero.try_hours(count),
        "day" => zero.try_days(count),
        "week" => zero.try_weeks(count),
        "fortnight" => zero.try_weeks(count.saturating_mul(2)),
        "month" => zero.try_months(count),
        "year" => zero.try_years(count),
        _ => return None,
    }
    .ok()
}
