//! What the tests of the daemon share: the daemon as a process, a client for it, guests, and a look at what is left
//! behind.
//!
//! The tests know nothing of the daemon's inside. They start the very program that operators start, speak HTTP to it,
//! and look at its process through `/proc`. Nothing here sleeps: what takes time is waited for by its condition, and
//! each wait has an end.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

pub mod leak_check;
pub mod client;
pub mod compiled;
pub mod component;
pub mod daemon;
pub mod disk;
pub mod events;
pub mod guests;
pub mod sample_policy;
pub mod process;
pub mod fixture;
pub mod syncs;
pub mod upstream;
pub mod wait;

pub use client::{Client, Reply};
pub use component::PluginFile;
pub use daemon::{Daemon, Options, Shared};
pub use fixture::{CallReply, Session};
pub use leak_check::LeakCheck;
pub use serde_json::{Value, json};
