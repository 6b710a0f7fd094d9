//! Toolgate, the daemon: all I/O, no decisions.
//!
//! What may run is decided in `toolgate-admission`, what runs is run in `toolgate-sandbox`; this crate brings
//! requests in, keeps state, records, and answers. The modules below stand in the order of a call's way;
//! [`dispatch`] is the one to read first.

pub mod cli;
pub mod quickstart;
pub mod serve;
pub mod config;
pub mod http;
pub mod identity;
pub mod dispatch;
pub mod queue;
pub mod registry;
pub mod audit;
pub mod sessions;
pub mod plugins;
pub mod compile;
pub mod documents;
pub mod store;
pub mod client;
pub mod frame;
pub mod logging;
pub mod identifier;
pub mod redact;
pub mod keys;

/// The program: what `main` is in the binary of this package and in the one that the tests start.
pub fn main() -> std::process::ExitCode {
    cli::main()
}
