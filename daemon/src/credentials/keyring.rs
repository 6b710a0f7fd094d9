//! The root keys at hand, and how the daemon comes by them: at the start, by unsealing, by rotating.
//!
//! The store knows ids, never keys: which root key serves and, while keys are rotated, which one goes. During that time
//! each of the two lies in the store wrapped under the other. So a start that finds either has both, whenever the daemon
//! was killed, and an operator can change the key's file or variable before the rotation or after it.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::envelope::{self, Bound, EnvelopeError, Place, Sealed};
use super::root_key::{RootKey, RootKeyId};
use crate::store::{RootKeyRow, RootKeyWrap};

/// The root keys at hand.
pub struct Keyring {
    /// What new secrets are sealed under.
    pub serving: Arc<RootKey>,
    /// What is being rotated away from.
    pub going: Option<Arc<RootKey>>,
}

/// What the store knows of root keys.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys {
    pub keys: Vec<RootKeyRow>,
    pub wraps: Vec<RootKeyWrap>,
}

/// What a key that somebody brings is to the store.
pub enum Brought {
    /// No key was ever used: this becomes the first.
    First(Keyring),
    /// It opens the store.
    Opens(Keyring),
    /// It is none of those in use.
    Stranger,
}

impl Keyring {
    /// One key and no other.
    pub fn of(key: RootKey) -> Self {
        Self { serving: Arc::new(key), going: None }
    }

    /// Opens a secret under whichever key it is.
    pub fn open(&self, bound: &Bound, sealed: &Sealed) -> Result<toolgate_sandbox::Secret, EnvelopeError> {
        envelope::open(self.find(sealed.root_key)?, bound, sealed)
    }

    /// Seals a secret.
    pub fn seal(&self, place: &Place<'_>, secret: &[u8]) -> Result<Sealed, EnvelopeError> {
        envelope::seal(&self.serving, place, secret)
    }

    /// The secret under the serving key; none where it is already.
    pub fn rewrap(&self, place: &Place<'_>, sealed: &Sealed) -> Result<Option<Sealed>, EnvelopeError> {
        if sealed.root_key == self.serving.id() {
            return Ok(None);
        }
        envelope::rewrap(self.find(sealed.root_key)?, &self.serving, place, sealed).map(Some)
    }

    /// The same while rotating to another key, and how the two open each other.
    pub fn rotating_to(&self, next: RootKey) -> Result<(Self, [RootKeyWrap; 2]), EnvelopeError> {
        let wraps = [wrap(&self.serving, &next)?, wrap(&next, &self.serving)?];
        Ok((Self { serving: Arc::new(next), going: Some(Arc::clone(&self.serving)) }, wraps))
    }

    fn find(&self, id: RootKeyId) -> Result<&RootKey, EnvelopeError> {
        let keys = std::iter::once(&self.serving).chain(&self.going);
        keys.map(|key| &**key).find(|key| key.id() == id).ok_or(EnvelopeError::OtherRootKey(id))
    }
}

impl KnownKeys {
    /// What this key is to the store, with the other one where there are two.
    pub fn judge(&self, key: RootKey) -> Result<Brought, EnvelopeError> {
        let id = key.id().to_string();
        let Some(known) = self.keys.iter().find(|row| row.id == id) else {
            let first = self.keys.is_empty();
            return Ok(if first { Brought::First(Keyring::of(key)) } else { Brought::Stranger });
        };
        let other = self.keys.iter().find(|row| row.id != id);
        let other = other.map(|row| self.unwrap(&key, &row.id)).transpose()?.map(Arc::new);
        let key = Arc::new(key);
        Ok(Brought::Opens(match (known.serving, other) {
            (true, going) => Keyring { serving: key, going },
            (false, Some(serving)) => Keyring { serving, going: Some(key) },
            // A key that serves no longer is forgotten in the statement that leaves no other.
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

    fn place() -> Place<'static> {
        Place { organization: "acme", id: "c", name: "n", version: 1, user: None, kind: "k", document: "{}" }
    }

    fn opened(known: &KnownKeys, seed: u8) -> Keyring {
        match known.judge(key(seed)).unwrap() {
            Brought::First(_) | Brought::Stranger => panic!("it opens the store"),
            Brought::Opens(keyring) => keyring,
        }
    }

    #[test]
    fn the_first_key_is_taken_and_a_stranger_is_not() {
        assert!(matches!(KnownKeys::default().judge(key(1)).unwrap(), Brought::First(_)));
        let known = KnownKeys { keys: vec![row(&key(1), true)], wraps: Vec::new() };
        assert!(matches!(known.judge(key(2)).unwrap(), Brought::Stranger));
        assert_eq!(opened(&known, 1).serving.id(), key(1).id());
    }

    #[test]
    fn k1_while_keys_are_rotated_either_of_them_opens_what_is_under_either() {
        let before = Keyring::of(key(1));
        let old = before.seal(&place(), b"secret").unwrap();
        let (during, wraps) = before.rotating_to(key(2)).unwrap();
        let new = during.rewrap(&place(), &old).unwrap().expect("another key");
        let known = KnownKeys { keys: vec![row(&key(2), true), row(&key(1), false)], wraps: wraps.to_vec() };
        for seed in [1, 2] {
            let keyring = opened(&known, seed);
            assert_eq!(keyring.serving.id(), key(2).id());
            for sealed in [&old, &new] {
                assert_eq!(keyring.open(&place().bind(sealed.root_key), sealed).unwrap().expose(), b"secret");
            }
        }
        assert!(during.rewrap(&place(), &new).unwrap().is_none());
        assert!(Keyring::of(key(2)).open(&place().bind(old.root_key), &old).is_err());
    }

    #[test]
    fn a_wrapped_root_key_that_was_changed_is_noticed() {
        let (_, mut wraps) = Keyring::of(key(1)).rotating_to(key(2)).unwrap();
        wraps[0].wrapped = BASE64_STANDARD.encode([1; 61]);
        let known = KnownKeys { keys: vec![row(&key(2), true), row(&key(1), false)], wraps: wraps.to_vec() };
        assert!(known.judge(key(1)).is_err());
        assert!(known.judge(key(2)).is_ok());
    }
}
