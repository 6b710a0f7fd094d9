//! Shapes that cross a border of Toolgate, each written once: names, errors, documents and the rules for their parts.
//!
//! Daemon, command line, fuzz targets, tests and the built-in plugins that read definitions share these types. This crate
//! has no I/O, no clock, no async runtime and no WebAssembly engine, and is light enough to be compiled into guests.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

// The order is that of imports: a module imports from those below it (`tests/tests/tidy.rs`).

#[cfg(feature = "openapi")]
pub mod audit_export;
#[cfg(feature = "openapi")]
pub mod catalogue;
#[cfg(feature = "openapi")]
pub mod custom_tool;
#[cfg(feature = "openapi")]
pub mod event;
#[cfg(feature = "openapi")]
pub mod file;
#[cfg(feature = "openapi")]
pub mod health;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "openapi")]
pub mod page;
#[cfg(feature = "openapi")]
pub mod policy_diff;
#[cfg(feature = "openapi")]
pub mod explain;
#[cfg(feature = "openapi")]
pub mod problem;
#[cfg(feature = "openapi")]
pub mod publisher;
#[cfg(feature = "openapi")]
pub mod root_key;
#[cfg(feature = "openapi")]
pub mod session;
#[cfg(feature = "openapi")]
pub mod audit;
#[cfg(feature = "openapi")]
pub mod plugin;
#[cfg(feature = "openapi")]
pub mod test_call;
#[cfg(feature = "openapi")]
pub mod call;
#[cfg(feature = "openapi")]
pub mod token;
#[cfg(feature = "openapi")]
pub mod document;
#[cfg(feature = "openapi")]
pub mod usage;
#[cfg(feature = "openapi")]
pub mod webhook;
#[cfg(feature = "openapi")]
pub mod approval;
#[cfg(feature = "openapi")]
pub mod credential;

pub mod assertion;
pub mod call_usage;
pub mod consent;
pub mod content;
pub mod definition;
pub mod descriptor;
pub mod dialect;
pub mod embedded;
pub mod grant;
pub mod header;
pub mod hex;
pub mod hints;
pub mod policy;
pub mod limits;
pub mod network;
pub mod quota;
pub mod tools;
pub mod name;
pub mod pattern_list;
pub mod read;
pub mod error;
pub mod json;
mod nearest;
pub mod text;
mod words;

pub use nearest::nearest;
