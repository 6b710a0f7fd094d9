//! The registry: plugins, documents and compiled rules that are in force, as an immutable snapshot behind `ArcSwap`.
//!
//! A call takes one snapshot, after every wait, and uses only that. A change builds a new snapshot that shares unchanged
//! parts (copy on write) and swaps it, so calls in flight keep theirs and replacing a plugin fails no call.
//!
//! The rules of organizations and agents are compiled from their documents on first use after a change of a layer above,
//! so that a change of the platform's policy does not compile the rules of every agent.
//!
//! An organization with custom tools (C1, M4) has its own catalogue: the platform's plugins and its own, numbered anew. So
//! the call path needs no check of a tool's owner, and tools of other organizations do not exist in it.

mod organization;
mod assertions;
mod reading;
mod shortlist;

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use toolgate_admission::{AgentRules, Catalogue, OrgRules, PlatformRules, Plugin, Rules};
use toolgate_api::assertion::{Assertion, AssertionsDocument};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::{Name, Namespace, read_called_name};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::tools::{ToolList, ToolPattern};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::documents::ToolKey;

use crate::enabled::StoredEnabled;
use organization::{Agent, CatalogueLayer, Organization};
use shortlist::BrokerCell;

pub use assertions::{ChangeScope, CheckedChange, VIOLATIONS_MAX, Violations};
pub use reading::{RuleKey, ValidDocument, drop_custom_tools, left_with_nothing};
pub use shortlist::Shortlist;

/// Holds the current snapshot. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    current: ArcSwap<Snapshot>,
    /// Tells of each change.
    revision: watch::Sender<u64>,
    /// Serializes changes. Readers do not lock it.
    changing: Mutex<()>,
    /// Held from the check of a change against the assertions until the change is in force. INVARIANT: the last lock that a
    /// change takes, so that no two changes wait for each other.
    checking: tokio::sync::Mutex<()>,
    /// Notified when `compiling` of the snapshot changes.
    compiled: Notify,
    /// Plugins that a session or a call has waited for.
    awaited: Mutex<BTreeSet<Namespace>>,
    /// Notified when `awaited` grows.
    began_to_wait: Notify,
}

/// The input of a decision.
#[derive(Clone)]
pub struct Snapshot {
    /// Grows with every change; no two policies have one number, also over restarts.
    pub revision: u64,
    limits: LimitsPatch,
    common: Arc<CatalogueLayer>,
    organizations: HashMap<Name, Arc<Organization>>,
    /// The platform's assertions (G17).
    assertions: Arc<[Assertion]>,
    /// Built-in plugins that are being compiled, at the first start only.
    compiling: Arc<[Namespace]>,
    /// How many were to be compiled.
    to_compile: usize,
    /// Whether new organizations must accept plugins that the operator does not vouch for.
    requires_consent: bool,
}

/// A document to put in force.
#[derive(Clone)]
pub enum Replacement {
    Platform(PlatformDocument),
    Policy(Name, OrgDocument),
    Agent(Name, Name, AgentDocument),
    /// The settings and consent of an organization for a plugin; `None` removes them.
    Enabled(Name, Namespace, Option<StoredEnabled>),
    /// The assertions of an organization, or of the platform.
    Assertions(Option<Name>, AssertionsDocument),
}

impl Snapshot {
    /// The catalogue of organizations without custom tools.
    pub fn catalogue(&self) -> &Arc<Catalogue<Component>> {
        &self.common.catalogue
    }

    /// The catalogue of an organization, including its custom tools.
    pub fn catalogue_of(&self, organization: &Name) -> Arc<Catalogue<Component>> {
        let known = self.organizations.get(organization);
        Arc::clone(&known.map_or_else(|| Arc::clone(&self.common), |known| known.layer(self)).catalogue)
    }

    /// The platform's policy.
    pub fn policy(&self) -> &Arc<PlatformDocument> {
        self.common.platform.document()
    }

    /// The custom plugins of an organization.
    pub fn own_plugins(&self, organization: &Name) -> &[Arc<Plugin<Component>>] {
        self.organizations.get(organization).map_or(&[], |known| &known.own)
    }

    /// The custom plugin of an organization in a namespace.
    pub fn own_plugin(&self, key: &ToolKey) -> Option<&Arc<Plugin<Component>>> {
        let mut own = self.own_plugins(&key.organization).iter();
        own.find(|plugin| plugin.descriptor.namespace == key.namespace)
    }

    /// Whether a built-in plugin has this namespace.
    pub fn is_built_in(&self, namespace: &Namespace) -> bool {
        self.common.built_in.contains(namespace)
    }

    /// Whether organizations must accept plugins that the operator does not vouch for.
    pub fn requires_consent(&self) -> bool {
        self.requires_consent
    }

    /// Whether the plugin of this namespace is the organization's own.
    pub fn owns(&self, organization: &Name, namespace: &Namespace) -> bool {
        self.organizations.get(organization).is_some_and(|known| known.owns(namespace))
    }

    /// The settings and consent of an organization for a plugin.
    pub fn stored_enabled(&self, organization: &Name, namespace: &Namespace) -> Option<&StoredEnabled> {
        self.organizations.get(organization)?.enabled.get(namespace)
    }

    /// The organizations that have a tool of their own under this namespace, in which the plugin of that name is not served.
    pub fn owners_of(&self, namespace: &Namespace) -> Vec<&Name> {
        self.organizations.iter().filter(|(_, known)| known.owns(namespace)).map(|(name, _)| name).collect()
    }

    /// The platform's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.limits
    }

    /// The connected integrations of an organization: declared by the operator, or with a credential.
    pub fn connected_integrations(&self, organization: &Name) -> BTreeSet<String> {
        self.organizations.get(organization).map(|known| known.connected_integrations()).unwrap_or_default()
    }

    /// The rules of an agent; none if the organization or the agent does not exist.
    pub fn rules(&self, organization: &Name, agent: &Name) -> Option<Rules<Component>> {
        let organization = self.organizations.get(organization)?;
        let agent = organization.agents.get(agent)?;
        let layer = organization.layer(self);
        let organization = organization.rules(&layer);
        let agent = agent.rules(&organization, &layer);
        Some(layer.with(organization, agent))
    }

    /// Whether the agent exists.
    pub fn has_agent(&self, organization: &Name, agent: &Name) -> bool {
        self.organizations.get(organization).is_some_and(|known| known.agents.contains_key(agent))
    }

    /// Rules that allow no tool, for an agent that does not exist.
    pub fn denying_rules(&self) -> Rules<Component> {
        self.rules_of(&Organization::default(), AgentDocument::default())
    }

    /// The rules that an agent of the organization would have with this document.
    pub fn rules_with(&self, organization: &Name, document: AgentDocument) -> Rules<Component> {
        let none = Organization::default();
        self.rules_of(self.organizations.get(organization).map_or(&none, |known| known), document)
    }

    fn rules_of(&self, organization: &Organization, document: AgentDocument) -> Rules<Component> {
        let layer = organization.layer(self);
        let organization = organization.rules(&layer);
        let document = Arc::new(document);
        let agent = AgentRules::compile(document, &organization, &layer.platform, &layer.catalogue);
        layer.with(organization, Arc::new(agent))
    }

    /// The rules of an organization; none if it does not exist.
    pub fn organization(&self, name: &Name) -> Option<Arc<OrgRules>> {
        let known = self.organizations.get(name)?;
        Some(known.rules(&known.layer(self)))
    }

    /// Whether the platform's or the organization's policy keeps e-mail addresses out of the audit log.
    pub fn redacts_emails(&self, organization: &Name) -> bool {
        let known = self.organizations.get(organization);
        self.policy().redact.emails || known.is_some_and(|known| known.policy.redact.emails)
    }

    /// Whether the organization exists.
    pub fn knows(&self, organization: &Name) -> bool {
        self.organizations.contains_key(organization)
    }

    /// Whether the operator declares an integration connected, whose credentials are then managed elsewhere.
    pub fn is_declared_connected(&self, organization: &Name, integration: &str) -> bool {
        self.organizations
            .get(organization)
            .is_some_and(|known| known.declared_connected.contains(integration))
    }

    /// Whether the organization has a usable credential of an integration.
    #[cfg(test)]
    pub fn is_connected_by_credential(&self, organization: &Name, integration: &str) -> bool {
        self.organizations
            .get(organization)
            .is_some_and(|known| known.credential_connected.contains(integration))
    }

    /// The built-in plugins that are being compiled. The catalogue lacks them until then.
    pub fn compiling(&self) -> &[Namespace] {
        &self.compiling
    }

    /// What is being compiled, for people: `compiling 5 of 12 built-in plugins: code, shell, …`; none once all are.
    pub fn compiling_text(&self) -> Option<String> {
        let (left, of) = (&*self.compiling, self.to_compile);
        let names = left.iter().map(Namespace::as_str).collect::<Vec<_>>().join(", ");
        let number = of.saturating_sub(left.len()) + 1;
        (!left.is_empty()).then(|| format!("compiling {number} of {of} built-in plugins: {names}"))
    }

    /// The tool's plugin, if it is being compiled.
    pub fn compiling_plugin(&self, tool: &str) -> Option<Namespace> {
        // Nothing is parsed on the call path once everything is compiled.
        if self.compiling.is_empty() {
            return None;
        }
        read_called_name(tool).map(|id| id.namespace).filter(|namespace| self.compiling.contains(namespace))
    }

    /// Whether the agent's documents can allow a tool of the plugin, whose tools may not be known yet.
    pub fn may_use(&self, organization: &Name, agent: &Name, namespace: &Namespace) -> bool {
        let of_plugin = |pattern: &ToolPattern| pattern.namespace().is_none_or(|named| named == namespace);
        let matches = |list: &ToolList| list.patterns().iter().any(of_plugin);
        let agent = self.organizations.get(organization).and_then(|known| known.agents.get(agent));
        agent.is_some_and(|agent| {
            agent.document.enabled.as_ref().is_none_or(matches) || matches(&self.policy().universal)
        })
    }

    /// The names of all organizations, or of the one named `only`, sorted.
    pub fn organizations(&self, only: Option<&Name>) -> Vec<Name> {
        let fits = |name: &&Name| only.is_none_or(|only| *name == only);
        let mut names: Vec<Name> = self.organizations.keys().filter(fits).cloned().collect();
        names.sort();
        names
    }

    /// The names of an organization's agents, sorted.
    pub fn agents(&self, organization: &Name) -> Vec<Name> {
        let known = self.organizations.get(organization);
        let mut names: Vec<Name> =
            known.map(|known| known.agents.keys().cloned().collect()).unwrap_or_default();
        names.sort();
        names
    }

    /// A copy with another document in force. Nothing changes if its organization does not exist.
    pub fn with_document(&self, replacement: Replacement) -> Self {
        let mut next = self.clone();
        next.put(replacement);
        next
    }

    /// A copy with other shared plugins and limits.
    pub fn with_plugins(&self, limits: LimitsPatch, plugins: Vec<Arc<Plugin<Component>>>) -> Self {
        let mut next = self.clone();
        next.common = self.common.with_catalogue(Catalogue::new(limits.clone(), plugins));
        next.limits = limits;
        next
    }

    /// A copy with another custom plugin of an organization; `None` removes it.
    pub fn with_own_plugin(
        &self,
        organization: &Name,
        namespace: &Namespace,
        plugin: Option<Arc<Plugin<Component>>>,
    ) -> Self {
        let mut next = self.clone();
        next.change_organization(organization, |organization| organization.serve(namespace, plugin));
        next
    }

    fn put(&mut self, replacement: Replacement) {
        match replacement {
            Replacement::Platform(document) => {
                let CatalogueLayer { catalogue, built_in, .. } = &*self.common;
                let platform = Arc::new(PlatformRules::compile(Arc::new(document), catalogue));
                self.common = Arc::new(CatalogueLayer {
                    catalogue: Arc::clone(catalogue),
                    platform,
                    broker: BrokerCell::default(),
                    built_in: Arc::clone(built_in),
                });
            }
            Replacement::Policy(organization, document) => {
                self.change_organization(&organization, |organization| {
                    organization.policy = Arc::new(document);
                    organization.rules = Arc::default();
                });
            }
            Replacement::Agent(organization, name, document) => {
                self.change_organization(&organization, |organization| {
                    organization.agents.insert(name, Agent::new(document));
                });
            }
            Replacement::Enabled(organization, namespace, enabled) => {
                self.change_organization(&organization, |organization| {
                    let all = Arc::make_mut(&mut organization.enabled);
                    match enabled {
                        Some(enabled) => drop(all.insert(namespace, enabled)),
                        None => drop(all.remove(&namespace)),
                    }
                    organization.rules = Arc::default();
                });
            }
            Replacement::Assertions(None, document) => self.assertions = document.assertions.into(),
            Replacement::Assertions(Some(organization), document) => {
                self.change_organization(&organization, |organization| {
                    organization.assertions = document.assertions.into();
                });
            }
        }
    }

    fn change_organization(&mut self, name: &Name, act: impl FnOnce(&mut Organization)) {
        if let Some(organization) = self.organizations.get_mut(name) {
            act(Arc::make_mut(organization));
        }
    }
}

/// Writes the schemas of new tools in the forms of lists, behind what serves them. A list that comes sooner writes its own.
fn write_forms(descriptors: Vec<Arc<toolgate_admission::Descriptor>>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn_blocking(move || descriptors.iter().for_each(|descriptor| descriptor.write_forms()));
    }
}

#[boxed]
impl Registry {
    /// Creates a registry without plugins, policy and organizations.
    pub fn new(limits: LimitsPatch, built_in: BTreeSet<Namespace>) -> Self {
        let common = CatalogueLayer::new(
            Catalogue::new(limits.clone(), Vec::new()),
            Arc::default(),
            Arc::new(built_in),
        );
        Self(Arc::new(Shared {
            current: ArcSwap::from_pointee(Snapshot {
                revision: 0,
                limits,
                common,
                organizations: HashMap::new(),
                assertions: Arc::default(),
                compiling: Arc::default(),
                to_compile: 0,
                requires_consent: false,
            }),
            changing: Mutex::new(()),
            checking: tokio::sync::Mutex::default(),
            compiled: Notify::new(),
            awaited: Mutex::default(),
            began_to_wait: Notify::new(),
            revision: watch::Sender::new(0),
        }))
    }

    /// Numbers the changes from `base` on. Each start has another base.
    pub fn begin_revisions(&self, base: u64) {
        self.change(|snapshot| snapshot.revision = base);
    }

    /// Sets whether organizations that are put from now on must accept plugins that the operator does not vouch for. They need
    /// not until then.
    pub fn require_consent(&self, required: bool) {
        self.change(|snapshot| snapshot.requires_consent = required);
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }

    /// Replaces the shared plugins and the limits.
    pub fn serve(&self, limits: LimitsPatch, plugins: Vec<Arc<Plugin<Component>>>) {
        write_forms(plugins.iter().map(|plugin| Arc::clone(&plugin.descriptor)).collect());
        let catalogue = Catalogue::new(limits.clone(), plugins);
        self.change(|snapshot| {
            snapshot.common = snapshot.common.with_catalogue(catalogue);
            snapshot.limits = limits;
        });
    }

    /// Sets the built-in plugins that are being compiled.
    pub fn set_compiling(&self, compiling: Arc<[Namespace]>) {
        self.change(|snapshot| {
            snapshot.to_compile = snapshot.to_compile.max(compiling.len());
            snapshot.compiling = compiling;
        });
        self.0.compiled.notify_waiters();
    }

    /// Receives the revision of the snapshot after each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    /// Waits until every tool that the agent can have is in the catalogue.
    pub async fn wait_for_tools_of(&self, organization: &Name, agent: &Name) {
        self.wait_for(|snapshot| {
            let plugins = snapshot.compiling.iter();
            plugins.filter(|plugin| snapshot.may_use(organization, agent, plugin)).cloned().collect()
        })
        .await;
    }

    /// Waits until every tool is in the catalogue.
    pub async fn wait_for_all_tools(&self) {
        self.wait_for(|snapshot| snapshot.compiling().to_vec()).await;
    }

    /// Waits until the plugin of a called tool is not being compiled.
    pub async fn wait_for_tool(&self, called: &str) {
        self.wait_for(|snapshot| snapshot.compiling_plugin(called).into_iter().collect()).await;
    }

    /// Waits until none of the plugins that `needed` returns is being compiled. They are compiled before others.
    pub async fn wait_for(&self, needed: impl Fn(&Snapshot) -> Vec<Namespace>) {
        loop {
            let mut compiled = pin!(self.0.compiled.notified());
            // Registered before the look at the snapshot, so that no change is missed.
            compiled.as_mut().enable();
            let snapshot = self.snapshot();
            let missing = if snapshot.compiling.is_empty() { Vec::new() } else { needed(&snapshot) };
            if missing.is_empty() {
                return;
            }
            self.0.awaited.lock().extend(missing);
            self.0.began_to_wait.notify_waiters();
            drop(snapshot);
            compiled.await;
        }
    }

    /// Whether a session or a call waits for the plugin to be compiled.
    pub fn is_awaited(&self, namespace: &Namespace) -> bool {
        self.0.awaited.lock().contains(namespace)
    }

    /// Waits until a session or a call waits for one of the plugins.
    pub async fn wait_until_one_is_awaited(&self, plugins: Arc<[Namespace]>) {
        loop {
            let mut began = pin!(self.0.began_to_wait.notified());
            // Registered before the look at the plugins, so that no wait is missed.
            began.as_mut().enable();
            if plugins.iter().any(|plugin| self.is_awaited(plugin)) {
                return;
            }
            began.await;
        }
    }

    /// Replaces the custom plugin of an organization in a namespace; `None` removes it. Does nothing if the organization
    /// does not exist.
    pub fn serve_to(
        &self,
        organization: &Name,
        namespace: &Namespace,
        plugin: Option<Arc<Plugin<Component>>>,
    ) {
        write_forms(plugin.iter().map(|plugin| Arc::clone(&plugin.descriptor)).collect());
        self.change_organization(organization, |organization| organization.serve(namespace, plugin));
    }

    /// Puts a document in force. Does nothing if its organization does not exist.
    pub fn put(&self, replacement: Replacement) {
        self.change(|snapshot| snapshot.put(replacement));
    }

    /// Creates an organization, or updates its declared integrations. An existing one keeps its policy, agents and
    /// credentials.
    pub fn put_organization(&self, name: Name, connected: BTreeSet<String>) {
        self.change(|snapshot| {
            let organization = Arc::make_mut(snapshot.organizations.entry(name).or_default());
            organization.requires_consent = snapshot.requires_consent;
            organization.declared_connected = Arc::new(connected);
            organization.rules = Arc::default();
        });
    }

    /// Updates the integrations with a usable credential (G8). Does nothing if they are the same, or if the organization
    /// does not exist.
    pub fn put_credentials(&self, name: &Name, connected: BTreeSet<String>) {
        let known =
            self.snapshot().organizations.get(name).map(|known| Arc::clone(&known.credential_connected));
        if known.is_none_or(|known| *known == connected) {
            return;
        }
        self.change_organization(name, |organization| {
            organization.credential_connected = Arc::new(connected);
            organization.rules = Arc::default();
        });
    }

    /// Removes an organization and all its agents.
    pub fn remove_organization(&self, name: &Name) {
        self.change(|snapshot| drop(snapshot.organizations.remove(name)));
    }

    /// Removes what organizations have set for a plugin of the platform, unless they have their own of that namespace: another
    /// plugin of the name must not get their consent.
    pub fn forget_enabled(&self, namespace: &Namespace) {
        self.change(|snapshot| {
            let organizations = snapshot.organizations.values_mut();
            let has_set = |known: &&mut Arc<Organization>| {
                known.enabled.contains_key(namespace) && !known.owns(namespace)
            };
            for organization in organizations.filter(has_set).map(Arc::make_mut) {
                Arc::make_mut(&mut organization.enabled).remove(namespace);
                organization.rules = Arc::default();
            }
        });
    }

    /// Removes an agent.
    pub fn remove_agent(&self, organization: &Name, name: &Name) {
        self.change_organization(organization, |organization| drop(organization.agents.remove(name)));
    }

    fn change_organization(&self, name: &Name, act: impl FnOnce(&mut Organization)) {
        self.change(|snapshot| snapshot.change_organization(name, act));
    }

    fn change(&self, act: impl FnOnce(&mut Snapshot)) {
        let _one_at_a_time = self.0.changing.lock();
        let mut next = Snapshot::clone(&self.0.current.load());
        act(&mut next);
        next.revision = next.revision.saturating_add(1);
        let revision = next.revision;
        self.0.current.store(Arc::new(next));
        self.0.revision.send_replace(revision);
    }
}
