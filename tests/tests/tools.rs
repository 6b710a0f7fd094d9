//! Last of the test programs: lists the tests that this machine ignored, by reason, and the command that installs their tools.
//!
//! Cargo prints the ignored tests of each program apart, far above the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The tools that the build script did not find and `.ci/install-test-tools` installs.
const MISSING_TOOLS: &str = env!("TOOLGATE_MISSING_TOOLS");
/// These, and what else the machine does not have.
const MISSING: &str = env!("TOOLGATE_MISSING");

fn main() -> std::io::Result<()> {
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    let mut ignored = BTreeMap::new();
    count_ignored(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")), &mut ignored)?;
    let count: usize = ignored.values().sum();
    println!("\n{count} tests of this package were ignored:");
    for (reason, tests) in ignored {
        println!("{tests:5}  {reason}");
    }
    if !MISSING_TOOLS.is_empty() {
        println!(
            "Missing tools: {MISSING_TOOLS}. `.ci/install-test-tools` installs them into the target folder."
        );
    }
    Ok(())
}

/// Counts the tests of a folder whose attribute `ignore` holds here.
fn count_ignored(folder: &Path, ignored: &mut BTreeMap<String, usize>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            count_ignored(&path, ignored)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for attribute in fs::read_to_string(&path)?.split("\n#[").skip(1) {
                if let Some(reason) = reason(attribute) {
                    *ignored.entry(reason.to_owned()).or_default() += 1;
                }
            }
        }
    }
    Ok(())
}

/// The reason of an attribute that ignores its test: always, or without one of these tools.
fn reason(attribute: &str) -> Option<&str> {
    let (condition, reason) = attribute.split_once("ignore = \"")?;
    let is_attribute = condition.is_empty() || condition.starts_with("cfg_attr(");
    let mut tools = condition.split("has = \"").skip(1).filter_map(|tool| tool.split('"').next());
    let is_ignored =
        condition.is_empty() || tools.any(|tool| MISSING.split(' ').any(|missing| missing == tool));
    reason.split('"').next().filter(|_| is_attribute && is_ignored)
}
