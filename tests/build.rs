//! Compiles the guests of the tests (`guests.rs`, included by `src/guests.rs`) and of the benchmarks
//! (`bench_guests.rs`), and finds out which tests can run on this machine (`cfg(has = "…")`).

#[path = "../daemon/built-in/build/guests.rs"]
mod guests;

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tools that `.ci/install-test-tools` installs, each with a path below the folder `test-tools` of the target folder. A
/// test of a tool that is missing is ignored; with `TOOLGATE_TEST_TOOLS=required` it fails.
const TOOLS: &[(&str, &str)] = &[
    ("schemathesis", "schemathesis/bin/schemathesis"),
    ("clients", "clients/node/node_modules"),
    ("identity", "identity/node_modules"),
    ("openbao", "openbao/bin/bao"),
    ("registry", "registry/usr/bin/docker-registry"),
    ("prometheus", "prometheus/usr/bin/promtool"),
    ("mdbook", "mdbook/bin/mdbook"),
    ("published", "published/node_modules"),
    ("console", "console/chromium"),
    ("js", "languages/js/cache"),
    ("python", "languages/python/wheels"),
    ("c", "languages/c/node/cache"),
];

fn main() -> ExitCode {
    if let Err(error) = find_tools() {
        println!("cargo::error=the tools of the tests cannot be looked up: {error}");
        return ExitCode::FAILURE;
    }
    let tests = guests::embed("tests/guests", "GUESTS", "guests.rs");
    if tests != ExitCode::SUCCESS {
        return tests;
    }
    guests::embed("tests/benches/guests", "BENCH_GUESTS", "bench_guests.rs")
}

fn find_tools() -> Result<(), Box<dyn Error>> {
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let folder = guests::target_folder(&output)?.join("test-tools");
    // Cargo runs this script again when the installation touches the file. It must exist, or each build would run it.
    let stamp = folder.join("stamp");
    if !stamp.exists() {
        fs::create_dir_all(&folder)?;
        fs::write(&stamp, "")?;
    }
    let are_required = env::var_os("TOOLGATE_TEST_TOOLS").is_some_and(|value| value == "required");
    // Where they are required, nothing depends on which there are.
    if !are_required {
        println!("cargo::rerun-if-changed={}", stamp.display());
    }
    println!("cargo::rerun-if-env-changed=TOOLGATE_TEST_TOOLS");
    let mut missing = Vec::new();
    for (name, path) in TOOLS {
        let is_there = are_required || folder.join(path).exists();
        enable(name, is_there);
        missing.extend((!is_there).then_some(*name));
    }
    println!("cargo::rustc-env=TOOLGATE_MISSING_TOOLS={}", missing.join(" "));
    let tools = ["dpkg-deb", "systemd-sysusers", "strip", "lintian"];
    let packages = tools.into_iter().all(runs) && is_root();
    for (name, is_there) in [
        ("systemd", are_required || runs("systemd-analyze")),
        ("dpkg", are_required || packages),
        ("mount", can_mount(&output)),
        ("swap", can_swap()),
    ] {
        enable(name, is_there);
        missing.extend((!is_there).then_some(name));
    }
    println!("cargo::rustc-env=TOOLGATE_MISSING={}", missing.join(" "));
    Ok(())
}

fn enable(name: &str, is_there: bool) {
    println!("cargo::rustc-check-cfg=cfg(has, values(\"{name}\"))");
    if is_there {
        println!("cargo::rustc-cfg=has=\"{name}\"");
    }
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Packages are installed, and their owners set, by root alone.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn can_mount(output: &Path) -> bool {
    let folder = output.join("mount");
    let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    fs::create_dir_all(&folder).is_ok()
        && run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&folder))
        && run(Command::new("umount").arg(&folder))
}

/// Whether a swap device is in use, and this user may create a control group.
fn can_swap() -> bool {
    let has_swap = fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
    let group = |parent: &str| {
        let folder = Path::new(parent).join(format!("toolgate-build-{}", std::process::id()));
        fs::create_dir(&folder).is_ok() && fs::remove_dir(&folder).is_ok()
    };
    has_swap && (group("/sys/fs/cgroup/memory") || group("/sys/fs/cgroup"))
}
