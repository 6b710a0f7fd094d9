//! `toolgate session`: opens, lists, shows and ends sessions and their calls, and enables or disables their tools.

mod files;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::call::CallResult;
use toolgate_api::session::{
    CallSummary, SelectRequest, SelectedTools, SessionRequest, SessionSummary, SessionView, ToolDefinition,
    ToolList, ToolSwitch,
};

use super::arguments::{AgentArgument, AgentName};
use super::audit::{When, now_ms};
use super::client::{Client, escape};
use super::document::{arguments_from, query};
use super::events;
use super::failure::Result;
use super::list;
use super::print::{Printer, cell, time_text, word};
use super::watch::{WatchOptions, repeat};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate session open acme/bot --user u-17 --channel webchat
  toolgate session list --agent acme/bot --state open
  toolgate session calls s_…
  toolgate session tools s_… --message 'please refund the last invoice'
  toolgate session tools s_… --format openai             as that provider takes them
  toolgate session disable s_… files/write
  toolgate session enable s_… files/write
  toolgate session call s_… c_…
  toolgate session cancel s_… c_…
  toolgate session result s_… c_… '{\"answer\": \"blue\"}'
  toolgate session result s_… c_… --failed 'nobody was there'
  toolgate session events s_… --json
  toolgate session files list s_…
  toolgate session files get s_… reports/june.csv > june.csv
  toolgate session files put s_… data/june.csv june.csv
  toolgate session files rm s_… data/june.csv
  toolgate session show s_…
  toolgate session end s_…";

/// Formats of a tool list.
const FORMATS: [&str; 6] = ["toolgate", "openai", "openai_responses", "anthropic", "gemini", "mcp"];

#[derive(Subcommand)]
pub enum SessionCommand {
    /// Open a session for an agent, and show its tools
    Open(Open),
    /// Show a session and its callable tools
    Show(SessionId),
    /// List sessions, newest first, with those that ended within a week
    List(Box<ListOptions>),
    /// List the calls of a session, newest first, also of one that has ended
    Calls(CallsOptions),
    /// List, read, write and remove the files of a session's workspace
    Files {
        #[command(subcommand)]
        command: files::FilesCommand,
    },
    /// End a session: its running calls are cancelled, its files deleted
    End(SessionId),
    /// List the callable tools, or those relevant to a message
    Tools(ToolsOptions),
    /// Disable a tool in a session
    Disable(SessionTool),
    /// Enable a tool again, also after the circuit breaker stopped it for repeated failures
    Enable(SessionTool),
    /// Show the state of a call
    Call(CallId),
    /// Cancel a call
    Cancel(CallId),
    /// Submit the client's result of a call that waits for it
    Result {
        #[command(flatten)]
        id: CallId,
        /// The output, as JSON, `@FILE`, or `-` for standard input
        #[arg(required_unless_present = "failed")]
        output: Option<String>,
        /// Report a failure instead, with its reason
        #[arg(long, value_name = "WHY", conflicts_with = "output")]
        failed: Option<String>,
    },
    /// Follow the events of a session's calls; ends with Ctrl-C
    Events(SessionId),
}

#[derive(Args)]
pub struct SessionId {
    /// The session
    id: String,
}

#[derive(Args)]
pub struct SessionTool {
    #[command(flatten)]
    session: SessionId,
    /// The tool, like `files/write`
    tool: String,
}

#[derive(Args)]
pub struct CallId {
    #[command(flatten)]
    session: SessionId,
    /// The call
    call: String,
}

#[derive(Args)]
pub struct CallsOptions {
    #[command(flatten)]
    session: SessionId,
    /// Rows per page, at most 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: Option<u32>,
    /// The cursor of the next page, from the page before
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    watch: WatchOptions,
}

#[derive(Args)]
pub struct ToolsOptions {
    #[command(flatten)]
    session: SessionId,
    /// The format of this provider
    #[arg(long, value_parser = PossibleValuesParser::new(FORMATS))]
    format: Option<String>,
    /// The strict form of the provider, where a schema can be said in it
    #[arg(long, requires = "format")]
    strict: bool,
    /// Only tools relevant to this message, with the reason
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

#[derive(Args)]
pub struct Open {
    #[command(flatten)]
    agent: AgentArgument,
    /// The user on whose behalf the agent acts
    #[arg(long, value_name = "TEXT")]
    user: Option<String>,
    /// The orchestrator's conversation
    #[arg(long, value_name = "TEXT")]
    conversation: Option<String>,
    /// The channel of the conversation
    #[arg(long, value_name = "TEXT")]
    channel: Option<String>,
}

impl Open {
    fn request(self) -> SessionRequest {
        let Self { agent: AgentArgument { agent }, user, conversation, channel } = self;
        SessionRequest { agent: agent.to_string(), user, conversation, channel }
    }
}

#[derive(Args)]
pub struct ListOptions {
    /// Only sessions of this organization
    #[arg(long, visible_alias = "org", value_name = "ORG", conflicts_with = "agent")]
    organization: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "ORG/AGENT")]
    agent: Option<AgentName>,
    /// Only open sessions, or only ended ones
    #[arg(long, value_parser = PossibleValuesParser::new(["open", "ended"]))]
    state: Option<String>,
    /// Only sessions of this conversation
    #[arg(long, value_name = "TEXT")]
    conversation: Option<String>,
    /// Only sessions on behalf of this user
    #[arg(long, value_name = "TEXT")]
    user: Option<String>,
    /// Only sessions opened at or after this time: an age like `2h` or `7d`, a time like `2026-11-26T08:00:00Z`, or
    /// milliseconds since 1970
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Only sessions opened before this time, in the same format
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// Rows per page, at most 1,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
    /// The cursor of the next page, from the page before
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    watch: WatchOptions,
}

impl ListOptions {
    fn path(&self) -> String {
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms()).to_string());
        let query = query(&[
            ("organization", self.organization.clone()),
            ("agent", self.agent.as_ref().map(ToString::to_string)),
            ("state", self.state.clone()),
            ("conversation", self.conversation.clone()),
            ("user", self.user.clone()),
            ("since_ms", time(self.since)),
            ("until_ms", time(self.until)),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("cursor", self.cursor.clone()),
        ]);
        format!("/v1/sessions{query}")
    }
}

impl SessionId {
    fn path(&self) -> String {
        format!("/v1/sessions/{}", escape(&self.id))
    }
}

impl CallId {
    fn path(&self) -> String {
        format!("{}/calls/{}", self.session.path(), escape(&self.call))
    }
}

impl CallsOptions {
    fn path(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        let query = query(&[("limit", limit.as_deref()), ("cursor", self.cursor.as_deref())]);
        format!("{}/calls{query}", self.session.path())
    }
}

impl ToolsOptions {
    fn query(&self) -> String {
        query(&[("format", self.format.as_deref()), ("strict", self.strict.then_some("true"))])
    }
}

pub(crate) async fn run(command: SessionCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        SessionCommand::Open(open) => {
            show(printer, &client.post("/v1/sessions").json(&open.request()).send().await?.body)
        }
        SessionCommand::Show(session) => show(printer, &client.get(&session.path()).send().await?.body),
        SessionCommand::List(options) => {
            let path = options.path();
            let list = async |printer: &mut Printer<'_>| {
                list::page(client, printer, &path, SESSION_HEADINGS, session_row).await
            };
            repeat(printer, options.watch, list).await
        }
        SessionCommand::Calls(options) => {
            let path = options.path();
            let list = async |printer: &mut Printer<'_>| {
                list::page(client, printer, &path, CALL_HEADINGS, call_row).await
            };
            repeat(printer, options.watch, list).await
        }
        SessionCommand::Files { command } => files::run(command, client, printer).await,
        SessionCommand::End(session) => {
            client.delete(&session.path()).send::<IgnoredAny>().await?;
            let line = format!("session `{}` has ended", session.id);
            Ok(printer.result(&json!({"ended": session.id}), &line)?)
        }
        SessionCommand::Tools(options) => match &options.message {
            None => list_tools(client, printer, &options).await,
            Some(message) => select_tools(client, printer, &options, message).await,
        },
        SessionCommand::Disable(tool) => switch(client, printer, &tool, true).await,
        SessionCommand::Enable(tool) => switch(client, printer, &tool, false).await,
        SessionCommand::Call(id) => {
            let result: CallResult<'static> = client.get(&id.path()).send().await?.body;
            Ok(printer.json(&result)?)
        }
        SessionCommand::Cancel(id) => {
            client.delete(&id.path()).send::<IgnoredAny>().await?;
            let line = format!("call `{}` is cancelled", id.call);
            Ok(printer.result(&json!({"cancelled": id.call}), &line)?)
        }
        SessionCommand::Result { id, output, failed } => submit(client, printer, &id, output, failed).await,
        SessionCommand::Events(session) => {
            events::follow(client, printer, &format!("{}/events", session.path())).await
        }
    }
}

/// Submits the result of a call: the client's output, or why it failed.
async fn submit(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &CallId,
    output: Option<String>,
    failed: Option<String>,
) -> Result {
    let body = match output {
        // The body is built as text, so the client's output stays byte for byte as given.
        Some(output) => format!(r#"{{"status":"ok","output":{}}}"#, arguments_from(&output)?),
        None => json!({"status": "error", "message": failed}).to_string(),
    };
    let post = client.post(&format!("{}/result", id.path())).json_text(body);
    let result: CallResult<'static> = post.send().await?.body;
    Ok(printer.json(&result)?)
}

fn show(printer: &mut Printer<'_>, session: &SessionView) -> Result {
    if printer.is_json() {
        return Ok(printer.json(session)?);
    }
    printer.fields(&[
        ("session", Some(session.session.clone())),
        ("agent", Some(session.agent.clone())),
        ("user", session.user.clone()),
        ("conversation", session.conversation.clone()),
        ("channel", session.channel.clone()),
        ("ends, unless used", Some(time_text(session.expires_at))),
    ])?;
    printer.line("")?;
    table(printer, &serde_json::from_str::<Vec<ToolDefinition>>(session.tools.get()).unwrap_or_default())
}

const SESSION_HEADINGS: [&str; 7] =
    ["OPENED", "SESSION", "STATE", "AGENT", "USER", "CONVERSATION", "LAST USED"];

fn session_row(session: &SessionSummary) -> [String; 7] {
    [
        time_text(session.created_at),
        session.session.clone(),
        word(&session.state),
        session.agent.clone(),
        cell(session.user.as_ref()),
        cell(session.conversation.as_ref()),
        time_text(session.last_used_at),
    ]
}

const CALL_HEADINGS: [&str; 5] = ["TIME", "CALL", "STATUS", "TOOL", "ERROR"];

fn call_row(call: &CallSummary) -> [String; 5] {
    let error = cell(call.error_type.as_ref());
    [time_text(call.created_at), call.id.clone(), word(&call.status), call.tool.clone(), error]
}

async fn list_tools(client: &Client, printer: &mut Printer<'_>, options: &ToolsOptions) -> Result {
    #[derive(serde::Deserialize, Serialize)]
    struct ToolgateTools {
        tools: Vec<ToolDefinition>,
    }
    let get = client.get(&format!("{}/tools{}", options.session.path(), options.query()));
    if options.format.is_some() {
        let list: ToolList = get.send().await?.body;
        return print_tools(printer, &list, &list.tools);
    }
    let list: ToolgateTools = get.send().await?.body;
    if printer.is_json() { Ok(printer.json(&list)?) } else { table(printer, &list.tools) }
}

async fn select_tools(
    client: &Client,
    printer: &mut Printer<'_>,
    options: &ToolsOptions,
    message: &str,
) -> Result {
    let request = SelectRequest { message: message.to_owned() };
    let post = client.post(&format!("{}/tools/select{}", options.session.path(), options.query()));
    let selected: SelectedTools = post.json(&request).send().await?.body;
    if printer.is_json() || options.format.is_some() {
        return print_tools(printer, &selected, &selected.tools);
    }
    let rows = selected.why.iter().map(|tool| {
        let reasons = if tool.why.is_empty() { "-".to_owned() } else { tool.why.join(", ") };
        [tool.name.clone(), reasons]
    });
    printer.table(["TOOL", "WHY"], &rows.collect::<Vec<_>>())?;
    let note = if selected.narrowed {
        "the others can still be called; they are only not shown"
    } else {
        "nothing was left out"
    };
    Ok(printer.note(note)?)
}

/// Prints tools in the format of a provider; with `--json`, the whole response.
fn print_tools(printer: &mut Printer<'_>, response: &impl Serialize, tools: &RawValue) -> Result {
    if printer.is_json() {
        return Ok(printer.json(response)?);
    }
    // Parsed, so that it is printed over several lines.
    let tools: Value = serde_json::from_str(tools.get()).unwrap_or_default();
    Ok(printer.json(&tools)?)
}

/// Prints tools, each with the first line of its description.
fn table(printer: &mut Printer<'_>, tools: &[ToolDefinition]) -> Result {
    let rows = tools.iter().map(|tool| {
        let approval = if tool.requires_approval { "needed" } else { "-" };
        let description = tool.description.lines().next().unwrap_or_default();
        [tool.name.clone(), tool.mode.clone(), approval.to_owned(), description.to_owned()]
    });
    Ok(printer.table(["TOOL", "ENDS AT", "APPROVAL", "WHAT IT DOES"], &rows.collect::<Vec<_>>())?)
}

async fn switch(client: &Client, printer: &mut Printer<'_>, tool: &SessionTool, disabled: bool) -> Result {
    let SessionTool { session, tool } = tool;
    let put = client.put(&format!("{}/tools/{}", session.path(), escape(tool)));
    put.json(&ToolSwitch { disabled }).send::<IgnoredAny>().await?;
    let state = if disabled { "disabled" } else { "enabled" };
    let set = json!({"session": session.id, "tool": tool, "disabled": disabled});
    Ok(printer.result(&set, &format!("`{tool}` is {state} in session `{}`", session.id))?)
}

#[cfg(test)]
mod tests {

    use super::super::testing::{Run, parse, run_with};
    use super::*;
    use crate::client::testing::Canned;
    use crate::remote::ConnectedGroup;

    async fn run_line(words: &[&str], answers: Vec<Canned>) -> Run {
        let options: ConnectedGroup<SessionCommand> = parse(words);
        let json = options.remote.json;
        run_with(answers, json, async |client, printer| run(options.command, client, printer).await).await
    }

    fn session_response() -> Canned {
        let tool = json!({"name": "call_files_write", "description": "Writes a file.\n\nMore.", "mode": "server", "requires_approval": true,
            "original_name": null, "input_schema": {}, "output_schema": null, "read_only": false});
        let session = json!({"session": "s_1", "agent": "acme/bot", "user": "u", "conversation": null, "channel": "sms",
            "tools": [tool], "system_prompt": "…", "expires_at": 0});
        Canned::json(201, session)
    }

    fn selection(narrowed: bool) -> Canned {
        let why = json!([{"name": "call_files_write", "why": ["always shown", "`file`"]}, {"name": "call_a_b", "why": []}]);
        Canned::json(
            200,
            json!({"tools": [{"type": "function"}], "why": why, "narrowed": narrowed, "system_prompt": ""}),
        )
    }

    #[tokio::test]
    async fn a_session_is_opened_with_its_labels_and_shown_with_its_tools() {
        let words = ["open", "acme/bot", "--user", "u", "--channel", "sms"];
        let run = run_line(&words, vec![session_response()]).await;
        run.result.expect("opened");
        assert_eq!(run.asked[0].line(), "POST /v1/sessions");
        let sent: Value = serde_json::from_str(&run.asked[0].body).expect("json");
        assert_eq!(sent, json!({"agent": "acme/bot", "user": "u", "conversation": null, "channel": "sms"}));
        assert!(run.out.starts_with("session            s_1\nagent              acme/bot\n"), "{}", run.out);
        assert!(run.out.ends_with("call_files_write  server   needed    Writes a file.\n"), "{}", run.out);
        assert!(!run.out.contains("conversation"), "{}", run.out);
    }

    #[tokio::test]
    async fn a_machine_gets_the_whole_session() {
        for words in [["open", "acme/bot", "--json"], ["show", "s_1", "--json"]] {
            let run = run_line(&words, vec![session_response()]).await;
            assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json")["system_prompt"], "…");
        }
    }

    #[tokio::test]
    async fn sessions_and_the_calls_of_one_are_listed() {
        let session = json!({"session": "s_1", "state": "open", "agent": "acme/bot", "user": null, "conversation": "t1",
            "channel": null, "opened_by": "ab", "rounds": 2, "created_at": 0, "last_used_at": 1_000, "ended_at": null});
        let page = Canned::json(200, json!({"items": [session], "next_cursor": "0.s_1"}));
        let words = [
            "list",
            "--agent",
            "acme/bot",
            "--state",
            "open",
            "--conversation",
            "t 1",
            "--since",
            "1970-01-01T00:00:01.000Z",
            "--limit",
            "1",
        ];
        let run = run_line(&words, vec![page]).await;
        run.result.expect("listed");
        let asked = "GET /v1/sessions?agent=acme%2Fbot&state=open&conversation=t%201&since_ms=1000&limit=1";
        assert_eq!(run.asked[0].line(), asked);
        for part in ["s_1", "open", "acme/bot", "t1", "1970-01-01T00:00:01.000Z"] {
            assert!(run.out.contains(part), "{part}: {}", run.out);
        }
        assert_eq!(run.notes, "there is more: add `--cursor 0.s_1`\n");

        let call = json!({"id": "c_1", "tool": "files/read", "name": "call_files_read", "parent": null, "status": "error",
            "error_type": "ACCESS_DENIED", "executed": "no", "created_at": 0, "ended_at": 5});
        let page = Canned::json(200, json!({"items": [call], "next_cursor": null}));
        let run = run_line(&["calls", "s_1"], vec![page]).await;
        run.result.expect("listed");
        assert_eq!(run.asked[0].line(), "GET /v1/sessions/s_1/calls");
        assert!(run.out.contains("c_1") && run.out.contains("ACCESS_DENIED"), "{}", run.out);
        assert_eq!(run.notes, "");
    }

    #[tokio::test]
    async fn a_session_is_ended() {
        let run = run_line(&["end", "s/1"], vec![Canned::empty(204)]).await;
        run.result.expect("ended");
        assert_eq!(run.asked[0].line(), "DELETE /v1/sessions/s%2F1");
        assert_eq!(run.out, "session `s/1` has ended\n");
    }

    #[tokio::test]
    async fn tools_in_a_providers_form_are_what_that_provider_takes() {
        let tools = Canned::json(200, json!({"tools": [{"type": "function"}]}));
        let run = run_line(&["tools", "s_1", "--format", "openai"], vec![tools]).await;
        run.result.expect("listed");
        assert_eq!(run.asked[0].line(), "GET /v1/sessions/s_1/tools?format=openai");
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json"), json!([{"type": "function"}]));
    }

    #[tokio::test]
    async fn tools_for_a_message_are_shown_with_the_reason_of_each() {
        let run = run_line(&["tools", "s_1", "--message", "write a file"], vec![selection(true)]).await;
        run.result.expect("selected");
        assert_eq!(run.asked[0].line(), "POST /v1/sessions/s_1/tools/select");
        assert_eq!(run.asked[0].body, r#"{"message":"write a file"}"#);
        assert_eq!(
            run.out,
            "TOOL              WHY\ncall_files_write  always shown, `file`\ncall_a_b          -\n"
        );
        assert!(run.notes.contains("can still be called"), "{}", run.notes);
        let run = run_line(&["tools", "s_1", "--message", "x"], vec![selection(false)]).await;
        assert_eq!(run.notes, "nothing was left out\n");
    }

    #[tokio::test]
    async fn a_tool_is_switched_off_and_on() {
        for (word, body, said) in [
            ("disable", r#"{"disabled":true}"#, "`files/write` is disabled in session `s_1`\n"),
            ("enable", r#"{"disabled":false}"#, "`files/write` is enabled in session `s_1`\n"),
        ] {
            let run = run_line(&[word, "s_1", "files/write"], vec![Canned::empty(204)]).await;
            run.result.expect("switched");
            assert_eq!(run.asked[0].line(), "PUT /v1/sessions/s_1/tools/files%2Fwrite");
            assert_eq!((run.asked[0].body.as_str(), run.out.as_str()), (body, said));
        }
    }

    #[tokio::test]
    async fn the_events_of_a_session_are_followed() {
        let stream = Canned { content_type: "text/event-stream", body: String::new(), ..Canned::empty(200) };
        let run = run_line(&["events", "s_1"], vec![stream]).await;
        run.result.expect("followed");
        assert_eq!(run.asked[0].line(), "GET /v1/sessions/s_1/events");
    }
}
