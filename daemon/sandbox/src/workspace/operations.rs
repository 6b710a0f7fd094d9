//! The changes of a workspace, with their accounting. Blocking.
//!
//! All changes and path walks are serialized by the workspace's [`Lock`]. So a size cannot change between being read
//! and being counted, the temporary file of an atomic write stays invisible, and a stopped call leaves at most one
//! operation behind. Reading from an open file needs no lock.

use std::os::unix::fs::FileExt;

use cap_std::fs::{Dir, Metadata};
use rustix::io::Errno;
use wasmtime_wasi::Rng;

use super::error::FileError;
use super::ledger::WorkspaceUsage;
use super::path::{RESERVED_PREFIX, Refusal, RelativePath};
use super::tree::{self, DEPTH_MAX, HeldFile, id_of};
use super::{Lock, Workspace};

/// The parameters of an open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenRequest {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) directory: bool,
}

impl OpenRequest {
    /// Whether opening, or the access that it grants, can change a file.
    pub(crate) fn changes(self) -> bool {
        self.write || self.create || self.truncate
    }
}

/// An opened file or directory.
pub(crate) enum Opened {
    Directory(Dir),
    File(HeldFile),
}

/// The position of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    At(u64),
    End,
}

impl Workspace {
    pub(crate) fn open_at(
        &self,
        _lock: &Lock,
        base: &Dir,
        path: &RelativePath,
        request: OpenRequest,
    ) -> Result<Opened, FileError> {
        let Some((parents, name)) = path.split() else {
            return open_here(base, request);
        };
        let parent = tree::enter(base, parents)?;
        match tree::lookup(&parent, name)? {
            None if !request.create => Err(Errno::NOENT.into()),
            None if path.wants_directory => Err(Errno::ISDIR.into()),
            None => self.create_file(&parent, name, request),
            Some(found) if found.is_symlink() => Err(Refusal::Symlink.into()),
            Some(_) if request.create && request.exclusive => Err(Errno::EXIST.into()),
            Some(found) if found.is_dir() && request.changes() => Err(Errno::ISDIR.into()),
            Some(found) if found.is_dir() => Ok(Opened::Directory(tree::open_directory(&parent, name)?)),
            Some(found) if !found.is_file() => Err(Refusal::NotRegular.into()),
            Some(_) if path.wants_directory || request.directory => Err(Errno::NOTDIR.into()),
            Some(found) => self.open_file(&parent, name, &found, request),
        }
    }

    fn create_file(&self, parent: &Dir, name: &str, request: OpenRequest) -> Result<Opened, FileError> {
        let ledger = &self.shared.ledger;
        ledger.reserve_files(1, self.quota)?;
        let created = tree::create_file(parent, name, request.read, ledger);
        created.map(Opened::File).inspect_err(|_| self.release_files(1))
    }

    fn open_file(
        &self,
        parent: &Dir,
        name: &str,
        seen: &Metadata,
        request: OpenRequest,
    ) -> Result<Opened, FileError> {
        let ledger = &self.shared.ledger;
        let (held, bytes) = tree::open_file(parent, name, seen, request.read, request.changes(), ledger)?;
        // Not left to `O_TRUNC`: the file is checked first, and its space is released.
        if request.truncate && bytes > 0 {
            held.file.set_len(0)?;
            self.release_bytes(bytes);
        }
        Ok(Opened::File(held))
    }

    /// Writes all bytes; reserves space for the growth of the file, holes included.
    pub(crate) fn write_to(
        &self,
        _lock: &Lock,
        held: &HeldFile,
        bytes: &[u8],
        position: Position,
    ) -> Result<(), FileError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let before = held.file.metadata()?.len();
        let start = match position {
            Position::At(offset) => offset,
            Position::End => before,
        };
        let end = start.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        let growth = end.saturating_sub(before);
        self.shared.ledger.reserve_bytes(growth, self.quota)?;
        let written = held.file.write_all_at(bytes, start);
        self.settle(held, before + growth);
        Ok(written?)
    }

    /// Changes the size of a file. A hole counts in full.
    pub(crate) fn resize(&self, _lock: &Lock, held: &HeldFile, size: u64) -> Result<(), FileError> {
        let before = held.file.metadata()?.len();
        self.shared.ledger.reserve_bytes(size.saturating_sub(before), self.quota)?;
        let resized = held.file.set_len(size);
        self.settle(held, before.max(size));
        Ok(resized?)
    }

    /// Releases reserved space that was not used, by the size on disk.
    fn settle(&self, held: &HeldFile, counted: u64) {
        // Cannot fail on an open file; if it does, the count stays too high.
        let now = held.file.metadata().map_or(counted, |metadata| metadata.len());
        self.release_bytes(counted.saturating_sub(now));
        self.shared.ledger.mark_resized(held.holder.file, now);
    }

    pub(crate) fn create_directory(
        &self,
        _lock: &Lock,
        base: &Dir,
        path: &RelativePath,
    ) -> Result<(), FileError> {
        let (parents, name) = path.split().ok_or(Errno::EXIST)?;
        let parent = tree::enter(base, parents)?;
        if tree::lookup(&parent, name)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        if tree::depth_of(&parent, self.shared.top)? >= DEPTH_MAX {
            return Err(Refusal::TooDeep.into());
        }
        self.shared.ledger.reserve_files(1, self.quota)?;
        Ok(parent.create_dir(name).inspect_err(|_| self.release_files(1))?)
    }

    pub(crate) fn remove_directory(
        &self,
        _lock: &Lock,
        base: &Dir,
        path: &RelativePath,
    ) -> Result<(), FileError> {
        let (parents, name) = path.split().ok_or(Errno::BUSY)?;
        tree::enter(base, parents)?.remove_dir(name)?;
        self.release_files(1);
        Ok(())
    }

    pub(crate) fn remove_file(&self, _lock: &Lock, base: &Dir, path: &RelativePath) -> Result<(), FileError> {
        let (parents, name) = path.split().ok_or(Errno::ISDIR)?;
        let parent = tree::enter(base, parents)?;
        let found = tree::lookup(&parent, name)?.ok_or(Errno::NOENT)?;
        if found.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        if path.wants_directory {
            return Err(Errno::NOTDIR.into());
        }
        parent.remove_file(name)?;
        self.forget(&found);
        Ok(())
    }

    /// Moves a file or directory. A replaced one is released.
    pub(crate) fn rename(
        &self,
        _lock: &Lock,
        (from_base, from): (&Dir, &RelativePath),
        (to_base, to): (&Dir, &RelativePath),
    ) -> Result<(), FileError> {
        let (from_parents, from_name) = from.split().ok_or(Errno::BUSY)?;
        let (to_parents, to_name) = to.split().ok_or(Errno::BUSY)?;
        let from_parent = tree::enter(from_base, from_parents)?;
        let source = tree::lookup(&from_parent, from_name)?.ok_or(Errno::NOENT)?;
        if (from.wants_directory || to.wants_directory) && !source.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        check_movable(&source)?;
        let to_parent = tree::enter(to_base, to_parents)?;
        if source.is_dir() {
            self.check_depth(&tree::open_directory(&from_parent, from_name)?, &to_parent)?;
        }
        let target = tree::lookup(&to_parent, to_name)?;
        from_parent.rename(from_name, &to_parent, to_name)?;
        if let Some(replaced) = target.filter(|target| id_of(target) != id_of(&source)) {
            self.forget(&replaced);
        }
        Ok(())
    }

    fn check_depth(&self, moved: &Dir, to_parent: &Dir) -> Result<(), FileError> {
        let depth = tree::depth_of(to_parent, self.shared.top)? + 1 + tree::height_of(moved)?;
        if depth > DEPTH_MAX { Err(Refusal::TooDeep.into()) } else { Ok(()) }
    }

    /// Releases the space of a removed entry.
    fn forget(&self, removed: &Metadata) {
        if removed.is_file() {
            self.shared.ledger.mark_removed(id_of(removed), removed.len());
        } else {
            self.release_files(1);
        }
    }

    /// Whether the path exists.
    pub(crate) fn holds(&self, _lock: &Lock, path: &RelativePath) -> Result<bool, FileError> {
        let Some((parents, name)) = path.split() else { return Ok(true) };
        let top = &self.shared.root;
        let folders = existing_folders(top, parents)?;
        Ok(folders.len() == parents.len() && tree::lookup(folders.last().unwrap_or(top), name)?.is_some())
    }

    /// Writes a whole file atomically, new or in place of another one, and creates its parent directories.
    pub(crate) fn replace(&self, lock: &Lock, path: &RelativePath, bytes: &[u8]) -> Result<(), FileError> {
        self.place(lock, path, bytes.len() as u64, |place| {
            self.stage(bytes, |temporary| place(&self.shared.root, temporary))
        })
    }

    /// Puts a finished file of `bytes` bytes at a path, and creates its parent directories. `put` calls its argument with
    /// the folder and the name of that file, which is moved.
    pub(crate) fn place(
        &self,
        _lock: &Lock,
        path: &RelativePath,
        bytes: u64,
        put: impl FnOnce(&mut dyn FnMut(&Dir, &str) -> Result<Dir, FileError>) -> Result<Dir, FileError>,
    ) -> Result<(), FileError> {
        let (parents, name) = path.split().ok_or(Errno::ISDIR)?;
        let top = &self.shared.root;
        let existing = existing_folders(top, parents)?;
        let missing = &parents[existing.len()..];
        let parent = existing.last().unwrap_or(top);
        let replaced = if missing.is_empty() { look_for_file(parent, name)? } else { None };
        // A file that is still open keeps its space.
        let credit = replaced.as_ref().filter(|replaced| !self.shared.ledger.is_held(id_of(replaced)));
        let reserved = self.reserve_replacement(credit, missing.len(), bytes)?;
        let mut made = Vec::new();
        let done = put(&mut |folder, temporary| {
            let parent = make_folders(self, parent.try_clone()?, missing, &mut made)?;
            folder.rename(temporary, &parent, name)?;
            Ok(parent)
        });
        match done {
            Ok(parent) => {
                match (credit, &replaced) {
                    (Some(credit), _) => self.release_bytes(credit.len().saturating_sub(bytes)),
                    (None, Some(held)) => self.forget(held),
                    (None, None) => {}
                }
                // The directory entry is on disk before the write returns.
                Ok(parent.open(".")?.sync_all()?)
            }
            Err(error) => {
                made.iter().rev().for_each(|(parent, name)| drop(parent.remove_dir(name)));
                self.shared.ledger.release(reserved);
                Err(error)
            }
        }
    }

    /// Reserves the space of a replacement beyond the space of the replaced file.
    fn reserve_replacement(
        &self,
        credit: Option<&Metadata>,
        folders: usize,
        bytes: u64,
    ) -> Result<WorkspaceUsage, FileError> {
        let ledger = &self.shared.ledger;
        let reserved = WorkspaceUsage {
            bytes: bytes.saturating_sub(credit.map_or(0, Metadata::len)),
            files: folders as u64 + u64::from(credit.is_none()),
        };
        ledger.reserve_files(reserved.files, self.quota)?;
        if let Err(full) = ledger.reserve_bytes(reserved.bytes, self.quota) {
            self.release_files(reserved.files);
            return Err(full.into());
        }
        Ok(reserved)
    }

    fn release_bytes(&self, bytes: u64) {
        self.shared.ledger.release(WorkspaceUsage { bytes, files: 0 });
    }

    fn release_files(&self, files: u64) {
        self.shared.ledger.release(WorkspaceUsage { bytes: 0, files });
    }

    /// Writes a temporary file, passes its name to `place` to be moved, and removes it on failure.
    fn stage<R>(
        &self,
        bytes: &[u8],
        place: impl FnOnce(&str) -> Result<R, FileError>,
    ) -> Result<R, FileError> {
        let top = &self.shared.root;
        let temporary = temporary_name();
        let file = tree::create_file(top, &temporary, false, &self.shared.ledger)?;
        let written = file.file.write_all_at(bytes, 0).and_then(|()| file.file.sync_data());
        let done = written.map_err(FileError::from).and_then(|()| place(&temporary));
        if done.is_err() {
            drop(top.remove_file(&temporary));
        }
        done
    }
}

fn open_here(base: &Dir, request: OpenRequest) -> Result<Opened, FileError> {
    if request.create && request.exclusive {
        return Err(Errno::EXIST.into());
    }
    if request.changes() {
        return Err(Errno::ISDIR.into());
    }
    Ok(Opened::Directory(tree::open_directory(base, ".")?))
}

fn check_movable(source: &Metadata) -> Result<(), FileError> {
    if source.is_symlink() {
        return Err(Refusal::Symlink.into());
    }
    if source.is_dir() || source.is_file() { Ok(()) } else { Err(Refusal::NotRegular.into()) }
}

/// The existing directories of a path, from the top down.
fn existing_folders(top: &Dir, names: &[String]) -> Result<Vec<Dir>, FileError> {
    let mut folders: Vec<Dir> = Vec::new();
    for name in names {
        let here = folders.last().unwrap_or(top);
        if tree::lookup(here, name)?.is_none() {
            break;
        }
        folders.push(tree::open_directory(here, name)?);
    }
    Ok(folders)
}

fn look_for_file(parent: &Dir, name: &str) -> Result<Option<Metadata>, FileError> {
    match tree::lookup(parent, name)? {
        None => Ok(None),
        Some(found) if found.is_dir() => Err(Errno::ISDIR.into()),
        Some(found) if found.is_symlink() => Err(Refusal::Symlink.into()),
        Some(found) if !found.is_file() => Err(Refusal::NotRegular.into()),
        Some(found) => Ok(Some(found)),
    }
}

fn make_folders(
    workspace: &Workspace,
    mut here: Dir,
    names: &[String],
    made: &mut Vec<(Dir, String)>,
) -> Result<Dir, FileError> {
    for name in names {
        if tree::depth_of(&here, workspace.shared.top)? >= DEPTH_MAX {
            return Err(Refusal::TooDeep.into());
        }
        here.create_dir(name)?;
        made.push((here.try_clone()?, name.clone()));
        here = tree::open_directory(&here, name)?;
    }
    Ok(here)
}

/// An unguessable name, so that no guest can have created it.
pub(super) fn temporary_name() -> String {
    let mut random = [0; 16];
    wasmtime_wasi::thread_rng().fill_bytes(&mut random);
    format!("{RESERVED_PREFIX}{:032x}", u128::from_le_bytes(random))
}
