//! Decides about one call: may this agent make it now, and do its arguments fit?
//!
//! [`decide`] asks the layers in their published order and stops at the first that refuses; that one is the
//! reason. It reads a name table and some bits and allocates nothing. [`explain`] asks the same
//! questions without stopping. [`check()`] decides, parses the arguments once, validates them and narrows the limits.
//!
//! What passes is a [`Checked`] (`permit.rs`), which only [`check()`] makes; what does not is a [`Refusal`] with the
//! reason, and the caller's words stay in it: the tool is named as the model named it.

mod gates;
mod permit;
mod refusal;

pub use permit::{Admitted, Checked, Facts, Unapproved};
pub use refusal::Refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::arguments::Arguments;
use crate::egress::{Left, Reach};
use crate::error::ErrorType;
use crate::limits::Limits;
use crate::name::ToolId;
use crate::rules::{Rules, Tool, Warning};
use gates::{GATES, Look};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// Tools that kept failing in this session, and in words how (G13).
    pub broken: BTreeMap<ToolId, String>,
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
    /// It may run once a person has approved it.
    NeedsApproval(Unapproved<P>),
    /// It does not run.
    Refused(Refusal),
}

/// One question of the gate and its answer, for an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who asks.
    pub reason: Reason,
    /// The answer.
    pub verdict: StepVerdict,
    /// The code of a refusal by this rule.
    pub error_type: Option<ErrorType>,
    /// The rule in words: the entry of the list, the profile, the integration that decided.
    pub why: String,
}

/// What one rule says about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepVerdict {
    /// It lets the tool through.
    Passes,
    /// It asks for a person's approval.
    NeedsApproval,
    /// It keeps the tool out.
    Refuses,
}

const NOT_FOUND: Reason = Reason { layer: Layer::Platform, rule: "existence" };
const OTHER_CATALOGUE: Reason = Reason { layer: Layer::Platform, rule: "revision" };
const ALLOWED: Reason = Reason { layer: Layer::Agent, rule: "enabled" };

/// Decides about a call by its name alone.
pub fn decide<'r, P>(rules: &'r Rules<P>, facts: &SessionFacts, called: &str) -> Decision<'r, P> {
    match rules.catalogue.find_index(called) {
        Some((index, tool)) => decide_tool(rules, facts, index, tool),
        None => Decision::Refused(NOT_FOUND),
    }
}

/// The tools that [`decide`] does not refuse, which are those that a model is shown, and whether their calls need
/// approval.
pub fn callable<'r, P>(
    rules: &'r Rules<P>,
    facts: &SessionFacts,
) -> impl Iterator<Item = (&'r Tool<P>, bool)> {
    rules.catalogue.tools().iter().filter_map(|tool| match decide_tool(rules, facts, tool.index(), tool) {
        Decision::Allowed(tool) => Some((tool, false)),
        Decision::NeedsApproval(tool, _) => Some((tool, true)),
        Decision::Refused(_) => None,
    })
}

/// Whether a session can be opened: something can be called besides what is universal (G1).
pub fn has_tools<P>(rules: &Rules<P>, facts: &SessionFacts) -> bool {
    callable(rules, facts).any(|(tool, _)| !rules.platform.is_universal(tool.index()))
}

/// What is odd about an agent that can open no session, whatever each of its lists says by itself.
pub fn nothing_left<P>(rules: &Rules<P>) -> Option<Warning> {
    let message = "no loaded tool is left for this agent: no session can be opened for it";
    (!has_tools(rules, &SessionFacts::default())).then(|| Warning::new("NO_TOOLS", "", message))
}

/// Every question of the gate about a tool, in order, with its answer. [`decide`] goes by the first that does not let it
/// through; without a tool of that name there is nothing to ask.
pub fn explain<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str) -> Vec<Step> {
    let Some(tool) = rules.catalogue.find(called) else {
        let why = match refusal::nearest_of_all(rules, called) {
            Some(nearest) => format!("no loaded tool has that name; the nearest is `{nearest}`"),
            None => "no loaded tool has that name".to_owned(),
        };
        let error_type = Some(ErrorType::ToolNotFound);
        return vec![Step { reason: NOT_FOUND, verdict: StepVerdict::Refuses, error_type, why }];
    };
    let descriptor = tool.descriptor();
    let found = format!("`{}` of version {} is loaded", tool.id(), tool.plugin().descriptor.version);
    let mut steps =
        vec![Step { reason: NOT_FOUND, verdict: StepVerdict::Passes, error_type: None, why: found }];
    if !rules.fit() {
        let why = "the rules are being replaced".to_owned();
        let error_type = Some(ErrorType::Unavailable);
        steps.push(Step { reason: OTHER_CATALOGUE, verdict: StepVerdict::Refuses, error_type, why });
        return steps;
    }
    let look = Look::new(rules, facts, tool.index(), tool);
    steps.extend(GATES.iter().map(|gate| {
        let refuses = (gate.refuses)(&look);
        Step {
            reason: gate.reason,
            verdict: if refuses { StepVerdict::Refuses } else { StepVerdict::Passes },
            error_type: refuses.then_some(gate.error_type),
            why: (gate.why)(&look, descriptor, refuses),
        }
    }));
    let asks = look.approval().is_some();
    steps.push(Step {
        reason: gates::approval_rule(&rules.agent),
        verdict: if asks { StepVerdict::NeedsApproval } else { StepVerdict::Passes },
        error_type: None,
        why: gates::approval_why(&look, descriptor, asks),
    });
    steps
}

/// Decides about a call, and if it may be made checks what it brings.
pub fn check<P>(rules: &Rules<P>, facts: &SessionFacts, call: ToolCall) -> Verdict<P> {
    let (tool, approval) = match decide(rules, facts, &call.tool) {
        Decision::Allowed(tool) => (tool, None),
        Decision::NeedsApproval(tool, reason) => (tool, Some(reason)),
        Decision::Refused(reason) => {
            return Verdict::Refused(Refusal::by_rule(rules, facts, &call.tool, reason));
        }
    };
    let limits = limits(rules, tool);
    let arguments = match validate(tool, &call, &limits) {
        Ok(arguments) => arguments,
        Err(refusal) => return Verdict::Refused(refusal),
    };
    let reach = reach(rules, tool);
    let checked = |reason| Checked::new(tool.clone(), call.tool, arguments, limits, reach, reason);
    match approval {
        None => Verdict::Run(checked(ALLOWED)),
        Some(reason) => {
            Verdict::NeedsApproval(Unapproved::new(checked(reason), rules.agent.document().autonomy))
        }
    }
}

fn decide_tool<'r, P>(
    rules: &'r Rules<P>,
    facts: &SessionFacts,
    index: usize,
    tool: &'r Tool<P>,
) -> Decision<'r, P> {
    if !rules.fit() {
        return Decision::Refused(OTHER_CATALOGUE);
    }
    let look = Look::new(rules, facts, index, tool);
    if let Some(gate) = GATES.iter().find(|gate| (gate.refuses)(&look)) {
        return Decision::Refused(gate.reason);
    }
    match look.approval() {
        Some(reason) => Decision::NeedsApproval(tool, reason),
        None => Decision::Allowed(tool),
    }
}

/// What a call may reach: asked for and granted, as far as policy leaves it (B5).
fn reach<P>(rules: &Rules<P>, tool: &Tool<P>) -> Arc<Reach> {
    let left = Left {
        organization: rules.organization.document().network.clone(),
        agent: rules.agent.document().network.clone(),
    };
    match left == Left::default() {
        true => Arc::clone(tool.reach()),
        false => Arc::new(tool.reach().narrowed_to(left)),
    }
}

/// The limits that a call of this name would have: the platform's where there is no such tool.
pub fn limits_of<P>(rules: &Rules<P>, called: &str) -> Limits {
    match rules.catalogue.find_index(called) {
        Some((_, tool)) => limits(rules, tool),
        None => *rules.catalogue.platform_limits(),
    }
}

/// The limits of a call: the platform's, narrowed by each layer in turn (B2).
fn limits<P>(rules: &Rules<P>, tool: &Tool<P>) -> Limits {
    rules
        .catalogue
        .platform_limits()
        .narrow(&rules.platform.document().limits)
        .narrow(&tool.plugin().descriptor.limits)
        .narrow(&tool.plugin().granted.limits)
        .narrow(&rules.organization.document().limits)
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
