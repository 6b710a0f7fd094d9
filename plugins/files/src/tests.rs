//! The tools over a folder of a test's own. What the host guards (links, quotas, other folders) is tested with the host.

use std::fs;

use tempfile::TempDir;
use toolgate_sdk::testing;

use crate::ThisPlugin;
use crate::list::{Kind, ListedEntry};
use crate::read::Excerpt;
use crate::search::{Found, Match, Query, Skipped};
use crate::workspace::Workspace;
use crate::write::Written;

struct Folder {
    folder: TempDir,
    workspace: Workspace,
}

fn folder(files: &[(&str, &str)]) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::at(folder.path());
    for (path, content) in files {
        workspace.write(path, content).unwrap();
    }
    Folder { folder, workspace }
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

fn find(folder: &Folder, pattern: Option<&str>, glob: Option<&str>, path: &str) -> Found {
    folder.workspace.search(path, &Query::compile(pattern, glob, false, 100).unwrap()).unwrap()
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
    assert_eq!(description["tools"][2]["input_schema"]["properties"]["path"]["default"], ".");
}

#[test]
fn what_was_written_is_read() {
    let folder = folder(&[]);

    let written = folder.workspace.write("notes/today.md", "# Today\nä\n").unwrap();
    assert_eq!(written, Written { path: "notes/today.md".to_owned(), bytes: 11, created: true });

    let read = folder.workspace.read("/workspace/notes/./today.md", 1, 100).unwrap();
    assert_eq!(
        read,
        Excerpt { text: "# Today\nä\n".to_owned(), total_lines: 2, next_line: None, cut: false }
    );

    assert!(!folder.workspace.write("notes/today.md", "").unwrap().created);
    assert_eq!(folder.workspace.read("notes/today.md", 1, 1).unwrap().text, "");
}

#[test]
fn a_long_file_is_read_in_parts() {
    let folder = folder(&[("long.txt", &lines(10))]);

    let part = folder.workspace.read("long.txt", 4, 2).unwrap();
    assert_eq!(
        part,
        Excerpt { text: "line 4\nline 5\n".to_owned(), total_lines: 10, next_line: Some(6), cut: false }
    );

    let end = folder.workspace.read("long.txt", 10, 5).unwrap();
    assert_eq!((end.text.as_str(), end.next_line), ("line 10\n", None));

    let beyond = folder.workspace.read("long.txt", 11, 1).unwrap_err();
    assert_eq!(beyond.message(), "`long.txt` has 10 lines: begin at one of them");
}

#[test]
fn reading_on_at_next_line_gives_the_whole_file() {
    let content = format!("{}{}last", lines(20_000), "x".repeat(200_000) + "\n");
    let folder = folder(&[("huge.txt", &content)]);

    let mut text = String::new();
    let mut line = Some(1);
    let mut cuts = 0;
    while let Some(start) = line {
        let part = folder.workspace.read("huge.txt", u32::try_from(start).unwrap(), 1_000_000).unwrap();
        assert!(part.text.len() <= 128 * 1024);
        text.push_str(&part.text);
        cuts += usize::from(part.cut);
        line = part.next_line;
    }

    assert_eq!(cuts, 1, "only the line that is longer than a whole answer is cut");
    assert!(text.starts_with(&lines(20_000)));
    assert!(text.ends_with("last"));
}

#[test]
fn a_character_is_never_cut_in_two() {
    let folder = folder(&[("wide.txt", &"ä€".repeat(60_000))]);

    let part = folder.workspace.read("wide.txt", 1, 1).unwrap();

    assert!(part.cut && part.next_line.is_none());
    assert!("ä€".repeat(60_000).starts_with(&part.text));
    assert!(part.text.len() > 128 * 1024 - 4);
}

#[test]
fn binary_files_are_refused() {
    let folder = folder(&[]);
    fs::write(folder.folder.path().join("zero.bin"), b"text\0more").unwrap();
    fs::write(folder.folder.path().join("latin.txt"), b"caf\xe9\n").unwrap();

    for name in ["zero.bin", "latin.txt"] {
        let refused = folder.workspace.read(name, 1, 10).unwrap_err();
        assert_eq!(
            refused.message(),
            format!("`{name}` is not a text file in UTF-8: it cannot be read here")
        );
    }
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
        (
            folder.workspace.read("b.txt", 1, 1).unwrap_err(),
            "there is no `b.txt`: `list` shows what there is",
        ),
        (folder.workspace.read("dir", 1, 1).unwrap_err(), "`dir` is a folder: `list` shows what is in it"),
        (folder.workspace.write("dir", "x").unwrap_err(), "`dir` is a folder: `list` shows what is in it"),
        (
            folder.workspace.list("dir/a.txt", 1).unwrap_err(),
            "`dir/a.txt` is a file, or under one: write the path of a folder",
        ),
        (
            folder.workspace.write(".", "x").unwrap_err(),
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
        folder.workspace.list(".", depth).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    };

    assert_eq!(names(1), ["a", "b.txt"]);
    assert_eq!(names(2), ["a", "a/c.txt", "a/d", "b.txt"]);
    assert_eq!(names(9), ["a", "a/c.txt", "a/d", "a/d/e.txt", "b.txt"]);

    let listing = folder.workspace.list("/workspace", 1).unwrap();
    assert_eq!(listing.entries[1], ListedEntry { path: "b.txt".to_owned(), kind: Kind::File, size: Some(5) });
    assert_eq!(folder.workspace.list("a/d", 1).unwrap().entries[0].path, "a/d/e.txt");
}

#[test]
fn a_list_is_capped_and_says_so() {
    let folder = folder(&[]);
    for index in 0..1_001 {
        fs::write(folder.folder.path().join(format!("{index}")), "").unwrap();
    }

    let listing = folder.workspace.list(".", 1).unwrap();

    assert!(listing.truncated);
    assert_eq!(listing.entries.len(), 1_000);
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

    let listing = folder.workspace.list(".", 9).unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["again", "etc", "line\nbreak.txt", "real", "real/x.txt"]);
    assert_eq!(listing.entries[1].kind, Kind::Link);
    assert_eq!(listing.unreadable, 1);

    assert_eq!(paths(&find(&folder, Some("needle"), None, ".")), ["line\nbreak.txt", "real/x.txt"]);
    assert_eq!(folder.workspace.read("line\nbreak.txt", 1, 1).unwrap().text, "needle");
}

#[test]
fn lines_are_found_by_a_regular_expression() {
    let folder = folder(&[("src/a.rs", "fn one() {}\n// TODO: two\n"), ("src/b.md", "TODO three\n")]);

    let found = find(&folder, Some(r"TODO:?\s+\w+"), None, ".");
    assert_eq!(
        found.results,
        [
            Match { path: "src/a.rs".to_owned(), line: Some(2), text: Some("// TODO: two".to_owned()) },
            Match { path: "src/b.md".to_owned(), line: Some(1), text: Some("TODO three".to_owned()) },
        ]
    );
    assert_eq!(paths(&find(&folder, Some("TODO"), Some("*.md"), ".")), ["src/b.md"]);
    assert_eq!(paths(&find(&folder, Some("todo"), None, ".")), Vec::<&str>::new());

    let ignoring_case = Query::compile(Some("todo"), None, true, 100).unwrap();
    assert_eq!(folder.workspace.search("src", &ignoring_case).unwrap().results.len(), 2);
}

#[test]
fn files_are_found_by_a_glob() {
    let folder = folder(&[("a.rs", ""), ("src/b.rs", ""), ("src/deep/c.rs", ""), ("src/d.txt", "")]);

    for (glob, path, expected) in [
        ("*.rs", ".", &["a.rs", "src/b.rs", "src/deep/c.rs"][..]),
        ("src/*.rs", ".", &["src/b.rs"]),
        ("**/deep/*", ".", &["src/deep/c.rs"]),
        ("*.{txt,md}", ".", &["src/d.txt"]),
        ("./*.rs", ".", &["a.rs", "src/b.rs", "src/deep/c.rs"]),
        ("deep/*", "src", &["src/deep/c.rs"]),
        ("[bd].*", "src", &["src/b.rs", "src/d.txt"]),
    ] {
        assert_eq!(paths(&find(&folder, None, Some(glob), path)), expected, "{glob} in {path}");
    }
}

#[test]
fn a_search_is_capped_and_names_what_it_passed_over() {
    let folder = folder(&[
        ("many.txt", &lines(500)),
        ("long.txt", &format!("{}needle{}", "x".repeat(1_000), "y".repeat(1_000))),
    ]);
    fs::write(folder.folder.path().join("zero.bin"), b"needle\0").unwrap();
    fs::write(folder.folder.path().join("big.txt"), vec![b'n'; 8 * 1024 * 1024 + 1]).unwrap();

    let found = find(&folder, Some("line"), Some("many.txt"), ".");
    assert!(found.truncated);
    assert_eq!(found.results.len(), 100);

    let found = find(&folder, Some("needle"), None, ".");
    let text = found.results[0].text.as_deref().unwrap();
    assert!(
        text.contains("needle")
            && text.starts_with('…')
            && text.ends_with('…')
            && text.chars().count() <= 302
    );
    assert_eq!(
        found.skipped,
        [
            Skipped { path: "big.txt".to_owned(), reason: "larger than 8 MiB".to_owned() },
            Skipped { path: "zero.bin".to_owned(), reason: "not a text file in UTF-8".to_owned() },
        ]
    );
}

#[test]
fn a_search_that_cannot_be_is_refused_with_its_reason() {
    let refused = |pattern, glob| Query::compile(pattern, glob, false, 1).unwrap_err().message().to_owned();

    assert!(refused(None, None).starts_with("nothing to search for"));
    assert!(refused(Some("(a"), None).contains("unclosed group"), "{}", refused(Some("(a"), None));
    assert!(refused(Some(r"(a)\1"), None).contains("backreferences are not supported"));
    assert!(
        refused(Some("(?:a{999}){999}"), None).contains("size limit"),
        "{}",
        refused(Some("(?:a{999}){999}"), None)
    );
    assert!(refused(None, Some("[a")).contains("`glob` is not one"));
}
