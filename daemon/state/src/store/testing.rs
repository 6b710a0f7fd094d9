//! Stores and rows for tests, also of other crates.

#![allow(clippy::expect_used, reason = "a panic fails the test")]

use sqlx::Sqlite;
use toolgate_api::approval::ApprovalState;
use toolgate_api::name::Name;

use super::{ApprovalRow, Store};
use crate::documents::{DocumentKey, Precondition};

impl Store {
    /// A connection for direct changes of the file.
    pub async fn raw(&self) -> sqlx::pool::PoolConnection<Sqlite> {
        self.writer.acquire().await.expect("a connection")
    }
}

/// A store in a temporary folder, which the caller must keep.
pub async fn empty_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("state.db")).await.expect("an empty store");
    (folder, store)
}

/// A store with one organization.
pub async fn store_with_acme() -> (tempfile::TempDir, Store) {
    let (folder, store) = empty_store().await;
    let key = DocumentKey::Organization(Name::parse("acme").expect("a name"));
    store.put_document(&key, "{}", &Precondition::Absent, 1).await.expect("an organization");
    (folder, store)
}

/// A pending approval of a call.
pub fn pending_approval(id: &str, call: &str) -> ApprovalRow {
    let name = |text: &str| Name::parse(text).expect("a name");
    ApprovalRow {
        id: id.into(),
        organization: name("acme"),
        agent: name("bot"),
        session: "s".into(),
        call: call.into(),
        user: Some("u".into()),
        conversation: None,
        channel: Some("sms".into()),
        asked_by: "t1".into(),
        opened_by: "t1".into(),
        tool: "pay/send".into(),
        called: "call_pay_send".into(),
        plugin_version: "1".into(),
        plugin_digest: "sha256:00".into(),
        rules: "{}".into(),
        arguments: "{\"to\": 1.0}".into(),
        binding: "b".into(),
        state: ApprovalState::Pending,
        uses_left: 0,
        constraints: None,
        arguments_instead: None,
        reason: None,
        decided_by: None,
        decided_ms: None,
        created_ms: 10,
        expires_ms: 100,
    }
}
