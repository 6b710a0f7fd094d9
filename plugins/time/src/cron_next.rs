//! `cron_next`: when a cron expression fires.

use croner::errors::CronError;
use croner::parser::CronParser;
use jiff::Zoned;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::reader::Reader;

/// The longest expression that somebody wrote is far shorter.
const MAX_EXPRESSION_CHARACTERS: usize = 200;

/// More times say nothing more about an expression.
const MAX_COUNT: u32 = 100;

/// Tells the next times at which a cron expression fires, and what it says in words.
///
/// Five fields: minute, hour, day of the month, month, day of the week (0 or 7 is Sunday, or `MON`); with six, the first
/// is the second; with seven, the last is the year. Takes `*`, lists, ranges, steps as `*/15`, `L` (last), `15W`
/// (nearest weekday), `FRI#2` (second Friday), and `@daily` and the like. With both kinds of day given, either one is
/// enough, but where one begins with `*`, as `*/2`, both must fit, as in Vixie cron. A job at a time that clocks skip fires right after it, and one at a time that they repeat
/// fires once; jobs of every hour or minute fire by the time that passes.
#[tool(
    read_only,
    tags("cron", "schedule", "crontab", "recurring"),
    examples({"expression": "30 9 * * MON-FRI", "time_zone": "Europe/Berlin", "after": "2024-03-29T12:00", "count": 2} => {
        "description": "At 09:30, on Monday, Tuesday, Wednesday, Thursday, and Friday.",
        "times": [
            {"time": "2024-04-01T09:30:00+02:00", "time_zone": "Europe/Berlin", "weekday": "Monday", "unix_seconds": 1711956600},
            {"time": "2024-04-02T09:30:00+02:00", "time_zone": "Europe/Berlin", "weekday": "Tuesday", "unix_seconds": 1712043000}
        ]
    })
)]
pub fn cron_next(
    /// The expression, as `0 9 * * MON-FRI`
    expression: String,
    /// The zone whose clocks it follows; UTC if left out
    time_zone: Option<String>,
    /// The time to begin with, itself not included, in any form that `parse` takes
    #[default("now")]
    after: String,
    /// How many times to give
    #[default(5)]
    #[schemars(range(min = 1, max = 100))]
    count: u32,
) -> Result<Schedule, Error> {
    let reader = Reader::new(Some(time_zone.as_deref().unwrap_or("UTC")))?;
    next(&expression, reader.read(&after)?, count)
}

/// When an expression fires.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Schedule {
    /// The expression in words
    pub description: String,
    /// The next times, of which there may be fewer than asked for
    pub times: Vec<Moment>,
}

pub fn next(expression: &str, after: Zoned, count: u32) -> Result<Schedule, Error> {
    if expression.chars().count() > MAX_EXPRESSION_CHARACTERS {
        return Err(Error::invalid(format!(
            "`expression` has more than {MAX_EXPRESSION_CHARACTERS} characters: write five fields, as `0 9 * * MON-FRI`"
        )));
    }
    let parser = CronParser::builder().dom_and_dow(has_stepped_days(expression)).build();
    let cron = parser.parse(expression).map_err(|error| wrong(expression, &error))?;
    let mut times = Vec::new();
    let mut reached = after;
    while times.len() < count.clamp(1, MAX_COUNT) as usize {
        match cron.find_next_occurrence(&reached, false) {
            Ok(next) => {
                times.push(Moment::from(&next));
                reached = next;
            }
            // An expression with a year has a last time.
            Err(CronError::TimeSearchLimitExceeded) => break,
            Err(error) => return Err(wrong(expression, &error)),
        }
    }
    if times.is_empty() {
        return Err(Error::invalid(format!(
            "`{expression}` never fires after that: there is no such day, or its years are over"
        )));
    }
    Ok(Schedule { description: describe(expression, &cron.describe()), times })
}

/// Whether one of the fields for days begins with a star. In Vixie cron the other one then limits it.
fn has_stepped_days(expression: &str) -> bool {
    let fields: Vec<_> = expression.split_whitespace().collect();
    // With six fields or more the first one is the second.
    let seconds = usize::from(fields.len() > 5);
    [2, 4].iter().any(|day| fields.get(day + seconds).is_some_and(|field| field.starts_with('*')))
}

/// The words of `croner` say the last day of the month for `LW` too, which is the last from Monday to Friday.
fn describe(expression: &str, words: &str) -> String {
    if expression.to_ascii_uppercase().contains("LW") {
        return words.replace("the last day of the month", "the last weekday of the month");
    }
    words.to_owned()
}

fn wrong(expression: &str, error: &CronError) -> Error {
    let reason = match error {
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidPattern(reason)
        | CronError::IllegalCharacters(reason)
        | CronError::ComponentError(reason) => reason.trim_end_matches('.').to_owned(),
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "it leads beyond the years that are known".to_owned()
        }
    };
    let way_out = match unrolled(expression) {
        Some(better) => format!("a range goes from small to large, so write `{better}`"),
        None => {
            "write minute, hour, day of the month, month and day of the week, as `0 9 * * MON-FRI`".to_owned()
        }
    };
    Error::invalid(format!("`{expression}` is no cron expression: {reason}; {way_out}"))
}

/// The expression with each range that goes past the end, as `22-2`, cut in two; if that makes it one.
fn unrolled(expression: &str) -> Option<String> {
    // The first and the last value of each field, from the minute on.
    const BOUNDS: [(u8, u8); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let fields: Vec<_> = expression.split_whitespace().collect();
    // With six fields the first one is the second, which has the values of a minute.
    let seconds = usize::from(fields.len() > BOUNDS.len());
    let better: Vec<_> = fields
        .iter()
        .enumerate()
        .map(|(index, field)| match BOUNDS.get(index.saturating_sub(seconds)) {
            Some(bounds) => field.split(',').map(|part| unroll(part, *bounds)).collect::<Vec<_>>().join(","),
            None => (*field).to_owned(),
        })
        .collect();
    let better = better.join(" ");
    (better != expression && CronParser::new().parse(&better).is_ok()).then_some(better)
}

fn unroll(part: &str, (first, last): (u8, u8)) -> String {
    let (range, step) = part.split_once('/').unwrap_or((part, "1"));
    let ends = range.split_once('-').and_then(|(from, to)| Some((value(from)?, value(to)?)));
    let (Some((from, to)), Ok(step @ 1..)) = (ends, step.parse::<u8>()) else { return part.to_owned() };
    if from <= to || from > last {
        return part.to_owned();
    }
    if step == 1 {
        return format!("{from}-{last},{first}-{to}");
    }
    // A step goes on over the end, so what it meets is written one by one.
    let values = (from..=last).chain(first..=to).step_by(usize::from(step));
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

/// A number, or that of a day or a month.
fn value(written: &str) -> Option<u8> {
    const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
    const MONTHS: [&str; 12] =
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let upper = written.to_ascii_uppercase();
    let day = (0..).zip(DAYS).find(|(_, name)| *name == upper);
    let month = (1..).zip(MONTHS).find(|(_, name)| *name == upper);
    written.parse().ok().or(day.or(month).map(|(number, _)| number))
}
