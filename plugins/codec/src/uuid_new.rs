//! `uuid_new`: unique identifiers.

use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};
use uuid::{Builder, Uuid};

/// More than a model can use in one answer.
const MAX_COUNT: u32 = 100;

/// Makes new UUIDs, random ones (`v4`) or ones that sort by the time they were made (`v7`).
///
/// Never make up an identifier by yourself: those are not unique.
#[tool(
    read_only,
    idempotent = false,
    tags("guid", "identifier", "random", "unique"),
    examples({}, "keys of a database": {"version": "v7", "count": 3})
)]
pub fn uuid_new(
    /// `v4` is random; `v7` begins with the time, so that later ones sort after
    #[default]
    version: Version,
    /// How many to make
    #[default(1)]
    #[schemars(range(min = 1, max = 100))]
    count: u32,
) -> Result<Made, Error> {
    if !(1..=MAX_COUNT).contains(&count) {
        return Err(Error::invalid(format!("`count` is {count}: make 1 to {MAX_COUNT} at once")));
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
    let mut uuids = (0..count).map(|_| make(version, now_ms)).collect::<Result<Vec<_>, _>>()?;
    if version == Version::V7 {
        // Made in one millisecond, they have no order of their own.
        uuids.sort_unstable();
    }
    Ok(Made { uuids: uuids.iter().map(Uuid::to_string).collect() })
}

/// A version of UUIDs.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    #[default]
    V4,
    V7,
}

/// New UUIDs.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Made {
    /// The new UUIDs, those of `v7` in ascending order
    pub uuids: Vec<String>,
}

pub fn make(version: Version, now_ms: u64) -> Result<Uuid, Error> {
    Ok(match version {
        Version::V4 => Builder::from_random_bytes(random()?).into_uuid(),
        Version::V7 => Builder::from_unix_timestamp_millis(now_ms, &random()?).into_uuid(),
    })
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(format!("there are no random numbers to be had: {error}")).retryable())?;
    Ok(bytes)
}
