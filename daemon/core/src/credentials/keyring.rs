//! The root keys in memory: unsealing, and rotation while calls run.
//!
//! The store knows ids of root keys, never keys: which key serves, and which one is rotated out. During a rotation it has
//! each of the two keys, encrypted under the other. So a start that finds either key has both, wherever the daemon was
//! killed, and the operator may replace the key's file or variable before or after the rotation.
//!
//! A rotation has four steps: store both keys, each encrypted under the other; re-encrypt the data keys in batches; write
//! the new key to the source; forget the old key. After a kill, the next start or the next request for a rotation resumes
//! it.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::keys::envelope::{EnvelopeError, RootKeyId};
use toolgate_state::store::{CredentialRow, RootKeyRow, RootKeyWrap, StoreError};

use super::Credentials;
use super::change::{cannot_open, open_keys};
use super::envelope::{self, AssociatedData, SealContext, SealedSecret};
use super::root_key::RootKey;
use super::snapshot::{Credential, CredentialSnapshot, Keys, to_stored};

/// Data keys that are re-encrypted at once. A write of a credential waits for one batch at most.
pub(super) const REWRAP_BATCH: usize = 200;

/// The root keys in memory.
pub struct Keyring {
    /// Encrypts new secrets.
    pub serving: Arc<RootKey>,
    /// The old key, during a rotation.
    pub previous: Option<Arc<RootKey>>,
}

/// The root keys of the store: ids, and keys encrypted under each other.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownKeys {
    pub keys: Vec<RootKeyRow>,
    pub wraps: Vec<RootKeyWrap>,
}

/// The result of unsealing the store with a key.
pub(super) enum UnsealOutcome {
    /// The store has no root key yet: this becomes the first.
    FirstKey(Keyring),
    /// The key decrypts the store.
    Unsealed(Keyring),
    WrongKey,
}

/// The state of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootRotation {
    /// Id of the key that serves now.
    pub serving: String,
    /// Secrets of credentials and webhooks whose data key was re-encrypted.
    pub rewrapped: usize,
    /// Id of the old key while the store still needs it.
    pub previous: Option<String>,
}

impl Keyring {
    pub fn of(key: RootKey) -> Self {
        Self { serving: Arc::new(key), previous: None }
    }

    /// Decrypts a secret under either key.
    pub fn open(&self, aad: &AssociatedData, sealed: &SealedSecret) -> Result<Secret, EnvelopeError> {
        envelope::open(self.find(sealed.root_key)?, aad, sealed)
    }

    /// Encrypts a secret under the serving key.
    pub fn seal(&self, context: &SealContext<'_>, secret: &[u8]) -> Result<SealedSecret, EnvelopeError> {
        envelope::seal(&self.serving, context, secret)
    }

    /// Re-encrypts the data key under the serving key; `None` if it already is.
    pub fn rewrap(
        &self,
        context: &SealContext<'_>,
        sealed: &SealedSecret,
    ) -> Result<Option<SealedSecret>, EnvelopeError> {
        if sealed.root_key == self.serving.id() {
            return Ok(None);
        }
        envelope::rewrap(self.find(sealed.root_key)?, &self.serving, context, sealed).map(Some)
    }

    /// The keyring during a rotation to `next`, and both keys encrypted under each other.
    pub fn rotating_to(&self, next: RootKey) -> Result<(Self, [RootKeyWrap; 2]), EnvelopeError> {
        let wraps = [wrap(&self.serving, &next)?, wrap(&next, &self.serving)?];
        Ok((Self { serving: Arc::new(next), previous: Some(Arc::clone(&self.serving)) }, wraps))
    }

    fn find(&self, id: RootKeyId) -> Result<&RootKey, EnvelopeError> {
        let keys = std::iter::once(&self.serving).chain(&self.previous);
        keys.map(|key| &**key).find(|key| key.id() == id).ok_or(EnvelopeError::OtherRootKey(id))
    }
}

impl KnownKeys {
    /// Compares a key with those of the store, and decrypts the other key during a rotation.
    pub(super) fn unseal(&self, key: RootKey) -> Result<UnsealOutcome, EnvelopeError> {
        let id = key.id().to_string();
        let Some(known) = self.keys.iter().find(|row| row.id == id) else {
            return Ok(match self.keys.is_empty() {
                true => UnsealOutcome::FirstKey(Keyring::of(key)),
                false => UnsealOutcome::WrongKey,
            });
        };
        let other = self.keys.iter().find(|row| row.id != id);
        let other = other.map(|row| self.unwrap(&key, &row.id)).transpose()?.map(Arc::new);
        let key = Arc::new(key);
        Ok(UnsealOutcome::Unsealed(match (known.serving, other) {
            (true, previous) => Keyring { serving: key, previous },
            (false, Some(serving)) => Keyring { serving, previous: Some(key) },
            // One statement forgets the old key, so the store never has an old key alone.
            (false, None) => return Err(EnvelopeError::Tampered),
        }))
    }

    fn unwrap(&self, under: &RootKey, id: &str) -> Result<RootKey, EnvelopeError> {
        let under_id = under.id().to_string();
        let wrap = self.wraps.iter().find(|wrap| wrap.id == id && wrap.under == under_id);
        let wrapped = wrap.and_then(|wrap| BASE64_STANDARD.decode(&wrap.wrapped).ok());
        let id = RootKeyId::parse(id).ok_or(EnvelopeError::Tampered)?;
        envelope::unwrap_root(under, id, &wrapped.ok_or(EnvelopeError::Tampered)?)
    }
}

fn wrap(under: &RootKey, key: &RootKey) -> Result<RootKeyWrap, EnvelopeError> {
    Ok(RootKeyWrap {
        id: key.id().to_string(),
        under: under.id().to_string(),
        wrapped: BASE64_STANDARD.encode(envelope::wrap_root(under, key)?),
    })
}

#[boxed]
impl Credentials {
    /// Loads the root key from its source. Generates it if the store has never had one and the daemon keeps it itself.
    pub(super) async fn load_root_key(&self, now_ms: u64) -> Result<(), StoreError> {
        let is_new = self.0.store.root_keys().await?.is_empty();
        let found = match self.0.source.read().await {
            Ok(Some(key)) => Ok(key),
            Ok(None) if is_new => self.generate_first_key().await.map_err(|error| error.message),
            Ok(None) => Err(format!("the root key of this store is not in {}", self.0.source.description())),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Err(reason) => self.seal(&reason).await,
            Ok(key) => {
                if let Err(error) = self.use_key(key, now_ms).await {
                    self.seal(&error.message).await;
                } else if let Err(error) = self.resume_rotation(now_ms).await {
                    tracing::warn!(%error.message, "the rotation of the root key is not finished");
                }
            }
        }
        Ok(())
    }

    async fn generate_first_key(&self) -> Result<RootKey, CallError> {
        let key = RootKey::generate().map_err(unavailable)?;
        self.0.source.write(&key).await.map_err(unavailable)?;
        Ok(key)
    }

    /// Stores the reason why there is no root key, unless an operator unsealed the store meanwhile.
    async fn seal(&self, reason: &str) {
        let _writing = self.0.writes.lock().await;
        let snapshot = self.0.snapshot.load_full();
        match &snapshot.keys {
            Keys::Open(_) => return,
            Keys::Sealed(known) if **known == *reason => return,
            Keys::Sealed(_) => {}
        }
        tracing::warn!(why = reason, "sealed: credentials cannot be used until the root key is there");
        let mut next = CredentialSnapshot::clone(&snapshot);
        next.keys = Keys::Sealed(reason.into());
        self.0.snapshot.store(Arc::new(next));
    }

    /// Unseals the store with the operator's key.
    pub async fn unseal(&self, key: RootKey, now_ms: u64) -> Result<(), CallError> {
        self.use_key(key, now_ms).await?;
        tracing::info!("the credential store is unsealed");
        self.resume_rotation(now_ms).await.map(drop)
    }

    async fn use_key(&self, key: RootKey, now_ms: u64) -> Result<(), CallError> {
        let _writing = self.0.writes.lock().await;
        // Read under the lock: a rotation before it may have forgotten this key.
        let known =
            KnownKeys { keys: self.0.store.root_keys().await?, wraps: self.0.store.root_key_wraps().await? };
        let id = key.id();
        let keyring = match known.unseal(key).map_err(cannot_open)? {
            UnsealOutcome::Unsealed(keyring) => keyring,
            UnsealOutcome::FirstKey(keyring) => {
                self.0.store.serve_root_key(&id.to_string(), &[], now_ms).await?;
                keyring
            }
            UnsealOutcome::WrongKey => return Err(wrong_key(&known)),
        };
        self.set_keyring(keyring, now_ms);
        Ok(())
    }

    /// Rotates to `given`; without it, to the key that the source has now, or to a generated one if the daemon keeps the
    /// key itself.
    pub async fn rotate_root(&self, given: Option<RootKey>, now_ms: u64) -> Result<RootRotation, CallError> {
        let was_rotating = open_keys(&self.0.snapshot.load())?.previous.is_some();
        let before = self.resume_rotation(now_ms).await?;
        // A repeated request for the rotation that was in progress is complete with it.
        let is_same = given.as_ref().is_none_or(|key| key.id().to_string() == before.serving);
        match (was_rotating && is_same, &before.previous) {
            (true, _) => return Ok(before),
            (false, Some(_)) => {
                return Err(conflict(
                    "the previous rotation is not finished: the source still has the old root key",
                    format!(
                        "put the key that serves now into {}, then try again",
                        self.0.source.description()
                    ),
                ));
            }
            (false, None) => {}
        }
        let writing = self.0.writes.lock().await;
        let keys = open_keys(&self.0.snapshot.load())?;
        // A concurrent request: a third key would replace the one that still encrypts everything.
        if keys.previous.is_some() {
            return Err(conflict("another rotation of the root key is in progress", "try again in a moment"));
        }
        let next = self.next_key(given, &keys).await?;
        let id = next.id().to_string();
        let (keyring, wraps) = keys.rotating_to(next).map_err(cannot_open)?;
        self.0.store.serve_root_key(&id, &wraps, now_ms).await?;
        self.set_keyring(keyring, now_ms);
        drop(writing);
        self.resume_rotation(now_ms).await
    }

    async fn next_key(&self, given: Option<RootKey>, keys: &Keyring) -> Result<RootKey, CallError> {
        let source = self.0.source.description();
        let next = match given {
            Some(key) => key,
            None if self.0.source.is_generated() => RootKey::generate().map_err(unavailable)?,
            None => {
                let found = self.0.source.read().await.map_err(unavailable)?;
                found.ok_or_else(|| unavailable(format!("there is no root key in {source}")))?
            }
        };
        if next.id() == keys.serving.id() {
            let message = format!("that root key already serves, and {source} has no other");
            return Err(conflict(message, "put the new key there, or send it as `key`"));
        }
        Ok(next)
    }

    /// Finishes a rotation: re-encrypts every data key, writes the new key to the source, forgets the old one.
    async fn resume_rotation(&self, now_ms: u64) -> Result<RootRotation, CallError> {
        let mut rewrapped = 0;
        while let count @ 1.. = self.rewrap_batch().await? {
            rewrapped += count;
        }
        while let count @ 1.. = self.rewrap_webhook_batch().await? {
            rewrapped += count;
        }
        let _writing = self.0.writes.lock().await;
        let keys = open_keys(&self.0.snapshot.load())?;
        let serving = keys.serving.id().to_string();
        let Some(previous) = &keys.previous else {
            return Ok(RootRotation { serving, rewrapped, previous: None });
        };
        let id = previous.id();
        self.0.source.write(&keys.serving).await.map_err(unavailable)?;
        // While a start may find the old key, the old key must decrypt the new one. A source that cannot be read may still
        // have the old key.
        let is_old_key_needed = match self.0.source.read().await {
            Ok(found) => found.is_some_and(|found| found.id() == id),
            Err(_) => true,
        };
        if is_old_key_needed {
            tracing::warn!(
                place = self.0.source.description(),
                "the source still has the old root key, or cannot be read: put the new one there"
            );
            return Ok(RootRotation { serving, rewrapped, previous: Some(id.to_string()) });
        }
        self.0.store.forget_root_key(&id.to_string()).await?;
        self.set_keyring(Keyring { serving: Arc::clone(&keys.serving), previous: None }, now_ms);
        Ok(RootRotation { serving, rewrapped, previous: None })
    }

    /// Re-encrypts a batch of data keys, and returns its size.
    async fn rewrap_batch(&self) -> Result<usize, CallError> {
        let _writing = self.0.writes.lock().await;
        let snapshot = self.0.snapshot.load_full();
        let keys = open_keys(&snapshot)?;
        let is_outdated = |credential: &&Arc<Credential>| credential.sealed.root_key != keys.serving.id();
        let batch: Vec<Arc<Credential>> =
            snapshot.all().filter(is_outdated).take(REWRAP_BATCH).cloned().collect();
        let rows = batch.iter().map(|credential| rewrap_row(credential, &keys));
        let rows: Vec<CredentialRow> = rows.collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Ok(0);
        }
        self.0.store.rewrap_credentials(&rows).await?;
        let count = rows.len();
        let parsed = rows
            .into_iter()
            .zip(&batch)
            .filter_map(|(row, before)| Credential::parse(row, Arc::clone(&before.shared)).map(Arc::new));
        let mut next = CredentialSnapshot::clone(&snapshot);
        next.insert_all(parsed);
        self.0.snapshot.store(Arc::new(next));
        Ok(count)
    }

    pub(super) fn set_keyring(&self, keyring: Keyring, now_ms: u64) {
        let mut snapshot = CredentialSnapshot::clone(&self.0.snapshot.load());
        snapshot.keys = Keys::Open(Arc::new(keyring));
        let snapshot = Arc::new(snapshot);
        self.0.snapshot.store(Arc::clone(&snapshot));
        self.publish_all(&snapshot, now_ms);
        self.0.changed.notify_one();
    }
}

/// A credential that does not decrypt stops the rotation: without the old key it would be lost.
fn rewrap_row(credential: &Credential, keys: &Keyring) -> Result<CredentialRow, CallError> {
    let row = credential.row.clone();
    let rewrapped = keys.rewrap(&credential.seal_context(), &credential.sealed).map_err(|error| {
        conflict(
            format!("the credential `{}/{}` cannot be decrypted: {error}", row.organization, row.name),
            "store its secret again or delete it, then rotate again; until then both root keys are kept",
        )
    })?;
    Ok(CredentialRow { sealed: to_stored(rewrapped.as_ref().unwrap_or(&credential.sealed)), ..row })
}

fn wrong_key(known: &KnownKeys) -> CallError {
    let ids: Vec<String> = known.keys.iter().map(|row| format!("`{}`", row.id)).collect();
    CallError::new(
        ErrorType::InvalidRequest,
        format!("that is not the root key of this store, which is {}", ids.join(" or ")),
        "send the key that it was sealed with; no other key can decrypt it",
    )
}

pub(super) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> CallError {
    CallError::new(ErrorType::Conflict, message, hint)
}

fn unavailable(error: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorType::Unavailable, error.to_string(), "see the daemon's log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> RootKey {
        let bytes: Vec<u8> = (0..32).map(|index| index * 5 + seed).collect();
        RootKey::from_bytes(&bytes).unwrap()
    }

    fn row(key: &RootKey, serving: bool) -> RootKeyRow {
        RootKeyRow { id: key.id().to_string(), serving, created_ms: 1 }
    }

    fn context() -> SealContext<'static> {
        SealContext {
            organization: "acme",
            id: "c",
            name: "n",
            version: 1,
            user: None,
            kind: "k",
            document: "{}",
        }
    }

    fn unseal(known: &KnownKeys, seed: u8) -> Keyring {
        match known.unseal(key(seed)).unwrap() {
            UnsealOutcome::FirstKey(_) | UnsealOutcome::WrongKey => panic!("the key opens the store"),
            UnsealOutcome::Unsealed(keyring) => keyring,
        }
    }

    #[test]
    fn the_first_key_is_accepted_and_a_wrong_key_is_refused() {
        assert!(matches!(KnownKeys::default().unseal(key(1)).unwrap(), UnsealOutcome::FirstKey(_)));
        let known = KnownKeys { keys: vec![row(&key(1), true)], wraps: Vec::new() };
        assert!(matches!(known.unseal(key(2)).unwrap(), UnsealOutcome::WrongKey));
        assert_eq!(unseal(&known, 1).serving.id(), key(1).id());
    }

    #[test]
    fn k1_during_a_rotation_either_key_opens_secrets_under_both() {
        let before = Keyring::of(key(1));
        let old = before.seal(&context(), b"secret").unwrap();
        let (during, wraps) = before.rotating_to(key(2)).unwrap();
        let new = during.rewrap(&context(), &old).unwrap().expect("another key");
        let known = KnownKeys { keys: vec![row(&key(2), true), row(&key(1), false)], wraps: wraps.to_vec() };
        for seed in [1, 2] {
            let keyring = unseal(&known, seed);
            assert_eq!(keyring.serving.id(), key(2).id());
            for sealed in [&old, &new] {
                assert_eq!(
                    keyring.open(&context().associated_data(sealed.root_key), sealed).unwrap().expose(),
                    b"secret"
                );
            }
        }
        assert!(during.rewrap(&context(), &new).unwrap().is_none());
        assert!(Keyring::of(key(2)).open(&context().associated_data(old.root_key), &old).is_err());
    }

    #[test]
    fn a_changed_wrapped_root_key_is_detected() {
        let (_, mut wraps) = Keyring::of(key(1)).rotating_to(key(2)).unwrap();
        wraps[0].wrapped = BASE64_STANDARD.encode([1; 61]);
        let known = KnownKeys { keys: vec![row(&key(2), true), row(&key(1), false)], wraps: wraps.to_vec() };
        assert!(known.unseal(key(1)).is_err());
        assert!(known.unseal(key(2)).is_ok());
    }
}
