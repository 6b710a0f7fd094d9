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
/// enough, as in Vixie cron. A job at a time that clocks skip fires right after it, and one at a time that they repeat
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
    let cron = CronParser::new().parse(expression).map_err(|error| wrong(expression, &error))?;
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
    Ok(Schedule { description: cron.describe(), times })
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
    Error::invalid(format!(
        "`{expression}` is no cron expression: {reason}; write minute, hour, day of the month, month and day of the \
         week, as `0 9 * * MON-FRI`"
    ))
}
