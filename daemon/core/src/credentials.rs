//! The credential store: secrets of organizations and their users, encrypted on disk and in memory.
//!
//! [`Credentials::for_request`] is the only way to a secret: outgoing HTTP calls it for each request of a call that may use
//! credentials. A secret is decrypted while a request needs it, and zeroized afterwards; otherwise memory holds ciphertexts
//! and the root key. Types with a secret implement neither `Debug` nor `Clone` nor `Serialize`.
//!
//! - `request`: validation of a write. `document`, `snapshot`: the public part of a credential, and all credentials in
//!   memory.
//! - `envelope`: encryption. `root_key`, `root_key_source`, `keyring`: the root key, its sources, unsealing and rotation.
//! - `vault`, `vault_references`: the client of a vault, and secrets that stay in one.
//! - `oauth`, `authorization`, `refresh`: OAuth2 requests, the authorization code flow, and refreshes of tokens. `discovery`:
//!   authorization servers of services.
//! - `change`: writes. `injection`: the header or query parameter of a request.
//!
//! Without a root key the daemon is sealed: it serves calls that need no secret, and no integration counts as connected.

mod authorization;
mod change;
mod discovery;
mod document;
mod envelope;
mod injection;
mod keyring;
mod oauth;
mod password_file;
mod token_response;
mod refresh;
mod request;
mod root_key;
mod root_key_source;
mod snapshot;
mod vault;
mod vault_references;
mod webhook_secrets;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use snapshot::{CredentialSnapshot, Keys};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{
    CallAccess, CredentialOwner, CredentialRights, NoCredential, Unusable, choose_credential,
};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::network::{NetworkScheme, Target};
use toolgate_audit::Audit;
use toolgate_macros::boxed;
use toolgate_sandbox::{CredentialsForRequest, Injection};
use toolgate_state::config::SecretFolders;
use toolgate_state::keys::envelope::EnvelopeError;
use toolgate_state::store::{CredentialUse, Store, StoreError};

use crate::registry::Registry;

pub use authorization::{AuthorizationLink, PendingFlow};
pub use change::NewCredential;
pub use discovery::{SignInMetadata, fetch_issuer_keys, fetch_sign_in_metadata, fetch_with_token};
pub use document::{Authentication, CredentialDocument, OauthClient};
pub use injection::{SECRET_BYTES, inject, is_sendable};
pub use keyring::RootRotation;
pub use oauth::{
    DeviceTokens, TokenClient, TokenClientError, TokenResponseFuture, authorization_url_with,
    authorize_device, exchange_code, exchange_device_code, token_client,
};
pub use password_file::read_password;
pub use request::{new_credential, rotated_secret};
pub use root_key::{InvalidRootKey, RootKey};
pub use root_key_source::{RootKeySource, SourceError};
pub use snapshot::{Credential, State};
pub use token_response::{DeviceAuthorization, TokenFailure, Tokens};
pub use vault::Vault;
pub use vault_references::VaultReferences;

/// Most secrets that are searched for in a response, and their total bytes: far more than calls commonly may use. Each costs
/// time per response byte, and twenty times its size in memory.
const SCANNED_SECRETS: usize = 64;
const SCANNED_BYTES: usize = 64 * 1024;

/// Longest wait of the background task, since the system clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The credential store. Cheap to clone.
#[derive(Clone)]
pub struct Credentials(Arc<Parts>);

struct Parts {
    snapshot: ArcSwap<CredentialSnapshot>,
    store: Store,
    audit: Audit,
    registry: Registry,
    source: RootKeySource,
    references: Option<VaultReferences>,
    /// The folders of files that they may refer to.
    files: Option<SecretFolders>,
    http: TokenClient,
    redirect_url: String,
    client_metadata_url: Option<String>,
    discoveries: tokio::sync::Semaphore,
    flows: authorization::PendingFlows,
    /// Token requests and reads of a vault, which outlive the calls that needed them.
    tasks: TaskTracker,
    background_refreshes: Arc<tokio::sync::Semaphore>,
    /// Held during a write, so that a secret is stored before the root key that encrypts it can be forgotten.
    writes: tokio::sync::Mutex<()>,
    /// Wakes the background task after a change.
    changed: Notify,
}

/// Settings of the store.
pub struct CredentialSettings {
    /// Records token requests.
    pub audit: Audit,
    pub source: RootKeySource,
    /// The vault that credentials may refer to.
    pub references: Option<VaultReferences>,
    /// The folders of files that credentials may refer to.
    pub files: Option<SecretFolders>,
    pub http: TokenClient,
    /// Redirect URL of the authorization code flow.
    pub redirect_url: String,
    /// URL of the client metadata documents of organizations, if browsers and providers reach the daemon by a known URL.
    pub client_metadata_url: Option<String>,
}

/// A request that may need a credential.
#[derive(Clone, Copy, Debug)]
pub struct CredentialRequest<'a> {
    pub organization: &'a Name,
    /// The credentials that the call may use.
    pub rights: CredentialRights<'a>,
    pub target: &'a Target,
}

/// Why a request that needs a credential gets none. The reasons contain nothing that a provider or a vault sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRefusal {
    /// There is no usable credential.
    Missing(NoCredential),
    /// The provider issues no token now.
    ProviderUnavailable { provider: String, why: String },
    /// The vault does not return the secret now.
    VaultUnavailable { name: Name, why: String },
    /// The vault has no such secret, or not a usable one.
    NotInVault { name: Name, why: String },
    /// The file with the secret cannot be read, or has no usable one.
    NotInFile { name: Name, why: String },
    /// The stored secret does not decrypt: the database was changed by another program.
    Damaged { name: Name, why: String },
}

#[boxed]
impl Credentials {
    /// Reads the store, and unseals it if the source has the root key. A sealed store is not an error.
    pub async fn open(
        store: Store,
        registry: Registry,
        settings: CredentialSettings,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let mut snapshot = CredentialSnapshot::new(Keys::Sealed("the daemon is starting".into()));
        snapshot.insert_all(change::parse_rows(store.credentials().await?));
        let credentials = Self(Arc::new(Parts {
            snapshot: ArcSwap::from_pointee(snapshot),
            store,
            audit: settings.audit,
            registry,
            source: settings.source,
            references: settings.references,
            files: settings.files,
            http: settings.http,
            redirect_url: settings.redirect_url,
            client_metadata_url: settings.client_metadata_url,
            discoveries: tokio::sync::Semaphore::new(discovery::DISCOVERIES),
            flows: authorization::PendingFlows::default(),
            tasks: TaskTracker::new(),
            background_refreshes: Arc::new(tokio::sync::Semaphore::new(refresh::BACKGROUND_REFRESHES)),
            writes: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        }));
        credentials.load_root_key(now_ms).await?;
        Ok(credentials)
    }

    /// Returns the secret for a request, and all secrets that its response must not contain. A request over plain HTTP gets
    /// no secret (K4), and neither does one that no credential is bound to.
    pub async fn for_request(
        &self,
        request: &CredentialRequest<'_>,
        now_ms: u64,
    ) -> Result<CredentialsForRequest, CredentialRefusal> {
        let found = match request.target.scheme() {
            NetworkScheme::Https => self.injection(request, now_ms).await?,
            NetworkScheme::Http => None,
        };
        let (injection, is_renewable) = found.unzip();
        // After a possible refresh: the previous token is no longer valid.
        let scan_only = self.secrets_to_scan(request);
        Ok(CredentialsForRequest { injection, is_renewable: is_renewable.unwrap_or(false), scan_only })
    }

    /// The secret of a request, and whether it can be renewed.
    async fn injection(
        &self,
        request: &CredentialRequest<'_>,
        now_ms: u64,
    ) -> Result<Option<(Arc<Injection>, bool)>, CredentialRefusal> {
        loop {
            let snapshot = self.0.snapshot.load_full();
            let Some(chosen) = self.choose(&snapshot, request, now_ms)? else { return Ok(None) };
            let fresh = self.ensure_fresh(chosen, now_ms).await;
            // The refreshed version may be under a root key that only the new snapshot has.
            let snapshot = self.0.snapshot.load_full();
            let current = snapshot.find(&chosen.row.organization, &chosen.row.name);
            // A credential that was replaced meanwhile may be bound to other hosts or owned by another user: choose again.
            let Some(current) = current.filter(|current| current.is_same_revision(chosen)) else { continue };
            fresh?;
            let injection = self.open_injection(&snapshot, current, now_ms).await?;
            current.set_last_used(now_ms);
            return Ok(Some((injection, current.row.refresh_ms.is_some())));
        }
    }

    async fn open_injection(
        &self,
        snapshot: &CredentialSnapshot,
        current: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Injection>, CredentialRefusal> {
        let Keys::Open(keys) = &snapshot.keys else { return Err(sealed_refusal()) };
        let open = || current.open(keys).map_err(|error| damaged_refusal(current, error));
        if current.is_read_elsewhere() {
            // Decrypted first: a changed row must not select a secret in the vault.
            let mut fields = open()?;
            let read = self.vault_secret(current, keys, now_ms).await?;
            fields.given = Some(read.secret);
            return injection::injection(current, fields, Some(read.version)).map(Arc::new);
        }
        current.open_secret.get_or_open(|| injection::injection(current, open()?, None))
    }

    /// Every secret that the call may use for any request and that is stored here, since an API can return in one response
    /// what it received in another request (K2). Nothing is refreshed or counted as used.
    fn secrets_to_scan(&self, request: &CredentialRequest<'_>) -> Vec<Arc<Injection>> {
        let snapshot = self.0.snapshot.load();
        let Keys::Open(keys) = &snapshot.keys else { return Vec::new() };
        let host = request.target.host().to_string();
        let mut found = snapshot.accessible(request.organization, request.rights.user);
        found.retain(|credential| {
            request.rights.may_use(&credential.document.provider, &credential.owner)
                && !credential.is_read_elsewhere()
        });
        // Credentials that are bound to this host come first, in case of too many.
        found.sort_by_key(|credential| credential.document.bound_to.iter().all(|rule| rule.host != host));
        let mut bytes_left = SCANNED_BYTES;
        let fits = |credential: &&Arc<Credential>| {
            let left = bytes_left.checked_sub(credential.sealed.secret.len());
            bytes_left = left.unwrap_or(bytes_left);
            left.is_some()
        };
        let open = |credential: &Arc<Credential>| {
            let open =
                || injection::injection(credential, credential.open(keys).map_err(drop)?, None).map_err(drop);
            credential.open_secret.get_or_open(open).ok()
        };
        found.into_iter().filter(fits).take(SCANNED_SECRETS).filter_map(open).collect()
    }

    fn choose<'a>(
        &self,
        snapshot: &'a CredentialSnapshot,
        request: &CredentialRequest<'_>,
        now_ms: u64,
    ) -> Result<Option<&'a Arc<Credential>>, CredentialRefusal> {
        let found = snapshot.accessible(request.organization, request.rights.user);
        let candidates = snapshot.candidates(&found, now_ms);
        let mut chosen = choose_credential(&request.rights, request.target, &candidates);
        if matches!(chosen, Err(NoCredential::None { .. })) {
            // A provider that the operator declared as connected has its credentials elsewhere.
            let registry = self.0.registry.snapshot();
            let is_stored_here =
                |provider: &&String| !registry.is_declared_connected(request.organization, provider);
            let providers: Vec<String> =
                request.rights.providers.iter().filter(is_stored_here).cloned().collect();
            let rights = CredentialRights { providers: &providers, ..request.rights };
            chosen = choose_credential(&rights, request.target, &candidates);
        }
        let index = chosen.map_err(CredentialRefusal::Missing)?;
        Ok(index.and_then(|index| found.get(index).copied()))
    }

    /// Waits for token requests and reads of a vault in progress.
    pub async fn close(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The reason why the store is sealed; `None` if it is not.
    pub fn sealed_reason(&self) -> Option<Arc<str>> {
        match &self.0.snapshot.load().keys {
            Keys::Open(_) => None,
            Keys::Sealed(reason) => Some(Arc::clone(reason)),
        }
    }

    /// Returns a credential.
    pub fn find(&self, organization: &Name, name: &Name) -> Result<Arc<Credential>, CallError> {
        let snapshot = self.0.snapshot.load();
        snapshot.find(organization, name).cloned().ok_or_else(|| not_found(organization, name))
    }

    /// The credentials of an organization, ordered by name, after the name `after`; at most `limit`.
    pub fn list(&self, organization: &Name, after: Option<&str>, limit: usize) -> Vec<Arc<Credential>> {
        let snapshot = self.0.snapshot.load();
        let is_after =
            |credential: &&Arc<Credential>| after.is_none_or(|after| credential.row.name.as_str() > after);
        snapshot.of(organization).filter(is_after).take(limit).cloned().collect()
    }

    /// The organization's credentials of these providers that are not shared, as `PROVIDER/NAME`.
    pub fn not_shared(&self, organization: &Name, access: &CallAccess) -> Vec<String> {
        let snapshot = self.0.snapshot.load();
        let is_granted = |credential: &&Arc<Credential>| {
            matches!(credential.owner, CredentialOwner::Organization { shared: false })
                && access.credentials().any(|provider| provider == credential.document.provider)
        };
        let own = snapshot.of(organization).filter(is_granted);
        own.map(|credential| format!("{}/{}", credential.document.provider, credential.row.name)).collect()
    }

    /// The current state of a credential, as the HTTP interface shows it.
    pub fn state(&self, credential: &Credential, now_ms: u64) -> &'static str {
        match credential.unusable(&self.0.snapshot.load().keys, now_ms) {
            None => State::Connected.as_str(),
            Some(Unusable::Pending) => State::Pending.as_str(),
            Some(Unusable::Expired) => State::Expired.as_str(),
            Some(Unusable::Revoked) => State::Revoked.as_str(),
            Some(Unusable::Sealed) => "sealed",
        }
    }

    /// The background task: publishes connected integrations when a credential expires, refreshes tokens, and retries to
    /// load the root key of a sealed store.
    pub async fn run_background(self, stop: CancellationToken, clock: impl Fn() -> u64) {
        loop {
            let now_ms = clock();
            self.publish_connected(now_ms).await;
            let snapshot = self.0.snapshot.load_full();
            let times =
                |credential: &Arc<Credential>| [credential.final_expiry_ms(), credential.row.refresh_ms];
            let next_ms = snapshot.all().flat_map(times).flatten().filter(|time| *time > now_ms).min();
            let is_sealed = matches!(snapshot.keys, Keys::Sealed(_));
            drop(snapshot);
            self.background_refresh(now_ms);
            // A file may be mounted late, a vault unavailable for a while.
            if is_sealed && let Err(error) = self.load_root_key(now_ms).await {
                tracing::warn!(%error, "the root keys of the store cannot be read");
            }
            let wait = Duration::from_millis(next_ms.unwrap_or(u64::MAX).saturating_sub(now_ms));
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tokio::time::timeout(wait.min(LONGEST_WAIT), self.0.changed.notified()) => {}
            }
        }
    }

    /// Stores when credentials were last used.
    pub async fn store_last_use(&self) -> Result<(), StoreError> {
        let snapshot = self.0.snapshot.load_full();
        let used = snapshot.all().filter_map(|credential| {
            let last_used_ms = credential.last_used_ms()?;
            let stored_ms = credential.row.last_used_ms.unwrap_or(0);
            let id = credential.row.id.clone();
            (last_used_ms > stored_ms).then_some(CredentialUse { id, last_used_ms })
        });
        let used: Vec<CredentialUse> = used.collect();
        self.0.store.note_credential_use(&used).await
    }

    /// Replaces the snapshot, and publishes the connected integrations of the changed organization.
    fn publish(&self, snapshot: CredentialSnapshot, organization: &Name, now_ms: u64) {
        let connected = snapshot.connected_providers(organization, now_ms);
        self.0.snapshot.store(Arc::new(snapshot));
        self.0.registry.put_credentials(organization, connected);
        self.0.changed.notify_one();
    }

    async fn publish_connected(&self, now_ms: u64) {
        let _writing = self.0.writes.lock().await;
        self.publish_all(&self.0.snapshot.load(), now_ms);
    }

    /// Tells admission which integrations of each organization are connected.
    fn publish_all(&self, snapshot: &CredentialSnapshot, now_ms: u64) {
        for organization in snapshot.organizations() {
            self.0.registry.put_credentials(organization, snapshot.connected_providers(organization, now_ms));
        }
    }
}

fn unusable(document: &CredentialDocument, why: Unusable) -> CredentialRefusal {
    CredentialRefusal::Missing(NoCredential::Unusable { provider: document.provider.clone(), why })
}

fn sealed_refusal() -> CredentialRefusal {
    CredentialRefusal::Missing(NoCredential::Unusable { provider: String::new(), why: Unusable::Sealed })
}

fn damaged_refusal(credential: &Credential, error: EnvelopeError) -> CredentialRefusal {
    let name = credential.row.name.clone();
    tracing::error!(organization = %credential.row.organization, credential = %name, %error, "a secret cannot be decrypted");
    CredentialRefusal::Damaged { name, why: error.to_string() }
}

/// INVARIANT: the same text as the store's.
fn not_found(organization: &Name, name: &Name) -> CallError {
    StoreError::not_found(format!("credential `{organization}/{name}`")).into()
}

impl From<CredentialRefusal> for CallError {
    fn from(refusal: CredentialRefusal) -> Self {
        match refusal {
            CredentialRefusal::Missing(missing) => missing.into(),
            CredentialRefusal::ProviderUnavailable { provider, why } => Self::new(
                ErrorType::ApiUnavailable,
                format!("the provider `{provider}` issues no token: {why}"),
                "try again later; if the error persists, check the credential's URLs",
            ),
            CredentialRefusal::VaultUnavailable { name, why } => Self::new(
                ErrorType::Unavailable,
                format!("the vault does not give the secret of the credential `{name}`: {why}"),
                "try again later; if the error persists, let the operator check the vault and the daemon's log",
            ),
            CredentialRefusal::NotInVault { name, why } => Self::new(
                ErrorType::CredentialMissing,
                format!("the vault has no secret for the credential `{name}`: {why}"),
                "store it there, or replace the credential by one whose `vault` has the right path",
            ),
            CredentialRefusal::NotInFile { name, why } => Self::new(
                ErrorType::CredentialMissing,
                format!("the file of the credential `{name}` has no secret: {why}"),
                "let the operator mount it in the organization's folder; it is read again within a second",
            ),
            CredentialRefusal::Damaged { name, why } => Self::new(
                ErrorType::CredentialMissing,
                format!("the credential `{name}` cannot be used: {why}"),
                "store its secret again; the daemon's log has details",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
