//! Credentials in memory, encrypted: an immutable tree together with the root keys, replaced as a whole.
//!
//! Keys and ciphertexts are in one tree, so that a call which loaded it has the keys for all its ciphertexts, also during a
//! rotation. The index by owner makes the cost of a request independent of the number of users.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use toolgate_admission::{CredentialCandidate, CredentialOwner, Unusable};
use toolgate_api::name::Name;
use toolgate_sandbox::Injection;
use toolgate_state::keys::envelope::{EnvelopeError, RootKeyId};
use toolgate_state::store::{CredentialRow, SealedText};

use super::document::CredentialDocument;
use super::envelope::{AssociatedData, SealContext, SealedSecret, SecretFields};
use super::keyring::Keyring;
use super::vault_references::VaultRead;

/// All credentials, and the root keys.
#[derive(Clone)]
pub(super) struct CredentialSnapshot {
    pub keys: Keys,
    organizations: HashMap<Name, Arc<OrgCredentials>>,
}

/// Root keys, or the reason why there are none.
#[derive(Clone)]
pub enum Keys {
    Open(Arc<Keyring>),
    Sealed(Arc<str>),
}

#[derive(Clone, Default)]
struct OrgCredentials {
    by_name: BTreeMap<Name, Arc<Credential>>,
    /// Under `None` those of the organization, under a user those of the user; ordered by name.
    by_owner: HashMap<Option<String>, Vec<Arc<Credential>>>,
}

/// A credential, encrypted.
pub struct Credential {
    pub row: CredentialRow,
    pub document: CredentialDocument,
    pub owner: CredentialOwner,
    pub state: State,
    pub sealed: SealedSecret,
    aad: AssociatedData,
    /// `NAME@VERSION`, for the record of requests.
    pub label: Arc<str>,
    /// `ID@VERSION`, unique among all secrets that ever existed.
    pub identity: Arc<str>,
    pub open_secret: OpenSecretCache,
    /// Shared by all versions of the credential.
    pub shared: Arc<SharedState>,
}

/// Shares a decrypted secret between concurrent requests. The cache has a weak reference: the secret is zeroized with the
/// last request, as soon as if each request had decrypted it.
#[derive(Default)]
pub struct OpenSecretCache(Mutex<Weak<Injection>>);

/// State that all versions of a credential share.
#[derive(Default)]
pub struct SharedState {
    last_used_ms: AtomicU64,
    /// End of the pause after the provider did not respond.
    pub paused_until_ms: AtomicU64,
    /// The version that an API rejected, until its next refresh; zero for none.
    pub rejected_version: AtomicU64,
    /// Time of the last such rejection, in milliseconds since 1970.
    pub rejected_ms: AtomicU64,
    /// Held during a refresh.
    pub refresh_lock: Arc<tokio::sync::Mutex<()>>,
    /// The last read of the vault. Locked during a read.
    pub vault_cache: Arc<tokio::sync::Mutex<Option<VaultRead>>>,
}

/// The stored state of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Connected,
    /// Waits for the user's consent.
    Pending,
    /// The provider refused to refresh it.
    Expired,
    /// The provider rejects the client.
    Revoked,
}

impl State {
    const ALL: [Self; 4] = [Self::Connected, Self::Pending, Self::Expired, Self::Revoked];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Pending => "pending",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl OpenSecretCache {
    /// Returns the secret that other requests use, or decrypts it with `open`.
    pub fn get_or_open<E>(&self, open: impl FnOnce() -> Result<Injection, E>) -> Result<Arc<Injection>, E> {
        let mut cache = self.0.lock();
        if let Some(injection) = cache.upgrade() {
            return Ok(injection);
        }
        let opened = Arc::new(open()?);
        *cache = Arc::downgrade(&opened);
        Ok(opened)
    }
}

impl Credential {
    /// Parses a row; `None` if a later version of the daemon wrote it.
    pub fn parse(row: CredentialRow, shared: Arc<SharedState>) -> Option<Self> {
        let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
        let document: CredentialDocument = serde_json::from_str(&row.document).ok()?;
        shared.last_used_ms.fetch_max(row.last_used_ms.unwrap_or(0), Ordering::Relaxed);
        let root_key = RootKeyId::parse(&row.sealed.root_key)?;
        Some(Self {
            owner: document.owner(),
            state: State::parse(&row.state)?,
            aad: seal_context(&row, &document).associated_data(root_key),
            label: format!("{}@{}", row.name, row.version).into(),
            identity: format!("{}@{}", row.id, row.version).into(),
            open_secret: OpenSecretCache::default(),
            sealed: SealedSecret {
                root_key,
                wrapped_key: bytes(&row.sealed.wrapped_key)?,
                secret: bytes(&row.sealed.secret)?,
            },
            document,
            row,
            shared,
        })
    }

    pub fn seal_context(&self) -> SealContext<'_> {
        seal_context(&self.row, &self.document)
    }

    /// Whether requests use a secret from a vault or a file. For an OAuth2 client, only the client secret is there; requests
    /// use the token, which is stored here.
    pub fn is_read_elsewhere(&self) -> bool {
        self.document.is_kept_elsewhere() && self.document.authentication.client().is_none()
    }

    pub fn open(&self, keys: &Keyring) -> Result<SecretFields, EnvelopeError> {
        let secret = keys.open(&self.aad, &self.sealed)?;
        SecretFields::decode(secret.expose()).ok_or(EnvelopeError::UnknownFormat)
    }

    /// The reason why the credential cannot be used; `None` if it can. A refreshable credential is usable after its expiry.
    pub fn unusable(&self, keys: &Keys, now_ms: u64) -> Option<Unusable> {
        if matches!(keys, Keys::Sealed(_)) {
            return Some(Unusable::Sealed);
        }
        match self.state {
            State::Pending => Some(Unusable::Pending),
            State::Revoked => Some(Unusable::Revoked),
            State::Expired => Some(Unusable::Expired),
            State::Connected if self.final_expiry_ms().is_some_and(|end| end <= now_ms) => {
                Some(Unusable::Expired)
            }
            State::Connected => None,
        }
    }

    /// Expiry that no refresh can postpone.
    pub fn final_expiry_ms(&self) -> Option<u64> {
        if self.row.refresh_ms.is_some() { self.document.expires_ms } else { self.row.expires_ms }
    }

    /// Whether both have the same document and owner. Their tokens may differ.
    pub fn is_same_revision(&self, other: &Self) -> bool {
        (&self.row.id, self.row.revision) == (&other.row.id, other.row.revision)
    }

    /// Whether an API rejected the token of this version.
    pub fn is_rejected(&self) -> bool {
        self.shared.rejected_version.load(Ordering::Relaxed) == self.row.version
    }

    pub fn set_last_used(&self, now_ms: u64) {
        self.shared.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    pub fn last_used_ms(&self) -> Option<u64> {
        Some(self.shared.last_used_ms.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }
}

pub(super) fn seal_context<'a>(row: &'a CredentialRow, document: &'a CredentialDocument) -> SealContext<'a> {
    SealContext {
        organization: row.organization.as_str(),
        id: &row.id,
        name: row.name.as_str(),
        version: row.version,
        user: document.user.as_deref(),
        kind: document.authentication.kind().as_str(),
        document: &row.document,
    }
}

/// Encodes ciphertexts in base64 for the store.
pub(super) fn to_stored(sealed: &SealedSecret) -> SealedText {
    SealedText {
        root_key: sealed.root_key.to_string(),
        wrapped_key: BASE64_STANDARD.encode(&sealed.wrapped_key),
        secret: BASE64_STANDARD.encode(&sealed.secret),
    }
}

/// Decodes ciphertexts of the store; `None` for text that this version does not write.
pub(super) fn from_stored(sealed: &SealedText) -> Option<SealedSecret> {
    let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
    Some(SealedSecret {
        root_key: RootKeyId::parse(&sealed.root_key)?,
        wrapped_key: bytes(&sealed.wrapped_key)?,
        secret: bytes(&sealed.secret)?,
    })
}

impl CredentialSnapshot {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, organizations: HashMap::new() }
    }

    pub(super) fn find(&self, organization: &Name, name: &Name) -> Option<&Arc<Credential>> {
        self.organizations.get(organization)?.by_name.get(name)
    }

    /// The credentials of an organization, ordered by name.
    pub(super) fn of(&self, organization: &Name) -> impl Iterator<Item = &Arc<Credential>> {
        self.organizations.get(organization).into_iter().flat_map(|own| own.by_name.values())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Credential>> {
        self.organizations.values().flat_map(|own| own.by_name.values())
    }

    pub(super) fn organizations(&self) -> impl Iterator<Item = &Name> {
        self.organizations.keys()
    }

    /// The credentials of the organization and of this user.
    pub(super) fn accessible(&self, organization: &Name, user: Option<&str>) -> Vec<&Arc<Credential>> {
        let Some(own) = self.organizations.get(organization) else { return Vec::new() };
        let of = |owner: Option<String>| own.by_owner.get(&owner).into_iter().flatten();
        of(None).chain(user.into_iter().flat_map(|user| of(Some(user.to_owned())))).collect()
    }

    /// The input of [`toolgate_admission::choose_credential`], in the same order.
    pub(super) fn candidates<'a>(
        &self,
        found: &[&'a Arc<Credential>],
        now_ms: u64,
    ) -> Vec<CredentialCandidate<'a>> {
        let candidate = |credential: &&'a Arc<Credential>| CredentialCandidate {
            provider: &credential.document.provider,
            owner: &credential.owner,
            bound_to: &credential.document.bound_to,
            unusable: credential.unusable(&self.keys, now_ms),
        };
        found.iter().map(candidate).collect()
    }

    /// The providers for which the organization or one of its users has a usable credential (G8).
    pub(super) fn connected_providers(&self, organization: &Name, now_ms: u64) -> BTreeSet<String> {
        let is_usable = |credential: &&Arc<Credential>| credential.unusable(&self.keys, now_ms).is_none();
        let usable = self.of(organization).filter(is_usable);
        usable.map(|credential| credential.document.provider.clone()).collect()
    }

    /// Inserts credentials, each in place of the one with its name.
    pub(super) fn insert_all(&mut self, credentials: impl IntoIterator<Item = Arc<Credential>>) {
        let mut changed = BTreeSet::new();
        for credential in credentials {
            let (organization, name) = (credential.row.organization.clone(), credential.row.name.clone());
            let own = self.organizations.entry(organization.clone()).or_default();
            Arc::make_mut(own).by_name.insert(name, credential);
            changed.insert(organization);
        }
        for name in &changed {
            if let Some(own) = self.organizations.get_mut(name) {
                OrgCredentials::index(own);
            }
        }
    }

    pub(super) fn remove(&mut self, organization: &Name, name: &Name) {
        if let Some(own) = self.organizations.get_mut(organization) {
            Arc::make_mut(own).by_name.remove(name);
            OrgCredentials::index(own);
        }
    }

    pub(super) fn remove_organization(&mut self, organization: &Name) {
        self.organizations.remove(organization);
    }
}

impl OrgCredentials {
    fn index(this: &mut Arc<Self>) {
        let own = Arc::make_mut(this);
        own.by_owner.clear();
        for credential in own.by_name.values() {
            let owner = credential.document.user.clone();
            own.by_owner.entry(owner).or_default().push(Arc::clone(credential));
        }
    }
}
