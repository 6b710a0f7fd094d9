//! The daemon's dispatcher in this process, wired like the daemon's, with one plugin and one agent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toolgate::approvals::Approvals;
use toolgate::audit::{Audit, AuditSettings, DataKeys};
use toolgate::call::{CallOutcome, RequestedCall};
use toolgate::clock::now_ms;
use toolgate::credentials::{CredentialSettings, Credentials, RootKeySource, token_client};
use toolgate::dispatch::{Dispatcher, Origin, Parts};
use toolgate::events::Events;
use toolgate::registry::{Registry, Replacement};
use toolgate::sessions::{
    AnswerSettings, Answers, Bounds, InitialState, OrganizationBounds, Session, SessionSetup, Sessions,
};
use toolgate::store::Store;
use toolgate_admission::{Descriptor, Digest, Ledger, Plugin, QuotaCounters, Rates, SessionFacts};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument};
use toolgate_sandbox::{
    EgressSettings, HostClient, HostClientSettings, PagemapScan, Queue, QueueSettings, Sandbox,
    SandboxSettings, Upstreams, precompile,
};

/// Dispatcher with one plugin, one agent and its sessions.
pub struct LocalDispatcher {
    pub dispatcher: Dispatcher,
    pub sessions: Sessions,
    pub origin: Origin,
    next: AtomicU64,
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
    /// Whether the audit log has arguments encrypted under a key of the organization, as that of a daemon.
    pub seals_arguments: bool,
}

impl LocalDispatcher {
    pub async fn new(settings: LocalSettings<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pagemap_scan = PagemapScan::Auto;
        let sandbox = SandboxSettings { instances: settings.instances, pagemap_scan };
        let sandbox = Sandbox::new(&sandbox).expect("a sandbox");
        let registry = Registry::new(LimitsPatch::default());
        let plugin = Arc::new(load(&sandbox, settings.component).await);
        registry.serve(LimitsPatch::default(), vec![plugin]);
        let SessionSetup { organization, agent, .. } = setup("s".to_owned());
        registry.put_organization(organization.clone(), BTreeSet::new());
        registry.put(Replacement::Policy(organization.clone(), OrgDocument::allow_all()));
        let document = AgentDocument::parse(settings.agent).expect("a document");
        registry.put(Replacement::Agent(organization.clone(), agent, document));
        let audit = AuditSettings::new(folder.path().join("audit"));
        let data_keys = settings.seals_arguments.then(|| data_keys(organization.as_str()));
        let segment_bytes = settings.segment_bytes;
        let audit = AuditSettings { segment_bytes, reserve_bytes: 0, data_keys, ..audit };
        let (audit, _) = Audit::start(&audit).await.expect("a log");
        let store = Store::open(&folder.path().join("state.db")).await.expect("a store");
        let secrets = CredentialSettings {
            audit: audit.clone(),
            references: None,
            source: RootKeySource::Generated(folder.path().join("root")),
            http: token_client(HostClient::new(HostClientSettings::default()).expect("a client")),
            redirect_url: "http://localhost/v1/oauth/callback".to_owned(),
            client_metadata_url: None,
        };
        let credentials = Credentials::open(store.clone(), registry.clone(), secrets, 0).await;
        let dispatcher = Dispatcher::new(Parts {
            queue: Queue::new(QueueSettings {
                running: 256,
                running_per_organization: 192,
                waiting_per_organization: 256,
                waiting: 4096,
            }),
            registry,
            audit,
            sandbox,
            ledger: Ledger::new(settings.rates, QuotaCounters::default()),
            upstreams: Upstreams::new(EgressSettings::default()),
            credentials: credentials.expect("credentials"),
            approvals: Approvals::new(store.clone(), 3_600_000),
            events: Events::new(1),
            store,
            client_result_ms: 900_000,
            detached: Default::default(),
            metrics: Default::default(),
            log: Default::default(),
            traces: Default::default(),
            draw_key: Default::default(),
        });
        let sessions = sessions(folder.path());
        let (principal, source) = ("local".into(), "local");
        let origin = Origin { principal, source, trace: None, revoked: Default::default() };
        Self { dispatcher, sessions, origin, next: AtomicU64::new(0), folder }
    }

    pub fn parts(&self) -> &Parts {
        self.dispatcher.parts()
    }

    pub fn open_session(&self) -> Arc<Session> {
        let setup = setup(format!("s_{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let facts = SessionFacts::default();
        let share = self.sessions.reserve(&setup.organization).expect("no limit");
        self.sessions.open(share, setup, InitialState { facts, rounds: 0, last_used_ms: now_ms() })
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

/// A key for the data of one organization.
fn data_keys(organization: &str) -> DataKeys {
    let keys = DataKeys::new([3; 32]);
    let key = keys.generate(organization).expect("a key");
    keys.insert(organization, &key).expect("it unwraps");
    keys
}

fn sessions(folder: &Path) -> Sessions {
    let many = u64::MAX;
    let organization = OrganizationBounds::NONE;
    let bounds =
        Bounds { rounds_per_turn: many, rounds_per_session: many, failures: 3, recent: 5, organization };
    let answers = folder.join("answers");
    std::fs::create_dir(&answers).expect("a folder");
    let kept_ms = 86_400_000;
    let answers = Answers::start(AnswerSettings {
        folder: answers,
        key: [7; 32],
        kept_ms,
        file_kept_ms: kept_ms,
        organization_bytes: 1 << 28,
    });
    Sessions::new(folder, answers.expect("a writer"), kept_ms, bounds)
}

/// A component without the plugin contract gets the namespace `echo`.
async fn load(sandbox: &Sandbox, file: &[u8]) -> Plugin<toolgate_sandbox::Component> {
    let code = precompile(file).expect("a component");
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
