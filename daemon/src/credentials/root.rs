//! The root key over time: found at the start, brought by an operator, rotated while calls run.
//!
//! A rotation has four steps, each of which can be the last before the daemon is killed: both keys are stored, each under
//! the other; data keys are wrapped anew, some at a time; the new key is put where starts find it; the old one is
//! forgotten. What is left is done by the next start, or by asking for the rotation again.

use std::sync::Arc;

use toolgate_admission::{CallError, ErrorType};

use super::Credentials;
use super::change::{open_keys, unsealable};
use super::keyring::{Brought, Keyring, KnownKeys};
use super::root_key::RootKey;
use super::shelf::{Credential, Keys, Shelf, as_text};
use crate::store::{CredentialRow, StoreError};

/// Data keys that are wrapped anew at once: a change of a credential waits no longer than for these.
const REWRAPPED_AT_ONCE: usize = 200;

/// What became of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootRotation {
    /// The id of the key that serves now.
    pub serving: String,
    /// How many secrets were wrapped anew.
    pub rewrapped: usize,
    /// The id of the key before, which still opens everything; none where it is forgotten.
    pub going: Option<String>,
}

impl Credentials {
    /// Takes the key that the source gives; makes one where nothing was ever sealed and the source is the daemon's own.
    pub(super) async fn start(&self, now_ms: u64) -> Result<(), StoreError> {
        let is_new = self.0.store.root_keys().await?.is_empty();
        let found = match self.0.source.read().await {
            Ok(None) if is_new => self.first_key().await.map_err(|error| error.message),
            Ok(None) => Err(format!("the root key of this store is not in {}", self.0.source.place())),
            Ok(Some(key)) => Ok(key),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Err(why) => self.seal(&why).await,
            Ok(key) => {
                if let Err(error) = self.take(key, now_ms).await {
                    self.seal(&error.message).await;
                } else if let Err(error) = self.go_on(now_ms).await {
                    tracing::warn!(%error.message, "the rotation of the root key is not finished");
                }
            }
        }
        Ok(())
    }

    async fn first_key(&self) -> Result<RootKey, CallError> {
        let key = RootKey::generate().map_err(|error| unavailable(error.to_string()))?;
        self.0.source.write(&key).await.map_err(|error| unavailable(error.to_string()))?;
        Ok(key)
    }

    /// Notes why there is no root key. One that somebody brought meanwhile stays.
    async fn seal(&self, why: &str) {
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        match &shelf.keys {
            Keys::Open(_) => return,
            Keys::Sealed(known) if **known == *why => return,
            Keys::Sealed(_) => {}
        }
        tracing::warn!(why, "sealed: there is no root key, so no credential can be used");
        let mut next = Shelf::clone(&shelf);
        next.keys = Keys::Sealed(why.into());
        self.0.shelf.store(Arc::new(next));
    }

    /// Opens a sealed store with the key that an operator brings.
    pub async fn unseal(&self, key: RootKey, now_ms: u64) -> Result<(), CallError> {
        self.take(key, now_ms).await?;
        tracing::info!("the credential store is open");
        self.go_on(now_ms).await.map(drop)
    }

    async fn take(&self, key: RootKey, now_ms: u64) -> Result<(), CallError> {
        let _turn = self.0.changing.lock().await;
        // Read in its turn: a rotation before it may have forgotten this very key.
        let known = self.known().await?;
        let id = key.id();
        let keyring = match known.judge(key).map_err(unsealable)? {
            Brought::Opens(keyring) => keyring,
            Brought::First(keyring) => {
                self.0.store.serve_root_key(&id.to_string(), &[], now_ms).await?;
                keyring
            }
            Brought::Stranger => return Err(stranger(&known)),
        };
        self.hold(keyring, now_ms);
        Ok(())
    }

    /// Rotates to the key that is given, to one that the source gives now, or to a new one where the source is ours.
    pub async fn rotate_root(&self, given: Option<RootKey>, now_ms: u64) -> Result<RootRotation, CallError> {
        let was_rotating = open_keys(&self.0.shelf.load())?.going.is_some();
        let before = self.go_on(now_ms).await?;
        // Asked for the very rotation that was under way: its end was all that was left to do.
        let same = given.as_ref().is_none_or(|key| key.id().to_string() == before.serving);
        match (was_rotating && same, &before.going) {
            (true, _) => return Ok(before),
            (false, Some(_)) => return Err(self.not_finished()),
            (false, None) => {}
        }
        let turn = self.0.changing.lock().await;
        let keys = open_keys(&self.0.shelf.load())?;
        // Another that was asked for at the same time: a third key would push out the one that everything is under.
        if keys.going.is_some() {
            return Err(CallError::new(
                ErrorType::Conflict,
                "another rotation of the root key is under way",
                "ask again in a moment",
            ));
        }
        let next = self.next_key(given, &keys).await?;
        let id = next.id().to_string();
        let (keyring, wraps) = keys.rotating_to(next).map_err(unsealable)?;
        self.0.store.serve_root_key(&id, &wraps, now_ms).await?;
        self.hold(keyring, now_ms);
        drop(turn);
        self.go_on(now_ms).await
    }

    async fn next_key(&self, given: Option<RootKey>, keys: &Keyring) -> Result<RootKey, CallError> {
        let next = match given {
            Some(key) => key,
            None if self.0.source.is_ours() => {
                RootKey::generate().map_err(|error| unavailable(error.to_string()))?
            }
            None => {
                let found = self.0.source.read().await.map_err(|error| unavailable(error.to_string()))?;
                found.ok_or_else(|| {
                    unavailable(format!("there is no root key in {}", self.0.source.place()))
                })?
            }
        };
        if next.id() != keys.serving.id() {
            return Ok(next);
        }
        Err(CallError::new(
            ErrorType::Conflict,
            format!("that root key serves already, and {} holds no other", self.0.source.place()),
            "put the new key there, or send it as `key`",
        ))
    }

    /// Does what is left of a rotation: wraps every data key anew, puts the new key in its place, forgets the old one.
    async fn go_on(&self, now_ms: u64) -> Result<RootRotation, CallError> {
        let mut rewrapped = 0;
        while let done @ 1.. = self.rewrap_some().await? {
            rewrapped += done;
        }
        let _turn = self.0.changing.lock().await;
        let keys = open_keys(&self.0.shelf.load())?;
        let serving = keys.serving.id().to_string();
        let Some(going) = &keys.going else { return Ok(RootRotation { serving, rewrapped, going: None }) };
        let id = going.id();
        self.0.source.write(&keys.serving).await.map_err(|error| unavailable(error.to_string()))?;
        // As long as starts find the old key, it must open the new one.
        let may_be_found = match self.0.source.read().await {
            Ok(found) => found.is_some_and(|found| found.id() == id),
            // What cannot be read now may be the old one.
            Err(_) => true,
        };
        if may_be_found {
            tracing::warn!(
                place = self.0.source.place(),
                "the root key there is the old one, or cannot be read: put the new one there"
            );
            return Ok(RootRotation { serving, rewrapped, going: Some(id.to_string()) });
        }
        self.0.store.forget_root_key(&id.to_string()).await?;
        self.hold(Keyring { serving: Arc::clone(&keys.serving), going: None }, now_ms);
        Ok(RootRotation { serving, rewrapped, going: None })
    }

    /// Wraps some data keys anew; how many.
    async fn rewrap_some(&self) -> Result<usize, CallError> {
        let _turn = self.0.changing.lock().await;
        let shelf = self.0.shelf.load_full();
        let keys = open_keys(&shelf)?;
        let behind = shelf.all().filter(|credential| credential.sealed.root_key != keys.serving.id());
        let some: Vec<Arc<Credential>> = behind.take(REWRAPPED_AT_ONCE).cloned().collect();
        let rows = some.iter().map(|credential| rewrapped(credential, &keys));
        let rows: Vec<CredentialRow> = rows.collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Ok(0);
        }
        self.0.store.rewrap_credentials(&rows).await?;
        let count = rows.len();
        let read = rows.into_iter().zip(&some);
        let mut next = Shelf::clone(&shelf);
        next.put_all(
            read.filter_map(|(row, before)| Credential::read(row, Arc::clone(&before.shared)).map(Arc::new))
                .collect(),
        );
        self.0.shelf.store(Arc::new(next));
        Ok(count)
    }

    /// Puts keys in force, and with them what they open.
    pub(super) fn hold(&self, keyring: Keyring, now_ms: u64) {
        let mut shelf = Shelf::clone(&self.0.shelf.load());
        shelf.keys = Keys::Open(Arc::new(keyring));
        let shelf = Arc::new(shelf);
        self.0.shelf.store(Arc::clone(&shelf));
        for organization in shelf.organizations() {
            self.0.registry.put_credentials(organization, shelf.connected(organization, now_ms));
        }
        self.0.changed.notify_one();
    }

    async fn known(&self) -> Result<KnownKeys, StoreError> {
        Ok(KnownKeys { keys: self.0.store.root_keys().await?, wraps: self.0.store.root_key_wraps().await? })
    }

    fn not_finished(&self) -> CallError {
        CallError::new(
            ErrorType::Conflict,
            "the rotation before this one is not finished: starts still find the old root key",
            format!("put the key that serves now into {}, then ask again", self.0.source.place()),
        )
    }
}

/// A credential that does not open is a reason to stop: forgetting the old key would lose it for good.
fn rewrapped(credential: &Credential, keys: &Keyring) -> Result<CredentialRow, CallError> {
    let row = credential.row.clone();
    let sealed = keys.rewrap(&credential.place(), &credential.sealed).map_err(|error| {
        CallError::new(
            ErrorType::Conflict,
            format!("the credential `{}/{}` does not open: {error}", row.organization, row.name),
            "store its secret anew or remove it, then rotate again; until then both root keys are kept",
        )
    })?;
    let sealed = sealed.unwrap_or_else(|| credential.sealed.clone());
    Ok(CredentialRow { sealed: as_text(&sealed), ..row })
}

fn stranger(known: &KnownKeys) -> CallError {
    let ids: Vec<String> = known.keys.iter().map(|row| format!("`{}`", row.id)).collect();
    CallError::new(
        ErrorType::InvalidRequest,
        format!("that is not the root key of this store, which is {}", ids.join(" or ")),
        "bring the key that it was sealed with; there is no other way to open it",
    )
}

fn unavailable(message: String) -> CallError {
    CallError::new(ErrorType::Unavailable, message, "see the daemon's log")
}
