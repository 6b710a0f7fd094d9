//! Decides about one call: may this agent make it now, and do its arguments fit?
//!
//! [`decide`] asks the layers in their published order and stops at the first that refuses; that one is the
//! reason. It reads a name table and some bits and allocates nothing. [`explain`] asks the same
//! questions without stopping. [`check()`] decides, parses the arguments once, validates them and narrows the limits.
//!
//! What passes is a [`Checked`] (`permit.rs`), which only [`check()`] makes; what does not is a [`Refusal`] with the
//! reason, and the caller's words stay in it: the tool is named as the model named it.

mod permit;
mod refusal;

pub use permit::{Admitted, Checked, Facts};
pub use refusal::Refusal;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::arguments::Arguments;
use crate::error::ErrorType;
use crate::limits::Limits;
use crate::name::ToolId;
use crate::rules::{AgentRules, Rules, Tool, ToolSet};

/// Which layer decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// What is loaded, and the operator's word on it.
    Platform,
    /// The organization's policy.
    Organization,
    /// The agent's document.
    Agent,
    /// The session.
    Session,
    /// The tool's own schema.
    Schema,
    /// Rates and quotas.
    Rate,
}

impl Layer {
    /// The layer as records write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization => "organization",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Schema => "schema",
            Self::Rate => "rate",
        }
    }
}

/// Which layer decided, and by which rule of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason {
    /// The layer.
    pub layer: Layer,
    /// The rule: a stable word for records and explanations.
    pub rule: &'static str,
}

/// What a decision needs to know of the session, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// Tools that were switched off for this session.
    pub disabled: BTreeSet<ToolId>,
    /// Where the conversation takes place.
    pub channel: Option<String>,
}

/// A call as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool, by the name that the model called.
    pub tool: Arc<str>,
    /// The arguments as JSON text.
    pub arguments: Arc<str>,
}

/// What the layers say about a call, arguments aside.
#[derive(Debug)]
pub enum Decision<'r, P> {
    /// It may be made.
    Allowed(&'r Tool<P>),
    /// It may be made once a person has approved it.
    NeedsApproval(&'r Tool<P>, Reason),
    /// It may not be made.
    Refused(Reason),
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Verdict<P> {
    /// It may run, once it is charged.
    Run(Checked<P>),
    /// A person must approve it. As long as nobody can, this is a refusal.
    NeedsApproval(Refusal),
    /// It does not run.
    Refused(Refusal),
}

/// One question of the gate and its answer, for an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who asks.
    pub reason: Reason,
    /// Whether the answer keeps the tool out.
    pub refuses: bool,
}

/// One rule of the gate.
struct Gate {
    reason: Reason,
    error_type: ErrorType,
    /// Ends the sentence "the tool `NAME` is not available: …".
    why: &'static str,
    hint: &'static str,
    refuses: fn(&Look<'_>) -> bool,
}

/// What a rule of the gate looks at.
struct Look<'a> {
    index: usize,
    session_disabled: bool,
    agent: &'a AgentRules,
    plugin_disabled: &'a ToolSet,
}

const NOT_FOUND: Reason = Reason { layer: Layer::Platform, rule: "existence" };
const OTHER_CATALOGUE: Reason = Reason { layer: Layer::Platform, rule: "revision" };
const ALLOWED: Reason = Reason { layer: Layer::Agent, rule: "enabled" };
const APPROVAL: Reason = Reason { layer: Layer::Agent, rule: "require_approval_for" };

/// The rules in their published order, which decides about the code when several refuse. The rules of the full
/// gate belong between these: platform blocked and allowed, the organization's, profile, autonomy, breaker,
/// channel.
const GATES: &[Gate] = &[
    Gate {
        reason: Reason { layer: Layer::Platform, rule: "plugin_disabled" },
        error_type: ErrorType::ToolDisabled,
        why: "its plugin is switched off",
        hint: "go on without it; an operator can switch the plugin on again",
        refuses: |look| look.plugin_disabled.contains(look.index),
    },
    Gate {
        reason: Reason { layer: Layer::Agent, rule: "server" },
        error_type: ErrorType::AccessDenied,
        why: "the agent is bound to another server",
        hint: "call one of the tools in the session's list",
        refuses: |look| !look.agent.bound.contains(look.index),
    },
    Gate {
        reason: Reason { layer: Layer::Agent, rule: "disabled" },
        error_type: ErrorType::ToolDisabled,
        why: "it is disabled for this agent",
        hint: "call one of the tools in the session's list",
        refuses: |look| look.agent.disabled.contains(look.index),
    },
    Gate {
        reason: ALLOWED,
        error_type: ErrorType::AccessDenied,
        why: "the agent's list does not have it",
        hint: "call one of the tools in the session's list; the agent's owner can add this one to `enabled`",
        refuses: |look| !look.agent.enabled.contains(look.index),
    },
    Gate {
        reason: Reason { layer: Layer::Session, rule: "disabled" },
        error_type: ErrorType::ToolDisabled,
        why: "it is disabled for this session",
        hint: "go on without it; the orchestrator can enable it again",
        refuses: |look| look.session_disabled,
    },
];

/// Decides about a call by its name alone.
pub fn decide<'r, P>(rules: &'r Rules<P>, facts: &SessionFacts, called: &str) -> Decision<'r, P> {
    match rules.catalogue.find_index(called) {
        Some((index, tool)) => decide_tool(rules, facts, index, tool),
        None => Decision::Refused(NOT_FOUND),
    }
}

/// The tools that [`decide`] allows, which are those that a model is shown.
pub fn callable<'r, P>(rules: &'r Rules<P>, facts: &SessionFacts) -> impl Iterator<Item = &'r Tool<P>> {
    let is_allowed =
        |tool: &&Tool<P>| matches!(decide_tool(rules, facts, tool.index(), tool), Decision::Allowed(_));
    rules.catalogue.tools().iter().filter(is_allowed)
}

/// Every question of the gate about a tool, in order, with its answer. [`decide`] refuses for the first
/// that refuses; without a tool of that name there is nothing to ask.
pub fn explain<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str) -> Vec<Step> {
    let Some(tool) = rules.catalogue.find(called) else {
        return vec![Step { reason: NOT_FOUND, refuses: true }];
    };
    let look = look(rules, facts, tool.index(), tool);
    let mut steps = vec![
        Step { reason: NOT_FOUND, refuses: false },
        Step { reason: OTHER_CATALOGUE, refuses: !rules.agent.is_for(&rules.catalogue) },
    ];
    steps.extend(GATES.iter().map(|gate| Step { reason: gate.reason, refuses: (gate.refuses)(&look) }));
    steps.push(Step { reason: APPROVAL, refuses: rules.agent.approval.contains(tool.index()) });
    steps
}

/// Decides about a call, and if it may be made checks what it brings.
pub fn check<P>(rules: &Rules<P>, facts: &SessionFacts, call: ToolCall) -> Verdict<P> {
    let tool = match decide(rules, facts, &call.tool) {
        Decision::Allowed(tool) => tool,
        Decision::NeedsApproval(tool, reason) => {
            return Verdict::NeedsApproval(Refusal::needs_approval(tool, &call.tool, reason));
        }
        Decision::Refused(reason) => {
            return Verdict::Refused(Refusal::by_rule(rules, facts, &call.tool, reason));
        }
    };
    let limits = limits(rules, tool);
    match validate(tool, &call, &limits) {
        Ok(arguments) => Verdict::Run(Checked::new(tool.clone(), call.tool, arguments, limits, ALLOWED)),
        Err(refusal) => Verdict::Refused(refusal),
    }
}

fn decide_tool<'r, P>(
    rules: &'r Rules<P>,
    facts: &SessionFacts,
    index: usize,
    tool: &'r Tool<P>,
) -> Decision<'r, P> {
    // Sets over the numbers of another catalogue would answer for other tools.
    if !rules.agent.is_for(&rules.catalogue) {
        return Decision::Refused(OTHER_CATALOGUE);
    }
    let look = look(rules, facts, index, tool);
    if let Some(gate) = GATES.iter().find(|gate| (gate.refuses)(&look)) {
        return Decision::Refused(gate.reason);
    }
    match rules.agent.approval.contains(index) {
        true => Decision::NeedsApproval(tool, APPROVAL),
        false => Decision::Allowed(tool),
    }
}

fn look<'a, P>(rules: &'a Rules<P>, facts: &SessionFacts, index: usize, tool: &Tool<P>) -> Look<'a> {
    Look {
        index,
        // The id is far away in memory, and most sessions switch nothing off.
        session_disabled: !facts.disabled.is_empty() && facts.disabled.contains(tool.id()),
        agent: &rules.agent,
        plugin_disabled: rules.catalogue.disabled(),
    }
}

/// The limits of a call: the platform's, narrowed by each layer in turn (B2).
fn limits<P>(rules: &Rules<P>, tool: &Tool<P>) -> Limits {
    rules
        .catalogue
        .platform_limits()
        .narrow(&tool.plugin().descriptor.limits)
        .narrow(rules.organization.limits())
        .narrow(rules.agent.limits())
}

#[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the verdict")]
fn validate<P>(tool: &Tool<P>, call: &ToolCall, limits: &Limits) -> Result<Arguments, Refusal> {
    let arguments = Arguments::parse(&call.arguments, limits.arguments_bytes, limits.arguments_depth)
        .map_err(|error| Refusal::of_arguments(tool, error.into_call_error(&call.tool)))?;
    let descriptor = tool.descriptor();
    match descriptor.input.check_hiding(arguments.value(), &descriptor.redact) {
        Ok(()) => Ok(arguments),
        Err(violations) => {
            let error = refusal::invalid_arguments(&violations, &call.tool, descriptor.input.hint());
            Err(Refusal::of_arguments(tool, error))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
