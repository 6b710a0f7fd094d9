//! `zones`: the names of time zones.

use jiff::tz::{Dst, Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::moment::rfc3339;
use crate::reader::Reader;
use crate::zone;

/// More names than this help no reader.
const MAX_ZONES: usize = 50;

/// Searches the names of time zones, and tells their offset and when clocks are changed next.
///
/// Searches by a part of the name (`york`, `Asia/`), by an offset (`+05:45`) or by an abbreviation (`CET`). Zones are
/// named by a large city of their region: for a place that is not found, try the largest city nearby.
#[tool(
    read_only,
    tags("timezone", "iana", "offset", "daylight saving"),
    examples({"query": "new york", "at": "2024-03-01"} => {
        "zones": [{"name": "America/New_York", "offset": "-05:00", "abbreviation": "EST", "is_daylight_saving": false, "next_change": "2024-03-10T03:00:00-04:00"}],
        "truncated": false
    })
)]
pub fn zones(
    /// A part of the name, an offset or an abbreviation
    query: String,
    /// The time to tell offsets of, in any form that `parse` takes
    #[default("now")]
    at: String,
) -> Result<Zones, Error> {
    search(&query, Reader::new(None)?.read(&at)?.timestamp())
}

/// Time zones.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Zones {
    /// At most 50, in the order of the alphabet
    pub zones: Vec<Zone>,
    /// Whether there are more than are given: write more of the name
    pub truncated: bool,
}

/// A time zone at a point in time.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Zone {
    pub name: String,
    /// From UTC
    pub offset: String,
    /// Name of the offset there
    pub abbreviation: String,
    pub is_daylight_saving: bool,
    /// When the offset changes next, as clocks show it after the change; missing where no change is planned
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_change: Option<String>,
}

pub fn search(query: &str, at: Timestamp) -> Result<Zones, Error> {
    let query = query.trim();
    if query.is_empty() {
        return Err(Error::invalid(
            "`query` is empty: write a part of a name, as `york`, or an offset, as `+05:45`",
        ));
    }
    let wanted = Wanted::read(query)?;
    let mut zones = Vec::new();
    let mut names: Vec<_> = zone::database().available().map(|name| name.as_str().to_owned()).collect();
    names.sort_unstable();
    for name in names {
        if let Some(zone) = wanted.find(&name, at) {
            zones.push(zone);
        }
    }
    if zones.is_empty() {
        return Err(zone::abbreviation(query).unwrap_or_else(|| {
            Error::invalid(format!(
                "no time zone fits `{}`: zones are named by a large city, so try the largest one of that region",
                zone::shorten(query)
            ))
        }));
    }
    let truncated = zones.len() > MAX_ZONES;
    zones.truncate(MAX_ZONES);
    Ok(Zones { zones, truncated })
}

/// The criterion of a search.
enum Wanted {
    Offset(Offset),
    /// In small letters, with underscores as names have them.
    Text(String),
}

impl Wanted {
    fn read(query: &str) -> Result<Self, Error> {
        if query.starts_with(['+', '-', '\u{2212}']) {
            return zone::offset(query).map(Self::Offset);
        }
        Ok(Self::Text(query.to_lowercase().replace(' ', "_")))
    }

    fn find(&self, name: &str, at: Timestamp) -> Option<Zone> {
        match self {
            Self::Text(text) if name.to_ascii_lowercase().contains(text) => Zone::at(name, at),
            // Abbreviations have few letters; looking into all zones for a longer text would be in vain.
            Self::Text(text) if text.len() > 5 => None,
            Self::Text(text) => {
                Zone::at(name, at).filter(|zone| zone.abbreviation.eq_ignore_ascii_case(text))
            }
            Self::Offset(offset) => {
                let zone = zone::database().get(name).ok()?;
                if zone.to_offset(at) == *offset { Zone::at(name, at) } else { None }
            }
        }
    }
}

impl Zone {
    fn at(name: &str, at: Timestamp) -> Option<Self> {
        let zone = zone::database().get(name).ok()?;
        let info = zone.to_offset_info(at);
        Some(Self {
            name: name.to_owned(),
            offset: zone::write_offset(info.offset()),
            abbreviation: info.abbreviation().to_owned(),
            is_daylight_saving: info.dst() == Dst::Yes,
            next_change: next_change(&zone, at),
        })
    }
}

/// Rules of zones change more than offsets do: only a new offset moves clocks.
fn next_change(zone: &TimeZone, at: Timestamp) -> Option<String> {
    let offset = zone.to_offset(at);
    let change = zone.following(at).take(10).find(|change| change.offset() != offset)?;
    Some(rfc3339(&Zoned::new(change.timestamp(), zone.clone())))
}
