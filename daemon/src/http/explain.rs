//! Why an agent may call a tool, or may not (G16).
//!
//! The answer is that of the very function that decides. Of the platform's layer an owner learns that it decided, and
//! an operator by which rule.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolgate_admission::{self as admission, ErrorType, Layer, Rules, SessionFacts, Step, StepVerdict};
use toolgate_sandbox::Component;
use utoipa::{IntoParams, ToSchema};

use super::address::AgentAddress;
use super::documents::name;
use super::extract::{Path, Query};
use super::problem::{ErrorTypeForm, Problem};
use super::refusal::NoAgent;
use super::{App, Authenticated};

/// What to explain.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// One tool, as it is called or as documents write it. Without it every loaded tool is explained in short.
    tool: Option<String>,
    /// On this channel.
    channel: Option<String>,
    /// In this session, with its channel and the tools that are out for it.
    session: Option<String>,
}

/// What an agent may call, and why.
#[derive(Serialize, ToSchema)]
pub struct Explanation {
    /// `ORGANIZATION/AGENT`.
    agent: String,
    /// The channel that this is about.
    #[schema(required)]
    channel: Option<String>,
    /// The session that this is about.
    #[schema(required)]
    session: Option<String>,
    /// Counts changes of rules and plugins since the daemon was started.
    revision: u64,
    /// The tools, those of a plugin beside each other.
    tools: Vec<ExplainedTool>,
}

/// Whether an agent may call a tool, and why.
#[derive(Serialize, ToSchema)]
pub struct ExplainedTool {
    /// `namespace/tool`, or the name that was asked for where there is no such tool.
    tool: String,
    /// What becomes of a call: `allowed`, `needs_approval`, `refused`.
    verdict: ToolVerdict,
    /// The code that a refused call gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorTypeForm, required = false)]
    error_type: Option<&'static str>,
    /// The layer that decided.
    layer: &'static str,
    /// The rule that decided; not told of the platform's to its tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    rule: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    why: Option<String>,
    /// Every question of the gate in order, with its answer; only where one tool was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<ExplainedStep>, required = false)]
    steps: Option<Vec<ExplainedStep>>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolVerdict {
    Allowed,
    NeedsApproval,
    Refused,
}

/// One question of the gate.
#[derive(Serialize, ToSchema)]
pub struct ExplainedStep {
    /// Who asks.
    layer: &'static str,
    /// What is asked; not told of the platform's layer to its tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    rule: Option<&'static str>,
    /// The answer.
    verdict: StepAnswer,
    /// The answer in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    why: Option<String>,
}

/// The answer to one question of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// The rule lets the tool through.
    Passes,
    /// The rule asks for a person's approval.
    NeedsApproval,
    /// The rule keeps the tool out.
    Refuses,
}

/// Explain what an agent may call.
///
/// Which layer lets each tool in or keeps it out, and by which rule: the same function as decides about calls.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agents/{agent}/explain", tag = "agents", operation_id = "explain_agent",
    params(AgentAddress, ExplainQuery),
    responses((status = 200, description = "The explanation.", body = Explanation), NoAgent),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((organization, agent)): Path<(String, String)>,
    Query(query): Query<ExplainQuery>,
) -> Result<axum::Json<Explanation>, Problem> {
    let (organization, agent) = (name(&organization)?, name(&agent)?);
    caller.may_own(&organization)?;
    let snapshot = app.0.registry.snapshot();
    let rules = snapshot.rules(&organization, &agent).ok_or_else(|| Problem::not_found("agent"))?;
    super::sessions::check_channel(&rules.organization, query.channel.as_deref())?;
    let facts = match &query.session {
        None => SessionFacts { channel: query.channel.clone(), ..SessionFacts::default() },
        Some(id) => {
            let session = app.session_of(&caller, id).await?;
            if (&session.setup.organization, &session.setup.agent) != (&organization, &agent) {
                return Err(Problem::not_found("session"));
            }
            let facts = SessionFacts::clone(&session.state.facts());
            SessionFacts { channel: query.channel.clone().or(facts.channel.clone()), ..facts }
        }
    };
    let sees_platform = caller.organization.is_none();
    let tools = match &query.tool {
        Some(tool) => vec![explained(&rules, &facts, tool, sees_platform, true)],
        None => rules
            .catalogue
            .tools()
            .iter()
            .map(|tool| explained(&rules, &facts, &tool.id().to_string(), sees_platform, false))
            .collect(),
    };
    Ok(axum::Json(Explanation {
        agent: format!("{organization}/{agent}"),
        channel: facts.channel,
        session: query.session,
        revision: snapshot.revision,
        tools,
    }))
}

fn explained(
    rules: &Rules<Component>,
    facts: &SessionFacts,
    called: &str,
    sees_platform: bool,
    in_full: bool,
) -> ExplainedTool {
    let steps = admission::explain(rules, facts, called);
    let tool = rules
        .catalogue
        .find(called)
        .map_or_else(|| admission::show(called, 80), |tool| tool.id().to_string());
    let decisive = deciding(&steps);
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
        steps: in_full.then(|| steps.iter().map(|step| step_view(step, sees_platform)).collect()),
    }
}

/// The first that does not let the tool through, or else what gave it to the agent.
fn deciding(steps: &[Step]) -> Option<&Step> {
    let stops = steps.iter().find(|step| step.verdict != StepVerdict::Passes);
    let gives = |rule: &str| {
        steps.iter().find(move |step| step.reason.layer == Layer::Agent && step.reason.rule == rule)
    };
    stops.or_else(|| gives("enabled")).or(steps.last())
}

fn step_view(step: &Step, sees_platform: bool) -> ExplainedStep {
    let is_told = sees_platform || step.reason.layer != Layer::Platform || step.reason.rule == "existence";
    ExplainedStep {
        layer: step.reason.layer.as_str(),
        rule: is_told.then_some(step.reason.rule),
        verdict: match step.verdict {
            StepVerdict::Passes => StepAnswer::Passes,
            StepVerdict::NeedsApproval => StepAnswer::NeedsApproval,
            StepVerdict::Refuses => StepAnswer::Refuses,
        },
        why: is_told.then(|| step.why.clone()),
    }
}
