//! Every example of every tool, run as the daemon would run it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use toolgate_sdk::serde_json::Value;
use toolgate_sdk::testing;

use crate::ThisPlugin;
use crate::workspace::Workspace;

thread_local! {
    static SESSION_ROOT: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Where `Workspace::of_session` is in this thread's test.
pub fn session_root() -> Option<PathBuf> {
    SESSION_ROOT.with_borrow(Clone::clone)
}

/// Makes the files that the examples rely on.
fn furnish(root: &Path) {
    let files: [(&str, &[u8]); 5] = [
        ("notes.md", b"# Notes\n- buy milk\n"),
        ("log.txt", b"one\ntwo\nthree\nfour\n"),
        ("logo.png", b"\x89PNG\r\n\x1a\n"),
        ("src/lib.rs", b"pub fn answer() {}\n"),
        ("src/main.rs", b"// starts\nfn main() {\n    answer()\n}\n"),
    ];
    fs::create_dir(root.join("src")).unwrap();
    for (path, content) in files {
        fs::write(root.join(path), content).unwrap();
    }
    // 2026-01-02T03:04:05Z
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    for path in ["notes.md", "src"] {
        File::open(root.join(path)).unwrap().set_modified(modified).unwrap();
    }
}

fn pack_for_unpacking(root: &Path) {
    let workspace = Workspace::at(root);
    workspace.pack(&["src".to_owned()], "project.zip", ".", false).unwrap();
}

#[test]
fn the_examples_are_true() {
    let description = testing::describe::<ThisPlugin>();
    let mut tried = 0;
    for tool in description["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let examples = tool["examples"].as_array().unwrap_or_else(|| panic!("`{name}` has no example"));
        for example in examples {
            let folder = tempfile::tempdir().unwrap();
            furnish(folder.path());
            if name == "unpack" {
                pack_for_unpacking(folder.path());
            }
            SESSION_ROOT.set(Some(folder.path().to_owned()));
            let context = testing::context().build();
            let found =
                testing::call_by_name::<ThisPlugin>(&context, name, example["input"].clone()).unwrap();
            SESSION_ROOT.set(None);
            assert_eq!(found.as_ref(), Ok(&example["output"]), "`{name}` {}", example["input"]);
            tried += 1;
        }
    }
    assert!(tried >= 16, "{tried}");
}

#[test]
fn every_tool_says_what_it_does_to_files() {
    let description = testing::describe::<ThisPlugin>();
    let reading = ["read", "list", "search", "read_bytes", "stat", "tree", "glob"];
    for tool in description["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let hints = &tool["hints"];
        assert_eq!(hints["read_only"] == Value::Bool(true), reading.contains(&name), "{name}");
        assert_eq!(hints["open_world"], false, "{name}");
        assert!(reading.contains(&name) || hints["destructive"].is_boolean(), "{name}");
        assert!(tool["usage"].as_str().unwrap().len() > 40, "{name}");
    }
}
