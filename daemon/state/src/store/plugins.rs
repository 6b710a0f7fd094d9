//! Plugins: the stored versions of each, and the one in service.
//!
//! A plugin is replaced as a whole in one transaction. The module `plugins` decides about loading, rollback and disabling.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use toolgate_api::name::Name;
use toolgate_api::plugin::PluginSource;
use toolgate_macros::boxed;

use super::{Store, StoreError, StoreTransaction, from_sql, to_sql};
use crate::documents::{DocumentKey, PluginKey};

/// The owner of the plugins that every organization may use.
const PLATFORM: &str = "";

/// A stored plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRow {
    /// The organization that has it for itself; empty for the platform.
    pub owner: String,
    pub namespace: String,
    pub disabled: bool,
    pub built_in: bool,
    /// Owner of the namespace, as the plugin declares.
    pub publisher: Option<String>,
    /// Index in `versions` of the version in service.
    pub serving: u64,
    /// Oldest first.
    pub versions: Vec<PluginVersionRow>,
}

/// A stored version of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginVersionRow {
    pub version: String,
    pub digest: String,
    pub loaded_ms: u64,
    /// The origin of its file.
    pub source: PluginSource,
    /// Its trial; none for a version that serves or has served all calls.
    pub canary: Option<CanaryRow>,
    pub trust: TrustRow,
}

/// The stored trust in a version (O2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustRow {
    /// Whether the version waits for consent. Then it is none of those that `serving` of its plugin counts.
    pub quarantined: bool,
    /// Whether its hints count without its grant.
    pub hints_confirmed: bool,
    pub signer: Option<SignerRow>,
}

/// The key that signed a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerRow {
    pub publisher: String,
    /// `ed25519:` and base64.
    pub key: String,
}

/// The trial of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryRow {
    /// Its share of the calls.
    pub percent: u64,
    /// The reason that ended the trial.
    pub failure: Option<String>,
}

#[boxed]
impl Store {
    /// Returns every plugin of the platform, ordered by namespace.
    pub async fn plugins(&self) -> Result<Vec<PluginRow>, StoreError> {
        let mut all = self.all_plugins().await?;
        all.retain(|plugin| plugin.owner == PLATFORM);
        Ok(all)
    }

    /// Returns every plugin of an organization, ordered by organization and namespace.
    pub async fn owned_plugins(&self) -> Result<Vec<PluginRow>, StoreError> {
        let mut all = self.all_plugins().await?;
        all.retain(|plugin| plugin.owner != PLATFORM);
        Ok(all)
    }

    async fn all_plugins(&self) -> Result<Vec<PluginRow>, StoreError> {
        let mut view = self.readers.begin().await?;
        let plugins: Vec<StoredPlugin> = sqlx::query_as(
            "SELECT owner, namespace, serving, disabled, built_in, publisher FROM plugins \
             ORDER BY owner, namespace",
        )
        .fetch_all(&mut *view)
        .await?;
        let mut versions = all_versions(&mut view).await?;
        let row = |(owner, namespace, serving, disabled, built_in, publisher): StoredPlugin| {
            let key = (owner, namespace);
            let versions = versions.remove(&key).unwrap_or_default();
            let ((owner, namespace), serving) = (key, from_sql(serving));
            let (disabled, built_in) = (disabled != 0, built_in != 0);
            PluginRow { owner, namespace, disabled, built_in, publisher, serving, versions }
        };
        Ok(plugins.into_iter().map(row).collect())
    }

    /// Creates or replaces a plugin with its versions. An organization that has it for itself must exist. Removes the grant of an
    /// operator in the same transaction unless `keeps_grant`.
    pub async fn put_plugin(
        &self,
        key: &PluginKey,
        plugin: PluginRow,
        keeps_grant: bool,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        if let Some(organization) = &key.owner {
            super::documents::require_organization(&mut change, organization).await?;
        }
        if !keeps_grant {
            super::documents::delete_if_there(&mut change, &key.grant(), now_ms).await?;
        }
        write_plugin(&mut change, &plugin).await?;
        change.commit().await?;
        Ok(())
    }

    /// Deletes a plugin with its versions, its grant, and what organizations have set for it, so that another plugin of that
    /// namespace gets neither the grant nor a consent.
    pub async fn remove_plugin(&self, key: &PluginKey, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        super::documents::delete_if_there(&mut change, &key.grant(), now_ms).await?;
        match key.in_organization() {
            None => {
                super::documents::delete_enabled(&mut change, &key.namespace, now_ms).await?;
            }
            Some(own) => {
                super::documents::delete_if_there(&mut change, &DocumentKey::Enabled(own), now_ms).await?;
            }
        }
        let owner = key.owner.as_ref().map_or(PLATFORM, Name::as_str);
        delete_plugin(&mut change, (owner, key.namespace.as_str())).await?;
        change.commit().await?;
        Ok(())
    }
}

/// A row of `plugins`: owner, namespace, serving, disabled, built in, publisher.
type StoredPlugin = (String, String, i64, i16, i16, Option<String>);

/// Owner and namespace.
type RowKey<'a> = (&'a str, &'a str);

/// Deletes every plugin of an organization.
pub(super) async fn delete_owned(change: &mut StoreTransaction, owner: &str) -> Result<(), StoreError> {
    for sql in ["DELETE FROM plugin_versions WHERE owner = $1", "DELETE FROM plugins WHERE owner = $1"] {
        sqlx::query(sql).bind(owner).execute(&mut **change).await?;
    }
    Ok(())
}

async fn write_plugin(change: &mut StoreTransaction, plugin: &PluginRow) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO plugins (owner, namespace, serving, disabled, built_in, publisher) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (owner, namespace) DO UPDATE SET serving = excluded.serving, \
         disabled = excluded.disabled, built_in = excluded.built_in, publisher = excluded.publisher",
    )
    .bind(&plugin.owner)
    .bind(&plugin.namespace)
    .bind(to_sql(plugin.serving))
    .bind(i16::from(plugin.disabled))
    .bind(i16::from(plugin.built_in))
    .bind(&plugin.publisher)
    .execute(&mut **change)
    .await?;
    let key = (plugin.owner.as_str(), plugin.namespace.as_str());
    delete_versions(change, key).await?;
    for (position, version) in (0_i64..).zip(&plugin.versions) {
        insert_version(change, key, position, version).await?;
    }
    Ok(())
}

async fn delete_plugin(change: &mut StoreTransaction, key: RowKey<'_>) -> Result<(), StoreError> {
    delete_versions(change, key).await?;
    let (owner, namespace) = key;
    let done = sqlx::query("DELETE FROM plugins WHERE owner = $1 AND namespace = $2")
        .bind(owner)
        .bind(namespace)
        .execute(&mut **change)
        .await?;
    match done.rows_affected() {
        0 => Err(StoreError::not_found(format!("plugin `{namespace}`"))),
        _ => Ok(()),
    }
}

async fn all_versions(
    view: &mut StoreTransaction,
) -> Result<BTreeMap<(String, String), Vec<PluginVersionRow>>, StoreError> {
    let rows = sqlx::query("SELECT * FROM plugin_versions ORDER BY owner, namespace, position")
        .fetch_all(&mut **view)
        .await?;
    let mut versions = BTreeMap::<_, Vec<_>>::new();
    for row in &rows {
        let key = (row.try_get("owner")?, row.try_get("namespace")?);
        versions.entry(key).or_default().push(version_of(row)?);
    }
    Ok(versions)
}

fn version_of(row: &SqliteRow) -> Result<PluginVersionRow, sqlx::Error> {
    let source: Option<String> = row.try_get("source")?;
    let percent: Option<i64> = row.try_get("canary_percent")?;
    let failure = row.try_get("canary_failure")?;
    Ok(PluginVersionRow {
        version: row.try_get("version")?,
        digest: row.try_get("digest")?,
        loaded_ms: from_sql(row.try_get("loaded_ms")?),
        // A source that this version cannot parse counts as an upload, which no folder replaces or removes.
        source: source.and_then(|source| serde_json::from_str(&source).ok()).unwrap_or_default(),
        canary: percent.map(|percent| CanaryRow { percent: from_sql(percent), failure }),
        trust: trust_of(row)?,
    })
}

fn trust_of(row: &SqliteRow) -> Result<TrustRow, sqlx::Error> {
    let key: Option<String> = row.try_get("signer_key")?;
    let publisher: Option<String> = row.try_get("signer_publisher")?;
    Ok(TrustRow {
        quarantined: row.try_get::<i16, _>("quarantined")? != 0,
        hints_confirmed: row.try_get::<i16, _>("hints_confirmed")? != 0,
        signer: key.zip(publisher).map(|(key, publisher)| SignerRow { publisher, key }),
    })
}

async fn delete_versions(
    change: &mut StoreTransaction,
    (owner, namespace): RowKey<'_>,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM plugin_versions WHERE owner = $1 AND namespace = $2")
        .bind(owner)
        .bind(namespace)
        .execute(&mut **change)
        .await?;
    Ok(())
}

async fn insert_version(
    change: &mut StoreTransaction,
    (owner, namespace): RowKey<'_>,
    position: i64,
    version: &PluginVersionRow,
) -> Result<(), StoreError> {
    let canary = version.canary.as_ref();
    let TrustRow { quarantined, hints_confirmed, signer } = &version.trust;
    sqlx::query(
        "INSERT INTO plugin_versions \
         (owner, namespace, position, version, digest, loaded_ms, canary_percent, canary_failure, source, \
         quarantined, hints_confirmed, signer_publisher, signer_key) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(owner)
    .bind(namespace)
    .bind(position)
    .bind(&version.version)
    .bind(&version.digest)
    .bind(to_sql(version.loaded_ms))
    .bind(canary.map(|canary| to_sql(canary.percent)))
    .bind(canary.and_then(|canary| canary.failure.as_deref()))
    .bind(serde_json::to_string(&version.source).ok())
    .bind(i16::from(*quarantined))
    .bind(i16::from(*hints_confirmed))
    .bind(signer.as_ref().map(|signer| &signer.publisher))
    .bind(signer.as_ref().map(|signer| &signer.key))
    .execute(&mut **change)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use toolgate_api::name::Namespace;

    use super::super::testing::empty_store;
    use super::*;
    use crate::documents::{Precondition, ToolKey};

    fn plugin(namespace: &str, digests: &[&str]) -> PluginRow {
        let version = |digest: &&str| PluginVersionRow {
            version: format!("1.0.{digest}"),
            digest: (*digest).into(),
            loaded_ms: 5,
            source: PluginSource::Registry { reference: "oci://a/b:c".into(), digest: (*digest).into() },
            canary: None,
            trust: TrustRow::default(),
        };
        PluginRow {
            namespace: namespace.into(),
            serving: digests.len() as u64 - 1,
            versions: digests.iter().map(version).collect(),
            ..PluginRow::default()
        }
    }

    fn weather() -> Namespace {
        Namespace::parse("weather").expect("a namespace")
    }

    /// Key of the platform's plugin.
    fn platform() -> PluginKey {
        PluginKey::from(&weather())
    }

    async fn put(store: &Store, plugin: PluginRow) {
        store.put_plugin(&platform(), plugin, true, 1).await.expect("stored");
    }

    #[tokio::test]
    async fn a_plugin_comes_back_with_its_versions_in_order() {
        let (_folder, store) = empty_store().await;
        let (weather, files) = (plugin("weather", &["9", "1"]), plugin("files", &["a"]));
        for plugin in [&weather, &files] {
            put(&store, plugin.clone()).await;
        }
        assert_eq!(store.plugins().await.expect("plugins"), [files, weather]);
    }

    #[tokio::test]
    async fn o1_a_canary_comes_back_as_one() {
        let (_folder, store) = empty_store().await;
        let mut weather = plugin("weather", &["1", "2"]);
        weather.serving = 0;
        for failure in [None, Some("it fails".to_owned())] {
            weather.versions[1].canary = Some(CanaryRow { percent: 10, failure });
            put(&store, weather.clone()).await;
            assert_eq!(store.plugins().await.expect("plugins"), [weather.clone()]);
        }
    }

    #[tokio::test]
    async fn o2_the_trust_in_a_version_comes_back() {
        let (_folder, store) = empty_store().await;
        let mut weather = plugin("weather", &["1", "2"]);
        weather.serving = 0;
        weather.versions[0].trust.hints_confirmed = true;
        let signer = Some(SignerRow { publisher: "acme".into(), key: "ed25519:AA==".into() });
        weather.versions[1].trust = TrustRow { quarantined: true, hints_confirmed: false, signer };
        put(&store, weather.clone()).await;
        assert_eq!(store.plugins().await.expect("plugins"), [weather]);
    }

    #[tokio::test]
    async fn o2_a_plugin_is_replaced_and_its_grant_removed_at_once() {
        let (_folder, store) = empty_store().await;
        let grant = DocumentKey::Grant(weather());
        store.put_document(&grant, "{}", &Precondition::Absent, 1).await.expect("granted");
        let next = plugin("weather", &["1"]);
        store.put_plugin(&platform(), next.clone(), false, 2).await.expect("stored");
        assert_eq!(store.plugins().await.expect("plugins"), std::slice::from_ref(&next));
        store.document(&grant).await.expect_err("removed");
        // A plugin without a grant is replaced in the same way.
        store.put_plugin(&platform(), next, false, 3).await.expect("stored");
    }

    #[tokio::test]
    async fn r9_16_an_owned_plugin_is_replaced_with_or_without_its_grant_and_leaves_nothing_behind() {
        let (_folder, store) = empty_store().await;
        let organization = Name::parse("acme").expect("a name");
        let put_document = async |key: &DocumentKey| {
            store.put_document(key, "{}", &Precondition::Absent, 1).await.expect("stored");
        };
        put_document(&DocumentKey::Organization(organization.clone())).await;
        let key = ToolKey { organization, namespace: weather() };
        let own = PluginKey::from(&key);
        let (grant, enabled) = (DocumentKey::ToolGrant(key.clone()), DocumentKey::Enabled(key.clone()));
        put_document(&grant).await;
        put_document(&enabled).await;
        let owned = PluginRow { owner: "acme".into(), ..plugin("weather", &["1"]) };
        store.put_plugin(&own, owned.clone(), true, 2).await.expect("stored");
        store.document(&grant).await.expect("kept");
        store.put_plugin(&own, owned, false, 3).await.expect("stored");
        store.document(&grant).await.expect_err("removed");
        put_document(&grant).await;
        store.remove_plugin(&own, 4).await.expect("removed");
        for document in [grant, enabled] {
            store.document(&document).await.expect_err("removed");
        }
    }

    #[tokio::test]
    async fn r9_16_a_plugin_of_an_organization_is_none_of_the_platform() {
        let (_folder, store) = empty_store().await;
        let owner = Some(Name::parse("acme").expect("a name"));
        let acme = PluginKey { owner, namespace: weather() };
        let shared = plugin("weather", &["1"]);
        let owned = PluginRow { owner: "acme".into(), ..plugin("weather", &["2", "3"]) };
        for plugin in [&shared, &owned] {
            put(&store, plugin.clone()).await;
        }
        assert_eq!(store.plugins().await.expect("plugins"), std::slice::from_ref(&shared));
        assert_eq!(store.owned_plugins().await.expect("plugins"), [owned]);
        store.remove_plugin(&acme, 1).await.expect("removed");
        assert_eq!(store.owned_plugins().await.expect("plugins"), []);
        assert_eq!(store.plugins().await.expect("plugins"), [shared]);
        store.remove_plugin(&acme, 1).await.expect_err("none");
    }

    #[tokio::test]
    async fn a_plugin_is_replaced_whole() {
        let (_folder, store) = empty_store().await;
        put(&store, plugin("weather", &["1", "2", "3"])).await;
        let publisher = Some("example".to_owned());
        let next = PluginRow { disabled: true, serving: 0, publisher, ..plugin("weather", &["2", "4"]) };
        put(&store, next.clone()).await;
        assert_eq!(store.plugins().await.expect("plugins"), [next]);
    }

    #[tokio::test]
    async fn a_plugin_that_is_removed_leaves_nothing_behind() {
        let (_folder, store) = empty_store().await;
        put(&store, plugin("weather", &["1"])).await;
        store.remove_plugin(&platform(), 1).await.expect("removed");
        assert_eq!(store.plugins().await.expect("plugins"), []);
        let bare = PluginRow { namespace: "weather".into(), ..PluginRow::default() };
        put(&store, bare.clone()).await;
        assert_eq!(store.plugins().await.expect("plugins"), [bare]);
    }

    #[tokio::test]
    async fn a_plugin_that_is_not_there_is_not_found() {
        let (_folder, store) = empty_store().await;
        let error = store.remove_plugin(&platform(), 1).await.expect_err("none");
        assert_eq!(error.to_string(), "no plugin `weather`");
    }
}
