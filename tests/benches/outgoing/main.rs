//! Outgoing HTTP beside common clients, with one server on the same cores.
//!
//! (a) bare connections of hyper, (b) the pooling client of hyper-util, (c) the sandbox's `wasi:http` client (rules, SSRF
//! checks, audit, accounting), without and with a credential that is injected and masked in responses, (d) the same from a
//! plugin in a real daemon. Then the cost of scanning large responses for secrets.
//!
//! `cargo bench --profile dist --workspace --bench outgoing [-- connections=16]`, with `-- profile=c` (or `b`, or `free` for (c)
//! without a credential) for half a minute of one of them, for `perf`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot run says so by ending")]

mod egress;
mod plain;
mod plugin;
mod server;

use std::time::{Duration, Instant};

use server::Server;
use tokio::runtime::Runtime;
use toolgate_tests::guests::Embedded;

/// Concurrent connections.
const CONNECTIONS: usize = 16;
/// Requests per connection and round.
const REQUESTS: usize = 3_000;
const ROUNDS: usize = 5;
/// Response sizes, in bytes: a single item and a page of items.
const ANSWERS: [usize; 2] = [1 << 10, 16 << 10];

const SECRET: &str = "sk_live_51Hq8x2KpLmN4vRtYw7Zc3Bd";

include!(concat!(env!("OUT_DIR"), "/bench_guests.rs"));

/// Sends `of_each` consecutive requests on each of `connections` concurrent connections.
trait Requester {
    fn request(&self, connections: usize, of_each: usize, path: &str);
}

fn main() {
    let asked = std::env::args().find_map(|argument| argument.strip_prefix("connections=")?.parse().ok());
    let connections = asked.unwrap_or(CONNECTIONS);
    let server = Server::start();
    let plain = plain::Plain::new(&server);
    let pooled_client = plain::pooled_client(&server);
    let egress = egress::Calls::new(&server);
    if let Some(way) =
        std::env::args().find_map(|argument| argument.strip_prefix("profile=").map(str::to_owned))
    {
        let (way, place): (&dyn Requester, _) = match &*way {
            "b" => (&pooled_client, server::BOUND),
            "free" => (&egress, server::FREE),
            _ => (&egress, server::BOUND),
        };
        return (0..40).for_each(|_| way.request(connections, REQUESTS, &format!("{place}/1024")));
    }
    let plugin = plugin::Plugin::new(&server, connections);
    let ways: [(&str, &dyn Requester, &str); 6] = [
        ("(a) hyper, bare connections", &plain, server::BOUND),
        ("(b) hyper-util's client", &pooled_client, server::BOUND),
        ("(c) our egress, no credential", &egress, server::FREE),
        ("    with a credential, scanned", &egress, server::BOUND),
        ("(d) a plugin in a daemon, no credential", &plugin, server::FREE),
        ("    with a credential, scanned", &plugin, server::BOUND),
    ];
    for bytes in ANSWERS {
        println!("{connections} connections, answers of {bytes} bytes");
        println!("{:42} {:>10} {:>8} {:>8}", "", "requests/s", "to (a)", "to (b)");
        let times =
            medians(&ways.map(|(_, way, place)| {
                move || way.request(connections, REQUESTS, &format!("{place}/{bytes}"))
            }));
        for ((what, ..), took) in ways.iter().zip(&times) {
            println!(
                "{what:42} {:>10.0} {:>8.2} {:>8.2}",
                (connections * REQUESTS) as f64 / took.as_secs_f64(),
                took.as_secs_f64() / times[0].as_secs_f64(),
                took.as_secs_f64() / times[1].as_secs_f64(),
            );
        }
    }
    scanning(&egress);
}

/// Measures the cost of scanning large responses for secrets.
fn scanning(egress: &dyn Requester) {
    const ANSWERS: usize = 20;
    let bytes = server::MAX_BYTES;
    let of = |place: &'static str| move || egress.request(1, ANSWERS, &format!("{place}/{bytes}"));
    let [free, scanned] = medians(&[of(server::FREE), of(server::BOUND)]).map(|took| took.as_secs_f64());
    let mib = (ANSWERS * bytes) as f64 / f64::from(1 << 20);
    println!(
        "answers of {} MiB, one after another: {:.0} MiB/s as they are, {:.0} MiB/s scanned, so that scanning passes {:.0} MiB/s",
        bytes >> 20,
        mib / free,
        mib / scanned,
        mib / (scanned - free),
    );
}

/// Medians of several rounds, with the candidates alternating so that they share the machine's load. The first round
/// opens the connections and is not counted.
fn medians<const N: usize>(acts: &[impl Fn(); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for round in 0..=ROUNDS {
        for (act, times) in acts.iter().zip(&mut times) {
            let began = Instant::now();
            act();
            if round > 0 {
                times.push(began.elapsed());
            }
        }
    }
    times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2]
    })
}

/// Runtime with the daemon's settings.
fn runtime() -> Runtime {
    toolgate::serve::runtime().unwrap()
}
