//! Runs one admitted call of a tool in a fresh WebAssembly instance, under all of its limits.
//!
//! This is the only crate that names wasmtime. It takes an [`Admitted`](toolgate_admission::Admitted)
//! call, which only the gate can make, and gives back what came of it: never a panic, never a trap that
//! reaches the caller as anything but a structured error. It decides nothing about who may call what.
//!
//! Read in this order: [`engine`] (what every guest shares), [`imports`] (what a component may ask the
//! host for), [`run`](mod@run) (the life of one call), [`trap`] (how an end becomes an error).

#![deny(unsafe_code)]

// What every guest shares.
mod engine;
mod imports;
mod contract;
mod component;

// The life of one call.
mod run;
mod turns;
mod queue;
mod state;
mod limiter;
mod host_calls;
mod moved;
mod sink;
pub mod effect;
mod trap;
mod outcome;

// What a guest may be granted.
pub mod files;
pub mod workspace;
mod egress;
mod secret;

// For benchmarks.
#[cfg(feature = "measure")]
pub mod measure;

pub use component::{Component, LoadError};
pub use effect::{BeforeEffect, Effect, ProgressSink};
pub use egress::{
    CaFileError, Credentials, EgressSettings, Excerpt, Exchange, Found, HostClient, HostClientError,
    HostClientSettings, Injection, InjectionPlace, SHORTEST_SECRET, Upstreams, is_certificate,
};
pub use engine::{PagemapScan, Sandbox, SandboxError, SandboxSettings, precompile};
pub use outcome::{Finished, LogLevel, LogLine, Output, Usage};
pub use queue::{Queue, QueueError, QueueSettings, Slot};
pub use run::{CallClock, CallContext, Definition, MadeFor};
pub use secret::Secret;
pub use turns::processors;
pub use workspace::Workspace;
