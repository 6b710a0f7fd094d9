//! A thousand calls that wait for a slow upstream, and a small call beside them.

use std::time::{Duration, Instant};

use serde_json::json;
use toolgate_tests::client::Pending;
use toolgate_tests::process::resident_bytes;
use toolgate_tests::upstream::{Piece, Upstream};
use toolgate_tests::{Client, Daemon, Session, guests};

use super::{PROGRAM, argument, ms, percentile, timed};

/// Calls that wait at once.
const WAITING: usize = 1_000;
/// Sessions that they are made in.
const SESSIONS: usize = 20;
/// How long the small call is looked at, with and without the others.
const LOOKED_AT: Duration = Duration::from_secs(8);
/// Rounds: what the first one touches, later ones find.
const ROUNDS: usize = 3;

/// Room for all of them, for longer than a round takes.
const SETTINGS: &str = "[sandbox]\ninstances = 1_100\n[http]\nconnections = 4_096\n[limits]\ndeadline_ms = 120_000\n[egress]\nconnections = 2_000\nconnections_per_organization = 2_000\n";

const URL: &str = "https://api.upstream.test:8443/v1/slow";

pub fn waiting() {
    let count = argument("waiting").and_then(|count| count.parse().ok()).unwrap_or(WAITING);
    let upstream = Upstream::start();
    upstream.dns.set_answers("api.upstream.test", &[&[&upstream.address.to_string()]]);
    let settings = format!("{SETTINGS}name_servers = [\"{}\"]\n", upstream.dns.address);
    let daemon = Daemon::start(PROGRAM, &settings);
    let operator = daemon.operator();
    prepare(&operator, &upstream);
    // A session remembers so many calls and no more.
    let quiet = || operator.open_session("quiet/bot");
    let slow: Vec<Session> = (0..SESSIONS).map(|_| operator.open_session("slow/bot")).collect();
    // Both plugins are loaded, and one connection is made and closed.
    upstream.answer(|_| {
        vec![Piece::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec())]
    });
    let reply = slow[0].call("caller/fetch", arguments());
    assert_eq!(reply.status(), "ok", "{reply:?}");
    look(&quiet(), LOOKED_AT / 8);
    upstream.answer(|_| vec![Piece::Hang]);
    println!("a small call on a new connection each time; p50 / p99");
    for round in 1..=ROUNDS {
        let alone = Looked::at(&quiet());
        let before = resident_bytes(daemon.pid());
        let pending = hold(&upstream, &slow, count, round);
        let held = resident_bytes(daemon.pid());
        let beside = Looked::at(&quiet());
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

/// A plugin that may reach the upstream with a credential, and an agent that has it; and one for the small call.
fn prepare(operator: &Client, upstream: &Upstream) {
    operator.load("caller", guests::CALLER);
    let grant = json!({
        "network": [{"host": "api.upstream.test", "port": 8443}],
        "private_networks": [format!("{}/32", upstream.address)],
        "extra_ca": [upstream.authority],
        "credentials": ["stripe"],
    });
    operator.make("/v1/plugins/caller/grant", &grant).expect(201);
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

/// Starts calls, and comes back once the requests of all of them have arrived at the upstream.
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

/// Hangs up, and waits until nothing is left of the calls.
fn release(upstream: &Upstream, pending: Vec<Pending>) {
    let (closed, count) = (upstream.closed_connections(), pending.len());
    drop(pending);
    upstream.wait_until("the end of every connection", |_, ended| ended >= closed + count);
}

/// What a small call takes.
struct Looked {
    p50: Duration,
    p99: Duration,
    calls: usize,
}

impl Looked {
    fn at(quiet: &Session) -> Self {
        let mut times = look(quiet, LOOKED_AT);
        Self { p50: percentile(&mut times, 50), p99: percentile(&mut times, 99), calls: times.len() }
    }
}

impl std::fmt::Display for Looked {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} / {:.2} ms ({} calls)", ms(self.p50), ms(self.p99), self.calls)
    }
}

fn look(quiet: &Session, how_long: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    let until = Instant::now() + how_long;
    while Instant::now() < until {
        let (reply, took) = timed(|| quiet.call("arithmetic/evaluate", json!({"expression": "2 * (3 + 4)"})));
        assert_eq!(reply.status(), "ok", "{reply:?}");
        times.push(took);
    }
    times
}
