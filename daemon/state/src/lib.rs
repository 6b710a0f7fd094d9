//! Settings, keys, documents and the SQL store of the daemon.
//!
//! A module imports only modules that come after it in this list.

#![deny(unreachable_pub)]

pub mod config;
pub mod store;
pub mod documents;
pub mod keys;
pub mod identifier;
pub mod clock;
