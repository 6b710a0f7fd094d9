//! Our dispatcher in process, wired as the daemon wires it, and the decision alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use toolgate::audit::{Audit, AuditSettings};
use toolgate::dispatch::{Dispatcher, Origin, Parts, RequestedCall, now_ms};
use toolgate::queue::{Queue, QueueSettings};
use toolgate::registry::Registry;
use toolgate::sessions::{Session, SessionSetup, Sessions};
use toolgate_admission::{
    Admitted, AgentDocument, AgentRules, Catalogue, Checked, Descriptor, Digest, Ledger, LimitsPatch, Name,
    OrgRules, Plugin, Rates, Rules, SessionFacts, ToolCall, Verdict, check, decide,
};
use toolgate_sandbox::{
    BeforeEffect, CallClock, CallContext, Component, Sandbox, SandboxSettings, precompile,
};

use super::ARGUMENTS;

/// A dispatcher with one plugin, one agent and a few sessions.
pub struct House {
    dispatcher: Dispatcher,
    sessions: Vec<Arc<Session>>,
    origin: Origin,
    next: AtomicU64,
    _folder: tempfile::TempDir,
}

impl House {
    pub async fn new(component: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::new(&SandboxSettings::default()).unwrap();
        let component = sandbox.load(&precompile(component).unwrap()).unwrap();
        let descriptor = Descriptor::parse(&sandbox.describe(&component).await.unwrap()).unwrap();
        let plugin = Plugin {
            descriptor: Arc::new(descriptor),
            digest: Digest::from_sha256([7; 32]),
            granted: Default::default(),
            component,
            disabled: false,
        };
        let registry = Registry::new(LimitsPatch::default());
        registry.serve(LimitsPatch::default(), vec![Arc::new(plugin)]);
        let (organization, agent) = (Name::parse("acme").unwrap(), Name::parse("bot").unwrap());
        registry.put_organization(organization.clone());
        registry.put_agent(
            &organization,
            agent.clone(),
            AgentDocument::parse(r#"{"enabled":["echo/*"]}"#).unwrap(),
        );
        let (audit, _) = Audit::start(&AuditSettings::new(folder.path().join("audit"))).await.unwrap();
        let dispatcher = Dispatcher::new(Parts {
            queue: Queue::new(QueueSettings { running: 256, waiting_per_organization: 256, waiting: 4096 }),
            registry,
            audit,
            sandbox,
            ledger: Mutex::new(Ledger::new(Rates { calls_per_second: Some(10_000_000), burst: 10_000_000 })),
            limits: LimitsPatch::default(),
        });
        let sessions = Sessions::new(folder.path(), 86_400_000);
        let sessions = (0..64)
            .map(|number| {
                let setup = SessionSetup {
                    id: format!("s_{number}"),
                    organization: organization.clone(),
                    agent: agent.clone(),
                    user: None,
                    conversation: None,
                    channel: None,
                    principal: "bench".into(),
                    created_ms: now_ms(),
                };
                sessions.open(setup, SessionFacts::default(), now_ms())
            })
            .collect();
        let origin = Origin { principal: "bench".into(), door: "bench", revoked: Default::default() };
        Self { dispatcher, sessions, origin, next: AtomicU64::new(0), _folder: folder }
    }

    /// Calls in as many tasks as there are in flight, each with a new id.
    pub async fn calls(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..in_flight {
            let (dispatcher, origin) = (self.dispatcher.clone(), self.origin.clone());
            // Sessions remember their ids, so each round has its own part of them.
            let session = &self.sessions[usize::try_from(task).unwrap() % self.sessions.len()];
            let session = Arc::clone(session);
            let first = self.next.fetch_add(calls / in_flight, Ordering::Relaxed);
            tasks.spawn(async move {
                for number in 0..calls / in_flight {
                    let call = RequestedCall {
                        id: format!("c{}", first + number),
                        tool: "call_echo_echo".into(),
                        arguments: ARGUMENTS.into(),
                        id_is_new: true,
                    };
                    let answer = dispatcher.batch(&session, vec![call], &origin).await;
                    assert!(
                        answer.results[0].json.contains("\"status\":\"ok\""),
                        "{}",
                        answer.results[0].json
                    );
                }
            });
        }
        tasks.join_all().await;
    }

    /// The sandbox alone: each call decided and charged, then run, with no record and no queue.
    pub async fn sandboxed(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let dispatcher = self.dispatcher.clone();
            let setup = self.sessions[0].setup.clone();
            tasks.spawn(async move {
                let parts = dispatcher.parts();
                for _ in 0..calls / in_flight {
                    let rules = parts.registry.snapshot().rules(&setup.organization, &setup.agent).unwrap();
                    let call = ToolCall { tool: "call_echo_echo".into(), arguments: ARGUMENTS.into() };
                    let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call) else { return };
                    let charged = parts.ledger.lock().unwrap().charge(&setup.organization, checked, now_ms());
                    let finished = parts.sandbox.run(&charged.unwrap(), context(&setup)).await;
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

    /// The rules of the agent.
    pub fn rules(&self) -> Rules<Component> {
        let setup = &self.sessions[0].setup;
        self.parts().registry.snapshot().rules(&setup.organization, &setup.agent).unwrap()
    }

    pub fn charge(&self, checked: Checked<Component>) -> Admitted<Component> {
        let organization = &self.sessions[0].setup.organization;
        self.parts().ledger.lock().unwrap().charge(organization, checked, now_ms()).unwrap()
    }

    pub fn syncs_per_call(&self) -> f64 {
        let counts = self.dispatcher.parts().audit.counts();
        counts.syncs as f64 / (counts.records as f64 / 2.0)
    }
}

fn context(setup: &SessionSetup) -> CallContext {
    CallContext {
        call_id: "c1".into(),
        session: setup.id.clone(),
        conversation: None,
        organization: setup.organization.to_string(),
        agent: setup.agent.to_string(),
        user: None,
        channel: None,
        deadline: tokio::time::Instant::now() + std::time::Duration::from_secs(30),
        workspace: None,
        clock: CallClock::start(std::time::SystemTime::now()),
        seed: [7; 32],
        settings: "{}".into(),
        definition: None,
        before_effect: BeforeEffect::refused(),
    }
}

/// The decision alone, with few tools and with many.
pub fn decisions() {
    let mut times = Vec::new();
    for tools in [10, 10_000] {
        let catalogue = Arc::new(catalogue(tools));
        let document = AgentDocument::parse(r#"{"enabled":"*","disabled":["p3/t3"]}"#).unwrap();
        let agent = AgentRules::compile(&document, &catalogue);
        let rules = Rules { catalogue, organization: Arc::new(OrgRules::default()), agent: Arc::new(agent) };
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
