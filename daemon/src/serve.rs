//! Start and stop: wires the rooms together, in the order that confining the process needs.
//!
//! Files are opened, the address is bound and the engine is made while this is the only thread; then the
//! runtime is built. What restricts a thread (Landlock does) must come between the two, or the runtime's
//! threads would be free of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{
    AgentDocument, CallError, ErrorType, Ledger, LimitsPatch, OrgDocument, OrgRules, Rates, SessionFacts,
};
use toolgate_sandbox::{Sandbox, SandboxSettings};

use crate::audit::{Audit, AuditSettings};
use crate::compile::{Compiler, WorkerCommand, WorkerLimits};
use crate::config::{Config, PagemapScan, StoreLocation};
use crate::dispatch::{Dispatcher, Parts, now_ms};
use crate::documents::DocumentKey;
use crate::http::listener::ListenerSettings;
use crate::http::{App, AppParts, listener};
use crate::identity::Identity;
use crate::keys;
use crate::logging;
use crate::plugins::{PluginParts, Plugins, Progress};
use crate::queue::{Queue, QueueSettings};
use crate::registry::Registry;
use crate::sessions::{SessionSetup, Sessions};
use crate::store::{DataFolder, SessionUse, Store};

/// Polls of tasks between two looks at sockets and timers. Small, because a poll of a guest lasts up to one
/// epoch tick: with the runtime's own 61 a new request could wait for a twentieth of a second per thread. Next
/// to endless guests on both of two cores `/healthz` took 3.8 ms with 7 and 1.0 ms with 2 (the median of the
/// benchmark `daemon`); a look costs less than a microsecond.
const EVENT_INTERVAL: u32 = 2;

/// How often sessions are looked through for idle ones, and their use is written down.
const SESSION_SWEEP: Duration = Duration::from_secs(60);

/// How long the row of an ended session stays, in milliseconds: a week, for whoever asks what it was.
const ENDED_SESSIONS_KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// What is there before the runtime: an engine, a folder that is ours, a bound address.
pub struct Prepared {
    config: Config,
    folder: DataFolder,
    sandbox: Sandbox,
    listener: std::net::TcpListener,
    worker: PathBuf,
}

/// A daemon that serves.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where its operator token is, where this start made one.
    pub operator_token: PathBuf,
    app: App,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    sweeping: tokio::task::JoinHandle<()>,
    _folder: DataFolder,
}

/// Runs the daemon until it is told to stop.
pub fn run(config: Config) -> Result<()> {
    logging::start(config.log.format, config.log.level);
    let prepared = Prepared::new(config, std::env::current_exe()?)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let running = prepared.start(|Progress::Compiled { namespace, took }| {
            tracing::info!(namespace, ?took, "built-in plugin compiled");
        });
        let running = running.await?;
        tracing::info!(address = %running.address, "serving");
        stop_signal().await?;
        tracing::info!("stopping: running calls may end");
        running.stop().await;
        anyhow::Ok(())
    })
}

/// The runtime that connections and guests share.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()
        .context("the runtime cannot start")
}

/// Waits until somebody stops the process.
pub async fn stop_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

impl Prepared {
    /// Takes the data folder, makes the engine, binds the address. `worker` is the binary that compiles.
    pub fn new(config: Config, worker: PathBuf) -> Result<Self> {
        raise_open_files();
        let folder = DataFolder::open(&config.data)?;
        let sandbox = Sandbox::new(&SandboxSettings {
            instances: config.sandbox.instances,
            pagemap_scan: match config.sandbox.pagemap_scan {
                PagemapScan::Auto => toolgate_sandbox::PagemapScan::Auto,
                PagemapScan::Off => toolgate_sandbox::PagemapScan::Off,
            },
        })?;
        tracing::info!(pagemap_scan = sandbox.pagemap_scan(), "sandbox ready");
        let listener = bind(config.listen)?;
        Ok(Self { config, folder, sandbox, listener, worker })
    }

    /// Opens the state, loads plugins and documents, and serves.
    pub async fn start(self, report: impl Fn(Progress)) -> Result<Running> {
        let store = self.open_store().await?;
        let audit = self.open_audit().await?;
        let identity = Identity::load(store.clone()).await?;
        let operator_token = self.folder.operator_token();
        identity.make_first_token(&operator_token, now_ms()).await?;
        let limits = self.config.limits.clone();
        let registry = Registry::new(limits.clone());
        let plugins = self.plugins(&store, &registry)?;
        plugins.load_built_in(report).await?;
        plugins.restore().await?;
        restore_documents(&store, &registry).await?;
        let answers_kept_ms = self.config.calls.recorded_seconds.saturating_mul(1000);
        let sessions = Arc::new(Sessions::new(&self.folder.subfolder("workspaces")?, answers_kept_ms));
        restore_sessions(&store, &sessions).await?;
        sessions.remove_orphans().await;
        let dispatcher = self.dispatcher(audit, &registry, limits);
        self.listener.set_nonblocking(true)?;
        let address = self.listener.local_addr()?;
        let tcp = TcpListener::from_std(self.listener)?;
        let stop = CancellationToken::new();
        let settings = listener_settings(&self.config);
        let sweeping = tokio::spawn(sweep_sessions(
            Arc::clone(&sessions),
            store.clone(),
            self.config.sessions.idle_seconds.saturating_mul(1000),
            stop.clone(),
        ));
        let app = App::new(AppParts {
            openapi: std::sync::OnceLock::new(),
            config: self.config,
            dispatcher,
            identity,
            plugins,
            registry,
            sessions,
            store,
            serving: AtomicBool::new(true),
            background: TaskTracker::new(),
            documents: tokio::sync::Mutex::default(),
        });
        let serving = tokio::spawn(listener::serve(tcp, app.clone().router(), settings, stop.clone()));
        Ok(Running { address, operator_token, app, stop, serving, sweeping, _folder: self.folder })
    }

    async fn open_store(&self) -> Result<Store> {
        let StoreLocation::Sqlite(path) = self.config.store_location()?;
        let path = if self.config.store.is_none() { self.folder.path().join("state.db") } else { path };
        Ok(Store::open(&path).await?)
    }

    async fn open_audit(&self) -> Result<Audit> {
        let mut settings = AuditSettings::new(self.folder.subfolder("audit")?);
        settings.key = Some(keys::read_or_make(&self.folder.subfolder("keys")?.join("audit.key"))?);
        settings.segment_bytes = self.config.audit.segment_bytes;
        settings.reserve_bytes = self.config.audit.reserve_bytes;
        let (audit, recovery) = Audit::start(&settings).await?;
        if recovery.unknown > 0 || recovery.cut.is_some() || recovery.lost.is_some() {
            tracing::warn!(?recovery, "the audit log was recovered after an unclean stop");
        }
        Ok(audit)
    }

    fn plugins(&self, store: &Store, registry: &Registry) -> Result<Plugins> {
        let compile = &self.config.compile;
        let command = WorkerCommand {
            program: self.worker.clone(),
            arguments: vec!["compile-worker".into()],
            limits: WorkerLimits {
                memory_bytes: compile.memory_bytes,
                cpu_seconds: compile.timeout_seconds,
                wall_seconds: compile.timeout_seconds,
            },
            concurrency: usize::try_from(compile.concurrency)?,
        };
        let key = keys::read_or_make(&self.folder.subfolder("keys")?.join("cache.key"))?;
        let compiler = Compiler::open(self.sandbox.clone(), &self.folder.subfolder("cache")?, &key, command)?;
        Ok(Plugins::new(PluginParts {
            sandbox: self.sandbox.clone(),
            compiler,
            registry: registry.clone(),
            store: store.clone(),
            folder: self.folder.subfolder("components")?,
            limits: self.config.limits.clone(),
        }))
    }

    fn dispatcher(&self, audit: Audit, registry: &Registry, limits: LimitsPatch) -> Dispatcher {
        let queue = &self.config.queue;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rates = &self.config.rates;
        Dispatcher::new(Parts {
            queue: Queue::new(QueueSettings {
                running: self.config.sandbox.instances as usize,
                waiting_per_organization: count(queue.waiting_per_organization),
                waiting: count(queue.waiting_total),
            }),
            registry: registry.clone(),
            audit,
            sandbox: self.sandbox.clone(),
            ledger: Mutex::new(Ledger::new(Rates {
                calls_per_second: Some(u32::try_from(rates.calls_per_second).unwrap_or(u32::MAX)),
                burst: u32::try_from(rates.burst).unwrap_or(u32::MAX),
            })),
            limits,
        })
    }
}

impl Running {
    /// Stops taking requests, lets running ones end, and closes everything.
    pub async fn stop(self) {
        self.app.stop_serving();
        self.stop.cancel();
        for task in [self.serving, self.sweeping] {
            if task.await.is_err() {
                tracing::error!("a part of the daemon died before it was stopped");
            }
        }
        self.app.close().await;
    }
}

/// Sessions with files hold some open, and so does each connection; the system's usual 1,024 is soon used up.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener, CallError> {
    std::net::TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program listens there; give another with `--listen`",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a right that the daemon does not want"
            }
            _ => "give an address of this machine with `--listen`, like `127.0.0.1:7300`",
        };
        CallError::new(ErrorType::Unavailable, format!("cannot listen at {address}: {error}"), hint)
    })
}

fn listener_settings(config: &Config) -> ListenerSettings {
    let http = &config.http;
    ListenerSettings {
        connections: usize::try_from(http.connections).unwrap_or(usize::MAX),
        header_bytes: usize::try_from(http.header_bytes).unwrap_or(usize::MAX),
        header_timeout: Duration::from_millis(http.header_timeout_ms),
        write_timeout: Duration::from_millis(http.write_timeout_ms),
        drain: Duration::from_secs(config.drain_seconds),
    }
}

async fn restore_documents(store: &Store, registry: &Registry) -> Result<()> {
    for document in store.all_documents().await? {
        match document.key {
            DocumentKey::Organization(name) => registry.put_organization(name),
            DocumentKey::Policy(organization) => match OrgDocument::parse(&document.body) {
                Ok(policy) => registry.put_policy(&organization, OrgRules::compile(&policy)),
                // An older daemon may have taken what this one does not: no policy means deny.
                Err(error) => {
                    tracing::error!(%organization, %error, "a policy is not sound; the organization has no tools");
                    registry.remove_organization(&organization);
                }
            },
            DocumentKey::Agent { organization, agent } => match AgentDocument::parse(&document.body) {
                Ok(rules) => registry.put_agent(&organization, agent, rules),
                Err(error) => {
                    tracing::error!(%organization, %agent, %error, "an agent's document is not sound; it has no tools")
                }
            },
        }
    }
    Ok(())
}

async fn restore_sessions(store: &Store, sessions: &Sessions) -> Result<()> {
    for row in store.open_sessions().await? {
        let facts = SessionFacts { channel: row.channel.clone(), ..SessionFacts::default() };
        let setup = SessionSetup {
            id: row.id,
            organization: row.organization,
            agent: row.agent,
            user: row.user,
            conversation: row.conversation,
            channel: row.channel,
            principal: row.opened_by,
            created_ms: row.created_ms,
        };
        sessions.take_up(setup, facts, row.last_used_ms);
    }
    Ok(())
}

/// Ends idle sessions and writes behind when the others were used.
async fn sweep_sessions(sessions: Arc<Sessions>, store: Store, idle_ms: u64, stop: CancellationToken) {
    loop {
        let last = tokio::time::timeout(SESSION_SWEEP, stop.cancelled()).await.is_ok();
        let now_ms = now_ms();
        let uses: Vec<SessionUse> = sessions
            .filter(|session| session.last_used_ms() > session.setup.created_ms)
            .iter()
            .map(|session| SessionUse {
                id: session.setup.id.clone(),
                rounds: 0,
                last_used_ms: session.last_used_ms(),
            })
            .collect();
        if let Err(error) = store.note_session_use(&uses).await {
            tracing::warn!(%error, "the use of sessions cannot be written down");
        }
        if last {
            return;
        }
        if let Err(error) = store.forget_sessions(now_ms.saturating_sub(ENDED_SESSIONS_KEPT_MS)).await {
            tracing::warn!(%error, "the rows of old sessions cannot be removed");
        }
        let oldest_ms = now_ms.saturating_sub(idle_ms);
        for session in sessions.filter(|session| session.last_used_ms() < oldest_ms) {
            if let Err(error) = store.end_session(&session.setup.id, now_ms).await {
                tracing::warn!(%error, "an idle session cannot be ended");
                continue;
            }
            sessions.end(&session.setup.id).await;
        }
    }
}
