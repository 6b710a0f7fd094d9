//! The credential store: secrets of organizations and their users, sealed on disk and in memory alike.
//!
//! One question leads out of here to a secret: [`Credentials::for_request`], which outgoing HTTP asks for each request
//! of a call that may use any. Everything else takes secrets in and tells what they are for. A secret is open while
//! some request needs it; what lies in memory otherwise is ciphertext and the root key.
//!
//! - `document` and `fields`: what of a credential is shown, and what is secret. `envelope`: how the second is sealed.
//! - `root_key`, `source`, `root_vault`, `keyring`: what opens it, where that comes from, and how it is rotated while calls run.
//! - `vault`, `reference`: how a vault is asked, and the secrets that stay in one.
//! - `connect`, `renew`, `oauth`, `https`: how OAuth2 tokens are come by and kept good.
//! - `shelf`: all of it in memory. `change` and `root` write; `inject` makes of a secret what is put into a request.
//!
//! Without a root key the daemon is sealed: it serves what needs no secret, and no integration counts as connected.

mod change;
mod connect;
mod document;
mod envelope;
mod fields;
mod https;
mod inject;
mod keyring;
mod oauth;
mod reference;
mod renew;
mod root;
mod root_key;
mod root_vault;
mod shelf;
mod source;
mod vault;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{
    CallError, CredentialRights, ErrorType, Name, NetworkScheme, NoCredential, Target, choose_credential,
};
use toolgate_sandbox::{Found, Injection};

pub use change::NewCredential;
pub use connect::{Awaited, Connecting};
pub use document::{Authentication, CredentialDocument, OauthClient};
pub use https::{CaFileError, HttpsSettings, https_client};
pub use inject::{SECRET_BYTES, sendable};
pub use oauth::{TokenAnswer, TokenClient, TokenClientError};
pub use reference::{ReferencePrefix, VaultReferences};
pub use root::RootRotation;
pub use root_key::{NotARootKey, RootKey, RootKeyId};
pub use root_vault::{RootVault, VaultPlace};
pub use shelf::{Credential, State};
pub use source::{RootKeySource, SourceError};
pub use vault::Vault;

use crate::audit::Audit;
use crate::registry::Registry;
use crate::store::{CredentialUse, Store, StoreError};
use envelope::EnvelopeError;
use shelf::{Keys, Shelf};

/// The credential store. Cheap to clone.
#[derive(Clone)]
pub struct Credentials(Arc<Parts>);

struct Parts {
    shelf: ArcSwap<Shelf>,
    store: Store,
    audit: Audit,
    registry: Registry,
    source: RootKeySource,
    references: Option<VaultReferences>,
    http: TokenClient,
    redirect_url: String,
    awaiting: connect::Awaiting,
    /// Renewals and readings from a vault, which outlive the calls that needed them.
    renewals: TaskTracker,
    /// Of those that the daemon makes by itself, so many at once.
    unasked: Arc<tokio::sync::Semaphore>,
    /// Held while something is written: what is sealed under a key is stored before that key can go.
    changing: tokio::sync::Mutex<()>,
    /// Woken when the next end may be another.
    changed: Notify,
}

/// What the store is made with.
pub struct CredentialSettings {
    /// Where it is written down that tokens were asked for.
    pub audit: Audit,
    /// Where the root key comes from.
    pub source: RootKeySource,
    /// The vault that credentials may refer to; without one none can.
    pub references: Option<VaultReferences>,
    /// Who sends requests for tokens.
    pub http: TokenClient,
    /// Where providers send people back to.
    pub redirect_url: String,
}

/// What a call wants a credential for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The agent's organization.
    pub organization: &'a Name,
    /// What the call may use.
    pub rights: CredentialRights<'a>,
    /// The request that is about to leave.
    pub target: &'a Target,
}

/// Why a request that was to have a credential has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRefusal {
    /// There is none that can be used.
    Missing(NoCredential),
    /// The provider hands out no token.
    Provider {
        /// The provider.
        provider: String,
        /// Why, in words that hold nothing of its answer.
        why: String,
    },
    /// The vault that keeps the secret does not give it now.
    VaultAway {
        /// The credential.
        name: Name,
        /// Why, in words that hold nothing of its answer.
        why: String,
    },
    /// There is no such secret in the vault.
    NotInVault {
        /// The credential.
        name: Name,
        /// What is there instead, in words that hold nothing of it.
        why: String,
    },
    /// What is stored does not open: it was changed behind the daemon's back.
    Damaged {
        /// The credential.
        name: Name,
        /// What came of opening it.
        why: String,
    },
}

impl Credentials {
    /// Reads what is stored, and opens it where the root key can be had. Sealed otherwise, which is no error.
    pub async fn open(
        store: Store,
        registry: Registry,
        settings: CredentialSettings,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let mut shelf = Shelf::new(Keys::Sealed("the daemon is starting".into()));
        shelf.put_all(change::read_all(store.credentials().await?));
        let credentials = Self(Arc::new(Parts {
            shelf: ArcSwap::from_pointee(shelf),
            store,
            audit: settings.audit,
            registry,
            source: settings.source,
            references: settings.references,
            http: settings.http,
            redirect_url: settings.redirect_url,
            awaiting: connect::Awaiting::default(),
            renewals: TaskTracker::new(),
            unasked: Arc::new(tokio::sync::Semaphore::new(renew::RENEWALS_AT_ONCE)),
            changing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        }));
        credentials.start(now_ms).await?;
        Ok(credentials)
    }

    /// The secret for a request, or none where it goes without, as it does over plain HTTP (K4); and all those that must
    /// not come back to its call.
    pub async fn for_request(&self, wanted: &Wanted<'_>, now_ms: u64) -> Result<Found, CredentialRefusal> {
        let injection = match wanted.target.scheme() {
            NetworkScheme::Https => self.injection(wanted, now_ms).await?,
            NetworkScheme::Http => None,
        };
        // Behind the other, which may have been renewed: its token of before is out of use.
        Ok(Found { watched: self.watched(wanted), injection })
    }

    async fn injection(
        &self,
        wanted: &Wanted<'_>,
        now_ms: u64,
    ) -> Result<Option<Arc<Injection>>, CredentialRefusal> {
        loop {
            let shelf = self.0.shelf.load_full();
            let Some(chosen) = self.choose(&shelf, wanted, now_ms)? else { return Ok(None) };
            let fresh = self.fresh(chosen, now_ms).await;
            // One that was renewed may be under a key that is not in the tree of before.
            let shelf = self.0.shelf.load_full();
            let current = shelf.find(&chosen.row.organization, &chosen.row.name);
            // What was replaced meanwhile may be bound elsewhere now, or be somebody else's: it is chosen anew.
            if let Some(current) = current.filter(|current| current.is_bound_as(chosen)) {
                fresh?;
                let injection = self.injected(&shelf, current, now_ms).await?;
                current.used(now_ms);
                return Ok(Some(injection));
            }
        }
    }

    async fn injected(
        &self,
        shelf: &Shelf,
        current: &Arc<Credential>,
        now_ms: u64,
    ) -> Result<Arc<Injection>, CredentialRefusal> {
        let Keys::Open(keys) = &shelf.keys else { return Err(sealed()) };
        let open = || current.open(keys).map_err(|error| damaged(current, error));
        if current.is_read_from_vault() {
            // Opened first: nothing is read for a row that was changed.
            let mut fields = open()?;
            let referred = self.referred(current, keys, now_ms).await?;
            fields.given = Some(referred.secret);
            return inject::injection(current, fields, Some(referred.version)).map(Arc::new);
        }
        current.in_use.get_or_open(|| inject::injection(current, open()?, None))
    }

    /// The secrets that the call may use for any request, the injected one too, as far as they lie here and can be opened:
    /// an API can show on one page what was sent to another (K2). Nothing is renewed or noted as used for it.
    fn watched(&self, wanted: &Wanted<'_>) -> Vec<Arc<Injection>> {
        let shelf = self.0.shelf.load();
        let Keys::Open(keys) = &shelf.keys else { return Vec::new() };
        let host = wanted.target.host().to_string();
        let mut found = shelf.in_reach(wanted.organization, wanted.rights.user);
        found.retain(|credential| {
            wanted.rights.may_use(&credential.document.provider, &credential.owner)
                && !credential.is_read_from_vault()
        });
        // Where there are too many, those that this host may have seen come first.
        found.sort_by_key(|credential| credential.document.bound_to.iter().all(|rule| rule.host != host));
        let mut bytes_left = WATCHED_BYTES;
        let fits = |credential: &&Arc<Credential>| {
            let left = bytes_left.checked_sub(credential.sealed.secret.len());
            bytes_left = left.unwrap_or(bytes_left);
            left.is_some()
        };
        let open = |credential: &Arc<Credential>| {
            let fields = || credential.open(keys).ok();
            let made = || inject::injection(credential, fields().ok_or(())?, None).map_err(drop);
            credential.in_use.get_or_open(made).ok()
        };
        found.into_iter().filter(fits).take(WATCHED).filter_map(open).collect()
    }

    fn choose<'a>(
        &self,
        shelf: &'a Shelf,
        wanted: &Wanted<'_>,
        now_ms: u64,
    ) -> Result<Option<&'a Arc<Credential>>, CredentialRefusal> {
        let found = shelf.in_reach(wanted.organization, wanted.rights.user);
        let candidates = shelf.candidates(&found, now_ms);
        let chosen = choose_credential(&wanted.rights, wanted.target, &candidates);
        let chosen = match chosen {
            Err(NoCredential::None { .. }) => {
                // What the operator calls connected has its credentials elsewhere.
                let here = self.kept_here(wanted);
                let rights = CredentialRights { providers: &here, ..wanted.rights };
                choose_credential(&rights, wanted.target, &candidates)
            }
            chosen => chosen,
        };
        let index = chosen.map_err(CredentialRefusal::Missing)?;
        Ok(index.and_then(|index| found.get(index).copied()))
    }

    fn kept_here(&self, wanted: &Wanted<'_>) -> Vec<String> {
        let snapshot = self.0.registry.snapshot();
        let elsewhere = |provider: &&String| !snapshot.is_declared_connected(wanted.organization, provider);
        wanted.rights.providers.iter().filter(elsewhere).cloned().collect()
    }

    /// Waits for renewals that are under way.
    pub async fn close(&self) {
        self.0.renewals.close();
        self.0.renewals.wait().await;
    }

    /// Why there is no root key at hand; none where there is one.
    pub fn sealed(&self) -> Option<Arc<str>> {
        match &self.0.shelf.load().keys {
            Keys::Open(_) => None,
            Keys::Sealed(why) => Some(Arc::clone(why)),
        }
    }

    /// One credential.
    pub fn find(&self, organization: &Name, name: &Name) -> Result<Arc<Credential>, CallError> {
        let shelf = self.0.shelf.load();
        shelf.find(organization, name).cloned().ok_or_else(|| not_found(organization, name))
    }

    /// Those of an organization, by name, those after `after`; at most `limit`.
    pub fn list(&self, organization: &Name, after: Option<&str>, limit: usize) -> Vec<Arc<Credential>> {
        let shelf = self.0.shelf.load();
        let behind =
            |credential: &&Arc<Credential>| after.is_none_or(|after| credential.row.name.as_str() > after);
        shelf.of(organization).filter(behind).take(limit).cloned().collect()
    }

    /// How a credential stands now, in one word.
    pub fn state(&self, credential: &Credential, now_ms: u64) -> &'static str {
        use toolgate_admission::Unusable;
        match credential.unusable(&self.0.shelf.load().keys, now_ms) {
            None => State::Connected.as_str(),
            Some(Unusable::Pending) => State::Pending.as_str(),
            Some(Unusable::Expired) => State::Expired.as_str(),
            Some(Unusable::Revoked) => State::Revoked.as_str(),
            Some(Unusable::Sealed) => "sealed",
        }
    }

    /// Tells the gate which integrations are connected, whenever one's time is over, until it is told to stop.
    pub async fn keep(self, stop: CancellationToken, clock: impl Fn() -> u64) {
        loop {
            let now_ms = clock();
            self.tell_all(now_ms).await;
            let shelf = self.0.shelf.load_full();
            let times = |credential: &Arc<Credential>| [credential.ends_ms(), credential.row.refresh_ms];
            let next_ms = shelf.all().flat_map(times).flatten().filter(|time| *time > now_ms).min();
            let is_sealed = matches!(shelf.keys, Keys::Sealed(_));
            drop(shelf);
            self.renew_due(now_ms).await;
            if is_sealed {
                self.look_again(now_ms).await;
            }
            let wait = std::time::Duration::from_millis(next_ms.unwrap_or(u64::MAX).saturating_sub(now_ms));
            if self.pause(&stop, wait.min(LONGEST_WAIT)).await {
                return;
            }
        }
    }

    /// Waits this long, or until something changed; whether it was told to stop.
    async fn pause(&self, stop: &CancellationToken, longest: std::time::Duration) -> bool {
        let woken = async {
            tokio::select! {
                () = stop.cancelled() => true,
                () = self.0.changed.notified() => false,
            }
        };
        tokio::time::timeout(longest, woken).await == Ok(true)
    }

    /// Whether the root key is there by now: a file may be mounted late, a vault away for a while.
    async fn look_again(&self, now_ms: u64) {
        if let Err(error) = self.start(now_ms).await {
            tracing::warn!(%error, "the store does not say which root key it is sealed with");
        }
    }

    /// Writes down when credentials were last used.
    pub async fn note_use(&self) -> Result<(), StoreError> {
        let shelf = self.0.shelf.load_full();
        let used = shelf.all().filter_map(|credential| {
            let last_used_ms = credential.last_used_ms()?;
            let known = credential.row.last_used_ms.unwrap_or(0);
            let id = credential.row.id.clone();
            (last_used_ms > known).then_some(CredentialUse { id, last_used_ms })
        });
        let used: Vec<CredentialUse> = used.collect();
        self.0.store.note_credential_use(&used).await
    }

    /// Puts another tree in place, and what follows from it for one organization.
    fn swap(&self, shelf: Shelf, organization: &Name, now_ms: u64) {
        let connected = shelf.connected(organization, now_ms);
        self.0.shelf.store(Arc::new(shelf));
        self.0.registry.put_credentials(organization, connected);
        self.0.changed.notify_one();
    }

    async fn tell_all(&self, now_ms: u64) {
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        for organization in shelf.organizations() {
            self.0.registry.put_credentials(organization, shelf.connected(organization, now_ms));
        }
    }
}

/// Secrets that are looked for in one answer, and their bytes together: far more than a call commonly may use. Each takes
/// time when an answer is read, and twenty times its bytes while it is.
const WATCHED: usize = 64;
const WATCHED_BYTES: usize = 64 * 1024;

/// The clock may be set while the daemon waits for the end of a credential.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

fn sealed() -> CredentialRefusal {
    CredentialRefusal::Missing(NoCredential::Unusable {
        provider: String::new(),
        why: toolgate_admission::Unusable::Sealed,
    })
}

fn damaged(credential: &Credential, error: EnvelopeError) -> CredentialRefusal {
    let name = credential.row.name.clone();
    tracing::error!(organization = %credential.row.organization, credential = %name, %error, "a secret does not open");
    CredentialRefusal::Damaged { name, why: error.to_string() }
}

/// INVARIANT: worded as the store words it.
fn not_found(organization: &Name, name: &Name) -> CallError {
    StoreError::not_found(format!("credential `{organization}/{name}`")).into()
}

impl From<CredentialRefusal> for CallError {
    fn from(refused: CredentialRefusal) -> Self {
        match refused {
            CredentialRefusal::Missing(missing) => missing.into(),
            CredentialRefusal::Provider { provider, why } => Self::new(
                ErrorType::ApiUnavailable,
                format!("no token of `{provider}` is to be had: {why}"),
                "try again later; if it stays so, look at the credential's addresses",
            ),
            CredentialRefusal::VaultAway { name, why } => Self::new(
                ErrorType::Unavailable,
                format!("the vault does not give the secret of the credential `{name}`: {why}"),
                "try again later; if it stays so, let the operator look at the vault and the daemon's log",
            ),
            CredentialRefusal::NotInVault { name, why } => Self::new(
                ErrorType::CredentialMissing,
                format!("the vault has no secret for the credential `{name}`: {why}"),
                "put it there, or replace the credential by one whose `vault` names where it is",
            ),
            CredentialRefusal::Damaged { name, why } => Self::new(
                ErrorType::CredentialMissing,
                format!("the credential `{name}` cannot be used: {why}"),
                "store its secret anew; the daemon's log says more",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
