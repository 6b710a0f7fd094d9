//! Credentials in memory, still sealed: one immutable tree beside the keys that open it, swapped whole.
//!
//! Keys and ciphertexts are in the same tree, so that a call which took it has the keys for what is in it, whatever a
//! rotation does meanwhile. A request of a call looks through those of the organization and those of its user alone,
//! however many users there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use toolgate_admission::{CredentialCandidate, CredentialOwner, Name, Unusable};
use toolgate_sandbox::Injection;

use super::document::CredentialDocument;
use super::envelope::{Bound, EnvelopeError, Place, Sealed};
use super::fields::SecretFields;
use super::keyring::Keyring;
use super::reference::Heard;
use super::root_key::RootKeyId;
use crate::store::{CredentialRow, SealedText};

/// Everything that a request of a call looks at.
#[derive(Clone)]
pub struct Shelf {
    pub keys: Keys,
    organizations: HashMap<Name, Arc<Holdings>>,
}

/// Whether there is a root key.
#[derive(Clone)]
pub enum Keys {
    Open(Arc<Keyring>),
    /// There is none at hand, for this reason.
    Sealed(Arc<str>),
}

/// The credentials of one organization.
#[derive(Clone, Default)]
struct Holdings {
    by_name: BTreeMap<Name, Arc<Credential>>,
    /// The organization's own under none, each user's under theirs; by name within.
    by_owner: HashMap<Option<String>, Vec<Arc<Credential>>>,
}

/// A credential, sealed.
pub struct Credential {
    pub row: CredentialRow,
    pub document: CredentialDocument,
    pub owner: CredentialOwner,
    pub state: State,
    pub sealed: Sealed,
    bound: Bound,
    /// What its requests are recorded with: its name, and which of its secrets.
    pub label: Arc<str>,
    /// Which secret it is, of all that ever were.
    pub identity: Arc<str>,
    /// Opened, while requests with it are under way.
    pub in_use: InUse,
    /// Shared by all versions of it.
    pub shared: Arc<Shared>,
}

/// What the requests of a credential share that are under way at the same time. Whoever ends last wipes it, so that a
/// secret lies open no longer than if each request had opened it for itself.
#[derive(Default)]
pub struct InUse(Mutex<Weak<Injection>>);

impl InUse {
    /// What others use right now, or else what `open` makes.
    pub fn get_or_open<E>(&self, open: impl FnOnce() -> Result<Injection, E>) -> Result<Arc<Injection>, E> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(injection) = shared.upgrade() {
            return Ok(injection);
        }
        let opened = Arc::new(open()?);
        *shared = Arc::downgrade(&opened);
        Ok(opened)
    }
}

/// What the versions of a credential have in common.
#[derive(Default)]
pub struct Shared {
    last_used_ms: AtomicU64,
    /// Until when its provider is left alone, after it did not answer.
    pub paused_until_ms: AtomicU64,
    /// The version of it that an API did not take, until it is renewed for that; none is zero.
    pub refused_version: AtomicU64,
    /// When that was last noted, in milliseconds since 1970.
    pub refused_ms: AtomicU64,
    /// Held while it is renewed: one at a time.
    pub renewing: Arc<tokio::sync::Mutex<()>>,
    /// What a vault said last of its secret. Held while the vault is asked: one at a time.
    pub heard: Arc<tokio::sync::Mutex<Option<Heard>>>,
}

/// What is stored of how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can be used.
    Connected,
    /// Nobody has said yes yet.
    Pending,
    /// Its provider renews it no longer.
    Expired,
    /// Its provider takes it no longer.
    Revoked,
}

impl State {
    const ALL: [Self; 4] = [Self::Connected, Self::Pending, Self::Expired, Self::Revoked];

    /// As it is stored and shown.
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

impl Credential {
    /// What a row says; none where this version of the daemon does not understand it.
    pub fn read(row: CredentialRow, shared: Arc<Shared>) -> Option<Self> {
        let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
        let document: CredentialDocument = serde_json::from_str(&row.document).ok()?;
        shared.last_used_ms.fetch_max(row.last_used_ms.unwrap_or(0), Ordering::Relaxed);
        let root_key = RootKeyId::parse(&row.sealed.root_key)?;
        Some(Self {
            owner: document.owner(),
            state: State::parse(&row.state)?,
            bound: place_of(&row, &document).bind(root_key),
            label: format!("{}@{}", row.name, row.version).into(),
            identity: format!("{}@{}", row.id, row.version).into(),
            in_use: InUse::default(),
            sealed: Sealed {
                root_key,
                wrapped_key: bytes(&row.sealed.wrapped_key)?,
                secret: bytes(&row.sealed.secret)?,
            },
            document,
            row,
            shared,
        })
    }

    /// What its secret is bound to.
    pub fn place(&self) -> Place<'_> {
        place_of(&self.row, &self.document)
    }

    /// Whether what its requests have is read from a vault. A client's secret is for its provider alone: its requests have
    /// the token, which lies here.
    pub fn is_read_from_vault(&self) -> bool {
        self.document.vault.is_some() && self.document.authentication.client().is_none()
    }

    /// Its secret.
    pub fn open(&self, keys: &Keyring) -> Result<SecretFields, EnvelopeError> {
        let secret = keys.open(&self.bound, &self.sealed)?;
        SecretFields::decode(secret.expose()).ok_or(EnvelopeError::UnknownFormat)
    }

    /// Why it cannot be used; none where it can. One that can be renewed is good beyond its time.
    pub fn unusable(&self, keys: &Keys, now_ms: u64) -> Option<Unusable> {
        if matches!(keys, Keys::Sealed(_)) {
            return Some(Unusable::Sealed);
        }
        match self.state {
            State::Pending => Some(Unusable::Pending),
            State::Revoked => Some(Unusable::Revoked),
            State::Expired => Some(Unusable::Expired),
            State::Connected if self.ends_ms().is_some_and(|end| end <= now_ms) => Some(Unusable::Expired),
            State::Connected => None,
        }
    }

    /// When it ends by itself; none where it does not or is renewed before.
    pub fn ends_ms(&self) -> Option<u64> {
        if self.row.refresh_ms.is_some() { self.document.expires_ms } else { self.row.expires_ms }
    }

    /// Whether it is the other, as it was written then: bound to the same, of the same owner. Its tokens may be newer.
    pub fn is_bound_as(&self, other: &Self) -> bool {
        (&self.row.id, self.row.revision) == (&other.row.id, other.row.revision)
    }

    /// Whether an API did not take this version of it.
    pub fn is_refused(&self) -> bool {
        self.shared.refused_version.load(Ordering::Relaxed) == self.row.version
    }

    pub fn used(&self, now_ms: u64) {
        self.shared.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    pub fn last_used_ms(&self) -> Option<u64> {
        Some(self.shared.last_used_ms.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    fn candidate(&self, keys: &Keys, now_ms: u64) -> CredentialCandidate<'_> {
        CredentialCandidate {
            provider: &self.document.provider,
            owner: &self.owner,
            bound_to: &self.document.bound_to,
            unusable: self.unusable(keys, now_ms),
        }
    }
}

/// What the secret of a row is bound to.
pub fn place_of<'a>(row: &'a CredentialRow, document: &'a CredentialDocument) -> Place<'a> {
    Place {
        organization: row.organization.as_str(),
        id: &row.id,
        name: row.name.as_str(),
        version: row.version,
        user: document.user.as_deref(),
        kind: document.authentication.kind(),
        document: &row.document,
    }
}

/// Ciphertexts as the store keeps them.
pub fn as_text(sealed: &Sealed) -> SealedText {
    SealedText {
        root_key: sealed.root_key.to_string(),
        wrapped_key: BASE64_STANDARD.encode(&sealed.wrapped_key),
        secret: BASE64_STANDARD.encode(&sealed.secret),
    }
}

impl Shelf {
    pub fn new(keys: Keys) -> Self {
        Self { keys, organizations: HashMap::new() }
    }

    /// The credential of that name.
    pub fn find(&self, organization: &Name, name: &Name) -> Option<&Arc<Credential>> {
        self.organizations.get(organization)?.by_name.get(name)
    }

    /// Those of an organization, by name.
    pub fn of(&self, organization: &Name) -> impl Iterator<Item = &Arc<Credential>> {
        self.organizations.get(organization).into_iter().flat_map(|holdings| holdings.by_name.values())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Credential>> {
        self.organizations.values().flat_map(|holdings| holdings.by_name.values())
    }

    /// The organizations that have any.
    pub fn organizations(&self) -> impl Iterator<Item = &Name> {
        self.organizations.keys()
    }

    /// Those that a session of this user may meet: the organization's own and the user's.
    pub fn in_reach(&self, organization: &Name, user: Option<&str>) -> Vec<&Arc<Credential>> {
        let Some(holdings) = self.organizations.get(organization) else { return Vec::new() };
        let of = |owner: Option<String>| holdings.by_owner.get(&owner).into_iter().flatten();
        of(None).chain(user.into_iter().flat_map(|user| of(Some(user.to_owned())))).collect()
    }

    /// The same as candidates, in the same order.
    pub fn candidates<'a>(&self, found: &[&'a Arc<Credential>], now_ms: u64) -> Vec<CredentialCandidate<'a>> {
        found.iter().map(|credential| credential.candidate(&self.keys, now_ms)).collect()
    }

    /// The providers that an organization has connected: by a credential of its own or of one of its users that can be
    /// used now (G8).
    pub fn connected(&self, organization: &Name, now_ms: u64) -> BTreeSet<String> {
        let usable =
            self.of(organization).filter(|credential| credential.unusable(&self.keys, now_ms).is_none());
        usable.map(|credential| credential.document.provider.clone()).collect()
    }

    /// Puts a credential in the place of the one of its name.
    pub fn put(&mut self, credential: Arc<Credential>) {
        let (organization, name) = (credential.row.organization.clone(), credential.row.name.clone());
        let holdings = Arc::make_mut(self.organizations.entry(organization).or_default());
        holdings.by_name.insert(name, credential);
        holdings.sort();
    }

    /// Puts many in their places.
    pub fn put_all(&mut self, credentials: Vec<Arc<Credential>>) {
        for credential in credentials {
            let (organization, name) = (credential.row.organization.clone(), credential.row.name.clone());
            let holdings = Arc::make_mut(self.organizations.entry(organization).or_default());
            holdings.by_name.insert(name, credential);
        }
        self.organizations.values_mut().for_each(|holdings| Arc::make_mut(holdings).sort());
    }

    pub fn remove(&mut self, organization: &Name, name: &Name) {
        if let Some(holdings) = self.organizations.get_mut(organization) {
            let holdings = Arc::make_mut(holdings);
            holdings.by_name.remove(name);
            holdings.sort();
        }
    }

    pub fn remove_organization(&mut self, organization: &Name) {
        self.organizations.remove(organization);
    }
}

impl Holdings {
    fn sort(&mut self) {
        self.by_owner.clear();
        for credential in self.by_name.values() {
            let owner = credential.document.user.clone();
            self.by_owner.entry(owner).or_default().push(Arc::clone(credential));
        }
    }
}
