//! The guests of `tests/guests`, as components.
//!
//! A guest that is not named here fails to compile, and a tool that no test calls fails `tests/tidy.rs`.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// The built-in plugins.
pub use toolgate_api::embedded::Embedded;
pub use toolgate_built_in::BUILT_IN;

/// One tool for each resource limit.
pub const HOSTILE: &[u8] = guest("hostile");

/// Tries to escape its workspace.
pub const FS_ATTACKER: &[u8] = guest("fs-attacker");

/// Sends requests and resolves names.
pub const CALLER: &[u8] = guest("caller");

/// The tools that the conformance suite of MCP calls.
pub const CONFORMANCE: &[u8] = guest("conformance");

/// Returns the settings of its organization.
pub const CONFIGURED: &[u8] = guest("configured");

/// Calls other tools, as a script does.
pub const SCRIPTED: &[u8] = guest("scripted");

/// Functions without the plugin contract.
pub const PLAIN: &[u8] = guest("plain");

/// A program, with settings and a log by drafts of WASI.
pub const OTHER_HOST: &[u8] = guest("other-host");

const _: () = assert!(GUESTS.len() == 8, "a guest is not named here");

const fn guest(name: &str) -> &'static [u8] {
    let mut at = 0;
    while at < GUESTS.len() {
        if are_equal(GUESTS[at].name.as_bytes(), name.as_bytes()) {
            return GUESTS[at].component;
        }
        at += 1;
    }
    panic!("there is no such guest");
}

const fn are_equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}
