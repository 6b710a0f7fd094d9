//! Patches in the form of OpenAI's models.

use super::*;

#[test]
fn the_form_of_openai_is_applied() {
    let code =
        "class A:\n    def run(self):\n        pass\n\nclass B:\n    def run(self):\n        pass\n\nend\n";
    let folder =
        folder(&[("a.py", code), ("old.txt", "bye\nbye\n"), ("name.txt", "x\n"), ("moved.txt", "m\n")]);
    let patch = "\
*** Begin Patch
*** Add File: new/n.txt
+hello
+
+world
*** Update File: a.py
@@ class B:
@@     def run(self):
-        pass
+        return 1
@@
 
-end
+END
*** End of File

*** Delete File: old.txt
*** Update File: name.txt
*** Move to: other/name.txt
@@
-x
+y
*** Update File: moved.txt
*** Move to: other/moved.txt
*** End Patch
";
    let expected = "Created new/n.txt +3 -0; Changed a.py +2 -2; Deleted old.txt +0 -2; \
                    Moved other/name.txt +1 -1; Moved other/moved.txt +0 -0";
    assert_eq!(apply(&folder, patch), expected);

    assert_eq!(folder.text("new/n.txt"), "hello\n\nworld\n");
    let changed = "class B:\n    def run(self):\n        return 1\n\nEND\n";
    assert_eq!(
        folder.text("a.py"),
        code.replace("class B:\n    def run(self):\n        pass\n\nend\n", changed)
    );
    assert_eq!(folder.text("other/name.txt") + &folder.text("other/moved.txt"), "y\nm\n");
    assert_eq!(folder.all(), ["a.py", "new", "new/n.txt", "other", "other/moved.txt", "other/name.txt"]);
}

#[test]
fn the_form_of_openai_is_read_as_models_write_it() {
    for (patch, before, after) in [
        // In a shell command, without `@@` or the end, and with numbers or a heading in `@@`.
        (
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n x\n-y\n+z\n*** End Patch\nEOF\n",
            "x\ny\n",
            "x\nz\n",
        ),
        ("```\n*** Begin Patch\n*** Update File: a\n@@\n-y\n+z", "x\ny\n", "x\nz\n"),
        ("*** Begin Patch\n*** Update File: a\n@@ -2,1 +2,1 @@\n-y\n+z\n*** End Patch", "y\ny\n", "y\nz\n"),
        (
            "*** Begin Patch\n*** Update File: a\n@@ b: @@\n-y\n+z\n*** End Patch",
            "y\n  b:\ny\ny\n",
            "y\n  b:\nz\ny\n",
        ),
        // Lines that are only added stand behind the anchor, or at the end of the file.
        ("*** Begin Patch\n*** Update File: a\n@@ x\n+z\n*** End Patch", "x\ny\n", "x\nz\ny\n"),
        ("*** Begin Patch\n*** Update File: a\n@@\n+z\n*** End of File\n*** End Patch", "x\ny", "x\ny\nz\n"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-y\n*** End of File\n*** End Patch", "y\ny\n", "y\n"),
        // Empty lines that lost their space, and the ends of lines of the file or of the patch.
        (
            "*** Begin Patch\n*** Update File: a\n@@\n x\n\n-y\n+z\n\n*** End Patch",
            "x\r\n\r\ny\r\n",
            "x\r\n\r\nz\r\n",
        ),
        ("*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-y\r\n+z\r\n*** End Patch\r\n", "x\ny\n", "x\nz\n"),
    ] {
        let folder = folder(&[("a", before)]);
        let told = apply(&folder, patch);
        assert!(told.starts_with("Changed a +"), "{patch}\n{told}");
        assert_eq!(folder.text("a"), after, "{patch}");
    }
}

#[test]
fn the_form_of_openai_says_what_does_not_fit_and_changes_nothing() {
    let folder = folder(&[("a", "x\ny\nx\n"), ("b", "b\n")]);
    for (patch, expected) in [
        (
            "*** Update File: b\n@@\n-b\n+c\n*** Update File: a\n@@\n-z\n+q",
            "hunk 1 for `a` (line 7 of the diff) does not fit",
        ),
        ("*** Update File: a\n@@\n-x\n+q", "more than once, first at 1 and 3"),
        ("*** Update File: a\n@@ def f():\n-x\n+q", "no line is `def f():` from line 1 of the file on"),
        (
            "*** Update File: a\n@@\n-y\n+q\n*** End of File",
            "its lines are at 2, and not at the end of the file",
        ),
        ("*** Update File: a\n@@ y\n-y\n+q", "its lines begin at 2"),
        ("*** Update File: a\n@@\n+q", "does not say where"),
        ("*** Update File: a\n@@\ny\n+q", "line 4 of the diff: `y` begins with neither a space"),
        ("*** Update File: a\n@@\n-y\n+q\nx", "line 6 of the diff: `x` begins with neither a space"),
        ("*** Update File: a\n@@\n y", "line 3 of the diff: the hunk changes nothing"),
        ("*** Update File: a\n", "nothing is said about the lines"),
        ("*** Update File: c\n@@\n-y\n+q", "there is no `c`"),
        ("*** Add File: a\n+q", "which is there already"),
        ("*** Add File: c\n+q\nr", "line 4 of the diff: a file begins with"),
        ("*** Add File: ../c\n+q", "may not contain `..`"),
        ("*** Add File:\n+q", "is a folder: write the path of a file"),
        ("*** Delete File: c", "there is no `c`"),
        ("*** Rename File: a", "line 2 of the diff: a file begins with"),
        ("", "no file is named"),
        ("*** Update File: b\n*** Move to: a\n@@\n-b\n+c", "which is there already"),
        ("*** Delete File: b\n*** Update File: b\n@@\n-b\n+c", "in the patch twice"),
    ] {
        let told = apply(&folder, &format!("*** Begin Patch\n{patch}\n*** End Patch\n"));
        assert!(told.contains(expected), "{patch}\n{told}");
        assert_eq!((folder.text("a"), folder.text("b")), ("x\ny\nx\n".to_owned(), "b\n".to_owned()));
        assert_eq!(folder.all(), ["a", "b"]);
    }
    let patch = "*** Begin Patch\n*** Update File: b\n@@\n-b\n+c\n*** End Patch";
    assert!(folder.workspace.patch(patch, Some("a")).unwrap_err().message().contains("leave `path` out"));
    folder.workspace.patch(patch, Some("b")).unwrap();
}
