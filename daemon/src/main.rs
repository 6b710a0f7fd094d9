//! The binary `toolgate`. This file alone names the commit, so that a new commit compiles no library again.

/// The commit: what the packager says, or the last one of the checkout in an optimized build.
const COMMIT: Option<&str> = match option_env!("TOOLGATE_COMMIT") {
    Some(commit) => Some(commit),
    None => LAST_COMMIT,
};

#[cfg(has_reflog)]
const DIGITS: Option<[u8; toolgate_core::version::COMMIT_DIGITS]> =
    toolgate_core::version::commit_of(include_bytes!(env!("TOOLGATE_REFLOG")));
#[cfg(not(has_reflog))]
const DIGITS: Option<[u8; toolgate_core::version::COMMIT_DIGITS]> = None;

const LAST_COMMIT: Option<&str> = match &DIGITS {
    Some(digits) => match std::str::from_utf8(digits) {
        Ok(digits) => Some(digits),
        Err(_) => None,
    },
    None => None,
};

fn main() -> std::process::ExitCode {
    toolgate::main(COMMIT)
}
