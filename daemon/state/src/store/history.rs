//! History of documents: each write and deletion keeps the text with its author and time, in the transaction of the change.

use toolgate_macros::boxed;

use super::{Store, StoreError, StoreTransaction, from_sql, to_sql};
use crate::documents::{DocumentKey, DocumentKind, Revision};

/// Number of kept entries of a document, the one in force included.
pub(super) const KEPT_ENTRIES: i64 = 50;

/// Bytes of the kept texts of a document. The newest entry is kept at any size.
const KEPT_BYTES: i64 = 4 << 20;

/// Number of deleted documents of a kind and organization whose history is kept, so that ever new names do not fill the store.
const KEPT_DELETED: i64 = 100;

/// Bytes of the kept texts of these documents. The one that was deleted last is kept at any size.
const KEPT_DELETED_BYTES: i64 = 16 << 20;

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

#[boxed]
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

/// Removes the histories over the limits of deleted documents with the kind and scope of `key`.
pub(super) async fn remove_oldest_deleted(
    change: &mut StoreTransaction,
    key: &DocumentKey,
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM document_history WHERE kind = $1 AND scope = $2 AND name IN (\
           SELECT name FROM (\
             SELECT name, ROW_NUMBER() OVER latest_first AS position, \
               SUM(SUM(OCTET_LENGTH(COALESCE(body, '')))) OVER latest_first AS bytes \
             FROM document_history WHERE kind = $1 AND scope = $2 \
               AND name NOT IN (SELECT name FROM docs WHERE kind = $1 AND scope = $2) \
             GROUP BY name \
             WINDOW latest_first AS (ORDER BY MAX(revision) DESC ROWS UNBOUNDED PRECEDING)) AS deleted \
           WHERE position > $3 OR (position > 1 AND bytes > $4))",
    )
    .bind(key.kind().as_str())
    .bind(key.scope())
    .bind(KEPT_DELETED)
    .bind(KEPT_DELETED_BYTES)
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

    async fn put_and_delete_agent(store: &Store, name: &str, body: &str) {
        let key =
            DocumentKey::agent(&Name::parse("acme").expect("a name"), &Name::parse(name).expect("a name"));
        store.put_document(&key, body, &Precondition::Absent, 1).await.expect("written");
        store.delete_document(&key, &Precondition::Present, 1).await.expect("deleted");
    }

    async fn agents_with_a_history(store: &Store) -> Vec<String> {
        let sql = "SELECT DISTINCT name FROM document_history WHERE kind = 'agent' ORDER BY name";
        sqlx::query_scalar(sql).fetch_all(&store.readers).await.expect("names")
    }

    #[tokio::test]
    async fn deleted_documents_are_bounded_and_those_in_force_keep_their_history() {
        let (_folder, store) = store_with_acme().await;
        let kept =
            DocumentKey::agent(&Name::parse("acme").expect("a name"), &Name::parse("kept").expect("a name"));
        store.put_document(&kept, "{}", &Precondition::Absent, 1).await.expect("written");
        for number in 0..KEPT_DELETED + 2 {
            put_and_delete_agent(&store, &format!("a{number:03}"), "{}").await;
        }
        let names = agents_with_a_history(&store).await;
        assert_eq!(i64::try_from(names.len()), Ok(KEPT_DELETED + 1));
        assert_eq!((names[0].as_str(), names.last().map(String::as_str)), ("a002", Some("kept")));
        let large = "a".repeat(3 << 20);
        for number in 0..6 {
            put_and_delete_agent(&store, &format!("large{number}"), &large).await;
        }
        let names = ["kept", "large1", "large2", "large3", "large4", "large5"];
        assert_eq!(agents_with_a_history(&store).await, names);
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
