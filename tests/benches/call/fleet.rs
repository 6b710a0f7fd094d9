//! The gate at scale: 10,000 tools, 1,000 organizations with 100 agents each.
//!
//! Each figure is printed with its target; none fails the run. On a shared machine a maximum is mostly waiting time,
//! so maxima are also given as CPU time.

mod broker;
mod plan;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use plan::{Plan, Random};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use toolgate_admission::{Decision, Plugin, SessionFacts, decide};
use toolgate_api::limits::LimitsPatch;
use toolgate_api::name::Name;
use toolgate_core::registry::{Registry, Replacement};
use toolgate_sandbox::{Component, Sandbox, SandboxSettings, precompile};

/// Number of measured decisions of each kind.
const DECISIONS: usize = 200_000;
/// Consecutive calls of one agent.
const CALLS_PER_AGENT: usize = 20_000;
/// Maximum number of calls in a request.
const CALLS_PER_REQUEST: usize = 32;
/// Number of measured changes of each kind.
const CHANGES: usize = 100;
/// Decisions between two changes of the platform policy.
const DECISIONS_BETWEEN: usize = 2_000;

/// Registry filled with documents.
struct Fleet {
    plan: Plan,
    registry: Registry,
    plugins: Vec<Arc<Plugin<Component>>>,
}

/// Calls of a random agent. Every second tool is one that its document enables.
struct Request {
    organization: Name,
    agent: Name,
    called: Vec<String>,
}

/// Measures and prints everything.
pub fn print(runtime: &Runtime, echo: &[u8]) {
    let sandbox = Sandbox::new(&SandboxSettings::default()).unwrap();
    let component = sandbox.load(&precompile(echo, None).unwrap()).unwrap();
    let empty = resident_mib();
    let fleet = Fleet::new(Plan::FLEET, &component);
    let documents = resident_mib();
    fleet.compile_all();
    let compiled = resident_mib();
    row("memory of tools and documents", &format!("{:.0} MiB", documents - empty), "");
    row("with the rules of every agent", &format!("{:.0} MiB", compiled - empty), "under 500 MiB");
    row("    of the whole process", &format!("{compiled:.0} MiB"), "");

    decisions(&fleet, &component);
    first_decisions(&fleet);
    replaced_agents(&fleet);
    changes_under_load(&fleet, &component);
    fleet.compile_all();
    row(
        "memory after all changes, with every rule",
        &format!("{:.0} MiB", resident_mib() - empty),
        "under 500 MiB",
    );
    broker::print(runtime, &component);
}

impl Fleet {
    fn new(plan: Plan, component: &Component) -> Self {
        let began = Instant::now();
        let (registry, plugins) = plan.build(component);
        let agents = plan.organizations * plan.agents;
        let what = format!("{} tools and {agents} agents put in force one by one", plan.tools());
        row(&what, &format!("{:.1} s", began.elapsed().as_secs_f64()), "");
        Self { plan, registry, plugins }
    }

    fn compile_all(&self) {
        let (began, snapshot) = (Instant::now(), self.registry.snapshot());
        for organization in 0..self.plan.organizations {
            let organization = plan::organization(organization);
            for agent in 0..self.plan.agents {
                black_box(snapshot.rules(&organization, &plan::agent(agent)));
            }
        }
        row("rules of every agent compiled", &format!("{:.2} s", began.elapsed().as_secs_f64()), "");
    }

    /// Requests of random agents for random tools.
    fn requests(&self, count: usize, calls_each: usize) -> Vec<Request> {
        let mut random = Random::new(9, 0);
        (0..count).map(|_| self.request(calls_each, &mut random)).collect()
    }

    fn request(&self, calls: usize, random: &mut Random) -> Request {
        let (organization, agent) = (random.below(self.plan.organizations), random.below(self.plan.agents));
        let given = self.plan.tools_of(organization, agent);
        let calls = (0..calls).map(|_| match random.below(2) {
            0 => given[random.below(given.len())],
            _ => random.below(self.plan.tools()),
        });
        Request {
            called: calls.map(|number| format!("call_{}", plan::tool(number).replace('/', "_"))).collect(),
            organization: plan::organization(organization),
            agent: plan::agent(agent),
        }
    }
}

/// Times of decisions alone and with a share of the rule lookup, and the share of decisions that passed.
struct DecisionTimes {
    alone: Times,
    whole: Times,
    passed: f64,
}

impl DecisionTimes {
    fn of(registry: &Registry, requests: &[Request]) -> Self {
        let facts = SessionFacts::default();
        let (mut alone, mut whole, mut passed, mut calls) = (Vec::new(), Vec::new(), 0_u32, 0_u32);
        for request in requests {
            // Cloned here, so that the names are in the cache, as in a real request.
            let called = black_box(request.called.clone());
            let count = u32::try_from(called.len()).unwrap();
            let began = Instant::now();
            let rules = registry.snapshot().rules(&request.organization, &request.agent).unwrap();
            let ready = Instant::now();
            for name in &called {
                let decision = black_box(decide(&rules, &facts, name));
                passed += u32::from(!matches!(decision, Decision::Refused(_)));
            }
            let decided = Instant::now();
            calls += count;
            alone.push((decided - ready) / count);
            whole.push((decided - began) / count);
        }
        Self {
            alone: Times::of(alone),
            whole: Times::of(whole),
            passed: f64::from(passed) / f64::from(calls),
        }
    }
}

fn decisions(fleet: &Fleet, component: &Component) {
    let clock = Times::of((0..DECISIONS).map(|_| Instant::now().elapsed()).collect()).at(0.5);
    row("the clock itself, which is in every time of one decision", &show(clock), "");
    let few = Fleet::new(Plan { plugins: 1, ..Plan::FLEET }, component);
    few.compile_all();
    // The first row shows the effect of the number of tools, the others also that of cache misses at scale.
    let rows = [
        ("of a few agents in turn", CALLS_PER_AGENT, "under 1.5"),
        ("in requests of 32", CALLS_PER_REQUEST, "under 1.5"),
        ("each of another agent", 1, ""),
    ];
    for (what, calls, target) in rows {
        let requests = DECISIONS / calls;
        let many = DecisionTimes::of(&fleet.registry, &fleet.requests(requests, calls));
        row(&format!("decision, 10,000 tools, {what}"), &many.alone.show(), "under 500 ns");
        row("    with the rules looked up", &many.whole.show(), "");
        row("    not refused", &format!("{:.0} %", many.passed * 100.0), "");
        let few = DecisionTimes::of(&few.registry, &few.requests(requests, calls));
        row(&format!("decision, 10 tools, {what}"), &few.alone.show(), "");
        row("    with the rules looked up", &few.whole.show(), "");
        row("    not refused", &format!("{:.0} %", few.passed * 100.0), "");
        let own = clock / u32::try_from(calls).unwrap();
        let net = |times: &Times| times.at(0.5).saturating_sub(own).as_secs_f64();
        let ratio = |of: fn(&DecisionTimes) -> &Times| format!("{:.2}", net(of(&many)) / net(of(&few)));
        row("    10,000 tools / 10 tools", &ratio(|decided| &decided.alone), target);
        row("    with the rules looked up", &ratio(|decided| &decided.whole), "");
    }
}

/// After a change of the platform policy, an agent's first decision compiles its rules.
fn first_decisions(fleet: &Fleet) {
    fleet.registry.put(Replacement::Platform(fleet.plan.platform(1)));
    let decided = DecisionTimes::of(&fleet.registry, &fleet.requests(20_000, 1));
    row("first decision of an agent after a change", &decided.whole.show(), "under 10 ms");
}

fn replaced_agents(fleet: &Fleet) {
    let facts = SessionFacts::default();
    let mut random = Random::new(10, 0);
    let replaced = (0..CHANGES).map(|edition| {
        let (organization, agent) = (random.below(fleet.plan.organizations), random.below(fleet.plan.agents));
        let document = fleet.plan.agent(organization, agent, edition);
        let disabled_list = document.disabled.clone();
        let disabled = disabled_list.patterns()[0].to_string();
        let (organization, agent) = (plan::organization(organization), plan::agent(agent));
        let began = Instant::now();
        fleet.registry.put(Replacement::Agent(organization.clone(), agent.clone(), document));
        let rules = fleet.registry.snapshot().rules(&organization, &agent).unwrap();
        let refused = matches!(decide(&rules, &facts, &disabled), Decision::Refused(_));
        let took = began.elapsed();
        assert!(refused && rules.agent.document().disabled == disabled_list, "another document was in force");
        took
    });
    let replaced = Times::of(replaced.collect());
    row("an agent's document replaced and deciding", &replaced.show(), "under 5 ms");
}

/// Changes that affect all rules, while another thread decides without pause.
fn changes_under_load(fleet: &Fleet, component: &Component) {
    let calls = fleet.requests(DECISIONS, 1);
    measure_changes(fleet, &calls, "nothing", |_| (), |()| ());
    let policy = |edition| fleet.plan.platform(2 + edition);
    let replace = |policy| fleet.registry.put(Replacement::Platform(policy));
    measure_changes(fleet, &calls, "the platform's policy", policy, replace);
    let mut plugins = fleet.plugins.clone();
    let upgrade = |edition| {
        plugins[edition] = plan::plugin(edition, &format!("2.0.{edition}"), component);
        plugins.clone()
    };
    let serve = |plugins| fleet.registry.serve(LimitsPatch::default(), plugins);
    measure_changes(fleet, &calls, "a plugin", upgrade, serve);
}

/// Measures changes, each prepared before it is timed.
fn measure_changes<T>(
    fleet: &Fleet,
    calls: &[Request],
    what: &str,
    mut prepare: impl FnMut(usize) -> T,
    change: impl Fn(T),
) {
    let ended = AtomicBool::new(false);
    let (beat, beats) = sync_channel(0);
    let (longest, changes) = std::thread::scope(|scope| {
        let deciding = scope.spawn(|| decide_until(&ended, &fleet.registry, calls, beat));
        let changes = (0..CHANGES).map(|number| {
            let prepared = prepare(number);
            let began = Instant::now();
            change(prepared);
            let took = began.elapsed();
            beats.recv().unwrap();
            took
        });
        let changes = Times::of(changes.collect());
        ended.store(true, Ordering::Relaxed);
        (deciding.join().unwrap(), changes)
    });
    row(&format!("{what} changes: the change itself"), &changes.show(), "");
    let longest = format!("{}, of CPU {}", show(longest.wall), show(longest.cpu));
    row("    the longest decision meanwhile", &longest, "under 10 ms");
}

/// Maximum time of a decision, from taking the snapshot to dropping it.
#[derive(Default)]
struct Longest {
    wall: Duration,
    cpu: Duration,
}

fn decide_until(ended: &AtomicBool, registry: &Registry, calls: &[Request], beat: SyncSender<()>) -> Longest {
    let facts = SessionFacts::default();
    let mut longest = Longest::default();
    for (number, call) in calls.iter().cycle().enumerate() {
        let (wall, cpu) = (Instant::now(), thread_cpu_time());
        let rules = registry.snapshot().rules(&call.organization, &call.agent).unwrap();
        black_box(decide(&rules, &facts, &call.called[0]));
        drop(rules);
        let (cpu, wall) = (thread_cpu_time() - cpu, wall.elapsed());
        longest.wall = longest.wall.max(wall);
        longest.cpu = longest.cpu.max(cpu);
        if number % DECISIONS_BETWEEN == DECISIONS_BETWEEN - 1 {
            // Sent only if the changing thread waits for it.
            let _ = beat.try_send(());
            if ended.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    longest
}

/// Sorted measurements.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// Quantile.
    fn at(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length is one"
        )]
        let place = (share * self.0.len() as f64) as usize;
        self.0[place.min(self.0.len() - 1)]
    }

    fn show(&self) -> String {
        let [median, most, longest] = [0.5, 0.99, 1.0].map(|share| show(self.at(share)));
        format!("{median}, p99 {most}, max {longest}")
    }
}

fn show(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-6 => format!("{:.0} ns", seconds * 1e9),
        seconds if seconds < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        seconds => format!("{:.2} ms", seconds * 1e3),
    }
}

fn row(what: &str, figure: &str, target: &str) {
    println!("{what:56} {figure:44} {target}");
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
