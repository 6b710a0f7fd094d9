//! WASI filesystem for guests: the session's workspace through wasmtime-wasi, with our own checks.
//!
//! Functions that only read metadata are wasmtime-wasi's own ([`delegate`]). Functions that walk a path or change a
//! file go through the [`Workspace`](crate::Workspace), which enforces the quota and follows no link. An operation
//! that may wait for a disk runs in the bounded [`pool`](crate::workspace::pool) and never in a guest's thread; data
//! in the page cache is read there ([`cached`](crate::workspace::cached)).
//!
//! A call without a workspace has no preopened directory, so it can open nothing: heavy runtimes that import the
//! interface load and see an empty file system.

pub(crate) mod access;
pub(crate) mod delegate;
mod descriptor;
pub(crate) mod stream;

use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

pub use access::FileAccess;

use crate::workspace::error::FileError;
use crate::workspace::operations::{OpenRequest, Opened};
use crate::workspace::tree::HeldFile;
use crate::workspace::{QuotaExceeded, Refusal};
use access::{FileChannel, GuestFile};

/// Path of the workspace in guests. It is preopened a second time as `.` for relative paths, since a guest's working
/// directory is `/`.
const PREOPENED: [&str; 2] = ["/workspace", "."];

/// A call's files, as the host functions see them.
pub struct FilesView<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    access: &'a mut FileAccess,
}

impl<'a> FilesView<'a> {
    /// `wasi` holds the table of the guest's descriptors; its context needs no preopened directories.
    pub fn new(wasi: WasiFilesystemCtxView<'a>, access: &'a mut FileAccess) -> Self {
        Self { wasi, access }
    }
}

struct Files;

impl HasData for Files {
    type Data<'a> = FilesView<'a>;
}

/// Links `wasi:filesystem/types` and `wasi:filesystem/preopens`.
pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> FilesView<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<T, Files>(linker, view)?;
    preopens::add_to_linker::<T, Files>(linker, view)
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let Some(channel) = self.access.channel.clone() else { return Ok(Vec::new()) };
        let folder = match &self.access.preopened {
            Some(folder) => folder.clone(),
            None => {
                let folder = channel.workspace.root().try_clone()?.into_std_file();
                let mode =
                    if self.access.writable { OpenMode::READ | OpenMode::WRITE } else { OpenMode::READ };
                let folder = Descriptor::Dir(Dir::new(folder, self.permissions(), mode, true));
                self.access.preopened.insert(folder).clone()
            }
        };
        let mut given = Vec::new();
        for name in PREOPENED {
            let descriptor = self.wasi.table.push(folder.clone())?;
            let known = access::Descriptor::Folder { path: "".into(), _permit: None };
            self.access.open.insert(descriptor.rep(), known);
            given.push((descriptor, name.to_owned()));
        }
        Ok(given)
    }
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<types::ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<types::ErrorCode>> {
        if self.wasi.table.get(&error)?.downcast_ref::<QuotaExceeded>().is_some() {
            return Ok(Some(types::ErrorCode::Quota));
        }
        self.wasi.filesystem_error_code(error)
    }
}

impl FilesView<'_> {
    fn permissions(&self) -> FsPerms {
        if self.access.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly }
    }

    /// The call's file channel. Present if a descriptor exists.
    fn channel(&self) -> FsResult<Arc<FileChannel>> {
        self.access.channel.clone().ok_or_else(|| types::ErrorCode::BadDescriptor.into())
    }

    fn file(&self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<GuestFile>> {
        match self.access.open.get(&descriptor.rep()) {
            Some(access::Descriptor::File(file)) => Ok(Arc::clone(file)),
            Some(access::Descriptor::Folder { .. }) => Err(types::ErrorCode::IsDirectory.into()),
            None => Err(types::ErrorCode::BadDescriptor.into()),
        }
    }

    fn writable_file(&self, descriptor: &Resource<Descriptor>) -> FsResult<Arc<GuestFile>> {
        let file = self.file(descriptor)?;
        if !self.access.writable {
            return Err(self.access.refuse(Refusal::ReadOnly.into(), &file.path).into());
        }
        if !file.writable {
            return Err(types::ErrorCode::BadDescriptor.into());
        }
        Ok(file)
    }

    /// Adds an opened file to the guest's table.
    fn insert(
        &mut self,
        opened: Opened,
        request: OpenRequest,
        path: Arc<str>,
        permit: tokio::sync::OwnedSemaphorePermit,
    ) -> FsResult<Resource<Descriptor>> {
        let mode = open_mode(request);
        let (descriptor, known) = match opened {
            Opened::Directory(folder) => {
                let folder = Dir::new(folder.into_std_file(), self.permissions(), mode, true);
                let known = access::Descriptor::Folder { path, _permit: Some(Arc::new(permit)) };
                (Descriptor::Dir(folder), known)
            }
            Opened::File(held) => {
                if !mode.contains(OpenMode::WRITE) {
                    self.access.record_read(&path);
                }
                // Shares the open file: wasmtime-wasi reads from the file that we write to.
                let HeldFile { file, holder } = held;
                let file = Arc::into_inner(file).ok_or(types::ErrorCode::Io)?;
                let file = File::new(file, self.permissions(), mode, true);
                let held = HeldFile { file: Arc::clone(&file.file), holder };
                let known =
                    GuestFile { held, path, writable: mode.contains(OpenMode::WRITE), _permit: permit };
                (Descriptor::File(file), access::Descriptor::File(Arc::new(known)))
            }
        };
        let descriptor = self.wasi.table.push(descriptor)?;
        self.access.open.insert(descriptor.rep(), known);
        Ok(descriptor)
    }
}

/// wasmtime-wasi's rule: created or truncated files are open for writing, and all others are readable.
fn open_mode(request: OpenRequest) -> OpenMode {
    let mut mode = OpenMode::empty();
    mode.set(OpenMode::READ, request.read);
    mode.set(OpenMode::WRITE, request.changes());
    mode
}

/// Maps an error to the WASI error code.
impl From<FileError> for FsError {
    fn from(error: FileError) -> Self {
        use types::ErrorCode;
        let code = match error {
            FileError::Io(error) => return error.into(),
            FileError::Quota(_) => ErrorCode::Quota,
            FileError::Refused(refusal) => match refusal {
                Refusal::Empty => ErrorCode::NoEntry,
                Refusal::TooLong | Refusal::TooDeep => ErrorCode::NameTooLong,
                Refusal::Nul | Refusal::Spelling => ErrorCode::Invalid,
                Refusal::Symlink => ErrorCode::Loop,
                Refusal::ReadOnly => ErrorCode::ReadOnly,
                Refusal::TooManyOpen => ErrorCode::InsufficientMemory,
                Refusal::Absolute
                | Refusal::Escapes
                | Refusal::Reserved
                | Refusal::NotRegular
                | Refusal::HardLinked
                | Refusal::LinkCreation => ErrorCode::NotPermitted,
            },
        };
        code.into()
    }
}

#[cfg(test)]
mod tests;
