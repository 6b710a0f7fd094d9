//! Patches that apply, and what is said of those that do not.

mod openai_form;

use super::{Folder, folder, lines};

fn apply(folder: &Folder, diff: &str) -> String {
    match folder.workspace.patch(diff, None) {
        Ok(patched) => {
            let told = patched
                .files
                .iter()
                .map(|file| format!("{:?} {} +{} -{}", file.change, file.path, file.added, file.removed));
            told.collect::<Vec<_>>().join("; ")
        }
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn several_hunks_and_files_are_applied_at_once() {
    let folder = folder(&[("a.txt", &lines(20)), ("old.txt", "bye\n")]);
    let diff = "\
diff --git a/a.txt b/a.txt
index 1111111..2222222 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,4 @@ somewhere
 line 1
-line 2
+LINE 2
+line 2.5
 line 3
@@ -18,3 +19,2 @@
 line 18
-line 19
 line 20
diff --git a/new/n.txt b/new/n.txt
new file mode 100644
--- /dev/null
+++ b/new/n.txt
@@ -0,0 +1,2 @@
+hello
+world
\\ No newline at end of file
--- a/old.txt\t2026-01-01
+++ /dev/null
@@ -1 +0,0 @@
-bye
-- \n2.40.1
";
    assert_eq!(apply(&folder, diff), "Changed a.txt +2 -2; Created new/n.txt +2 -0; Deleted old.txt +0 -1");

    let expected = lines(20).replace("line 2\n", "LINE 2\nline 2.5\n").replace("line 19\n", "");
    assert_eq!(folder.text("a.txt"), expected);
    assert_eq!(folder.text("new/n.txt"), "hello\nworld");
    assert_eq!(folder.all(), ["a.txt", "new", "new/n.txt"]);
}

#[test]
fn numbers_may_be_wrong_where_the_lines_are_right() {
    let folder = folder(&[("a.txt", &lines(50))]);

    let diff = "--- a.txt\n+++ a.txt\n@@ -3,9 +3,1 @@\n line 30\n-line 31\n\n";
    assert_eq!(apply(&folder, diff), "Changed a.txt +0 -1");
    let diff = "```diff\n--- a.txt\n+++ a.txt\n@@ @@\n line 40\n+line 40.5\n@@ somewhere @@\n-line 50\n```\n";
    assert_eq!(apply(&folder, diff), "Changed a.txt +1 -1");

    let expected = lines(49).replace("line 31\n", "").replace("line 40\n", "line 40\nline 40.5\n");
    assert_eq!(folder.text("a.txt"), expected);
}

#[test]
fn a_hunk_that_does_not_fit_is_told_with_the_line_and_nothing_is_changed() {
    let folder = folder(&[("a.txt", &lines(20)), ("b.txt", "same\n1\nsame\n1\n")]);
    let heading = |path: &str| format!("--- a/{path}\n+++ b/{path}\n");

    for (diff, expected) in [
        (
            "a.txt\n@@ -1,1 +1,1 @@\n-line 1\n+first\n@@ -4,3 +4,3 @@\n line 4\n line 5\n-lime 6\n+x\n",
            "hunk 2 for `a.txt` (line 6 of the diff) does not fit: line 6 of the file is `line 6`, and the diff has `lime 6`. Nothing was changed",
        ),
        (
            "a.txt\n@@ -19,3 +19,2 @@\n line 19\n line 20\n-line 21\n",
            "hunk 1 for `a.txt` (line 3 of the diff) does not fit: the file ends at line 20, and the diff goes on with `line 21`. Nothing was changed",
        ),
        (
            "a.txt\n@@ -1 +1 @@\n-lines 7\n+x\n",
            "hunk 1 for `a.txt` (line 3 of the diff) does not fit: no line of the file is `lines 7`; the nearest is 7: `line 7`. Nothing was changed",
        ),
        (
            "b.txt\n@@ -9 +9 @@\n-1\n+2\n",
            "hunk 1 for `b.txt` (line 3 of the diff) does not fit: its lines are in the file more than once, first at 2 and 4: add lines of context, or the right number in `@@`. Nothing was changed",
        ),
        (
            "a.txt\n@@ -9 +9 @@\n-line 9\n+x\n@@ -3 +3 @@\n-line 3\n+y\n",
            "hunk 2 for `a.txt` (line 6 of the diff) does not fit: its lines begin at 3, and those of the hunk before it, or its own `@@`, end at 9: put the hunks in order, and leave out what an earlier one has. Nothing was changed",
        ),
        (
            "a.txt\n@@ -1,3 +1,3 @@\n line 1\n-line 2\n+x\n line 3\n@@ -3,2 +3,2 @@\n line 3\n-line 4\n+y\n",
            "hunk 2 for `a.txt` (line 8 of the diff) does not fit: its lines begin at 3, and those of the hunk before it, or its own `@@`, end at 3: put the hunks in order, and leave out what an earlier one has. Nothing was changed",
        ),
    ] {
        let (path, hunks) = diff.split_once('\n').unwrap();
        assert_eq!(apply(&folder, &format!("{}{hunks}", heading(path))), expected);
    }
    // A file that fits is not written where another does not.
    let mixed = format!(
        "{}@@ -1 +1 @@\n-line 1\n+x\n{}@@ -1 +1 @@\n-nothing\n+x\n",
        heading("a.txt"),
        heading("b.txt")
    );
    assert!(apply(&folder, &mixed).contains("hunk 1 for `b.txt`"));
    assert_eq!(folder.text("a.txt"), lines(20));
    assert_eq!(folder.all(), ["a.txt", "b.txt"]);
}

#[test]
fn a_patch_that_cannot_be_read_says_which_line() {
    let folder = folder(&[("a.txt", "a\nb\nc\n")]);
    let heading = "--- a/a.txt\n+++ b/a.txt\n";

    for (diff, expected) in [
        ("please change a to b".to_owned(), "no unified diff is in `diff`"),
        (heading.to_owned(), "nothing is said about the lines of `a.txt`"),
        (format!("{heading}@@ -1,3 +1,3 @@\n-a\n+x\nb\n c\n"), "line 6 of the diff: `b` begins with neither"),
        ("@@ -1 +1 @@\n-a\n+b\n".to_owned(), "line 1 of the diff: a hunk stands before any file"),
        (format!("{heading}@@ -1 +1 @@\n a\n"), "changes nothing"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n".to_owned(), "both sides are"),
        (
            "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n".to_owned(),
            "use `move` to rename",
        ),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n".to_owned(), "binary file"),
        ("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n".to_owned(), "which is there already"),
        ("--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n".to_owned(), "not all of its lines"),
        ("--- a/z.txt\n+++ b/z.txt\n@@ -1 +0,0 @@\n-a\n".to_owned(), "there is no `z.txt`"),
        ("--- a/../z\n+++ b/../z\n@@ -1 +0,0 @@\n-a\n".to_owned(), "may not contain `..`"),
        (format!("{heading}@@ -1 +1 @@\n-a\n+x\n{heading}@@ -2 +2 @@\n-b\n+y\n"), "in the patch twice"),
    ] {
        let told = apply(&folder, &diff);
        assert!(told.contains(expected), "{diff}\n{told}");
    }
    assert_eq!(folder.text("a.txt"), "a\nb\nc\n");
}

#[test]
fn ends_of_lines_and_of_files_stay_as_they_are() {
    let folder = folder(&[("dos.txt", "a\r\nb\r\nc"), ("empty.txt", "")]);

    apply(
        &folder,
        "--- dos.txt\n+++ dos.txt\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n\\ No newline at end of file\n",
    );
    assert_eq!(folder.text("dos.txt"), "a\r\nB\r\nc\r\nd");

    assert_eq!(
        apply(&folder, "--- empty.txt\n+++ empty.txt\n@@ -0,0 +1 @@\n+x\n"),
        "Changed empty.txt +1 -0"
    );
    assert_eq!(folder.text("empty.txt"), "x\n");
}

/// What `text/diff` gives for these.
fn diff_of(path: &str, hunk: &str) -> String {
    format!("--- {path}\n+++ {path}\n{hunk}")
}

#[test]
fn t7_a_patch_changes_the_ends_of_lines() {
    let both = "@@ -1,2 +1,2 @@\n-a\r\n-b\r\n+a\n+b\n";
    for (before, hunk, after) in [
        ("a\r\nb\r\n", both, "a\nb\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n-b\n+a\r\n+b\r\n", "a\r\nb\r\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", "a\r\nb\n"),
    ] {
        let folder = folder(&[("a.txt", before)]);
        apply(&folder, &diff_of("a.txt", hunk));
        assert_eq!(folder.text("a.txt"), after, "{before:?} {hunk:?}");
    }
}

#[test]
fn t7_a_diff_in_line_feeds_takes_the_ends_of_a_file_that_has_but_one_kind() {
    let hunk = "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+\n c\n";
    for (before, after) in [
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\n\r\nc\r\n"),
        ("a\r\nb\r\nc", "a\r\nB\r\n\r\nc"),
        ("a\nb\nc\n", "a\nB\n\nc\n"),
        // Only lines that the hunk is about need be the same.
        ("a\nb\nc\nd\r\n", "a\nB\n\nc\nd\r\n"),
    ] {
        // A diff that is all in CRLF, its headings too, was only written so.
        for diff in [diff_of("a.txt", hunk), diff_of("a.txt", hunk).replace('\n', "\r\n")] {
            let folder = folder(&[("a.txt", before)]);
            assert_eq!(apply(&folder, &diff), "Changed a.txt +2 -1");
            assert_eq!(folder.text("a.txt"), after, "{before:?}");
        }
    }
}

#[test]
fn t7_new_and_empty_files_keep_the_returns_of_a_diff() {
    let folder = folder(&[("empty.txt", "")]);

    apply(&folder, "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+x\r\n+y\r\n");
    apply(&folder, "--- empty.txt\n+++ empty.txt\n@@ -0,0 +1 @@\n+x\r\n");

    assert_eq!(folder.text("new.txt"), "x\r\ny\r\n");
    assert_eq!(folder.text("empty.txt"), "x\r\n");
}

#[test]
fn t7_a_mixed_file_keeps_the_end_of_each_line() {
    let folder = folder(&[("a.txt", "a\r\nb\nc\n")]);

    assert_eq!(apply(&folder, "--- a.txt\n+++ a.txt\n@@ -2 +2 @@\n-b\n+B\n"), "Changed a.txt +1 -1");
    assert_eq!(folder.text("a.txt"), "a\r\nB\nc\n");
    assert_eq!(
        apply(&folder, "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n a\r\n-B\n+b\r\n"),
        "Changed a.txt +1 -1"
    );
    assert_eq!(folder.text("a.txt"), "a\r\nb\r\nc\n");

    for (hunk, line, of_file, of_diff) in
        [("-a\n+A\n", 1, "a\\r", "a"), (" a\r\n b\n-c\n", 2, "b\\r", "b"), ("-c\r\n", 3, "c", "c\\r")]
    {
        let told = apply(&folder, &format!("--- a.txt\n+++ a.txt\n@@ @@\n{hunk}"));
        let expected = format!(
            "line {line} of the file is `{of_file}`, and the diff has `{of_diff}`: only their ends differ"
        );
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(folder.text("a.txt"), "a\r\nb\r\nc\n");

    // Line ends of the diff that are taken for those of the file are never what is wrong.
    folder.workspace.write("dos.txt", b"a\r\nb\r\n").unwrap();
    let told = apply(&folder, "--- dos.txt\n+++ dos.txt\n@@ @@\n \n-b\n");
    assert!(told.contains("does not fit") && !told.contains("their ends"), "{told}");
}

#[test]
fn t7_a_byte_order_mark_stays_before_the_first_line() {
    for (before, hunk, after) in [
        ("\u{feff}a\nb\n", "-a\n+A\n b\n", "\u{feff}A\nb\n"),
        ("\u{feff}a\r\nb\r\n", " a\n-b\n+B\n", "\u{feff}a\r\nB\r\n"),
        // A diff that has it as well is taken as it is written.
        ("\u{feff}a\nb\n", "-\u{feff}a\n+\u{feff}A\n b\n", "\u{feff}A\nb\n"),
        ("\u{feff}a\nb\n", "-\u{feff}a\n+a\n b\n", "a\nb\n"),
        ("a\nb\n", "-a\n+\u{feff}a\n b\n", "\u{feff}a\nb\n"),
    ] {
        let folder = folder(&[("a.txt", before)]);
        apply(&folder, &diff_of("a.txt", &format!("@@ -1,2 +1,2 @@\n{hunk}")));
        assert_eq!(folder.text("a.txt"), after, "{before:?} {hunk:?}");
    }
    let folder = folder(&[("a.txt", "\u{feff}a\n")]);
    assert_eq!(apply(&folder, "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"), "Deleted a.txt +0 -1");
    folder.workspace.write("b.txt", "\u{feff}one\u{200b} line\n".as_bytes()).unwrap();
    let told = apply(&folder, &diff_of("b.txt", "@@ -1 +1 @@\n-one line\n+x\n"));
    assert!(
        told.contains(
            "is `one\\u{200b} line`, and the diff has `one line`: only signs that look alike differ"
        ),
        "{told}"
    );
}

#[test]
fn t7_a_patch_that_changes_nothing_says_so() {
    let folder = folder(&[("a.txt", "a\n"), ("dos.txt", "a\r\n")]);

    for path in ["a.txt", "dos.txt"] {
        let told = apply(&folder, &diff_of(path, "@@ -1 +1 @@\n-a\n+a\n"));
        assert!(told.contains(&format!("the patch changes nothing in `{path}`")), "{told}");
    }
}

#[test]
fn lines_that_look_like_headings_are_lines() {
    let folder = folder(&[("a.sql", "-- one\n-- two\nselect\n")]);

    let told =
        apply(&folder, "--- a/a.sql\n+++ b/a.sql\n@@ -1,3 +1,3 @@\n--- one\n+-- uno\n -- two\n select\n");

    assert_eq!(told, "Changed a.sql +1 -1");
    assert_eq!(folder.text("a.sql"), "-- uno\n-- two\nselect\n");
}

#[test]
fn a_patch_moves_a_file_that_has_another_name_after_it() {
    let folder = folder(&[("a.txt", "a\n")]);

    assert_eq!(apply(&folder, "--- a/a.txt\n+++ b/f/b.txt\n@@ -1 +1 @@\n-a\n+b\n"), "Moved f/b.txt +1 -1");
    assert_eq!(folder.all(), ["f", "f/b.txt"]);
}

/// A part of what `git diff` writes, without lines.
fn part(names: &str, says: &str) -> String {
    format!("diff --git {names}\n{says}")
}

const CREATED: &str = "new file mode 100644\nindex 0000000..e69de29\n";
const DELETED: &str = "deleted file mode 100644\nindex e69de29..0000000\n";

#[test]
fn t7_empty_files_are_made_and_deleted_as_git_says() {
    let folder = folder(&[("gone", ""), ("a.txt", "a\n"), ("gone too", "")]);
    let diff = [
        part("a/new b/new", CREATED),
        part("a/gone b/gone", DELETED),
        part("a/a.txt b/a.txt", "index 7..8 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n"),
        part("a/sub/x b/sub/x", CREATED),
        part("a/gone too b/gone too", DELETED),
    ];

    assert_eq!(
        apply(&folder, &format!("{}-- \n2.40.1\n", diff.concat())),
        "Created new +0 -0; Deleted gone +0 -0; Changed a.txt +1 -1; Created sub/x +0 -0; Deleted gone too +0 -0"
    );

    assert_eq!(folder.all(), ["a.txt", "new", "sub", "sub/x"]);
    assert_eq!((folder.text("new"), folder.text("a.txt")), (String::new(), "b\n".to_owned()));

    // Files with lines are not said to be empty, or missing.
    let told = apply(&folder, &part("a/a.txt b/a.txt", DELETED));
    assert!(told.contains("deletes `a.txt` but not all of its lines"), "{told}");
    let told = apply(&folder, &part("a/a.txt b/a.txt", CREATED));
    assert!(told.contains("makes `a.txt`, which is there already"), "{told}");
    assert_eq!(folder.text("a.txt"), "b\n");
}

#[test]
fn t7_names_are_read_as_git_writes_them() {
    for (names, expected) in [
        ("a/plain b/plain", "plain"),
        ("a/with a space b/with a space", "with a space"),
        ("a/x b/x b/x b/x", "x b/x"),
        ("in/a folder in/a folder", "in/a folder"),
        (r#""a/n\303\244me" "b/n\303\244me""#, "näme"),
        (r#""a/tab\tand \"quotes\" \\ " "b/tab\tand \"quotes\" \\ ""#, "tab\tand \"quotes\" \\ "),
    ] {
        let folder = folder(&[]);
        let told = apply(&folder, &part(names, CREATED));
        assert_eq!(told, format!("Created {expected} +0 -0"), "{names}");
        assert_eq!(folder.text(expected), "", "{names}");
    }
    let folder = folder(&[("näme", "a\n"), ("a.txt", "")]);
    let quoted = r#""a/n\303\244me""#;
    assert_eq!(
        apply(&folder, &format!("--- {quoted}\n+++ {}\n@@ -1 +1 @@\n-a\n+b\n", quoted.replace("a/", "b/"))),
        "Changed näme +1 -1"
    );
    for names in
        ["a/x b/y", "a/x", "", r#""a/x b/x"#, r#""a/x" b/x"#, r#""a/\q" "b/\q""#, r#""a/\377" "b/\377""#]
    {
        let told = apply(&folder, &part(names, CREATED));
        assert!(told.contains("line 1 of the diff: the name of the file cannot be read"), "{names}: {told}");
        folder.workspace.patch(&part(names, CREATED), Some("x")).unwrap();
        folder.workspace.delete("x", false).unwrap();
    }
    let told = apply(&folder, "--- \"a\n+++ \"a\n@@ -0,0 +1 @@\n+x\n");
    assert!(told.contains("line 1 of the diff: the name in quotes cannot be read"), "{told}");
}

#[test]
fn t7_a_path_that_is_given_is_the_path_whatever_the_diff_calls_it() {
    let folder = folder(&[("a/gone.txt", "x\n")]);
    let made =
        folder.workspace.patch("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", Some("b/n.txt")).unwrap();
    assert_eq!(made.files[0].path, "b/n.txt");
    let gone =
        folder.workspace.patch("--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", Some("a/gone.txt")).unwrap();
    assert_eq!(gone.files[0].path, "a/gone.txt");
    assert_eq!(folder.all(), ["a", "b", "b/n.txt"]);

    let diff = part("a/n b/n", "new file mode 100644\n@@ -0,0 +1 @@\n+x\n");
    folder.workspace.patch(&diff, Some("c")).unwrap();
    assert_eq!(folder.text("c"), "x\n");
    for (diff, expected) in [
        (
            part("a/c b/d", "rename from c\nrename to d\n--- a/c\n+++ b/d\n@@ -1 +1 @@\n-x\n+y\n"),
            "leave `path` out",
        ),
        ([part("a/c b/c", CREATED), part("a/d b/d", CREATED)].concat(), "about several files"),
        ("nothing".to_owned(), "no unified diff is in `diff`"),
    ] {
        let told = folder.workspace.patch(&diff, Some("c")).unwrap_err();
        assert!(told.message().contains(expected), "{told}");
    }
}

#[test]
fn t7_what_git_says_is_done_or_refused_and_never_passed_over() {
    let lines = "@@ -1 +1 @@\n-a\n+b\n";
    let change = format!("--- a/a.txt\n+++ b/a.txt\n{lines}");
    let copy = "similarity index 90%\ncopy from a.txt\ncopy to b.txt\n";
    let copied = format!("{copy}--- a/a.txt\n+++ b/b.txt\n{lines}");
    let link = "new file mode 120000\nindex 0000000..1\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a.txt\n";
    let link_was = "deleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-a.txt\n";
    let module = "new file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+Subproject commit 1\n";
    let nothing = "line 1 of the diff: a file is named, and none of its lines change: leave its part out";
    for (says, expected) in [
        (copy, "line 3 of the diff: a file is copied: use `copy`"),
        (&copied, "line 3 of the diff: a file is copied: use `copy`"),
        ("old mode 100644\nnew mode 100755\n", nothing),
        ("old mode 100644\nnew mode 100755\nrename from a.txt\nrename to b.txt\n", nothing),
        ("", nothing),
        ("index 1..2 100644\n", nothing),
        (lines, "line 2 of the diff: a hunk stands before any file"),
        (link, "line 2 of the diff: a symbolic link is no file"),
        (link_was, "line 2 of the diff: a symbolic link is no file"),
        (&format!("index 1..2 120000\n{change}"), "line 2 of the diff: a symbolic link is no file"),
        (module, "line 2 of the diff: a submodule is no file"),
        (&format!("index 1..2 160000\n{change}"), "line 2 of the diff: a submodule is no file"),
    ] {
        let folder = folder(&[("a.txt", "a\n"), ("l", "a.txt\n"), ("c.txt", "a\n")]);
        // Alone, and beside parts that could be applied.
        let alone = part("a/a.txt b/a.txt", says);
        let others = part("a/new b/new", CREATED);
        for (diff, expected) in [
            (alone.clone(), expected.to_owned()),
            (format!("{alone}{others}"), expected.to_owned()),
            (
                format!("--- a/c.txt\n+++ b/c.txt\n{lines}{alone}"),
                expected.split_once(": ").unwrap().1.to_owned(),
            ),
        ] {
            let told = apply(&folder, &diff);
            assert!(told.contains(&expected), "{diff}\n{told}");
            assert_eq!(folder.all(), ["a.txt", "c.txt", "l"], "{diff}");
            assert_eq!(folder.text("a.txt") + &folder.text("c.txt"), "a\na\n", "{diff}");
        }
    }
}

#[test]
fn t7_a_mode_that_comes_with_lines_or_a_file_does_not_stop_them() {
    let folder = folder(&[("a.txt", "a\n"), ("c.txt", "a\n")]);
    let lines = "@@ -1 +1 @@\n-a\n+b\n";
    let modes = "old mode 100644\nnew mode 100755\n";
    let diff = [
        part("a/a.txt b/a.txt", &format!("{modes}index 1..2\n--- a/a.txt\n+++ b/a.txt\n{lines}")),
        part("a/run b/run", &CREATED.replace("100644", "100755")),
        part(
            "a/c.txt b/d.txt",
            &format!("{modes}rename from c.txt\nrename to d.txt\n--- a/c.txt\n+++ b/d.txt\n{lines}"),
        ),
    ];

    assert_eq!(apply(&folder, &diff.concat()), "Changed a.txt +1 -1; Created run +0 -0; Moved d.txt +1 -1");
    assert_eq!(folder.all(), ["a.txt", "d.txt", "run"]);
}

#[test]
fn a_file_that_repeats_itself_is_searched_in_time() {
    let folder = folder(&[("a.txt", &"x\n".repeat(20_000))]);
    let diff = format!("--- a.txt\n+++ a.txt\n@@ @@\n{}-y\n", " x\n".repeat(10_000));

    let told = apply(&folder, &diff);
    assert!(told.contains("line 10001 of the file is `x`, and the diff has `y`"), "{told}");
    let told = apply(&folder, &diff.replace("-y", "-x"));
    assert!(told.contains("more than once, first at 1 and 2"), "{told}");
}

#[test]
fn a_line_of_a_hunk_that_lost_its_sign_is_told_with_its_number() {
    let text = "Title\n===\na\n* b\nindex c\nd\n";
    let heading = "--- a/a.md\n+++ b/a.md\n";

    for (hunk, expected) in [
        ("@@ -3,2 +3,2 @@\na\n-* b\n+* B\n", "line 4 of the diff: `a` begins with neither a space"),
        ("@@ -1,3 +1,3 @@\n Title\n===\n-a\n+A\n", "line 5 of the diff: `===` begins with neither a space"),
        ("@@ -3,4 +3,4 @@\n-a\n+A\n* b\n index c\n", "line 6 of the diff: `* b` begins with neither a space"),
        ("@@ -4,3 +4,3 @@\n-* b\n+* B\nindex c\n-d\n+D\n", "line 6 of the diff: `index c` begins with"),
        ("@@ -3,2 +3,2 @@\n-a\n+A\n* b\n", "line 6 of the diff: `* b` begins with neither a space"),
        ("@@ -3 +3 @@\n a\n", "line 3 of the diff: the hunk changes nothing"),
    ] {
        let folder = folder(&[("a.md", text)]);
        let told = apply(&folder, &format!("{heading}{hunk}"));
        assert!(told.contains(expected), "{hunk}\n{told}");
        assert_eq!(folder.text("a.md"), text);
    }
    for hunk in [
        "@@ -1,3 +1,3 @@\n Title\n ===\n-a\n+A\n",
        // Lines between files belong to none of them.
        "@@ -3 +3 @@\n-a\n+A\nIndex: b.md\n===\n--- b.md\n+++ b.md\n@@ -1 +1 @@\n-b\n+B\n",
        "```diff\n@@ -3 +3 @@\n-a\n+A\n```\n- a is written large\n",
    ] {
        let folder = folder(&[("a.md", text), ("b.md", "b\n")]);
        assert!(apply(&folder, &format!("{heading}{hunk}")).starts_with("Changed a.md"), "{hunk}");
        assert_eq!(folder.text("a.md"), text.replace("\na\n", "\nA\n"));
    }
}

#[test]
fn a_hunk_that_differs_in_what_models_get_wrong_is_told_so() {
    let folder = folder(&[("a", "if x:  \n\tprint(x)\n")]);
    for (line, expected) in [
        ("if x:", "line 1 of the file is `if x:  `, and the diff has `if x:`: only spaces at the end differ"),
        ("    print(x)", "only spaces or tabs differ"),
        ("2: \tprint(x)", "the number before it is no part of the file"),
    ] {
        let told = apply(&folder, &diff_of("a", &format!("@@ @@\n-{line}\n+q\n")));
        assert!(told.contains(expected), "{line}\n{told}");
    }
}
