//! `hash`: digests and checksums.

use md5::Md5;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use toolgate_sdk::{Error, tool};

use crate::data::{Form, read_base64, read_hex, write_base64};

/// Larger inputs are files, and no arguments of a call.
pub const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Calculates a hash or checksum of text or bytes, and compares it with an expected one.
///
/// The text counts byte for byte in UTF-8: a newline at its end changes the result. `md5`, `sha1` and `crc32` are for
/// checking data against accidents, and no protection against people.
#[tool(
    read_only,
    tags("sha256", "md5", "checksum", "digest", "fingerprint"),
    examples(
        {"data": "abc"} => {"hash": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        "checked": {"data": "abc", "algorithm": "md5", "expected": "900150983CD24FB0D6963F7D28E17F72"} => {"hash": "900150983cd24fb0d6963f7d28e17f72", "matches": true},
        "bytes": {"data": "616263", "data_form": "hex", "algorithm": "crc32"} => {"hash": "352441c2"},
    )
)]
pub fn hash(
    /// Bytes to hash, at most 1 MiB
    data: String,
    /// How to hash it
    #[default]
    algorithm: Algorithm,
    /// How the bytes are written in `data`
    #[default]
    data_form: Form,
    /// How to write the hash
    #[default]
    to: DigestForm,
    /// A hash to compare with, in hex or base64, also as `sha256=…` or as a line of `sha256sum`
    expected: Option<String>,
) -> Result<Hashed, Error> {
    let digest = algorithm.digest(&read(&data, data_form, "data")?);
    Hashed::of(&digest, algorithm.name(), to, expected.as_deref())
}

/// A hash function.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    #[default]
    Sha256,
    Sha384,
    Sha512,
    Blake3,
    Sha1,
    Md5,
    Crc32,
}

/// How to write a digest.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestForm {
    #[default]
    Hex,
    Base64,
}

/// A hash.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Hashed {
    pub hash: String,
    /// Whether it is the expected one, where one was given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<bool>,
}

/// The names of hash functions, as they stand before a hash.
const NAMES: [&str; 7] = ["sha256", "sha384", "sha512", "blake3", "sha1", "md5", "crc32"];

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Blake3 => "blake3",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
            Self::Crc32 => "crc32",
        }
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(data).to_vec(),
            Self::Sha384 => Sha384::digest(data).to_vec(),
            Self::Sha512 => Sha512::digest(data).to_vec(),
            Self::Blake3 => blake3::hash(data).as_bytes().to_vec(),
            Self::Sha1 => Sha1::digest(data).to_vec(),
            Self::Md5 => Md5::digest(data).to_vec(),
            Self::Crc32 => crc32fast::hash(data).to_be_bytes().to_vec(),
        }
    }
}

impl Hashed {
    /// Writes a digest of the algorithm of this name.
    pub fn of(digest: &[u8], algorithm: &str, to: DigestForm, expected: Option<&str>) -> Result<Self, Error> {
        let hash = match to {
            DigestForm::Hex => hex::encode(digest),
            DigestForm::Base64 => write_base64(digest, false, true),
        };
        Ok(Self { hash, matches: expected.map(|expected| is_same(digest, algorithm, expected)).transpose()? })
    }
}

pub fn read(text: &str, form: Form, name: &str) -> Result<Vec<u8>, Error> {
    if text.len() > MAX_DATA_BYTES {
        return Err(Error::invalid(format!(
            "`{name}` has {} bytes: at most 1 MiB can be hashed",
            text.len()
        )));
    }
    form.read(text, name)
}

/// A hash that cannot be one of this algorithm is a mistake to tell, and not merely another hash.
fn is_same(digest: &[u8], algorithm: &str, expected: &str) -> Result<bool, Error> {
    let expected = match split_name(expected.trim()) {
        Some((name, _)) if name != algorithm => {
            return Err(Error::invalid(format!(
                "`expected` is of {name}, and `algorithm` is {algorithm}: set `algorithm` to `{name}`"
            )));
        }
        Some((_, hash)) => hash,
        None => without_file(expected.trim(), 2 * digest.len()),
    };
    let known = read_hex(expected, "expected").ok().filter(|bytes| bytes.len() == digest.len());
    let known =
        known.or_else(|| read_base64(expected, "expected").ok().filter(|bytes| bytes.len() == digest.len()));
    let known = known.ok_or_else(|| {
        Error::invalid(format!(
            "`expected` is no hash of this algorithm, which has {} bytes, so {} digits of hex: compare with another \
             algorithm, or write it whole",
            digest.len(),
            2 * digest.len()
        ))
    })?;
    Ok(known == digest)
}

/// The algorithm that stands before a hash, and the hash: `sha256=…`, `sha256:…`, `SHA-256-…`.
fn split_name(expected: &str) -> Option<(&'static str, &str)> {
    NAMES.into_iter().find_map(|name| {
        let mut rest = expected;
        for sign in name.chars() {
            let dashless = rest.strip_prefix('-').filter(|_| sign.is_ascii_digit()).unwrap_or(rest);
            rest = dashless.strip_prefix([sign, sign.to_ascii_uppercase()])?;
        }
        rest.strip_prefix(['=', ':', '-']).map(|hash| (name, hash.trim()))
    })
}

/// The hash of a line as `sha256sum` writes it, with the name of its file behind it.
fn without_file(expected: &str, digits: usize) -> &str {
    match expected.split_once(char::is_whitespace) {
        Some((hash, _)) if hash.len() == digits && hash.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            hash
        }
        _ => expected,
    }
}
