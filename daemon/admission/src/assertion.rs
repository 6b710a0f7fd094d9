//! Policy assertions: whether the compiled rules of an agent keep them (G17).
//!
//! Integrations count as connected, since credentials expire and are renewed without a change of rules: an assertion that
//! holds only while a credential is missing does not hold. Session state counts as empty, for the same reason.

use toolgate_api::assertion::{Assertion, AssertionKind};
use toolgate_api::name::{Name, ToolId};

use crate::check::{Decision, SessionFacts, Step, StepVerdict, decide, explain};
use crate::rules::{Catalogue, Rules, ToolSet};

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

/// An assertion with its tools in one catalogue, to be evaluated for many agents.
pub struct ResolvedAssertion<'a> {
    assertion: &'a Assertion,
    kind: AssertionKind,
    /// The tools, each with the name that a call has.
    tools: Vec<(ToolId, String)>,
}

/// The number of decisions that a search may still make.
#[derive(Debug)]
pub struct DecisionBudget(u64);

/// A search would have made more decisions than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the assertions take more decisions than one search may make")]
pub struct BudgetExceeded;

impl DecisionBudget {
    /// A budget of so many decisions.
    pub fn new(decisions: u64) -> Self {
        Self(decisions)
    }

    /// Takes decisions from the budget.
    pub fn take(&mut self, decisions: u64) -> Result<(), BudgetExceeded> {
        self.0 = self.0.checked_sub(decisions).ok_or(BudgetExceeded)?;
        Ok(())
    }
}

impl<'a> ResolvedAssertion<'a> {
    /// Resolves the tools of an assertion; `None` only for a value that was not parsed.
    pub fn new<P>(assertion: &'a Assertion, catalogue: &Catalogue<P>) -> Option<Self> {
        let (kind, scope) = assertion.statement()?;
        let indexes = ToolSet::compile(&scope.tools, catalogue);
        let tools = indexes.iter().filter_map(|index| catalogue.tools().get(index));
        let tools = tools.map(|tool| (tool.id().clone(), tool.id().to_string())).collect();
        Some(Self { assertion, kind, tools })
    }

    /// The tools that it is about.
    pub fn tools(&self) -> impl Iterator<Item = &ToolId> {
        self.tools.iter().map(|(tool, _)| tool)
    }

    /// The assertion.
    pub fn assertion(&self) -> &'a Assertion {
        self.assertion
    }

    /// Whether it is about this agent, and a tool that is loaded.
    pub fn concerns(&self, organization: &Name, agent: &Name) -> bool {
        !self.tools.is_empty() && self.assertion.restricts(organization, agent)
    }

    /// Returns the first tool that an agent it concerns can call against it under `after`, and not under `before`.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn breach<P>(
        &self,
        before: Option<&Rules<P>>,
        after: &Rules<P>,
        budget: &mut DecisionBudget,
    ) -> Result<Option<AssertionBreach>, BudgetExceeded> {
        let contexts = contexts(after);
        let old_contexts = before.map(self::contexts).unwrap_or_default();
        for (tool, called) in &self.tools {
            budget.take(contexts.len() as u64)?;
            let Some(facts) = contexts.iter().find(|facts| breaks(self.kind, after, facts, called)) else {
                continue;
            };
            budget.take(old_contexts.len() as u64)?;
            let was_broken = before.is_some_and(|before| {
                old_contexts.iter().any(|facts| breaks(self.kind, before, facts, called))
            });
            if !was_broken {
                let steps = explain(after, facts, called);
                let (tool, channel) = (tool.clone(), facts.channel.clone());
                return Ok(Some(AssertionBreach { tool, channel, steps }));
            }
        }
        Ok(None)
    }
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
