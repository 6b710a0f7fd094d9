//! Decides about a tool by its name: for one call, for the tool list of a session, and for an explanation.

use toolgate_api::error::ErrorType;

use super::gates::{self, GATES, GateInput};
use super::refusal::nearest_loaded_tool;
use super::verdict::{Decision, Layer, Reason, SessionFacts, Step, StepVerdict};
use crate::rules::{Rules, Tool, Warning};

const NOT_FOUND: Reason = Reason { layer: Layer::Platform, rule: "existence" };
pub(super) const OTHER_CATALOGUE: Reason = Reason { layer: Layer::Platform, rule: "revision" };

/// Decides about a call by the tool's name alone.
pub fn decide<'r, P>(rules: &'r Rules<P>, facts: &SessionFacts, called: &str) -> Decision<'r, P> {
    match rules.catalogue.find_index(called) {
        Some((index, tool)) => decide_tool(rules, facts, index, tool),
        None => Decision::Refused(NOT_FOUND),
    }
}

/// Returns the tools that [`decide`] does not refuse, which is the list a model is shown, and whether their calls need
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

/// Whether a session can be opened: some tool is callable that is not universal (G1).
pub fn has_tools<P>(rules: &Rules<P>, facts: &SessionFacts) -> bool {
    callable(rules, facts).any(|(tool, _)| !rules.platform.is_universal(tool.index()))
}

/// Returns a warning if all layers together leave the agent no tool, so that no session can be opened for it.
pub fn no_tools_warning<P>(rules: &Rules<P>) -> Option<Warning> {
    let message = "no loaded tool is left for this agent: no session can be opened for it";
    (!has_tools(rules, &SessionFacts::default())).then(|| Warning::new("NO_TOOLS", "", message))
}

/// Returns the answer of every rule of the gate about a tool, in order. [`decide`] uses the same rules and stops at the
/// first that does not pass. An unknown tool has one step.
pub fn explain<P>(rules: &Rules<P>, facts: &SessionFacts, called: &str) -> Vec<Step> {
    let step = |reason, verdict, error_type, why| Step { reason, verdict, error_type, why };
    let Some(tool) = rules.catalogue.find(called) else {
        let why = match nearest_loaded_tool(rules, called) {
            Some(nearest) => format!("no loaded tool has that name; the nearest is `{nearest}`"),
            None => "no loaded tool has that name".to_owned(),
        };
        return vec![step(NOT_FOUND, StepVerdict::Refuses, Some(ErrorType::ToolNotFound), why)];
    };
    let descriptor = tool.descriptor();
    let found = format!("`{}` of version {} is loaded", tool.id(), tool.plugin().descriptor.version);
    let mut steps = vec![step(NOT_FOUND, StepVerdict::Passes, None, found)];
    if !rules.same_catalogue() {
        let why = "the rules are being replaced".to_owned();
        steps.push(step(OTHER_CATALOGUE, StepVerdict::Refuses, Some(ErrorType::Unavailable), why));
        return steps;
    }
    let input = GateInput::new(rules, facts, tool.index(), tool);
    steps.extend(GATES.iter().map(|gate| {
        let refuses = (gate.refuses)(&input);
        let verdict = if refuses { StepVerdict::Refuses } else { StepVerdict::Passes };
        step(
            gate.reason,
            verdict,
            refuses.then_some(gate.error_type),
            (gate.why)(&input, descriptor, refuses),
        )
    }));
    let needs_approval = input.approval().is_some();
    let verdict = if needs_approval { StepVerdict::NeedsApproval } else { StepVerdict::Passes };
    let why = gates::approval_why(&input, descriptor, needs_approval);
    steps.push(step(gates::approval_rule(&rules.agent), verdict, None, why));
    steps
}

fn decide_tool<'r, P>(
    rules: &'r Rules<P>,
    facts: &SessionFacts,
    index: usize,
    tool: &'r Tool<P>,
) -> Decision<'r, P> {
    if !rules.same_catalogue() {
        return Decision::Refused(OTHER_CATALOGUE);
    }
    let input = GateInput::new(rules, facts, index, tool);
    if let Some(gate) = GATES.iter().find(|gate| (gate.refuses)(&input)) {
        return Decision::Refused(gate.reason);
    }
    match input.approval() {
        Some(reason) => Decision::NeedsApproval(tool, reason),
        None => Decision::Allowed(tool),
    }
}
