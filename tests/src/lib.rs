//! Shared code of the end-to-end tests: the daemon as a process, HTTP client, guests and leak checks.
//!
//! Besides `dispatch`, the tests use only public interfaces: they start the same program as an operator, send HTTP requests, and read
//! `/proc`. No test sleeps: it polls a condition, with a timeout.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

pub mod leak_check;
pub mod local;
pub mod client;
pub mod compiled_code;
pub mod component;
pub mod daemon;
pub mod disk;
pub mod events;
pub mod guests;
pub mod sample_policy;
pub mod process;
pub mod redirects;
pub mod shell;
pub mod fixture;
pub mod sync_faults;
pub mod upstream;
pub mod wait;
pub mod wall_probe;

pub use client::{Client, Reply};
pub use component::PluginFile;
pub use daemon::{Daemon, Options, Shared};
pub use fixture::{CallReply, Session};
pub use leak_check::LeakCheck;
pub use serde_json::{Value, json};
