//! Parser for a stream of server-sent events (WHATWG HTML, section 9.2) as the daemon writes them: a name and one
//! line of data.
//!
//! Keep-alive comments are skipped. A broken stream cannot be resumed: the daemon buffers no events, and missed ones
//! are in the audit log.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE as CONTENT_TYPE_HEADER;

use super::{ClientError, read};

pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// Limit of a line, far above the longest event, which names a call and contains no arguments and no results.
const LINE_BYTES: usize = 16 << 20;

/// Stream of server-sent events.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    /// Received bytes that are not parsed yet.
    come: Vec<u8>,
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The event name.
    pub event: String,
    /// The data, as JSON text.
    pub data: String,
}

impl Events {
    /// Returns the event stream of a response, or an error if its content type is another one.
    pub(super) async fn of(response: Response<Incoming>) -> Result<Self, ClientError> {
        let kind = response.headers().get(CONTENT_TYPE_HEADER).and_then(|kind| kind.to_str().ok());
        if response.status().is_success() && kind.is_some_and(|kind| kind.starts_with(CONTENT_TYPE)) {
            return Ok(Self { body: response.into_body(), come: Vec::new() });
        }
        let answer = read(response).await?;
        Err(ClientError::strange(answer.status, &answer.body))
    }

    /// Waits for the next event; `None` once the daemon has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        let mut told = Told::default();
        while let Some(line) = self.line().await? {
            match line.split_once(':').unwrap_or((&line, "")) {
                ("event", name) => told.event = value(name).to_owned(),
                ("data", data) if told.data.is_empty() => told.data = value(data).to_owned(),
                ("data", data) => told.data += &format!("\n{}", value(data)),
                // An empty line ends an event; an event without data is discarded.
                ("", _) if line.is_empty() && !told.data.is_empty() => return Ok(Some(told)),
                ("", _) if line.is_empty() => told = Told::default(),
                _ => {}
            }
        }
        Ok(None)
    }

    async fn line(&mut self) -> Result<Option<String>, ClientError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.come[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.come.drain(..=searched + end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()));
            }
            searched = self.come.len();
            if searched > LINE_BYTES {
                return Err(ClientError::strange(200, &self.come));
            }
            match self.more().await? {
                Some(bytes) => self.come.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    async fn more(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ClientError::Lost { reason: error.to_string() })?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

fn value(text: &str) -> &str {
    text.strip_prefix(' ').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Client;
    use super::super::testing::{Canned, FakeDaemon};
    use super::*;

    async fn follow(answer: Canned) -> Result<Vec<Told>, ClientError> {
        let daemon = FakeDaemon::start(vec![answer]).await;
        let client = Client::new(daemon.server(), None).expect("a client");
        let mut events = client.get("/v1/events").follow().await?;
        assert_eq!(daemon.asked()[0].header("accept"), Some("text/event-stream"));
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
        let event = |event: &str, data: &str| Told { event: event.into(), data: data.into() };
        assert_eq!(told, [event("tool_call", "{\"a\":1}"), event("", "x\ny")]);
    }

    #[tokio::test]
    async fn a_refusal_is_told_from_a_stream() {
        let refused = json!({"error_type": "NOT_FOUND", "detail": "there is no such session", "hint": "h"});
        let error = follow(Canned::json(404, refused)).await.expect_err("refused");
        assert_eq!(error.status(), Some(404));
        let error = follow(Canned::json(200, json!({}))).await.expect_err("no stream");
        assert!(matches!(error, ClientError::Strange { .. }), "{error:?}");
    }
}
