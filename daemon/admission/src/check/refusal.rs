//! Builds the error of a call that does not run, and its reason.
//!
//! The messages are written for a model: they name the tool as it was called, say what is wrong, and come with a hint
//! that says what to do. A tool that does not exist and one that the agent cannot see have the same error, so that a
//! refusal does not reveal which tools are loaded.

use serde_json::json;
use toolgate_api::descriptor::RateLimit;
use toolgate_api::error::{CallError, Details, ErrorType};
use toolgate_api::json::JsonError;
use toolgate_api::name::ToolId;
use toolgate_api::nearest;
use toolgate_api::quota::{QuotaAction, QuotaPer};
use toolgate_api::text::{duration_text, escape_for_display, list};

use super::CallFacts;
use super::decide::{OTHER_CATALOGUE, callable};
use super::gates::{GATES, GateInput};
use super::verdict::{Layer, Reason, SessionFacts};
use crate::quota::{Exceeded, NarrowingQuota};
use crate::rules::{Digest, Rules, Tool};
use crate::schema::Violation;

/// Callable tools that are compared with an unknown name: each comparison costs some hundred steps, and the caller chooses
/// the name.
const NEAREST_AMONG: usize = 1_000;
/// Callable tools that a hint names.
const TOOLS_SHOWN: usize = 12;
/// Longest name in a message, in characters.
const NAME_CHARS: usize = 80;

/// A call that does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The error that the caller gets.
    pub error: CallError,
    /// The rule that decided.
    pub reason: Reason,
    /// Why it refuses, in words, also where the caller does not learn it; none where the error says it.
    pub why: Option<Box<str>>,
    /// The tool, if one has the name that was called.
    pub tool: Option<ToolId>,
    /// The digest of its plugin.
    pub digest: Option<Digest>,
    /// Whether the call waits for the time of a retry instead, up to its deadline.
    pub waits: bool,
}

impl Refusal {
    /// The call is not for this agent, or not now.
    pub(super) fn by_rule<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str, reason: Reason) -> Self {
        let gate = GATES.iter().find(|gate| gate.reason == reason);
        match (rules.catalogue.find(called), gate) {
            (Some(tool), Some(gate)) => {
                let input = GateInput::new(rules, facts, tool.index(), tool);
                let why = (gate.why)(&input, tool.descriptor(), true);
                let error = gate_error(reason, called, gate.error_type, &why, gate.hint);
                Self { why: Some(why.into()), ..Self::of_tool(tool, reason, error) }
            }
            _ if reason == OTHER_CATALOGUE => Self::without_tool(
                reason,
                CallError::new(ErrorType::Unavailable, "the rules are being replaced", "call again"),
            ),
            _ => Self::without_tool(reason, not_found_error(rules, facts, called)),
        }
    }

    /// No document of the agent names the tool, whose plugin is not known yet.
    pub fn not_given(called: &str) -> Self {
        let reason = Reason { layer: Layer::Agent, rule: "enabled" };
        let hint = GATES.iter().find(|gate| gate.reason == reason).map_or("", |gate| gate.hint);
        let why = "not listed in `enabled`";
        Self::without_tool(reason, gate_error(reason, called, ErrorType::AccessDenied, why, hint))
    }

    /// The call is in one round more than a turn or a session may have (T4).
    pub fn rounds_exceeded(what: &'static str, allowed: u64) -> Self {
        let message = format!("this {what} has used its {allowed} rounds of calls");
        let hint = match what {
            "turn" => "answer with what is there; a request with a new `turn` may call again, with new ids",
            "hour" => "answer with what is there, and go on later",
            _ => "answer with what is there, or open a new session",
        };
        let error = CallError::new(ErrorType::RoundsExceeded, message, hint)
            .with_details(json!({"layer": "session", "rule": "rounds", "allowed": allowed}));
        Self::without_tool(Reason { layer: Layer::Session, rule: "rounds" }, error)
    }

    /// The call was given up before it was decided: the queue was full, or the deadline passed in it.
    pub fn given_up(tool: Option<ToolId>, error: CallError) -> Self {
        let rule = if error.error_type == ErrorType::DeadlineExceeded { "deadline" } else { "full" };
        Self { tool, ..Self::without_tool(Reason { layer: Layer::Queue, rule }, error) }
    }

    pub(super) fn invalid_arguments<P>(tool: &Tool<P>, error: CallError) -> Self {
        Self::of_tool(tool, Reason { layer: Layer::Schema, rule: "input_schema" }, error)
    }

    /// The call exceeds the rate limit of its organization.
    pub(crate) fn rate_limited<P>(checked: &CallFacts<P>, retry_after_ms: u64) -> Self {
        let message = "too many calls of this organization in a short time";
        Self::by_rate(checked, "calls_per_second", message, retry_after_ms)
    }

    /// The call exceeds the rate limit of its plugin.
    pub(crate) fn plugin_rate_limited<P>(
        checked: &CallFacts<P>,
        limit: RateLimit,
        retry_after_ms: u64,
    ) -> Self {
        let RateLimit { calls, seconds } = limit;
        let namespace = &checked.id().namespace;
        let message = format!(
            "the service behind `{namespace}` accepts {calls} calls in {seconds} s, and they are used up"
        );
        Self::by_rate(checked, "rate_limit", message, retry_after_ms)
    }

    /// The call exceeds a quota. Its name and layer are told, also where the platform's decided: a caller cannot wait for
    /// what it does not know.
    pub(crate) fn quota_exceeded<P>(checked: &CallFacts<P>, exceeded: Exceeded<'_>) -> Self {
        let Exceeded { quota, owner, retry_after_ms, too_many } = exceeded;
        let per = match quota.seconds {
            Some(seconds) => format!(" in {}", duration_text(u64::from(seconds) * 1_000)),
            None => String::new(),
        };
        let (name, owner) = (&quota.name, owner.as_str());
        let message = match too_many {
            true => format!("the organization has too many counters for another one of the quota `{name}`"),
            false => {
                format!(
                    "the quota `{name}` of the {owner} is used up{}: {} {}{per}",
                    of_whom(&quota.per),
                    quota.amount,
                    quota.measure
                )
            }
        };
        let hint = match retry_after_ms {
            Some(retry_after_ms) => format!("call again in {}", duration_text(retry_after_ms)),
            None => "do without the tool: waiting does not help".to_owned(),
        };
        let error_type = if quota.is_rate() { ErrorType::RateLimited } else { ErrorType::QuotaExceeded };
        let details = Details::Quota { quota: name.to_string(), layer: owner.to_owned(), retry_after_ms };
        let mut error = CallError { details: Some(details), ..CallError::new(error_type, message, hint) };
        error.retryable = retry_after_ms.is_some();
        let (tool, digest) = (Some(checked.id().clone()), Some(checked.digest().clone()));
        let waits = quota.action == QuotaAction::Wait && error.retryable;
        Self { error, reason: Reason { layer: Layer::Rate, rule: "quota" }, tool, digest, why: None, waits }
    }

    fn by_rate<P>(
        checked: &CallFacts<P>,
        rule: &'static str,
        message: impl Into<String>,
        retry_after_ms: u64,
    ) -> Self {
        let hint = format!("call again in {}", duration_text(retry_after_ms));
        let error = CallError::new(ErrorType::RateLimited, message, hint).with_retry_after_ms(retry_after_ms);
        let (tool, digest) = (Some(checked.id().clone()), Some(checked.digest().clone()));
        Self { error, reason: Reason { layer: Layer::Rate, rule }, tool, digest, why: None, waits: false }
    }

    fn of_tool<P>(tool: &Tool<P>, reason: Reason, error: CallError) -> Self {
        let (tool, digest) = (Some(tool.id().clone()), Some(tool.plugin().digest.clone()));
        Self { error, reason, tool, digest, why: None, waits: false }
    }

    fn without_tool(reason: Reason, error: CallError) -> Self {
        Self { error, reason, tool: None, digest: None, why: None, waits: false }
    }
}

/// Whose count is used up, where a quota counts for each of some.
fn of_whom(per: &[QuotaPer]) -> String {
    let word = |per: &QuotaPer| match per {
        QuotaPer::Organization => "this organization",
        QuotaPer::Agent => "this agent",
        QuotaPer::User => "this user",
        QuotaPer::Tool => "this tool",
        QuotaPer::Plugin => "this plugin",
        QuotaPer::Token => "this token",
    };
    let words: Vec<&str> = per.iter().map(word).collect();
    if words.is_empty() { String::new() } else { format!(" for {}", words.join(" and ")) }
}

/// The error of a call that used up the fuel that a quota left it.
pub(super) fn fuel_quota_error(quota: &NarrowingQuota) -> CallError {
    let NarrowingQuota { name, owner, retry_after_ms } = quota;
    let owner = owner.as_str();
    let message = format!("the quota `{name}` of the {owner} had less fuel left than the call needs");
    let hint = match retry_after_ms {
        Some(retry_after_ms) => {
            format!("ask for a smaller piece of work, or call again in {}", duration_text(*retry_after_ms))
        }
        None => "ask for a smaller piece of work".to_owned(),
    };
    let (quota, layer, retry_after_ms) = (name.clone(), owner.to_owned(), *retry_after_ms);
    let details = Some(Details::Quota { quota, layer, retry_after_ms });
    let error = CallError { details, ..CallError::new(ErrorType::QuotaExceeded, message, hint) };
    error.retryable(retry_after_ms.is_some())
}

/// The error of a rule of the gate. If the platform refused, the caller does not learn by which rule, since these are the
/// operator's; the audit log has it.
fn gate_error(reason: Reason, called: &str, error_type: ErrorType, why: &str, hint: &str) -> CallError {
    let layer = reason.layer.as_str();
    let is_platform = reason.layer == Layer::Platform;
    let called = escape_for_display(called, NAME_CHARS);
    let message = match error_type {
        // G3, word for word.
        ErrorType::AccessDenied => {
            format!("Access denied. This agent is not authorized to use the {called} tool.")
        }
        _ if is_platform => {
            format!("the tool `{called}` is not available: the platform has disabled it")
        }
        _ => format!("the tool `{called}` is not available: {why}"),
    };
    let details = match is_platform {
        true => json!({"layer": layer}),
        false => json!({"layer": layer, "rule": reason.rule, "why": why}),
    };
    CallError::new(error_type, message, hint).with_details(details)
}

fn not_found_error<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str) -> CallError {
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

/// Returns the nearest wire name. Models omit the prefix and confuse the separators, so the comparison ignores both.
fn nearest_wire<'a>(called: &str, wires: impl Iterator<Item = &'a str>) -> Option<String> {
    let prefix = "call_";
    let bare = called.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix));
    let bare = bare.and_then(|_| called.get(prefix.len()..)).unwrap_or(called).replace(['/', '.', ':'], "_");
    nearest(&bare, wires.filter_map(|wire| wire.strip_prefix(prefix))).map(|wire| format!("{prefix}{wire}"))
}

/// Returns the nearest of all loaded tools, for readers who may see every tool.
pub(super) fn nearest_loaded_tool<P>(rules: &Rules<P>, called: &str) -> Option<String> {
    let wires = rules.catalogue.tools().iter().map(|tool| tool.descriptor().wire.as_str());
    let nearest = nearest_wire(called, wires.take(NEAREST_AMONG))?;
    rules.catalogue.find(&nearest).map(|tool| tool.id().to_string())
}

/// The error for arguments that do not fit the input schema (R2).
pub(super) fn invalid_arguments_error(violations: &[Violation], called: &str, hint: String) -> CallError {
    let called = escape_for_display(called, NAME_CHARS);
    let sentence =
        |violation: &Violation| format!("Validation Error: {} for tool '{called}'", violation.message);
    violations_error(ErrorType::InvalidArguments, violations, sentence, hint)
}

/// The error for a result that does not fit the output schema (R3).
pub(super) fn invalid_output(violations: &[Violation], called: &str) -> CallError {
    let called = escape_for_display(called, NAME_CHARS);
    let sentence = |violation: &Violation| {
        format!("the result does not fit the tool's schema: {} of tool '{called}'", violation.message)
    };
    let hint =
        "the plugin returned an invalid result: report it to its publisher, and do not repeat the call";
    violations_error(ErrorType::InvalidOutput, violations, sentence, hint.to_owned())
}

/// The error for a client's result that does not fit the output schema (T3). The call stays open for another result.
pub(super) fn invalid_client_result(violations: &[Violation], called: &str) -> CallError {
    let called = escape_for_display(called, NAME_CHARS);
    let sentence = |violation: &Violation| {
        format!("the result does not fit the output schema of tool '{called}': {}", violation.sentence())
    };
    violations_error(ErrorType::InvalidOutput, violations, sentence, RESULT_HINT.to_owned())
}

pub(super) fn unreadable_client_result(error: &JsonError) -> CallError {
    let message = format!("the result is not acceptable JSON: {error}");
    CallError::new(ErrorType::InvalidOutput, message, RESULT_HINT)
}

const RESULT_HINT: &str = "post a result that fits, or `{\"status\":\"error\",\"message\":…}`; the call stays open until it expires";

fn violations_error(
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
    let detail = |violation: &Violation| {
        let Violation { pointer, expected, found, .. } = violation;
        json!({"pointer": pointer, "expected": expected, "found": found, "message": sentence(violation)})
    };
    let details: Vec<_> = violations.iter().map(detail).collect();
    CallError::new(error_type, format!("{first}{more}"), hint).with_details(json!({"violations": details}))
}
