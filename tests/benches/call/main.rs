//! Cost of a call, beside its floors, in one run.
//!
//! (a) a native function, (b) bare wasmtime with a reused instance, (c) bare wasmtime with a fresh instance and our
//! settings, (d) the daemon's dispatcher with everything on: gate, validation, limits, audit on disk. Compare differences
//! and ratios; absolute times depend on the machine. CPU time is that of the whole process, with the threads of the
//! audit log and its index.
//!
//! `cargo bench --profile dist --workspace --bench call`, with one of
//! - `-- profile`: a minute of (d), for `perf` (`profile gate`: gate and sandbox, `profile bare`: (c))
//! - `-- instructions dispatcher|http calls=N`: N calls on one thread, for `instructions.sh`
//! - `-- knobs`: the cost of each safety setting; with `--write` it updates `daemon/docs/cost.md`
//! - `-- fleet`: decisions, changes, memory and broker with 10,000 tools and 100,000 agents
//! - `-- functions`: the same call of a component without the plugin contract, beside one with it
//! - `-- quotas`: what ten quotas add to a decision
//! - `-- shell`: `ls | wc -l` in the built-in shell, beside a bubblewrap process per call
//! - `-- serve-echo`, `-- serve-bare`: serves (a) or (c) over HTTP, as floors for `http.sh`

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot run panics")]

mod bare;
mod fleet;
mod floor;
mod instructions;
#[path = "../../src/local.rs"]
mod local;
mod local_dispatcher;
mod knobs;
mod shell;

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bare::{Bare, Call, Knobs};
use local_dispatcher::LocalDispatcher;
use rustix::time::{ClockId, clock_gettime};
use toolgate_tests::guests::Embedded;

/// Arguments of the call: 82 bytes.
pub const ARGUMENTS: &str =
    r#"{"text":"The quick brown fox jumps over the lazy dog, twice or so.","number":1234}"#;

/// The call for bare wasmtime.
const ECHO: Call = ("echo", ARGUMENTS);

/// Bytes per sync, for the measurement of a sync.
const BLOCK: usize = 4096;

/// Rounds of each measurement, of which the median is printed.
const ROUNDS: usize = 5;

include!(concat!(env!("OUT_DIR"), "/bench_guests.rs"));

fn main() {
    let guest = |name: &str| BENCH_GUESTS.iter().find(|guest| guest.name == name).unwrap().component;
    let echo = guest("echo");
    let runtime = toolgate::serve::runtime().unwrap();
    if let Some(at) = std::env::args().position(|argument| argument == "profile") {
        return profile(&runtime, echo, std::env::args().nth(at + 1).as_deref());
    }
    if std::env::args().any(|argument| argument == "instructions") {
        let over_http = std::env::args().any(|argument| argument == "http");
        return instructions::run(echo, over_http, argument("calls=").unwrap_or(1_000).into());
    }
    if std::env::args().any(|argument| argument == "knobs") {
        return knobs::print(&runtime, echo, std::env::args().any(|argument| argument == "--write"));
    }
    if std::env::args().any(|argument| argument == "fleet") {
        return fleet::print(&runtime, echo);
    }
    if std::env::args().any(|argument| argument == "functions") {
        return functions(&runtime, echo, guest("functions"));
    }
    if std::env::args().any(|argument| argument == "quotas") {
        return local_dispatcher::quotas();
    }
    if std::env::args().any(|argument| argument == "shell") {
        return shell::print(&runtime);
    }
    if std::env::args().any(|argument| argument == "serve-echo") {
        return runtime.block_on(floor::serve(None));
    }
    if std::env::args().any(|argument| argument == "serve-bare") {
        return runtime.block_on(floor::serve(Some(Bare::new(echo, Knobs::FLOOR))));
    }
    println!("{:46} {:>12} {:>12}", "", "CPU µs/call", "calls/s");
    let native = measure(200_000, || native(200_000));
    row("(a) native function", &native);
    let reused = Bare::new(echo, Knobs { fresh_instance: false, ..Knobs::FLOOR });
    row(
        "(b) bare wasmtime, instance reused",
        &measure(50_000, || runtime.block_on(reused.calls(50_000, 1, ECHO))),
    );
    let bare = Bare::new(echo, Knobs::FLOOR);
    for in_flight in [1, 16, 64] {
        let fresh = measure(40_000, || runtime.block_on(bare.calls(40_000, in_flight, ECHO)));
        row(&format!("(c) bare wasmtime, fresh instance, {in_flight} in flight"), &fresh);
        let local = runtime.block_on(LocalDispatcher::new(echo));
        let run_sandbox = measure(40_000, || runtime.block_on(local.run_sandbox(40_000, in_flight)));
        row(&format!("    gate and sandbox alone, {in_flight} in flight"), &run_sandbox);
        let calls = if in_flight == 1 { 2_000 } else { 40_000 };
        let ours = measure(calls, || runtime.block_on(local.calls(calls, in_flight)));
        row(&format!("(d) dispatcher, everything on, {in_flight} in flight"), &ours);
        println!(
            "    (d) - (c) = {:.1} µs of CPU a call; (d) / (c) = {:.2}; {:.2} syncs a call",
            ours.cpu_us - fresh.cpu_us,
            ours.cpu_us / fresh.cpu_us,
            local.syncs_per_call(),
        );
    }
    let (wall, cpu) = sync_time();
    println!("one fdatasync of 4 KiB on this disk: {:.0} µs, {:.0} µs of it CPU", micros(wall), micros(cpu));
    local_dispatcher::decisions();
}

/// The number behind `name` among the arguments.
fn argument(name: &str) -> Option<u32> {
    std::env::args().find_map(|argument| argument.strip_prefix(name)?.parse().ok())
}

/// One measurement in many short rounds. The minimum is the cost without other load on the machine.
fn profile(runtime: &tokio::runtime::Runtime, echo: &[u8], what: Option<&str>) {
    const CALLS: u64 = 20_000;
    let rounds = argument("rounds=").unwrap_or(20);
    let local = runtime.block_on(LocalDispatcher::new(echo));
    let bare = Bare::new(echo, Knobs::FLOOR);
    let mut costs: Vec<f64> = (0..rounds)
        .map(|_| {
            let cpu = cpu_time();
            match what {
                Some("bare") => runtime.block_on(bare.calls(CALLS, 64, ECHO)),
                Some("gate") => runtime.block_on(local.run_sandbox(CALLS, 64)),
                _ => runtime.block_on(local.calls(CALLS, 64)),
            }
            micros(cpu_time() - cpu) / CALLS as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("CPU µs/call, 64 in flight: least {:.1}, median {:.1}", costs[0], costs[costs.len() / 2]);
}

/// The same call of a plugin and of a plain function, whose values the host converts: gate and sandbox, and everything on.
fn functions(runtime: &tokio::runtime::Runtime, contract: &[u8], functions: &[u8]) {
    let contract = runtime.block_on(LocalDispatcher::new(contract));
    let functions = runtime.block_on(LocalDispatcher::new(functions));
    println!("{:46} {:>12} {:>12}", "", "CPU µs/call", "calls/s");
    for in_flight in [1, 64] {
        let gate = |local: &LocalDispatcher| {
            measure(20_000, || runtime.block_on(local.run_sandbox(20_000, in_flight)))
        };
        let (bound, plain) = (gate(&contract), gate(&functions));
        row(&format!("plugin, gate and sandbox, {in_flight} in flight"), &bound);
        row(&format!("function, gate and sandbox, {in_flight} in flight"), &plain);
        println!("    function / plugin = {:.2} (at most 1.5)", plain.cpu_us / bound.cpu_us);
    }
    let all = |local: &LocalDispatcher| measure(20_000, || runtime.block_on(local.calls(20_000, 64)));
    let (bound, plain) = (all(&contract), all(&functions));
    row("plugin, everything on, 64 in flight", &bound);
    row("function, everything on, 64 in flight", &plain);
    println!("    function / plugin = {:.2}", plain.cpu_us / bound.cpu_us);
}

fn native(calls: u64) {
    for _ in 0..calls {
        let value: serde_json::Value = serde_json::from_str(std::hint::black_box(ARGUMENTS)).unwrap();
        std::hint::black_box(value.to_string());
    }
}

/// CPU time and throughput of a call.
pub struct Cost {
    pub cpu_us: f64,
    pub calls_per_second: f64,
}

/// Median of several rounds of `calls` calls.
pub fn measure(calls: u64, mut round: impl FnMut()) -> Cost {
    round();
    let mut costs: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let (cpu, wall) = (cpu_time(), Instant::now());
            round();
            let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / calls as f64;
            (cpu, calls as f64 / wall.elapsed().as_secs_f64())
        })
        .collect();
    costs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (cpu_us, _) = costs[ROUNDS / 2];
    costs.sort_by(|one, other| one.1.total_cmp(&other.1));
    Cost { cpu_us, calls_per_second: costs[ROUNDS / 2].1 }
}

fn row(name: &str, cost: &Cost) {
    println!("{name:46} {:>12.1} {:>12.0}", cost.cpu_us, cost.calls_per_second);
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// Median wall time and mean CPU time of a sync of records written over zeros, as in the audit log.
fn sync_time() -> (Duration, Duration) {
    const SYNCS: u32 = 500;
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![0; BLOCK * SYNCS as usize], 0).unwrap();
    file.sync_all().unwrap();
    let cpu = cpu_time();
    let mut times: Vec<Duration> = (0..SYNCS)
        .map(|at| {
            file.write_all_at(&[1; BLOCK], u64::from(at) * BLOCK as u64).unwrap();
            let began = Instant::now();
            file.sync_data().unwrap();
            began.elapsed()
        })
        .collect();
    let cpu = (cpu_time() - cpu) / SYNCS;
    times.sort();
    (times[times.len() / 2], cpu)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
