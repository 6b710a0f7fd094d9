//! What is in force right now: one immutable tree, swapped whole.
//!
//! A call takes one snapshot, after every wait, and decides and runs by it alone. A change makes a new
//! tree that shares what did not change, so calls in flight keep what they began with: replacing a plugin
//! fails nobody. Old trees are dropped by whoever holds them last, off the runtime where that is a change.
//!
//! Documents are in the tree as they read; what they compile to is kept beside them and made by the first call after a
//! change of a layer above, so that a change of the platform's policy does not compile the rules of every agent there is.
//!
//! An organization with tools of its own (C1, M4) has a catalogue of its own: the platform's plugins and its own, numbered
//! anew. So nothing on the way of a call asks whose a tool is, and another organization's does not exist.

mod shortlist;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use toolgate_admission::{
    AgentDocument, AgentRules, Catalogue, LimitsPatch, Name, Namespace, OrgDocument, OrgRules,
    PlatformDocument, PlatformRules, Plugin, Rules,
};
use toolgate_sandbox::Component;

use shortlist::BrokerCell;
pub use shortlist::Shortlist;

/// The holder of the current snapshot. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    current: ArcSwap<Snapshot>,
    /// Changes are made one after the other; reading never waits for it.
    changing: Mutex<()>,
}

/// Everything a decision looks at.
#[derive(Clone)]
pub struct Snapshot {
    /// Counts changes since the start.
    pub revision: u64,
    limits: LimitsPatch,
    common: Arc<Offer>,
    organizations: HashMap<Name, Arc<Organization>>,
}

/// The tools that there are, and what the platform says of each. Organizations without tools of their own share one.
struct Offer {
    catalogue: Arc<Catalogue<Component>>,
    platform: Arc<PlatformRules>,
    broker: BrokerCell,
}

/// The offer of an organization with tools of its own.
struct OwnOffer {
    /// What everybody has; one that is not in force any more makes this one outdated.
    beside: Weak<Offer>,
    offer: Arc<Offer>,
}

/// An organization and its agents.
#[derive(Clone, Default)]
struct Organization {
    policy: Arc<OrgDocument>,
    /// The integrations that the operator calls connected.
    by_word: Arc<BTreeSet<String>>,
    /// Those that it has a usable credential of.
    by_credential: Arc<BTreeSet<String>>,
    /// The plugins that nobody else has.
    own: Arc<[Arc<Plugin<Component>>]>,
    offer: Arc<ArcSwapOption<OwnOffer>>,
    rules: Arc<ArcSwapOption<OrgRules>>,
    agents: HashMap<Name, Arc<Agent>>,
}

struct Agent {
    document: Arc<AgentDocument>,
    rules: ArcSwapOption<AgentRules>,
}

/// A document to be put in force.
#[derive(Clone)]
pub enum Replacement {
    Platform(PlatformDocument),
    Policy(Name, OrgDocument),
    Agent(Name, Name, AgentDocument),
}

impl Offer {
    fn new(catalogue: Catalogue<Component>, policy: Arc<PlatformDocument>) -> Arc<Self> {
        let platform = Arc::new(PlatformRules::compile(policy, &catalogue));
        Arc::new(Self { catalogue: Arc::new(catalogue), platform, broker: BrokerCell::default() })
    }
}

impl Snapshot {
    /// The tools that every organization has.
    pub fn catalogue(&self) -> &Arc<Catalogue<Component>> {
        &self.common.catalogue
    }

    /// The tools that an organization has, its own among them.
    pub fn catalogue_of(&self, organization: &Name) -> Arc<Catalogue<Component>> {
        let known = self.organizations.get(organization);
        Arc::clone(&known.map_or_else(|| Arc::clone(&self.common), |known| known.offer(self)).catalogue)
    }

    /// The platform's policy.
    pub fn policy(&self) -> &Arc<PlatformDocument> {
        self.common.platform.document()
    }

    /// The plugins of an organization alone.
    pub fn own_plugins(&self, organization: &Name) -> &[Arc<Plugin<Component>>] {
        self.organizations.get(organization).map_or(&[], |known| &known.own)
    }

    /// The platform's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.limits
    }

    /// The integrations that an organization has connected, by the operator's word or by a credential.
    pub fn connected(&self, organization: &Name) -> BTreeSet<String> {
        self.organizations.get(organization).map(|known| known.connected()).unwrap_or_default()
    }

    /// The rules for one agent; none where the organization or the agent does not exist.
    pub fn rules(&self, organization: &Name, agent: &Name) -> Option<Rules<Component>> {
        let organization = self.organizations.get(organization)?;
        let agent = organization.agents.get(agent)?;
        let offer = organization.offer(self);
        let organization = organization.rules(&offer);
        let agent = agent.rules(&organization, &offer);
        Some(offer.with(organization, agent))
    }

    /// The rules of an agent that is not there: no tool.
    pub fn denying_rules(&self) -> Rules<Component> {
        self.rules_of(&Organization::default(), AgentDocument::default())
    }

    /// The rules that an agent of the organization would have with this document.
    pub fn rules_with(&self, organization: &Name, document: AgentDocument) -> Rules<Component> {
        let nothing = Organization::default();
        self.rules_of(self.organizations.get(organization).map_or(&nothing, |known| known), document)
    }

    fn rules_of(&self, organization: &Organization, document: AgentDocument) -> Rules<Component> {
        let offer = organization.offer(self);
        let organization = organization.rules(&offer);
        let document = Arc::new(document);
        let agent = AgentRules::compile(document, &organization, &offer.platform, &offer.catalogue);
        offer.with(organization, Arc::new(agent))
    }

    /// The layer of an organization; none where it does not exist.
    pub fn organization(&self, name: &Name) -> Option<Arc<OrgRules>> {
        let known = self.organizations.get(name)?;
        Some(known.rules(&known.offer(self)))
    }

    /// Whether the organization exists.
    pub fn knows(&self, organization: &Name) -> bool {
        self.organizations.contains_key(organization)
    }

    /// Whether the operator calls an integration connected, whose credentials then are elsewhere.
    pub fn is_connected_by_word(&self, organization: &Name, integration: &str) -> bool {
        self.organizations.get(organization).is_some_and(|known| known.by_word.contains(integration))
    }

    /// Whether the organization has a usable credential of an integration.
    #[cfg(test)]
    pub fn is_connected_by_credential(&self, organization: &Name, integration: &str) -> bool {
        self.organizations.get(organization).is_some_and(|known| known.by_credential.contains(integration))
    }

    /// The organizations, or the one of that name, by name.
    pub fn organizations(&self, only: Option<&Name>) -> Vec<Name> {
        let fits = |name: &&Name| only.is_none_or(|only| *name == only);
        let mut names: Vec<Name> = self.organizations.keys().filter(fits).cloned().collect();
        names.sort();
        names
    }

    /// The agents of an organization, by name.
    pub fn agents(&self, organization: &Name) -> Vec<Name> {
        let known = self.organizations.get(organization);
        let mut names: Vec<Name> =
            known.map(|known| known.agents.keys().cloned().collect()).unwrap_or_default();
        names.sort();
        names
    }

    /// The same with another document in force. What it belongs to must exist, or nothing changes.
    pub fn with_document(&self, replacement: Replacement) -> Self {
        let mut next = self.clone();
        next.put(replacement);
        next
    }

    fn put(&mut self, replacement: Replacement) {
        match replacement {
            Replacement::Platform(document) => {
                let catalogue = Arc::clone(&self.common.catalogue);
                let platform = Arc::new(PlatformRules::compile(Arc::new(document), &catalogue));
                self.common = Arc::new(Offer { catalogue, platform, broker: BrokerCell::default() });
            }
            Replacement::Policy(organization, document) => {
                if let Some(organization) = self.organizations.get_mut(&organization) {
                    let organization = Arc::make_mut(organization);
                    organization.policy = Arc::new(document);
                    organization.rules = Arc::default();
                }
            }
            Replacement::Agent(organization, name, document) => {
                if let Some(organization) = self.organizations.get_mut(&organization) {
                    Arc::make_mut(organization).agents.insert(name, Agent::new(document));
                }
            }
        }
    }
}

impl Offer {
    fn with(&self, organization: Arc<OrgRules>, agent: Arc<AgentRules>) -> Rules<Component> {
        let (catalogue, platform) = (Arc::clone(&self.catalogue), Arc::clone(&self.platform));
        Rules { catalogue, platform, organization, agent }
    }
}

impl Organization {
    /// The tools that it has: everybody's, or those and its own, numbered on first use after a change of either.
    fn offer(&self, snapshot: &Snapshot) -> Arc<Offer> {
        if self.own.is_empty() {
            return Arc::clone(&snapshot.common);
        }
        let common = Arc::downgrade(&snapshot.common);
        if let Some(made) = &*self.offer.load()
            && made.beside.ptr_eq(&common)
        {
            return Arc::clone(&made.offer);
        }
        let plugins = snapshot.catalogue().plugins().chain(&*self.own).cloned().collect();
        let catalogue = Catalogue::new(snapshot.limits.clone(), plugins);
        let offer = Offer::new(catalogue, Arc::clone(snapshot.policy()));
        self.offer.store(Some(Arc::new(OwnOffer { beside: common, offer: Arc::clone(&offer) })));
        offer
    }

    fn connected(&self) -> BTreeSet<String> {
        self.by_word.union(&self.by_credential).cloned().collect()
    }

    /// Its rules under those of the platform, compiled on first use.
    fn rules(&self, offer: &Offer) -> Arc<OrgRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(&offer.platform)
        {
            return Arc::clone(rules);
        }
        let policy = Arc::clone(&self.policy);
        let connected = Arc::new(self.connected());
        let rules = Arc::new(OrgRules::compile(policy, connected, &offer.platform, &offer.catalogue));
        self.rules.store(Some(Arc::clone(&rules)));
        rules
    }
}

impl Agent {
    fn new(document: AgentDocument) -> Arc<Self> {
        Arc::new(Self { document: Arc::new(document), rules: ArcSwapOption::empty() })
    }

    /// Its rules under those of its organization, compiled on first use. Calls of an older snapshot that are still on
    /// their way make their own again; both are right for whoever asked.
    fn rules(&self, organization: &OrgRules, offer: &Offer) -> Arc<AgentRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(organization)
        {
            return Arc::clone(rules);
        }
        let document = Arc::clone(&self.document);
        let rules = Arc::new(AgentRules::compile(document, organization, &offer.platform, &offer.catalogue));
        self.rules.store(Some(Arc::clone(&rules)));
        rules
    }
}

impl Registry {
    /// A registry with no plugin, no policy and no organization, under the platform's limits.
    pub fn new(limits: LimitsPatch) -> Self {
        let common = Offer::new(Catalogue::new(limits.clone(), Vec::new()), Arc::default());
        Self(Arc::new(Shared {
            current: ArcSwap::from_pointee(Snapshot {
                revision: 0,
                limits,
                common,
                organizations: HashMap::new(),
            }),
            changing: Mutex::new(()),
        }))
    }

    /// What is in force now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }

    /// Serves these plugins and no others.
    pub fn serve(&self, limits: LimitsPatch, plugins: Vec<Arc<Plugin<Component>>>) {
        let catalogue = Catalogue::new(limits.clone(), plugins);
        self.change(|snapshot| {
            snapshot.common = Offer::new(catalogue, Arc::clone(snapshot.policy()));
            snapshot.limits = limits;
        });
    }

    /// Serves a plugin to one organization beside everybody's, in the place of its own of that namespace; nothing takes
    /// that one away. Nothing happens where the organization does not exist.
    pub fn serve_to(
        &self,
        organization: &Name,
        namespace: &Namespace,
        plugin: Option<Arc<Plugin<Component>>>,
    ) {
        self.change(|snapshot| {
            if let Some(organization) = snapshot.organizations.get_mut(organization) {
                let organization = Arc::make_mut(organization);
                let others = organization.own.iter().filter(|own| own.descriptor.namespace != *namespace);
                organization.own = others.cloned().chain(plugin).collect();
                organization.offer = Arc::default();
            }
        });
    }

    /// Puts a document in force. Nothing happens where what it belongs to does not exist.
    pub fn put(&self, replacement: Replacement) {
        self.change(|snapshot| snapshot.put(replacement));
    }

    /// Puts an organization in force, with what the operator calls connected. One that is there keeps its policy, its
    /// agents and its credentials.
    pub fn put_organization(&self, name: Name, connected: BTreeSet<String>) {
        self.change(|snapshot| {
            let organization = Arc::make_mut(snapshot.organizations.entry(name).or_default());
            organization.by_word = Arc::new(connected);
            organization.rules = Arc::default();
        });
    }

    /// Puts in force which integrations an organization has a usable credential of (G8). Nothing happens where that is
    /// so already, or the organization does not exist.
    pub fn put_credentials(&self, name: &Name, connected: BTreeSet<String>) {
        let known = self.snapshot().organizations.get(name).map(|known| Arc::clone(&known.by_credential));
        if known.is_none_or(|known| *known == connected) {
            return;
        }
        self.change(|snapshot| {
            if let Some(organization) = snapshot.organizations.get_mut(name) {
                let organization = Arc::make_mut(organization);
                organization.by_credential = Arc::new(connected);
                organization.rules = Arc::default();
            }
        });
    }

    /// Takes an organization and all its agents out of force.
    pub fn remove_organization(&self, name: &Name) {
        self.change(|snapshot| drop(snapshot.organizations.remove(name)));
    }

    /// Takes an agent out of force.
    pub fn remove_agent(&self, organization: &Name, name: &Name) {
        self.change(|snapshot| {
            if let Some(organization) = snapshot.organizations.get_mut(organization) {
                Arc::make_mut(organization).agents.remove(name);
            }
        });
    }

    fn change(&self, act: impl FnOnce(&mut Snapshot)) {
        let _one_at_a_time = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Snapshot::clone(&self.0.current.load());
        act(&mut next);
        next.revision = next.revision.saturating_add(1);
        self.0.current.store(Arc::new(next));
    }
}
