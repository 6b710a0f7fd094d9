//! The data folder: private to the daemon's user, and held by one daemon. So is the store, wherever its file is: two
//! daemons with folders of their own may be given the same one.
//!
//! A lock on the file `lock`, or beside the store's, lasts as long as the process, whatever ends it, so
//! that a crash leaves nothing to clear away. The process id in it is for the
//! message that the second daemon gives, and decides nothing.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;

const LOCK: &str = "lock";
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Far more than a process id takes.
const PID_BYTES: u64 = 32;

/// The data folder, held until this is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

/// Why a folder cannot be the data folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("the data folder `{}` is held by another daemon{}", .path.display(), with_pid(.pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("the folder `{}` has files of others in it, and other users may read it", .path.display())]
    NotOurs { path: PathBuf },
    #[error("cannot use the data folder `{}`: {source}", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    /// Something in it, by its own path.
    #[error("cannot use `{}`: {source}", .path.display())]
    Inside { path: PathBuf, source: io::Error },
}

pub(super) fn with_pid(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

impl FolderError {
    /// The way out.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => "stop that daemon, or give this one another folder with `--data`",
            Self::NotOurs { .. } => {
                "give a folder of its own with `--data`, or take the others' rights away with `chmod 700`"
            }
            Self::Unusable { .. } => "give a folder that this user may write with `--data`",
            Self::Inside { source, .. } => way_out_inside(source),
        }
    }
}

/// The way out where something in the data folder cannot be made, read or written.
pub(crate) fn way_out_inside(error: &io::Error) -> &'static str {
    use io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory, PermissionDenied};
    match error.kind() {
        AlreadyExists | IsADirectory | NotADirectory => {
            "move away what has its name; the next start makes it anew"
        }
        PermissionDenied => "let the daemon's user own the data folder and everything in it",
        _ => "look at the disk of the data folder and the system's log, or give another folder with `--data`",
    }
}

impl DataFolder {
    /// Makes `path` if it is missing, closes it to other users and takes hold of it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        close_to_others(&path)?;
        let lock = path.join(LOCK);
        match take_lock(&lock) {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(NotTaken::Held(pid)) => Err(FolderError::Held { path, pid }),
            Err(NotTaken::Failed(source)) => Err(FolderError::Inside { path: lock, source }),
        }
    }

    /// The folder, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the first operator token is written.
    pub fn operator_token(&self) -> PathBuf {
        self.path.join("operator.token")
    }

    /// A folder of that name inside, private as well and made if it is missing.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf, FolderError> {
        let path = self.path.join(name);
        match DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(FolderError::Inside { path, source }),
        }
    }
}

/// Only a folder that is empty or has been ours is changed: a slip like
/// `--data /tmp` must not lock everybody else out of it.
fn close_to_others(path: &Path) -> Result<(), FolderError> {
    let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
    let mode = path.metadata().map_err(unusable)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if !is_ours(path).map_err(unusable)? {
        return Err(FolderError::NotOurs { path: path.to_owned() });
    }
    std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER)).map_err(unusable)
}

fn is_ours(path: &Path) -> io::Result<bool> {
    Ok(path.join(LOCK).is_file() || path.read_dir()?.next().is_none())
}

/// Takes hold of the store whose file is there, until the answer is dropped or unlocked. The one in the data folder as
/// well: that folder's own lock stops no daemon that has another folder.
pub(super) fn hold_store(file: &Path) -> Result<File, StoreError> {
    // By its real path: a link to it is the same store.
    let path = file.canonicalize().map_err(|error| StoreError::cannot_open(file, error))?;
    let mut lock = path.clone().into_os_string();
    lock.push(".lock");
    match take_lock(lock.as_ref()) {
        Ok(lock) => Ok(lock),
        Err(NotTaken::Held(pid)) => Err(StoreError::Held { path, pid }),
        Err(NotTaken::Failed(error)) => Err(StoreError::cannot_open(lock.as_ref(), error)),
    }
}

enum NotTaken {
    Held(Option<u32>),
    Failed(io::Error),
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

fn take_lock(path: &Path) -> Result<File, NotTaken> {
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .open(path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(NotTaken::Held(written_pid(&mut lock))),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    write_pid(&mut lock)?;
    Ok(lock)
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

fn written_pid(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(PID_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Makes `path` with mode 0600 if it is missing: SQLite would make it as open as
/// the umask has it, and gives its other files the mode of this one.
pub(super) fn create_private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(PRIVATE_FILE).open(path).map(drop)
}

/// How many bytes this process can still write on the file system that `file` is on, where that is known.
pub(super) fn room_beside(file: &File) -> Option<u64> {
    let disk = rustix::fs::fstatvfs(file).ok()?;
    // Some blocks are kept for the administrator.
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    Some(blocks.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("a folder").permissions().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_of_its_user_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::open(&parent.path().join("a/b")).expect("a data folder");
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.subfolder("audit").expect("a subfolder")), 0o700);
        assert_eq!(mode(&folder.path().join(LOCK)), 0o600);
    }

    #[test]
    fn an_empty_folder_is_closed_to_others() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).expect("opened");
        DataFolder::open(parent.path()).expect("a data folder");
        assert_eq!(mode(parent.path()), 0o700);
    }

    #[test]
    fn an_open_folder_with_files_of_others_is_left_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::write(parent.path().join("letter.txt"), "dear").expect("written");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).expect("opened");
        let error = DataFolder::open(parent.path()).expect_err("not ours");
        assert!(matches!(error, FolderError::NotOurs { .. }), "{error}");
        assert_eq!(mode(parent.path()), 0o755);
        assert!(!parent.path().join(LOCK).exists());
    }

    #[test]
    fn a_private_folder_with_files_is_taken() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::write(parent.path().join("toolgate.toml"), "").expect("written");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o700)).expect("closed");
        DataFolder::open(parent.path()).expect("a data folder");
    }

    #[test]
    fn a_folder_that_another_daemon_holds_is_refused_with_its_process() {
        let parent = tempfile::tempdir().expect("a folder");
        let held = DataFolder::open(parent.path()).expect("a data folder");
        let error = DataFolder::open(parent.path()).expect_err("held");
        let pid = format!("is held by another daemon (process {})", std::process::id());
        assert!(error.to_string().ends_with(&pid), "{error}");
        drop(held);
        DataFolder::open(parent.path()).expect("free again");
    }

    #[test]
    fn a_lock_file_without_a_process_id_is_still_held() {
        let parent = tempfile::tempdir().expect("a folder");
        let _held = DataFolder::open(parent.path()).expect("a data folder");
        std::fs::write(parent.path().join(LOCK), "\u{1b}[31mnobody").expect("written");
        let error = DataFolder::open(parent.path()).expect_err("held");
        assert!(matches!(error, FolderError::Held { pid: None, .. }), "{error}");
    }

    #[test]
    fn a_path_that_is_no_folder_is_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert!(matches!(DataFolder::open(&file), Err(FolderError::Unusable { .. })));
    }
}
