//! A plugin author's first hour: what the README of a new plugin says is typed here, and the linter is given what it
//! must find.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]
#![allow(clippy::disallowed_methods, reason = "a shell is given the search path of this terminal")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use toolgate_tests::component::assemble;
use toolgate_tests::daemon::{ProgramOutput, run_to_end, run_to_end_in};
use toolgate_tests::guests::Embedded;
use toolgate_tests::{Daemon, PluginFile, guests, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// T2, T11: from nothing to an answer over HTTP, with the commands that the guide shows.
#[test]
fn what_the_readme_of_a_new_plugin_says_works_as_it_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(PROGRAM, "");
    let shell = Shell::new(folder.path(), &daemon);
    shell.types("toolgate new my-weather").expect_success();
    let readme = fs::read_to_string(folder.path().join("my-weather/README.md")).expect("a README");
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() >= 8, "{readme}");
    let outputs: Vec<String> = commands
        .iter()
        .map(|command| shell.types(&format!("cd my-weather && {command}")).expect_success())
        .collect();
    let found = |command: &str, text: &str| {
        let at = commands.iter().position(|typed| typed.starts_with(command)).expect(command);
        assert!(outputs[at].contains(text), "{command}: {}", outputs[at]);
    };
    found("cargo test", "2 passed");
    found("toolgate check", "my-weather 0.1.0: 1 tool, 1 example run, 0 errors, 0 warnings");
    found("toolgate run", "Hello, Ada!");
    found("toolgate plugin load", "call_my-weather_greet");
    found("toolgate call", "Hello, Ada!");
    // Made once, it is not made again over what is there.
    let again = shell.types("toolgate new my-weather");
    assert_eq!(again.0.status.code(), Some(1));
    files_are_had_as_it_says(&shell, &readme);
}

/// T2, T11: a tool that reads a file, first of a plugin that does not ask for files, and then as the README shows it.
fn files_are_had_as_it_says(shell: &Shell, readme: &str) {
    const READS: &str = r#"
        use toolgate_sdk::{Result, plugin, tool};

        /// Reads a note.
        ///
        /// Use it.
        #[tool(read_only, examples("a note": {"name": "today.txt"} => "buy milk"))]
        fn read(
            /// Its name
            name: String,
        ) -> Result<String> {
            Ok(std::fs::read_to_string(format!("/workspace/{name}"))?)
        }
    "#;
    let source = shell.folder.join("my-weather/src/lib.rs");
    let component = "target/wasm32-wasip2/release/my_weather.wasm";
    let run = format!("toolgate run {component} read '{{\"name\": \"today.txt\"}}' --workspace ../notes");
    let check = format!("toolgate check {component} --workspace ../notes");
    let types = |line: &str| shell.types(&format!("cd my-weather && {line}"));
    let build = |facts: &str| {
        fs::write(&source, format!("{READS}\nplugin!(\"my-weather\", {facts}publisher = \"me\", read);"))
            .expect("a source");
        types("cargo build --target wasm32-wasip2 --release").expect_success();
    };
    fs::create_dir(shell.folder.join("notes")).expect("a folder");
    fs::write(shell.folder.join("notes/today.txt"), "buy milk").expect("a note");
    let asking =
        readme.split('`').find(|code| code.starts_with("capabilities(filesystem")).expect("how to ask");

    build("");
    for line in [&run, &check] {
        let told = types(line).expect_failure();
        assert!(told.contains(&format!("write `{asking}` in `plugin!`")), "{line}: {told}");
    }
    build(&format!("{asking}, "));
    assert!(types(&run).expect_success().contains("buy milk"));
    let checked = types(&check).expect_success();
    assert!(checked.contains("1 tool, 1 example run, 0 errors, 0 warnings"), "{checked}");
    let told = types(&format!("toolgate check {component}")).expect_failure();
    assert!(told.contains("give the files that it needs with `--workspace`"), "{told}");
}

struct Shell {
    folder: std::path::PathBuf,
    path: String,
    server: String,
    token: String,
}

struct Typed(Output);

impl Shell {
    fn new(folder: &Path, daemon: &Daemon) -> Self {
        let programs = folder.join("bin");
        fs::create_dir(&programs).expect("a folder for programs");
        symlink(PROGRAM, programs.join("toolgate")).expect("a program");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let server = format!("http://{}", daemon.address);
        Self { folder: folder.to_owned(), path, server, token: daemon.operator_token() }
    }

    /// Runs a line as a person at a terminal would, who knows nothing of the build that runs this test.
    fn types(&self, line: &str) -> Typed {
        let mut shell = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("CARGO") && name != "CARGO_HOME"
                || name.starts_with("RUST") && name != "RUSTUP_HOME"
            {
                shell.env_remove(name);
            }
        }
        // What it needs was downloaded for this workspace already, and a test needs no network.
        shell.env("CARGO_NET_OFFLINE", "true").env("PATH", &self.path);
        shell.env("TOOLGATE_SERVER", &self.server).env("TOOLGATE_TOKEN", &self.token);
        Typed(shell.current_dir(&self.folder).arg("-c").arg(line).output().expect("a shell"))
    }
}

impl Typed {
    #[track_caller]
    fn expect_success(self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&self.0.stdout), text(&self.0.stderr));
        assert!(self.0.status.success(), "{out}\n{error}");
        out
    }

    /// What it says of why.
    #[track_caller]
    fn expect_failure(self) -> String {
        assert_eq!(self.0.status.code(), Some(1), "{:?}", self.0);
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

/// The findings of `toolgate check` for a file: code and place.
#[track_caller]
fn findings(file: &[u8], status: i32) -> Vec<(String, String)> {
    findings_with(file, &[], Some(status))
}

#[track_caller]
fn findings_with(file: &[u8], options: &[&str], status: Option<i32>) -> Vec<(String, String)> {
    let ended = given("check", file, &["--json"], options);
    if status.is_some() {
        assert_eq!(ended.status.code(), status, "{}\n{}", ended.stdout, ended.stderr);
    }
    let report: Value = serde_json::from_str(&ended.stdout).expect("a report");
    let all = report["findings"].as_array().expect("findings").clone();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    for finding in &all {
        assert!(!text(finding, "message").is_empty() && !text(finding, "hint").is_empty(), "{finding}");
    }
    all.iter().map(|finding| (text(finding, "code"), text(finding, "place"))).collect()
}

/// A command that is given a plugin file, and what stands behind that.
fn given(command: &str, file: &[u8], arguments: &[&str], options: &[&str]) -> ProgramOutput {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), file).expect("a file");
    run_to_end(PROGRAM, &[&[command, "plugin.wasm"], arguments, options].concat(), folder.path())
}

/// A plugin that there is nothing to say about.
fn sound() -> PluginFile {
    PluginFile::new("sound")
        .with_tool("output_schema", json!({"type": "integer"}))
        .with_tool("examples", json!([{"input": {}, "output": 1}]))
}

#[test]
fn t11_a_sound_plugin_has_no_findings() {
    assert_eq!(findings(&sound().build(), 0), []);
}

#[test]
fn t11_each_finding_has_its_code_and_place() {
    let cases: Vec<(&str, &str, i32, Vec<u8>)> = vec![
        ("NOT_A_PLUGIN", "", 1, b"not wasm".to_vec()),
        ("NOT_A_PLUGIN", "", 1, b"\0asm\x01\0\0\0".to_vec()),
        (
            "DESCRIPTION_INVALID",
            "/tools/0/description",
            1,
            sound().with_tool("description", json!("")).build(),
        ),
        ("DESCRIPTION_INVALID", "/tools/0/usage", 1, sound().with_tool("usage", json!(" ")).build()),
        (
            "DESCRIPTION_INVALID",
            "/tools/0/input_schema",
            1,
            sound().with_tool("input_schema", json!({"type": "objekt"})).build(),
        ),
        (
            "EXAMPLE_REFUSED",
            "/tools/0/examples/0/input",
            1,
            sound().with_tool("examples", json!([{"input": {"x": 1}, "output": 1}])).build(),
        ),
        (
            "EXAMPLE_DIFFERS",
            "/tools/0/examples/0/output",
            1,
            sound().with_tool("examples", json!([{"input": {}, "output": 2}])).build(),
        ),
        ("EXAMPLE_FAILED", "/tools/0/examples/0", 1, sound().answering("\"one\"").build()),
        ("UNKNOWN_FIELD", "/colour", 0, sound().describing("colour", json!("red")).build()),
        (
            "UNDECLARED_IMPORT",
            "/capabilities",
            1,
            sound().outside(r#"(import "wasi:filesystem/types@0.2.6" (instance))"#).build(),
        ),
        (
            "UNUSED_CAPABILITY",
            "/capabilities/filesystem",
            0,
            sound().describing("capabilities", json!({"filesystem": "workspace"})).build(),
        ),
        (
            "LIMIT_WITHOUT_EFFECT",
            "/limits/fuel",
            0,
            sound().describing("limits", json!({"fuel": 1_000_000_000_001_u64})).build(),
        ),
        ("NO_EXAMPLES", "/tools/0/examples", 0, sound().with_tool("examples", json!([])).build()),
        (
            "NO_OUTPUT_SCHEMA",
            "/tools/0/output_schema",
            0,
            sound().with_tool("output_schema", Value::Null).build(),
        ),
        (
            "OPEN_INPUT",
            "/tools/0/input_schema",
            0,
            sound().with_tool("input_schema", json!({"type": "object", "properties": {}})).build(),
        ),
        ("NO_PURPOSE", "/purpose", 0, sound().describing("purpose", Value::Null).build()),
        ("NO_PUBLISHER", "/publisher", 0, sound().describing("publisher", Value::Null).build()),
    ];
    for (code, place, status, file) in cases {
        let found = findings(&file, status);
        assert_eq!(found, [(code.to_owned(), place.to_owned())], "{code}");
    }
}

/// Its examples fail too, without a word of why.
#[test]
fn t11_a_limit_with_which_nothing_runs_is_found() {
    let found = findings(&sound().describing("limits", json!({"fuel": 0})).build(), 1);
    assert!(found.contains(&("NOTHING_RUNS".to_owned(), "/limits/fuel".to_owned())), "{found:?}");
}

/// The way out is for the author, and not for one who calls a tool.
#[test]
fn t11_a_plugin_that_crashes_before_it_describes_itself_is_told_how_to() {
    const DESCRIBE: &str = r#"(func (export "describe") (result i32)"#;
    let crashing = sound().text().replace(DESCRIBE, &format!("{DESCRIBE} (unreachable)"));
    let ended = given("check", &assemble(&crashing), &[], &[]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let says = |text: &str| ended.stderr.contains(text);
    assert!(says("DESCRIBE_FAILED at the file") && says("make `describe` "), "{}", ended.stderr);
    assert!(!says("try other arguments"), "{}", ended.stderr);
}

/// Not of a plugin that would not see them, and not where they were given.
/// A hash map has another order in each call, and the same in each of a check that has one seed.
#[test]
fn t11_an_example_whose_output_hangs_on_chance_is_told() {
    let told = findings_with(guests::HOSTILE, &[], None);
    let place = ("EXAMPLE_BY_CHANCE".to_owned(), "/tools/17/examples/0/output".to_owned());
    assert!(told.contains(&place), "{told:?}");
    // By itself it is sound: what it answers is a number.
    let drawn = given("run", guests::HOSTILE, &["hostile/draw"], &[]);
    assert!(drawn.stdout.trim().parse::<u8>().is_ok(), "{}", drawn.stdout);
}

#[test]
fn t11_files_are_asked_for_where_they_can_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = ["--workspace", folder.path().to_str().expect("text")];
    let files = json!({"filesystem": "workspace"});
    let [without, with] =
        [sound(), sound().describing("capabilities", files)].map(|file| file.answering("\"one\""));
    let told = |file: &PluginFile, options: &[&str]| {
        let ended = given("check", &file.build(), &[], options);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
        ended.stderr.contains("give the files that it needs with `--workspace`")
    };
    assert!(told(&with, &[]));
    assert!(!told(&with, &workspace) && !told(&without, &[]) && !told(&without, &workspace));
}

#[test]
fn t11_a_folder_that_the_plugin_does_not_ask_for_is_said_to_be_unused() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = ["--workspace", folder.path().to_str().expect("text")];
    let files = sound().describing("capabilities", json!({"filesystem": "workspace"})).build();
    let unused = ("UNUSED_WORKSPACE".to_owned(), "/capabilities/filesystem".to_owned());
    assert_eq!(findings_with(&sound().build(), &workspace, Some(0)), std::slice::from_ref(&unused));
    assert!(!findings_with(&files, &workspace, Some(0)).contains(&unused));

    let refused = given("run", &sound().build(), &["answer"], &workspace);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("`capabilities(filesystem = workspace)` in `plugin!`"),
        "{}",
        refused.stderr
    );
    let ended = given("run", &files, &["answer"], &workspace);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "1\n"), "{}", ended.stderr);
}

/// Whatever the plugin asks for.
#[test]
fn what_is_named_as_the_workspace_has_to_be_a_folder() {
    let files = sound().describing("capabilities", json!({"filesystem": "workspace"})).build();
    for plugin in [&sound().build(), &files] {
        for (command, arguments) in [("run", &["answer"][..]), ("check", &[])] {
            for named in ["missing", "plugin.wasm"] {
                let ended = given(command, plugin, arguments, &["--workspace", named]);
                assert_eq!(ended.status.code(), Some(1), "{command} {named}: {}", ended.stdout);
                let says = |text: &str| ended.stderr.contains(text);
                assert!(says(&format!("`{named}`")) && says("`--workspace`"), "{command}: {}", ended.stderr);
            }
        }
    }
}

/// The copy of a folder that holds the place for copies has no end.
#[test]
fn a_folder_that_cannot_be_copied_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), sound().build()).expect("a file");
    fs::create_dir(folder.path().join("ws")).expect("a folder");
    let check = |temporary: &Path| {
        let place = [("TMPDIR", temporary.to_str().expect("text"))];
        run_to_end_in(PROGRAM, &["check", "plugin.wasm", "--workspace", "ws"], folder.path(), &place)
    };
    let ended = check(&folder.path().join("ws"));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let says = |text: &str| ended.stderr.contains(text);
    assert!(says("`ws` cannot be copied") && says("`TMPDIR`"), "{}", ended.stderr);
    assert_eq!(check(folder.path()).status.code(), Some(0));
}

/// What we ask of others holds for our own: each example of each built-in tool is run here.
#[test]
fn t7_the_built_in_plugins_pass_their_own_check() {
    assert!(guests::BUILT_IN.len() >= 4);
    // Those that make plugins of definitions are none without one.
    let plugins = guests::BUILT_IN.iter().filter(|plugin| !matches!(plugin.name, "api" | "mcp"));
    for Embedded { name, component, .. } in plugins {
        let errors = findings_with(component, &[], None);
        // The examples of `files` and `http` speak of files and of a web that only their own tests make up.
        let errors: Vec<_> = errors
            .into_iter()
            .filter(|(code, _)| !matches!(*name, "files" | "http") || !code.starts_with("EXAMPLE_"))
            .collect();
        assert_eq!(errors, [], "{name}");
    }
}

#[test]
fn run_shows_the_result_and_what_it_took() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), sound().build()).expect("a file");
    let run = |arguments: &[&str]| {
        run_to_end(PROGRAM, &[&["run", "plugin.wasm"], arguments].concat(), folder.path())
    };
    let ended = run(&["answer"]);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "1\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("fuel"), "{}", ended.stderr);
    let ended = run(&["sound/answer", "{}", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&report["status"], &report["output"]), (&json!("ok"), &json!(1)), "{report}");
    let undeclared = sound().outside(r#"(import "wasi:filesystem/types@0.2.6" (instance))"#).build();
    let ended = given("run", &undeclared, &["answer"], &[]);
    assert_eq!(ended.status.code(), Some(1), "no daemon loads it: {}", ended.stdout);
    assert!(ended.stderr.contains("does not ask for"), "{}", ended.stderr);
    for (arguments, code) in [
        (&["answer", "{\"x\":1}"][..], "INVALID_ARGUMENTS"),
        (&["nothing"], "TOOL_NOT_FOUND"),
        (&["answer", "{}", "--limit", "fuel=1"], "FUEL_EXHAUSTED"),
    ] {
        let ended = run(arguments);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains(code), "{}", ended.stderr);
    }
    let limited = |most: &str| run(&["answer", "{}", "--limit", &format!("deadline_ms={most}")]);
    assert_eq!(limited("600_000").status.code(), Some(0));
    let refused = limited("600_001");
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("no operator can give more than 600000"), "{}", refused.stderr);
}
