//! Runs one admitted tool call in a fresh WebAssembly instance (wasmtime), under all of its limits.
//!
//! The only crate that names wasmtime. It takes an [`Admitted`](toolgate_admission::Admitted) call, which only the
//! gate can make, and returns a [`FinishedCall`]: it never panics, and every trap becomes a structured error. It
//! decides nothing about who may call what.
//!
//! Read in this order: [`engine`] (shared by all guests), [`imports`] (the interfaces a component may import),
//! [`run`](mod@run) (the life of one call), [`trap`] (maps the end of a guest to an error).

#![deny(unreachable_pub)]
#![deny(unsafe_code)]

// Shared by all guests.
mod engine;
mod load_error;
mod imports;
mod contract;
mod bulk_memory;
mod component;
mod functions;

// The life of one call.
mod context;
mod run;
mod cpu_scheduler;
mod queue;
mod state;
mod limiter;
mod host_calls;
mod copy_meter;
mod sink;
mod services;
pub mod effect;
mod trap;
mod outcome;

// Capabilities that a grant gives to a guest.
pub mod files;
pub mod workspace;
mod egress;
mod secret;

// For benchmarks.
#[cfg(feature = "measure")]
pub mod measure;

// For tests of other crates.
#[cfg(feature = "testing")]
mod testing;

pub use component::Component;
pub use context::{CallClock, CallContext, CallIdentity, Remainder, TraceContext};
pub use cpu_scheduler::processors;
pub use effect::{BeforeEffect, Effect, ProgressSink};
pub use egress::{
    CaFileError, Credentials, CredentialsForRequest, EgressSettings, Excerpt, Exchange, ExchangeLimits,
    HostClient, HostClientError, HostClientSettings, Injection, InjectionPlace, SHORTEST_SECRET, Upstreams,
    is_certificate,
};
pub use engine::{
    PagemapScan, PoolUse, Sandbox, SandboxError, SandboxSettings, WASMTIME_VERSION, precompile,
};
pub use functions::FunctionsDescription;
pub use load_error::LoadError;
pub use outcome::{FinishedCall, LogLevel, LogLine, Output, Usage};
pub use queue::{Queue, QueueError, QueueSettings, Slot};
pub use run::Definition;
pub use secret::Secret;
pub use services::{InnerCall, Messages, OtherTools, Services};
#[cfg(feature = "testing")]
pub use testing::FakeCall;
pub use trap::output_too_large;
pub use workspace::Workspace;
