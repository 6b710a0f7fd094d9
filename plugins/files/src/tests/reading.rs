//! Files that are read: whole, in parts, as bytes.

use super::*;

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

#[test]
fn what_is_told_to_be_text_can_be_read() {
    let folder = folder(&[("whole", "aé")]);
    let path = |name: &str| folder.folder.path().join(name);
    fs::write(path("cut"), "aé".as_bytes().split_last().unwrap().1).unwrap();
    // The last byte that is looked at is the first of `é`.
    fs::write(path("long"), format!("{}é\n", "a".repeat(8 * 1024 * 1024 - 1))).unwrap();

    for (name, content) in [("whole", "text"), ("cut", "binary"), ("long", "text")] {
        let facts = serde_json(&folder.workspace.stat(name).unwrap());
        assert_eq!(facts["content"], content, "{name}");
        assert_eq!(folder.workspace.read(name, 1, 1).is_ok(), content == "text", "{name}");
    }
}

fn serde_json(value: &impl toolgate_sdk::serde::Serialize) -> toolgate_sdk::serde_json::Value {
    toolgate_sdk::serde_json::to_value(value).unwrap()
}
