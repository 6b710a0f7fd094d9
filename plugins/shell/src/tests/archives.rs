//! Archives that want to leave their folder, or to fill all memory.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{run, run_in};

fn archive(names: &[&str], link: Option<&str>) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for name in names {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(b"text\n").unwrap();
    }
    if let Some(link) = link {
        writer.add_symlink(link, "/etc/passwd", SimpleFileOptions::default()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn an_entry_that_leaves_its_folder_is_refused_and_the_others_are_unpacked() {
    let outside = tempfile::tempdir().unwrap();
    let inside = outside.path().join("workspace");
    std::fs::create_dir(&inside).unwrap();
    for (name, link, message) in [
        ("../kept.txt", None, "../kept.txt: Member name contains '..'"),
        ("a/../../kept.txt", None, "Member name contains '..'"),
        ("..\\kept.txt", None, "Member name contains '..'"),
        ("/workspace/kept.txt", None, "an absolute path is not unpacked"),
        ("b.txt", Some("kept.txt"), "kept.txt: a link is not unpacked"),
    ] {
        std::fs::write(inside.join("a.zip"), archive(&[name, "good.txt"], link)).unwrap();
        let ended = run_in(&inside, "unzip -qo a.zip; echo $?; cat good.txt; rm good.txt; ls -A | grep kept");
        assert_eq!(ended.stdout, "2\ntext\n", "{name}: {ended:?}");
        assert!(ended.stderr.contains(message), "{name}: {ended:?}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1, "{name}");
    }
    let ended = run_in(
        &inside,
        "unzip -qo a.zip -d ../out; unzip -qo a.zip -d /tmp/out; cat /tmp/out/good.txt; unzip -qo a.zip -d /etc",
    );
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (50, "text\n"), "{ended:?}");
    assert!(ended.stderr.contains("Permission denied"), "{ended:?}");
}

#[test]
fn an_archive_unpacks_to_a_limit() {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["a", "b"] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(&vec![0; 20 << 20]).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.zip"), writer.finish().unwrap().into_inner()).unwrap();
    let ended = run_in(folder.path(), "unzip -q a.zip; echo $?; unzip -qo a.zip b; echo $?; wc -c < b");
    assert_eq!(ended.stdout, "1\n0\n20971520\n", "{ended:?}");
    assert!(
        ended.stderr.contains("the archive unpacks to more than 32 MiB: name some of its files"),
        "{ended:?}"
    );
    let ended = run_in(
        folder.path(),
        "cp b c; zip -q c.zip b c; echo $?; zip -q c.zip b; echo $?; unzip -p c.zip b | wc -c",
    );
    assert_eq!(ended.stdout, "1\n0\n8388608\n", "{ended:?}");
    assert!(ended.stderr.contains("the files have more than 32 MiB: pack them in parts"), "{ended:?}");
}

#[test]
fn archives_are_damaged_or_of_the_folder_that_they_are_in() {
    let (ended, _folder) = run("mkdir d; echo a > d/a; cd d; zip -qr x.zip .; zip -qr x.zip .; unzip -Z1 x.zip; head -c 60 x.zip > y.zip
        unzip y.zip; echo $?; unzip -qn x.zip; echo $?; unzip -q x.zip; echo $?; zip -q z.zip ../d/a; echo $?; zip q.zip; zip -e q.zip a; echo $?");
    assert_eq!(ended.stdout, "a\n9\n0\n1\n1\n1\n", "{ended:?}");
    for message in [
        "y.zip is no zip archive, or it is damaged",
        "a already exists: -o overwrites it",
        "use `cd`",
        "option `-e` is not supported",
    ] {
        assert!(ended.stderr.contains(message), "{message}: {ended:?}");
    }
}
