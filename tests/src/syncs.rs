//! kill -9 at a sync of a file, and a disk whose syncs fail or take their time.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("syncs/preloaded.c");

/// Compiles into `folder` what kills a daemon at its n-th sync, whichever thread makes it; answers with what to run the
/// daemon under for each n.
pub fn killer(folder: &Path) -> impl Fn(usize) -> Vec<String> {
    let preload = preload(folder);
    move |at| vec!["env".into(), preload.clone(), format!("KILL_AT_SYNC={at}")]
}

/// Answers with what to run a daemon under whose syncs fail as long as there is such a file. What does it is compiled
/// into `folder`.
pub fn failing_while(folder: &Path, there_is: &Path) -> Vec<String> {
    vec!["env".into(), preload(folder), format!("FAIL_SYNCS_WHILE={}", there_is.display())]
}

/// Answers with what to run a daemon under whose audit log reaches the disk only once there is no such file. What does it
/// is compiled into `folder`.
pub fn holding_audit_while(folder: &Path, there_is: &Path) -> Vec<String> {
    vec!["env".into(), preload(folder), format!("HOLD_AUDIT_WHILE={}", there_is.display())]
}

fn preload(folder: &Path) -> String {
    let (source, library) = (folder.join("preloaded.c"), folder.join("preloaded.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    assert!(made.expect("a C compiler").success());
    format!("LD_PRELOAD={}", library.display())
}
