//! Assertions in force, and the check of a change against them before it is stored (G17).
//!
//! A change is refused if it breaks an assertion that held before. An assertion that was broken already, such as by
//! a plugin that no longer loads, refuses nothing, so that documents can still be repaired. An organization's assertions do
//! not refuse changes of the platform: one tenant would decide for all. `admin::assertions` reports what such a change breaks.

use std::sync::Arc;

use tokio::sync::MutexGuard;
use toolgate_admission::{
    AgentRules, BudgetExceeded, Catalogue, DecisionBudget, OrgRules, Plugin, ResolvedAssertion, Rules,
    Warning,
};
use toolgate_api::assertion::{Assertion, AssertionsDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::documents::ToolKey;

use super::{Agent, CatalogueLayer, Organization, Registry, Snapshot};
use crate::assertions::{AssertionViolation, Holder};

/// Decisions of one search: a second or two of one processor.
const DECISIONS_MAX: u64 = 20_000_000;
/// Decisions that take as long as compiling the rules of one agent.
const AGENT_DECISIONS: u64 = 100;
/// Violations that one search lists.
pub const VIOLATIONS_MAX: usize = 100;

/// The part of the platform that a change can affect, and who is told of a refusal.
#[derive(Clone, Copy, Debug)]
pub struct ChangeScope<'a> {
    organization: Option<&'a Name>,
    sees_platform: bool,
}

/// A change that breaks no assertion that can refuse it. Other checked changes wait until it is dropped, which is after the
/// change is in force.
#[must_use = "the check holds only while this is kept"]
pub struct CheckedChange<'a> {
    _checking: MutexGuard<'a, ()>,
    /// Warnings of the assertions of organizations that a change of the platform breaks.
    pub warnings: Vec<Warning>,
}

/// Violations of assertions, at most a hundred.
#[derive(Debug, Default)]
pub struct Violations {
    /// The first violation of each agent and assertion.
    pub found: Vec<AssertionViolation>,
    /// Whether the search ended early, since it took too many decisions.
    pub exceeds_budget: bool,
}

impl Violations {
    /// The warnings of a change that would break these.
    pub fn warnings(&self, sees_platform: bool) -> Vec<Warning> {
        let broken = self.found.iter();
        let broken = broken.map(|broken| Warning::new("ASSERTION_BROKEN", "", broken.message(sees_platform)));
        let unchecked = self.exceeds_budget.then(|| {
            Warning::new(
                "ASSERTION_UNCHECKED",
                "",
                format!("not all assertions were checked: {BudgetExceeded}"),
            )
        });
        broken.chain(unchecked).collect()
    }
}

impl<'a> ChangeScope<'a> {
    /// A change of an operator that can affect every organization.
    pub const PLATFORM: Self = Self { organization: None, sees_platform: true };

    /// A change within an organization. Its owner learns of the platform's assertions only that one decided.
    pub fn organization(organization: &'a Name, sees_platform: bool) -> Self {
        Self { organization: Some(organization), sees_platform }
    }
}

#[boxed]
impl Registry {
    /// Checks the rules that `change` makes of those in force against the assertions in force. Without assertions,
    /// `change` is not called.
    ///
    /// # Errors
    ///
    /// `CONFLICT` with the assertion, the agent, the tool and the rules that would let the call through.
    pub async fn check_change(
        &self,
        scope: ChangeScope<'_>,
        change: impl FnOnce(&Snapshot) -> Snapshot,
    ) -> Result<CheckedChange<'_>, CallError> {
        let checking = self.0.checking.lock().await;
        let before = self.snapshot();
        let mut warnings = Vec::new();
        if !before.asserting_organizations(scope.organization).is_empty() {
            let after = change(&before);
            let organization = scope.organization.cloned();
            let broken = search(move || before.violations_by(&after, organization.as_ref(), 1)).await?;
            refuse_violation(scope, broken.refusing)?;
            warnings = broken.warning.warnings(scope.sees_platform);
        }
        Ok(CheckedChange { _checking: checking, warnings })
    }

    /// Checks the rules as if `plugin` were the organization's own in its namespace. Without it, a plugin of the platform under
    /// that namespace would be served.
    ///
    /// # Errors
    ///
    /// As [`Registry::check_change`].
    pub async fn check_own_plugin(
        &self,
        key: &ToolKey,
        plugin: Option<Arc<Plugin<Component>>>,
    ) -> Result<CheckedChange<'_>, CallError> {
        let ToolKey { organization, namespace } = key;
        let change = |rules: &Snapshot| rules.with_own_plugin(organization, namespace, plugin);
        self.check_change(ChangeScope::organization(organization, false), change).await
    }

    /// Checks that the assertions of a document hold under the rules in force. Assertions that are in force already
    /// are not checked again.
    ///
    /// # Errors
    ///
    /// As [`Registry::check_change`].
    pub async fn check_assertions(
        &self,
        scope: ChangeScope<'_>,
        document: &AssertionsDocument,
    ) -> Result<CheckedChange<'_>, CallError> {
        let checking = self.0.checking.lock().await;
        let before = self.snapshot();
        let held = before.held_assertions(scope.organization);
        let holder = if scope.organization.is_some() { Holder::Organization } else { Holder::Platform };
        let organization = scope.organization.cloned();
        let after =
            before.with_document(super::Replacement::Assertions(organization.clone(), document.clone()));
        let is_new = move |of: Holder, assertion: &Assertion| of == holder && !held.contains(assertion);
        let broken = search(move || after.violations(None, organization.as_ref(), is_new, 1)).await?;
        refuse_violation(scope, broken)?;
        Ok(CheckedChange { _checking: checking, warnings: Vec::new() })
    }

    /// Waits until the built-in plugins are compiled that assertions name which can refuse a change: before that, a tool
    /// that the change opens is not in the catalogue. The caller holds no lock.
    pub async fn wait_for_asserted(&self, organization: Option<&Name>) {
        self.wait_for(|snapshot| {
            let own = organization.map(|name| snapshot.held_assertions(Some(name))).unwrap_or_default();
            let assertions = || snapshot.assertions.iter().chain(&*own);
            let compiling = snapshot.compiling.iter();
            compiling.filter(|plugin| assertions().any(|one| is_about(one, plugin))).cloned().collect()
        })
        .await;
    }

    /// Waits until the built-in plugins are compiled that the assertions of a document name. The caller holds no lock.
    pub async fn wait_for_asserted_by(&self, document: &AssertionsDocument) {
        self.wait_for(|snapshot| {
            let is_named = |plugin: &&Namespace| document.assertions.iter().any(|one| is_about(one, plugin));
            snapshot.compiling.iter().filter(is_named).cloned().collect()
        })
        .await;
    }
}

/// Whether an assertion is about tools of the plugin.
fn is_about(assertion: &Assertion, plugin: &Namespace) -> bool {
    assertion.statement().is_some_and(|(_, scope)| {
        scope.tools.patterns().iter().any(|pattern| pattern.namespace().is_none_or(|named| named == plugin))
    })
}

/// Searches on a blocking thread, since it may evaluate many decisions. A search that fails refuses the change.
async fn search<T: Send + 'static>(find: impl FnOnce() -> T + Send + 'static) -> Result<T, CallError> {
    tokio::task::spawn_blocking(find).await.map_err(|_| {
        CallError::new(
            ErrorType::Internal,
            "the assertions could not be checked, so nothing was changed",
            "tell the operator; the daemon's log says more",
        )
    })
}

fn refuse_violation(scope: ChangeScope<'_>, broken: Violations) -> Result<(), CallError> {
    if let Some(violation) = broken.found.into_iter().next() {
        return Err(violation.into_call_error(scope.sees_platform));
    }
    match broken.exceeds_budget {
        false => Ok(()),
        true => Err(CallError::new(
            ErrorType::Conflict,
            format!("{BudgetExceeded}, so nothing was changed"),
            "name fewer agents and tools in assertions, or change agents one by one instead of a policy",
        )),
    }
}

/// The assertions that a change breaks.
pub struct ChangeViolations {
    /// Violations that refuse the change.
    pub refusing: Violations,
    /// Violations of assertions that cannot refuse it.
    pub warning: Violations,
}

impl Snapshot {
    /// Finds the assertions that `after`, made of this snapshot by a change in the organization or of the platform, would
    /// break; at most `most` that refuse the change.
    pub fn violations_by(&self, after: &Self, organization: Option<&Name>, most: usize) -> ChangeViolations {
        let refuses = |holder, _: &Assertion| holder == Holder::Platform || organization.is_some();
        let refusing = after.violations(Some(self), organization, refuses, most);
        let is_refused = !refusing.found.is_empty() || refusing.exceeds_budget;
        let warning = match organization {
            None if !is_refused => {
                let is_theirs = |holder, _: &Assertion| holder == Holder::Organization;
                after.violations(Some(self), None, is_theirs, VIOLATIONS_MAX)
            }
            _ => Violations::default(),
        };
        ChangeViolations { refusing, warning }
    }

    /// Finds the assertions that do not hold and held before, if `before` is given.
    pub fn broken_since(&self, before: Option<&Self>) -> Violations {
        self.violations(before, None, |_, _| true, VIOLATIONS_MAX)
    }

    /// Finds the assertions of the organization, or of the platform, that do not hold.
    pub fn broken_of(&self, organization: Option<&Name>) -> Violations {
        let holder = if organization.is_some() { Holder::Organization } else { Holder::Platform };
        self.violations(None, organization, |of, _| of == holder, VIOLATIONS_MAX)
    }

    fn held_assertions(&self, organization: Option<&Name>) -> Arc<[Assertion]> {
        match organization {
            None => Arc::clone(&self.assertions),
            Some(name) => {
                self.organizations.get(name).map(|known| Arc::clone(&known.assertions)).unwrap_or_default()
            }
        }
    }

    /// The organizations with agents that an assertion can be about.
    fn asserting_organizations(&self, only: Option<&Name>) -> Vec<Name> {
        let asserts = |known: &Arc<Organization>| !self.assertions.is_empty() || !known.assertions.is_empty();
        let known = self
            .organizations
            .iter()
            .filter(|(name, known)| only.is_none_or(|only| *name == only) && asserts(known));
        let mut names: Vec<Name> = known.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Whether the organization and all above it are the same in the other snapshot.
    fn has_same(&self, other: &Self, name: &Name) -> bool {
        let [one, other_one] = [self, other].map(|snapshot| snapshot.organizations.get(name));
        Arc::ptr_eq(&self.common, &other.common)
            && one.zip(other_one).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Finds the assertions among the checked ones that do not hold here, and held `before`.
    fn violations(
        &self,
        before: Option<&Self>,
        organization: Option<&Name>,
        is_checked: impl Fn(Holder, &Assertion) -> bool,
        most: usize,
    ) -> Violations {
        let platform: Vec<&Assertion> =
            self.assertions.iter().filter(|one| is_checked(Holder::Platform, one)).collect();
        let shared = resolve(Holder::Platform, &platform, self.catalogue());
        let mut search = Search { budget: DecisionBudget::new(DECISIONS_MAX), most, found: Vec::new() };
        let mut exceeds_budget = false;
        for name in self.asserting_organizations(organization) {
            if before.is_some_and(|before| self.has_same(before, &name)) {
                continue;
            }
            let Some(after) = Side::of(self, &name) else { continue };
            let before = before.and_then(|before| Side::of(before, &name));
            let own = after.organization.assertions.iter();
            let own: Vec<_> = own.filter(|one| is_checked(Holder::Organization, one)).collect();
            let catalogue = &after.layer.catalogue;
            let own = resolve(Holder::Organization, &own, catalogue);
            let extended = match Arc::ptr_eq(catalogue, self.catalogue()) {
                true => Vec::new(),
                false => resolve(Holder::Platform, &platform, catalogue),
            };
            let platform = if extended.is_empty() { &shared } else { &extended };
            let assertions: Vec<_> = platform.iter().chain(&own).collect();
            exceeds_budget = search.visit(&name, before.as_ref(), &after, &assertions).is_err();
            if exceeds_budget || search.is_full() {
                break;
            }
        }
        Violations { found: search.found, exceeds_budget }
    }
}

/// An assertion of its holder, with its tools.
type HeldAssertion<'a> = (Holder, ResolvedAssertion<'a>);

fn resolve<'a>(
    holder: Holder,
    assertions: &[&'a Assertion],
    catalogue: &Catalogue<Component>,
) -> Vec<HeldAssertion<'a>> {
    let resolved = assertions.iter().filter_map(|one| ResolvedAssertion::new(one, catalogue));
    resolved.map(|resolved| (holder, resolved)).collect()
}

/// An organization in one snapshot, with its compiled rules.
struct Side<'a> {
    organization: &'a Organization,
    layer: Arc<CatalogueLayer>,
    rules: Arc<OrgRules>,
}

impl<'a> Side<'a> {
    fn of(snapshot: &'a Snapshot, name: &Name) -> Option<Self> {
        let organization = snapshot.organizations.get(name)?;
        let layer = organization.layer(snapshot);
        let rules = organization.rules(&layer);
        Some(Self { organization, layer, rules })
    }

    fn agent(&self, name: &Name) -> Option<&'a Arc<Agent>> {
        self.organization.agents.get(name)
    }

    fn rules_of(&self, agent: &Agent) -> Rules<Component> {
        let agent: Arc<AgentRules> = agent.rules(&self.rules, &self.layer);
        self.layer.with(Arc::clone(&self.rules), agent)
    }

    /// Whether agents with the same document have the same rules on both sides.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.layer, &other.layer) && Arc::ptr_eq(&self.rules, &other.rules)
    }
}

/// A search for violations, within its limits.
struct Search {
    budget: DecisionBudget,
    most: usize,
    found: Vec<AssertionViolation>,
}

impl Search {
    fn is_full(&self) -> bool {
        self.found.len() >= self.most
    }

    /// Evaluates the assertions for each agent of an organization whose rules differ from those before.
    fn visit(
        &mut self,
        organization: &Name,
        before: Option<&Side<'_>>,
        after: &Side<'_>,
        assertions: &[&HeldAssertion<'_>],
    ) -> Result<(), BudgetExceeded> {
        let same_side = before.filter(|before| before.is_same(after));
        let mut agents: Vec<_> = after.organization.agents.iter().collect();
        agents.sort_by_key(|(name, _)| *name);
        for (name, agent) in agents {
            let same = same_side.and_then(|before| before.agent(name));
            // The rules of an agent that the change leaves alone are not compiled.
            if same.is_some_and(|same| Arc::ptr_eq(same, agent)) {
                continue;
            }
            let mut concerned =
                assertions.iter().filter(|(_, one)| one.concerns(organization, name)).peekable();
            if concerned.peek().is_none() {
                continue;
            }
            self.budget.take(AGENT_DECISIONS)?;
            let rules = after.rules_of(agent);
            let old_rules = before.and_then(|before| Some(before.rules_of(before.agent(name)?)));
            for (holder, resolved) in concerned {
                if let Some(breach) = resolved.breach(old_rules.as_ref(), &rules, &mut self.budget)? {
                    let agent = (organization, name);
                    let violation = AssertionViolation::new(*holder, resolved.assertion(), agent, breach);
                    self.found.push(violation);
                }
                if self.is_full() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::pin::pin;

    use toolgate_api::assertion::AssertionHolder;
    use toolgate_api::limits::LimitsPatch;

    use super::super::Replacement;
    use super::*;

    /// A plugin that is being compiled has no tools yet, so that nothing would be found.
    #[tokio::test]
    async fn g17_a_change_waits_for_the_plugins_that_assertions_name() {
        let registry = Registry::new(LimitsPatch::new(), Default::default());
        let acme = Name::parse("acme").unwrap();
        let compiling = ["files", "web"].map(|name| Namespace::parse(name).unwrap());
        registry.put_organization(acme.clone(), BTreeSet::new());
        registry.set_compiling(compiling.clone().into());
        registry.wait_for_asserted(Some(&acme)).await;
        let text = r#"{"assertions":[{"name":"a","never":{"tools":["files/delete"]}}]}"#;
        let document = AssertionsDocument::parse(text, AssertionHolder::Organization).unwrap();
        registry.put(Replacement::Assertions(Some(acme.clone()), document.clone()));
        registry.wait_for_asserted(None).await;
        let mut change = pin!(registry.wait_for_asserted(Some(&acme)));
        let mut write = pin!(registry.wait_for_asserted_by(&document));
        tokio::select! {
            biased;
            () = &mut change => panic!("a change did not wait"),
            () = &mut write => panic!("a document did not wait"),
            () = std::future::ready(()) => {}
        }
        registry.set_compiling(compiling[1..].into());
        tokio::join!(change, write);
    }
}
