//! Compiles the built-in plugins and embeds them (`built_in.rs` is what `plugins` includes), and embeds the SDK with its
//! contract (`sdk_files.rs`, for `scaffold`), so that an author needs nothing but this binary.

#[path = "build/guests.rs"]
mod guests;
#[path = "build/sdk.rs"]
mod sdk;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = sdk::embed("sdk_files.rs") {
        println!("cargo::error=the SDK cannot be embedded: {error}");
        return ExitCode::FAILURE;
    }
    guests::embed("plugins", "BUILT_IN", "built_in.rs")
}
