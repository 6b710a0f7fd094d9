//! Start and stop of the daemon.
//!
//! [`PreparedDaemon::new`] binds the address and opens files while the process has one thread. Then the process restricts
//! itself ([`wall`]), since only threads created later inherit that, and the engine and the tokio runtime are made.

mod check;
mod clock_guard;
mod reload;
mod resources;
mod signals;
mod sweep;
mod systemd;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
pub use check::{StartFault, check};
pub(crate) use resources::{OpenFiles, open_files, open_files_message};
pub use signals::StopSignals;
use sweep::Sweeper;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolgate_built_in::BUILT_IN;
use toolgate_cli::Failure;
use toolgate_sandbox::{PrivateHosts, Sandbox, SandboxSettings, processors};

use reload::{LiveParts, Reload};
use resources::{bind, bind_metrics, listener_settings, raise_open_files, tls_files};
use toolgate_audit::Retention;
use toolgate_core::admin::Admin;
use toolgate_core::identity::AccessTokens;
use toolgate_core::logging;
use toolgate_core::plugin_folder::PluginFolder;
use toolgate_core::plugins::BuiltInCompiled;
use toolgate_core::registry::Registry;
use toolgate_core::restore::{self, Report, StartSettings};
use toolgate_core::traces::{Exporter, ExporterTask, Traces};
use toolgate_core::{version, wall};
use toolgate_http::listener::{Socket, Tls};
use toolgate_http::metrics::listener as metrics_listener;
use toolgate_http::{App, AppParts, BodyMemory, RootService, ServedHosts, health, listener};
use toolgate_state::clock::now_ms;
use toolgate_state::config::{Config, Listen, PagemapScan};
use toolgate_state::store::DataFolder;

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
    private_hosts: PrivateHosts,
    accept_lost_log: bool,
}

/// A daemon that serves requests.
pub struct RunningDaemon {
    /// The listen address.
    pub address: Listen,
    /// The file of the first operator token; it exists if this start created a token.
    pub operator_token: PathBuf,
    app: App,
    live: LiveParts,
    registry: Registry,
    stop: CancellationToken,
    shutdown: CancellationToken,
    /// The task that accepts connections, one of `tasks`.
    accepting: AbortHandle,
    tasks: Vec<JoinHandle<()>>,
    exporter: Option<ExporterTask>,
    folder: DataFolder,
    /// Removes the file of a Unix socket when it is dropped.
    _socket: Socket,
}

/// Runs the daemon until a stop signal. `read_again` reads the settings for a SIGHUP; `accept_lost_log` begins a new audit log
/// in the place of one that is damaged or gone.
pub fn run(
    config: Config,
    accept_lost_log: bool,
    read_again: impl Fn() -> Result<Config, Failure> + Send + 'static,
) -> Result<()> {
    let level = logging::start(config.log.format, config.log.level);
    let signals = StopSignals::listen_before_runtime()?;
    tracing::info!(version = version::text(), "starting");
    let reload = Reload::new(config.clone(), read_again, level);
    let prepared = match systemd::take_socket()? {
        Some(socket) => {
            let config = config.listening_at(socket.address()?)?;
            PreparedDaemon::with_socket(config, wall::PROGRAM.into(), socket)?
        }
        None => PreparedDaemon::new(config, wall::PROGRAM.into())?,
    };
    let prepared = PreparedDaemon { accept_lost_log, ..prepared };
    runtime()?.block_on(serve_until_stopped(prepared, reload, signals))
}

async fn serve_until_stopped(
    prepared: PreparedDaemon,
    reload: Reload<impl Fn() -> Result<Config, Failure> + Send + 'static>,
    mut signals: StopSignals,
) -> Result<()> {
    let drain_seconds = prepared.config.drain_seconds;
    let scheme = if prepared.tls.is_some() { "https" } else { "http" };
    // A signal during the start would end the process otherwise. It has nothing to read again: the settings were just read.
    let early_hangups =
        signals::follow_hangups(|| tracing::info!("the start goes on with the settings that it read"))?;
    systemd::notify_status("starting: restoring the state of the last run");
    let starting = prepared.start(|BuiltInCompiled { namespace, took, done, of }| {
        tracing::info!(namespace, ?took, "built-in plugin compiled, {done} of {of}");
    });
    let Some(running) = signals.interrupt(starting).await else {
        tracing::info!("stopped while starting");
        return Ok(());
    };
    let running = running?;
    let status = format!("serving at {}", running.address);
    let watchdog = systemd::keep_watchdog(running.accepting.clone(), running.stop.clone());
    let compiling = tell_compiling(running.registry.clone(), status.clone());
    // Before the manager is told: a reload that comes at once must not end the process.
    let ready = status.clone();
    let live = running.live.clone();
    let hangups = signals::follow_hangups(move || reload.run(&status, &live))?;
    drop(early_hangups);
    tracing::info!(address = %running.address, "serving");
    if std::io::stderr().is_terminal() && running.operator_token.is_file() {
        print_next_steps(&running, scheme);
    }
    systemd::notify_ready(&ready);
    let compiling = AbortOnDropHandle::new(tokio::spawn(compiling));
    signals.next().await;
    tracing::info!(drain_seconds, "stopping: waiting for running calls; a second signal stops them at once");
    drop((hangups, compiling));
    systemd::notify_stopping(Duration::from_secs(drain_seconds));
    let shutdown = running.shutdown.clone();
    tokio::spawn(async move {
        signals.next().await;
        shutdown.cancel();
    });
    running.stop().await;
    drop(watchdog);
    Ok(())
}

/// Tells a person at a terminal where the console is, and how another terminal becomes the operator.
fn print_next_steps(running: &RunningDaemon, scheme: &str) {
    let mut text = String::from("\nIn another terminal:\n");
    if let Listen::Tcp(address) = &running.address {
        text += &format!("    export TOOLGATE_SERVER={scheme}://{address}\n");
    }
    text += &format!(
        "    export TOOLGATE_TOKEN=\"$(cat {})\"\n    toolgate status\n",
        running.operator_token.display()
    );
    if let Listen::Tcp(address) = &running.address {
        text += &format!("Console: {scheme}://{address}/console, which asks for the same token\n");
    }
    // A closed terminal is no error.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Tells the service manager of the built-in plugins that are compiled while calls are served.
async fn tell_compiling(registry: Registry, status: String) {
    let mut changes = registry.changes();
    while let Some(compiling) = registry.snapshot().compiling_text() {
        systemd::notify_status(&format!("{status}; {compiling}, whose calls wait"));
        if changes.changed().await.is_err() {
            return;
        }
    }
    systemd::notify_status(&status);
}

fn sandbox(config: &Config) -> Result<Sandbox> {
    Ok(Sandbox::new(&SandboxSettings {
        instances: config.sandbox.instances,
        pagemap_scan: match config.sandbox.pagemap_scan {
            PagemapScan::Auto => toolgate_sandbox::PagemapScan::Auto,
            PagemapScan::Off => toolgate_sandbox::PagemapScan::Off,
        },
    })?)
}

/// Compiles what a start with these settings would compile, while no daemon uses the data folder.
pub async fn compile(mut config: Config, worker: PathBuf, report: Report) -> Result<()> {
    let folder = DataFolder::open(&config.data)?;
    config.data = folder.path().to_owned();
    let (sandbox, (traces, _)) = (sandbox(&config)?, Traces::new(&config.traces)?);
    let start = StartSettings {
        config: &config,
        folder: &folder,
        sandbox: &sandbox,
        traces: &traces,
        worker: &worker,
        public_url: String::new(),
        private_hosts: PrivateHosts::default(),
        root_key_credential: None,
        accept_lost_log: false,
        built_in: BUILT_IN,
    };
    start.compile(report).await
}

/// Builds the tokio runtime for connections and guests.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(processors())
        .build()
        .context("the runtime cannot start")
}

impl PreparedDaemon {
    /// Binds the address, locks the data folder, restricts the process and creates the engine. `worker` is the binary of the
    /// compile worker.
    pub fn new(config: Config, worker: PathBuf) -> Result<Self> {
        // Bound first: a start on a port that is in use creates no files.
        let socket = bind(&config.listen)?;
        Self::with_socket(config, worker, socket)
    }

    /// The same with a socket that is bound already, at `config.listen`.
    pub fn with_socket(mut config: Config, worker: PathBuf, socket: Socket) -> Result<Self> {
        raise_open_files(&config);
        let tls = tls_files(&config.tls).map(Tls::load).transpose()?;
        let metrics_listener = config.metrics.listen.map(bind_metrics).transpose()?;
        let (traces, exporter) = Traces::new(&config.traces)?;
        let folder = DataFolder::open(&config.data)?;
        config.data = folder.path().to_owned();
        // Before the engine starts a thread, which would stay outside.
        wall::raise(&config, folder.path())?;
        let sandbox = sandbox(&config)?;
        wall::forbid_dumps(config.hardening);
        tracing::info!(pagemap_scan = sandbox.pagemap_scan(), "sandbox ready");
        let private_hosts = PrivateHosts::new(config.credentials.private_hosts.clone().unwrap_or_default());
        let accept_lost_log = false;
        Ok(Self {
            config,
            folder,
            sandbox,
            socket,
            tls,
            metrics_listener,
            traces,
            exporter,
            worker,
            private_hosts,
            accept_lost_log,
        })
    }

    /// Opens the store and the audit log, loads plugins and documents, and serves requests. Liveness probes are answered
    /// from the beginning.
    ///
    /// Built-in plugins without cached code are compiled while requests are served; each is reported with its compile time.
    pub async fn start(self, report: impl Fn(BuiltInCompiled<'_>) + Send + 'static) -> Result<RunningDaemon> {
        let (stop, shutdown) = (CancellationToken::new(), CancellationToken::new());
        // Ends what was spawned if the start fails.
        let failure = stop.clone().drop_guard();
        let address = self.socket.address()?;
        let hosts = ServedHosts::new(self.config.hosts());
        let service = RootService::starting(hosts.clone());
        let serving = tokio::spawn(listener::serve(
            self.socket.listener()?,
            self.tls.clone(),
            service.clone(),
            listener_settings(&self.config),
            stop.clone(),
            shutdown.clone(),
        ));
        let operator_token = self.folder.operator_token();
        let start = self.start_settings();
        let (admin, compiling) = start.restore(Box::new(report), &stop, &shutdown).await?;
        let mut tasks = self.spawn_tasks(&admin, &hosts, &stop)?;
        let access_tokens = AccessTokens::new(&self.config.oauth);
        let fetching = start.fetch_issuer_keys(access_tokens.clone(), stop.clone())?;
        let (person_sign_in, fetching_for_people) = start.person_sign_in(stop.clone())?;
        let (background, registries) = (TaskTracker::new(), start.registries()?);
        let organization_registries = Some(start.organization_registries(&admin.services().credentials));
        let watching = tokio::spawn(self.watch_plugin_folder(&admin, &background, &stop));
        let (live_tls, live_registries) = (self.tls.clone(), registries.clone());
        let Self { private_hosts, config, folder, socket, exporter, .. } = self;
        let live = LiveParts {
            hosts,
            private_hosts,
            tls: live_tls,
            registries: live_registries,
            admin: admin.clone(),
        };
        reserve_space(&folder);
        let registry = admin.services().registry.clone();
        let app = App::new(AppParts {
            admin,
            openapi: std::sync::OnceLock::new(),
            access_tokens,
            person_sign_in,
            pages: toolgate_console::PAGES,
            stop: stop.clone(),
            bodies: BodyMemory::new(config.bodies_bytes(), config.bodies_bytes_per_organization()),
            config,
            serving: AtomicBool::new(true),
            background,
            registries,
            organization_registries,
        });
        service.serve(app.clone());
        failure.disarm();
        let accepting = serving.abort_handle();
        let health = tokio::spawn(health::watch(app.clone(), stop.clone()));
        tasks.extend([serving, compiling, fetching, watching, fetching_for_people, health]);
        let exporter = exporter.map(Exporter::start);
        let _socket = socket;
        Ok(RunningDaemon {
            address,
            operator_token,
            app,
            live,
            registry,
            stop,
            shutdown,
            accepting,
            tasks,
            exporter,
            folder,
            _socket,
        })
    }

    fn start_settings(&self) -> StartSettings<'_> {
        StartSettings {
            config: &self.config,
            folder: &self.folder,
            sandbox: &self.sandbox,
            traces: &self.traces,
            worker: &self.worker,
            public_url: self.public_url(),
            private_hosts: self.private_hosts.clone(),
            root_key_credential: systemd::root_key_credential(),
            accept_lost_log: self.accept_lost_log,
            built_in: BUILT_IN,
        }
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

    /// Spawns the tasks that need only the parts of `admin`, and that end at `stop`.
    fn spawn_tasks(
        &self,
        admin: &Admin,
        hosts: &ServedHosts,
        stop: &CancellationToken,
    ) -> Result<Vec<JoinHandle<()>>> {
        let listener = self.metrics_listener.as_ref().map(std::net::TcpListener::try_clone).transpose()?;
        let listener = listener.map(TcpListener::from_std).transpose()?;
        let services = admin.services();
        Ok(vec![
            tokio::spawn(self.sweeper(admin).run(stop.clone())),
            tokio::spawn(metrics_listener::serve(listener, hosts.clone(), admin.clone(), stop.clone())),
            tokio::spawn(services.credentials.clone().run_background(stop.clone(), now_ms)),
            tokio::spawn(admin.dispatcher().clone().store_quota_use_until(stop.clone())),
            tokio::spawn(admin.clone().judge_canaries_until(stop.clone())),
            tokio::spawn(admin.clone().watch_assertions_until(stop.clone())),
            tokio::spawn(services.webhooks.clone().run(stop.clone())),
        ])
    }

    fn sweeper(&self, admin: &Admin) -> Sweeper {
        Sweeper {
            admin: admin.clone(),
            idle_ms: self.config.sessions.idle_seconds.saturating_mul(1000),
            kept_ms: restore::results_kept_ms(&self.config),
            messages_kept_ms: self.config.sessions.messages_kept_seconds.saturating_mul(1000),
            audit: self.audit_retention(),
            tls: self.tls.clone(),
            data: self.config.data.clone(),
        }
    }

    fn audit_retention(&self) -> Retention {
        let (days, bytes) = (self.config.audit.kept_days, self.config.audit.kept_bytes);
        Retention {
            kept_ms: (days > 0).then(|| days.saturating_mul(24 * 3_600_000)),
            kept_bytes: (bytes > 0).then_some(bytes),
        }
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
