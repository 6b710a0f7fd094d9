//! The data keys of organizations, and the deletion of an organization's data.

use std::time::Duration;

use tokio::time::timeout;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::{DataKeys, WrappedKey};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::keys::envelope::EnvelopeError;
use toolgate_state::store::OrganizationKeyRow;

use super::{Actor, Admin};

/// Time for the cancelled calls of an organization to end.
const CALLS_END: Duration = Duration::from_secs(5);

#[boxed]
impl Admin {
    /// Deletes an organization's data: its sessions end with their workspaces and stored answers, its approvals and messages are
    /// deleted, and the key of its arguments in the audit log is thrown away. Documents, credentials and tokens stay.
    pub async fn delete_organization_data(
        &self,
        actor: Actor<'_>,
        organization: &Name,
    ) -> Result<(), CallError> {
        self.expect_own(actor.caller, organization)?;
        let action = actor.action(Some(organization), "organization.data.delete", organization.as_str());
        self.run_audited(action, async {
            let _in_order = self.0.documents.lock().await;
            self.erase_data(organization, true).await
        })
        .await
    }

    /// Deletes an organization's data. With `goes_on`, a new key encrypts what follows; without it, no arguments are recorded
    /// any more.
    pub(super) async fn erase_data(&self, organization: &Name, goes_on: bool) -> Result<(), CallError> {
        let sessions = &self.services().sessions;
        // The sessions end before their data is deleted, since a running call may write more of it.
        let open = sessions.filter(|session| session.setup.organization == *organization);
        for session in &open {
            self.dispatcher().end_session(sessions, &session.setup.id).await;
        }
        let ended = async {
            for session in &open {
                session.pending_events().wait().await;
            }
        };
        if timeout(CALLS_END, ended).await.is_err() {
            tracing::warn!(%organization, "calls of the organization still run while its data is deleted");
        }
        let keys = self.data_keys();
        let next = match keys.filter(|_| goes_on) {
            None => None,
            Some(keys) => Some(generate(keys, organization)?),
        };
        let row = next.as_ref().map(|key| row(organization, key));
        if let (Some(keys), None) = (keys, &next) {
            // The key left the store with the organization. In memory it would be taken for that of a new organization of the name,
            // if the rest failed.
            keys.remove(organization.as_str());
        }
        let store = &self.services().store;
        let opened = store.erase_organization_data(organization, row.as_ref(), now_ms()).await?;
        if let (Some(keys), Some(key)) = (keys, &next) {
            keys.insert(organization.as_str(), key).map_err(unusable)?;
        }
        // Sessions that were opened meanwhile.
        for session in opened {
            self.dispatcher().end_session(sessions, &session).await;
        }
        Ok(())
    }

    /// Makes the data key of an organization that has none.
    pub(super) async fn make_data_key_if_missing(&self, organization: &Name) -> Result<(), CallError> {
        let Some(keys) = self.data_keys().filter(|keys| !keys.has(organization.as_str())) else {
            return Ok(());
        };
        let key = generate(keys, organization)?;
        // A stored key that cannot be used now is kept: its key file may come back, and what it encrypts with it.
        if !self.services().store.add_organization_key(&row(organization, &key)).await? {
            return Ok(());
        }
        keys.insert(organization.as_str(), &key).map_err(unusable)
    }

    /// Makes the data keys of organizations of a version that had none. Called once, at the start.
    pub async fn make_missing_data_keys(&self) -> Result<(), CallError> {
        for organization in self.services().registry.snapshot().organizations(None) {
            self.make_data_key_if_missing(&organization).await?;
        }
        Ok(())
    }

    fn data_keys(&self) -> Option<&DataKeys> {
        self.services().audit.data_keys()
    }
}

fn generate(keys: &DataKeys, organization: &Name) -> Result<WrappedKey, CallError> {
    keys.generate(organization.as_str()).map_err(unusable)
}

fn row(organization: &Name, key: &WrappedKey) -> OrganizationKeyRow {
    OrganizationKeyRow {
        organization: organization.clone(),
        id: key.id.clone(),
        wrapped: key.wrapped.clone(),
        created_ms: now_ms(),
    }
}

fn unusable(error: EnvelopeError) -> CallError {
    CallError::new(
        ErrorType::Unavailable,
        format!("the data key of the organization cannot be made: {error}"),
        "see the daemon's log, then try again",
    )
}
