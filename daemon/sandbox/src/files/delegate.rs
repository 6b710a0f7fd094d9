//! Runs wasmtime-wasi's own functions in threads of our pool.
//!
//! wasmtime-wasi would run each read, stat and listing in tokio's blocking pool without a limit of its own, or in the
//! guest's thread. So a clone of the descriptor (a shared handle) is moved into our thread, in a small table of its own.
//! Blocking is allowed there, and every future is ready at its first poll.

use std::pin::pin;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::runtime::poll_noop;

/// Calls wasmtime-wasi on a descriptor in this thread. The descriptor must allow blocking.
pub(crate) fn in_this_thread<R>(
    descriptor: Descriptor,
    work: impl FnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>) -> FsResult<R>,
) -> FsResult<R> {
    let mut table = ResourceTable::new();
    let mut ctx = WasiFilesystemCtx::default();
    let descriptor = table.push(descriptor)?;
    work(&mut WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table }, descriptor)
}

/// Returns the result of a blocking operation, whose future must be ready at its first poll.
pub(crate) fn expect_ready<R>(operation: impl Future<Output = FsResult<R>>) -> FsResult<R> {
    match poll_noop(pin!(operation)) {
        Some(result) => result,
        None => Err(FsError::trap(wasmtime::format_err!("a file operation was not done where it should be"))),
    }
}
