//! Sources of the root key: a file that the daemon generates, a file or environment variable of the operator, or a vault.
//!
//! - Generated file, `DATA/keys/root`: the default. It protects secrets if only the database leaks (a copy, a backup, a disk
//!   image without `keys/`), and not if the whole data folder leaks or an attacker runs as the daemon's user.
//! - Operator's file, with mode 0600 or less. It can be on another disk, or in memory.
//! - Credential of a service manager (`LoadCredential=root-key:…`), if the settings name no other source. The manager decides who
//!   reads the file, with access control lists that its mode does not show.
//! - Environment variable. It stays readable in `/proc/PID/environ` for the daemon's user, since a program with threads
//!   cannot remove it safely.
//! - Vault with a KV secrets engine: an operator stored the key there, and the daemon reads it at start.
//! - Vault with a transit secrets engine: the daemon generates the key and keeps it encrypted in a file, and the vault
//!   decrypts it with a key that never leaves the vault.
//!
//! If a configured key cannot be read, the daemon stays sealed: it never generates a key instead. A vault is asked at start
//! and for a rotation, never during a call. Errors contain the status of its response, and nothing of the body.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use toolgate_macros::boxed;
use toolgate_sandbox::Secret;
use toolgate_state::config::{KvPath, VaultEngine};
use zeroize::Zeroizing;

use super::root_key::{RootKey, WRITTEN_KEY_BYTES};
use super::vault::{SecretText, Vault, VaultData, VaultError, parse_response};

/// A source of the root key.
pub enum RootKeySource {
    /// A file that the daemon generates and replaces.
    Generated(PathBuf),
    /// A file of the operator.
    File(PathBuf),
    /// A credential of the service manager.
    Credential(PathBuf),
    /// An environment variable, and its value at start.
    Environment { name: String, value: Option<Secret> },
    /// A secrets engine of a vault.
    Vault { vault: Vault, engine: VaultEngine },
}

/// Why a source has no key. It contains nothing of the value that was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    message: String,
    hint: &'static str,
}

#[derive(Deserialize)]
struct Encrypted {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Decrypted {
    plaintext: SecretText,
}

impl SourceError {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }

    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

#[boxed]
impl RootKeySource {
    /// Reads the variable now: later changes have no effect.
    pub fn of_environment(name: &str) -> Self {
        let value = std::env::var_os(name).map(|value| Secret::new(value.into_vec()));
        Self::Environment { name: name.to_owned(), value }
    }

    /// Reads the key. `None` if the daemon keeps the key itself and has not generated one yet.
    pub async fn read(&self) -> Result<Option<RootKey>, SourceError> {
        match self {
            Self::Generated(path) if !path.exists() => Ok(None),
            Self::Generated(path) | Self::File(path) => read_private_file(path).map(Some),
            Self::Credential(path) => {
                let file = File::open(path).map_err(|error| unreadable(path, &error))?;
                read_key(file, path).map(Some)
            }
            Self::Environment { name, value } => {
                let value = value.as_ref().ok_or_else(|| {
                    SourceError::new(
                        format!("the variable `{name}` is not set"),
                        "start the daemon with the root key in it, or unseal it with `toolgate credential unseal`",
                    )
                })?;
                RootKey::read_text(value.expose())
                    .map(Some)
                    .map_err(|error| SourceError::new(format!("`{name}`: {error}"), "set it to the root key"))
            }
            Self::Vault { vault, engine: VaultEngine::Kv(path) } => {
                let value = vault.read_kv(path).await.map_err(vault_failure)?;
                parse_vault_key(&value.text).map(Some)
            }
            Self::Vault { vault, engine: VaultEngine::Transit { mount, key, file } } => {
                let Some(ciphertext) = read_wrapped(file)? else { return Ok(None) };
                let body = serde_json::json!({"ciphertext": ciphertext}).to_string().into_bytes();
                let response = vault.send("POST", &format!("{mount}/decrypt/{key}"), Some(body)).await;
                let response = response.map_err(vault_failure)?;
                let decrypted: VaultData<Decrypted> = parse_response(&response).map_err(vault_failure)?;
                parse_vault_key(&decrypted.data.plaintext).map(Some)
            }
        }
    }

    /// Whether the daemon generates the key and stores it.
    pub fn is_generated(&self) -> bool {
        matches!(self, Self::Generated(_) | Self::Vault { engine: VaultEngine::Transit { .. }, .. })
    }

    /// Replaces the key, if the daemon stores it itself.
    pub async fn write(&self, key: &RootKey) -> Result<(), SourceError> {
        match self {
            Self::Generated(path) => write_private_file(path, key.expose()),
            Self::Vault { vault, engine: VaultEngine::Transit { mount, key: name, file } } => {
                // Base64 within base64, so that the decrypted text parses like any other written key.
                let plaintext = Zeroizing::new(BASE64_STANDARD.encode(key.expose()));
                let body = Zeroizing::new(format!(r#"{{"plaintext":"{}"}}"#, &*plaintext));
                let body = body.as_bytes().to_vec();
                let response = vault.send("POST", &format!("{mount}/encrypt/{name}"), Some(body)).await;
                let response = response.map_err(vault_failure)?;
                let encrypted: VaultData<Encrypted> = parse_response(&response).map_err(vault_failure)?;
                write_private_file(file, encrypted.data.ciphertext.as_bytes())
            }
            Self::File(_) | Self::Credential(_) | Self::Environment { .. } | Self::Vault { .. } => Ok(()),
        }
    }

    /// Describes the source for messages.
    pub fn description(&self) -> String {
        match self {
            Self::Generated(path) | Self::File(path) => format!("the file `{}`", path.display()),
            Self::Credential(path) => format!("the credential `{}`", path.display()),
            Self::Environment { name, .. } => format!("the variable `{name}`"),
            Self::Vault { vault, engine: VaultEngine::Kv(KvPath { mount, path, field }) } => {
                format!("field `{field}` of `{mount}/{path}` in the vault `{}`", vault.url)
            }
            Self::Vault { vault, engine: VaultEngine::Transit { mount, key, .. } } => {
                format!("the transit key `{mount}/{key}` of the vault `{}`", vault.url)
            }
        }
    }
}

/// Reads a key file that only its owner can read.
fn read_private_file(path: &Path) -> Result<RootKey, SourceError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mode = file.metadata().map_err(|error| unreadable(path, &error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(SourceError::new(
            format!(
                "root key file `{0}` has mode {1:04o}; run `chmod 600 {0}`",
                path.display(),
                mode & 0o7777
            ),
            "rotate the key if another user may have read it",
        ));
    }
    read_key(file, path)
}

fn read_key(file: File, path: &Path) -> Result<RootKey, SourceError> {
    // Allocated at its final size: a reallocation would leave a copy behind.
    let mut written = Zeroizing::new(Vec::with_capacity(2 * usize::try_from(WRITTEN_KEY_BYTES).unwrap_or(0)));
    file.take(WRITTEN_KEY_BYTES).read_to_end(&mut written).map_err(|error| unreadable(path, &error))?;
    RootKey::read_file(&written).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> SourceError {
    SourceError::new(
        format!("the root key in `{}` cannot be read: {error}", path.display()),
        "put the root key there, or unseal the daemon with `toolgate credential unseal`",
    )
}

/// Reads the encrypted root key of a transit engine; `None` if the file does not exist.
fn read_wrapped(file: &Path) -> Result<Option<String>, SourceError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourceError::new(
            format!("the wrapped root key in `{}` cannot be read: {error}", file.display()),
            "let the daemon's user read it, or restore it from a backup",
        )),
    }
}

fn write_private_file(path: &Path, bytes: &[u8]) -> Result<(), SourceError> {
    replace_file(path, bytes).map_err(|error| {
        SourceError::new(
            format!("the root key cannot be written to `{}`: {error}", path.display()),
            "let the daemon's user write its data folder",
        )
    })
}

/// Writes and syncs a new file, then renames it: a crash leaves the old file or the new one.
///
/// What a kill leaves of the new file is removed by the next write. Each start resumes a rotation, and so writes. It is
/// removed nowhere else: where the source was changed meanwhile, it may be the only copy of a key in the clear.
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

fn parse_vault_key(text: &SecretText) -> Result<RootKey, SourceError> {
    RootKey::read_text(text.0.as_bytes()).map_err(|error| no_vault_key(&error.to_string()))
}

fn vault_failure(error: VaultError) -> SourceError {
    match error {
        VaultError::Token(_) => SourceError::new(
            error.to_string(),
            "put the token alone into a file that the daemon's user may read",
        ),
        VaultError::Unexpected(_) => no_vault_key(&error.to_string()),
        VaultError::Unavailable(_) | VaultError::Forbidden | VaultError::NotFound => SourceError::new(
            format!("the vault does not give the root key: {error}"),
            "check `credentials.vault_url` and the token; the daemon tries again every minute",
        ),
    }
}

fn no_vault_key(reason: &str) -> SourceError {
    SourceError::new(
        format!("the vault has no root key there: {reason}"),
        "store one there: `openssl rand -hex 32`",
    )
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn file(folder: &Path, mode: u32, bytes: &[u8]) -> RootKeySource {
        let path = folder.join("key");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        RootKeySource::File(path)
    }

    async fn refusal(source: &RootKeySource) -> String {
        let error = source.read().await.err().expect("no key");
        assert!(!error.hint().is_empty());
        error.to_string()
    }

    #[tokio::test]
    async fn a_file_is_read_if_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let key = RootKey::generate().unwrap();
        assert_eq!(file(folder.path(), 0o600, key.expose()).read().await.unwrap().unwrap().id(), key.id());
        assert_eq!(file(folder.path(), 0o400, key.expose()).read().await.unwrap().unwrap().id(), key.id());
        for mode in [0o640, 0o604, 0o620] {
            let RootKeySource::File(path) = file(folder.path(), mode, key.expose()) else { continue };
            assert!(
                refusal(&RootKeySource::File(path.clone()))
                    .await
                    .contains(&format!("has mode {mode:04o}; run `chmod 600"))
            );
            // Its mode shows the access control list of a service manager.
            let credential = RootKeySource::Credential(path);
            assert_eq!(credential.read().await.unwrap().unwrap().id(), key.id());
        }
    }

    #[tokio::test]
    async fn an_invalid_file_is_named_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let message = refusal(&file(folder.path(), 0o600, b"canary")).await;
        assert!(message.contains("/key`") && !message.contains("canary"), "{message}");
        assert!(refusal(&RootKeySource::File(folder.path().join("none"))).await.contains("/none`"));
    }

    #[tokio::test]
    async fn a_variable_is_read_and_is_named_in_errors() {
        let source = |value: Option<&[u8]>| RootKeySource::Environment {
            name: "ROOT".to_owned(),
            value: value.map(|value| Secret::new(value.to_vec())),
        };
        let key = RootKey::generate().unwrap();
        let written = BASE64_STANDARD.encode(key.expose());
        assert_eq!(source(Some(written.as_bytes())).read().await.unwrap().unwrap().id(), key.id());
        assert!(refusal(&source(None)).await.contains("`ROOT` is not set"));
        assert!(!refusal(&source(Some(b"canary"))).await.contains("canary"));
    }

    #[tokio::test]
    async fn the_generated_file_is_replaced_atomically_and_no_other_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let made = RootKeySource::Generated(folder.path().join("root"));
        let (one, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
        made.write(&one).await.unwrap();
        // Left by a crash.
        std::fs::write(folder.path().join("root.new"), b"half").unwrap();
        made.write(&other).await.unwrap();
        assert_eq!(made.read().await.unwrap().unwrap().id(), other.id());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let operators = file(folder.path(), 0o600, one.expose());
        operators.write(&other).await.unwrap();
        assert_eq!(operators.read().await.unwrap().unwrap().id(), one.id());
    }
}
