//! Format of a token: `tg_`, a public id, `_`, and a secret of 32 random bytes in base64url.
//!
//! The store has the SHA-256 of the secret. A slow password hash would add nothing, since the secret is not
//! guessable, and its cost per request would enable a denial of service.

use std::fmt;
use std::hint::black_box;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use toolgate_api::hex;
use toolgate_audit::sha256;

const PREFIX: &str = "tg_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// A token with its secret, which the debug output omits.
pub struct Secret {
    id: String,
    bytes: [u8; SECRET_BYTES],
}

/// SHA-256 of a secret.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl Secret {
    /// Generates a new token; `None` if the system provides no random bytes.
    pub fn random() -> Option<Self> {
        let random = SystemRandom::new();
        let mut id = [0; ID_BYTES];
        let mut bytes = [0; SECRET_BYTES];
        random.fill(&mut id).and_then(|()| random.fill(&mut bytes)).ok()?;
        Some(Self { id: hex::encode(&id), bytes })
    }

    /// Parses a token from a request.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        if id.len() != 2 * ID_BYTES || !id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
        Some(Self { id: id.to_owned(), bytes })
    }

    /// The public part, which may be shown and logged.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole token, to be shown once.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, URL_SAFE_NO_PAD.encode(self.bytes))
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash(sha256(&self.bytes).0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({PREFIX}{}_…)", self.id)
    }
}

impl TokenHash {
    /// Hash that an unknown id is compared with. No known secret has this hash.
    pub const NOBODYS: Self = Self([0; 32]);

    /// Compares all bytes in constant time. `black_box` prevents the compiler from an early exit of the loop; ring's
    /// own comparison is not public.
    pub fn equals(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let difference = pairs.fold(0, |difference, (one, other)| black_box(difference | (one ^ other)));
        difference == 0
    }

    pub fn to_hex(self) -> String {
        hex::encode(&self.0)
    }

    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text.as_bytes())?.try_into().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_from_its_text() {
        let made = Secret::random().expect("random bytes");
        let read = Secret::parse(&made.text()).expect("a token");
        assert_eq!(read.id(), made.id());
        assert!(read.hash().equals(&made.hash()));
    }

    #[test]
    fn two_tokens_differ_in_id_and_secret() {
        let (one, other) = (Secret::random().expect("random"), Secret::random().expect("random"));
        assert_ne!(one.id(), other.id());
        assert!(!one.hash().equals(&other.hash()));
    }

    #[test]
    fn a_hash_that_differs_in_any_one_bit_is_another() {
        let hash = Secret::random().expect("random bytes").hash();
        for bit in 0..256 {
            let mut other = hash;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!hash.equals(&other), "bit {bit}");
        }
        assert!(hash.equals(&hash));
    }

    #[test]
    fn a_hash_reads_back_from_its_digits_and_nothing_else_does() {
        let hash = Secret::random().expect("random bytes").hash();
        assert!(TokenHash::from_hex(&hash.to_hex()).expect("a hash").equals(&hash));
        for text in ["", "00", &"zz".repeat(32), &"é".repeat(32)] {
            assert!(TokenHash::from_hex(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_no_token_is_not_read_as_one() {
        let good = Secret::random().expect("random bytes").text();
        let cases =
            ["", "tg_", "tg__", "tg_abc_def", &good[1..], &good[..good.len() - 1], &good.to_uppercase()];
        for text in cases.into_iter().chain([format!("{good}A").as_str(), &format!("{good}=")]) {
            assert!(Secret::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn debug_output_has_no_secret_in_it() {
        let secret = Secret::random().expect("random bytes");
        let text = secret.text();
        let (_, hidden) = text.rsplit_once(secret.id()).expect("an id");
        assert!(!format!("{secret:?}").contains(hidden));
    }
}
