//! The words of a text about a time, before a zone completes it. Here are the forms that programs write; `natural` reads those
//! of people.

use jiff::civil::{Date, Time};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};
use toolgate_sdk::Error;

use crate::{natural, zone};

/// No time has such a length, and messages repeat it.
pub const MAX_CHARACTERS: usize = 200;

/// The assumption for the second 60.
pub const LEAP_SECOND: &str = "the second 59, as clocks here have no leap second";

/// The assumption for a second with more digits behind its point than clocks here have.
const LONG_FRACTION: &str = "nine digits of the fraction of the second, as further ones are not kept";

/// The words of a text about a time, and how it was read where it can mean more than one.
#[derive(Debug)]
pub struct ParsedTime {
    pub form: ParsedForm,
    assumed: Vec<String>,
}

/// The words of a text about a time.
#[derive(Debug)]
pub enum ParsedForm {
    /// A point in time, and the zone it is written with.
    Instant(Timestamp, TimeZone),
    /// The time that a calendar and a clock show.
    Local { date: Date, time: Option<Time>, zone: Option<TimeZone> },
}

impl From<ParsedForm> for ParsedTime {
    fn from(form: ParsedForm) -> Self {
        Self { form, assumed: Vec::new() }
    }
}

/// Recognises a time in the first of the forms that fits. `today` is what relative words are relative to.
pub fn recognise(text: &str, now: Timestamp, today: Date) -> Result<ParsedTime, Error> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid("the time is empty: write it as `2024-03-10T14:30`, or write `now`"));
    }
    if text.chars().count() > MAX_CHARACTERS {
        return Err(Error::invalid(format!(
            "the time has more than {MAX_CHARACTERS} characters: write nothing but the time, as `2024-03-10T14:30`"
        )));
    }
    if let Some(shorter) = without_long_fraction(text) {
        return Ok(recognise(&shorter, now, today)?.assuming(LONG_FRACTION));
    }
    if let Some(written) = word(text, now, today) {
        return written;
    }
    if let Some(written) = unix(text).or_else(|| digits(text)) {
        return written;
    }
    if let Ok(pieces) = Pieces::parse(text) {
        let written = from_pieces(&pieces)?;
        return Ok(if has_leap_second(text) { written.assuming(LEAP_SECOND) } else { written });
    }
    if let Some(date) = iso_date(text) {
        return Ok(ParsedTime::day(date));
    }
    let written = natural::read(text, now, today)?;
    Ok(if has_leap_second(text) { written.assuming(LEAP_SECOND) } else { written })
}

impl ParsedTime {
    pub fn instant(timestamp: Timestamp, zone: TimeZone) -> Self {
        ParsedForm::Instant(timestamp, zone).into()
    }

    fn day(date: Date) -> Self {
        ParsedForm::Local { date, time: None, zone: None }.into()
    }

    /// Adds what was taken for something that the text does not say.
    pub fn assuming(mut self, assumed: impl Into<String>) -> Self {
        self.assumed.push(assumed.into());
        self
    }

    /// The point in time. Missing parts are taken from `zone`, or else from UTC.
    pub fn settle(self, given: Option<&TimeZone>) -> Result<Zoned, Error> {
        let zoned = match self.form {
            ParsedForm::Instant(timestamp, zone) => timestamp.to_zoned(zone),
            ParsedForm::Local { date, time, zone } => {
                let zone = zone.or_else(|| given.cloned()).unwrap_or(TimeZone::UTC);
                match time {
                    Some(time) => at_local_time(date, time, zone)?,
                    // A day begins where it begins, be it at one o'clock.
                    None => date.to_zoned(zone).map_err(|_| out_of_range(&date))?,
                }
            }
        };
        Ok(given.map_or_else(|| zoned.clone(), |zone| zoned.with_time_zone(zone.clone())))
    }

    /// The missing parts, and what is taken for them.
    pub fn assumptions(&self, given: Option<&TimeZone>) -> Vec<String> {
        let mut assumed = self.assumed.clone();
        let ParsedForm::Local { time, zone, .. } = &self.form else { return assumed };
        if time.is_none() {
            assumed.push("the start of the day, as no time of day is written".to_owned());
        }
        if zone.is_none() && given.is_none() {
            assumed.push("UTC, as no time zone is written or given".to_owned());
        }
        assumed
    }
}

/// Clocks that are changed show some times twice, and some never. Both are refused with the choices.
fn at_local_time(date: Date, time: Time, zone: TimeZone) -> Result<Zoned, Error> {
    let local = date.to_datetime(time);
    let name = zone::name(&zone);
    let ambiguous = zone.into_ambiguous_zoned(local);
    let choice = |offset: Offset| {
        let instant = offset
            .to_timestamp(local)
            .map(|instant| (instant, instant.display_with_offset(offset).to_string()));
        instant.map_or_else(|_| String::new(), |(_, text)| format!("`{text}`"))
    };
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => ambiguous.unambiguous().map_err(|_| out_of_range(&date)),
        AmbiguousOffset::Fold { before, after } => Err(Error::invalid(format!(
            "clocks in `{name}` were set back and showed {local} twice: write {} for the first time, or {} for the second",
            choice(before),
            choice(after)
        ))),
        AmbiguousOffset::Gap { before, after } => Err(Error::invalid(format!(
            "clocks in `{name}` were set forward and never showed {local}: write a later time of day, or the point in \
             time with its offset, as {} or {}",
            choice(before),
            choice(after)
        ))),
    }
}

fn word(text: &str, now: Timestamp, today: Date) -> Option<Result<ParsedTime, Error>> {
    let word = text.to_ascii_lowercase();
    if word == "now" {
        return Some(Ok(ParsedTime::instant(now, TimeZone::UTC)));
    }
    let days = days_from_today(&word)?;
    Some(today.checked_add(days.days()).map(ParsedTime::day).map_err(|_| out_of_range(&today)))
}

/// How many days a word in small letters says.
pub fn days_from_today(word: &str) -> Option<i64> {
    match word {
        "today" => Some(0),
        "tomorrow" => Some(1),
        "yesterday" => Some(-1),
        _ => None,
    }
}

/// The text with nine digits behind the point, if it has more.
fn without_long_fraction(text: &str) -> Option<String> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let (point, _) = text.match_indices(['.', ',']).find(|(point, _)| {
        let (before, after) = (&text.as_bytes()[..*point], &text.as_bytes()[point + 1..]);
        before.last().is_some_and(is_digit) && after.iter().take_while(|byte| is_digit(byte)).count() > 9
    })?;
    let kept = point + 1 + 9;
    Some(format!("{}{}", &text[..kept], text[kept..].trim_start_matches(|sign: char| sign.is_ascii_digit())))
}

/// `@1710081000`, and digits alone that can be nothing else. The number of digits tells the unit.
fn unix(text: &str) -> Option<Result<ParsedTime, Error>> {
    let marked = text.strip_prefix('@');
    let number = marked.unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let count = whole.strip_prefix('-').unwrap_or(whole).len();
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = count > 0 && is_digits(whole.strip_prefix('-').unwrap_or(whole)) && is_digits(fraction);
    if !is_number || (marked.is_none() && !matches!(count, 9..=11 | 13 | 16 | 19)) {
        return marked.map(|_| Err(no_unix_time(text)));
    }
    let digits_of_fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let (nanoseconds, unit) = match count {
        ..=11 => (format!("{whole}{digits_of_fraction}"), "seconds"),
        12..=14 => (format!("{whole}{}", &digits_of_fraction[..6]), "milliseconds"),
        15..=17 => (format!("{whole}{}", &digits_of_fraction[..3]), "microseconds"),
        _ => (whole.to_owned(), "nanoseconds"),
    };
    let instant =
        nanoseconds.parse().ok().and_then(|nanoseconds| Timestamp::from_nanosecond(nanoseconds).ok());
    let Some(instant) = instant else { return Some(Err(no_unix_time(text))) };
    let written = ParsedTime::instant(instant, TimeZone::UTC);
    Some(Ok(match unit {
        // `@` stands for seconds, and says so itself.
        "seconds" if marked.is_some() => written,
        unit => written.assuming(format!("{unit} since 1970, as there are {count} digits")),
    }))
}

fn no_unix_time(text: &str) -> Error {
    Error::invalid(format!(
        "`{text}` is no Unix time: write seconds as `@1710081000`, or milliseconds as `@1710081000000`"
    ))
}

/// `20240310143000` and `202403101430` are not ISO, but common.
fn digits(text: &str) -> Option<Result<ParsedTime, Error>> {
    let form = match text.len() {
        12 => "%Y%m%d%H%M",
        14 => "%Y%m%d%H%M%S",
        _ => return None,
    };
    let read = BrokenDownTime::parse(form, text).ok()?.to_datetime().ok()?;
    Some(Ok(ParsedForm::Local { date: read.date(), time: Some(read.time()), zone: None }.into()))
}

fn from_pieces(pieces: &Pieces<'_>) -> Result<ParsedTime, Error> {
    let (date, time) = (pieces.date(), pieces.time());
    let zone = match pieces.time_zone_annotation() {
        Some(annotation) => Some(annotation.to_time_zone_with(&zone::database()).map_err(|error| {
            Error::invalid(format!(
                "{error}: zones are named as `Europe/Berlin`, and `zones` searches for them"
            ))
        })?),
        None => None,
    };
    if let Some(Ok(offset)) = zone.as_ref().map(TimeZone::to_fixed_offset) {
        zone::check_offset(offset)?;
    }
    let (Some(offset), Some(time)) = (pieces.offset(), time) else {
        return Ok(ParsedForm::Local { date, time, zone }.into());
    };
    let is_zulu = matches!(offset, PiecesOffset::Zulu);
    let offset = zone::check_offset(pieces.to_numeric_offset().unwrap_or(Offset::UTC))?;
    let instant = offset.to_timestamp(date.to_datetime(time)).map_err(|_| out_of_range(&date))?;
    let Some(zone) = zone else {
        return Ok(ParsedTime::instant(
            instant,
            if is_zulu { TimeZone::UTC } else { TimeZone::fixed(offset) },
        ));
    };
    let found = zone.to_offset(instant);
    // `Z` says which point in time it is, and nothing of the zone's clocks.
    if !is_zulu && zone::write_offset(found) != zone::write_offset(offset) {
        return Err(Error::invalid(format!(
            "the offset {} is not that of `{}` at this time, which is {}: leave out one of them",
            zone::write_offset(offset),
            zone::name(&zone),
            zone::write_offset(found)
        )));
    }
    Ok(ParsedTime::instant(instant, zone))
}

/// Whether the text names the second 60, which `jiff` takes for 59 in silence.
fn has_leap_second(text: &str) -> bool {
    let is_compact = text.split_once(['T', 't']).is_some_and(|(_, clock)| {
        clock.get(4..6) == Some("60") && clock.bytes().take(6).all(|byte| byte.is_ascii_digit())
    });
    is_compact || text.split_once(':').is_some_and(|(_, rest)| rest.contains(":60"))
}

/// `2024-W10`, `2024-W10-7`, and `2024-070`, the day of the year.
fn iso_date(text: &str) -> Option<Date> {
    let forms: &[&str] = match (text.len(), text.to_ascii_uppercase().contains('W')) {
        (7.., true) => &["%G-W%V-%u", "%GW%V%u"],
        (8, false) => &["%Y-%j"],
        _ => return None,
    };
    // A week without a day begins on its Monday.
    let texts = [text.to_owned(), format!("{text}-1"), format!("{text}1")];
    let mut read =
        forms.iter().flat_map(|form| texts.iter().map(move |text| BrokenDownTime::parse(form, text)));
    read.find_map(|read| read.ok()?.to_date().ok())
}

/// The refusal of a point in time that the calendar has and the clock does not: its ends lie where every zone still
/// has a date of its own.
pub fn out_of_range(near: &Date) -> Error {
    Error::invalid(format!(
        "the time near {near} is too far from now: known are times from -009999-01-02T01:59:59Z to \
         9999-12-30T22:00:00Z; take one between them, or leave out an end that stands for `never`"
    ))
}

/// The refusal of a date beyond the calendar.
pub fn no_such_year(near: &Date) -> Error {
    Error::invalid(format!(
        "the date is too far from now, near {near}: years from -9999 to 9999 are known, so take fewer days"
    ))
}
