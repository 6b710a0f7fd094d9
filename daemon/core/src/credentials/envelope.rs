//! Envelope encryption of secrets: each secret is encrypted under a data key of its own, which is encrypted under the root
//! key. Both use AES-256-GCM with random nonces.
//!
//! The associated data (AAD) binds a ciphertext to its organization, credential, version, user, kind and the whole document
//! that says where the secret may be sent. So it does not decrypt for another organization or version, or after a
//! change of the host in the database row. Each version has a new data key that encrypts once, so its nonce is never
//! reused. The root key encrypts data keys only, far fewer than the 2³² messages that random nonces allow.
//!
//! The cipher is in [`toolgate_state::keys::envelope`].

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use toolgate_sandbox::Secret;
use toolgate_state::keys::KEY_BYTES;
use toolgate_state::keys::envelope::{EnvelopeError, RootKeyId, decrypt, encrypt, length_prefixed};
use zeroize::Zeroizing;

use super::root_key::RootKey;

/// Identifies the owner of a ciphertext, as its associated data.
#[derive(Clone, Copy, Debug)]
pub struct SealContext<'a> {
    pub organization: &'a str,
    /// The credential's id, never reused.
    pub id: &'a str,
    pub name: &'a str,
    /// Incremented with each new secret.
    pub version: u64,
    /// The user that owns the credential; `None` if the organization owns it.
    pub user: Option<&'a str>,
    pub kind: &'a str,
    /// The credential's document as stored.
    pub document: &'a str,
}

/// The associated data of a [`SealContext`], computed once for credentials that are often opened.
pub struct AssociatedData {
    key: Vec<u8>,
    secret: Vec<u8>,
}

/// An encrypted secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecret {
    /// The root key that encrypts the data key.
    pub root_key: RootKeyId,
    /// The encrypted data key.
    pub wrapped_key: Vec<u8>,
    /// The secret, encrypted under the data key.
    pub secret: Vec<u8>,
}

/// The secret parts of a credential.
#[derive(Default)]
pub struct SecretFields {
    /// The key, token, password or client secret that a person entered.
    pub given: Option<Secret>,
    /// OAuth2 access token.
    pub access_token: Option<Secret>,
    /// OAuth2 refresh token.
    pub refresh_token: Option<Secret>,
}

/// Encrypts a secret under a new data key.
pub(super) fn seal(
    root: &RootKey,
    context: &SealContext<'_>,
    secret: &[u8],
) -> Result<SealedSecret, EnvelopeError> {
    let mut data_key = Zeroizing::new([0; KEY_BYTES]);
    SystemRandom::new().fill(&mut *data_key).map_err(|_| EnvelopeError::Unsealable)?;
    Ok(SealedSecret {
        root_key: root.id(),
        wrapped_key: encrypt(root.expose(), &context.key_aad(root.id()), &*data_key)?,
        secret: encrypt(&*data_key, &context.secret_aad(), secret)?,
    })
}

/// Decrypts a secret.
pub(super) fn open(
    root: &RootKey,
    aad: &AssociatedData,
    sealed: &SealedSecret,
) -> Result<Secret, EnvelopeError> {
    let data_key = unwrap(root, &aad.key, sealed)?;
    decrypt(&data_key, &aad.secret, &sealed.secret).map(into_secret)
}

/// Encrypts the data key under another root key, without decrypting the secret.
pub(super) fn rewrap(
    from: &RootKey,
    to: &RootKey,
    context: &SealContext<'_>,
    sealed: &SealedSecret,
) -> Result<SealedSecret, EnvelopeError> {
    let data_key = unwrap(from, &context.key_aad(sealed.root_key), sealed)?;
    let wrapped_key = encrypt(to.expose(), &context.key_aad(to.id()), &data_key)?;
    Ok(SealedSecret { root_key: to.id(), wrapped_key, secret: sealed.secret.clone() })
}

/// Encrypts a root key under another one, for the duration of a rotation.
pub(super) fn wrap_root(under: &RootKey, key: &RootKey) -> Result<Vec<u8>, EnvelopeError> {
    encrypt(under.expose(), &root_aad(under.id(), key.id()), key.expose())
}

/// Decrypts the root key `id`.
pub(super) fn unwrap_root(under: &RootKey, id: RootKeyId, wrapped: &[u8]) -> Result<RootKey, EnvelopeError> {
    let key = decrypt(under.expose(), &root_aad(under.id(), id), wrapped)?;
    let key = RootKey::from_bytes(&key).map_err(|_| EnvelopeError::Tampered)?;
    if key.id() == id { Ok(key) } else { Err(EnvelopeError::Tampered) }
}

impl SealContext<'_> {
    /// The associated data for a secret under this root key.
    pub fn associated_data(&self, root: RootKeyId) -> AssociatedData {
        AssociatedData { key: self.key_aad(root), secret: self.secret_aad() }
    }

    fn secret_aad(&self) -> Vec<u8> {
        self.aad(b"toolgate credential secret", b"")
    }

    fn key_aad(&self, root: RootKeyId) -> Vec<u8> {
        self.aad(b"toolgate credential key", root.to_string().as_bytes())
    }

    fn aad(&self, purpose: &[u8], root: &[u8]) -> Vec<u8> {
        let document = digest(&SHA256, self.document.as_bytes());
        let user = self.user.map(|user| [b"user ", user.as_bytes()].concat()).unwrap_or_default();
        length_prefixed(&[
            purpose,
            root,
            self.organization.as_bytes(),
            self.id.as_bytes(),
            self.name.as_bytes(),
            &self.version.to_be_bytes(),
            &user,
            self.kind.as_bytes(),
            document.as_ref(),
        ])
    }
}

/// Encoding: a tag byte, a big-endian length of 4 bytes and the value, for each field that is present. Not JSON: a JSON
/// library leaves copies in memory that are not zeroized.
impl SecretFields {
    pub fn from_given(secret: Secret) -> Self {
        Self { given: Some(secret), ..Self::default() }
    }

    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let parts = || {
            let fields = [&self.given, &self.access_token, &self.refresh_token];
            (1_u8..).zip(fields).filter_map(|(tag, field)| Some((tag, field.as_ref()?.expose())))
        };
        // Allocated at its final size: a reallocation would leave a copy behind.
        let length = parts().map(|(_, bytes)| 5 + bytes.len()).sum();
        let mut encoded = Zeroizing::new(Vec::with_capacity(length));
        for (tag, bytes) in parts() {
            encoded.push(tag);
            encoded.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            encoded.extend_from_slice(bytes);
        }
        encoded
    }

    /// Returns `None` for any other bytes.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Self::default();
        while let Some((tag, rest)) = bytes.split_first() {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
            let field = match tag {
                1 => &mut fields.given,
                2 => &mut fields.access_token,
                3 => &mut fields.refresh_token,
                _ => return None,
            };
            *field = Some(Secret::new(value.to_vec()));
            bytes = rest;
        }
        Some(fields)
    }
}

fn unwrap(root: &RootKey, aad: &[u8], sealed: &SealedSecret) -> Result<Zeroizing<Vec<u8>>, EnvelopeError> {
    if root.id() != sealed.root_key {
        return Err(EnvelopeError::OtherRootKey(sealed.root_key));
    }
    decrypt(root.expose(), aad, &sealed.wrapped_key)
}

fn into_secret(mut plain: Zeroizing<Vec<u8>>) -> Secret {
    Secret::new(std::mem::take(&mut *plain))
}

fn root_aad(under: RootKeyId, id: RootKeyId) -> Vec<u8> {
    length_prefixed(&[b"toolgate root key", under.to_string().as_bytes(), id.to_string().as_bytes()])
}

#[cfg(test)]
mod tests;
