//! `business_days`: days on which people work.

use std::collections::BTreeSet;

use jiff::civil::{Date, Weekday};
use jiff::{ToSpan, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::moment::weekday_name;
use crate::parsed::no_such_year;
use crate::reader::Reader;

/// Forty years of work. Each day is a step.
const MAX_STEPS: i32 = 10_000;

/// Holidays of fifty years.
const MAX_HOLIDAYS: usize = 1_000;

/// Counts the business days between two dates, or finds the date so many business days away.
///
/// Give `end` to count, both dates included where they are business days. Give `days` to find a date: 1 is the next
/// business day after `start`, -1 the one before. Public holidays are not known: give them.
#[tool(
    read_only,
    tags("working days", "workdays", "deadline", "holidays"),
    examples(
        "count": {"start": "2024-03-01", "end": "2024-03-31", "holidays": ["2024-03-29"]} => {
            "start": "2024-03-01", "end": "2024-03-31", "weekday": "Sunday", "business_days": 20
        },
        "find": {"start": "2024-03-08", "days": 5} => {
            "start": "2024-03-08", "end": "2024-03-15", "weekday": "Friday", "business_days": 5
        },
    )
)]
pub fn business_days(
    /// The first date, in any form that `parse` takes, or `today`
    start: String,
    /// The last date, to count the days between
    end: Option<String>,
    /// How many business days to go, to find a date; negative goes back
    #[schemars(range(min = -10_000, max = 10_000))]
    days: Option<i32>,
    /// Dates that are no business days, as `["2024-12-25"]`; at most 1000
    #[default]
    holidays: Vec<String>,
    /// The days of a week without work
    #[default(vec![WeekendDay::Saturday, WeekendDay::Sunday])]
    weekend: Vec<WeekendDay>,
    /// The zone whose day `today` is; UTC if left out
    time_zone: Option<String>,
) -> Result<BusinessDays, Error> {
    let reader = Reader::new(time_zone.as_deref())?;
    let week = Week::read(&reader, &holidays, &weekend)?;
    let start = reader.read_date(&start)?;
    match (end, days) {
        (Some(end), None) => week.count(start, reader.read_date(&end)?),
        (None, Some(days)) => week.find(start, days),
        _ => Err(Error::invalid("give `end` to count business days, or `days` to find a date, and not both")),
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeekendDay {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// Two dates, and the business days between them.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct BusinessDays {
    pub start: String,
    pub end: String,
    /// The day of the week of `end`
    pub weekday: &'static str,
    pub business_days: i32,
}

/// Which days are worked.
pub struct Week {
    holidays: BTreeSet<Date>,
    is_free: [bool; 7],
}

impl Week {
    pub fn read(reader: &Reader, holidays: &[String], weekend: &[WeekendDay]) -> Result<Self, Error> {
        if holidays.len() > MAX_HOLIDAYS {
            return Err(Error::invalid(format!(
                "`holidays` has more than {MAX_HOLIDAYS} dates: give only those between the dates asked about"
            )));
        }
        let mut is_free = [false; 7];
        for day in weekend {
            is_free[*day as usize] = true;
        }
        if is_free == [true; 7] {
            return Err(Error::invalid(
                "`weekend` has all seven days, so there are no business days: leave one out",
            ));
        }
        let holidays = holidays.iter().map(|date| reader.read_date(date)).collect::<Result<_, _>>()?;
        Ok(Self { holidays, is_free })
    }

    pub fn count(&self, start: Date, end: Date) -> Result<BusinessDays, Error> {
        if end < start {
            return Err(Error::invalid(format!("`end` ({end}) is before `start` ({start}): swap them")));
        }
        let days = start.until((Unit::Day, end)).map_err(|_| no_such_year(&end))?.get_days() + 1;
        let worked = self.is_free.iter().map(|is_free| i32::from(!is_free)).sum::<i32>();
        let begun = (0..days % 7).filter(|after| !self.is_free_on(start.weekday().wrapping_add(*after)));
        let begun = i32::try_from(begun.count()).unwrap_or_default();
        let holidays = self.holidays.range(start..=end).filter(|date| !self.is_free_on(date.weekday()));
        let holidays = i32::try_from(holidays.count()).unwrap_or_default();
        Ok(answer(start, end, days / 7 * worked + begun - holidays))
    }

    pub fn find(&self, start: Date, days: i32) -> Result<BusinessDays, Error> {
        if !(-MAX_STEPS..=MAX_STEPS).contains(&days) {
            return Err(Error::invalid(format!("`days` is beyond {MAX_STEPS}: go in several steps")));
        }
        let step = days.signum();
        let (mut date, mut left) = (start, days);
        while left != 0 {
            date = date.checked_add(step.days()).map_err(|_| no_such_year(&date))?;
            if !self.is_free_on(date.weekday()) && !self.holidays.contains(&date) {
                left -= step;
            }
        }
        Ok(answer(start, date, days))
    }

    fn is_free_on(&self, weekday: Weekday) -> bool {
        usize::try_from(weekday.to_monday_zero_offset()).is_ok_and(|day| self.is_free[day])
    }
}

fn answer(start: Date, end: Date, business_days: i32) -> BusinessDays {
    let weekday = weekday_name(end.weekday());
    BusinessDays { start: start.to_string(), end: end.to_string(), weekday, business_days }
}
