//! Sign-in to the console, by a token or as a person.

use toolgate_api::error::CallError;
use toolgate_macros::boxed;

use super::{Actor, Admin};

#[boxed]
impl Admin {
    /// Begins a session, between intent and outcome in the audit log. The target is the role.
    pub async fn sign_in<T>(
        &self,
        actor: Actor<'_>,
        begin: impl FnOnce() -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        if let Some(organization) = &actor.caller.organization {
            self.expect_known(organization)?;
        }
        let action =
            actor.action(actor.caller.organization.as_ref(), "console.sign_in", actor.caller.role.as_str());
        self.run_audited(action, async { begin() }).await
    }
}
