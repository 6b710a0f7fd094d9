//! Signatures of plugin files: a statement in a DSSE envelope, signed with an Ed25519 key of its publisher (O2).
//!
//! The statement names namespace, version, publisher and digest, so a signature cannot be used for another file or for
//! another namespace. The signed bytes are the pre-authentication encoding of DSSE v1 (PAE), which covers the payload type.
//! Keys and trust in them are decided in `plugins/trust.rs`.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_api::hex;
use toolgate_api::read::{self, ReadError};
use toolgate_audit as audit;
use zeroize::Zeroizing;

/// The type of the payload of an envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.toolgate.plugin+json";

/// Longest envelope: a statement is some hundred bytes, and the header of a request holds the envelope in base64.
pub const ENVELOPE_BYTES: usize = 8 * 1024;
/// Most signatures of an envelope: a rotation signs with two keys.
const SIGNATURES: usize = 8;

/// Deepest nesting of an envelope: fields that DSSE does not define may be nested.
const JSON_DEPTH: u64 = 16;

const KEY_BYTES: usize = 32;
const KEY_PREFIX: &str = "ed25519:";
/// Longest file with a private key: PKCS #8 in base64 behind its prefix.
const KEY_FILE_BYTES: u64 = 4 * 1024;
const PRIVATE_PREFIX: &str = "toolgate-ed25519-private:";

/// The content of a signature: who published which file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The namespace under which the file may be loaded.
    pub namespace: String,
    /// The version, as the plugin declares it.
    pub version: String,
    /// The publisher.
    pub publisher: String,
    /// SHA-256 of the file: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

/// A DSSE envelope whose signatures are not verified yet.
#[derive(Clone, Debug)]
pub struct Envelope {
    payload: Vec<u8>,
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug)]
struct Signature {
    /// The id of the key as the envelope claims it: a hint, never a proof.
    key_id: Option<String>,
    bytes: Vec<u8>,
}

/// The JSON of an envelope. Fields that DSSE does not define are ignored, as its specification requires.
#[derive(Serialize, Deserialize)]
struct EnvelopeJson {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<SignatureJson>,
}

#[derive(Serialize, Deserialize)]
struct SignatureJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    sig: String,
}

/// A publisher's public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

/// A publisher's private key.
pub struct SigningKey(Ed25519KeyPair);

/// The text is no usable signature or key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SignatureError {
    /// The error message.
    pub message: String,
    /// The way out.
    pub hint: &'static str,
}

/// A key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read or created.
    #[error("the key file `{path}` cannot be used: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is no private key.
    #[error("`{0}` holds no private key of `toolgate plugin keygen`")]
    NotAKey(PathBuf),
    /// The system returns no random numbers.
    #[error("no key can be generated: the system returns no random numbers")]
    NoRandomness,
}

impl SignatureError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: "make the signature with `toolgate plugin sign FILE.wasm --key FILE`",
        }
    }
}

impl Statement {
    /// Signs the statement. Returns the envelope as JSON.
    pub fn sign(&self, key: &SigningKey) -> String {
        let payload = serde_json::json!({
            "namespace": self.namespace, "version": self.version, "publisher": self.publisher, "digest": self.digest,
        });
        let payload = payload.to_string().into_bytes();
        let signature = key.0.sign(&pre_authentication_encoding(&payload));
        let envelope = serde_json::json!({
            "payload": STANDARD.encode(&payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": key.public().id(), "sig": STANDARD.encode(signature.as_ref())}],
        });
        envelope.to_string()
    }
}

impl Envelope {
    /// Parses an envelope, JSON.
    pub fn parse(json: &[u8]) -> Result<Self, SignatureError> {
        if json.len() > ENVELOPE_BYTES {
            let message = format!("the envelope has {} bytes, more than {ENVELOPE_BYTES}", json.len());
            return Err(SignatureError::new(message));
        }
        let unreadable =
            |error: ReadError| SignatureError::new(format!("the signature is no DSSE envelope: {error}"));
        let value = parse_json(json).map_err(unreadable)?;
        let (envelope, _) = read::read_lenient::<EnvelopeJson>(&value).map_err(unreadable)?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(SignatureError::new(format!("the envelope is not of the type `{PAYLOAD_TYPE}`")));
        }
        if !(1..=SIGNATURES).contains(&envelope.signatures.len()) {
            return Err(SignatureError::new(format!(
                "the envelope does not have 1 to {SIGNATURES} signatures"
            )));
        }
        let not_base64 = || SignatureError::new("the envelope has a field that is not base64");
        let signature = |signature: SignatureJson| -> Result<Signature, SignatureError> {
            let bytes = decode(&signature.sig).ok_or_else(not_base64)?;
            Ok(Signature { key_id: signature.keyid, bytes })
        };
        Ok(Self {
            payload: decode(&envelope.payload).ok_or_else(not_base64)?,
            signatures: envelope.signatures.into_iter().map(signature).collect::<Result<_, _>>()?,
        })
    }

    /// Whether one of the signatures verifies under the key.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        let signed = pre_authentication_encoding(&self.payload);
        let key = UnparsedPublicKey::new(&ED25519, &key.0);
        self.signatures.iter().any(|signature| key.verify(&signed, &signature.bytes).is_ok())
    }

    /// Whether a signature claims to be by the key. Claims prove nothing; messages use them.
    pub fn claims(&self, key: &PublicKey) -> bool {
        let id = key.id();
        self.signatures.iter().any(|signature| signature.key_id.as_deref() == Some(&id))
    }

    /// The signed statement. Call it after [`Envelope::is_signed_by`].
    pub fn statement(&self) -> Result<Statement, SignatureError> {
        parse_json(&self.payload)
            .and_then(|value| read::read(&value))
            .map_err(|error| SignatureError::new(format!("the signed statement cannot be read: {error}")))
    }
}

/// Parses strict JSON: a text with a key that stands there twice would mean different things to two readers.
fn parse_json(json: &[u8]) -> Result<Value, ReadError> {
    let not_text = |_| ReadError::new("", "it is not UTF-8", "");
    read::parse(str::from_utf8(json).map_err(not_text)?, JSON_DEPTH)
}

/// The bytes that DSSE v1 signs: lengths separate type and payload, so that no other pair has the same bytes.
fn pre_authentication_encoding(payload: &[u8]) -> Vec<u8> {
    let mut encoded = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len()).into_bytes();
    encoded.extend_from_slice(payload);
    encoded
}

/// Decodes either alphabet of base64, as DSSE requires.
fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

impl PublicKey {
    /// Parses `ed25519:` and 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let bytes = text.strip_prefix(KEY_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or_else(|| SignatureError {
            message: "a public key is `ed25519:` and its 32 bytes in base64".to_owned(),
            hint: "`toolgate plugin keygen FILE` prints it for the key that it makes",
        })
    }

    /// The id of the key: the first 16 hexadecimal digits of its SHA-256.
    pub fn id(&self) -> String {
        hex::encode(&audit::sha256(&self.0).0[..8])
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{KEY_PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl SigningKey {
    /// Generates a key and writes it to a new file that only its owner can read.
    pub fn generate(path: &Path) -> Result<Self, KeyFileError> {
        let at = |source| KeyFileError::Io { path: path.to_owned(), source };
        let pkcs8 =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyFileError::NoRandomness)?;
        let key =
            Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|_| KeyFileError::NotAKey(path.to_owned()))?;
        let text = Zeroizing::new(format!("{PRIVATE_PREFIX}{}\n", STANDARD.encode(pkcs8.as_ref())));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Half a key would only be in the way of the next attempt.
            let _ = fs::remove_file(path);
            return Err(at(error));
        }
        Ok(Self(key))
    }

    /// Reads the file of [`SigningKey::generate`].
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let mut text = Zeroizing::new(String::new());
        let file = File::open(path).map_err(|source| KeyFileError::Io { path: path.to_owned(), source })?;
        let not_a_key = || KeyFileError::NotAKey(path.to_owned());
        file.take(KEY_FILE_BYTES).read_to_string(&mut text).map_err(|_| not_a_key())?;
        let encoded = text.trim().strip_prefix(PRIVATE_PREFIX).ok_or_else(not_a_key)?;
        let pkcs8 = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| not_a_key())?);
        Ed25519KeyPair::from_pkcs8(&pkcs8).map(Self).map_err(|_| not_a_key())
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key() -> (tempfile::TempDir, SigningKey) {
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::generate(&folder.path().join("key")).unwrap();
        (folder, key)
    }

    fn statement() -> Statement {
        Statement {
            namespace: "crm".into(),
            version: "1.0.0".into(),
            publisher: "acme".into(),
            digest: format!("sha256:{}", "a".repeat(64)),
        }
    }

    #[test]
    fn a_signed_statement_verifies_under_its_key_alone() {
        let ((_one, key), (_two, other)) = (key(), key());
        let envelope = Envelope::parse(statement().sign(&key).as_bytes()).unwrap();
        assert!(envelope.is_signed_by(&key.public()) && !envelope.is_signed_by(&other.public()));
        assert!(envelope.claims(&key.public()) && !envelope.claims(&other.public()));
        assert_eq!(envelope.statement().unwrap(), statement());
    }

    /// The example of the specification has another type, so the text is written out here.
    #[test]
    fn the_signed_bytes_are_those_of_dsse() {
        let encoded = pre_authentication_encoding(b"hello");
        assert_eq!(encoded, b"DSSEv1 36 application/vnd.toolgate.plugin+json 5 hello");
    }

    #[test]
    fn a_changed_payload_does_not_verify() {
        let (_folder, key) = key();
        let mut envelope: serde_json::Value = serde_json::from_str(&statement().sign(&key)).unwrap();
        let other = Statement { namespace: "erp".into(), ..statement() };
        envelope["payload"] = STANDARD.encode(serde_json::to_string(&other).unwrap()).into();
        let envelope = Envelope::parse(envelope.to_string().as_bytes()).unwrap();
        assert!(!envelope.is_signed_by(&key.public()));
    }

    #[test]
    fn both_alphabets_of_base64_are_read() {
        let (_folder, key) = key();
        let text = statement().sign(&key);
        let mut envelope: serde_json::Value = serde_json::from_str(&text).unwrap();
        for member in ["/payload", "/signatures/0/sig"] {
            let value = envelope.pointer_mut(member).unwrap();
            *value = value.as_str().unwrap().replace('+', "-").replace('/', "_").into();
        }
        let envelope = Envelope::parse(envelope.to_string().as_bytes()).unwrap();
        assert!(envelope.is_signed_by(&key.public()));
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let (_folder, key) = key();
        let sound: serde_json::Value = serde_json::from_str(&statement().sign(&key)).unwrap();
        let changed = |member: &str, value: serde_json::Value| {
            let mut envelope = sound.clone();
            envelope[member] = value;
            envelope.to_string()
        };
        let cases = [
            String::new(),
            "{}".into(),
            "[]".into(),
            changed("payloadType", "text/plain".into()),
            changed("payload", "?".into()),
            changed("signatures", serde_json::json!([])),
            changed("signatures", serde_json::json!([{"sig": "?"}])),
            changed("signatures", vec![sound["signatures"][0].clone(); SIGNATURES + 1].into()),
            changed("more", "x".repeat(ENVELOPE_BYTES).into()),
        ];
        for text in cases {
            assert!(Envelope::parse(text.as_bytes()).is_err(), "{text:.100}");
        }
        assert!(Envelope::parse(changed("more", "x".into()).as_bytes()).is_ok(), "other fields are ignored");
    }

    #[test]
    fn a_key_is_in_a_private_file_that_is_never_overwritten() {
        let (folder, key) = key();
        let path = folder.path().join("key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SigningKey::read(&path).unwrap().public(), key.public());
        assert!(matches!(SigningKey::generate(&path), Err(KeyFileError::Io { .. })));
        assert_eq!(SigningKey::read(&path).unwrap().public(), key.public());
        fs::write(&path, "toolgate-ed25519-private:AAAA").unwrap();
        assert!(matches!(SigningKey::read(&path), Err(KeyFileError::NotAKey(_))));
    }

    #[test]
    fn a_public_key_reads_back_from_its_text() {
        let (_folder, key) = key();
        let text = key.public().to_string();
        assert_eq!(PublicKey::parse(&text).unwrap(), key.public());
        for other in ["", "ed25519:", "ed25519:AAAA", &text[8..], &text[..text.len() - 1]] {
            assert!(PublicKey::parse(other).is_err(), "{other}");
        }
    }
}
