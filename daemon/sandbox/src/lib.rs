//! Runs one admitted call of a tool in a fresh WebAssembly instance, under all of its limits.
//!
//! This is the only crate that names wasmtime. It takes an [`Admitted`](toolgate_admission::Admitted)
//! call, which only the gate can make, and gives back what came of it: never a panic, never a trap that
//! reaches the caller as anything but a structured error. It decides nothing about who may call what.
//!
//! Read in this order: [`engine`] (what every guest shares), [`imports`] (what a component may ask the
//! host for), [`run`](mod@run) (the life of one call), [`trap`] (how an end becomes an error).

#![deny(unsafe_code)]

mod component;
mod contract;
pub mod effect;
mod egress;
mod engine;
pub mod files;
mod imports;
mod limiter;
#[cfg(feature = "measure")]
pub mod measure;
mod moved;
mod outcome;
mod run;
mod secret;
mod sink;
mod state;
mod trap;
pub mod workspace;

pub use component::{Component, LoadError};
pub use effect::{BeforeEffect, Effect, ProgressSink};
pub use egress::{
    Credentials, EgressSettings, Excerpt, Exchange, Found, Injection, InjectionPlace, SHORTEST_SECRET,
    Upstreams, is_certificate,
};
pub use engine::{PagemapScan, Sandbox, SandboxError, SandboxSettings, precompile};
pub use outcome::{Finished, LogLevel, LogLine, Output, Usage};
pub use run::{CallClock, CallContext, MadeFor};
pub use secret::Secret;
pub use workspace::Workspace;
