//! Shared code of the end-to-end tests: the daemon as a process, HTTP client, guests and leak checks.
//!
//! For a new test:
//! - **Where it goes**: a unit test beside its code (`mod tests` below it, or `x/tests.rs` beside `x.rs`); what a client, an operator or the
//!   file system can see into the program of its story, `tests/tests/STORY/`. `dispatch` alone has the daemon's services in its process
//!   (`local.rs`); the others start `toolgate-under-test`, send HTTP requests and read `/proc`.
//! - **Fixtures**: the tests of a program share one daemon (`with_fixture`), each with an organization of its own; a test that restarts or
//!   breaks its daemon starts one with [`Daemon`].
//! - **Names**: an id such as `g16_` is a row of the requirements that the test holds.
//! - **Guests** are packages in `tests/guests`; each of their tools must be called by a test (`tidy.rs`).
//! - **Waiting**: poll a condition with [`wait`], never sleep, and assert no elapsed time.
//! - **Tools**: tests of third-party programs need `.ci/install-test-tools`. Without them cargo ignores the tests, and `tools.rs`
//!   lists them at the end; with `TOOLGATE_TEST_TOOLS=required` they fail.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

pub mod leak_check;
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
