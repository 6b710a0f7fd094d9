//! Toolgate, the daemon: all I/O, no decisions.
//!
//! `toolgate-admission` decides about calls and `toolgate-sandbox` runs them; this crate handles HTTP requests, state, the
//! audit log and responses. The modules are in reading order; start with [`dispatch`].

// Handling of a call.
pub mod call;
pub mod dispatch;
pub mod registry;
pub mod assertions;
pub mod sessions;
pub mod approvals;
pub mod webhooks;
pub mod audit;

// Requests, callers and responses.
pub mod admin;
pub mod http;
pub mod identity;
pub mod frame;
pub mod prompt;
pub mod signature;
pub mod events;
pub mod messages;
pub mod redact;

// Plugins, documents and credentials.
pub mod plugins;
pub mod oci;
pub mod compile;
pub mod signing;
pub mod custom;
pub mod enabled;
pub mod catalogue;
pub mod credentials;
pub mod documents;
pub mod store;
pub mod backup;

// The process.
pub mod config;
pub mod keys;
pub mod identifier;
pub mod clock;
pub mod version;
pub mod logging;
pub mod metrics;
pub mod traces;
pub mod serve;
pub mod wall;

// The command line, and modules for it.
pub mod cli;
pub mod quickstart;
pub mod harness;
pub mod scaffold;

/// A call makes some hundred small allocations, which are freed on another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The main function of the binary, and of the binary that the tests start. `commit` is that of the build.
pub fn main(commit: Option<&'static str>) -> std::process::ExitCode {
    cli::main(commit)
}
