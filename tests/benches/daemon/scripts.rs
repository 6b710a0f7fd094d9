//! CPU time of a call that a script makes, beside calls of requests, and what a model reads and writes for either.
//!
//! A script makes its calls one after another, so each waits for its own record. The calls of one request share syncs, and a call
//! that has a request of its own pays for HTTP too, which `/healthz` shows.

use serde_json::{Value, json};
use toolgate_tests::{Daemon, Session, guests};

use super::fronts::cpu_seconds;
use super::{PROGRAM, guest};

/// Calls of a measured batch: the most of a request.
const CALLS: usize = 32;
/// Batches of a round, so that a round takes many ticks of the process clock.
const BATCHES: usize = 100;
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

    let script = json!({"calls": vec![json!(["echo/echo", echo(1)]); CALLS]});
    let outer = vec![json!({"tool": "echo/echo", "arguments": echo(1)}); CALLS];
    let mut ratios: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let session = operator.open_session("acme/bot");
            let batch = cpu_of(&daemon, || drop(session.calls(&outer)));
            let each = |act: &dyn Fn()| cpu_of(&daemon, || (0..CALLS).for_each(|_| act()));
            let alone = each(&|| drop(session.calls(&outer[..1])));
            let http = each(&|| drop(operator.get("/healthz").expect(200)));
            let inner =
                cpu_of(&daemon, || drop(session.call("scripted/run", script.clone()).output().clone()));
            println!(
                "  {CALLS} calls: {inner:.0} µs each in one script, {batch:.0} µs in one request, {alone:.0} µs in requests of \
                 their own, of which HTTP is {http:.0} µs"
            );
            inner / (alone - http)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("  an inner call costs {:.2} of an outer one without HTTP (at most 1.5)", ratios[ROUNDS / 2]);
    let session = operator.open_session("acme/bot");
    dependent_calls(&session);
    empty_script(&daemon, &session);
}

/// Calls of a task in which each needs the result of the one before.
const STEPS: usize = 20;

/// Bytes through the model for a task of [`STEPS`] dependent calls: as turns, each of which reads everything before, and as one
/// script.
fn dependent_calls(session: &Session) {
    let (mut history, mut read, mut number) = (0, 0, 1);
    for _ in 0..STEPS {
        let call = json!({"tool": "echo/echo", "arguments": echo(number)});
        let output = session.call("echo/echo", echo(number)).output().clone();
        number = output["number"].as_u64().unwrap_or_default() + 1;
        read += history;
        history += call.to_string().len() + output.to_string().len();
    }
    let script = format!(
        "let number = 1;\nfor (let step = 0; step < {STEPS}; step++)\n  \
         number = (await tools.echo.echo({{text: \"{TEXT}\", number}})).number + 1;\nreturn number;"
    );
    let output = session.call("code/run", json!({"script": script})).output().clone();
    assert_eq!(output["value"], number, "both do the same");
    let call = json!({"tool": "code/run", "arguments": {"script": script}});
    let script = call.to_string().len() + output.to_string().len();
    println!(
        "  {STEPS} dependent calls: {history} bytes of calls and results as {STEPS} turns, which read {read} bytes again; \
         {script} bytes as one script"
    );
}

fn empty_script(daemon: &Daemon, session: &Session) {
    let run = || drop(session.call("code/run", json!({"script": "return 1"})).output().clone());
    let micros = cpu_of(daemon, || (0..CALLS).for_each(|_| run()));
    println!("  a script that calls nothing: {micros:.0} µs");
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
