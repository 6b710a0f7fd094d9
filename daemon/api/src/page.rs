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
