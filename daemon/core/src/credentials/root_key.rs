//! The root key: 32 random bytes under which all data keys are encrypted, identified by a hash.
//!
//! A key is written as raw bytes, as 64 hexadecimal digits, or in base64. Its id is the prefix of a hash: a wrong key is
//! recognized before any decryption, and logs and responses can name a key.
//!
//! `ring` does not zeroize its copy of a key. So a key is kept here as bytes, which are zeroized on drop, and passed to
//! `ring` for one operation at a time.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use toolgate_api::hex;
use toolgate_sandbox::Secret;
use toolgate_state::keys::KEY_BYTES;
use toolgate_state::keys::envelope::{ROOT_KEY_ID_BYTES, RootKeyId};
use zeroize::Zeroizing;

/// Most bytes that are read of a key file: 64 digits with some whitespace. A wrong file is not read completely.
pub(super) const WRITTEN_KEY_BYTES: u64 = 128;

/// A root key.
pub struct RootKey {
    id: RootKeyId,
    key: Secret,
}

/// The text is not a root key. The message does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "that is not a root key; a root key is {KEY_BYTES} random bytes, raw, as 64 hexadecimal digits, or in base64"
)]
pub struct InvalidRootKey;

impl RootKey {
    pub fn generate() -> Result<Self, InvalidRootKey> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new().fill(&mut *key).map_err(|_| InvalidRootKey)?;
        Self::from_bytes(&*key)
    }

    /// Refuses keys whose bytes are all equal.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidRootKey> {
        let all_equal = bytes.windows(2).all(|pair| pair[0] == pair[1]);
        if bytes.len() != KEY_BYTES || all_equal {
            return Err(InvalidRootKey);
        }
        let mut hash = Context::new(&SHA256);
        hash.update(b"toolgate root key id");
        hash.update(bytes);
        let mut id = [0; ROOT_KEY_ID_BYTES];
        for (to, from) in id.iter_mut().zip(hash.finish().as_ref()) {
            *to = *from;
        }
        Ok(Self { id: RootKeyId::new(id), key: Secret::new(bytes.to_vec()) })
    }

    /// Parses the content of a file: raw bytes, hexadecimal or base64.
    pub fn read_file(written: &[u8]) -> Result<Self, InvalidRootKey> {
        if written.len() == KEY_BYTES { Self::from_bytes(written) } else { Self::read_text(written) }
    }

    /// Parses hexadecimal or base64. A text of 32 letters is refused, since typed letters are not random bytes.
    pub fn read_text(written: &[u8]) -> Result<Self, InvalidRootKey> {
        let text = written.trim_ascii();
        let bytes = match text.len() {
            64 => hex::decode(text).map(Zeroizing::new).ok_or(InvalidRootKey)?,
            44 => Zeroizing::new(BASE64_STANDARD.decode(text).map_err(|_| InvalidRootKey)?),
            _ => return Err(InvalidRootKey),
        };
        Self::from_bytes(&bytes)
    }

    pub fn id(&self) -> RootKeyId {
        self.id
    }

    pub(super) fn expose(&self) -> &[u8] {
        self.key.expose()
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
    fn a_key_is_read_in_each_of_the_three_encodings() {
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
    fn other_texts_are_refused() {
        let zeros = hexadecimal(&[0; 32]);
        let almost = hexadecimal(&KEY).replacen('6', "g", 1);
        for written in ["", "short", &zeros, &almost, &hexadecimal(&KEY)[2..], &"a".repeat(64)] {
            assert!(RootKey::read_file(written.as_bytes()).is_err(), "{written}");
        }
        assert!(RootKey::read_file(hexadecimal(&KEY).as_bytes()).is_ok());
    }

    #[test]
    fn keys_have_distinct_ids_that_parse() {
        let (one, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
        assert_ne!(one.id(), other.id());
        assert_eq!(RootKeyId::parse(&one.id().to_string()), Some(one.id()));
        assert_eq!(RootKeyId::parse("0123"), None);
        assert_eq!(RootKeyId::parse("0123456789abcdeg"), None);
    }
}
