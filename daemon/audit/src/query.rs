//! Filters of searches.

use serde::Deserialize;

use super::record::{Kind, Order, Status};

/// Default page size in rows.
pub const PAGE_ROWS: u32 = 50;

/// Filters of a search; a row matches if it matches every filter that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    pub organization: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub call: Option<String>,
    /// The call whose script made the calls.
    pub parent: Option<String>,
    /// `namespace/tool`.
    pub tool: Option<String>,
    /// The user that a session acts for.
    pub user: Option<String>,
    /// Id of the token that called or acted.
    pub principal: Option<String>,
    /// The action of an administrative act.
    pub action: Option<String>,
    pub status: Option<Status>,
    pub error_type: Option<String>,
    /// Calls that the gate refused.
    pub refused: bool,
    pub kind: Option<Kind>,
    /// Recorded at or after this time.
    pub since_ms: Option<u64>,
    /// Recorded before this time.
    pub until_ms: Option<u64>,
    /// The cursor that the previous page ended with.
    pub cursor: Option<String>,
    /// Page size: [`PAGE_ROWS`] by default, at most [`PAGE_ROWS_MAX`](toolgate_api::audit::PAGE_ROWS_MAX).
    pub limit: Option<u32>,
    pub order: Order,
}
