//! Secrets that a vault keeps: a credential names the place, and the daemon reads it when a request needs it.
//!
//! The place stands in the credential's document, and the document is bound into what is sealed for the credential: a row
//! that was changed behind the daemon's back does not open, and nothing is read for it. For the same reason a daemon
//! without its root key reads nothing.
//!
//! The daemon's token reaches the secrets of every organization, so the operator says where each may have its own, and the
//! organization's name is part of that. It is looked at when a credential is written and again when its secret is read.
//!
//! What was read is kept sealed, like any other secret, for a moment. After that it is not used, even if the vault does
//! not answer: whoever takes a secret out of the vault takes it away from the daemon too.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OwnedMutexGuard;
use toolgate_admission::{CallError, ErrorType, Name};
use toolgate_sandbox::Secret;

use super::envelope::Sealed;
use super::inject::sendable;
use super::keyring::Keyring;
use super::renew::later;
use super::shelf::{Credential, Keys};
use super::vault::{KvPlace, Vault, VaultError, is_path, is_segment};
use super::{CredentialRefusal, Credentials, damaged, sealed};

/// Longest reference: as long as other words in a credential's document.
const REFERENCE_BYTES: usize = 500;
/// What stands for the organization's name.
const ORGANIZATION: &str = "{organization}";
/// How long a vault that gave no secret is not asked for the same one again: calls that fail must not become a storm
/// of requests, and whoever mends it does not wait long.
const PAUSE_MS: u64 = 5_000;

/// The vault that credentials may refer to, and where.
pub struct VaultReferences {
    /// The vault.
    pub vault: Vault,
    /// Where in it each organization has its secrets.
    pub prefix: ReferencePrefix,
    /// How long a secret is used before it is read anew.
    pub kept_ms: u64,
}

/// `MOUNT/…/{organization}/…/`: where each organization has its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferencePrefix {
    before: String,
    after: String,
}

/// What was heard from a vault about a credential.
pub struct Heard {
    /// Of which version of the credential.
    version: u64,
    /// When it is used, in milliseconds since 1970.
    good: Range<u64>,
    said: Result<Kept, CredentialRefusal>,
}

/// A secret that was read.
#[derive(Clone)]
struct Kept {
    sealed: Sealed,
    version: u64,
}

/// A secret from a vault, for one request.
pub(super) struct Referred {
    pub secret: Secret,
    /// Counts what was written to its place.
    pub version: u64,
}

impl ReferencePrefix {
    /// Reads it. The name stands between slashes, so that no organization's place begins with another's, and not in
    /// front, so that no organization is named like another mount.
    pub fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once(ORGANIZATION)?;
        let sound_before = before.strip_suffix('/').is_some_and(is_path);
        let between = after.strip_prefix('/')?;
        let sound_after = between.is_empty() || between.strip_suffix('/').is_some_and(is_path);
        (sound_before && sound_after).then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// What the references of an organization begin with.
    fn of(&self, organization: &Name) -> String {
        format!("{}{organization}{}", self.before, self.after)
    }

    /// The place that a reference names, if the organization may name it.
    fn place(&self, organization: &Name, reference: &str) -> Result<KvPlace, CallError> {
        let place = KvPlace::parse(reference).filter(|place| is_segment(&place.field));
        let Some(place) = place.filter(|_| reference.len() <= REFERENCE_BYTES) else {
            return Err(wrong(
                "that is no place in a vault",
                "write `MOUNT/PATH#FIELD` with letters, digits, `-`, `_` and `.`, and without `..`",
            ));
        };
        let prefix = self.of(organization);
        match reference.starts_with(&prefix) {
            true => Ok(place),
            false => Err(wrong(
                format!("the organization `{organization}` may not have that place of the vault"),
                format!("name one below `{prefix}`"),
            )),
        }
    }
}

impl Credentials {
    /// The place that a reference names, if the organization may name it.
    pub(super) fn referred_place(&self, organization: &Name, reference: &str) -> Result<KvPlace, CallError> {
        match &self.0.references {
            Some(references) => references.prefix.place(organization, reference),
            None => Err(wrong(
                "references into a vault are not taken here",
                "send `secret`, or let the operator say where organizations may have theirs: `credentials.vault_references`",
            )),
        }
    }

    /// The secret that a vault has for a credential: as it was a moment ago, or read anew.
    pub(super) async fn referred(
        &self,
        credential: &Arc<Credential>,
        keys: &Keyring,
        now_ms: u64,
    ) -> Result<Referred, CredentialRefusal> {
        let began = Instant::now();
        let heard = Arc::clone(&credential.shared.heard).lock_owned().await;
        // What was read while it was waited for is of after it was asked.
        if let Some(said) = heard.as_ref().and_then(|heard| heard.of(credential, keys, now_ms)) {
            return said;
        }
        let now_ms = later(now_ms, began);
        // To its end, whoever waits for it: a vault that hangs is then asked once for all calls that it makes time out.
        let reading = {
            let (credentials, credential) = (self.clone(), Arc::clone(credential));
            self.0.renewals.spawn(async move { credentials.read_anew(heard, &credential, now_ms).await })
        };
        reading.await.unwrap_or_else(|_| Err(away(credential, "the reading ended early")))
    }

    async fn read_anew(
        &self,
        mut heard: OwnedMutexGuard<Option<Heard>>,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Referred, CredentialRefusal> {
        let shelf = self.0.shelf.load_full();
        let Keys::Open(keys) = &shelf.keys else { return Err(sealed()) };
        let began = Instant::now();
        let read = self.read_reference(credential).await;
        let said = match &read {
            Ok(referred) => keep(credential, keys, referred),
            Err(refused) => Err(refused.clone()),
        };
        let kept_ms = match &said {
            Ok(_) => self.0.references.as_ref().map_or(0, |references| references.kept_ms),
            Err(_) => PAUSE_MS,
        };
        // For those who asked meanwhile too, and from when it ended: a vault that hangs has had its time by then.
        let good = now_ms..later(now_ms, began).saturating_add(kept_ms);
        *heard = Some(Heard { version: credential.row.version, good, said });
        read
    }

    /// Asks the vault.
    pub(super) async fn read_reference(
        &self,
        credential: &Credential,
    ) -> Result<Referred, CredentialRefusal> {
        let (row, reference) = (&credential.row, credential.document.vault.as_deref());
        let place = self.referred_place(&row.organization, reference.unwrap_or_default());
        let place = place.map_err(|error| unfit(credential, &error.message))?;
        let Some(references) = &self.0.references else { return Err(unfit(credential, "there is none")) };
        let value = references.vault.kv(&place).await.map_err(|error| {
            tracing::warn!(organization = %row.organization, credential = %row.name, %error, "a vault gives no secret");
            not_given(credential, &error)
        })?;
        let secret = Secret::new(value.text.0.as_bytes().to_vec());
        match sendable(secret.expose()) {
            true => Ok(Referred { secret, version: value.version }),
            false => {
                Err(unfit(credential, "it is empty, too long, or has characters that no header can hold"))
            }
        }
    }
}

impl Heard {
    /// None where it is over, of another version, or under a root key that is gone.
    fn of(
        &self,
        credential: &Credential,
        keys: &Keyring,
        now_ms: u64,
    ) -> Option<Result<Referred, CredentialRefusal>> {
        if self.version != credential.row.version || !self.good.contains(&now_ms) {
            return None;
        }
        match &self.said {
            Ok(kept) => {
                let secret = keys.open(&credential.place().bind(kept.sealed.root_key), &kept.sealed).ok()?;
                Some(Ok(Referred { secret, version: kept.version }))
            }
            Err(refused) => Some(Err(refused.clone())),
        }
    }
}

fn keep(credential: &Credential, keys: &Keyring, referred: &Referred) -> Result<Kept, CredentialRefusal> {
    let sealed = keys.seal(&credential.place(), referred.secret.expose());
    let sealed = sealed.map_err(|error| damaged(credential, error))?;
    Ok(Kept { sealed, version: referred.version })
}

fn not_given(credential: &Credential, error: &VaultError) -> CredentialRefusal {
    match error {
        // Where the file lies is the operator's.
        VaultError::Token(_) => away(credential, "the daemon has no token for it"),
        VaultError::Away(_) | VaultError::Denied => away(credential, &error.to_string()),
        VaultError::Nothing | VaultError::Unfit(_) => unfit(credential, &error.to_string()),
    }
}

fn away(credential: &Credential, why: &str) -> CredentialRefusal {
    CredentialRefusal::VaultAway { name: credential.row.name.clone(), why: why.to_owned() }
}

fn unfit(credential: &Credential, why: &str) -> CredentialRefusal {
    CredentialRefusal::NotInVault { name: credential.row.name.clone(), why: why.to_owned() }
}

fn wrong(message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint).with_pointer("/vault")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_prefix_names_the_organization_between_slashes_and_below_a_mount() {
        for text in ["kv/{organization}/", "kv/tenants/{organization}/toolgate/"] {
            assert!(ReferencePrefix::parse(text).is_some(), "{text}");
        }
        for text in [
            "",
            "kv/tenants/",
            "{organization}/",
            "/{organization}/",
            "kv/{organization}",
            "kv/of-{organization}/",
            "kv/{organization}-x/",
            "kv/{organization}//",
            "kv/../{organization}/",
            "kv//{organization}/",
            "kv/{organization}/{organization}/",
            "kv/%2e/{organization}/",
        ] {
            assert!(ReferencePrefix::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn an_organization_names_places_of_its_own_and_no_other() {
        let prefix = ReferencePrefix::parse("kv/tenants/{organization}/").unwrap();
        let place = |text: &str| prefix.place(&name("acme"), text);
        assert_eq!(place("kv/tenants/acme/a/b#key").unwrap().path, "tenants/acme/a/b");
        let long = format!("kv/tenants/acme/{}#key", "a".repeat(REFERENCE_BYTES));
        for text in [
            "kv/tenants/rival/stripe#key",
            "kv/tenants/acme2/stripe#key",
            "kv/tenants/acme#key",
            "kv/tenants/acme/#key",
            "kv/tenants/acme/../rival/stripe#key",
            "kv/tenants/acme/%2e%2e/rival#key",
            "kv/tenants/acme//stripe#key",
            "kv/tenants/acme/stripe",
            "kv/tenants/acme/stripe#",
            "kv/tenants/acme/stripe#a b",
            "kv/tenants/acme/stripe#a\n",
            "kv/tenants/acme/str\u{0}ipe#key",
            "KV/tenants/acme/stripe#key",
            "kv/root#key",
            &long,
        ] {
            let error = place(text).expect_err(text);
            assert_eq!(error.error_type, ErrorType::InvalidRequest);
            assert!(error.hint.contains("MOUNT/PATH#FIELD") || error.hint.contains("`kv/tenants/acme/`"));
        }
    }
}
