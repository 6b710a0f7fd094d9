//! What wasmtime-wasi does for us, in threads of our own.
//!
//! Reading, looking and listing are its code. By itself it would run each in one of tokio's blocking
//! threads, as many as there are guests, or in the thread of the guest. So a copy of the descriptor (it is
//! a shared handle) goes into our thread, with a small table around it, where blocking is fine; there
//! every one of its futures is ready at the first look.

use std::pin::pin;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::runtime::poll_noop;

/// Calls wasmtime-wasi on a descriptor, in this thread. The descriptor must be one that may block.
pub(crate) fn in_this_thread<R>(
    descriptor: Descriptor,
    work: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>) -> FsResult<R>,
) -> FsResult<R> {
    let mut table = ResourceTable::new();
    let mut ctx = WasiFilesystemCtx::default();
    let descriptor = table.push(descriptor)?;
    work(&mut WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table }, descriptor)
}

/// The result of an operation that blocks where it should.
pub(crate) fn now<R>(operation: impl Future<Output = FsResult<R>>) -> FsResult<R> {
    match poll_noop(pin!(operation)) {
        Some(result) => result,
        None => Err(FsError::trap(wasmtime::format_err!("a file operation was not done where it should be"))),
    }
}
