//! `toolgate call`: makes one call of one tool, as an agent would.
//!
//! Without `--session` the command opens a session and ends it afterwards, which also deletes its files. If the call
//! waits for approval or for a client result, the session stays open, since ending it would cancel the call.

use clap::Args;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_api::call::{CallResult, CallStatus, NativeAnswer};
use toolgate_api::session::{SessionRequest, SessionView};

use super::arguments::AgentName;
use super::client::{Client, escape};
use super::document::arguments_from;
use super::failure::{Failure, Result};
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  toolgate call acme/bot arithmetic/evaluate '{\"expression\": \"6 * 7\"}'
  toolgate call acme/bot files/write @arguments.json --keep
  toolgate call --session s_… files/read '{\"path\": \"notes.txt\"}'";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "toolgate call [OPTIONS] ORG/AGENT TOOL [JSON]\n       toolgate call [OPTIONS] --session ID TOOL [JSON]")]
pub struct CallCommand {
    /// The agent (without --session), the tool, and its arguments: JSON, @FILE, or - for standard input
    #[arg(required = true, num_args = 1..=3, value_name = "WHAT")]
    what: Vec<String>,
    /// Make the call in this session instead of a new one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Keep the new session open, and print its id
    #[arg(long, conflicts_with = "session")]
    keep: bool,
    /// The user on whose behalf the agent acts
    #[arg(long, value_name = "TEXT", conflicts_with = "session")]
    user: Option<String>,
    /// The channel of the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "session")]
    channel: Option<String>,
}

pub(crate) async fn run(options: CallCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    let call = Call::read(&options)?;
    let Some(agent) = &call.agent else {
        let session = options.session.as_deref().unwrap_or_default();
        let answer = call.post(client, session).await?;
        return call.tell(&answer, session, printer);
    };
    let session = open(client, agent, &options).await?;
    let answer = call.post(client, &session).await;
    let is_pending = |answer: &NativeAnswer<'_>| {
        answer.results.iter().any(|result| !matches!(result.status, CallStatus::Ok | CallStatus::Error))
    };
    if options.keep || answer.as_ref().is_ok_and(is_pending) {
        printer.note(&format!("session `{session}` stays open; `toolgate session end {session}` ends it"))?;
        return call.tell(&answer?, &session, printer);
    }
    let ended = client.delete(&session_path(&session)).send::<IgnoredAny>().await;
    call.tell(&answer?, &session, printer)?;
    ended?;
    Ok(())
}

/// Parsed arguments of the command.
struct Call {
    /// `None` if `--session` is given, since the session has an agent.
    agent: Option<AgentName>,
    tool: String,
    arguments: Box<RawValue>,
}

impl Call {
    fn read(options: &CallCommand) -> Result<Self> {
        let mut words = options.what.iter();
        let agent = match options.session {
            Some(_) => None,
            None => words
                .next()
                .map(|text| text.parse().map_err(|why: String| wrong(&format!("`{text}` is no agent"), &why)))
                .transpose()?,
        };
        let (tool, arguments) = (words.next(), words.next());
        let tool =
            tool.ok_or_else(|| wrong("no tool is named", "name it like `files/read` or `call_files_read`"))?;
        if words.next().is_some() {
            return Err(wrong("there is a word too many", "quote the arguments for the shell: '{\"a\": 1}'"));
        }
        let arguments = arguments_from(arguments.map_or("{}", String::as_str))?;
        let arguments = RawValue::from_string(arguments).map_err(|error| {
            wrong(
                &format!("the arguments are not JSON: {error}"),
                "quote them for the shell: '{\"path\": \"notes.txt\"}'",
            )
        })?;
        Ok(Self { agent, tool: tool.clone(), arguments })
    }

    async fn post(&self, client: &Client, session: &str) -> Result<NativeAnswer<'static>> {
        // The body is built as text, so the tool receives the arguments byte for byte as given.
        let body = format!(r#"{{"calls":[{{"tool":{},"arguments":{}}}]}}"#, json!(self.tool), self.arguments);
        let post = client.post(&format!("{}/calls", session_path(session)));
        Ok(post.json_text(body).send().await?.body)
    }

    fn tell(&self, answer: &NativeAnswer<'_>, session: &str, printer: &mut Printer<'_>) -> Result {
        if printer.is_json() {
            printer.json(answer)?;
        }
        let [result] = answer.results.as_slice() else {
            return Err(Failure::new("the response does not have one result", "check `--server`"));
        };
        if result.status != CallStatus::Ok {
            return Err(self.failure_of(result, session, printer)?);
        }
        if !printer.is_json() {
            printer.output(result.output.as_deref())?;
            result.content.iter().try_for_each(|block| printer.block(block))?;
        }
        Ok(())
    }

    /// Returns why the call has no result, or no result yet.
    fn failure_of(
        &self,
        result: &CallResult<'_>,
        session: &str,
        printer: &mut Printer<'_>,
    ) -> Result<Failure> {
        if let Some(error) = &result.error {
            return Ok(Failure::new(format!("{}: {}", error.error_type, error.message), &*error.hint));
        }
        let call = &result.id;
        Ok(match result.status {
            CallStatus::ApprovalRequired => {
                let approval = result.approval.as_ref().map_or("-", |approval| &*approval.id);
                Failure::new(
                    format!("the call waits for a person: approval `{approval}`"),
                    format!(
                        "a person with another token, such as one from `toolgate token create --role owner`, runs `toolgate \
                         approval approve {approval}`; then make the call again with `toolgate call --session {session} {} '{}'`",
                        self.tool,
                        // Escapes single quotes for a POSIX shell.
                        self.arguments.get().replace('\'', r"'\''")
                    ),
                )
            }
            CallStatus::ClientRequired => {
                if !printer.is_json() {
                    printer.output(result.payload.as_deref())?;
                }
                Failure::new(
                    format!("the call `{call}` waits for what a client does with this payload"),
                    format!("hand it in with `toolgate session result {session} {call} '…'`"),
                )
            }
            status => Failure::new(
                format!("the call `{call}` has not ended: {}", status.as_str()),
                format!("ask with `toolgate session call {session} {call}`"),
            ),
        })
    }
}

async fn open(client: &Client, agent: &AgentName, options: &CallCommand) -> Result<String> {
    let request = SessionRequest {
        agent: agent.to_string(),
        user: options.user.clone(),
        conversation: None,
        channel: options.channel.clone(),
    };
    let session: SessionView = client.post("/v1/sessions").json(&request).send().await?.body;
    Ok(session.session)
}

fn wrong(message: &str, hint: &str) -> Failure {
    Failure::wrong_usage(message, hint)
}

fn session_path(session: &str) -> String {
    format!("/v1/sessions/{}", escape(session))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::testing::{Run, parse, run_with};
    use super::*;
    use crate::client::testing::Canned;
    use crate::remote::Connected;

    async fn call(words: &[&str], answers: Vec<Canned>) -> Run {
        let options: Connected<CallCommand> = parse(words);
        let json = options.remote.json;
        run_with(answers, json, async |client, printer| run(options.command, client, printer).await).await
    }

    fn session() -> Canned {
        Canned::json(
            201,
            json!({"session": "s_1", "agent": "acme/bot", "user": null, "conversation": null, "channel": null, "tools": [],
                "system_prompt": "", "expires_at": 0}),
        )
    }

    fn no_content() -> Canned {
        Canned::empty(204)
    }

    /// A response with one result that has these members.
    fn response_with(members: &Value) -> Canned {
        let mut result = json!({"id": "c_1", "tool": "sums/add", "tool_name": "sums", "action": "add", "executed": "no",
            "text": "", "usage": {"fuel": 0, "memory_bytes": 0, "duration_us": 0, "host_calls": 0, "egress_bytes": 0,
                "output_bytes": 0, "log_bytes": 0}});
        result.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        Canned::json(200, json!({"session": "s_1", "results": [result], "next": "model"}))
    }

    fn ok_response() -> Canned {
        response_with(&json!({"status": "ok", "output": {"value": 42}}))
    }

    #[tokio::test]
    async fn a_call_opens_a_session_and_ends_it() {
        let run = call(
            &["acme/bot", "sums/add", "{\"a\": 1.0, \"b\":2e0}"],
            vec![session(), ok_response(), no_content()],
        )
        .await;
        run.result.expect("done");
        let lines: Vec<_> = run.asked.iter().map(crate::client::testing::Asked::line).collect();
        assert_eq!(lines, ["POST /v1/sessions", "POST /v1/sessions/s_1/calls", "DELETE /v1/sessions/s_1"]);
        assert!(run.asked[0].body.contains(r#""agent":"acme/bot""#));
        assert_eq!(run.asked[1].body, r#"{"calls":[{"tool":"sums/add","arguments":{"a": 1.0, "b":2e0}}]}"#);
        assert_eq!(run.out, "{\n  \"value\": 42\n}\n");
    }

    #[tokio::test]
    async fn r11_the_blocks_beside_an_output_are_shown() {
        let content = json!([
            {"type": "text", "text": "one\ntwo\u{1b}[2J"}, {"type": "image", "data": "AAECAw==", "mime_type": "image/png"},
            {"type": "file", "path": "/workspace/a.pdf", "mime_type": "application/pdf"},
        ]);
        let answer = || response_with(&json!({"status": "ok", "output": 7, "content": content}));
        let run = call(&["--session", "s_9", "sums/add"], vec![answer()]).await;
        run.result.expect("done");
        let notes = "text  one\n      two\\u{1b}[2J\nimage image/png, 4 bytes; `--json` has its data\nfile  /workspace/a.pdf, application/pdf\n";
        assert_eq!((run.out.as_str(), run.notes.as_str()), ("7\n", notes));
        let run = call(&["--session", "s_9", "sums/add", "--json"], vec![answer()]).await;
        assert_eq!(run.notes, "", "a machine reads them in the answer");
    }

    #[tokio::test]
    async fn a_refused_call_fails_with_its_code_and_ends_the_session_as_well() {
        let error = json!({"status": "error", "error": {"error_type": "ACCESS_DENIED", "message": "Access denied.", "hint": "enable it", "retryable": false}});
        let run = call(&["acme/bot", "sums/add"], vec![session(), response_with(&error), no_content()]).await;
        let failure = run.result.expect_err("refused");
        assert_eq!(
            (failure.to_string().as_str(), failure.hint()),
            ("ACCESS_DENIED: Access denied.", "enable it")
        );
        assert_eq!((run.asked.len(), run.out.as_str()), (3, ""));
    }

    #[tokio::test]
    async fn a_call_that_waits_for_a_person_names_the_approval() {
        let waits = json!({"status": "approval_required", "approval": {"id": "a_1", "state": "pending", "expires_at": 0}});
        let arguments = r#"{"text": "it's"}"#;
        let run = call(&["--session", "s_9", "files/write", arguments], vec![response_with(&waits)]).await;
        let failure = run.result.expect_err("it has not run");
        assert_eq!(failure.to_string(), "the call waits for a person: approval `a_1`");
        assert!(failure.hint().contains("toolgate approval approve a_1"), "{}", failure.hint());
        assert!(
            failure.hint().ends_with(r#"`toolgate call --session s_9 files/write '{"text": "it'\''s"}'`"#),
            "{}",
            failure.hint()
        );
    }

    #[tokio::test]
    async fn a_session_in_which_a_call_waits_stays_open() {
        for status in ["approval_required", "client_required", "running"] {
            let waits = response_with(&json!({"status": status, "id": "c_1"}));
            let run = call(&["acme/bot", "files/write"], vec![session(), waits]).await;
            run.result.expect_err("it has not run");
            assert_eq!(run.asked.len(), 2, "{status}");
            assert!(run.notes.contains("session `s_1` stays open"), "{}", run.notes);
        }
    }

    #[tokio::test]
    async fn a_session_that_is_named_is_used_and_left_open() {
        let run = call(&["--session", "s_9", "sums/add"], vec![ok_response()]).await;
        run.result.expect("done");
        assert_eq!(run.asked.len(), 1);
        assert_eq!(run.asked[0].line(), "POST /v1/sessions/s_9/calls");
    }

    #[tokio::test]
    async fn a_session_that_is_kept_is_named() {
        let run =
            call(&["acme/bot", "sums/add", "--keep", "--user", "u"], vec![session(), ok_response()]).await;
        run.result.expect("done");
        assert_eq!(run.asked.len(), 2);
        assert!(run.asked[0].body.contains(r#""agent":"acme/bot","user":"u""#));
        assert_eq!(run.notes, "session `s_1` stays open; `toolgate session end s_1` ends it\n");
    }

    #[tokio::test]
    async fn the_whole_answer_is_for_machines() {
        let run = call(&["--session", "s_9", "sums/add", "--json"], vec![ok_response()]).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json")["next"], "model");
    }

    #[tokio::test]
    async fn arguments_come_from_a_file_byte_for_byte() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("arguments.json");
        std::fs::write(&file, "{\"a\":  1}").expect("written");
        let place = format!("@{}", file.display());
        let run = call(&["--session", "s_9", "sums/add", &place], vec![ok_response()]).await;
        run.result.expect("done");
        assert!(run.asked[0].body.contains("{\"a\":  1}"));
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_refused_before_anything_is_asked() {
        for words in [
            &["bot", "sums/add"][..],
            &["acme/bot"],
            &["acme/bot", "sums/add", "{a: 1}"],
            &["acme/bot", "sums/add", "@/no/such/file"],
            &["--session", "s_9", "sums/add", "{}", "more"],
        ] {
            let run = call(words, vec![]).await;
            run.result.expect_err("no sense");
            assert!(run.asked.is_empty(), "{words:?}");
        }
    }
}
