//! Keys that the daemon generates, each in a file of its own and outside the folder that it protects.

pub mod envelope;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// Prefix of the name of a key that is being written.
const DRAFT: &str = ".key-";

/// A key cannot be read or created.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or created.
    #[error("the key file `{path}` cannot be used: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Data is there, and the keys that sealed it are not.
    #[error("the data folder has data and lacks {}", path_list(.0))]
    Missing(Vec<PathBuf>),
    /// The file is not a key.
    #[error("`{0}` is not a key of {KEY_BYTES} bytes")]
    NotAKey(PathBuf),
}

fn path_list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" and ")
}

/// How to fix an entry of the data folder that cannot be created, read or written.
pub fn entry_hint(error: &io::Error) -> &'static str {
    use io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory, PermissionDenied};
    match error.kind() {
        AlreadyExists | IsADirectory | NotADirectory => {
            "move the existing file away; the next start creates it again"
        }
        PermissionDenied => "make the daemon's user the owner of the data folder and its content",
        _ => "check the disk of the data folder and the system log, or use another folder with `--data`",
    }
}

impl KeyError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { source, .. } => entry_hint(source),
            Self::Missing(_) => {
                "put the files back from a backup: no new key opens what the old ones sealed. Where they are lost, restore a backup, or move the data folder away to begin anew"
            }
            Self::NotAKey(_) => {
                "put the file back from a backup: no new key opens what the old one sealed. Only `cache.key`, and keys of a folder without data, are made again when they are removed"
            }
        }
    }
}

/// Reads the key in `path`, or generates one with mode 0600 if there is no file.
pub fn read_or_generate(path: &Path) -> Result<[u8; KEY_BYTES], KeyError> {
    match File::open(path) {
        Ok(file) => read(file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match generate(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                read(File::open(path).map_err(at(path))?, path)
            }
            generated => generated.map_err(at(path)),
        },
        Err(error) => Err(at(path)(error)),
    }
}

/// Checks the key in `path`. A file that does not exist is fine, since it is generated.
pub fn check(path: &Path) -> Result<(), KeyError> {
    match File::open(path) {
        Ok(file) => read(file, path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(path)(error)),
    }
}

/// Removes the keys that killed processes were writing. No other process may write keys to the folder meanwhile.
pub fn remove_drafts(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_draft(&entry.file_name())) {
        if let Err(error) = fs::remove_file(entry.path()) {
            tracing::warn!(%error, file = %entry.path().display(), "the part of a key stays");
        }
    }
}

/// Whether a file is a key that is being written, or was when its process was killed.
pub fn is_draft(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(DRAFT.as_bytes())
}

fn read(file: File, path: &Path) -> Result<[u8; KEY_BYTES], KeyError> {
    let mode = file.metadata().map_err(at(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        // The data folder is private, so that only a copy can have been read.
        let file = file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| error.to_string());
        let now = file.err().unwrap_or_else(|| "it is 0600 now".to_owned());
        let path = path.display();
        tracing::warn!(file = %path, "the mode of the key was {:04o}, so that others could read it: {now}", mode & 0o7777);
    }
    let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(at(path))?;
    bytes.try_into().map_err(|_| KeyError::NotAKey(path.to_owned()))
}

fn generate(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| io::Error::other("the system returns no random numbers"))?;
    // A file under the final name is a whole key: a kill or a full disk would otherwise leave a part of one, which no later
    // start takes. A key that another process made meanwhile is not replaced.
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()?;
    Ok(key)
}

fn at(path: &Path) -> impl Fn(io::Error) -> KeyError {
    move |source| KeyError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_generated_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.key");
        let made = read_or_generate(&path).unwrap();
        assert_eq!(read_or_generate(&path).unwrap(), made);
        assert_ne!(read_or_generate(&folder.path().join("other.key")).unwrap(), made);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn no_reader_sees_a_part_of_a_key() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}.key"));
            let keys: Vec<_> = std::thread::scope(|scope| {
                let threads = [(); 8].map(|()| scope.spawn(|| read_or_generate(&path)));
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 20, "no draft stays");
    }

    #[test]
    fn parts_of_keys_are_removed_and_keys_stay() {
        let folder = tempfile::tempdir().unwrap();
        read_or_generate(&folder.path().join("one.key")).unwrap();
        fs::write(folder.path().join(".key-a1b2c3"), [1; 9]).unwrap();
        remove_drafts(folder.path());
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["one.key"]);
        remove_drafts(&folder.path().join("missing"));
    }

    #[test]
    fn a_file_that_is_no_key_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.key");
        fs::write(&path, b"short").unwrap();
        let error = read_or_generate(&path).unwrap_err();
        assert!(error.to_string().contains("short.key"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}
