//! Why a server did not do what it was asked to do, and how that is told.

use std::time::Duration;

use toolgate_api::header::challenge_parameter;
use toolgate_api::json::parse_lenient;
use toolgate_sdk::http::Response;
use toolgate_sdk::serde_json::{Map, Value, json};
use toolgate_sdk::{Error, http};

use crate::text::{cut, display};

/// Longest text of a server in a message, in characters: a model reads it, and a tool may explain itself at length.
pub const MESSAGE_CHARS: usize = 4_000;
/// Longest `data` of an error that is passed on, as JSON text.
pub const DATA_BYTES: usize = 4 * 1024;

/// The arguments, or the tool's name, are not what the server takes.
const INVALID_PARAMS: i64 = -32602;
/// The headers differ from the body: a tool's schema marks other arguments now.
const HEADER_MISMATCH: i64 = -32020;
/// The server wants a client that can do more.
const MISSING_CAPABILITY: i64 = -32021;
/// The server does not speak this revision.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Bytes that are read of an answer that says what went wrong.
const ERROR_BYTES: usize = 64 * 1024;
/// Longest parameter of a challenge that is told, in characters.
const PARAMETER_CHARS: usize = 300;

/// Statuses that are gone when asked again.
const PASSING_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// What came in place of a result.
#[derive(Debug)]
pub enum Failure {
    /// No answer, or not all of it.
    Http(http::Error),
    /// A status that is no success.
    Status(Status),
    /// An error of JSON-RPC.
    Explained(Explained),
    /// The answer is not what the protocol says.
    Unreadable(String),
    /// The session that the request belongs to is gone.
    SessionLost,
}

/// An answer with a status that is no success.
#[derive(Debug)]
pub struct Status {
    pub status: u16,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The target of a redirect.
    pub location: Option<String>,
    /// How the content begins, where it is text.
    pub excerpt: String,
    /// The server's words about the credential that it wants.
    pub challenge: Vec<(&'static str, String)>,
}

/// An error of JSON-RPC.
#[derive(Debug)]
pub struct Explained {
    /// 0 where the server gives none.
    pub code: i64,
    pub message: String,
    pub data: Value,
    /// The status of the answer that holds it.
    pub status: u16,
    /// How long that asks to wait.
    pub retry_after: Option<Duration>,
}

impl Explained {
    /// The error that a message holds, with what servers make of it: a code as text, a text alone. Without a code only JSON-RPC
    /// says so: other interfaces have a member `error` too.
    pub fn read(message: &mut Value, status: u16) -> Option<Self> {
        let is_json_rpc = message.get("jsonrpc").is_some();
        let error = message.get_mut("error")?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let (code, message, data) = match error {
            Value::String(said) => (None, said.clone(), Value::Null),
            Value::Object(error) => {
                let code = error.get("code").and_then(code);
                let message = text(error.get("message"));
                (code, message, error.get_mut("data").map(Value::take).unwrap_or_default())
            }
            _ => return None,
        };
        let is_told = is_json_rpc || code.is_some();
        is_told.then(|| Self { code: code.unwrap_or_default(), message, data, status, retry_after: None })
    }

    /// Whether only a server of the stateless family says this.
    pub fn is_of_stateless(&self) -> bool {
        matches!(self.code, HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION)
    }
}

impl From<http::Error> for Failure {
    fn from(error: http::Error) -> Self {
        Self::Http(error)
    }
}

impl Failure {
    /// Whether the server has trouble now, and may have none later.
    pub fn passes(&self) -> bool {
        match self {
            Self::Http(error) => error.is_retryable(),
            Self::Status(Status { status, .. }) | Self::Explained(Explained { status, .. }) => {
                PASSING_STATUSES.contains(status)
            }
            Self::Unreadable(_) | Self::SessionLost => false,
        }
    }

    /// Adds a note to the text of an answer without success.
    pub fn with_note(mut self, note: &str) -> Self {
        let said = match &mut self {
            Self::Status(status) => &mut status.excerpt,
            Self::Explained(told) => &mut told.message,
            _ => return self,
        };
        said.push_str(if said.is_empty() { "" } else { "; " });
        said.push_str(note);
        self
    }

    /// As a model reads it.
    pub fn tell(self, host: &str) -> Error {
        match self {
            Self::Http(error) => error.into(),
            Self::Status(status) => status.tell(host),
            Self::Explained(told) => told.tell(host),
            Self::Unreadable(why) => Error::new(format!("the answer of `{host}` cannot be read: {why}")),
            Self::SessionLost => {
                Error::new(format!("`{host}` ended the session of this call, and of a second one"))
                    .retryable()
            }
        }
    }
}

impl Status {
    fn tell(self, host: &str) -> Error {
        let Self { status, retry_after, location, excerpt, challenge } = self;
        let mut said = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
        if !challenge.is_empty() {
            let wanted: Vec<_> = challenge.iter().map(|(name, value)| format!("`{name}`: {value}")).collect();
            said.push_str(&format!(" ({})", wanted.join(", ")));
        }
        let message = match status {
            401 => format!(
                "`{host}` wants a credential, or does not accept the one it got (status 401): the owner of this tool \
                 must bind or renew it (`toolgate credential discover` finds its provider){said}"
            ),
            403 => format!("`{host}` does not allow this with the credential it got (status 403){said}"),
            404 => format!("`{host}` has no MCP server at this address (status 404){said}"),
            405 => format!("`{host}` takes no MCP requests at this address (status 405){said}"),
            300..=399 => format!(
                "`{host}` answered with status {status} and leads to `{}`, which is not followed: the definition must \
                 name that address",
                location.as_deref().unwrap_or("nowhere")
            ),
            _ => format!("`{host}` answered with status {status}{said}"),
        };
        let mut details = Map::from_iter([("status".to_owned(), json!(status))]);
        details.extend(retry_after.map(wait));
        details.extend(challenge.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
        let error = Error::new(message).with_details(details);
        if PASSING_STATUSES.contains(&status) { error.retryable() } else { error }
    }
}

impl Explained {
    fn tell(self, host: &str) -> Error {
        let said = cut(&self.message, MESSAGE_CHARS);
        let mut details = Map::from_iter([("code".to_owned(), json!(self.code))]);
        if self.status != 200 {
            details.insert("status".to_owned(), json!(self.status));
        }
        details.extend(self.retry_after.map(wait));
        if !self.data.is_null() && self.data.to_string().len() <= DATA_BYTES {
            details.insert("data".to_owned(), self.data);
        }
        let error = match self.code {
            INVALID_PARAMS => Error::invalid(format!("`{host}` does not take these arguments: {said}")),
            UNSUPPORTED_VERSION | HEADER_MISMATCH => Error::new(format!(
                "`{host}` is not what it was when its tools were discovered; the owner of this tool must discover them \
                 again: {said}"
            )),
            MISSING_CAPABILITY => Error::new(format!(
                "`{host}` wants to ask back during the call, which is not supported: {said}"
            )),
            0 => Error::new(format!("`{host}` answered with an error: {said}")),
            code => Error::new(format!("`{host}` answered with error {code}: {said}")),
        };
        let error = error.with_details(details);
        if PASSING_STATUSES.contains(&self.status) { error.retryable() } else { error }
    }
}

/// How long to wait, as the daemon reads it.
fn wait(wait: Duration) -> (String, Value) {
    let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    ("retry_after_ms".to_owned(), json!(milliseconds))
}

/// The failure in an answer without success: an error of JSON-RPC, where the status alone does not say more.
pub fn read_failure(response: Response) -> Failure {
    let status = response.status();
    let header = |name: &str| response.header(name).map(str::to_owned);
    let (location, content_type) = (header("location"), header("content-type").unwrap_or_default());
    let challenges = response.headers().get_all("www-authenticate").collect::<Vec<_>>().join(", ");
    let retry_after = response.retry_after();
    // An unreadable body is not the failure to report.
    let (bytes, _) = response.bytes_up_to(ERROR_BYTES).unwrap_or_default();
    let message = parse_lenient::<Value>(&bytes).ok().map(|(message, _)| message);
    let told = message.and_then(|mut message| Explained::read(&mut message, status));
    match told.filter(|_| status >= 400 && !matches!(status, 401 | 403)) {
        Some(told) => Failure::Explained(Explained { retry_after, ..told }),
        None => {
            let excerpt = excerpt(&content_type, &bytes);
            let challenge = challenge(&challenges);
            Failure::Status(Status { status, retry_after, location, excerpt, challenge })
        }
    }
}

/// A code as a number, or as text; one with a fraction is cut.
fn code(value: &Value) -> Option<i64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.trim().split('.').next()?.parse().ok()
}

/// The parameters of a challenge that say what to do (RFC 6750, 3; RFC 9728, 5.1).
fn challenge(challenges: &str) -> Vec<(&'static str, String)> {
    let names = ["error", "error_description", "scope", "resource_metadata"];
    let found = names.into_iter().filter_map(|name| Some((name, challenge_parameter(challenges, name)?)));
    found.map(|(name, value)| (name, display(value, PARAMETER_CHARS))).collect()
}

/// How text begins, in one line; of a page its title.
pub fn excerpt(content_type: &str, bytes: &[u8]) -> String {
    /// A server's text about an error is one sentence or two.
    const EXCERPT_CHARS: usize = 300;
    display(&http::excerpt(content_type, bytes), EXCERPT_CHARS)
}
