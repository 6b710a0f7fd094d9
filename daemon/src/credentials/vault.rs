//! A root key in a vault (OpenBao, or Vault with the same interface), in one of two ways.
//!
//! - KV: the vault keeps the key, an operator put it there, and the daemon reads it at the start.
//! - Transit: the daemon makes the key and keeps it wrapped in a file; the vault unwraps it and never gives its own away.
//!
//! Either way the vault is asked at the start and for a rotation, and not for calls. What it answers is told by its
//! status alone.

use std::io;
use std::path::{Path, PathBuf};

use axum::http::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

use super::oauth::TokenClient;
use super::root_key::RootKey;
use super::source::{SourceError, write_private_file};

/// Far more than a token takes; the wrong file is noticed before it is read whole.
const TOKEN_BYTES: u64 = 4_096;

/// A vault, and where in it the root key is.
pub struct Vault {
    pub http: TokenClient,
    /// Scheme, host and port.
    pub url: String,
    /// A file with the token that the vault knows the daemon by; read each time, since others renew it.
    pub token_file: PathBuf,
    pub place: VaultPlace,
}

/// Where in a vault the root key is.
pub enum VaultPlace {
    /// `MOUNT/PATH#FIELD` of a KV engine, version 2.
    Kv { mount: String, path: String, field: String },
    /// `MOUNT/KEY` of a transit engine, and the file that keeps what it wrapped.
    Transit { mount: String, key: String, file: PathBuf },
}

/// What a vault answers: `data` of whatever was asked.
#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

/// What a KV engine of version 2 keeps under a path.
#[derive(Deserialize)]
struct Kept {
    data: std::collections::HashMap<String, SecretText>,
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: SecretText,
}

/// Text that is wiped.
struct SecretText(Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}

impl VaultPlace {
    /// Reads `MOUNT/PATH#FIELD`.
    pub fn kv(text: &str) -> Option<Self> {
        let (place, field) = text.split_once('#')?;
        let (mount, path) = place.split_once('/')?;
        let sound = is_path(mount) && is_path(path) && !field.is_empty();
        sound.then(|| Self::Kv { mount: mount.into(), path: path.into(), field: field.into() })
    }

    /// Reads `MOUNT/KEY`.
    pub fn transit(text: &str, file: PathBuf) -> Option<Self> {
        let (mount, key) = text.rsplit_once('/')?;
        (is_path(mount) && is_path(key)).then(|| Self::Transit { mount: mount.into(), key: key.into(), file })
    }
}

/// Segments that a URL holds as they are.
fn is_path(text: &str) -> bool {
    let is_segment = |segment: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(inside)
    };
    text.split('/').all(is_segment)
}

impl Vault {
    /// The key that is there now; none where a first one can be made.
    pub async fn read(&self) -> Result<Option<RootKey>, SourceError> {
        match &self.place {
            VaultPlace::Kv { mount, path, field } => {
                let answer = self.ask("GET", &format!("{mount}/data/{path}"), None).await?;
                let kept: Answer<Kept> = read(&answer)?;
                let text =
                    kept.data.data.get(field).ok_or_else(|| no_key(&format!("has no field `{field}`")))?;
                RootKey::read_text(text.0.as_bytes()).map(Some).map_err(|error| no_key(&error.to_string()))
            }
            VaultPlace::Transit { mount, key, file } => {
                let Some(ciphertext) = kept_in(file)? else { return Ok(None) };
                let body = serde_json::json!({"ciphertext": ciphertext}).to_string();
                let answer = self.ask("POST", &format!("{mount}/decrypt/{key}"), Some(body.into())).await?;
                let decrypted: Answer<Decrypted> = read(&answer)?;
                let text = decrypted.data.plaintext.0.as_bytes();
                RootKey::read_text(text).map(Some).map_err(|error| no_key(&error.to_string()))
            }
        }
    }

    /// Keeps a key that the daemon made, where it keeps one itself.
    pub async fn write(&self, key: &RootKey) -> Result<(), SourceError> {
        let VaultPlace::Transit { mount, key: name, file } = &self.place else { return Ok(()) };
        // Base64 within base64: what comes back is then written like any other key.
        let plaintext = Zeroizing::new(BASE64_STANDARD.encode(key.expose()));
        let body = Zeroizing::new(format!(r#"{{"plaintext":"{}"}}"#, &*plaintext));
        let body = body.as_bytes().to_vec();
        let answer = self.ask("POST", &format!("{mount}/encrypt/{name}"), Some(body)).await?;
        let encrypted: Answer<Encrypted> = read(&answer)?;
        write_private_file(file, encrypted.data.ciphertext.as_bytes())
            .map_err(|error| unwritable(file, &error))
    }

    /// Where it is, as an answer may say it.
    pub fn shown(&self) -> String {
        match &self.place {
            VaultPlace::Kv { mount, path, field } => {
                format!("field `{field}` of `{mount}/{path}` in the vault `{}`", self.url)
            }
            VaultPlace::Transit { mount, key, .. } => {
                format!("the transit key `{mount}/{key}` of the vault `{}`", self.url)
            }
        }
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, SourceError> {
        let token = self.token()?;
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/v1/{path}", self.url.trim_end_matches('/')))
            .header("X-Vault-Token", token.expose())
            .header("X-Vault-Request", "true")
            .body(body.unwrap_or_default());
        let request = request.map_err(|_| away("its address or token is not sound"))?;
        let answer = (self.http)(request).await.map_err(|error| away(&error.0))?;
        match answer.status().as_u16() {
            200..300 => Ok(Zeroizing::new(answer.into_body())),
            403 => Err(away("it does not let this token in")),
            404 => Err(away("it has nothing there")),
            503 => Err(away("it is sealed itself")),
            status => Err(away(&format!("it answers with status {status}"))),
        }
    }

    fn token(&self) -> Result<Secret, SourceError> {
        use std::io::Read;
        let unreadable = |error: io::Error| {
            SourceError::new(
                format!("the vault's token in `{}` cannot be read: {error}", self.token_file.display()),
                "give a file that the daemon's user may read, with the token in it and nothing else",
            )
        };
        let file = std::fs::File::open(&self.token_file).map_err(unreadable)?;
        let mut text = Zeroizing::new(Vec::new());
        file.take(TOKEN_BYTES).read_to_end(&mut text).map_err(unreadable)?;
        Ok(Secret::new(text.trim_ascii().to_vec()))
    }
}

/// What the file keeps; none where there is no file yet.
fn kept_in(file: &Path) -> Result<Option<String>, SourceError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourceError::new(
            format!("the wrapped root key in `{}` cannot be read: {error}", file.display()),
            "let the daemon's user read it, or put it back from a backup",
        )),
    }
}

fn read<T: for<'de> Deserialize<'de>>(answer: &[u8]) -> Result<T, SourceError> {
    serde_json::from_slice(answer).map_err(|_| no_key("answers something else than a key"))
}

fn away(why: &str) -> SourceError {
    SourceError::new(
        format!("the vault does not give the root key: {why}"),
        "look at `credentials.vault_url` and the token; the daemon asks again every minute",
    )
}

fn no_key(why: &str) -> SourceError {
    SourceError::new(
        format!("the vault has no root key there: it {why}"),
        "put one there: `openssl rand -hex 32`",
    )
}

fn unwritable(file: &Path, error: &io::Error) -> SourceError {
    SourceError::new(
        format!("the wrapped root key cannot be written to `{}`: {error}", file.display()),
        "let the daemon's user write its data folder",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_vault_are_read_and_what_would_lead_elsewhere_is_not() {
        assert!(matches!(
            VaultPlace::kv("secret/toolgate/prod#root"),
            Some(VaultPlace::Kv { mount, path, field }) if (&*mount, &*path, &*field) == ("secret", "toolgate/prod", "root")
        ));
        assert!(matches!(
            VaultPlace::transit("teams/transit/toolgate", PathBuf::new()),
            Some(VaultPlace::Transit { mount, key, .. }) if (&*mount, &*key) == ("teams/transit", "toolgate")
        ));
        for text in
            ["secret", "secret/a", "secret/#f", "secret/../sys#f", "secret/a?b#f", "/a#f", "secret/a#"]
        {
            assert!(VaultPlace::kv(text).is_none(), "{text}");
        }
        for text in ["transit", "transit/", "transit/../x", "transit/a b"] {
            assert!(VaultPlace::transit(text, PathBuf::new()).is_none(), "{text}");
        }
    }
}
