//! Explanations: the reasons why an agent may call a tool, or may not (G16).
//!
//! They come from the function that decides. Owners see of the platform's layer only that it decided; operators see its
//! rule.

use serde::Serialize;
use toolgate_admission::{self as admission, ErrorType, Layer, Rules, SessionFacts, Step, StepVerdict};
use toolgate_sandbox::Component;
use utoipa::ToSchema;

use crate::http::ErrorTypeForm;

/// The tools that an agent may call, with the reasons.
#[derive(Serialize, ToSchema)]
pub struct Explanation {
    /// `ORGANIZATION/AGENT`.
    pub agent: String,
    /// The channel of the explanation.
    #[schema(required)]
    channel: Option<String>,
    /// The session of the explanation.
    #[schema(required)]
    pub session: Option<String>,
    /// Counts changes of rules and plugins since the daemon was started.
    pub revision: u64,
    /// The tools, those of a plugin beside each other.
    tools: Vec<ExplainedTool>,
}

/// Whether an agent may call a tool, and why.
#[derive(Serialize, ToSchema)]
pub struct ExplainedTool {
    /// `namespace/tool`, or the requested name where there is no such tool.
    tool: String,
    /// The verdict on a call: `allowed`, `needs_approval`, `refused`.
    verdict: ToolVerdict,
    /// The code of a refused call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorTypeForm, required = false)]
    error_type: Option<&'static str>,
    /// The layer that decided.
    layer: &'static str,
    /// The rule that decided. Tenants do not see the platform's rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    rule: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    why: Option<String>,
    /// Every rule of the gate in order, with its verdict; only for one requested tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<ExplainedStep>, required = false)]
    steps: Option<Vec<ExplainedStep>>,
}

/// The verdict on a call.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolVerdict {
    /// The call runs.
    Allowed,
    /// The call waits for a person.
    NeedsApproval,
    /// The call is refused.
    Refused,
}

/// One rule of the gate.
#[derive(Serialize, ToSchema)]
pub struct ExplainedStep {
    /// The rule's layer.
    layer: &'static str,
    /// The rule. Tenants do not see the platform's rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    rule: Option<&'static str>,
    /// The verdict.
    verdict: StepAnswer,
    /// The verdict in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    why: Option<String>,
}

/// The verdict of one rule of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// The rule lets the tool through.
    Passes,
    /// The rule asks for a person's approval.
    NeedsApproval,
    /// The rule refuses the tool.
    Refuses,
}

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
    let tool = rules
        .catalogue
        .find(called)
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
        error_type: decisive.and_then(|step| step.error_type).map(ErrorType::as_str),
        layer: shown.as_ref().map_or("platform", |step| step.layer),
        rule: shown.as_ref().and_then(|step| step.rule),
        why: shown.and_then(|step| step.why),
        steps: with_steps.then(|| steps.iter().map(|step| step_view(step, sees_platform)).collect()),
    }
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
        layer: step.reason.layer.as_str(),
        rule: is_visible.then_some(step.reason.rule),
        verdict: match step.verdict {
            StepVerdict::Passes => StepAnswer::Passes,
            StepVerdict::NeedsApproval => StepAnswer::NeedsApproval,
            StepVerdict::Refuses => StepAnswer::Refuses,
        },
        why: is_visible.then(|| step.why.clone()),
    }
}
