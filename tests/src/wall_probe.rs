//! Starts attempts of a process behind the wall, made by `toolgate-under-test` in place of a daemon's runtime or of a compilation
//! (`probe_attempts.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// First argument of a probe.
pub const COMMAND: &str = "wall-probe";

/// The folders and servers that a probe tries to reach.
#[derive(Clone, Debug)]
pub struct ProbeTargets {
    /// The settings file, alone in its folder.
    pub settings: PathBuf,
    /// The data folder, with a file `own`.
    pub data: PathBuf,
    /// A folder that the settings do not name, with a file `secret` and a Unix socket `socket`.
    pub outside: PathBuf,
    /// A TCP listener.
    pub server: SocketAddr,
}

/// Runs a probe in a process of its own. `role` is `daemon` or `worker`. Returns the result of each attempt, `ok` or the kind
/// of its error, or the standard error of a daemon that did not start.
pub fn run_in_process(program: &str, role: &str, targets: &ProbeTargets) -> Result<Value, String> {
    let done = Command::new(program)
        .args([COMMAND, role])
        .args([&targets.settings, &targets.data, &targets.outside])
        .arg(targets.server.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&done.stdout).expect("results"))
}
