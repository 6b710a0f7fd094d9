//! The user's cache of compiled code, so that the second `check` or `run` of a file does not compile it again: a component of
//! Python takes seconds.
//!
//! The code is authenticated as in a daemon, by a key of this user outside the cache folder.

use std::io;
use std::path::PathBuf;

use crate::keys::{KEY_BYTES, KeyError, read_or_generate};

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

    /// Reads or generates the key.
    pub(super) fn key(&self) -> Result<[u8; KEY_BYTES], KeyError> {
        let folder = self.key_file.parent().unwrap_or(&self.key_file);
        let in_folder = |source: io::Error| KeyError::Io { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(in_folder)?;
        read_or_generate(&self.key_file)
    }
}
