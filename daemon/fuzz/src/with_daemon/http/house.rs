//! A daemon without its process: the parts that `serve` wires, over a folder in memory, and a connection that is a pipe.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate::approvals::Approvals;
use toolgate::audit::{Audit, AuditSettings};
use toolgate::compile::{Compiler, WorkerCommand, WorkerLimits};
use toolgate::config::Config;
use toolgate::credentials::{CredentialSettings, Credentials, HttpsSettings, RootKeySource, https_client};
use toolgate::custom::{CustomTools, Parts as CustomParts};
use toolgate::dispatch::{Dispatcher, Parts, now_ms};
use toolgate::events::Events;
use toolgate::http::listener::{ListenerSettings, connection};
use toolgate::http::{App, AppParts};
use toolgate::identity::Identity;
use toolgate::plugins::{PluginParts, Plugins};
use toolgate::registry::Registry;
use toolgate::sessions::{Bounds, Sessions};
use toolgate::store::Store;
use toolgate_admission::{Descriptor, Digest, Ledger, LimitsPatch, Plugin, Rates};
use toolgate_sandbox::{
    Component, EgressSettings, PagemapScan, Queue, QueueSettings, Sandbox, SandboxSettings, Upstreams,
    precompile,
};

use super::super::place;
use super::answers::{Answer, read};
use super::requests::{Asked, split};

/// A client whose bytes are all there is not slow; what waits longer waits for what never comes.
const PATIENCE: Duration = Duration::from_millis(20);
/// No exchange takes that long.
const HANGS: Duration = Duration::from_secs(20);
const PIPE_BYTES: usize = 1024 * 1024;

/// A plugin with one tool, which is really called.
const COMPONENT: &[u8] = include_bytes!("../../../corpus/component/answers-one.wasm");

type Serving = Box<dyn Fn(DuplexStream) -> Pin<Box<dyn Future<Output = ()>>>>;

/// The daemon, with an organization, an agent, a session and an owner.
pub struct House {
    runtime: Runtime,
    serve: Serving,
    /// What stands for what in an input.
    stands_for: BTreeMap<&'static str, String>,
    _folder: TempDir,
}

/// Compiled once.
static SANDBOX: LazyLock<(Sandbox, Component)> = LazyLock::new(|| {
    let settings = SandboxSettings { instances: 4, pagemap_scan: PagemapScan::Off };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    let code = precompile(COMPONENT).expect("a component");
    let component = sandbox.load(&code).expect("a component");
    (sandbox, component)
});

impl House {
    pub fn build() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = place::folder();
        let (app, operator) = runtime.block_on(app(folder.path()));
        let site = app.site();
        let settings = ListenerSettings {
            connections: 1,
            header_bytes: 32 * 1024,
            header_timeout: PATIENCE,
            write_timeout: PATIENCE,
            drain: PATIENCE,
        };
        let serve: Serving = Box::new(move |pipe| {
            Box::pin(connection(pipe, site.clone(), settings, CancellationToken::new()))
        });
        let mut house = Self { runtime, serve, stands_for: BTreeMap::new(), _folder: folder };
        house.furnish(&operator);
        house
    }

    /// The bytes with what is only known here.
    pub fn filled_in(&self, data: &[u8]) -> Vec<u8> {
        let mut filled = Vec::with_capacity(data.len());
        let mut rest = data;
        while let Some((first, others)) = rest.split_first() {
            let known = self.stands_for.iter().find(|(mark, _)| rest.starts_with(mark.as_bytes()));
            match known {
                Some((mark, text)) => {
                    filled.extend_from_slice(text.as_bytes());
                    rest = &rest[mark.len()..];
                }
                None => {
                    filled.push(*first);
                    rest = others;
                }
            }
        }
        filled
    }

    /// Sends the bytes on one connection and reads the answers. The client hangs up when it has every answer that it
    /// asked for; where it is not clear what it asked for, it waits until the daemon does.
    pub fn ask(&self, sent: &[u8], asked: &Asked) -> Vec<Answer> {
        let methods: Vec<&str> = asked.requests.iter().map(|request| request.method.as_str()).collect();
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let exchange = async {
            let (mut reading, mut writing) = tokio::io::split(client);
            let talk = async {
                // A daemon that hung up does not want the rest.
                let _ = writing.write_all(sent).await;
                let mut received = Vec::new();
                loop {
                    let count = reading.read_buf(&mut received).await.unwrap_or(0);
                    let (answers, whole) = read(&received, &methods);
                    if count == 0 {
                        assert_eq!(whole, received.len(), "half an answer");
                        return answers;
                    }
                    if asked.is_complete && answers.len() == methods.len() {
                        let _ = writing.shutdown().await;
                    }
                }
            };
            let ((), answers) = tokio::join!((self.serve)(server), talk);
            answers
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(HANGS, exchange).await });
        ended.expect("the connection hangs")
    }

    fn furnish(&mut self, operator: &str) {
        let put = |path: &str, body: &str| request("PUT", path, operator, "If-None-Match: *\r\n", body);
        self.must(&put("/v1/orgs/acme", "{}"));
        self.must(&put("/v1/orgs/other", "{}"));
        self.must(&put("/v1/orgs/acme/policy", r#"{"enabled":"*"}"#));
        self.must(&put("/v1/orgs/acme/agents/bot", r#"{"enabled":"*","autonomy":"autonomous"}"#));
        let owner = self.must(&request(
            "POST",
            "/v1/tokens",
            operator,
            "",
            r#"{"role":"owner","organization":"acme"}"#,
        ));
        let owner = owner["token"].as_str().expect("a token").to_owned();
        let session = self.must(&request("POST", "/v1/sessions", &owner, "", r#"{"agent":"acme/bot"}"#));
        let session = session["session"].as_str().expect("a session").to_owned();
        self.stands_for = BTreeMap::from([("@owner", owner), ("@session", session)]);
    }

    fn must(&self, sent: &str) -> Value {
        let answers = self.ask(sent.as_bytes(), &split(sent.as_bytes()));
        let [answer] = answers.as_slice() else { panic!("{sent}: {answers:?}") };
        assert!(answer.status < 300, "{sent}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).unwrap_or_default()
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
    config.http.body_timeout_ms = u64::try_from(PATIENCE.as_millis()).expect("small");
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
    registry.serve(LimitsPatch::new(), vec![Arc::new(plugin(&sandbox, component).await)]);
    let secrets = CredentialSettings {
        audit: audit.clone(),
        source: RootKeySource::Made(folder.join("root")),
        http: https_client(HttpsSettings::default()).expect("a client"),
        references: None,
        redirect_url: "http://localhost/v1/oauth/callback".to_owned(),
    };
    let credentials =
        Credentials::open(store.clone(), registry.clone(), secrets, now_ms()).await.expect("secrets");
    let bounds = Bounds { rounds_per_turn: 100, rounds_per_session: 10_000, failures: 3, recent: 5 };
    let dispatcher = dispatcher(&registry, audit, &sandbox, &store, &credentials);
    let plugins = plugins(folder, &registry, &store, &sandbox);
    let sessions = Arc::new(Sessions::new(&made(folder, "workspaces"), 60_000, bounds));
    let custom = CustomTools::new(CustomParts {
        plugins: plugins.clone(),
        registry: registry.clone(),
        store: store.clone(),
        dispatcher: dispatcher.clone(),
        sessions: Arc::clone(&sessions),
    });
    let parts = AppParts {
        config,
        dispatcher,
        identity,
        credentials,
        plugins,
        custom,
        registry,
        sessions,
        store,
        serving: AtomicBool::new(true),
        background: TaskTracker::new(),
        documents: tokio::sync::Mutex::default(),
        openapi: std::sync::OnceLock::new(),
    };
    (App::new(parts), operator)
}

async fn plugin(sandbox: &Sandbox, component: Component) -> Plugin<Component> {
    let description = sandbox.describe(&component, None).await.expect("a description");
    let descriptor = Descriptor::parse(&description).expect("a description");
    Plugin {
        granted: Arc::new(descriptor.capabilities.clone().into()),
        descriptor: Arc::new(descriptor),
        digest: Digest::from_sha256([7; 32]),
        component,
        disabled: false,
    }
}

fn dispatcher(
    registry: &Registry,
    audit: Audit,
    sandbox: &Sandbox,
    store: &Store,
    credentials: &Credentials,
) -> Dispatcher {
    Dispatcher::new(Parts {
        queue: Queue::new(QueueSettings {
            running: 4,
            running_per_organization: 3,
            waiting_per_organization: 100,
            waiting: 100,
        }),
        registry: registry.clone(),
        audit,
        sandbox: sandbox.clone(),
        ledger: Mutex::new(Ledger::new(Rates { calls_per_second: None, burst: 1 })),
        upstreams: Upstreams::new(EgressSettings::default()),
        credentials: credentials.clone(),
        approvals: Approvals::new(store.clone(), 60_000),
        events: Events::new(64),
        store: store.clone(),
        client_result_ms: 60_000,
        carrying: Default::default(),
    })
}

/// Loading is for operators, and nobody here is one: the program that would compile is not there.
fn plugins(folder: &Path, registry: &Registry, store: &Store, sandbox: &Sandbox) -> Plugins {
    let command = WorkerCommand {
        program: folder.join("nothing"),
        limits: WorkerLimits { memory_bytes: 1, cpu_seconds: 1, wall_seconds: 1 },
        concurrency: 1,
    };
    let compiler =
        Compiler::open(sandbox.clone(), &made(folder, "cache"), &[3; 32], command).expect("a compiler");
    Plugins::new(PluginParts {
        sandbox: sandbox.clone(),
        compiler,
        registry: registry.clone(),
        store: store.clone(),
        folder: made(folder, "components"),
        limits: LimitsPatch::new(),
    })
}

fn made(folder: &Path, name: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::create_dir(&path).expect("a folder");
    path
}
