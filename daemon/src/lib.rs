//! Toolgate, the daemon: all I/O, no decisions.
//!
//! What may run is decided in `toolgate-admission`, what runs is run in `toolgate-sandbox`; this crate brings
//! requests in, keeps state, records, and answers. The modules below stand in the order in which to read them;
//! [`dispatch`] comes first.

// The way of a call.
pub mod dispatch;
pub mod registry;
pub mod sessions;
pub mod approvals;
pub mod audit;

// Who calls, and in which words.
pub mod http;
pub mod identity;
pub mod frame;
pub mod prompt;
pub mod events;
pub mod redact;

// What can be called, and with what.
pub mod plugins;
pub mod compile;
pub mod custom;
pub mod credentials;
pub mod documents;
pub mod store;

// The process around it.
pub mod config;
pub mod keys;
pub mod identifier;
pub mod logging;
pub mod serve;

// The command line, and what only it needs.
pub mod cli;
pub mod client;
pub mod quickstart;
pub mod workbench;
pub mod temporary;
pub mod scaffold;

/// A call makes some hundred small allocations, on a thread that another one frees them from.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The program: what `main` is in the binary of this package and in the one that the tests start.
pub fn main() -> std::process::ExitCode {
    cli::main()
}
