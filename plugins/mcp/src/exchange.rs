//! One message to the server, and what it answers: JSON, or a stream of events with the answer among them.
//!
//! While a server of the older family answers, it may ask back (for a model's text, a person's input, files). Nothing of
//! that is offered, so each such question is answered with an error, and the call goes on.

use std::io::Read;
use std::time::Duration;

use serde::Serialize;
use toolgate_sdk::Context;
use toolgate_sdk::http::{self, Response};
use toolgate_sdk::serde_json::{self, Value, json};

use crate::failure::{Failure, Status, Told, excerpt};
use crate::stream::Events;

/// What is read of one answer. As values JSON takes several times its length, and a call has 64 MiB by default.
pub const ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// What is read of an answer that says what went wrong.
const ERROR_BYTES: usize = 64 * 1024;
/// Questions of a server during one answer. A call may send 32 requests, and needs some itself.
const QUESTIONS: usize = 8;

/// Kept of the call's time, to say what happened before the call is stopped.
const LAST_WORD: Duration = Duration::from_millis(250);
/// The least that is waited for: with less left, the call's own deadline ends it.
const LEAST_WAIT: Duration = Duration::from_millis(50);

/// The question that says only "are you there".
const PING: &str = "ping";
/// What is asked for is not offered.
const METHOD_NOT_FOUND: i64 = -32601;

/// A server, and the call in which it is asked.
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
        let head = Head { session: response.header("mcp-session-id").map(str::to_owned) };
        let id = message.id.unwrap_or_default();
        let result = match media_type(&response) {
            "text/event-stream" => self.read_events(fields, id, response.into_reader()),
            _ => read_json(id, response),
        };
        Ok((result?, head))
    }

    /// Sends a notification, which has no answer.
    pub fn tell<P: Serialize>(&self, fields: &Fields<'_>, message: &Message<P>) -> Result<(), Failure> {
        self.post(fields, message).map(drop)
    }

    /// Ends what the fields name. Whether that works is of no matter for what was done.
    pub fn delete(&self, fields: &Fields<'_>, patience: Duration) {
        let request = self.with_headers(http::delete(self.url), fields);
        let _ = request.timeout(self.time_left().min(patience)).send();
    }

    fn post(&self, fields: &Fields<'_>, message: &impl Serialize) -> Result<Response, Failure> {
        let request = self.with_headers(http::post(self.url).json(message), fields);
        let response = request.timeout(self.time_left()).send()?;
        if response.is_success() { Ok(response) } else { Err(read_failure(response)) }
    }

    fn with_headers(&self, request: http::Request, fields: &Fields<'_>) -> http::Request {
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value));
        let all = own.chain(fields.iter().map(|(name, value)| (*name, value)));
        let request = request.header("accept", "application/json, text/event-stream");
        all.fold(request, |request, (name, value)| request.header(name, value))
    }

    fn time_left(&self) -> Duration {
        self.context.time_left().saturating_sub(LAST_WORD).max(LEAST_WAIT)
    }

    fn read_events(&self, fields: &Fields<'_>, id: u32, from: impl Read) -> Result<Value, Failure> {
        let mut events = Events::new(from);
        let mut questions = 0;
        while let Some(data) = events.next()? {
            match Received::read(id, 200, parse(data.as_bytes())?) {
                Received::Answer(result) => return result.map_err(Failure::Told),
                Received::Question { id, method } if questions < QUESTIONS => {
                    questions += 1;
                    self.decline(fields, id, &method);
                }
                Received::Question { .. } => {
                    return Err(Failure::Unreadable(format!("it asks back more than {QUESTIONS} times")));
                }
                Received::Other => {}
            }
        }
        Err(Failure::Unreadable("the stream ended before the answer came".to_owned()))
    }

    /// Answers a question of the server. Whether it hears is its own matter.
    fn decline(&self, fields: &Fields<'_>, id: Value, method: &str) {
        let answer = match method {
            PING => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                let error = json!({"code": METHOD_NOT_FOUND, "message": "the client cannot be asked back during a call"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        let _ = self.post(fields, &answer);
    }
}

/// What stands at the head of an answer.
pub struct Head {
    pub session: Option<String>,
}

/// One message of the server.
enum Received {
    Answer(Result<Value, Told>),
    Question {
        id: Value,
        method: String,
    },
    /// A notification, or what belongs to another request.
    Other,
}

impl Received {
    fn read(asked: u32, status: u16, mut message: Value) -> Self {
        let id = message["id"].take();
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            return match id {
                Value::Null => Self::Other,
                id => Self::Question { id, method: method.to_owned() },
            };
        }
        let is_ours = id.as_u64() == Some(u64::from(asked));
        match (Told::read(&mut message, status), message.get_mut("result")) {
            // An error without an id is about a request whose id could not be read: there is only this one.
            (Some(told), _) if is_ours || id.is_null() => Self::Answer(Err(told)),
            (None, Some(result)) if is_ours => Self::Answer(Ok(result.take())),
            _ => Self::Other,
        }
    }
}

impl Told {
    fn read(message: &mut Value, status: u16) -> Option<Self> {
        let error = message.get_mut("error")?.as_object_mut()?;
        Some(Self {
            code: error.get("code")?.as_i64()?,
            message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            data: error.get_mut("data").map(Value::take).unwrap_or_default(),
            status,
            retry_after: None,
        })
    }
}

fn media_type(response: &Response) -> &str {
    let content_type = response.header("content-type").unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim()
}

fn read_json(id: u32, response: Response) -> Result<Value, Failure> {
    let status = response.status();
    let (bytes, is_whole) = response.bytes_up_to(ANSWER_BYTES)?;
    if !is_whole {
        return Err(Failure::Unreadable(format!("it is longer than {ANSWER_BYTES} bytes")));
    }
    match Received::read(id, status, parse(&bytes)?) {
        Received::Answer(result) => result.map_err(Failure::Told),
        _ => Err(Failure::Unreadable("it is no answer to this request".to_owned())),
    }
}

fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice::<Value>(bytes)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| Failure::Unreadable("it is no message of JSON-RPC".to_owned()))
}

/// What an answer without success says: an error of JSON-RPC, where the status alone does not say more.
fn read_failure(response: Response) -> Failure {
    let status = response.status();
    let header = |name: &str| response.header(name).map(str::to_owned);
    let (location, content_type) = (header("location"), header("content-type").unwrap_or_default());
    let retry_after = response.retry_after();
    // That it cannot be read is not what went wrong.
    let (bytes, _) = response.bytes_up_to(ERROR_BYTES).unwrap_or_default();
    let told = parse(&bytes).ok().and_then(|mut message| Told::read(&mut message, status));
    match told.filter(|_| status >= 400 && !matches!(status, 401 | 403)) {
        Some(told) => Failure::Told(Told { retry_after, ..told }),
        None => {
            let excerpt = excerpt(&content_type, &bytes);
            Failure::Status(Status { status, retry_after, location, excerpt })
        }
    }
}
