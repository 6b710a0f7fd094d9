//! The input and the answers of the gate, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolgate_api::error::ErrorType;
use toolgate_api::name::ToolId;

use super::{Checked, Refusal, Unapproved};
use crate::rules::{CanaryDraw, Tool};

/// The layer of rules that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The loaded plugins and the operator's policy.
    Platform,
    /// The organization's policy.
    Organization,
    /// The agent's document.
    Agent,
    /// The session.
    Session,
    /// The tool's input schema.
    Schema,
    /// Rate limits and quotas.
    Rate,
    /// The queue in front of the sandbox, which gives up calls before the other layers decide.
    Queue,
}

impl Layer {
    /// Every layer, in the order of the variants.
    pub const ALL: [Self; 7] = [
        Self::Platform,
        Self::Organization,
        Self::Agent,
        Self::Session,
        Self::Schema,
        Self::Rate,
        Self::Queue,
    ];

    /// The layer as the audit log writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization => "organization",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Schema => "schema",
            Self::Rate => "rate",
            Self::Queue => "queue",
        }
    }
}

/// The layer that decided, and the rule of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// The layer.
    pub layer: Layer,
    /// A stable identifier of the rule, for the audit log and explanations.
    pub rule: &'static str,
}

/// The state of a session that a decision depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// Tools that were disabled for this session.
    pub disabled: BTreeSet<ToolId>,
    /// Tools that the session's circuit breaker stopped, each with the reason in words (G13).
    pub broken: BTreeMap<ToolId, String>,
    /// The channel of the conversation.
    pub channel: Option<String>,
}

/// A call as the request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool, by the name that the model called.
    pub tool: Arc<str>,
    /// The arguments as JSON text.
    pub arguments: Arc<str>,
    /// The number by which it gets the serving version of its plugin or the canary.
    pub draw: CanaryDraw,
}

/// The decision of all layers about a tool, before its arguments are validated.
#[derive(Debug)]
pub enum Decision<'r, P> {
    /// Calls may run.
    Allowed(&'r Tool<P>),
    /// Calls may run once a person has approved them.
    NeedsApproval(&'r Tool<P>, Reason),
    /// Calls may not run.
    Refused(Reason),
}

/// The decision about one call: before it is charged, or after, with [`Admitted`](super::Admitted) for `R`.
#[derive(Debug)]
pub enum Verdict<P, R = Checked<P>> {
    /// The call may run, once it is charged.
    Run(R),
    /// The call may run once a person has approved it.
    NeedsApproval(Unapproved<P>),
    /// The call does not run.
    Refused(Refusal),
}

/// The answer of one rule, for an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rule.
    pub reason: Reason,
    /// Its answer.
    pub verdict: StepVerdict,
    /// The error type of a refusal by this rule.
    pub error_type: Option<ErrorType>,
    /// The reason in words: the list entry, profile or integration that decided.
    pub why: String,
}

/// The answer of one rule about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepVerdict {
    /// The rule does not refuse the tool.
    Passes,
    /// The rule requires a person's approval.
    NeedsApproval,
    /// The rule refuses the tool.
    Refuses,
}
