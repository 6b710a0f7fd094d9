//! `toolgate run`: makes one call of a plugin file, without a daemon.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toolgate_admission::Descriptor;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::{LimitName, Limits, LimitsPatch};
use toolgate_cli::document::arguments_from;
use toolgate_cli::plugin::read_component;
use toolgate_cli::{Failure, Printer};
use toolgate_core::harness::check::unused_workspace;
use toolgate_core::harness::{
    CallEnvironment, CompileTools, HarnessResult, PluginHarness, UserCache, temporary_folder,
};

use super::inputs::InputOptions;

const EXAMPLES: &str = "\
Examples:
  toolgate run weather.wasm current '{\"city\": \"Paris\"}'
  toolgate run plugin.wasm summarize @arguments.json --workspace ./files
  toolgate run plugin.wasm search '{}' --limit fuel=1000000 --limit deadline_ms=200
  toolgate run weather.wasm current '{\"city\": \"Paris\"}' --settings @settings.json
  toolgate run ticket.wasm read '{\"id\": 7}' --allow-network http://127.0.0.1:8080
  toolgate run ticket.wasm read '{\"id\": 7}' --credential ticket.json --secret-env TICKET_TOKEN";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunOptions {
    /// The WebAssembly component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The tool: its name, `namespace/tool`, or its wire name
    tool: String,
    /// The arguments: JSON, @FILE, or - for standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    inputs: InputOptions,
    /// A limit that overrides its default; can be given several times
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
    limits: Vec<(LimitName, u64)>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("write it like `fuel=1000000`")?;
    let name = LimitName::parse(name).map_err(|error| error.to_string())?;
    let value = value.replace('_', "").parse().map_err(|_| format!("`{value}` is not a whole number"))?;
    let most = Limits::CEILING.get(name);
    if value > most {
        // A higher value would be reduced to the ceiling, and the run would not have the requested limit.
        return Err(format!("no operator can give more than {most}"));
    }
    Ok((name, value))
}

pub(super) async fn run(options: RunOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let file = read_component(&options.file)?;
    let arguments = arguments_from(&options.arguments)?;
    options.inputs.check()?;
    let tools = CompileTools { worker: std::env::current_exe()?, cache: UserCache::from_environment() };
    let harness = PluginHarness::open(&file, tools).await?;
    let descriptor = Descriptor::parse(&harness.describe().await?)
        .map_err(|error| error.into_call_error(ErrorType::InvalidPlugin))?;
    // No daemon would load such a component either.
    harness.component().check_manifest(&descriptor.capabilities).map_err(CallError::from)?;
    // An explicit `--workspace` that the tool cannot use is an error.
    if let Some(unused) = options.inputs.workspace.as_ref().and_then(|_| unused_workspace(&descriptor)) {
        return Err(Failure::new(unused.message, unused.hint));
    }
    let tool = match options.tool.contains('/') || descriptor.tool(&options.tool).is_none() {
        true => options.tool.clone(),
        false => format!("{}/{}", descriptor.namespace, options.tool),
    };
    let (granted, inputs) = options.inputs.read(&descriptor)?;
    let lacks_settings = descriptor.config_schema.is_some() && inputs.settings.is_none();
    let rules = harness.rules_granting(granted, descriptor, LimitsPatch::from_iter(options.limits));
    let thrown_away = temporary_folder()?;
    let workspace = inputs.workspace.unwrap_or_else(|| thrown_away.path().to_owned());
    let (settings, credential) = (inputs.settings, inputs.credential);
    let environment = CallEnvironment { settings, credential, ..CallEnvironment::live(Some(workspace)) };
    let ran = harness.call(&rules, &tool, &arguments, &environment).await;
    match printer.is_json() {
        true => printer.json(&as_json(&ran))?,
        false => print(&ran, printer)?,
    }
    ran.outcome.map(drop).map_err(|error| {
        let hint = match author_hint(error.error_type) {
            Some(hint) => hint,
            None if lacks_settings => "if it lacks settings, give them with `--settings JSON`",
            None => &error.hint,
        };
        Failure::new(format!("{}: {}", error.error_type.as_str(), error.message), hint)
    })
}

/// The hint for the author, where that of the error is for a model or its operator.
fn author_hint(error_type: ErrorType) -> Option<&'static str> {
    match error_type {
        ErrorType::FuelExhausted
        | ErrorType::MemoryExceeded
        | ErrorType::DeadlineExceeded
        | ErrorType::ResourceExceeded
        | ErrorType::OutputTooLarge => Some(
            "do less work, or raise the limit: `--limit NAME=VALUE` for this run, and the plugin's `limits` for every call",
        ),
        ErrorType::NetworkDenied => Some(
            "ask for the host in `network` of the plugin's `capabilities`, with its scheme if that is `http`; for a private host or plain HTTP, add `--allow-network URL` too",
        ),
        ErrorType::CredentialMissing => {
            Some("give one with `--credential FILE` and `--secret-env VARIABLE`, for this provider and host")
        }
        ErrorType::ToolCrashed => Some("the log above has the message and the place of a panic"),
        _ => None,
    }
}

/// Prints the result on standard output, and logs and measurements of the call on standard error.
fn print(ran: &HarnessResult, printer: &mut Printer<'_>) -> Result<(), Failure> {
    for line in &ran.log {
        let fields: Vec<String> =
            line.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
        let level = format!("{:?}", line.level).to_lowercase();
        let text = format!("{level} {} {}{}", line.event, line.message.trim_end(), fields.concat());
        printer.note_lines("log   ", &text)?;
    }
    if ran.log_lines_dropped > 0 {
        printer.note(&format!(
            "log   {} lines more than the limit allows were dropped",
            ran.log_lines_dropped
        ))?;
    }
    for effect in &ran.effects {
        printer.note(&format!("did   {} {}", effect.kind, effect.detail))?;
    }
    let usage = &ran.usage;
    printer.note(&format!(
        "used  {} fuel, {} KiB of memory, {}.{:03} ms, {} calls of the host",
        usage.fuel,
        usage.memory_bytes / 1024,
        usage.duration_us / 1000,
        usage.duration_us % 1000,
        usage.host_calls
    ))?;
    if let Ok(output) = &ran.outcome {
        printer.json(&serde_json::from_str(output).unwrap_or(Value::Null))?;
        ran.content.iter().try_for_each(|block| printer.block(block))?;
    }
    Ok(())
}

fn as_json(ran: &HarnessResult) -> Value {
    let log: Vec<Value> = ran
        .log
        .iter()
        .map(|line| {
            let level = format!("{:?}", line.level).to_lowercase();
            json!({"level": level, "event": line.event, "message": line.message, "fields": line.fields})
        })
        .collect();
    let effects: Vec<Value> =
        ran.effects.iter().map(|effect| json!({"effect": effect.kind, "detail": effect.detail})).collect();
    let usage = &ran.usage;
    json!({
        "status": if ran.outcome.is_ok() { "ok" } else { "error" },
        "content": ran.content,
        "output": ran.outcome.as_ref().ok().and_then(|output| serde_json::from_str::<Value>(output).ok()),
        "error": ran.outcome.as_ref().err().map(|error| json!({
            "error_type": error.error_type.as_str(), "message": error.message, "hint": error.hint,
            "retryable": error.retryable, "details": error.details,
        })),
        "usage": {
            "fuel": usage.fuel, "memory_bytes": usage.memory_bytes, "duration_us": usage.duration_us,
            "host_calls": usage.host_calls, "egress_bytes": usage.egress_bytes,
            "output_bytes": usage.output_bytes, "log_bytes": usage.log_bytes,
        },
        "log": log,
        "log_lines_dropped": ran.log_lines_dropped,
        "effects": effects,
    })
}
