//! History of documents: each write and deletion keeps the text with its author and time, in the transaction of the change.

use super::{Store, StoreError, StoreTransaction, from_sql, to_sql};
use crate::documents::{DocumentKey, DocumentKind, Revision};

/// Number of kept entries of a document, the one in force included.
pub const KEPT_ENTRIES: i64 = 50;

/// Bytes of the kept texts of a document. The newest entry is kept at any size.
const KEPT_BYTES: i64 = 4 << 20;

/// The author and the time of a change.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The id of a token; empty for the daemon itself.
    pub author: &'a str,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

/// A change of the daemon itself.
impl From<u64> for Stamp<'_> {
    fn from(at_ms: u64) -> Self {
        Self { author: "", at_ms }
    }
}

/// An entry of a document's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub revision: Revision,
    /// The id of a token; empty for the daemon itself.
    pub author: String,
    pub written_ms: u64,
    /// The text; `None` where the document was deleted.
    pub body: Option<String>,
}

impl Store {
    /// Lists the history of a document, newest first, or the one entry with `revision`.
    pub async fn history(
        &self,
        key: &DocumentKey,
        revision: Option<Revision>,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let rows: Vec<(i64, String, i64, Option<String>)> = sqlx::query_as(
            "SELECT revision, author, written_ms, body FROM document_history \
             WHERE kind = $1 AND scope = $2 AND name = $3 AND ($4 IS NULL OR revision = $4) \
             ORDER BY revision DESC",
        )
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .bind(revision.map(|revision| to_sql(revision.0)))
        .fetch_all(&self.readers)
        .await?;
        let entry = |(revision, author, written_ms, body)| HistoryEntry {
            revision: Revision(from_sql(revision)),
            author,
            written_ms: from_sql(written_ms),
            body,
        };
        Ok(rows.into_iter().map(entry).collect())
    }
}

/// Adds an entry, and removes the oldest ones over the limits.
pub(super) async fn add(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    revision: Revision,
    body: Option<&str>,
    stamp: Stamp<'_>,
) -> Result<(), StoreError> {
    // The list of a mounted server is fetched, and no person writes it.
    if key.kind() == DocumentKind::Mount {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO document_history (revision, kind, scope, name, body, author, written_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(to_sql(revision.0))
    .bind(key.kind().as_str())
    .bind(key.scope())
    .bind(key.name())
    .bind(body)
    .bind(stamp.author)
    .bind(to_sql(stamp.at_ms))
    .execute(&mut **change)
    .await?;
    remove_oldest(change, key, revision).await
}

async fn remove_oldest(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    newest: Revision,
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM document_history WHERE revision <> $4 AND revision IN (\
           SELECT revision FROM (\
             SELECT revision, ROW_NUMBER() OVER newest_first AS position, \
               SUM(OCTET_LENGTH(COALESCE(body, ''))) OVER newest_first AS bytes \
             FROM document_history WHERE kind = $1 AND scope = $2 AND name = $3 \
             WINDOW newest_first AS (ORDER BY revision DESC ROWS UNBOUNDED PRECEDING)) AS numbered \
           WHERE position > $5 OR bytes > $6)",
    )
    .bind(key.kind().as_str())
    .bind(key.scope())
    .bind(key.name())
    .bind(to_sql(newest.0))
    .bind(KEPT_ENTRIES)
    .bind(KEPT_BYTES)
    .execute(&mut **change)
    .await?;
    Ok(())
}

/// Deletes the history of an organization and of all that it had, so that a new organization of the name does not get it.
pub(super) async fn delete_of_organization(
    change: &mut StoreTransaction,
    organization: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM document_history WHERE scope = $1 OR (kind = 'organization' AND scope = '' AND name = $1)",
    )
    .bind(organization)
    .execute(&mut **change)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use toolgate_api::name::Name;

    use super::super::testing::store_with_acme;
    use super::*;
    use crate::documents::Precondition;

    fn acme() -> DocumentKey {
        DocumentKey::Organization(Name::parse("acme").expect("a name"))
    }

    fn policy() -> DocumentKey {
        DocumentKey::Policy(Name::parse("acme").expect("a name"))
    }

    async fn put(store: &Store, body: &str, author: &str) -> Revision {
        let current = store.document(&policy()).await.ok().map(|document| document.revision);
        let precondition = current.map_or(Precondition::Absent, |tag| Precondition::OneOf(vec![tag]));
        let stamp = Stamp { author, at_ms: 7 };
        store.put_document(&policy(), body, &precondition, stamp).await.expect("written").revision
    }

    #[tokio::test]
    async fn writes_and_deletions_are_kept_with_their_author() {
        let (_folder, store) = store_with_acme().await;
        let first = put(&store, "{\"n\":1}", "t_anna").await;
        put(&store, "{\"n\":2}", "t_ben").await;
        let stamp = Stamp { author: "t_ben", at_ms: 8 };
        store.delete_document(&policy(), &Precondition::Present, stamp).await.expect("deleted");
        let history = store.history(&policy(), None).await.expect("a history");
        let shown: Vec<_> =
            history.iter().map(|entry| (entry.author.as_str(), entry.body.as_deref())).collect();
        assert_eq!(shown, [("t_ben", None), ("t_ben", Some("{\"n\":2}")), ("t_anna", Some("{\"n\":1}"))]);
        let one = store.history(&policy(), Some(first)).await.expect("a history");
        assert_eq!((one.len(), one[0].written_ms), (1, 7));
        // The revision of another document is not an entry of this one.
        let other = store.history(&acme(), Some(first)).await.expect("a history");
        assert!(other.is_empty());
    }

    #[tokio::test]
    async fn entries_and_bytes_are_bounded_and_the_newest_is_always_kept() {
        let (_folder, store) = store_with_acme().await;
        for number in 0..KEPT_ENTRIES + 3 {
            put(&store, &number.to_string(), "t").await;
        }
        let history = store.history(&policy(), None).await.expect("a history");
        assert_eq!(i64::try_from(history.len()), Ok(KEPT_ENTRIES));
        assert_eq!(history[0].body.as_deref(), Some((KEPT_ENTRIES + 2).to_string().as_str()));
        let large = "é".repeat(3 << 20);
        put(&store, &large, "t").await;
        let history = store.history(&policy(), None).await.expect("a history");
        assert_eq!((history.len(), history[0].body.as_ref().map(String::len)), (1, Some(6 << 20)));
    }

    #[tokio::test]
    async fn a_new_organization_does_not_get_the_history_of_a_deleted_one() {
        let (_folder, store) = store_with_acme().await;
        put(&store, "{}", "t").await;
        store.delete_document(&acme(), &Precondition::Present, 9).await.expect("deleted");
        for key in [acme(), policy()] {
            assert!(store.history(&key, None).await.expect("a history").is_empty(), "{key}");
        }
    }
}
