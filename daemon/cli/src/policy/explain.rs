//! Explains why an agent may call a tool, or may not (G16), as a table.
//!
//! The response of the daemon comes from the same function that decides calls. It hides the rules of the platform's
//! layer from an owner; the table then has a `-`.

use clap::Args;
use serde_json::Value;

use super::super::agent::{self, AgentName, parse_agent};
use super::super::document::{field, query};
use super::super::failure::Failure;
use super::super::print::Printer;
use crate::client::{Client, ClientError};

/// Verdicts as in the response and as printed, in the order of the table.
const VERDICTS: [(&str, &str); 3] =
    [("allowed", "allowed"), ("needs_approval", "needs approval"), ("refused", "refused")];

#[derive(Args)]
pub struct Explain {
    /// The agent
    #[arg(value_name = "ORG/AGENT", value_parser = parse_agent)]
    agent: AgentName,
    /// One tool, with every check; without it, a summary of all tools
    tool: Option<String>,
    /// In a conversation on this channel
    #[arg(long, value_name = "TEXT")]
    channel: Option<String>,
    /// In this session, with its channel and its disabled tools
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub async fn run(asked: &Explain, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let query = query(&[
        ("tool", asked.tool.as_deref()),
        ("channel", asked.channel.as_deref()),
        ("session", asked.session.as_deref()),
    ]);
    let answer = client.get(&format!("{}/explain{query}", agent::path(&asked.agent))).send::<Value>().await?;
    let explanation = answer.body;
    if printer.is_json() {
        return Ok(printer.json(&explanation)?);
    }
    let Some(tools) = explanation.get("tools").and_then(Value::as_array) else {
        return Err(ClientError::unexpected(answer.status, explanation.to_string().as_bytes()).into());
    };
    match tools.as_slice() {
        [tool] if asked.tool.is_some() => one(&explanation, tool, printer),
        tools => all(tools, printer),
    }
}

/// Returns the printed form of a verdict.
pub(super) fn verdict(value: &Value, pointer: &str) -> String {
    let said = field(value, pointer);
    VERDICTS.iter().find(|(name, _)| *name == said).map_or(said, |(_, words)| (*words).to_owned())
}

fn all(tools: &[Value], printer: &mut Printer<'_>) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut counts = Vec::new();
    for (name, words) in VERDICTS {
        let of_it = tools.iter().filter(|tool| tool.get("verdict").and_then(Value::as_str) == Some(name));
        let before = rows.len();
        rows.extend(of_it.map(row));
        counts.push(format!("{} {words}", rows.len() - before));
    }
    printer.table(["TOOL", "VERDICT", "LAYER", "RULE", "WHY"], &rows)?;
    Ok(printer.note(&counts.join(", "))?)
}

fn row(tool: &Value) -> [String; 5] {
    let text = |pointer| field(tool, pointer);
    [text("/tool"), verdict(tool, "/verdict"), text("/layer"), text("/rule"), text("/why")]
}

fn one(explanation: &Value, tool: &Value, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let mut line = format!("{} calls {}", field(explanation, "/agent"), field(tool, "/tool"));
    for (name, words) in [("channel", "on channel"), ("session", "in session")] {
        if let Some(text) = explanation.get(name).and_then(Value::as_str) {
            line += &format!(" {words} {text}");
        }
    }
    line += &format!(": {}", verdict(tool, "/verdict"));
    if let Some(code) = tool.get("error_type").and_then(Value::as_str) {
        line += &format!(" ({code})");
    }
    printer.line(&line)?;
    let steps = tool.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let deciding = deciding(tool, steps);
    let rows: Vec<_> =
        steps.iter().enumerate().map(|(at, step)| step_row(step, deciding == Some(at))).collect();
    Ok(printer.table(["", "", "LAYER", "RULE", "WHY"], &rows)?)
}

/// Returns the index of the first step that does not pass, or else of the step that the verdict names.
fn deciding(tool: &Value, steps: &[Value]) -> Option<usize> {
    let stops = |step: &Value| step.get("verdict").and_then(Value::as_str) != Some("passes");
    let named = |step: &Value| ["layer", "rule", "why"].iter().all(|part| step.get(part) == tool.get(part));
    steps.iter().position(stops).or_else(|| steps.iter().position(named))
}

fn step_row(step: &Value, decides: bool) -> [String; 5] {
    let mark = match step.get("verdict").and_then(Value::as_str) {
        Some("passes") => "✔",
        Some("refuses") => "✘",
        _ => "?",
    };
    let arrow = if decides { "→" } else { " " };
    [arrow.to_owned(), mark.to_owned(), field(step, "/layer"), field(step, "/rule"), field(step, "/why")]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn explain(tool: Option<&str>, json: bool, answer: Value) -> Run {
        let asked = Explain {
            agent: parse_agent("acme/bot").expect("an agent"),
            tool: tool.map(Into::into),
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
    async fn a_machine_gets_the_answer_as_it_is() {
        let run = explain(None, true, about(json!([]))).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), about(json!([])));
    }
}
