//! `calendar`: what a calendar on the wall shows of a day.

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::moment::weekday_name;
use crate::reader::Reader;

/// Tells of a date its weekday, ISO week, day of the year, quarter and whether the year is a leap year; draws its month if asked.
///
/// For days between dates call `difference`, and for working days `business_days`.
#[tool(
    read_only,
    tags("weekday", "week number", "leap year", "month"),
    examples(
        {"date": "2024-03-10"} => {
            "date": "2024-03-10", "weekday": "Sunday", "iso_week": "2024-W10", "day_of_year": 70, "days_in_month": 31,
            "days_in_year": 366, "is_leap_year": true, "quarter": 1
        },
        "a month": {"date": "2024-02-01", "month": true} => {
            "date": "2024-02-01", "weekday": "Thursday", "iso_week": "2024-W05", "day_of_year": 32, "days_in_month": 29,
            "days_in_year": 366, "is_leap_year": true, "quarter": 1,
            "month": "Mo Tu We Th Fr Sa Su\n          1  2  3  4\n 5  6  7  8  9 10 11\n12 13 14 15 16 17 18\n19 20 21 22 23 24 25\n26 27 28 29"
        },
    )
)]
pub fn calendar(
    /// The date, in any form that `parse` takes, or `today`
    #[default("today")]
    date: String,
    /// Whether to draw the month
    #[default]
    month: bool,
    /// The first day of a week in the drawing
    #[default]
    week_starts_on: WeekStart,
    /// The zone whose day it is; UTC if left out
    time_zone: Option<String>,
) -> Result<Day, Error> {
    let date = Reader::new(time_zone.as_deref())?.read_date(&date)?;
    Ok(Day::of(date, month.then_some(week_starts_on)))
}

/// The first day of a week.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeekStart {
    #[default]
    Monday,
    Sunday,
}

/// A day in the calendar.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Day {
    pub date: String,
    pub weekday: &'static str,
    /// The ISO 8601 week, which begins on Monday; its year may be the one before or after the date's
    pub iso_week: String,
    /// Counted from 1
    pub day_of_year: i16,
    pub days_in_month: i8,
    pub days_in_year: i16,
    pub is_leap_year: bool,
    /// Counted from 1
    pub quarter: i8,
    /// A line for each week of the month
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<String>,
}

impl Day {
    pub fn of(date: Date, drawn: Option<WeekStart>) -> Self {
        let week = date.iso_week_date();
        Self {
            date: date.to_string(),
            weekday: weekday_name(date.weekday()),
            iso_week: format!("{:04}-W{:02}", week.year(), week.week()),
            day_of_year: date.day_of_year(),
            days_in_month: date.days_in_month(),
            days_in_year: date.days_in_year(),
            is_leap_year: date.in_leap_year(),
            quarter: (date.month() - 1) / 3 + 1,
            month: drawn.map(|week_start| draw(date, week_start)),
        }
    }
}

fn draw(date: Date, week_start: WeekStart) -> String {
    let first = date.first_of_month().weekday();
    let (head, before_first) = match week_start {
        WeekStart::Monday => ("Mo Tu We Th Fr Sa Su", first.to_monday_zero_offset()),
        WeekStart::Sunday => ("Su Mo Tu We Th Fr Sa", first.to_sunday_zero_offset()),
    };
    let mut drawing = head.to_owned();
    for cell in 0..before_first + date.days_in_month() {
        drawing.push(if cell % 7 == 0 { '\n' } else { ' ' });
        if cell < before_first {
            drawing.push_str("  ");
        } else {
            drawing.push_str(&format!("{:>2}", cell - before_first + 1));
        }
    }
    drawing
}
