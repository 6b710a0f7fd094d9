//! The broker over what is in force: which callable tools a model is shown for a message (G15).
//!
//! Index and intents are made once for a catalogue and a policy, by the first who asks and off the runtime, since making
//! them takes a tenth of a second for a thousand tools.

use std::sync::{Arc, OnceLock};

use toolgate_admission::{
    self as admission, Catalogue, Index, Intents, Name, PlatformDocument, Question, Rules, SessionFacts,
    ToolId, ToolSet,
};
use toolgate_sandbox::Component;

use super::{Offer, Snapshot};

/// What a broker of one catalogue and one policy works with.
pub struct Broker {
    index: Index,
    intents: Intents,
}

/// The tools to show, the best first, each with why.
pub struct Shortlist {
    /// Numbers in the catalogue.
    pub tools: Vec<(usize, Vec<String>)>,
}

impl Shortlist {
    /// Nothing is narrowed.
    pub fn of_everything(numbers: impl Iterator<Item = usize>) -> Self {
        Self {
            tools: numbers
                .map(|number| (number, vec!["the organization's broker is off".to_owned()]))
                .collect(),
        }
    }
}

impl Snapshot {
    /// The tools to show for a message, of those that can be called.
    pub async fn shortlist(
        &self,
        rules: &Rules<Component>,
        facts: &SessionFacts,
        message: &str,
        recent: &[ToolId],
        organization: &Name,
    ) -> Shortlist {
        let known = self.organizations.get(organization);
        let broker = known.map_or_else(|| Arc::clone(&self.common), |known| known.offer(self)).broker().await;
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
            &Question {
                message,
                callable: &callable,
                recent: &recent,
                universal: &of(&|index| rules.platform.is_universal(index)),
                always_show: &of(&|index| rules.organization.always_shows(index)),
                profile: profile.then(|| of(&|index| rules.agent.prefers(index, &rules.platform))).as_ref(),
            },
        );
        let why = |taken: admission::Taken| (taken.tool, taken.why.iter().map(ToString::to_string).collect());
        Shortlist { tools: selection.tools.into_iter().map(why).collect() }
    }
}

impl Offer {
    async fn broker(&self) -> Arc<Broker> {
        if let Some(broker) = self.broker.get() {
            return Arc::clone(broker);
        }
        let (cell, catalogue, platform) =
            (Arc::clone(&self.broker), Arc::clone(&self.catalogue), Arc::clone(&self.platform));
        let make =
            move || Arc::clone(cell.get_or_init(|| Arc::new(Broker::of(&catalogue, platform.document()))));
        // A runtime that is stopping takes no more of these.
        tokio::task::spawn_blocking(make.clone()).await.unwrap_or_else(|_| make())
    }
}

impl Broker {
    fn of(catalogue: &Catalogue<Component>, platform: &PlatformDocument) -> Self {
        // They were sound when the policy was read.
        let intents = Intents::compile(&platform.intents, "/intents", catalogue);
        Self { index: Index::build(catalogue), intents: intents.unwrap_or_else(|_| Intents::none()) }
    }
}

/// Where the broker of a snapshot is kept; a change of plugins or of the platform's policy takes a new one.
pub(super) type BrokerCell = Arc<OnceLock<Arc<Broker>>>;
