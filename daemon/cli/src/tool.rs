//! `toolgate tool`: manages an organization's tools without code, from an HTTP API or an MCP server.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::document::{self, arguments_from, document_from, field};
use super::failure::Failure;
use super::organization::done;
use super::plugin::{asks, grant, show_grant, tools};
use super::print::Printer;
use super::remote::Remote;
use crate::client::{Client, escape};

const EXAMPLES: &str = "\
Examples:
  toolgate tool put acme/weather weather.json
  toolgate tool put acme weather.json                    named by its `display_name`
  toolgate tool try acme/weather/current '{\"city\": \"Paris\"}'
  toolgate tool try acme/weather/current '{\"city\": \"Paris\"}' --definition weather.json
  toolgate tool refresh acme/wiki
  toolgate tool approve acme/wiki sha256:…
  toolgate tool grant acme/weather hosts.json --add
  toolgate tool list acme
  toolgate tool show acme/weather
  toolgate tool remove acme/weather";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ToolOptions {
    #[command(flatten)]
    pub remote: Remote,
    #[command(subcommand)]
    pub command: ToolCommand,
}

#[derive(Subcommand)]
pub enum ToolCommand {
    /// List the custom tools of an organization
    List {
        /// The organization
        #[arg(value_name = "ORG")]
        organization: String,
    },
    /// Show the definition of a tool
    Show {
        /// `organization/namespace`
        name: String,
    },
    /// Create a tool, or replace it whole
    Put {
        /// `organization/namespace`, or only the organization: the namespace is then derived from the `display_name`
        name: String,
        /// A JSON file, or `-` for standard input
        file: String,
    },
    /// Remove a tool
    Remove {
        /// `organization/namespace`
        name: String,
    },
    /// Fetch the current tools of a mounted server
    Refresh {
        /// `organization/namespace`
        name: String,
    },
    /// Consent to the current tools of a mounted server
    Approve {
        /// `organization/namespace`
        name: String,
        /// The digest from `refresh`
        digest: String,
    },
    /// Replace the grant of a tool, which limits what its calls may reach; without a file, show the grant
    Grant {
        /// `organization/namespace`
        name: String,
        /// A JSON file, or `-` for standard input
        file: Option<String>,
        /// Add to the current grant instead of replacing it
        #[arg(long, requires = "file")]
        add: bool,
    },
    /// Run an action once, and show its requests and responses
    Try {
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
    },
}

pub async fn run(command: ToolCommand, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    match command {
        ToolCommand::List { organization } => list(client, printer, &organization).await,
        ToolCommand::Show { name } => {
            let answer = client.get(&path(&name)?).send::<Value>().await?;
            Ok(printer.json(&answer.body)?)
        }
        ToolCommand::Put { name, file } => {
            let definition = document_from(&file)?;
            let path = if name.contains('/') { path(&name)? } else { path_for(&name, &definition)? };
            put(client, printer, &path, definition).await
        }
        ToolCommand::Remove { name } => {
            document::delete(client, &path(&name)?).await?;
            done(printer, &json!({"removed": name}), &format!("tool `{name}` is removed"))
        }
        ToolCommand::Refresh { name } => {
            let answer = client.post(&format!("{}/refresh", path(&name)?)).send::<Value>().await?;
            show(printer, &answer.body)
        }
        ToolCommand::Approve { name, digest } => {
            let consent = json!({"digest": digest});
            let answer =
                client.post(&format!("{}/approve", path(&name)?)).json(&consent).send::<Value>().await?;
            show(printer, &answer.body)
        }
        ToolCommand::Grant { name, file: None, .. } => show_grant(client, printer, &path(&name)?).await,
        ToolCommand::Grant { name, file: Some(file), add } => {
            let answer = grant(client, printer, &path(&name)?, &file, add).await?;
            done(printer, &answer, &format!("tool `{name}` has its grant, for calls from now on"))
        }
        ToolCommand::Try { name, arguments, definition, user } => {
            let request = trial(&name, &arguments, definition.as_deref(), user.as_deref())?;
            try_out(client, printer, &request).await
        }
    }
}

/// Creates or replaces the tool at a path.
pub async fn put(
    client: &Client,
    printer: &mut Printer<'_>,
    path: &str,
    definition: String,
) -> Result<(), Failure> {
    let answer: Value = document::put(client, path, |_: Option<&IgnoredAny>| definition).await?.body;
    document::warn(printer, &answer)?;
    show(printer, &answer)
}

async fn list(client: &Client, printer: &mut Printer<'_>, organization: &str) -> Result<(), Failure> {
    let path = format!("/v1/orgs/{}/tools", escape(organization));
    let items = client.list_all::<Value>(&path).await?;
    if printer.is_json() {
        return Ok(printer.json(&json!({"items": items}))?);
    }
    let row = |tool: &Value| {
        let text = |pointer| field(tool, pointer);
        let actions = tools(tool).count().to_string();
        [
            text("/namespace"),
            text("/kind"),
            text("/state"),
            actions,
            text("/waiting/digest"),
            text("/purpose"),
        ]
    };
    let rows: Vec<_> = items.iter().map(row).collect();
    Ok(printer.table(["NAMESPACE", "KIND", "STATE", "ACTIONS", "WAITING", "PURPOSE"], &rows)?)
}

fn show(printer: &mut Printer<'_>, tool: &Value) -> Result<(), Failure> {
    let actions: Vec<_> = tools(tool).map(|action| field(action, "/wire_name")).collect();
    for left in tool.get("left_out").and_then(Value::as_array).into_iter().flatten() {
        printer.warning(&format!("`{}` is left out: {}", field(left, "/name"), field(left, "/why")))?;
    }
    if tool.get("waiting").is_some_and(Value::is_object) {
        waiting(printer, tool)?;
    }
    let (namespace, state) = (field(tool, "/namespace"), field(tool, "/state"));
    done(printer, tool, &format!("{namespace} is {state}: {}; asks for {}", actions.join(", "), asks(tool)))
}

/// Prints the tools that wait for consent, with all the text that a model would read: consent must be informed.
fn waiting(printer: &mut Printer<'_>, tool: &Value) -> Result<(), Failure> {
    let list = |name: &str| {
        tool.pointer(&format!("/waiting/{name}"))
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let named = ["added", "removed", "changed"].map(|name| (name, field(tool, &format!("/waiting/{name}"))));
    let named: Vec<String> = named
        .into_iter()
        .filter(|(_, names)| !matches!(names.as_str(), "" | "-"))
        .map(|(what, names)| format!("{what} {names}"))
        .collect();
    printer.warning(&format!(
        "its server has something else now: {}; consent to it with `toolgate tool approve` and {}",
        if named.is_empty() { "another revision of the protocol".to_owned() } else { named.join(", ") },
        field(tool, "/waiting/digest")
    ))?;
    for left in list("left_out") {
        printer.warning(&format!("`{}` would be left out: {}", field(left, "/name"), field(left, "/why")))?;
    }
    for after in list("tools") {
        let name = after.get("name");
        let before = list("before").iter().find(|before| before.get("name") == name);
        printer.note(&format!("`{}` would be:", field(after, "/name")))?;
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

/// Returns every scalar and empty container by its JSON pointer, with hidden characters escape.
fn leaves(value: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, place: String, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                members.iter().for_each(|(name, value)| walk(value, format!("{place}/{name}"), found));
            }
            Value::Array(items) if !items.is_empty() => {
                let items = items.iter().enumerate();
                items.for_each(|(at, value)| walk(value, format!("{place}/{at}"), found));
            }
            _ => drop(found.insert(place, toolgate_api::text::escape_for_display(&value.to_string(), SHOWN))),
        }
    }
    let mut found = BTreeMap::new();
    walk(value, String::new(), &mut found);
    found
}

/// Request body of a trial. The arguments are raw JSON and are never serialized again.
#[derive(Serialize)]
struct Trial<'a> {
    organization: &'a str,
    tool: &'a str,
    arguments: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

fn trial<'a>(
    name: &'a str,
    arguments: &str,
    definition: Option<&str>,
    user: Option<&'a str>,
) -> Result<Trial<'a>, Failure> {
    let unsound =
        || Failure::wrong_usage(format!("`{name}` is no action"), "write `organization/namespace/action`");
    let (organization, tool) = name.split_once('/').ok_or_else(unsound)?;
    let (namespace, action) = tool.split_once('/').ok_or_else(unsound)?;
    let raw = |text: String, what: &str| {
        RawValue::from_string(text)
            .map_err(|error| Failure::wrong_usage(format!("{what} not JSON: {error}"), "write `'{…}'`"))
    };
    let arguments = raw(arguments_from(arguments)?.trim().to_owned(), "the arguments are")?;
    let Some(file) = definition else {
        return Ok(Trial { organization, tool, arguments, namespace: None, definition: None, user });
    };
    let definition = raw(document_from(file)?.trim().to_owned(), "the definition is")?;
    Ok(Trial {
        organization,
        tool: action,
        arguments,
        namespace: Some(namespace),
        definition: Some(definition),
        user,
    })
}

async fn try_out(client: &Client, printer: &mut Printer<'_>, request: &Trial<'_>) -> Result<(), Failure> {
    let body = serde_json::to_string(request).unwrap_or_default();
    let tried = client.post("/v1/try").json_text(body).send::<Value>().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&tried)?);
    }
    for request in tried.get("requests").and_then(Value::as_array).into_iter().flatten() {
        exchange(printer, request)?;
    }
    let result = tried.get("result").cloned().unwrap_or_default();
    if let Some(usage) = result.get("usage").and_then(Value::as_object) {
        let used: Vec<String> = usage.iter().map(|(name, value)| format!("{name} {value}")).collect();
        printer.note(&format!("used: {}", used.join(", ")))?;
    }
    match result.get("error") {
        None => Ok(printer.json(result.get("output").unwrap_or(&Value::Null))?),
        Some(error) => {
            let message = format!("{}: {}", field(error, "/error_type"), field(error, "/message"));
            Err(Failure::new(message, field(error, "/hint")))
        }
    }
}

/// Limit of printed characters per response body; `--json` prints the whole body.
const SHOWN: usize = 4_000;

/// Prints an exchange as HTTP: the request behind `>`, the response behind `<`, and before both the rule that allowed
/// it.
fn exchange(printer: &mut Printer<'_>, exchange: &Value) -> Result<(), Failure> {
    let mut lines = Vec::new();
    if let Some(rule) = exchange.get("rule").filter(|rule| !rule.is_null()) {
        lines.push(format!("# by the rule {rule}"));
    }
    lines.push(match exchange.get("credential").and_then(Value::as_str) {
        Some(credential) => format!("# with the credential {credential}"),
        None => "# without a credential".to_owned(),
    });
    lines.push(format!("> {}", field(exchange, "/request")));
    message(&mut lines, '>', exchange, "headers", "body");
    match exchange.get("status").and_then(Value::as_u64) {
        Some(status) => lines.push(format!("< {status}")),
        None => lines.push(format!("< {}", field(exchange, "/failed"))),
    }
    message(&mut lines, '<', exchange, "answer_headers", "answer");
    for line in lines {
        printer.note(&line)?;
    }
    Ok(())
}

fn message(lines: &mut Vec<String>, mark: char, exchange: &Value, head: &str, body: &str) {
    for part in exchange.get(head).and_then(Value::as_array).into_iter().flatten() {
        lines.push(format!("{mark} {}: {}", field(part, "/name"), field(part, "/value")));
    }
    let text = exchange.pointer(&format!("/{body}/text")).and_then(Value::as_str).unwrap_or_default();
    let shown: String = text.chars().take(SHOWN).collect();
    lines.extend(shown.lines().map(|line| format!("{mark}   {line}")));
    let bytes = exchange.pointer(&format!("/{body}/bytes")).and_then(Value::as_u64).unwrap_or_default();
    if shown.len() as u64 != bytes {
        lines.push(format!("{mark}   … of {bytes} bytes; `--json` shows more of what is text"));
    }
}

/// Returns the path of the tool that a definition creates, from its display name (C1).
fn path_for(organization: &str, definition: &str) -> Result<String, Failure> {
    let definition: Value = serde_json::from_str(definition).unwrap_or_default();
    let display_name = definition.get("display_name").and_then(Value::as_str);
    let namespace = display_name.and_then(toolgate_api::name::derive_namespace).ok_or_else(|| {
        let what = format!(
            "`{organization}` names no tool, and the definition has no `display_name` to make a name of"
        );
        Failure::wrong_usage(what, "write `organization/namespace`")
    })?;
    path(&format!("{organization}/{namespace}"))
}

/// Returns the path of `organization/namespace`.
pub fn path(name: &str) -> Result<String, Failure> {
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
            "tools": [{"wire_name": "call_wiki_search"}],
            "capabilities": {"network": [{"host": "wiki.example", "path": "/mcp"}]},
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
            },
            "left_out": [{"name": "odd", "why": "its schema is none"}]})
    }

    #[tokio::test]
    async fn m4_what_waits_for_consent_is_told_with_its_digest() {
        let command = ToolCommand::Refresh { name: "acme/wiki".into() };
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
        assert_eq!(run.out, "wiki is active: call_wiki_search; asks for https://wiki.example/mcp\n");
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

    #[tokio::test]
    async fn c3_a_trial_is_shown_as_it_went() {
        let tried = json!({
            "result": {"status": "ok", "output": {"celsius": 11}, "usage": {"fuel": 7}},
            "requests": [{"request": "GET https://a.example/now", "rule": {"host": "a.example"}, "headers": [{"name": "x-api-key", "value": "***"}],
                "body": {"text": "", "bytes": 0}, "status": 200, "answer_headers": [],
                "answer": {"text": "{\"celsius\":11}", "bytes": 14}, "failed": null}],
        });
        let command = ToolCommand::Try {
            name: "acme/weather/now".into(),
            arguments: r#"{"city":"Paris","id":1.0e2}"#.into(),
            definition: None,
            user: None,
        };
        let run = run_command(command, vec![Canned::json(200, tried)]).await;
        run.result.expect("done");
        let sent = r#"{"organization":"acme","tool":"weather/now","arguments":{"city":"Paris","id":1.0e2}}"#;
        assert_eq!(run.asked[0].body, sent);
        for line in [
            "# by the rule {\"host\":\"a.example\"}",
            "# without a credential",
            "used: fuel 7",
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
        let error = json!({"error_type": "NETWORK_DENIED", "message": "no", "hint": "ask"});
        let tried = json!({"result": {"status": "error", "error": error}, "requests": []});
        let command = ToolCommand::Try {
            name: "acme/weather/now".into(),
            arguments: "{}".into(),
            definition: None,
            user: None,
        };
        let run = run_command(command, vec![Canned::json(200, tried)]).await;
        assert!(run.result.expect_err("refused").to_string().contains("NETWORK_DENIED"));
    }

    #[test]
    fn a_name_that_is_none_is_told_how_to_be_one() {
        assert_eq!(path("acme/weather").ok().as_deref(), Some("/v1/orgs/acme/tools/weather"));
        for name in ["weather", "acme/weather/now"] {
            assert!(path(name).is_err(), "{name}");
        }
        assert!(trial("acme/weather", "{}", None, None).is_err());
    }
}
