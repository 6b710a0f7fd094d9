//! Plugins: the stored versions of each, and the one in service.
//!
//! A plugin is replaced as a whole in one transaction. The module `plugins` decides about loading, rollback and disabling.

use std::collections::BTreeMap;

use toolgate_api::name::Namespace;

use super::{Store, StoreError, StoreTransaction, from_sql, to_sql};
use crate::documents::DocumentKey;

/// The owner of the plugins that every organization may use.
const PLATFORM: &str = "";

/// A stored plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRow {
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
}

impl Store {
    /// Returns every plugin, ordered by namespace.
    pub async fn plugins(&self) -> Result<Vec<PluginRow>, StoreError> {
        let mut view = self.readers.begin().await?;
        let plugins: Vec<(String, i64, i16, i16, Option<String>)> = sqlx::query_as(
            "SELECT namespace, serving, disabled, built_in, publisher FROM plugins WHERE owner = $1 \
             ORDER BY namespace",
        )
        .bind(PLATFORM)
        .fetch_all(&mut *view)
        .await?;
        let mut versions = all_versions(&mut view).await?;
        let row = |(namespace, serving, disabled, built_in, publisher): (String, _, i16, i16, _)| PluginRow {
            versions: versions.remove(&namespace).unwrap_or_default(),
            namespace,
            serving: from_sql(serving),
            disabled: disabled != 0,
            built_in: built_in != 0,
            publisher,
        };
        Ok(plugins.into_iter().map(row).collect())
    }

    /// Creates or replaces a plugin with its versions.
    pub async fn put_plugin(&self, plugin: PluginRow) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        sqlx::query(
            "INSERT INTO plugins (owner, namespace, serving, disabled, built_in, publisher) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (owner, namespace) DO UPDATE SET serving = excluded.serving, \
             disabled = excluded.disabled, built_in = excluded.built_in, publisher = excluded.publisher",
        )
        .bind(PLATFORM)
        .bind(&plugin.namespace)
        .bind(to_sql(plugin.serving))
        .bind(i16::from(plugin.disabled))
        .bind(i16::from(plugin.built_in))
        .bind(&plugin.publisher)
        .execute(&mut *change)
        .await?;
        delete_versions(&mut change, &plugin.namespace).await?;
        for (position, version) in (0_i64..).zip(&plugin.versions) {
            insert_version(&mut change, &plugin.namespace, position, version).await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Deletes a plugin with its versions and its grant, so that another plugin of that namespace does not get the grant.
    pub async fn remove_plugin(&self, namespace: &Namespace, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let grant = DocumentKey::Grant(namespace.clone());
        super::documents::delete_if_there(&mut change, &grant, now_ms).await?;
        let namespace = namespace.as_str();
        delete_versions(&mut change, namespace).await?;
        let done = sqlx::query("DELETE FROM plugins WHERE owner = $1 AND namespace = $2")
            .bind(PLATFORM)
            .bind(namespace)
            .execute(&mut *change)
            .await?;
        if done.rows_affected() == 0 {
            return Err(StoreError::not_found(format!("plugin `{namespace}`")));
        }
        change.commit().await?;
        Ok(())
    }
}

async fn all_versions(
    view: &mut StoreTransaction,
) -> Result<BTreeMap<String, Vec<PluginVersionRow>>, StoreError> {
    let rows: Vec<(String, String, String, i64)> = sqlx::query_as(
        "SELECT namespace, version, digest, loaded_ms FROM plugin_versions WHERE owner = $1 \
         ORDER BY namespace, position",
    )
    .bind(PLATFORM)
    .fetch_all(&mut **view)
    .await?;
    let mut versions = BTreeMap::<_, Vec<_>>::new();
    for (namespace, version, digest, loaded_ms) in rows {
        let version = PluginVersionRow { version, digest, loaded_ms: from_sql(loaded_ms) };
        versions.entry(namespace).or_default().push(version);
    }
    Ok(versions)
}

async fn delete_versions(change: &mut StoreTransaction, namespace: &str) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM plugin_versions WHERE owner = $1 AND namespace = $2")
        .bind(PLATFORM)
        .bind(namespace)
        .execute(&mut **change)
        .await?;
    Ok(())
}

async fn insert_version(
    change: &mut StoreTransaction,
    namespace: &str,
    position: i64,
    version: &PluginVersionRow,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO plugin_versions (owner, namespace, position, version, digest, loaded_ms) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(PLATFORM)
    .bind(namespace)
    .bind(position)
    .bind(&version.version)
    .bind(&version.digest)
    .bind(to_sql(version.loaded_ms))
    .execute(&mut **change)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::empty_store;
    use super::*;

    fn plugin(namespace: &str, digests: &[&str]) -> PluginRow {
        let version = |digest: &&str| PluginVersionRow {
            version: format!("1.0.{digest}"),
            digest: (*digest).into(),
            loaded_ms: 5,
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

    #[tokio::test]
    async fn a_plugin_comes_back_with_its_versions_in_order() {
        let (_folder, store) = empty_store().await;
        let (weather, files) = (plugin("weather", &["9", "1"]), plugin("files", &["a"]));
        for plugin in [&weather, &files] {
            store.put_plugin(plugin.clone()).await.expect("stored");
        }
        assert_eq!(store.plugins().await.expect("plugins"), [files, weather]);
    }

    #[tokio::test]
    async fn a_plugin_is_replaced_whole() {
        let (_folder, store) = empty_store().await;
        store.put_plugin(plugin("weather", &["1", "2", "3"])).await.expect("stored");
        let publisher = Some("example".to_owned());
        let next = PluginRow { disabled: true, serving: 0, publisher, ..plugin("weather", &["2", "4"]) };
        store.put_plugin(next.clone()).await.expect("stored");
        assert_eq!(store.plugins().await.expect("plugins"), [next]);
    }

    #[tokio::test]
    async fn a_plugin_that_is_removed_leaves_nothing_behind() {
        let (_folder, store) = empty_store().await;
        store.put_plugin(plugin("weather", &["1"])).await.expect("stored");
        store.remove_plugin(&weather(), 1).await.expect("removed");
        assert_eq!(store.plugins().await.expect("plugins"), []);
        let bare = PluginRow { namespace: "weather".into(), ..PluginRow::default() };
        store.put_plugin(bare.clone()).await.expect("stored");
        assert_eq!(store.plugins().await.expect("plugins"), [bare]);
    }

    #[tokio::test]
    async fn a_plugin_that_is_not_there_is_not_found() {
        let (_folder, store) = empty_store().await;
        let error = store.remove_plugin(&weather(), 1).await.expect_err("none");
        assert_eq!(error.to_string(), "no plugin `weather`");
    }
}
