//! The daemon as a process, compared with floors in the same run. Compare ratios.
//!
//! `cargo bench --profile dist --workspace --bench daemon [-- PART…]`, where a part is one of
//!
//! - `start`: a start with compiled plugins, and the idle memory
//! - `plugins`: memory of many plugins, and the first call after a load
//! - `search`: `files/search` over 10,000 files, beside ripgrep with one thread (`rg`, or `RG=…`)
//! - `json`: `text/json_query` on a mebibyte, beside jaq without a sandbox
//! - `endless`: a small call and `/healthz` beside endless guests, on every core and more
//! - `memory`: the same beside guests that fill, copy, touch and grow memory
//! - `host`: the same beside calls that cost the daemon more than their guests (1 MB results, 64 KB of refused arguments)
//! - `fronts`: CPU time of a call over HTTP, TLS, HTTP/2 and MCP, beside `rmcp` alone
//! - `languages FILE…`: the cost of plugins of other languages, each with the tool `greet`, as `toolgate new` makes it
//! - `lists`: lists of a thousand tools in each provider's form
//! - `catalogue`: search in a catalogue of ten thousand tools
//! - `console`: pages with ten thousand tools and a million audit records (or `records=N`), and calls beside 10 and 1,000 open pages
//! - `scripts`: a call that a script makes, beside one of a request
//! - `waiting`: memory of a call that waits for a slow upstream, for a thousand of them, and a small call beside them

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot run says so by ending")]

mod catalogue;
mod console;
mod endless;
mod fronts;
mod json;
mod languages;
mod lists;
mod plugins;
mod scripts;
mod search;
mod waiting;

use std::time::{Duration, Instant};
use toolgate_tests::guests::Embedded;

/// Arguments of a small call.
const ARGUMENTS: &str =
    r#"{"text":"The quick brown fox jumps over the lazy dog, twice or so.","number":1234}"#;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

include!(concat!(env!("OUT_DIR"), "/bench_guests.rs"));

fn main() {
    if std::env::args().any(|argument| argument == fronts::SERVE_RMCP) {
        return fronts::serve_rmcp();
    }
    let parts: [(&str, fn()); 14] = [
        ("start", plugins::start),
        ("plugins", plugins::many),
        ("search", search::search),
        ("json", json::query),
        ("endless", endless::endless),
        ("memory", endless::memory),
        ("host", endless::host),
        ("fronts", fronts::fronts),
        ("languages", languages::languages),
        ("lists", lists::lists),
        ("catalogue", catalogue::catalogue),
        ("console", console::console),
        ("scripts", scripts::scripts),
        ("waiting", waiting::waiting),
    ];
    let is_part = |argument: &String| !argument.starts_with('-') && !argument.contains('=');
    let wanted: Vec<String> = std::env::args().skip(1).filter(is_part).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            part();
        }
    }
}

/// Value of an argument `name=value`.
fn argument(name: &str) -> Option<String> {
    std::env::args().find_map(|argument| Some(argument.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Component of a benchmark guest.
fn guest(name: &str) -> &'static [u8] {
    BENCH_GUESTS.iter().find(|guest| guest.name == name).unwrap().component
}

/// Runs `act` and measures it.
fn measure<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let done = act();
    (done, began.elapsed())
}

/// Median of several rounds.
fn median_of<T>(rounds: usize, mut act: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..rounds).map(|_| measure(&mut act).1).collect();
    percentile(&mut times, 50)
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
