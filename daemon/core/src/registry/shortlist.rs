//! The broker: selects the callable tools that a model is shown for a message (G15).
//!
//! Index and intents are built once per catalogue and policy, on first use and in a blocking task: for a thousand tools
//! this takes a tenth of a second.

use std::sync::{Arc, OnceLock};

use toolgate_admission::{
    self as admission, BrokerIndex, Catalogue, Intents, Rules, SelectQuery, SessionFacts, ToolSet,
};
use toolgate_api::name::{Name, ToolId};
use toolgate_api::policy::PlatformDocument;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;

use super::{CatalogueLayer, Snapshot};

/// The prepared data of one catalogue and one policy.
pub(super) struct Broker {
    index: BrokerIndex,
    intents: Intents,
}

/// The selected tools, best first.
pub struct Shortlist {
    /// Each tool's index in the catalogue, with the reasons for its selection.
    pub tools: Vec<(usize, Vec<String>)>,
}

impl Shortlist {
    /// All tools, for an organization without a broker.
    pub fn all(indices: impl Iterator<Item = usize>) -> Self {
        let reason = || vec!["the organization's broker is off".to_owned()];
        Self { tools: indices.map(|index| (index, reason())).collect() }
    }
}

#[boxed]
impl Snapshot {
    /// Selects among the callable tools those to show for a message.
    pub async fn shortlist(
        &self,
        rules: &Rules<Component>,
        facts: &SessionFacts,
        message: &str,
        recent: &[ToolId],
        organization: &Name,
    ) -> Shortlist {
        let known = self.organizations.get(organization);
        let broker = known.map_or_else(|| Arc::clone(&self.common), |known| known.layer(self)).broker().await;
        let catalogue = &rules.catalogue;
        let mut callable = ToolSet::empty(catalogue.tools().len());
        admission::callable(rules, facts).for_each(|(tool, _)| callable.insert(tool.index()));
        let of = |is_in: &dyn Fn(usize) -> bool| ToolSet::matching(catalogue, |tool| is_in(tool.index()));
        let recent: Vec<usize> =
            recent.iter().filter_map(|id| catalogue.find(&id.to_string())).map(|tool| tool.index()).collect();
        let profile = rules.agent.document().profile.is_some() || rules.agent.document().subtype.is_some();
        let selection = admission::select(
            &broker.index,
            &broker.intents,
            &SelectQuery {
                message,
                callable: &callable,
                recent: &recent,
                universal: &of(&|index| rules.platform.is_universal(index)),
                always_show: &of(&|index| rules.organization.always_shows(index)),
                profile: profile.then(|| of(&|index| rules.agent.prefers(index, &rules.platform))).as_ref(),
            },
        );
        let why = |taken: admission::Selected| {
            (taken.tool, taken.reasons.iter().map(ToString::to_string).collect())
        };
        Shortlist { tools: selection.tools.into_iter().map(why).collect() }
    }
}

#[boxed]
impl Snapshot {
    /// Searches the tools of an organization's catalogue, or of the shared one, for words. Returns the index and the score of
    /// each tool that has one, the best first.
    pub async fn search(&self, organization: Option<&Name>, words: &str) -> Vec<(usize, f32)> {
        let known = organization.and_then(|name| self.organizations.get(name));
        let layer = known.map_or_else(|| Arc::clone(&self.common), |known| known.layer(self));
        admission::search(&layer.broker().await.index, words)
    }
}

impl CatalogueLayer {
    async fn broker(&self) -> Arc<Broker> {
        if let Some(broker) = self.broker.get() {
            return Arc::clone(broker);
        }
        let (cell, catalogue, platform) =
            (Arc::clone(&self.broker), Arc::clone(&self.catalogue), Arc::clone(&self.platform));
        let make =
            move || Arc::clone(cell.get_or_init(|| Arc::new(Broker::of(&catalogue, platform.document()))));
        // A stopping runtime runs no new blocking tasks.
        tokio::task::spawn_blocking(make.clone()).await.unwrap_or_else(|_| make())
    }
}

impl Broker {
    fn of(catalogue: &Catalogue<Component>, platform: &PlatformDocument) -> Self {
        // Intents were valid when the policy was parsed.
        let intents = Intents::compile(&platform.intents, "/intents", catalogue);
        Self { index: BrokerIndex::build(catalogue), intents: intents.unwrap_or_else(|_| Intents::empty()) }
    }
}

/// The lazily built broker of a catalogue layer.
pub(super) type BrokerCell = Arc<OnceLock<Arc<Broker>>>;
