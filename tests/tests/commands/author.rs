//! A plugin author's first steps: the commands in the README of a new plugin, and the findings of `toolgate check`.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use toolgate_tests::component::assemble;
use toolgate_tests::daemon::{ProgramOutput, run_to_end, run_to_end_in};
use toolgate_tests::guests::Embedded;
use toolgate_tests::shell::{Shell, commands, guide_commands};
use toolgate_tests::{Daemon, PluginFile, guests, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// T2, T11: from `toolgate new` to a call over HTTP, with the commands of the README.
#[test]
fn every_command_in_the_readme_of_a_new_plugin_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(PROGRAM, "[consent]\nrequired = true");
    let shell = Shell::new(PROGRAM, folder.path(), &daemon);
    shell.run("toolgate new my-weather").expect_success();
    let readme = fs::read_to_string(folder.path().join("my-weather/README.md")).expect("a README");
    let commands = commands(&readme);
    assert!(commands.len() >= 8, "{readme}");
    // The guide of Rust shows the same commands.
    let guide = guide_commands("Rust");
    assert!(guide.len() >= 6, "{guide:?}");
    for command in guide.iter().filter(|command| !commands.contains(command)) {
        assert!(["toolgate new my-weather", "cd my-weather"].contains(command), "{command}");
    }
    let outputs: Vec<String> = commands
        .iter()
        .map(|command| shell.run(&format!("cd my-weather && {command}")).expect_success())
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
    // A second `new` does not overwrite the project.
    let again = shell.run("toolgate new my-weather");
    assert_eq!(again.0.status.code(), Some(1));
    let built = shell.run("cd my-weather && toolgate dev --load").expect_success();
    for part in ["1 tool, 1 example run, 0 errors", "call_my-weather_greet"] {
        assert!(built.contains(part), "{built}");
    }
    assert!(folder.path().join("my-weather/target/wasm32-wasip2/fast/my_weather.wasm").exists());
    assert_file_access_as_documented(&shell, &readme);
}

/// T2, T11: file access, first without the capability, then with the capability that the README shows.
fn assert_file_access_as_documented(shell: &Shell, readme: &str) {
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
    let in_plugin = |line: &str| shell.run(&format!("cd my-weather && {line}"));
    let build = |facts: &str| {
        fs::write(&source, format!("{READS}\nplugin!(\"my-weather\", {facts}publisher = \"me\", read);"))
            .expect("a source");
        in_plugin("cargo build --target wasm32-wasip2 --release").expect_success();
    };
    fs::create_dir(shell.folder.join("notes")).expect("a folder");
    fs::write(shell.folder.join("notes/today.txt"), "buy milk").expect("a note");
    let asking =
        readme.split('`').find(|code| code.starts_with("capabilities(filesystem")).expect("how to ask");

    build("");
    for line in [&run, &check] {
        let output = in_plugin(line).expect_failure();
        assert!(
            output.contains("ask for `filesystem` in the plugin's `capabilities`, as its README shows"),
            "{line}: {output}"
        );
    }
    build(&format!("{asking}, "));
    assert!(in_plugin(&run).expect_success().contains("buy milk"));
    let checked = in_plugin(&check).expect_success();
    assert!(checked.contains("1 tool, 1 example run, 0 errors, 0 warnings"), "{checked}");
    let output = in_plugin(&format!("toolgate check {component}")).expect_failure();
    assert!(output.contains("give the files that it needs with `--workspace`"), "{output}");
}

/// Runs `toolgate check` on a file, and returns code and place of each finding.
#[track_caller]
fn findings(file: &[u8], status: i32) -> Vec<(String, String)> {
    findings_with(file, &[], Some(status))
}

#[track_caller]
fn findings_with(file: &[u8], options: &[&str], status: Option<i32>) -> Vec<(String, String)> {
    let ended = run_on_plugin("check", file, &["--json"], options);
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

/// Runs a command on a plugin file.
fn run_on_plugin(command: &str, file: &[u8], arguments: &[&str], options: &[&str]) -> ProgramOutput {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), file).expect("a file");
    run_to_end(PROGRAM, &[&[command, "plugin.wasm"], arguments, options].concat(), folder.path())
}

/// Plugin without findings.
fn valid_plugin() -> PluginFile {
    PluginFile::new("sound")
        .with_tool("output_schema", json!({"type": "integer"}))
        .with_tool("examples", json!([{"input": {}, "output": 1}]))
}

#[test]
fn t11_a_valid_plugin_has_no_findings() {
    assert_eq!(findings(&valid_plugin().build(), 0), []);
}

#[test]
fn t11_each_finding_has_its_code_and_place() {
    let plugin = |member: &str, value: Value| valid_plugin().with_member(member, value).build();
    let tool = |member: &str, value: Value| valid_plugin().with_tool(member, value).build();
    let undeclared = r#"(import "wasi:filesystem/types@0.2.6" (instance))"#;
    let open = json!({"type": "object", "properties": {}});
    let cases: Vec<(&str, &str, i32, Vec<u8>)> = vec![
        ("NOT_A_PLUGIN", "", 1, b"not wasm".to_vec()),
        ("NOT_A_PLUGIN", "", 1, b"\0asm\x01\0\0\0".to_vec()),
        ("DESCRIPTION_INVALID", "/tools/0/description", 1, tool("description", json!(""))),
        ("DESCRIPTION_INVALID", "/tools/0/usage", 1, tool("usage", json!(" "))),
        ("DESCRIPTION_INVALID", "/tools/0/input_schema", 1, tool("input_schema", json!({"type": "objekt"}))),
        (
            "EXAMPLE_REFUSED",
            "/tools/0/examples/0/input",
            1,
            tool("examples", json!([{"input": {"x": 1}, "output": 1}])),
        ),
        (
            "EXAMPLE_DIFFERS",
            "/tools/0/examples/0/output",
            1,
            tool("examples", json!([{"input": {}, "output": 2}])),
        ),
        ("EXAMPLE_FAILED", "/tools/0/examples/0", 1, valid_plugin().with_result("\"one\"").build()),
        ("UNKNOWN_FIELD", "/colour", 0, plugin("colour", json!("red"))),
        ("UNDECLARED_IMPORT", "/capabilities", 1, valid_plugin().with_outer(undeclared).build()),
        (
            "UNUSED_CAPABILITY",
            "/capabilities/filesystem",
            0,
            plugin("capabilities", json!({"filesystem": "workspace"})),
        ),
        ("LIMIT_WITHOUT_EFFECT", "/limits/fuel", 0, plugin("limits", json!({"fuel": 1_000_000_000_001_u64}))),
        ("NO_EXAMPLES", "/tools/0/examples", 0, tool("examples", json!([]))),
        ("NO_OUTPUT_SCHEMA", "/tools/0/output_schema", 0, tool("output_schema", Value::Null)),
        ("OPEN_INPUT", "/tools/0/input_schema", 0, tool("input_schema", open)),
        ("NO_PURPOSE", "/purpose", 0, plugin("purpose", Value::Null)),
        ("NO_PUBLISHER", "/publisher", 0, plugin("publisher", Value::Null)),
    ];
    for (code, place, status, file) in cases {
        let found = findings(&file, status);
        assert_eq!(found, [(code.to_owned(), place.to_owned())], "{code}");
    }
}

/// Without the other random numbers, the order of a hash map is the same in each instance.
#[test]
fn t11_a_description_that_depends_on_random_numbers_is_found() {
    const MARK: &str = "QQQQQQQQ";
    let importing = r#"
        (import "wasi:random/insecure@0.2.6"
          (instance $random (export "get-insecure-random-u64" (func (result u64)))))
        (alias export $random "get-insecure-random-u64" (func $get))
        (core func $draw (canon lower (func $get)))"#;
    let text = valid_plugin().with_member("purpose", json!(MARK)).with_outer(importing).text();
    let (_, data) = text.split_once("(data (i32.const 4096) \"").expect("the data");
    let at = 4096 + data.find(&"\\51".repeat(MARK.len())).expect("the mark") / 3;
    let draws = text
        .replace("(memory (export", "(import \"host\" \"draw\" (func $draw (result i64)))\n(memory (export")
        .replace(
            "(instantiate $plugin))",
            "(instantiate $plugin (with \"host\" (instance (export \"draw\" (func $draw))))))",
        );
    assert_eq!(findings(&assemble(&draws), 0), [], "the import alone");
    // Eight of the signs `` ` `` to `o` over the mark.
    let sign =
        "(i64.or (i64.const 0x6060606060606060) (i64.and (i64.const 0x0f0f0f0f0f0f0f0f) (call $draw)))";
    let describe = r#"(func (export "describe") (result i32)"#;
    let varying = draws.replace(describe, &format!("{describe} (i64.store (i32.const {at}) {sign})"));
    assert_eq!(findings(&assemble(&varying), 1), [("DESCRIPTION_VARIES".to_owned(), String::new())]);
}

#[test]
fn t11_a_name_that_no_call_can_have_and_a_function_that_is_no_tool_are_found() {
    for (file, place) in [
        (valid_plugin().with_member("name", json!("My_Plugin")), "/name"),
        (valid_plugin().with_tool("name", json!("getWeather")), "/tools/0/name"),
    ] {
        assert_eq!(findings(&file.build(), 1), [("DESCRIPTION_INVALID".to_owned(), place.to_owned())]);
    }
    // Who uses a component of functions may not be its author: nothing is said of texts.
    let left_out = findings_with(guests::PLAIN, &[], None);
    assert!(!left_out.is_empty(), "{left_out:?}");
    assert!(left_out.iter().all(|(code, _)| code == "FUNCTION_LEFT_OUT"), "{left_out:?}");
}

/// B5: runtimes of scripting languages import what their plugins do not use.
#[test]
fn b5_an_import_is_asked_for_or_declared_unused() {
    let importing = r#"(import "wasi:filesystem/types@0.2.6" (instance))"#;
    let found = |unused: Value, status| {
        let file =
            valid_plugin().with_outer(importing).with_member("capabilities", json!({"unused": unused}));
        findings(&file.build(), status).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    assert_eq!(found(json!(["filesystem"]), 0), [""; 0]);
    assert_eq!(found(json!(["filesystem", "network"]), 0), ["UNUSED_DECLARATION"]);
    assert_eq!(found(json!(["network"]), 1), ["UNDECLARED_IMPORT", "UNUSED_DECLARATION"]);
    assert_eq!(found(json!(["sockets"]), 1), ["DESCRIPTION_INVALID"]);
    let declared = json!({"unused": ["filesystem"]});
    let file = valid_plugin().with_outer(importing).with_member("capabilities", declared).build();
    let ended = run_on_plugin("check", &file, &[], &[]);
    let said = "its runtime imports filesystem, unused: nothing is asked for";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let asked = json!({"filesystem": "workspace", "unused": ["filesystem"]});
    let file = valid_plugin().with_outer(importing).with_member("capabilities", asked).build();
    let place = "/capabilities/unused/0".to_owned();
    assert_eq!(findings(&file, 0), [("UNUSED_DECLARATION".to_owned(), place)]);
}

/// The examples fail as well, without naming the cause.
#[test]
fn t11_a_limit_below_every_call_is_found() {
    let found = findings(&valid_plugin().with_member("limits", json!({"fuel": 0})).build(), 1);
    assert!(found.contains(&("NOTHING_RUNS".to_owned(), "/limits/fuel".to_owned())), "{found:?}");
}

/// Without examples, only this run finds it before a call fails.
#[test]
fn t11_a_component_none_of_whose_calls_can_start_is_found() {
    let plugin = |memory_bytes: u32| {
        let file = valid_plugin().with_tool("examples", json!([]));
        file.with_member("limits", json!({"memory_bytes": memory_bytes})).build()
    };
    let no_examples = ("NO_EXAMPLES".to_owned(), "/tools/0/examples".to_owned());
    assert_eq!(findings(&plugin(1 << 20), 0), std::slice::from_ref(&no_examples));
    let nothing_starts = ("NOTHING_STARTS".to_owned(), String::new());
    assert_eq!(findings(&plugin(1 << 10), 1), [nothing_starts, no_examples]);
}

#[test]
fn t11_examples_run_with_the_settings_and_the_credential_that_they_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("a file");
        folder.path().join(name).display().to_string()
    };
    let document = json!({"provider": "shop", "kind": "bearer", "bound_to": [{"host": "shop.example"}]});
    let credential = write("shop.json", &document.to_string());
    let secret = write("secret", "s3cret-token\n");
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string"}}, "required": ["region"]});
    let settings = valid_plugin().with_member("config_schema", schema).build();
    let credentials = valid_plugin().with_member("capabilities", json!({"credentials": ["shop"]})).build();
    let not_run = [("EXAMPLE_NOT_RUN".to_owned(), "/tools/0/examples/0".to_owned())];
    for (file, options, wrong) in [
        (settings, &["--settings", r#"{"region": "eu"}"#][..], &["--settings", r#"{"region": 1}"#][..]),
        (
            credentials,
            &["--credential", &credential, "--secret-file", &secret],
            &["--credential", &secret, "--secret-file", &secret],
        ),
    ] {
        assert_eq!(findings(&file, 0), not_run);
        assert_eq!(findings_with(&file, options, Some(0)), []);
        let refused = run_on_plugin("check", &file, &[], wrong);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
    }
    let alone = run_on_plugin("check", &valid_plugin().build(), &[], &["--secret-file", &secret]);
    assert_eq!(alone.status.code(), Some(2), "{}", alone.stderr);
    assert!(alone.stderr.contains("add `--credential FILE`"), "{}", alone.stderr);
}

/// The hint addresses the author, not a caller of the tool.
#[test]
fn t11_a_crash_in_describe_gets_a_hint_for_the_author() {
    const DESCRIBE: &str = r#"(func (export "describe") (result i32)"#;
    let crashing = valid_plugin().text().replace(DESCRIBE, &format!("{DESCRIBE} (unreachable)"));
    let ended = run_on_plugin("check", &assemble(&crashing), &[], &[]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let says = |text: &str| ended.stderr.contains(text);
    assert!(says("DESCRIBE_FAILED at the file") && says("make `describe` "), "{}", ended.stderr);
    assert!(!says("try other arguments"), "{}", ended.stderr);
}

/// A random example gets a new result in each run, so the check runs with more than one seed.
#[test]
fn t11_an_example_with_random_output_is_found() {
    let output = findings_with(guests::HOSTILE, &[], None);
    let by_chance: Vec<_> = output.iter().filter(|(code, _)| code == "EXAMPLE_BY_CHANCE").collect();
    assert!(matches!(by_chance[..], [(_, place)] if place.ends_with("/examples/0/output")), "{output:?}");
    // The tool itself is valid: it returns a number.
    let drawn = run_on_plugin("run", guests::HOSTILE, &["hostile/draw"], &[]);
    assert!(drawn.stdout.trim().parse::<u8>().is_ok(), "{}", drawn.stdout);
}

#[test]
fn t11_a_failed_example_asks_for_workspace_only_with_the_capability() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = ["--workspace", folder.path().to_str().expect("text")];
    let files = json!({"filesystem": "workspace"});
    let [without, with] = [valid_plugin(), valid_plugin().with_member("capabilities", files)]
        .map(|file| file.with_result("\"one\""));
    let output = |file: &PluginFile, options: &[&str]| {
        let ended = run_on_plugin("check", &file.build(), &[], options);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
        ended.stderr.contains("give the files that it needs with `--workspace`")
    };
    assert!(output(&with, &[]));
    assert!(!output(&with, &workspace) && !output(&without, &[]) && !output(&without, &workspace));
}

#[test]
fn t11_a_workspace_without_the_capability_is_reported_as_unused() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = ["--workspace", folder.path().to_str().expect("text")];
    let files = valid_plugin().with_member("capabilities", json!({"filesystem": "workspace"})).build();
    let unused = ("UNUSED_WORKSPACE".to_owned(), "/capabilities/filesystem".to_owned());
    assert_eq!(findings_with(&valid_plugin().build(), &workspace, Some(0)), std::slice::from_ref(&unused));
    assert!(!findings_with(&files, &workspace, Some(0)).contains(&unused));

    let refused = run_on_plugin("run", &valid_plugin().build(), &["answer"], &workspace);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("ask for `filesystem` in the plugin's `capabilities`"),
        "{}",
        refused.stderr
    );
    let ended = run_on_plugin("run", &files, &["answer"], &workspace);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "1\n"), "{}", ended.stderr);
}

#[test]
fn t11_an_author_is_told_how_to_raise_a_limit() {
    let ended = run_on_plugin("run", &valid_plugin().build(), &["answer"], &["--limit", "fuel=1"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    for part in ["FUEL_EXHAUSTED", "`--limit NAME=VALUE`", "the plugin's `limits` for every call"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[test]
fn c5_a_plugin_runs_with_settings_that_it_takes() {
    let run =
        |settings: &str| run_on_plugin("run", guests::CONFIGURED, &["settings"], &["--settings", settings]);
    let ended = run(r#"{"region": "eu", "retries": 2}"#);
    let output: Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    assert_eq!(output, json!({"region": "eu", "retries": 2, "pin": null}));
    for settings in [r#"{"regoin": "eu"}"#, r#"{"retries": 99}"#, "{"] {
        let refused = run(settings);
        assert_eq!(refused.status.code(), Some(1), "{settings}: {}", refused.stdout);
        assert!(refused.stderr.contains("config_schema"), "{settings}: {}", refused.stderr);
    }
    let none = run_on_plugin("run", &valid_plugin().build(), &["answer"], &["--settings", "{}"]);
    assert!(none.stderr.contains("has no settings"), "{}", none.stderr);
}

/// Holds with and without the filesystem capability.
#[test]
fn the_workspace_must_be_a_folder() {
    let files = valid_plugin().with_member("capabilities", json!({"filesystem": "workspace"})).build();
    for plugin in [&valid_plugin().build(), &files] {
        for (command, arguments) in [("run", &["answer"][..]), ("check", &[])] {
            for named in ["missing", "plugin.wasm"] {
                let ended = run_on_plugin(command, plugin, arguments, &["--workspace", named]);
                assert_eq!(ended.status.code(), Some(1), "{command} {named}: {}", ended.stdout);
                let says = |text: &str| ended.stderr.contains(text);
                assert!(says(&format!("`{named}`")) && says("`--workspace`"), "{command}: {}", ended.stderr);
            }
        }
    }
}

/// A copy into the copied folder would never end.
#[test]
fn a_folder_that_cannot_be_copied_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = valid_plugin().with_member("capabilities", json!({"filesystem": "workspace"})).build();
    fs::write(folder.path().join("plugin.wasm"), files).expect("a file");
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

/// T7: the built-in plugins pass `toolgate check`, with every example.
#[test]
fn t7_the_built_in_plugins_pass_the_check() {
    assert!(guests::BUILT_IN.len() >= 4);
    // Plugins that read definitions have no tools without one.
    let plugins = guests::BUILT_IN.iter().filter(|plugin| !matches!(plugin.name, "api" | "mcp"));
    for Embedded { name, component, .. } in plugins {
        let errors = findings_with(component, &[], None);
        // The examples of these need files, servers and agents of their own tests.
        let errors: Vec<_> = errors
            .into_iter()
            .filter(|(code, _)| {
                !matches!(*name, "files" | "http" | "messages") || !code.starts_with("EXAMPLE_")
            })
            .collect();
        assert_eq!(errors, [], "{name}");
    }
}

/// The code is authenticated as in a daemon, and a cache that cannot be used costs nothing but time.
#[test]
fn compiled_code_is_kept_in_the_users_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), valid_plugin().build()).expect("a file");
    let run = |cache: &Path| {
        let state = folder.path().join("state");
        let variables = [("XDG_CACHE_HOME", cache), ("XDG_STATE_HOME", &state)];
        let variables = variables.map(|(name, path)| (name, path.to_str().expect("text")));
        let ended = run_to_end_in(PROGRAM, &["run", "plugin.wasm", "answer"], folder.path(), &variables);
        assert_eq!(ended.stdout, "1\n", "{}", ended.stderr);
    };
    let cache = folder.path().join("cache");
    run(&cache);
    let engine =
        fs::read_dir(cache.join("toolgate")).expect("a folder").next().expect("an engine").expect("a folder");
    let code = fs::read_dir(engine.path()).expect("a folder").next().expect("code").expect("a file").path();
    let compiled = fs::read(&code).expect("code");
    fs::write(&code, vec![0; compiled.len()]).expect("a damaged file");
    run(&cache);
    assert_ne!(fs::read(&code).expect("code"), vec![0; compiled.len()], "it is compiled again");
    run(Path::new("/dev/null/cache"));
}

#[test]
fn run_shows_the_result_and_its_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.wasm"), valid_plugin().build()).expect("a file");
    let run = |arguments: &[&str]| {
        run_to_end(PROGRAM, &[&["run", "plugin.wasm"], arguments].concat(), folder.path())
    };
    let ended = run(&["answer"]);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), "1\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("fuel"), "{}", ended.stderr);
    let ended = run(&["sound/answer", "{}", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&report["status"], &report["output"]), (&json!("ok"), &json!(1)), "{report}");
    let undeclared =
        valid_plugin().with_outer(r#"(import "wasi:filesystem/types@0.2.6" (instance))"#).build();
    let ended = run_on_plugin("run", &undeclared, &["answer"], &[]);
    assert_eq!(ended.status.code(), Some(1), "a daemon would refuse it: {}", ended.stdout);
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
