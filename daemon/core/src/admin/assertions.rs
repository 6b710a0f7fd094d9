//! Policy assertions, put in force and deleted (G17). `registry::assertions` checks every other change against them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{BudgetExceeded, Warning, assertion_warnings};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument, BrokenAssertion};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::read::ReadError;
use toolgate_audit::{AdminRecord, AuditError};
use toolgate_macros::boxed;
use toolgate_state::documents::DocumentKey;
use toolgate_state::store::WriteResult;

use super::documents::change_scope;
use super::plugins::{DAEMON_PRINCIPAL, DAEMON_SOURCE};
use super::{Actor, Admin, DocumentWrite};
use crate::assertions::AssertionViolation;
use crate::identity::{Access, Caller};
use crate::registry::{Replacement, Snapshot, Violations, drop_custom_tools};

#[boxed]
impl Admin {
    /// Stores a document of assertions, if all of them hold.
    pub(super) async fn put_assertions(
        &self,
        actor: Actor<'_>,
        organization: Option<&Name>,
        write: &DocumentWrite,
    ) -> Result<(Option<WriteResult>, Vec<Warning>), CallError> {
        let scope = change_scope(actor, organization);
        let document = parse(&write.text, organization)
            .map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
        let registry = &self.services().registry;
        let _checked = registry.check_assertions(scope, &document).await?;
        let warnings = {
            let snapshot = registry.snapshot();
            let exists = |organization: &Name, agent: &Name| snapshot.rules(organization, agent).is_some();
            let catalogue = match organization {
                Some(organization) => snapshot.catalogue_of(organization),
                None => Arc::clone(snapshot.catalogue()),
            };
            let mut warnings = assertion_warnings(&document.assertions, &catalogue, organization, exists);
            if organization.is_none() {
                drop_custom_tools(&mut warnings, &snapshot);
            }
            warnings
        };
        let written = self.store_document(actor, write).await?;
        if written.is_some() {
            registry.put(Replacement::Assertions(organization.cloned(), document));
        }
        Ok((written, warnings))
    }

    /// Waits until the plugins are compiled that a write is checked with. No lock is held meanwhile.
    pub(super) async fn wait_until_checkable(&self, write: &DocumentWrite) {
        let registry = &self.services().registry;
        registry.wait_for_asserted(write.key.organization()).await;
        if let DocumentKey::Assertions(organization) = &write.key
            && let Ok(document) = parse(&write.text, organization.as_ref())
        {
            registry.wait_for_asserted_by(&document).await;
        }
    }

    /// Returns the assertions of an organization, or of the platform, that do not hold now.
    pub async fn broken_assertions(
        &self,
        organization: Option<&Name>,
    ) -> Result<Vec<BrokenAssertion>, CallError> {
        let (snapshot, organization) = (self.services().registry.snapshot(), organization.cloned());
        let broken = find(move || snapshot.broken_of(organization.as_ref())).await?;
        Ok(broken.found.iter().map(|broken| broken.view()).collect())
    }

    /// Returns the assertions of a document that would not hold under the rules in force. Nothing is stored.
    pub async fn try_assertions(
        &self,
        caller: &Caller,
        organization: Option<&Name>,
        text: &str,
    ) -> Result<Vec<BrokenAssertion>, CallError> {
        match organization {
            Some(organization) => self.expect_own(caller, organization)?,
            None => caller.may(Access::Operate)?,
        }
        let document =
            parse(text, organization).map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?;
        let registry = &self.services().registry;
        registry.wait_for_asserted_by(&document).await;
        let replacement = Replacement::Assertions(organization.cloned(), document);
        let (snapshot, organization) =
            (registry.snapshot().with_document(replacement), organization.cloned());
        let broken = find(move || snapshot.broken_of(organization.as_ref())).await?;
        if broken.exceeds_budget && broken.found.is_empty() {
            let hint = "name fewer agents and tools in assertions";
            return Err(CallError::new(ErrorType::Conflict, BudgetExceeded.to_string(), hint));
        }
        Ok(broken.found.iter().map(|broken| broken.view()).collect())
    }

    /// Reports the assertions that break without a refused change, until `stop`: by acts of operators, and by plugins that are
    /// served once they are compiled. Assertions that break at the start are logged, later ones
    /// recorded too.
    pub async fn watch_assertions_until(self, stop: CancellationToken) {
        let mut changes = self.services().registry.changes();
        let mut before: Option<Arc<Snapshot>> = None;
        loop {
            changes.mark_unchanged();
            let after = self.services().registry.snapshot();
            let (old, new) = (before.clone(), Arc::clone(&after));
            match find(move || new.broken_since(old.as_deref())).await {
                Ok(broken) => self.report_broken(&broken, before.is_some()).await,
                Err(error) => tracing::error!(reason = error.message, "the assertions were not evaluated"),
            }
            let new = Arc::clone(&after);
            if let Ok(broken) = find(move || new.broken_since(None)).await {
                let count = broken.found.len() as u64;
                self.services().metrics.observed.broken_assertions.store(count, Ordering::Relaxed);
            }
            before = Some(after);
            if !matches!(stop.run_until_cancelled(changes.changed()).await, Some(Ok(()))) {
                return;
            }
        }
    }

    async fn report_broken(&self, broken: &Violations, is_recorded: bool) {
        if broken.exceeds_budget {
            tracing::warn!(event = "assertions_unchecked", reason = %BudgetExceeded, "not all assertions were evaluated");
        }
        for violation in &broken.found {
            let reason = violation.message(true);
            tracing::warn!(event = "assertion_broken", reason, "an assertion does not hold");
            if is_recorded && let Err(error) = self.record_broken(violation).await {
                tracing::error!(reason = %error, "a broken assertion is not recorded");
            }
        }
    }

    async fn record_broken(&self, violation: &AssertionViolation) -> Result<(), AuditError> {
        let holder = violation.holder_organization();
        let details = to_raw_value(&violation.view()).ok();
        let record = AdminRecord {
            organization: holder.map(|name| name.as_str().into()),
            principal: DAEMON_PRINCIPAL.into(),
            action: "assertions.broken".into(),
            target: violation.assertion_name().as_str().into(),
            outcome: ErrorType::Conflict.as_str().into(),
            revision: None,
            details: details.as_deref().map(Cow::Borrowed),
            source: DAEMON_SOURCE.into(),
        };
        self.services().audit.admin(record).await
    }
}

fn parse(text: &str, organization: Option<&Name>) -> Result<AssertionsDocument, ReadError> {
    let holder =
        if organization.is_some() { AssertionHolder::Organization } else { AssertionHolder::Platform };
    AssertionsDocument::parse(text, holder)
}

/// Evaluates assertions on a blocking thread, beside running calls.
async fn find(search: impl FnOnce() -> Violations + Send + 'static) -> Result<Violations, CallError> {
    tokio::task::spawn_blocking(search).await.map_err(|_| {
        let hint = "tell the operator; the daemon's log says more";
        CallError::new(ErrorType::Internal, "the assertions could not be evaluated", hint)
    })
}
