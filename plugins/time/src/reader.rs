//! Makes of a written time a point in time. Every tool reads its times here.

use std::time::SystemTime;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use toolgate_sdk::Error;

use crate::parsed::{self, ParsedForm, ParsedTime};
use crate::zone;

/// The clock and zone that a time is read with.
#[derive(Debug)]
pub struct Reader {
    now: Timestamp,
    zone: Option<TimeZone>,
}

impl Reader {
    /// A reader that works in a zone: what is written without one is meant in it, and all else is converted to it.
    /// Without a zone, a time keeps the one it is written with.
    pub fn new(time_zone: Option<&str>) -> Result<Self, Error> {
        let now = Timestamp::try_from(SystemTime::now())
            .map_err(|error| Error::new(format!("the clock of this machine cannot be read: {error}")))?;
        Self::at(now, time_zone)
    }

    /// A reader with a clock that stands still.
    pub fn at(now: Timestamp, time_zone: Option<&str>) -> Result<Self, Error> {
        Ok(Self { now, zone: time_zone.map(zone::find).transpose()? })
    }

    pub fn read(&self, text: &str) -> Result<Zoned, Error> {
        self.recognise(text)?.settle(self.zone())
    }

    pub fn read_date(&self, text: &str) -> Result<Date, Error> {
        let written = self.recognise(text)?;
        match written.form {
            // A date without a zone is meant in the one that is worked in, and stays the same day.
            ParsedForm::Local { date, zone: None, .. } => Ok(date),
            _ => Ok(written.settle(self.zone())?.date()),
        }
    }

    pub fn recognise(&self, text: &str) -> Result<ParsedTime, Error> {
        parsed::recognise(text, self.now, self.now().date())
    }

    pub fn now(&self) -> Zoned {
        self.now.to_zoned(self.zone.clone().unwrap_or(TimeZone::UTC))
    }

    pub fn zone(&self) -> Option<&TimeZone> {
        self.zone.as_ref()
    }
}
