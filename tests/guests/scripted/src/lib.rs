//! Script guest: calls the tools that its arguments name, one after another or at once.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_sdk::{CallFailure, Context, Error, plugin, tool};

/// Calls tools in order, and returns their outputs and errors.
///
/// `"$now"`, `"$random"` and `"$tools"` in arguments stand for the clock, a random number, and the number of callable tools.
#[tool]
fn run(
    context: &Context,
    /// Pairs of a tool's name and its arguments
    calls: Vec<(String, Value)>,
) -> Result<Value, Error> {
    let results: Vec<Value> =
        calls.into_iter().map(|(tool, arguments)| call(context, &tool, &arguments)).collect();
    Ok(json!({"results": results, "now": now(), "random": random()}))
}

/// Calls tools at once, and returns their outputs and errors in the order of the calls.
#[tool]
fn run_all(
    context: &Context,
    /// Pairs of a tool's name and its arguments
    calls: Vec<(String, Value)>,
) -> Result<Value, Error> {
    let calls: Vec<(String, String)> =
        calls.into_iter().map(|(tool, arguments)| (tool, arguments.to_string())).collect();
    let results = context.calls().call_all(&calls);
    Ok(results.into_iter().map(result_of).collect())
}

/// Lists the tools that a script may call.
#[tool]
fn list(context: &Context) -> Result<Value, Error> {
    Ok(serde_json::from_str(&context.calls().tools())?)
}

/// Describes a tool as scripts see it.
#[tool]
fn describe(
    context: &Context,
    /// Its name
    tool: String,
) -> Result<String, Error> {
    context.calls().describe(&tool).map_err(|failure| Error::new(failure.message))
}

fn call(context: &Context, tool: &str, arguments: &Value) -> Value {
    let arguments =
        arguments.to_string().replace("\"$now\"", &now().to_string()).replace("$now", &now().to_string());
    let arguments = arguments.replace("\"$random\"", &random().to_string());
    let tools = serde_json::from_str::<Vec<Value>>(&context.calls().tools()).unwrap_or_default().len();
    let arguments = arguments.replace("\"$tools\"", &tools.to_string());
    result_of(context.calls().call(tool, &arguments))
}

fn result_of(result: Result<String, CallFailure>) -> Value {
    match result {
        Ok(output) => json!({"output": serde_json::from_str::<Value>(&output).unwrap_or_default()}),
        Err(failure) => {
            json!({"code": failure.code, "message": failure.message, "retryable": failure.retryable})
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

fn random() -> u32 {
    getrandom::u32().unwrap_or_default() / 2
}

plugin! {
    "scripted",
    capabilities(calls = true),
    run, run_all, list, describe
}
