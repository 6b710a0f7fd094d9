//! The daemon's dispatcher in this process, wired like the daemon's, and decisions alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use toolgate_admission::{
    Admitted, CanaryDraw, Catalogue, ChargeTime, Checked, Consumer, Descriptor, Digest, Ledger, Plugin,
    QuotaCounters, Rates, Rules, SessionFacts, ToolCall, Verdict, check, decide,
};
use toolgate_api::call::CallStatus;
use toolgate_api::limits::LimitsPatch;
use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};
use toolgate_audit::AuditSettings;
use toolgate_core::admin::Admin;
use toolgate_core::call::RequestedCall;
use toolgate_core::services::Services;
use toolgate_core::sessions::{Session, SessionSetup};
use toolgate_sandbox::{CallClock, CallContext, Component, SandboxSettings};
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;

use super::ARGUMENTS;
use super::local::{self, LocalSettings, setup};

/// Dispatcher with the plugin `echo`, and loads of calls.
pub struct LocalDispatcher(local::LocalDispatcher);

impl LocalDispatcher {
    pub async fn new(component: &[u8]) -> Self {
        let settings = LocalSettings {
            component,
            agent: r#"{"enabled":["echo/*"],"autonomy":"autonomous"}"#,
            rates: Rates { calls_per_second: Some(10_000_000), burst: 10_000_000 },
            // Valgrind has no room for the memories of many.
            instances: super::argument("instances=").unwrap_or(SandboxSettings::default().instances),
            segment_bytes: AuditSettings::SEGMENT_BYTES,
        };
        Self(local::LocalDispatcher::new(settings).await)
    }

    /// Makes calls in `in_flight` tasks, each in a session of its own that is closed afterwards, so that the record
    /// of calls does not grow from round to round.
    pub async fn calls(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let (dispatcher, origin, session) =
                (self.0.dispatcher.clone(), self.0.origin.clone(), self.0.open_session());
            tasks.spawn(async move {
                for number in 0..calls / in_flight {
                    let call = RequestedCall::new(&format!("c{number}"), "call_echo_echo", ARGUMENTS.into());
                    let answer = dispatcher.batch(&session, None, vec![call], &origin).await;
                    assert_eq!(answer.results[0].status(), CallStatus::Ok, "{:?}", answer.results[0]);
                }
            });
        }
        tasks.join_all().await;
        for session in self.0.services().sessions.filter(|_| true) {
            self.0.services().sessions.close(&session.setup.id);
        }
    }

    /// Runs the sandbox alone: decide, charge and run, without audit and queue.
    pub async fn run_sandbox(&self, calls: u64, in_flight: u64) {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let dispatcher = self.0.dispatcher.clone();
            let setup = setup("s".to_owned());
            tasks.spawn(async move {
                let services = dispatcher.services();
                for _ in 0..calls / in_flight {
                    let rules =
                        services.registry.snapshot().rules(&setup.organization, &setup.agent).unwrap();
                    let draw = CanaryDraw::SERVING;
                    let call = ToolCall { tool: "call_echo_echo".into(), arguments: ARGUMENTS.into(), draw };
                    let Verdict::Run(checked) = check(&rules, &SessionFacts::default(), call) else { return };
                    let consumer = Consumer::without_session(&setup.organization);
                    let charged = services.ledger.charge(consumer, checked, ChargeTime::at(now_ms()));
                    let finished = services
                        .sandbox
                        .run(&charged.unwrap(), context(&setup), std::pin::pin!(std::future::pending()))
                        .await;
                    assert!(finished.outcome.is_ok());
                    tokio::task::consume_budget().await;
                }
            });
        }
        tasks.join_all().await;
    }

    pub fn services(&self) -> &Services {
        self.0.services()
    }

    pub fn admin(&self) -> &Admin {
        &self.0.admin
    }

    pub fn config(&self) -> &Config {
        &self.0.config
    }

    pub fn folder(&self) -> &Path {
        self.0.folder.path()
    }

    pub fn open_session(&self) -> Arc<Session> {
        self.0.open_session()
    }

    /// Rules of the agent.
    pub fn rules(&self) -> Rules<Component> {
        let setup = setup("s".to_owned());
        self.services().registry.snapshot().rules(&setup.organization, &setup.agent).unwrap()
    }

    pub fn charge(&self, checked: Checked<Component>) -> Admitted<Component> {
        let organization = setup("s".to_owned()).organization;
        let consumer = Consumer::without_session(&organization);
        self.services().ledger.charge(consumer, checked, ChargeTime::at(now_ms())).unwrap()
    }

    pub fn syncs_per_call(&self) -> f64 {
        let counts = self.0.services().audit.counts();
        counts.syncs as f64 / (counts.records as f64 / 2.0)
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

/// Measures what quotas add to a decision and a charge: without any, and with ten of the organization, which each count another
/// measure or group of calls.
pub fn quotas() {
    let group = ["[]", r#"["organization"]"#, r#"["agent"]"#, r#"["tool"]"#, r#"["plugin"]"#];
    let quotas: Vec<String> = ["calls", "fuel"]
        .iter()
        .flat_map(|measure| group.map(|per| (measure, per)))
        .enumerate()
        .map(|(number, (measure, per))| {
            format!(
                r#"{{"name":"q{number}","measure":"{measure}","amount":1000000000000000,"seconds":3600,"per":{per}}}"#
            )
        })
        .collect();
    let without = charge_ns("[]");
    let with = charge_ns(&format!("[{}]", quotas.join(",")));
    println!(
        "decision and charge: {without:.0} ns; with ten quotas {with:.0} ns, {:.0} ns more",
        with - without
    );
}

fn charge_ns(quotas: &str) -> f64 {
    const ROUNDS: usize = 300_000;
    let organization = OrgDocument::parse(&format!(r#"{{"enabled":"*","quotas":{quotas}}}"#)).unwrap();
    let agent = AgentDocument::parse(r#"{"enabled":"*","autonomy":"autonomous"}"#).unwrap();
    let (catalogue, platform) = (Arc::new(catalogue(10)), PlatformDocument::default());
    let rules = Rules::compile(catalogue, platform, organization, BTreeSet::new(), agent);
    let facts = SessionFacts::default();
    let ledger = Ledger::new(Rates { calls_per_second: None, burst: 0 }, QuotaCounters::default());
    let name = setup("s".to_owned()).organization;
    let charge = |_| {
        let call = ToolCall { tool: "call_p0_t0".into(), arguments: "{}".into(), draw: CanaryDraw::SERVING };
        let Verdict::Run(checked) = check(&rules, &facts, call) else { panic!("refused") };
        let now = ChargeTime::at(1_800_000_000_000);
        drop(ledger.charge(Consumer::without_session(&name), checked, now).unwrap());
    };
    (0..ROUNDS / 10).for_each(charge);
    let began = Instant::now();
    (0..ROUNDS).for_each(charge);
    began.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
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
        Arc::new(Plugin::with_trusted_hints(
            Digest::from_sha256([1; 32]),
            Arc::default(),
            Descriptor::parse(&described.to_string()).unwrap(),
            (),
        ))
    });
    Catalogue::new(LimitsPatch::default(), plugins.collect())
}
