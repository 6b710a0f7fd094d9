//! A script and the calls that it saves: bytes through the model, and CPU time of an inner call beside an outer one.

use serde_json::{Value, json};
use toolgate_tests::fixture::Session;
use toolgate_tests::{Daemon, guests};

use super::fronts::cpu_seconds;
use super::{PROGRAM, guest};

/// Calls of the task, each of which needs the result of the one before.
const STEPS: usize = 20;
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
    operator.make("/v1/plugins/code/grant", &json!({"calls": true})).expect(201);
    operator.make_agent("acme/bot", &json!({"enabled": ["echo/*", "scripted/*", "code/*"]}));
    compare_bytes(&operator.open_session("acme/bot"));

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

/// A task of dependent calls: as turns, whose calls and results all pass the model, and as one script.
fn compare_bytes(session: &Session) {
    let mut turns = 0;
    let mut number = 0;
    for step in 0..STEPS {
        let arguments = echo(number);
        let reply = session.call_as(&format!("turn{step}"), "echo/echo", arguments.clone());
        turns += arguments.to_string().len() + reply.0["text"].as_str().map_or(0, str::len);
        number = reply.output()["number"].as_u64().unwrap_or_default() + 1;
    }
    let script = format!(
        "let number = 0; for (let step = 0; step < {STEPS}; step++) {{ \
         const result = await tools.echo.echo({{text: {:?}, number}}); number = result.number + 1; }} return number;",
        TEXT
    );
    let reply = session.call("code/run", json!({"script": script}));
    let once = script.len() + reply.0["text"].as_str().map_or(0, str::len);
    assert!(reply.output().to_string().contains(&number.to_string()), "{}", reply.0);
    println!("  {STEPS} dependent calls: {turns} bytes through the model as turns, {once} as one script");
}

const TEXT: &str = "The quick brown fox jumps over the lazy dog, twice or so.";

fn echo(number: u64) -> Value {
    json!({"text": TEXT, "number": number})
}
