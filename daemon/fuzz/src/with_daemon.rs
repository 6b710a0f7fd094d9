//! Targets that need the daemon or the sandbox.

pub mod audit;
pub mod component;
pub mod config;
pub mod envelope;
pub mod frame;
pub mod http;
mod scratch;
