//! Compiles the guests of the tests (`guests.rs`, included by `src/guests.rs`) and of the benchmarks
//! (`bench_guests.rs`).

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
