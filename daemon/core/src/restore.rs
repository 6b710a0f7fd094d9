//! Makes the services of a start, and restores the state of the last run: store, audit log, documents, plugins, sessions.

mod clients;

pub use clients::webhook_hosts;

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{Ledger, QuotaCounters, Rates, SessionFacts, parse_platform};
use toolgate_api::assertion::{AssertionHolder, AssertionsDocument};
use toolgate_api::document::OrganizationDocument;
use toolgate_api::embedded::Embedded;
use toolgate_api::grant::Grant;
use toolgate_api::name::{Name, Namespace, ToolId};
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolList;
use toolgate_audit::{Audit, AuditSettings, DataKeys, WrappedKey};
use toolgate_macros::boxed;
use toolgate_sandbox::{EgressSettings, HostClient, PrivateHosts, Queue, QueueSettings, Sandbox, Upstreams};
use toolgate_state::clock::{now_ms, steady_unix_ms};
use toolgate_state::config::{Config, Hardening};
use toolgate_state::documents::{Document, DocumentKey};
use toolgate_state::keys::{self, KeyError};
use toolgate_state::store::{DataFolder, OrganizationKeyRow, Store};

use crate::admin::Admin;
use crate::approvals::Approvals;
use crate::backup;
use crate::compile::{Compiler, WorkerCommand, WorkerLimits};
use crate::credentials::Credentials;
use crate::detach::DetachedCalls;
use crate::enabled::StoredEnabled;
use crate::events::Events;
use crate::identity::Identity;
use crate::logging;
use crate::metrics::Metrics;
use crate::plugins::{BuiltIn, BuiltInCompiled, PluginParts, Plugins, PublisherKey};
use crate::registry::{Registry, Replacement};
use crate::services::Services;
use crate::sessions::{
    AnswerSettings, Answers, Bounds, InitialState, OrganizationBounds, SessionSetup, Sessions,
};
use crate::traces::Traces;
use crate::webhooks::{WebhookParts, Webhooks};

/// Policy revisions of one start: far more than a daemon makes changes, and few enough that the numbers stay exact in JSON.
const REVISIONS_PER_START: u64 = 100_000_000;

/// The settings and resources of a start.
pub struct StartSettings<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The locked data folder.
    pub folder: &'a DataFolder,
    /// Runs calls and `describe`.
    pub sandbox: &'a Sandbox,
    /// Traces of calls.
    pub traces: &'a Traces,
    /// The program of the compile worker.
    pub worker: &'a Path,
    /// The address of the daemon for people and authorization servers, without a slash at its end.
    pub public_url: String,
    /// The hosts of `credentials.private_hosts`.
    pub private_hosts: PrivateHosts,
    /// The file of the root key that the service manager hands over.
    pub root_key_credential: Option<PathBuf>,
    /// Begin a new audit log in the place of one that is damaged or gone.
    pub accept_lost_log: bool,
    /// The built-in plugins.
    pub built_in: &'static [Embedded],
}

/// Called with each built-in plugin that was compiled.
pub type Report = Box<dyn Fn(BuiltInCompiled<'_>) + Send>;

/// The restored services, and the task that compiles built-in plugins.
pub type Restored = (Admin, JoinHandle<()>);

#[boxed]
impl StartSettings<'_> {
    /// Restores the state of the last run. Returns the task that compiles built-in plugins, too.
    pub async fn restore(
        &self,
        report: Report,
        stop: &CancellationToken,
        shutdown: &CancellationToken,
    ) -> Result<Restored> {
        backup::remove_leftovers(self.folder.path());
        keys::remove_drafts(&self.folder.subfolder("keys")?);
        let store = Store::open(&self.config.store_path()?).await?;
        self.check_keys(&store).await?;
        let audit = self.open_audit(&store).await?;
        // Faults of the configuration are told before anything is compiled.
        let secrets = self.credential_settings(&audit)?;
        let hosts = webhook_hosts(self.config);
        let webhook_client = HostClient::new(hosts.client_settings(self.config.credentials.ca_file.clone()))?;
        let identity = self.identity(&store).await?;
        let registry = self.registry(&store).await?;
        let plugins = self.plugins(&store, &registry)?;
        let uncompiled = plugins.load_built_in().await?;
        plugins.restore().await?;
        let tools = restore_documents(&store, &registry, &plugins).await?;
        let credentials = Credentials::open(store.clone(), registry.clone(), secrets, now_ms()).await?;
        let sessions = self.restore_sessions(&store).await?;
        let quotas = QuotaCounters::restore(store.quota_use(steady_unix_ms()).await?);
        let webhooks = Webhooks::new(WebhookParts {
            store: store.clone(),
            audit: audit.clone(),
            credentials: credentials.clone(),
            http: webhook_client,
            hosts,
            base_url: self.public_url.clone(),
        });
        let config = self.config;
        let admin = Admin::new(Arc::new(Services {
            approvals: Approvals::new(store.clone(), config.calls.approval_seconds.saturating_mul(1000)),
            events: Events::new(count(config.streams_per_organization())),
            queue: queue(config),
            sandbox: self.sandbox.clone(),
            upstreams: upstreams(config),
            ledger: Ledger::new(rates(config), quotas),
            detached: DetachedCalls::new(shutdown.clone()),
            client_result_ms: config.calls.client_result_seconds.saturating_mul(1000),
            draw_key: RandomState::new(),
            metrics: Arc::new(Metrics::new(config.metrics.organizations())),
            log: logging::NamedEvents::default(),
            traces: self.traces.clone(),
            store,
            audit,
            identity,
            registry,
            plugins: plugins.clone(),
            credentials,
            sessions: Arc::clone(&sessions),
            webhooks,
        }));
        let restored = admin.dispatcher().restore_at_client(&sessions).await;
        restored.context("the stored answers cannot be read")?;
        let compiling =
            tokio::spawn(compile_until_stopped(plugins.clone(), uncompiled, report, stop.clone()));
        admin.custom().restore(tools).await;
        plugins.restore_owned().await?;
        plugins.remove_unused();
        admin.make_missing_data_keys().await?;
        admin.carry_over_consents().await?;
        Ok((admin, compiling))
    }

    /// Compiles the built-in plugins and those of the data folder, whose code is then in the cache. Nothing else of the state changes.
    pub async fn compile(&self, report: Report) -> Result<()> {
        let store = Store::open(&self.config.store_path()?).await?;
        self.check_keys(&store).await?;
        let registry = self.registry(&store).await?;
        let plugins = self.plugins(&store, &registry)?;
        let uncompiled = plugins.load_built_in().await?;
        plugins.compile_built_in(uncompiled, report).await;
        plugins.restore().await?;
        plugins.restore_owned().await?;
        Ok(())
    }

    /// Refuses a start that would make a new key where an earlier one sealed data: the log would then look damaged.
    async fn check_keys(&self, store: &Store) -> Result<()> {
        let keys = self.folder.subfolder("keys")?;
        let has_log =
            self.folder.path().join("audit").read_dir().is_ok_and(|mut files| files.next().is_some());
        let has_data_keys = !store.organization_keys().await?.is_empty();
        let needed = [("audit.key", has_log), ("data.key", has_data_keys)].into_iter();
        let needed = needed.filter(|(_, is_needed)| *is_needed).map(|(name, _)| keys.join(name));
        let missing: Vec<PathBuf> = needed.filter(|key| !key.exists()).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(KeyError::Missing(missing).into()),
        }
    }

    /// Loads the tokens. A store without any gets the first operator token, which is written into a file.
    async fn identity(&self, store: &Store) -> Result<Arc<Identity>> {
        let identity = Arc::new(Identity::load(store.clone()).await?);
        let operator_token = self.folder.operator_token();
        if identity.make_first_token(&operator_token, now_ms()).await? {
            tracing::info!(file = %operator_token.display(), "the operator token was created; it is only in this file");
        }
        Ok(identity)
    }

    /// Makes the registry, whose revisions are above those of earlier starts.
    async fn registry(&self, store: &Store) -> Result<Registry> {
        let registry = Registry::new(self.config.limits.clone(), self.built_in_namespaces());
        registry.begin_revisions((store.count_start().await? - 1).saturating_mul(REVISIONS_PER_START));
        registry.require_consent(self.config.consent.required);
        Ok(registry)
    }

    async fn open_audit(&self, store: &Store) -> Result<Audit> {
        let mut settings = AuditSettings::new(self.folder.subfolder("audit")?);
        let keys = self.folder.subfolder("keys")?;
        settings.key = Some(keys::read_or_generate(&keys.join("audit.key"))?);
        settings.data_keys = Some(load_data_keys(store, &keys.join("data.key")).await?);
        settings.segment_bytes = self.config.audit.segment_bytes;
        settings.reserve_bytes = self.config.audit.reserve_bytes;
        settings.last_run_ms = Some(store.clock_marks().await?.seen_ms).filter(|seen_ms| *seen_ms > 0);
        settings.accept_lost_log = self.accept_lost_log;
        let (audit, recovery) = Audit::start(&settings).await?;
        if self.accept_lost_log && recovery.accepted.is_none() {
            tracing::warn!(
                "the audit log is neither damaged nor gone: leave `--accept-lost-log` out, so that a later loss stops the daemon"
            );
        }
        if recovery.unknown > 0 || recovery.cut.is_some() || recovery.lost.is_some() {
            tracing::warn!(%recovery, "the audit log was recovered after an unclean stop");
        }
        Ok(audit)
    }

    async fn restore_sessions(&self, store: &Store) -> Result<Arc<Sessions>> {
        let workspaces = self.folder.subfolder("workspaces")?;
        let kept_ms = results_kept_ms(self.config);
        let sessions =
            Arc::new(Sessions::new(&workspaces, self.answers(kept_ms)?, kept_ms, bounds(self.config)));
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

    fn built_in_namespaces(&self) -> BTreeSet<Namespace> {
        self.built_in.iter().filter_map(|plugin| Namespace::parse(plugin.name).ok()).collect()
    }

    fn plugins(&self, store: &Store, registry: &Registry) -> Result<Plugins> {
        let compile = &self.config.compile;
        let command = WorkerCommand {
            program: self.worker.to_owned(),
            limits: WorkerLimits {
                memory_bytes: compile.memory_bytes,
                cpu_seconds: compile.timeout_seconds,
                wall_seconds: compile.timeout_seconds,
            },
            concurrency: usize::try_from(compile.concurrency)?,
            is_confined: self.config.hardening != Hardening::Off,
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
            built_in: self.built_in,
        }))
    }
}

/// How long the results of calls are kept, in milliseconds.
pub fn results_kept_ms(config: &Config) -> u64 {
    config.calls.recorded_seconds.saturating_mul(1000)
}

fn queue(config: &Config) -> Queue {
    Queue::new(QueueSettings {
        running: config.sandbox.instances as usize,
        running_per_organization: config.running_per_organization() as usize,
        waiting_per_organization: count(config.queue.waiting_per_organization),
        waiting: count(config.queue.waiting_total),
    })
}

fn upstreams(config: &Config) -> Upstreams {
    let egress = &config.egress;
    Upstreams::new(EgressSettings {
        name_servers: egress.name_servers.clone(),
        connections: count(egress.connections),
        connections_per_organization: count(egress.connections_per_organization),
    })
}

/// The rates of organizations.
pub fn rates(config: &Config) -> Rates {
    Rates {
        calls_per_second: Some(u32::try_from(config.rates.calls_per_second).unwrap_or(u32::MAX)),
        burst: u32::try_from(config.rates.burst).unwrap_or(u32::MAX),
    }
}

async fn compile_until_stopped(
    plugins: Plugins,
    uncompiled: Vec<BuiltIn>,
    report: impl Fn(BuiltInCompiled<'_>),
    stop: CancellationToken,
) {
    stop.run_until_cancelled(plugins.compile_built_in(uncompiled, report)).await;
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

/// Loads the data keys of organizations. One that cannot be unwrapped opens nothing, and no arguments of its organization are
/// recorded, until its key file is back or the organization's data is deleted.
async fn load_data_keys(store: &Store, path: &Path) -> Result<DataKeys> {
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
                let read = parse_assertions(&key, organization.as_ref(), &body);
                registry.put(Replacement::Assertions(organization.clone(), read));
            }
            DocumentKey::Enabled(tool) => {
                let read = StoredEnabled::parse(&body).inspect_err(|error| {
                    tracing::error!(document = %key, %error, "stored settings are invalid, and count as not given");
                });
                let (organization, namespace) = (tool.organization.clone(), tool.namespace.clone());
                registry.put(Replacement::Enabled(organization, namespace, read.ok()));
            }
            // Parts of a tool are parsed with it.
            DocumentKey::Tool(_) | DocumentKey::Mount(_) | DocumentKey::ToolGrant(_) => {}
        }
    }
    Ok(tools)
}

/// A number of the settings as a `usize`.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Parses the stored assertions of an organization, or of the platform (`None`). Invalid ones are not checked.
fn parse_assertions(key: &DocumentKey, organization: Option<&Name>, body: &str) -> AssertionsDocument {
    let holder = match organization {
        Some(_) => AssertionHolder::Organization,
        None => AssertionHolder::Platform,
    };
    let read = AssertionsDocument::parse(body, holder).inspect_err(|error| {
        tracing::error!(document = %key, %error, "stored assertions are invalid and not checked");
    });
    read.unwrap_or_default()
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
