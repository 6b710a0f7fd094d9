//! Start, and many plugins.

use std::time::Duration;

use serde_json::json;
use toolgate_tests::process::resident_bytes;
use toolgate_tests::{Daemon, Options};

use super::{PROGRAM, argument, guest, ms, percentile, timed};

/// As many as an organization with every tool it can think of. Each is compiled, a tenth of a second.
const PLUGINS: usize = 1_000;

/// Starts on a folder that has run before: what is built in is compiled already.
pub fn start() {
    let daemon = Daemon::start(PROGRAM, "");
    let mut times = Vec::new();
    let mut running = daemon;
    for _ in 0..5 {
        let (again, took) = timed(|| running.crash_and_restart());
        running = again;
        times.push(took);
    }
    println!(
        "start with {} built-in plugins compiled: {:.0} ms (after kill -9, recovery included); resident {:.0} MiB",
        toolgate_tests::guests::BUILT_IN.len(),
        ms(percentile(&mut times, 50)),
        mib(resident_bytes(running.pid())),
    );
}

/// Loads many, each a component of its own, and calls each once.
pub fn many() {
    let count = argument("plugins").and_then(|count| count.parse().ok()).unwrap_or(PLUGINS);
    let daemon = Daemon::start_with(PROGRAM, Options::default());
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": "*"}));
    let session = operator.open_session("acme/bot");
    let arguments = json!({"text": "hello", "number": 1});
    operator.load("echo", guest("echo"));
    session.call("echo/echo", arguments.clone());
    let before = resident_bytes(daemon.pid());
    let (mut loads, mut firsts, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let name = format!("p{number:03x}");
        let file = renamed(guest("echo"), &name);
        loads.push(timed(|| operator.load(&name, &file)).1);
        for times in [&mut firsts, &mut seconds] {
            let (reply, took) = timed(|| session.call(&format!("{name}/{name}"), arguments.clone()));
            assert_eq!(reply.status(), "ok", "{reply:?}");
            times.push(took);
        }
    }
    let after = resident_bytes(daemon.pid());
    let row = |what: &str, times: &mut [Duration]| {
        println!(
            "{what}: median {:.1} ms, p99 {:.1} ms",
            ms(percentile(times, 50)),
            ms(percentile(times, 99))
        );
    };
    println!("{count} plugins of {} KiB of wasm:", guest("echo").len() / 1024);
    row("load, compiled in the worker", &mut loads);
    row("first call after it", &mut firsts);
    row("second call", &mut seconds);
    println!(
        "resident for each: {:.0} KiB ({:.0} MiB before, {:.0} MiB with all)",
        (after.saturating_sub(before)) as f64 / 1024.0 / count as f64,
        mib(before),
        mib(after)
    );
    let (again, took) = timed(|| daemon.crash_and_restart());
    println!("start with them: {:.0} ms; resident {:.0} MiB", ms(took), mib(resident_bytes(again.pid())));
}

/// The same component under another name of the same length, so that nothing but names differs.
fn renamed(component: &[u8], name: &str) -> Vec<u8> {
    let mut renamed = component.to_vec();
    let places: Vec<usize> =
        component.windows(4).enumerate().filter(|(_, window)| *window == b"echo").map(|(at, _)| at).collect();
    for at in places {
        renamed[at..at + 4].copy_from_slice(name.as_bytes());
    }
    renamed
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
