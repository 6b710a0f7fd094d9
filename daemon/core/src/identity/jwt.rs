//! JWT access tokens (RFC 7519, RFC 9068), ID tokens (OpenID Connect Core) and the public keys that sign them (RFC 7517).
//!
//! The rules of RFC 8725: three algorithms, each bound to one kind of key, so that no token chooses how it is verified; strict
//! JSON, so that no claim occurs twice; every claim that decides something has its type, or the token is refused. `ring`
//! verifies. The crate `jsonwebtoken` is left aside: its version on `ring` skips an `nbf` of the wrong type.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolgate_api::json::parse_strict;
use toolgate_api::name::Name;
use toolgate_api::text::escape_for_display;

/// Difference between the clocks of issuer and daemon that is tolerated.
const LEEWAY_SECONDS: u64 = 60;
/// Levels of a header and of claims.
const JSON_DEPTH: u64 = 16;
/// Longest subject, in bytes (OpenID Connect Core, section 2).
const SUBJECT_BYTES: usize = 255;
/// Keys of one issuer that are read.
const KEYS: usize = 100;
/// Least size of an RSA modulus, in bytes (RFC 7518, section 3.3).
const RSA_BYTES: usize = 256;
/// Longest text of a token that a message shows, in characters.
const SHOWN_CHARS: usize = 100;

/// The signature algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

/// Why an access token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidToken {
    #[error("it is not a signed JWT")]
    Malformed,
    #[error("its algorithm is `{0}`; `RS256`, `ES256` and `EdDSA` are accepted")]
    Algorithm(String),
    #[error("its type is `{0}`, not `at+jwt`")]
    Type(String),
    #[error("its header has extensions that must be understood")]
    Critical,
    #[error("its issuer `{0}` is not accepted here")]
    Issuer(String),
    #[error("its issuer has no key `{0}` for its algorithm")]
    UnknownKey(String),
    #[error("it names no key, and its issuer has not exactly one for its algorithm")]
    NoKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("its audience is not `{0}`")]
    Audience(String),
    #[error(
        "it has no `{0}`, which says whom it is for; if its issuer names its client instead, the operator writes \
         `audience_claim = \"client_id\"` and the client's id as `audience`"
    )]
    NoAudience(String),
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYetValid,
    #[error("its claim `{0}` is missing or not of the right type")]
    Claim(String),
    #[error("its claim `{0}` is not `ORGANIZATION/AGENT`")]
    AgentName(String),
    #[error("it is an access token, not an ID token")]
    NoIdToken,
    #[error("its `nonce` is of another sign-in")]
    Nonce,
}

/// A token whose signature is not verified yet.
pub(super) struct UnverifiedToken<'a> {
    pub algorithm: Algorithm,
    pub key_id: Option<String>,
    /// Whether its type is that of an access token (RFC 9068), and of no other.
    is_access_token: bool,
    claims: Map<String, Value>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// The claims that an issuer's tokens must have.
pub(super) struct Expected<'a> {
    pub audience: &'a str,
    /// The claim with the audience: `aud`, or that of the client.
    pub audience_claim: &'a str,
    pub agent_claim: &'a str,
    /// Empty if calls are made for no user.
    pub user_claim: &'a str,
}

/// The claims of a valid token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claims {
    pub subject: String,
    pub organization: Name,
    pub agent: Name,
    /// The user that calls are made for.
    pub user: Option<String>,
    pub scopes: Vec<String>,
    /// The time from which it is refused, in milliseconds since 1970.
    pub expires_ms: u64,
}

/// A public key of an issuer.
pub(super) struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    material: Material,
    /// Cancelled when the issuer no longer has the key.
    pub removed: CancellationToken,
}

#[derive(PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of P-256, uncompressed, or a key of Ed25519.
    Bytes(Vec<u8>),
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl<'a> UnverifiedToken<'a> {
    /// Parses a token in the compact form.
    pub(super) fn parse(text: &'a str) -> Result<Self, InvalidToken> {
        let malformed = || InvalidToken::Malformed;
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let header = decode_object(header).ok_or_else(malformed)?;
        let claims = decode_object(claims).ok_or_else(malformed)?;
        let text_of = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text_of("alg").ok_or_else(malformed)?;
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|known| known.name() == algorithm)
            .ok_or_else(|| InvalidToken::Algorithm(display_text(algorithm)))?;
        if header.contains_key("crit") {
            return Err(InvalidToken::Critical);
        }
        let is_access_token = match header.get("typ") {
            None => false,
            Some(Value::String(kind)) if is_known_type(kind) => media_type(kind) != "jwt",
            Some(other) => return Err(InvalidToken::Type(display_text(&other.to_string()))),
        };
        let key_id = match header.get("kid") {
            None => None,
            Some(id) => Some(id.as_str().ok_or_else(malformed)?.to_owned()),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| InvalidToken::Malformed)?;
        Ok(Self { algorithm, key_id, is_access_token, claims, signed, signature })
    }

    /// The issuer that the token names.
    pub(super) fn issuer(&self) -> Result<&str, InvalidToken> {
        self.text("iss")
    }

    /// Verifies an access token: the signature, then the claims.
    pub(super) fn verify(
        &self,
        key: &Key,
        expected: &Expected<'_>,
        now_ms: u64,
    ) -> Result<Claims, InvalidToken> {
        let (subject, expires_ms) =
            self.verify_common(key, (expected.audience_claim, expected.audience), now_ms)?;
        let agent = self.text(expected.agent_claim)?.split_once('/');
        let agent = agent.and_then(|(organization, agent)| {
            Some((Name::parse(organization).ok()?, Name::parse(agent).ok()?))
        });
        let (organization, agent) =
            agent.ok_or_else(|| InvalidToken::AgentName(expected.agent_claim.to_owned()))?;
        let user = match expected.user_claim {
            "" => None,
            claim => Some(self.visible_text(claim)?.to_owned()),
        };
        Ok(Claims { subject, organization, agent, user, scopes: self.scopes(), expires_ms })
    }

    /// Verifies an ID token (OpenID Connect Core, section 3.1.3.7): the signature, then the claims; no nonce where the request could
    /// send none. Returns the subject. The claims
    /// of a token that was not verified decide nothing.
    pub(super) fn verify_id(
        &self,
        key: &Key,
        client_id: &str,
        nonce: Option<&str>,
        now_ms: u64,
    ) -> Result<String, InvalidToken> {
        if self.is_access_token {
            return Err(InvalidToken::NoIdToken);
        }
        let (subject, _) = self.verify_common(key, ("aud", client_id), now_ms)?;
        let party = self.claims.get("azp");
        let has_others = self.claims.get("aud").and_then(Value::as_array).is_some_and(|list| list.len() > 1);
        let is_for_us = match party {
            None => !has_others,
            Some(party) => party.as_str() == Some(client_id),
        };
        if !is_for_us {
            return Err(InvalidToken::Audience(client_id.to_owned()));
        }
        // The nonce is no secret of this daemon: the browser sent it to the provider.
        match nonce {
            Some(nonce) if self.text("nonce")? != nonce => Err(InvalidToken::Nonce),
            _ => Ok(subject),
        }
    }

    /// The texts of a claim.
    pub(super) fn texts(&self, claim: &str) -> ClaimTexts {
        claim_texts(&self.claims, claim)
    }

    /// The name of the person.
    pub(super) fn person_name(&self) -> Option<String> {
        person_name(&self.claims)
    }

    /// Verifies what tokens of every kind have. Returns the subject, and the time from which the token is refused in milliseconds
    /// since 1970.
    fn verify_common(
        &self,
        key: &Key,
        (audience_claim, audience): (&str, &str),
        now_ms: u64,
    ) -> Result<(String, u64), InvalidToken> {
        if self.algorithm != key.algorithm {
            return Err(InvalidToken::Signature);
        }
        key.verify(self.signed.as_bytes(), &self.signature)?;
        let is_ours = |found: &Value| found.as_str() == Some(audience);
        let fits = match self.claims.get(audience_claim) {
            Some(Value::Array(audiences)) => audiences.iter().any(is_ours),
            Some(audience) => is_ours(audience),
            None => return Err(InvalidToken::NoAudience(audience_claim.to_owned())),
        };
        if !fits {
            return Err(InvalidToken::Audience(audience.to_owned()));
        }
        let now = now_ms / 1000;
        let expires = self.time("exp")?.ok_or_else(|| InvalidToken::Claim("exp".to_owned()))?;
        let expires = expires.saturating_add(LEEWAY_SECONDS);
        if expires <= now {
            return Err(InvalidToken::Expired);
        }
        if self.time("nbf")?.is_some_and(|start| start > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(InvalidToken::NotYetValid);
        }
        Ok((self.visible_text("sub")?.to_owned(), expires.saturating_mul(1000)))
    }

    /// The text of a claim that names somebody: 1 to 255 visible ASCII characters.
    fn visible_text(&self, claim: &str) -> Result<&str, InvalidToken> {
        let text = self.text(claim)?;
        let is_visible = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match !text.is_empty() && text.len() <= SUBJECT_BYTES && is_visible {
            true => Ok(text),
            false => Err(InvalidToken::Claim(claim.to_owned())),
        }
    }

    fn text(&self, claim: &str) -> Result<&str, InvalidToken> {
        let text = self.claims.get(claim).and_then(Value::as_str);
        text.ok_or_else(|| InvalidToken::Claim(claim.to_owned()))
    }

    /// A time in seconds since 1970, which may have a fraction (RFC 7519, section 2).
    fn time(&self, claim: &str) -> Result<Option<u64>, InvalidToken> {
        let Some(value) = self.claims.get(claim) else { return Ok(None) };
        let fraction = || std::time::Duration::try_from_secs_f64(value.as_f64()?).ok();
        let seconds = value.as_u64().or_else(|| Some(fraction()?.as_secs()));
        seconds.map(Some).ok_or_else(|| InvalidToken::Claim(claim.to_owned()))
    }

    /// The scopes, as RFC 8693 writes them, or as a list.
    fn scopes(&self) -> Vec<String> {
        let words =
            |value: &Value| value.as_str().unwrap_or_default().split(' ').map(str::to_owned).collect();
        match self.claims.get("scope").or_else(|| self.claims.get("scp")) {
            Some(Value::Array(list)) => {
                list.iter().flat_map(|value| -> Vec<String> { words(value) }).collect()
            }
            Some(value) => words(value),
            None => Vec::new(),
        }
    }
}

impl Key {
    /// The keys of a JWK set that can sign access tokens. Keys of other kinds are left out (RFC 7517, section 5).
    pub(super) fn read_set(set: &Map<String, Value>) -> Option<Vec<Self>> {
        let keys = set.get("keys")?.as_array()?;
        Some(keys.iter().filter_map(Value::as_object).filter_map(Self::read).take(KEYS).collect())
    }

    fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let (algorithm, material) = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let modulus: Vec<u8> = bytes("n")?.into_iter().skip_while(|byte| *byte == 0).collect();
                let is_long = modulus.len() >= RSA_BYTES;
                let material = Material::Rsa { modulus, exponent: bytes("e")? };
                (Algorithm::Rs256, Some(material).filter(|_| is_long)?)
            }
            ("EC", Some("P-256")) => {
                let point = [vec![4], bytes("x")?, bytes("y")?].concat();
                (Algorithm::Es256, Material::Bytes(Some(point).filter(|point| point.len() == 65)?))
            }
            ("OKP", Some("Ed25519")) => {
                (Algorithm::EdDsa, Material::Bytes(bytes("x").filter(|key| key.len() == 32)?))
            }
            _ => return None,
        };
        let verifies = |operations: &Value| {
            operations.as_array().is_some_and(|list| list.iter().any(|operation| operation == "verify"))
        };
        let fits = text("use").is_none_or(|usage| usage == "sig")
            && text("alg").is_none_or(|name| name == algorithm.name())
            && jwk.get("key_ops").is_none_or(verifies);
        let id = text("kid").map(str::to_owned);
        fits.then(|| Self { id, algorithm, material, removed: CancellationToken::new() })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.id, self.algorithm, &self.material) == (&other.id, other.algorithm, &other.material)
    }

    /// Whether the key may have signed the token.
    pub(super) fn fits(&self, token: &UnverifiedToken<'_>) -> bool {
        let is_named = token.key_id.is_none() || token.key_id == self.id;
        is_named && token.algorithm == self.algorithm
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), InvalidToken> {
        let verified = match (&self.material, self.algorithm) {
            (Material::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Material::Bytes(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Material::Bytes(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
            _ => return Err(InvalidToken::Signature),
        };
        verified.map_err(|_| InvalidToken::Signature)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key({:?}, {})", self.id, self.algorithm.name())
    }
}

/// What the claims say about one of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimTexts {
    /// Its texts.
    Texts(Vec<String>),
    /// There is no such claim.
    Missing,
    /// The provider left it out, since the person has too many values (Microsoft Entra, "groups overage").
    TooMany,
}

/// The texts of a claim that is a text or a list of texts. A name that no claim has is the path to a nested one, as `realm_access.roles`.
pub(super) fn claim_texts(claims: &Map<String, Value>, claim: &str) -> ClaimTexts {
    let nested = || {
        let mut names = claim.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    };
    match claims.get(claim).or_else(nested) {
        Some(Value::String(text)) => ClaimTexts::Texts(vec![text.clone()]),
        Some(Value::Array(list)) => {
            ClaimTexts::Texts(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Some(_) => ClaimTexts::Texts(Vec::new()),
        None => {
            let is_elsewhere = claims.get("_claim_names").is_some_and(|names| names.get(claim).is_some());
            let has_groups = claim == "groups" && claims.get("hasgroups") == Some(&Value::Bool(true));
            if is_elsewhere || has_groups { ClaimTexts::TooMany } else { ClaimTexts::Missing }
        }
    }
}

/// What a person is called: the name with the address, as far as they are known (OpenID Connect Core, section 5.1).
pub(super) fn person_name(claims: &Map<String, Value>) -> Option<String> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let (name, email) = (text("name").or_else(|| text("preferred_username")), text("email"));
    let shown = match (name, email) {
        (Some(name), Some(email)) if name != email => format!("{name} <{email}>"),
        (name, email) => name.or(email)?.to_owned(),
    };
    Some(escape_for_display(&shown, SHOWN_CHARS))
}

/// Whether `typ` is that of an access token (RFC 9068, section 4), or of a JWT.
fn is_known_type(kind: &str) -> bool {
    matches!(media_type(kind).as_str(), "at+jwt" | "jwt")
}

/// A media type in lower case, without the prefix `application/`.
fn media_type(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    kind.strip_prefix("application/").map_or_else(|| kind.clone(), str::to_owned)
}

fn decode_object(text: &str) -> Option<Map<String, Value>> {
    let json = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    match parse_strict(&json, JSON_DEPTH).ok()? {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// A text of a token, for messages.
pub(super) fn display_text(text: &str) -> String {
    escape_for_display(text, SHOWN_CHARS).replace('`', "'")
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
