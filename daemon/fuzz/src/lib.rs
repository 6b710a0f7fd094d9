//! What the daemon does with bytes of outsiders, each place with an oracle that knows a right answer from a wrong one.
//!
//! One function a target, which takes any bytes and panics where something is not as it should be. libFuzzer calls
//! it (`fuzz_targets/`), and so does `tests/corpora.rs`, on stable, with every file in `corpus/`. An oracle is
//! written from the published form and never calls what it judges: two opinions can differ, one cannot.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

// What an oracle is made of.
mod evaluate;
mod strict;
mod tell;

// What a call brings.
mod arguments;
mod json;
mod names;

// What plugins and owners say.
mod describe;
mod documents;
mod openapi;

// What a guest wants to reach.
mod egress;

// What needs the daemon.
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
    frame::frame,
    http::http,
};
