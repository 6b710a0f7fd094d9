//! A shell over the files of the session's workspace.
//!
//! Everything runs in this component: commands are functions over streams (`call`), a pipeline runs its stages one after
//! the other over buffers (`execute`), and a subshell is a copy of the state (`shell`). No process is started. Depth, pipes
//! and output have limits; a script that computes without end is stopped by the fuel of its call.
//!
//! The code is our own. bashkit 0.20.2 (MIT) was tried in its place, with its feature `jq`: it compiles for `wasm32-wasip2`, without its
//! files on disk, but 18 of the 196 scripts of `tests/table.rs` end otherwise (options of `diff`, `patch` and `ls`, `zcat`, `read` from a
//! descriptor, `set -e` and traps), and the component has 11.4 MB, 2.4 times as much.

mod arithmetic;
mod awk;
mod call;
mod commands;
#[cfg_attr(not(any(test, target_family = "wasm")), allow(dead_code, reason = "the component exports it"))]
mod declared;
mod escape;
mod expand;
mod files;
mod parse;
mod regular;
mod execute;
mod script;
mod shell;
mod stream;
mod syntax;
mod wildcard;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, plugin, tool};

use files::Files;
use script::Script;

/// The folder at which the host mounts the session's workspace.
const ROOT: &str = "/workspace";

plugin! {
    "shell",
    publisher = "Toolgate",
    category = "Files",
    capabilities(filesystem = workspace),
    defined = declared::Declared,
    run
}

/// The output of a script, and how it ended.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Ended {
    pub stdout: String,
    pub stderr: String,
    /// 0 is success; 127 an unknown command
    pub exit_code: i32,
    /// Parts that were cut, and what to do
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub notes: Vec<String>,
}

/// Runs a bash script over the files of the workspace.
///
/// Use it for work in many small steps: to search, filter, count, transform, compare, move and pack files in one call.
///
/// - Pipes, redirections, here-documents, variables, arrays, `$(( ))`, `[[ ]]`, globs, loops, `case`, functions, `set -euo pipefail`.
/// - Commands: ls cat head tail wc sort uniq cut tr grep sed awk jq bc find xargs diff patch mkdir rm mv cp tee touch stat du date base64 sha256sum xxd tar gzip zip unzip printf test seq comm join paste column and others; `help` lists all.
/// - There are the files of the workspace and nothing else: no other programs, no network. A command with `&` runs to its end at once.
/// - Each call starts in `/workspace` with new variables; files stay, except those of `/tmp` (16 MiB).
#[tool(
    destructive,
    open_world = false,
    tags("shell", "bash", "command", "script", "pipe", "grep", "sed", "awk", "find"),
    examples(
        {"script": "printf 'b\\na\\nb\\n' | sort | uniq -c | sort -rn"} => {"stdout": "      2 b\n      1 a\n", "stderr": "", "exit_code": 0},
        "with an input": {"script": "awk -F, '{ sum += $2 } END { print sum }'", "stdin": "a,1\nb,2\n"} => {"stdout": "3\n", "stderr": "", "exit_code": 0},
    )
)]
fn run(
    /// The script
    script: String,
    /// Text that the script reads from its standard input
    #[default]
    stdin: String,
) -> Result<Ended, Error> {
    Script { text: &script, variables: &[], input: stdin.into_bytes() }.run(workspace())
}

fn workspace() -> Files {
    #[cfg(test)]
    if let Some(folder) = tests::folder() {
        return Files::new(ROOT, &folder);
    }
    Files::new(ROOT, std::path::Path::new(ROOT))
}

#[cfg(test)]
mod tests;
