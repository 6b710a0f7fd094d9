//! Client libraries of the model providers against a real daemon (R1, M3): their types accept the tool lists and
//! results, and their clients complete a conversation with tools. The Python client and the programs of the cookbook run
//! with them and with agent frameworks. A small server plays the model.
//!
//! `.ci/run` installs the libraries. Without them, the test prints a note and passes.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::path::{Path, PathBuf};

use toolgate_tests::{Daemon, Value, json, process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(name)
}

#[test]
#[cfg_attr(not(has = "providers"), ignore = "needs the providers' clients, which `.ci/run` installs")]
fn r1_m3_the_providers_libraries_accept_tool_lists_and_results() {
    let installed = |path: &str| process::find_installed(PROGRAM, &format!("providers/{path}"));
    let (python, node) = (installed("python/bin/python"), installed("node"));
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["arithmetic/*", "text/*", "files/*", "user/ask"]}));
    let run = |program: &Path, script: &Path, folder: &Path| {
        let done = process::external_command(program)
            .arg(script)
            .current_dir(folder)
            .env("TOOLGATE_ADDRESS", format!("http://{}", daemon.address))
            .env("TOOLGATE_TOKEN", daemon.operator_token())
            .env("TOOLGATE_AGENT", "acme/bot")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the program runs");
        let text = [String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)].concat();
        assert!(done.status.success(), "{}: {text}", script.display());
    };
    run(&python, &script("models.py"), daemon.folder.path());
    for name in ["gemini.mjs", "types.mjs"] {
        run(Path::new("node"), &script(name), &node);
    }
}

#[test]
#[cfg_attr(not(has = "providers"), ignore = "needs the providers' clients, which `.ci/run` installs")]
fn the_python_client_and_the_programs_of_the_cookbook_run() {
    let python = process::find_installed(PROGRAM, "providers/python/bin/python");
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.load_confirmed("hostile", toolgate_tests::guests::HOSTILE);
    let document = json!({
        "enabled": ["arithmetic/*", "files/*", "user/ask", "hostile/rest"],
        "autonomy": "supervised",
        "require_approval_for": ["files/write"],
    });
    operator.make_agent("acme/helper", &document);
    let token = |request: Value| operator.with_new_token(&request).token.expect("a new token");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, subject) in
        [("client.py", "tests/golden/openapi.json"), ("cookbook.py", "daemon/docs/cookbook.md")]
    {
        let done = process::external_command(&python)
            .args([script(name), workspace.join(subject)])
            .current_dir(daemon.folder.path())
            .env("TOOLGATE_SERVER", format!("http://{}", daemon.address))
            .env("TOOLGATE_TOKEN", token(json!({"role": "orchestrator", "organization": "acme"})))
            .env("TOOLGATE_APPROVER_TOKEN", token(json!({"role": "approver", "organization": "acme"})))
            .env(
                "TOOLGATE_AGENT_TOKEN",
                token(json!({"role": "agent", "organization": "acme", "agents": ["helper"]})),
            )
            .env("PYTHONPATH", workspace.join("daemon/clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the program runs");
        let text = [String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)].concat();
        assert!(done.status.success(), "{name}: {text}");
    }
}
