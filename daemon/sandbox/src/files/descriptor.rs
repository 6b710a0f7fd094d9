//! The host functions of a descriptor.
//!
//! Three kinds: functions on an open file are passed to wasmtime-wasi; functions on a path walk it in the workspace
//! first; functions that change a file first wait until the call's intent is on disk.

use std::borrow::Cow;
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt};
use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::filesystem::{self, Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult};

use super::FilesView;
use super::access::{self, LISTED_MAX};
use super::delegate::{expect_ready, in_this_thread};
use super::stream::{FileReader, FileWriter};
use crate::workspace::error::FileError;
use crate::workspace::operations::{OpenRequest, Opened, Position};
use crate::workspace::path::{PATH_BYTES_MAX, RelativePath};
use crate::workspace::{Lock, Refusal, Workspace, cached, tree};

type Fd = Resource<Descriptor>;

impl HostDescriptor for FilesView<'_> {
    async fn advise(&mut self, fd: Fd, offset: u64, bytes: u64, advice: Advice) -> FsResult<()> {
        self.query(&fd, move |wasi, fd| expect_ready(wasi.advise(fd, offset, bytes, advice))).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.sync_data(fd))).await
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.sync(fd))).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.get_flags(fd))).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.get_type(fd))).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.stat(fd))).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        self.query(&fd, |wasi, fd| expect_ready(wasi.metadata_hash(fd))).await
    }

    async fn read(&mut self, fd: Fd, bytes: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        if let Some(access::Descriptor::File(file)) = self.access.open.get(&fd.rep())
            && let Some(chunk) = cached::read(&file.held.file, bytes, offset)
        {
            self.channel()?.copy_meter.add_copied(chunk.len());
            let is_end = chunk.is_empty();
            return Ok((chunk, is_end));
        }
        let read = self.query(&fd, move |wasi, fd| expect_ready(wasi.read(fd, bytes, offset))).await?;
        self.channel()?.copy_meter.add_copied(read.0.len());
        Ok(read)
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        let other = self.wasi.table.get(&b)?.clone();
        let compared = self.query(&a, move |wasi, a| {
            let b = wasi.table.push(other)?;
            let same = wasmtime_wasi::runtime::poll_noop(std::pin::pin!(wasi.is_same_object(a, b)));
            Ok(matches!(same, Some(Ok(true))))
        });
        Ok(compared.await.unwrap_or(false))
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        let file = self.writable_file(&fd)?;
        let path = Arc::clone(&file.path);
        self.access.begin_change(&path).await?;
        self.channel()?.copy_meter.add_copied(bytes.len());
        let written = bytes.len() as u64;
        let write = move |workspace: &Workspace, lock: &Lock| {
            workspace.write_to(lock, &file.held, &bytes, Position::At(offset))
        };
        self.channel()?.run_locked(path, written > 0, write).await?;
        Ok(written)
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        let file = self.writable_file(&fd)?;
        let path = Arc::clone(&file.path);
        self.access.begin_change(&path).await?;
        let resize = move |workspace: &Workspace, lock: &Lock| workspace.resize(lock, &file.held, size);
        Ok(self.channel()?.run_locked(path, true, resize).await?)
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        let path = self.guest_path(&fd, None)?;
        self.access.begin_change(&path).await?;
        self.query(&fd, move |wasi, fd| expect_ready(wasi.set_times(fd, accessed, modified))).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let guest_path = self.guest_path(&fd, Some(&path))?;
        self.access.begin_change(&guest_path).await?;
        // Always with `SYMLINK_FOLLOW`, so that a link is refused and not changed.
        self.query_at(&fd, flags | PathFlags::SYMLINK_FOLLOW, path, true, move |wasi, fd, name| {
            expect_ready(wasi.set_times_at(fd, times_flags(&name), name, accessed, modified))
        })
        .await
    }

    async fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let stat = |wasi: &mut WasiFilesystemCtxView<'_>, fd, name| {
            expect_ready(wasi.stat_at(fd, PathFlags::empty(), name))
        };
        self.query_at(&fd, flags, path, false, stat).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        self.query_at(&fd, flags, path, false, |wasi, fd, name| {
            expect_ready(wasi.metadata_hash_at(fd, PathFlags::empty(), name))
        })
        .await
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        self.query_at(&fd, PathFlags::SYMLINK_FOLLOW, path, false, |wasi, fd, name| {
            // The workspace has no links, so this returns the error for a file.
            expect_ready(wasi.readlink_at(fd, name))
        })
        .await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let folder = self.folder(&fd)?;
        let descriptor = self.wasi.table.get(&fd)?.clone();
        let left = LISTED_MAX - self.access.listings.values().sum::<u64>();
        let path = self.guest_path(&fd, None)?;
        let listed = self.channel()?.run_locked(path, false, move |_, _| {
            let entries = tree::open_directory(&folder, ".")?
                .entries()?
                .take(usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1))
                .count() as u64;
            if entries > left {
                return Err(Errno::NOMEM.into());
            }
            let listing = in_this_thread(descriptor, |wasi, fd| {
                let listing = expect_ready(wasi.read_directory(fd))?;
                Ok(wasi.table.delete(listing)?)
            });
            Ok((entries, listing))
        });
        let (entries, listing) = listed.await?;
        let listing = self.wasi.table.push(listing?)?;
        self.access.listings.insert(listing.rep(), entries);
        Ok(listing)
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.change_at(&fd, path, Workspace::create_directory).await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.change_at(&fd, path, Workspace::remove_directory).await
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        self.change_at(&fd, path, Workspace::remove_file).await
    }

    async fn rename_at(&mut self, fd: Fd, from: String, to_fd: Fd, to: String) -> FsResult<()> {
        let to_base = self.folder(&to_fd)?;
        let to_guest_path = self.guest_path(&to_fd, Some(&to))?;
        let to = self.parse(&to_fd, &to)?;
        self.change_at(&fd, from, move |workspace, lock, base, from| {
            workspace.rename(lock, (base, from), (&to_base, &to))
        })
        .await?;
        // Both names changed, and a later search may be for the new one.
        self.channel()?.record_write(&to_guest_path);
        Ok(())
    }

    async fn link_at(&mut self, fd: Fd, _: PathFlags, _: String, to_fd: Fd, to: String) -> FsResult<()> {
        self.folder(&fd)?;
        self.refuse_link(&to_fd, &to)
    }

    async fn symlink_at(&mut self, fd: Fd, _: String, path: String) -> FsResult<()> {
        self.refuse_link(&fd, &path)
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        _: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let request = open_request(how, flags)?;
        let parsed = self.parse(&fd, &path)?;
        let guest_path = self.guest_path(&fd, Some(&path))?;
        if request.changes() {
            self.access.begin_change(&guest_path).await?;
        }
        let channel = self.channel()?;
        let permit = channel.open_permit(&guest_path)?;
        if !request.changes()
            && let Descriptor::Dir(base) = self.wasi.table.get(&fd)?
            && let Some(opened) = channel.workspace.open_cached(&*base.dir, &parsed)
            && (!request.directory || matches!(opened, Opened::Directory(_)))
        {
            return self.insert(opened, request, guest_path, permit);
        }
        let base = self.folder(&fd)?;
        let changes = request.create || request.truncate;
        let opened = channel.run_locked(Arc::clone(&guest_path), changes, move |workspace, lock| {
            workspace.open_at(lock, &base, &parsed, request)
        });
        let opened = opened.await?;
        self.insert(opened, request, guest_path, permit)
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let file = self.file(&fd)?;
        let reader: DynInputStream = Box::new(FileReader::new(self.channel()?, file, offset));
        Ok(self.wasi.table.push(reader)?)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&fd, Position::At(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&fd, Position::End)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.access.open.remove(&fd.rep());
        self.wasi.table.delete(fd)?;
        Ok(())
    }
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        loop {
            let listing = Resource::new_borrow(listing.rep());
            match self.wasi.read_directory_entry(listing).await {
                // A name that is not UTF-8 cannot be returned. It is skipped, since an error or a name that cannot be
                // opened would make libc fail the whole listing.
                Err(error) if error.downcast_ref() == Some(&ErrorCode::IllegalByteSequence) => {}
                entry => return entry,
            }
        }
    }

    fn drop(&mut self, listing: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.access.listings.remove(&listing.rep());
        self.wasi.table.delete(listing)?;
        Ok(())
    }
}

impl FilesView<'_> {
    /// Calls wasmtime-wasi on an open descriptor.
    async fn query<R: Send + 'static>(
        &mut self,
        fd: &Fd,
        operation: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Fd) -> FsResult<R> + Send + 'static,
    ) -> FsResult<R> {
        let descriptor = self.wasi.table.get(fd)?.clone();
        // Moved along, so that the file stays counted while in use.
        let known = self.access.open.get(&fd.rep()).cloned();
        let answer = self.channel()?.read(move || {
            let answer = in_this_thread(descriptor, operation);
            drop(known);
            answer
        });
        answer.await?
    }

    /// Walks to a path and calls wasmtime-wasi on its name in the parent directory.
    async fn query_at<R: Send + 'static>(
        &mut self,
        fd: &Fd,
        flags: PathFlags,
        path: String,
        writes: bool,
        operation: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Fd, String) -> FsResult<R> + Send + 'static,
    ) -> FsResult<R> {
        let base = self.folder(fd)?;
        let guest_path = self.guest_path(fd, Some(&path))?;
        let path = self.parse(fd, &path)?;
        let follow = flags.contains(PathFlags::SYMLINK_FOLLOW);
        let permissions = self.permissions();
        let answer = self.channel()?.run_locked(guest_path, writes, move |_, _| {
            let (folder, name) = locate(&base, &path, follow)?;
            if writes {
                check_unshared(&folder, &name)?;
            }
            let folder = filesystem::Dir::new(folder.into_std_file(), permissions, OpenMode::READ, true);
            Ok(in_this_thread(Descriptor::Dir(folder), |wasi, fd| operation(wasi, fd, name)))
        });
        answer.await?
    }

    /// Changes the entry at a path.
    async fn change_at<R: Send + 'static>(
        &mut self,
        fd: &Fd,
        path: String,
        change: impl FnOnce(&Workspace, &Lock, &Dir, &RelativePath) -> Result<R, FileError> + Send + 'static,
    ) -> FsResult<R> {
        let base = self.folder(fd)?;
        let guest_path = self.guest_path(fd, Some(&path))?;
        let path = self.parse(fd, &path)?;
        self.access.begin_change(&guest_path).await?;
        let changed = self
            .channel()?
            .run_locked(guest_path, true, move |workspace, lock| change(workspace, lock, &base, &path));
        Ok(changed.await?)
    }

    fn writer(&mut self, fd: &Fd, position: Position) -> FsResult<Resource<DynOutputStream>> {
        // The intent has been on disk since the file was opened for writing.
        let file = self.writable_file(fd)?;
        let writer: DynOutputStream = Box::new(FileWriter::new(self.channel()?, file, position));
        Ok(self.wasi.table.push(writer)?)
    }

    fn folder(&self, fd: &Fd) -> FsResult<Dir> {
        match self.wasi.table.get(fd)? {
            Descriptor::Dir(folder) => Ok(Dir::from_std_file(folder.dir.try_clone()?)),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    fn parse(&self, fd: &Fd, path: &str) -> FsResult<RelativePath> {
        let parsed = RelativePath::from_guest(path).map_err(FileError::from);
        match parsed {
            Ok(parsed) => Ok(parsed),
            Err(refused) => Err(self.access.refuse(refused, &self.guest_path(fd, Some(path))?).into()),
        }
    }

    /// The path as the guest names it, from the top of the workspace if possible.
    fn guest_path(&self, fd: &Fd, below: Option<&str>) -> FsResult<Arc<str>> {
        let base = match self.access.open.get(&fd.rep()) {
            Some(access::Descriptor::Folder { path, .. }) => path,
            Some(access::Descriptor::File(file)) => &file.path,
            None => return Err(ErrorCode::BadDescriptor.into()),
        };
        let below = match below.map(without_dots) {
            None => return Ok(Arc::clone(base)),
            Some(below) if below.is_empty() => return Ok(Arc::clone(base)),
            Some(below) => below,
        };
        Ok(match base.is_empty() {
            true => at_most_a_path(&below).into(),
            false => at_most_a_path(&format!("{base}/{below}")).into(),
        })
    }

    fn refuse_link(&self, fd: &Fd, path: &str) -> FsResult<()> {
        self.folder(fd)?;
        let path = self.guest_path(fd, Some(path))?;
        Err(self.access.refuse(Refusal::LinkCreation.into(), &path).into())
    }
}

/// The path without `.`, `..` and empty names, so that no padding hides its end in the audit log. A refused path stays
/// as it is.
fn without_dots(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return path.into();
    }
    RelativePath::from_guest(path).map_or(path.into(), |parsed| parsed.join().unwrap_or_default().into())
}

/// Cuts a path to the length of one. A guest that opens folder after folder would otherwise make it longer for ever.
fn at_most_a_path(path: &str) -> &str {
    &path[..path.floor_char_boundary(PATH_BYTES_MAX)]
}

/// Returns the parent directory and the name. A link is refused if it would be followed.
fn locate(base: &Dir, path: &RelativePath, follow: bool) -> Result<(Dir, String), FileError> {
    let Some((parents, name)) = path.split() else {
        return Ok((base.try_clone()?, ".".to_owned()));
    };
    let folder = tree::enter(base, parents)?;
    let found = tree::lookup(&folder, name)?.ok_or(Errno::NOENT)?;
    if found.is_symlink() && (follow || path.wants_directory) {
        return Err(Refusal::Symlink.into());
    }
    if path.wants_directory && !found.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok((folder, name.to_owned()))
}

/// Checks that a change stays within the workspace: the metadata of a hard-linked file is shared with its other name.
fn check_unshared(folder: &Dir, name: &str) -> Result<(), FileError> {
    match tree::lookup(folder, name)? {
        Some(found) if found.is_file() && found.nlink() > 1 => Err(Refusal::HardLinked.into()),
        Some(found) if found.is_file() || found.is_dir() => Ok(()),
        Some(found) if found.is_symlink() => Err(Refusal::Symlink.into()),
        Some(_) => Err(Refusal::NotRegular.into()),
        None => Err(Errno::NOENT.into()),
    }
}

/// `set_times_at` on a directory itself needs `SYMLINK_FOLLOW`.
fn times_flags(name: &str) -> PathFlags {
    if name == "." { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
}

fn open_request(how: OpenFlags, flags: DescriptorFlags) -> FsResult<OpenRequest> {
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(ErrorCode::Unsupported.into());
    }
    let making = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    if how.contains(OpenFlags::DIRECTORY) && how.intersects(making) {
        return Err(ErrorCode::Invalid.into());
    }
    Ok(OpenRequest {
        read: flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
        write: flags.contains(DescriptorFlags::WRITE),
        create: how.contains(OpenFlags::CREATE),
        exclusive: how.contains(OpenFlags::EXCLUSIVE),
        truncate: how.contains(OpenFlags::TRUNCATE),
        directory: how.contains(OpenFlags::DIRECTORY),
    })
}
