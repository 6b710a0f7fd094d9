//! Toolgate, the daemon: start and stop, the command line, and commands that need no daemon.
//!
//! A module imports only modules that come after it in this list.

#![deny(unreachable_pub)]

pub mod cli;
pub mod quickstart;
pub mod scaffold;
pub mod serve;

/// A call makes some hundred small allocations, which are freed on another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The main function of the binary, and of the binary that the tests start. `commit` is that of the build.
pub fn main(commit: Option<&'static str>) -> std::process::ExitCode {
    cli::main(commit)
}
