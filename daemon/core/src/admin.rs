//! The administration layer: checks, orders, records and applies administrative acts. Front ends translate.

mod approvals;
mod assertions;
mod backups;
mod catalogue;
mod credentials;
mod custom_tools;
mod data;
mod documents;
mod enabled;
mod explain;
mod owned_plugins;
mod plugins;
mod plugin_sources;
mod policy_diff;
mod publisher_keys;
mod recent;
mod refused_openings;
mod refused_requests;
mod sessions;
mod sign_in;
mod tokens;
mod webhooks;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::Mutex;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::{ActOutcome, AdminRecord, Status};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::DocumentKey;
use toolgate_state::store::{Stamp, StoreError};

use crate::custom::CustomTools;
use crate::dispatch::{Dispatcher, Origin};
use crate::identity::Caller;
use crate::services::Services;

pub use credentials::CredentialKey;
pub use documents::{DocumentWrite, DocumentWritten};
pub use explain::explain;
pub use plugin_sources::{OwnedRegistryPlugin, RegistryPlugin};

/// Administers the daemon. Cheap to clone.
#[derive(Clone)]
pub struct Admin(Arc<Inner>);

struct Inner {
    services: Arc<Services>,
    dispatcher: Dispatcher,
    custom: CustomTools,
    /// Held while a document is written and put in force, so that both happen in the same order.
    documents: Mutex<()>,
    calls_of_all: catalogue::CallsOfAll,
    refused_openings: recent::RecentRefusals<refused_openings::OpeningKind>,
    refused_requests: recent::RecentRefusals<refused_requests::RequestKind>,
}

/// The caller of an act, and the front end that took it.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The front end, as the audit log names it.
    pub source: &'static str,
}

/// An act for the audit log.
struct AuditedAction<'a> {
    /// The id of the token.
    principal: &'a str,
    /// The organization of the act; none for an act of the platform.
    organization: Option<&'a Name>,
    /// Such as `agent.put`.
    action: &'static str,
    /// The object of the act.
    target: &'a str,
    /// Further details, whose schema depends on the action.
    details: Option<&'a RawValue>,
    /// The front end that took the act.
    source: &'static str,
}

impl<'a> Actor<'a> {
    /// The origin of the calls that this caller makes.
    pub fn origin(self) -> Origin {
        let Caller { token_id, revoked, .. } = self.caller;
        let principal = Arc::clone(token_id);
        Origin { principal, source: self.source, trace: None, revoked: revoked.clone() }
    }

    /// The author and the time of a change of this actor, for the history of documents.
    fn stamp(self) -> Stamp<'a> {
        Stamp { author: &self.caller.token_id, at_ms: now_ms() }
    }

    fn action(
        self,
        organization: Option<&'a Name>,
        action: &'static str,
        target: &'a str,
    ) -> AuditedAction<'a> {
        let principal = &self.caller.token_id;
        AuditedAction { principal, organization, action, target, details: None, source: self.source }
    }
}

impl Admin {
    /// An administration of these services.
    pub fn new(services: Arc<Services>) -> Self {
        Self(Arc::new(Inner {
            dispatcher: Dispatcher::new(Arc::clone(&services)),
            custom: CustomTools::new(Arc::clone(&services)),
            services,
            documents: Mutex::default(),
            calls_of_all: Default::default(),
            refused_openings: Default::default(),
            refused_requests: Default::default(),
        }))
    }

    /// The services that are administered.
    pub fn services(&self) -> &Services {
        &self.0.services
    }

    /// Carries calls out.
    pub fn dispatcher(&self) -> &Dispatcher {
        &self.0.dispatcher
    }

    /// The tools of organizations.
    pub fn custom(&self) -> &CustomTools {
        &self.0.custom
    }

    /// Checks that an organization is the caller's and exists.
    pub fn expect_own(&self, caller: &Caller, organization: &Name) -> Result<(), CallError> {
        caller.may_own(organization)?;
        self.expect_known(organization)
    }

    /// Checks that the caller decides about the approvals of an organization that exists.
    pub fn expect_decides(&self, caller: &Caller, organization: &Name) -> Result<(), CallError> {
        caller.may_decide(organization)?;
        self.expect_known(organization)
    }

    /// Checks that an organization exists.
    fn expect_known(&self, organization: &Name) -> Result<(), CallError> {
        match self.services().registry.snapshot().knows(organization) {
            true => Ok(()),
            false => Err(StoreError::no_document(&DocumentKey::Organization(organization.clone())).into()),
        }
    }

    /// Performs an act as [`run_audited`](Self::run_audited) does. A dry run changes nothing, so that it leaves no record, as
    /// every reading request.
    async fn run_audited_unless_dry<T>(
        &self,
        dry_run: bool,
        action: AuditedAction<'_>,
        act: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if dry_run { act.await } else { self.run_audited(action, act).await }
    }

    /// Performs an act between its intent and its outcome in the audit log. An act whose intent cannot be recorded is not
    /// performed.
    async fn run_audited<T>(
        &self,
        action: AuditedAction<'_>,
        act: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let revision = || Some(self.services().registry.snapshot().revision);
        let audit = &self.services().audit;
        let entry = audit.open_act(AdminRecord {
            organization: action.organization.map(|name| name.as_str().into()),
            principal: action.principal.into(),
            action: action.action.into(),
            target: action.target.into(),
            outcome: ErrorType::Unknown.as_str().into(),
            revision: revision(),
            details: action.details.map(Cow::Borrowed),
            source: action.source.into(),
        });
        let entry = entry?;
        entry.sync().await?;
        let done = act.await;
        let error_type = done.as_ref().err().map(|error| error.error_type.as_str().into());
        let status = if error_type.is_none() { Status::Ok } else { Status::Error };
        let outcome = ActOutcome { status, error_type, revision: revision() };
        audit.close_act(entry, outcome).await?;
        done
    }
}

#[cfg(test)]
mod tests;
