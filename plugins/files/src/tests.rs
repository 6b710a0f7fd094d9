//! The tools over a folder of a test's own. What the host guards (links, quotas, other folders) is tested with the host.

mod archives;
mod changes;
mod examples;
mod patches;

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
    assert_eq!(description["tools"][2]["input_schema"]["properties"]["path"]["default"], ".");
}

#[test]
fn what_was_written_is_read() {
    let folder = folder(&[]);

    let written = folder.workspace.write("notes/today.md", "# Today\nä\n".as_bytes()).unwrap();
    assert_eq!(written, Written { path: "notes/today.md".to_owned(), bytes: 11, created: true });

    let read = folder.workspace.read("/workspace/notes/./today.md", 1, 100).unwrap();
    assert_eq!(
        read,
        Excerpt {
            text: "# Today\nä\n".to_owned(),
            total_lines: 2,
            total_bytes: 11,
            next_line: None,
            cut: false,
            next_byte: None
        }
    );

    assert!(!folder.workspace.write("notes/today.md", b"").unwrap().created);
    assert_eq!(folder.workspace.read("notes/today.md", 1, 1).unwrap().text, "");
}

#[test]
fn a_long_file_is_read_in_parts() {
    let folder = folder(&[("long.txt", &lines(10))]);

    let part = folder.workspace.read("long.txt", 4, 2).unwrap();
    assert_eq!(
        part,
        Excerpt {
            text: "line 4\nline 5\n".to_owned(),
            total_lines: 10,
            total_bytes: 71,
            next_line: Some(6),
            cut: false,
            next_byte: None
        }
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
            format!("`{name}` is not a text file in UTF-8: `read_bytes` gives the bytes of any file")
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
fn lines_are_found_by_a_regular_expression() {
    let folder = folder(&[("src/a.rs", "fn one() {}\n// TODO: two\n"), ("src/b.md", "TODO three\n")]);

    let found = find(&folder, Some(r"TODO:?\s+\w+"), None, ".");
    assert_eq!(
        found.results,
        [found_line("src/a.rs", 2, "// TODO: two"), found_line("src/b.md", 1, "TODO three"),]
    );
    assert_eq!(paths(&find(&folder, Some("TODO"), Some("*.md"), ".")), ["src/b.md"]);
    assert_eq!(paths(&find(&folder, Some("todo"), None, ".")), Vec::<&str>::new());

    let ignoring_case = Pattern::compile("todo", false, true).unwrap();
    let ignoring_case = Query { pattern: Some(ignoring_case), max_results: 100, ..Query::default() };
    assert_eq!(folder.workspace.search("src", &ignoring_case).unwrap().results.len(), 2);
    assert_eq!(folder.workspace.search("src/a.rs", &ignoring_case).unwrap().results.len(), 1);
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
fn t7_a_glob_is_about_characters() {
    let folder =
        folder(&[("a.txt", ""), ("é.txt", ""), ("日本.txt", ""), ("x\\xc3.txt", ""), ("\n.txt", "")]);

    for (glob, expected) in [
        ("?.txt", &["\n.txt", "a.txt", "é.txt"][..]),
        ("??.txt", &["日本.txt"]),
        ("[é].txt", &["é.txt"]),
        ("[à-ï].txt", &["é.txt"]),
        ("[!a].txt", &["\n.txt", "é.txt"]),
        ("é.*", &["é.txt"]),
        ("{é,日*}.txt", &["é.txt", "日本.txt"]),
        ("É.txt", &[]),
        ("x\\\\xc3.txt", &["x\\xc3.txt"]),
        ("**/日?.txt", &["日本.txt"]),
        ("[Ã©].txt", &[]),
    ] {
        assert_eq!(folder.workspace.glob(glob, ".", 9, None).unwrap().paths, expected, "{glob}");
        assert_eq!(paths(&find(&folder, None, Some(glob), ".")), expected, "{glob}");
    }
    let names = Names::compile("É*.TXT", "glob", true).unwrap();
    assert!(names.match_path(&folder.workspace.root(), "é.txt"));
    Names::compile(&"?".repeat(1_000), "glob", true).unwrap();
}

#[test]
fn t7_a_glob_that_can_find_nothing_says_why() {
    let folder = folder(&[("e/f/a.txt", "a"), ("b.txt", "b")]);

    for (glob, reason) in [
        ("", "`pattern` is empty: `*` finds every file"),
        ("./", "`pattern` is empty"),
        ("../*", "`pattern` may not contain `..`"),
        ("e/../b.txt", "`pattern` may not contain `..`"),
        ("/e/**", "`pattern` may not begin with `/`"),
        ("e/", "`pattern` ends in `/`"),
    ] {
        let refused = folder.workspace.glob(glob, ".", 9, None).unwrap_err();
        assert!(refused.message().starts_with(reason), "{glob}: {refused}");
        assert!(Names::compile(glob, "glob", false).is_err(), "{glob}");
    }
    assert_eq!(folder.workspace.glob("/workspace/e/**", ".", 9, None).unwrap().paths, ["e/f/a.txt"]);

    let note = |parameter| {
        Some(format!(
            "`e/f` is a folder, and only files are found: give it as `path`, with `{parameter}` `*`"
        ))
    };
    for glob in ["f", "e/f", "**/f"] {
        assert_eq!(folder.workspace.glob(glob, ".", 9, None).unwrap().note, note("pattern"), "{glob}");
        assert_eq!(find(&folder, None, Some(glob), ".").note, note("glob"), "{glob}");
        assert_eq!(find(&folder, Some("a"), Some(glob), ".").note, note("glob"), "{glob}");
    }
    assert_eq!(folder.workspace.glob("*", "e/f", 9, None).unwrap().paths, ["e/f/a.txt"]);
    for glob in ["*", "nothing", "*/**"] {
        assert_eq!(folder.workspace.glob(glob, ".", 9, None).unwrap().note, None, "{glob}");
        assert_eq!(find(&folder, Some("nowhere"), Some(glob), ".").note, None, "{glob}");
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
            Skipped { path: "zero.bin".to_owned(), reason: "a binary file".to_owned() },
        ]
    );
}

#[test]
fn t7_a_byte_order_mark_hides_no_line_and_utf_16_is_searched() {
    let folder = folder(&[("marked.txt", "\u{feff}first\nsecond\n")]);
    let utf_16 =
        |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.folder.path().join(name), bytes).unwrap();
    put("be.txt", &utf_16("\u{feff}first 😀\r\nsecond\r\n", u16::to_be_bytes));
    put("le.txt", &utf_16("\u{feff}first\nsecond", u16::to_le_bytes));
    put("odd.txt", &[&utf_16("\u{feff}first", u16::to_le_bytes), b"x".as_slice()].concat());
    put("unmarked.txt", &utf_16("first", u16::to_le_bytes));

    let found = find(&folder, Some("^first"), None, ".");

    assert_eq!(
        found.results,
        [
            found_line("be.txt", 1, "first 😀"),
            found_line("le.txt", 1, "first"),
            found_line("marked.txt", 1, "first"),
            found_line("odd.txt", 1, "first"),
        ]
    );
    assert_eq!(
        found.skipped,
        [Skipped { path: "unmarked.txt".to_owned(), reason: "a binary file".to_owned() }]
    );
    assert_eq!(find(&folder, Some("^second$"), None, "be.txt").results, [found_line("be.txt", 2, "second")]);
}

#[test]
fn a_search_that_cannot_be_is_refused_with_its_reason() {
    let nothing = folder(&[]).workspace.search(".", &Query::default()).unwrap_err();
    assert!(nothing.message().starts_with("nothing to search for"));

    for (pattern, reason) in [
        ("(a", "unclosed group"),
        (r"(a)\1", "backreferences are not supported"),
        ("a(?=b)", "look-around"),
        ("(?:a{999}){999}", "size limit"),
        ("a\nb", "within one line"),
        (&"a".repeat(10_001), "longer than 10000 bytes"),
    ] {
        let refused = Pattern::compile(pattern, false, false).unwrap_err();
        assert!(refused.message().contains(reason), "{pattern}: {refused}");
    }
    let glob = Names::compile("[a", "glob", false).unwrap_err();
    assert!(glob.message().starts_with("`glob` is not a glob"), "{glob}");
}

fn found_line(path: &str, line: u64, text: &str) -> Match {
    Match { path: path.to_owned(), line: Some(line), text: Some(text.to_owned()), ..Match::default() }
}

/// The lines that a pattern finds when each line is looked at on its own: what a search of whole files must find too.
fn lines_one_by_one(text: &str, pattern: &str) -> Vec<u64> {
    let pattern = Pattern::compile(pattern, false, false).unwrap();
    let numbered = text.lines().zip(1..);
    numbered
        .filter(|(line, _)| pattern.exact.as_ref().unwrap_or(&pattern.regex).is_match(*line))
        .map(|(_, number)| number)
        .collect()
}

#[test]
fn a_search_of_a_whole_file_finds_what_a_search_of_each_line_does() {
    let text = "one\n\n  two  \r\nthree,four\n,\n;\nfive;six\r\n\r\nend\nno newline";
    let folder = folder(&[("a.txt", text)]);
    for pattern in [
        "",
        "^",
        "$",
        "^$",
        "^\\s*$",
        "[^,]+;",
        "[^x]*o",
        "(?s).*e",
        "o$",
        "^t|^e",
        "\\s+",
        "\\W",
        "(?s).",
        "e\\b",
        "\\Bo",
        "five|no",
        "[^a-z]{2}",
        "(?:x|\\n|e)",
        "r.e",
        "(?-u:[^a])e",
        "i.*x$",
        r"\bf",
        r"e\b",
        r"\bt\w+\b",
        r"\B",
        r"\b$",
    ] {
        if pattern.contains("\\n") {
            continue;
        }
        let found = find(&folder, Some(pattern), None, ".");
        let numbers: Vec<u64> = found.results.iter().filter_map(|result| result.line).collect();
        assert_eq!(numbers, lines_one_by_one(text, pattern), "{pattern}");
    }
}

#[test]
fn matches_come_with_the_lines_around_them() {
    let folder = folder(&[("a.txt", &lines(9))]);
    let query = Query { lines_before: 2, lines_after: 1, ..query(Some("line [19]$"), None) };

    let found = folder.workspace.search("a.txt", &query).unwrap();

    assert_eq!(found.results[0].before, Vec::<String>::new());
    assert_eq!(found.results[0].after, ["line 2"]);
    assert_eq!(found.results[1].before, ["line 7", "line 8"]);
    assert_eq!(found.results[1].after, Vec::<String>::new());
}

#[test]
fn a_search_that_goes_on_finds_everything_once() {
    let folder = folder(&[
        ("a/b.txt", &lines(7)),
        ("a-b.txt", &lines(3)),
        ("a/c/d.txt", &lines(4)),
        ("z.txt", &lines(5)),
    ]);
    let whole = find(&folder, Some("line"), None, ".").results;
    for page in [1, 2, 3, 7, 18] {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let query = Query { max_results: page, after, ..query(Some("line"), None) };
            let found = folder.workspace.search(".", &query).unwrap();
            all.extend(found.results);
            assert_eq!(found.truncated, found.next.is_some());
            match found.next {
                Some(next) => after = Some(Mark::read(&next).unwrap()),
                None => break,
            }
        }
        assert_eq!(all, whole, "in pages of {page}");
    }
    assert!(Mark::read("elsewhere").unwrap_err().message().contains("give its `next`"));
}

#[test]
fn a_search_for_plain_text_gives_no_sign_a_meaning() {
    let folder = folder(&[("a.rs", "f(x)\nfx\n")]);
    let pattern = Pattern::compile("f(x)", true, false).unwrap();
    let query = Query { pattern: Some(pattern), max_results: 9, ..Query::default() };

    assert_eq!(folder.workspace.search(".", &query).unwrap().results, [found_line("a.rs", 1, "f(x)")]);
}

#[test]
fn a_very_long_line_is_shown_around_what_was_found() {
    let folder = folder(&[("long.txt", &format!("{}needle{}", "ä".repeat(200_000), "ö".repeat(200_000)))]);

    let found = find(&folder, Some("needle"), None, ".");

    let text = found.results[0].text.as_deref().unwrap();
    assert!(text.contains("needle") && text.starts_with('…') && text.ends_with('…'), "{text}");
    assert_eq!(text.chars().count(), 302);
}

#[test]
fn bytes_are_read_from_the_beginning_and_from_the_end() {
    let folder = folder(&[("a.txt", "abcdef€")]);
    let read = |start, count, encoding| folder.workspace.read_bytes("a.txt", start, count, encoding).unwrap();

    let part = read(1, 2, Encoding::Base64);
    assert_eq!(
        (part.data.as_str(), part.start_byte, part.total_bytes, part.next_byte),
        ("YmM=", 1, 9, Some(3))
    );
    assert_eq!(read(-4, 9, Encoding::Hex).data, "66e282ac");
    let part = read(4, 4, Encoding::Text);
    assert_eq!((part.data.as_str(), part.next_byte), ("ef", Some(6)), "a character is not cut in two");
    assert_eq!(read(-100, 1, Encoding::Text).data, "a");
    assert_eq!(read(9, 1, Encoding::Text).data, "");
    let beyond = folder.workspace.read_bytes("a.txt", 10, 1, Encoding::Hex).unwrap_err();
    assert_eq!(beyond.message(), "`a.txt` has 9 bytes: begin at one of them");
}

#[test]
fn a_line_that_is_cut_goes_on_by_bytes() {
    let content = format!("a\n{}", "€".repeat(100_000));
    let folder = folder(&[("a.txt", &content)]);

    let cut = folder.workspace.read("a.txt", 2, 1).unwrap();
    let next = i64::try_from(cut.next_byte.unwrap()).unwrap();
    let rest = folder.workspace.read_bytes("a.txt", next, 6, Encoding::Text).unwrap();

    assert!(cut.cut && cut.text.chars().all(|character| character == '€'));
    assert_eq!(rest.data, "€€");
}

#[test]
fn a_file_of_any_kind_is_told_about() {
    let folder = folder(&[("empty", ""), ("text", "a\nb"), ("f/g/h", "12")]);
    fs::write(folder.folder.path().join("binary"), [0, 1]).unwrap();
    let facts = |path| serde_json(&folder.workspace.stat(path).unwrap());

    assert_eq!(facts("empty")["content"], "empty");
    assert_eq!(facts("text")["lines"], 2);
    assert_eq!(facts("binary")["content"], "binary");
    assert_eq!(facts("f")["files"], 1);
    assert_eq!(facts("f")["folders"], 1);
    assert_eq!(facts("f")["bytes"], 2);
    assert_eq!(facts(".")["kind"], "folder");
}

fn serde_json(value: &impl toolgate_sdk::serde::Serialize) -> toolgate_sdk::serde_json::Value {
    toolgate_sdk::serde_json::to_value(value).unwrap()
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

#[test]
fn files_found_by_a_glob_come_in_pages() {
    let folder = folder(&[("a/1.rs", ""), ("a-b/2.rs", ""), ("a.rs", ""), ("b/c/3.rs", ""), ("b/4.md", "")]);
    let whole = folder.workspace.glob("*.rs", ".", 100, None).unwrap();
    assert_eq!(whole.paths, ["a/1.rs", "a-b/2.rs", "a.rs", "b/c/3.rs"]);
    assert_eq!(whole.next, None);

    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = folder.workspace.glob("*.rs", "/workspace", 1, after.as_deref()).unwrap();
        all.extend(page.paths);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, whole.paths);
    let long = folder.workspace.glob(&"*".repeat(1_001), ".", 1, None).unwrap_err();
    assert!(long.message().contains("longer than 1000 bytes"), "{long}");
}

#[test]
fn a_search_ends_in_time_and_goes_on_where_it_ended() {
    let text: String = (0..150_000).map(|number| format!("wörd {number} and more\n")).collect();
    let folder = folder(&[("a.txt", &text), ("b.txt", "wörd 1 and more\n"), ("c.txt", "nothing\n")]);
    let mut all = Vec::new();
    let (mut after, mut calls) = (None, 0);
    loop {
        let query = Query { after, ..query(Some(r"\b\w*[71]00000\b|\bwörd 1\b"), None) };
        let found = folder.workspace.search(".", &query).unwrap();
        all.extend(found.results.iter().map(|result| (result.path.clone(), result.line.unwrap())));
        calls += 1;
        match found.next {
            Some(next) => after = Some(Mark::read(&next).unwrap()),
            None => break,
        }
    }
    assert_eq!(all, [("a.txt".to_owned(), 2), ("a.txt".to_owned(), 100_001), ("b.txt".to_owned(), 1)]);
    assert!((2..20).contains(&calls), "{calls}");
}
