//! What is in force right now: one immutable tree, swapped whole.
//!
//! A call takes one snapshot, after every wait, and decides and runs by it alone. A change makes a new
//! tree that shares what did not change, so calls in flight keep what they began with: replacing a plugin
//! fails nobody. Old trees are dropped by whoever holds them last, off the runtime where that is a change.
//!
//! Documents are in the tree as they read; what they compile to is kept beside them and made by the first call after a
//! change of a layer above, so that a change of the platform's policy does not compile the rules of every agent there is.

mod shortlist;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use toolgate_admission::{
    AgentDocument, AgentRules, Catalogue, LimitsPatch, Name, OrgDocument, OrgRules, PlatformDocument,
    PlatformRules, Plugin, Rules,
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
    /// The loaded tools.
    pub catalogue: Arc<Catalogue<Component>>,
    /// The platform's layer.
    pub platform: Arc<PlatformRules>,
    broker: BrokerCell,
    organizations: HashMap<Name, Arc<Organization>>,
}

/// An organization and its agents.
#[derive(Clone, Default)]
struct Organization {
    policy: Arc<OrgDocument>,
    /// The integrations that the operator calls connected.
    by_word: Arc<BTreeSet<String>>,
    /// Those that it has a usable credential of.
    by_credential: Arc<BTreeSet<String>>,
    rules: Arc<ArcSwapOption<OrgRules>>,
    agents: HashMap<Name, Arc<Agent>>,
}

struct Agent {
    document: Arc<AgentDocument>,
    rules: ArcSwapOption<AgentRules>,
}

/// A document to be put in force.
pub enum Replacement {
    Platform(PlatformDocument),
    Policy(Name, OrgDocument),
    Agent(Name, Name, AgentDocument),
}

impl Snapshot {
    /// The rules for one agent; none where the organization or the agent does not exist.
    pub fn rules(&self, organization: &Name, agent: &Name) -> Option<Rules<Component>> {
        let organization = self.organizations.get(organization)?;
        let agent = organization.agents.get(agent)?;
        let organization = organization.rules(self);
        let agent = agent.rules(&organization, self);
        Some(self.with(organization, agent))
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
        let organization = organization.rules(self);
        let agent = AgentRules::compile(Arc::new(document), &organization, &self.platform, &self.catalogue);
        self.with(organization, Arc::new(agent))
    }

    fn with(&self, organization: Arc<OrgRules>, agent: Arc<AgentRules>) -> Rules<Component> {
        Rules {
            catalogue: Arc::clone(&self.catalogue),
            platform: Arc::clone(&self.platform),
            organization,
            agent,
        }
    }

    /// The layer of an organization; none where it does not exist.
    pub fn organization(&self, name: &Name) -> Option<Arc<OrgRules>> {
        Some(self.organizations.get(name)?.rules(self))
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
                self.platform = Arc::new(PlatformRules::compile(Arc::new(document), &self.catalogue));
                self.broker = BrokerCell::default();
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

impl Organization {
    /// Its rules under those of the platform, compiled on first use.
    fn rules(&self, snapshot: &Snapshot) -> Arc<OrgRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(&snapshot.platform)
        {
            return Arc::clone(rules);
        }
        let policy = Arc::clone(&self.policy);
        let connected = Arc::new(self.by_word.union(&self.by_credential).cloned().collect());
        let rules = Arc::new(OrgRules::compile(policy, connected, &snapshot.platform, &snapshot.catalogue));
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
    fn rules(&self, organization: &OrgRules, snapshot: &Snapshot) -> Arc<AgentRules> {
        if let Some(rules) = &*self.rules.load()
            && rules.is_under(organization)
        {
            return Arc::clone(rules);
        }
        let document = Arc::clone(&self.document);
        let rules =
            Arc::new(AgentRules::compile(document, organization, &snapshot.platform, &snapshot.catalogue));
        self.rules.store(Some(Arc::clone(&rules)));
        rules
    }
}

impl Registry {
    /// A registry with no plugin, no policy and no organization, under the platform's limits.
    pub fn new(limits: LimitsPatch) -> Self {
        let catalogue = Arc::new(Catalogue::new(limits, Vec::new()));
        let platform = PlatformRules::compile(Arc::default(), &catalogue);
        Self(Arc::new(Shared {
            current: ArcSwap::from_pointee(Snapshot {
                revision: 0,
                catalogue,
                platform: Arc::new(platform),
                broker: BrokerCell::default(),
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
        let catalogue = Arc::new(Catalogue::new(limits, plugins));
        self.change(|snapshot| {
            let policy = Arc::clone(snapshot.platform.document());
            snapshot.platform = Arc::new(PlatformRules::compile(policy, &catalogue));
            snapshot.catalogue = catalogue;
            snapshot.broker = BrokerCell::default();
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
