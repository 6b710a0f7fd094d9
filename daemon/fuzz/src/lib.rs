//! Fuzz targets for everything that parses untrusted bytes, each with an oracle.
//!
//! A target is a function that accepts any bytes and panics if an invariant does not hold. libFuzzer calls it
//! (`fuzz_targets/`), and so does `tests/corpora.rs`, on stable, with every seed and every file in `corpus/`. An oracle is written from the
//! published specification and never calls the code that it checks: only independent implementations can disagree.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic is a failed test")]

// Parts of oracles.
mod error_format;
mod evaluate;
mod plugin;
mod strict;

// Calls.
mod arguments;
mod json;
mod names;

// Plugins, documents and definitions.
mod describe;
mod documents;
mod openapi;

// Outgoing requests.
mod egress;

// Targets that need the daemon or the sandbox.
#[cfg(feature = "daemon")]
mod with_daemon;
pub use arguments::arguments;
pub use describe::describe;
pub use documents::documents;
pub use egress::egress;
pub use json::json;
pub use names::names;
pub use openapi::openapi;

#[cfg(feature = "daemon")]
pub use with_daemon::{
    audit::{audit_log, audit_segment},
    component::component,
    config::config,
    envelope::envelope,
    frame::frame,
    http::http,
};

/// The seeds of a target, each with a name for its content. Binary seeds are files of `corpus/`.
pub fn seeds(target: &str) -> Vec<(&'static str, String)> {
    let (table, long) = match target {
        "arguments" => (arguments::SEEDS, Vec::new()),
        "describe" => (describe::SEEDS, describe::long_seeds()),
        "documents" => (documents::SEEDS, Vec::new()),
        "egress" => (egress::SEEDS, Vec::new()),
        "json" => (json::SEEDS, Vec::new()),
        "names" => (names::SEEDS, Vec::new()),
        "openapi" => (openapi::SEEDS, Vec::new()),
        #[cfg(feature = "daemon")]
        "audit_log" => (with_daemon::audit::SEEDS, Vec::new()),
        #[cfg(feature = "daemon")]
        "config" => (with_daemon::config::SEEDS, Vec::new()),
        #[cfg(feature = "daemon")]
        "envelope" => (with_daemon::envelope::SEEDS, Vec::new()),
        #[cfg(feature = "daemon")]
        "frame" => (with_daemon::frame::SEEDS, with_daemon::frame::long_seeds()),
        #[cfg(feature = "daemon")]
        "http" => (with_daemon::http::SEEDS, with_daemon::http::long_seeds()),
        _ => return Vec::new(),
    };
    let table = table.iter().map(|(name, text)| (*name, (*text).to_owned()));
    table.chain(long).collect()
}
