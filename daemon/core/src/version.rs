//! The build of this binary: version, commit, and version of wasmtime.
//!
//! Only `main.rs` names the commit, so that a new commit compiles no library again.

use std::fmt;
use std::sync::OnceLock;

use serde::Serialize;
use toolgate_sandbox::WASMTIME_VERSION;

/// Digits of a commit's id.
pub const COMMIT_DIGITS: usize = 12;

static COMMIT: OnceLock<&str> = OnceLock::new();

/// The build of this binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BuildInfo {
    /// The version of the package.
    pub version: &'static str,
    /// The commit, in hexadecimal digits; `None` in builds for development and without a checkout.
    pub commit: Option<&'static str>,
    /// The version of wasmtime, which runs the plugins.
    pub wasmtime: &'static str,
    /// The platform, like `x86_64-unknown-linux-gnu`.
    pub target: &'static str,
}

impl BuildInfo {
    /// The build of the running binary.
    pub fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.get().copied(),
            wasmtime: WASMTIME_VERSION,
            target: env!("TOOLGATE_TARGET"),
        }
    }
}

impl fmt::Display for BuildInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, wasmtime, target } = self;
        write!(out, "{version} (")?;
        if let Some(commit) = commit {
            write!(out, "commit {commit}, ")?;
        }
        write!(out, "wasmtime {wasmtime}, {target})")
    }
}

/// The text of `toolgate --version`, after the name.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| BuildInfo::current().to_string())
}

/// Sets the commit of the running binary, once.
pub fn set_commit(commit: Option<&'static str>) {
    if let Some(commit) = commit {
        let _ = COMMIT.set(commit);
    }
}

/// Reads the commit in the last line of a reflog (`OLD NEW COMMITTER …`). The compiler evaluates it, so that no more of the reflog
/// gets into the binary.
pub const fn commit_of(reflog: &[u8]) -> Option<[u8; COMMIT_DIGITS]> {
    let mut at = reflog.len().saturating_sub(1);
    while at > 0 && reflog[at - 1] != b'\n' {
        at -= 1;
    }
    while at < reflog.len() && reflog[at] != b' ' {
        at += 1;
    }
    let mut commit = [0; COMMIT_DIGITS];
    let mut digit = 0;
    while digit < COMMIT_DIGITS {
        at += 1;
        if at >= reflog.len() || !reflog[at].is_ascii_hexdigit() {
            return None;
        }
        commit[digit] = reflog[at];
        digit += 1;
    }
    Some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_the_new_one_of_the_last_line() {
        let line = |old: &str, new: &str| format!("{} {} A <a@example.org> 1 +0000\tcommit: a\n", old, new);
        let (first, second) = ("1".repeat(40), "0123456789abcdef".repeat(3));
        let reflog = line(&"0".repeat(40), &first) + &line(&first, &second);
        assert_eq!(commit_of(reflog.as_bytes()).as_ref(), Some(b"0123456789ab"));
        assert_eq!(commit_of(line(&second, &first).as_bytes()).as_ref(), Some(b"111111111111"));
    }

    #[test]
    fn a_file_without_a_commit_has_none() {
        for text in ["", "\n", "a", "a ", "abc 0123456789", "0 xyz0123456789ab\n"] {
            assert_eq!(commit_of(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_text_names_version_and_wasmtime() {
        let info = BuildInfo { version: "1.2.3", commit: Some("0123456789ab"), wasmtime: "4", target: "t" };
        assert_eq!(info.to_string(), "1.2.3 (commit 0123456789ab, wasmtime 4, t)");
        assert_eq!(BuildInfo { commit: None, ..info }.to_string(), "1.2.3 (wasmtime 4, t)");
    }
}
