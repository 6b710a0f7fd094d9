//! `cron_next`: when a cron expression fires.

use croner::errors::CronError;
use croner::parser::CronParser;
use croner::{Cron, CronPattern};
use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::reader::Reader;

/// The longest expression in use is far shorter.
const MAX_EXPRESSION_CHARACTERS: usize = 200;

/// More times say nothing more about an expression.
const MAX_COUNT: u32 = 100;

/// The largest value of a field that begins again, which is that of seconds and minutes.
const MOST_OF_A_ROUND: u16 = 59;

/// Places of the fields for days, counted from the second.
const DAY: usize = 3;
const WEEKDAY: usize = 5;

/// Tells the next times at which a cron expression fires, and what it says in words.
///
/// Five fields: minute, hour, day of the month, month, day of the week (0 or 7 is Sunday, or `MON`); with six, the first
/// is the second; with seven, the last is the year. Takes `*`, lists, ranges, steps as `*/15`, `L` (last day of the
/// month), `15W` (nearest weekday), `FRI#2` (second Friday), `FRI#L` (last Friday), and `@daily` and the like. With both
/// kinds of day given, either one is enough, but where one begins with `*`, as `*/2`, both must fit, as in Vixie cron. A
/// job at a time that clocks skip, be it an hour or a whole day, fires once right after what is skipped, and one at a time
/// that they repeat fires once; jobs with `*` for second, minute or hour fire by the time that passes.
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
    // `croner` has the other nicknames of Vixie cron, and not this one.
    let expression = if expression.trim().eq_ignore_ascii_case("@midnight") { "@daily" } else { expression };
    let cron = parse(expression).map_err(|error| wrong(expression, &error))?;
    let mut times = Vec::new();
    let mut reached = after;
    while times.len() < count.clamp(1, MAX_COUNT) as usize {
        match first_after(&cron, &reached) {
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
    Ok(Schedule { description: describe(expression, cron.pattern), times })
}

fn parse(expression: &str) -> Result<Cron, CronError> {
    refuse_what_never_fires(expression)?;
    CronParser::builder().dom_and_dow(has_stepped_days(expression)).build().parse(expression)
}

/// `croner` reads what has no time in it as a field that no time fits, and looks for one until the fuel is gone.
fn refuse_what_never_fires(expression: &str) -> Result<(), CronError> {
    let refuse = |reason: &str| Err(CronError::InvalidPattern(reason.to_owned()));
    for (index, field) in fields(expression).into_iter().enumerate() {
        // With a plus, which only the weekday can have, both kinds of day must fit.
        if field.trim_start_matches('+').split(',').any(str::is_empty) {
            return refuse("a list has an empty entry");
        }
        if index == WEEKDAY
            && field.split(',').any(|entry| entry.trim_start_matches('+').eq_ignore_ascii_case("L"))
        {
            return refuse(
                "`L` alone is no day of the week: the last of a week is `SAT` or `SUN`, and the last Friday of a \
                 month `FRI#L`",
            );
        }
    }
    Ok(())
}

/// The first time after `reached`.
///
/// `croner` looks no further than two hours over a time that is skipped, and there are zones that skipped a day. So it is
/// asked for the time as it is written, and what the clocks make of that is decided here.
fn first_after(cron: &Cron, reached: &Zoned) -> Result<Zoned, CronError> {
    let CronPattern { seconds, minutes, hours, .. } = &cron.pattern;
    if [seconds, minutes, hours].iter().any(|field| field.from_wildcard) {
        return cron.find_next_occurrence(reached, false);
    }
    let mut written = reached.datetime();
    loop {
        written = cron.find_next_occurrence(&written, false)?;
        let time = on_clocks(written, reached.time_zone()).ok_or(CronError::InvalidDate)?;
        // In the later half of what clocks repeat, what is ahead in writing may have been in the earlier one.
        if time > *reached {
            return Ok(time);
        }
    }
}

/// The first moment at which clocks show this time, or the end of the gap that it is in.
fn on_clocks(written: DateTime, zone: &TimeZone) -> Option<Zoned> {
    let ambiguous = zone.to_ambiguous_zoned(written);
    let is_skipped = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
    // A time in a gap becomes the one before the gap.
    let earlier = ambiguous.earlier().ok()?;
    if !is_skipped {
        return Some(earlier);
    }
    let change = zone.following(earlier.timestamp()).next()?;
    Some(change.timestamp().to_zoned(zone.clone()))
}

/// Whether one of the fields for days begins with a star. In Vixie cron the other one then limits it.
fn has_stepped_days(expression: &str) -> bool {
    let fields = fields(expression);
    [DAY, WEEKDAY].iter().any(|index| fields.get(*index).is_some_and(|field| field.starts_with('*')))
}

/// The fields from the second on, which is 0 if it is left out.
fn fields(expression: &str) -> Vec<&str> {
    let mut fields: Vec<_> = expression.split_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    fields
}

/// The words of `croner`, put right where they would be wrong.
fn describe(expression: &str, mut pattern: CronPattern) -> String {
    let CronPattern { seconds, minutes, hours, days, months, days_of_week, years, .. } = &mut pattern;
    let components = [seconds, minutes, hours, days, months, days_of_week, years];
    for (component, field) in components.into_iter().zip(fields(expression)) {
        // The words have the step of the whole field, also where it is that of one entry or of a part of the values. And a step
        // starts again with each hour, day or year: `*/40` fires after 40 minutes, then after 20. Years go on.
        let goes_around = component.max <= MOST_OF_A_ROUND;
        let is_uneven =
            goes_around && !(component.max - component.min + 1).is_multiple_of(component.step.max(1));
        if !field.starts_with("*/") || field.contains(',') || is_uneven {
            component.step = 1;
        }
    }
    let words = pattern.describe();
    // The words have the last day of the month for `LW` too, which is the last from Monday to Friday.
    if expression.to_ascii_uppercase().contains("LW") {
        return words.replace("the last day of the month", "the last weekday of the month");
    }
    words
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
    let way_out = "write minute, hour, day of the month, month and day of the week, as `0 9 * * MON-FRI`, each range from \
                   small to large, as `22-23,0-2`";
    Error::invalid(format!("`{expression}` is no cron expression: {reason}; {way_out}"))
}
