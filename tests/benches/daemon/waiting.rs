//! A thousand calls that wait for a slow upstream, and a small call beside them.

use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_tests::client::Pending;
use toolgate_tests::process::resident_bytes;
use toolgate_tests::upstream::{Piece, Upstream};
use toolgate_tests::{Client, Daemon, Session, guests};

use super::{PROGRAM, argument, measure, ms, percentile};

/// Concurrent waiting calls.
const WAITING: usize = 1_000;
/// Sessions of the waiting calls.
const SESSIONS: usize = 20;
/// Duration of the measurement of the small call, with and without the others.
const MEASUREMENT: Duration = Duration::from_secs(8);
/// Later rounds reuse memory that the first one touched.
const ROUNDS: usize = 3;

/// Limits and deadlines for all calls of a round.
const SETTINGS: &str = "[sandbox]\ninstances = 1_100\n[http]\nconnections = 4_096\n[limits]\ndeadline_ms = 120_000\n[egress]\nconnections = 2_000\nconnections_per_organization = 2_000\n";

const URL: &str = "https://api.upstream.test:8443/v1/slow";

pub fn waiting() {
    let count = argument("waiting").and_then(|count| count.parse().ok()).unwrap_or(WAITING);
    let upstream = Upstream::start();
    upstream.resolve_api();
    let settings = format!("{SETTINGS}name_servers = [\"{}\"]\n", upstream.dns.address);
    let daemon = Daemon::start(PROGRAM, &settings);
    let operator = daemon.operator();
    prepare(&operator, &upstream);
    // A new session each time, since a session remembers a limited number of calls.
    let quiet = || operator.open_session("quiet/bot");
    let slow: Vec<Session> = (0..SESSIONS).map(|_| operator.open_session("slow/bot")).collect();
    // Warm-up: loads both plugins, and opens and closes one connection.
    upstream.answer(|_| {
        vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec())]
    });
    let reply = slow[0].call("caller/fetch", arguments());
    assert_eq!(reply.status(), "ok", "{reply:?}");
    measure_latencies(&quiet(), MEASUREMENT / 8);
    upstream.answer(|_| vec![Piece::Hang]);
    println!("a small call on a new connection each time; p50 / p99");
    for round in 1..=ROUNDS {
        let alone = Latencies::at(&quiet());
        let before = resident_bytes(daemon.pid());
        let pending = hold(&upstream, &slow, count, round);
        let held = resident_bytes(daemon.pid());
        let beside = Latencies::at(&quiet());
        println!(
            "round {round}: alone {alone}, beside {count} that wait {beside}; {:.0} KiB resident for each ({:.0} MiB before, \
             {:.0} MiB with all)",
            held.saturating_sub(before) as f64 / 1024.0 / count as f64,
            before as f64 / 1024.0 / 1024.0,
            held as f64 / 1024.0 / 1024.0,
        );
        release(&upstream, pending);
    }
}

/// Creates a plugin that may reach the upstream with a credential, an agent for it, and an agent for the small call.
fn prepare(operator: &Client, upstream: &Upstream) {
    operator.load("caller", guests::CALLER);
    let grant = json!({"network": [{"host": "api.upstream.test", "port": 8443}], "credentials": ["stripe"]});
    operator.make("/v1/plugins/caller/grant", &upstream.grant(grant)).expect(201);
    operator.make_agent("quiet/bot", &json!({"enabled": ["arithmetic/*"]}));
    operator.make_agent("slow/bot", &json!({"enabled": ["caller/*"]}));
    let credential = json!({
        "provider": "stripe", "kind": "bearer", "secret": "sk_live_51Hq8x2KpLmN4vRtYw7Zc3Bd",
        "bound_to": [{"host": "api.upstream.test", "port": 8443, "path": "/v1/"}],
    });
    operator.make("/v1/orgs/slow/credentials/stripe", &credential).expect(201);
}

fn arguments() -> serde_json::Value {
    json!({"method": "GET", "url": URL, "headers": []})
}

/// Starts calls, and waits until all their requests have arrived at the upstream.
fn hold(upstream: &Upstream, sessions: &[Session], count: usize, round: usize) -> Vec<Pending> {
    let before = upstream.requests().len();
    let start = |number: usize| {
        let session = &sessions[number % sessions.len()];
        session.start(&format!("slow-{round}-{number}"), "caller/fetch", arguments())
    };
    let pending = (0..count).map(start).collect();
    upstream.wait_until("a request of every call", |seen, _| seen >= before + count);
    pending
}

/// Disconnects, and waits until all calls have ended.
fn release(upstream: &Upstream, pending: Vec<Pending>) {
    let (closed, count) = (upstream.closed_connections(), pending.len());
    drop(pending);
    upstream.wait_until("the end of every connection", |_, ended| ended >= closed + count);
}

/// Latencies of the small call.
struct Latencies {
    p50: Duration,
    p99: Duration,
    calls: usize,
}

impl Latencies {
    fn at(quiet: &Session) -> Self {
        let mut times = measure_latencies(quiet, MEASUREMENT);
        Self { p50: percentile(&mut times, 50), p99: percentile(&mut times, 99), calls: times.len() }
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} / {:.2} ms ({} calls)", ms(self.p50), ms(self.p99), self.calls)
    }
}

fn measure_latencies(quiet: &Session, how_long: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    let until = Instant::now() + how_long;
    while Instant::now() < until {
        let (reply, took) =
            measure(|| quiet.call("arithmetic/evaluate", json!({"expression": "2 * (3 + 4)"})));
        assert_eq!(reply.status(), "ok", "{reply:?}");
        times.push(took);
    }
    times
}
