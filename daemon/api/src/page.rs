//! Pages of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The entries.
    pub items: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// Returns a page of the first `limit` items. `cursor` names the last of them, if there are more.
    pub fn new(mut items: Vec<T>, limit: u32, cursor: impl FnOnce(&T) -> String) -> Self {
        let has_more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = items.last().filter(|_| has_more).map(cursor);
        Self { items, next_cursor }
    }
}
