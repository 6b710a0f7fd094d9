//! Scripts beside a real bash, and hostile ones.

mod archives;
mod declared;
mod hostile;
mod inspected;
mod table;
mod temporary;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Ended;
use crate::files::Files;
use crate::script::Script;

thread_local! {
    /// The workspace of a test that calls the tool itself.
    static FOLDER: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

pub fn folder() -> Option<PathBuf> {
    FOLDER.with_borrow(Clone::clone)
}

/// Stack as a call has it natively; a test thread has too little for the deepest script that is taken.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Runs a script over a folder.
fn run_in(folder: &Path, script: &str) -> Ended {
    run_limited(folder, script, |_| {})
}

/// Runs a script over a folder with other limits, in a thread of its own.
fn run_limited(folder: &Path, script: &str, limit: impl FnOnce(&mut Files) + Send) -> Ended {
    let run = || {
        let mut files = Files::new("/workspace", folder);
        limit(&mut files);
        Script { text: script, variables: &[], input: Vec::new() }.run(files)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).unwrap();
        thread.join().unwrap().unwrap()
    })
}

fn run(script: &str) -> (Ended, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ended = run_in(folder.path(), script);
    (ended, folder)
}

#[test]
fn the_examples_of_the_tool_hold() {
    let folder = tempfile::tempdir().unwrap();
    FOLDER.set(Some(folder.path().to_owned()));
    let wrong =
        toolgate_sdk::testing::wrong_examples::<crate::run>(&toolgate_sdk::testing::context().build());
    assert!(wrong.is_empty(), "{wrong:?}");
}
