//! Shapes that cross a border of Toolgate, each written once: names, errors, documents and the rules for their parts.
//!
//! Daemon, command line, fuzz targets, tests and the built-in plugins that read definitions share these types. This crate
//! has no I/O, no clock, no async runtime and no WebAssembly engine, and is light enough to be compiled into guests.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod error;
pub mod header;
pub mod json;
pub mod name;
pub mod network;
pub mod read;
pub mod text;

mod nearest;

pub use nearest::nearest;
