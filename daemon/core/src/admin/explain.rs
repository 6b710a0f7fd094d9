//! Explanations: the reasons why an agent may call a tool, or may not (G16).
//!
//! The reasons come from the function that decides. Owners see of the platform's layer only that it decided; operators see its
//! rule.

use std::borrow::Cow;

use toolgate_admission::{self as admission, Layer, Plugin, Rules, SessionFacts, Step, StepVerdict};
use toolgate_api::descriptor::Mode;
use toolgate_api::explain::{ExplainedStep, ExplainedTool, Explanation, StepAnswer, ToolVerdict};
use toolgate_sandbox::Component;

use crate::plugins::tool_details;

/// Explains one tool with every step of the gate, or every loaded tool in short. The caller adds agent, session and
/// revision.
pub fn explain(
    rules: &Rules<Component>,
    facts: &SessionFacts,
    tool: Option<&str>,
    sees_platform: bool,
) -> Explanation {
    let tools = match tool {
        Some(tool) => vec![explain_tool(rules, facts, tool, sees_platform, true)],
        None => {
            let ids = rules.catalogue.tools().iter().map(|tool| tool.id().to_string());
            ids.map(|tool| explain_tool(rules, facts, &tool, sees_platform, false)).collect()
        }
    };
    let channel = facts.channel.clone();
    Explanation { agent: String::new(), channel, session: None, revision: 0, tools }
}

fn explain_tool(
    rules: &Rules<Component>,
    facts: &SessionFacts,
    called: &str,
    sees_platform: bool,
    with_steps: bool,
) -> ExplainedTool {
    let steps = admission::explain(rules, facts, called);
    let found = rules.catalogue.find(called);
    let tool = found
        .map_or_else(|| toolgate_api::text::escape_for_display(called, 80), |tool| tool.id().to_string());
    let decisive = decisive_step(&steps);
    let shown = decisive.map(|step| step_view(step, sees_platform));
    ExplainedTool {
        tool,
        verdict: match decisive.map(|step| step.verdict) {
            Some(StepVerdict::Refuses) | None => ToolVerdict::Refused,
            Some(StepVerdict::NeedsApproval) => ToolVerdict::NeedsApproval,
            Some(StepVerdict::Passes) => ToolVerdict::Allowed,
        },
        error_type: decisive.and_then(|step| step.error_type),
        layer: shown.as_ref().map_or("platform".into(), |step| step.layer.clone()),
        rule: shown.as_ref().and_then(|step| step.rule.clone()),
        why: shown.and_then(|step| step.why),
        left_out: found.and_then(|tool| left_out(tool.descriptor().mode, decisive)),
        not_over_mcp: None,
        not_granted: found.and_then(|tool| not_granted(tool.plugin())),
        details: found.filter(|_| with_steps).map(|tool| tool_details(tool.plugin(), tool.descriptor())),
        steps: with_steps.then(|| steps.iter().map(|step| step_view(step, sees_platform)).collect()),
    }
}

/// What the plugin asks for and has no grant for.
fn not_granted(plugin: &Plugin<Component>) -> Option<Vec<Cow<'static, str>>> {
    let missing = plugin.descriptor.capabilities.not_granted(&plugin.granted);
    (!missing.is_empty()).then(|| missing.into_iter().map(Cow::Borrowed).collect())
}

/// The lists that leave out a tool that the agent may call.
fn left_out(mode: Mode, decisive: Option<&Step>) -> Option<Cow<'static, str>> {
    let is_refused = decisive.is_none_or(|step| step.verdict == StepVerdict::Refuses);
    (mode == Mode::Client && !is_refused).then_some(
        "over MCP, unless the client performs such calls itself (`toolgate/client-tools` in `_meta`; for `user/ask`, forms of \
         elicitation)"
            .into(),
    )
}

/// The first step that stops the tool, or else the rule that gave it to the agent.
fn decisive_step(steps: &[Step]) -> Option<&Step> {
    let stops = steps.iter().find(|step| step.verdict != StepVerdict::Passes);
    let gives = |rule: &str| {
        steps.iter().find(move |step| step.reason.layer == Layer::Agent && step.reason.rule == rule)
    };
    stops.or_else(|| gives("enabled")).or(steps.last())
}

fn step_view(step: &Step, sees_platform: bool) -> ExplainedStep {
    let is_visible = sees_platform || step.reason.layer != Layer::Platform || step.reason.rule == "existence";
    ExplainedStep {
        layer: step.reason.layer.as_str().into(),
        rule: is_visible.then_some(step.reason.rule.into()),
        verdict: match step.verdict {
            StepVerdict::Passes => StepAnswer::Passes,
            StepVerdict::NeedsApproval => StepAnswer::NeedsApproval,
            StepVerdict::Refuses => StepAnswer::Refuses,
        },
        why: is_visible.then(|| step.why.clone()),
    }
}
