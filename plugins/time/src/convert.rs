//! `convert`: what clocks elsewhere show.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::reader::Reader;
use crate::zone;

/// More zones than there are on the earth at once is a mistake.
const MAX_ZONES: usize = 50;

/// Tells what clocks in other time zones show at a point in time.
///
/// For a time that was told without a zone (`3 pm in Tokyo`), give its zone as `from`.
#[tool(
    read_only,
    tags("timezone", "world clock", "meeting"),
    examples({"time": "2024-03-10T15:00", "from": "Asia/Tokyo", "to": ["Europe/London", "America/New_York"]} => {
        "from": {"time": "2024-03-10T15:00:00+09:00", "time_zone": "Asia/Tokyo", "weekday": "Sunday", "unix_seconds": 1710050400},
        "to": [
            {"time": "2024-03-10T06:00:00+00:00", "time_zone": "Europe/London", "weekday": "Sunday", "unix_seconds": 1710050400},
            {"time": "2024-03-10T01:00:00-05:00", "time_zone": "America/New_York", "weekday": "Sunday", "unix_seconds": 1710050400}
        ]
    })
)]
pub fn convert(
    /// The time, in any form that `parse` takes, or `now`
    time: String,
    /// The zones to convert to, as `["Europe/Berlin", "+09:00"]`; at most 50
    #[schemars(length(min = 1, max = 50))]
    to: Vec<String>,
    /// The zone of a time that is written without one; UTC if left out
    from: Option<String>,
) -> Result<Converted, Error> {
    Reader::new(from.as_deref())?.convert(&time, &to)
}

/// One point in time in several zones.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Converted {
    pub from: Moment,
    /// In the order of the zones asked for
    pub to: Vec<Moment>,
}

impl Reader {
    pub fn convert(&self, time: &str, to: &[String]) -> Result<Converted, Error> {
        if to.is_empty() || to.len() > MAX_ZONES {
            return Err(Error::invalid(format!("`to` has {} zones: name 1 to {MAX_ZONES}", to.len())));
        }
        let from = self.read(time)?;
        let shown = to.iter().map(|name| Ok(Moment::from(&from.with_time_zone(zone::find(name)?))));
        Ok(Converted { to: shown.collect::<Result<_, Error>>()?, from: Moment::from(&from) })
    }
}
