//! Secrets that stay in a vault or in a mounted file: a credential's document has a reference, and the daemon reads the secret when a
//! request needs it.
//!
//! The document is bound to the ciphertext of the credential. So after a change in the database the credential does not
//! decrypt, and the daemon does not read the vault for it. A sealed daemon reads nothing either.
//!
//! The daemon's token can read the secrets of every organization. So the operator sets a prefix that contains the
//! organization's name, and references outside it are refused, when a credential is written and again when its secret is
//! read.
//!
//! A secret is cached in encrypted form for a short time. After that the cache is not used, even if the vault does not
//! respond: removing a secret from the vault takes it from the daemon too.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use tokio::sync::OwnedMutexGuard;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_sandbox::Secret;
use toolgate_state::config::{KvPath, ReferencePrefix, invalid_file, invalid_reference};

use super::envelope::SealedSecret;
use super::injection::is_sendable;
use super::keyring::Keyring;
use super::password_file::read_password;
use super::refresh::advance;
use super::snapshot::{Credential, Keys};
use super::vault::{Vault, VaultError};
use super::{CredentialRefusal, Credentials, damaged_refusal, sealed_refusal};

/// Time before the next read of the same secret after a failure. Retries of calls must not become a request storm, and
/// the fix must show soon.
const RETRY_DELAY_MS: u64 = 5_000;

/// How long a secret of a file is cached.
const FILE_KEPT_MS: u64 = 1_000;

/// The vault that credentials may refer to.
pub struct VaultReferences {
    pub vault: Vault,
    pub prefix: ReferencePrefix,
    /// How long a secret is cached.
    pub kept_ms: u64,
}

/// The cached result of the last read of a vault, success or failure.
pub struct VaultRead {
    /// Version of the credential.
    version: u64,
    /// Validity, in milliseconds since 1970.
    valid_ms: Range<u64>,
    result: Result<CachedSecret, CredentialRefusal>,
}

#[derive(Clone)]
struct CachedSecret {
    sealed: SealedSecret,
    version: u64,
}

/// A secret from a vault, decrypted for one request.
pub(super) struct VaultSecret {
    pub secret: Secret,
    /// Version of the secret in the vault; of a file, when it was changed.
    pub version: u64,
}

impl Credentials {
    /// The file of a reference, if the organization may use it.
    pub(super) fn secret_file(&self, organization: &Name, name: &str) -> Result<PathBuf, CallError> {
        match &self.0.files {
            Some(folders) => folders.file(organization, name),
            None => Err(invalid_file(
                "references to files are not enabled",
                "send `secret`, or let the operator set the folder of references: `credentials.file_references`",
            )),
        }
    }

    /// Reads the vault or the file, without the cache.
    pub(super) async fn read_secret_elsewhere(
        &self,
        credential: &Credential,
    ) -> Result<VaultSecret, CredentialRefusal> {
        let Some(name) = &credential.document.file else { return self.read_vault_secret(credential).await };
        let row = &credential.row;
        let refused = |why: String| {
            tracing::warn!(organization = %row.organization, credential = %row.name, why, "a file with a secret is not used");
            CredentialRefusal::NotInFile { name: row.name.clone(), why }
        };
        let file = self.secret_file(&row.organization, name).map_err(|error| refused(error.message))?;
        let folder = self.0.files.as_ref().map(|folders| folders.of(&row.organization)).unwrap_or_default();
        let read = tokio::task::spawn_blocking(move || read_file(&folder, &file)).await;
        let (secret, version) =
            read.map_err(|error| refused(error.to_string()))?.map_err(|error| refused(error.to_string()))?;
        match is_sendable(secret.expose()) {
            true => Ok(VaultSecret { secret, version }),
            false => Err(refused(
                "it is empty, too long, or has characters that a header cannot contain".to_owned(),
            )),
        }
    }

    /// Parses a reference, and checks that the organization may use it.
    pub(super) fn parse_reference(&self, organization: &Name, reference: &str) -> Result<KvPath, CallError> {
        match &self.0.references {
            Some(references) => references.prefix.parse_reference(organization, reference),
            None => Err(invalid_reference(
                "references into a vault are not enabled",
                "send `secret`, or let the operator set the prefix of references: `credentials.vault_references`",
            )),
        }
    }

    /// The secret of a credential, from the cache or from the vault.
    pub(super) async fn vault_secret(
        &self,
        credential: &Arc<Credential>,
        keys: &Keyring,
        now_ms: u64,
    ) -> Result<VaultSecret, CredentialRefusal> {
        let started = Instant::now();
        let cache = Arc::clone(&credential.shared.vault_cache).lock_owned().await;
        // A read that another request made during the wait began after this request, so its result is fresh enough.
        if let Some(result) = cache.as_ref().and_then(|read| read.result_for(credential, keys, now_ms)) {
            return result;
        }
        let now_ms = advance(now_ms, started);
        // In a task of its own, so that it completes although the call times out: if the vault hangs, all waiting calls
        // share one request.
        let reading = {
            let (credentials, credential) = (self.clone(), Arc::clone(credential));
            self.0.tasks.spawn(async move { credentials.read_into(cache, &credential, now_ms).await })
        };
        reading.await.unwrap_or_else(|_| Err(unavailable(credential, "the read was aborted")))
    }

    async fn read_into(
        &self,
        mut cache: OwnedMutexGuard<Option<VaultRead>>,
        credential: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<VaultSecret, CredentialRefusal> {
        let snapshot = self.0.snapshot.load_full();
        let Keys::Open(keys) = &snapshot.keys else { return Err(sealed_refusal()) };
        let started = Instant::now();
        let read = self.read_secret_elsewhere(credential).await;
        let result = match &read {
            Ok(read) => match keys.seal(&credential.seal_context(), read.secret.expose()) {
                Ok(sealed) => Ok(CachedSecret { sealed, version: read.version }),
                Err(error) => Err(damaged_refusal(credential, error)),
            },
            Err(refusal) => Err(refusal.clone()),
        };
        let kept_ms = match &result {
            Ok(_) if credential.document.file.is_some() => FILE_KEPT_MS,
            Ok(_) => self.0.references.as_ref().map_or(0, |references| references.kept_ms),
            Err(_) => RETRY_DELAY_MS,
        };
        // Valid from the beginning of the read, for requests that arrived meanwhile, and until `kept_ms` after its end.
        let valid_ms = now_ms..advance(now_ms, started).saturating_add(kept_ms);
        *cache = Some(VaultRead { version: credential.row.version, valid_ms, result });
        read
    }

    async fn read_vault_secret(&self, credential: &Credential) -> Result<VaultSecret, CredentialRefusal> {
        let (row, reference) = (&credential.row, credential.document.vault.as_deref());
        let path = self.parse_reference(&row.organization, reference.unwrap_or_default());
        let path = path.map_err(|error| not_in_vault(credential, &error.message))?;
        let Some(references) = &self.0.references else {
            return Err(not_in_vault(credential, "no vault is configured"));
        };
        let value = references.vault.read_kv(&path).await.map_err(|error| {
            tracing::warn!(organization = %row.organization, credential = %row.name, %error, "reading a secret from the vault failed");
            refusal_of(credential, &error)
        })?;
        let secret = Secret::new(value.text.0.as_bytes().to_vec());
        if !is_sendable(secret.expose()) {
            let why = "it is empty, too long, or has characters that a header cannot contain";
            return Err(not_in_vault(credential, why));
        }
        Ok(VaultSecret { secret, version: value.version })
    }
}

impl VaultRead {
    /// `None` if it has expired, is of another version, or is encrypted under a root key that is gone.
    fn result_for(
        &self,
        credential: &Credential,
        keys: &Keyring,
        now_ms: u64,
    ) -> Option<Result<VaultSecret, CredentialRefusal>> {
        if self.version != credential.row.version || !self.valid_ms.contains(&now_ms) {
            return None;
        }
        match &self.result {
            Ok(CachedSecret { sealed, version }) => {
                let aad = credential.seal_context().associated_data(sealed.root_key);
                let secret = keys.open(&aad, sealed).ok()?;
                Some(Ok(VaultSecret { secret, version: *version }))
            }
            Err(refusal) => Some(Err(refusal.clone())),
        }
    }
}

/// Reads a file with a secret, and when it was changed. A link may lead to a file of the folder, as those of a mounted volume of
/// Kubernetes do, and not out of it.
fn read_file(folder: &Path, file: &Path) -> io::Result<(Secret, u64)> {
    let file = file.canonicalize()?;
    if !file.starts_with(folder.canonicalize()?) {
        return Err(io::Error::other("it is a link that leads out of the organization's folder"));
    }
    let changed = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((read_password(&file)?, u64::try_from(changed.as_millis()).unwrap_or(u64::MAX)))
}

fn refusal_of(credential: &Credential, error: &VaultError) -> CredentialRefusal {
    match error {
        // The path of the token file is for the operator only.
        VaultError::Token(_) => unavailable(credential, "the daemon has no token for it"),
        VaultError::Unavailable(_) | VaultError::Forbidden => unavailable(credential, &error.to_string()),
        VaultError::NotFound | VaultError::Unexpected(_) => not_in_vault(credential, &error.to_string()),
    }
}

fn unavailable(credential: &Credential, why: &str) -> CredentialRefusal {
    CredentialRefusal::VaultUnavailable { name: credential.row.name.clone(), why: why.to_owned() }
}

fn not_in_vault(credential: &Credential, why: &str) -> CredentialRefusal {
    CredentialRefusal::NotInVault { name: credential.row.name.clone(), why: why.to_owned() }
}
