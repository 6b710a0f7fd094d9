//! One message to the server, and what it answers: JSON, or a stream of events with the answer among them.
//!
//! While a server of the older family answers, it may ask back (for a model's text, a person's input, files). Nothing of
//! that is offered, so each such question is answered with an error, and the call goes on. It may also close a stream of
//! events before the answer, which is then resumed by GET with `Last-Event-ID` (2025-11-25, Transports).

use std::time::Duration;

use serde::Serialize;
use toolgate_api::json::parse_lenient;
use toolgate_sdk::http::{self, Response, Unavailable};
use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Context, Level};

use crate::failure::{Explained, Failure, excerpt, read_failure};
use crate::stream::{EventKind, Events, Form, Position};
use crate::text::display;

/// Bytes that are read of one answer. As values JSON takes several times its length, and a call has 64 MiB by default.
pub const ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Questions of a server during one answer. A call may send 32 requests, and needs some itself.
const QUESTIONS: usize = 8;
/// How often one answer is resumed, within the same 32 requests.
const RESUMPTIONS: usize = 12;
/// Pause before a stream is resumed, unless the server sets another, and the longest that is waited.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Kept of the call's time, to say what happened before the call is stopped.
const LAST_WORD: Duration = Duration::from_millis(250);
/// The least that is waited for: with less left, the call's own deadline ends it.
const LEAST_WAIT: Duration = Duration::from_millis(50);

/// The notification that tells how far a request is, and the longest text in it that is passed on.
const PROGRESS: &str = "notifications/progress";
const PROGRESS_CHARS: usize = 200;
/// The question that says only "are you there".
pub const PING: &str = "ping";
/// The code of a method that is not offered.
const METHOD_NOT_FOUND: i64 = -32601;

/// The header field with the id of a session.
pub const SESSION_FIELD: &str = "mcp-session-id";

/// A server, and the call in which it is asked.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    pub url: &'a str,
    pub headers: &'a [(String, String)],
    pub context: &'a Context,
}

/// A request of JSON-RPC, or a notification where it has no id.
#[derive(Serialize)]
pub struct Message<P> {
    pub jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    pub method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<P>,
}

/// Header fields beside those of the definition.
pub type Fields<'a> = [(&'a str, String)];

impl Server<'_> {
    /// The host as messages name it.
    pub fn host(&self) -> &str {
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        rest.split('/').next().unwrap_or_default()
    }

    /// Sends a request, and gives its result and the head of the answer.
    pub fn ask<P: Serialize>(
        &self,
        fields: &Fields<'_>,
        message: &Message<P>,
    ) -> Result<(Value, Head), Failure> {
        let response = self.post(fields, message)?;
        let head = Head { session: response.header(SESSION_FIELD).map(str::to_owned) };
        let mut fields = fields.to_vec();
        if let Some(session) = &head.session
            && fields.iter().all(|(name, _)| *name != SESSION_FIELD)
        {
            fields.push((SESSION_FIELD, session.clone()));
        }
        let asked = message.id.unwrap_or_default();
        let mut answer = Answer { server: self, fields: &fields, asked, questions: 0 };
        Ok((answer.read(response)?, head))
    }

    /// Sends a request whose answer comes by a stream that is open already.
    pub fn ask_by_events<P: Serialize>(
        &self,
        message: &Message<P>,
        events: &mut Events<impl std::io::Read>,
    ) -> Result<Value, Failure> {
        let status = self.post(&[], message)?.status();
        let asked = message.id.unwrap_or_default();
        let mut answer = Answer { server: self, fields: &[], asked, questions: 0 };
        let result = answer.read_events(status, events)?;
        result.ok_or_else(|| Failure::Unreadable("the stream ended before the answer came".to_owned()))
    }

    /// Opens a stream of events.
    pub fn stream(&self) -> Result<Response, Failure> {
        let request = self.with_headers(http::get(self.url), &[]).header("accept", "text/event-stream");
        Ok(request.timeout(self.time_left()).send()?)
    }

    /// Sends a notification, which has no answer.
    pub fn tell<P: Serialize>(&self, fields: &Fields<'_>, message: &Message<P>) -> Result<(), Failure> {
        self.post(fields, message).map(drop)
    }

    /// Ends what the fields name. Whether that works is of no matter for what was done.
    pub fn delete(&self, fields: &Fields<'_>, patience: Duration) -> Result<(), http::Error> {
        let request = self.with_headers(http::delete(self.url), fields);
        request.timeout(self.time_left().min(patience)).send().map(drop)
    }

    fn post(&self, fields: &Fields<'_>, message: &impl Serialize) -> Result<Response, Failure> {
        let request = self.with_headers(http::post(self.url).json(message), fields);
        let request = request.header("accept", "application/json, text/event-stream");
        let response = request.timeout(self.time_left()).send()?;
        if response.is_success() { Ok(response) } else { Err(read_failure(response)) }
    }

    fn with_headers(&self, request: http::Request, fields: &Fields<'_>) -> http::Request {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value));
        let all = own.chain(fields.iter().map(|(name, value)| (*name, value)));
        all.fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Half the time left, so that an answer is there in time.
    pub fn patience_ms(&self) -> u64 {
        u64::try_from(self.time_left().as_millis() / 2).unwrap_or(u64::MAX)
    }

    fn time_left(&self) -> Duration {
        self.context.time_left().saturating_sub(LAST_WORD).max(LEAST_WAIT)
    }

    /// The messages of a body or an event: one, or the batch of 2025-03-26. None where it is no message.
    fn messages(&self, bytes: &[u8]) -> Option<Vec<Value>> {
        let (value, replaced) = parse_lenient(bytes).ok()?;
        if replaced > 0 {
            let message = "the server cut characters in two: each half became U+FFFD";
            self.context.log(Level::Warn, "surrogates_replaced", message, &[("count", &replaced)]);
        }
        let messages = match value {
            Value::Array(batch) => batch,
            message => vec![message],
        };
        Some(messages).filter(|messages| !messages.is_empty() && messages.iter().all(Value::is_object))
    }
}

/// The head of an answer.
pub struct Head {
    pub session: Option<String>,
}

/// The answer to one request, while it is read.
struct Answer<'a> {
    server: &'a Server<'a>,
    fields: &'a Fields<'a>,
    asked: u32,
    questions: usize,
}

impl Answer<'_> {
    fn read(&mut self, mut response: Response) -> Result<Value, Failure> {
        let mut position = Position::default();
        for resumptions in 0..=RESUMPTIONS {
            if let Some(result) = self.read_body(response, &mut position)? {
                return Ok(result);
            }
            let Some(id) = position.id.as_ref().filter(|_| resumptions < RESUMPTIONS) else { break };
            let pause = position.retry.unwrap_or(PAUSE).min(LONGEST_PAUSE);
            #[allow(clippy::disallowed_methods, reason = "the server says how long to wait")]
            std::thread::sleep(pause.min(self.server.time_left()));
            response = self.resume(id)?;
        }
        Err(Failure::Unreadable("the stream ended before the answer came".to_owned()))
    }

    /// Asks for what comes after an event. The request itself is not repeated: the tool may have run.
    fn resume(&self, id: &str) -> Result<Response, Failure> {
        let request = self.server.with_headers(http::get(self.server.url), self.fields);
        let request = request.header("accept", "text/event-stream").header("last-event-id", id);
        let response = request.timeout(self.server.time_left()).send()?;
        match response.status() {
            200..=299 => Ok(response),
            status => Err(Failure::Unreadable(format!(
                "the stream ended before the answer came, and the server does not resume it (status {status})"
            ))),
        }
    }

    /// Reads one body; none where a stream ends or breaks before the answer, and can be resumed or had no fault.
    fn read_body(&mut self, response: Response, position: &mut Position) -> Result<Option<Value>, Failure> {
        let status = response.status();
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        let mut body = Events::new(response.into_reader());
        let form = body.form()?;
        let is_stream = content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        match form {
            Form::Json => {
                let bytes = body.rest()?;
                let messages = self.server.messages(bytes);
                let messages = messages.ok_or_else(|| no_message(status, &content_type, bytes))?;
                let result = self.receive(status, messages)?;
                let no_answer = || Failure::Unreadable("it is no answer to this request".to_owned());
                result.ok_or_else(no_answer).map(Some)
            }
            Form::Other | Form::Empty if !is_stream => Err(no_message(status, &content_type, body.rest()?)),
            _ => {
                let result = self.read_events(status, &mut body);
                position.id = body.position.id.or(position.id.take());
                position.retry = body.position.retry.or(position.retry);
                match result {
                    Err(Failure::Http(http::Error::Unavailable { why: Unavailable::Broken, .. }))
                        if position.id.is_some() =>
                    {
                        Ok(None)
                    }
                    result => result,
                }
            }
        }
    }

    fn read_events(
        &mut self,
        status: u16,
        events: &mut Events<impl std::io::Read>,
    ) -> Result<Option<Value>, Failure> {
        while let Some(event) = events.next()? {
            match self.server.messages(event.data.as_bytes()) {
                Some(messages) => {
                    if let Some(result) = self.receive(status, messages)? {
                        return Ok(Some(result));
                    }
                }
                None if event.kind == EventKind::Message => {
                    return Err(no_message(status, "text/event-stream", event.data.as_bytes()));
                }
                // Other events carry what they like.
                None => {}
            }
        }
        Ok(None)
    }

    /// Takes messages in their order, up to the answer.
    fn receive(&mut self, status: u16, messages: Vec<Value>) -> Result<Option<Value>, Failure> {
        for message in messages {
            match Received::read(self.asked, status, message) {
                Received::Answer(result) => return result.map(Some).map_err(Failure::Explained),
                Received::Question { id, method } if self.questions < QUESTIONS => {
                    self.questions += 1;
                    self.decline(id, &method);
                }
                Received::Question { .. } => {
                    return Err(Failure::Unreadable(format!("it asks back more than {QUESTIONS} times")));
                }
                Received::Progress(progress) => self.tell(&progress),
                Received::Other => {}
            }
        }
        Ok(None)
    }

    /// Passes on how far the server is.
    fn tell(&self, progress: &Value) {
        let [done, total] = ["progress", "total"].map(|name| progress.get(name));
        // Fractions, as of 1, are told in hundredths.
        let has_fraction = |number: &Value| number.as_f64().is_some_and(|number| number.fract() != 0.0);
        let scale = if [done, total].into_iter().flatten().any(has_fraction) { 100.0 } else { 1.0 };
        let whole = |number: &Value| format!("{:.0}", number.as_f64()? * scale).parse::<u64>().ok();
        let message =
            progress.get("message").and_then(Value::as_str).map(|text| display(text, PROGRESS_CHARS));
        if let Some(done) = done.and_then(whole) {
            self.server.context.progress(done, total.and_then(whole), message.as_deref());
        }
    }

    /// Answers a question of the server. Whether it hears is its own matter.
    fn decline(&self, id: Value, method: &str) {
        let answer = match method {
            PING => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                let error = json!({"code": METHOD_NOT_FOUND, "message": "the client cannot be asked back during a call"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        let _ = self.server.post(self.fields, &answer);
    }
}

/// One message of the server.
enum Received {
    Answer(Result<Value, Explained>),
    Question {
        id: Value,
        method: String,
    },
    /// How far the request is.
    Progress(Value),
    /// Another notification, or what belongs to another request.
    Other,
}

impl Received {
    fn read(asked: u32, status: u16, mut message: Value) -> Self {
        let id = message["id"].take();
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let progress = &message["params"];
            if method == PROGRESS && is_same_id(&progress["progressToken"], asked) {
                return Self::Progress(message["params"].take());
            }
            return match id {
                Value::Null => Self::Other,
                id => Self::Question { id, method: method.to_owned() },
            };
        }
        // Without an id it is about a request whose id could not be read: there is only this one.
        let is_ours = id.is_null() || is_same_id(&id, asked);
        match (Explained::read(&mut message, status), message.get_mut("result")) {
            (Some(told), _) if is_ours => Self::Answer(Err(told)),
            (None, Some(result)) if is_ours => Self::Answer(Ok(result.take())),
            _ => Self::Other,
        }
    }
}

/// Whether an answer repeats the id of the request. Some servers make a text or a fraction of a number.
fn is_same_id(id: &Value, asked: u32) -> bool {
    let number = match id {
        Value::String(text) => text.trim().parse().ok(),
        id => id.as_f64(),
    };
    number == Some(f64::from(asked))
}

/// What came in place of a message: its kind, and how it begins or the title of a page.
fn no_message(status: u16, content_type: &str, bytes: &[u8]) -> Failure {
    let kind = match content_type.split(';').next().unwrap_or_default().trim() {
        "" => "content without a type".to_owned(),
        kind => format!("`{}`", display(kind, 80)),
    };
    let said = match excerpt(content_type, bytes) {
        said if said.is_empty() => String::new(),
        said => format!(": {said}"),
    };
    Failure::Unreadable(format!("it is no message of JSON-RPC but {kind} with status {status}{said}"))
}
