//! Writing, changing, moving and deleting, and what is left where that fails.

use std::fs;

use super::{Folder, folder, lines};
use crate::write::read_base64;

fn message<T: std::fmt::Debug>(result: Result<T, toolgate_sdk::Error>) -> String {
    result.unwrap_err().message().to_owned()
}

#[test]
fn a_write_leaves_nothing_but_the_file() {
    let folder = folder(&[("a/b.txt", "old")]);

    folder.workspace.write("a/b.txt", b"new").unwrap();
    folder.workspace.write("c/d/e.txt", b"x").unwrap();

    assert_eq!(folder.text("a/b.txt"), "new");
    assert_eq!(folder.all(), ["a", "a/b.txt", "c", "c/d", "c/d/e.txt"]);
}

#[test]
fn t7_base64_is_read_with_its_padding_or_without() {
    for (content, bytes) in [
        ("iVBORw0KGgo=", &b"\x89PNG\r\n\x1a\n"[..]),
        ("iVBORw0\nKGgo", b"\x89PNG\r\n\x1a\n"),
        ("YQ", b"a"),
        ("", b""),
    ] {
        assert_eq!(read_base64(content).unwrap(), bytes, "{content}");
    }
    for content in ["Y", "a?==", "YQ==YQ==", "YQ======"] {
        assert!(message(read_base64(content)).starts_with("`content` is not base64: "), "{content}");
    }
}

#[test]
fn a_write_that_fails_leaves_everything_as_it_was() {
    let folder = folder(&[("a.txt", "old")]);

    let under_file = message(folder.workspace.write("a.txt/b/c.txt", b"x"));
    assert!(under_file.contains("a folder on its way is a file"), "{under_file}");
    let too_long = message(folder.workspace.write(&format!("new/folder/{}", "x".repeat(300)), b"x"));
    assert!(too_long.contains("the name is too long"), "{too_long}");

    assert_eq!(folder.all(), ["a.txt"]);
    assert_eq!(folder.text("a.txt"), "old");
}

#[test]
fn a_name_as_long_as_a_name_can_be_is_written() {
    let folder = folder(&[]);
    let name = "ä".repeat(127);

    folder.workspace.write(&name, b"x").unwrap();

    assert_eq!(folder.all(), [name]);
}

#[test]
fn text_is_appended_on_a_line_of_its_own() {
    let folder = folder(&[("a.txt", "one"), ("b.txt", "one\n"), ("empty", "")]);
    let append = |path: &str, new_line| folder.workspace.append(path, "two\n", new_line).unwrap();

    assert_eq!(append("a.txt", true).bytes, 8);
    append("b.txt", true);
    append("empty", true);
    assert!(append("new/c.txt", true).created);
    assert!(!append("c.txt", false).path.is_empty());
    append("c.txt", false);

    for (path, expected) in [
        ("a.txt", "one\ntwo\n"),
        ("b.txt", "one\ntwo\n"),
        ("empty", "two\n"),
        ("new/c.txt", "two\n"),
        ("c.txt", "two\ntwo\n"),
    ] {
        assert_eq!(folder.text(path), expected, "{path}");
    }
    assert!(message(folder.workspace.append("new", "x", true)).contains("is a folder"));
}

#[test]
fn nothing_is_appended_as_nothing() {
    for before in ["one", "one\n", ""] {
        let folder = folder(&[("a.txt", before)]);
        assert_eq!(folder.workspace.append("a.txt", "", true).unwrap().bytes, before.len() as u64);
        assert_eq!(folder.text("a.txt"), before);
    }
    let folder = folder(&[("a.txt", "one")]);
    assert_eq!(folder.workspace.append("a.txt", "\n", true).unwrap().bytes, 5);
    assert!(folder.workspace.append("new.txt", "", true).unwrap().created);
    assert_eq!((folder.text("a.txt").as_str(), folder.text("new.txt").as_str()), ("one\n\n", ""));
}

#[test]
fn t7_text_is_appended_with_the_ends_of_lines_that_a_file_has() {
    let long = "a line\r\n".repeat(5_000);
    for (before, content, new_line, after) in [
        ("a\r\nb\r\n", "c\nd\n", true, "a\r\nb\r\nc\r\nd\r\n"),
        ("a\r\nb", "c\n", true, "a\r\nb\r\nc\r\n"),
        ("a\r\nb", "c\n", false, "a\r\nbc\r\n"),
        // An `\r` says that ends are meant as they are written.
        ("a\r\n", "c\r\nd\n", true, "a\r\nc\r\nd\n"),
        ("a\r\nb\n", "c\n", true, "a\r\nb\nc\n"),
        ("a\n", "c\n", true, "a\nc\n"),
        ("a", "c\n", true, "a\nc\n"),
        (&long, "c\n", true, &format!("{long}c\r\n")),
        (&format!("a\n{long}"), "c\n", true, &format!("a\n{long}c\n")),
    ] {
        let folder = folder(&[("a.txt", before)]);
        let appended = folder.workspace.append("a.txt", content, new_line).unwrap();
        assert_eq!(folder.text("a.txt"), after);
        assert_eq!(appended.bytes, after.len() as u64);
    }
}

#[test]
fn t7_text_is_appended_only_to_what_ends_in_utf_8() {
    let folder = folder(&[]);
    let path = folder.folder.path().join("a");
    let cut = [b"x".as_slice(), "ä".repeat(10_000).as_bytes()].concat();
    for bytes in [b"caf\xe9\n".as_slice(), b"\xc3", &[cut.as_slice(), b"\xff"].concat()] {
        fs::write(&path, bytes).unwrap();
        let refused = message(folder.workspace.append("a", "text\n", true));
        assert!(
            refused.contains("text that does not end in UTF-8") && refused.contains("`write` it"),
            "{refused}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    for bytes in [cut.as_slice(), "é\n".as_bytes()] {
        fs::write(&path, bytes).unwrap();
        folder.workspace.append("a", "ö", false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [bytes, "ö".as_bytes()].concat());
    }
}

#[test]
fn t7_what_cannot_be_seen_is_shown_where_a_text_is_not_found() {
    let folder = folder(&[("a.txt", "\u{feff}let total =\u{a0}1;\n\tprint(\u{200b}total);\u{7}\n")]);
    for (old, expected) in [
        ("let total = 2;", "The nearest line is 1: `let total =\\u{a0}1;`"),
        ("    print(total, 1);", "The nearest line is 2: `\\tprint(\\u{200b}total);\\u{7}`"),
    ] {
        let told = message(folder.workspace.edit("a.txt", old, "x", false));
        assert!(told.ends_with(expected), "{told}");
    }
    folder.workspace.edit("a.txt", "let total =\u{a0}1;\n", "let total = 1;\n", false).unwrap();
    assert!(folder.text("a.txt").starts_with("\u{feff}let total = 1;\n"));
}

#[test]
fn an_edit_changes_the_one_place() {
    let folder = folder(&[("a.txt", "one\ntwo\nthree\n")]);

    let edited = folder.workspace.edit("a.txt", "two\nth", "2\nTh", false).unwrap();

    assert_eq!((edited.replaced, edited.lines, edited.bytes), (1, vec![2], 12));
    assert_eq!(folder.text("a.txt"), "one\n2\nThree\n");
    assert_eq!(folder.all(), ["a.txt"]);
}

#[test]
fn an_edit_of_many_places_must_be_asked_for() {
    let folder = folder(&[("a.txt", "x = 1\ny\nx = 1\n")]);

    assert_eq!(
        message(folder.workspace.edit("a.txt", "x = 1", "x = 2", false)),
        "`old` is 2 times in `a.txt`, in lines 1, 3: add what is around the one that is meant, or set `all`"
    );
    assert_eq!(folder.text("a.txt"), "x = 1\ny\nx = 1\n");

    assert_eq!(folder.workspace.edit("a.txt", "x = 1", "", true).unwrap().replaced, 2);
    assert_eq!(folder.text("a.txt"), "\ny\n\n");
}

#[test]
fn an_edit_that_finds_nothing_names_the_nearest_line() {
    let folder =
        folder(&[("a.rs", "fn main() {\n    let total = sum(1, 2);\n    print(total);\n}\n"), ("empty", "")]);
    let edit = |path: &str, old: &str| message(folder.workspace.edit(path, old, "x", false));

    for (old, expected) in [
        (
            "let totals = sum(1,2);",
            "`old` is not in `a.rs`. The nearest line is 2: `    let total = sum(1, 2);`",
        ),
        (
            "\tprint(total);",
            "`old` is in `a.rs` from line 3, but for the spaces or tabs that its lines begin with: take the text as `read` gives it",
        ),
        (
            "2: let total = sum(1, 2);\n3: print(total);",
            "`old` is in `a.rs` from line 2, but for the numbers before its lines, which are no part of the file: take the text as `read` gives it",
        ),
        (
            "    print(total); \n}",
            "`old` is in `a.rs` from line 3, but for spaces at the ends of its lines: take the text as `read` gives it",
        ),
        ("§§§", "`old` is not in `a.rs`, nor is any line like it: read the file, or `search` for it"),
    ] {
        assert_eq!(edit("a.rs", old), expected);
    }
    let partly = edit("a.rs", "    print(total);\n}}");
    assert!(partly.contains("in line 3, but not all that comes with it"), "{partly}");
    assert!(edit("empty", "a").contains("which is empty"));
    assert!(edit("a.rs", "").contains("`old` is empty"));
    assert!(edit("a.rs", "x").contains("the same"));
}

#[test]
fn an_edit_that_differs_in_signs_that_look_alike_names_one() {
    for (text, old, slip) in [
        (
            "a\nsay “hi”\n",
            "say \"hi\"",
            "from line 2, but for signs that look alike, as `“` (U+201C) of the file",
        ),
        ("say \"hi\"\n", "say “hi”", "from line 1, but for signs that look alike, as `“` (U+201C) of `old`"),
        ("no\u{a0}break\n", "no break", "signs that look alike, as `\\u{a0}` (U+00A0) of the file"),
        ("cafe\u{301}\nx\n", "café\nx", "signs that look alike, as `\\u{301}` (U+0301) of the file"),
        ("a — b…\n", "a - b...", "signs that look alike, as `—` (U+2014) of the file"),
        ("zero\u{200b}width\n", "zerowidth", "signs that look alike, as `\\u{200b}` (U+200B) of the file"),
        ("１２\n", "12", "signs that look alike, as `１` (U+FF11) of the file"),
        ("x\nkey =\tvalue\n", "key = value", "from line 2, but for the spaces or tabs within its lines"),
    ] {
        let folder = folder(&[("a.txt", text)]);
        let told = message(folder.workspace.edit("a.txt", old, "new", false));
        assert!(told.contains(slip), "{old}: {told}");
    }
}

#[test]
fn an_edit_takes_the_line_ends_of_the_file() {
    let folder = folder(&[("a.txt", "one\r\ntwo\r\nthree\r\n")]);

    folder.workspace.edit("a.txt", "one\ntwo", "1\n2\n", false).unwrap();

    assert_eq!(folder.text("a.txt"), "1\r\n2\r\n\r\nthree\r\n");
}

#[test]
fn t7_an_edit_in_line_feeds_takes_the_ends_of_a_file_that_has_but_one_kind() {
    for (before, old, new, after) in [
        ("a\r\nb\r\n", "a", "a\nnew", "a\r\nnew\r\nb\r\n"),
        ("a\r\nb\r\n", "a\n", "", "b\r\n"),
        // An `\r` says that ends are meant as they are written.
        ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
        ("a\nb\n", "a\n", "a\r\n", "a\r\nb\n"),
        ("a\r\nb\n", "b", "b\nc", "a\r\nb\nc\n"),
        ("a\r\nb\n", "a\r\n", "A\n", "A\nb\n"),
        ("a", "a", "a\nb", "a\nb"),
    ] {
        let folder = folder(&[("a.txt", before)]);
        folder.workspace.edit("a.txt", old, new, false).unwrap();
        assert_eq!(folder.text("a.txt"), after, "{before:?} {old:?} {new:?}");
    }
    let folder = folder(&[("mixed.txt", "a\r\nb\n")]);
    let refused = message(folder.workspace.edit("mixed.txt", "a\nb", "x", false));
    assert!(refused.contains("from line 1, but for the ends of its lines"), "{refused}");
}

#[test]
fn t7_an_edit_past_the_end_of_a_file_without_a_line_end_says_so() {
    let told = |before: &str, old: &str| {
        let folder = folder(&[("a.txt", before)]);
        message(folder.workspace.edit("a.txt", old, "x", false))
    };
    for (before, old, line) in [
        ("a\nb", "b\n", 2),
        ("a\nb", "a\nb\n", 1),
        ("a\nb", "b\n\n", 2),
        ("a\r\nb", "a\nb\n", 1),
        ("a\r\nb", "b\r\n", 2),
        ("b", "b\n", 1),
    ] {
        assert_eq!(
            told(before, old),
            format!(
                "`old` is in `a.txt` from line {line}, but for the line end after it, since the file ends without one: \
                 take the text as `read` gives it"
            ),
            "{before:?} {old:?}"
        );
    }
    // With a line end at the end, and where a longer line begins like the text, the reason is another.
    for (before, old, reason) in [
        ("a\r\nb\n", "a\nb\n", "for the ends of its lines, where one has `\\n`"),
        ("a\nprint(sums)", "print(sum\n", "in line 2, but not all that comes with it"),
        ("a\nprint(sums)\n", "print(sum\n", "in line 2, but not all that comes with it"),
        ("a\n  b", "\tb\n", "for the spaces or tabs that its lines begin with"),
    ] {
        assert!(told(before, old).contains(reason), "{before:?} {old:?}: {}", told(before, old));
    }
    let folder = folder(&[("a.txt", "a\nb")]);
    folder.workspace.edit("a.txt", "b", "c\n", false).unwrap();
    assert_eq!(folder.text("a.txt"), "a\nc\n");
}

#[test]
fn t7_the_lines_of_an_edit_in_a_file_with_crlf_are_found_by_signs_that_look_alike() {
    let folder = folder(&[("a.txt", "say “hi”\r\nb\r\n")]);
    let told = message(folder.workspace.edit("a.txt", "say \"hi\"\nb", "x", false));
    assert!(told.contains("from line 1, but for signs that look alike"), "{told}");
}

#[test]
fn t7_a_file_that_is_too_large_to_be_edited_has_a_way_out() {
    let folder = folder(&[("a.txt", &"a".repeat(8 * 1024 * 1024 + 1))]);

    let refused = message(folder.workspace.edit("a.txt", "a", "b", true));

    assert!(refused.contains("larger than 8 MiB") && refused.contains("`append` them"), "{refused}");
}

#[test]
fn t7_text_is_not_appended_to_what_is_no_text_in_utf_8() {
    let folder = folder(&[]);
    let zeros_at_the_end = [vec![b'a'; 100_000], vec![0; 3]].concat();
    for bytes in [b"\xff\xfea\0", &b"\xfe\xff\0a"[..], b"\xff\xfe", b"\x7fELF\0", &zeros_at_the_end] {
        std::fs::write(folder.folder.path().join("a"), bytes).unwrap();

        let refused = message(folder.workspace.append("a", "text\n", true));

        assert!(refused.contains("binary, or text in UTF-16") && refused.contains("`write` it"), "{refused}");
        assert_eq!(std::fs::read(folder.folder.path().join("a")).unwrap(), bytes);
    }
    std::fs::write(folder.folder.path().join("a"), "\u{feff}ä\n").unwrap();
    folder.workspace.append("a", "ö\n", true).unwrap();
    assert_eq!(folder.text("a"), "\u{feff}ä\nö\n");
}

#[cfg(unix)]
#[test]
fn t7_a_folder_with_a_name_that_cannot_be_given_says_what_to_do() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = folder(&[("f/g/a.txt", "a")]);
    std::fs::write(folder.folder.path().join("f").join(OsStr::from_bytes(b"bad\xff.txt")), "").unwrap();

    let refused = message(folder.workspace.delete("f", true));
    assert!(
        refused.contains("a name that is not UTF-8") && refused.contains("`move` the folder"),
        "{refused}"
    );
    assert!(refused.ends_with("Before it 2 files and folders were deleted"), "{refused}");
    let refused = message(folder.workspace.delete("f", false));
    assert!(refused.contains("0 entries in it, and 1 whose names cannot be shown"), "{refused}");
    folder.workspace.move_path("f", "out-of-the-way", false).unwrap();
}

#[test]
fn an_edit_that_would_make_a_huge_file_is_refused() {
    let folder = folder(&[("a.txt", &"a".repeat(10_000))]);

    let refused = message(folder.workspace.edit("a.txt", "a", &"b".repeat(10_000), true));

    assert!(refused.contains("100000000 bytes"), "{refused}");
}

#[test]
fn files_and_folders_are_moved() {
    let folder = folder(&[("a.txt", "a"), ("f/b.txt", "b"), ("c.txt", "c")]);

    folder.workspace.move_path("a.txt", "x/y/a.txt", false).unwrap();
    folder.workspace.move_path("f", "g", false).unwrap();
    assert!(folder.workspace.move_path("c.txt", "g/b.txt", true).unwrap().replaced);

    assert_eq!(folder.all(), ["g", "g/b.txt", "x", "x/y", "x/y/a.txt"]);
    assert_eq!(folder.text("g/b.txt"), "c");
}

fn refusals(folder: &Folder, go: &dyn Fn(&str, &str) -> String) {
    let before = folder.all();
    for (from, to, expected) in [
        ("a.txt", "b.txt", "set `overwrite`"),
        ("a.txt", "f", "write the whole new path, as `f/a.txt`"),
        ("a.txt", "new/", "write the whole new path, as `new/a.txt`"),
        ("f", "f/g", "lies in `f` itself"),
        ("f", "b.txt", "a folder does not replace it"),
        ("a.txt", "./a.txt", "both `from` and `to`"),
        (".", "x", "is the workspace itself"),
        ("b.tx", "x", "did you mean `b.txt`?"),
        ("a.txt", "../x", "may not contain `..`"),
    ] {
        let told = go(from, to);
        assert!(told.contains(expected), "{from} to {to}: {told}");
    }
    assert_eq!(folder.all(), before);
}

#[test]
fn a_move_or_a_copy_that_makes_no_sense_is_refused() {
    let folder = folder(&[("a.txt", "a"), ("b.txt", "b"), ("f/c.txt", "c")]);

    refusals(&folder, &|from, to| message(folder.workspace.move_path(from, to, false)));
    refusals(&folder, &|from, to| message(folder.workspace.copy(from, to, false)));
}

#[test]
fn files_and_folders_are_copied() {
    let folder = folder(&[("a.txt", &lines(10_000)), ("f/g/b.txt", "b"), ("f/c.txt", "cc"), ("d.txt", "d")]);

    assert_eq!(folder.workspace.copy("a.txt", "x/a.txt", false).unwrap().files, 1);
    let copied = folder.workspace.copy("f", "x/f", false).unwrap();
    assert_eq!((copied.files, copied.bytes), (2, 3));
    folder.workspace.copy("d.txt", "f/c.txt", true).unwrap();

    assert_eq!(folder.text("x/a.txt"), lines(10_000));
    assert_eq!(folder.text("x/f/g/b.txt"), "b");
    assert_eq!(folder.text("x/f/c.txt"), "cc");
    assert_eq!(folder.text("f/c.txt"), "d");
    assert_eq!(folder.all().len(), 12);
}

#[test]
fn a_folder_with_too_much_in_it_is_not_begun_to_be_copied() {
    let names: Vec<String> = (0..3_500).map(|number| format!("f/{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let folder = folder(&files);
    assert_eq!(folder.workspace.copy("f", "all", false).unwrap().files, 3_500);
    let before = folder.all();
    // Each piece of a file takes calls to the host too.
    for number in 0..400 {
        fs::write(folder.folder.path().join(format!("f/{number}")), [b'x'; 8 * 1024 + 1]).unwrap();
    }
    let refused = message(folder.workspace.copy("f", "x/f", false));
    assert!(refused.contains("3500 files and folders") && refused.contains("one by one"), "{refused}");
    assert_eq!(folder.all(), before);
}

#[test]
fn a_folder_with_too_large_a_file_is_not_begun_to_be_copied() {
    let folder = folder(&[("f/a.txt", "x"), ("f/g/b.txt", "x")]);
    let large = fs::File::create(folder.folder.path().join("f/large")).unwrap();
    large.set_len(256 * 1024 * 1024).unwrap();
    let before = folder.all();
    let refused = message(folder.workspace.copy("f", "x", false));
    assert!(refused.contains("large files one by one"), "{refused}");
    assert_eq!(folder.all(), before);

    large.set_len(1024 * 1024).unwrap();
    assert_eq!(folder.workspace.copy("f", "x", false).unwrap().files, 3);
}

#[test]
fn a_folder_is_deleted_with_what_is_in_it_only_when_asked() {
    let folder = folder(&[("f/a.txt", "12"), ("f/g/b.txt", "3"), ("keep.txt", "")]);

    let refused = message(folder.workspace.delete("f", false));
    assert!(refused.contains("2 entries") && refused.contains("`recursive`"), "{refused}");
    assert!(message(folder.workspace.delete(".", true)).contains("the workspace itself"));
    assert!(message(folder.workspace.delete("kept.txt", false)).contains("did you mean `keep.txt`?"));

    let deleted = folder.workspace.delete("f", true).unwrap();
    assert_eq!((deleted.files, deleted.folders, deleted.bytes), (2, 2, 3));
    assert_eq!(folder.all(), ["keep.txt"]);
    folder.workspace.delete("keep.txt", false).unwrap();
    assert!(folder.all().is_empty());
}

#[cfg(unix)]
#[test]
fn links_are_never_followed_nor_written_through() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let folder = folder(&[("f/a.txt", "a")]);
    symlink(outside.path().join("secret"), folder.folder.path().join("link")).unwrap();
    symlink(outside.path(), folder.folder.path().join("f/out")).unwrap();

    assert!(message(folder.workspace.write("link", b"x")).contains("is a link"));
    assert!(message(folder.workspace.copy("link", "x", false)).contains("stays where it is"));
    assert_eq!(folder.workspace.copy("f", "g", false).unwrap().left_out, 1);
    assert_eq!(folder.workspace.delete("f", true).unwrap().files, 2);

    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
}
