//! Dates, times and time zones for a model, which cannot see a clock and miscounts days.
//!
//! Each tool is a file here, and a thin function over `Reader`, which makes of a written time a point in time: every
//! tool takes a time in every form that `parse` takes. A text with two meanings is refused with both of them, so a
//! mistake is never an unnoticed hour, day or month.
//!
//! The zones are compiled in. The clock is the only thing of the outside that is read, in one place (`Reader::new`).

mod moment;
mod zone;

mod natural;
mod reader;
mod parsed;

mod add;
mod business_days;
mod calendar;
mod convert;
mod cron_next;
mod difference;
mod format;
mod now;
mod parse;
mod zones;

use toolgate_sdk::plugin;

plugin! {
    "time",
    publisher = "Toolgate",
    category = "Time",
    now::now, parse::parse, format::format, convert::convert, add::add, difference::difference,
    calendar::calendar, business_days::business_days, cron_next::cron_next, zones::zones
}

#[cfg(test)]
mod tests;
