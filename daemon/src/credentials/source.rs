//! Where the root key comes from: a file, the environment, a vault, or a file that the daemon made for itself.
//!
//! - The daemon's own, `DATA/keys/root`, made at the first start where nothing else is set. It keeps secrets from whoever
//!   gets the database alone (a copy, a backup of it, a disk image without `keys/`), and not from whoever reads the whole
//!   data folder or runs as the daemon's user.
//! - A file that the settings name, of this user alone. It can lie on another disk, or in memory.
//! - A variable of the environment. It stays readable in `/proc/PID/environ` for the daemon's user, since a program
//!   cannot take it out of there safely once it has threads.
//!
//! A key that the settings name and that cannot be had leaves the daemon sealed: it is never made anew in its place.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

use super::root_key::{RootKey, WRITTEN_KEY_BYTES};
use super::root_vault::{RootVault, VaultPlace};

/// A source of the root key.
pub enum RootKeySource {
    /// A file that the daemon makes and replaces.
    Made(PathBuf),
    /// A file that the operator keeps.
    File(PathBuf),
    /// What a variable of the environment held at the start.
    Environment {
        /// The variable.
        name: String,
        /// What it held.
        value: Option<Secret>,
    },
    /// A vault.
    Vault(RootVault),
}

/// Why a source gives no key. It says nothing of what was found there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    message: String,
    hint: &'static str,
}

impl SourceError {
    pub(super) fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }

    /// The way out.
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl RootKeySource {
    /// What a variable of the environment holds now, at the start: it is not looked at again.
    pub fn of_environment(name: &str) -> Self {
        let value = std::env::var_os(name).map(|value| Secret::new(value.into_vec()));
        Self::Environment { name: name.to_owned(), value }
    }

    /// The key that is there now; none where there never was one and the daemon makes its own.
    pub async fn read(&self) -> Result<Option<RootKey>, SourceError> {
        match self {
            Self::Vault(vault) => vault.read().await,
            Self::Made(path) if !path.exists() => Ok(None),
            Self::Made(path) | Self::File(path) => read_file(path).map(Some),
            Self::Environment { name, value } => {
                let value = value.as_ref().ok_or_else(|| {
                    SourceError::new(
                        format!("the variable `{name}` is not set"),
                        "start the daemon with the root key in it, or unseal it with `POST /v1/unseal`",
                    )
                })?;
                RootKey::read_text(value.expose()).map(Some).map_err(|error| {
                    SourceError::new(format!("`{name}`: {error}"), "put the root key into it")
                })
            }
        }
    }

    /// Whether the daemon makes the key and keeps it.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Made(_) => true,
            Self::Vault(vault) => matches!(vault.place, VaultPlace::Transit { .. }),
            Self::File(_) | Self::Environment { .. } => false,
        }
    }

    /// Puts a key there, in the place of the one before, where the daemon keeps it itself.
    pub async fn write(&self, key: &RootKey) -> Result<(), SourceError> {
        match self {
            Self::Made(path) => write_private_file(path, key.expose()).map_err(|error| {
                SourceError::new(
                    format!("the root key cannot be written to `{}`: {error}", path.display()),
                    "let the daemon's user write its data folder",
                )
            }),
            Self::Vault(vault) => vault.write(key).await,
            Self::File(_) | Self::Environment { .. } => Ok(()),
        }
    }

    /// Where it is, as an answer may say it.
    pub fn place(&self) -> String {
        match self {
            Self::Made(path) | Self::File(path) => format!("the file `{}`", path.display()),
            Self::Environment { name, .. } => format!("the variable `{name}`"),
            Self::Vault(vault) => vault.shown(),
        }
    }
}

fn read_file(path: &Path) -> Result<RootKey, SourceError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        SourceError::new(
            format!("the root key in `{}` cannot be read: {error}", path.display()),
            "put the root key there, or unseal the daemon with `POST /v1/unseal`",
        )
    };
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    let mode = file.metadata().map_err(|error| unreadable(&error))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(SourceError::new(
            format!("others than its owner can read the root key in `{}`", path.display()),
            "take their rights away with `chmod 600`, and rotate the key if somebody may have read it",
        ));
    }
    // Room for all of it at once: growing would leave pieces behind.
    let mut written = Zeroizing::new(Vec::with_capacity(2 * usize::try_from(WRITTEN_KEY_BYTES).unwrap_or(0)));
    file.take(WRITTEN_KEY_BYTES).read_to_end(&mut written).map_err(|error| unreadable(&error))?;
    RootKey::read_file(&written).map_err(|error| unreadable(&error))
}

/// A new file, synced, and then renamed over the old one: after a crash there is the one or the other.
pub(super) fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
    async fn a_file_gives_its_key_where_it_is_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let key = RootKey::generate().unwrap();
        assert_eq!(file(folder.path(), 0o600, key.expose()).read().await.unwrap().unwrap().id(), key.id());
        assert_eq!(file(folder.path(), 0o400, key.expose()).read().await.unwrap().unwrap().id(), key.id());
        for mode in [0o640, 0o604, 0o620] {
            assert!(
                refusal(&file(folder.path(), mode, key.expose())).await.contains("others than its owner")
            );
        }
    }

    #[tokio::test]
    async fn a_file_that_is_no_key_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let told = refusal(&file(folder.path(), 0o600, b"canary")).await;
        assert!(told.contains("/key`") && !told.contains("canary"), "{told}");
        assert!(refusal(&RootKeySource::File(folder.path().join("none"))).await.contains("/none`"));
    }

    #[tokio::test]
    async fn a_variable_gives_its_key_and_is_named_where_it_has_none() {
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
    async fn the_daemons_own_file_is_replaced_whole_and_no_other_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let made = RootKeySource::Made(folder.path().join("root"));
        let (one, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
        made.write(&one).await.unwrap();
        // What a crash left.
        std::fs::write(folder.path().join("root.new"), b"half").unwrap();
        made.write(&other).await.unwrap();
        assert_eq!(made.read().await.unwrap().unwrap().id(), other.id());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let kept = file(folder.path(), 0o600, one.expose());
        kept.write(&other).await.unwrap();
        assert_eq!(kept.read().await.unwrap().unwrap().id(), one.id());
    }
}
