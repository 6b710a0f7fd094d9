//! An organization and its agents as a snapshot has them, with the catalogue and the rules that are compiled for them on first
//! use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use toolgate_admission::{AgentRules, Catalogue, Consents, OrgFacts, OrgRules, PlatformRules, Plugin, Rules};
use toolgate_api::assertion::Assertion;
use toolgate_api::name::{Name, Namespace};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_sandbox::Component;

use super::Snapshot;
use super::shortlist::BrokerCell;
use crate::enabled::StoredEnabled;

/// A catalogue with the platform's rules for it. Organizations without custom tools share one.
pub(super) struct CatalogueLayer {
    pub(super) catalogue: Arc<Catalogue<Component>>,
    pub(super) platform: Arc<PlatformRules>,
    pub(super) broker: BrokerCell,
    /// The namespaces of the built-in plugins, which no uploaded plugin can have. Organizations share them.
    pub(super) built_in: Arc<BTreeSet<Namespace>>,
}

/// The catalogue of an organization with custom tools.
struct OwnCatalogueLayer {
    /// The shared layer that it extends. If that was replaced, this layer is stale.
    base: Weak<CatalogueLayer>,
    layer: Arc<CatalogueLayer>,
}

/// An organization and its agents.
#[derive(Clone, Default)]
pub(super) struct Organization {
    pub(super) policy: Arc<OrgDocument>,
    /// Integrations that the operator's document declares connected.
    pub(super) declared_connected: Arc<BTreeSet<String>>,
    /// Integrations with a usable credential.
    pub(super) credential_connected: Arc<BTreeSet<String>>,
    /// The custom plugins.
    pub(super) own: Arc<[Arc<Plugin<Component>>]>,
    /// Its settings of plugins, and its consents.
    pub(super) enabled: Arc<BTreeMap<Namespace, StoredEnabled>>,
    pub(super) requires_consent: bool,
    layer: Arc<ArcSwapOption<OwnCatalogueLayer>>,
    pub(super) rules: Arc<ArcSwapOption<OrgRules>>,
    pub(super) agents: HashMap<Name, Arc<Agent>>,
    pub(super) assertions: Arc<[Assertion]>,
}

pub(super) struct Agent {
    pub(super) document: Arc<AgentDocument>,
    pub(super) rules: ArcSwapOption<AgentRules>,
}

impl CatalogueLayer {
    pub(super) fn new(
        catalogue: Catalogue<Component>,
        policy: Arc<PlatformDocument>,
        built_in: Arc<BTreeSet<Namespace>>,
    ) -> Arc<Self> {
        let platform = Arc::new(PlatformRules::compile(policy, &catalogue));
        Arc::new(Self { catalogue: Arc::new(catalogue), platform, broker: BrokerCell::default(), built_in })
    }

    /// The layer with another catalogue, under the same policy.
    pub(super) fn with_catalogue(&self, catalogue: Catalogue<Component>) -> Arc<Self> {
        Self::new(catalogue, Arc::clone(self.platform.document()), Arc::clone(&self.built_in))
    }

    pub(super) fn with(&self, organization: Arc<OrgRules>, agent: Arc<AgentRules>) -> Rules<Component> {
        let (catalogue, platform) = (Arc::clone(&self.catalogue), Arc::clone(&self.platform));
        Rules { catalogue, platform, organization, agent }
    }
}

impl Organization {
    /// Its catalogue: the shared one, or one with its custom plugins, built on first use after a change of either.
    pub(super) fn layer(&self, snapshot: &Snapshot) -> Arc<CatalogueLayer> {
        if self.own.is_empty() {
            return Arc::clone(&snapshot.common);
        }
        let common = Arc::downgrade(&snapshot.common);
        if let Some(made) = &*self.layer.load()
            && made.base.ptr_eq(&common)
        {
            return Arc::clone(&made.layer);
        }
        // Its own tool wins over a plugin that is loaded under the same namespace later (9.4): its agents and policies mean it.
        let is_own = |plugin: &&Arc<Plugin<Component>>| self.owns(&plugin.descriptor.namespace);
        let platform = snapshot.catalogue().plugins().filter(|plugin| !is_own(plugin));
        let plugins = platform.chain(&*self.own).cloned().collect();
        let catalogue = Catalogue::new(snapshot.limits.clone(), plugins);
        let layer = snapshot.common.with_catalogue(catalogue);
        self.layer.store(Some(Arc::new(OwnCatalogueLayer { base: common, layer: Arc::clone(&layer) })));
        layer
    }

    /// Replaces its custom plugin in a namespace.
    pub(super) fn serve(&mut self, namespace: &Namespace, plugin: Option<Arc<Plugin<Component>>>) {
        let others = self.own.iter().filter(|own| own.descriptor.namespace != *namespace);
        self.own = others.cloned().chain(plugin).collect();
        self.layer = Arc::default();
    }

    pub(super) fn owns(&self, namespace: &Namespace) -> bool {
        self.own.iter().any(|plugin| plugin.descriptor.namespace == *namespace)
    }

    pub(super) fn connected_integrations(&self) -> BTreeSet<String> {
        self.declared_connected.union(&self.credential_connected).cloned().collect()
    }

    /// The facts that its rules depend on beside its policy. Settings that the present version of a plugin does not take are
    /// left out.
    fn facts(&self, layer: &CatalogueLayer) -> OrgFacts {
        let CatalogueLayer { catalogue, built_in, .. } = layer;
        let accepted = self.enabled.iter().filter_map(|(namespace, enabled)| {
            Some((namespace.clone(), enabled.accepted.as_ref()?.plugin.clone()))
        });
        let exempt = match self.own.is_empty() {
            true => Arc::clone(built_in),
            false => {
                let own = self.own.iter().map(|plugin| plugin.descriptor.namespace.clone());
                Arc::new(own.chain(built_in.iter().cloned()).collect())
            }
        };
        let consents =
            Consents { required: self.requires_consent, accepted: Arc::new(accepted.collect()), exempt };
        let settings = self.enabled.iter().filter_map(|(namespace, enabled)| {
            Some((namespace.clone(), enabled.settings_for(catalogue.plugin(namespace)?)?))
        });
        let connected = Arc::new(self.connected_integrations());
        OrgFacts { connected, consents, settings: Arc::new(settings.collect()) }
    }

    /// Its rules under the platform's, compiled on first use.
    pub(super) fn rules(&self, layer: &CatalogueLayer) -> Arc<OrgRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(&layer.platform)
        {
            return Arc::clone(rules);
        }
        let policy = Arc::clone(&self.policy);
        let facts = self.facts(layer);
        let rules = Arc::new(OrgRules::compile(policy, facts, &layer.platform, &layer.catalogue));
        self.rules.store(Some(Arc::clone(&rules)));
        rules
    }
}

impl Agent {
    pub(super) fn new(document: AgentDocument) -> Arc<Self> {
        Arc::new(Self { document: Arc::new(document), rules: ArcSwapOption::empty() })
    }

    /// Its rules under those of its organization, compiled on first use. A call with an older snapshot compiles the rules
    /// of that snapshot again; each call gets the rules of its own snapshot.
    pub(super) fn rules(&self, organization: &OrgRules, layer: &CatalogueLayer) -> Arc<AgentRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(organization)
        {
            return Arc::clone(rules);
        }
        let document = Arc::clone(&self.document);
        let rules = Arc::new(AgentRules::compile(document, organization, &layer.platform, &layer.catalogue));
        self.rules.store(Some(Arc::clone(&rules)));
        rules
    }
}
