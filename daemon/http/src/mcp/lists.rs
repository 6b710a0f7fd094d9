//! Lists of tools: what the agent may call, as MCP describes it (M5).

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_admission::Digest;

use super::clients::Client;
use super::{ToolsShown, ask};
use crate::dialects::tools::{Deferral, Format, ListForm, list as list_as};
use crate::problem::Problem;
use crate::tools::{VisibleTool, find, only_scripts};

/// The tools of `?tools=search`.
pub(super) use crate::dialects::tools::FIND_TOOL as FIND;
pub(super) const DESCRIBE: &str = "describe_tool";
pub(super) const CALL: &str = "call_tool";

/// The calls that a client performs itself.
#[derive(Clone, Copy)]
pub(super) struct Performs {
    /// All of them, with results over HTTP.
    pub all: bool,
    /// Questions to its user.
    pub questions: bool,
}

/// The tools of the client, of those that it performs itself only what it can.
pub(super) async fn list(client: &Client, performs: Performs) -> Vec<Tool> {
    let visible = client.tools().await;
    let mut tools = if client.shown == ToolsShown::Search { search_tools() } else { Vec::new() };
    tools.extend(entries(listed_tools(client.shown, visible, performs).iter()));
    tools
}

/// The names of the listed tools, and how many can be called. Questions are listed for clients with forms alone.
pub(super) async fn names(client: &Client) -> (Vec<String>, usize) {
    let visible = client.tools().await;
    let callable = visible.len();
    let found = [FIND, DESCRIBE, CALL].map(str::to_owned);
    let mut names = if client.shown == ToolsShown::Search { found.to_vec() } else { Vec::new() };
    let listed = listed_tools(client.shown, visible, Performs { all: false, questions: false });
    names.extend(listed.iter().map(|tool| tool.name().to_owned()));
    (names, callable)
}

/// The tools that a list has, besides those of a search.
fn listed_tools(shown: ToolsShown, visible: Vec<VisibleTool>, performs: Performs) -> Vec<VisibleTool> {
    let mut tools = if shown == ToolsShown::Code { only_scripts(visible) } else { visible };
    tools.retain(|tool| {
        let is_performed =
            !tool.is_for_client() || performs.all || performs.questions && tool.name() == ask::TOOL;
        is_performed && (shown != ToolsShown::Search || tool.is_always_shown())
    });
    tools
}

/// The tool's name, whether it needs an approval, and the digest of its plugin: a list changes with these.
pub(super) type ToolKey = (String, bool, Digest);

/// The keys of the client's tools. They cost less than the list.
pub(super) async fn keys(client: &Client) -> Vec<ToolKey> {
    client.tools().await.iter().map(VisibleTool::key).collect()
}

/// The description of one tool that the client may call.
pub(super) async fn describe(client: &Client, name: &str) -> Option<Tool> {
    let visible = client.tools().await;
    entries(visible.iter().filter(|tool| tool.name() == name)).pop()
}

/// The names and descriptions of the tools that the broker finds.
pub(super) async fn search(client: &Client, query: &str) -> Result<Value, Problem> {
    let opened = client.session().await?;
    let found = find(&client.app, &opened.session, Format::Mcp, query).await;
    let found: Vec<Tool> = serde_json::from_str(found.tools.get()).unwrap_or_default();
    let shown = |tool: Tool| json!({"name": tool.name, "description": tool.description});
    Ok(json!({"tools": found.into_iter().map(shown).collect::<Vec<_>>()}))
}

/// The tools as MCP describes them, without those whose schemas cannot be said in it.
fn entries<'a>(tools: impl Iterator<Item = &'a VisibleTool>) -> Vec<Tool> {
    let form = ListForm { format: Format::Mcp, strict: false, deferral: Deferral::None };
    let list = list_as(form, tools.map(VisibleTool::to_listed));
    serde_json::from_str(list.tools.get()).unwrap_or_default()
}

fn search_tools() -> Vec<Tool> {
    let name = json!({"type": "string", "description": "The tool's name, as the search gave it."});
    let tool = |tool_name: &'static str, description: &'static str, properties: Value, required: &[&str]| {
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
        let annotations = ToolAnnotations::new().read_only(tool_name != CALL);
        Tool::new(tool_name, description, Arc::new(schema)).with_annotations(annotations)
    };
    vec![
        tool(
            FIND,
            "Finds tools for a task. Returns their names and descriptions.",
            json!({"query": {"type": "string", "description": "The task of the tool, in a few words."}}),
            &["query"],
        ),
        tool(DESCRIBE, "Describes a tool: its arguments and its result.", json!({"name": name}), &["name"]),
        tool(
            CALL,
            "Calls a tool that the search found.",
            json!({"name": name, "arguments": {"type": "object", "description": "The tool's arguments."}}),
            &["name"],
        ),
    ]
}
