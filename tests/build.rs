//! Compiles the guests of the tests and of the benchmarks, and embeds them: `guests.rs` in the output folder is what
//! `src/guests.rs` includes, `bench_guests.rs` what the benchmarks do.

#[path = "../daemon/build/guests.rs"]
mod guests;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = guests::embed("tests/guests", "GUESTS", "guests.rs");
    if tests != ExitCode::SUCCESS {
        return tests;
    }
    guests::embed("tests/benches/guests", "BENCH_GUESTS", "bench_guests.rs")
}
