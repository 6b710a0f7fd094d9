//! The commands of the pages are those of the command line.

use std::collections::BTreeMap;

use clap::Command;

use super::super::{command_line, examples};
use super::{code_spans, pages, read_sources, readme, split, workspace};

/// Languages of blocks with commands; in `console` a command stands behind a prompt.
const SHELL: [&str; 2] = ["sh", "console"];

/// Pages whose commands after a prompt all run in a test: `author.rs`, `languages.rs`, `quickstart.rs` and `providers.rs`. Their
/// other blocks start a daemon, and say which one to talk to.
const RUN: [&str; 6] = [
    "cookbook.md",
    "first-plugin.md",
    "plugin-in-c.md",
    "realistic-plugin.md",
    "tutorial-operator.md",
    "tutorial-orchestrator.md",
];

/// Commands of other programs that no test runs: page, program, number, reason. An entry is removed with its commands.
const NOT_RUN: &[(&str, &str, usize, &str)] = &[
    ("README.md", "cargo", 5, "`.ci/run` builds and tests; `author.rs` runs those of a new plugin"),
    ("README.md", "export", 2, "a test has the program and the token of its own daemon"),
    ("about.md", "pip", 1, "`.ci/install-test-tools` installs mdBook, and `tidy.rs` builds the book"),
    ("about.md", "mdbook", 1, "`.ci/install-test-tools` installs mdBook, and `tidy.rs` builds the book"),
    ("calls.md", "SESSION=VALUE", 1, "the tutorial for orchestrators runs the same requests"),
    ("calls.md", "api", 2, "the tutorial for orchestrators runs the same requests"),
    ("calls.md", "api()", 1, "the tutorial for orchestrators runs the same requests"),
    ("calls.md", "export", 1, "a test has the token of its own daemon"),
    ("console.md", "cat", 1, "shows a token to a person"),
    ("custom-tools.md", "curl", 1, "`mounts.rs` and `egress` write definitions over HTTP"),
    ("install.md", "docker", 1, "needs a container engine; `start/package.rs` checks the container file"),
    ("install.md", "sha256sum", 1, "`start/package.rs` runs it on a release"),
    ("install.md", "ssh-keygen", 1, "`start/package.rs` runs it on a release"),
    ("install.md", "sudo", 7, "needs systemd; `start/service_manager.rs` speaks its protocols"),
    ("install.md", "systemctl", 1, "needs systemd; `start/service_manager.rs` speaks its protocols"),
    ("mcp.md", "claude", 1, "a program of others; `mcp.rs` connects two clients and the inspector"),
    ("python-client.md", "pip", 1, "needs a build backend; `clients.rs` runs the package from its folder"),
];

/// Commands that no test runs against a daemon, each with the reason. An entry is removed once one does.
const WITHOUT_DAEMON: &[(&str, &str)] = &[
    ("completions", "prints without a daemon; `packaging/build-deb` runs it for `start/package.rs`"),
    ("credential connect", "a person signs in at a provider; `secrets` speaks the same requests to one"),
    ("credential unseal", "needs a daemon without its root key; `secrets` unseals one over HTTP"),
    ("man", "writes files without a daemon; `packaging/build-deb` runs it for `start/package.rs`"),
    ("tool approve", "needs a mounted server that changes; `mounts.rs` does it over HTTP"),
    ("tool refresh", "needs a mounted server; `mounts.rs` does it over HTTP"),
    ("webhook test", "needs an endpoint with TLS; `gate/webhooks.rs` does it over HTTP"),
];

/// Returns the commands of a block, with continued lines joined.
fn lines(language: &str, text: &str) -> Vec<String> {
    let joined = text.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" ");
    let prompt = if language == "console" { "$ " } else { "" };
    let lines = joined.lines().filter_map(|line| line.trim().strip_prefix(prompt));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Returns the uses of `toolgate` in a block.
fn uses(language: &str, text: &str) -> Vec<String> {
    lines(language, text).iter().flat_map(|line| uses_of_line(line)).collect()
}

/// Splits a line at substitutions, pipes and `&&`.
fn uses_of_line(line: &str) -> Vec<String> {
    let (rest, mut parts) = without_substitutions(line);
    parts.push(rest);
    let parts = parts.join(" | ").replace(" || ", " | ").replace(" && ", " | ");
    let uses = parts.split(" | ").map(str::trim).filter(|part| part.starts_with("toolgate "));
    uses.map(str::to_owned).collect()
}

/// Returns the line with a word in place of each substitution, and the substitutions.
fn without_substitutions(line: &str) -> (String, Vec<String>) {
    let (mut rest, mut inner) = (line.to_owned(), Vec::new());
    while let Some((before, behind)) = rest.split_once("$(") {
        let (command, after) = behind.split_once(')').expect("the end of a substitution");
        inner.push(command.to_owned());
        rest = format!("{before}VALUE{after}");
    }
    (rest, inner)
}

#[test]
fn o6_every_command_of_another_program_runs_or_is_in_the_table() {
    let mut found = BTreeMap::<(String, String), usize>::new();
    for (page, text) in pages().into_iter().chain([readme()]).filter(|(page, _)| !RUN.contains(&&**page)) {
        for block in split(&text).1.iter().filter(|block| SHELL.contains(&block.language)) {
            for line in lines(block.language, &block.text) {
                let (line, _) = without_substitutions(&line);
                let program = line.split_whitespace().next().unwrap_or_default().to_owned();
                if program != "toolgate" {
                    *found.entry((page.clone(), program)).or_default() += 1;
                }
            }
        }
    }
    let entries = NOT_RUN.iter().map(|(page, program, number, _)| ((*page, *program), *number));
    let listed: BTreeMap<_, _> =
        entries.map(|((page, program), number)| ((page.to_owned(), program.to_owned()), number)).collect();
    assert_eq!(found, listed, "commands (left), table (right)");
}

#[test]
fn o6_every_command_of_a_block_is_understood() {
    let mut understood = 0;
    for (page, text) in pages().into_iter().chain([readme()]) {
        let (_, blocks) = split(&text);
        for block in blocks.iter().filter(|block| SHELL.contains(&block.language)) {
            for line in uses(block.language, &block.text) {
                let words = examples::tests::examples(&format!("  {line}")).concat();
                let read = command_line().try_get_matches_from(&words);
                let error = read.err().filter(clap::Error::use_stderr);
                assert!(error.is_none(), "`{page}`: {words:?}: {error:?}");
                understood += 1;
            }
        }
    }
    assert!(understood > 100, "{understood}");
}

#[test]
fn o6_every_command_runs_in_a_test() {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let run_pages = pages().into_iter().filter(|(page, _)| RUN.contains(&&**page));
    let run_pages = run_pages.flat_map(|(_, text)| {
        let blocks = split(&text).1.into_iter().filter(|block| block.language == "console");
        blocks.flat_map(|block| lines(block.language, &block.text)).collect::<Vec<_>>()
    });
    let sources = read_sources(&workspace().join("tests/tests"));
    let tests = squeezed(&run_pages.chain([sources]).collect::<String>());
    let mut root = command_line();
    root.build();
    let mut not_run = Vec::new();
    for path in leaves(&root, "") {
        let words: Vec<_> = path.split(' ').collect();
        let (array, line) = (format!("\"{}\"", words.join("\",\"")), format!("toolgate{}", words.concat()));
        if !tests.contains(&array) && !tests.contains(&line) {
            not_run.push(path);
        }
    }
    let listed: Vec<_> = WITHOUT_DAEMON.iter().map(|(command, _)| (*command).to_owned()).collect();
    not_run.sort();
    assert_eq!(not_run, listed, "commands that no test runs (left), table (right)");
}

/// The commands that have no others below them, as words, without those that no person runs.
fn leaves(command: &Command, path: &str) -> Vec<String> {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set());
    let below: Vec<_> =
        below.flat_map(|below| leaves(below, format!("{path} {}", below.get_name()).trim_start())).collect();
    if below.is_empty() { vec![path.to_owned()] } else { below }
}

#[test]
fn o6_every_command_in_the_text_exists_with_its_options() {
    let mut root = command_line();
    root.build();
    for (page, text) in pages().into_iter().chain([readme()]) {
        for span in split(&text).0.into_iter().flat_map(code_spans) {
            if let Some(words) = span.strip_prefix("toolgate ") {
                let wrong = unknown_word(&root, words);
                assert!(wrong.is_none(), "`{page}`: `{span}` has `{}`", wrong.unwrap_or_default());
            }
        }
    }
}

/// Returns the first word that is no command or option of the command before it.
fn unknown_word(root: &Command, words: &str) -> Option<String> {
    let (mut command, mut is_path) = (root, true);
    for word in words.split_whitespace().map(|word| word.split(['|', '=']).next().unwrap_or(word)) {
        if let Some(option) = word.strip_prefix("--") {
            let has = |argument: &clap::Arg| {
                argument.get_long() == Some(option)
                    || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&option))
            };
            if !option.is_empty() && !command.get_arguments().any(has) {
                return Some(word.to_owned());
            }
        } else if let Some(below) = command.find_subcommand(word).filter(|_| is_path) {
            command = below;
        } else {
            let is_name = word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
            if is_path && is_name && command.has_subcommands() {
                return Some(word.to_owned());
            }
            is_path = false;
        }
    }
    None
}

#[test]
fn a_command_or_option_that_does_not_exist_is_found() {
    let mut root = command_line();
    root.build();
    let wrong = |words: &str| unknown_word(&root, words);
    for right in ["plugin load FILE --yes", "policy show|put", "audit search --since=2h", "help COMMAND"] {
        assert_eq!(wrong(right), None, "{right}");
    }
    assert_eq!(wrong("plugin lode FILE").as_deref(), Some("lode"));
    assert_eq!(wrong("plugin load FILE --sure").as_deref(), Some("--sure"));
}

#[test]
fn the_uses_of_a_line_are_found() {
    let text = "ID=$(toolgate session open a/b --json | jq .id)\ntoolgate backup $(date).tar \\\n  --json\ndocker run toolgate x";
    assert_eq!(uses("sh", text), ["toolgate session open a/b --json", "toolgate backup VALUE.tar --json"]);
    assert_eq!(uses("console", "$ toolgate version\ntoolgate 0.1.0"), ["toolgate version"]);
}
