//! Assertions in force, and the check of a change against them before it is stored (G17).
//!
//! A change is refused if it breaks an assertion that held before. One that was broken already, such as by a plugin that
//! no longer loads, refuses nothing, so that documents can still be repaired.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::MutexGuard;
use toolgate_admission::{Rules, assertion_breach};
use toolgate_api::assertion::{Assertion, AssertionsDocument};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_sandbox::Component;

use super::{Registry, Snapshot};
use crate::assertions::{AssertionViolation, Holder};

/// The part of the platform that a change can affect, and who is told of a refusal.
#[derive(Clone, Copy, Debug)]
pub struct ChangeScope<'a> {
    organization: Option<&'a Name>,
    sees_platform: bool,
}

/// A change that breaks no assertion. Other checked changes wait until it is dropped, which is after the change is in force.
#[must_use = "the check holds only while this is kept"]
pub struct CheckedChange<'a> {
    _checking: MutexGuard<'a, ()>,
}

impl<'a> ChangeScope<'a> {
    /// A change of an operator that can affect every organization.
    pub const PLATFORM: Self = Self { organization: None, sees_platform: true };

    /// A change within an organization. Its owner learns of the platform's assertions only that one decided.
    pub fn organization(organization: &'a Name, sees_platform: bool) -> Self {
        Self { organization: Some(organization), sees_platform }
    }
}

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
        if !before.asserting_organizations(scope.organization).is_empty() {
            let after = change(&before);
            let organization = scope.organization.cloned();
            let find = move || before.violation_by(&after, organization.as_ref());
            refuse_violation(scope, find).await?;
        }
        Ok(CheckedChange { _checking: checking })
    }

    /// Checks that the assertions of a document hold under the rules in force. Those that are in force already are not
    /// checked again.
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
        let replacement = super::Replacement::Assertions(scope.organization.cloned(), document.clone());
        let after = before.with_document(replacement);
        let organizations = after.asserting_organizations(scope.organization);
        let is_new = move |of: Holder, assertion: &Assertion| of == holder && !held.contains(assertion);
        let find = move || after.first_violation(None, &organizations, is_new);
        refuse_violation(scope, find).await?;
        Ok(CheckedChange { _checking: checking })
    }
}

/// Searches on a blocking thread, since it may evaluate many decisions. A search that fails refuses the change.
async fn refuse_violation(
    scope: ChangeScope<'_>,
    find: impl FnOnce() -> Option<AssertionViolation> + Send + 'static,
) -> Result<(), CallError> {
    let found = tokio::task::spawn_blocking(find).await.map_err(|_| {
        CallError::new(
            ErrorType::Internal,
            "the assertions could not be checked, so nothing was changed",
            "tell the operator; the daemon's log says more",
        )
    })?;
    found.map_or(Ok(()), |violation| Err(violation.into_call_error(scope.sees_platform)))
}

impl Snapshot {
    /// Finds the first assertion that `after`, made of this snapshot by a change in the organization or of the platform, would
    /// break.
    pub fn violation_by(&self, after: &Self, organization: Option<&Name>) -> Option<AssertionViolation> {
        let organizations = self.asserting_organizations(organization);
        after.first_violation(Some(self), &organizations, |_, _| true)
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
        let mut names = self.organizations(only);
        if self.assertions.is_empty() {
            let organizations: &HashMap<_, _> = &self.organizations;
            names.retain(|name| organizations.get(name).is_some_and(|known| !known.assertions.is_empty()));
        }
        names
    }

    /// Finds the first assertion that an agent of these organizations can break here, and could not `before`.
    fn first_violation(
        &self,
        before: Option<&Self>,
        organizations: &[Name],
        is_checked: impl Fn(Holder, &Assertion) -> bool,
    ) -> Option<AssertionViolation> {
        organizations.iter().find_map(|organization| {
            let own = self.held_assertions(Some(organization));
            let platform = self.assertions.iter().map(|assertion| (Holder::Platform, assertion));
            let assertions = platform.chain(own.iter().map(|assertion| (Holder::Organization, assertion)));
            let assertions: Vec<_> =
                assertions.filter(|(holder, assertion)| is_checked(*holder, assertion)).collect();
            self.agents(organization)
                .into_iter()
                .find_map(|agent| self.first_violation_of(before, (organization, &agent), &assertions))
        })
    }

    fn first_violation_of(
        &self,
        before: Option<&Self>,
        agent: (&Name, &Name),
        assertions: &[(Holder, &Assertion)],
    ) -> Option<AssertionViolation> {
        let mut concerned =
            assertions.iter().filter(|(_, assertion)| assertion.restricts(agent.0, agent.1)).peekable();
        // The rules of an agent that no assertion is about are not compiled.
        concerned.peek()?;
        let after = self.rules(agent.0, agent.1)?;
        let before = before.and_then(|before| before.rules(agent.0, agent.1));
        // A change of one agent leaves the rules of the others as they are.
        if before.as_ref().is_some_and(|before| are_same(before, &after)) {
            return None;
        }
        concerned.find_map(|(holder, assertion)| {
            let breach = assertion_breach(assertion, agent, before.as_ref(), &after)?;
            Some(AssertionViolation::new(*holder, assertion, agent, breach))
        })
    }
}

/// Whether both are the same compiled rules.
fn are_same(one: &Rules<Component>, other: &Rules<Component>) -> bool {
    Arc::ptr_eq(&one.agent, &other.agent)
        && Arc::ptr_eq(&one.organization, &other.organization)
        && Arc::ptr_eq(&one.platform, &other.platform)
        && Arc::ptr_eq(&one.catalogue, &other.catalogue)
}
