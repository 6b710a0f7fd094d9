//! Sign-in to the console, by a token or as a person, and of a person who gets a token.

use toolgate_api::error::CallError;
use toolgate_macros::boxed;

use toolgate_state::clock::now_ms;

use super::{Actor, Admin};
use crate::identity::{MadeToken, SignedInPerson};

#[boxed]
impl Admin {
    /// Keeps what a person is called, for those who read records.
    pub async fn name_person(&self, person: &SignedInPerson) -> Result<(), CallError> {
        let Some(name) = &person.name else { return Ok(()) };
        Ok(self.services().store.name_person(&person.caller.token_id, name, now_ms()).await?)
    }

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

    /// Creates the token of a person who signed in without a browser, with the person's rights until the sign-in ends.
    pub async fn create_token_of_person(&self, actor: Actor<'_>) -> Result<MadeToken, CallError> {
        let person = actor.caller;
        if let Some(organization) = &person.organization {
            self.expect_known(organization)?;
        }
        let action = actor.action(person.organization.as_ref(), "token.create", person.role.as_str());
        self.run_audited(action, self.services().identity.create_for_person(person, now_ms())).await
    }
}
