//! The console: pages of a large installation, and calls beside open live pages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use toolgate_tests::{Client, Daemon};

use super::fronts::{Protocol, Way, median};
use super::{PROGRAM, argument, catalogue, guest, measure, median_of, ms};

/// Records of the audit log; a call has two.
const RECORDS: usize = 1_000_000;
/// Longest time of a page.
const MOST_MS: f64 = 50.0;
/// Calls of one request, and requests of one session.
const BATCH: usize = 250;
const REQUESTS: usize = 20;
const THREADS: usize = 4;
const ROUNDS: usize = 5;
/// Streams of one session of the console, and sessions of one token.
const STREAMS: usize = 16;
const SESSIONS: usize = 8;
const SETTINGS: &str = "[calls]\nper_request = 256\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\n\
                        [queue]\nwaiting_per_organization = 4096\n[http]\nconnections = 4096\n";

pub fn console() {
    pages();
    open_pages();
}

/// The time of each page, from its request until its last byte.
fn pages() {
    let records = argument("records").and_then(|text| text.parse().ok()).unwrap_or(RECORDS);
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    for number in 0..catalogue::PLUGINS {
        let name = format!("p{number}");
        operator.load(&name, &catalogue::plugin(&name, number));
    }
    operator.load("echo", guest("echo"));
    operator.make_agent("acme/bot", &json!({"enabled": ["*"]}));
    let (_, took) = measure(|| make_calls(&operator, records / 2));
    println!("{records} audit records in {:.0} s", took.as_secs_f64());
    let cookie = sign_in(&operator);
    // The search waits for the index.
    let newest = operator.audit("kind=call&limit=1").remove(0)["call"].clone();
    let call = format!(
        "/console/calls/{}/{}",
        newest["session"].as_str().unwrap(),
        newest["call"].as_str().unwrap()
    );
    let get = |path: &str| operator.send("GET", path, &[("Cookie", &cookie)], b"").expect(200).body.len();
    let floor = median_of(51, || operator.get("/healthz").expect(200));
    println!("  {:44} {:7.2} ms", "an answer without work", ms(floor));
    for path in [
        "/console",
        "/console?range=day",
        "/console?range=month&organization=acme",
        "/console/calls",
        "/console/calls?status=error",
        "/console/calls?organization=acme&tool=echo/echo",
        &call,
        "/console/audit",
        "/console/approvals",
        "/console/catalogue",
        "/console/explain/acme/bot",
        "/console/plugins",
        "/console/organizations/acme",
        "/console/tokens",
    ] {
        let (bytes, first) = measure(|| get(path));
        let took = median_of(31, || get(path));
        let verdict = if ms(took.max(first)) < MOST_MS { "" } else { "  TOO SLOW" };
        println!(
            "  {path:44} {:7.2} ms, the first {:7.2} ms, {} KiB{verdict}",
            ms(took),
            ms(first),
            bytes / 1024
        );
    }
}

/// Makes calls on several threads.
fn make_calls(client: &Client, count: usize) {
    let calls: Vec<_> = (0..BATCH)
        .map(|number| json!({"tool": "echo/echo", "arguments": {"text": "A customer.", "number": number}}))
        .collect();
    let requests = count.div_ceil(BATCH * THREADS);
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                let mut session = client.open_session("acme/bot");
                for number in 0..requests {
                    if number % REQUESTS == REQUESTS - 1 {
                        session = client.open_session("acme/bot");
                    }
                    session.post(&json!({"calls": calls})).expect(200);
                }
            });
        }
    });
}

/// Signs in with the client's token, and returns the cookie.
fn sign_in(client: &Client) -> String {
    let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Sec-Fetch-Site", "same-origin")];
    let form = format!("token={}", client.token.as_deref().unwrap());
    let reply = client.send("POST", "/console/sign-in", &headers, form.as_bytes()).expect(303);
    reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// Calls beside no, 10 and 1,000 open pages of one organization, which look at the same list.
fn open_pages() {
    let seconds = argument("seconds").and_then(|text| text.parse().ok()).unwrap_or(3);
    let daemon = Daemon::start(PROGRAM, SETTINGS);
    let operator = daemon.operator();
    operator.load("echo", guest("echo"));
    operator.make_agent("acme/bot", &json!({"enabled": ["echo/*"]}));
    let way = Way {
        name: "HTTP/1.1",
        process: daemon.pid(),
        address: daemon.address,
        token: daemon.operator_token(),
        tls: None,
        protocol: Protocol::Http1,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let counts = [0, 10, 1_000];
    let mut rates = vec![Vec::new(); counts.len()];
    let mut cpu = vec![Vec::new(); counts.len()];
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (at, count) in counts.into_iter().enumerate() {
            let pages = Pages::open(&operator, count);
            let (made, cpu_us) = runtime.block_on(way.measure(Duration::from_secs(seconds)));
            let bytes = pages.close();
            if round > 0 {
                rates[at].push(made as f64 / seconds as f64);
                cpu[at].push(cpu_us);
                println!("  round {round}: {count:5} pages got {:7} KiB", bytes / 1024);
            }
        }
    }
    let rates: Vec<f64> = rates.iter_mut().map(|rounds| median(rounds)).collect();
    let cpu: Vec<f64> = cpu.iter_mut().map(|rounds| median(rounds)).collect();
    println!("calls beside open pages of one organization, median of {ROUNDS} rounds:");
    for (at, (count, most)) in counts.into_iter().zip([1.0, 1.02, f64::MAX]).enumerate() {
        let (rate, cost) = (rates[at] / rates[0], cpu[at] / cpu[0]);
        let is_slow = if count == 1_000 { rate < 0.9 } else { cost > most };
        let verdict = if is_slow { "  TOO MUCH" } else { "" };
        println!(
            "  {count:5} pages: {:8.0} calls/s ({rate:.3}), {:6.1} µs CPU a call ({cost:.3}){verdict}",
            rates[at], cpu[at]
        );
    }
}

/// Open pages that watch the calls of `acme`, read by one thread.
struct Pages {
    is_over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    reader: JoinHandle<()>,
}

impl Pages {
    fn open(operator: &Client, count: usize) -> Self {
        let mut streams = Vec::new();
        let mut owner = None;
        for number in 0..count.div_ceil(STREAMS) {
            if number % SESSIONS == 0 {
                let request = json!({"role": "owner", "organization": "acme"});
                owner = Some(operator.with_new_token(&request));
            }
            let cookie = sign_in(owner.as_ref().unwrap());
            let open = STREAMS.min(count - number * STREAMS);
            streams.extend((0..open).map(|_| open_stream(operator.address, &cookie)));
        }
        let (is_over, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counted) = (Arc::clone(&is_over), Arc::clone(&bytes));
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while !ends.load(Ordering::Relaxed) {
                for stream in &mut streams {
                    // A stream without bytes returns at once.
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        counted.fetch_add(count as u64, Ordering::Relaxed);
                    }
                }
                pause();
            }
        });
        Self { is_over, bytes, reader }
    }

    /// Closes the pages, and returns the bytes that they got.
    fn close(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.reader.join().unwrap();
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A browser reads what has come a few times a second.
#[allow(clippy::disallowed_methods, reason = "the pause between two looks at all streams")]
fn pause() {
    std::thread::sleep(Duration::from_millis(200));
}

fn open_stream(address: SocketAddr, cookie: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head =
        format!("GET /console/calls/live/fragment HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream.set_nonblocking(true).unwrap();
    stream
}
