//! Decisions that a document would change, per agent. Nothing is written, and a difference is not a failure.

use toolgate_api::policy_diff::{AgentChange, Preview};

use super::super::document::{self, document_from};
use super::super::failure::Result;
use super::super::print::{Printer, cell};
use super::LayerName;
use super::explain::verdict_text;
use crate::client::Client;

pub(super) async fn run(layer: &LayerName, file: &str, client: &Client, printer: &mut Printer<'_>) -> Result {
    let post = client.post(&layer.diff_path()).json_text(document_from(file)?);
    let preview: Preview = post.send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&preview)?);
    }
    document::warn(printer, &preview.warnings)?;
    if !preview.members.is_empty() {
        printer.note(&format!("the document differs in {}", preview.members.join(", ")))?;
    }
    if preview.agents.is_empty() {
        printer.line("nothing changes about who may call what")?;
    } else {
        let rows: Vec<_> = preview.agents.iter().flat_map(rows).collect();
        printer.table(["AGENT", "TOOLS", "NOW", "THEN", "LAYER", "RULE", "CHANNELS"], &rows)?;
    }
    let (changed, unchanged) = (preview.agents.len(), preview.unchanged);
    printer.note(&format!("agents: {changed} with changes, {unchanged} without"))?;
    if !preview.complete {
        printer.warning("the preview is not complete, since there are too many agents and tools; use the diff of single agents")?;
    }
    Ok(())
}

/// Limit of tool names per row.
const NAMED: usize = 6;

/// A line for each agent and kind of change: ``acme/bot: files/write, files/delete: allowed → refused``.
pub(crate) fn lines(preview: &Preview) -> Vec<String> {
    let rows = preview.agents.iter().flat_map(rows);
    let mut lines: Vec<String> = rows
        .map(|[agent, tools, now, then, _, _, channels]| {
            let on = if channels == "all" { String::new() } else { format!(" on {channels}") };
            format!("{agent}: {tools}: {now} → {then}{on}")
        })
        .collect();
    if !preview.complete {
        lines.push("and more: there are too many agents and tools to list".to_owned());
    }
    lines
}

/// Returns a row for each kind of change, with the affected tools: a policy seldom changes a single one.
fn rows(change: &AgentChange) -> Vec<[String; 7]> {
    let mut kinds: Vec<([String; 5], Vec<&str>)> = Vec::new();
    for tool in &change.tools {
        let kind = [
            verdict_text(tool.before).to_owned(),
            verdict_text(tool.after).to_owned(),
            tool.layer.to_string(),
            cell(tool.rule.as_ref()),
            tool.channels.as_ref().map_or_else(|| "all".to_owned(), |channels| channels.join(",")),
        ];
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, tools)) => tools.push(&tool.tool),
            None => kinds.push((kind, vec![&tool.tool])),
        }
    }
    let row = |(kind, tools): ([String; 5], Vec<&str>)| {
        let more = tools.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = tools.into_iter().take(NAMED).collect::<Vec<_>>().join(", ") + &more;
        let [now, then, layer, rule, channels] = kind;
        [change.agent.clone(), named, now, then, layer, rule, channels]
    };
    kinds.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn diff(json: bool, answer: Value) -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.json");
        std::fs::write(&file, "{\"blocked\": [\"files/delete\"]}").expect("written");
        let (layer, file) = (LayerName::Platform, file.display().to_string());
        let answers = vec![Canned::json(200, answer)];
        run_with(answers, json, async |client, printer| run(&layer, &file, client, printer).await).await
    }

    fn preview() -> Value {
        let everywhere = json!({"tool": "files/delete", "before": "needs_approval", "after": "refused", "layer": "platform", "rule": "blocked"});
        let on_some = json!({"tool": "a/b", "before": "allowed", "after": "refused", "layer": "platform", "channels": ["none", "sms"]});
        json!({"warnings": [{"code": "UNDEFINED", "message": "odd", "path": "/blocked/0"}], "unchanged": 2, "complete": true, "members": ["blocked", "limits"],
            "agents": [{"agent": "acme/bot", "tools": [everywhere, on_some]}]})
    }

    #[tokio::test]
    async fn changes_are_shown_for_each_agent_and_are_no_failure() {
        let run = diff(false, preview()).await;
        run.result.expect("no failure");
        assert_eq!(run.asked[0].line(), "POST /v1/platform/policy/diff");
        assert_eq!(run.asked[0].body, "{\"blocked\": [\"files/delete\"]}");
        let rows: Vec<&str> = run.out.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "acme/bot  files/delete  needs approval  refused  platform  blocked  all",
                "acme/bot  a/b           allowed         refused  platform  -        none,sms"
            ]
        );
        assert_eq!(
            run.notes,
            "warning: odd (`/blocked/0`)\nthe document differs in blocked, limits\nagents: 1 with changes, 2 without\n"
        );
    }

    #[tokio::test]
    async fn tools_to_which_the_same_happens_share_a_row() {
        let tool = |number: usize| json!({"tool": format!("a/t{number}"), "before": "allowed", "after": "refused", "layer": "platform", "rule": "blocked"});
        let tools: Vec<Value> = (0..NAMED + 2).map(tool).collect();
        let all = json!({"warnings": [], "members": [], "unchanged": 0, "complete": true, "agents": [{"agent": "acme/bot", "tools": tools}]});
        let run = diff(false, all).await;
        run.result.expect("no failure");
        let rows: Vec<&str> = run.out.lines().skip(1).collect();
        assert_eq!(rows.len(), 1);
        assert!(
            rows[0].starts_with("acme/bot  a/t0, a/t1, a/t2, a/t3, a/t4, a/t5 and 2 more  allowed"),
            "{}",
            rows[0]
        );
    }

    #[tokio::test]
    async fn where_nothing_changes_or_not_all_was_looked_at_it_is_said() {
        let nothing = json!({"warnings": [], "members": [], "agents": [], "unchanged": 3, "complete": false});
        let run = diff(false, nothing).await;
        run.result.expect("no failure");
        assert_eq!(run.out, "nothing changes about who may call what\n");
        assert!(
            run.notes.contains("3 without") && run.notes.contains("the preview is not complete"),
            "{}",
            run.notes
        );
    }

    #[tokio::test]
    async fn a_machine_gets_the_answer_as_it_is() {
        let run = diff(true, preview()).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), preview());
    }
}
