//! A daemon in this process: the parts that `serve` wires, with state in a memory file system, and a pipe as the connection.

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
use toolgate::admin::{Admin, AdminParts};
use toolgate::approvals::Approvals;
use toolgate::audit::{Audit, AuditSettings};
use toolgate::clock::now_ms;
use toolgate::compile::{Compiler, WorkerCommand, WorkerLimits};
use toolgate::config::Config;
use toolgate::credentials::{CredentialSettings, Credentials, RootKeySource, token_client};
use toolgate::custom::{CustomTools, Parts as CustomParts};
use toolgate::dispatch::{Dispatcher, Parts};
use toolgate::events::Events;
use toolgate::http::listener::{Connections, ListenerSettings, connection};
use toolgate::http::{App, AppParts, BodyMemory, Mcp, root_service};
use toolgate::identity::Identity;
use toolgate::plugins::{PluginParts, Plugins, Registries};
use toolgate::registry::Registry;
use toolgate::sessions::{AnswerSettings, Answers, Bounds, OrganizationBounds, Sessions};
use toolgate::store::Store;
use toolgate::webhooks::{GrantedHosts, WebhookParts, Webhooks};
use toolgate_admission::{Descriptor, Ledger, QuotaCounters, Rates};
use toolgate_api::limits::LimitsPatch;
use toolgate_sandbox::{
    Component, EgressSettings, HostClient, HostClientSettings, PagemapScan, Queue, QueueSettings, Sandbox,
    SandboxSettings, Upstreams, precompile,
};

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
    _folder: TempDir,
}

/// Compiled once for all daemons.
static SANDBOX: LazyLock<(Sandbox, Component)> = LazyLock::new(|| {
    let settings = SandboxSettings { instances: 4, pagemap_scan: PagemapScan::Off };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    let code = precompile(COMPONENT).expect("a component");
    let component = sandbox.load(&code).expect("a component");
    (sandbox, component)
});

impl InProcessDaemon {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = scratch::folder();
        let (app, operator) = runtime.block_on(app(folder.path()));
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
        let mut daemon = Self { runtime, serve, placeholders: BTreeMap::new(), _folder: folder };
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

async fn app(folder: &Path) -> (App, String) {
    let mut config = Config::default();
    config.http.body_timeout_ms = u64::try_from(TIMEOUT.as_millis()).expect("small");
    let store = Store::open(&folder.join("state.db")).await.expect("a store");
    let settings = AuditSettings {
        segment_bytes: 1024 * 1024,
        reserve_bytes: 64 * 1024,
        ..AuditSettings::new(folder.join("audit"))
    };
    let (audit, _) = Audit::start(&settings).await.expect("a log");
    let identity = Identity::load(store.clone()).await.expect("tokens");
    let token = folder.join("operator.token");
    identity.make_first_token(&token, now_ms()).await.expect("a token");
    let operator = std::fs::read_to_string(&token).expect("a token").trim().to_owned();
    let (sandbox, component) = SANDBOX.clone();
    let registry = Registry::new(LimitsPatch::new());
    let description = sandbox.describe(&component, None).await.expect("a description");
    let descriptor = Descriptor::parse(&description).expect("a description");
    registry.serve(LimitsPatch::new(), vec![Arc::new(plugin::plugin(descriptor, component))]);
    let credentials = credentials(folder, &store, &registry, &audit).await;
    let dispatcher = dispatcher(&registry, audit, &sandbox, &store, &credentials);
    let plugins = plugins(folder, &registry, &store, &sandbox);
    let sessions = sessions(folder);
    let custom = CustomTools::new(CustomParts {
        plugins: plugins.clone(),
        registry: registry.clone(),
        store: store.clone(),
        dispatcher: dispatcher.clone(),
        sessions: Arc::clone(&sessions),
    });
    let webhooks = Webhooks::new(WebhookParts {
        store: store.clone(),
        audit: dispatcher.parts().audit.clone(),
        credentials: credentials.clone(),
        http: HostClient::new(HostClientSettings::default()).expect("a client"),
        hosts: GrantedHosts::default(),
        base_url: "http://localhost".to_owned(),
    });
    let admin = Admin::new(AdminParts {
        dispatcher,
        identity: Arc::new(identity),
        credentials,
        plugins,
        custom,
        registry,
        sessions,
        store,
        webhooks,
    });
    let parts = AppParts {
        access_tokens: None,
        person_sign_in: None,
        registries: Registries::default(),
        organization_registries: None,
        mcp: Mcp::new(&config, CancellationToken::new()),
        config,
        admin,
        serving: AtomicBool::new(true),
        bodies: BodyMemory::new(u64::MAX, u64::MAX),
        background: TaskTracker::new(),
        openapi: std::sync::OnceLock::new(),
    };
    (App::new(parts), operator)
}

async fn credentials(folder: &Path, store: &Store, registry: &Registry, audit: &Audit) -> Credentials {
    let settings = CredentialSettings {
        audit: audit.clone(),
        source: RootKeySource::Generated(folder.join("root")),
        http: token_client(HostClient::new(HostClientSettings::default()).expect("a client")),
        references: None,
        redirect_url: "http://localhost/v1/oauth/callback".to_owned(),
        client_metadata_url: None,
    };
    Credentials::open(store.clone(), registry.clone(), settings, now_ms()).await.expect("secrets")
}

fn sessions(folder: &Path) -> Arc<Sessions> {
    let organization = OrganizationBounds::NONE;
    let bounds =
        Bounds { rounds_per_turn: 100, rounds_per_session: 10_000, failures: 3, recent: 5, organization };
    let kept_ms = 60_000;
    let answers = AnswerSettings {
        folder: create_folder(folder, "answers"),
        key: [7; 32],
        kept_ms,
        file_kept_ms: kept_ms,
        organization_bytes: 1 << 20,
    };
    let answers = Answers::start(answers).expect("a writer");
    Arc::new(Sessions::new(&create_folder(folder, "workspaces"), answers, kept_ms, bounds))
}

fn dispatcher(
    registry: &Registry,
    audit: Audit,
    sandbox: &Sandbox,
    store: &Store,
    credentials: &Credentials,
) -> Dispatcher {
    Dispatcher::new(Parts {
        metrics: Default::default(),
        log: Default::default(),
        traces: Default::default(),
        draw_key: Default::default(),
        queue: Queue::new(QueueSettings {
            running: 4,
            running_per_organization: 3,
            waiting_per_organization: 100,
            waiting: 100,
        }),
        registry: registry.clone(),
        audit,
        sandbox: sandbox.clone(),
        ledger: Ledger::new(Rates::UNLIMITED, QuotaCounters::default()),
        upstreams: Upstreams::new(EgressSettings::default()),
        credentials: credentials.clone(),
        approvals: Approvals::new(store.clone(), 60_000),
        events: Events::new(64),
        store: store.clone(),
        client_result_ms: 60_000,
        detached: Default::default(),
    })
}

/// Only operators can load plugins, and no input has an operator's token, so the worker program does not exist.
fn plugins(folder: &Path, registry: &Registry, store: &Store, sandbox: &Sandbox) -> Plugins {
    let command = WorkerCommand {
        program: folder.join("nothing"),
        limits: WorkerLimits { memory_bytes: 1, cpu_seconds: 1, wall_seconds: 1 },
        concurrency: 1,
        is_confined: true,
    };
    let compiler = Compiler::open(sandbox.clone(), &create_folder(folder, "cache"), &[3; 32], command)
        .expect("a compiler");
    Plugins::new(PluginParts {
        sandbox: sandbox.clone(),
        compiler,
        registry: registry.clone(),
        store: store.clone(),
        folder: create_folder(folder, "components"),
        limits: LimitsPatch::new(),
        signatures: toolgate::config::Signatures::Optional,
    })
}

fn create_folder(folder: &Path, name: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::create_dir(&path).expect("a folder");
    path
}
