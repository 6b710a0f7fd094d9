//! `now`: what a model cannot know.

use toolgate_sdk::{Error, tool};

use crate::moment::Moment;
use crate::reader::Reader;

/// Tells the current date and time.
///
/// Call it before anything that depends on today: a model does not know the date by itself. Other tools of this
/// plugin take the word `now` for a time, so they need no call of this one before them.
#[tool(read_only, idempotent = false, tags("clock", "date", "today"), examples({}, "somewhere": {"time_zone": "Europe/Berlin"}))]
pub fn now(
    /// The zone to show it in, as `Europe/Berlin` or `+02:00`; UTC if left out
    time_zone: Option<String>,
) -> Result<Moment, Error> {
    Ok(Moment::from(&Reader::new(time_zone.as_deref())?.now()))
}
