//! Times as people write them: `Sunday, 10 March 2024 at 2:30 pm`, `10.03.2024 14:30`, `Sun Mar 10 14:30:00 2024`.
//!
//! The text is cut at its spaces and commas, and each piece says what it is: a time of day, a zone, a month, a weekday
//! or numbers of a date. The numbers then stand for every date that they can; a weekday decides among them, and where
//! more than one is left, the text is refused with all of them.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use toolgate_sdk::Error;

use crate::moment::weekday_name;
use crate::written::{LEAP_SECOND, Said, Written, days_from_today, out_of_range};
use crate::zone;

const HINT: &str = "write it as `2024-03-10T14:30`, or tell `parse` its `format`";

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Words between the parts that say nothing.
const NOISE: &[&str] = &["at", "on", "of", "the", "-", "–"];

/// Words of times that are so far from another, which is what `add` is for.
const RELATIVE: &[&str] = &[
    "after", "ago", "before", "from", "in", "last", "later", "next", "this", "minute", "minutes", "hour",
    "hours", "day", "days", "week", "weeks", "month", "months", "year", "years",
];

/// `today` is the day that is meant where the text names no zone.
pub fn read(text: &str, now: Timestamp, today: Date) -> Result<Written, Error> {
    let (text_before, comment) = split_comment(text);
    let mut found = Found { text, ..Found::default() };
    pieces(text_before).try_for_each(|piece| found.take(piece))?;
    if let Some(comment) = comment.filter(|comment| !found.is_explained_by(comment)) {
        found.take_comment(comment)?;
    }
    // It is not the same day everywhere.
    let today = found.zone.as_ref().map_or(today, |zone| now.to_zoned(zone.clone()).date());
    found.decide(today)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', '\t', '\u{a0}', '\u{202f}']).filter(|piece| !piece.is_empty())
}

/// The text, and what stands in parentheses at its end.
fn split_comment(text: &str) -> (&str, Option<&str>) {
    match text.trim_end().strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((before, comment)) => (before, Some(comment)),
        None => (text, None),
    }
}

/// What was found in the text so far.
#[derive(Default)]
struct Found<'t> {
    text: &'t str,
    numbers: Vec<Number<'t>>,
    month: Option<i8>,
    weekday: Option<Weekday>,
    /// How many days from today, by a word as `tomorrow`.
    days: Option<i64>,
    /// Points between the numbers: a day stands before its month then, wherever people write so.
    has_points: bool,
    clock: Option<Clock>,
    has_leap_second: bool,
    zone: Option<TimeZone>,
    /// Whether the piece that came last names the zone.
    ends_with_zone: bool,
}

/// A number of a date.
#[derive(Clone, Copy)]
struct Number<'t> {
    written: &'t str,
    value: i16,
}

/// A time of day, which `am` and `pm` may yet change.
struct Clock {
    time: Time,
    is_halved: bool,
}

impl<'t> Found<'t> {
    /// Whether a comment says nothing but what the zone before it is called, as e-mail and JavaScript write it: `+0100
    /// (CET)`. Numbers and halves of the day say more.
    fn is_explained_by(&self, comment: &str) -> bool {
        let word = comment.trim().to_ascii_lowercase().replace('.', "");
        self.ends_with_zone
            && !comment.contains(|sign: char| sign.is_numeric())
            && !matches!(word.as_str(), "am" | "pm")
    }

    /// Reads what stands in parentheses as if they were not there. An offset may only repeat the one before.
    fn take_comment(&mut self, comment: &'t str) -> Result<(), Error> {
        let before = self.zone.take();
        pieces(comment).try_for_each(|piece| self.take(piece))?;
        if let Some(before) = before
            && self.zone.replace(before.clone()).is_some_and(|zone| zone != before)
        {
            return Err(self.unreadable("there are two time zones"));
        }
        Ok(())
    }

    fn take(&mut self, piece: &'t str) -> Result<(), Error> {
        self.ends_with_zone = false;
        let lower = piece.to_ascii_lowercase();
        let word = lower.trim_end_matches('.').replace('.', "");
        if let "am" | "pm" = word.as_str() {
            return self.halve(word == "pm");
        }
        if NOISE.contains(&lower.as_str()) {
            return Ok(());
        }
        if let Some((date, clock)) = piece.split_once(['T', 't'])
            && date.ends_with(|last: char| last.is_ascii_digit())
            && clock.starts_with(|first: char| first.is_ascii_digit())
        {
            return self.take(date).and_then(|()| self.take_clock(clock));
        }
        if piece.contains(':') && piece.starts_with(|first: char| first.is_ascii_digit()) {
            return self.take_clock(piece);
        }
        if let Some(zone) = zone::universal(piece) {
            return self.take_zone(zone);
        }
        if piece.starts_with(['+', '-', '\u{2212}']) {
            return self.take_zone(TimeZone::fixed(zone::offset(piece)?));
        }
        if piece.contains('/') && piece.starts_with(char::is_alphabetic) {
            return self.take_zone(zone::find(piece)?);
        }
        if let Some((hour, is_afternoon)) = hour_of_half(&word) {
            self.take_clock(hour)?;
            return self.halve(is_afternoon);
        }
        self.has_points |= piece.trim_end_matches('.').contains('.');
        // What is left are the parts of a date.
        piece.split(['/', '-', '.']).filter(|part| !part.is_empty()).try_for_each(|part| self.take_part(part))
    }

    fn take_part(&mut self, part: &'t str) -> Result<(), Error> {
        let digits = part.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let suffix = part[digits.len()..].to_ascii_lowercase();
        if matches!(digits.len(), 1 | 2 | 4) && matches!(suffix.as_str(), "" | "st" | "nd" | "rd" | "th") {
            let value =
                digits.parse().map_err(|_| self.unreadable(&format!("`{part}` is no day and no year")))?;
            self.numbers.push(Number { written: digits, value });
            return Ok(());
        }
        let word = part.to_ascii_lowercase();
        if let Some((_, weekday)) = WEEKDAYS.iter().find(|(name, _)| is_short_for(&word, name)) {
            self.weekday = Some(*weekday);
            return Ok(());
        }
        let month =
            MONTHS.iter().zip(1..).find(|(name, _)| is_short_for(&word, name)).map(|(_, month)| month);
        if month.is_some() && self.month.is_none() {
            self.month = month;
            return Ok(());
        }
        if let Some(days) = days_from_today(&word)
            && self.days.is_none()
        {
            self.days = Some(days);
            return Ok(());
        }
        if RELATIVE.contains(&word.as_str()) {
            return Err(Error::invalid(format!(
                "`{}` cannot be read as a time: `{part}` means nothing here; for a time that is so far from another call \
                 `add`, as with `today` and `3 days`, or write the date",
                self.text
            )));
        }
        Err(zone::abbreviation(part)
            .unwrap_or_else(|| self.unreadable(&format!("`{part}` means nothing here"))))
    }

    fn take_zone(&mut self, zone: TimeZone) -> Result<(), Error> {
        // `GMT+0200` comes in one piece or in two, and the offset says more.
        if self.zone.as_ref().is_some_and(|known| *known != TimeZone::UTC) {
            return Err(self.unreadable("there are two time zones"));
        }
        self.zone = Some(zone);
        self.ends_with_zone = true;
        Ok(())
    }

    fn take_clock(&mut self, piece: &str) -> Result<(), Error> {
        if self.clock.is_some() {
            return Err(self.unreadable("there are two times of day"));
        }
        let length =
            piece.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(piece.len());
        let (written, rest) = piece.split_at(length);
        let written = written.trim_end_matches('.');
        let time = time_of_day(written).ok_or_else(|| {
            self.unreadable(&format!("`{written}` is no time of day between 00:00 and 23:59"))
        })?;
        self.has_leap_second = written.split(':').nth(2).is_some_and(|second| second.starts_with("60"));
        self.clock = Some(Clock { time, is_halved: false });
        match rest.to_ascii_lowercase().replace('.', "").as_str() {
            "" => Ok(()),
            "am" => self.halve(false),
            "pm" => self.halve(true),
            _ => self.take_zone(zone::find(rest)?),
        }
    }

    fn halve(&mut self, is_afternoon: bool) -> Result<(), Error> {
        // `2 pm`: what looked like a day was the hour.
        if self.clock.is_none()
            && let Some(hour) = self.numbers.pop()
        {
            self.take_clock(hour.written)?;
        }
        let half = if is_afternoon { "pm" } else { "am" };
        let wrong = |found: &Self| found.unreadable(&format!("`{half}` belongs to an hour from 1 to 12"));
        let Some(clock) = &self.clock else { return Err(wrong(self)) };
        if clock.is_halved || !(1..=12).contains(&clock.time.hour()) {
            return Err(wrong(self));
        }
        let hour = clock.time.hour() % 12 + if is_afternoon { 12 } else { 0 };
        let time = clock.time.with().hour(hour).build().map_err(|_| wrong(self))?;
        self.clock = Some(Clock { time, is_halved: true });
        Ok(())
    }

    fn decide(self, today: Date) -> Result<Written, Error> {
        let mut dates = self.dates(today)?;
        if let Some(weekday) = self.weekday {
            let all = dates.clone();
            dates.retain(|date| date.weekday() == weekday);
            if let ([], [date, ..]) = (dates.as_slice(), all.as_slice()) {
                let named = weekday_name(weekday);
                let actual = weekday_name(date.weekday());
                return Err(self.unreadable(&format!("{date} is a {actual} and no {named}")));
            }
        }
        match dates.as_slice() {
            [] => Err(self.unreadable("there is no such date in the calendar")),
            [date] => {
                let has_year = self.days.is_some() || self.numbers.iter().any(|number| number.is_long());
                let time = self.clock.map(|clock| clock.time);
                let mut written = Written::from(Said::Local { date: *date, time, zone: self.zone });
                if !has_year {
                    written = written
                        .assuming(format!("the year {}, as no year of four digits is written", date.year()));
                }
                Ok(if self.has_leap_second { written.assuming(LEAP_SECOND) } else { written })
            }
            several => {
                let choices: Vec<_> = several.iter().map(|date| format!("`{date}`")).collect();
                Err(Error::invalid(format!(
                    "`{}` can be {}: write the one that is meant",
                    self.text,
                    choices.join(" or ")
                )))
            }
        }
    }

    /// Every date that the numbers can stand for.
    fn dates(&self, today: Date) -> Result<Vec<Date>, Error> {
        if let Some(days) = self.days {
            if self.month.is_some() || !self.numbers.is_empty() {
                return Err(self.unreadable("there is a whole date, and more of another"));
            }
            return today.checked_add(days.days()).map(|date| vec![date]).map_err(|_| out_of_range(&today));
        }
        let mut dates = Vec::new();
        match (self.month, self.numbers.as_slice()) {
            (Some(month), [first, second]) => {
                add(&mut dates, *second, month, *first);
                add(&mut dates, *first, month, *second);
            }
            (None, [year, month, day]) if year.is_long() => add(&mut dates, *year, month.small(), *day),
            (None, [day, month, year]) if self.has_points && year.is_long() => {
                add(&mut dates, *year, month.small(), *day)
            }
            (None, [first, second, third]) => {
                add(&mut dates, *third, first.small(), *second);
                add(&mut dates, *third, second.small(), *first);
                if !third.is_long() {
                    add(&mut dates, *first, second.small(), *third);
                }
            }
            (Some(month), [year]) if year.is_long() => return Err(self.without_day(*year, month)),
            (None, [year, month] | [month, year]) if year.is_long() && (1..=12).contains(&month.small()) => {
                return Err(self.without_day(*year, month.small()));
            }
            (Some(_), [_]) | (None, [_, _]) => return Err(self.unreadable("there is no year, or no day")),
            (_, [] | [_]) => return Err(self.unreadable("there is no whole date")),
            _ => return Err(self.unreadable("there are too many numbers")),
        }
        dates.dedup();
        Ok(dates)
    }

    fn without_day(&self, year: Number<'_>, month: i8) -> Error {
        let first = format!("{}-{month:02}-01", year.written);
        self.unreadable(&format!("the day is missing, as `{first}` has one for the first of the month"))
    }

    fn unreadable(&self, reason: &str) -> Error {
        Error::invalid(format!("`{}` cannot be read as a time: {reason}; {HINT}", self.text))
    }
}

impl Number<'_> {
    /// Whether it can be nothing but a year.
    fn is_long(self) -> bool {
        self.written.len() > 2
    }

    fn small(self) -> i8 {
        if self.is_long() { 0 } else { i8::try_from(self.value).unwrap_or(0) }
    }
}

/// Adds the date, if there is one. A year of two digits is of this century: among choices it is spelled out.
fn add(dates: &mut Vec<Date>, year: Number<'_>, month: i8, day: Number<'_>) {
    let full_year = if year.is_long() { year.value } else { 2_000 + year.value };
    if let Ok(date) = Date::new(full_year, month, day.small())
        && !dates.contains(&date)
    {
        dates.push(date);
    }
}

fn is_short_for(word: &str, name: &str) -> bool {
    word.len() >= 3 && (name.starts_with(word) || (word == "sept" && name == "september"))
}

/// `2pm`.
fn hour_of_half(word: &str) -> Option<(&str, bool)> {
    let (hour, is_afternoon) = match word.strip_suffix("pm") {
        Some(hour) => (hour, true),
        None => (word.strip_suffix("am")?, false),
    };
    let is_hour = matches!(hour.len(), 1 | 2) && hour.bytes().all(|byte| byte.is_ascii_digit());
    is_hour.then_some((hour, is_afternoon))
}

/// `14:30`, `14:30:05.5`, and the hour alone.
fn time_of_day(written: &str) -> Option<Time> {
    let (clock, fraction) = written.split_once('.').unwrap_or((written, ""));
    let mut parts = clock.split(':');
    let hour = short_number(parts.next()?)?;
    let minute = parts.next().map_or(Some(0), short_number)?;
    let second = parts.next();
    if parts.next().is_some() || (second.is_none() && !fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let second = second.map_or(Some(0), short_number)?;
    let nanosecond = format!("{fraction:0<9}").parse().ok()?;
    // A leap second is the last one that clocks know.
    Time::new(hour, minute, if second == 60 { 59 } else { second }, nanosecond).ok()
}

fn short_number(written: &str) -> Option<i8> {
    if matches!(written.len(), 1 | 2) { written.parse().ok() } else { None }
}
