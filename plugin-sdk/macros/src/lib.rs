//! The macros of toolgate-sdk: `#[tool]` on a function, and `plugin!` once in a crate.
//!
//! The macros only rearrange the author's code. All mistakes in it are reported at once, each at its own token with the fix; types
//! are left to serde and schemars.

mod docs;
mod json;
mod name;

mod function;
mod tool;

mod network;
mod plugin;

use proc_macro::TokenStream;

/// Makes a tool from a function.
///
/// The first paragraph of the doc comment is the description, and the others are the usage text. Each parameter needs a doc
/// comment and a type that implements `serde::Deserialize` and `schemars::JsonSchema`. `Option` makes a parameter optional,
/// `#[default]` or `#[default(10)]` gives it a default, and attributes of `serde` and `schemars` are forwarded. One parameter
/// may be `&Context`. The function returns a `T` or a `Result<T, Error>`. The daemon removes a `null` for an optional parameter whose
/// schema refuses it, so a default applies to it too.
///
/// The schema contains a default if the parameter's type implements `serde::Serialize` too. With `#[serde(flatten)]` the
/// fields of a parameter are arguments themselves.
///
/// The attribute works on free functions, not on those in an `impl`. It also generates a type of the function's name, with
/// which [`plugin!`] and tests find the tool. A module or type of the same name in the same scope conflicts with it: with
/// `mod search;`, name the tool by its path, `plugin!("x", search::search)`, without `use search::search`. A tool that has
/// the name of a crate or a type of Rust needs a function of another name: `#[tool(name = "uuid")] fn new_uuid()`.
///
/// | attribute | meaning |
/// |---|---|
/// | `read_only`, `idempotent` | the tool changes nothing; repeating a call changes nothing further |
/// | `destructive = false`, `open_world = false` | the tool only adds; it has no effects outside the session. Both are assumed true otherwise |
/// | `name = "…"` | the name of the tool, in place of the function's |
/// | `usage = "…"` | the usage text, in place of the doc comment's |
/// | `mode = "client"` | the function prepares a payload, and the orchestrator's client performs the action |
/// | `result = Type` | the type of the client's result; only with `mode = "client"` |
/// | `tags("…", …)`, `prerequisites("…", …)`, `integrations("…", …)` | texts for a catalogue; accounts that must be connected |
/// | `examples({"a": 1} => 2, "with a description": {…} => …)` | calls and their results, as JSON |
/// | `cost = 5` | units that a call costs, which quotas and usage count |
/// | `redact("/password", …)` | JSON pointers to arguments that logs must not show |
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attribute.into(), item.into()).into()
}

/// Makes a plugin from tools: its namespace, then its settings and capabilities, then the tools.
///
/// ```ignore
/// plugin! {
///     "weather",
///     publisher = "Example Ltd",
///     category = "Weather",
///     purpose = "Forecasts for any place",
///     capabilities(
///         filesystem = workspace,
///         network = ["GET https://api.weather.gov/points/"],
///         credentials = ["weather"],
///     ),
///     settings = Settings,
///     limits(fuel = 100_000_000, deadline_ms = 5_000),
///     current, forecast
/// }
/// ```
///
/// A network destination is an address, with optional methods before it and an optional path prefix:
/// `"GET,HEAD https://*.example.com/v1/"`. `https://*` requests every host; the operator then grants hosts by name.
///
/// `unused = ["filesystem"]` among the capabilities names what a library imports and the plugin does not use: nothing is granted for it.
///
/// `version` and `purpose` default to those of the package. The macro works in a module, not in a function, and generates
/// the type `ThisPlugin`, which `toolgate_sdk::testing` uses.
#[proc_macro]
pub fn plugin(input: TokenStream) -> TokenStream {
    plugin::expand(input.into()).into()
}
