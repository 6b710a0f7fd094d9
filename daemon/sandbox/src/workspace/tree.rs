//! Walking the folder one name at a time.
//!
//! Every step opens a single name below a folder that is open already, through cap-std (`openat2` with
//! `RESOLVE_BENEATH` where the kernel has it, else its own walk) and with `O_NOFOLLOW`. So a folder that is
//! exchanged for a link between a check and its use leads nowhere. A file that is opened must besides be the one
//! that was seen under the name, since cap-std's own walk would follow a link there, if never out of the
//! workspace. `O_NONBLOCK` makes opening a pipe return, and what was opened is looked at before it is used.

use std::fs;
use std::io;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::FileError;
use super::ledger::{FileId, Holder, Ledger, Used};
use super::path::{RESERVED_PREFIX, Refusal};

/// How deep folders may be nested. A deeper tree costs an open file per level to walk and remove.
pub(crate) const DEPTH_MAX: usize = 64;

/// How much is counted when a workspace is opened before it is given up as not one of ours.
const SCAN_ENTRIES_MAX: u64 = 1_000_000;

/// A file that is open and stays counted for as long as it is.
#[derive(Debug)]
pub(crate) struct HeldFile {
    // INVARIANT: the holder lets go before the file is closed, which is the order of these fields. Closing the last
    // descriptor of a removed file frees its inode: a new file that got its number while the ledger still had the old one
    // would be taken for removed, and given back to the quota when it is closed.
    pub(crate) holder: Holder,
    pub(crate) file: Arc<fs::File>,
}

/// What lies under a name. A link is seen as such.
pub(crate) fn look(folder: &Dir, name: &str) -> io::Result<Option<Metadata>> {
    match folder.symlink_metadata(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Walks down through folders.
pub(crate) fn enter(base: &Dir, names: &[String]) -> Result<Dir, FileError> {
    let mut here = base.try_clone()?;
    for name in names {
        here = open_directory(&here, name)?;
    }
    Ok(here)
}

pub(crate) fn open_directory(parent: &Dir, name: &str) -> Result<Dir, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW));
    match parent.open_with(name, &options) {
        Ok(folder) => Ok(Dir::from_std_file(folder.into_std())),
        Err(error) => Err(explain_link(parent, name, error)),
    }
}

/// Opens the file that was seen under a name. Refuses what is not a plain file with a single name.
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
    // Where there is no `openat2`, cap-std goes by its own option and not by our `O_NOFOLLOW`: a link that took
    // the file's place since it was seen would be followed, within the workspace. It leads to another file.
    if id_of(&metadata) != id_of(seen) {
        return Err(Errno::BUSY.into());
    }
    if metadata.nlink() > 1 {
        return Err(Refusal::HardLinked.into());
    }
    let holder = ledger.hold(id_of(&metadata));
    Ok((HeldFile { file: Arc::new(file.into_std()), holder }, metadata.len()))
}

/// Makes an empty file where nothing is. The caller has taken room for it.
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

/// How many folders lie above this one, up to the top of the workspace. Asks the disk and not the path it
/// was opened by, since a guest may have moved the folder in between.
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

/// How many levels of folders lie below this one.
pub(crate) fn height_of(folder: &Dir) -> Result<usize, FileError> {
    let mut height = 0;
    visit(folder, "", 1, &mut |entry| {
        height = height.max(entry.depth - usize::from(!entry.metadata.is_dir()))
    })?;
    Ok(height)
}

/// Counts all there is, and clears away what a crash in the middle of a write has left.
pub(crate) fn count(top: &Dir) -> Result<Used, FileError> {
    remove_leftovers(top)?;
    let mut used = Used::default();
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

/// Something found on the way through a workspace.
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) metadata: Metadata,
    depth: usize,
}

impl Entry {
    /// What it counts towards the quota of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        if self.metadata.is_file() { self.metadata.len() } else { 0 }
    }
}

/// Shows everything below a folder, links as links.
pub(crate) fn visit(
    folder: &Dir,
    path: &str,
    depth: usize,
    show: &mut impl FnMut(Entry),
) -> Result<(), FileError> {
    let mut left = SCAN_ENTRIES_MAX;
    visit_within(folder, path, depth, &mut left, show)
}

fn visit_within(
    folder: &Dir,
    path: &str,
    depth: usize,
    left: &mut u64,
    show: &mut impl FnMut(Entry),
) -> Result<(), FileError> {
    // Deeper than guests can build: a move may have put one tree below another before this was watched.
    if depth > 2 * DEPTH_MAX {
        return Err(Refusal::TooDeep.into());
    }
    for entry in folder.entries()? {
        *left = left.checked_sub(1).ok_or_else(|| io::Error::from(Errno::NFILE))?;
        let name = entry?.file_name();
        let shown = name.to_string_lossy();
        let path = if path.is_empty() { shown.into_owned() } else { format!("{path}/{shown}") };
        let metadata = folder.symlink_metadata(&name)?;
        let is_folder = metadata.is_dir();
        show(Entry { path: path.clone(), metadata, depth });
        if is_folder {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW));
            let below = Dir::from_std_file(folder.open_with(&name, &options)?.into_std());
            visit_within(&below, &path, depth + 1, left, show)?;
        }
    }
    Ok(())
}

pub(crate) fn id_of(metadata: &Metadata) -> FileId {
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

/// The kernel says "not a folder", "loop" or "no such device" where a link or a socket lies; the refusal is
/// the better word.
fn explain_link(parent: &Dir, name: &str, error: io::Error) -> FileError {
    match look(parent, name) {
        Ok(Some(found)) if found.is_symlink() => Refusal::Symlink.into(),
        Ok(Some(found)) if !found.is_file() && !found.is_dir() => Refusal::NotRegular.into(),
        _ => error.into(),
    }
}

fn flags(flags: OFlags) -> i32 {
    // The bits of `open` fit in an int by its own signature.
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
        let ledger = Arc::new(Ledger::default());
        let seen = look(&top, "file").unwrap().unwrap();
        assert!(open_file(&top, "file", &seen, true, true, &ledger).is_ok());
        fs::remove_file(folder.path().join("file")).unwrap();
        symlink("other", folder.path().join("file")).unwrap();
        assert!(open_file(&top, "file", &seen, true, true, &ledger).is_err());
    }
}
