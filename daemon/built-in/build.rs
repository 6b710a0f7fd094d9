//! Compiles and embeds the built-in plugins (`built_in.rs`, included by `src/lib.rs`).

#[path = "build/guests.rs"]
mod guests;

fn main() -> std::process::ExitCode {
    guests::embed("plugins", "BUILT_IN", "built_in.rs")
}
