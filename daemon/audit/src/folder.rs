//! The audit folder: file names, the lock, preallocation.
//!
//! `00000001.segment`, `00000002.segment`, … are the log. `spare` is the next segment, allocated while the disk has
//! space, and renamed after its header is synced, so that a file with a segment's name always begins with a complete header.
//! `head` is the anchor (`anchor.rs`), `cut` names the last record that retention removed (`retention.rs`), `origin` and `restored` tell
//! copies and restores (`origin.rs`), `lock` keeps a second daemon out. Space is allocated with `fallocate`, not only sized: a
//! write into it cannot fail for lack of blocks, so that outcomes fit on a full disk. A file system without `fallocate` gets
//! zeros instead.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::error::StartError;

const EXTENSION: &str = "segment";
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Path of a folder of segments.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
}

impl Folder {
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// Creates the folder with mode 0700 if it is missing.
    pub(crate) fn create(&self) -> Result<(), StartError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(StartError::io("make the folder", &self.dir))
    }

    /// Locks the folder; fails with [`StartError::Held`] if another process holds the lock.
    pub(crate) fn lock(&self) -> Result<FolderLock, StartError> {
        let path = self.dir.join("lock");
        let file = create_private(&path, false).map_err(StartError::io("open", &path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(FolderLock(file)),
            Err(Errno::WOULDBLOCK) => Err(StartError::Held { dir: self.dir.clone() }),
            Err(error) => Err(StartError::io("lock", &path)(error.into())),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:08}.{EXTENSION}"))
    }

    pub(crate) fn spare(&self) -> PathBuf {
        self.dir.join("spare")
    }

    pub(crate) fn anchor(&self) -> PathBuf {
        self.dir.join("head")
    }

    /// The file that names the last record that was cut.
    pub(crate) fn cut(&self) -> PathBuf {
        self.dir.join("cut")
    }

    /// The file that tells this folder from copies of it.
    pub(crate) fn origin(&self) -> PathBuf {
        self.dir.join("origin")
    }

    /// The file that a restore leaves for the first start.
    pub(crate) fn restored_file(&self) -> PathBuf {
        self.dir.join("restored")
    }

    /// Lists the numbers of the segments, ascending.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in self.dir.read_dir()? {
            numbers.extend(segment_number(&entry?.path()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Syncs the directory, so that renames and new files are durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    /// Creates the spare with its space allocated. Replaces one left by a crash, whose start may be written.
    pub(crate) fn make_spare(&self, bytes: u64) -> io::Result<File> {
        let path = self.spare();
        remove_if_there(&path)?;
        let file = create_private(&path, true)?;
        // A half-allocated spare would waste space on a full disk.
        allocate(&file, bytes).inspect_err(|_| drop(remove_if_there(&path)))?;
        Ok(file)
    }

    /// Renames the spare, whose header is synced, to its segment name.
    pub(crate) fn adopt_spare(&self, number: u64) -> io::Result<()> {
        std::fs::rename(self.spare(), self.segment(number))?;
        self.sync()
    }
}

/// Lock on the folder, released on drop.
pub(crate) struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process between fork and exec holds a copy of the descriptor.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn segment_number(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    (path.extension()? == EXTENSION).then(|| stem.parse().ok())?
}

/// Opens or creates a file with mode 0600 for reading and writing.
pub(crate) fn create_private(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .create_new(new)
        .mode(0o600)
        .open(path)
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Allocates the blocks of the first `bytes`; written content stays, new blocks read as zeros.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, file.metadata()?.len(), bytes),
        result => Ok(result?),
    }
}

/// Overwrites `from..to` with zeros.
pub(crate) fn write_zeros(file: &File, mut from: u64, to: u64) -> io::Result<()> {
    while from < to {
        let count = usize::try_from(to - from).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
        file.write_all_at(&ZEROS[..count], from)?;
        from += count as u64;
    }
    Ok(())
}
