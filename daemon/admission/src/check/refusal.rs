//! A call that does not run: what its caller is told, and why.
//!
//! The words are for a model first. They name the tool as it was called, say what was wrong, and end in a
//! hint with something to do. A tool that does not exist and one that is hidden are told in the same
//! way, so a refusal teaches nobody what is there.

use serde_json::json;
use toolgate_api::nearest;
use toolgate_api::text::{escape_for_display, list};

use super::gates::{GATES, Look};
use super::{Layer, OTHER_CATALOGUE, Reason, SessionFacts, callable};
use crate::arguments::JsonError;
use crate::descriptor::RateLimit;
use crate::error::{CallError, ErrorType};
use crate::name::ToolId;
use crate::rules::{Digest, Rules, Tool};
use crate::schema::Violation;

/// Callable tools among which the nearest name is looked for: each costs some hundred steps, and the
/// name came from outside.
const NEAREST_AMONG: usize = 1_000;
/// Callable tools that a hint names.
const TOOLS_SHOWN: usize = 12;
/// Longest name shown, in characters.
const NAME_CHARS: usize = 80;

/// A call that does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// What the caller is told.
    pub error: CallError,
    /// Which rule decided.
    pub reason: Reason,
    /// The tool that was meant, where there is one of that name.
    pub tool: Option<ToolId>,
    /// The digest of its plugin.
    pub digest: Option<Digest>,
}

impl Refusal {
    fn about<P>(tool: &Tool<P>, reason: Reason, error: CallError) -> Self {
        Self { error, reason, tool: Some(tool.id().clone()), digest: Some(tool.plugin().digest.clone()) }
    }

    /// A call that is not for this agent, or not now.
    pub(super) fn by_rule<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str, reason: Reason) -> Self {
        let gate = GATES.iter().find(|gate| gate.reason == reason);
        match (rules.catalogue.find(called), gate) {
            (Some(tool), Some(gate)) => {
                let look = Look::new(rules, facts, tool.index(), tool);
                let why = (gate.why)(&look, tool.descriptor(), true);
                Self::about(tool, reason, told_why(reason, called, gate.error_type, &why, gate.hint))
            }
            _ if reason == OTHER_CATALOGUE => {
                let error =
                    CallError::new(ErrorType::Unavailable, "the rules are being replaced", "call again");
                Self { error, reason, tool: None, digest: None }
            }
            _ => Self { error: not_found(rules, facts, called), reason, tool: None, digest: None },
        }
    }

    /// A call in one round more than a turn or a session may have (T4).
    pub fn of_rounds(what: &'static str, allowed: u64) -> Self {
        let message = format!("this {what} has had its {allowed} rounds of calls");
        let hint = match what {
            "turn" => "answer with what is there; a new turn may call again, with new ids",
            _ => "answer with what is there, or open a new session",
        };
        let error = CallError::new(ErrorType::RoundsExceeded, message, hint)
            .with_details(json!({"layer": "session", "rule": "rounds", "allowed": allowed}));
        Self { error, reason: Reason { layer: Layer::Session, rule: "rounds" }, tool: None, digest: None }
    }

    pub(super) fn of_arguments<P>(tool: &Tool<P>, error: CallError) -> Self {
        Self::about(tool, Reason { layer: Layer::Schema, rule: "input_schema" }, error)
    }

    /// A call beyond the rate of its organization.
    pub(crate) fn rate_limited<P>(checked: &super::Facts<P>, retry_after_ms: u64) -> Self {
        let message = "too many calls of this organization in a short time";
        Self::by_rate(checked, "calls_per_second", message, retry_after_ms)
    }

    pub(crate) fn plugin_rate_limited<P>(
        checked: &super::Facts<P>,
        limit: RateLimit,
        retry_after_ms: u64,
    ) -> Self {
        let RateLimit { calls, seconds } = limit;
        let namespace = &checked.id().namespace;
        let message =
            format!("the service behind `{namespace}` takes {calls} calls in {seconds} s, which are used up");
        Self::by_rate(checked, "rate_limit", message, retry_after_ms)
    }

    fn by_rate<P>(
        checked: &super::Facts<P>,
        rule: &'static str,
        message: impl Into<String>,
        retry_after_ms: u64,
    ) -> Self {
        let hint = format!("call again in {retry_after_ms} ms");
        let error = CallError::new(ErrorType::RateLimited, message, hint).with_retry_after_ms(retry_after_ms);
        Self {
            error,
            reason: Reason { layer: Layer::Rate, rule },
            tool: Some(checked.id().clone()),
            digest: Some(checked.plugin().digest.clone()),
        }
    }
}

/// A refusal by a rule of the gate. Of the platform's rules the caller learns only that one of them decided: they are
/// the operator's, and the audit log has them.
fn told_why(reason: Reason, called: &str, error_type: ErrorType, why: &str, hint: &str) -> CallError {
    let is_platforms = reason.layer == Layer::Platform;
    let message = match error_type {
        ErrorType::AccessDenied => denied(called),
        _ if is_platforms => {
            format!(
                "the tool `{}` is not available: the platform has switched it off",
                escape_for_display(called, NAME_CHARS)
            )
        }
        _ => format!("the tool `{}` is not available: {why}", escape_for_display(called, NAME_CHARS)),
    };
    let details = match is_platforms {
        true => json!({"layer": reason.layer.as_str()}),
        false => json!({"layer": reason.layer.as_str(), "rule": reason.rule, "why": why}),
    };
    CallError::new(error_type, message, hint).with_details(details)
}

/// G3, word for word, with the name that was called.
fn denied(called: &str) -> String {
    format!(
        "Access denied. This agent is not authorized to use the {} tool.",
        escape_for_display(called, NAME_CHARS)
    )
}

fn not_found<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str) -> CallError {
    let wires = || callable(rules, facts).map(|(tool, _)| tool.descriptor().wire.as_str());
    let hint = match nearest_wire(called, wires().take(NEAREST_AMONG)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if wires().next().is_none() => "this agent has no callable tools".to_owned(),
        None => format!("the callable tools are {}", list(wires(), TOOLS_SHOWN)),
    };
    CallError::new(
        ErrorType::ToolNotFound,
        format!("there is no tool `{}`", escape_for_display(called, NAME_CHARS)),
        hint,
    )
}

/// The callable tool that was probably meant. Models drop the prefix and mix up the joints, so both are left out
/// of the comparison.
fn nearest_wire<'a>(called: &str, wires: impl Iterator<Item = &'a str>) -> Option<String> {
    let prefix = "call_";
    let bare = called.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix));
    let bare = bare.and_then(|_| called.get(prefix.len()..)).unwrap_or(called).replace(['/', '.', ':'], "_");
    nearest(&bare, wires.filter_map(|wire| wire.strip_prefix(prefix))).map(|wire| format!("{prefix}{wire}"))
}

/// The loaded tool that was probably meant, for those who may know of every one.
pub(super) fn nearest_of_all<P>(rules: &Rules<P>, called: &str) -> Option<String> {
    let wires = rules.catalogue.tools().iter().map(|tool| tool.descriptor().wire.as_str());
    let nearest = nearest_wire(called, wires.take(NEAREST_AMONG))?;
    rules.catalogue.find(&nearest).map(|tool| tool.id().to_string())
}

/// What the caller is told of arguments that do not fit (R2).
pub(super) fn invalid_arguments(violations: &[Violation], called: &str, hint: String) -> CallError {
    let sentence = |violation: &Violation| {
        format!(
            "Validation Error: {} for tool '{}'",
            violation.message,
            escape_for_display(called, NAME_CHARS)
        )
    };
    told(ErrorType::InvalidArguments, violations, sentence, hint)
}

/// What the caller is told of a result that does not fit (R3).
pub(super) fn invalid_output(violations: &[Violation], called: &str) -> CallError {
    let sentence = |violation: &Violation| {
        format!(
            "the result does not fit the tool's schema: {} of tool '{}'",
            violation.message,
            escape_for_display(called, NAME_CHARS)
        )
    };
    let hint =
        "the plugin broke its own contract: tell its publisher, and do not call it again in the same way";
    told(ErrorType::InvalidOutput, violations, sentence, hint.to_owned())
}

/// What the client is told of a result that does not fit (T3). The call stays open for another one.
pub(super) fn invalid_client_result(violations: &[Violation], called: &str) -> CallError {
    let sentence = |violation: &Violation| {
        format!(
            "the result does not fit the output schema of tool '{}': {}",
            escape_for_display(called, NAME_CHARS),
            violation.sentence()
        )
    };
    told(ErrorType::InvalidOutput, violations, sentence, RESULT_HINT.to_owned())
}

pub(super) fn unreadable_client_result(error: &JsonError) -> CallError {
    let message = format!("the result is not acceptable JSON: {error}");
    CallError::new(ErrorType::InvalidOutput, message, RESULT_HINT)
}

const RESULT_HINT: &str = "post a result that fits, or `{\"status\":\"error\",\"message\":…}`; the call stays open until it expires";

fn told(
    error_type: ErrorType,
    violations: &[Violation],
    sentence: impl Fn(&Violation) -> String,
    hint: String,
) -> CallError {
    let first = violations.first().map_or_else(String::new, &sentence);
    let more = match violations.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let details: Vec<_> = violations
        .iter()
        .map(|violation| {
            json!({
                "pointer": violation.pointer,
                "expected": violation.expected,
                "found": violation.found,
                "message": sentence(violation),
            })
        })
        .collect();
    CallError::new(error_type, format!("{first}{more}"), hint).with_details(json!({"violations": details}))
}
