//! The tools over a folder of a test's own. Links, quotas and other folders are tested with the host, which guards them.

mod archives;
mod changes;
mod examples;
mod patches;
mod reading;
mod searching;

use std::fs;

use tempfile::TempDir;
use toolgate_sdk::testing;

pub use examples::session_root;

use crate::ThisPlugin;
use crate::glob::Names;
use crate::list::ListedEntry;
use crate::read::Excerpt;
use crate::read_bytes::Encoding;
use crate::search::{Found, Mark, Match, Pattern, Query, Skipped};
use crate::workspace::{Kind, Workspace, order};
use crate::write::Written;

struct Folder {
    folder: TempDir,
    workspace: Workspace,
}

impl Folder {
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Every path that is there, so that a test sees what was left behind.
    fn all(&self) -> Vec<String> {
        let listing = self.workspace.list(".", 64, None).unwrap();
        listing.entries.into_iter().map(|entry| entry.path).collect()
    }
}

fn folder(files: &[(&str, &str)]) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::at(folder.path());
    for (path, content) in files {
        workspace.write(path, content.as_bytes()).unwrap();
    }
    Folder { folder, workspace }
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

fn find(folder: &Folder, pattern: Option<&str>, glob: Option<&str>, path: &str) -> Found {
    folder.workspace.search(path, &query(pattern, glob)).unwrap()
}

fn query(pattern: Option<&str>, glob: Option<&str>) -> Query {
    Query {
        pattern: pattern.map(|pattern| Pattern::compile(pattern, false, false).unwrap()),
        names: glob.map(|glob| Names::compile(glob, "glob", false).unwrap()),
        max_results: 100,
        ..Query::default()
    }
}

fn paths(found: &Found) -> Vec<&str> {
    found.results.iter().map(|result| result.path.as_str()).collect()
}

#[test]
fn t1_the_plugin_asks_for_the_workspace_and_nothing_else() {
    let description = testing::describe::<ThisPlugin>();

    assert_eq!(description["capabilities"].to_string(), r#"{"filesystem":"workspace"}"#);
    assert_eq!(description["tools"][1]["hints"]["destructive"], true);
    assert_eq!(description["tools"][1]["hints"]["open_world"], false);
    assert_eq!(description["tools"][1]["input_schema"]["properties"]["encoding"]["default"], "text");
    assert_eq!(description["tools"][2]["input_schema"]["properties"]["path"]["default"], ".");
}

#[test]
fn paths_outside_are_refused_and_say_how_to_write_them() {
    let folder = folder(&[("a.txt", "a")]);

    for path in ["../a.txt", "x/../../a.txt", "/etc/passwd", "/workspaces/a.txt", "a\0b", "/workspace/../etc"]
    {
        assert_eq!(folder.workspace.read(path, 1, 1).unwrap_err().code(), "INVALID_ARGUMENTS", "{path}");
    }
    for path in ["a.txt", "./a.txt", "/workspace/a.txt", "/workspace//a.txt"] {
        assert_eq!(folder.workspace.read(path, 1, 1).unwrap().text, "a", "{path}");
    }
}

#[test]
fn mistakes_are_told_with_what_to_do_next() {
    let folder = folder(&[("dir/a.txt", "a")]);

    for (problem, expected) in [
        (folder.workspace.read("b.txt", 1, 1).unwrap_err(), "there is no `b.txt`: did you mean `dir/a.txt`?"),
        (folder.workspace.read("dir", 1, 1).unwrap_err(), "`dir` is a folder: `list` shows what is in it"),
        (folder.workspace.write("dir", b"x").unwrap_err(), "`dir` is a folder: `list` shows what is in it"),
        (
            folder.workspace.list("dir/a.txt", 1, None).unwrap_err(),
            "`dir/a.txt` is a file: write the path of a folder, or `read` it",
        ),
        (
            folder.workspace.read("dir/a.txt/x/y", 1, 1).unwrap_err(),
            "there is no `dir/a.txt/x/y`, because `dir/a.txt` is a file and no folder: `list` shows what there is",
        ),
        (
            folder.workspace.write(".", b"x").unwrap_err(),
            "`.` is a folder: write the path of a file, as `notes/today.md`",
        ),
    ] {
        assert_eq!(problem.message(), expected);
    }
}

#[test]
fn a_list_goes_as_deep_as_asked_in_order() {
    let folder = folder(&[("b.txt", "12345"), ("a/c.txt", ""), ("a/d/e.txt", "")]);
    let names = |depth| -> Vec<String> {
        folder.workspace.list(".", depth, None).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    };

    assert_eq!(names(1), ["a", "b.txt"]);
    assert_eq!(names(2), ["a", "a/c.txt", "a/d", "b.txt"]);
    assert_eq!(names(9), ["a", "a/c.txt", "a/d", "a/d/e.txt", "b.txt"]);

    let listing = folder.workspace.list("/workspace", 1, None).unwrap();
    assert_eq!(listing.entries[1], ListedEntry { path: "b.txt".to_owned(), kind: Kind::File, size: Some(5) });
    assert_eq!(folder.workspace.list("a/d", 1, None).unwrap().entries[0].path, "a/d/e.txt");
}

#[test]
fn a_list_is_capped_and_says_so() {
    let folder = folder(&[]);
    for index in 0..1_001 {
        fs::write(folder.folder.path().join(format!("{index}")), "").unwrap();
    }

    let listing = folder.workspace.list(".", 1, None).unwrap();

    assert!(listing.truncated);
    assert_eq!(listing.entries.len(), 1_000);
    assert_eq!(listing.next.as_deref(), Some("998"));
}

#[test]
fn t7_a_list_goes_on_after_a_path_and_gives_everything_once() {
    let folder = folder(&[("a/1", ""), ("a/b/2", ""), ("a-b/3", ""), ("b", ""), ("c/d/4", "")]);
    let all = folder.all();

    for path in &all {
        let rest = folder.workspace.list(".", 64, Some(path)).unwrap();
        let rest: Vec<_> = rest.entries.into_iter().map(|entry| entry.path).collect();
        let at = all.iter().position(|other| other == path).unwrap();
        assert_eq!(rest, all[at + 1..], "after {path}");
    }

    for number in 0..2_500 {
        fs::write(folder.folder.path().join(format!("c/{number}")), "").unwrap();
    }
    let (mut paths, mut after) = (Vec::new(), None);
    loop {
        let page = folder.workspace.list(".", 64, after.as_deref()).unwrap();
        paths.extend(page.entries.into_iter().map(|entry| entry.path));
        assert_eq!(page.truncated, page.next.is_some());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paths.len(), all.len() + 2_500);
    assert!(paths.is_sorted_by(|left, right| order(left, right).is_lt()));
}

#[cfg(unix)]
#[test]
fn strange_names_and_links_do_no_harm() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    let folder = folder(&[("line\nbreak.txt", "needle"), ("real/x.txt", "needle")]);
    fs::write(folder.folder.path().join(OsStr::from_bytes(b"bad\xff.txt")), "needle").unwrap();
    symlink("/etc", folder.folder.path().join("etc")).unwrap();
    symlink("real", folder.folder.path().join("again")).unwrap();

    let listing = folder.workspace.list(".", 9, None).unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["again", "etc", "line\nbreak.txt", "real", "real/x.txt"]);
    assert_eq!(listing.entries[1].kind, Kind::Link);
    assert_eq!(listing.unreadable, 1);
    assert_eq!(folder.workspace.tree(".", 9).unwrap().unreadable, 1);
    assert_eq!(folder.workspace.stat(".").unwrap().unreadable, 1);
    assert_eq!(folder.workspace.glob("*", ".", 9, None).unwrap().unreadable, 1);
    assert_eq!(find(&folder, None, Some("*"), ".").unreadable, 1);

    assert_eq!(paths(&find(&folder, Some("needle"), None, ".")), ["line\nbreak.txt", "real/x.txt"]);
    assert_eq!(folder.workspace.read("line\nbreak.txt", 1, 1).unwrap().text, "needle");
}

#[test]
fn a_missing_path_is_told_with_the_nearest_one() {
    let folder = folder(&[("src/main.rs", ""), ("notes/today.md", ""), ("README.md", "")]);
    for (wanted, nearest) in [
        ("main.rs", "src/main.rs"),
        ("src/mian.rs", "src/main.rs"),
        ("notes/tody.md", "notes/today.md"),
        ("readme.md", "README.md"),
        ("note", "notes"),
    ] {
        let missing = folder.workspace.stat(wanted).unwrap_err();
        assert_eq!(missing.message(), format!("there is no `{wanted}`: did you mean `{nearest}`?"));
    }
    let missing = folder.workspace.stat("xyzzy").unwrap_err();
    assert_eq!(missing.message(), "there is no `xyzzy`: `list` shows what there is");
}

#[test]
fn a_tree_shows_names_on_one_line_each() {
    let folder = folder(&[("a\nb/ü.txt", &"x".repeat(1536)), ("deep/er/est", "")]);

    let tree = folder.workspace.tree(".", 2).unwrap();

    assert_eq!(tree.tree, "a\\nb/\n  ü.txt  1.5 KiB\ndeep/\n  er/ …\n");
    assert_eq!((tree.files, tree.folders, tree.bytes, tree.truncated), (1, 3, 1536, false));
}
