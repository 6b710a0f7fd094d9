//! Latency of small calls beside guests that take all they can: processors, bulk memory, fresh pages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_tests::{Client, Daemon, Session, guests};

use super::{PROGRAM, guest, measure, ms, percentile};

/// Duration of the measurement for each number of endless guests.
const MEASUREMENT: Duration = Duration::from_secs(8);

/// High fuel limit, so that only the deadline ends an endless guest.
const SETTINGS: &str = "[limits]\nfuel = 1_000_000_000_000\n";

/// A call that makes noise, again and again.
struct Noise {
    tool: &'static str,
    arguments: Value,
    /// How the call ends: a status or an error code.
    end: &'static str,
}

/// Guests that compute until their deadline, on every core and more.
pub fn endless() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let spin = Noise { tool: "hostile/spin", arguments: json!({}), end: "DEADLINE_EXCEEDED" };
    measure_beside(&spin, &[0, cores, 2 * cores, 4 * cores, 32 * cores]);
}

/// Guests that fill, copy, touch and grow as much memory as they may. Their instances are reset after each call.
pub fn memory() {
    for (tool, arguments) in [
        ("hostile/fill_and_copy", json!({"mebibytes": 30})),
        ("hostile/hide", json!({"seed": 7, "mebibytes": 60})),
        ("hostile/grow", json!({})),
    ] {
        println!("{tool}");
        measure_beside(&Noise { tool, arguments, end: "ok" }, &[0, 2, 8, 32]);
    }
}

/// Calls that cost the daemon more than their guests: long results, and long arguments that are refused.
pub fn host() {
    let unknown: serde_json::Map<_, _> = (0..4_000).map(|at| (format!("unknown{at}"), json!(at))).collect();
    for (tool, arguments, end) in [
        ("echo/long_text", json!({"bytes": 1_000_000}), "ok"),
        ("echo/echo", Value::Object(unknown), "INVALID_ARGUMENTS"),
    ] {
        println!("{tool}, {end}");
        measure_beside(&Noise { tool, arguments, end }, &[0, 8]);
    }
}

fn measure_beside(noise: &Noise, counts: &[usize]) {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.load("echo", guest("echo"));
    operator.make_agent("quiet/bot", &json!({"enabled": ["echo/*"]}));
    operator.make_agent(
        "noisy/bot",
        &json!({"enabled": ["*"], "limits": {"deadline_ms": 1_000, "output_bytes": 1_048_576}}),
    );
    let quiet = operator.open_session("quiet/bot");
    // Waits until the built-in plugins are compiled, which would be noise of another kind.
    operator.open_session("noisy/bot");
    println!("small call p50 / p99, /healthz p50 / p99, each on a new connection");
    for &guests in counts {
        let stop = AtomicBool::new(false);
        let ((mut calls, mut health), made) = std::thread::scope(|threads| {
            let noisy: Vec<_> = (0..guests)
                .map(|_| threads.spawn(|| make(noise, &operator.open_session("noisy/bot"), &stop)))
                .collect();
            let latencies = measure_latencies(&quiet, &daemon.anonymous());
            stop.store(true, Ordering::Relaxed);
            (latencies, noisy.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>())
        });
        println!(
            "{guests:>3} beside it: {:6.2} / {:6.2} ms, {:6.2} / {:6.2} ms ({} calls; {made} noisy ones)",
            ms(percentile(&mut calls, 50)),
            ms(percentile(&mut calls, 99)),
            ms(percentile(&mut health, 50)),
            ms(percentile(&mut health, 99)),
            calls.len(),
        );
    }
}

fn make(noise: &Noise, session: &Session, stop: &AtomicBool) -> u64 {
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        let reply = session.call(noise.tool, noise.arguments.clone());
        // Beside many others a call may meet its deadline.
        let end = reply.error_type().unwrap_or(reply.status()).to_owned();
        assert!(end == noise.end || end == "DEADLINE_EXCEEDED", "{reply:?}");
        made += 1;
    }
    made
}

fn measure_latencies(quiet: &Session, anonymous: &Client) -> (Vec<Duration>, Vec<Duration>) {
    let (mut calls, mut health) = (Vec::new(), Vec::new());
    let until = Instant::now() + MEASUREMENT;
    while Instant::now() < until {
        let (reply, took) = measure(|| quiet.call("echo/echo", json!({"text": "hello", "number": 1})));
        assert_eq!(reply.status(), "ok", "{reply:?}");
        calls.push(took);
        let (reply, took) = measure(|| anonymous.get("/healthz"));
        assert_eq!(reply.status, 200);
        health.push(took);
    }
    (calls, health)
}
