//! The daemon's dispatcher in this process, wired like the daemon's, and decisions alone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use toolgate::approvals::Approvals;
use toolgate::audit::{Audit, AuditSettings};
use toolgate::call::RequestedCall;
use toolgate::clock::now_ms;
use toolgate::credentials::{self, CredentialSettings, RootKeySource, token_client};
use toolgate::dispatch::{Dispatcher, Origin, Parts};
use toolgate::events::Events;
use toolgate::registry::{Registry, Replacement};
use toolgate::sessions::{Bounds, InitialState, Session, SessionSetup, Sessions};
use toolgate::store::Store;
use toolgate_admission::{
    Admitted, Catalogue, Checked, Descriptor, Digest, Ledger, Plugin, Rates, Rules, SessionFacts, ToolCall,
    Verdict, check, decide,
};
use toolgate_api::call::CallStatus;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_sandbox::{
    CallClock, CallContext, Component, EgressSettings, HostClient, HostClientSettings, Queue, QueueSettings,
    Sandbox, SandboxSettings, Upstreams, precompile,
};

use super::ARGUMENTS;

/// Dispatcher with one plugin, one agent and a few sessions.
pub struct LocalDispatcher {
    dispatcher: Dispatcher,
    sessions: Sessions,
    origin: Origin,
    next: AtomicU64,
    _folder: tempfile::TempDir,
}

impl LocalDispatcher {
    pub async fn new(component: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(&SandboxSettings::default()).unwrap();
        let component = sandbox.load(&precompile(component).unwrap()).unwrap();
        let descriptor = Descriptor::parse(&sandbox.describe(&component, None).await.unwrap()).unwrap();
        let plugin = Plugin {
            descriptor: Arc::new(descriptor),
            digest: Digest::from_sha256([7; 32]),
            granted: Default::default(),
            component,
            disabled: false,
        };
        let registry = Registry::new(LimitsPatch::default());
        registry.serve(LimitsPatch::default(), vec![Arc::new(plugin)]);
        let SessionSetup { organization, agent, .. } = setup("s".to_owned());
        registry.put_organization(organization.clone(), BTreeSet::new());
        registry.put(Replacement::Policy(organization.clone(), OrgDocument::allow_all()));
        let document = AgentDocument::parse(r#"{"enabled":["echo/*"],"autonomy":"autonomous"}"#).unwrap();
        registry.put(Replacement::Agent(organization.clone(), agent.clone(), document));
        let (audit, _) = Audit::start(&AuditSettings::new(folder.path().join("audit"))).await.unwrap();
        let store = Store::open(&folder.path().join("state.db")).await.unwrap();
        let secrets = CredentialSettings {
            audit: audit.clone(),
            references: None,
            source: RootKeySource::Generated(folder.path().join("root")),
            http: token_client(HostClient::new(HostClientSettings::default()).unwrap()),
            redirect_url: "http://localhost/v1/oauth/callback".to_owned(),
        };
        let credentials =
            credentials::Credentials::open(store.clone(), registry.clone(), secrets, 0).await.unwrap();
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
            ledger: Mutex::new(Ledger::new(Rates { calls_per_second: Some(10_000_000), burst: 10_000_000 })),
            upstreams: Upstreams::new(EgressSettings::default()),
            credentials,
            approvals: Approvals::new(store.clone(), 3_600_000),
            events: Events::new(1),
            store,
            client_result_ms: 900_000,
            detached: Default::default(),
        });
        // Loops that lead nowhere are what is measured here.
        let many = u64::MAX;
        let bounds = Bounds { rounds_per_turn: many, rounds_per_session: many, failures: 3, recent: 5 };
        let sessions = Sessions::new(folder.path(), 86_400_000, bounds);
        let origin = Origin { principal: "bench".into(), source: "bench", revoked: Default::default() };
        Self { dispatcher, sessions, origin, next: AtomicU64::new(0), _folder: folder }
    }

    /// Makes calls in `in_flight` tasks, each in a session of its own that is closed afterwards, so that the record
    /// of calls does not grow from round to round.
    pub async fn calls(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let (dispatcher, origin, session) =
                (self.dispatcher.clone(), self.origin.clone(), self.open_session());
            tasks.spawn(async move {
                for number in 0..calls / in_flight {
                    let call = RequestedCall {
                        id: format!("c{number}"),
                        tool: "call_echo_echo".into(),
                        arguments: ARGUMENTS.into(),
                        id_is_new: true,
                    };
                    let answer = dispatcher.batch(&session, None, vec![call], &origin).await;
                    assert_eq!(answer.results[0].status(), CallStatus::Ok, "{:?}", answer.results[0]);
                }
            });
        }
        tasks.join_all().await;
        for session in self.sessions.filter(|_| true) {
            self.sessions.close(&session.setup.id);
        }
    }

    fn open_session(&self) -> Arc<Session> {
        let setup = setup(format!("s_{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let facts = SessionFacts::default();
        self.sessions.open(setup, InitialState { facts, rounds: 0, last_used_ms: now_ms() })
    }

    /// Runs the sandbox alone: decide, charge and run, without audit and queue.
    pub async fn run_sandbox(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let dispatcher = self.dispatcher.clone();
            let setup = setup("s".to_owned());
            tasks.spawn(async move {
                let parts = dispatcher.parts();
                for _ in 0..calls / in_flight {
                    let rules = parts.registry.snapshot().rules(&setup.organization, &setup.agent).unwrap();
                    let call = ToolCall { tool: "call_echo_echo".into(), arguments: ARGUMENTS.into() };
                    let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call) else { return };
                    let charged = parts.ledger.lock().unwrap().charge(&setup.organization, checked, now_ms());
                    let finished =
                        parts.sandbox.run(&charged.unwrap(), context(&setup), std::future::pending()).await;
                    assert!(finished.outcome.is_ok());
                    tokio::task::consume_budget().await;
                }
            });
        }
        tasks.join_all().await;
    }

    pub fn parts(&self) -> &Parts {
        self.dispatcher.parts()
    }

    /// Rules of the agent.
    pub fn rules(&self) -> Rules<Component> {
        let setup = setup("s".to_owned());
        self.parts().registry.snapshot().rules(&setup.organization, &setup.agent).unwrap()
    }

    pub fn charge(&self, checked: Checked<Component>) -> Admitted<Component> {
        let organization = setup("s".to_owned()).organization;
        self.parts().ledger.lock().unwrap().charge(&organization, checked, now_ms()).unwrap()
    }

    pub fn syncs_per_call(&self) -> f64 {
        let counts = self.dispatcher.parts().audit.counts();
        counts.syncs as f64 / (counts.records as f64 / 2.0)
    }
}

fn setup(id: String) -> SessionSetup {
    SessionSetup {
        id,
        organization: Name::parse("acme").unwrap(),
        agent: Name::parse("bot").unwrap(),
        user: None,
        conversation: None,
        channel: None,
        principal: "bench".into(),
        created_ms: now_ms(),
    }
}

fn context(setup: &SessionSetup) -> CallContext {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    CallContext {
        identity: Arc::new(setup.identity()),
        clock: CallClock::start(std::time::SystemTime::now()),
        ..CallContext::without_capabilities("c1", deadline)
    }
}

/// Measures decisions alone, with few and with many tools.
pub fn decisions() {
    let mut times = Vec::new();
    for tools in [10, 10_000] {
        let catalogue = Arc::new(catalogue(tools));
        let document = r#"{"enabled":"*","disabled":["p3/t3"],"autonomy":"autonomous"}"#;
        let document = AgentDocument::parse(document).unwrap();
        let (platform, everything) = (PlatformDocument::default(), OrgDocument::allow_all());
        let rules = Rules::compile(catalogue, platform, everything, BTreeSet::new(), document);
        let facts = SessionFacts::default();
        let names: Vec<String> =
            (0..tools).map(|number| format!("call_p{}_t{}", number / 10, number % 10)).collect();
        let rounds = 2_000_000 / names.len();
        let began = Instant::now();
        for _ in 0..rounds {
            for name in &names {
                std::hint::black_box(decide(&rules, &facts, name));
            }
        }
        let nanoseconds = began.elapsed().as_secs_f64() * 1e9 / (rounds * names.len()) as f64;
        println!("decision without validation, {tools:>6} tools: {nanoseconds:.0} ns");
        times.push(nanoseconds);
    }
    println!("    10,000 tools / 10 tools = {:.2}", times[1] / times[0]);
}

fn catalogue(tools: usize) -> Catalogue<()> {
    let plugins = (0..tools / 10).map(|plugin| {
        let tools: Vec<serde_json::Value> = (0..10)
            .map(|tool| {
                serde_json::json!({
                    "name": format!("t{tool}"), "description": "A tool.", "usage": "Call it.",
                    "input_schema": {"type": "object"}
                })
            })
            .collect();
        let described = serde_json::json!({"name": format!("p{plugin}"), "version": "1.0.0", "tools": tools});
        Arc::new(Plugin {
            descriptor: Arc::new(Descriptor::parse(&described.to_string()).unwrap()),
            digest: Digest::from_sha256([1; 32]),
            granted: Default::default(),
            component: (),
            disabled: false,
        })
    });
    Catalogue::new(LimitsPatch::default(), plugins.collect())
}
