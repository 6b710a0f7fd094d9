//! A vault (OpenBao, or Vault with the same interface), and how it is asked: over HTTPS, with a token from a file.
//!
//! `root_vault` gets the root key from one, `reference` the secrets of organizations. What it answers is told by its
//! status alone, since the rest can hold a secret.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use axum::http::Request;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

use super::oauth::TokenClient;

/// Far more than a token takes; the wrong file is noticed before it is read whole.
const TOKEN_BYTES: u64 = 4_096;

/// A vault.
#[derive(Clone)]
pub struct Vault {
    /// Who sends requests to it.
    pub http: TokenClient,
    /// Scheme, host and port.
    pub url: String,
    /// A file with the token that the vault knows the daemon by; read each time, since others renew it.
    pub token_file: PathBuf,
}

/// `MOUNT/PATH#FIELD` of a KV engine, version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPlace {
    /// Where the engine is mounted.
    pub mount: String,
    /// The secret's path below it.
    pub path: String,
    /// One of its fields.
    pub field: String,
}

/// What a KV engine has at a place.
pub struct KvValue {
    /// The text of the field.
    pub text: SecretText,
    /// Counts what was written there; zero where the engine does not say.
    pub version: u64,
}

/// Why a vault gave nothing. It says nothing of what the vault holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The token for it cannot be read from its file.
    #[error("the vault's token in {0}")]
    Token(String),
    /// It does not answer, or is not ready to.
    #[error("{0}")]
    Away(String),
    /// The token does not reach that far, or is no longer good.
    #[error("it does not let this token in")]
    Denied,
    /// It has nothing at that path.
    #[error("it has nothing there")]
    Nothing,
    /// What it has is something else.
    #[error("it {0}")]
    Unfit(String),
}

/// Text that is wiped.
pub struct SecretText(pub Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}

/// What a vault answers: `data` of whatever was asked.
#[derive(Deserialize)]
pub(super) struct Answer<T> {
    pub data: T,
}

/// What a KV engine keeps under a path. Fields that nobody asked for are not read, whatever they are.
#[derive(Deserialize)]
struct Kept<'a> {
    #[serde(borrow)]
    data: HashMap<String, &'a RawValue>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    version: u64,
}

impl KvPlace {
    /// Reads `MOUNT/PATH#FIELD`; none where it would lead elsewhere.
    pub fn parse(text: &str) -> Option<Self> {
        let (place, field) = text.split_once('#')?;
        let (mount, path) = place.split_once('/')?;
        let sound = is_path(mount) && is_path(path) && !field.is_empty();
        sound.then(|| Self { mount: mount.into(), path: path.into(), field: field.into() })
    }
}

/// Segments that a URL holds as they are.
pub(super) fn is_path(text: &str) -> bool {
    text.split('/').all(is_segment)
}

pub(super) fn is_segment(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text != "." && text != ".." && text.bytes().all(inside)
}

impl Vault {
    /// What a KV engine has there now.
    pub async fn kv(&self, place: &KvPlace) -> Result<KvValue, VaultError> {
        let answer = self.ask("GET", &format!("{}/data/{}", place.mount, place.path), None).await?;
        let kept: Answer<Kept<'_>> = read(&answer)?;
        let Some(value) = kept.data.data.get(&place.field) else {
            return Err(VaultError::Unfit(format!("has no field `{}`", place.field)));
        };
        let text = serde_json::from_str(value.get());
        let text =
            text.map_err(|_| VaultError::Unfit(format!("has no text in the field `{}`", place.field)))?;
        Ok(KvValue { text, version: kept.data.metadata.version })
    }

    /// What it answers to a request below `/v1/`.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let token = self.token()?;
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/v1/{path}", self.url.trim_end_matches('/')))
            .header("X-Vault-Token", token.expose())
            .header("X-Vault-Request", "true")
            .body(body.unwrap_or_default());
        let request = request.map_err(|_| VaultError::Away("its address or token is not sound".into()))?;
        let answer = (self.http)(request).await.map_err(|error| VaultError::Away(error.0))?;
        match answer.status().as_u16() {
            200..300 => Ok(Zeroizing::new(answer.into_body())),
            403 => Err(VaultError::Denied),
            404 => Err(VaultError::Nothing),
            503 => Err(VaultError::Away("it is sealed itself".into())),
            status => Err(VaultError::Away(format!("it answers with status {status}"))),
        }
    }

    fn token(&self) -> Result<Secret, VaultError> {
        use std::io::Read;
        let unreadable = |error: io::Error| {
            VaultError::Token(format!("`{}` cannot be read: {error}", self.token_file.display()))
        };
        let file = std::fs::File::open(&self.token_file).map_err(unreadable)?;
        let mut text = Zeroizing::new(Vec::new());
        file.take(TOKEN_BYTES).read_to_end(&mut text).map_err(unreadable)?;
        Ok(Secret::new(text.trim_ascii().to_vec()))
    }
}

/// What an answer says.
pub(super) fn read<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> Result<T, VaultError> {
    serde_json::from_slice(answer).map_err(|_| VaultError::Unfit("answers something else".into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::Response;

    use super::*;

    #[test]
    fn places_in_a_vault_are_read_and_what_would_lead_elsewhere_is_not() {
        let place = KvPlace::parse("secret/toolgate/prod#root").unwrap();
        assert_eq!((&*place.mount, &*place.path, &*place.field), ("secret", "toolgate/prod", "root"));
        for text in [
            "secret",
            "secret/a",
            "secret/#f",
            "secret/../sys#f",
            "secret/%2e%2e/sys#f",
            "secret/a//b#f",
            "secret/a?b#f",
            "secret/a\n#f",
            "/a#f",
            "secret/a#",
        ] {
            assert!(KvPlace::parse(text).is_none(), "{text}");
        }
    }

    async fn field_of(status: u16, body: &'static str) -> Result<(String, u64), VaultError> {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "token\n").unwrap();
        let http: TokenClient = Arc::new(move |request| {
            assert_eq!(request.uri(), "https://vault.example/v1/kv/data/a/b");
            assert_eq!(request.headers()["x-vault-token"], "token");
            Box::pin(async move { Ok(Response::builder().status(status).body(body.into()).unwrap()) })
        });
        let vault = Vault { http, url: "https://vault.example/".into(), token_file };
        let value = vault.kv(&KvPlace::parse("kv/a/b#key").unwrap()).await?;
        Ok((value.text.0.to_string(), value.version))
    }

    #[tokio::test]
    async fn a_field_is_read_whatever_the_others_are() {
        let body = r#"{"data":{"data":{"other":[1,null],"key":"canary"},"metadata":{"version":3}}}"#;
        assert_eq!(field_of(200, body).await, Ok(("canary".into(), 3)));
        let body = r#"{"data":{"data":{"key":"canary"}}}"#;
        assert_eq!(field_of(200, body).await, Ok(("canary".into(), 0)));
    }

    #[tokio::test]
    async fn what_gives_no_field_is_told_by_its_status_and_not_quoted() {
        let cases = [
            (200, r#"{"data":{"data":{"keys":"canary"}}}"#, "has no field"),
            (200, r#"{"data":{"data":{"key":["canary"]}}}"#, "has no text"),
            (200, r#"{"data":"canary"}"#, "something else"),
            (403, "canary", "token"),
            (404, "canary", "nothing there"),
            (503, "canary", "sealed itself"),
            (500, "canary", "status 500"),
        ];
        for (status, body, why) in cases {
            let told = field_of(status, body).await.unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains("canary"), "{told}");
        }
    }
}
