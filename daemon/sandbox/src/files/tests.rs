//! The host functions, called as a guest does, without a guest.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use toolgate_api::limits::LimitName;
use types::{
    DescriptorFlags, ErrorCode, HostDescriptor, HostDirectoryEntryStream, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, StreamError};

use super::*;
use crate::copy_meter::CopyMeter;
use crate::effect::{BeforeEffect, Effect};
use crate::workspace::{FilePool, Quota, Workspace, WorkspaceUsage};

mod changes;
mod paths;
mod streams;

const OPEN_FILES: u64 = toolgate_api::limits::Limits::DEFAULT.open_files;
const ROOMY: Quota = Quota { bytes: 1 << 20, files: 200 };
const READ: DescriptorFlags = DescriptorFlags::READ;
const WRITE: DescriptorFlags = DescriptorFlags::WRITE;
const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;

type Fd = Resource<Descriptor>;

/// A call's side of the host functions, over a directory in which the test can plant entries.
struct Guest {
    folder: Arc<TempDir>,
    workspace: Workspace,
    table: ResourceTable,
    ctx: WasiFilesystemCtx,
    access: FileAccess,
    top: u32,
}

impl Guest {
    async fn new(quota: Quota) -> Self {
        Self::within(&std::env::temp_dir(), quota).await
    }

    /// With its workspace in this directory.
    async fn within(around: &std::path::Path, quota: Quota) -> Self {
        let folder = Arc::new(TempDir::new_in(around).unwrap());
        let workspace = Workspace::open(folder.path(), quota, FilePool::default()).await.unwrap();
        let access = access(&workspace, allow_effects(), &CopyMeter::default());
        Self::with(folder, workspace, access)
    }

    /// Another call of the same session.
    fn sibling(&self) -> Self {
        self.with_access(access(&self.workspace, allow_effects(), &CopyMeter::default()))
    }

    /// With a meter of its copied bytes.
    async fn with_meter(quota: Quota) -> (Self, CopyMeter) {
        let (guest, meter) = (Self::new(quota).await, CopyMeter::default());
        (guest.with_access(access(&guest.workspace, allow_effects(), &meter)), meter)
    }

    fn read_only(&self) -> Self {
        self.with_access(FileAccess::read_only(self.workspace.clone(), OPEN_FILES))
    }

    /// Another call with this access.
    fn with_access(&self, access: FileAccess) -> Self {
        Self::with(Arc::clone(&self.folder), self.workspace.clone(), access)
    }

    fn with(folder: Arc<TempDir>, workspace: Workspace, access: FileAccess) -> Self {
        let (table, ctx) = (ResourceTable::new(), WasiFilesystemCtx::default());
        let mut guest = Self { folder, workspace, table, ctx, access, top: 0 };
        let preopened = preopens::Host::get_directories(&mut guest.view()).unwrap();
        guest.top = preopened[0].0.rep();
        guest
    }

    fn view(&mut self) -> FilesView<'_> {
        FilesView::new(WasiFilesystemCtxView { ctx: &mut self.ctx, table: &mut self.table }, &mut self.access)
    }

    fn top(&self) -> Fd {
        Resource::new_borrow(self.top)
    }

    fn host(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    async fn open(&mut self, path: &str, how: OpenFlags, flags: DescriptorFlags) -> Result<u32, ErrorCode> {
        let top = self.top();
        let opened = self.view().open_at(top, FOLLOW, path.to_owned(), how, flags).await;
        opened.map(|fd| fd.rep()).map_err(code)
    }

    async fn create(&mut self, path: &str) -> Result<u32, ErrorCode> {
        self.open(path, OpenFlags::CREATE, READ | WRITE).await
    }

    async fn write(&mut self, fd: u32, bytes: &[u8], offset: u64) -> Result<u64, ErrorCode> {
        self.view().write(borrow(fd), bytes.to_vec(), offset).await.map_err(code)
    }

    async fn put(&mut self, path: &str, bytes: &[u8]) {
        let fd = self.create(path).await.unwrap();
        self.write(fd, bytes, 0).await.unwrap();
        self.close(fd);
    }

    async fn get(&mut self, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let fd = self.open(path, none(), READ).await?;
        let read = self.view().read(borrow(fd), 1000, 0).await.map_err(code)?;
        self.close(fd);
        Ok(read.0)
    }

    async fn mkdir(&mut self, path: &str) -> Result<(), ErrorCode> {
        let top = self.top();
        self.view().create_directory_at(top, path.to_owned()).await.map_err(code)
    }

    async fn unlink(&mut self, path: &str) -> Result<(), ErrorCode> {
        let top = self.top();
        self.view().unlink_file_at(top, path.to_owned()).await.map_err(code)
    }

    async fn rmdir(&mut self, path: &str) -> Result<(), ErrorCode> {
        let top = self.top();
        self.view().remove_directory_at(top, path.to_owned()).await.map_err(code)
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<(), ErrorCode> {
        let (top, same) = (self.top(), self.top());
        self.view().rename_at(top, from.to_owned(), same, to.to_owned()).await.map_err(code)
    }

    async fn list(&mut self) -> Vec<String> {
        let top = self.top();
        let listing = self.view().read_directory(top).await.map_err(code).unwrap();
        let mut names = Vec::new();
        while let Some(entry) =
            self.view().read_directory_entry(Resource::new_borrow(listing.rep())).await.map_err(code).unwrap()
        {
            names.push(entry.name);
        }
        HostDirectoryEntryStream::drop(&mut self.view(), listing).unwrap();
        names.sort();
        names
    }

    fn close(&mut self, fd: u32) {
        HostDescriptor::drop(&mut self.view(), Resource::new_own(fd)).unwrap();
    }

    fn usage(&self) -> WorkspaceUsage {
        self.workspace.usage()
    }
}

fn access(workspace: &Workspace, before_effect: BeforeEffect, meter: &CopyMeter) -> FileAccess {
    FileAccess::new(Some(workspace.clone()), OPEN_FILES, before_effect, meter)
}

fn allow_effects() -> BeforeEffect {
    BeforeEffect::new(|| async { Ok(()) })
}

/// Opens an existing entry.
fn none() -> OpenFlags {
    OpenFlags::empty()
}

fn borrow(fd: u32) -> Fd {
    Resource::new_borrow(fd)
}

fn code(error: FsError) -> ErrorCode {
    error.downcast().expect("an error code, not a trap")
}

fn effect(kind: &'static str, detail: &str) -> Effect {
    Effect { kind, detail: detail.to_owned() }
}
