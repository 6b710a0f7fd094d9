//! Write tools for AI agents as WebAssembly components that Toolgate runs.
//!
//! ```
//! use toolgate_sdk::{plugin, tool};
//!
//! /// Adds two numbers.
//! #[tool(read_only)]
//! fn add(
//!     /// The first number
//!     a: f64,
//!     /// The second number
//!     b: f64,
//! ) -> f64 {
//!     a + b
//! }
//!
//! plugin!("sums", add);
//! # fn main() {}
//! ```
//!
//! `cargo build --target wasm32-wasip2 --release` compiles it to a component. The tool's name, description, usage and
//! schemas come from the code and its doc comments, so they cannot drift from it.
//!
//! The function stays a plain function: call it in a unit test, or through [`testing`] with JSON arguments. Neither needs
//! wasm.
//!
//! The session's files are in `/workspace`, for [`files`] and `std::fs`; [`http`] sends requests. A plugin requests both in `plugin!`:
//! `capabilities(filesystem = workspace, network = ["GET https://api.example.com/v1/"])`.
//!
//! Each call runs in a fresh instance, so only files in `/workspace` outlive a call, and start-up time counts: a call
//! parses its arguments directly into their types and builds no schema.

#![warn(missing_docs)]

#[allow(missing_docs, reason = "used by the macros only")]
mod tool;

#[allow(missing_docs, reason = "used by the macros only")]
mod tool_return;

mod arguments;
mod calls;
mod content;
mod context;
mod error;
mod schema;

mod defined;
mod describe;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, reason = "generated: the canonical ABI")]
#[rustfmt::skip]
pub mod bindings;
#[cfg(target_family = "wasm")]
mod export;
pub mod files;
#[cfg(feature = "http")]
pub mod http;
pub mod messages;
#[cfg(feature = "async")]
pub mod task;
// Requests use the executor of `async` tools.
#[cfg(all(feature = "http", not(feature = "async")))]
#[allow(dead_code, unused_imports, reason = "requests use a part of it")]
mod task;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use calls::{CallFailure, Calls};
pub use content::{Content, WithContent};
pub use context::{Context, Level};
pub use defined::Defined;
pub use error::{Error, Result};
pub use tool::Tool;
pub use toolgate_sdk_macros::{plugin, tool};

// The versions that the macros use. Parameter and result types derive from these, or from the same crates among the
// plugin's own dependencies.
pub use {schemars, serde, serde_json};

/// Items for code that the macros generate. Not stable.
#[doc(hidden)]
pub mod __private {
    pub use crate::arguments::{parse as parse_arguments, parse_flattened as parse_flattened_arguments};
    pub use crate::schema::{
        any_result, input as input_schema, result as output_schema, settings as settings_schema,
    };
    pub use crate::tool::{
        Capabilities, Example, Hints, Mode, NetworkRule, Plugin, PluginFacts, ToolFacts, ToolOutput, client,
        has_unique_name, output, wire_name_fits,
    };
    pub use crate::tool_return::{PlainReturn, ToolReturn};

    #[cfg(target_family = "wasm")]
    pub use crate::bindings;
    #[cfg(target_family = "wasm")]
    pub use crate::export::{DefinedExport, PluginOrDefined};
    #[cfg(feature = "async")]
    pub use crate::task::block_on;
}
