//! A root key in a vault (OpenBao, or Vault with the same interface), in one of two ways.
//!
//! - KV: the vault keeps the key, an operator put it there, and the daemon reads it at the start.
//! - Transit: the daemon makes the key and keeps it wrapped in a file; the vault unwraps it and never gives its own away.
//!
//! Either way the vault is asked at the start and for a rotation, and not for calls. What it answers is told by its
//! status alone.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::root_key::RootKey;
use super::source::{SourceError, write_private_file};
use super::vault::{Answer, KvPlace, SecretText, Vault, VaultError, is_path, read};

/// A vault, and where in it the root key is.
pub struct RootVault {
    pub vault: Vault,
    pub place: VaultPlace,
}

/// Where in a vault the root key is.
pub enum VaultPlace {
    /// In a KV engine.
    Kv(KvPlace),
    /// `MOUNT/KEY` of a transit engine, and the file that keeps what it wrapped.
    Transit { mount: String, key: String, file: PathBuf },
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: SecretText,
}

impl VaultPlace {
    /// Reads `MOUNT/PATH#FIELD`.
    pub fn kv(text: &str) -> Option<Self> {
        KvPlace::parse(text).map(Self::Kv)
    }

    /// Reads `MOUNT/KEY`.
    pub fn transit(text: &str, file: PathBuf) -> Option<Self> {
        let (mount, key) = text.rsplit_once('/')?;
        (is_path(mount) && is_path(key)).then(|| Self::Transit { mount: mount.into(), key: key.into(), file })
    }
}

impl RootVault {
    /// The key that is there now; none where a first one can be made.
    pub async fn read(&self) -> Result<Option<RootKey>, SourceError> {
        match &self.place {
            VaultPlace::Kv(place) => {
                let value = self.vault.kv(place).await.map_err(no_answer)?;
                let text = value.text.0.as_bytes();
                RootKey::read_text(text).map(Some).map_err(|error| no_key(&error.to_string()))
            }
            VaultPlace::Transit { mount, key, file } => {
                let Some(ciphertext) = kept_in(file)? else { return Ok(None) };
                let body = serde_json::json!({"ciphertext": ciphertext}).to_string();
                let answer = self.ask("POST", &format!("{mount}/decrypt/{key}"), Some(body.into())).await?;
                let decrypted: Answer<Decrypted> = read(&answer).map_err(no_answer)?;
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
        let encrypted: Answer<Encrypted> = read(&answer).map_err(no_answer)?;
        write_private_file(file, encrypted.data.ciphertext.as_bytes())
            .map_err(|error| unwritable(file, &error))
    }

    /// Where it is, as an answer may say it.
    pub fn shown(&self) -> String {
        match &self.place {
            VaultPlace::Kv(KvPlace { mount, path, field }) => {
                format!("field `{field}` of `{mount}/{path}` in the vault `{}`", self.vault.url)
            }
            VaultPlace::Transit { mount, key, .. } => {
                format!("the transit key `{mount}/{key}` of the vault `{}`", self.vault.url)
            }
        }
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, SourceError> {
        self.vault.ask(method, path, body).await.map_err(no_answer)
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

fn no_answer(error: VaultError) -> SourceError {
    match error {
        VaultError::Token(_) => SourceError::new(
            error.to_string(),
            "give a file that the daemon's user may read, with the token in it and nothing else",
        ),
        VaultError::Unfit(_) => no_key(&error.to_string()),
        VaultError::Away(_) | VaultError::Denied | VaultError::Nothing => away(&error.to_string()),
    }
}

fn away(why: &str) -> SourceError {
    SourceError::new(
        format!("the vault does not give the root key: {why}"),
        "look at `credentials.vault_url` and the token; the daemon asks again every minute",
    )
}

fn no_key(why: &str) -> SourceError {
    SourceError::new(
        format!("the vault has no root key there: {why}"),
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
    fn keys_of_a_transit_engine_are_read_and_what_would_lead_elsewhere_is_not() {
        assert!(matches!(
            VaultPlace::transit("teams/transit/toolgate", PathBuf::new()),
            Some(VaultPlace::Transit { mount, key, .. }) if (&*mount, &*key) == ("teams/transit", "toolgate")
        ));
        for text in ["transit", "transit/", "transit/../x", "transit/a b"] {
            assert!(VaultPlace::transit(text, PathBuf::new()).is_none(), "{text}");
        }
    }
}
