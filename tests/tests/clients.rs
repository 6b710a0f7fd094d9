//! Real clients against a daemon (M1 to M4, R1): clients of MCP, agent frameworks, and the libraries of model providers. The
//! bench fills a row of `daemon/docs/clients.md` for each. A small server plays the models.
//!
//! `.ci/run` installs the clients. Without them, cargo shows the tests as ignored.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

#[path = "clients/page.rs"]
mod page;
#[path = "clients/bench.rs"]
mod bench;
#[path = "clients/approvals.rs"]
mod approvals;

use std::path::{Path, PathBuf};

use bench::{Bench, Driver};
use toolgate_tests::{Daemon, Value, json, process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// A test for each client, so that one that fails is named.
macro_rules! clients {
    ($($test:ident: $name:literal, $environment:literal, $script:literal, $argument:literal;)*) => {
        const DRIVERS: &[Driver] = &[$(
            Driver { name: $name, environment: $environment, script: $script, argument: $argument },
        )*];
        $(
            #[test]
            #[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
            fn $test() {
                fill_row($name);
            }
        )*
    };
}

clients! {
    m2_m4_the_bench_of_mcp_2: "`mcp` 2, `auto`", "mcp-2", "bench_mcp_2.py", "auto";
    m2_m4_the_bench_of_mcp_2_with_older_revisions: "`mcp` 2, `legacy`", "mcp-2", "bench_mcp_2.py", "legacy";
    m2_m4_the_bench_of_mcp_1: "`mcp` 1", "mcp-1", "bench_mcp_1.py", "";
    m2_m4_the_bench_of_fastmcp: "`fastmcp`, `auto`", "mcp-2", "bench_fastmcp.py", "auto";
    m2_m4_the_bench_of_fastmcp_with_older_revisions: "`fastmcp`, `legacy`", "mcp-2", "bench_fastmcp.py", "legacy";
    m2_m4_the_bench_of_langchain: "`langchain-mcp-adapters`, LangGraph", "mcp-1", "bench_langchain.py", "";
    m2_m4_the_bench_of_pydantic_ai: "`pydantic-ai`", "mcp-2", "bench_pydantic_ai.py", "";
    m2_m4_the_bench_of_openai_agents_with_chat: "`openai-agents`, chat", "mcp-2", "bench_openai_agents.py", "chat";
    m2_m4_the_bench_of_openai_agents_with_responses: "`openai-agents`, responses", "mcp-2", "bench_openai_agents.py", "responses";
    m2_m4_the_bench_of_the_typescript_sdk: "`@modelcontextprotocol/sdk`", "node", "bench_sdk.mjs", "";
    m2_m4_the_bench_of_ai_6: "`ai` 6", "node", "bench_ai.mjs", "6";
    m2_m4_the_bench_of_ai_7: "`ai` 7", "node", "bench_ai.mjs", "7";
    m2_m4_the_bench_of_the_inspector: "Inspector, `--cli`", "node", "bench_inspector.mjs", "";
    m2_m4_the_bench_of_mcp_remote: "`mcp-remote`", "node", "bench_sdk.mjs", "mcp-remote";
    m2_m4_the_bench_of_the_bridge: "`toolgate mcp --stdio`", "node", "bench_sdk.mjs", "toolgate";
    m1_m3_m4_r1_the_bench_of_openai: "Python client, `openai`", "mcp-1", "bench_python_client.py", "openai";
    m1_m3_m4_r1_the_bench_of_anthropic: "Python client, `anthropic`", "mcp-1", "bench_python_client.py", "anthropic";
    m1_m3_m4_r1_the_bench_of_google_genai: "Python client, `google-genai`", "mcp-1", "bench_python_client.py", "google-genai";
    m1_m3_m4_r1_the_bench_of_litellm: "Python client, `litellm`", "mcp-1", "bench_python_client.py", "litellm";
}

/// Runs the driver of this name, and compares its row.
fn fill_row(name: &str) {
    let driver = DRIVERS.iter().find(|driver| driver.name == name).expect("a driver");
    Bench::start().run(driver).compare_with_page(name);
}

#[test]
fn m2_the_page_of_clients_has_a_row_for_each_driver() {
    let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
    assert_eq!(names, page::names());
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

#[test]
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn r1_m3_the_providers_libraries_accept_tool_lists_and_results() {
    let installed = |path: &str| process::find_installed(PROGRAM, &format!("clients/{path}"));
    let (python, node) = (installed("mcp-1/bin/python"), installed("node"));
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
#[cfg_attr(not(has = "clients"), ignore = "needs the clients, which `.ci/run` installs")]
fn m3_the_installed_python_client_and_the_programs_of_the_cookbook_run() {
    let python = process::find_installed(PROGRAM, "clients/mcp-1/bin/python");
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
    // The package is built and installed, so that what it lacks is missed here.
    let installed = daemon.folder.path().join("installed");
    let options =
        ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"];
    let done = process::external_command(&python)
        .args(["-m", "pip", "install"])
        .args(options)
        .arg("--target")
        .args([&installed, &workspace.join("daemon/clients/python")])
        .output()
        .expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for (name, subject) in
        [("python_client.py", "tests/golden/openapi.json"), ("cookbook.py", "daemon/docs/cookbook.md")]
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
            .env("PYTHONPATH", &installed)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .expect("the program runs");
        let text = [String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)].concat();
        assert!(done.status.success(), "{name}: {text}");
    }
}
