//! Checks of the source tree: crate dependencies, code map, coverage of the guests' tools, no sleeping tests.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::guests::{Embedded, GUESTS};
use toolgate_tests::process::{external_command, find_installed};
use toolgate_tests::{Daemon, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Allowed dependencies of each host crate, without dev-dependencies. Adding one is a design decision, made here.
const HOST: &[(&str, &str)] = &[
    // Shared types, also compiled into the built-in plugins that read definitions, without the optional three.
    ("toolgate-api", "serde serde_json thiserror toolgate-macros utoipa zeroize"),
    ("toolgate-macros", "proc-macro2 quote syn"),
    // Decides without I/O: no runtime, engine, store, network or files.
    (
        "toolgate-admission",
        "foldhash hashbrown jsonschema papaya parking_lot regex rust-stemmers serde serde_json thiserror toolgate-api",
    ),
    // Like `toolgate-admission`, on which it depends.
    ("toolgate-openapi", "serde-saphyr serde_json thiserror toolgate-admission toolgate-api"),
    // The only crate with the engine. No HTTP server and no store; HTTP client for upstreams.
    (
        "toolgate-sandbox",
        "bytes cap-std flate2 hickory-resolver http http-body http-body-util hyper hyper-util memchr parking_lot \
         rand_chacha rand_core rustix rustls ruzstd serde_json thiserror tokio tokio-rustls toolgate-admission \
         toolgate-api toolgate-macros tracing wasm-encoder wasmparser wasmtime wasmtime-wasi wasmtime-wasi-http \
         wasmtime-wasi-io webpki-roots zeroize",
    ),
    // A client of the HTTP interface: no host crate but the shapes, no engine, HTTP server or store.
    (
        "toolgate-cli",
        "anstream base64 bytes clap http-body-util hyper hyper-rustls hyper-util jiff parking_lot ring rustls serde \
         serde-saphyr serde_json terminal_size thiserror tokio toolgate-api tower-service url webpki-roots",
    ),
    // Settings, keys, documents and the store: with `toolgate-audit` the only crates with SQL.
    (
        "toolgate-state",
        "http rand ring rustix serde serde_json sqlx tempfile thiserror tokio toml toolgate-admission toolgate-api \
         toolgate-macros tracing url zeroize",
    ),
    // The audit log and its index.
    (
        "toolgate-audit",
        "arc-swap base64 parking_lot rand ring rustix scopeguard serde serde_json sqlx thiserror tokio \
         toolgate-admission toolgate-api toolgate-macros toolgate-state tracing zeroize",
    ),
    // Calls, sessions, credentials, plugins and administration: no SQL, HTTP server or pages.
    (
        "toolgate-core",
        "aho-corasick anstream anyhow arc-swap base64 bytes flate2 futures-util http landlock libc opentelemetry-proto \
         parking_lot percent-encoding prost rand ring rustix scopeguard seccompiler serde serde_json tar tempfile \
         thiserror tokio tokio-util toolgate-admission toolgate-api toolgate-audit toolgate-macros toolgate-openapi \
         toolgate-sandbox toolgate-state tracing tracing-subscriber url zeroize",
    ),
    // The HTTP interface and the MCP server: with `toolgate-console` the only crates with an HTTP server.
    (
        "toolgate-http",
        "arc-swap axum base64 bytes futures-util http-body-util hyper hyper-util icu_properties parking_lot \
         percent-encoding prometheus-client ring rmcp rustix rustls rustls-webpki serde serde_json thiserror tokio \
         tokio-rustls tokio-util toolgate-admission toolgate-api toolgate-audit toolgate-core toolgate-macros \
         toolgate-openapi toolgate-sandbox toolgate-state tower tracing url utoipa utoipa-axum zeroize",
    ),
    // The pages for people.
    (
        "toolgate-console",
        "axum base64 bytes futures-util maud multer parking_lot percent-encoding rand ring serde serde_json tokio \
         tokio-util toolgate-admission toolgate-api toolgate-audit toolgate-core toolgate-http toolgate-sandbox \
         toolgate-state tracing url zeroize",
    ),
    // Start and stop, and the command line.
    (
        "toolgate",
        "anstream anstyle anyhow clap clap_complete clap_mangen futures-util listenfd mimalloc rustix \
         sd-notify serde serde_json tempfile tokio tokio-util toolgate-admission toolgate-api toolgate-audit \
         toolgate-built-in toolgate-cli toolgate-console toolgate-core toolgate-http toolgate-openapi \
         toolgate-sandbox toolgate-state tracing url utoipa",
    ),
];

/// Dependencies that only some crates may have.
const WALLS: &[(&[&str], &[&str])] = &[
    (
        &["wasmtime", "wasmtime-wasi", "wasmtime-wasi-http", "wasmtime-wasi-io", "cap-std"],
        &["toolgate-sandbox"],
    ),
    (&["sqlx"], &["toolgate-state", "toolgate-audit"]),
    (&["axum"], &["toolgate-http", "toolgate-console"]),
    (&["rmcp", "utoipa-axum"], &["toolgate-http"]),
    (&["maud"], &["toolgate-console"]),
];

/// Crates whose modules import in one direction.
const ORDERED: &[&str] = &[
    "daemon",
    "daemon/admission",
    "daemon/api",
    "daemon/audit",
    "daemon/cli",
    "daemon/console",
    "daemon/core",
    "daemon/http",
    "daemon/openapi",
    "daemon/sandbox",
    "daemon/state",
];

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
fn walled_dependencies_are_those_of_their_crates_and_no_plugin_depends_on_the_host() {
    for (package, dependency_names) in dependencies() {
        for (walled, crates) in WALLS {
            let found = walled.iter().find(|walled| dependency_names.contains(**walled));
            assert!(found.is_none() || crates.contains(&&*package), "`{package}` depends on {found:?}");
        }
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

/// The order of the `mod` lines in `lib.rs` is the order of imports, so that modules form no circle.
#[test]
fn a_module_imports_only_modules_that_come_after_it() {
    for folder in ORDERED {
        let source = workspace().join(folder).join("src");
        let order = modules(&read(&source.join("lib.rs")));
        let place = |module: &str| order.iter().position(|known| known == module);
        for file in files(&source) {
            let path = file.strip_prefix(&source).expect("a path below").with_extension("");
            let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
            let Some(from) = place(parts[0]).filter(|_| !parts.contains(&"tests")) else { continue };
            for module in imported_modules(&read(&file), parts.len()) {
                let is_after = place(&module).is_none_or(|to| to >= from);
                assert!(
                    is_after,
                    "`{}` imports `{module}`, which comes before it in `lib.rs`",
                    file.display()
                );
            }
        }
    }
}

/// The modules that a `lib.rs` declares, in its order.
fn modules(source: &str) -> Vec<String> {
    let names = source.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned)
    });
    names.collect()
}

/// The first segments of paths from the root of the crate, outside of tests, in a module of this depth.
fn imported_modules(source: &str, depth: usize) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let is_path = code[..at].ends_with([' ', '(', '<', '&', ',', '{', '!', '[', '\n']);
            let rest = &code[at + root.len()..];
            if !is_path || rest.starts_with("super::") {
                continue;
            }
            let group = rest.strip_prefix('{').and_then(|rest| rest.split_once("};")).map(|(group, _)| group);
            let paths = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
            let names = paths.iter().map(|path| path.trim().split(|letter: char| !is_of_name(letter)));
            found.extend(names.filter_map(|mut parts| parts.next().map(str::to_owned)));
        }
    }
    found
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[test]
fn the_code_map_names_every_module_of_the_daemon() {
    let map = read(&workspace().join("daemon/ARCHITECTURE.md"));
    for folder in ["daemon", "daemon/core", "daemon/state"] {
        for module in modules(&read(&workspace().join(folder).join("src/lib.rs"))) {
            assert!(map.contains(&format!("`{module}`")), "`ARCHITECTURE.md` does not name `{module}`");
        }
    }
}

/// Each path of the table "Where is …" exists.
#[test]
fn the_code_map_names_files_that_exist() {
    let map = read(&workspace().join("daemon/ARCHITECTURE.md"));
    let (_, table) = map.split_once("## Where is …").expect("the table");
    let (table, _) = table.split_once("\n## ").expect("the end of the table");
    let paths =
        table.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") || word.ends_with('/'));
    let mut seen = 0;
    for path in paths {
        seen += 1;
        let is_there = workspace().join("daemon").join(path).exists() || workspace().join(path).exists();
        assert!(is_there, "`ARCHITECTURE.md` names `{path}`, which does not exist");
    }
    assert!(seen > 30, "only {seen} paths");
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
        "daemon/state/src",
        "daemon/audit/src",
        "daemon/core/src",
        "daemon/http/src",
        "daemon/console/src",
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
        "audit/src/tests.rs",
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
    let folders = ["src", "state/src", "audit/src", "core/src", "http/src", "console/src"];
    for file in folders.iter().flat_map(|folder| files(&workspace().join("daemon").join(folder))) {
        let source = read(&file);
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for event in source.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("`{event}`")), "`logs.md` does not name `{event}`");
        }
    }
}

/// The pages as a site: mdBook finds no fault, and no link leads out of the book to a file that a site does not have.
#[test]
#[cfg_attr(not(has = "mdbook"), ignore = "needs mdBook, which `.ci/run` installs")]
fn o6_mdbook_builds_the_book_and_its_links_stay_inside() {
    let site = tempfile::tempdir().expect("a folder");
    let mut mdbook = external_command(find_installed(PROGRAM, "mdbook/bin/mdbook"));
    mdbook.arg("build").arg(workspace().join("daemon/docs")).arg("--dest-dir").arg(site.path());
    let told = mdbook.output().expect("mdBook");
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && !text.contains("WARN") && !text.contains("ERROR"), "{text}");
    let pages = fs::read_dir(site.path()).expect("the site").map(|entry| entry.expect("an entry").path());
    let pages: Vec<_> = pages.filter(|page| page.extension().is_some_and(|kind| kind == "html")).collect();
    assert!(pages.len() > 40, "{pages:?}");
    for page in pages {
        let html = read(&page);
        let links = html.split("href=\"").skip(1).filter_map(|rest| rest.split(['"', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains(':')) {
            assert!(site.path().join(link).exists(), "`{}` links to `{link}`", page.display());
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
