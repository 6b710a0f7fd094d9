//! The macros of toolgate-sdk: `#[tool]` on a function, and `plugin!` once in a crate.
//!
//! They only rearrange what the author wrote. What can be wrong about it is found here, all at once and each at its own
//! token, with what to write instead; what a type means is left to serde and schemars.

mod docs;
mod json;
mod name;

mod function;
mod tool;

mod network;
mod plugin;

use proc_macro::TokenStream;

/// Makes a tool of a function.
///
/// The doc comment's first paragraph is the description, the others are the usage text. Each parameter needs a doc
/// comment and a type that is `serde::Deserialize` and `schemars::JsonSchema`; `Option` makes it optional,
/// `#[default]` or `#[default(10)]` gives it a default, and attributes of `serde` and `schemars` are passed on. A
/// `&Context` may stand among the parameters. The function gives a `T` or a `Result<T, Error>`.
///
/// A default stands in the schema, for the model to read, where the parameter's type is `serde::Serialize` too. With
/// `#[serde(flatten)]` the fields of a parameter stand beside the other arguments.
///
/// The attribute stands on a free function, and not on one in an `impl`. Beside the function it makes a type of the same
/// name, by which [`plugin!`] and tests find the tool. A module or type of that name in the same place is in its way: with
/// `mod search;` name the tool by its path, `plugin!("x", search::search)`, in place of `use search::search`; and a tool
/// that shares its name with a crate or a type of Rust is a function of another name, `#[tool(name = "uuid")] fn new_uuid()`.
///
/// | in the attribute | says |
/// |---|---|
/// | `read_only`, `idempotent` | what the tool does not do |
/// | `destructive = false`, `open_world = false` | what is assumed of it otherwise |
/// | `name = "…"` | another name than the function's |
/// | `usage = "…"` | another usage text than the doc comment's |
/// | `mode = "client"` | the function prepares a payload, and the orchestrator's client performs it |
/// | `result = Type` | what the client posts back; only with `mode = "client"` |
/// | `tags("…", …)`, `prerequisites("…", …)`, `integrations("…", …)` | what a catalogue shows, and what must be connected |
/// | `examples({"a": 1} => 2, "in words": {…} => …)` | calls and their results, as JSON |
/// | `redact("/password", …)` | JSON pointers to arguments that logs must not show |
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attribute.into(), item.into()).into()
}

/// Makes a plugin of tools: its namespace first, then what it asks for, then the tools.
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
///     config = Settings,
///     limits(fuel = 100_000_000, deadline_ms = 5_000),
///     current, forecast
/// }
/// ```
///
/// A place on the network is written as its address, with methods before it and a path behind where only those are asked
/// for: `"GET,HEAD https://*.example.com/v1/"`. `https://*` asks for every host; an operator then grants hosts by name.
///
/// `version` and `purpose` are those of the package unless given. The macro stands in a module, not in a function, and defines
/// the type `ThisPlugin`, which `toolgate_sdk::testing` takes.
#[proc_macro]
pub fn plugin(input: TokenStream) -> TokenStream {
    plugin::expand(input.into()).into()
}
