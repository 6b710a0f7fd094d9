//! `toolgate tool`: manages an organization's tools without code, from an HTTP API or an MCP server.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::call::CallUsage;
use toolgate_api::custom_tool::{ConsentRequest, CustomToolAccepted, CustomToolView, WaitingView};
use toolgate_api::name::derive_namespace;
use toolgate_api::plugin::CapabilitiesView;
use toolgate_api::test_call::{ExcerptView, ExchangeView, FieldView, TestCallRequest, TestCallView};

use super::arguments::OrganizationArgument;
use super::ask;
use super::client::{Client, escape};
use super::differences::leaves_at;
use super::document::{self, arguments_from, document_from};
use super::failure::{Failure, Result};
use super::history::{DocumentArguments, DocumentCommand, DocumentName, HistoryOptions, RollbackOptions};
use super::list;
use super::plugin::capabilities_text;
use super::plugin::grant::{self, GrantOptions};
use super::print::{Printer, cell, word};

pub const EXAMPLES: &str = "\
Examples:
  toolgate tool put acme/weather weather.json
  toolgate tool put acme weather.json                    named by its `display_name`
  toolgate tool try acme/weather/current '{\"city\": \"Paris\"}'
  toolgate tool try acme/weather/current '{\"city\": \"Paris\"}' --definition weather.json
  toolgate tool refresh acme/wiki
  toolgate tool approve acme/wiki sha256:…
  toolgate tool grant acme/weather hosts.json --add
  toolgate tool grant acme/weather --as-asked
  toolgate tool list acme
  toolgate tool history acme/weather
  toolgate tool rollback acme/weather
  toolgate tool show acme/weather
  toolgate tool remove acme/weather";

#[derive(Subcommand)]
pub enum ToolCommand {
    /// List the custom tools of an organization
    List(OrganizationArgument),
    /// Show the definition of a tool
    Show(ToolName),
    /// Create a tool, or replace it whole
    Put {
        /// `organization/namespace`, or only the organization: the namespace is then derived from the `display_name`
        name: String,
        /// A JSON file, or `-` for standard input
        file: String,
    },
    /// List the kept revisions of a tool's definition, or show one
    History(DocumentCommand<ToolName, HistoryOptions>),
    /// Return to an earlier revision of a tool's definition, after its differences are shown
    Rollback(DocumentCommand<ToolName, RollbackOptions>),
    /// Remove a tool
    Remove(ToolName),
    /// Fetch the current tools of a mounted server
    Refresh(ToolName),
    /// Consent to the current tools of a mounted server
    Approve {
        #[command(flatten)]
        tool: ToolName,
        /// The digest from `refresh`
        digest: String,
    },
    /// Replace the grant of a tool, which limits what its calls may reach; without a file, show the grant
    Grant {
        #[command(flatten)]
        tool: ToolName,
        #[command(flatten)]
        options: GrantOptions,
    },
    /// Run an action once, and show its requests and responses
    Try(TryOptions),
}

#[derive(Args)]
pub struct ToolName {
    /// `organization/namespace`
    name: String,
}

#[derive(Args)]
pub struct TryOptions {
    /// `organization/namespace/action`
    name: String,
    /// The arguments as JSON, `@FILE`, or `-` for standard input
    #[arg(default_value = "{}")]
    arguments: String,
    /// A file with a definition, which need not be saved
    #[arg(long, value_name = "FILE")]
    definition: Option<String>,
    /// The user on whose behalf the action runs
    #[arg(long)]
    user: Option<String>,
}

pub async fn run(command: ToolCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        ToolCommand::List(organization) => {
            list::all(client, printer, &organization.list_path("tools"), HEADINGS, row).await
        }
        ToolCommand::Show(ToolName { name }) => document::print(client, printer, &path(&name)?).await,
        ToolCommand::Put { name, file } => {
            let definition = document_from(&file)?;
            let path = if name.contains('/') { path(&name)? } else { path_for(&name, &definition)? };
            put(client, printer, &path, definition).await
        }
        ToolCommand::Remove(ToolName { name }) => {
            ask::before_removal(printer, &format!("tool `{name}`"))?;
            document::delete(client, &path(&name)?).await?;
            Ok(printer.result(&json!({"removed": name}), &format!("tool `{name}` is removed"))?)
        }
        ToolCommand::Refresh(ToolName { name }) => {
            let tool: CustomToolView = client.post(&format!("{}/refresh", path(&name)?)).send().await?.body;
            show(printer, &tool, &tool)
        }
        ToolCommand::Approve { tool: ToolName { name }, digest } => {
            let approve = client.post(&format!("{}/approve", path(&name)?)).json(&ConsentRequest { digest });
            let tool: CustomToolView = approve.send().await?.body;
            show(printer, &tool, &tool)
        }
        ToolCommand::Grant { tool, options } => {
            let (document, ToolName { name }) = (tool.grant()?, &tool);
            let asked = async || capabilities(client, name).await;
            grant::run(client, printer, &document, &format!("tool `{name}`"), &options, asked).await
        }
        ToolCommand::History(history) => history.show(client, printer).await,
        ToolCommand::Rollback(rollback) => rollback.roll_back(client, printer).await,
        ToolCommand::Try(options) => try_out(client, printer, &options.request()?).await,
    }
}

impl DocumentArguments for ToolName {
    fn document(&self) -> Result<DocumentName> {
        let (organization, namespace) = self.name.split_once('/').unwrap_or((&self.name, ""));
        Ok(DocumentName {
            kind: "tool",
            organization: Some(organization.to_owned()),
            name: Some(namespace.to_owned()),
            path: path(&self.name)?,
            label: format!("tool `{}`", self.name),
        })
    }
}

impl ToolName {
    fn grant(&self) -> Result<DocumentName> {
        let tool = self.document()?;
        let (path, label) = (format!("{}/grant", tool.path), format!("the grant of {}", tool.label));
        Ok(DocumentName { kind: "tool_grant", path, label, ..tool })
    }
}

/// The capabilities that a tool asks for.
async fn capabilities(client: &Client, name: &str) -> Result<CapabilitiesView> {
    let (organization, namespace) = name.split_once('/').unwrap_or((name, ""));
    let list = format!("/v1/orgs/{}/tools", escape(organization));
    let tools: Vec<CustomToolView> = client.list_all(&list).await?;
    let tool = tools.into_iter().find(|tool| tool.namespace == namespace);
    tool.map(|tool| tool.capabilities)
        .ok_or_else(|| Failure::new(format!("no tool `{name}`"), "`toolgate tool list` shows the tools"))
}

/// Creates or replaces the tool at a path.
pub async fn put(client: &Client, printer: &mut Printer<'_>, path: &str, definition: String) -> Result {
    let accepted: CustomToolAccepted =
        document::put(client, path, |_: Option<&IgnoredAny>| definition).await?.body;
    document::warn(printer, &accepted.warnings)?;
    show(printer, &accepted.tool, &accepted)
}

const HEADINGS: [&str; 6] = ["NAMESPACE", "KIND", "STATE", "ACTIONS", "WAITING", "PURPOSE"];

fn row(tool: &CustomToolView) -> [String; 6] {
    [
        tool.namespace.clone(),
        tool.kind.to_string(),
        word(&tool.state),
        tool.tools.len().to_string(),
        cell(tool.waiting.as_ref().map(|waiting| &waiting.digest)),
        cell(tool.purpose.as_ref()),
    ]
}

/// Prints a tool; with `--json`, the whole response.
fn show(printer: &mut Printer<'_>, tool: &CustomToolView, response: &impl Serialize) -> Result {
    for left in &tool.left_out {
        printer.warning(&format!("`{}` is left out: {}", left.name, left.why))?;
    }
    for note in &tool.notes {
        printer.note(&format!("`{}`: {}", note.about, note.text))?;
    }
    if let Some(waiting) = &tool.waiting {
        show_waiting(printer, waiting)?;
    }
    let actions: Vec<_> = tool.tools.iter().map(|action| action.wire_name.as_str()).collect();
    let (state, asks) = (word(&tool.state), capabilities_text(&tool.capabilities));
    let line = format!("{} is {state}: {}; asks for {asks}", tool.namespace, actions.join(", "));
    Ok(printer.result(response, &line)?)
}

/// Prints the tools that wait for consent, with all the text that a model would read: consent must be informed.
fn show_waiting(printer: &mut Printer<'_>, waiting: &WaitingView) -> Result {
    let changes = [("added", &waiting.added), ("removed", &waiting.removed), ("changed", &waiting.changed)];
    let changes: Vec<_> = changes
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(change, names)| format!("{change} {}", names.join(",")))
        .collect();
    printer.warning(&format!(
        "its server has something else now: {}; consent to it with `toolgate tool approve` and {}",
        if changes.is_empty() { "another revision of the protocol".to_owned() } else { changes.join(", ") },
        waiting.digest
    ))?;
    for left in &waiting.left_out {
        printer.warning(&format!("`{}` would be left out: {}", left.name, left.why))?;
    }
    for after in &waiting.tools {
        let name = after.get("name");
        let before = waiting.before.iter().find(|before| before.get("name") == name);
        printer.note(&format!("`{}` would be:", name.and_then(Value::as_str).unwrap_or("-")))?;
        let (before, after) = (before.map(leaves).unwrap_or_default(), leaves(after));
        let others = |all: &BTreeMap<String, String>, known: &BTreeMap<String, String>, mark: char| {
            let differs = all.iter().filter(|(place, value)| known.get(*place) != Some(value));
            differs.map(|(place, value)| format!("{mark} {place}: {value}")).collect::<Vec<_>>()
        };
        for line in others(&before, &after, '-').iter().chain(&others(&after, &before, '+')) {
            printer.note(&format!("  {line}"))?;
        }
    }
    Ok(())
}

fn leaves(value: &Value) -> BTreeMap<String, String> {
    leaves_at(value, |index| index.to_string(), BODY_CHARS).into_iter().collect()
}

impl TryOptions {
    fn request(&self) -> Result<TestCallRequest> {
        let Self { name, arguments, definition, user } = self;
        let no_action = || {
            Failure::wrong_usage(format!("`{name}` is no action"), "write `organization/namespace/action`")
        };
        let (organization, tool) = name.split_once('/').ok_or_else(no_action)?;
        let (namespace, action) = tool.split_once('/').ok_or_else(no_action)?;
        let raw = |text: String, what: &str| {
            RawValue::from_string(text.trim().to_owned())
                .map_err(|error| Failure::wrong_usage(format!("{what} not JSON: {error}"), "write `'{…}'`"))
        };
        let definition = definition.as_deref();
        let definition = definition.map(|file| raw(document_from(file)?, "the definition is")).transpose()?;
        Ok(TestCallRequest {
            organization: Some(organization.to_owned()),
            tool: if definition.is_some() { action } else { tool }.to_owned(),
            namespace: definition.is_some().then(|| namespace.to_owned()),
            arguments: Some(raw(arguments_from(arguments)?, "the arguments are")?),
            definition,
            user: user.clone(),
        })
    }
}

async fn try_out(client: &Client, printer: &mut Printer<'_>, request: &TestCallRequest) -> Result {
    let tried: TestCallView<'static> = client.post("/v1/try").json(request).send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&tried)?);
    }
    for exchange in &tried.requests {
        show_exchange(printer, exchange)?;
    }
    let CallUsage { fuel, memory_bytes, duration_us, host_calls, egress_bytes, .. } = tried.result.usage;
    // The line of `toolgate run`, with the bytes that were sent.
    printer.note(&format!(
        "used  {fuel} fuel, {} KiB of memory, {}.{:03} ms, {host_calls} calls of the host, {egress_bytes} bytes sent",
        memory_bytes / 1024,
        duration_us / 1000,
        duration_us % 1000
    ))?;
    match tried.result.error {
        None => Ok(printer.output(tried.result.output.as_deref())?),
        Some(error) => Err(Failure::new(format!("{}: {}", error.error_type, error.message), error.hint)),
    }
}

/// Limit of printed characters per response body; `--json` prints the whole body.
const BODY_CHARS: usize = 4_000;

/// Prints an exchange as HTTP: the request behind `>`, the response behind `<`, and before both the rule that allowed
/// it.
fn show_exchange(printer: &mut Printer<'_>, exchange: &ExchangeView) -> Result {
    let mut lines = Vec::new();
    if let Some(rule) = &exchange.rule {
        lines.push(format!("# by the rule {}", serde_json::to_string(rule).unwrap_or_default()));
    }
    lines.push(match &exchange.credential {
        Some(credential) => format!("# with the credential {credential}"),
        None => "# without a credential".to_owned(),
    });
    lines.push(format!("> {}", exchange.request));
    add_message(&mut lines, '>', &exchange.headers, &exchange.body);
    match (exchange.status, &exchange.failed) {
        (Some(status), _) => lines.push(format!("< {status}")),
        (None, failed) => lines.push(format!("< {}", cell(failed.as_ref()))),
    }
    add_message(&mut lines, '<', &exchange.answer_headers, &exchange.answer);
    for line in lines {
        printer.note(&line)?;
    }
    Ok(())
}

fn add_message(lines: &mut Vec<String>, mark: char, headers: &[FieldView], body: &ExcerptView) {
    lines.extend(headers.iter().map(|field| format!("{mark} {}: {}", field.name, field.value)));
    let shown: String = body.text.chars().take(BODY_CHARS).collect();
    lines.extend(shown.lines().map(|line| format!("{mark}   {line}")));
    if shown.len() as u64 != body.bytes {
        lines.push(format!("{mark}   … of {} bytes; `--json` shows more of what is text", body.bytes));
    }
}

/// Returns the path of the tool that a definition creates, from its display name (C1).
fn path_for(organization: &str, definition: &str) -> Result<String> {
    #[derive(Default, Deserialize)]
    struct Definition {
        display_name: Option<String>,
    }
    let definition: Definition = serde_json::from_str(definition).unwrap_or_default();
    let namespace = definition.display_name.as_deref().and_then(derive_namespace).ok_or_else(|| {
        let what = format!(
            "`{organization}` names no tool, and the definition has no `display_name` to make a name of"
        );
        Failure::wrong_usage(what, "write `organization/namespace`")
    })?;
    path(&format!("{organization}/{namespace}"))
}

/// Returns the path of `organization/namespace`.
pub fn path(name: &str) -> Result<String> {
    let parts = name.split_once('/').filter(|(_, namespace)| !namespace.contains('/'));
    let (organization, namespace) = parts.ok_or_else(|| {
        Failure::wrong_usage(format!("`{name}` is no tool"), "write `organization/namespace`")
    })?;
    Ok(format!("/v1/orgs/{}/tools/{}", escape(organization), escape(namespace)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: ToolCommand, answers: Vec<Canned>) -> Run {
        run_with(answers, false, async |client, printer| run(command, client, printer).await).await
    }

    fn wiki() -> Value {
        json!({"namespace": "wiki", "kind": "mcp", "state": "active", "purpose": "Pages",
            "version": "1", "digest": "sha256:cd", "publisher": null, "category": null, "reason": null,
            "tools": [{"name": "search", "wire_name": "call_wiki_search", "original_name": null,
                "description": "Finds.", "read_only": true}],
            "capabilities": {"filesystem": "none", "credentials": [],
                "network": [{"scheme": "https", "host": "wiki.example", "path": "/mcp"}]},
            "waiting": {
                "digest": "sha256:ab", "added": ["write"], "removed": [], "changed": ["search"],
                "tools": [
                    {"name": "search", "description": "Finds.", "inputSchema": {"properties": {"q": {"description": "Obey."}}}},
                    {"name": "write", "description": "Writes.\u{202e}"},
                ],
                "before": [
                    {"name": "search", "description": "Finds.", "inputSchema": {"properties": {"q": {"description": "Words."}}}},
                ],
                "left_out": [{"name": "Search", "why": "it becomes `search` too"}],
                "protocol": null,
            },
            "left_out": [{"name": "odd", "why": "its schema is none"}], "warnings": [],
            "notes": [{"about": "search", "text": "the pattern `^(?!a)` is left to the server"}]})
    }

    #[tokio::test]
    async fn m4_what_waits_for_consent_is_told_with_its_digest() {
        let command = ToolCommand::Refresh(ToolName { name: "acme/wiki".into() });
        let run = run_command(command, vec![Canned::json(200, wiki())]).await;
        run.result.expect("done");
        assert_eq!(run.asked[0].line(), "POST /v1/orgs/acme/tools/wiki/refresh");
        assert!(run.notes.contains("added write, changed search;"), "{}", run.notes);
        assert!(run.notes.contains("sha256:ab"), "{}", run.notes);
        for line in [
            "- /inputSchema/properties/q/description: \"Words.\"",
            "+ /inputSchema/properties/q/description: \"Obey.\"",
            "+ /description: \"Writes.\\u{202e}\"",
            "`Search` would be left out: it becomes `search` too",
        ] {
            assert!(run.notes.contains(line), "{line}: {}", run.notes);
        }
        assert!(!run.notes.contains("Finds."), "what stays is not repeated: {}", run.notes);
        assert!(run.notes.contains("`odd` is left out: its schema is none"), "{}", run.notes);
        assert!(run.notes.contains("`search`: the pattern `^(?!a)` is left to the server"), "{}", run.notes);
        assert_eq!(run.out, "wiki is active: call_wiki_search; asks for https://wiki.example/mcp\n");
    }

    #[tokio::test]
    async fn a_tool_is_shown_as_its_definition() {
        let definition = json!({"base_url": "https://a.example", "actions": []});
        let command = ToolCommand::Show(ToolName { name: "acme/weather".into() });
        let run = run_command(command, vec![Canned::json(200, definition.clone())]).await;
        run.result.expect("shown");
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), definition);
    }

    /// C1: the namespace is derived from the display name if none is given.
    #[tokio::test]
    async fn c1_a_tool_has_a_namespace_made_of_its_display_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, definition: &str| {
            let file = folder.path().join("it.json");
            std::fs::write(&file, definition).expect("written");
            ToolCommand::Put { name: name.into(), file: file.display().to_string() }
        };
        let named = r#"{"display_name":"Weather Service"}"#;
        for (name, namespace) in [("acme", "weather-service"), ("acme/wiki", "wiki")] {
            let answers = vec![Canned::empty(404), Canned::json(201, wiki())];
            let run = run_command(put(name, named), answers).await;
            run.result.expect("made");
            assert_eq!(run.asked[1].line(), format!("PUT /v1/orgs/acme/tools/{namespace}"));
        }
        for definition in ["{}", r#"{"display_name":"天気"}"#] {
            let run = run_command(put("acme", definition), vec![]).await;
            let failure = run.result.expect_err("refused");
            assert_eq!(failure.hint(), "write `organization/namespace`");
            assert!(run.asked.is_empty());
        }
    }

    /// The result of a call with these members.
    fn result(members: Value) -> Value {
        let mut result = json!({"id": "c_1", "tool": "weather/now", "tool_name": "weather", "action": "now", "executed": "yes",
            "text": "", "usage": {"fuel": 7, "memory_bytes": 0, "duration_us": 0, "host_calls": 0, "egress_bytes": 0,
                "output_bytes": 0, "log_bytes": 0}});
        result.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        result
    }

    fn trial(name: &str, arguments: &str) -> TryOptions {
        TryOptions { name: name.into(), arguments: arguments.into(), definition: None, user: None }
    }

    #[tokio::test]
    async fn c3_a_trial_is_shown_as_it_went() {
        let tried = json!({
            "result": result(json!({"status": "ok", "output": {"celsius": 11}})),
            "requests": [{"request": "GET https://a.example/now", "credential": null,
                "rule": {"scheme": "https", "host": "a.example"}, "headers": [{"name": "x-api-key", "value": "***"}],
                "body": {"text": "", "bytes": 0}, "status": 200, "answer_headers": [],
                "answer": {"text": "{\"celsius\":11}", "bytes": 14}, "failed": null}],
        });
        let command = ToolCommand::Try(trial("acme/weather/now", r#"{"city":"Paris","id":1.0e2}"#));
        let run = run_command(command, vec![Canned::json(200, tried)]).await;
        run.result.expect("done");
        let sent = &run.asked[0].body;
        assert!(sent.contains(r#""tool":"weather/now""#), "{sent}");
        assert!(sent.contains(r#""arguments":{"city":"Paris","id":1.0e2}"#), "{sent}");
        for line in [
            "# by the rule {\"scheme\":\"https\",\"host\":\"a.example\"}",
            "# without a credential",
            "used  7 fuel",
            "> GET https://a.example/now",
            "> x-api-key: ***",
            "< 200",
            "<   {\"celsius\":11}",
        ] {
            assert!(run.notes.contains(line), "{}", run.notes);
        }
        assert!(run.out.contains("11"), "{}", run.out);
    }

    #[tokio::test]
    async fn c3_a_trial_that_fails_is_a_failure() {
        let error =
            json!({"error_type": "NETWORK_DENIED", "message": "no", "hint": "ask", "retryable": false});
        let result = result(json!({"status": "error", "error": error}));
        let tried = json!({"result": result, "requests": []});
        let command = ToolCommand::Try(trial("acme/weather/now", "{}"));
        let run = run_command(command, vec![Canned::json(200, tried)]).await;
        assert!(run.result.expect_err("refused").to_string().contains("NETWORK_DENIED"));
    }

    #[test]
    fn a_name_that_is_none_is_told_how_to_be_one() {
        assert_eq!(path("acme/weather").ok().as_deref(), Some("/v1/orgs/acme/tools/weather"));
        for name in ["weather", "acme/weather/now"] {
            assert!(path(name).is_err(), "{name}");
        }
        assert!(trial("acme/weather", "{}").request().is_err());
    }
}
