//! The tour that a new user takes first.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::fs;

use toolgate_tests::daemon::run_to_end;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

#[test]
fn quickstart_comes_out_as_it_should() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_to_end(PROGRAM, &["quickstart", "--once"], folder.path());
    assert!(ended.status.success(), "{ended:?}");
    for code in ["ACCESS_DENIED", "INVALID_ARGUMENTS", "FUEL_EXHAUSTED"] {
        assert!(ended.stdout.contains(code), "no `{code}`: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\x1b'), "no colours where there is no terminal: {:?}", ended.stdout);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "it leaves nothing behind");
}
