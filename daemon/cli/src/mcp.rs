//! `toolgate mcp --stdio`: a bridge for clients that start an MCP server as a program. Each line of standard input is a
//! message, which is sent to `/mcp` of a daemon; its answers are lines on standard output.
//!
//! The bridge knows three things of the protocol: the header fields that repeat what the message says, the session of
//! revisions before 2026-07-28, which it begins again where the daemon has forgotten it, and that closing a request cancels it in
//! the newer ones.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use clap::Args;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use hyper::{Response, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::client::{Client, ClientError, EventStream};
use super::document::query;
use super::failure::Result;
use super::remote::Remote;

const EXAMPLES: &str = "\
Examples:
  toolgate mcp --stdio --token-file helper.token
  toolgate mcp --stdio --agent acme/helper --search
  toolgate mcp --stdio --embedded --data ~/.toolgate";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The first revision without sessions.
const STATELESS: &str = "2026-07-28";

/// JSON-RPC's code of an error inside the server.
const INTERNAL_ERROR: i32 = -32603;

/// Options of the bridge.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct McpOptions {
    #[command(flatten)]
    pub remote: Remote,
    /// Speak MCP on standard input and output
    #[arg(long, required = true)]
    pub stdio: bool,
    /// The agent whose tools the client has, unless the token is of role `agent`
    #[arg(long, value_name = "ORG/AGENT")]
    pub agent: Option<String>,
    /// List three tools that find, describe and call the others
    #[arg(long)]
    pub search: bool,
    /// List the tool that runs scripts over the others
    #[arg(long, conflicts_with = "search")]
    pub code: bool,
    /// The conversation, whose requests share one session and its files
    #[arg(long, value_name = "ID")]
    pub conversation: Option<String>,
}

impl McpOptions {
    fn path(&self) -> String {
        format!(
            "/mcp{}",
            query(&[
                ("agent", self.agent.as_deref()),
                ("tools", self.search.then_some("search").or(self.code.then_some("code"))),
                ("conversation", self.conversation.as_deref())
            ])
        )
    }
}

/// Passes messages on until standard input ends, and then waits for the answers.
pub async fn run(options: &McpOptions, client: &Client) -> Result {
    let bridge = Bridge(Arc::new(Shared {
        client: client.clone(),
        path: options.path(),
        state: Mutex::default(),
        connecting: tokio::sync::Mutex::default(),
    }));
    let (sender, mut lines) = mpsc::channel::<String>(64);
    // Standard input has no asynchronous form that a closed pipe ends.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) if line.trim().is_empty() => {}
                Some(line) => bridge.take(line, &mut running).await,
                None => break,
            },
            Some(_) = running.join_next() => {}
        }
    }
    // Streams of notifications would never end.
    bridge.0.state.lock().listening.iter().for_each(AbortHandle::abort);
    while running.join_next().await.is_some() {}
    bridge.end_session().await;
    Ok(())
}

#[derive(Clone)]
struct Bridge(Arc<Shared>);

struct Shared {
    client: Client,
    path: String,
    state: Mutex<State>,
    /// Held while a session is begun again, so that each request of the lost one finds the new one.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    session: Option<String>,
    version: Option<String>,
    /// The client's `initialize`.
    initialize: Option<String>,
    /// Streams of notifications.
    listening: Vec<AbortHandle>,
    /// Requests of the newer revisions without an answer, by their ids.
    open: HashMap<String, AbortHandle>,
}

/// The parts of a message that the bridge reads.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

impl Bridge {
    /// Sends a line. The answers to a request are printed in the background; other messages are sent before the next one, so
    /// that none is overtaken.
    async fn take(&self, line: String, running: &mut JoinSet<()>) {
        let bridge = self.clone();
        let Ok(message) = serde_json::from_str::<Message<'_>>(&line) else {
            // The daemon says what is wrong with it.
            return bridge.send(line, None, Vec::new()).await;
        };
        let version = message.params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let version = version.map(str::to_owned).or_else(|| self.0.state.lock().version.clone());
        let is_stateless = version.as_deref().is_some_and(|version| version >= STATELESS);
        let method = message.method.unwrap_or_default();
        if is_stateless && method == "notifications/cancelled" {
            let open = self.0.state.lock().open.remove(&message.params["requestId"].to_string());
            open.iter().for_each(AbortHandle::abort);
            return;
        }
        if method == "initialize" {
            self.0.state.lock().initialize = Some(line.clone());
        }
        let listens = method == "subscriptions/listen";
        let is_request = message.id.is_some() && !method.is_empty();
        let mut headers = Vec::new();
        headers.extend(version.map(|version| (VERSION, version)));
        if is_stateless && !method.is_empty() {
            let named = message.params.get("name").or_else(|| message.params.get("uri"));
            headers.extend(named.and_then(Value::as_str).map(|name| (NAME, name.to_owned())));
            headers.push((METHOD, method));
        }
        let Some(id) = message.id.map(|id| id.get().to_owned()).filter(|_| is_request) else {
            return bridge.send(line, None, headers).await;
        };
        let key = id.clone();
        let task = running.spawn(async move {
            bridge.send(line, Some(&id), headers).await;
            bridge.0.state.lock().open.remove(&id);
        });
        let mut state = self.0.state.lock();
        if listens {
            state.listening.push(task.clone());
        }
        if is_stateless {
            state.open.insert(key, task);
        }
    }

    async fn send(&self, line: String, id: Option<&str>, headers: Vec<(HeaderName, String)>) {
        // A notification has no answer.
        let Some(id) = id else {
            let _ = self.post(line, None, headers).await;
            return;
        };
        let message = match self.post(line, Some(id), headers).await {
            Ok(true) => return,
            Ok(false) => "the daemon ended the request without an answer; look at its log".to_owned(),
            Err(error) => format!("{error}; {}", error.hint()),
        };
        let id: Value = serde_json::from_str(id).unwrap_or_default();
        let error = json!({"code": INTERNAL_ERROR, "message": message});
        print(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
    }

    /// Posts a message, and prints what comes back. Returns whether that has the answer to `id`.
    async fn post(
        &self,
        line: String,
        id: Option<&str>,
        headers: Vec<(HeaderName, String)>,
    ) -> Result<bool, ClientError> {
        let session = self.0.state.lock().session.clone();
        let mut response = self.request(&line, &headers, session.as_deref()).await?;
        if response.status() == StatusCode::NOT_FOUND
            && let Some(lost) = session
        {
            let session = self.connect_again(&lost).await?;
            response = self.request(&line, &headers, session.as_deref()).await?;
        }
        let is_new = self.begin_session(&response);
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_answered = if kind.starts_with("text/event-stream") {
            self.print_events(EventStream::from_response(response).await?, id).await?
        } else {
            // An error of the protocol has a status of its own, and is an answer all the same.
            let (status, body) = super::client::body_of(response).await?;
            match serde_json::from_slice::<&RawValue>(&body) {
                Ok(text) if text.get().contains("\"jsonrpc\"") => self.print_message(text.get(), id),
                _ if status.is_success() => false,
                _ => return Err(ClientError::refusal(status.as_u16(), &body)),
            }
        };
        if is_new {
            self.listen();
        }
        Ok(is_answered)
    }

    async fn request(
        &self,
        line: &str,
        headers: &[(HeaderName, String)],
        session: Option<&str>,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = self.0.client.post(&self.0.path).json_text(line.to_owned());
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(name.clone(), value));
        session.iter().fold(request, |request, id| request.header(SESSION, id)).response().await
    }

    /// Begins a session in the place of one that the daemon does not know any more, since it was restarted. Returns its id.
    async fn connect_again(&self, lost: &str) -> Result<Option<String>, ClientError> {
        let _connecting = self.0.connecting.lock().await;
        let (known, initialize, version) = {
            let state = self.0.state.lock();
            (state.session.clone(), state.initialize.clone(), state.version.clone())
        };
        let Some(initialize) = initialize.filter(|_| known.as_deref() == Some(lost)) else {
            return Ok(known);
        };
        let response = self.request(&initialize, &[], None).await?;
        if self.begin_session(&response) {
            // The client knows the answer.
            super::client::body_of(response).await?;
            let session = self.0.state.lock().session.clone();
            let headers: Vec<_> = version.map(|version| (VERSION, version)).into_iter().collect();
            let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
            self.request(&begun, &headers, session.as_deref()).await?;
            self.listen();
        }
        Ok(self.0.state.lock().session.clone())
    }

    /// Remembers the session of an older revision. Returns whether it is a new one.
    fn begin_session(&self, response: &Response<Incoming>) -> bool {
        let id = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        let mut state = self.0.state.lock();
        let is_new = id.is_some() && state.session.as_deref() != id;
        if is_new {
            state.session = id.map(str::to_owned);
        }
        is_new
    }

    /// Receives the notifications of a session.
    fn listen(&self) {
        let bridge = self.clone();
        let listening = tokio::spawn(async move {
            let request = bridge.in_session(bridge.0.client.get(&bridge.0.path));
            if let Ok(events) = request.follow().await {
                let _ = bridge.print_events(events, None).await;
            }
        });
        self.0.state.lock().listening.push(listening.abort_handle());
    }

    async fn end_session(&self) {
        if self.0.state.lock().session.is_some() {
            let request = self.in_session(self.0.client.delete(&self.0.path));
            let _ = request.response().await;
        }
    }

    fn in_session<'a>(
        &self,
        request: super::client::RequestBuilder<'a>,
    ) -> super::client::RequestBuilder<'a> {
        let (session, version) = {
            let state = self.0.state.lock();
            (state.session.clone().unwrap_or_default(), state.version.clone())
        };
        let request = request.header(SESSION, &session);
        version.iter().fold(request, |request, version| request.header(VERSION, version))
    }

    /// Prints the messages of a stream. Returns whether one is the answer to `id`.
    async fn print_events(&self, mut events: EventStream, id: Option<&str>) -> Result<bool, ClientError> {
        let mut is_answered = false;
        while let Some(event) = events.next().await? {
            is_answered |= self.print_message(&event.data, id);
        }
        Ok(is_answered)
    }

    /// Prints a message of the daemon, and returns whether it is the answer to `id`. The answer to `initialize` names the
    /// revision of the session.
    fn print_message(&self, text: &str, id: Option<&str>) -> bool {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(version) = message["result"]["protocolVersion"].as_str() {
            self.0.state.lock().version.get_or_insert_with(|| version.to_owned());
        }
        print(text);
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        let is_of = |id: &str| serde_json::from_str::<Value>(id).is_ok_and(|id| message["id"] == id);
        is_answer && id.is_some_and(|id| message["id"].is_null() || is_of(id))
    }
}

/// Prints a message as one line.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let line = text.replace(['\n', '\r'], " ");
    // A closed pipe ends the bridge with the next read.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
