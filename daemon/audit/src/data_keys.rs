//! Data keys: an organization's data in the log can be deleted, although its records stay.
//!
//! Arguments of calls and details of effects are encrypted under a key of their organization (AES-256-GCM) before the record is
//! hashed. Deleting the key deletes what it encrypts, in every copy of the log, and the chain stays valid. Later records are
//! encrypted under a new key.
//!
//! Each run of the daemon derives a key of its own from the organization's (HKDF-SHA256 with a random salt) and counts its
//! nonces, so that none repeats however many records there are. Sealing takes no lock: the keys are an immutable map behind
//! `ArcSwap`, and the key schedule is made once.
//!
//! The keys are wrapped by a key file of the daemon and not by the root key: records are written and read while the daemon is
//! sealed, too, and a rotation of the root key does not touch the log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_state::keys::KEY_BYTES;
use toolgate_state::keys::envelope::{EnvelopeError, decrypt, encrypt, length_prefixed};
use zeroize::Zeroizing;

use super::record::{AdminRecord, CallIntent, EffectRecord};

const FORMAT: u8 = 1;
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 16;
const COUNTER_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// Format, id of the key, salt of the run, and counter: what stands before the ciphertext.
const HEAD_BYTES: usize = 1 + ID_BYTES + SALT_BYTES + COUNTER_BYTES;

/// Beginning of the actions that decide about calls.
const DECISIONS: &str = "approval.";

type KeyId = [u8; ID_BYTES];

/// The data keys of all organizations. Clones share them.
#[derive(Clone)]
pub struct DataKeys(Arc<Shared>);

struct Shared {
    /// Wraps the keys in the store.
    wrapping: Zeroizing<[u8; KEY_BYTES]>,
    current: ArcSwap<KeySet>,
}

#[derive(Clone, Default)]
struct KeySet {
    by_organization: HashMap<Arc<str>, Arc<DataKey>>,
    by_id: HashMap<KeyId, Arc<DataKey>>,
}

/// The key of one organization.
pub(crate) struct DataKey {
    id: KeyId,
    source: Prk,
    /// Salt of this run of the daemon.
    salt: [u8; SALT_BYTES],
    sealing: LessSafeKey,
    next: AtomicU64,
}

/// A key as it is stored.
pub struct WrappedKey {
    /// Its id, as hexadecimal digits.
    pub id: String,
    /// The encrypted key, as Base64.
    pub wrapped: String,
}

impl DataKeys {
    /// No keys yet; `wrapping` encrypts them in the store.
    pub fn new(wrapping: [u8; KEY_BYTES]) -> Self {
        let (wrapping, current) = (Zeroizing::new(wrapping), ArcSwap::default());
        Self(Arc::new(Shared { wrapping, current }))
    }

    /// Whether the organization has a key.
    pub fn has(&self, organization: &str) -> bool {
        self.of(organization).is_some()
    }

    /// Generates a key. [`insert`](Self::insert) puts it in force once it is stored.
    pub fn generate(&self, organization: &str) -> Result<WrappedKey, EnvelopeError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let mut id = KeyId::default();
        for bytes in [&mut key[..], &mut id[..]] {
            SystemRandom::new().fill(bytes).map_err(|_| EnvelopeError::Unsealable)?;
        }
        let id = format!("{:016x}", u64::from_be_bytes(id));
        let wrapped = encrypt(&self.0.wrapping[..], &wrapping_aad(organization, &id), &key[..])?;
        Ok(WrappedKey { id, wrapped: BASE64_STANDARD.encode(wrapped) })
    }

    /// Unwraps a stored key and puts it in force for its organization, in place of the one before, which is forgotten.
    pub fn insert(&self, organization: &str, key: &WrappedKey) -> Result<(), EnvelopeError> {
        let wrapped = BASE64_STANDARD.decode(&key.wrapped).map_err(|_| EnvelopeError::Tampered)?;
        let id = u64::from_str_radix(&key.id, 16).map_err(|_| EnvelopeError::Tampered)?;
        let opened = decrypt(&self.0.wrapping[..], &wrapping_aad(organization, &key.id), &wrapped)?;
        let key = Arc::new(DataKey::new(id.to_be_bytes(), &opened)?);
        self.change(|keys| {
            keys.remove(organization);
            keys.by_id.insert(key.id, Arc::clone(&key));
            keys.by_organization.insert(organization.into(), Arc::clone(&key));
        });
        Ok(())
    }

    /// Forgets the key of an organization. Nothing that it encrypts can be read any more once the store has forgotten it, too.
    pub fn remove(&self, organization: &str) {
        self.change(|keys| keys.remove(organization));
    }

    fn change(&self, act: impl Fn(&mut KeySet)) {
        self.0.current.rcu(|current| {
            let mut next = KeySet::clone(current);
            act(&mut next);
            next
        });
    }

    fn of(&self, organization: &str) -> Option<Arc<DataKey>> {
        self.0.current.load().by_organization.get(organization).cloned()
    }

    /// Decrypts a text of any organization whose key still exists.
    fn open(&self, aad: &[u8], sealed: &str) -> Option<String> {
        let blob = BASE64_STANDARD_NO_PAD.decode(sealed).ok()?;
        let (format, rest) = blob.split_first()?;
        let (id, rest) = rest.split_first_chunk::<ID_BYTES>()?;
        let (salt, rest) = rest.split_first_chunk::<SALT_BYTES>()?;
        let (counter, text) = rest.split_first_chunk::<COUNTER_BYTES>()?;
        if *format != FORMAT {
            return None;
        }
        let key = self.0.current.load().by_id.get(id).cloned()?;
        let opening = derive(&key.source, salt).ok()?;
        let mut text = text.to_vec();
        let plain = opening.open_in_place(nonce(*counter), Aad::from(aad), &mut text).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    }
}

impl KeySet {
    fn remove(&mut self, organization: &str) {
        if let Some(key) = self.by_organization.remove(organization) {
            self.by_id.remove(&key.id);
        }
    }
}

impl DataKey {
    fn new(id: KeyId, key: &[u8]) -> Result<Self, EnvelopeError> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).map_err(|_| EnvelopeError::Unsealable)?;
        let source = Prk::new_less_safe(HKDF_SHA256, key);
        let sealing = derive(&source, &salt)?;
        Ok(Self { id, source, salt, sealing, next: AtomicU64::new(0) })
    }

    /// Encrypts a text; `None` if the cipher fails, so that the text is not recorded.
    fn seal(&self, aad: &[u8], plain: &str) -> Option<String> {
        let counter = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut blob = Vec::with_capacity(HEAD_BYTES + plain.len() + TAG_BYTES);
        blob.push(FORMAT);
        for part in [&self.id[..], &self.salt, &counter, plain.as_bytes()] {
            blob.extend_from_slice(part);
        }
        let text = &mut blob[HEAD_BYTES..];
        let tag = self.sealing.seal_in_place_separate_tag(nonce(counter), Aad::from(aad), text).ok()?;
        blob.extend_from_slice(tag.as_ref());
        Some(BASE64_STANDARD_NO_PAD.encode(blob))
    }
}

/// Counts under the key of one run are unique, and so are the nonces.
fn nonce(counter: [u8; COUNTER_BYTES]) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - COUNTER_BYTES..].copy_from_slice(&counter);
    Nonce::assume_unique_for_key(nonce)
}

fn derive(source: &Prk, salt: &[u8]) -> Result<LessSafeKey, EnvelopeError> {
    let info: [&[u8]; 2] = [b"toolgate audit data", salt];
    let derived = source.expand(&info, &AES_256_GCM).map_err(|_| EnvelopeError::Unsealable)?;
    Ok(LessSafeKey::new(UnboundKey::from(derived)))
}

fn wrapping_aad(organization: &str, id: &str) -> Vec<u8> {
    length_prefixed(&[b"toolgate organization key", organization.as_bytes(), id.as_bytes()])
}

/// The place of a call's arguments.
pub(crate) fn call_aad(intent: &CallIntent<'_>) -> Vec<u8> {
    let texts = [&intent.organization, &intent.session, &intent.call].map(|text| text.as_bytes());
    length_prefixed(&[b"toolgate arguments", texts[0], texts[1], texts[2]])
}

/// The place of an act's details.
pub(crate) fn act_aad(act: &AdminRecord<'_>) -> Vec<u8> {
    let organization = act.organization.as_deref().unwrap_or_default();
    let texts = [organization, &act.action, &act.target].map(str::as_bytes);
    length_prefixed(&[b"toolgate act", texts[0], texts[1], texts[2]])
}

/// The place of the detail of an effect of the call `of`.
pub(crate) fn effect_aad(of: u64) -> Vec<u8> {
    length_prefixed(&[b"toolgate effect", &of.to_be_bytes()])
}

/// The form in which the data of one organization is written.
#[derive(Clone, Default)]
pub(crate) enum DataSealing {
    /// As it is: a log without keys.
    #[default]
    Plain,
    /// Encrypted.
    Under(Arc<DataKey>),
    /// Not at all: the organization was deleted.
    Deleted,
}

/// A record whose data is encrypted. An empty text stands for data that was not written, since its organization has no key.
#[derive(Serialize)]
pub(crate) struct SealedRecord<'a, T: Serialize> {
    #[serde(flatten)]
    record: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// The encrypted part of a record.
#[derive(Deserialize)]
struct SealedPart<'a> {
    #[serde(borrow, default)]
    sealed: Option<Cow<'a, str>>,
}

impl DataSealing {
    /// The sealing of an organization's data.
    pub(crate) fn of(keys: Option<&DataKeys>, organization: &str) -> Self {
        match keys.map(|keys| keys.of(organization)) {
            None => Self::Plain,
            Some(None) => Self::Deleted,
            Some(Some(key)) => Self::Under(key),
        }
    }

    /// Moves the arguments into their encrypted form.
    pub(crate) fn seal_call(&self, intent: &mut CallIntent<'_>) -> Option<String> {
        let sealed = self.seal(&call_aad(intent), intent.arguments.as_ref()?.get())?;
        intent.arguments = None;
        Some(sealed)
    }

    /// Moves the details of a decision about a call, which can have other arguments, into their encrypted form. Details of other
    /// acts say what was administered, and stay.
    pub(crate) fn seal_act(&self, act: &mut AdminRecord<'_>) -> Option<String> {
        if !act.action.starts_with(DECISIONS) {
            return None;
        }
        let sealed = self.seal(&act_aad(act), act.details.as_ref()?.get())?;
        act.details = None;
        Some(sealed)
    }

    /// Moves the detail of an effect of the call `of` into its encrypted form.
    pub(crate) fn seal_effect(&self, of: u64, effect: &mut EffectRecord<'_>) -> Option<String> {
        let sealed = self.seal(&effect_aad(of), &effect.detail)?;
        effect.detail = Cow::default();
        Some(sealed)
    }

    /// Returns the encrypted form of a text, empty where it cannot be encrypted; `None` if it is recorded as it is.
    fn seal(&self, aad: &[u8], text: &str) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Under(key) => Some(key.seal(aad, text).unwrap_or_default()),
            Self::Deleted => Some(String::new()),
        }
    }
}

impl<'a, T: Serialize> SealedRecord<'a, T> {
    pub(crate) fn new(record: &'a T, sealed: Option<String>) -> Self {
        Self { record, sealed }
    }
}

/// The encrypted part of a record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenedPart {
    /// The record has none.
    Plain,
    /// The text was decrypted.
    Text(String),
    /// Its key is gone.
    Deleted,
}

impl OpenedPart {
    /// Puts decrypted JSON into its place in the record. Returns whether its key is gone.
    pub(crate) fn put_json(
        self,
        place: &mut Option<Cow<'static, RawValue>>,
    ) -> Result<bool, serde_json::Error> {
        if let Self::Text(text) = self {
            *place = Some(Cow::Owned(RawValue::from_string(text)?));
            return Ok(false);
        }
        Ok(self == Self::Deleted)
    }
}

/// Decrypts the encrypted part of the record in `payload`, whose place is `aad`.
pub(crate) fn open_part(
    keys: Option<&DataKeys>,
    payload: &[u8],
    aad: &[u8],
) -> Result<OpenedPart, serde_json::Error> {
    let SealedPart { sealed } = serde_json::from_slice(payload)?;
    Ok(match sealed.map(|sealed| keys.and_then(|keys| keys.open(aad, &sealed))) {
        None => OpenedPart::Plain,
        Some(None) => OpenedPart::Deleted,
        Some(Some(text)) => OpenedPart::Text(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(organizations: &[&str]) -> DataKeys {
        let keys = DataKeys::new([7; KEY_BYTES]);
        for organization in organizations {
            let key = keys.generate(organization).expect("a key");
            keys.insert(organization, &key).expect("it unwraps");
        }
        keys
    }

    fn sealed_by(keys: &DataKeys, organization: &str, text: &str) -> String {
        keys.of(organization).expect("a key").seal(b"place", text).expect("sealed")
    }

    #[test]
    fn o3_sealed_data_opens_until_its_key_is_replaced_and_others_stay() {
        let keys = keys(&["acme", "rival"]);
        let [acme, rival] = ["acme", "rival"].map(|name| sealed_by(&keys, name, "{\"a\":1}"));
        assert!(!acme.contains("\"a\""));
        for sealed in [&acme, &rival] {
            assert_eq!(keys.open(b"place", sealed).as_deref(), Some("{\"a\":1}"));
            assert_eq!(keys.open(b"another place", sealed), None);
        }
        let next = keys.generate("acme").expect("a key");
        keys.insert("acme", &next).expect("it unwraps");
        assert_eq!(keys.open(b"place", &acme), None);
        assert_eq!(keys.open(b"place", &rival).as_deref(), Some("{\"a\":1}"));
        let later = sealed_by(&keys, "acme", "later");
        assert_eq!(keys.open(b"place", &later).as_deref(), Some("later"));
        keys.remove("acme");
        assert_eq!((keys.has("acme"), keys.open(b"place", &later)), (false, None));
    }

    #[test]
    fn equal_texts_are_sealed_differently_and_open_in_a_later_run() {
        let first = DataKeys::new([7; KEY_BYTES]);
        let stored = first.generate("acme").expect("a key");
        first.insert("acme", &stored).expect("it unwraps");
        let [one, two] = [(); 2].map(|()| sealed_by(&first, "acme", "x"));
        assert_ne!(one, two);
        let later = DataKeys::new([7; KEY_BYTES]);
        later.insert("acme", &stored).expect("it unwraps");
        for sealed in [one, two, sealed_by(&later, "acme", "x")] {
            assert_eq!(later.open(b"place", &sealed).as_deref(), Some("x"));
        }
        assert!(DataKeys::new([8; KEY_BYTES]).insert("acme", &stored).is_err(), "another wrapping key");
        assert!(later.insert("rival", &stored).is_err(), "another organization");
    }

    #[test]
    fn damaged_text_does_not_open() {
        let keys = keys(&["acme"]);
        let sealed = sealed_by(&keys, "acme", "some text");
        for end in 0..sealed.len() {
            assert_eq!(keys.open(b"place", &sealed[..end]), None);
        }
        assert_eq!(keys.open(b"place", "no Base64 \u{e9}"), None);
    }
}
