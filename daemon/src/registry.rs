//! What is in force right now: one immutable tree, swapped whole.
//!
//! A call takes one snapshot, after every wait, and decides and runs by it alone. A change makes a new
//! tree that shares what did not change, so calls in flight keep what they began with: replacing a plugin
//! fails nobody. Old trees are dropped by whoever holds them last, off the runtime where that is a change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use toolgate_admission::{AgentDocument, AgentRules, Catalogue, LimitsPatch, Name, OrgRules, Plugin, Rules};
use toolgate_sandbox::Component;

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
    organizations: HashMap<Name, Arc<Organization>>,
}

/// An organization and its agents.
#[derive(Clone, Default)]
pub struct Organization {
    rules: Arc<OrgRules>,
    agents: HashMap<Name, Arc<Agent>>,
}

/// An agent's document, and its rules against one catalogue: compiled on first use, since one change of
/// a plugin would otherwise compile those of every agent there is.
struct Agent {
    document: Arc<AgentDocument>,
    rules: OnceLock<Arc<AgentRules>>,
}

impl Agent {
    fn new(document: Arc<AgentDocument>) -> Arc<Self> {
        Arc::new(Self { document, rules: OnceLock::new() })
    }
}

impl Snapshot {
    /// The rules for one agent; none where the organization or the agent does not exist.
    pub fn rules(&self, organization: &Name, agent: &Name) -> Option<Rules<Component>> {
        let organization = self.organizations.get(organization)?;
        let agent = organization.agents.get(agent)?;
        let rules =
            agent.rules.get_or_init(|| Arc::new(AgentRules::compile(&agent.document, &self.catalogue)));
        Some(Rules {
            catalogue: Arc::clone(&self.catalogue),
            organization: Arc::clone(&organization.rules),
            agent: Arc::clone(rules),
        })
    }

    /// The rules of an agent that is not there: no tool.
    pub fn denying_rules(&self) -> Rules<Component> {
        let nothing = AgentRules::compile(&AgentDocument::default(), &self.catalogue);
        Rules {
            catalogue: Arc::clone(&self.catalogue),
            organization: Arc::default(),
            agent: Arc::new(nothing),
        }
    }

    /// Whether the organization exists.
    pub fn knows(&self, organization: &Name) -> bool {
        self.organizations.contains_key(organization)
    }
}

impl Registry {
    /// A registry with no plugin and no organization, under the platform's limits.
    pub fn new(limits: LimitsPatch) -> Self {
        Self(Arc::new(Shared {
            current: ArcSwap::from_pointee(Snapshot {
                revision: 0,
                catalogue: Arc::new(Catalogue::new(limits, Vec::new())),
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
            snapshot.catalogue = catalogue;
            for organization in snapshot.organizations.values_mut() {
                let organization = Arc::make_mut(organization);
                for agent in organization.agents.values_mut() {
                    *agent = Agent::new(Arc::clone(&agent.document));
                }
            }
        });
    }

    /// Puts an organization in force. One that is there keeps its policy and its agents.
    pub fn put_organization(&self, name: Name) {
        self.change(|snapshot| {
            snapshot.organizations.entry(name).or_default();
        });
    }

    /// Puts an organization's policy in force. Nothing happens where the organization does not exist.
    pub fn put_policy(&self, organization: &Name, rules: OrgRules) {
        self.change(|snapshot| {
            if let Some(organization) = snapshot.organizations.get_mut(organization) {
                Arc::make_mut(organization).rules = Arc::new(rules);
            }
        });
    }

    /// Takes an organization and all its agents out of force.
    pub fn remove_organization(&self, name: &Name) {
        self.change(|snapshot| drop(snapshot.organizations.remove(name)));
    }

    /// Puts an agent in force. Nothing happens where its organization does not exist.
    pub fn put_agent(&self, organization: &Name, name: Name, document: AgentDocument) {
        self.change(|snapshot| {
            if let Some(organization) = snapshot.organizations.get_mut(organization) {
                Arc::make_mut(organization).agents.insert(name, Agent::new(Arc::new(document)));
            }
        });
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
