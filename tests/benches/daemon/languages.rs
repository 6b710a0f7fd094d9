//! The cost of plugins of other languages: load, first call, and CPU time of a call.

use serde_json::json;
use toolgate_tests::process::resident_bytes;
use toolgate_tests::{Client, Daemon};

use super::fronts::cpu_seconds;
use super::{PROGRAM, measure, ms};

const CALLS: usize = 500;
const SETTINGS: &str = "[calls]\nrounds_per_turn = 1000000\nrounds_per_session = 1000000\n";

/// Measures each component among the arguments. The namespace of each is the name of its file.
pub fn languages() {
    let files: Vec<String> = std::env::args().filter(|argument| argument.ends_with(".wasm")).collect();
    for file in files {
        let daemon = Daemon::start(PROGRAM, SETTINGS);
        let operator = daemon.operator();
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".wasm").to_owned();
        let component = std::fs::read(&file).unwrap();
        let (_, load) = measure(|| operator.load(&name, &component));
        operator.make_agent("acme/bot", &json!({"enabled": [format!("{name}/*")]}));
        let before = resident_bytes(daemon.pid());
        let daemon = daemon.crash_and_restart();
        let operator = daemon.operator();
        let first = call(&operator, &name, 1);
        call(&operator, &name, CALLS);
        let cpu = cpu_seconds(daemon.pid());
        let wall = call(&operator, &name, CALLS);
        let cpu = (cpu_seconds(daemon.pid()) - cpu) * 1e6 / CALLS as f64;
        println!(
            "  {name}: {} KiB of wasm; load {:.0} ms; first call after a start from the cache {first:.1} ms; then {:.2} ms of \
             wall and {cpu:.0} µs of CPU for a call with its request; the daemon's memory {} MiB",
            component.len() / 1024,
            ms(load),
            wall / CALLS as f64,
            before / 1024 / 1024
        );
    }
}

/// The milliseconds of `count` calls, each with a request of its own.
fn call(operator: &Client, name: &str, count: usize) -> f64 {
    let session = operator.open_session("acme/bot");
    let greet = || {
        let reply = session.call(&format!("{name}/greet"), json!({"name": "Ada"}));
        assert_eq!(reply.status(), "ok", "{reply:?}");
    };
    ms(measure(|| (0..count).for_each(|_| greet())).1)
}
