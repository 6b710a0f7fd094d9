//! Parser for a stream of server-sent events (WHATWG HTML, section 9.2) as the daemon writes them: a position, a name and
//! one line of data.
//!
//! Keep-alive comments are skipped, but the positions before them count. A broken stream is resumed with a request that
//! has the last position in `Last-Event-ID`.

use hyper::Response;
use hyper::body::Incoming;

use super::lines::LineStream;
use super::{BodyStream, ClientError};

pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// Stream of server-sent events.
#[derive(Debug)]
pub struct EventStream {
    lines: LineStream,
    last_id: Option<String>,
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event name.
    pub event: String,
    /// The data, as JSON text.
    pub data: String,
}

impl EventStream {
    /// Returns the event stream of a response, or an error if its content type is another one.
    pub(crate) async fn from_response(response: Response<Incoming>) -> Result<Self, ClientError> {
        let body = BodyStream::from_response(response, |kind| kind.starts_with(CONTENT_TYPE)).await?;
        Ok(Self { lines: LineStream::new(body), last_id: None })
    }

    /// Waits for the next event; `None` once the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        let mut event = SseEvent::default();
        while let Some(line) = self.lines.next().await? {
            match line.split_once(':').unwrap_or((&line, "")) {
                ("event", name) => event.event = value(name).to_owned(),
                ("id", id) => self.last_id = Some(value(id).to_owned()),
                ("data", data) if event.data.is_empty() => event.data = value(data).to_owned(),
                ("data", data) => event.data += &format!("\n{}", value(data)),
                // An empty line ends an event; an event without data is discarded.
                ("", _) if line.is_empty() && !event.data.is_empty() => return Ok(Some(event)),
                ("", _) if line.is_empty() => event = SseEvent::default(),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The position to resume at; `None` for a stream without positions.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }
}

fn value(text: &str) -> &str {
    text.strip_prefix(' ').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_api::error::{CallError, ErrorType};

    use super::super::Client;
    use super::super::testing::{Canned, FakeDaemon};
    use super::*;

    async fn follow(answer: Canned) -> Result<Vec<SseEvent>, ClientError> {
        let daemon = FakeDaemon::start(vec![answer]).await;
        let client = Client::new(daemon.server(), None, &crate::TlsFiles::default()).expect("a client");
        let mut events = client.get("/v1/events").follow().await?;
        assert_eq!(daemon.requests()[0].header("accept"), Some("text/event-stream"));
        let mut told = Vec::new();
        while let Some(event) = events.next().await? {
            told.push(event);
        }
        Ok(told)
    }

    fn stream(body: &str) -> Canned {
        Canned { content_type: "text/event-stream", body: body.into(), ..Canned::json(200, json!(null)) }
    }

    #[tokio::test]
    async fn events_are_told_and_comments_are_not() {
        let body = ": listening\n\nevent: tool_call\ndata: {\"a\":1}\n\n: alive\n\ndata: x\r\ndata:y\r\n\r\nevent: half";
        let told = follow(stream(body)).await.expect("events");
        let event = |event: &str, data: &str| SseEvent { event: event.into(), data: data.into() };
        assert_eq!(told, [event("tool_call", "{\"a\":1}"), event("", "x\ny")]);
    }

    #[tokio::test]
    async fn a_refusal_is_told_from_a_stream() {
        let refusal = CallError::new(ErrorType::NotFound, "there is no such session", "h");
        let error = follow(Canned::refusal(refusal)).await.expect_err("refused");
        assert_eq!(error.status(), Some(404));
        let error = follow(Canned::json(200, json!({}))).await.expect_err("no stream");
        assert!(matches!(error, ClientError::Unexpected { .. }), "{error:?}");
    }
}
