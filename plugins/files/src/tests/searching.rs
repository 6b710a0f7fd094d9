//! Files and lines that are found.

use super::*;

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
    assert_eq!(found.skipped_more, 0);
    (0..25)
        .for_each(|index| fs::write(folder.folder.path().join(format!("{index}.bin")), b"needle\0").unwrap());
    let found = find(&folder, Some("needle"), None, ".");
    assert_eq!((found.skipped.len(), found.skipped_more, found.results.len()), (20, 7, 1));
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
    assert!(Pattern::compile(r"fn main\(\) {", false, false).unwrap().regex.is_match("fn main() {"));
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
