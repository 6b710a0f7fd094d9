//! Checks of the source tree: crate dependencies, code map, coverage of the guests' tools, no sleeping tests.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::guests::{Embedded, GUESTS};
use toolgate_tests::{Daemon, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Allowed dependencies of each host crate, without dev-dependencies. Adding one is a design decision, made here.
const HOST: &[(&str, &str)] = &[
    // Shared types, also compiled into the built-in plugins that read definitions, without the optional three.
    ("toolgate-api", "serde serde_json thiserror toolgate-api-macros utoipa zeroize"),
    ("toolgate-api-macros", "quote syn"),
    // Decides without I/O: no runtime, engine, store, network or files.
    (
        "toolgate-admission",
        "foldhash hashbrown jsonschema papaya regex rust-stemmers serde serde_json thiserror toolgate-api",
    ),
    // Like `toolgate-admission`, on which it depends.
    ("toolgate-openapi", "serde-saphyr serde_json thiserror toolgate-admission toolgate-api"),
    // The only crate with the engine. No HTTP server and no store; HTTP client for upstreams.
    (
        "toolgate-sandbox",
        "bytes cap-std flate2 hickory-resolver http http-body http-body-util hyper hyper-util memchr \
         rand_chacha rand_core rustix rustls ruzstd serde_json thiserror tokio tokio-rustls toolgate-admission \
         toolgate-api tracing wasm-encoder wasmparser wasmtime wasmtime-wasi wasmtime-wasi-http wasmtime-wasi-io webpki-roots zeroize",
    ),
    // A client of the HTTP interface: no host crate but the shapes, no engine, HTTP server or store.
    (
        "toolgate-cli",
        "anstream base64 bytes clap http-body-util hyper hyper-rustls hyper-util jiff ring rustls serde serde_json \
         terminal_size thiserror tokio toolgate-api tower-service url webpki-roots",
    ),
    // Everything else, without the engine.
    (
        "toolgate",
        "aho-corasick anstream anstyle anyhow arc-swap axum base64 bytes clap clap_complete clap_mangen flate2 futures-util http-body-util hyper \
         hyper-util icu_properties landlock libc listenfd maud mimalloc multer opentelemetry-proto percent-encoding prometheus-client prost rand ring rmcp rustix rustls rustls-webpki \
         scopeguard sd-notify seccompiler serde serde_json sqlx tar tempfile thiserror tokio tokio-rustls tokio-util toml toolgate-admission toolgate-api \
         toolgate-cli toolgate-openapi toolgate-sandbox tower tracing tracing-subscriber url utoipa \
         utoipa-axum zeroize",
    ),
];

/// Dependencies that only the sandbox may have.
const ENGINE: &[&str] = &["wasmtime", "wasmtime-wasi", "wasmtime-wasi-http", "wasmtime-wasi-io", "cap-std"];

#[test]
fn each_host_crate_has_exactly_its_allowed_dependencies() {
    let dependencies = dependencies();
    for (package, allowed) in HOST {
        let dependency_names = dependencies.get(*package).unwrap_or_else(|| panic!("no package `{package}`"));
        let allowed: BTreeSet<String> = allowed.split_whitespace().map(str::to_owned).collect();
        assert_eq!(*dependency_names, allowed, "dependencies of `{package}` (left), allowed (right)");
    }
}

#[test]
fn only_the_sandbox_depends_on_the_engine_and_no_plugin_on_the_host() {
    for (package, dependency_names) in dependencies() {
        let engine = ENGINE.iter().find(|engine| dependency_names.contains(**engine));
        assert!(package == "toolgate-sandbox" || engine.is_none(), "`{package}` depends on {engine:?}");
        let is_plugin = !package.starts_with("toolgate") || package.starts_with("toolgate-sdk");
        let mut host = HOST.iter().map(|(host, _)| *host).filter(|host| *host != "toolgate-api");
        let found = host.find(|host| dependency_names.contains(*host));
        assert!(!is_plugin || found.is_none(), "the plugin `{package}` depends on {found:?}");
    }
}

/// Dependencies of each workspace package, without dev-dependencies and build-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let done = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&done.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(|package| (text(&package["name"]), dependency_names(package))).collect()
}

fn dependency_names(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
        .collect()
}

#[test]
fn the_code_map_names_every_module_of_the_daemon() {
    let map = read(&workspace().join("daemon/ARCHITECTURE.md"));
    let modules = read(&workspace().join("daemon/src/lib.rs"));
    for module in modules.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(map.contains(&format!("`{module}`")), "`ARCHITECTURE.md` does not name `{module}`");
    }
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

/// A fixed pause is too short on a slow machine and too long on a fast one.
#[test]
fn no_test_sleeps() {
    let folders = [
        "tests/src",
        "tests/tests",
        "daemon/src",
        "daemon/api/src",
        "daemon/admission/src",
        "daemon/sandbox/src",
    ];
    // The epoch ticker, the pauses after a failed accept, a failed export and a result that
    // cannot be stored, the timeout of idle connections, and this file;
    // pauses between two looks at a condition, in the last five.
    let known = [
        "engine.rs",
        "listener.rs",
        "traces/export.rs",
        "webhooks/deliver.rs",
        "pool.rs",
        "tidy.rs",
        "cli/dev.rs",
        "wait.rs",
        "cpu_scheduler.rs",
        "credentials/tests/oauth.rs",
        "audit/tests.rs",
    ];
    for file in folders.iter().flat_map(|folder| files(&workspace().join(folder))) {
        let sleeps = read(&file).contains("thread::sleep") || read(&file).contains("time::sleep");
        assert!(!sleeps || known.iter().any(|known| file.ends_with(known)), "`{}` sleeps", file.display());
    }
}

/// Operators filter by the names of events.
#[test]
fn o5_every_event_of_the_log_is_in_its_documentation() {
    let page = read(&workspace().join("daemon/docs/logs.md"));
    for file in files(&workspace().join("daemon/src")) {
        let source = read(&file);
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for event in source.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("`{event}`")), "`logs.md` does not name `{event}`");
        }
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
