//! Targets that need the daemon or the sandbox. What each is about stands in its own file.

pub mod audit;
pub mod component;
pub mod config;
pub mod frame;
pub mod http;
mod place;
