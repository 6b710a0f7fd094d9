//! The root key: 32 random bytes that open everything, known by an id that tells nothing of them.
//!
//! It is written as the bytes themselves, as 64 hexadecimal digits, or in base64. The id is the beginning of a hash, so
//! that a wrong key is known for a wrong one before anything is tried with it, and logs and answers can name a key.
//!
//! `ring` keeps what it makes of a key in memory of its own and does not wipe it. So keys are kept here as bytes, which
//! are wiped, and handed to `ring` for one operation at a time.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

use crate::keys::KEY_BYTES;

const ID_BYTES: usize = 8;

/// Most bytes of a written key: 64 digits with some space around. A file of another kind is noticed before it is read whole.
pub const WRITTEN_KEY_BYTES: u64 = 128;

/// A root key.
pub struct RootKey {
    id: RootKeyId,
    key: Secret,
}

/// Which root key: the beginning of a hash over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootKeyId([u8; ID_BYTES]);

/// The text is no root key. It says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "that is no root key; one is {KEY_BYTES} random bytes, as they are, as 64 hexadecimal digits, or in base64"
)]
pub struct NotARootKey;

impl RootKey {
    /// A new one.
    pub fn generate() -> Result<Self, NotARootKey> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new().fill(&mut *key).map_err(|_| NotARootKey)?;
        Self::from_bytes(&*key)
    }

    /// The key of these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotARootKey> {
        let all_alike = bytes.windows(2).all(|pair| pair[0] == pair[1]);
        if bytes.len() != KEY_BYTES || all_alike {
            return Err(NotARootKey);
        }
        let mut hash = Context::new(&SHA256);
        hash.update(b"toolgate root key id");
        hash.update(bytes);
        let mut id = [0; ID_BYTES];
        for (to, from) in id.iter_mut().zip(hash.finish().as_ref()) {
            *to = *from;
        }
        Ok(Self { id: RootKeyId(id), key: Secret::new(bytes.to_vec()) })
    }

    /// The key in a file: in one of the three ways.
    pub fn read_file(written: &[u8]) -> Result<Self, NotARootKey> {
        if written.len() == KEY_BYTES { Self::from_bytes(written) } else { Self::read_text(written) }
    }

    /// The key in a text: digits or base64. Thirty-two letters are no key, since nobody types thirty-two random bytes.
    pub fn read_text(written: &[u8]) -> Result<Self, NotARootKey> {
        let text = written.trim_ascii();
        let bytes = match text.len() {
            64 => from_hexadecimal(text).ok_or(NotARootKey)?,
            44 => Zeroizing::new(BASE64_STANDARD.decode(text).map_err(|_| NotARootKey)?),
            _ => return Err(NotARootKey),
        };
        Self::from_bytes(&bytes)
    }

    /// Which one it is.
    pub fn id(&self) -> RootKeyId {
        self.id
    }

    /// The bytes, for the cipher and for the file that keeps them.
    pub(super) fn expose(&self) -> &[u8] {
        self.key.expose()
    }
}

fn from_hexadecimal(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    pairs.collect::<Option<Vec<u8>>>().map(Zeroizing::new)
}

impl RootKeyId {
    /// Reads 16 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 2 * ID_BYTES {
            return None;
        }
        let bytes = from_hexadecimal(text.as_bytes())?;
        bytes.as_slice().try_into().ok().map(Self)
    }
}

impl fmt::Display for RootKeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = *b"an example key of 32 bytes, fine";

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    #[test]
    fn a_key_is_read_in_each_of_the_three_ways() {
        let key = RootKey::from_bytes(&KEY).unwrap();
        let base64 = BASE64_STANDARD.encode(KEY);
        for written in [KEY.to_vec(), hexadecimal(&KEY).into_bytes(), format!(" {base64}\n").into_bytes()] {
            let read = RootKey::read_file(&written).unwrap();
            assert_eq!(read.id(), key.id());
            assert_eq!(read.expose(), KEY);
            assert_eq!(RootKey::read_text(&written).is_ok(), written != KEY);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let zeros = hexadecimal(&[0; 32]);
        let almost = hexadecimal(&KEY).replacen('6', "g", 1);
        for written in ["", "short", &zeros, &almost, &hexadecimal(&KEY)[2..], &"a".repeat(64)] {
            assert!(RootKey::read_file(written.as_bytes()).is_err(), "{written}");
        }
        assert!(RootKey::read_file(hexadecimal(&KEY).as_bytes()).is_ok());
    }

    #[test]
    fn keys_have_ids_of_their_own_that_read_back() {
        let (one, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
        assert_ne!(one.id(), other.id());
        assert_eq!(RootKeyId::parse(&one.id().to_string()), Some(one.id()));
        assert_eq!(RootKeyId::parse("0123"), None);
        assert_eq!(RootKeyId::parse("0123456789abcdeg"), None);
    }
}
