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

// The order is that of imports: a module imports from those below it (`tests/tests/tidy.rs`).

// For benchmarks.
#[cfg(feature = "measure")]
pub mod measure;

// The life of one call.
mod run;
mod trap;

// Shared by all guests.
mod component;
mod functions;
mod engine;
mod imports;
mod compiled_functions;
mod bulk_memory;
mod load_error;
mod trusted;

// The call's data, and what the host does for its guest.
mod contract;
mod proposals;
mod state;
mod context;
mod services;
mod sink;
mod outcome;
mod host_calls;
mod cpu_scheduler;
mod queue;

// Capabilities that a grant gives to a guest.
mod egress;
pub mod files;
mod copy_meter;
pub mod workspace;
mod limiter;
mod secret;
pub mod effect;

// For tests of other crates.
#[cfg(feature = "testing")]
mod testing;

pub use compiled_functions::{CompiledFunctions, without_data};
pub use component::Component;
pub use context::{CallClock, CallContext, CallIdentity, Remainder};
pub use cpu_scheduler::{Turn, processors};
pub use effect::{BeforeEffect, Effect, ProgressSink};
pub use egress::{
    CaFileError, Credentials, CredentialsForRequest, EgressSettings, Excerpt, Exchange, ExchangeLimits,
    HostClient, HostClientError, HostClientSettings, Injection, InjectionPlace, PrivateHosts,
    SHORTEST_SECRET, TraceContext, Upstreams, is_certificate,
};
pub use engine::{
    PagemapScan, PoolUse, Sandbox, SandboxError, SandboxSettings, WASMTIME_VERSION, portable_fingerprint,
    precompile, precompile_portable,
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
