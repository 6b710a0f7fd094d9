//! kill -9 at a sync of a file.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("syncs/kill_at.c");

/// Compiles into `folder` what kills a daemon at its n-th sync, whichever thread makes it; answers with what to run the
/// daemon under for each n.
pub fn killer(folder: &Path) -> impl Fn(usize) -> Vec<String> {
    let (source, library) = (folder.join("kill_at.c"), folder.join("kill_at.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    assert!(made.expect("a C compiler").success());
    let preload = format!("LD_PRELOAD={}", library.display());
    move |at| vec!["env".into(), preload.clone(), format!("KILL_AT_SYNC={at}")]
}
