//! How a secret lies on disk: sealed under a key of its own, which is wrapped under the root key.
//!
//! Both are AES-256-GCM with random nonces. What the secret belongs to (organization, credential, version, user, kind,
//! and the whole document that says where it may go) is bound in as associated data, so a ciphertext opens in its own
//! place alone: not for another organization, not under another version, and not after somebody has written another
//! host into the row. The data key is new for every version and used once, so that its nonce cannot meet itself; the
//! root key wraps data keys alone, far fewer than the 2³² that random nonces are good for.
//!
//! Every part begins with a byte that names the format, so that a later one can be told from this.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

use super::root_key::{RootKey, RootKeyId};
use crate::keys::KEY_BYTES;

/// The format of this file.
const FORMAT: u8 = 1;
const TAG_BYTES: usize = 16;

/// What a ciphertext is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The organization.
    pub organization: &'a str,
    /// The credential's id, which no other credential ever had.
    pub id: &'a str,
    /// The credential's name.
    pub name: &'a str,
    /// Counts its secrets.
    pub version: u64,
    /// The user whose it is; none for the organization's.
    pub user: Option<&'a str>,
    /// What kind it is.
    pub kind: &'a str,
    /// The document that says where it may go, as it is stored.
    pub document: &'a str,
}

/// A place as the cipher takes it: the same bytes each time, so whoever opens often keeps them.
pub struct Bound {
    key: Vec<u8>,
    secret: Vec<u8>,
}

/// A secret as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Under which root key the data key is wrapped.
    pub root_key: RootKeyId,
    /// The data key.
    pub wrapped_key: Vec<u8>,
    /// The secret under the data key.
    pub secret: Vec<u8>,
}

/// Why a ciphertext was not opened or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It was changed, or is in another place than it was made for.
    #[error("the stored secret was changed or is not in its place")]
    Tampered,
    /// It was made by a later version.
    #[error("the stored secret has a format that this version does not know")]
    UnknownFormat,
    /// It is under a root key that is not at hand.
    #[error("the stored secret is under the root key `{0}`, which is not at hand")]
    OtherRootKey(RootKeyId),
    /// The system gives no random numbers, or the cipher refused.
    #[error("the secret cannot be sealed")]
    Unsealable,
}

/// Seals a secret for its place, under a new data key.
pub fn seal(root: &RootKey, place: &Place<'_>, secret: &[u8]) -> Result<Sealed, EnvelopeError> {
    let mut data_key = Zeroizing::new([0; KEY_BYTES]);
    SystemRandom::new().fill(&mut *data_key).map_err(|_| EnvelopeError::Unsealable)?;
    Ok(Sealed {
        root_key: root.id(),
        wrapped_key: encrypt(root.expose(), &place.of_key(root.id()), &*data_key)?,
        secret: encrypt(&*data_key, &place.of_secret(), secret)?,
    })
}

/// Opens what was sealed for this place.
pub fn open(root: &RootKey, bound: &Bound, sealed: &Sealed) -> Result<Secret, EnvelopeError> {
    let data_key = unwrap(root, &bound.key, sealed)?;
    decrypt(data_key.expose(), &bound.secret, &sealed.secret)
}

/// The same secret with its data key wrapped under another root key. The secret itself is not opened.
pub fn rewrap(
    from: &RootKey,
    to: &RootKey,
    place: &Place<'_>,
    sealed: &Sealed,
) -> Result<Sealed, EnvelopeError> {
    let data_key = unwrap(from, &place.of_key(sealed.root_key), sealed)?;
    let wrapped_key = encrypt(to.expose(), &place.of_key(to.id()), data_key.expose())?;
    Ok(Sealed { root_key: to.id(), wrapped_key, secret: sealed.secret.clone() })
}

/// One root key under another, for as long as a rotation lasts.
pub fn wrap_root(under: &RootKey, key: &RootKey) -> Result<Vec<u8>, EnvelopeError> {
    encrypt(under.expose(), &of_root(under.id(), key.id()), key.expose())
}

/// The root key `id`, which was wrapped under this one.
pub fn unwrap_root(under: &RootKey, id: RootKeyId, wrapped: &[u8]) -> Result<RootKey, EnvelopeError> {
    let key = decrypt(under.expose(), &of_root(under.id(), id), wrapped)?;
    let key = RootKey::from_bytes(key.expose()).map_err(|_| EnvelopeError::Tampered)?;
    if key.id() == id { Ok(key) } else { Err(EnvelopeError::Tampered) }
}

fn unwrap(root: &RootKey, bound: &[u8], sealed: &Sealed) -> Result<Secret, EnvelopeError> {
    if root.id() != sealed.root_key {
        return Err(EnvelopeError::OtherRootKey(sealed.root_key));
    }
    decrypt(root.expose(), bound, &sealed.wrapped_key)
}

impl Place<'_> {
    /// What secrets of this place under that root key are bound to.
    pub fn bind(&self, root: RootKeyId) -> Bound {
        Bound { key: self.of_key(root), secret: self.of_secret() }
    }

    fn of_secret(&self) -> Vec<u8> {
        self.bound(b"toolgate credential secret", b"")
    }

    fn of_key(&self, root: RootKeyId) -> Vec<u8> {
        self.bound(b"toolgate credential key", root.to_string().as_bytes())
    }

    /// Each part with its length before it, so that no two places read alike.
    fn bound(&self, purpose: &[u8], more: &[u8]) -> Vec<u8> {
        let document = digest(&SHA256, self.document.as_bytes());
        let user = self.user.map(|user| [b"user ", user.as_bytes()].concat()).unwrap_or_default();
        let version = self.version.to_be_bytes();
        joined(&[
            purpose,
            more,
            self.organization.as_bytes(),
            self.id.as_bytes(),
            self.name.as_bytes(),
            &version,
            &user,
            self.kind.as_bytes(),
            document.as_ref(),
        ])
    }
}

fn of_root(under: RootKeyId, id: RootKeyId) -> Vec<u8> {
    joined(&[b"toolgate root key", under.to_string().as_bytes(), id.to_string().as_bytes()])
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut joined = vec![FORMAT];
    for part in parts {
        joined.extend_from_slice(&(part.len() as u64).to_be_bytes());
        joined.extend_from_slice(part);
    }
    joined
}

/// The format, the nonce, the ciphertext and its tag.
fn encrypt(key: &[u8], bound: &[u8], plain: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    let unsealable = |_| EnvelopeError::Unsealable;
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).map_err(unsealable)?);
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(unsealable)?;
    let mut out = Vec::with_capacity(1 + NONCE_LEN + plain.len() + TAG_BYTES);
    out.push(FORMAT);
    out.extend_from_slice(&nonce);
    out.extend_from_slice(plain);
    // The room for the tag is there already, so the plain text is encrypted where it lies and never left behind.
    let (_, text) = out.split_at_mut(1 + NONCE_LEN);
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound), text)
        .map_err(unsealable)?;
    out.extend_from_slice(tag.as_ref());
    Ok(out)
}

fn decrypt(key: &[u8], bound: &[u8], sealed: &[u8]) -> Result<Secret, EnvelopeError> {
    let (format, rest) = sealed.split_first().ok_or(EnvelopeError::Tampered)?;
    if *format != FORMAT {
        return Err(EnvelopeError::UnknownFormat);
    }
    let (nonce, text) = rest.split_at_checked(NONCE_LEN).ok_or(EnvelopeError::Tampered)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| EnvelopeError::Tampered)?;
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| EnvelopeError::Tampered)?;
    let mut text = Zeroizing::new(text.to_vec());
    let plain = LessSafeKey::new(key)
        .open_in_place(nonce, Aad::from(bound), &mut text)
        .map_err(|_| EnvelopeError::Tampered)?;
    Ok(Secret::new(plain.to_vec()))
}

#[cfg(test)]
mod tests;
