//! Tokens. Rows are never deleted, since audit records refer to revoked tokens.

use std::collections::{BTreeSet, HashMap};

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite};
use toolgate_api::name::Name;
use toolgate_api::network::Network;
use toolgate_macros::boxed;

use super::documents::require_organization;
use super::{Store, StoreError, StoreTransaction, name, natural, optional_natural, parse_column, to_sql};

/// Most tokens of an organization that are not revoked: all of them are in memory, and each change copies their table.
const TOKENS_PER_ORGANIZATION: i64 = 10_000;

/// The role whose last token cannot be revoked.
const OPERATOR: &str = "operator";

/// A stored token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub hash: String,
    /// Name of the role; `identity` parses it.
    pub role: String,
    pub organization: Option<Name>,
    /// The agents that it may act for; `None` means every agent of the organization.
    pub agents: Option<Vec<Name>>,
    pub label: String,
    pub created_ms: u64,
    pub revoked_ms: Option<u64>,
    pub expires_ms: Option<u64>,
    /// The networks that it may be used from; `None` means every one.
    pub addresses: Option<Vec<Network>>,
    /// The user that its calls are made for.
    pub user: Option<String>,
    pub last_used_ms: Option<u64>,
}

/// What people called tokens, and what people who sign in are called, by their ids: for people that read ids. Webhooks and the daemon
/// have no label.
#[derive(Clone, Debug, Default)]
pub struct TokenLabels(HashMap<String, String>);

impl TokenLabels {
    /// The label of the token with this id.
    pub fn get(&self, id: &str) -> Option<String> {
        self.0.get(id).cloned()
    }
}

/// An unreadable row is an error that stops the start, since skipping a column could give the token more rights.
impl FromRow<'_, SqliteRow> for TokenRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let organization = row.try_get::<Option<&str>, _>("organization")?;
        let agents = row.try_get::<Option<&str>, _>("agents")?;
        let addresses = row.try_get::<Option<&str>, _>("addresses")?;
        Ok(Self {
            id: row.try_get("id")?,
            hash: row.try_get("hash")?,
            role: row.try_get("role")?,
            organization: organization.map(|_| parse_column(row, "organization", name)).transpose()?,
            agents: agents.map(|_| parse_column(row, "agents", agents_from_json)).transpose()?,
            label: row.try_get("label")?,
            created_ms: natural(row, "created_ms")?,
            revoked_ms: optional_natural(row, "revoked_ms")?,
            expires_ms: optional_natural(row, "expires_ms")?,
            addresses: addresses.map(|_| parse_column(row, "addresses", addresses_from_json)).transpose()?,
            user: row.try_get("acts_for")?,
            last_used_ms: optional_natural(row, "last_used_ms")?,
        })
    }
}

#[boxed]
impl Store {
    /// Returns every token that is not revoked, oldest first.
    pub async fn live_tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM tokens WHERE revoked_ms IS NULL ORDER BY created_ms, id");
        Ok(query.fetch_all(&self.readers).await?)
    }

    /// Keeps what a person who signs in is called.
    pub async fn name_person(&self, id: &str, name: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        sqlx::query(
            "INSERT INTO people (id, name, seen_ms) VALUES ($1, $2, $3) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, seen_ms = excluded.seen_ms",
        )
        .bind(id)
        .bind(name)
        .bind(to_sql(now_ms))
        .execute(&mut *change)
        .await?;
        Ok(change.commit().await?)
    }

    /// The labels of these tokens, revoked ones included, and the names of people.
    pub async fn token_labels(&self, ids: &BTreeSet<&str>) -> Result<TokenLabels, StoreError> {
        if ids.is_empty() {
            return Ok(TokenLabels::default());
        }
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT id, label FROM (SELECT id, label FROM tokens WHERE label != '' \
             UNION ALL SELECT id, name FROM people) WHERE id IN (",
        );
        let mut list = sql.separated(", ");
        for id in ids {
            list.push_bind((*id).to_owned());
        }
        list.push_unseparated(")");
        let rows: Vec<(String, String)> = sql.build_query_as().fetch_all(&self.readers).await?;
        Ok(TokenLabels(rows.into_iter().collect()))
    }

    /// Returns whether a token was ever created, including revoked ones.
    pub async fn has_tokens(&self) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT id FROM tokens LIMIT 1").fetch_optional(&self.readers).await?;
        Ok(row.is_some())
    }

    /// Adds a token. Its organization must exist.
    pub async fn add_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        if let Some(organization) = &token.organization {
            require_organization(&mut change, organization).await?;
            if count_of(&mut change, organization).await? >= TOKENS_PER_ORGANIZATION {
                return Err(StoreError::TooManyTokens);
            }
        }
        sqlx::query(
            "INSERT INTO tokens (id, hash, role, organization, agents, label, created_ms, expires_ms, addresses, \
             acts_for) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(&token.id)
        .bind(&token.hash)
        .bind(&token.role)
        .bind(token.organization.as_ref().map(Name::as_str))
        .bind(token.agents.as_deref().map(agents_to_json))
        .bind(&token.label)
        .bind(to_sql(token.created_ms))
        .bind(token.expires_ms.map(to_sql))
        .bind(token.addresses.as_deref().map(addresses_to_json))
        .bind(&token.user)
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(())
    }

    /// Stores when tokens were last used.
    pub async fn note_token_use(&self, uses: &[(String, u64)]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        let mut change = self.begin().await?;
        for (id, at_ms) in uses {
            let update = sqlx::query("UPDATE tokens SET last_used_ms = $2 WHERE id = $1");
            update.bind(id).bind(to_sql(*at_ms)).execute(&mut *change).await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Revokes a token; `NotFound` if it is unknown or already revoked. The last operator token that does not expire cannot be
    /// revoked: only operators create operators, and a start creates a token only in an empty store.
    pub async fn revoke_token(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let token: Option<TokenRow> =
            sqlx::query_as("SELECT * FROM tokens WHERE id = $1 AND revoked_ms IS NULL")
                .bind(id)
                .fetch_optional(&mut *change)
                .await?;
        let token = token.ok_or_else(|| StoreError::not_found(format!("token `{id}`")))?;
        let is_lasting = token.role == OPERATOR && token.expires_ms.is_none();
        if is_lasting && lasting_operators(&mut change).await? == 1 {
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

async fn count_of(change: &mut StoreTransaction, organization: &Name) -> Result<i64, StoreError> {
    let query =
        sqlx::query_scalar("SELECT count(*) FROM tokens WHERE organization = $1 AND revoked_ms IS NULL");
    Ok(query.bind(organization.as_str()).fetch_one(&mut **change).await?)
}

async fn lasting_operators(change: &mut StoreTransaction) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar(
        "SELECT count(*) FROM tokens WHERE role = $1 AND revoked_ms IS NULL AND expires_ms IS NULL",
    );
    Ok(query.bind(OPERATOR).fetch_one(&mut **change).await?)
}

/// Revokes the remaining tokens of an organization and returns their ids.
pub(super) async fn revoke_of_organization(
    change: &mut StoreTransaction,
    organization: &Name,
    now_ms: u64,
) -> Result<Vec<String>, StoreError> {
    let ids = sqlx::query_scalar(
        "UPDATE tokens SET revoked_ms = $2 WHERE organization = $1 AND revoked_ms IS NULL RETURNING id",
    )
    .bind(organization.as_str())
    .bind(to_sql(now_ms))
    .fetch_all(&mut **change)
    .await?;
    Ok(ids)
}

fn agents_to_json(agents: &[Name]) -> String {
    serde_json::Value::from_iter(agents.iter().map(Name::as_str)).to_string()
}

fn agents_from_json(json: &str) -> Option<Vec<Name>> {
    let names: Vec<String> = serde_json::from_str(json).ok()?;
    names.iter().map(|text| name(text)).collect()
}

fn addresses_to_json(addresses: &[Network]) -> String {
    serde_json::Value::from_iter(addresses.iter().map(Network::to_string)).to_string()
}

fn addresses_from_json(json: &str) -> Option<Vec<Network>> {
    let texts: Vec<String> = serde_json::from_str(json).ok()?;
    texts.iter().map(|text| Network::parse(text).ok()).collect()
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
            role: OPERATOR.into(),
            organization: None,
            agents: None,
            label: String::new(),
            created_ms: 5,
            revoked_ms: None,
            expires_ms: None,
            addresses: None,
            user: None,
            last_used_ms: None,
        }
    }

    #[tokio::test]
    async fn a_token_comes_back_as_it_was_stored() {
        let (_folder, store) = store_with_acme().await;
        assert!(!store.has_tokens().await.expect("an answer"));
        let mut stored = token("a");
        stored.role = "orchestrator".into();
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
        stored.role = "owner".into();
        stored.organization = Some(name("ghost"));
        let error = store.add_token(&stored).await.expect_err("no such organization");
        assert_eq!(error.to_string(), "no organization `ghost`");
        stored.organization = Some(name("acme"));
        store.add_token(&stored).await.expect("stored");
    }

    #[tokio::test]
    async fn an_organization_has_a_limited_number_of_tokens() {
        let (_folder, store) = store_with_acme().await;
        sqlx::query(
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1) \
             INSERT INTO tokens (id, hash, role, organization, label, created_ms) \
             SELECT 'n' || n, 'h' || n, 'auditor', 'acme', '', 1 FROM numbers",
        )
        .bind(TOKENS_PER_ORGANIZATION)
        .execute(&store.writer)
        .await
        .expect("stored");
        let own = |id| TokenRow { role: "owner".into(), organization: Some(name("acme")), ..token(id) };
        let error = store.add_token(&own("a")).await.expect_err("one too many");
        assert!(matches!(error, StoreError::TooManyTokens), "{error}");
        store.add_token(&token("b")).await.expect("of the platform");
        store.revoke_token("n1", 9).await.expect("revoked");
        store.add_token(&own("a")).await.expect("stored");
    }

    #[tokio::test]
    async fn a_revoked_token_is_not_live_and_stays_stored() {
        let (_folder, store) = store_with_acme().await;
        store.add_token(&TokenRow { role: "auditor".into(), ..token("a") }).await.expect("stored");
        store.revoke_token("a", 9).await.expect("revoked");
        assert_eq!(store.live_tokens().await.expect("tokens"), []);
        assert!(store.has_tokens().await.expect("an answer"));
        let again = store.revoke_token("a", 10).await.expect_err("revoked already");
        assert!(matches!(again, StoreError::NotFound { .. }));
    }

    /// Concurrent revocations leave one operator.
    #[tokio::test]
    async fn the_last_operators_token_is_not_revoked_and_any_other_is() {
        let (_folder, store) = store_with_acme().await;
        for id in ["a", "b", "c"] {
            store.add_token(&token(id)).await.expect("stored");
        }
        store.add_token(&TokenRow { role: "auditor".into(), ..token("d") }).await.expect("stored");
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
        sqlx::query("UPDATE tokens SET agents = '{'").execute(&store.writer).await.expect("damaged");
        assert!(store.live_tokens().await.is_err());
    }

    #[tokio::test]
    async fn o6_people_have_the_name_of_their_last_sign_in() {
        let (_folder, store) = store_with_acme().await;
        let id = "oidc:https://login.example#ann";
        store.name_person(id, "Ann", 1).await.expect("stored");
        store.name_person(id, "Ann Example", 2).await.expect("stored");
        let labels =
            store.token_labels(&[id, "oidc:https://login.example#bob"].into()).await.expect("labels");
        assert_eq!(labels.get(id).as_deref(), Some("Ann Example"));
        assert_eq!(labels.get("oidc:https://login.example#bob"), None);
    }
}
