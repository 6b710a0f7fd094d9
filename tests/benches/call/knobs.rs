//! What each thing that keeps calls safe costs by itself.
//!
//! A knob of the sandbox is left off and everything else on: the difference is its price. What the gate and the
//! record do is called alone. Where a difference is smaller than the noise of the run, it says so.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toolgate::audit::{
    Audit, AuditSettings, CallIntent, CallOutcome, Executed, PluginStamp, Reason, Sha256, Status, Verdict,
};
use toolgate::dispatch::now_ms;
use toolgate_admission::{SessionFacts, ToolCall, Verdict as Decision, check, decide};
use toolgate_sandbox::{Queue, QueueSettings};

use super::bare::{Bare, Call, Knobs};
use super::house::House;
use super::{ARGUMENTS, ECHO, cpu_time, measure};

/// Ten milliseconds or so of nothing but arithmetic.
const COMPUTE: Call = ("compute", r#"{"work":10}"#);

const IN_FLIGHT: u64 = 16;

/// A name for what is left off, and the rest of them on.
const KNOBS: [(&str, &str, Knobs); 7] = [
    (
        "an instance for each call",
        "nothing of one call is seen by the next",
        Knobs { fresh_instance: false, ..Knobs::ALL },
    ),
    (
        "fuel",
        "a guest stops after so many instructions, the same each time",
        Knobs { fuel: false, ..Knobs::ALL },
    ),
    (
        "epochs",
        "a guest that computes yields to the others every millisecond",
        Knobs { epochs: false, ..Knobs::ALL },
    ),
    ("one form of NaN", "the same call gives the same bits", Knobs { canonical_nans: false, ..Knobs::ALL }),
    (
        "limiter",
        "memory, tables and instances are counted before they grow",
        Knobs { limiter: false, ..Knobs::ALL },
    ),
    (
        "accounting",
        "calls of the host, their bytes and handles are counted and charged",
        Knobs { host_calls: false, ..Knobs::ALL },
    ),
    ("deadline", "a guest that waits in the host is stopped", Knobs { deadline: false, ..Knobs::ALL }),
];

/// Measures all of them and prints the page; writes it to `daemon/docs/cost.md` too where asked.
pub fn print(runtime: &Runtime, echo: &[u8], write: bool) {
    let page = page(runtime, echo);
    print!("{page}");
    if write {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../daemon/docs/cost.md"), page).unwrap();
    }
}

fn page(runtime: &Runtime, echo: &[u8]) -> String {
    let house = runtime.block_on(House::new(echo));
    let mut page = format!(
        "# What safety costs\n\n\
         Each row is one thing that keeps calls safe, left off while all others stay on, or called alone. Made by\n\
         `cargo bench --workspace --bench call -- knobs --write` on {} processors with Linux {}; page-map scan {}.\n\
         Absolute times are that machine's; compare within the page.\n\n\
         ## In the sandbox\n\n\
         CPU of a call of 82 bytes with {IN_FLIGHT} in flight, and of one that only computes. *All on* is wasmtime\n\
         with every knob below, without gate and record; its ± is half of what three measurements lie apart. On a machine\n\
         that others use too, a row can be off by more than that.\n\n\
         | left off | what it is for | small call, µs | it costs, µs | computing call, ms | it costs, % |\n\
         |---|---|---:|---:|---:|---:|\n",
        std::thread::available_parallelism().unwrap(),
        std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        if house.parts().sandbox.pagemap_scan() { "on" } else { "off" },
    );
    sandbox_rows(&mut page, runtime, echo);
    page.push_str(
        "\n## Around it\n\n\
         CPU of one call each, alone; the record is measured with 64 calls in flight, with everything it does in\n\
         its own threads: encoding, hash chain, sync and index.\n\n\
         | what | what it is for | µs |\n|---|---|---:|\n",
    );
    gate_rows(&mut page, runtime, &house);
    // Compiling it is not a part of a call.
    let bare = Bare::new(echo, Knobs::NONE);
    let (whole, small) = (
        measure(40_000, || runtime.block_on(house.calls(40_000, 64))),
        measure(40_000, || runtime.block_on(bare.calls(40_000, 64, ECHO))),
    );
    let _ = writeln!(
        page,
        "\nA whole call through the dispatcher takes {:.1} µs with 64 in flight, and a fresh instance with every knob off {:.1} µs.",
        whole.cpu_us, small.cpu_us
    );
    page
}

fn sandbox_rows(page: &mut String, runtime: &Runtime, echo: &[u8]) {
    let cost = |knobs: Knobs| {
        let bare = Bare::new(echo, knobs);
        let small = measure(20_000, || runtime.block_on(bare.calls(20_000, IN_FLIGHT, ECHO)));
        let computing = measure(64, || runtime.block_on(bare.calls(64, IN_FLIGHT, COMPUTE)));
        (small.cpu_us, computing.cpu_us / 1_000.0)
    };
    // Before, in the middle and after: what lies between them is the noise, and a difference below it is none.
    let mut alls = vec![cost(Knobs::ALL)];
    let mut rows = Vec::new();
    for (at, (name, what_for, knobs)) in KNOBS.into_iter().enumerate() {
        rows.push((name, what_for, cost(knobs)));
        if at == KNOBS.len() / 2 {
            alls.push(cost(Knobs::ALL));
        }
    }
    alls.push(cost(Knobs::ALL));
    rows.push(("all of them but the fresh instance", "", cost(Knobs::NONE)));
    let (small, small_noise) = spread(alls.iter().map(|all| all.0));
    let (computing, computing_noise) = spread(alls.iter().map(|all| all.1));
    let _ = writeln!(
        page,
        "| nothing: all on | | {small:.1} ± {small_noise:.1} | | {computing:.1} ± {computing_noise:.1} | |"
    );
    for (name, what_for, (without_small, without_computing)) in rows {
        let saved = or_noise(small - without_small, small_noise, |saved| format!("{saved:.1}"));
        let percent = or_noise(computing - without_computing, computing_noise, |saved| {
            format!("{:.0}", 100.0 * saved / without_computing)
        });
        let _ = writeln!(
            page,
            "| {name} | {what_for} | {without_small:.1} | {saved} | {without_computing:.1} | {percent} |"
        );
    }
}

/// The middle of some measurements of the same thing, and half of how far they lie apart.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    (values[values.len() / 2], (most - least) / 2.0)
}

fn or_noise(saved: f64, noise: f64, show: impl Fn(f64) -> String) -> String {
    if saved <= noise { "within the noise".into() } else { show(saved) }
}

fn gate_rows(page: &mut String, runtime: &Runtime, house: &House) {
    let mut row = |what: &str, what_for: &str, us: f64| {
        let us = if us < 0.05 { "under 0.05".into() } else { format!("{us:.2}") };
        let _ = writeln!(page, "| {what} | {what_for} | {us} |");
    };
    let queue = Queue::new(QueueSettings {
        running: 256,
        running_per_organization: 192,
        waiting_per_organization: 256,
        waiting: 4096,
    });
    let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
    let entering = each(1_000_000, || {
        drop(runtime.block_on(queue.enter("acme", || deadline)).unwrap());
    });
    row("queue", "no more calls run than there is room for, organizations take turns", entering);

    let (rules, facts) = (house.rules(), SessionFacts::default());
    let deciding = each(1_000_000, || {
        std::hint::black_box(decide(&rules, &facts, "call_echo_echo"));
    });
    row("decision", "may this agent call this tool", deciding);
    let call = || ToolCall { tool: "call_echo_echo".into(), arguments: ARGUMENTS.into() };
    let checking = each(200_000, || {
        std::hint::black_box(check(&rules, &facts, call()));
    });
    row("validation of the arguments", "the guest sees only what fits its schema", checking - deciding);

    let charging = each(200_000, || {
        let Decision::Run(checked) = check(&rules, &facts, call()) else { panic!("not allowed") };
        std::hint::black_box(house.charge(checked));
    });
    row("charge", "rates of calls hold", charging - checking);
    let Decision::Run(checked) = check(&rules, &facts, call()) else { panic!("not allowed") };
    let admitted = house.charge(checked);
    let validating = each(200_000, || {
        std::hint::black_box(admitted.check_output(ARGUMENTS).unwrap());
    });
    row("validation of the result", "the model sees only what the tool declared", validating);

    let folder = tempfile::tempdir().unwrap();
    let (audit, _) =
        runtime.block_on(Audit::start(&AuditSettings::new(folder.path().join("audit")))).unwrap();
    let recording = measure(64_000, || runtime.block_on(record(&audit, 64_000, 64)));
    row("record", "intent and outcome are on disk before the answer leaves", recording.cpu_us);
}

/// CPU time of one of many, in µs.
fn each(times: u32, mut act: impl FnMut()) -> f64 {
    (0..times / 10).for_each(|_| act());
    let began = (cpu_time(), Instant::now());
    (0..times).for_each(|_| act());
    (cpu_time() - began.0).as_secs_f64() * 1e6 / f64::from(times)
}

async fn record(audit: &Audit, calls: u64, in_flight: u64) {
    let mut tasks = tokio::task::JoinSet::new();
    let sha256 = Sha256::of(ARGUMENTS.as_bytes());
    for task in 0..in_flight {
        let audit = audit.clone();
        tasks.spawn(async move {
            for number in 0..calls / in_flight {
                let entry = audit.open(intent(&format!("c{task}-{number}-{}", now_ms()), sha256)).unwrap();
                let outcome = CallOutcome {
                    status: Status::Ok,
                    error_type: None,
                    executed: Executed::Yes,
                    usage: Default::default(),
                    duration_us: 40,
                    output: None,
                };
                audit.close(entry, outcome).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

fn intent(call: &str, arguments_sha256: Sha256) -> CallIntent<'_> {
    CallIntent {
        organization: "acme".into(),
        session: "s_0".into(),
        call: call.into(),
        agent: "bot".into(),
        user: None,
        conversation: None,
        channel: None,
        tool: "echo/echo".into(),
        wire_name: "call_echo_echo".into(),
        arguments: None,
        arguments_sha256,
        verdict: Verdict::Run,
        reason: Reason { layer: "agent".into(), rule: "enabled".into() },
        policy_revision: 1,
        plugin: Some(PluginStamp { version: "1.0.0".into(), digest: "sha256:00".into() }),
        source: "bench".into(),
        principal: "bench".into(),
    }
}
