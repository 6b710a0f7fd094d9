//! The user's cache of compiled code, so that the second `check` or `run` of a file does not compile it again: a component of
//! Python takes seconds.
//!
//! The code is authenticated as in a daemon, by a key of this user outside the cache folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::PathBuf;

use toolgate_state::keys::{KEY_BYTES, KeyError, read_or_generate};

/// The folders of the cache.
#[derive(Clone, Debug)]
pub struct UserCache {
    /// The folder with the code.
    pub folder: PathBuf,
    /// The file with the key, which is generated on first use.
    pub key_file: PathBuf,
}

impl UserCache {
    /// The cache in the folders of the XDG base directory specification. None for a user without a home folder.
    pub fn from_environment() -> Option<Self> {
        let base = |variable: &str, in_home: &str| {
            let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            named.or_else(|| Some(std::env::home_dir()?.join(in_home)))
        };
        Some(Self {
            folder: base("XDG_CACHE_HOME", ".cache")?.join("toolgate"),
            key_file: base("XDG_STATE_HOME", ".local/state")?.join("toolgate/compiled-code.key"),
        })
    }

    /// Reads or generates the key. A key that another user owns or reads is none, since code that it authenticates runs as this
    /// user.
    pub(super) fn key(&self) -> Result<[u8; KEY_BYTES], KeyError> {
        let folder = self.key_file.parent().unwrap_or(&self.key_file);
        let in_folder = |source: io::Error| KeyError::Io { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(in_folder)?;
        let key = read_or_generate(&self.key_file)?;
        let file = std::fs::metadata(&self.key_file).map_err(in_folder)?;
        match file.uid() == rustix::process::geteuid().as_raw() && file.mode() & 0o077 == 0 {
            true => Ok(key),
            false => Err(KeyError::NotAKey(self.key_file.clone())),
        }
    }
}
