//! Faults at `fsync` and `fdatasync`, injected by an `LD_PRELOAD` library: kill -9, errors and delays.
//!
//! Each function compiles the library into `folder` and returns the command that runs the daemon with it.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("sync_faults/preload.c");

/// Kills the daemon at its n-th sync, counted over all threads.
pub fn kill_at(folder: &Path) -> impl Fn(usize) -> Vec<String> {
    let preload = preload(folder);
    move |at| vec!["env".into(), preload.clone(), format!("KILL_AT_SYNC={at}")]
}

/// Fails every sync while `marker` exists.
pub fn fail_while(folder: &Path, marker: &Path) -> Vec<String> {
    vec!["env".into(), preload(folder), format!("FAIL_SYNCS_WHILE={}", marker.display())]
}

/// Fails each sync of the audit log while `marker` exists.
pub fn fail_audit_while(folder: &Path, marker: &Path) -> Vec<String> {
    vec!["env".into(), preload(folder), format!("FAIL_AUDIT_WHILE={}", marker.display())]
}

/// Delays each sync of the audit log while `marker` exists.
pub fn hold_audit_while(folder: &Path, marker: &Path) -> Vec<String> {
    vec!["env".into(), preload(folder), format!("HOLD_AUDIT_WHILE={}", marker.display())]
}

fn preload(folder: &Path) -> String {
    let (source, library) = (folder.join("preload.c"), folder.join("preload.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    assert!(made.expect("a C compiler").success());
    format!("LD_PRELOAD={}", library.display())
}
