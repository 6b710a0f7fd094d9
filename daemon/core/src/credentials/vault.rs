//! Client of a vault (OpenBao, or HashiCorp Vault with the same interface), over HTTPS, with a token from a file.
//!
//! Errors contain the status of a response and nothing of its body, which can contain a secret.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;

use http::Request;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::config::KvPath;
use zeroize::Zeroizing;

use super::oauth::TokenClient;

/// Far more than a token has. A wrong file is not read completely.
const TOKEN_BYTES: u64 = 4_096;

/// A vault.
#[derive(Clone)]
pub struct Vault {
    pub http: TokenClient,
    /// Scheme, host and port.
    pub url: String,
    /// File with the daemon's token. It is read for each request, since an agent of the vault may renew it.
    pub token_file: PathBuf,
}

/// A field in a KV secrets engine.
pub struct KvValue {
    pub text: SecretText,
    /// Version of the secret; zero if the vault does not send it.
    pub version: u64,
}

/// Why a vault returned no secret. The text contains nothing that the vault sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// The token file cannot be read.
    #[error("the vault's token in {0}")]
    Token(String),
    /// The vault does not respond, or responds with a server error.
    #[error("{0}")]
    Unavailable(String),
    /// Status 403: the token has expired, or its policy does not allow this path.
    #[error("it does not accept this token for that path")]
    Forbidden,
    /// Status 404.
    #[error("it has nothing there")]
    NotFound,
    /// A response without the expected text.
    #[error("it {0}")]
    Unexpected(String),
}

/// Text that is zeroized on drop.
pub struct SecretText(pub Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}

/// The envelope of every response.
#[derive(Deserialize)]
pub(super) struct VaultData<T> {
    pub data: T,
}

/// The `data` of a KV read. Other fields than the requested one are not parsed.
#[derive(Deserialize)]
struct KvSecret<'a> {
    #[serde(borrow)]
    data: HashMap<String, &'a RawValue>,
    #[serde(default)]
    metadata: KvMetadata,
}

#[derive(Default, Deserialize)]
struct KvMetadata {
    #[serde(default)]
    version: u64,
}

#[boxed]
impl Vault {
    /// Reads a field of a KV secrets engine.
    pub async fn read_kv(&self, path: &KvPath) -> Result<KvValue, VaultError> {
        let KvPath { mount, path, field } = path;
        let response = self.send("GET", &format!("{mount}/data/{path}"), None).await?;
        let secret: VaultData<KvSecret<'_>> = parse_response(&response)?;
        let no_field = || VaultError::Unexpected(format!("has no field `{field}`"));
        let value = secret.data.data.get(field).ok_or_else(no_field)?;
        let no_text = |_| VaultError::Unexpected(format!("has no text in the field `{field}`"));
        let text = serde_json::from_str(value.get()).map_err(no_text)?;
        Ok(KvValue { text, version: secret.data.metadata.version })
    }

    /// Sends a request to a path below `/v1/`, and returns the body of a successful response.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let token = self.read_token()?;
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/v1/{path}", self.url.trim_end_matches('/')))
            .header("X-Vault-Token", token.expose())
            .header("X-Vault-Request", "true")
            .body(body.unwrap_or_default());
        let unavailable = |why: String| Err(VaultError::Unavailable(why));
        let Ok(request) = request else { return unavailable("its URL or the token is not valid".into()) };
        let response = (self.http)(request).await.map_err(|error| VaultError::Unavailable(error.0))?;
        match response.status().as_u16() {
            200..300 => Ok(Zeroizing::new(response.into_body())),
            403 => Err(VaultError::Forbidden),
            404 => Err(VaultError::NotFound),
            503 => unavailable("it is sealed itself".into()),
            status => unavailable(format!("it responds with status {status}")),
        }
    }

    fn read_token(&self) -> Result<Secret, VaultError> {
        let unreadable = |error: io::Error| {
            VaultError::Token(format!("`{}` cannot be read: {error}", self.token_file.display()))
        };
        let file = std::fs::File::open(&self.token_file).map_err(unreadable)?;
        let mut text = Zeroizing::new(Vec::new());
        file.take(TOKEN_BYTES).read_to_end(&mut text).map_err(unreadable)?;
        Ok(Secret::new(text.trim_ascii().to_vec()))
    }
}

pub(super) fn parse_response<'a, T: Deserialize<'a>>(response: &'a [u8]) -> Result<T, VaultError> {
    let unexpected = |_| VaultError::Unexpected("responds in an unexpected format".into());
    serde_json::from_slice(response).map_err(unexpected)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Response;

    use super::*;

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
        let value = vault.read_kv(&KvPath::parse("kv/a/b#key").unwrap()).await?;
        Ok((value.text.0.to_string(), value.version))
    }

    #[tokio::test]
    async fn a_field_is_read_beside_fields_of_any_type() {
        let body = r#"{"data":{"data":{"other":[1,null],"key":"canary"},"metadata":{"version":3}}}"#;
        assert_eq!(field_of(200, body).await, Ok(("canary".into(), 3)));
        let body = r#"{"data":{"data":{"key":"canary"}}}"#;
        assert_eq!(field_of(200, body).await, Ok(("canary".into(), 0)));
    }

    #[tokio::test]
    async fn errors_name_the_status_and_quote_no_body() {
        let cases = [
            (200, r#"{"data":{"data":{"keys":"canary"}}}"#, "has no field"),
            (200, r#"{"data":{"data":{"key":["canary"]}}}"#, "has no text"),
            (200, r#"{"data":"canary"}"#, "unexpected format"),
            (403, "canary", "token"),
            (404, "canary", "nothing there"),
            (503, "canary", "sealed itself"),
            (500, "canary", "status 500"),
        ];
        for (status, body, why) in cases {
            let message = field_of(status, body).await.unwrap_err().to_string();
            assert!(message.contains(why) && !message.contains("canary"), "{message}");
        }
    }
}
