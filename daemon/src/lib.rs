//! Toolgate, the daemon: all I/O, no decisions.
//!
//! What may run is decided in `toolgate-admission`, what runs is run in `toolgate-sandbox`; this crate brings
//! requests in, keeps state, records, and answers. The modules below stand in the order of a call's way;
//! [`dispatch`] is the one to read first.

pub mod approvals;
pub mod audit;
pub mod cli;
pub mod client;
pub mod compile;
pub mod config;
pub mod credentials;
pub mod custom;
pub mod dispatch;
pub mod documents;
pub mod events;
pub mod frame;
pub mod http;
pub mod identifier;
pub mod identity;
pub mod keys;
pub mod logging;
pub mod plugins;
pub mod prompt;
pub mod queue;
pub mod quickstart;
pub mod redact;
pub mod registry;
pub mod scaffold;
pub mod serve;
pub mod sessions;
pub mod store;
pub mod workbench;

/// A call makes some hundred small allocations, on a thread that another one frees them from.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The program: what `main` is in the binary of this package and in the one that the tests start.
pub fn main() -> std::process::ExitCode {
    cli::main()
}
