//! Compiles the built-in plugins and embeds them: `built_in.rs` in the output folder is what `plugins` includes.

#[path = "build/guests.rs"]
mod guests;

use std::process::ExitCode;

fn main() -> ExitCode {
    guests::embed("plugins", "BUILT_IN", "built_in.rs")
}
