//! A daemon in this process: the services of a start, with state in a memory file system, and a pipe as the connection.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::Descriptor;
use toolgate_api::limits::LimitsPatch;
use toolgate_core::plugins::Registries;
use toolgate_core::restore::StartSettings;
use toolgate_core::traces::Traces;
use toolgate_http::connections::Connections;
use toolgate_http::listener::{ListenerSettings, connection};
use toolgate_http::{App, AppParts, BodyMemory, root_service};
use toolgate_sandbox::{Component, PagemapScan, Sandbox, SandboxSettings, precompile};
use toolgate_state::config::Config;
use toolgate_state::store::DataFolder;

use super::super::scratch;
use super::requests::{self, ParsedInput};
use super::responses::{self, Response};
use crate::plugin;

/// Timeouts of the daemon. All bytes of an input are sent at once, so a longer wait would be for bytes that never come.
const TIMEOUT: Duration = Duration::from_millis(20);
/// Longest exchange; a longer one hangs.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(20);
const PIPE_BYTES: usize = 1024 * 1024;

/// A plugin with one tool that can be called.
const COMPONENT: &[u8] = include_bytes!("../../../corpus/component/answers-one.wasm");

type Serving = Box<dyn Fn(DuplexStream) -> Pin<Box<dyn Future<Output = ()>>>>;

/// The daemon, with an organization, an agent, a session and an owner.
pub struct InProcessDaemon {
    runtime: Runtime,
    serve: Serving,
    /// The texts that replace the placeholders of an input.
    placeholders: BTreeMap<&'static str, String>,
    _data: DataFolder,
    _folder: TempDir,
}

/// Compiled once for all daemons.
static SANDBOX: LazyLock<(Sandbox, Component)> = LazyLock::new(|| {
    let settings = SandboxSettings { instances: 4, pagemap_scan: PagemapScan::Off };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    let code = precompile(COMPONENT, None).expect("a component");
    let component = sandbox.load(&code).expect("a component");
    (sandbox, component)
});

impl InProcessDaemon {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = scratch::folder();
        let (app, data, operator) = runtime.block_on(app(folder.path()));
        let service = root_service(app);
        let settings = ListenerSettings {
            connections: 1_024,
            header_bytes: 32 * 1024,
            header_timeout: TIMEOUT,
            write_timeout: TIMEOUT,
            drain: TIMEOUT,
        };
        let table = Connections::new(settings.connections);
        let serve: Serving = Box::new(move |pipe| {
            let (table, service) = (table.clone(), service.clone());
            Box::pin(async move {
                let permit = table.admit(IpAddr::from([127, 0, 0, 1])).await.expect("room for a connection");
                connection(pipe, permit, service, settings, CancellationToken::new()).await;
            })
        });
        let mut daemon = Self { runtime, serve, placeholders: BTreeMap::new(), _data: data, _folder: folder };
        daemon.create_fixtures(&operator);
        daemon
    }

    /// Replaces the placeholders.
    pub fn substitute(&self, data: &[u8]) -> Vec<u8> {
        let mut substituted = Vec::with_capacity(data.len());
        let mut rest = data;
        while let Some((first, others)) = rest.split_first() {
            match self.placeholders.iter().find(|(placeholder, _)| rest.starts_with(placeholder.as_bytes())) {
                Some((placeholder, text)) => {
                    substituted.extend_from_slice(text.as_bytes());
                    rest = &rest[placeholder.len()..];
                }
                None => {
                    substituted.push(*first);
                    rest = others;
                }
            }
        }
        substituted
    }

    /// Sends the bytes on one connection and reads the responses. The client closes the connection when it has a response
    /// to every request; if the input is ambiguous or incomplete, it waits until the daemon closes.
    pub fn exchange(&self, sent: &[u8], parsed: &ParsedInput) -> Vec<Response> {
        let methods: Vec<&str> = parsed.requests.iter().map(|request| request.method.as_str()).collect();
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let exchange = async {
            let (mut reading, mut writing) = tokio::io::split(client);
            let talk = async {
                // A daemon that closed the connection does not read the rest.
                let _ = writing.write_all(sent).await;
                let mut received = Vec::new();
                loop {
                    let count = reading.read_buf(&mut received).await.unwrap_or(0);
                    let (responses, whole) = responses::parse(&received, &methods);
                    if count == 0 {
                        assert_eq!(whole, received.len(), "an incomplete response");
                        return responses;
                    }
                    if parsed.is_complete && responses.len() == methods.len() {
                        let _ = writing.shutdown().await;
                    }
                }
            };
            let ((), responses) = tokio::join!((self.serve)(server), talk);
            responses
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await });
        ended.expect("the connection hangs")
    }

    fn create_fixtures(&mut self, operator: &str) {
        let put = |path: &str, body: &str| request("PUT", path, operator, "If-None-Match: *\r\n", body);
        self.request_ok(&put("/v1/orgs/acme", "{}"));
        self.request_ok(&put("/v1/orgs/other", "{}"));
        self.request_ok(&put("/v1/orgs/acme/policy", r#"{"enabled":"*"}"#));
        self.request_ok(&put("/v1/orgs/acme/agents/bot", r#"{"enabled":"*","autonomy":"autonomous"}"#));
        let owner = r#"{"role":"owner","organization":"acme"}"#;
        let owner = self.request_ok(&request("POST", "/v1/tokens", operator, "", owner));
        let owner = owner["token"].as_str().expect("a token").to_owned();
        let session =
            self.request_ok(&request("POST", "/v1/sessions", &owner, "", r#"{"agent":"acme/bot"}"#));
        let session = session["session"].as_str().expect("a session").to_owned();
        self.placeholders = BTreeMap::from([("@owner", owner), ("@session", session)]);
    }

    fn request_ok(&self, sent: &str) -> Value {
        let responses = self.exchange(sent.as_bytes(), &requests::parse(sent.as_bytes()));
        let [response] = responses.as_slice() else { panic!("{sent}: {responses:?}") };
        let body = String::from_utf8_lossy(&response.body);
        assert!(response.status < 300, "{sent}: {} {body}", response.status);
        serde_json::from_str(&body).unwrap_or_default()
    }
}

fn request(method: &str, path: &str, token: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{fields}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Only operators can load plugins, and no input has an operator's token, so the worker program does not exist.
async fn app(folder: &Path) -> (App, DataFolder, String) {
    let folder = DataFolder::open(folder).expect("a data folder");
    let config = config(&folder);
    let (sandbox, component) = SANDBOX.clone();
    let (traces, stop) = (Traces::default(), CancellationToken::new());
    let start = StartSettings {
        config: &config,
        folder: &folder,
        sandbox: &sandbox,
        traces: &traces,
        worker: Path::new("nothing"),
        public_url: "http://localhost".to_owned(),
        private_hosts: Default::default(),
        root_key_credential: None,
        accept_lost_log: false,
        built_in: &[],
    };
    let (admin, _) =
        start.restore(Box::new(|_| {}), &stop, &CancellationToken::new()).await.expect("services");
    let operator = std::fs::read_to_string(folder.operator_token()).expect("a token").trim().to_owned();
    let description = sandbox.describe(&component, None).await.expect("a description");
    let descriptor = Descriptor::parse(&description).expect("a description");
    let plugin = Arc::new(plugin::plugin(descriptor, component));
    admin.services().registry.serve(LimitsPatch::new(), vec![plugin]);
    let parts = AppParts {
        access_tokens: None,
        person_sign_in: None,
        registries: Registries::default(),
        organization_registries: None,
        pages: toolgate_console::PAGES,
        stop,
        config,
        admin,
        serving: AtomicBool::new(true),
        bodies: BodyMemory::new(u64::MAX, u64::MAX),
        background: TaskTracker::new(),
        openapi: std::sync::OnceLock::new(),
    };
    (App::new(parts), folder, operator)
}

fn config(folder: &DataFolder) -> Config {
    let mut config = Config { data: folder.path().to_owned(), ..Config::default() };
    config.http.body_timeout_ms = u64::try_from(TIMEOUT.as_millis()).expect("small");
    config.audit.segment_bytes = 1024 * 1024;
    config.audit.reserve_bytes = 64 * 1024;
    config.sandbox.instances = 4;
    config.consent.required = false;
    config.rates.calls_per_second = u64::MAX;
    config.rates.burst = u64::MAX;
    config
}
