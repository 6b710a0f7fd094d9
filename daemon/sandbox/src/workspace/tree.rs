//! Walks the workspace's directory tree one name at a time.
//!
//! Every step opens a single name below an open directory, through cap-std (`openat2` with `RESOLVE_BENEATH` if the
//! kernel has it, else its own walk) and with `O_NOFOLLOW`. So a directory that is exchanged for a link between check
//! and use (TOCTOU) leads nowhere. An opened file must also be the one that was seen under the name, since cap-std's
//! own walk would follow a link there, although never out of the workspace. `O_NONBLOCK` keeps the open of a pipe from
//! blocking, and an opened file is checked before use.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::FileError;
use super::ledger::{FileId, Holder, Ledger, WorkspaceUsage};
use super::path::{RESERVED_PREFIX, Refusal};

/// Maximum nesting of directories. A deeper tree costs an open file per level to walk and remove.
pub(crate) const DEPTH_MAX: usize = 64;

/// Maximum entries counted when a workspace is opened. A larger directory is not one of ours.
const SCAN_ENTRIES_MAX: u64 = 1_000_000;

/// An open file, counted against the quota while it is open.
#[derive(Debug)]
pub(crate) struct HeldFile {
    // INVARIANT: the holder is dropped before the file is closed, by the order of these fields. Closing the last
    // descriptor of a removed file frees its inode: a new file with the same number would be taken for the removed one
    // while the ledger still has it, and released when it is closed.
    pub(crate) holder: Holder,
    pub(crate) file: Arc<fs::File>,
}

/// Looks up a name without following links.
pub(crate) fn lookup(folder: &Dir, name: &str) -> io::Result<Option<Metadata>> {
    match folder.symlink_metadata(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Walks down through directories.
pub(crate) fn enter(base: &Dir, names: &[String]) -> Result<Dir, FileError> {
    let mut here = base.try_clone()?;
    for name in names {
        here = open_directory(&here, name)?;
    }
    Ok(here)
}

pub(crate) fn open_directory(parent: &Dir, name: &str) -> Result<Dir, FileError> {
    open_directory_name(parent, name).map_err(|error| explain_link(parent, name, error))
}

fn open_directory_name(parent: &Dir, name: impl AsRef<Path>) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW));
    Ok(Dir::from_std_file(parent.open_with(name, &options)?.into_std()))
}

/// Opens the file that was seen under a name. Refuses all but a plain file with a single name.
pub(crate) fn open_file(
    parent: &Dir,
    name: &str,
    seen: &Metadata,
    read: bool,
    write: bool,
    ledger: &Arc<Ledger>,
) -> Result<(HeldFile, u64), FileError> {
    let mut options = OpenOptions::new();
    options.read(read).write(write).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    let file = parent.open_with(name, &options).map_err(|error| explain_link(parent, name, error))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Refusal::NotRegular.into());
    }
    // Without `openat2`, cap-std ignores our `O_NOFOLLOW`: a link that replaced the file since it was seen would be
    // followed, within the workspace. It leads to another file.
    if id_of(&metadata) != id_of(seen) {
        return Err(Errno::BUSY.into());
    }
    if metadata.nlink() > 1 {
        return Err(Refusal::HardLinked.into());
    }
    let holder = ledger.hold(id_of(&metadata));
    Ok((HeldFile { file: Arc::new(file.into_std()), holder }, metadata.len()))
}

/// Creates an empty file. The caller has reserved its space.
pub(crate) fn create_file(
    parent: &Dir,
    name: &str,
    read: bool,
    ledger: &Arc<Ledger>,
) -> Result<HeldFile, FileError> {
    let mut options = OpenOptions::new();
    options.read(read).write(true).create_new(true).mode(0o600).custom_flags(flags(OFlags::NOFOLLOW));
    let file = parent.open_with(name, &options)?;
    let holder = ledger.hold(id_of(&file.metadata()?));
    Ok(HeldFile { file: Arc::new(file.into_std()), holder })
}

/// Number of directories above this one, up to the top of the workspace. Reads the disk and not the path it was opened
/// by, since a guest may have moved the directory.
pub(crate) fn depth_of(folder: &Dir, top: FileId) -> Result<usize, FileError> {
    let mut here = folder.try_clone()?;
    for depth in 0..=DEPTH_MAX {
        if id_of(&here.dir_metadata()?) == top {
            return Ok(depth);
        }
        here = here.open_parent_dir(ambient_authority())?;
    }
    Err(Refusal::TooDeep.into())
}

/// Levels of directories below this one.
pub(crate) fn height_of(folder: &Dir) -> Result<usize, FileError> {
    let mut height = 0;
    visit(folder, "", 1, &mut |entry| {
        height = height.max(entry.depth - usize::from(!entry.metadata.is_dir()))
    })?;
    Ok(height)
}

/// Counts all entries, and removes temporary files of an interrupted write.
pub(crate) fn count(top: &Dir) -> Result<WorkspaceUsage, FileError> {
    remove_leftovers(top)?;
    let mut used = WorkspaceUsage::default();
    visit(top, "", 1, &mut |entry| {
        used.files += 1;
        used.bytes = used.bytes.saturating_add(entry.bytes());
    })?;
    Ok(used)
}

fn remove_leftovers(top: &Dir) -> io::Result<()> {
    for entry in top.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(RESERVED_PREFIX.as_bytes()) && !entry.file_type()?.is_dir() {
            top.remove_file(name)?;
        }
    }
    Ok(())
}

/// An entry found by [`visit`].
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) metadata: Metadata,
    depth: usize,
}

impl Entry {
    /// Its share of the byte quota.
    pub(crate) fn bytes(&self) -> u64 {
        if self.metadata.is_file() { self.metadata.len() } else { 0 }
    }
}

/// Visits all entries below a directory, links as links.
pub(crate) fn visit(
    folder: &Dir,
    path: &str,
    depth: usize,
    callback: &mut impl FnMut(Entry),
) -> Result<(), FileError> {
    let mut left = SCAN_ENTRIES_MAX;
    visit_within(folder, path, depth, &mut left, callback)
}

fn visit_within(
    folder: &Dir,
    path: &str,
    depth: usize,
    left: &mut u64,
    callback: &mut impl FnMut(Entry),
) -> Result<(), FileError> {
    // Deeper than guests can create: a move before this check existed may have nested one tree in another.
    if depth > 2 * DEPTH_MAX {
        return Err(Refusal::TooDeep.into());
    }
    for entry in folder.entries()? {
        *left = left.checked_sub(1).ok_or_else(|| io::Error::from(Errno::NFILE))?;
        let name = entry?.file_name();
        let name_text = name.to_string_lossy();
        let path = if path.is_empty() { name_text.into_owned() } else { format!("{path}/{name_text}") };
        let metadata = folder.symlink_metadata(&name)?;
        let is_folder = metadata.is_dir();
        callback(Entry { path: path.clone(), metadata, depth });
        if is_folder {
            visit_within(&open_directory_name(folder, &name)?, &path, depth + 1, left, callback)?;
        }
    }
    Ok(())
}

pub(crate) fn id_of(metadata: &Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

/// The kernel returns `ENOTDIR`, `ELOOP` or `ENXIO` for a link or a socket; the refusal is more precise.
fn explain_link(parent: &Dir, name: &str, error: io::Error) -> FileError {
    match lookup(parent, name) {
        Ok(Some(found)) if found.is_symlink() => Refusal::Symlink.into(),
        Ok(Some(found)) if !found.is_file() && !found.is_dir() => Refusal::NotRegular.into(),
        _ => error.into(),
    }
}

fn flags(flags: OFlags) -> i32 {
    // `open` takes its flags as an int, so they fit.
    flags.bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn b4_a_link_that_took_the_place_of_a_file_is_not_opened() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("file"), "file").unwrap();
        fs::write(folder.path().join("other"), "other").unwrap();
        let top = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let ledger = Arc::new(Ledger::unbounded());
        let seen = lookup(&top, "file").unwrap().unwrap();
        assert!(open_file(&top, "file", &seen, true, true, &ledger).is_ok());
        fs::remove_file(folder.path().join("file")).unwrap();
        symlink("other", folder.path().join("file")).unwrap();
        assert!(open_file(&top, "file", &seen, true, true, &ledger).is_err());
    }
}
