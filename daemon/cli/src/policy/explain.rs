//! Explains why an agent may call a tool, or may not (G16), as a table.
//!
//! The response of the daemon comes from the same function that decides calls. It hides the rules of the platform's
//! layer from an owner; the table then has a `-`.

use clap::Args;
use toolgate_api::descriptor::Hints;
use toolgate_api::explain::{ExplainedStep, ExplainedTool, Explanation, StepAnswer, ToolVerdict};
use toolgate_api::plugin::ToolDetails;

use super::super::arguments::AgentArgument;
use super::super::document::query;
use super::super::failure::Result;
use super::super::print::{Printer, cell, word};
use crate::client::Client;

/// Verdicts in the order of the table.
const VERDICTS: [ToolVerdict; 3] = [ToolVerdict::Allowed, ToolVerdict::NeedsApproval, ToolVerdict::Refused];

#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    agent: AgentArgument,
    /// One tool, with every check; without it, a summary of all tools
    tool: Option<String>,
    /// Only the tools that the agent may call, without and with an approval
    #[arg(long, conflicts_with = "tool")]
    allowed: bool,
    /// In a conversation on this channel
    #[arg(long, value_name = "TEXT")]
    channel: Option<String>,
    /// In this session, with its channel and its disabled tools
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub(super) async fn run(asked: &Explain, client: &Client, printer: &mut Printer<'_>) -> Result {
    let query = query(&[
        ("tool", asked.tool.as_deref()),
        ("channel", asked.channel.as_deref()),
        ("session", asked.session.as_deref()),
    ]);
    let path = format!("{}/explain{query}", asked.agent.agent.path());
    let mut explanation: Explanation = client.get(&path).send().await?.body;
    if asked.allowed {
        explanation.tools.retain(|tool| tool.verdict != ToolVerdict::Refused);
    }
    if printer.is_json() {
        return Ok(printer.json(&explanation)?);
    }
    match explanation.tools.as_slice() {
        [tool] if asked.tool.is_some() => print_one(&explanation, tool, printer),
        tools => print_all(tools, printer),
    }
}

/// Returns the printed form of a verdict.
pub(super) fn verdict_text(verdict: ToolVerdict) -> &'static str {
    match verdict {
        ToolVerdict::Allowed => "allowed",
        ToolVerdict::NeedsApproval => "needs approval",
        ToolVerdict::Refused => "refused",
    }
}

fn print_all(tools: &[ExplainedTool], printer: &mut Printer<'_>) -> Result {
    let mut rows = Vec::new();
    let mut counts = Vec::new();
    for verdict in VERDICTS {
        let before = rows.len();
        rows.extend(tools.iter().filter(|tool| tool.verdict == verdict).map(row));
        counts.push(format!("{} {}", rows.len() - before, verdict_text(verdict)));
    }
    printer.table(["TOOL", "VERDICT", "LAYER", "RULE", "WHY"], &rows)?;
    Ok(printer.note(&counts.join(", "))?)
}

fn row(tool: &ExplainedTool) -> [String; 5] {
    let verdict = verdict_text(tool.verdict).to_owned();
    [tool.tool.clone(), verdict, tool.layer.to_string(), cell(tool.rule.as_ref()), cell(tool.why.as_ref())]
}

fn print_one(explanation: &Explanation, tool: &ExplainedTool, printer: &mut Printer<'_>) -> Result {
    let mut line = format!("{} calls {}", explanation.agent, tool.tool);
    for (name, value) in [("on channel", &explanation.channel), ("in session", &explanation.session)] {
        if let Some(value) = value {
            line += &format!(" {name} {value}");
        }
    }
    line += &format!(": {}", verdict_text(tool.verdict));
    if let Some(error_type) = tool.error_type {
        line += &format!(" ({error_type})");
    }
    printer.line(&line)?;
    let steps = tool.steps.as_deref().unwrap_or_default();
    let deciding = deciding(tool, steps);
    let rows: Vec<_> =
        steps.iter().enumerate().map(|(at, step)| step_row(step, deciding == Some(at))).collect();
    printer.table(["", "", "LAYER", "RULE", "WHY"], &rows)?;
    if let Some(left_out) = &tool.left_out {
        printer.note(&format!("left out of lists: {left_out}"))?;
    }
    if let Some(missing) = &tool.not_granted {
        printer.warning(&format!(
            "the plugin asks for {} and has no grant for it: what needs it fails, also after an approval",
            missing.join(", ")
        ))?;
    }
    for credential in tool.not_over_mcp.iter().flatten() {
        printer.note(&format!(
            "over MCP without a user, calls go without the credential {credential}: it is not shared"
        ))?;
    }
    tool.details.as_ref().map_or(Ok(()), |details| print_details(details, printer))
}

/// Prints what a model is told beside the description, and the hints.
fn print_details(details: &ToolDetails, printer: &mut Printer<'_>) -> Result {
    let Hints { read_only, destructive, idempotent, open_world } = details.hints;
    let hints = [
        ("read-only", read_only),
        ("destructive", destructive),
        ("idempotent", idempotent),
        ("open-world", open_world),
    ];
    let hints: Vec<_> = hints.iter().filter(|(_, is_set)| *is_set).map(|(hint, _)| *hint).collect();
    let state = word(&details.hints_state);
    printer.note(&format!(
        "hints ({state}): {}",
        if hints.is_empty() { "none".into() } else { hints.join(", ") }
    ))?;
    for (label, texts) in [
        ("needs the integration", &details.required_integrations),
        ("before the first call", &details.prerequisites),
        ("tag", &details.tags),
    ] {
        for text in texts {
            printer.note(&format!("{label}: {text}"))?;
        }
    }
    for example in &details.examples {
        printer.note(&format!("example: {}", example.input))?;
    }
    Ok(printer.note(&format!("usage: {}", details.usage))?)
}

/// Returns the index of the first step that does not pass, or else of the step that the verdict names.
fn deciding(tool: &ExplainedTool, steps: &[ExplainedStep]) -> Option<usize> {
    let is_named =
        |step: &ExplainedStep| (&step.layer, &step.rule, &step.why) == (&tool.layer, &tool.rule, &tool.why);
    steps
        .iter()
        .position(|step| step.verdict != StepAnswer::Passes)
        .or_else(|| steps.iter().position(is_named))
}

fn step_row(step: &ExplainedStep, decides: bool) -> [String; 5] {
    let mark = match step.verdict {
        StepAnswer::Passes => "✔",
        StepAnswer::Refuses => "✘",
        StepAnswer::NeedsApproval => "?",
    };
    let arrow = if decides { "→" } else { " " };
    [
        arrow.to_owned(),
        mark.to_owned(),
        step.layer.to_string(),
        cell(step.rule.as_ref()),
        cell(step.why.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn explain(tool: Option<&str>, json: bool, answer: Value) -> Run {
        let asked = Explain {
            agent: AgentArgument { agent: "acme/bot".parse().expect("an agent") },
            tool: tool.map(Into::into),
            allowed: false,
            channel: Some("sms".into()),
            session: None,
        };
        let answers = vec![Canned::json(200, answer)];
        run_with(answers, json, async |client, printer| run(&asked, client, printer).await).await
    }

    fn step(layer: &str, rule: &str, verdict: &str, why: &str) -> Value {
        json!({"layer": layer, "rule": rule, "verdict": verdict, "why": why})
    }

    fn about(tools: Value) -> Value {
        json!({"agent": "acme/bot", "channel": "sms", "session": null, "revision": 1, "tools": tools})
    }

    #[tokio::test]
    async fn one_tool_is_explained_step_by_step_with_the_deciding_one_marked() {
        let steps = [
            json!({"layer": "platform", "verdict": "passes"}),
            step("organization", "enabled", "passes", "enabled by `files/*`"),
            step("agent", "disabled", "refuses", "disabled by `files/write`"),
            step("session", "approval", "needs_approval", "asks"),
        ];
        let tool = json!({"tool": "files/write", "verdict": "refused", "error_type": "TOOL_DISABLED", "layer": "agent",
            "rule": "disabled", "why": "disabled by `files/write`", "steps": steps});
        let run = explain(Some("files/write"), false, about(json!([tool]))).await;
        run.result.expect("explained");
        assert_eq!(
            run.asked[0].line(),
            "GET /v1/orgs/acme/agents/bot/explain?tool=files%2Fwrite&channel=sms"
        );
        assert_eq!(
            run.out,
            "acme/bot calls files/write on channel sms: refused (TOOL_DISABLED)\n\
             \x20     LAYER         RULE      WHY\n\
             \x20  ✔  platform      -         -\n\
             \x20  ✔  organization  enabled   enabled by `files/*`\n\
             →  ✘  agent         disabled  disabled by `files/write`\n\
             \x20  ?  session       approval  asks\n"
        );
    }

    #[tokio::test]
    async fn what_gave_an_allowed_tool_to_the_agent_is_marked() {
        let gave = step("agent", "enabled", "passes", "enabled by `*`");
        let mut tool = json!({"tool": "a/b", "verdict": "allowed",
            "steps": [step("platform", "existence", "passes", "loaded"), gave, step("session", "channel", "passes", "")]});
        for (name, value) in gave.as_object().expect("a step").iter().filter(|(name, _)| *name != "verdict") {
            tool[name] = value.clone();
        }
        let run = explain(Some("a/b"), false, about(json!([tool]))).await;
        let marked: Vec<&str> = run.out.lines().filter(|line| line.starts_with('→')).collect();
        assert_eq!(marked.len(), 1, "{}", run.out);
        assert!(marked[0].contains("enabled by `*`"), "{}", run.out);
    }

    #[tokio::test]
    async fn all_tools_are_grouped_by_what_becomes_of_a_call() {
        let tool = |name: &str, verdict: &str| json!({"tool": name, "verdict": verdict, "layer": "agent", "rule": "r", "why": "w"});
        let tools = json!([
            tool("a/x", "refused"),
            tool("b/x", "needs_approval"),
            tool("c/x", "allowed"),
            tool("d/x", "refused")
        ]);
        let run = explain(None, false, about(tools)).await;
        run.result.expect("explained");
        let rows: Vec<&str> = run.out.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "c/x   allowed         agent  r     w",
                "b/x   needs approval  agent  r     w",
                "a/x   refused         agent  r     w",
                "d/x   refused         agent  r     w"
            ]
        );
        assert_eq!(run.notes, "1 allowed, 1 needs approval, 2 refused\n");
    }

    #[tokio::test]
    async fn refused_tools_can_be_left_out() {
        let tool = |name: &str, verdict: &str| json!({"tool": name, "verdict": verdict, "layer": "agent"});
        let tools = json!([tool("a/x", "refused"), tool("b/x", "needs_approval"), tool("c/x", "allowed")]);
        let asked = Explain {
            agent: AgentArgument { agent: "acme/bot".parse().expect("an agent") },
            tool: None,
            allowed: true,
            channel: None,
            session: None,
        };
        let answers = vec![Canned::json(200, about(tools))];
        let run = run_with(answers, false, async |client, printer| run(&asked, client, printer).await).await;
        run.result.expect("explained");
        assert!(
            run.out.contains("c/x") && run.out.contains("b/x") && !run.out.contains("a/x"),
            "{}",
            run.out
        );
    }

    #[tokio::test]
    async fn a_machine_gets_the_answer_as_it_is() {
        let run = explain(None, true, about(json!([]))).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), about(json!([])));
    }
}
