//! WASI's files for guests: the session's workspace, seen through wasmtime-wasi, under our own rules.
//!
//! Whatever only looks is wasmtime-wasi's own code ([`delegate`]). Whatever walks a path or changes
//! something goes through the [`Workspace`](crate::Workspace), which keeps the quota and follows no link.
//! What may wait for a disk runs in the bounded pool of [`pool`](crate::workspace::pool) and never in the
//! thread of a guest; what the kernel has in memory is read there ([`cached`](crate::workspace::cached)).
//!
//! A call without a workspace finds no folder to start from, so nothing can be opened: heavy runtimes that
//! import the interface load, and see an empty machine.

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

use crate::workspace::operations::{OpenRequest, Opened};
use crate::workspace::tree::HeldFile;
use crate::workspace::{FileError, QuotaExceeded, Refusal};
use access::{GuestFile, Lane};

/// Where guests find the workspace. It is given a second time as the folder that relative paths start
/// from, since a guest begins in `/`, where it could otherwise open nothing.
const PREOPENED: [&str; 2] = ["/workspace", "."];

/// A call's files, as the host functions see them.
pub struct FilesView<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    access: &'a mut FileAccess,
}

impl<'a> FilesView<'a> {
    /// The table holds the guest's descriptors; the context of `wasi` needs no folders of its own.
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
        let Some(lane) = self.access.lane.clone() else { return Ok(Vec::new()) };
        let folder = match &self.access.preopened {
            Some(folder) => folder.clone(),
            None => {
                let folder = lane.workspace.root().try_clone()?.into_std_file();
                let mode =
                    if self.access.writable { OpenMode::READ | OpenMode::WRITE } else { OpenMode::READ };
                let folder = Descriptor::Dir(Dir::new(folder, self.permissions(), mode, true));
                self.access.preopened.insert(folder).clone()
            }
        };
        let mut given = Vec::new();
        for name in PREOPENED {
            let descriptor = self.wasi.table.push(folder.clone())?;
            let known = access::Descriptor::Folder { path: "".into(), _place: None };
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

    /// The call's way to its files. There is one wherever there is a descriptor.
    fn lane(&self) -> FsResult<Arc<Lane>> {
        self.access.lane.clone().ok_or_else(|| types::ErrorCode::BadDescriptor.into())
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
            return Err(into_code(self.access.refuse(Refusal::ReadOnly.into(), &file.path)));
        }
        if !file.writable {
            return Err(types::ErrorCode::BadDescriptor.into());
        }
        Ok(file)
    }

    /// Puts what was opened into the guest's table.
    fn give(
        &mut self,
        opened: Opened,
        request: OpenRequest,
        path: Arc<str>,
        place: tokio::sync::OwnedSemaphorePermit,
    ) -> FsResult<Resource<Descriptor>> {
        let mode = open_mode(request);
        let (descriptor, known) = match opened {
            Opened::Directory(folder) => {
                let folder = Dir::new(folder.into_std_file(), self.permissions(), mode, true);
                let known = access::Descriptor::Folder { path, _place: Some(Arc::new(place)) };
                (Descriptor::Dir(folder), known)
            }
            Opened::File(held) => {
                if !mode.contains(OpenMode::WRITE) {
                    self.access.note_read(&path);
                }
                let (file, held) = share(held, self.permissions(), mode)?;
                let file =
                    (file, GuestFile { held, path, writable: mode.contains(OpenMode::WRITE), _place: place });
                (Descriptor::File(file.0), access::Descriptor::File(Arc::new(file.1)))
            }
        };
        let descriptor = self.wasi.table.push(descriptor)?;
        self.access.open.insert(descriptor.rep(), known);
        Ok(descriptor)
    }
}

/// One open file for both: wasmtime-wasi reads from what we write to.
fn share(held: HeldFile, permissions: FsPerms, mode: OpenMode) -> FsResult<(File, HeldFile)> {
    let HeldFile { file, holder } = held;
    let file = Arc::into_inner(file).ok_or(types::ErrorCode::Io)?;
    let file = File::new(file, permissions, mode, true);
    let held = HeldFile { file: Arc::clone(&file.file), holder };
    Ok((file, held))
}

/// As wasmtime-wasi counts it: what is made or emptied is open for writing, and what is not is readable.
fn open_mode(request: OpenRequest) -> OpenMode {
    let mut mode = OpenMode::empty();
    mode.set(OpenMode::READ, request.read);
    mode.set(OpenMode::WRITE, request.changes());
    mode
}

/// What a guest is told.
fn into_code(error: FileError) -> FsError {
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

#[cfg(test)]
mod tests;
