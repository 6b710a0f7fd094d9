//! The snippets of the pages: settings are read, JSON is parsed, and what else there is runs in a test that a table names.

use std::collections::BTreeMap;
use std::path::Path;

use toolgate_state::config::Config;

use super::{pages, read_sources, split, workspace};

/// Tests of blocks in other languages: page, language, number of blocks, test.
const TESTED: &[(&str, &str, usize, &str)] = &[
    ("cookbook.md", "python", 10, "m3_the_installed_python_client_and_the_programs_of_the_cookbook_run"),
    ("plugin-in-c.md", "c", 1, "t9_a_plugin_in_c_needs_the_contract_alone"),
    ("plugin-in-c.md", "js", 1, "t9_a_plugin_in_c_needs_the_contract_alone"),
    ("realistic-plugin.md", "rust", 1, "t9_the_realistic_plugin_in_rust_works"),
    ("realistic-plugin.md", "js", 2, "t9_the_realistic_plugin_in_javascript_works"),
    ("realistic-plugin.md", "python", 2, "t9_the_realistic_plugin_in_python_works"),
    ("mcp.md", "python", 1, "m2_the_program_in_the_docs_is_python"),
    ("tutorial-orchestrator.md", "python", 1, "o6_every_command_of_the_tutorials_works"),
];

/// Blocks that no test reads, each with the reason. An entry is removed with its block; none is added for a block that a test could
/// read.
const NOT_TESTED: &[(&str, &str, usize, &str)] = &[
    ("code.md", "js", 1, "needs a table of orders; `tests/gate/scripts.rs` runs scripts of this form"),
    ("first-plugin.md", "js", 1, "asks a service that does not exist; the template's tool runs instead"),
    ("first-plugin.md", "python", 1, "asks a service that does not exist; the template's tool runs instead"),
    (
        "webhooks.md",
        "python",
        1,
        "two lines of a server; `tests/gate/webhooks.rs` computes the same signature",
    ),
];

/// Languages that other tests of this book read, and plain text.
const READ: [&str; 5] = ["sh", "console", "toml", "json", "text"];

#[test]
fn o6_every_block_of_settings_is_understood_and_every_block_of_json_is_json() {
    for (page, text) in pages() {
        for block in split(&text).1 {
            let error = match block.language {
                "toml" => Config::parse(&block.text, Path::new(&page)).err().map(|error| error.to_string()),
                "json" => serde_json::from_str::<serde_json::Value>(&block.text)
                    .err()
                    .map(|error| error.to_string()),
                _ => None,
            };
            assert_eq!(error, None, "`{page}`:\n{}", block.text);
        }
    }
}

#[test]
fn o6_every_other_snippet_is_in_one_of_the_tables_and_the_tables_have_no_other() {
    let mut found = BTreeMap::<(String, String), usize>::new();
    for (page, text) in pages() {
        for block in split(&text).1.iter().filter(|block| !READ.contains(&block.language)) {
            *found.entry((page.clone(), block.language.to_owned())).or_default() += 1;
        }
    }
    let tables = TESTED.iter().chain(NOT_TESTED);
    let listed: BTreeMap<_, _> = tables
        .map(|(page, language, number, _)| (((*page).to_owned(), (*language).to_owned()), *number))
        .collect();
    assert_eq!(found, listed, "blocks (left), tables (right)");
    let tests = read_sources(&workspace().join("tests/tests"));
    for (page, _, _, test) in TESTED {
        assert!(tests.contains(&format!("fn {test}(")), "`{page}`: no test `{test}`");
    }
}
