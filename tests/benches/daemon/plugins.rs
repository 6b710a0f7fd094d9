//! Start, and many plugins.

use std::time::Duration;

use serde_json::json;
use toolgate_tests::process::resident_bytes;
use toolgate_tests::{Daemon, PluginFile};

use super::{PROGRAM, argument, guest, measure, ms, percentile};

/// Number of plugins of a large organization.
const PLUGINS: usize = 1_000;

/// Consecutive versions of one plugin.
const VERSIONS: u8 = 50;

/// Starts on a folder with compiled built-in plugins.
pub fn start() {
    let daemon = Daemon::start(PROGRAM, "");
    let mut times = Vec::new();
    let mut running = daemon;
    for _ in 0..5 {
        let (again, took) = measure(|| running.crash_and_restart());
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

/// Loads new versions of a plugin, each with a first call; then many small plugins, to measure the memory of each.
pub fn many() {
    let count = argument("plugins").and_then(|count| count.parse().ok()).unwrap_or(PLUGINS);
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": "*"}));
    let session = operator.open_session("acme/bot");
    let (mut loads, mut firsts, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for version in 0..VERSIONS {
        let file = with_custom_section(guest("echo"), version);
        loads.push(measure(|| operator.load("echo", &file)).1);
        for times in [&mut firsts, &mut seconds] {
            let (reply, took) = measure(|| session.call("echo/echo", json!({"text": "hello", "number": 1})));
            assert_eq!(reply.status(), "ok", "{reply:?}");
            times.push(took);
        }
    }
    println!("{VERSIONS} versions of a plugin of {} KiB of wasm:", guest("echo").len() / 1024);
    row("load, compiled in the worker", &mut loads);
    row("first call after it", &mut firsts);
    row("second call", &mut seconds);
    let before = resident_bytes(daemon.pid());
    for number in 0..count {
        let name = format!("p{number}");
        operator.load(&name, &PluginFile::new(&name).build());
        assert_eq!(session.call(&format!("{name}/answer"), json!({})).status(), "ok");
    }
    let after = resident_bytes(daemon.pid());
    println!(
        "{count} plugins of the least that the contract allows, each called once: {:.0} KiB resident for each ({:.0} MiB \
         before, {:.0} MiB with all)",
        after.saturating_sub(before) as f64 / 1024.0 / count as f64,
        mib(before),
        mib(after)
    );
    let (again, took) = measure(|| daemon.crash_and_restart());
    println!("start with them: {:.0} ms; resident {:.0} MiB", ms(took), mib(resident_bytes(again.pid())));
}

fn row(what: &str, times: &mut [Duration]) {
    println!("  {what}: median {:.1} ms, p99 {:.1} ms", ms(percentile(times, 50)), ms(percentile(times, 99)));
}

/// The same component with a custom section, which gives it another digest.
fn with_custom_section(component: &[u8], version: u8) -> Vec<u8> {
    [component, &[0, 3, 1, b'v', version]].concat()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
