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
//! `cargo build --target wasm32-wasip2 --release` makes of it a component. What a model is told about the tool (its
//! name, description, usage and schemas) comes from the code and its doc comments, and cannot drift from it.
//!
//! The function stays a plain function: call it in a unit test, or through [`testing`] with arguments in JSON. Neither
//! needs wasm.
//!
//! Files of the session lie in `/workspace`, for `std::fs`; requests are made with [`http`]. Both are asked for in
//! `plugin!`: `capabilities(filesystem = workspace, network = ["GET https://api.example.com/v1/"])`.
//!
//! Each call runs in a fresh instance, so nothing is kept between calls but files in `/workspace`, and what runs before
//! the tool's own code counts: a call parses its arguments straight into their types and builds no schema.

#![warn(missing_docs)]

#[allow(missing_docs, reason = "what the macros write, and no author reads")]
mod tool;

#[allow(missing_docs, reason = "what the macros write, and no author reads")]
mod given;

mod arguments;
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
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "async")]
pub mod task;
// Requests wait as `async` tools do.
#[cfg(all(feature = "http", not(feature = "async")))]
#[allow(dead_code, unused_imports, reason = "only a part of it is used by requests")]
mod task;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use context::{Context, Level};
pub use defined::Defined;
pub use error::{Error, Result};
pub use tool::Tool;
pub use toolgate_sdk_macros::{plugin, tool};

// The versions that the macros work with. Types of parameters and results derive from these, or from the same crates
// among the plugin's own dependencies.
pub use {schemars, serde, serde_json};

/// What the macros write into a plugin. Not for use by hand, and not stable.
#[doc(hidden)]
pub mod __private {
    pub use crate::arguments::{parse as parse_arguments, parse_flattened as parse_flattened_arguments};
    pub use crate::given::{Given, GivenAsIs};
    pub use crate::schema::{
        any_result, input as input_schema, result as output_schema, settings as settings_schema,
    };
    pub use crate::tool::{
        Answer, Capabilities, Example, Hints, Mode, NetworkRule, Plugin, PluginFacts, ToolFacts, client,
        is_first_of_its_name, output, wire_name_fits,
    };

    #[cfg(target_family = "wasm")]
    pub use crate::bindings;
    #[cfg(target_family = "wasm")]
    pub use crate::export::Exported;
    #[cfg(feature = "async")]
    pub use crate::task::block_on;
}
