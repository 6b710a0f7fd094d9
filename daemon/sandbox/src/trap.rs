//! Maps the end of a guest to an error with a cause and a hint.
//!
//! A trap alone does not reveal the cause: a guest that was refused memory aborts like one with a bug. So a refusal by
//! the host (memory, a quota, a denied request) takes precedence over the trap.

use serde_json::json;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::limits::{LimitName, Limits};
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::{I32Exit, ResourceTableError};

use crate::functions::JsonTooLarge;
use crate::host_calls::TooManyHostCalls;
use crate::load_error::one_line;
use crate::state::CallState;

/// The hint of limits on the size of a call.
const SMALLER_WORK: &str = "ask for a smaller piece of work";

/// Maps the error that ended a guest.
pub(crate) fn explain(error: &wasmtime::Error, state: &CallState, limits: &Limits) -> CallError {
    if let Some(refusal) = host_refusal(state, limits) {
        return refusal;
    }
    if error.downcast_ref::<TooManyHostCalls>().is_some() {
        return resource_exceeded("host_calls", limits.host_calls, "calls to the host");
    }
    if error.downcast_ref::<JsonTooLarge>().is_some() {
        return output_too_large(limits);
    }
    if matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full)) {
        return resource_exceeded("resources", limits.resources, "open files, streams and requests");
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return CallError::new(
            ErrorType::Overloaded,
            "the sandbox has no free instance for this tool",
            "call again in a moment",
        )
        .with_retry_after_ms(1_000);
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return crash_error(format!("the tool ended its own process with exit code {}", exit.0));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => fuel_exhausted(limits),
        Some(Trap::Interrupt) => deadline_exceeded(limits),
        Some(Trap::StackOverflow) => resource_exceeded("stack", 0, "nested calls"),
        Some(trap) => crash_error(format!("the tool crashed: {trap}")),
        None => explain_text(&one_line(error), state, limits),
    }
}

/// Returns the host's refusal that caused the failure, if any.
pub(crate) fn host_refusal(state: &CallState, limits: &Limits) -> Option<CallError> {
    match state.limiter.exceeded_limit() {
        Some("memory_bytes") => return Some(memory_exceeded(limits)),
        Some(limit) => return Some(resource_exceeded(limit, limits.table_elements, "table elements")),
        None => {}
    }
    if let Some(limit) = state.access.exceeded_limit() {
        let what = if limit == LimitName::OpenFiles { "open files" } else { "room in the workspace" };
        return Some(resource_exceeded(limit.as_str(), limits.get(limit), what));
    }
    let egress = state.egress.record();
    if let Some(limit) = egress.exceeded_limit() {
        let what = if limit == LimitName::Requests { "requests" } else { "bytes over the network" };
        return Some(resource_exceeded(limit.as_str(), limits.get(limit), what));
    }
    if state.access.disk_is_full() {
        return Some(CallError::new(
            ErrorType::Unavailable,
            "the disk of the workspaces is full",
            "call again when the operator has freed space",
        ));
    }
    if state.access.intent_failed() || egress.is_unrecordable() {
        return Some(CallError::new(
            ErrorType::Unavailable,
            "the call cannot be recorded, so it may not change anything",
            "call again when the operator has fixed the audit log",
        ));
    }
    egress.last_error()
}

/// wasmtime reports some limits as text only.
fn explain_text(text: &str, state: &CallState, limits: &Limits) -> CallError {
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        return if state.host_calls.last_failed {
            resource_exceeded("host_call_bytes", limits.host_call_bytes, "bytes for one call to the host")
        } else {
            output_too_large(limits)
        };
    }
    if text.contains("requested len") && text.contains("exceeds limit") {
        return resource_exceeded("random_bytes", limits.random_bytes, "random bytes at once");
    }
    if text.contains("total size of fields exceeds limit") {
        return resource_exceeded("header_bytes", limits.header_bytes, "header fields");
    }
    let counted = [
        ("instance count", "instances", limits.instances),
        ("memory count", "memories", limits.memories),
        ("table count", "tables", limits.tables),
        ("handle", "component_handles", limits.component_handles),
    ];
    for (words, limit, allowed) in counted {
        if text.contains(words)
            && (text.contains("too high") || text.contains("limit") || text.contains("too many"))
        {
            return resource_exceeded(limit, allowed, limit);
        }
    }
    if text.contains("memory minimum size") || text.contains("memory index") {
        return memory_exceeded(limits);
    }
    crash_error(format!("the tool crashed: {text}"))
}

pub(crate) fn deadline_exceeded(limits: &Limits) -> CallError {
    limit_error(
        ErrorType::DeadlineExceeded,
        format!("the call was stopped at its deadline of {} ms", limits.deadline_ms),
        "ask for less at once, or call again if the tool waits for something slow",
        "deadline_ms",
        Some(limits.deadline_ms),
    )
}

/// The error of a result that is larger than its limit. It says that the tool ran, since a repeated call would act again.
pub fn output_too_large(limits: &Limits) -> CallError {
    limit_error(
        ErrorType::OutputTooLarge,
        format!("the tool ran, and its result is larger than {} bytes", limits.output_bytes),
        "ask for a part of it, for example with a filter, a range or a page",
        "output_bytes",
        Some(limits.output_bytes),
    )
}

fn fuel_exhausted(limits: &Limits) -> CallError {
    let message = format!("the tool computed longer than its {} units of fuel allow", limits.fuel);
    limit_error(ErrorType::FuelExhausted, message, SMALLER_WORK, "fuel", Some(limits.fuel))
}

fn memory_exceeded(limits: &Limits) -> CallError {
    let message = format!("the tool needed more memory than its {} bytes", limits.memory_bytes);
    limit_error(ErrorType::MemoryExceeded, message, SMALLER_WORK, "memory_bytes", Some(limits.memory_bytes))
}

fn resource_exceeded(limit: &str, allowed: u64, what: &str) -> CallError {
    let hint = match limit {
        "workspace_bytes" | "workspace_files" => {
            "delete files of the workspace that are not needed any more, or write less"
        }
        _ => SMALLER_WORK,
    };
    let message = format!("the tool used more than its share of {what} (limit `{limit}`)");
    // The stack limit has no published value.
    let allowed = (allowed > 0).then_some(allowed);
    limit_error(ErrorType::ResourceExceeded, message, hint, limit, allowed)
}

/// An error about a limit, with its value if the limit has one.
fn limit_error(
    error_type: ErrorType,
    message: String,
    hint: &'static str,
    limit: &str,
    allowed: Option<u64>,
) -> CallError {
    let details = match allowed {
        None => json!({"limit": limit}),
        Some(allowed) => json!({"limit": limit, "allowed": allowed}),
    };
    CallError::new(error_type, message, hint).with_details(details)
}

fn crash_error(message: String) -> CallError {
    CallError::new(
        ErrorType::ToolCrashed,
        message,
        "try other arguments; if it stays, tell the operator which call crashes the tool",
    )
}
