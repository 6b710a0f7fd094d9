//! Credentials, and the root key that seals them.

use std::fmt;
use std::sync::Arc;

use toolgate_api::credential::DiscoveryView;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::text::escape_for_display;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::Precondition;
use toolgate_state::store::WriteResult;
use url::Url;

use super::{Actor, Admin, AuditedAction};
use crate::credentials::{AuthorizationLink, Credential, NewCredential, PendingFlow, RootKey, RootRotation};
use crate::identity::{Access, Caller};

/// Longest URL of a discovery in the audit log, in characters.
const AUDITED_URL_CHARS: usize = 500;

/// The address of a credential.
pub struct CredentialKey {
    /// The organization.
    pub organization: Name,
    /// The name within the organization.
    pub name: Name,
}

impl fmt::Display for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.organization, self.name)
    }
}

#[boxed]
impl Admin {
    /// Returns a credential.
    pub fn credential(&self, caller: &Caller, key: &CredentialKey) -> Result<Arc<Credential>, CallError> {
        self.expect_own(caller, &key.organization)?;
        self.services().credentials.find(&key.organization, &key.name)
    }

    /// Creates or replaces a credential.
    pub async fn put_credential(
        &self,
        actor: Actor<'_>,
        key: &CredentialKey,
        new: NewCredential,
        precondition: &Precondition,
    ) -> Result<(Arc<Credential>, WriteResult), CallError> {
        let CredentialKey { organization, name } = key;
        let putting = self.services().credentials.put(organization, name, new, precondition, now_ms());
        self.change_credential(actor, key, "credential.put", putting).await
    }

    /// Deletes a credential.
    pub async fn delete_credential(
        &self,
        actor: Actor<'_>,
        key: &CredentialKey,
        precondition: &Precondition,
    ) -> Result<(), CallError> {
        let CredentialKey { organization, name } = key;
        let deleting = self.services().credentials.remove(organization, name, precondition, now_ms());
        self.change_credential(actor, key, "credential.delete", deleting).await
    }

    /// Replaces the secret of a credential.
    pub async fn rotate_credential(
        &self,
        actor: Actor<'_>,
        key: &CredentialKey,
        (secret, expires_ms): (Secret, Option<u64>),
        precondition: &Precondition,
    ) -> Result<Arc<Credential>, CallError> {
        let (CredentialKey { organization, name }, now_ms) = (key, now_ms());
        let credentials = &self.services().credentials;
        let rotating = credentials.rotate(organization, name, secret, expires_ms, precondition, now_ms);
        self.change_credential(actor, key, "credential.rotate", rotating).await
    }

    /// Starts the authorization of a credential.
    pub async fn connect_credential(
        &self,
        actor: Actor<'_>,
        key: &CredentialKey,
    ) -> Result<AuthorizationLink, CallError> {
        let connecting = async {
            let (CredentialKey { organization, name }, caller) = (key, actor.caller);
            let credentials = &self.services().credentials;
            let who = (&*caller.token_id, actor.source);
            credentials.begin_authorization(organization, name, who, &caller.revoked, now_ms())
        };
        self.change_credential(actor, key, "credential.connect", connecting).await
    }

    /// Discovers the authorization server of a service, by default for the caller's organization.
    pub async fn discover(
        &self,
        actor: Actor<'_>,
        url: &str,
        organization: Option<&Name>,
        plain_http: &[String],
    ) -> Result<DiscoveryView, CallError> {
        let organization = organization.or(actor.caller.organization.as_ref());
        match organization {
            Some(organization) => self.expect_own(actor.caller, organization)?,
            None => actor.caller.may(Access::Own)?,
        }
        let target = discovery_target(url);
        let discovering = self.services().credentials.discover(url, organization, plain_http);
        self.run_audited(actor.action(organization, "credential.discover", &target), discovering).await
    }

    /// Finishes an authorization with the code that the provider issued, or with its refusal. The act is the one of the
    /// token that started it.
    pub async fn finish_connecting(
        &self,
        source: &'static str,
        flow: PendingFlow,
        code: Result<String, CallError>,
    ) -> Result<CredentialKey, CallError> {
        let key = CredentialKey { organization: flow.organization.clone(), name: flow.name.clone() };
        let principal = flow.principal.clone();
        let details = self.services().credentials.exchange_details(&flow);
        let action = AuditedAction {
            principal: &principal,
            organization: Some(&key.organization),
            action: "credential.connected",
            target: &key.to_string(),
            details: details.as_deref(),
            source,
        };
        let finishing =
            async { self.services().credentials.finish_authorization(flow, code?, now_ms()).await };
        self.run_audited(action, finishing).await?;
        Ok(key)
    }

    /// Gives the daemon the root key that its secrets are sealed with.
    pub async fn unseal(&self, actor: Actor<'_>, key: &str) -> Result<(), CallError> {
        actor.caller.may(Access::Operate)?;
        let unsealing =
            async { self.services().credentials.unseal(parse_root_key(key, KEY_IN_USE)?, now_ms()).await };
        self.run_audited(actor.action(None, "root_key.unseal", "root_key"), unsealing).await
    }

    /// Rotates the root key, to this one or to the one of its source.
    pub async fn rotate_root_key(
        &self,
        actor: Actor<'_>,
        key: Option<&str>,
    ) -> Result<RootRotation, CallError> {
        actor.caller.may(Access::Operate)?;
        let rotating = async {
            let given = key.map(|key| parse_root_key(key, NEW_KEY)).transpose()?;
            self.services().credentials.rotate_root(given, now_ms()).await
        };
        self.run_audited(actor.action(None, "root_key.rotate", "root_key"), rotating).await
    }

    async fn change_credential<T>(
        &self,
        actor: Actor<'_>,
        key: &CredentialKey,
        action: &'static str,
        change: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        self.expect_own(actor.caller, &key.organization)?;
        self.run_audited(actor.action(Some(&key.organization), action, &key.to_string()), change).await
    }
}

/// The URL of a discovery as the audit log has it: without user, query and fragment, which can have a secret. So can a text that is
/// no URL.
fn discovery_target(url: &str) -> String {
    let Some(mut url) = Url::parse(url).ok().filter(Url::has_host) else { return "not a URL".to_owned() };
    url.set_query(None);
    url.set_fragment(None);
    // URLs with a host take both.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    escape_for_display(url.as_str(), AUDITED_URL_CHARS)
}

/// The hint for a wrong key. It does not suggest a new key: only the key that sealed the store can unseal it.
const KEY_IN_USE: &str =
    "give the key that the store is sealed with, as it is kept: 64 hexadecimal digits, or base64";
const NEW_KEY: &str = "make one with `openssl rand -hex 32`";

fn parse_root_key(key: &str, hint: &str) -> Result<RootKey, CallError> {
    RootKey::read_text(key.as_bytes())
        .map_err(|error| CallError::new(ErrorType::InvalidRequest, error.to_string(), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_the_record_of_a_discovery_has_no_secret() {
        for (url, target) in [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
            ("https://ann:canary@mcp.example.com/mcp?key=canary#canary", "https://mcp.example.com/mcp"),
            ("https://canary@mcp.example.com", "https://mcp.example.com/"),
            ("https://ann:can?ary@mcp.example.com", "not a URL"),
            ("canary", "not a URL"),
            ("data:canary", "not a URL"),
        ] {
            assert_eq!(discovery_target(url), target, "{url}");
        }
        let long = format!("https://a.example/{}", "b".repeat(1_000));
        assert!(discovery_target(&long).chars().count() <= AUDITED_URL_CHARS + 1);
    }
}
