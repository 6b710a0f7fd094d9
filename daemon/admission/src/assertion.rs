//! Policy assertions: whether the compiled rules of an agent keep them (G17).
//!
//! Integrations count as connected, since credentials expire and are renewed without a change of rules: an assertion that
//! holds only while a credential is missing does not hold. Session state counts as empty, for the same reason.

use toolgate_api::assertion::{Assertion, AssertionKind};
use toolgate_api::name::{Name, ToolId};

use crate::check::{Decision, SessionFacts, Step, StepVerdict, decide, explain};
use crate::rules::Rules;

/// Rule of the gate that depends on credentials.
const INTEGRATION: &str = "integration";

/// A tool that an agent can call against an assertion.
#[derive(Clone, Debug)]
pub struct AssertionBreach {
    /// The tool.
    pub tool: ToolId,
    /// The channel of the session; none for a session without a channel.
    pub channel: Option<String>,
    /// The answers of all rules of the gate, which let the call through.
    pub steps: Vec<Step>,
}

/// Returns the first tool that the agent can call against the assertion under `after`, and not under `before`.
pub fn assertion_breach<P>(
    assertion: &Assertion,
    (organization, agent): (&Name, &Name),
    before: Option<&Rules<P>>,
    after: &Rules<P>,
) -> Option<AssertionBreach> {
    let (kind, scope) = assertion.statement().filter(|_| assertion.restricts(organization, agent))?;
    let contexts = contexts(after);
    let old_contexts = before.map(self::contexts).unwrap_or_default();
    for tool in after.catalogue.tools() {
        if scope.tools.entry_for(tool.id()).is_none() {
            continue;
        }
        let called = tool.id().to_string();
        let Some(facts) = contexts.iter().find(|facts| breaks(kind, after, facts, &called)) else { continue };
        let was_broken = before
            .is_some_and(|before| old_contexts.iter().any(|facts| breaks(kind, before, facts, &called)));
        if !was_broken {
            let steps = explain(after, facts, &called);
            return Some(AssertionBreach { tool: tool.id().clone(), channel: facts.channel.clone(), steps });
        }
    }
    None
}

/// The sessions that an agent can have. A channel only blocks, so it counts where every session must name one.
fn contexts<P>(rules: &Rules<P>) -> Vec<SessionFacts> {
    if !rules.platform.document().channel_required {
        return vec![SessionFacts::default()];
    }
    let facts = |channel: &str| SessionFacts { channel: Some(channel.to_owned()), ..SessionFacts::default() };
    rules.organization.channels().map(facts).collect()
}

/// Whether a call of the tool breaks an assertion of this kind.
fn breaks<P>(kind: AssertionKind, rules: &Rules<P>, facts: &SessionFacts, called: &str) -> bool {
    let (is_reachable, needs_approval) = match decide(rules, facts, called) {
        Decision::Allowed(_) => (true, false),
        Decision::NeedsApproval(..) => (true, true),
        Decision::Refused(reason) if reason.rule == INTEGRATION => {
            let steps = explain(rules, facts, called);
            let refuses =
                |step: &Step| step.verdict == StepVerdict::Refuses && step.reason.rule != INTEGRATION;
            let needs_approval = steps.iter().any(|step| step.verdict == StepVerdict::NeedsApproval);
            (!steps.iter().any(refuses), needs_approval)
        }
        Decision::Refused(_) => (false, false),
    };
    is_reachable && !(kind == AssertionKind::AlwaysApproval && needs_approval)
}

#[cfg(test)]
mod tests;
