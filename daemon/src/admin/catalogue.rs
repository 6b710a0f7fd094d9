//! The catalogue, with the use of each plugin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolgate_api::catalogue::CatalogueView;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;

use super::{Admin, audit_failure};
use crate::catalogue::{CatalogueFacts, CatalogueQuery, list};
use crate::clock::now_ms;
use crate::documents::DocumentKind;
use crate::identity::{Access, Caller};

/// The days whose calls count as popularity.
const POPULAR_MS: u64 = 30 * 86_400_000;
/// The calls of all organizations are summed again after this time: the sum reads every row of the last 30 days.
const SUMMED_FOR: Duration = Duration::from_secs(60);
/// Most own tools of an organization that are looked at; it cannot have more.
const OWN_TOOLS: u32 = 1_000;

/// The calls of each plugin by all organizations, as they were last summed.
#[derive(Default)]
pub(super) struct CallsOfAll(Mutex<Option<(Instant, Arc<HashMap<String, u64>>)>>);

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
        let registry = &self.parts().registry;
        registry.wait_for(|snapshot| snapshot.compiling().to_vec()).await;
        let facts = self.catalogue_facts(query.organization.as_ref()).await?;
        list(&registry.snapshot(), &query, &facts).await
    }

    async fn catalogue_facts(&self, organization: Option<&Name>) -> Result<CatalogueFacts, CallError> {
        let calls_of_all = self.calls_of_all().await?;
        let (calls, own_written_ms) = match organization {
            None => (HashMap::clone(&calls_of_all), BTreeMap::new()),
            Some(name) => {
                let since_ms = now_ms().saturating_sub(POPULAR_MS);
                let audit = &self.parts().dispatcher.parts().audit;
                let calls = audit.calls_by_plugin(Some(name.as_str()), since_ms).await;
                let store = &self.parts().store;
                let own = store.documents(DocumentKind::Tool, name.as_str(), None, OWN_TOOLS).await?;
                let written = own.iter().map(|tool| (tool.key.name().to_owned(), tool.updated_ms));
                (calls.map_err(|error| audit_failure(&error))?, written.collect())
            }
        };
        let provenance = self.parts().plugins.provenance().await;
        Ok(CatalogueFacts { provenance, own_written_ms, calls, calls_of_all })
    }

    async fn calls_of_all(&self) -> Result<Arc<HashMap<String, u64>>, CallError> {
        let mut summed = self.0.calls_of_all.0.lock().await;
        if let Some((at, calls)) = &*summed
            && at.elapsed() < SUMMED_FOR
        {
            return Ok(Arc::clone(calls));
        }
        let since_ms = now_ms().saturating_sub(POPULAR_MS);
        let audit = &self.parts().dispatcher.parts().audit;
        let calls = audit.calls_by_plugin(None, since_ms).await.map_err(|error| audit_failure(&error))?;
        let calls = Arc::new(calls);
        *summed = Some((Instant::now(), Arc::clone(&calls)));
        Ok(calls)
    }
}
