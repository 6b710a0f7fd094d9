//! Faults at `fsync` and `fdatasync`, injected by an `LD_PRELOAD` library: kill -9, errors and delays.
//!
//! Each function compiles the library into a folder; most return the command that runs the daemon with it.

use std::path::Path;
use std::process::Command;

use crate::{Daemon, Options, compiled_code};

const SOURCE: &str = include_str!("sync_faults/preload.c");

/// Upper bound on the syncs of a start and the work after it.
const SYNCS: usize = 400;

/// Starts the daemon for each n in a new data folder and kills it at its n-th sync, until `work` is complete.
///
/// `work` gets the folder, the daemon (none if it died in its start) and n. It returns whether everything was acknowledged.
/// More than `least` syncs must have been tested by then.
pub fn kill_at_each(program: &str, least: usize, mut work: impl FnMut(&Path, Option<Daemon>, usize) -> bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let kill_at = kill_at(folder.path());
    for at in 1..SYNCS {
        let data = folder.path().join(format!("data-{at}"));
        compiled_code::restore(Path::new(program), &data).expect("the compiled code is copied");
        let options = Options { data: Some(data.clone()), under: kill_at(at), ..Options::default() };
        let is_complete = work(&data, Daemon::try_start_with(program, options), at);
        // Each folder has a copy of the compiled code.
        std::fs::remove_dir_all(&data).expect("the folder is removed");
        if is_complete {
            assert!(at > least, "only {at} syncs were tested");
            return;
        }
    }
    panic!("the work is never completed");
}

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
