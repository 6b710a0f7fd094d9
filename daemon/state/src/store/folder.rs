//! The data folder, private to the daemon's user and locked by one daemon. The store has a lock of its own, since two daemons
//! with different data folders may be given the same store.
//!
//! An advisory lock on the file `lock` (and on `STORE.lock`) ends with the process, so that a crash leaves nothing to clean up.
//! The process id in the file is informative only, for the message of a second daemon.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FallocateFlags};
use rustix::io::Errno;

use super::StoreError;
use crate::keys::entry_hint;

const LOCK: &str = "lock";

/// The folder for files that a check of the file system finds.
pub const LOST_AND_FOUND: &str = "lost+found";

/// The folder that a restore writes to until it is complete. No daemon starts on a data folder with it.
pub const UNFINISHED_RESTORE: &str = "restoring";

/// A file that takes up space for the next start: without any, SQLite cannot even open a store to read it.
const RESERVE: &str = "reserve";

/// Size of that file: more than the shared memory and the first pages of two write-ahead logs.
const RESERVE_BYTES: u64 = 1 << 20;

/// Smallest space that is worth a reservation.
const PAGE_BYTES: u64 = 4_096;

const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Limit for reading a process id.
const PID_BYTES: u64 = 32;

/// The data folder, locked until drop.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

/// A folder cannot be used as the data folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("the data folder `{}` is held by another daemon{}", .path.display(), with_pid(.pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("the folder `{}` contains other files, and other users can read it", .path.display())]
    NotPrivate { path: PathBuf },
    #[error("the folder `{}` belongs to another user", .path.display())]
    OfAnotherUser { path: PathBuf, is_root: bool },
    #[error("a restore into the data folder `{}` did not end", .path.display())]
    Unfinished { path: PathBuf },
    #[error("cannot use the data folder `{}`: {source}", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    /// An entry of the folder, by its path.
    #[error("cannot use `{}`: {source}", .path.display())]
    Inside { path: PathBuf, source: io::Error },
}

pub(super) fn with_pid(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

impl FolderError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => "stop that daemon, or use another folder with `--data`",
            Self::NotPrivate { .. } => {
                "use an empty folder with `--data`, such as a new one inside it, or remove the access of other users with `chmod 700`"
            }
            Self::OfAnotherUser { is_root: true, .. } => {
                "run the daemon as that user, as with `sudo -u USER`: what root writes there, the user's daemon cannot read"
            }
            // A volume of Kubernetes belongs to root, and its group may write it.
            Self::OfAnotherUser { is_root: false, .. } => "name a folder inside it, as `--data DIR/data`",
            Self::Unfinished { .. } => {
                "remove everything in the folder, and restore the backup again with `toolgate restore`"
            }
            Self::Unusable { .. } => "use a folder with `--data` that this user can write",
            Self::Inside { source, .. } => entry_hint(source),
        }
    }
}

impl DataFolder {
    /// Creates `path` if it is missing, makes it private and locks it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        if path.join(UNFINISHED_RESTORE).exists() {
            return Err(FolderError::Unfinished { path });
        }
        check_owner(&path, rustix::process::geteuid().is_root())?;
        make_private(&path)?;
        let lock = path.join(LOCK);
        match take_lock(&lock) {
            Ok(lock) => {
                // A missing file leaves less room, and on a full disk the store tells so.
                let _ = std::fs::remove_file(path.join(RESERVE));
                Ok(Self { path, _lock: lock })
            }
            Err(LockError::Held(pid)) => Err(FolderError::Held { path, pid }),
            Err(LockError::Failed(source)) => Err(FolderError::Inside { path: lock, source }),
        }
    }

    /// Checks whether [`DataFolder::open`] would take `path`, apart from the lock. Nothing is created or changed.
    pub fn check(path: &Path) -> Result<(), FolderError> {
        let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
        let mut existing = path;
        while !existing.as_os_str().is_empty() && !existing.exists() {
            existing = existing.parent().unwrap_or(Path::new("/"));
        }
        let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        if !existing.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        rustix::fs::access(existing, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| unusable(error.into()))?;
        // Root also checks the settings of a service with a user of its own.
        if existing == path && !rustix::process::geteuid().is_root() {
            check_owner(path, false)?;
        }
        let mode = existing.metadata().map_err(unusable)?.permissions().mode();
        if existing == path && mode & 0o077 != 0 && !is_data_folder(path).map_err(unusable)? {
            return Err(FolderError::NotPrivate { path: path.to_owned() });
        }
        Ok(())
    }

    /// Absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the first operator token.
    pub fn operator_token(&self) -> PathBuf {
        self.path.join("operator.token")
    }

    /// Takes up space for the next start, less where the disk has less. Returns whether there was enough.
    pub fn reserve_space(&self) -> io::Result<bool> {
        let path = self.path.join(RESERVE);
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(path)?;
        let mut bytes = RESERVE_BYTES;
        while bytes >= PAGE_BYTES {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(bytes == RESERVE_BYTES),
                Err(Errno::NOSPC | Errno::DQUOT) => bytes /= 2,
                // The file system cannot reserve space.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Creates a private subfolder if it is missing, and returns its path.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf, FolderError> {
        let path = self.path.join(name);
        match DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(FolderError::Inside { path, source }),
        }
    }
}

/// Refuses root in the folder of another user, whose daemon could not read what root leaves there, and a folder that this user cannot
/// make private.
fn check_owner(path: &Path, is_root: bool) -> Result<(), FolderError> {
    let metadata =
        path.metadata().map_err(|source| FolderError::Unusable { path: path.to_owned(), source })?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_private = metadata.permissions().mode() & 0o077 == 0;
    match is_own || !is_root && is_private {
        true => Ok(()),
        false => Err(FolderError::OfAnotherUser { path: path.to_owned(), is_root }),
    }
}

/// Makes the folder private, only if it is empty or was a data folder before: a mistake like `--data /tmp` must not lock
/// out other users.
fn make_private(path: &Path) -> Result<(), FolderError> {
    let unusable = |source| FolderError::Unusable { path: path.to_owned(), source };
    let mode = path.metadata().map_err(unusable)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if !is_data_folder(path).map_err(unusable)? {
        return Err(FolderError::NotPrivate { path: path.to_owned() });
    }
    // The wall lets no mode be changed by path.
    let folder = File::open(path).map_err(unusable)?;
    folder.set_permissions(Permissions::from_mode(PRIVATE_FOLDER)).map_err(unusable)
}

fn is_data_folder(path: &Path) -> io::Result<bool> {
    // The root of a file system has this folder from the beginning.
    let mut entries =
        path.read_dir()?.filter(|entry| !matches!(entry, Ok(entry) if entry.file_name() == LOST_AND_FOUND));
    Ok(path.join(LOCK).is_file() || entries.next().is_none())
}

/// Locks the store with this file until the returned file is dropped or unlocked. Also for a store in the data folder: the
/// lock of that folder does not stop a daemon with another folder.
pub(super) fn lock_store(file: &Path) -> Result<File, StoreError> {
    // The canonical path, since a symbolic link names the same store.
    let path = file.canonicalize().map_err(|error| StoreError::cannot_open(file, error))?;
    let mut lock = path.clone().into_os_string();
    lock.push(".lock");
    match take_lock(lock.as_ref()) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held(pid)) => Err(StoreError::Held { path, pid }),
        Err(LockError::Failed(error)) => Err(StoreError::cannot_open(lock.as_ref(), error)),
    }
}

/// Checks whether a store at `path` can be opened or created. Nothing is created or changed.
pub fn check_store_path(path: &Path) -> Result<(), StoreError> {
    let cannot_open = |error: io::Error| StoreError::cannot_open(path, error);
    if path.exists() {
        return OpenOptions::new().read(true).write(true).open(path).map(drop).map_err(cannot_open);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| cannot_open(error.into()))
}

enum LockError {
    Held(Option<u32>),
    Failed(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

fn take_lock(path: &Path) -> Result<File, LockError> {
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE)
        .open(path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::Held(written_pid(&mut lock))),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // Informative only, so a full disk does not keep the daemon from starting.
    let _ = write_pid(&mut lock);
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

/// Creates `path` with mode 0600 if it is missing: SQLite would use the umask, and gives its other files the mode of this one.
pub(super) fn create_private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(PRIVATE_FILE).open(path).map(drop)
}

/// Returns the free bytes of the file system of `file`, if known.
pub(super) fn free_bytes(file: &File) -> Option<u64> {
    let disk = rustix::fs::fstatvfs(file).ok()?;
    // Some blocks are reserved for root.
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
    fn space_for_the_next_start_is_taken_up_and_given_back() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::open(parent.path()).expect("a data folder");
        assert!(folder.reserve_space().expect("a reservation"));
        let reserve = folder.path().join(RESERVE);
        assert_eq!(reserve.metadata().expect("the file").len(), RESERVE_BYTES);
        assert_eq!(mode(&reserve), 0o600);
        drop(folder);
        DataFolder::open(parent.path()).expect("a data folder");
        assert!(!reserve.exists());
    }

    #[test]
    fn an_empty_folder_is_made_private() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).expect("opened");
        DataFolder::open(parent.path()).expect("a data folder");
        assert_eq!(mode(parent.path()), 0o700);
    }

    /// H01: a fresh volume.
    #[test]
    fn the_root_of_a_file_system_counts_as_empty() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(parent.path().join(LOST_AND_FOUND)).expect("a folder");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o2775)).expect("opened");
        DataFolder::check(parent.path()).expect("it can be used");
        DataFolder::open(parent.path()).expect("a data folder");
        assert_eq!(mode(parent.path()), 0o700);
    }

    /// Only root can give a folder to another user.
    #[test]
    fn root_takes_no_folder_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let parent = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::chown(parent.path(), Some(65_532), None).expect("another owner");
        let error = DataFolder::open(parent.path()).expect_err("of another user");
        assert!(error.hint().contains("sudo -u USER"), "{error}");
        assert_eq!(parent.path().read_dir().expect("a folder").count(), 0);
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o2775)).expect("opened");
        let error = check_owner(parent.path(), false).expect_err("not made private");
        assert!(error.hint().contains("--data DIR/data"), "{error}");
        std::os::unix::fs::chown(parent.path(), Some(0), None).expect("root's again");
        DataFolder::open(parent.path()).expect("a data folder");
    }

    #[test]
    fn an_open_folder_with_other_files_is_not_changed() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::write(parent.path().join("letter.txt"), "dear").expect("written");
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).expect("opened");
        let error = DataFolder::open(parent.path()).expect_err("not private");
        assert!(matches!(error, FolderError::NotPrivate { .. }), "{error}");
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
        std::fs::write(parent.path().join(LOCK), "\u{1b}[31mno number").expect("written");
        let error = DataFolder::open(parent.path()).expect_err("held");
        assert!(matches!(error, FolderError::Held { pid: None, .. }), "{error}");
    }

    #[test]
    fn a_check_finds_what_an_open_refuses_and_changes_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let new = parent.path().join("a/b");
        DataFolder::check(&new).expect("it can be created");
        assert!(!parent.path().join("a").exists());
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("written");
        for path in [&file, &file.join("below")] {
            assert!(
                matches!(DataFolder::check(path), Err(FolderError::Unusable { .. })),
                "{}",
                path.display()
            );
        }
        let shared = parent.path();
        std::fs::set_permissions(shared, Permissions::from_mode(0o755)).expect("a mode");
        assert!(matches!(DataFolder::check(shared), Err(FolderError::NotPrivate { .. })));
        assert_eq!(mode(shared), 0o755);
    }

    #[test]
    fn a_folder_with_an_unfinished_restore_is_refused_and_not_changed() {
        let parent = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(parent.path().join(UNFINISHED_RESTORE)).expect("a folder");
        let error = DataFolder::open(parent.path()).expect_err("not restored");
        assert!(matches!(error, FolderError::Unfinished { .. }), "{error}");
        assert!(!parent.path().join(LOCK).exists());
        std::fs::remove_dir(parent.path().join(UNFINISHED_RESTORE)).expect("removed");
        DataFolder::open(parent.path()).expect("an empty folder");
    }

    #[test]
    fn a_path_that_is_no_folder_is_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert!(matches!(DataFolder::open(&file), Err(FolderError::Unusable { .. })));
    }
}
