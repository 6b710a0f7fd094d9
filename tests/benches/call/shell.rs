//! `ls | wc -l` over a folder of 20 files: in a fresh instance of the built-in shell, and in a process per call.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use toolgate_tests::guests::BUILT_IN;

use super::bare::{Bare, Knobs};
use super::{measure, micros, row};

const CALLS: u64 = 500;

const SCRIPT: &str = "ls | wc -l";

pub fn print(runtime: &tokio::runtime::Runtime) {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..20 {
        std::fs::write(folder.path().join(format!("{number}.txt")), "text").unwrap();
    }
    let component = BUILT_IN.iter().find(|plugin| plugin.name == "shell").unwrap().component;
    println!("{:46} {:>12} {:>12}", "", "CPU µs/call", "calls/s");
    let mut bare = Bare::new(component, Knobs::FLOOR);
    bare.workspace = Some(folder.path().to_owned());
    let call = ("run", r#"{"script":"ls | wc -l"}"#);
    row(
        "shell/run, bare wasmtime, fresh instance",
        &measure(CALLS, || runtime.block_on(bare.calls(CALLS, 1, call))),
    );
    for wrapped in [false, true] {
        let name = if wrapped { "bubblewrap" } else { "bash" };
        match run(wrapped, folder.path()) {
            Some(wall_us) => println!("a process of {name} per call: {wall_us:.0} µs of wall time"),
            None => println!("{name} is not installed, or cannot make namespaces here"),
        }
    }
}

/// Wall time of a process per call, whose CPU time is not that of this process.
fn run(wrapped: bool, folder: &Path) -> Option<f64> {
    let began = Instant::now();
    for _ in 0..CALLS {
        let mut command = if wrapped { Command::new("bwrap") } else { Command::new("bash") };
        if wrapped {
            command.args([
                "--ro-bind",
                "/usr",
                "/usr",
                "--symlink",
                "usr/bin",
                "/bin",
                "--symlink",
                "usr/lib",
                "/lib",
            ]);
            command.args([
                "--symlink",
                "usr/lib64",
                "/lib64",
                "--unshare-all",
                "--die-with-parent",
                "--bind",
            ]);
            command.arg(folder).args(["/workspace", "--chdir", "/workspace", "bash"]);
        }
        let ended = command
            .args(["-c", SCRIPT])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ended.ok().filter(std::process::ExitStatus::success)?;
    }
    Some(micros(began.elapsed()) / CALLS as f64)
}
