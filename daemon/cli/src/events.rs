//! `toolgate events`: prints the events of calls, one per line, until Ctrl-C or the end of the stream.
//!
//! A stream that breaks, or whose daemon restarts, is resumed after the last event. It is over when the daemon refuses
//! that: the session or the token has ended.

use std::time::Duration;

use clap::Args;
use tokio::time::{sleep, timeout};
use toolgate_api::event::{Event, EventProgress, EventsDropped, StreamEvent};

use super::failure::Result;
use super::print::{Printer, time_text};
use crate::client::{Client, ClientError, EventStream, RETRY_MAX, RETRY_MIN, SILENCE, SseEvent, escape};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate events                  of every organization
  toolgate events acme --json      a JSON document a line
  toolgate session events s_…      of one session";

#[derive(Args)]
pub struct EventsOptions {
    /// The organization [default: all]
    #[arg(value_name = "ORG")]
    organization: Option<String>,
}

pub(crate) async fn run(options: EventsOptions, client: &Client, printer: &mut Printer<'_>) -> Result {
    let path = match options.organization {
        Some(organization) => format!("/v1/orgs/{}/events", escape(&organization)),
        None => "/v1/events".to_owned(),
    };
    follow(client, printer, &path).await
}

/// Prints the events of a stream until it is over, and resumes it where its connection is lost.
pub(crate) async fn follow(client: &Client, printer: &mut Printer<'_>, path: &str) -> Result {
    let mut events = client.get(path).follow().await?;
    printer.note("listening; end with Ctrl-C")?;
    let mut last_id = None;
    loop {
        let ended = print_all(&mut events, printer).await?;
        last_id = events.last_id().map(str::to_owned).or(last_id);
        // A daemon that sends no positions cannot resume.
        if last_id.is_none() {
            ended?;
            break;
        }
        match reconnect(client, path, last_id.as_deref()).await {
            Ok(resumed) => events = resumed,
            Err(ClientError::Refused(_)) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(printer.note("the stream has ended: the session, the token or the daemon")?)
}

/// Prints events until the connection ends. Returns how it ended.
async fn print_all(events: &mut EventStream, printer: &mut Printer<'_>) -> Result<Result<(), ClientError>> {
    loop {
        match timeout(SILENCE, events.next()).await {
            Ok(Ok(Some(event))) => print(printer, &event)?,
            Ok(Ok(None)) => return Ok(Ok(())),
            Ok(Err(error @ ClientError::Lost { .. })) => return Ok(Err(error)),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Ok(Err(ClientError::Lost { reason: "the daemon is silent".into() })),
        }
    }
}

/// Connects again, with growing pauses while the daemon is away.
async fn reconnect(client: &Client, path: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
    let mut delay = Duration::ZERO;
    loop {
        sleep(delay).await;
        match client.get(path).resuming(last_id).follow().await {
            Err(error) if error.is_temporary() => delay = (delay * 2).clamp(RETRY_MIN, RETRY_MAX),
            connected => return connected,
        }
    }
}

fn print(printer: &mut Printer<'_>, event: &SseEvent) -> Result {
    if printer.is_json() {
        return Ok(printer.json_text(&event.data)?);
    }
    match serde_json::from_str(&event.data) {
        Ok(StreamEvent::Event(event)) => Ok(printer.line(&line(&event))?),
        Ok(StreamEvent::Dropped(EventsDropped { unknown: true, .. })) => Ok(printer.warning(
            "events are missing: the daemon no longer has those after the last one, see `audit search`",
        )?),
        Ok(StreamEvent::Dropped(EventsDropped { dropped, .. })) => {
            Ok(printer.warning(&format!("{dropped} events are missing: they were not read in time"))?)
        }
        Err(_) => Err(ClientError::unexpected_response(200, event.data.as_bytes()).into()),
    }
}

fn line(event: &Event) -> String {
    let Event { organization, agent, session, call, tool, .. } = event;
    let mut words = vec![
        time_text(event.at_ms),
        format!("{:<11}", event.event.as_str()),
        format!("{organization}/{agent}"),
        session.clone(),
        call.clone(),
        tool.clone(),
    ];
    words.extend(event.status.as_deref().map(str::to_owned));
    words.extend(event.error_type.map(|error_type| error_type.to_string()));
    words.extend(event.message.clone());
    if let Some(approval) = &event.approval {
        words.extend([approval.id.clone(), approval.state.as_str().to_owned()]);
    }
    words.extend(event.progress.as_ref().map(progress_text));
    words.extend(event.inbox.as_ref().map(|message| format!("{} from {}", message.id, message.from)));
    words.join("  ")
}

fn progress_text(progress: &EventProgress) -> String {
    let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = progress.message.as_ref().map(|message| format!("  {message}")).unwrap_or_default();
    format!("{}{total}{message}", progress.done)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;
    use toolgate_api::error::{CallError, ErrorType};

    async fn run_follow(json: bool, body: &str) -> Run {
        let stream =
            Canned { content_type: "text/event-stream", body: body.to_owned(), ..Canned::empty(200) };
        let acme = EventsOptions { organization: Some("acme".to_owned()) };
        run_with(vec![stream], json, async |client, printer| run(acme, client, printer).await).await
    }

    const STREAM: &str = ": listening\n\n\
        event: tool_error\ndata: {\"event\":\"tool_error\",\"at_ms\":0,\"organization\":\"acme\",\"agent\":\"bot\",\"session\":\"s_1\",\"call\":\"c1\",\"tool\":\"a/b\",\"status\":\"error\",\"error_type\":\"ACCESS_DENIED\",\"message\":\"no\u{202e}\"}\n\n\
        event: progress\ndata: {\"event\":\"progress\",\"at_ms\":0,\"organization\":\"acme\",\"agent\":\"bot\",\"session\":\"s_1\",\"call\":\"c1\",\"tool\":\"a/b\",\"progress\":{\"done\":2,\"total\":5,\"message\":\"on it\"}}\n\n\
        event: dropped\ndata: {\"dropped\":7}\n\n";

    #[tokio::test]
    async fn each_event_is_a_line() {
        let run = run_follow(false, STREAM).await;
        run.result.expect("followed to its end");
        assert_eq!(run.asked[0].line(), "GET /v1/orgs/acme/events");
        let lines: Vec<&str> = run.out.lines().collect();
        assert_eq!(
            lines,
            [
                "1970-01-01T00:00:00.000Z  tool_error   acme/bot  s_1  c1  a/b  error  ACCESS_DENIED  no\\u{202e}",
                "1970-01-01T00:00:00.000Z  progress     acme/bot  s_1  c1  a/b  2 of 5  on it",
            ]
        );
        assert!(run.notes.contains("warning: 7 events are missing"), "{}", run.notes);
    }

    #[tokio::test]
    async fn a_stream_that_ends_is_resumed_after_its_last_position_until_that_is_refused() {
        let stream = |body: &str| Canned {
            content_type: "text/event-stream",
            body: body.to_owned(),
            ..Canned::empty(200)
        };
        let answers = vec![
            stream("id: e_1-0\n: listening\n\nid: e_1-4\nevent: dropped\ndata: {\"dropped\":7}\n\n"),
            stream("id: e_2-0\nevent: dropped\ndata: {\"dropped\":0,\"unknown\":true}\n\n"),
            Canned::refusal(CallError::new(ErrorType::Expired, "the session has ended", "h")),
        ];
        let path = "/v1/sessions/s_1/events";
        let run = run_with(answers, false, async |client, printer| follow(client, printer, path).await).await;
        run.result.expect("followed to its end");
        let resumed: Vec<_> = run.asked.iter().map(|asked| asked.header("last-event-id")).collect();
        assert_eq!(resumed, [None, Some("e_1-4"), Some("e_2-0")]);
        for part in ["7 events are missing", "no longer has those after the last one", "the stream has ended"]
        {
            assert!(run.notes.contains(part), "{part}: {}", run.notes);
        }
    }

    #[tokio::test]
    async fn a_machine_gets_one_document_a_line() {
        let run = run_follow(true, STREAM).await;
        let events: Vec<serde_json::Value> =
            run.out.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
        assert_eq!(events.len(), 3);
        assert_eq!(events[0]["error_type"], "ACCESS_DENIED");
    }
}
