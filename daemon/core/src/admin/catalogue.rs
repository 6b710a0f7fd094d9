//! The catalogue, with the use of each plugin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolgate_api::catalogue::{CatalogueView, PluginKind};
use toolgate_api::error::CallError;
use toolgate_api::name::{Name, Namespace};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::{DocumentKey, DocumentKind};

use super::Admin;
use crate::catalogue::{CatalogueFacts, CatalogueQuery, list};
use crate::identity::{Access, Caller};
use crate::plugins::Provenance;
use crate::services::Services;

/// The days whose calls count as popularity.
const POPULAR_MS: u64 = 30 * 86_400_000;
/// The calls of all organizations are summed again after this time: the sum reads every row of the last 30 days.
const SUMMED_FOR: Duration = Duration::from_secs(60);
/// Most own tools of an organization that are looked at; it cannot have more.
const OWN_TOOLS: u32 = 1_000;

/// The calls of each plugin by all organizations, as they were last summed.
#[derive(Default)]
pub(super) struct CallsOfAll(Mutex<Option<(Instant, Sums)>>);

/// Calls by plugin.
type Sums = Arc<HashMap<String, u64>>;

#[boxed]
impl Admin {
    /// Lists a page of the catalogue: for an owner of its organization, for an operator of one organization or of the platform.
    pub async fn catalogue(
        &self,
        caller: &Caller,
        mut query: CatalogueQuery,
    ) -> Result<CatalogueView, CallError> {
        match query.organization.clone().or_else(|| caller.organization.clone()) {
            Some(organization) => {
                self.expect_own(caller, &organization)?;
                query.organization = Some(organization);
            }
            None => caller.may(Access::Operate)?,
        }
        let registry = &self.services().registry;
        // Only built-in plugins, which are standard ones, are compiled at a start.
        if !query.partial && query.kinds.as_ref().is_none_or(|kinds| kinds.contains(&PluginKind::Standard)) {
            registry.wait_for_all_tools().await;
        }
        let facts = self.catalogue_facts(query.organization.as_ref()).await?;
        list(&registry.snapshot(), &query, &facts).await
    }

    async fn catalogue_facts(&self, organization: Option<&Name>) -> Result<CatalogueFacts, CallError> {
        let calls_of_all = self.calls_of_all().await?;
        let (calls, own_provenance) = match organization {
            None => (HashMap::clone(&calls_of_all), BTreeMap::new()),
            Some(name) => {
                let since_ms = now_ms().saturating_sub(POPULAR_MS);
                let audit = &self.services().audit;
                let calls = audit.calls_by_plugin(Some(name.as_str()), since_ms).await;
                (calls?, self.own_provenance(name).await?)
            }
        };
        let provenance = self.services().plugins.provenance(None);
        Ok(CatalogueFacts { provenance, own_provenance, calls, calls_of_all })
    }

    /// The provenance of an organization's own tools and plugins. A tool without code was loaded when it was last written.
    pub(super) async fn own_provenance(
        &self,
        organization: &Name,
    ) -> Result<BTreeMap<Namespace, Provenance>, CallError> {
        let Services { store, plugins, .. } = self.services();
        let tools =
            store.documents_without_text(DocumentKind::Tool, organization.as_str(), OWN_TOOLS).await?;
        let tools = tools.into_iter().filter_map(|tool| match tool.key {
            DocumentKey::Tool(key) => {
                Some((key.namespace, Provenance { loaded_ms: tool.updated_ms, is_signed: false }))
            }
            _ => None,
        });
        Ok(tools.chain(plugins.provenance(Some(organization))).collect())
    }

    async fn calls_of_all(&self) -> Result<Arc<HashMap<String, u64>>, CallError> {
        let mut summed = self.0.calls_of_all.0.lock().await;
        if let Some((at, calls)) = &*summed
            && at.elapsed() < SUMMED_FOR
        {
            return Ok(Arc::clone(calls));
        }
        let since_ms = now_ms().saturating_sub(POPULAR_MS);
        let audit = &self.services().audit;
        let calls = audit.calls_by_plugin(None, since_ms).await?;
        let calls = Arc::new(calls);
        *summed = Some((Instant::now(), Arc::clone(&calls)));
        Ok(calls)
    }
}
