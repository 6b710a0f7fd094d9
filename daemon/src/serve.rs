//! Start and stop of the daemon.
//!
//! [`PreparedDaemon::new`] binds the address, opens files and creates the engine while the process has one thread; then
//! the tokio runtime is built. A sandbox that restricts threads, such as Landlock, belongs between the two, since only
//! threads created later inherit it.

mod sweep;

use std::hash::RandomState;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use sweep::Sweeper;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{Ledger, QuotaCounters, Rates, SessionFacts, parse_platform};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::document::OrganizationDocument;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::Grant;
use toolgate_api::limits::Limits;
use toolgate_api::name::ToolId;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolList;
use toolgate_sandbox::{
    EgressSettings, HostClient, HostClientSettings, Queue, QueueSettings, Sandbox, SandboxSettings,
    Upstreams, processors,
};
use url::Url;

use crate::admin::{Admin, AdminParts};
use crate::approvals::Approvals;
use crate::audit::{Audit, AuditSettings, DataKeys, Retention, WrappedKey};
use crate::clock::{now_ms, steady_unix_ms};
use crate::compile::{Compiler, WorkerCommand, WorkerLimits};
use crate::config::{self, Config, Listen, PagemapScan};
use crate::credentials::{
    CredentialSettings, Credentials, ReferencePrefix, RootKeySource, TokenClient, Vault, VaultEngine,
    VaultReferences, token_client,
};
use crate::custom::{CustomTools, Parts as CustomParts};
use crate::dispatch::{DetachedCalls, Dispatcher, Parts};
use crate::documents::{Document, DocumentKey};
use crate::enabled::StoredEnabled;
use crate::events::Events;
use crate::http::listener::{ListenerSettings, Socket, Tls, TlsFiles};
use crate::http::{App, AppParts, BodyMemory, Mcp, RootService, listener};
use crate::identity::{AccessTokens, Identity};
use crate::keys;
use crate::logging;
use crate::metrics::{Metrics, listener as metrics_listener};
use crate::plugins::{
    BuiltIn, OrganizationRegistries, PluginFolder, PluginParts, Plugins, PublisherKey, Registries,
};
use crate::registry::{Registry, Replacement};
use crate::sessions::{
    AnswerSettings, Answers, Bounds, InitialState, OPEN_MAX, OrganizationBounds, SessionSetup, Sessions,
};
use crate::store::{DataFolder, OrganizationKeyRow, Store};
use crate::traces::{Exporter, ExporterTask, Traces};
use crate::webhooks::{GrantedHosts, WebhookParts, Webhooks};

/// Policy revisions of one start: far more than a daemon makes changes, and few enough that the numbers stay exact in JSON.
const REVISIONS_PER_START: u64 = 100_000_000;

/// The resources that are acquired before the runtime: engine, locked data folder, bound address.
pub struct PreparedDaemon {
    config: Config,
    folder: DataFolder,
    sandbox: Sandbox,
    socket: Socket,
    tls: Option<Tls>,
    metrics_listener: Option<std::net::TcpListener>,
    traces: Traces,
    exporter: Option<Exporter>,
    worker: PathBuf,
}

/// A daemon that serves requests.
pub struct RunningDaemon {
    /// The listen address.
    pub address: Listen,
    /// The file of the first operator token; it exists if this start created a token.
    pub operator_token: PathBuf,
    app: App,
    stop: CancellationToken,
    shutdown: CancellationToken,
    tasks: [JoinHandle<()>; 11],
    exporter: Option<ExporterTask>,
    folder: DataFolder,
    /// Removes the file of a Unix socket when it is dropped.
    _socket: Socket,
}

/// Runs the daemon until a stop signal.
pub fn run(config: Config) -> Result<()> {
    logging::start(config.log.format, config.log.level);
    let drain_seconds = config.drain_seconds;
    let prepared = PreparedDaemon::new(config, std::env::current_exe()?)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let running = prepared.start(|namespace, took| {
            tracing::info!(namespace, ?took, "built-in plugin compiled");
        });
        let running = running.await?;
        let mut signals = StopSignals::listen()?;
        ignore_hangups()?;
        tracing::info!(address = %running.address, "serving");
        signals.next().await;
        tracing::info!(
            drain_seconds,
            "stopping: waiting for running calls; a second signal stops them at once"
        );
        let shutdown = running.shutdown.clone();
        tokio::spawn(async move {
            signals.next().await;
            shutdown.cancel();
        });
        running.stop().await;
        anyhow::Ok(())
    })
}

/// A closed terminal or a supervisor's reload must not end the daemon.
fn ignore_hangups() -> Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::info!("SIGHUP is ignored: settings are read at the start");
        }
    });
    Ok(())
}

async fn compile_until_stopped(
    plugins: Plugins,
    uncompiled: Vec<BuiltIn>,
    report: impl Fn(&str, Duration),
    stop: CancellationToken,
) {
    stop.run_until_cancelled(plugins.compile_built_in(uncompiled, report)).await;
}

/// Builds the tokio runtime for connections and guests.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(processors())
        .build()
        .context("the runtime cannot start")
}

/// SIGTERM and SIGINT. One listener for the whole run, so that a signal between two waits is not lost.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Installs the handlers. From now on a signal does not terminate the process.
    pub fn listen() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal; returns at once if one arrived since the last wait.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl PreparedDaemon {
    /// Binds the address, locks the data folder and creates the engine. `worker` is the binary of the compile worker.
    pub fn new(mut config: Config, worker: PathBuf) -> Result<Self> {
        raise_open_files(&config);
        // Bound first: a start on a port that is in use creates no files.
        let socket = bind(&config.listen)?;
        let tls = tls_files(&config.tls).map(Tls::load).transpose()?;
        let metrics_listener = config.metrics.listen.map(bind_metrics).transpose()?;
        let (traces, exporter) = Traces::new(&config.traces)?;
        let folder = DataFolder::open(&config.data)?;
        config.data = folder.path().to_owned();
        let sandbox = Sandbox::new(&SandboxSettings {
            instances: config.sandbox.instances,
            pagemap_scan: match config.sandbox.pagemap_scan {
                PagemapScan::Auto => toolgate_sandbox::PagemapScan::Auto,
                PagemapScan::Off => toolgate_sandbox::PagemapScan::Off,
            },
        })?;
        tracing::info!(pagemap_scan = sandbox.pagemap_scan(), "sandbox ready");
        Ok(Self { config, folder, sandbox, socket, tls, metrics_listener, traces, exporter, worker })
    }

    /// Opens the store and the audit log, loads plugins and documents, and serves requests. Liveness probes are answered
    /// from the beginning.
    ///
    /// Built-in plugins without cached code are compiled while requests are served; each is reported with its compile time.
    pub async fn start(self, report: impl Fn(&str, Duration) + Send + 'static) -> Result<RunningDaemon> {
        let (stop, shutdown) = (CancellationToken::new(), CancellationToken::new());
        // Ends what was spawned if the start fails.
        let failure = stop.clone().drop_guard();
        let address = self.socket.address()?;
        let service = RootService::starting(self.config.hosts());
        let serving = tokio::spawn(listener::serve(
            self.socket.listener()?,
            self.tls.clone(),
            service.clone(),
            listener_settings(&self.config),
            stop.clone(),
            shutdown.clone(),
        ));
        let operator_token = self.folder.operator_token();
        let (admin, compiling) = self.restore(report, &stop, &shutdown).await?;
        let sweeper = tokio::spawn(self.sweeper(&admin).run(stop.clone()));
        let listener = self.metrics_listener.as_ref().map(std::net::TcpListener::try_clone).transpose()?;
        let listener = listener.map(TcpListener::from_std).transpose()?;
        let metrics = tokio::spawn(metrics_listener::serve(listener, admin.clone(), stop.clone()));
        let refreshing = tokio::spawn(admin.parts().credentials.clone().run_background(stop.clone(), now_ms));
        let access_tokens = AccessTokens::new(&self.config.oauth);
        let dispatcher = admin.parts().dispatcher.clone();
        let counting = tokio::spawn(dispatcher.store_quota_use_until(stop.clone()));
        let fetching = self.fetch_issuer_keys(access_tokens.clone(), stop.clone())?;
        let judging = tokio::spawn(admin.clone().judge_canaries_until(stop.clone()));
        let asserting = tokio::spawn(admin.clone().watch_assertions_until(stop.clone()));
        let announcing = tokio::spawn(admin.parts().webhooks.clone().run(stop.clone()));
        let (background, registries) = (TaskTracker::new(), self.registries()?);
        let organization_registries = Some(self.organization_registries(&admin.parts().credentials));
        let watching = tokio::spawn(self.watch_plugin_folder(&admin, &background, &stop));
        let Self { config, folder, socket, exporter, .. } = self;
        reserve_space(&folder);
        let app = App::new(AppParts {
            admin,
            openapi: std::sync::OnceLock::new(),
            access_tokens,
            mcp: Mcp::new(&config, stop.clone()),
            bodies: BodyMemory::new(config.bodies_bytes(), config.bodies_bytes_per_organization()),
            config,
            serving: AtomicBool::new(true),
            background,
            registries,
            organization_registries,
        });
        service.serve(app.clone());
        failure.disarm();
        let tasks = [
            serving, sweeper, refreshing, compiling, metrics, counting, fetching, judging, watching,
            announcing, asserting,
        ];
        let exporter = exporter.map(Exporter::start);
        let _socket = socket;
        Ok(RunningDaemon { address, operator_token, app, stop, shutdown, tasks, exporter, folder, _socket })
    }

    /// Restores the state of the last run. Returns the task that compiles built-in plugins, too.
    async fn restore(
        &self,
        report: impl Fn(&str, Duration) + Send + 'static,
        stop: &CancellationToken,
        shutdown: &CancellationToken,
    ) -> Result<(Admin, JoinHandle<()>)> {
        let store = Store::open(&self.config.store_path()?).await?;
        let audit = self.open_audit(&store).await?;
        // Faults of the configuration are told before anything is compiled.
        let secrets = self.credential_settings(&audit)?;
        let hosts = self.webhook_hosts();
        let webhook_client = HostClient::new(hosts.client_settings(self.config.credentials.ca_file.clone()))?;
        let identity = Arc::new(Identity::load(store.clone()).await?);
        let operator_token = self.folder.operator_token();
        if identity.make_first_token(&operator_token, now_ms()).await? {
            tracing::info!(file = %operator_token.display(), "the operator token was created; it is only in this file");
        }
        let registry = Registry::new(self.config.limits.clone());
        registry.begin_revisions((store.count_start().await? - 1).saturating_mul(REVISIONS_PER_START));
        registry.require_consent(self.config.consent.required);
        let plugins = self.plugins(&store, &registry)?;
        let uncompiled = plugins.load_built_in().await?;
        plugins.restore().await?;
        let tools = restore_documents(&store, &registry, &plugins).await?;
        let credentials = Credentials::open(store.clone(), registry.clone(), secrets, now_ms()).await?;
        let sessions = self.restore_sessions(&store).await?;
        let quotas = QuotaCounters::restore(store.quota_use(steady_unix_ms()).await?);
        let dispatcher = self.dispatcher(audit, &registry, &store, &credentials, quotas, shutdown);
        dispatcher.restore_at_client(&sessions).await.context("the stored answers cannot be read")?;
        let custom = CustomTools::new(CustomParts {
            plugins: plugins.clone(),
            registry: registry.clone(),
            store: store.clone(),
            dispatcher: dispatcher.clone(),
            sessions: Arc::clone(&sessions),
        });
        let compiling =
            tokio::spawn(compile_until_stopped(plugins.clone(), uncompiled, report, stop.clone()));
        custom.restore(tools).await;
        plugins.restore_owned().await?;
        plugins.remove_unused();
        let webhooks = Webhooks::new(WebhookParts {
            store: store.clone(),
            audit: dispatcher.parts().audit.clone(),
            credentials: credentials.clone(),
            http: webhook_client,
            hosts,
            base_url: self.public_url(),
        });
        let admin = Admin::new(AdminParts {
            credentials,
            custom,
            dispatcher,
            identity,
            plugins,
            registry,
            sessions,
            store,
            webhooks,
        });
        admin.make_missing_data_keys().await?;
        admin.carry_over_consents().await?;
        Ok((admin, compiling))
    }

    fn sweeper(&self, admin: &Admin) -> Sweeper {
        let parts = admin.parts();
        Sweeper {
            admin: admin.clone(),
            sessions: Arc::clone(&parts.sessions),
            dispatcher: parts.dispatcher.clone(),
            store: parts.store.clone(),
            credentials: parts.credentials.clone(),
            identity: Arc::clone(&parts.identity),
            idle_ms: self.config.sessions.idle_seconds.saturating_mul(1000),
            kept_ms: self.results_kept_ms(),
            messages_kept_ms: self.config.sessions.messages_kept_seconds.saturating_mul(1000),
            audit: self.audit_retention(),
        }
    }

    fn audit_retention(&self) -> Retention {
        let (days, bytes) = (self.config.audit.kept_days, self.config.audit.kept_bytes);
        Retention {
            kept_ms: (days > 0).then(|| days.saturating_mul(24 * 3_600_000)),
            kept_bytes: (bytes > 0).then_some(bytes),
        }
    }

    async fn open_audit(&self, store: &Store) -> Result<Audit> {
        let mut settings = AuditSettings::new(self.folder.subfolder("audit")?);
        let keys = self.folder.subfolder("keys")?;
        settings.key = Some(keys::read_or_generate(&keys.join("audit.key"))?);
        settings.data_keys = Some(load_data_keys(store, &keys.join("data.key")).await?);
        settings.segment_bytes = self.config.audit.segment_bytes;
        settings.reserve_bytes = self.config.audit.reserve_bytes;
        let (audit, recovery) = Audit::start(&settings).await?;
        if recovery.unknown > 0 || recovery.cut.is_some() || recovery.lost.is_some() {
            tracing::warn!(?recovery, "the audit log was recovered after an unclean stop");
        }
        Ok(audit)
    }

    fn results_kept_ms(&self) -> u64 {
        self.config.calls.recorded_seconds.saturating_mul(1000)
    }

    async fn restore_sessions(&self, store: &Store) -> Result<Arc<Sessions>> {
        let workspaces = self.folder.subfolder("workspaces")?;
        let kept_ms = self.results_kept_ms();
        let sessions =
            Arc::new(Sessions::new(&workspaces, self.answers(kept_ms)?, kept_ms, bounds(&self.config)));
        restore_open_sessions(store, &sessions).await?;
        sessions.remove_orphans().await;
        Ok(sessions)
    }

    fn answers(&self, kept_ms: u64) -> Result<Answers> {
        let calls = &self.config.calls;
        Ok(Answers::start(AnswerSettings {
            folder: self.folder.subfolder("answers")?,
            key: keys::read_or_generate(&self.folder.subfolder("keys")?.join("answers.key"))?,
            kept_ms,
            file_kept_ms: kept_ms.max(calls.client_result_seconds.saturating_mul(1000)),
            organization_bytes: calls.recorded_bytes_per_organization,
        })?)
    }

    /// The URL for a browser on this machine. No browser reaches a Unix socket.
    fn browser_url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = match self.socket.address() {
            Ok(Listen::Tcp(address)) if address.ip().is_unspecified() => {
                format!("127.0.0.1:{}", address.port())
            }
            Ok(Listen::Tcp(address)) => address.to_string(),
            _ => "localhost".to_owned(),
        };
        format!("{scheme}://{address}")
    }

    /// `credentials.public_url`, or the URL for a browser on this machine; without a slash at its end.
    fn public_url(&self) -> String {
        match &self.config.credentials.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => self.browser_url(),
        }
    }

    fn webhook_hosts(&self) -> GrantedHosts {
        let settings = &self.config.webhooks;
        GrantedHosts {
            hosts: settings.hosts.clone().unwrap_or_default(),
            private_hosts: settings.private_hosts.clone().unwrap_or_default(),
            plain_http: settings.plain_http.clone().unwrap_or_default(),
        }
    }

    /// The configured source of the root key.
    fn root_key_source(&self) -> Result<RootKeySource> {
        let settings = &self.config.credentials;
        let keys = self.folder.subfolder("keys")?;
        let kv = settings.vault_kv.as_deref().map(VaultEngine::kv);
        let wrapped = keys.join("root.wrapped");
        let transit = settings.vault_transit.as_deref().map(|text| VaultEngine::transit(text, wrapped));
        if let Some(engine) = kv.or(transit) {
            let engine = engine
                .context("`credentials.vault_kv` is `MOUNT/PATH#FIELD`, `vault_transit` is `MOUNT/KEY`")?;
            return Ok(RootKeySource::Vault { vault: self.vault()?, engine });
        }
        Ok(match (&settings.root_key_file, &settings.root_key_environment) {
            (Some(path), _) => RootKeySource::File(path.clone()),
            (None, Some(name)) => RootKeySource::of_environment(name),
            (None, None) => RootKeySource::Generated(keys.join("root")),
        })
    }

    /// The configured vault path of organizations' secrets.
    fn vault_references(&self) -> Result<Option<VaultReferences>> {
        let settings = &self.config.credentials;
        let Some(text) = &settings.vault_references else { return Ok(None) };
        let prefix = ReferencePrefix::parse(text).context(
            "`credentials.vault_references` is `MOUNT/…/{organization}/`: a mount, and the organization between slashes",
        )?;
        Ok(Some(VaultReferences { vault: self.vault()?, prefix, kept_ms: settings.vault_kept_ms }))
    }

    fn vault(&self) -> Result<Vault> {
        let settings = &self.config.credentials;
        Ok(Vault {
            http: self.token_client(true)?,
            url: settings.vault_url.clone().unwrap_or_default(),
            token_file: settings.vault_token_file.clone().unwrap_or_default(),
        })
    }

    /// `allow_private`: a vault may be in a private network, since only the operator configures it.
    fn token_client(&self, allow_private: bool) -> Result<TokenClient> {
        let settings = &self.config.credentials;
        let plain_http = settings.plain_http.clone().unwrap_or_default();
        let private_hosts = settings.private_hosts.clone().unwrap_or_default();
        let ca_file = settings.ca_file.clone();
        let settings = HostClientSettings { plain_http, private_hosts, allow_private, ca_file };
        Ok(token_client(HostClient::new(settings)?))
    }

    /// Starts the task that fetches the keys of issuers. The operator's URLs may lead to this machine and to private networks.
    fn fetch_issuer_keys(
        &self,
        known: Option<AccessTokens>,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>> {
        let Some(known) = known else { return Ok(tokio::spawn(std::future::ready(()))) };
        let (credentials, issuers) = (&self.config.credentials, self.config.oauth.issuers());
        let urls = issuers.iter().flat_map(|issuer| [Some(&issuer.issuer), issuer.jwks_uri.as_ref()]);
        let mut private_hosts = credentials.private_hosts.clone().unwrap_or_default();
        let mut plain_http = Vec::new();
        for url in urls.flatten().filter_map(|url| Url::parse(url).ok()) {
            let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { continue };
            let hosts = if url.scheme() == "http" { &mut plain_http } else { &mut private_hosts };
            hosts.push(format!("{host}:{port}"));
        }
        let ca_file = credentials.ca_file.clone();
        let settings = HostClientSettings { plain_http, private_hosts, allow_private: false, ca_file };
        let http = token_client(HostClient::new(settings)?);
        Ok(tokio::spawn(known.run_background(http, stop)))
    }

    fn credential_settings(&self, audit: &Audit) -> Result<CredentialSettings> {
        let settings = &self.config.credentials;
        let public_url = settings.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        let client_metadata_url = public_url.as_ref().map(|url| format!("{url}/v1/oauth/clients"));
        let public_url = self.public_url();
        Ok(CredentialSettings {
            audit: audit.clone(),
            source: self.root_key_source()?,
            references: self.vault_references()?,
            http: self.token_client(false)?,
            redirect_url: format!("{public_url}/v1/oauth/callback"),
            client_metadata_url,
        })
    }

    /// Follows the plugin folder of the settings, if there is one, until `stop`.
    fn watch_plugin_folder(
        &self,
        admin: &Admin,
        background: &TaskTracker,
        stop: &CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let limit_bytes = self.config.http.plugin_bytes;
        let of_settings = self.config.plugins.folder.clone();
        let folder =
            of_settings.map(|path| PluginFolder::new(path, admin.clone(), background.clone(), limit_bytes));
        let stop = stop.clone();
        async move {
            if let Some(folder) = folder {
                folder.watch(stop).await;
            }
        }
    }

    /// The registries of the settings.
    fn registries(&self) -> Result<Registries> {
        let settings = &self.config.plugins;
        let needs_vault = settings.registries().iter().any(|registry| registry.password_vault_kv.is_some());
        let vault = if needs_vault { Some(self.vault()?) } else { None };
        let timeout = Duration::from_secs(settings.registry_timeout_seconds);
        Ok(Registries::of_settings(settings.registries(), vault.as_ref(), timeout)?)
    }

    /// The registries that organizations have credentials for: at public addresses, or at those of `credentials.private_hosts`.
    fn organization_registries(&self, credentials: &Credentials) -> OrganizationRegistries {
        let settings = &self.config.credentials;
        OrganizationRegistries {
            credentials: credentials.clone(),
            private_hosts: settings.private_hosts.clone().unwrap_or_default().into(),
            ca_file: settings.ca_file.clone(),
            timeout: Duration::from_secs(self.config.plugins.registry_timeout_seconds),
        }
    }

    fn plugins(&self, store: &Store, registry: &Registry) -> Result<Plugins> {
        let compile = &self.config.compile;
        let command = WorkerCommand {
            program: self.worker.clone(),
            limits: WorkerLimits {
                memory_bytes: compile.memory_bytes,
                cpu_seconds: compile.timeout_seconds,
                wall_seconds: compile.timeout_seconds,
            },
            concurrency: usize::try_from(compile.concurrency)?,
        };
        let key = keys::read_or_generate(&self.folder.subfolder("keys")?.join("cache.key"))?;
        let compiler = Compiler::open(self.sandbox.clone(), &self.folder.subfolder("cache")?, &key, command)?;
        Ok(Plugins::new(PluginParts {
            sandbox: self.sandbox.clone(),
            compiler,
            registry: registry.clone(),
            store: store.clone(),
            folder: self.folder.subfolder("components")?,
            limits: self.config.limits.clone(),
            signatures: self.config.plugins.signatures,
        }))
    }

    fn dispatcher(
        &self,
        audit: Audit,
        registry: &Registry,
        store: &Store,
        credentials: &Credentials,
        quotas: QuotaCounters,
        shutdown: &CancellationToken,
    ) -> Dispatcher {
        let queue = &self.config.queue;
        let (rates, calls, egress) = (&self.config.rates, &self.config.calls, &self.config.egress);
        let rates = Rates {
            calls_per_second: Some(u32::try_from(rates.calls_per_second).unwrap_or(u32::MAX)),
            burst: u32::try_from(rates.burst).unwrap_or(u32::MAX),
        };
        Dispatcher::new(Parts {
            queue: Queue::new(QueueSettings {
                running: self.config.sandbox.instances as usize,
                running_per_organization: self.config.running_per_organization() as usize,
                waiting_per_organization: count(queue.waiting_per_organization),
                waiting: count(queue.waiting_total),
            }),
            registry: registry.clone(),
            audit,
            sandbox: self.sandbox.clone(),
            ledger: Ledger::new(rates, quotas),
            upstreams: Upstreams::new(EgressSettings {
                name_servers: egress.name_servers.clone(),
                connections: count(egress.connections),
                connections_per_organization: count(egress.connections_per_organization),
            }),
            credentials: credentials.clone(),
            approvals: Approvals::new(store.clone(), calls.approval_seconds.saturating_mul(1000)),
            events: Events::new(count(self.config.streams_per_organization())),
            store: store.clone(),
            client_result_ms: calls.client_result_seconds.saturating_mul(1000),
            detached: DetachedCalls::new(shutdown.clone()),
            metrics: Arc::new(Metrics::new(self.config.metrics.organizations())),
            log: logging::NamedEvents::default(),
            traces: self.traces.clone(),
            draw_key: RandomState::new(),
        })
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn bounds(config: &Config) -> Bounds {
    Bounds {
        rounds_per_turn: config.calls.rounds_per_turn,
        rounds_per_session: config.calls.rounds_per_session,
        failures: config.calls.breaker_failures,
        recent: count(config.calls.recent),
        organization: OrganizationBounds {
            sessions: count(config.sessions.open_per_organization),
            at_client: count(config.calls.at_client_per_organization),
            workspace_bytes: config.sessions.workspace_bytes_per_organization,
        },
    }
}

impl RunningDaemon {
    /// Stops accepting requests, waits for running requests and changes until the drain timeout, and closes everything.
    pub async fn stop(self) {
        let drained = self.app.stop_serving();
        self.stop.cancel();
        for task in self.tasks {
            if task.await.is_err() {
                tracing::error!("a task of the daemon panicked");
            }
        }
        self.app.close(drained).await;
        // The last, so that the spans of drained calls are exported.
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
        reserve_space(&self.folder);
    }
}

/// Keeps space for the next start, which could not even read the store without any.
fn reserve_space(folder: &DataFolder) {
    match folder.reserve_space() {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            folder = %folder.path().display(),
            "the disk of the data folder is full: the daemon is read-only, and refuses changes and calls that it cannot record, until space is freed"
        ),
        Err(error) => tracing::warn!(%error, "no space can be reserved for the next start"),
    }
}

/// Open files of a connection: its socket, and the file of an upload with its folder.
const FILES_PER_CONNECTION: u64 = 3;

/// Open files besides connections and workspaces: the store and the audit log.
const OTHER_OPEN_FILES: u64 = 1_024;

/// Raises the soft limit to the hard limit: the usual 1,024 files are too few for connections and workspaces.
fn raise_open_files(config: &Config) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let of_calls = u64::from(config.sandbox.instances) * Limits::platform(&config.limits).open_files;
    let workspaces = OPEN_MAX as u64 + u64::from(config.sandbox.instances);
    let connections = FILES_PER_CONNECTION * config.http.connections + config.egress.connections;
    let wanted = connections + of_calls + workspaces + OTHER_OPEN_FILES;
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "the process may open fewer files than `http.connections`, `egress.connections`, and `limits.open_files` of \
             `sandbox.instances` calls need: raise its limit (`LimitNOFILE` of the service), or lower these settings"
        );
    }
}

fn tls_files(settings: &config::Tls) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: settings.certificate.clone()?,
        key: settings.key.clone()?,
        client_ca: settings.client_ca.clone(),
        clients: settings.clients.clone().unwrap_or_default(),
    })
}

fn bind(address: &Listen) -> Result<Socket, CallError> {
    Socket::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another daemon or program uses it; choose another port with `--listen`"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another port with `--listen`"
            }
            _ => "give an address of this machine with `--listen`, like `127.0.0.1:7300` or `unix:/run/toolgate.sock`",
        };
        CallError::new(ErrorType::Unavailable, format!("cannot listen at {address}: {error}"), hint)
    })
}

fn bind_metrics(address: SocketAddr) -> Result<std::net::TcpListener, CallError> {
    let bound = std::net::TcpListener::bind(address);
    let listener = bound.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| {
        let message = format!("cannot listen at {address} for metrics: {error}");
        CallError::new(ErrorType::Unavailable, message, "choose another address for `metrics.listen`")
    })
}

fn listener_settings(config: &Config) -> ListenerSettings {
    let http = &config.http;
    ListenerSettings {
        connections: count(http.connections),
        header_bytes: count(http.header_bytes),
        header_timeout: Duration::from_millis(http.header_timeout_ms),
        write_timeout: Duration::from_millis(http.write_timeout_ms),
        drain: Duration::from_secs(config.drain_seconds),
    }
}

/// Loads the data keys of organizations. One that cannot be unwrapped opens nothing, and no arguments of its organization are
/// recorded, until its key file is back or the organization's data is deleted.
async fn load_data_keys(store: &Store, path: &std::path::Path) -> Result<DataKeys> {
    let keys = DataKeys::new(keys::read_or_generate(path)?);
    for row in store.organization_keys().await? {
        let OrganizationKeyRow { organization, id, wrapped, .. } = row;
        if let Err(error) = keys.insert(organization.as_str(), &WrappedKey { id, wrapped }) {
            tracing::error!(%organization, %error, "the data key of an organization cannot be used: was `keys/data.key` replaced? Its arguments in the audit log cannot be read, and new ones are not recorded. Put the file back, or give the data up with `toolgate org delete-data`");
        }
    }
    Ok(keys)
}

/// Puts the stored documents in force, and returns those of custom tools, which are restored later. A document that this
/// version cannot parse allows nothing: no policy means deny.
async fn restore_documents(store: &Store, registry: &Registry, plugins: &Plugins) -> Result<Vec<Document>> {
    let mut tools = Vec::new();
    for document in store.all_documents().await? {
        if let DocumentKey::Tool(_) = document.key {
            tools.push(document);
            continue;
        }
        let (key, body) = (document.key, document.body);
        let unsound = |error: &ReadError| {
            tracing::error!(document = %key, %error, "a stored document is invalid and allows no tools");
        };
        match &key {
            DocumentKey::Platform => {
                let read = parse_platform(&body).inspect_err(unsound);
                let nothing = || PlatformDocument { allowed: Some(ToolList::NONE), ..Default::default() };
                registry.put(Replacement::Platform(read.unwrap_or_else(|_| nothing())));
            }
            DocumentKey::Organization(name) => {
                let read: OrganizationDocument = serde_json::from_str(&body).unwrap_or_default();
                registry.put_organization(name.clone(), read.connected.into_iter().collect());
            }
            DocumentKey::Policy(organization) => {
                let read = OrgDocument::parse(&body).inspect_err(unsound).unwrap_or_default();
                registry.put(Replacement::Policy(organization.clone(), read));
            }
            DocumentKey::Agent { organization, agent } => {
                let read = AgentDocument::parse(&body).inspect_err(unsound).unwrap_or_default();
                registry.put(Replacement::Agent(organization.clone(), agent.clone(), read));
            }
            DocumentKey::Grant(namespace) => {
                let read = Grant::parse(&body).inspect_err(unsound).unwrap_or_default();
                plugins.grant(namespace.clone(), read).await;
            }
            DocumentKey::PublisherKey(owner, name) => match PublisherKey::parse(&body) {
                Ok(key) => plugins.put_publisher_key(owner.clone(), name.clone(), key),
                Err(error) => unsound(&error),
            },
            DocumentKey::Assertions(organization) => {
                let holder = match organization {
                    Some(_) => AssertionHolder::Organization,
                    None => AssertionHolder::Platform,
                };
                let read = AssertionsDocument::parse(&body, holder).inspect_err(|error| {
                    tracing::error!(document = %key, %error, "stored assertions are invalid and not checked");
                });
                let read = read.unwrap_or_default();
                registry.put(Replacement::Assertions(organization.clone(), read));
            }
            DocumentKey::Enabled(tool) => {
                let read = StoredEnabled::parse(&body).inspect_err(|error| {
                    tracing::error!(document = %key, %error, "stored settings are invalid, and count as not given");
                });
                let (organization, namespace) = (tool.organization.clone(), tool.namespace.clone());
                registry.put(Replacement::Enabled(organization, namespace, read.ok()));
            }
            // They are parsed with the tool that they belong to.
            DocumentKey::Tool(_) | DocumentKey::Mount(_) | DocumentKey::ToolGrant(_) => {}
        }
    }
    Ok(tools)
}

async fn restore_open_sessions(store: &Store, sessions: &Sessions) -> Result<()> {
    for row in store.open_sessions().await? {
        // A tool whose name no longer parses does not exist.
        let id = |text: &str| ToolId::parse(text).ok();
        let facts = SessionFacts {
            disabled: row.disabled_tools.iter().filter_map(|tool| id(tool)).collect(),
            broken: row.broken_tools.into_iter().filter_map(|(tool, why)| Some((id(&tool)?, why))).collect(),
            channel: row.channel.clone(),
        };
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
        sessions.restore(setup, InitialState { facts, rounds: row.rounds, last_used_ms: row.last_used_ms });
    }
    Ok(())
}
