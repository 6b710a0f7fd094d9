//! Formats that several built-in plugins read and write, so that each has one implementation.

pub mod base64;
pub mod diff;
pub mod gzip;
pub mod jq;
mod lone_braces;
pub mod pattern;
pub mod tar;

pub use lone_braces::escape_lone_braces;
