//! Times as people write them: `Sunday, 10 March 2024 at 2:30 pm`, `10.03.2024 14:30`, `Sun Mar 10 14:30:00 2024`.
//!
//! `jiff` reads the parts of the text by its `strptime`, in every form that fits. If they give more than one date,
//! and no weekday decides among them, the text is refused with all of them.

use jiff::civil::{Date, Time, Weekday};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use toolgate_sdk::Error;

use crate::moment::weekday_name;
use crate::parsed::{ParsedForm, ParsedTime, days_from_today, out_of_range};
use crate::zone;

const HINT: &str = "write it as `2024-03-10T14:30`, or tell `parse` its `format`";

/// Forms of dates and times of day, with spaces for dashes and slashes.
const FORMS: [&str; 21] = [
    "%d %b %Y",
    "%b %d %Y",
    "%Y %b %d",
    "%d %b %y",
    "%b %d %y",
    "%y %b %d",
    "%Y %m %d",
    "%m %d %Y",
    "%d %m %Y",
    "%m %d %y",
    "%d %m %y",
    "%y %m %d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%b %d %H:%M:%S %Y",
    "%H:%M:%S%.f",
    "%H:%M",
    "%I:%M:%S %p",
    "%I:%M %p",
    "%I %p",
    "%a",
];

/// Forms of a month alone.
const MONTHS: [&str; 4] = ["%b %Y", "%m %Y", "%Y %m", "%Y %b"];

/// Names that are read by their first three letters.
const NAMES: [&str; 19] = [
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
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Words between the parts that say nothing.
const NOISE: [&str; 6] = ["at", "on", "of", "the", "-", "–"];

/// Words of times that are so far from another, which is what `add` is for.
const RELATIVE: [&str; 22] = [
    "after", "ago", "before", "from", "in", "last", "later", "next", "this", "minute", "minutes", "hour",
    "hours", "day", "days", "week", "weeks", "month", "months", "year", "years", "noon",
];

/// `today` is the day that is meant where the text names no zone.
pub fn read(text: &str, now: Timestamp, today: Date) -> Result<ParsedTime, Error> {
    let whole = normalize(&text.replace(['(', ')'], " "));
    let mut search = Search::new(&whole);
    search.read(&whole, &Found::default());
    // A comment behind a zone only names it, as in `+0100 (CET)`.
    let before_comment = text.split_once('(').filter(|(_, comment)| !comment.contains(char::is_numeric));
    if search.complete.is_empty()
        && let Some((before, _)) = before_comment
    {
        let before = normalize(before);
        let mut named = Search::new(&before);
        named.read(&before, &Found::default());
        if named.complete.iter().all(|found| found.zone.is_some()) && !named.complete.is_empty() {
            return decide(text, &named.complete, now, today);
        }
    }
    if search.complete.is_empty() {
        Err(search.problem(text, &whole))
    } else {
        decide(text, &search.complete, now, today)
    }
}

/// Writes all parts in the way of `FORMS`, with one space between them.
fn normalize(text: &str) -> String {
    let mut words = Vec::new();
    for piece in text.split([' ', ',', '\t', '\u{a0}', '\u{202f}']).filter(|piece| !piece.is_empty()) {
        let starts_with_digit = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        let piece = match piece.split_once(['T', 't']) {
            Some((date, clock)) if starts_with_digit(piece) && starts_with_digit(clock) => {
                format!("{date} {clock}")
            }
            _ => piece.trim_end_matches('.').to_owned(),
        };
        for piece in piece.split(' ').filter(|piece| !NOISE.contains(&piece.to_ascii_lowercase().as_str())) {
            let parts: Option<Vec<_>> = piece.split(['/', '-']).map(normalize_part).collect();
            words.push(parts.map_or_else(|| piece.to_owned(), |parts| parts.join(" ")));
        }
    }
    words.join(" ")
}

/// A number or a name of a date, or `am` and `pm`; a name in its first three letters.
fn normalize_part(part: &str) -> Option<String> {
    let lower = part.trim_end_matches('.').to_ascii_lowercase();
    let digits = lower.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && matches!(&lower[digits.len()..], "" | "st" | "nd" | "rd" | "th") {
        return Some(digits.to_owned());
    }
    if lower.len() >= 3 && (lower == "sept" || NAMES.iter().any(|name| name.starts_with(&lower))) {
        return lower.get(..3).map(str::to_owned);
    }
    let word = lower.replace('.', "");
    let hour = word.strip_suffix("am").or_else(|| word.strip_suffix("pm"))?;
    hour.bytes().all(|byte| byte.is_ascii_digit() || byte == b':').then_some(word)
}

/// The parts that were found in the text so far.
#[derive(Clone, Default)]
struct Found {
    date: Option<Date>,
    has_short_year: bool,
    /// How many days from today, by a word as `tomorrow`.
    days: Option<i64>,
    weekday: Option<Weekday>,
    time: Option<Time>,
    zone: Option<TimeZone>,
}

impl Found {
    fn with(&self, form: &str, read: &BrokenDownTime) -> Option<Self> {
        let mut found = self.clone();
        if form.contains("%d") {
            // Years before that are written with fewer digits, which are a day or a short year.
            let date = read.to_date().ok().filter(|date| date.year() >= 1_000)?;
            let is_first = found.days.is_none() && found.date.replace(date).is_none();
            found.has_short_year = form.contains("%y");
            is_first.then_some(())?;
        }
        if read.hour().is_some() {
            found.time.replace(read.to_time().ok()?).is_none().then_some(())?;
        }
        if let Some(weekday) = read.weekday().filter(|_| form == "%a") {
            found.weekday.replace(weekday).is_none().then_some(())?;
        }
        Some(found)
    }
}

/// Every reading of a text.
struct Search<'t> {
    complete: Vec<Found>,
    /// The shortest rest that was not read.
    unread: &'t str,
    wrong_zone: Option<Error>,
}

impl<'t> Search<'t> {
    fn new(text: &'t str) -> Self {
        Self { complete: Vec::new(), unread: text, wrong_zone: None }
    }

    /// Reads one more part in each way that fits, and then the rest. A part is read once, so this ends soon.
    fn read(&mut self, rest: &'t str, found: &Found) {
        let rest = rest.trim_start();
        if rest.len() < self.unread.len() {
            self.unread = rest;
        }
        if rest.is_empty() {
            if found.date.is_some() || found.days.is_some() {
                self.complete.push(found.clone());
            }
            return;
        }
        let is_name = rest.starts_with(char::is_alphabetic);
        for form in FORMS.iter().filter(|form| form.starts_with("%b") == is_name || form.starts_with("%a")) {
            if let Ok((read, length)) = BrokenDownTime::parse_prefix(form, rest)
                && let Some(after) = rest.get(length..)
                && has_spaces_of(form, rest.get(..length).unwrap_or_default())
                && (after.is_empty() || after.starts_with([' ', '+', '-', '\u{2212}', 'Z', 'z']))
                && let Some(found) = found.with(form, &read)
            {
                self.read(after, &found);
            }
        }
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if let Some(days) = days_from_today(&word.to_ascii_lowercase())
            && found.days.is_none()
            && found.date.is_none()
        {
            self.read(after, &Found { days: Some(days), ..found.clone() });
        }
        self.read_zone(word, after, found);
    }

    fn read_zone(&mut self, word: &str, after: &'t str, found: &Found) {
        let is_named = word.starts_with(['+', '-', '\u{2212}']) || word.contains('/');
        let zone = match zone::universal(word) {
            Some(zone) => zone,
            None if is_named => match zone::find(word) {
                Ok(zone) => zone,
                Err(error) => return self.wrong_zone = Some(error),
            },
            None => return,
        };
        // `GMT+0200` comes in one piece or in two, and the offset says more.
        if found.zone.as_ref().is_none_or(|known| *known == TimeZone::UTC || *known == zone) {
            self.read(after, &Found { zone: Some(zone), ..found.clone() });
        }
    }

    fn problem(self, text: &str, whole: &str) -> Error {
        let is_word = |words: &[&str], word: &str| words.contains(&word.to_ascii_lowercase().as_str());
        if let Some(word) = whole.split(' ').find(|word| is_word(&RELATIVE, word)) {
            return Error::invalid(format!(
                "`{text}` cannot be read as a time: `{word}` means nothing here; for a time that is so far from another call \
                 `add`, as with `today` and `3 days`, or write the date"
            ));
        }
        for form in MONTHS {
            if let Ok(month) = BrokenDownTime::parse(form, whole)
                && let (Some(year @ 1_000..), Some(month)) = (month.year(), month.month())
            {
                return unreadable(
                    text,
                    &format!("the day is missing, as `{year:04}-{month:02}-01` has one"),
                );
            }
        }
        let word = self.unread.split(' ').next().unwrap_or_default();
        if let Some(error) = zone::abbreviation(word).or(self.wrong_zone) {
            return error;
        }
        match self.unread {
            "" => unreadable(text, "there is no whole date"),
            unread => unreadable(
                text,
                &format!("`{unread}` is no further date with a year, no time of day and no time zone"),
            ),
        }
    }
}

/// A space of a form also fits none, so `%d %y` would read `2024`. Before `pm` it may be left out.
fn has_spaces_of(form: &str, read: &str) -> bool {
    form.ends_with("%p") || form.matches(' ').count() == read.matches(' ').count()
}

fn unreadable(text: &str, reason: &str) -> Error {
    Error::invalid(format!("`{text}` cannot be read as a time: {reason}; {HINT}"))
}

/// Makes one time of all readings of a text.
fn decide(text: &str, readings: &[Found], now: Timestamp, today: Date) -> Result<ParsedTime, Error> {
    let mut choices: Vec<(Date, &Found)> = Vec::new();
    let mut contradiction = None;
    for found in readings {
        // Zones may have different days.
        let today = found.zone.as_ref().map_or(today, |zone| now.to_zoned(zone.clone()).date());
        let days = found.days.unwrap_or_default();
        let date = match found.date {
            Some(date) => date,
            None => today.checked_add(days.days()).map_err(|_| out_of_range(&today))?,
        };
        match found.weekday {
            Some(named) if named != date.weekday() => {
                let (named, actual) = (weekday_name(named), weekday_name(date.weekday()));
                contradiction = Some(unreadable(text, &format!("{date} is a {actual} and no {named}")));
            }
            _ if choices.iter().any(|(known, _)| *known == date) => {}
            _ => choices.push((date, found)),
        }
    }
    match (choices.as_slice(), contradiction) {
        ([], contradiction) => {
            Err(contradiction.unwrap_or_else(|| unreadable(text, "there is no whole date")))
        }
        ([(date, found)], _) => {
            let form = ParsedForm::Local { date: *date, time: found.time, zone: found.zone.clone() };
            let written = ParsedTime::from(form);
            Ok(match found.has_short_year {
                true => written
                    .assuming(format!("the year {}, as no year of four digits is written", date.year())),
                false => written,
            })
        }
        (several, _) => {
            let choices: Vec<_> = several.iter().map(|(date, _)| format!("`{date}`")).collect();
            Err(Error::invalid(format!(
                "`{text}` can be {}: write the one that is meant",
                choices.join(" or ")
            )))
        }
    }
}
