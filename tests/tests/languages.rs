//! Plugins in JavaScript, TypeScript and Python (T9): the commands of the guide, what the SDKs give, and what hostile code gets.

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
    /// The plugin of the guide.
    name: &'static str,
    source: (&'static str, &'static str),
    build: &'static [&'static str],
}

const RUST: Language =
    Language { section: "Rust", option: "rust", name: "my-weather", source: ("src/lib.rs", ""), build: &[] };

const JS: Language = Language {
    section: "JavaScript",
    option: "js",
    name: "my-js-weather",
    source: ("src/plugin.js", include_str!("../languages/probe.js")),
    build: &["npm install", "node toolgate/build.mjs probe.wasm"],
};

const TYPESCRIPT: Language = Language {
    section: "TypeScript",
    option: "typescript",
    name: "my-ts-weather",
    source: ("src/plugin.ts", include_str!("../languages/probe.ts")),
    build: &["npm run build"],
};

const PYTHON: Language = Language {
    section: "Python",
    option: "python",
    name: "my-py-weather",
    source: ("plugin.py", include_str!("../languages/probe.py")),
    build: &[
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install -r requirements.txt",
        "componentize-py -d toolgate/wit -w python componentize toolgate.component -o probe.wasm",
    ],
};

/// A terminal in which npm and pip install from what was downloaded before.
fn shell(folder: &Path, daemon: &Daemon, language: &Language) -> Shell {
    let shell = Shell::new(PROGRAM, folder, daemon);
    match language.option {
        "js" | "typescript" => with_npm(shell, "languages/js/cache"),
        "python" => with_pip(shell, "languages/python/wheels"),
        _ => shell,
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

/// Types are checked before the build, and a name that a component does not have is found before a call.
#[test]
#[cfg_attr(not(has = "js"), ignore = "needs componentize-qjs, which `.ci/run` installs")]
fn t9_every_command_of_the_guide_for_typescript_works_and_the_build_finds_mistakes() {
    let (folder, shell, _daemon) = run_guide(&TYPESCRIPT, "# pass 2");
    let output = shell.run("toolgate dev --load my-ts-weather").expect_success();
    assert!(
        output.contains("1 example run, 0 errors") && output.contains("my-ts-weather 0.1.0 is"),
        "{output}"
    );
    let plugin = folder.path().join("my-ts-weather");
    let build = || shell.run("cd my-ts-weather && npm run build 2>&1");
    let (path, source) = TYPESCRIPT.source;
    fs::write(plugin.join(path), source).expect("a source");
    let output = build().expect_success();
    assert_eq!(output.matches("warning").count(), 1, "{output}");
    assert!(output.contains("warning: src/plugin.ts:6: a component has no `Buffer`"), "{output}");
    let run = "cd my-ts-weather && toolgate run my-ts-weather.wasm";
    shell.run(&format!(r#"{run} raise '{{"text": ""}}'"#)).expect_success();
    let trace = shell.run(&format!(r#"{run} raise '{{"text": "x"}}'"#)).expect_failure();
    assert!(trace.contains("ReferenceError: Buffer is not defined\n"), "{trace}");
    assert!(trace.contains("at size (src/plugin.ts:6)\n"), "{trace}");
    for (right, wrong, error) in [
        ("({ text })", "({ txt })", "Property 'txt' does not exist"),
        ("declare const Buffer: any;", "", "Cannot find name 'Buffer'"),
        ("size(text) : 0", "size(text) : true", "is not assignable to type"),
    ] {
        fs::write(plugin.join(path), source.replacen(right, wrong, 1)).expect("a source");
        let output = build().expect_refusal();
        assert!(output.contains(error), "{output}");
    }
}

#[test]
#[cfg_attr(not(has = "python"), ignore = "needs componentize-py, which `.ci/run` installs")]
fn t9_every_command_of_the_guide_for_python_works_and_each_parameter_needs_a_type() {
    let (folder, shell, daemon) = run_guide(&PYTHON, "");
    let dev = || {
        let output = shell.run("toolgate dev --load my-py-weather").expect_success();
        assert!(
            output.contains("1 example run, 0 errors") && output.contains("my-py-weather 0.1.0 is"),
            "{output}"
        );
    };
    dev();
    // Another build has other data and nearly the same functions: few are compiled and added, here and in the daemon.
    let kept = || [folder.path().join("cache"), daemon.data()].map(|cache| kept_functions(&cache));
    let before = kept();
    assert!(before.iter().all(|bytes| *bytes > 0), "{before:?}");
    let source = folder.path().join("my-py-weather/plugin.py");
    let text = fs::read_to_string(&source).expect("a source");
    let with_bug = "    if name == \"Bug\":\n        name = {}[\"missing\"]\n    text = f";
    fs::write(&source, text.replace("    text = f", with_bug)).expect("a source");
    dev();
    for (after, before) in kept().into_iter().zip(before) {
        assert!(after >= before && after < before + before / 10, "{before} bytes, then {after}");
    }
    let trace = shell.run(r#"cd my-py-weather && toolgate run my-py-weather.wasm greet '{"name": "Bug"}'"#);
    let trace = trace.expect_failure();
    assert!(trace.contains("KeyError: 'missing'") && trace.contains("    name = {}[\"missing\"]"), "{trace}");
    let declare = |parameters: &str| {
        let source = format!("import toolgate\n@toolgate.tool\ndef greet({parameters}):\n  'Greets.'");
        shell.run(&format!("cd my-py-weather && python3 -c \"{source}\""))
    };
    declare("name: str, *, loud: bool = False").expect_success();
    for (parameters, fault) in [
        ("name, loud: bool", "the parameter `name` has no type"),
        ("*names: str", "the parameter `*names: str` cannot be described"),
        ("**names", "the parameter `**names` cannot be described"),
    ] {
        let error = declare(parameters).expect_failure();
        assert!(error.contains("TypeError: the tool `greet`") && error.contains(fault), "{error}");
    }
}

/// The bytes of kept functions below a folder.
fn kept_functions(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let bytes =
        entries.map(|path| match path.extension().is_some_and(|extension| extension == "functions") {
            true => path.metadata().map_or(0, |metadata| metadata.len()),
            false if path.is_dir() => kept_functions(&path),
            false => 0,
        });
    bytes.sum()
}

/// Runs the guide's commands in one terminal. The README of the new plugin has the same commands.
fn run_guide(language: &Language, tested: &str) -> (tempfile::TempDir, Shell, Daemon) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(PROGRAM, &format!("[consent]\nrequired = true\n{LONG_COMPILE}"));
    let shell = shell(folder.path(), &daemon, language);
    let guide = guide_commands(language.section);
    let output = shell.run(&format!("set -e\n{}", guide.join("\n"))).expect_success();
    let name = language.name;
    for text in [
        tested,
        &format!("{name} 0.1.0: 1 tool, 1 example run, 0 errors, 0 warnings"),
        "its runtime imports filesystem and network, unused",
        &format!("call_{name}_greet"),
    ] {
        assert!(output.contains(text), "{text}: {output}");
    }
    assert_eq!(output.matches("Hello, Ada!").count(), 2, "`run` and `call`: {output}");
    let readme = fs::read_to_string(folder.path().join(name).join("README.md")).expect("a README");
    let missing: Vec<_> = commands(&readme).into_iter().filter(|command| !guide.contains(command)).collect();
    assert_eq!(missing, [""; 0], "in the README and not in the guide");
    // `check` compiled it into the user's cache, sealed with a key that lies elsewhere.
    assert!(folder.path().join("state/toolgate/compiled-code.key").exists());
    let invalid = format!("toolgate call acme/bot {name}/greet '{}'", json!({"name": " "}));
    assert!(shell.run(&invalid).expect_failure().contains("the name is empty: ask the person for it"));
    (folder, shell, daemon)
}

#[test]
fn t9_the_realistic_plugin_in_rust_works() {
    FIXTURE.with(Fixture::start, |fixture| {
        let tls = format!("https://{}:{}", fixture.upstream.address, upstream::TLS_PORT);
        let (folder, shell) = run_realistic(fixture, &RUST, &tls);
        assert_credential_is_sent(fixture, folder.path(), &shell, &tls);
    });
}

/// K4: `toolgate run` sends a credential over TLS to the hosts that it is bound to, and the plugin does not see it.
fn assert_credential_is_sent(fixture: &Fixture, folder: &Path, shell: &Shell, tls: &str) {
    let (host, port) = (fixture.upstream.address.to_string(), upstream::TLS_PORT);
    let grant = json!({"network": [{"host": host, "port": port}], "credentials": ["tickets"]});
    let bound = json!({"provider": "tickets", "kind": "bearer", "bound_to": [{"host": host, "port": port}]});
    fs::write(folder.join("grant.json"), fixture.upstream.grant(grant).to_string()).expect("a grant");
    fs::write(folder.join("bound.json"), bound.to_string()).expect("a credential");
    let settings = json!({"url": tls, "project": "web"});
    let run = |options: &str| {
        let file = "rust-tickets/target/wasm32-wasip2/release/rust_tickets.wasm";
        let line = format!(
            r#"toolgate run {file} list '{{"state": "open"}}' --settings '{settings}' --grant grant.json"#
        );
        shell.run(&format!("{line} {options}")).expect_success();
        let request = fixture.upstream.requests().pop().unwrap_or_default().to_lowercase();
        request.contains("authorization: bearer s3cret-token")
    };
    assert!(run("--credential bound.json --secret-env TICKETS_TOKEN"));
    assert!(!run(""));
    assert!(!run("--credential tickets.json --secret-env TICKETS_TOKEN"), "it is bound to another host");
}

#[test]
#[cfg_attr(not(has = "js"), ignore = "needs componentize-qjs, which `.ci/run` installs")]
fn t9_the_realistic_plugin_in_javascript_works() {
    FIXTURE.with(Fixture::start, |fixture| drop(run_realistic(fixture, &JS, TRACKER)));
}

#[test]
#[cfg_attr(not(has = "python"), ignore = "needs componentize-py, which `.ci/run` installs")]
fn t9_the_realistic_plugin_in_python_works() {
    FIXTURE.with(Fixture::start, |fixture| drop(run_realistic(fixture, &PYTHON, TRACKER)));
}

/// The tracker of the page.
const TRACKER: &str = "https://tickets.example.com";

/// Follows a section of the page: its first command makes the folder, its files go there, and the rest runs with a tracker that
/// the test plays.
fn run_realistic(fixture: &Fixture, language: &Language, tracker: &str) -> (tempfile::TempDir, Shell) {
    const PAGE: &str = include_str!("../../daemon/docs/realistic-plugin.md");
    let (_, behind) = PAGE.split_once(&format!("\n## {}\n", language.section)).expect(language.section);
    let section = behind.split("\n## ").next().unwrap_or_default();
    let folder = tempfile::tempdir().expect("a folder");
    let shell =
        shell(folder.path(), &fixture.daemon, language).with("TICKETS_TOKEN", Path::new("s3cret-token"));
    fixture.upstream.answer(|request| match request.lines().next() {
        Some("GET /tickets?project=web&state=open HTTP/1.1") => {
            upstream::ok("application/json", r#"[{"id": 7, "title": "It is slow"}]"#)
        }
        _ => upstream::answer(404, &[], b""),
    });
    let (_, credential) = PAGE.split_once("\n```json\n").expect("a credential");
    fs::write(folder.path().join("tickets.json"), credential.split("\n```").next().unwrap_or_default())
        .expect("a file");
    let commands = commands(section);
    let (new, rest) = commands.split_first().expect("commands");
    shell.run(new).expect_success();
    let name = new.split(' ').nth(2).expect("a name");
    // A file is "`PATH`:", and its block.
    let files = section.match_indices("`:\n\n```").map(|(at, end)| {
        let path = section[..at].rsplit('`').next().unwrap_or_default();
        (path, &section[at + end.len()..])
    });
    files.for_each(|(path, block)| {
        let (_, source) = block.split_once('\n').expect("a block");
        let source = source.split("\n```").next().unwrap_or_default().replace(TRACKER, tracker);
        fs::write(folder.path().join(name).join(path), source).expect("a source");
    });
    let address = format!("http://{}:{}", fixture.upstream.address, upstream::PLAIN_PORT);
    let rest = rest.join("\n").replace("http://127.0.0.1:8080", &address);
    // Content blocks are notes, beside the output.
    let output = shell.run(&format!("exec 2>&1\nset -e\ncd {name}\n{rest}")).expect_success();
    for part in [
        &format!("{name} 0.1.0: 2 tools, 2 examples run, 0 errors, 0 warnings"),
        "#7: It is slow",
        &format!("\"open\": \"{address}/tickets/7\""),
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    // Without settings and credential the examples do not run, which is no error.
    let check = rest.lines().find(|line| line.starts_with("toolgate check")).expect("a check");
    let check = check.split(" --settings").next().unwrap_or_default();
    let output = shell.run(&format!("cd {name} && {check} 2>&1")).expect_success();
    assert!(output.contains("EXAMPLE_NOT_RUN") && output.contains("0 errors, 2 warnings"), "{output}");
    (folder, shell)
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
        assert_web(fixture, &session);
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
        let lazy = session.call("probe/lazy", json!({}));
        let expected = json!(["é", "€", "xn--bcher-kva.example", "あ", "2025-07-01T00:00:00+02:00"]);
        assert_eq!(*lazy.output(), expected);
        session.call("probe/zone", json!({"text": "No/Where"})).expect_error("TOOL_FAILED");
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

/// Names of the web platform, over the SDK's HTTP.
fn assert_web(fixture: &Fixture, session: &Session) {
    let web = session.call("probe/web", json!({})).output().clone();
    let uuid = web["uuid"].as_str().unwrap_or_default().to_owned();
    assert_eq!((uuid.len(), uuid.as_bytes().get(14)), (36, Some(&b'4')), "{web}");
    let expected = json!({
        "url": "https://example.com/q/a%20b?x=1&y=%C3%BC#h", "isUrl": false, "reason": "AbortError", "ticks": 2,
        "read": "TypeError", "isCopy": true, "uuid": uuid,
    });
    assert_eq!(web, expected);
    fixture.upstream.answer(|request| match request.lines().next() {
        Some("POST /first HTTP/1.1") => upstream::answer(302, &[("Location", "/second?x")], b""),
        first => upstream::ok("text/plain", first.unwrap_or_default()),
    });
    let answer = session.call("probe/redirect", json!({"text": format!("{API}/first")}));
    let expected = json!([
        200,
        true,
        format!("{API}/second?x"),
        true,
        "text/plain",
        "GET /second?x HTTP/1.1",
        "AbortError"
    ]);
    assert_eq!(*answer.output(), expected);
    let form = fixture.upstream.requests().into_iter().find(|request| request.starts_with("POST /first"));
    let form = form.unwrap_or_default();
    assert!(form.contains("application/x-www-form-urlencoded") && form.contains("a=b+c"), "{form}");
    let denied = json!({"text": "http://other.upstream.test:8080"});
    session.call("probe/redirect", denied).expect_error("NETWORK_DENIED");
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
