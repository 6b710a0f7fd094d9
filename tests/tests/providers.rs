//! The providers' own client libraries against a real daemon (R1, M3): their types take our lists and answers, and their
//! clients carry a conversation with tools from end to end, with a small server that plays the model.
//!
//! The libraries are installed by `.ci/run`, beside what cargo builds. Without them this says so and passes.

#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use toolgate_tests::{Daemon, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate-under-test");

/// Where `.ci/run` puts the libraries: beside the folder of the profile that this program was built with.
fn installed(what: &str) -> Option<PathBuf> {
    let target = Path::new(PROGRAM).parent()?.parent()?;
    Some(target.join("providers").join(what)).filter(|path| path.exists())
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(name)
}

#[test]
fn r1_m3_the_providers_own_libraries_take_lists_and_answers_and_carry_a_conversation() {
    let (Some(python), Some(node)) = (installed("python/bin/python"), installed("node")) else {
        eprintln!("the providers' libraries are not installed (see `.ci/run`): nothing was tried");
        return;
    };
    let daemon = Daemon::start(PROGRAM, "");
    let operator = daemon.operator();
    operator.make_agent("acme/bot", &json!({"enabled": ["arithmetic/*", "text/*", "files/*", "user/ask"]}));
    let run = |program: &Path, script: &Path, folder: &Path| {
        let done = Command::new(program)
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
