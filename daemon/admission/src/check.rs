//! Decides about one call: may this agent make it now, and are its arguments valid?
//!
//! [`decide`] asks the rules of all layers in their published order (`gates.rs`) and stops at the first that refuses,
//! which is the reason. It reads a name table and some bits, and allocates nothing. [`explain`] asks the same rules
//! without stopping. [`check()`] decides, parses the arguments once, validates them against the input schema and narrows
//! the limits.
//!
//! A call that passes is a [`Checked`] (`permit.rs`), which only [`check()`] creates; any other is a [`Refusal`] with its
//! reason, which names the tool as the model did.

mod verdict;
mod gates;
mod decide;
mod permit;
mod refusal;

use std::sync::Arc;

use toolgate_api::limits::Limits;

use crate::arguments::Arguments;
use crate::egress::{CallAccess, PolicyNetwork};
use crate::quota::{CallQuotas, Owner};
use crate::rules::{Rules, Tool};
use crate::schema::Schema;

pub use decide::{callable, decide, explain, has_tools, no_tools_warning};
pub use permit::{Admitted, CallFacts, Checked, ClientResultCheck, Unapproved};
pub use refusal::Refusal;
pub use verdict::{Decision, Layer, Reason, SessionFacts, Step, StepVerdict, ToolCall, Verdict};

const ALLOWED: Reason = Reason { layer: Layer::Agent, rule: "enabled" };

/// Decides about a call and, unless a rule refuses it, validates its arguments.
pub fn check<P>(rules: &Rules<P>, facts: &SessionFacts, call: ToolCall) -> Verdict<P> {
    let (tool, approval) = match decide(rules, facts, &call.tool) {
        Decision::Allowed(tool) => (tool, None),
        Decision::NeedsApproval(tool, reason) => (tool, Some(reason)),
        Decision::Refused(reason) => {
            return Verdict::Refused(Refusal::by_rule(rules, facts, &call.tool, reason));
        }
    };
    // People approved the serving version, so that one runs the calls that need an approval.
    let tool = if approval.is_none() { tool.version_for(call.draw) } else { tool };
    let limits = tool_limits(rules, tool);
    let arguments = match validate(tool, &call, &limits) {
        Ok(arguments) => arguments,
        Err(refusal) => return Verdict::Refused(refusal),
    };
    let access = call_access(rules, tool);
    let quotas = call_quotas(rules);
    let settings = rules.organization.settings_of(&tool.id().namespace).cloned();
    let checked = |reason| {
        let checked = Checked::new(tool.clone(), call.tool, arguments, limits, access, quotas, reason);
        checked.with_settings(settings)
    };
    match approval {
        None => Verdict::Run(checked(ALLOWED)),
        Some(reason) => {
            Verdict::NeedsApproval(Unapproved::new(checked(reason), rules.agent.document().autonomy))
        }
    }
}

/// Returns the limits of a call by this name; those of the platform if there is no such tool.
pub fn limits_of<P>(rules: &Rules<P>, called: &str) -> Limits {
    match rules.catalogue.find_index(called) {
        Some((_, tool)) => tool_limits(rules, tool),
        None => *rules.catalogue.platform_limits(),
    }
}

/// Returns the limits of a call, which each layer narrows (B2).
fn tool_limits<P>(rules: &Rules<P>, tool: &Tool<P>) -> Limits {
    session_limits(rules).narrow(&tool.plugin().descriptor.limits).narrow(&tool.plugin().granted.limits)
}

/// Returns the limits of what an agent's session does without a plugin, such as file uploads.
pub fn session_limits<P>(rules: &Rules<P>) -> Limits {
    rules
        .catalogue
        .platform_limits()
        .narrow(&rules.platform.document().limits)
        .narrow(&rules.organization.document().limits)
        .narrow(rules.agent.limits())
}

/// Returns the tool's access to files, network and credentials, narrowed by the policies (B5).
fn call_access<P>(rules: &Rules<P>, tool: &Tool<P>) -> Arc<CallAccess> {
    let policy = PolicyNetwork {
        organization: rules.organization.document().network.clone(),
        agent: rules.agent.document().network.clone(),
    };
    match policy == PolicyNetwork::default() {
        true => Arc::clone(tool.access()),
        false => Arc::new(tool.access().with_policy(policy)),
    }
}

fn call_quotas<P>(rules: &Rules<P>) -> CallQuotas {
    CallQuotas([
        (Owner::Platform, Arc::clone(&rules.platform.document().quotas)),
        (Owner::Organization, Arc::clone(&rules.organization.document().quotas)),
        (Owner::Agent, Arc::clone(&rules.agent.document().quotas)),
    ])
}

#[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the verdict")]
fn validate<P>(tool: &Tool<P>, call: &ToolCall, limits: &Limits) -> Result<Arguments, Refusal> {
    let arguments = Arguments::parse(&call.arguments, limits.arguments_bytes, limits.arguments_depth)
        .map_err(|error| Refusal::invalid_arguments(tool, error.into_call_error(&call.tool)))?;
    let descriptor = tool.descriptor();
    // A list of tools shows a name that the provider refuses as another one (M5).
    let restored = descriptor.input.names().restore(arguments.value());
    let restored = restored.and_then(|value| Arguments::of_value(value, limits.arguments_bytes));
    let arguments = restored.unwrap_or(arguments);
    let arguments = without_refused_nulls(arguments, &descriptor.input, limits.arguments_bytes);
    match descriptor.input.validate_redacting(arguments.value(), &descriptor.redact) {
        Ok(()) => Ok(arguments),
        Err(violations) => {
            let hint = descriptor.input.hint_for(&violations);
            let error = refusal::invalid_arguments_error(&violations, &call.tool, hint);
            Err(Refusal::invalid_arguments(tool, error))
        }
    }
}

/// Removes each `null` that stands for an absent optional argument. Arguments without `null` are not looked at.
fn without_refused_nulls(arguments: Arguments, schema: &Schema, max_bytes: u64) -> Arguments {
    if !arguments.raw().contains("null") {
        return arguments;
    }
    let reduced = schema.without_refused_nulls(arguments.value());
    let reduced = reduced.and_then(|(value, removed)| {
        Some(Arguments::of_value(value, max_bytes)?.without_nulls(removed.into_iter().collect()))
    });
    reduced.unwrap_or(arguments)
}

#[cfg(test)]
pub(crate) mod tests;
