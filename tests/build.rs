//! Compiles the guests of the tests and embeds them: `guests.rs` in the output folder is what `src/guests.rs` includes.

#[path = "../daemon/build/guests.rs"]
mod guests;

use std::process::ExitCode;

fn main() -> ExitCode {
    guests::embed("tests/guests", "GUESTS", "guests.rs")
}
