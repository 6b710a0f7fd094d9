//! Code mode (T13): a script in JavaScript over the agent's other tools. The host decides, limits and records each call that a
//! script makes, and ends the script where a call waits for an approval; the plugin gives the script its language.

mod engine;
mod failure;
mod form;
mod globals;
mod json;
mod locale;
mod log;
mod types;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_sdk::{Context, Error, plugin, tool};

/// The result of a script.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Output {
    /// The returned value
    value: Value,
    /// The lines that the script wrote with `console.log`
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

/// Runs a script in JavaScript over the other tools.
///
/// The script is the body of an async function: `await` and `return` work at the top, and without a `return` the value of the last
/// statement comes back. `await tools.namespace.name({…})` calls a
/// tool and gives its output; `describe("namespace/name")` returns its signature and description, and `Object.keys(tools)` the
/// namespaces. A call that fails throws an `Error` with `code`, `message`, `retryable` and `details`. Only what the script
/// returns or writes with `console.log` comes back, so filter and combine results in it. There are no files, no network, no
/// modules and no timers. If a call needs an approval, the script ends, and runs again after it: let its calls depend on
/// `args`, the clock and results of tools alone.
//
// Read-only: it changes nothing by itself, and each of its calls passes the gate as what it is.
#[tool(read_only, examples(
    "a total over a list": {
        "script": "let total = 0;\nfor (const amount of args.amounts) total += amount;\nreturn { total };",
        "args": {"amounts": [5, 7]},
    } => {"value": {"total": 12}},
))]
fn run(
    context: &Context,
    /// The body of an async function
    script: String,
    /// The value of `args` in the script
    args: Option<Map<String, Value>>,
) -> Result<Output, Error> {
    engine::run(context.calls(), &script, &Value::Object(args.unwrap_or_default()))
}

plugin! {
    "code",
    publisher = "Toolgate",
    category = "Agents",
    // The engine can load modules from files, which a script cannot name.
    capabilities(calls = true, unused = ["filesystem"]),
    run
}

#[cfg(test)]
mod tests;
