//! What must stay true of the source: which crate may depend on which, and that each hostile tool is called.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::guests::{Embedded, GUESTS};
use toolgate_tests::{Daemon, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// What each host crate may name among its dependencies; the tests' own apart. `admission` decides and does nothing
/// else: no runtime, no engine, no store, no network, no files.
const ADMISSION: &[&str] =
    &["hashbrown", "jsonschema", "regex", "rust-stemmers", "serde", "serde_json", "thiserror"];

/// What no crate but the sandbox may name.
const ENGINE: &[&str] = &["wasmtime", "wasmtime-wasi", "wasmtime-wasi-http", "wasmtime-wasi-io", "cap-std"];

/// What the sandbox may not name: it has no door and no store. It speaks HTTP to upstreams, so `hyper` is its own too.
const NOT_SANDBOX: &[&str] = &["axum", "tower-http", "sqlx", "clap", "ring", "toolgate", "toolgate-sdk"];

#[test]
fn the_host_crates_depend_in_one_direction_only() {
    let dependencies = dependencies();
    let of = |package: &str| dependencies.get(package).unwrap_or_else(|| panic!("no package `{package}`"));
    let admission: BTreeSet<&str> = of("toolgate-admission").iter().map(String::as_str).collect();
    let allowed: BTreeSet<&str> = ADMISSION.iter().copied().collect();
    assert!(admission.is_subset(&allowed), "`admission` may not depend on {:?}", &admission - &allowed);
    for forbidden in NOT_SANDBOX {
        assert!(!of("toolgate-sandbox").contains(*forbidden), "`sandbox` depends on `{forbidden}`");
    }
    assert!(
        of("toolgate-sandbox").contains("toolgate-admission") && of("toolgate").contains("toolgate-sandbox")
    );
    for (package, named) in &dependencies {
        for engine in ENGINE {
            assert!(
                package == "toolgate-sandbox" || !named.contains(*engine),
                "`{package}` depends on `{engine}`"
            );
        }
        let is_host = package.starts_with("toolgate") && !package.starts_with("toolgate-sdk");
        assert!(
            is_host
                || !named.iter().any(|name| name == "toolgate"
                    || name == "toolgate-sandbox"
                    || name == "toolgate-admission"),
            "the plugin `{package}` depends on the host"
        );
    }
}

/// What each package of the workspace names, dependencies of its tests and of its build script apart.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let done = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&done.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(|package| (text(&package["name"]), named(package))).collect()
}

fn named(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
        .collect()
}

#[test]
fn every_tool_of_every_guest_is_called_by_a_test() {
    let tests: String = files(&workspace().join("tests/tests")).iter().map(|file| read(file)).collect();
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    for Embedded { name, digest, component } in GUESTS {
        let view = operator.load(name, component);
        assert_eq!(text(&view["digest"]), *digest, "{name}");
        for tool in view["tools"].as_array().expect("tools") {
            let tool = text(&tool["name"]);
            let names = [format!("\"{tool}\""), format!("{name}/{tool}\""), format!("call_{name}_{tool}\"")];
            assert!(names.iter().any(|name| tests.contains(name)), "no test calls `{name}/{tool}`");
        }
    }
}

/// A pause hides what it waits for: it is too short on a slow machine and too long on a fast one.
#[test]
fn no_test_sleeps() {
    let folders = ["tests/src", "tests/tests", "daemon/src", "daemon/admission/src", "daemon/sandbox/src"];
    // The ticker of epochs, the pause after a refused accept, the end of idle connections, and what they are named in.
    let known = ["engine.rs", "listener.rs", "pool.rs", "tidy.rs"];
    for file in folders.iter().flat_map(|folder| files(&workspace().join(folder))) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let sleeps = read(&file).contains("thread::sleep") || read(&file).contains("time::sleep");
        assert!(!sleeps || known.contains(&name), "`{}` sleeps", file.display());
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a source file")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
