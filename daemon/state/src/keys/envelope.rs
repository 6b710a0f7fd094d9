//! Authenticated encryption of stored data (AES-256-GCM), with associated data that binds a ciphertext to its place.
//!
//! Every ciphertext begins with a format byte.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use toolgate_api::hex;
use zeroize::Zeroizing;

/// Length of the id of a root key, in bytes.
pub const ROOT_KEY_ID_BYTES: usize = 8;

const FORMAT: u8 = 1;
const TAG_BYTES: usize = 16;

/// Bytes that [`encrypt`] adds: format, nonce and tag.
pub const SEALED_OVERHEAD: usize = 1 + NONCE_LEN + TAG_BYTES;

/// The first 8 bytes of a SHA-256 hash over a root key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootKeyId([u8; ROOT_KEY_ID_BYTES]);

/// Why data cannot be encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The ciphertext was changed, or belongs to another context.
    #[error("the stored secret was changed or does not belong to this credential")]
    Tampered,
    /// A later version wrote it.
    #[error("the stored secret has a format that this version does not know")]
    UnknownFormat,
    /// Another root key encrypted it.
    #[error("the stored secret is encrypted under the root key `{0}`, which is not loaded")]
    OtherRootKey(RootKeyId),
    /// The random number generator or the cipher failed.
    #[error("the secret cannot be encrypted")]
    Unsealable,
}

impl RootKeyId {
    /// The id with these bytes.
    pub fn new(bytes: [u8; ROOT_KEY_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text.as_bytes())?.try_into().ok().map(Self)
    }
}

impl fmt::Display for RootKeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(&self.0))
    }
}

/// Lengths make the encoding unambiguous: two contexts never have the same bytes.
pub fn length_prefixed(parts: &[&[u8]]) -> Vec<u8> {
    let mut encoded = vec![FORMAT];
    for part in parts {
        encoded.extend_from_slice(&(part.len() as u64).to_be_bytes());
        encoded.extend_from_slice(part);
    }
    encoded
}

/// Returns format, nonce, ciphertext and tag.
pub fn encrypt(key: &[u8], aad: &[u8], plain: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    let unsealable = |_| EnvelopeError::Unsealable;
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).map_err(unsealable)?);
    // A nonce only has to differ from the others, so the thread's generator will do: no system call for each answer.
    let nonce: [u8; NONCE_LEN] = rand::random();
    // The capacity includes the tag, so the plaintext is encrypted in place and never copied by a reallocation.
    let mut out = Vec::with_capacity(1 + NONCE_LEN + plain.len() + TAG_BYTES);
    out.push(FORMAT);
    out.extend_from_slice(&nonce);
    out.extend_from_slice(plain);
    let (_, text) = out.split_at_mut(1 + NONCE_LEN);
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text)
        .map_err(unsealable)?;
    out.extend_from_slice(tag.as_ref());
    Ok(out)
}

/// Decrypts what [`encrypt`] returned, with the same associated data.
pub fn decrypt(key: &[u8], aad: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, EnvelopeError> {
    let (format, rest) = sealed.split_first().ok_or(EnvelopeError::Tampered)?;
    if *format != FORMAT {
        return Err(EnvelopeError::UnknownFormat);
    }
    let (nonce, text) = rest.split_at_checked(NONCE_LEN).ok_or(EnvelopeError::Tampered)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| EnvelopeError::Tampered)?;
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| EnvelopeError::Tampered)?;
    let mut text = Zeroizing::new(text.to_vec());
    let plain = LessSafeKey::new(key)
        .open_in_place(nonce, Aad::from(aad), &mut text)
        .map_err(|_| EnvelopeError::Tampered)?;
    Ok(Zeroizing::new(plain.to_vec()))
}
