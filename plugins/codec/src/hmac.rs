//! `hmac`: signatures with a shared key.

use ::hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use toolgate_sdk::{Error, tool};

use crate::data::Form;
use crate::hash::{DigestForm, Hashed, read};

/// Calculates the HMAC of text or bytes with a key, and compares it with an expected one.
///
/// Use it to sign a request or to check the signature of a webhook: sign exactly the bytes that were sent, and give the
/// signature from the header as `expected`.
#[tool(
    read_only,
    tags("signature", "webhook", "sign", "verify"),
    redact("/key"),
    examples(
        {"data": "what do ya want for nothing?", "key": "Jefe"} => {"hash": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        "checked": {"data": "Hi There", "key": "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "key_form": "hex", "algorithm": "sha1", "expected": "b617318655057264e28bc0b6fb378c8ef146be00"} => {"hash": "b617318655057264e28bc0b6fb378c8ef146be00", "matches": true},
    )
)]
pub fn hmac(
    /// Bytes to sign, at most 1 MiB
    data: String,
    /// The key
    key: String,
    /// The hash function
    #[default]
    algorithm: HmacAlgorithm,
    /// How the bytes are written in `data`
    #[default]
    data_form: Form,
    /// How the bytes are written in `key`
    #[default]
    key_form: Form,
    /// How to write the result
    #[default]
    to: DigestForm,
    /// A signature to compare with, in hex or base64, also as `sha256=…`
    expected: Option<String>,
) -> Result<Hashed, Error> {
    let data = read(&data, data_form, "data")?;
    let key = read(&key, key_form, "key")?;
    let (digest, name) = match algorithm {
        HmacAlgorithm::Sha256 => (sign::<Hmac<Sha256>>(&key, &data), "sha256"),
        HmacAlgorithm::Sha384 => (sign::<Hmac<Sha384>>(&key, &data), "sha384"),
        HmacAlgorithm::Sha512 => (sign::<Hmac<Sha512>>(&key, &data), "sha512"),
        HmacAlgorithm::Sha1 => (sign::<Hmac<Sha1>>(&key, &data), "sha1"),
        HmacAlgorithm::Md5 => (sign::<Hmac<Md5>>(&key, &data), "md5"),
    };
    Hashed::of(&digest?, name, to, expected.as_deref())
}

/// The hash function of an HMAC.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HmacAlgorithm {
    #[default]
    Sha256,
    Sha384,
    Sha512,
    Sha1,
    Md5,
}

fn sign<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
    let mut signer = <M as KeyInit>::new_from_slice(key)
        .map_err(|_| Error::invalid("`key` has a length that cannot be used"))?;
    signer.update(data);
    Ok(signer.finalize().into_bytes().to_vec())
}
