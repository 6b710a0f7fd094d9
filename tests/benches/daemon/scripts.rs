//! CPU time of a call that a script makes, beside one of a request.

use serde_json::{Value, json};
use toolgate_tests::{Daemon, guests};

use super::fronts::cpu_seconds;
use super::{PROGRAM, guest};

/// Calls of a measured batch.
const CALLS: usize = 100;
/// Batches of a round, so that a round takes many ticks of the process clock.
const BATCHES: usize = 60;
const ROUNDS: usize = 5;
const SETTINGS: &str = "[calls]\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\n";

pub fn scripts() {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("echo", guest("echo"));
    operator.load("scripted", guests::SCRIPTED);
    operator.make("/v1/plugins/scripted/grant", &json!({"calls": true})).expect(201);
    operator.make_agent("acme/bot", &json!({"enabled": ["echo/*", "scripted/*"]}));

    let script = json!({"calls": vec![json!(["echo/echo", echo(1)]); CALLS]});
    let outer = vec![json!({"tool": "echo/echo", "arguments": echo(1)}); CALLS];
    let mut ratios: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let session = operator.open_session("acme/bot");
            let batch = cpu_of(&daemon, || drop(session.calls(&outer)));
            let inner =
                cpu_of(&daemon, || drop(session.call("scripted/run", script.clone()).output().clone()));
            println!("  {CALLS} calls: {batch:.0} µs each in one request, {inner:.0} µs each in one script");
            inner / batch
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "  an inner call costs {:.2} of an outer one without a request of its own (at most 1.5)",
        ratios[ROUNDS / 2]
    );
}

/// CPU time of the daemon for each call of a batch, in microseconds.
fn cpu_of(daemon: &Daemon, act: impl Fn()) -> f64 {
    let began = cpu_seconds(daemon.pid());
    for _ in 0..BATCHES {
        act();
    }
    (cpu_seconds(daemon.pid()) - began) * 1e6 / (BATCHES * CALLS) as f64
}

const TEXT: &str = "The quick brown fox jumps over the lazy dog, twice or so.";

fn echo(number: u64) -> Value {
    json!({"text": TEXT, "number": number})
}
