//! Tokens in the store. A row is never deleted: who a revoked token was, the
//! audit log still asks.

use sqlx::{FromRow, Sqlite, Transaction};
use toolgate_admission::Name;

use super::documents::require_organization;
use super::{Store, StoreError, from_sql, to_sql};
use crate::identity::Role;

/// A token as stored: everything but its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub hash: String,
    pub role: Role,
    pub organization: Option<Name>,
    /// The agents that it may speak for; all of its organization where none are named.
    pub agents: Option<Vec<Name>>,
    pub label: String,
    pub created_ms: u64,
    pub revoked_ms: Option<u64>,
}

#[derive(FromRow)]
struct Row {
    id: String,
    hash: String,
    role: String,
    organization: Option<String>,
    agents: Option<String>,
    label: String,
    created_ms: i64,
    revoked_ms: Option<i64>,
}

impl Store {
    /// Every token that is not revoked, in the order of making.
    pub async fn live_tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, hash, role, organization, agents, label, created_ms, revoked_ms \
             FROM tokens WHERE revoked_ms IS NULL ORDER BY created_ms, id",
        )
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Whether a token was ever made, a revoked one included.
    pub async fn has_tokens(&self) -> Result<bool, StoreError> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT id FROM tokens LIMIT 1").fetch_optional(&self.readers).await?;
        Ok(row.is_some())
    }

    /// Adds a token. Its organization must be there.
    pub async fn add_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        if let Some(organization) = &token.organization {
            require_organization(&mut change, organization).await?;
        }
        sqlx::query(
            "INSERT INTO tokens (id, hash, role, organization, agents, label, created_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(&token.id)
        .bind(&token.hash)
        .bind(token.role.as_str())
        .bind(token.organization.as_ref().map(Name::as_str))
        .bind(token.agents.as_deref().map(agents_to_json))
        .bind(&token.label)
        .bind(to_sql(token.created_ms))
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(())
    }

    /// Revokes a token; one that is revoked already, or was never made, is not found. The last operator's stays: only
    /// operators make operators, and no start makes a token where there ever was one, so nobody would get in again.
    pub async fn revoke_token(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let role: Option<(String,)> =
            sqlx::query_as("SELECT role FROM tokens WHERE id = $1 AND revoked_ms IS NULL")
                .bind(id)
                .fetch_optional(&mut *change)
                .await?;
        let Some((role,)) = role else {
            return Err(StoreError::not_found(format!("token `{id}`")));
        };
        if role == Role::Operator.as_str() && live_operators(&mut change).await? == 1 {
            return Err(StoreError::LastOperator { id: id.to_owned() });
        }
        sqlx::query("UPDATE tokens SET revoked_ms = $2 WHERE id = $1")
            .bind(id)
            .bind(to_sql(now_ms))
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(())
    }
}

async fn live_operators(change: &mut Transaction<'static, Sqlite>) -> Result<i64, StoreError> {
    let (count,) = sqlx::query_as("SELECT count(*) FROM tokens WHERE role = $1 AND revoked_ms IS NULL")
        .bind(Role::Operator.as_str())
        .fetch_one(&mut **change)
        .await?;
    Ok(count)
}

/// Revokes what an organization's tokens are left; answers their ids.
pub(super) async fn revoke_of_organization(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
    now_ms: u64,
) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "UPDATE tokens SET revoked_ms = $2 WHERE organization = $1 AND revoked_ms IS NULL RETURNING id",
    )
    .bind(organization.as_str())
    .bind(to_sql(now_ms))
    .fetch_all(&mut **change)
    .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

fn agents_to_json(agents: &[Name]) -> String {
    serde_json::Value::from_iter(agents.iter().map(Name::as_str)).to_string()
}

/// A row that cannot be read back must not turn into a token with more rights
/// than it was given, so it stops the start instead of being passed over.
fn read(row: Row) -> Result<TokenRow, StoreError> {
    let unreadable = || StoreError::damaged("a row of `tokens` cannot be read");
    let name = |text: String| Name::parse(&text).map_err(|_| unreadable());
    let agents = row.agents.map(|json| {
        let texts: Vec<String> = serde_json::from_str(&json).map_err(|_| unreadable())?;
        texts.into_iter().map(name).collect::<Result<Vec<_>, _>>()
    });
    Ok(TokenRow {
        role: Role::parse(&row.role).ok_or_else(unreadable)?,
        organization: row.organization.map(name).transpose()?,
        agents: agents.transpose()?,
        id: row.id,
        hash: row.hash,
        label: row.label,
        created_ms: from_sql(row.created_ms),
        revoked_ms: row.revoked_ms.map(from_sql),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::store_with_acme;
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn token(id: &str) -> TokenRow {
        TokenRow {
            id: id.into(),
            hash: "00".repeat(32),
            role: Role::Operator,
            organization: None,
            agents: None,
            label: String::new(),
            created_ms: 5,
            revoked_ms: None,
        }
    }

    #[tokio::test]
    async fn a_token_comes_back_as_it_was_stored() {
        let (_folder, store) = store_with_acme().await;
        assert!(!store.has_tokens().await.expect("an answer"));
        let mut stored = token("a");
        stored.role = Role::Orchestrator;
        stored.organization = Some(name("acme"));
        stored.agents = Some(vec![name("bot"), name("clerk")]);
        store.add_token(&stored).await.expect("stored");
        assert_eq!(store.live_tokens().await.expect("tokens"), [stored]);
        assert!(store.has_tokens().await.expect("an answer"));
    }

    #[tokio::test]
    async fn a_token_needs_its_organization() {
        let (_folder, store) = store_with_acme().await;
        let mut stored = token("a");
        stored.role = Role::Owner;
        stored.organization = Some(name("ghost"));
        let error = store.add_token(&stored).await.expect_err("no such organization");
        assert_eq!(error.to_string(), "no organization `ghost`");
        stored.organization = Some(name("acme"));
        store.add_token(&stored).await.expect("stored");
    }

    #[tokio::test]
    async fn a_revoked_token_is_gone_and_stays_known() {
        let (_folder, store) = store_with_acme().await;
        store.add_token(&TokenRow { role: Role::Auditor, ..token("a") }).await.expect("stored");
        store.revoke_token("a", 9).await.expect("revoked");
        assert_eq!(store.live_tokens().await.expect("tokens"), []);
        assert!(store.has_tokens().await.expect("an answer"));
        let again = store.revoke_token("a", 10).await.expect_err("revoked already");
        assert!(matches!(again, StoreError::NotFound { .. }));
    }

    /// Whoever revokes at the same time as others: one operator is left, whichever it is.
    #[tokio::test]
    async fn the_last_operators_token_is_not_revoked_and_any_other_is() {
        let (_folder, store) = store_with_acme().await;
        for id in ["a", "b", "c"] {
            store.add_token(&token(id)).await.expect("stored");
        }
        store.add_token(&TokenRow { role: Role::Auditor, ..token("d") }).await.expect("stored");
        store.revoke_token("d", 8).await.expect("it is no operator's");
        let (a, b, c) =
            tokio::join!(store.revoke_token("a", 9), store.revoke_token("b", 9), store.revoke_token("c", 9));
        let refused: Vec<_> = [a, b, c].into_iter().filter_map(Result::err).collect();
        assert!(matches!(&refused[..], [StoreError::LastOperator { .. }]), "{refused:?}");
        let [left] = &store.live_tokens().await.expect("tokens")[..] else { panic!("one is left") };
        store.add_token(&token("e")).await.expect("stored");
        store.revoke_token(&left.id, 10).await.expect("it is no longer the last");
    }

    #[tokio::test]
    async fn a_damaged_row_is_an_error_and_no_token() {
        let (_folder, store) = store_with_acme().await;
        store.add_token(&token("a")).await.expect("stored");
        for damage in ["UPDATE tokens SET role = 'god'", "UPDATE tokens SET agents = '{', role = 'operator'"]
        {
            sqlx::query(damage).execute(&store.writer).await.expect("damaged");
            assert!(store.live_tokens().await.is_err(), "{damage}");
        }
    }
}
