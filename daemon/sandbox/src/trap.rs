//! How the end of a guest becomes an error that somebody can act on.
//!
//! A trap alone does not say why: a guest that was refused memory aborts like one that has a bug. So what
//! the host itself saw (a refused allocation, a quota, a denied request) comes first, then the trap.

use toolgate_admission::{CallError, ErrorType, LimitName, Limits};
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::{I32Exit, ResourceTableError};

use crate::engine::one_line;
use crate::state::CallState;

/// The guest called the host more often than its limit allows.
#[derive(Debug, thiserror::Error)]
#[error("too many host calls")]
pub(crate) struct TooManyHostCalls;

/// Explains an error that ended a guest.
pub(crate) fn explain(error: &wasmtime::Error, state: &CallState, limits: &Limits) -> CallError {
    if let Some(seen) = seen_by_host(state, limits) {
        return seen;
    }
    if error.downcast_ref::<TooManyHostCalls>().is_some() {
        return resource_exceeded("host_calls", limits.host_calls, "calls to the host");
    }
    if matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full)) {
        return resource_exceeded("resources", limits.resources, "open files, streams and requests");
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return CallError::new(
            ErrorType::Overloaded,
            "the sandbox has no free instance for this tool",
            "call again in a moment",
        );
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return crashed(format!("the tool ended its own process with exit code {}", exit.0));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => fuel_exhausted(limits),
        Some(Trap::Interrupt) => deadline_exceeded(limits),
        Some(Trap::StackOverflow) => resource_exceeded("stack", 0, "nested calls"),
        Some(trap) => crashed(format!("the tool crashed: {trap}")),
        None => explain_text(&one_line(error), state, limits),
    }
}

/// What the host refused during the call, and which therefore is the cause of whatever came after.
pub(crate) fn seen_by_host(state: &CallState, limits: &Limits) -> Option<CallError> {
    match state.limiter.refused() {
        Some("memory_bytes") => return Some(memory_exceeded(limits)),
        Some(limit) => return Some(resource_exceeded(limit, limits.table_elements, "table elements")),
        None => {}
    }
    if let Some(limit) = state.access.limit_refused() {
        let what = if limit == LimitName::OpenFiles { "open files" } else { "room in the workspace" };
        return Some(resource_exceeded(limit.as_str(), limits.get(limit), what));
    }
    let egress = state.egress.record();
    if let Some(limit) = egress.limit_refused() {
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
    if state.access.effect_refused() || egress.is_unrecordable() {
        return Some(CallError::new(
            ErrorType::Unavailable,
            "the call cannot be recorded, so it may not change anything",
            "call again when the operator has mended the audit log",
        ));
    }
    egress.seen()
}

/// The engine gives some of its refusals as text only.
fn explain_text(text: &str, state: &CallState, limits: &Limits) -> CallError {
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        return if state.host_calls.failed {
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
    crashed(format!("the tool crashed: {text}"))
}

pub(crate) fn deadline_exceeded(limits: &Limits) -> CallError {
    CallError::new(
        ErrorType::DeadlineExceeded,
        format!("the call was stopped at its deadline of {} ms", limits.deadline_ms),
        "ask for less at once, or call again if the tool waits for something slow",
    )
    .with_details(serde_json::json!({"limit": "deadline_ms", "allowed": limits.deadline_ms}))
}

pub(crate) fn output_too_large(limits: &Limits) -> CallError {
    CallError::new(
        ErrorType::OutputTooLarge,
        format!("the result is larger than {} bytes", limits.output_bytes),
        "ask for a part of it, for example with a filter, a range or a page",
    )
    .with_details(serde_json::json!({"limit": "output_bytes", "allowed": limits.output_bytes}))
}

fn fuel_exhausted(limits: &Limits) -> CallError {
    CallError::new(
        ErrorType::FuelExhausted,
        format!("the tool computed longer than its {} units of fuel allow", limits.fuel),
        "ask for a smaller piece of work",
    )
    .with_details(serde_json::json!({"limit": "fuel", "allowed": limits.fuel}))
}

fn memory_exceeded(limits: &Limits) -> CallError {
    CallError::new(
        ErrorType::MemoryExceeded,
        format!("the tool needed more memory than its {} bytes", limits.memory_bytes),
        "ask for a smaller piece of work",
    )
    .with_details(serde_json::json!({"limit": "memory_bytes", "allowed": limits.memory_bytes}))
}

fn resource_exceeded(limit: &str, allowed: u64, what: &str) -> CallError {
    let details = match allowed {
        0 => serde_json::json!({"limit": limit}),
        _ => serde_json::json!({"limit": limit, "allowed": allowed}),
    };
    CallError::new(
        ErrorType::ResourceExceeded,
        format!("the tool used more than its share of {what} (limit `{limit}`)"),
        match limit {
            "workspace_bytes" | "workspace_files" => {
                "delete files of the workspace that are not needed any more, or write less"
            }
            _ => "ask for a smaller piece of work",
        },
    )
    .with_details(details)
}

fn crashed(message: String) -> CallError {
    CallError::new(
        ErrorType::ToolCrashed,
        message,
        "try other arguments; if it stays, tell the operator which call crashes the tool",
    )
}
