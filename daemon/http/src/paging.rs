//! Pages of lists.

use serde::de::{self, Deserialize, Deserializer};

/// Pagination parameters of a list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<u32>,
}

impl Page {
    pub(super) fn limit(&self) -> u32 {
        self.limit.unwrap_or(100)
    }
}

/// Parses the limit of a page, from 1 to `MOST` entries. A greater limit is an error; it is not silently reduced.
pub(super) fn page_limit<'de, const MOST: u32, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(from)? {
        limit if (1..=MOST).contains(&limit) => Ok(Some(limit)),
        limit => Err(de::Error::custom(format!("a page has 1 to {MOST} entries, not {limit}"))),
    }
}
