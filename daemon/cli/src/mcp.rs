//! `toolgate mcp --stdio`: a bridge for clients that start an MCP server as a program. Each line of standard input is a
//! message, which is sent to `/mcp` of a daemon; its answers are lines on standard output.
//!
//! The bridge knows three things of the protocol: the header fields that repeat what the message says, the session of
//! revisions before 2026-07-28, and that closing a request cancels it in the newer ones.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::client::{Client, ClientError, EventStream, escape};
use super::failure::Failure;
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
}

impl McpOptions {
    fn path(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!("agent={}", escape(agent)));
        let search = self.search.then(|| "tools=search".to_owned());
        let query: Vec<String> = agent.into_iter().chain(search).collect();
        if query.is_empty() { "/mcp".to_owned() } else { format!("/mcp?{}", query.join("&")) }
    }
}

/// Passes messages on until standard input ends, and then waits for the answers.
pub async fn run(options: &McpOptions, client: &Client) -> Result<(), Failure> {
    let bridge =
        Bridge(Arc::new(Shared { client: client.clone(), path: options.path(), state: Mutex::default() }));
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
                Some(line) => bridge.take(line, &mut running),
                None => break,
            },
            Some(_) = running.join_next() => {}
        }
    }
    // The stream of notifications would never end.
    bridge.state().listening.take().inspect(AbortHandle::abort);
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
}

#[derive(Default)]
struct State {
    session: Option<String>,
    version: Option<String>,
    listening: Option<AbortHandle>,
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a line, and prints its answers in the background.
    fn take(&self, line: String, running: &mut JoinSet<()>) {
        let bridge = self.clone();
        let Ok(message) = serde_json::from_str::<Message<'_>>(&line) else {
            // The daemon says what is wrong with it.
            running.spawn(async move { bridge.send(line, None, Vec::new()).await });
            return;
        };
        let version = message.params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let version = version.map(str::to_owned).or_else(|| self.state().version.clone());
        let is_stateless = version.as_deref().is_some_and(|version| version >= STATELESS);
        let method = message.method.unwrap_or_default();
        if is_stateless && method == "notifications/cancelled" {
            let open = self.state().open.remove(&message.params["requestId"].to_string());
            open.iter().for_each(AbortHandle::abort);
            return;
        }
        let mut headers = Vec::new();
        headers.extend(version.map(|version| (VERSION, version)));
        if is_stateless && !method.is_empty() {
            let named = message.params.get("name").or_else(|| message.params.get("uri"));
            headers.extend(named.and_then(Value::as_str).map(|name| (NAME, name.to_owned())));
            headers.push((METHOD, method));
        }
        let id = message.id.map(|id| id.get().to_owned());
        let key = id.clone();
        let task = running.spawn(async move {
            bridge.send(line, id.clone(), headers).await;
            id.and_then(|id| bridge.state().open.remove(&id));
        });
        if let Some(key) = key.filter(|_| is_stateless) {
            self.state().open.insert(key, task);
        }
    }

    async fn send(&self, line: String, id: Option<String>, headers: Vec<(HeaderName, String)>) {
        let answered = self.post(line, headers).await;
        // A notification has no answer.
        if let (Err(error), Some(id)) = (answered, id) {
            let id: Value = serde_json::from_str(&id).unwrap_or_default();
            let message = format!("{error}; {}", error.hint());
            let error = json!({"code": INTERNAL_ERROR, "message": message});
            print(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
    }

    async fn post(&self, line: String, headers: Vec<(HeaderName, String)>) -> Result<(), ClientError> {
        let session = self.state().session.clone();
        let request = self.0.client.post(&self.0.path).json_text(line);
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(name.clone(), value));
        let request = session.iter().fold(request, |request, id| request.header(SESSION, id));
        let response = request.response().await?;
        self.begin_session(&response);
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.print_events(EventStream::from_response(response).await?).await;
        }
        // An error of the protocol has a status of its own, and is an answer all the same.
        let body = super::client::body_of(response).await?;
        match serde_json::from_slice::<&RawValue>(&body.1) {
            Ok(text) if text.get().contains("\"jsonrpc\"") => self.print_answer(text.get()),
            _ if body.0.is_success() => {}
            _ => return Err(ClientError::refusal(body.0.as_u16(), &body.1)),
        }
        Ok(())
    }

    /// Remembers the session of an older revision, and receives its notifications.
    fn begin_session(&self, response: &Response<Incoming>) {
        let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) else { return };
        let mut state = self.state();
        if state.session.as_deref() == Some(id) {
            return;
        }
        state.session = Some(id.to_owned());
        let bridge = self.clone();
        let listening = tokio::spawn(async move {
            let request = bridge.in_session(bridge.0.client.get(&bridge.0.path));
            if let Ok(events) = request.follow().await {
                let _ = bridge.print_events(events).await;
            }
        });
        state.listening.replace(listening.abort_handle()).inspect(AbortHandle::abort);
    }

    async fn end_session(&self) {
        if self.state().session.is_some() {
            let request = self.in_session(self.0.client.delete(&self.0.path));
            let _ = request.response().await;
        }
    }

    fn in_session<'a>(
        &self,
        request: super::client::RequestBuilder<'a>,
    ) -> super::client::RequestBuilder<'a> {
        let (session, version) = {
            let state = self.state();
            (state.session.clone().unwrap_or_default(), state.version.clone())
        };
        let request = request.header(SESSION, &session);
        version.iter().fold(request, |request, version| request.header(VERSION, version))
    }

    async fn print_events(&self, mut events: EventStream) -> Result<(), ClientError> {
        while let Some(event) = events.next().await? {
            self.print_answer(&event.data);
        }
        Ok(())
    }

    /// Prints a message of the daemon. The answer to `initialize` names the revision of the session.
    fn print_answer(&self, text: &str) {
        let mut state = self.state();
        if state.version.is_none()
            && let Ok(answer) = serde_json::from_str::<Value>(text)
            && let Some(version) = answer["result"]["protocolVersion"].as_str()
        {
            state.version = Some(version.to_owned());
        }
        drop(state);
        print(text);
    }
}

/// Prints a message as one line.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let line = text.replace(['\n', '\r'], " ");
    // A closed pipe ends the bridge with the next read.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
