//! `toolgate session`: opens, lists, shows and ends sessions and their calls, and enables or disables their tools.

mod files;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_api::call::CallResult;
use toolgate_api::page::List;
use toolgate_api::session::{
    CallSummary, SelectRequest, SelectedTools, SessionRequest, SessionSummary, SessionView, ToolDefinition,
    ToolList, ToolSwitch,
};

use super::agent::{AgentName, parse_agent};
use super::audit::{When, now_ms};
use super::client::{Client, escape};
use super::document::{arguments_from, query};
use super::events;
use super::failure::Result;
use super::print::{Printer, time_text, word};
use super::watch::{WatchOptions, repeat};

pub const EXAMPLES: &str = "\
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
    Show {
        /// The session
        id: String,
    },
    /// List sessions, newest first, with those that ended within a week
    List(Box<ListOptions>),
    /// List the calls of a session, newest first, also of one that has ended
    Calls {
        /// The session
        id: String,
        /// Rows per page, at most 500
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: Option<u32>,
        /// The cursor of the next page, from the page before
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        watch: WatchOptions,
    },
    /// List, read, write and remove the files of a session's workspace
    Files {
        #[command(subcommand)]
        command: files::FilesCommand,
    },
    /// End a session: its running calls are cancelled, its files deleted
    End {
        /// The session
        id: String,
    },
    /// List the callable tools, or those relevant to a message
    Tools {
        /// The session
        id: String,
        /// The format of this provider
        #[arg(long, value_parser = PossibleValuesParser::new(FORMATS))]
        format: Option<String>,
        /// The strict form of the provider, where a schema can be said in it
        #[arg(long, requires = "format")]
        strict: bool,
        /// Only tools relevant to this message, with the reason
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
    },
    /// Disable a tool in a session
    Disable {
        /// The session
        id: String,
        /// The tool, like `files/write`
        tool: String,
    },
    /// Enable a tool again, also after the circuit breaker stopped it for repeated failures
    Enable {
        /// The session
        id: String,
        /// The tool, like `files/write`
        tool: String,
    },
    /// Show the state of a call
    Call {
        /// The session
        id: String,
        /// The call
        call: String,
    },
    /// Cancel a call
    Cancel {
        /// The session
        id: String,
        /// The call
        call: String,
    },
    /// Submit the client's result of a call that waits for it
    Result {
        /// The session
        id: String,
        /// The call
        call: String,
        /// The output, as JSON, `@FILE`, or `-` for standard input
        #[arg(required_unless_present = "failed")]
        output: Option<String>,
        /// Report a failure instead, with its reason
        #[arg(long, value_name = "WHY", conflicts_with = "output")]
        failed: Option<String>,
    },
    /// Follow the events of a session's calls; ends with Ctrl-C
    Events {
        /// The session
        id: String,
    },
}

#[derive(Args)]
pub struct Open {
    /// The agent
    #[arg(value_name = "ORG/AGENT", value_parser = parse_agent)]
    agent: AgentName,
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

#[derive(Args)]
pub struct ListOptions {
    /// Only sessions of this organization
    #[arg(long, value_name = "ORG", conflicts_with = "agent")]
    organization: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "ORG/AGENT", value_parser = parse_agent)]
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
        let agent = self.agent.as_ref().map(ToString::to_string);
        let limit = self.limit.map(|limit| limit.to_string());
        let time = |when: Option<When>| when.map(|when| when.ms(now_ms()).to_string());
        let (since, until) = (time(self.since), time(self.until));
        let query = query(&[
            ("organization", self.organization.as_deref()),
            ("agent", agent.as_deref()),
            ("state", self.state.as_deref()),
            ("conversation", self.conversation.as_deref()),
            ("user", self.user.as_deref()),
            ("since_ms", since.as_deref()),
            ("until_ms", until.as_deref()),
            ("limit", limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ]);
        format!("/v1/sessions{query}")
    }
}

pub async fn run(command: SessionCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        SessionCommand::Open(open) => {
            let request = SessionRequest {
                agent: open.agent.to_string(),
                user: open.user,
                conversation: open.conversation,
                channel: open.channel,
            };
            show(printer, &client.post("/v1/sessions").json(&request).send().await?.body)
        }
        SessionCommand::Show { id } => show(printer, &client.get(&path(&id)).send().await?.body),
        SessionCommand::List(options) => {
            let path = options.path();
            let list = async |printer: &mut Printer<'_>| list_sessions(client, printer, &path).await;
            repeat(printer, options.watch, list).await
        }
        SessionCommand::Calls { id, limit, cursor, watch } => {
            let limit = limit.map(|limit| limit.to_string());
            let query = query(&[("limit", limit.as_deref()), ("cursor", cursor.as_deref())]);
            let path = format!("{}/calls{query}", path(&id));
            let list = async |printer: &mut Printer<'_>| list_calls(client, printer, &path).await;
            repeat(printer, watch, list).await
        }
        SessionCommand::Files { command } => files::run(command, client, printer).await,
        SessionCommand::End { id } => {
            client.delete(&path(&id)).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"ended": id}), &format!("session `{id}` has ended"))?)
        }
        SessionCommand::Tools { id, format, strict, message: None } => {
            list(client, printer, &id, format, strict).await
        }
        SessionCommand::Tools { id, format, strict, message: Some(message) } => {
            select(client, printer, &id, format, strict, message).await
        }
        SessionCommand::Disable { id, tool } => switch(client, printer, &id, &tool, true).await,
        SessionCommand::Enable { id, tool } => switch(client, printer, &id, &tool, false).await,
        SessionCommand::Call { id, call } => {
            let result: CallResult<'static> = client.get(&call_path(&id, &call)).send().await?.body;
            Ok(printer.json(&result)?)
        }
        SessionCommand::Cancel { id, call } => {
            client.delete(&call_path(&id, &call)).send::<IgnoredAny>().await?;
            Ok(printer.result(&json!({"cancelled": call}), &format!("call `{call}` is cancelled"))?)
        }
        SessionCommand::Result { id, call, output, failed } => {
            let body = match (output, failed) {
                // The body is built as text, so the client's output stays byte for byte as given.
                (Some(output), _) => format!(r#"{{"status":"ok","output":{}}}"#, arguments_from(&output)?),
                (None, why) => json!({"status": "error", "message": why}).to_string(),
            };
            let post = client.post(&format!("{}/result", call_path(&id, &call)));
            let result: CallResult<'static> = post.json_text(body).send().await?.body;
            Ok(printer.json(&result)?)
        }
        SessionCommand::Events { id } => {
            events::follow(client, printer, &format!("{}/events", path(&id))).await
        }
    }
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

async fn list_sessions(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result {
    let page: List<SessionSummary> = client.get(path).send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&page)?);
    }
    let rows: Vec<_> = page.items.iter().map(session_row).collect();
    printer.table(["OPENED", "SESSION", "STATE", "AGENT", "USER", "CONVERSATION", "LAST USED"], &rows)?;
    note_more(printer, page.next_cursor)
}

fn session_row(session: &SessionSummary) -> [String; 7] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        time_text(session.created_at),
        session.session.clone(),
        word(&session.state),
        session.agent.clone(),
        or_dash(&session.user),
        or_dash(&session.conversation),
        time_text(session.last_used_at),
    ]
}

async fn list_calls(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result {
    let page: List<CallSummary> = client.get(path).send().await?.body;
    if printer.is_json() {
        return Ok(printer.json(&page)?);
    }
    let rows: Vec<_> = page.items.iter().map(call_row).collect();
    printer.table(["TIME", "CALL", "STATUS", "TOOL", "ERROR"], &rows)?;
    note_more(printer, page.next_cursor)
}

fn call_row(call: &CallSummary) -> [String; 5] {
    let error = call.error_type.clone().unwrap_or_else(|| "-".to_owned());
    [time_text(call.created_at), call.id.clone(), word(&call.status), call.tool.clone(), error]
}

fn note_more(printer: &mut Printer<'_>, next_cursor: Option<String>) -> Result {
    match next_cursor {
        Some(cursor) => Ok(printer.note(&format!("there is more: add `--cursor {cursor}`"))?),
        None => Ok(()),
    }
}

async fn list(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &str,
    format: Option<String>,
    strict: bool,
) -> Result {
    #[derive(serde::Deserialize, Serialize)]
    struct ToolgateTools {
        tools: Vec<ToolDefinition>,
    }
    let query = query(&[("format", format.as_deref()), ("strict", strict.then_some("true"))]);
    let get = client.get(&format!("{}/tools{query}", path(id)));
    if format.is_some() {
        let list: ToolList = get.send().await?.body;
        return Ok(if printer.is_json() {
            printer.json(&list)
        } else {
            printer.json(&tools_of(&list.tools))
        }?);
    }
    let list: ToolgateTools = get.send().await?.body;
    if printer.is_json() { Ok(printer.json(&list)?) } else { table(printer, &list.tools) }
}

async fn select(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &str,
    format: Option<String>,
    strict: bool,
    message: String,
) -> Result {
    let query = query(&[("format", format.as_deref()), ("strict", strict.then_some("true"))]);
    let post = client.post(&format!("{}/tools/select{query}", path(id)));
    let selected: SelectedTools = post.json(&SelectRequest { message }).send().await?.body;
    match (printer.is_json(), format) {
        (true, _) => return Ok(printer.json(&selected)?),
        (false, Some(_)) => return Ok(printer.json(&tools_of(&selected.tools))?),
        (false, None) => {}
    }
    let rows = selected.why.iter().map(|tool| {
        let reasons = if tool.why.is_empty() { "-".to_owned() } else { tool.why.join(", ") };
        [tool.name.clone(), reasons]
    });
    printer.table(["TOOL", "WHY"], &rows.collect::<Vec<_>>())?;
    Ok(printer.note(match selected.narrowed {
        true => "the others can still be called; they are only not shown",
        false => "nothing was left out",
    })?)
}

/// Returns the tools of a list as a value, which is printed over several lines.
fn tools_of(list: &RawValue) -> Value {
    serde_json::from_str(list.get()).unwrap_or_default()
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

async fn switch(client: &Client, printer: &mut Printer<'_>, id: &str, tool: &str, disabled: bool) -> Result {
    let put = client.put(&format!("{}/tools/{}", path(id), escape(tool)));
    put.json(&ToolSwitch { disabled }).send::<IgnoredAny>().await?;
    let state = if disabled { "disabled" } else { "enabled" };
    let set = json!({"session": id, "tool": tool, "disabled": disabled});
    Ok(printer.result(&set, &format!("`{tool}` is {state} in session `{id}`"))?)
}

fn call_path(id: &str, call: &str) -> String {
    format!("{}/calls/{}", path(id), escape(call))
}

fn path(id: &str) -> String {
    format!("/v1/sessions/{}", escape(id))
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
