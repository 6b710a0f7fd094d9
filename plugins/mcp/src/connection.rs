//! The two families of the protocol: what stands around a request in each.
//!
//! In the stateless one every request carries the revision and what the client is, in its body and, for the proxies before
//! a server, in header fields that must say the same. In the older one a session is opened first and ended last.

use std::cell::RefCell;
use std::time::Duration;

use serde::Serialize;
use toolgate_api::definition::Protocol;
use toolgate_sdk::http;
use toolgate_sdk::serde_json::value::RawValue;
use toolgate_sdk::serde_json::{Value, json};

use crate::channel::Channel;
use crate::exchange::{Message, PING, SESSION_FIELD, Server};
use crate::failure::Failure;
use crate::header_params;
use crate::text::display;

/// The revision of the stateless family that is spoken.
pub const STATELESS: &str = "2026-07-28";
/// The method that calls a tool.
pub const CALL: &str = "tools/call";
/// The id of the request of a call or a list; that of `initialize` is 1.
const REQUEST: u32 = 2;
/// Longest id of a session: header fields of a request have 32 KiB together.
const SESSION_BYTES: usize = 1_024;
/// How long the end of a session is waited for. The result is there already, and a server forgets sessions anyway.
const PARTING: Duration = Duration::from_secs(2);

/// A server, spoken to in one family.
pub struct Connection<'a> {
    server: &'a Server<'a>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Stateless,
    Session {
        revision: String,
        id: Option<String>,
    },
    /// A session of the oldest transport.
    Events(RefCell<Channel<'a>>),
}

/// A request, the same in both families.
#[derive(Default)]
pub struct Request<'a> {
    pub method: &'static str,
    pub params: Params<'a>,
    /// Arguments in header fields.
    pub mirrored: Vec<(&'a str, String)>,
}

/// The subject of a request.
#[derive(Clone, Default, Serialize)]
pub struct Params<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What every request of the stateless family says of itself, and a call in each family.
#[derive(Clone, Default, Serialize)]
pub struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client: Option<Client>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    capabilities: Option<Nothing>,
    /// The server tells how far a call is under this token, which is the id of the request.
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<u32>,
    /// How long a daemon of Toolgate waits for a person before it answers that the call waits for an approval.
    #[serde(rename = "toolgate/wait-ms", skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
}

#[derive(Clone, Serialize)]
struct Client {
    name: &'static str,
    version: &'static str,
}

/// No model, no person and no files can be asked for through us.
#[derive(Clone, Serialize)]
struct Nothing {}

const CLIENT: Client = Client { name: "toolgate", version: env!("CARGO_PKG_VERSION") };

impl<'a> Connection<'a> {
    pub fn stateless(server: &'a Server<'a>) -> Self {
        Self { server, kind: Kind::Stateless }
    }

    /// Opens a session, and gives what the server says of itself, with the revision that it took: the one that is offered, or
    /// the newest that its refusal names.
    pub fn initialize(server: &'a Server<'a>, offered: Protocol) -> Result<(Self, Value, Protocol), Failure> {
        let opened = Self::open(server, offered).map(|(it, said)| (it, said, offered));
        match opened.as_ref().err().and_then(|failure| revision_in(failure, offered)) {
            Some(named) => Self::open(server, named).map(|(it, said)| (it, said, named)),
            None => opened,
        }
    }

    /// As [`initialize`](Self::initialize), by the oldest transport.
    pub fn initialize_by_events(
        server: &'a Server<'a>,
        mut channel: Channel<'a>,
    ) -> Result<(Self, Value, Protocol), Failure> {
        let took = Protocol::Session202411;
        let said = channel.ask(&initialization(took))?;
        check_revision(said_revision(&said))?;
        channel.tell(&INITIALIZED)?;
        Ok((Self { server, kind: Kind::Events(RefCell::new(channel)) }, said, took))
    }

    pub fn is_stateless(&self) -> bool {
        matches!(self.kind, Kind::Stateless)
    }

    /// Whether it is of the oldest transport.
    pub fn is_by_events(&self) -> bool {
        matches!(self.kind, Kind::Events(_))
    }

    fn open(server: &'a Server<'a>, offered: Protocol) -> Result<(Self, Value), Failure> {
        let (said, head) = server.ask(&[], &initialization(offered))?;
        let revision = said_revision(&said).to_owned();
        let connection = Self { server, kind: Kind::Session { revision, id: head.session } };
        match connection.begin() {
            Ok(()) => Ok((connection, said)),
            Err(failure) => {
                connection.end(Some(&failure));
                Err(failure)
            }
        }
    }

    /// Sends a request, and gives its result.
    pub fn ask(&self, request: Request<'_>) -> Result<Value, Failure> {
        let Request { method, params, mirrored } = request;
        let mut fields = self.fields();
        let mut params = params;
        let is_call = method == CALL;
        let progress_token = is_call.then_some(REQUEST);
        params.meta = is_call.then(|| Meta { progress_token, ..Meta::default() });
        if self.is_stateless() {
            fields.push(("mcp-method", method.to_owned()));
            fields.extend(params.name.map(|name| ("mcp-name", header_params::encode(name))));
            fields.extend(mirrored);
            let wait_ms = is_call.then(|| self.server.patience_ms());
            let (revision, client, capabilities) = (Some(STATELESS), Some(CLIENT), Some(Nothing {}));
            params.meta = Some(Meta { revision, client, capabilities, progress_token, wait_ms });
        }
        let message = Message { jsonrpc: "2.0", id: Some(REQUEST), method, params: Some(params) };
        if let Kind::Events(channel) = &self.kind {
            return channel.borrow_mut().ask(&message);
        }
        self.check_session(self.server.ask(&fields, &message)).map(|(result, _)| result)
    }

    /// Ends the session, where there is one. A session that is gone needs no end, and a server that has trouble
    /// is asked for nothing more: by its last answer the host tells why the call failed.
    pub fn end(self, after: Option<&Failure>) {
        let is_over =
            after.is_some_and(|failure| failure.passes() || matches!(failure, Failure::SessionLost));
        if !is_over && matches!(self.kind, Kind::Session { id: Some(_), .. }) {
            // The host tells of a denied request in place of a tool's failure, unless a later request is answered.
            if let Err(http::Error::Denied { .. }) = self.server.delete(&self.fields(), PARTING) {
                let _ = self.ask(Request { method: PING, ..Request::default() });
            }
        }
    }

    fn begin(&self) -> Result<(), Failure> {
        let Kind::Session { revision, id } = &self.kind else { return Ok(()) };
        check_revision(revision)?;
        let is_visible =
            |id: &String| id.len() <= SESSION_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic());
        if !id.as_ref().is_none_or(is_visible) {
            return Err(Failure::Unreadable("the id of its session is no visible ASCII".to_owned()));
        }
        self.check_session(self.server.tell(&self.fields(), &INITIALIZED))
    }

    fn fields(&self) -> Vec<(&'a str, String)> {
        const REVISION: &str = "mcp-protocol-version";
        match &self.kind {
            Kind::Stateless => vec![(REVISION, STATELESS.to_owned())],
            Kind::Session { revision, id } => {
                let id = id.as_ref().map(|id| (SESSION_FIELD, id.clone()));
                std::iter::once((REVISION, revision.clone())).chain(id).collect()
            }
            Kind::Events(_) => Vec::new(),
        }
    }

    /// In a session, "not found" says that the session is gone.
    fn check_session<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|failure| {
            let status = match &failure {
                Failure::Status(status) => status.status,
                Failure::Explained(told) => told.status,
                _ => return failure,
            };
            let has_session = matches!(self.kind, Kind::Session { id: Some(_), .. });
            if has_session && status == 404 { Failure::SessionLost } else { failure }
        })
    }
}

const INITIALIZED: Message<()> =
    Message { jsonrpc: "2.0", id: None, method: "notifications/initialized", params: None };

fn initialization(offered: Protocol) -> Message<Value> {
    let params =
        json!({"protocolVersion": offered.revision(), "capabilities": Nothing {}, "clientInfo": CLIENT});
    Message { jsonrpc: "2.0", id: Some(1), method: "initialize", params: Some(params) }
}

fn said_revision(said: &Value) -> &str {
    said.get("protocolVersion").and_then(Value::as_str).unwrap_or_default()
}

/// The revisions with sessions differ in nothing that is used here.
fn check_revision(revision: &str) -> Result<(), Failure> {
    let known = Protocol::SESSIONS.map(Protocol::revision);
    match known.contains(&revision) {
        true => Ok(()),
        false => Err(Failure::Unreadable(format!(
            "it speaks revision `{}` of the protocol, and not one of {}",
            display(revision, 40),
            known.join(", ")
        ))),
    }
}

/// The newest revision that a refusal names, beside the one that was offered: in its text, or in its data.
fn revision_in(failure: &Failure, offered: Protocol) -> Option<Protocol> {
    let said = match failure {
        Failure::Explained(told) => format!("{} {}", told.message, told.data),
        Failure::Status(status) if matches!(status.status, 400..=499) => status.excerpt.clone(),
        _ => return None,
    };
    Protocol::SESSIONS.into_iter().find(|known| *known != offered && said.contains(known.revision()))
}
