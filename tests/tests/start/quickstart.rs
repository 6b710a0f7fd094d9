//! The `quickstart` command, and the tutorials for operators and orchestrators.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use toolgate_tests::Daemon;
use toolgate_tests::daemon::{run_to_end, run_to_end_in};
use toolgate_tests::shell::{Shell, commands};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

#[test]
fn quickstart_makes_its_four_calls_and_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run_to_end(PROGRAM, &["quickstart", "--once"], folder.path());
    assert!(ended.status.success(), "{ended:?}");
    for code in ["ACCESS_DENIED", "INVALID_ARGUMENTS", "FUEL_EXHAUSTED"] {
        assert!(ended.stdout.contains(code), "no `{code}`: {}", ended.stdout);
    }
    // The others are compiled while the later calls are made.
    let (until_first, _) = ended.stdout.split_once("a call that works").expect("the first call");
    assert!(
        ended.stdout.contains("compiled `arithmetic`") && until_first.matches("compiled `").count() < 3,
        "the plugin of the first call is not compiled first: {}",
        ended.stdout
    );
    assert!(!ended.stdout.contains('\x1b'), "colours without a terminal: {:?}", ended.stdout);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "files remain");
}

#[test]
fn an_interrupt_during_compilation_leaves_no_files() {
    toolgate_tests::wait::until_true("an interrupt that is in time", is_interrupted_in_time);
}

/// Interrupts a first start while it compiles. False where a busy machine was done with it before the interrupt.
fn is_interrupted_in_time() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(PROGRAM)
        .args(["quickstart", "--once"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    // From then on it compiles what the first call needs.
    let serving = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("serving")));
    assert!(serving.is_some() && fs::read_dir(folder.path()).expect("a folder").count() > 0);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is told");
    let more: Vec<_> = lines.map_while(Result::ok).collect();
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    if more.iter().any(|line| line.contains("a call that works")) {
        return false;
    }
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    true
}

#[test]
fn a_missing_temporary_folder_is_reported_with_its_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("nowhere").display().to_string();
    let environment = [("TMPDIR", nowhere.as_str())];
    let ended = run_to_end_in(PROGRAM, &["quickstart", "--once"], folder.path(), &environment);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no temporary folder can be made"), "{}", ended.stderr);
    assert!(ended.stderr.contains(" hint: ") && ended.stderr.contains("`TMPDIR`"), "{}", ended.stderr);
}

/// The commands of both pages, each page in one terminal.
#[test]
fn o6_every_command_of_the_tutorials_works() {
    const OPERATOR: &str = include_str!("../../../daemon/docs/tutorial-operator.md");
    const ORCHESTRATOR: &str = include_str!("../../../daemon/docs/tutorial-orchestrator.md");
    let daemon = Daemon::start(PROGRAM, "");
    let run = |page: &str, program: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let shell = Shell::new(PROGRAM, folder.path(), &daemon);
        fs::write(folder.path().join("loop.py"), program).expect("a file");
        shell.run(&format!("set -e\n{}", commands(page).join("\n"))).expect_success()
    };
    let operator = run(OPERATOR, "");
    for text in ["refused, as it should be", "it waits", "ask Ann about the invoice", "files/write"] {
        assert!(operator.contains(text), "{text}: {operator}");
    }
    let (_, behind) = ORCHESTRATOR.split_once("\n```python\n").expect("a program");
    let orchestrator = run(ORCHESTRATOR, behind.split("\n```").next().expect("its end"));
    for text in [
        "call_files_write",
        "1267650600228229401496703205376",
        "TOOL_NOT_FOUND",
        "did you mean 'expression'?",
        "approval",
    ] {
        assert!(orchestrator.contains(text), "{text}: {orchestrator}");
    }
    assert!(orchestrator.ends_with("It is 42\n"), "{orchestrator}");
}
