//! Tokens: created and revoked.

use toolgate_admission::Warning;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::nearest;
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;

use super::{Actor, Admin};
use crate::identity::{MadeToken, NewToken, TokenSummary};
use crate::registry::Snapshot;

#[boxed]
impl Admin {
    /// Creates a token, with warnings about unknown agents.
    ///
    /// # Errors
    ///
    /// `FORBIDDEN` and `NOT_FOUND` for more access than the caller has, `NOT_FOUND` for an unknown organization.
    pub async fn create_token(
        &self,
        actor: Actor<'_>,
        wanted: NewToken,
    ) -> Result<(MadeToken, Vec<Warning>), CallError> {
        let (role, organization) = (wanted.role, wanted.organization.clone());
        let may_issue = actor.caller.may_issue(role, organization.as_ref());
        // A refused request from another organization is recorded in the caller's own audit log, not in the target's.
        let recorded_in = if may_issue.is_ok() { &organization } else { &actor.caller.organization };
        let action = actor.action(recorded_in.as_ref(), "token.create", role.as_str());
        let creating = async {
            may_issue?;
            if let Some(organization) = &organization {
                self.expect_known(organization)?;
            }
            self.services().identity.create(actor.caller, wanted, now_ms()).await
        };
        let made = self.run_audited(action, creating).await?;
        let warnings = unknown_agents(&self.services().registry.snapshot(), &made.summary);
        Ok((made, warnings))
    }

    /// Revokes a token. Calls that run for it are cancelled.
    pub async fn revoke_token(&self, actor: Actor<'_>, id: &str) -> Result<(), CallError> {
        let action = actor.action(actor.caller.organization.as_ref(), "token.revoke", id);
        self.run_audited(action, self.services().identity.revoke(actor.caller, id, now_ms())).await
    }
}

/// Warns of unknown agents. A token for an unknown agent opens no session, and no other check reports the misspelt
/// name.
fn unknown_agents(snapshot: &Snapshot, token: &TokenSummary) -> Vec<Warning> {
    let (Some(organization), Some(agents)) = (&token.organization, &token.agents) else { return Vec::new() };
    let known = snapshot.agents(organization);
    let unknown = agents.iter().enumerate().filter(|(_, agent)| !known.contains(agent));
    let warnings = unknown.map(|(at, agent)| Warning {
        nearest: nearest(agent.as_str(), known.iter().map(Name::as_str)).map(str::to_owned),
        ..Warning::new(
            "UNRESOLVED_AGENT",
            format!("/agents/{at}"),
            format!("the organization `{organization}` has no agent `{agent}`"),
        )
    });
    warnings.collect()
}
