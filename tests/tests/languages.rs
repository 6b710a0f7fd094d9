//! Plugins in JavaScript and Python (T9): the commands of the guide, what the SDKs give, and what hostile code gets.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::fs;
use std::path::Path;

use toolgate_tests::process::find_installed;
use toolgate_tests::shell::{Shell, commands, guide_commands};
use toolgate_tests::upstream::{self, Upstream};
use toolgate_tests::{Daemon, Options, Session, Shared, Value, json, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A runtime is compiled with its plugin, which takes a busy machine longer than the default timeout.
const LONG_COMPILE: &str = "[compile]\ntimeout_seconds = 600\n";

/// The URL of granted requests.
const API: &str = "http://api.upstream.test:8080";

/// A language with a template, and the files of the probe in it.
struct Language {
    section: &'static str,
    option: &'static str,
    source: (&'static str, &'static str),
    build: &'static [&'static str],
}

const JS: Language = Language {
    section: "JavaScript",
    option: "js",
    source: ("src/plugin.js", include_str!("../languages/probe.js")),
    build: &["npm install", "node toolgate/build.mjs probe.wasm"],
};

const PYTHON: Language = Language {
    section: "Python",
    option: "python",
    source: ("plugin.py", include_str!("../languages/probe.py")),
    build: &[
        "python3 -m venv .venv",
        ".venv/bin/pip install -r requirements.txt",
        ".venv/bin/componentize-py -d toolgate/wit -w python componentize toolgate.component -o probe.wasm",
    ],
};

/// A terminal in which npm and pip install from what was downloaded before.
fn shell(folder: &Path, daemon: &Daemon, language: &Language) -> Shell {
    let shell = Shell::new(PROGRAM, folder, daemon);
    match language.option {
        "js" => with_npm(shell, "languages/js/cache"),
        _ => with_pip(shell, "languages/python/wheels"),
    }
}

fn with_npm(shell: Shell, cache: &str) -> Shell {
    shell
        .with("npm_config_offline", Path::new("true"))
        .with("npm_config_cache", &find_installed(PROGRAM, cache))
}

fn with_pip(shell: Shell, wheels: &str) -> Shell {
    shell.with("PIP_NO_INDEX", Path::new("1")).with("PIP_FIND_LINKS", &find_installed(PROGRAM, wheels))
}

#[test]
#[cfg_attr(not(has = "js"), ignore = "needs componentize-qjs, which `.ci/run` installs")]
fn t9_every_command_of_the_guide_for_javascript_works() {
    run_guide(&JS, "# pass 2");
}

#[test]
#[cfg_attr(not(has = "python"), ignore = "needs componentize-py, which `.ci/run` installs")]
fn t9_every_command_of_the_guide_for_python_works() {
    run_guide(&PYTHON, "");
}

/// Runs the guide's commands in one terminal. The README of the new plugin has the same commands.
fn run_guide(language: &Language, tested: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(PROGRAM, &format!("[consent]\nrequired = true\n{LONG_COMPILE}"));
    let shell = shell(folder.path(), &daemon, language);
    let guide = guide_commands(language.section);
    let output = shell.run(&format!("set -e\n{}", guide.join("\n"))).expect_success();
    for text in [
        tested,
        "my-weather 0.1.0: 1 tool, 1 example run, 0 errors, 0 warnings",
        "its runtime imports filesystem and network without using them",
        "call_my-weather_greet",
    ] {
        assert!(output.contains(text), "{text}: {output}");
    }
    assert_eq!(output.matches("Hello, Ada!").count(), 2, "`run` and `call`: {output}");
    let readme = fs::read_to_string(folder.path().join("my-weather/README.md")).expect("a README");
    let missing: Vec<_> = commands(&readme).into_iter().filter(|command| !guide.contains(command)).collect();
    assert_eq!(missing, [""; 0], "in the README and not in the guide");
    // `check` compiled it into the user's cache, sealed with a key that lies elsewhere.
    assert!(folder.path().join("state/toolgate/compiled-code.key").exists());
    let invalid = format!("toolgate call acme/bot my-weather/greet '{}'", json!({"name": " "}));
    assert!(shell.run(&invalid).expect_failure().contains("the name is empty: ask the person for it"));
}

/// The page's files and commands: nothing else is needed but the contract.
#[test]
#[cfg_attr(not(has = "c"), ignore = "needs a C compiler, which `.ci/run` installs")]
fn t9_a_plugin_in_c_needs_the_contract_alone() {
    const PAGE: &str = include_str!("../../daemon/docs/plugin-in-c.md");
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(PROGRAM, "");
    let shell = Shell::new(PROGRAM, folder.path(), &daemon);
    let shell = with_npm(with_pip(shell, "languages/c/python/wheels"), "languages/c/node/cache");
    let block = |language: &str| {
        let (_, behind) = PAGE.split_once(&format!("\n```{language}\n")).expect(language);
        behind.split("\n```").next().expect("an end")
    };
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("words.c", block("c"));
    write("component.mjs", block("js"));
    write("plugin.wit", include_str!("../../wit/plugin.wit"));
    let output = shell.run(&format!("set -e\n{}", commands(PAGE).join("\n"))).expect_success();
    assert!(output.contains("words 0.1.0: 1 tool, 1 example run, 0 errors, 0 warnings"), "{output}");
    assert_eq!(output.trim().lines().last(), Some("3"), "{output}");
    let escape = shell.run(r#"toolgate run words.wasm count '{"text": "\u0061"}'"#).expect_failure();
    assert!(escape.contains("INVALID_ARGUMENTS") && escape.contains("the text has an escape"), "{escape}");
}

static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    daemon: Daemon,
    upstream: Upstream,
}

impl Fixture {
    fn start() -> Self {
        let upstream = Upstream::start();
        upstream.resolve_api();
        let settings = upstream.settings() + LONG_COMPILE;
        let daemon = Daemon::start_with(PROGRAM, Options { settings, ..Options::default() });
        Self { daemon, upstream }
    }

    /// Builds the probe in a language, loads it, and returns a session of an agent that may call it.
    fn load(&self, language: &Language) -> Session {
        let folder = tempfile::tempdir().expect("a folder");
        let shell = shell(folder.path(), &self.daemon, language);
        shell.run(&format!("toolgate new probe --lang {}", language.option)).expect_success();
        let (path, source) = language.source;
        fs::write(folder.path().join("probe").join(path), source).expect("a source");
        let lines = [&["set -e", "cd probe"], language.build].concat();
        shell.run(&lines.join("\n")).expect_success();
        let file = fs::read(folder.path().join("probe/probe.wasm")).expect("a component");
        let operator = self.daemon.operator();
        operator.upload_approved("probe", &file);
        let agent = format!("acme/{}", language.option);
        operator.make_agent(&agent, &json!({"enabled": ["probe/*"], "limits": {"fuel": 300_000_000}}));
        operator.open_session(&agent)
    }

    fn grant(&self) {
        let grant = self.upstream.grant(json!({
            "filesystem": "workspace",
            "network": [{"scheme": "http", "host": "api.upstream.test", "port": 8080}],
            "plain_http": ["api.upstream.test:8080"],
        }));
        self.daemon.operator().make("/v1/plugins/probe/grant", &grant).expect(201);
    }
}

/// One test for each language, since a build takes seconds.
#[test]
#[cfg_attr(not(has = "js"), ignore = "needs componentize-qjs, which `.ci/run` installs")]
fn t9_a_plugin_in_javascript_has_what_its_sdk_gives_and_no_more() {
    FIXTURE.with(Fixture::start, |fixture| {
        let session = fixture.load(&JS);
        assert_denied_without_grant(fixture, &session);
        assert_sdk_works(fixture, &session);
        let tasks = session.call("probe/tasks", json!({}));
        assert_eq!(
            (&tasks.output()["status"], &tasks.output()["counted"]),
            (&json!("rejected"), &json!([1, 2]))
        );
        assert_failures(&session, "TypeError: cannot read property 'name' of undefined");
        let denied = session.call("probe/sockets", json!({})).expect_error("TOOL_FAILED");
        assert_eq!(denied.message(), "no way out");
        session.call("probe/surrogate", json!({})).expect_error("INVALID_OUTPUT");
        assert_hostile_code_ends(&session);
        fixture.remove();
    });
}

#[test]
#[cfg_attr(not(has = "python"), ignore = "needs componentize-py, which `.ci/run` installs")]
fn t9_a_plugin_in_python_has_what_its_sdk_gives_and_no_more() {
    FIXTURE.with(Fixture::start, |fixture| {
        let session = fixture.load(&PYTHON);
        assert_denied_without_grant(fixture, &session);
        assert_sdk_works(fixture, &session);
        let arguments = json!({"point": {"x": 1}, "colours": ["red"], "more": {"p": {"x": 2, "y": 3}}});
        let typed = session.call("probe/types", arguments);
        let expected = json!([{"x": 1, "y": 0}, 1, ["red"], true, "a", {"p": {"x": 2, "y": 3}}]);
        assert_eq!(*typed.output(), expected);
        session
            .call("probe/types", json!({"point": {"x": "1"}, "colours": []}))
            .expect_error("INVALID_ARGUMENTS");
        assert_failures(&session, "KeyError: 'missing'");
        for (way, code) in [
            ("connect", "TOOL_FAILED"),
            ("resolve", "TOOL_FAILED"),
            ("system", "TOOL_FAILED"),
            ("subprocess", "TOOL_FAILED"),
            ("exit", "TOOL_CRASHED"),
        ] {
            session.call("probe/sockets", json!({"text": way})).expect_error(code);
        }
        assert_hostile_code_ends(&session);
        fixture.remove();
    });
}

impl Fixture {
    /// Removes the probe, for the next language.
    fn remove(&self) {
        self.daemon.operator().delete("/v1/plugins/probe").expect(204);
    }
}

fn assert_denied_without_grant(fixture: &Fixture, session: &Session) {
    let before = fixture.upstream.connections();
    session.call("probe/note", json!({"text": "hé"})).expect_error("TOOL_FAILED");
    session.call("probe/fetch", json!({"text": API})).expect_error("NETWORK_DENIED");
    assert_eq!(fixture.upstream.connections(), before);
    fixture.grant();
}

fn assert_sdk_works(fixture: &Fixture, session: &Session) {
    let output =
        |tool: &str, arguments: Value| session.call(&format!("probe/{tool}"), arguments).output().clone();
    // On a busy machine the guest may rest between the beginnings of both tasks, for longer than the slow one takes.
    let tasks = wait::until("the fast task to end first", || {
        Some(output("tasks", json!({}))).filter(|tasks| tasks["order"] == json!(["fast", "slow"]))
    });
    assert_eq!(tasks["names"], json!(["slow", "fast"]));
    let facts = output("facts", json!({}));
    assert!(["js", "python"].contains(&facts["agent"].as_str().unwrap_or_default()), "{facts}");
    assert_eq!((&facts["settings"], &facts["user"]), (&json!({}), &Value::Null));
    // The state that was made when the component was built has no part in random numbers or the clock.
    assert_ne!(output("chance", json!({})), output("chance", json!({})));
    let note = output("note", json!({"text": "hé"}));
    assert!(note["text"] == "hé" && note["entries"].to_string().contains("a.txt"), "{note}");
    session.call("probe/outside", json!({})).expect_error("TOOL_FAILED");
    let shown = session.call("probe/show", json!({}));
    assert_eq!(
        (shown.output(), &shown.0["content"][0]["text"]),
        (&json!(7), &json!("see it")),
        "{}",
        shown.0
    );
    fixture.upstream.answer(|request| {
        upstream::ok(
            "text/plain",
            &format!("{} {}", request.lines().next().unwrap_or_default(), request.len()),
        )
    });
    let pages = output("fetch", json!({"text": API}));
    assert!(
        pages[1][1].as_str().is_some_and(|page| page.starts_with("POST /echo?page=2 HTTP/1.1")),
        "{pages}"
    );
    assert!(
        fixture
            .upstream
            .requests()
            .iter()
            .any(|request| request.contains("\"page\": 2}") || request.contains("\"page\":2}"))
    );
    session
        .call("probe/fetch", json!({"text": "http://other.upstream.test:8080"}))
        .expect_error("NETWORK_DENIED");
}

/// Errors that a tool raises, on purpose or not.
fn assert_failures(session: &Session, raised: &str) {
    let failed = session.call("probe/fail", json!({"text": "the door is shut"})).expect_error("TOOL_FAILED");
    assert_eq!(failed.message(), "the door is shut");
    assert_eq!(failed.0["error"]["retryable"], true, "{}", failed.0);
    assert!(
        failed.0["error"]["details"].to_string().contains("\"asked\":\"the door is shut\""),
        "{}",
        failed.0
    );
    let failed = session.call("probe/raise", json!({})).expect_error("TOOL_FAILED");
    assert_eq!(failed.message(), raised);
    session.call("probe/never", json!({})).expect_error("TOOL_FAILED");
}

/// Each ends within its limits, and the next call is not affected.
fn assert_hostile_code_ends(session: &Session) {
    session.call("probe/loop", json!({})).expect_error("FUEL_EXHAUSTED");
    // Both runtimes raise an error that a tool can catch; the daemon saw the limit.
    let exhausted = session.call("probe/exhaust", json!({})).expect_error("MEMORY_EXCEEDED");
    assert!(exhausted.message().to_lowercase().contains("memory"), "{}", exhausted.0);
    let recursed = session.call("probe/recurse", json!({}));
    let code = recursed.error_type().unwrap_or_default();
    assert!(
        ["TOOL_CRASHED", "TOOL_FAILED", "FUEL_EXHAUSTED", "MEMORY_EXCEEDED", "RESOURCE_EXCEEDED"]
            .contains(&code),
        "{}",
        recursed.0
    );
    assert_eq!(*session.call("probe/flood", json!({})).output(), "done");
    session.call("probe/facts", json!({})).output();
}
