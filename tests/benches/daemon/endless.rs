//! Latency of small calls beside endless guests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_tests::{Client, Daemon, Session, guests};

use super::{PROGRAM, guest, measure, ms, percentile};

/// Duration of the measurement for each number of endless guests.
const MEASUREMENT: Duration = Duration::from_secs(8);

/// High fuel limit, so that only the deadline ends an endless guest.
const SETTINGS: &str = "[limits]\nfuel = 1_000_000_000_000\n";

pub fn endless() {
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("hostile", guests::HOSTILE);
    operator.load("echo", guest("echo"));
    operator.make_agent("quiet/bot", &json!({"enabled": ["echo/*"]}));
    operator.make_agent("noisy/bot", &json!({"enabled": ["hostile/*"], "limits": {"deadline_ms": 1_000}}));
    let quiet = operator.open_session("quiet/bot");
    let cores = std::thread::available_parallelism().unwrap().get();
    println!("{cores} cores; small call p50 / p99, /healthz p50 / p99, each on a new connection");
    for guests in [0, cores, 2 * cores, 4 * cores, 32 * cores] {
        let stop = Arc::new(AtomicBool::new(false));
        let noisy: Vec<_> = (0..guests)
            .map(|_| {
                let (session, stop) = (operator.open_session("noisy/bot"), Arc::clone(&stop));
                std::thread::spawn(move || spin(&session, &stop))
            })
            .collect();
        let (mut calls, mut health) = measure_latencies(&quiet, &daemon.anonymous());
        stop.store(true, Ordering::Relaxed);
        let spun: u64 = noisy.into_iter().map(|thread| thread.join().unwrap()).sum();
        println!(
            "{guests:>3} endless guests: {:6.2} / {:6.2} ms, {:6.2} / {:6.2} ms ({} calls; {spun} endless ones ended at their deadline)",
            ms(percentile(&mut calls, 50)),
            ms(percentile(&mut calls, 99)),
            ms(percentile(&mut health, 50)),
            ms(percentile(&mut health, 99)),
            calls.len(),
        );
    }
}

fn spin(session: &Session, stop: &AtomicBool) -> u64 {
    let mut ended = 0;
    while !stop.load(Ordering::Relaxed) {
        let _ = session.call("hostile/spin", json!({})).expect_error("DEADLINE_EXCEEDED");
        ended += 1;
    }
    ended
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
