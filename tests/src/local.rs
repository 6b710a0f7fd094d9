//! The daemon's services in this process, with one plugin and one agent. Compiled into the two programs that use it, so that the others
//! do not link the daemon.

#![allow(clippy::expect_used, reason = "a panic fails the test")]
#![allow(dead_code, reason = "each program uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use toolgate_admission::{Descriptor, Digest, Plugin, Rates, SessionFacts};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_core::admin::Admin;
use toolgate_core::call::{CallOutcome, RequestedCall};
use toolgate_core::dispatch::{Dispatcher, Origin};
use toolgate_core::restore::StartSettings;
use toolgate_core::services::Services;
use toolgate_core::sessions::{InitialState, Session, SessionSetup};
use toolgate_core::traces::Traces;
use toolgate_sandbox::{PagemapScan, Sandbox, SandboxSettings, precompile};
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;
use toolgate_state::documents::{DocumentKey, Precondition};
use toolgate_state::store::{DataFolder, Store};

/// Dispatcher with one plugin, one agent and its sessions.
pub struct LocalDispatcher {
    pub dispatcher: Dispatcher,
    pub origin: Origin,
    pub admin: Admin,
    pub config: Config,
    next: AtomicU64,
    _data: DataFolder,
    /// Data folder, with the audit log in `audit`.
    pub folder: tempfile::TempDir,
}

/// Settings of a [`LocalDispatcher`].
pub struct LocalSettings<'a> {
    /// Plugin file.
    pub component: &'a [u8],
    /// Document of the agent `acme/bot`.
    pub agent: &'a str,
    pub rates: Rates,
    pub instances: u32,
    /// Size of a segment of the audit log.
    pub segment_bytes: u64,
}

impl LocalDispatcher {
    pub async fn new(settings: LocalSettings<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = DataFolder::open(folder.path()).expect("a data folder");
        let config = config(&settings, data.path());
        store_documents(&config, settings.agent).await;
        let sandbox = SandboxSettings { instances: settings.instances, pagemap_scan: PagemapScan::Auto };
        let sandbox = Sandbox::new(&sandbox).expect("a sandbox");
        let start = StartSettings {
            config: &config,
            folder: &data,
            sandbox: &sandbox,
            traces: &Traces::default(),
            // No plugin is compiled by a worker.
            worker: Path::new("nothing"),
            public_url: "http://localhost".to_owned(),
            private_hosts: Default::default(),
            root_key_credential: None,
            accept_lost_log: false,
            built_in: &[],
        };
        let (stop, shutdown) = (CancellationToken::new(), CancellationToken::new());
        let (admin, _) = start.restore(Box::new(|_| {}), &stop, &shutdown).await.expect("services");
        let plugin = Arc::new(load(&sandbox, settings.component).await);
        admin.services().registry.serve(LimitsPatch::default(), vec![plugin]);
        let (principal, source) = ("local".into(), "local");
        let origin = Origin { principal, source, trace: None, revoked: Default::default() };
        let dispatcher = admin.dispatcher().clone();
        Self { dispatcher, origin, admin, config, next: AtomicU64::new(0), _data: data, folder }
    }

    pub fn services(&self) -> &Services {
        self.admin.services()
    }

    pub fn open_session(&self) -> Arc<Session> {
        let setup = setup(format!("s_{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let facts = SessionFacts::default();
        let share = self.services().sessions.reserve(&setup.organization).expect("no limit");
        self.services().sessions.open(share, setup, InitialState { facts, rounds: 0, last_used_ms: now_ms() })
    }

    /// Makes one call in a request of its own.
    pub async fn call(
        &self,
        session: &Arc<Session>,
        id: &str,
        tool: &str,
        arguments: &str,
    ) -> Arc<CallOutcome> {
        let call = RequestedCall { id_is_new: false, ..RequestedCall::new(id, tool, arguments.into()) };
        let mut batch = self.dispatcher.batch(session, None, vec![call], &self.origin).await;
        batch.results.remove(0).outcome
    }
}

fn config(settings: &LocalSettings<'_>, folder: &Path) -> Config {
    let mut config = Config { data: folder.to_owned(), ..Config::default() };
    config.sandbox.instances = settings.instances;
    config.rates.calls_per_second = settings.rates.calls_per_second.unwrap_or(u32::MAX).into();
    config.rates.burst = settings.rates.burst.into();
    config.audit.segment_bytes = settings.segment_bytes;
    config.audit.reserve_bytes = 0;
    config.consent.required = false;
    config.calls.rounds_per_turn = u64::MAX;
    config.calls.rounds_per_session = u64::MAX;
    config
}

/// Stores the documents before the start, which makes the keys of the organization as for those of an earlier run.
async fn store_documents(config: &Config, agent: &str) {
    let store = Store::open(&config.store_path().expect("a path")).await.expect("a store");
    let (organization, name) = (setup(String::new()).organization, setup(String::new()).agent);
    let documents = [
        (DocumentKey::Organization(organization.clone()), "{}"),
        (DocumentKey::Policy(organization.clone()), r#"{"enabled":"*"}"#),
        (DocumentKey::Agent { organization, agent: name }, agent),
    ];
    for (key, text) in documents {
        store.put_document(&key, text, &Precondition::Absent, now_ms()).await.expect("stored");
    }
    store.close().await;
}

/// A component without the plugin contract gets the namespace `echo`.
async fn load(sandbox: &Sandbox, file: &[u8]) -> Plugin<toolgate_sandbox::Component> {
    let code = precompile(file, None).expect("a component");
    let component = sandbox.load(&code).expect("a component");
    let described = match component.describe_functions(file, Some("echo"), None) {
        Some(functions) => functions.json,
        None => sandbox.describe(&component, None).await.expect("a description"),
    };
    Plugin::with_trusted_hints(
        Digest::from_sha256([7; 32]),
        Arc::default(),
        Descriptor::parse(&described).expect("a descriptor"),
        component,
    )
}

/// The setup of a session of `acme/bot`.
pub fn setup(id: String) -> SessionSetup {
    SessionSetup {
        id,
        organization: Name::parse("acme").expect("a name"),
        agent: Name::parse("bot").expect("a name"),
        user: None,
        conversation: None,
        channel: None,
        principal: "local".into(),
        created_ms: now_ms(),
    }
}
