//! Messages between the agents of an organization.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row as _};
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::documents::require;
use super::{Store, StoreError, StoreTransaction, natural, to_sql};
use crate::documents::DocumentKey;

/// Read messages that an inbox keeps. Without a limit, two agents that write to each other would fill the disk, and each message
/// would search all of them for the unread ones.
const READ_KEPT: i64 = 100;

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    pub id: String,
    pub sender: String,
    pub body: String,
    pub sent_ms: u64,
}

impl FromRow<'_, SqliteRow> for MessageRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            sender: row.try_get("sender")?,
            body: row.try_get("body")?,
            sent_ms: natural(row, "sent_ms")?,
        })
    }
}

/// The inbox of an agent.
#[derive(Clone, Copy, Debug)]
pub struct InboxKey<'a> {
    pub organization: &'a Name,
    pub agent: &'a Name,
}

#[boxed]
impl Store {
    /// Adds a message to the inbox of an existing agent. Returns the number of unread ones; none, without adding it, where
    /// `most_unread` of this sender are unread.
    pub async fn add_message(
        &self,
        inbox: InboxKey<'_>,
        message: &MessageRow,
        most_unread: u64,
    ) -> Result<Option<u64>, StoreError> {
        let mut change = self.begin().await?;
        require(&mut change, &DocumentKey::agent(inbox.organization, inbox.agent)).await?;
        let of_sender: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM messages WHERE organization = $1 AND recipient = $2 AND sender = $3 AND read_ms IS NULL",
        )
        .bind(inbox.organization.as_str())
        .bind(inbox.agent.as_str())
        .bind(&message.sender)
        .fetch_one(&mut *change)
        .await?;
        if u64::try_from(of_sender).unwrap_or(0) >= most_unread {
            return Ok(None);
        }
        sqlx::query(
            "INSERT INTO messages (organization, recipient, number, id, sender, body, sent_ms) \
             SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6 FROM messages \
             WHERE organization = $1 AND recipient = $2",
        )
        .bind(inbox.organization.as_str())
        .bind(inbox.agent.as_str())
        .bind(&message.id)
        .bind(&message.sender)
        .bind(&message.body)
        .bind(to_sql(message.sent_ms))
        .execute(&mut *change)
        .await?;
        let unread = unread_count(&mut change, inbox).await?;
        change.commit().await?;
        Ok(Some(unread))
    }

    /// Marks the messages up to `read` as read, and deletes all but the newest read ones.
    pub async fn mark_read(&self, inbox: InboxKey<'_>, read: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let query = sqlx::query(
            "UPDATE messages SET read_ms = $4 WHERE organization = $1 AND recipient = $2 AND read_ms IS NULL \
             AND number <= (SELECT number FROM messages WHERE organization = $1 AND recipient = $2 AND id = $3)",
        );
        let query = query.bind(inbox.organization.as_str()).bind(inbox.agent.as_str());
        query.bind(read).bind(to_sql(now_ms)).execute(&mut *change).await?;
        let query = sqlx::query(
            "DELETE FROM messages WHERE organization = $1 AND recipient = $2 AND read_ms IS NOT NULL AND number <= \
             (SELECT MAX(number) FROM messages WHERE organization = $1 AND recipient = $2 AND read_ms IS NOT NULL) - $3",
        );
        let query = query.bind(inbox.organization.as_str()).bind(inbox.agent.as_str());
        query.bind(READ_KEPT).execute(&mut *change).await?;
        change.commit().await?;
        Ok(())
    }

    /// Returns the oldest unread messages, and the number of all unread ones.
    pub async fn unread_messages(
        &self,
        inbox: InboxKey<'_>,
        limit: u32,
    ) -> Result<(Vec<MessageRow>, u64), StoreError> {
        let mut read = self.readers.begin().await?;
        let messages = sqlx::query_as(
            "SELECT id, sender, body, sent_ms FROM messages \
             WHERE organization = $1 AND recipient = $2 AND read_ms IS NULL ORDER BY number LIMIT $3",
        )
        .bind(inbox.organization.as_str())
        .bind(inbox.agent.as_str())
        .bind(i64::from(limit))
        .fetch_all(&mut *read)
        .await?;
        let unread = unread_count(&mut read, inbox).await?;
        Ok((messages, unread))
    }

    /// Deletes the messages that were sent before that time, read or not.
    pub async fn forget_messages(&self, sent_before_ms: u64) -> Result<(), StoreError> {
        let query = sqlx::query("DELETE FROM messages WHERE sent_ms < $1").bind(to_sql(sent_before_ms));
        query.execute(&self.writer).await?;
        Ok(())
    }
}

/// Deletes the inboxes of an organization, or of one of its agents: the next agent of that name is another one.
pub(super) async fn delete_of(
    change: &mut StoreTransaction,
    organization: &Name,
    agent: Option<&Name>,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM messages WHERE organization = $1 AND recipient = COALESCE($2, recipient)")
        .bind(organization.as_str())
        .bind(agent.map(Name::as_str))
        .execute(&mut **change)
        .await?;
    Ok(())
}

async fn unread_count(change: &mut StoreTransaction, inbox: InboxKey<'_>) -> Result<u64, StoreError> {
    let count: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM messages WHERE organization = $1 AND recipient = $2 AND read_ms IS NULL",
    )
    .bind(inbox.organization.as_str())
    .bind(inbox.agent.as_str())
    .fetch_one(&mut **change)
    .await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::Precondition;
    use crate::store::testing::store_with_acme;

    #[tokio::test]
    async fn an_inbox_does_not_grow_with_read_messages() {
        let (_folder, store) = store_with_acme().await;
        let (organization, agent) =
            (Name::parse("acme").expect("a name"), Name::parse("bob").expect("a name"));
        let key = DocumentKey::agent(&organization, &agent);
        store.put_document(&key, "{}", &Precondition::Absent, 1).await.expect("an agent");
        let inbox = InboxKey { organization: &organization, agent: &agent };
        for at in 0..150 {
            let message =
                MessageRow { id: format!("m{at}"), sender: "eve".into(), body: "x".into(), sent_ms: at };
            assert_eq!(store.add_message(inbox, &message, 200).await.expect("sent"), Some(1));
            store.mark_read(inbox, &message.id, at).await.expect("read");
        }
        let kept: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM messages")
            .fetch_one(&store.readers)
            .await
            .expect("a count");
        assert_eq!(kept, READ_KEPT);
        // The id of a message that is not there marks nothing.
        let message = MessageRow { id: "next".into(), sender: "eve".into(), body: "x".into(), sent_ms: 150 };
        assert_eq!(store.add_message(inbox, &message, 200).await.expect("sent"), Some(1));
        store.mark_read(inbox, "m0", 151).await.expect("read");
        let (unread, count) = store.unread_messages(inbox, 10).await.expect("messages");
        assert_eq!((unread, count), (vec![message], 1));
    }
}
