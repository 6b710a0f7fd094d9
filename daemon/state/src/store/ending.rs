//! Credentials and tokens that end soon.

use toolgate_macros::boxed;

use super::{Store, StoreError, from_sql, to_sql};

/// Time before its end at which something is told to end, in milliseconds: a week.
pub const ENDING_MS: u64 = 7 * 24 * 3_600_000;

/// Most rows that are listed, so that one look at them stays short.
const MOST_ROWS: i64 = 1_000;

/// A credential or token that ends soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndingRow {
    pub kind: EndingKind,
    /// The organization; none for a token of the whole platform.
    pub organization: Option<String>,
    /// The name of the credential, or the id of the token.
    pub name: String,
    /// The label of a token.
    pub label: String,
    /// When it ends, in milliseconds since 1970.
    pub ends_ms: u64,
}

/// The kinds of [`EndingRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingKind {
    Credential,
    Token,
}

#[boxed]
impl Store {
    /// Lists the credentials and tokens that are valid and end within `ahead_ms`, the soonest first, without credentials that
    /// the daemon renews.
    pub async fn ending(&self, now_ms: u64, ahead_ms: u64) -> Result<Vec<EndingRow>, StoreError> {
        let rows: Vec<(String, Option<String>, String, String, i64)> = sqlx::query_as(
            "SELECT 'token' AS kind, organization, id AS name, label, expires_ms FROM tokens \
             WHERE revoked_ms IS NULL AND expires_ms > $1 AND expires_ms <= $2 \
             UNION ALL \
             SELECT 'credential', organization, name, '', expires_ms FROM credentials \
             WHERE refresh_ms IS NULL AND expires_ms > $1 AND expires_ms <= $2 \
             ORDER BY expires_ms LIMIT $3",
        )
        .bind(to_sql(now_ms))
        .bind(to_sql(now_ms.saturating_add(ahead_ms)))
        .bind(MOST_ROWS)
        .fetch_all(&self.readers)
        .await?;
        let row = |(kind, organization, name, label, ends_ms): (String, _, _, _, _)| EndingRow {
            kind: if kind == "token" { EndingKind::Token } else { EndingKind::Credential },
            organization,
            name,
            label,
            ends_ms: from_sql(ends_ms),
        };
        Ok(rows.into_iter().map(row).collect())
    }
}
