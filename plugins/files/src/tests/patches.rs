//! Patches that apply, and what is said of those that do not.

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
            "hunk 2 for `a.txt` (line 6 of the diff) does not fit: its lines are in the file only before those of the hunk before it, at 3: put the hunks in order. Nothing was changed",
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
        ("diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n".to_owned(), "use `move`"),
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

    for (hunk, line, of_file, of_diff) in [
        ("-a\n+A\n", 1, "\\r\\n", "\\n"),
        (" a\r\n b\n-c\n", 2, "\\r\\n", "\\n"),
        ("-c\r\n", 3, "\\n", "\\r\\n"),
    ] {
        let told = apply(&folder, &format!("--- a.txt\n+++ a.txt\n@@ @@\n{hunk}"));
        let expected = format!(
            "line {line} of the file ends in `{of_file}`, and in the diff it ends in `{of_diff}`: end each"
        );
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(folder.text("a.txt"), "a\r\nb\r\nc\n");

    // Where the ends of the diff are taken for those of the file, they are never what is wrong.
    folder.workspace.write("dos.txt", b"a\r\nb\r\n").unwrap();
    let told = apply(&folder, "--- dos.txt\n+++ dos.txt\n@@ @@\n \n-b\n");
    assert!(told.contains("does not fit") && !told.contains("ends in"), "{told}");
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
    assert!(told.contains("the nearest is 1: `one\\u{200b} line`"), "{told}");
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

#[test]
fn a_file_that_repeats_itself_is_given_up_in_time() {
    let folder = folder(&[("a.txt", &"x\n".repeat(20_000))]);
    let diff = format!("--- a.txt\n+++ a.txt\n@@ @@\n{}-y\n", " x\n".repeat(10_000));

    assert!(apply(&folder, &diff).contains("repeats the same lines too often"), "{}", apply(&folder, &diff));
}
